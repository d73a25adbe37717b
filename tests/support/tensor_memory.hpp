// A tensor's elements at their offsets in memory, for tests that emulate a kernel's addressing on the host.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/geometry.hpp"

namespace gpudnn::test {

using Memory = std::vector<double>;  // elements by their offset
constexpr double kGap = 1e30;        // between a tensor's elements

// Calls f(row-major index, offset in elements) for each element.
template <class F>
void for_each_element(const TensorGeometry& t, F f) {
  const std::int64_t count = element_count(t);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t offset = 0;
    for (int dim = t.rank - 1; dim >= 0; --dim) {
      offset += rest % t.dims[dim] * t.strides[dim];
      rest /= t.dims[dim];
    }
    f(static_cast<std::size_t>(i), static_cast<std::size_t>(offset));
  }
}

// The values, given in row-major order, where the tensor has them; without values, gaps alone.
inline Memory in_memory(const TensorGeometry& t, const std::vector<double>& values) {
  Memory memory(static_cast<std::size_t>(element_span(t)), kGap);
  if (values.empty()) return memory;
  for_each_element(t, [&](std::size_t i, std::size_t offset) { memory[offset] = values[i]; });
  return memory;
}

}  // namespace gpudnn::test
