// What every engine of an operation says of a problem on a device.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/device.hpp"
#include "machine.hpp"

namespace gpudnn::bench {

// Memory for the calls of one problem.
class Stage {
 public:
  Stage(Machine& machine, const Device& device) : machine_(machine), device_(device) {}
  [[nodiscard]] Machine& machine() const { return machine_; }
  [[nodiscard]] const Device& device() const { return device_; }
  // Random data, for each number once.
  [[nodiscard]] void* memory(std::size_t number, std::size_t bytes);

 private:
  Machine& machine_;
  const Device& device_;
  std::vector<Buffer> buffers_;
};

// One way to do the work.
struct Line {
  std::string engine;
  std::string config;
  std::optional<double> seconds;  // expected, or measured before, as `source` says; none: the engine has no model
  std::optional<std::size_t> workspace;             // bytes; none: the engine does not say
  std::string source;                               // model, table, tuning_cache, or order: of the list of engines
  std::function<std::optional<Call>(Stage&)> bind;  // empty: it cannot be called apart from the others
  std::optional<double> measured;
};

struct Refusal {
  std::string engine;
  std::string reason;
};

struct Explanation {
  std::string problem;      // in the library's own words
  std::vector<Line> lines;  // best first
  std::vector<Refusal> refusals;
};

// Nothing, with *why, if the text is no problem, is no legal one, or is of an operation that has no choice.
[[nodiscard]] std::optional<Explanation> explain(std::string_view text, const Device& device, std::string* why);

}  // namespace gpudnn::bench
