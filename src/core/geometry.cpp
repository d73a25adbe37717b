// Tensor geometry: a type, up to eight extents and strides in elements, with 64-bit offsets.
// SPDX-License-Identifier: Apache-2.0
#include "core/geometry.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace gpudnn {
namespace {

// What lies along a dimension: of a vector type, the extent of the channels counts scalars and their stride vectors.
std::int64_t stored_extent(const TensorGeometry& tensor, int dim) noexcept {
  const int lanes = dim == 1 ? std::max(1, data_type_lanes(tensor.type)) : 1;
  return (tensor.dims[dim] + lanes - 1) / lanes;
}

// The dimensions of `tensor` from the fastest in memory to the slowest, in packed order of the format.
int packed_order(int rank, gpudnnTensorFormat_t format, int* order) noexcept {
  int count = 0;
  const bool channels_last = format == GPUDNN_TENSOR_NHWC && rank >= 3;
  if (channels_last) order[count++] = 1;
  for (int i = rank - 1; i >= 0; --i) {
    if (!(channels_last && i == 1)) order[count++] = i;
  }
  return count;
}

bool is_packed(const TensorGeometry& tensor, gpudnnTensorFormat_t format) noexcept {
  int order[kMaxRank];
  const int count = packed_order(tensor.rank, format, order);
  std::int64_t stride = 1;
  for (int i = 0; i < count; ++i) {
    const std::int64_t extent = stored_extent(tensor, order[i]);
    if (extent > 1 && tensor.strides[order[i]] != stride) return false;
    stride *= std::max<std::int64_t>(extent, 1);
  }
  return true;
}

// Exact, for the rare interleaved layout that the quick test cannot clear: marks each address.
bool overlaps_by_enumeration(const TensorGeometry& tensor) {
  constexpr std::int64_t kMaximum = std::int64_t{1} << 30;
  const std::int64_t span = element_span(tensor);
  const std::int64_t count = element_count(tensor);
  if (count > span) return true;
  if (span > kMaximum) return true;  // undecided: refuse rather than risk a race
  std::vector<bool> used(static_cast<std::size_t>(span));
  std::int64_t index[kMaxRank] = {};
  for (std::int64_t n = 0; n < count; ++n) {
    std::int64_t offset = 0;
    for (int i = 0; i < tensor.rank; ++i) offset += index[i] * tensor.strides[i];
    if (used[static_cast<std::size_t>(offset)]) return true;
    used[static_cast<std::size_t>(offset)] = true;
    for (int i = tensor.rank - 1; i >= 0 && ++index[i] == tensor.dims[i]; --i) index[i] = 0;
  }
  return false;
}

}  // namespace

void set_packed_strides(TensorGeometry* tensor, gpudnnTensorFormat_t format) noexcept {
  int order[kMaxRank];
  const int count = packed_order(tensor->rank, format, order);
  std::int64_t stride = 1;
  for (int i = 0; i < count; ++i) {
    tensor->strides[order[i]] = stride;
    stride *= std::max<std::int64_t>(stored_extent(*tensor, order[i]), 1);
  }
}

TensorGeometry packed_tensor(DataType type, gpudnnTensorFormat_t format, int rank, const std::int64_t* dims) noexcept {
  TensorGeometry tensor;
  tensor.type = type;
  tensor.rank = rank;
  std::copy_n(dims, rank, tensor.dims);
  set_packed_strides(&tensor, format);
  return tensor;
}

TensorGeometry in_elements(TensorGeometry tensor) noexcept {
  if (tensor.rank > 1) tensor.dims[1] = stored_extent(tensor, 1);
  return tensor;
}

std::int64_t element_count(const TensorGeometry& tensor) noexcept {
  std::int64_t count = tensor.rank > 0 ? 1 : 0;
  for (int i = 0; i < tensor.rank; ++i) count *= tensor.dims[i];
  return count;
}

std::int64_t element_span(const TensorGeometry& tensor) noexcept {
  if (element_count(tensor) == 0) return 0;
  std::int64_t last = 0;
  for (int i = 0; i < tensor.rank; ++i) last += (stored_extent(tensor, i) - 1) * tensor.strides[i];
  return last + 1;
}

std::size_t size_in_bytes(const TensorGeometry& tensor) noexcept {
  const auto bits =
      static_cast<std::size_t>(element_span(tensor)) * static_cast<std::size_t>(data_type_bits(tensor.type));
  return (bits + 7) / 8;
}

bool same_dims(const TensorGeometry& a, const TensorGeometry& b) noexcept {
  return a.rank == b.rank && std::equal(a.dims, a.dims + a.rank, b.dims);
}

bool same_layout(const TensorGeometry& a, const TensorGeometry& b) noexcept {
  if (!same_dims(a, b)) return false;
  for (int i = 0; i < a.rank; ++i) {
    if (stored_extent(a, i) > 1 && a.strides[i] != b.strides[i]) return false;
  }
  return true;
}

bool is_packed_nchw(const TensorGeometry& tensor) noexcept { return is_packed(tensor, GPUDNN_TENSOR_NCHW); }
bool is_packed_nhwc(const TensorGeometry& tensor) noexcept { return is_packed(tensor, GPUDNN_TENSOR_NHWC); }
bool is_dense(const TensorGeometry& tensor) {
  return element_span(tensor) == element_count(in_elements(tensor)) && !overlaps_itself(tensor);
}

bool overlaps_itself(const TensorGeometry& tensor) {
  TensorGeometry elements = in_elements(tensor);
  if (data_type_lanes(elements.type) > 1) elements.type = GPUDNN_DATA_INT32;  // of any type that has no lanes
  if (element_count(elements) <= 1) return false;
  // Insertion sort by stride: eight entries at most.
  int order[kMaxRank];
  int count = 0;
  for (int i = 0; i < elements.rank; ++i) {
    if (elements.dims[i] <= 1) continue;
    int place = count++;
    for (; place > 0 && elements.strides[order[place - 1]] > elements.strides[i]; --place)
      order[place] = order[place - 1];
    order[place] = i;
  }
  std::int64_t reach = 0;  // the last address of the dimensions before
  for (int i = 0; i < count; ++i) {
    if (elements.strides[order[i]] <= reach) return overlaps_by_enumeration(elements);
    reach += (elements.dims[order[i]] - 1) * elements.strides[order[i]];
  }
  return false;
}

int merge_dimensions(TensorGeometry* tensors, int count) noexcept {
  const TensorGeometry first = tensors[0];
  int rank = 0;
  for (int i = 0; i < first.rank; ++i) {
    if (first.dims[i] == 1) continue;
    bool mergeable = rank > 0;
    for (int t = 0; t < count && mergeable; ++t) {
      mergeable = tensors[t].strides[rank - 1] == tensors[t].strides[i] * first.dims[i];
    }
    for (int t = 0; t < count; ++t) {
      TensorGeometry& tensor = tensors[t];
      if (mergeable) {
        tensor.dims[rank - 1] *= first.dims[i];
        tensor.strides[rank - 1] = tensor.strides[i];
      } else {
        tensor.dims[rank] = first.dims[i];
        tensor.strides[rank] = tensor.strides[i];
      }
    }
    if (!mergeable) ++rank;
  }
  for (int t = 0; t < count; ++t) {
    TensorGeometry& tensor = tensors[t];
    if (rank == 0) {
      tensor.dims[0] = 1;
      tensor.strides[0] = 1;
    }
    tensor.rank = std::max(rank, 1);
    std::fill(tensor.dims + tensor.rank, tensor.dims + kMaxRank, 0);
    std::fill(tensor.strides + tensor.rank, tensor.strides + kMaxRank, 0);
  }
  return std::max(rank, 1);
}

std::string dims_text(const TensorGeometry& tensor) {
  const char* letters = tensor.rank == 3 ? "ncw" : tensor.rank == 4 ? "nchw" : tensor.rank == 5 ? "ncdhw" : nullptr;
  std::string text;
  for (int i = 0; i < tensor.rank; ++i) {
    if (letters != nullptr) {
      text += letters[i];
    } else if (i > 0) {
      text += 'x';
    }
    text += std::to_string(tensor.dims[i]);
  }
  return text;
}

std::string layout_text(const TensorGeometry& tensor) {
  if (is_packed_nchw(tensor)) return "nchw";
  if (is_packed_nhwc(tensor)) return "nhwc";
  std::string text = "strides=";
  for (int i = 0; i < tensor.rank; ++i) {
    if (i > 0) text += ',';
    text += std::to_string(tensor.strides[i]);
  }
  return text;
}

std::string tensor_text(const TensorGeometry& tensor) {
  return std::string(data_type_name(tensor.type)) + ' ' + layout_text(tensor) + ' ' + dims_text(tensor);
}

}  // namespace gpudnn
