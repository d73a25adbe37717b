// Positions in up to three spatial dimensions packed into one number, with a guard bit each that a bounds check reads.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/implicit_gemm/implicit_gemm_simt_mapping.hpp"

namespace gpudnn::conv::mapping {

using kernels::simt::Bounds;

struct Packing {
  Bounds bounds = {};
  int shift[3] = {-1, -1, -1};  // -1: not checked
  bool fits = true;
  [[nodiscard]] int64_t pack(const Spatial& position) const {
    int64_t packed = 0;
    for (int i = 0; i < 3; ++i) {
      if (shift[i] >= 0) packed += position[i] * (int64_t{1} << shift[i]);
    }
    return packed;
  }
};

struct Packings {
  Packing a, b, c;
};
// `wide`: into 64 bits.
[[nodiscard]] Packings pack_all(const Gemm& g, const Conv& conv, bool wide);
[[nodiscard]] inline bool all_fit(const Packings& p) { return p.a.fits && p.b.fits && p.c.fits; }

}  // namespace gpudnn::conv::mapping
