// The tensor maps of the Hopper implicit GEMM: from what a plan says of them to the driver's, with an address to be
// replaced. False where the driver refuses.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"

namespace gpudnn::conv {

// Floats may be rounded to TF32 on their way in. Of bytes the type says nothing.
struct MapElement {
  kernels::sm90::ElementType type;
  bool rounds_to_tf32 = true;
  bool is_byte = false;
};

[[nodiscard]] bool encode_filter(const FilterMap& filter, const MapElement& element, kernels::sm90::TensorMap* map);
// `deep`: of three spatial dimensions.
[[nodiscard]] bool encode_pixels(const PixelMap& pixels, bool deep, const MapElement& element,
                                 kernels::sm90::TensorMap* map);
// The maps of A of all phases that have a reduction.
[[nodiscard]] bool encode_phases(const Sm90Plan& plan, const MapElement& element, kernels::sm90::Params* params);
// Their addresses, and those of B and C, which has a map where it is stored in boxes.
[[nodiscard]] bool replace_operands(const void* a, const void* b, const void* c, kernels::sm90::Params* params);

}  // namespace gpudnn::conv
