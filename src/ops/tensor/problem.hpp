// The tensor problem: the element-wise operations on whole tensors.
//   set        c = value
//   scale      c = alpha * c
//   add        c = alpha * a + beta * c, a broadcast along each dimension where its extent is 1
//   transform  c = alpha * a + beta * c, the layouts may differ (and the floating types)
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/ops.h"

namespace gpudnn::tensor {

enum class Operation : std::int32_t { set, scale, add, transform };

struct Problem {
  Operation operation = Operation::set;
  TensorGeometry a;  // add and transform only
  TensorGeometry c;  // the output
};

struct Args {
  double alpha = 1;
  double beta = 0;
  const void* a = nullptr;
  void* c = nullptr;
  // set: the value in the type of c, one element of host memory (for a vector type, all of its lanes)
  const void* value = nullptr;
};

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);
[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

}  // namespace gpudnn::tensor
