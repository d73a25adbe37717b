// Which neighbours the loads and stores of the SIMT implicit GEMM take: along which index memory runs, and whether by
// vectors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/implicit_gemm/implicit_gemm_simt_mapping.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_simt_params.hpp"

namespace gpudnn::conv::mapping {

// Takes away the positions that nobody checks: they must not keep vectors from forming.
void drop_all_unchecked(Gemm* g);
// Of a product without them; vectors are `width` elements.
[[nodiscard]] SimtLoadModes load_modes(const Gemm& g, const Conv& conv, int64_t width, bool grouped);
// Sets the modes of the operands and the output, and drops what nobody checks.
void set_modes(Gemm* g, const Conv& conv, int64_t width, bool grouped, kernels::simt::Params* p);
// Whether C is written along m rather than n, and in whole aligned vectors.
struct StoreMode {
  bool m_is_fast, vectors;
};
[[nodiscard]] StoreMode store_mode(const Gemm& g, const Conv& conv, int64_t width, bool grouped);
// Whether z can be read by vectors as C is written.
[[nodiscard]] bool addend_vectors(const Gemm& g, bool m_is_fast, int64_t width, bool grouped);

}  // namespace gpudnn::conv::mapping
