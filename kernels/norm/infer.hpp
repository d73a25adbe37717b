// What the launch function of normalization with given statistics takes besides NormParams. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm/norm.hpp"

namespace gpudnn::kernels {

// Data tensors in step with x, in packs of 16 bytes.
struct NormInfer {
  std::int32_t columns = 0;  // else planes: all tensors gapless, one set after the other
  // Planes: packs altogether, elements of a plane, planes of an image.
  std::uint32_t packs = 0;
  tile::FastDivmod run;
  tile::FastDivmod sets;
  // Columns: lines and the elements from one to the next, packs of a line, and how many of them a block takes.
  std::uint32_t lines = 0;
  std::int64_t line_stride = 0;
  std::uint32_t line_packs = 0;
  std::int32_t lanes = 1;
  std::int64_t params_step = 1;  // from set to set
  std::int64_t stats_step = 1;
};

void launch_norm_infer(const NormParams& params, const NormInfer& infer, CUstream_st* stream);

}  // namespace gpudnn::kernels
