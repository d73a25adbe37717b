// What the runtime is asked about a kernel, once for each device: such calls cost more than a launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

namespace gpudnn::tile {

constexpr int kDevicesKnown = 16;  // those beyond are asked about every time

// ask() for the current device, a number that is not negative; 0 where there is no device. `known` has one more than
// the answer for each device, and begins with zeros. Threads may ask at once: they get the same answer.
template <class Ask>
int cached_query(int (&known)[kDevicesKnown], Ask ask) {
  int device = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  if (device >= kDevicesKnown) return ask();
  int answer = __atomic_load_n(&known[device], __ATOMIC_RELAXED);
  if (answer == 0) {
    answer = ask() + 1;
    __atomic_store_n(&known[device], answer, __ATOMIC_RELAXED);
  }
  return answer - 1;
}

}  // namespace gpudnn::tile
