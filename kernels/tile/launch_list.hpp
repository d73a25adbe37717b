// Launches that are put off, in order, with copies of their arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/launch.hpp"

namespace gpudnn::tile {

struct Launch {
  const void* kernel;
  LaunchConfig config;
  std::uint32_t first;  // of its arguments among the list's
  std::uint32_t count;
};

// Meant for the stack: nothing but the counts is initialised.
struct LaunchList {
  static constexpr std::size_t kMaxLaunches = 12;
  static constexpr std::size_t kMaxArguments = 48;
  static constexpr std::size_t kMaxBytes = 24 << 10;
  static constexpr std::size_t kAlignment = 64;  // of an argument: tensor maps ask for it

  explicit LaunchList(cudaStream_t to) noexcept : stream(to) {}

  cudaStream_t stream;
  bool given_up = false;  // something did not fit: all was launched at once, and so is what comes
  std::size_t launches = 0;
  std::size_t arguments = 0;
  std::size_t bytes = 0;
  Launch of[kMaxLaunches];
  std::uint32_t offset[kMaxArguments];  // of each argument in `data`
  alignas(kAlignment) unsigned char data[kMaxBytes];
};

// What the calling thread's launches go to; null: to the device.
[[nodiscard]] LaunchList* thread_launches() noexcept;
void set_thread_launches(LaunchList* list) noexcept;

// Makes the launches of the list one by one. A failure stays with the runtime.
void launch_all(LaunchList& list) noexcept;

}  // namespace gpudnn::tile
