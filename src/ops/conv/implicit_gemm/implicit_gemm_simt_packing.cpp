// The widths of packed positions: how far an index reaches along each dimension.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm/implicit_gemm_simt_packing.hpp"

#include <bit>
#include <cstdlib>

namespace gpudnn::conv::mapping {
namespace {

// Largest position, in absolute value, that a digit reaches along dimension i.
int64_t reach(const Digits& digits, Step Digit::*side, int i) {
  int64_t sum = 0;
  for (const Digit& digit : digits) sum += (digit.radix - 1) * std::abs((digit.*side).position[i]);
  return sum;
}

Packing pack_positions(const bool (&checked)[3], const Spatial& extent, const Spatial& reach_of, bool wide) {
  const int bits = wide ? 64 : 32;
  Packing packing;
  int used = 0;
  for (int i = 0; i < 3; ++i) {
    if (!checked[i]) continue;
    const auto largest = static_cast<std::uint64_t>(reach_of[i] + extent[i]);
    const int width = static_cast<int>(std::bit_width(largest)) + 2;
    if (used + width > bits - 3) {
      packing.fits = false;
      return packing;
    }
    packing.shift[i] = used;
    packing.bounds.limit += (extent[i] - 1) << used;
    packing.bounds.guards |= int64_t{1} << (used + width - 1);
    used += width;
  }
  packing.bounds.poison = int64_t{1} << (bits - 3);
  packing.bounds.guards |= static_cast<int64_t>(std::uint64_t{1} << (bits - 1));
  return packing;
}

}  // namespace

// Extents of phases shift the positions of A by up to a padding and a filter.
Packings pack_all(const Gemm& g, const Conv& conv, bool wide) {
  Spatial a, b, c;
  for (int i = 0; i < 3; ++i) {
    const int64_t shift =
        g.has_phases ? conv.pad[i] + conv.r[i] * conv.dilation[i] + 2 : std::abs(g.a_base.position[i]);
    a[i] = shift + reach(g.m, &Digit::first, i) + reach(g.k, &Digit::first, i);
    b[i] = std::abs(g.b_base.position[i]) + reach(g.n, &Digit::first, i) + reach(g.k, &Digit::second, i);
    c[i] = reach(g.m, &Digit::second, i) + reach(g.n, &Digit::second, i);
  }
  return {pack_positions(g.a_checked, g.a_extent, a, wide), pack_positions(g.b_checked, g.b_extent, b, wide),
          pack_positions(g.c_checked, g.c_extent, c, wide)};
}

}  // namespace gpudnn::conv::mapping
