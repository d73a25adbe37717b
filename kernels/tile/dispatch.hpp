// From the run-time element type to a template argument.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/tile/element_type.hpp"

namespace gpudnn::tile {

// Calls f.template operator()<T>() with the device type.
template <class F>
void with_element_type(ElementType type, F&& f) {
  switch (type) {
    case ElementType::f64:
      f.template operator()<double>();
      break;
    case ElementType::f16:
      f.template operator()<Half>();
      break;
    case ElementType::bf16:
      f.template operator()<BFloat16>();
      break;
    case ElementType::f32:
      f.template operator()<float>();
      break;
  }
}

inline bool is_aligned(const void* pointer, std::size_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

}  // namespace gpudnn::tile
