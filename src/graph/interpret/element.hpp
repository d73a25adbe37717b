// Elements of every data type as double, by address. The types that hardware converts are saturated and rounded to
// nearest even; scales of type E8M0 are rounded up, so that what they scale fits.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "core/data_type.hpp"

namespace gpudnn::graph {

using LoadElement = double (*)(const void* data, std::int64_t offset);
using StoreElement = void (*)(void* data, std::int64_t offset, double value);

[[nodiscard]] LoadElement loader_of(DataType type) noexcept;
[[nodiscard]] StoreElement storer_of(DataType type) noexcept;
// The value of the type nearest to `value`.
[[nodiscard]] double rounded(DataType type, double value) noexcept;
// The greatest finite value; of integers too.
[[nodiscard]] double greatest_of(DataType type) noexcept;

}  // namespace gpudnn::graph
