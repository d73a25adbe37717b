// Leave for a kernel to take more shared memory than the 48 KiB that every kernel may have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::tile {

constexpr int kAllThatABlockMayHave = 0;

// Devices that were told something about a kernel, a bit for each; those beyond 63 are told every time.
using ConfiguredDevices = std::uint64_t;

// As below, for the kernel that `told` belongs to.
void allow_shared_memory(const void* kernel, int bytes, bool all_of_l1, ConfiguredDevices* told);

// Lets a block of the kernel take `bytes` of dynamic shared memory on the current device, and with `all_of_l1` gives
// the multiprocessor's L1 to shared memory as far as it goes. Told once for each device: the calls cost more than the
// rest of a launch. A kernel always names the same size, as other threads may be about to launch it.
template <auto kKernel>
void allow_shared_memory(int bytes, bool all_of_l1 = false) {
  static ConfiguredDevices told = 0;
  allow_shared_memory(reinterpret_cast<const void*>(kKernel), bytes, all_of_l1, &told);
}

}  // namespace gpudnn::tile
