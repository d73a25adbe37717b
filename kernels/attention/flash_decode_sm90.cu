// flash_decode_sm90: its instances and their launch.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/attention/flash_decode_sm90.cuh"

namespace gpudnn::kernels {
namespace flash_sm90 {
namespace {

template <class T, int kDim>
void launch_decode_shape(const FlashGatherParams& params, CUstream_st* stream) {
  using C = DecodeConfig<T, kDim>;
  constexpr int kBytes = static_cast<int>(sizeof(DecodeShared<C>)) + 1024;
  static_assert(kBytes <= 226 * 1024 / C::kBlocks, "what blocks of Hopper may have");
  cuda::allow_shared_memory<&flash_decode_sm90<C>>(kBytes);
  const dim3 blocks(static_cast<unsigned>(params.batch_heads), static_cast<unsigned>(params.splits));
  cuda::launch_kernel(flash_decode_sm90<C>, {blocks, C::kThreads, kBytes}, stream, params);
  if (params.splits > 1) launch_flash_combine(params, stream);
}

template <class T>
void launch_decode(const FlashGatherParams& params, int dim, CUstream_st* stream) {
  if (dim == 64) return launch_decode_shape<T, 64>(params, stream);
  if (dim == 128) return launch_decode_shape<T, 128>(params, stream);
  launch_decode_shape<T, 256>(params, stream);
}

}  // namespace
}  // namespace flash_sm90

void launch_flash_decode_sm90(const FlashGatherParams& params, tile::ElementType type, int dim, CUstream_st* stream) {
  if (type == tile::ElementType::f16) return flash_sm90::launch_decode<tile::Half>(params, dim, stream);
  flash_sm90::launch_decode<tile::BFloat16>(params, dim, stream);
}

}  // namespace gpudnn::kernels
