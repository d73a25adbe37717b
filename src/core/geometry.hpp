// Tensor geometry: a type, up to eight extents and strides in elements, with 64-bit offsets.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

#include "core/error.hpp"

namespace gpudnn {

constexpr int kMaxRank = GPUDNN_DIM_MAX;

// Plain data without padding: it is compared and hashed as bytes. Entries from `rank` on are zero.
struct TensorGeometry {
  DataType type = GPUDNN_DATA_FLOAT;
  std::int32_t rank = 0;
  std::int64_t dims[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};

  bool operator==(const TensorGeometry&) const = default;
};
static_assert(sizeof(TensorGeometry) == 8 + 2 * 8 * kMaxRank, "no padding: problems are hashed as bytes");

// Packed strides for the dims: row-major (NCHW, the last dimension fastest) or channels-last (NHWC: dimension 1
// fastest, then the last ... the third, then dimension 0).
void set_packed_strides(TensorGeometry* tensor, gpudnnTensorFormat_t format) noexcept;
// A packed tensor of rank `rank`.
[[nodiscard]] TensorGeometry packed_tensor(DataType type, gpudnnTensorFormat_t format, int rank,
                                           const std::int64_t* dims) noexcept;

// The same tensor with the channels counted in whole elements: in vectors where the type is one.
[[nodiscard]] TensorGeometry in_elements(TensorGeometry tensor) noexcept;
[[nodiscard]] std::int64_t element_count(const TensorGeometry& tensor) noexcept;
// Elements from the first to the last one in memory, both included; 0 for an empty tensor.
[[nodiscard]] std::int64_t element_span(const TensorGeometry& tensor) noexcept;
[[nodiscard]] std::size_t size_in_bytes(const TensorGeometry& tensor) noexcept;
[[nodiscard]] bool same_dims(const TensorGeometry& a, const TensorGeometry& b) noexcept;
// The same strides wherever an extent is over 1 (elsewhere a stride says nothing).
[[nodiscard]] bool same_layout(const TensorGeometry& a, const TensorGeometry& b) noexcept;
// Row-major packed / channels-last packed, ignoring strides of extents of 1.
[[nodiscard]] bool is_packed_nchw(const TensorGeometry& tensor) noexcept;
[[nodiscard]] bool is_packed_nhwc(const TensorGeometry& tensor) noexcept;
// All elements fill a gapless block of memory, in whatever order.
[[nodiscard]] bool is_dense(const TensorGeometry& tensor);
// Two different indices share an address (so the tensor cannot be an output). Exact where each stride clears the
// dimensions below it, as in every usual layout, and for interleaved ones of up to 2^30 elements from first to last;
// larger interleaved ones count as overlapping.
[[nodiscard]] bool overlaps_itself(const TensorGeometry& tensor);

// Drops extents of 1 and merges neighbours that are contiguous in every one of the `count` tensors, which have the same
// extents: the shortest loop nest that visits the same elements in the same order. Returns the merged rank (at least
// 1); the tensors come back with that rank.
int merge_dimensions(TensorGeometry* tensors, int count) noexcept;

// --- the problem language ------------------------------------------------------------------------------------------
// "n64c256h56w56" for ranks 3 to 5 (ncw, nchw, ncdhw), "8x16" for the others.
[[nodiscard]] std::string dims_text(const TensorGeometry& tensor);
// "nchw", "nhwc" (packed in that order) or "strides=802816,3136,56,1".
[[nodiscard]] std::string layout_text(const TensorGeometry& tensor);
// "f16 nhwc n64c256h56w56": type, layout, dims.
[[nodiscard]] std::string tensor_text(const TensorGeometry& tensor);

}  // namespace gpudnn
