// The one guard around every entry point: maps what is thrown to a status, sets the last-error text, writes the log.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <exception>
#include <new>

#include "core/error.hpp"
#include "core/log.hpp"

namespace gpudnn {

// What is known of the call that this thread is in; refusals and log lines read it.
struct CallContext {
  const char* function = nullptr;
  gpudnnHandle_t handle = nullptr;  // set once the handle was checked
  const char* engine = nullptr;     // set by the op once an engine was chosen
  bool refused = false;             // a refusal of this call has set the last-error text
  bool failed = false;              // the last call that ended has
  int ranges = 0;                   // of a profiler that were begun and not ended
  // Written only when the log listens:
  char problem[3072] = "";     // the problem string; of a graph, all of its lines
  char arguments[160] = "";    // what of the call is not in the problem: alpha, beta, algorithm, workspace
  char passed_over[512] = "";  // engines that did not take it, each with its reason
};

[[nodiscard]] CallContext& call_context() noexcept;
[[nodiscard]] inline const char* current_function() noexcept { return call_context().function; }

// Notes the problem of the running call for its log line and, once the call has a handle, for a profiler. `describe`
// returns the problem string and runs only when one of them listens.
[[gnu::cold]] void note_problem(const char* text) noexcept;
// The same of what is not in the problem, and of an engine that stands before the chosen one. Called when the log
// listens.
[[gnu::cold, gnu::format(printf, 1, 2)]] void note_arguments(const char* format, ...) noexcept;
[[gnu::cold]] void note_passed_over(const char* engine, const char* reason) noexcept;
template <class Describe>
void note_problem_lazily(Describe&& describe) {
  if (problems_wanted()) note_problem(describe().c_str());
}

namespace detail {
class CallScope {
 public:
  explicit CallScope(const char* function) noexcept;
  ~CallScope();
  CallScope(const CallScope&) = delete;
  CallScope& operator=(const CallScope&) = delete;
  // Writes the call's log line, gives a failure without a text one, and returns the status.
  [[nodiscard]] Status finish(Status status) noexcept;

 private:
  const char* outer_function_;
  bool timed_;
  std::chrono::steady_clock::time_point start_;
};
[[nodiscard, gnu::cold]] Status out_of_host_memory() noexcept;
[[nodiscard, gnu::cold]] Status unexpected_exception(const char* what) noexcept;
}  // namespace detail

template <class Body>
[[nodiscard]] Status guard(const char* function, Body&& body) noexcept {
  detail::CallScope scope(function);
  try {
    return scope.finish(body());
  } catch (const std::bad_alloc&) {
    return scope.finish(detail::out_of_host_memory());
  } catch (const std::exception& error) {
    return scope.finish(detail::unexpected_exception(error.what()));
  } catch (...) {
    return scope.finish(detail::unexpected_exception("an exception of unknown type"));
  }
}

}  // namespace gpudnn
