// The lesser and the greater of two, for launchers: <algorithm> takes the CUDA compiler longer than most kernels do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpudnn::tile {

template <class T>
struct Same {
  using type = T;
};

// The second may be of a type that converts to the first's.
template <class T>
constexpr T least(T a, typename Same<T>::type b) {
  return b < a ? b : a;
}
template <class T>
constexpr T greatest(T a, typename Same<T>::type b) {
  return a < b ? b : a;
}
// `value`, but not below `low` nor above `high`, which is not below `low`.
template <class T>
constexpr T clamp(T value, typename Same<T>::type low, typename Same<T>::type high) {
  return value < low ? low : high < value ? high : value;
}

}  // namespace gpudnn::tile
