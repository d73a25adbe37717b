// An engine: one way to do an operation, a stateless row in a visible ordered list.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>

#include "core/engine_filter.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"

namespace gpudnn {

// Yes, or no with a reason.
struct Support {
  const char* reason_against = nullptr;
  explicit operator bool() const noexcept { return reason_against == nullptr; }
  static Support yes() noexcept { return {}; }
  static Support no(const char* reason) noexcept { return {reason}; }
};

// Operations whose engines have no configs and need no workspace: the bandwidth-bound ones.
template <class Problem, class Args>
struct Engine {
  const char* name;
  gpudnnBackend_t backend;
  Support (*supports)(const Problem&, const Device&);
  Status (*launch)(const LaunchSite&, const Problem&, const Args&);
};

template <class Problem>
Support supports_all(const Problem&, const Device&) {
  return Support::yes();
}

// The last row of a list: the plain function of the host backend, kReference(problem, args).
template <auto kReference, class Problem, class Args>
constexpr Engine<Problem, Args> host_reference() {
  return {"host_reference", GPUDNN_BACKEND_HOST, supports_all<Problem>,
          [](const LaunchSite&, const Problem& problem, const Args& args) -> Status {
            kReference(problem, args);
            return GPUDNN_STATUS_SUCCESS;
          }};
}

// Notes the scalars of a call for its log line, of those that its Args have.
template <class Args>
void note_scalars(const Args& args) {
  if (!log_enabled(GPUDNN_SEV_INFO)) return;
  if constexpr (requires { args.alpha1; }) {
    note_arguments("alpha1=%g alpha2=%g beta=%g", args.alpha1, args.alpha2, args.beta);
  } else if constexpr (requires {
                         args.alpha;
                         args.beta;
                       }) {
    note_arguments("alpha=%g beta=%g", args.alpha, args.beta);
  }
}

// Runs the first engine of the handle's backend that supports the problem. The last row of each backend supports
// everything, so a refusal here is a bug.
template <class Problem, class Args>
[[nodiscard]] Status run_first_engine(std::span<const Engine<Problem, Args>> engines, gpudnnHandle_t handle,
                                      const Problem& problem, const Args& args) {
  const LaunchSite site = launch_site(handle);
  const cuda::DeviceScope scope(site.device);  // engines ask the runtime about it
  note_scalars(args);
  const EngineFilter filter(engines, site.device.backend);
  const char* reason = "no engine of this backend";
  for (const auto& engine : engines) {
    if (engine.backend != site.device.backend) continue;
    const char* against = filter.reason_against(engine.name);
    if (against == nullptr) against = engine.supports(problem, site.device).reason_against;
    if (against != nullptr) {
      reason = against;
      if (log_enabled(GPUDNN_SEV_INFO)) note_passed_over(engine.name, against);
      continue;
    }
    call_context().engine = engine.name;
    return engine.launch(site, problem, args);
  }
  return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED, "no engine takes this problem; the last one said: %s", reason);
}

}  // namespace gpudnn
