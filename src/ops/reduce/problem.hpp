// The reduction problem: c = alpha * reduce(a) + beta * c over the dimensions where c's extent is 1.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/ops.h"

namespace gpudnn::reduce {

struct Problem {
  gpudnnReduceTensorOp_t op = GPUDNN_REDUCE_TENSOR_ADD;
  DataType compute = GPUDNN_DATA_FLOAT;
  gpudnnNanPropagation_t nan = GPUDNN_NOT_PROPAGATE_NAN;
  gpudnnReduceTensorIndices_t indices = GPUDNN_REDUCE_TENSOR_NO_INDICES;
  gpudnnIndicesType_t index_type = GPUDNN_32BIT_INDICES;
  TensorGeometry a;
  TensorGeometry c;
};

struct Args {
  double alpha = 1;
  double beta = 0;
  const void* a = nullptr;
  void* c = nullptr;
  void* indices = nullptr;
};

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);

// Whether the operation finds an element whose place is wanted.
[[nodiscard]] bool has_indices(const Problem& problem) noexcept;
[[nodiscard]] int index_bytes(gpudnnIndicesType_t type) noexcept;
[[nodiscard]] std::size_t indices_size(const Problem& problem) noexcept;
// Elements of a behind one of c.
[[nodiscard]] std::int64_t reduced_count(const Problem& problem) noexcept;
// What the best engine needs. Every engine runs with less, down to nothing, at a lower speed.
[[nodiscard]] std::size_t workspace_size(const Problem& problem, const Device& device);

[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args, void* workspace,
                         std::size_t workspace_bytes);

}  // namespace gpudnn::reduce
