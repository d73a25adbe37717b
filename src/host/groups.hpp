// A tensor's elements in groups that are worked on together: some neighbouring dimensions run within a group, the
// others from group to group.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/geometry.hpp"
#include "host/element.hpp"
#include "host/walk.hpp"

namespace gpudnn::host {

struct Groups {
  int first;               // of the dimensions within a group ...
  int dims;                // ... and their number
  std::int64_t size = 1;   // elements of a group
  std::int64_t count = 1;  // groups

  Groups(int first_dim, int dim_count, const TensorGeometry& tensor) : first(first_dim), dims(dim_count) {
    for (int i = 0; i < tensor.rank; ++i) (within(i) ? size : count) *= tensor.dims[i];
  }
  [[nodiscard]] bool within(int dim) const noexcept { return dim >= first && dim < first + dims; }

  // In elements, of a tensor of the same dims.
  [[nodiscard]] std::int64_t group_offset(const TensorGeometry& tensor, std::int64_t group) const noexcept {
    std::int64_t offset = 0;
    for (int i = tensor.rank - 1; i >= 0; --i) {
      if (within(i)) continue;
      offset += group % tensor.dims[i] * tensor.strides[i];
      group /= tensor.dims[i];
    }
    return offset;
  }
  // Over the elements of a group of that tensor.
  [[nodiscard]] Walk<1> walk(const TensorGeometry& tensor) const noexcept {
    TensorGeometry inner = tensor;
    inner.rank = dims;
    for (int i = 0; i < dims; ++i) {
      inner.dims[i] = tensor.dims[first + i];
      inner.strides[i] = tensor.strides[first + i];
    }
    return Walk<1>({inner});
  }
  [[nodiscard]] std::int64_t element_offset(const TensorGeometry& tensor, std::int64_t element) const noexcept {
    return offset_of(element, dims, tensor.dims + first, tensor.strides + first);
  }
};

}  // namespace gpudnn::host
