// From run-time numbers to the instances of a kernel: its operands' type, and the entry of a table.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <type_traits>
#include <utility>

#include "kernels/tile/dispatch.hpp"

namespace gpudnn::tile {

// Calls f.template operator()<T>() with the type whose operands a tensor core multiplies; float stands for TF32.
template <class F>
void with_tensor_core_type(ElementType type, F&& f) {
  with_element_type(type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) f.template operator()<T>();
  });
}

// EntryOf{} of a std::integral_constant that holds `index`: one of kCount entries, which are made at compile time.
template <int kCount, class EntryOf>
auto entry_at(int index, EntryOf) {
  return [&]<int... kIndex>(std::integer_sequence<int, kIndex...>) {
    using Entry = decltype(EntryOf{}(std::integral_constant<int, 0>{}));
    static constexpr Entry kEntries[] = {EntryOf{}(std::integral_constant<int, kIndex>{})...};
    return kEntries[index];
  }
  (std::make_integer_sequence<int, kCount>());
}

}  // namespace gpudnn::tile
