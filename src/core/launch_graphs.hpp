// Calls of several kernels at the host price of one launch: the kernels of a call are put on a list as their launchers
// come by, and the list is launched as one instantiated graph. Its makers are kernels/tile/launch.hpp.
//
// A handle keeps a graph for each sequence of kernels, grids and stream that it has met; a later call with the same
// sequence sets the arguments that differ from those last set, and launches. So graphs belong to no plan, and plans
// stay immutable.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/error.hpp"

namespace gpudnn {

struct LaunchSite;

namespace cuda {

// The graphs of a handle. Safe to use from many threads: one that finds them in use launches kernel by kernel.
class LaunchGraphs {
 public:
  LaunchGraphs() noexcept;
  ~LaunchGraphs();
  LaunchGraphs(const LaunchGraphs&) = delete;
  LaunchGraphs& operator=(const LaunchGraphs&) = delete;

  struct State;
  // Without it there are none.
  void enable();
  [[nodiscard]] State* state() noexcept { return state_.get(); }

 private:
  std::unique_ptr<State> state_;
};

namespace detail {
[[nodiscard]] Status launch_together(const LaunchSite& site, Status (*launches)(const void*), const void* context);
}

// Runs body(), with the site's device current, and launches all kernels that it enqueues on the site's stream at once.
// All of them must go through tile::launch_kernel, and body must do nothing else in the stream. One by one where the
// site has no graphs, the stream is being captured, or a graph cannot be made. Within another one it is part of that.
template <class Body>
[[nodiscard]] Status launch_together(const LaunchSite& site, const Body& body) {
  return detail::launch_together(
      site, [](const void* context) -> Status { return (*static_cast<const Body*>(context))(); }, &body);
}

}  // namespace cuda
}  // namespace gpudnn
