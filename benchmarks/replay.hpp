// The lines of a log (GPUDNN_LOGLEVEL=3), and running their calls again.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "api_table.hpp"
#include "machine.hpp"
#include "problem_run.hpp"

namespace gpudnn::bench {

// What a line of the log says of a call that had an engine.
struct LoggedCall {
  std::string function;
  std::string problem;
  std::string engine;
  double seconds = 0;  // by the host's clock
  ScalarOptions scalars;
};

[[nodiscard]] bool is_log_line(const std::string& line);
// Nothing for lines of the log that are no such call: setters, creators, the ranking.
[[nodiscard]] std::optional<LoggedCall> logged_call(const std::string& line);

// Runs the calls of a log in its order, a line of times for each, and counts what cannot be run here. Returns 0, 1 if a
// call failed, or 2 if the file is no log.
[[nodiscard]] int replay(Machine& machine, const std::string& library, const std::string& file,
                         std::size_t workspace_limit);

}  // namespace gpudnn::bench
