// Names of the rows of an engine's tile list, such as "bm128_bn256_s4", made of the row's numbers at compile time.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace gpudnn::conv {

struct TileName {
  char text[40] = {};
  std::size_t length = 0;

  constexpr TileName& add(std::string_view part) {
    for (const char c : part) text[length++] = c;
    return *this;
  }
  constexpr TileName& add(std::string_view part, int number) {
    add(part);
    int scale = 1;
    while (number / scale >= 10) scale *= 10;
    for (; scale > 0; scale /= 10) text[length++] = static_cast<char>('0' + number / scale % 10);
    return *this;
  }
};

// name_of(row) for each row. Two equal names do not compile: a table could not tell the rows apart. Rows that no
// problem has together, as of different types, may share one: `distinct` is false then.
template <class Row, std::size_t kRows, class NameOf>
constexpr std::array<TileName, kRows> tile_names(const Row (&rows)[kRows], NameOf name_of) {
  std::array<TileName, kRows> names;
  for (std::size_t i = 0; i < kRows; ++i) names[i] = name_of(rows[i]);
  return names;
}

}  // namespace gpudnn::conv
