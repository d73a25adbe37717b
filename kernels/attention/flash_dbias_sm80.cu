// The launch of the kernels of dBias.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_dbias_sm80.cuh"

namespace gpudnn::kernels {
namespace {

template <class T>
void launch_dbias_type(const FlashDbiasParams& params, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(flash_sm80::DbiasShared)) + flash::kPanelBytes;
  cuda::allow_shared_memory<&flash_sm80::flash_dbias_sm80<T>>(kBytes, true);
  const AttentionParams& a = params.base.problem;
  const std::int64_t blocks =
      a.dbias_dims[0] * a.dbias_dims[1] * params.row_tiles * params.column_tiles * params.splits;
  cuda::launch_kernel(flash_sm80::flash_dbias_sm80<T>,
                      {static_cast<unsigned>(blocks), flash_sm80::kDbiasThreads, kBytes}, stream, params);
}

}  // namespace

void launch_flash_dbias_sm80(const FlashDbiasParams& params, CUstream_st* stream) {
  if (params.base.problem.type == tile::ElementType::f16) {
    launch_dbias_type<tile::Half>(params, stream);
  } else {
    launch_dbias_type<tile::BFloat16>(params, stream);
  }
  launch_flash_dbias_sums(params, stream);
}

void launch_flash_dbias_sums(const FlashDbiasParams& params, CUstream_st* stream) {
  if (params.splits == 1) return;
  cuda::launch_kernel(flash_sm80::flash_dbias_sums, {static_cast<unsigned>((params.elements + 255) / 256), 256}, stream,
                      params);
}

}  // namespace gpudnn::kernels
