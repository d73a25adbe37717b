// Calls of every operation, and processes to make them in: each of which begins as if the library had just been loaded.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "runtime/every_operation.hpp"
#include "standin/runtime.hpp"

namespace gpudnn::standin {

// The caller's current device is the first one everywhere; the memory and the handles are the second one's.
constexpr int kCallersDevice = 0;
constexpr int kDevice = 1;
[[nodiscard]] std::unique_ptr<test::Backend> make_backend();
// One that stays.
[[nodiscard]] const test::Backend& memory_backend();

struct Operation {
  std::string name;
  std::function<gpudnnStatus_t(gpudnnHandle_t)> call;
  bool executes = true;  // launches kernels, and may be captured; else it serves: allocates, copies, measures
};
// The classic interface's operations, and the services beside them.
[[nodiscard]] std::vector<Operation> classic_operations();
[[nodiscard]] std::vector<Operation> services();
// The recorded graphs: plans made and executed in the call, and some as nodes of CUDA graphs.
[[nodiscard]] std::vector<Operation> graph_operations();

// What `body` returns, in a process of its own that begins as a copy of this one; or how the process ended.
[[nodiscard]] std::string in_own_process(const std::function<std::string()>& body);

// One after the other, each on a line of its own; empty if there are none.
[[nodiscard]] std::string lines_of(const std::vector<std::string>& texts);

}  // namespace gpudnn::standin
