// The depthwise kernels by Toeplitz matrices take 16-bit images with channels in vectors of 16 bytes, step 1.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/depthwise/depthwise_toeplitz_planes.hpp"

#include <algorithm>
#include <limits>

#include "ops/conv/tensor_math.hpp"

namespace gpudnn::conv::toeplitz {
namespace {

constexpr std::int64_t kVector = 8;  // elements of 16 bytes
constexpr std::int64_t kMaxIndex = std::numeric_limits<std::int32_t>::max() / 4;
constexpr std::int64_t kSharedOfMultiprocessor = 227 * 1024;

const char* layout_unsupported_reason(const TensorGeometry& t) {
  if (t.strides[1] != 1) return "a tensor is not contiguous along channels";
  std::int64_t span = 1;
  for (int i = 0; i < t.rank; ++i) {
    if (i != 1 && t.dims[i] > 1 && t.strides[i] % kVector != 0) return "pixels do not begin at multiples of 16 bytes";
    if (i > 0) span += (t.dims[i] - 1) * t.strides[i];
  }
  return span > kMaxIndex ? "an image spans 2^29 elements or more" : nullptr;
}

}  // namespace

const char* unsupported_reason(const Problem& problem) {
  if (const char* reason = tensor_math_unsupported_reason(problem)) return reason;
  if (data_type_bits(problem.x.type) != 16) return "it takes f16 and bf16 only";
  if (problem.spatial > 2) return "it takes one or two spatial dimensions";
  if (problem.w.dims[1] != 1 || problem.w.dims[0] != problem.x.dims[1]) return "it takes one channel a group only";
  if (problem.x.dims[1] % kVector != 0) return "channels do not fill whole 16-byte vectors";
  if (problem.w.dims[1 + problem.spatial] > kernels::depthwise_toeplitz::kMaxTaps || problem.w.dims[2] > 64) {
    return "it takes filters of up to 64 x 31";
  }
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.stride[i] != 1) return "it takes step 1";
    if (problem.x.dims[2 + i] > kMaxIndex || problem.y.dims[2 + i] > kMaxIndex) return "2^29 pixels in a row or more";
  }
  for (const TensorGeometry* tensor : {&problem.x, &problem.y, problem.has_z != 0 ? &problem.z : &problem.y}) {
    if (const char* reason = layout_unsupported_reason(*tensor)) return reason;
  }
  if (problem.x.dims[0] * (problem.x.dims[2] + 64) * problem.x.dims[1] > kMaxIndex) return "2^29 rows or more";
  return nullptr;
}

kernels::depthwise_toeplitz::Strides strides_of(const TensorGeometry& tensor) {
  const auto of = [&](int dim) { return tensor.dims[dim] > 1 ? tensor.strides[dim] : 0; };
  const int w = tensor.rank - 1;
  return {of(0), w > 2 ? static_cast<std::int32_t>(of(2)) : 0, static_cast<std::int32_t>(of(w))};
}

double resident_blocks(std::uint32_t shared_bytes, int most) {
  return static_cast<double>(
      std::clamp<std::int64_t>(kSharedOfMultiprocessor / (std::int64_t{shared_bytes} + 1024), 1, most));
}

}  // namespace gpudnn::conv::toeplitz
