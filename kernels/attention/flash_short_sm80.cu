// flash_short_sm80's instances and their launch.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_short_sm80.cuh"

namespace gpudnn::kernels {
namespace {

template <class T, int kDim>
void launch_dim(const FlashShortParams& params, CUstream_st* stream) {
  using C = flash_sm80::ShortConfig<T, kDim>;
  constexpr int kBytes = static_cast<int>(sizeof(flash_sm80::ShortShared<C>)) + flash::kPanelBytes;
  cuda::allow_shared_memory<&flash_sm80::flash_short_sm80<C>>(kBytes, true);
  const auto blocks = static_cast<unsigned>(params.problem.heads_q * params.step);
  cuda::launch_kernel(flash_sm80::flash_short_sm80<C>, {blocks, C::kThreads, kBytes}, stream, params);
}

template <class T>
void launch_type(const FlashShortParams& params, CUstream_st* stream) {
  if (params.problem.dim_qk <= 32 && params.problem.dim_v <= 32) return launch_dim<T, 32>(params, stream);
  launch_dim<T, 64>(params, stream);
}

}  // namespace

void launch_flash_short_sm80(const FlashShortParams& params, CUstream_st* stream) {
  if (params.problem.type == tile::ElementType::f16) return launch_type<tile::Half>(params, stream);
  launch_type<tile::BFloat16>(params, stream);
}

}  // namespace gpudnn::kernels
