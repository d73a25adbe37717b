// The contents of the benchmark's tensors, and the comparison of two results.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/geometry.hpp"
#include "machine.hpp"

namespace gpudnn::bench {

enum class Fill {
  normal,    // standard normal; never all zeros
  small,     // a twentieth of that: weights of recurrent networks, whose gates are to stay open
  positive,  // half and more: variances and their like
  distinct,  // neighbours differ: a maximum over a window is unique, so its gradient has one right place
};

// Fills the tensor, gaps included. The contents depend on the type, the kind and the seed alone.
void fill(Machine& machine, const TensorGeometry& tensor, void* pointer, Fill kind, unsigned seed);
// All bits set: a NaN in every floating type.
void poison(Machine& machine, const Buffer& buffer);

[[nodiscard]] bool is_comparable(DataType type) noexcept;
// How many elements are NaN.
[[nodiscard]] std::size_t count_nan(const TensorGeometry& tensor, const std::vector<std::byte>& values);
// ||a - b|| / ||b|| in the Euclidean norm over the elements; NaN if either has a NaN. Equal infinities agree.
[[nodiscard]] double relative_error(const TensorGeometry& tensor, const std::vector<std::byte>& a,
                                    const std::vector<std::byte>& b);

// Of floats next to the same elements in double: the greatest error and the root of the mean square, both over the
// latter of the reference.
struct Errors {
  double greatest = 0;
  double mean = 0;
};
[[nodiscard]] Errors errors_of_floats(const TensorGeometry& tensor, const std::vector<std::byte>& floats,
                                      const std::vector<std::byte>& doubles);

}  // namespace gpudnn::bench
