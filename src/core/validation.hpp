// Checks that several operations share. Each refuses with the argument's name, its value and what would be legal.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/geometry.hpp"

namespace gpudnn {

// The dims for refusal texts: "n2c3h4w4", or "unset" for a descriptor that describes nothing.
[[nodiscard]] std::string shown_dims(const TensorGeometry& tensor);

// The descriptor was set: it has a rank, a known data type, positive dims and no negative stride. BAD_PARAM.
[[nodiscard]] Status require_described(const TensorGeometry& tensor, const char* name);

// float, double, half or bfloat16: BAD_PARAM if the descriptor was not set, NOT_SUPPORTED for every other type.
[[nodiscard]] Status require_floating(const TensorGeometry& tensor, const char* name);

// The two have one data type. BAD_PARAM.
[[nodiscard]] Status require_same_type(const TensorGeometry& a, const char* a_name, const TensorGeometry& b,
                                       const char* b_name);

// The two have the same number of dims and the same dims. BAD_PARAM. The text speaks of b as the one to change.
[[nodiscard]] Status require_same_dims(const TensorGeometry& a, const char* a_name, const TensorGeometry& b,
                                       const char* b_name);

// As many dims, each of them that of the whole or 1. BAD_PARAM.
[[nodiscard]] Status require_dims_or_ones(const TensorGeometry& part, const char* part_name,
                                          const TensorGeometry& whole, const char* whole_name);

// The number of dims lies in [least, most]. BAD_PARAM.
[[nodiscard]] Status require_rank(const TensorGeometry& tensor, const char* name, int least, int most);

// No two indices of an output share an address. BAD_PARAM.
[[nodiscard]] Status require_no_overlap(const TensorGeometry& tensor, const char* name);

// `value` is one of an enum's values `first` to `last`; `type` is the name of the enum. BAD_PARAM.
[[nodiscard]] Status require_enum(int value, int first, int last, const char* name, const char* type);

}  // namespace gpudnn
