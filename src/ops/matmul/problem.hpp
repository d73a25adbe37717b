// The matrix product: everything about the work but the pointers.
//
//   d = scale_d * f(alpha * descale_a * descale_b * a b + beta * c + bias)
//
// a is [batch..., m, k], b is [batch..., k, n], d is [batch..., m, n], each of rank 2 to 4 with any strides, so that a
// transpose is a matter of strides. A batch extent of a or b divides that of d: index i of d meets index i / (D / A) of
// a, which repeats 1 for all and a head of keys for its group of queries.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/geometry.hpp"
#include "kernels/matmul/epilogue.hpp"

namespace gpudnn::matmul {

constexpr int kMaxBatchDims = 2;

using kernels::matmul::Activation;
using kernels::matmul::ActivationParams;

// Floats in device memory that scale the operands, as 8-bit formats need them.
enum Scale : std::int32_t { kDescaleA = 1, kDescaleB = 2, kScaleD = 4, kAmax = 8 };
// Extents that device memory tells, one for each index of the first batch dimension.
enum Override : std::int32_t { kOverrideM = 1, kOverrideN = 2, kOverrideK = 4 };

// Plain data without padding: compared, hashed and cached as bytes.
struct Problem {
  std::int32_t tag = 0x6d6d756c;  // "mmul": keys of different operations differ
  // Of the sums: f64 with f64 operands, i32 with i8, else f32; f32fp8 lets sums of 8-bit floats stay in the tensor
  // core's accumulator, which has fewer bits.
  DataType compute = GPUDNN_DATA_FLOAT;
  gpudnnMathType_t math = GPUDNN_DEFAULT_MATH;
  Activation activation = Activation::identity;
  std::int32_t scales = 0;     // bits of Scale
  std::int32_t overrides = 0;  // bits of Override
  DataType override_type = GPUDNN_DATA_INT32;
  std::int32_t has_padding = 0;  // d gets a value where an override leaves it out; else it is not written
  TensorGeometry a;
  TensorGeometry b;
  TensorGeometry d;
  TensorGeometry c;     // of d's dims, stride 0 where it is repeated; rank 0: there is none
  TensorGeometry bias;  // likewise: a row vector has the stride of n alone

  bool operator==(const Problem&) const = default;
};

// The pointers and scalars of one call.
struct Args {
  double alpha = 1;
  double beta = 0;  // 0: c is not read
  ActivationParams activation;
  double padding = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  const void* c = nullptr;  // may be d, if its strides are d's
  const void* bias = nullptr;
  void* d = nullptr;
  const float* descale_a = nullptr;
  const float* descale_b = nullptr;
  const float* scale_d = nullptr;
  float* amax = nullptr;  // the greatest magnitude before scale_d; written, not updated
  const void* m_override = nullptr;
  const void* n_override = nullptr;
  const void* k_override = nullptr;
};

// The last extents, and those before: batch(problem, 0) is the outermost of two.
[[nodiscard]] inline std::int64_t rows(const Problem& p) noexcept { return p.d.dims[p.d.rank - 2]; }
[[nodiscard]] inline std::int64_t columns(const Problem& p) noexcept { return p.d.dims[p.d.rank - 1]; }
[[nodiscard]] inline std::int64_t depth(const Problem& p) noexcept { return p.a.dims[p.a.rank - 1]; }
[[nodiscard]] std::int64_t batches(const Problem& problem) noexcept;

// A tensor with two batch dimensions in front, extents and strides; those that it has not are 1 and 0.
struct Batched {
  std::int64_t dims[kMaxBatchDims + 2] = {1, 1, 1, 1};
  std::int64_t strides[kMaxBatchDims + 2] = {};
};
[[nodiscard]] Batched batched(const TensorGeometry& tensor) noexcept;

// Whether neighbours along m lie closer in memory than those along n: kernels, which store rows, then make the
// transpose of d from b and a.
[[nodiscard]] bool is_columnwise(const TensorGeometry& d) noexcept;

// Multiply-adds times two.
[[nodiscard]] double flops(const Problem& problem) noexcept;
// Bytes of a, b, d and of c where there is one, each once.
[[nodiscard]] double bytes_of_tensors(const Problem& problem) noexcept;

// Refuses what makes no sense (BAD_PARAM) or is not built (NOT_SUPPORTED), naming argument, value and remedy.
[[nodiscard]] Status validate(const Problem& problem);

// "matmul bf16 bf16->bf16 b16m512n512k64 ta=n tb=t acc=f32 epi=bias,gelu math=default".
[[nodiscard]] std::string to_text(const Problem& problem);
// Nothing if `line` is no matrix product; *why says what was wrong.
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);

// "relu", "gelu_tanh" ...
[[nodiscard]] const char* activation_name(Activation activation) noexcept;

}  // namespace gpudnn::matmul
