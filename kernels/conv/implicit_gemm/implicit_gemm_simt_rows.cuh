// The instances of a row of the SIMT implicit GEMM and the choice between them, for the files that compile them. Each
// file is a module, which the driver loads whole at the first call into it: so large instances lie in a file for each
// row.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_simt.cuh"

namespace gpudnn::kernels::simt {

template <int kRow>
void launch_row(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  if constexpr (kTiles[kRow].type == ElementType::f32 && !kTiles[kRow].wide) {
    launch_with_fixed_modes<kRow>(params, blocks, stream,
                                  std::make_index_sequence<sizeof kFixedModes / sizeof kFixedModes[0]>());
  } else {
    launch_instance<Instance<kRow>>(params, blocks, stream);
  }
}

}  // namespace gpudnn::kernels::simt
