// The launch of flash_dbias_sm90.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_dbias_sm90.cuh"

namespace gpudnn::kernels {
namespace {

template <class T, int kDim>
void launch_config(const FlashDbiasWideParams& params, CUstream_st* stream) {
  using C = flash_sm90::WideDbiasConfig<T, kDim>;
  constexpr int kBytes = static_cast<int>(sizeof(flash_sm90::WideDbiasShared<C>)) + 1024;
  static_assert(kBytes <= 227 * 1024, "what a block of Hopper may have");
  cuda::allow_shared_memory<&flash_sm90::flash_dbias_sm90<C>>(kBytes);
  const AttentionParams& a = params.its.base.problem;
  const std::int64_t blocks =
      a.dbias_dims[0] * a.dbias_dims[1] * params.its.row_tiles * params.its.column_tiles * params.its.splits;
  cuda::launch_kernel(flash_sm90::flash_dbias_sm90<C>, {static_cast<unsigned>(blocks), C::kThreads, kBytes}, stream,
                      params);
}

template <class T>
void launch_type(const FlashDbiasWideParams& params, int dim, CUstream_st* stream) {
  if (dim == 64) return launch_config<T, 64>(params, stream);
  launch_config<T, 128>(params, stream);
}

}  // namespace

void launch_flash_dbias_sm90(const FlashDbiasWideParams& params, int dim, CUstream_st* stream) {
  if (params.its.base.problem.type == tile::ElementType::f16) {
    launch_type<tile::Half>(params, dim, stream);
  } else {
    launch_type<tile::BFloat16>(params, dim, stream);
  }
  launch_flash_dbias_sums(params.its, stream);
}

}  // namespace gpudnn::kernels
