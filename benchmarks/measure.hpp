// Measures one problem on one library, or on two side by side.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <limits>
#include <string>

#include "api_table.hpp"
#include "data.hpp"
#include "machine.hpp"
#include "problem_run.hpp"
#include "reference.hpp"

namespace gpudnn::bench {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct MeasureOptions {
  Repeats repeats;
  int host_calls = 200;
  std::size_t workspace_limit = std::size_t{2} << 30;
  bool find = false;                     // our library: time what Find chooses as well
  bool first_call = false;               // a handle of its own for each problem, and the time of the first call on it
  bool query = false;                    // time the heuristic query
  bool check = true;                     // look at the outputs
  const Reference* reference = nullptr;  // checks what is cheap to check, where there is no second library
  bool errors = false;                   // of both libraries, next to a reference in double
};

// One library on one problem. Where the heuristic and Find chose differently both were timed, and the faster is told.
struct Side {
  std::string failure;  // why there is no time
  std::string engine;   // by the library's log; empty where it tells none
  Choice choice;
  Timing timing;
  std::string heuristic_algorithm;
  std::string find_algorithm;
  std::string compared_algorithm;  // whose output ours was compared with, where it is not the timed one
  double heuristic_seconds = kUnknown;
  double find_seconds = kUnknown;
  double host_seconds = kUnknown;
  double first_query_seconds = kUnknown;
  double first_call_seconds = kUnknown;
  double query_seconds = kUnknown;

  [[nodiscard]] bool ok() const noexcept { return failure.empty(); }
};

struct Row {
  const Task* task = nullptr;
  Side ours;
  Side theirs;
  bool against = false;
  std::size_t nan_count = 0;         // NaN in our output: nothing was written there, or nonsense
  double relative_error = kUnknown;  // the worst of the outputs'
  int worst_output = 0;              // 0: the first; from 1 on: of Task::more_outputs
  double bound = 0;
  bool mismatch = false;  // the error is above the bound, or there is a NaN
  std::string check;      // how far the outputs were looked at without a second library: "reference", "NaN only", ...

  // Of the timed choices next to a reference in double, where that was asked for.
  bool has_errors = false;
  Errors our_errors, their_errors;

  [[nodiscard]] bool compared() const noexcept { return against && ours.ok() && theirs.ok(); }
  [[nodiscard]] bool has_ratio() const noexcept { return compared() && theirs.timing.seconds > 0; }
  [[nodiscard]] double ratio() const noexcept { return ours.timing.seconds / theirs.timing.seconds; }
};

// `theirs` may be null.
[[nodiscard]] Row measure(Machine& machine, const Library& ours, const Library* theirs, const Task& task,
                          const MeasureOptions& options);

// A problem on memory of its own, to be called any number of times by the heuristic's choice.
class ReadyCall {
 public:
  // Null, with *why, if the library does not take it.
  [[nodiscard]] static std::unique_ptr<ReadyCall> make(Machine& machine, const Library& library, const Task& task,
                                                       std::size_t workspace_limit, std::string* why);
  virtual ~ReadyCall() = default;
  [[nodiscard]] virtual const Call& call() const = 0;
};

// Runs the problem exactly once, on poisoned output, and waits. An empty text, or why it failed.
[[nodiscard]] std::string run_once(Machine& machine, const Library& library, const Task& task,
                                   const MeasureOptions& options);

}  // namespace gpudnn::bench
