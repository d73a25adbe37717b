// The one guard around every entry point: maps what is thrown to a status, sets the last-error text, writes the log.
// SPDX-License-Identifier: Apache-2.0
#include "core/guard.hpp"

#include <cstdio>

namespace gpudnn {

CallContext& call_context() noexcept {
  thread_local CallContext context;
  return context;
}

void note_problem(const char* text) noexcept {
  CallContext& context = call_context();
  std::snprintf(context.problem, sizeof context.problem, "%s", text);
}

namespace detail {

CallScope::CallScope(const char* function) noexcept : timed_(log_enabled(GPUDNN_SEV_INFO)) {
  CallContext& context = call_context();
  outer_function_ = context.function;
  context.function = function;
  context.handle = nullptr;
  context.engine = nullptr;
  context.refused = false;
  if (timed_) {
    context.problem[0] = '\0';
    start_ = std::chrono::steady_clock::now();
  }
}

CallScope::~CallScope() { call_context().function = outer_function_; }

Status CallScope::finish(Status status) noexcept {
  CallContext& context = call_context();
  context.failed = status != GPUDNN_STATUS_SUCCESS;
  if (context.failed) {
    if (!context.refused) (void)refuse(status, "failed with %s", status_name(status));
    log_line(GPUDNN_SEV_ERROR, context.handle, status, "%s -> %s", last_error_text(), status_name(status));
  } else if (timed_) {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    const double microseconds = std::chrono::duration<double, std::micro>(elapsed).count();
    log_line(GPUDNN_SEV_INFO, context.handle, status, "%s%s%s%s%s -> SUCCESS in %.1f us", context.function,
             context.problem[0] != '\0' ? " | " : "", context.problem, context.engine != nullptr ? " | engine=" : "",
             context.engine != nullptr ? context.engine : "", microseconds);
  }
  return status;
}

Status out_of_host_memory() noexcept {
  return GPUDNN_REFUSE(GPUDNN_STATUS_ALLOC_FAILED, "the host is out of memory; free some and call again");
}

Status unexpected_exception(const char* what) noexcept {
  return GPUDNN_REFUSE(GPUDNN_STATUS_INTERNAL_ERROR, "unexpected internal failure: %s; this is a bug of libgpudnn",
                       what);
}

}  // namespace detail
}  // namespace gpudnn
