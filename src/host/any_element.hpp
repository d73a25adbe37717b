// One element whose type is told at run time, for host operations that mix types.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "core/data_type.hpp"

namespace gpudnn::host {

// double -> T rounded once: integers to nearest even, held at the ends of their range, a NaN as 0.
template <class T>
[[nodiscard]] inline T round_any(double value) noexcept {
  if constexpr (std::is_integral_v<T>) {
    if (std::isnan(value)) return T{0};
    return static_cast<T>(std::nearbyint(std::clamp(value, static_cast<double>(std::numeric_limits<T>::min()),
                                                    static_cast<double>(std::numeric_limits<T>::max()))));
  } else {
    return round_to<T>(value);
  }
}

// *out = value + beta * *out; beta == 0 never reads the output. `value` carries alpha already.
template <class T>
inline void store_any(T* out, double value, double beta) noexcept {
  *out = round_any<T>(beta == 0 ? value : value + beta * to_double(*out));
}

// Calls f.template operator()<T>() with the storage type: floating, i8, u8 or i32; of a vector type that of its lanes.
template <class F>
decltype(auto) with_any_type(DataType type, F&& f) {
  switch (type) {
    case GPUDNN_DATA_INT8:
    case GPUDNN_DATA_INT8x4:
    case GPUDNN_DATA_INT8x32:
      return f.template operator()<std::int8_t>();
    case GPUDNN_DATA_UINT8:
    case GPUDNN_DATA_UINT8x4:
      return f.template operator()<std::uint8_t>();
    case GPUDNN_DATA_INT32:
      return f.template operator()<std::int32_t>();
    default:
      return with_floating_type(type, std::forward<F>(f));
  }
}

// How elements of a type are read and written, by address: operations on two or three types of seven would be compiled
// 49 or 343 times.
using LoadAny = double (*)(const void* data, std::int64_t offset);
using StoreAny = void (*)(void* data, std::int64_t offset, double value, double beta);

[[nodiscard]] inline LoadAny load_of(DataType type) {
  return with_any_type(type, []<class T>() -> LoadAny {
    return [](const void* data, std::int64_t offset) { return to_double(static_cast<const T*>(data)[offset]); };
  });
}
[[nodiscard]] inline StoreAny store_of(DataType type) {
  return with_any_type(type, []<class T>() -> StoreAny {
    return [](void* data, std::int64_t offset, double value, double beta) {
      store_any(static_cast<T*>(data) + offset, value, beta);
    };
  });
}

}  // namespace gpudnn::host
