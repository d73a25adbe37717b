// One small call of every operation on tensors that stay where they are, to be repeated, captured or run by threads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "support/api_run.hpp"

namespace gpudnn::test {

struct PreparedCall {
  std::string name;
  std::function<gpudnnStatus_t(gpudnnHandle_t)> call;  // on prepared memory; may run any number of times
  std::shared_ptr<DeviceTensor> output;
  Expected expected;  // for beta == 0
};

// Memory from `backend`; the calls may run on any handle of the same backend.
[[nodiscard]] std::vector<PreparedCall> every_operation(const Backend& backend);

}  // namespace gpudnn::test
