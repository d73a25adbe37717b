// The one guard around every entry point: maps what is thrown to a status, sets the last-error text, writes the log.
// SPDX-License-Identifier: Apache-2.0
#include "core/guard.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "core/handle.hpp"
#include "core/trace.hpp"

namespace gpudnn {

CallContext& call_context() noexcept {
  thread_local CallContext context;
  return context;
}

void note_problem(const char* text) noexcept {
  CallContext& context = call_context();
  if (log_enabled(GPUDNN_SEV_INFO)) std::snprintf(context.problem, sizeof context.problem, "%s", text);
  if (!is_traced() || context.handle == nullptr) return;
  char range[3200];
  std::snprintf(range, sizeof range, "%s | %s", context.function != nullptr ? context.function : "", text);
  trace::begin(range);
  ++context.ranges;
}

void note_arguments(const char* format, ...) noexcept {
  CallContext& context = call_context();
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(context.arguments, sizeof context.arguments, format, arguments);
  va_end(arguments);
}

void note_passed_over(const char* engine, const char* reason) noexcept {
  char* const text = call_context().passed_over;
  const std::size_t used = std::strlen(text);
  std::snprintf(text + used, sizeof call_context().passed_over - used, "%s%s: %s", used != 0 ? "; " : "", engine,
                reason);
}

namespace detail {
namespace {

// Everything between the entry point and the status: problem, arguments with the handle's stream, engine.
void describe_call(const CallContext& context, char* text, std::size_t size) noexcept {
  std::size_t used = 0;
  const auto add = [&](const char* format, auto... values) {
    const int written = std::snprintf(text + used, size - used, format, values...);
    if (written > 0) used = std::min(used + static_cast<std::size_t>(written), size - 1);
  };
  text[0] = '\0';
  if (context.problem[0] != '\0') add(" | %s", context.problem);
  if (context.arguments[0] != '\0') {
    add(" | %s", context.arguments);
    if (context.handle != nullptr) {
      add(" stream=%p", static_cast<const void*>(context.handle->stream.load(std::memory_order_relaxed)));
    }
  }
  if (context.engine != nullptr) add(" | engine=%s", context.engine);
  if (context.passed_over[0] != '\0') add(" (passed over: %s)", context.passed_over);
}

}  // namespace

CallScope::CallScope(const char* function) noexcept : timed_(log_enabled(GPUDNN_SEV_INFO)) {
  CallContext& context = call_context();
  outer_function_ = context.function;
  context.function = function;
  context.handle = nullptr;
  context.engine = nullptr;
  context.refused = false;
  if (timed_) {
    context.problem[0] = '\0';
    context.arguments[0] = '\0';
    context.passed_over[0] = '\0';
    start_ = std::chrono::steady_clock::now();
  }
}

CallScope::~CallScope() {
  CallContext& context = call_context();
  context.function = outer_function_;
  if (outer_function_ != nullptr) return;
  for (; context.ranges > 0; --context.ranges) trace::end();
}

Status CallScope::finish(Status status) noexcept {
  CallContext& context = call_context();
  context.failed = status != GPUDNN_STATUS_SUCCESS;
  if (context.failed) {
    if (!context.refused) (void)refuse(status, "failed with %s", status_name(status));
    log_line(GPUDNN_SEV_ERROR, context.handle, status, "%s -> %s", last_error_text(), status_name(status));
  } else if (timed_) {
    const auto elapsed = std::chrono::steady_clock::now() - start_;
    const double microseconds = std::chrono::duration<double, std::micro>(elapsed).count();
    char call[4096];
    describe_call(context, call, sizeof call);
    log_line(GPUDNN_SEV_INFO, context.handle, status, "%s%s -> SUCCESS in %.1f us", context.function, call,
             microseconds);
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
