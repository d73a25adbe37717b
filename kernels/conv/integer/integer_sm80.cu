// Instances of the mma.sync convolution of integers, and their launch.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/integer/integer_sm80.cuh"

namespace gpudnn::kernels::integer {
namespace {

template <int kTile, int kVector, bool kUnsigned>
void launch_instance(const Params& params, CUstream_st* stream) {
  using S = Sm80Shape<kTile>;
  constexpr std::uint32_t kMaxRows = 65535;  // of a grid, along y and z
  const std::uint32_t n_tiles = (params.filters + S::kBN - 1) / S::kBN;
  const std::uint32_t groups_of_y = kMaxRows / n_tiles > 0 ? kMaxRows / n_tiles : 1;
  const std::uint32_t along_y = params.groups < groups_of_y ? params.groups : groups_of_y;
  const dim3 grid((params.pixels + S::kBM - 1) / S::kBM, n_tiles * along_y, (params.groups + along_y - 1) / along_y);
  cuda::allow_shared_memory<&integer_sm80<kTile, kVector, kUnsigned>>(S::kSharedBytes);
  const cuda::LaunchConfig config = {grid, S::kThreads, S::kSharedBytes};
  cuda::launch_kernel(&integer_sm80<kTile, kVector, kUnsigned>, config, stream, params);
}

template <int kTile, int kVector>
void launch_signed(const Params& params, CUstream_st* stream) {
  if (params.x_is_unsigned) {
    launch_instance<kTile, kVector, true>(params, stream);
  } else {
    launch_instance<kTile, kVector, false>(params, stream);
  }
}

}  // namespace

void launch_sm80(int tile, int vector, const Params& params, CUstream_st* stream) {
  if (tile == 0) {
    vector == 16 ? launch_signed<0, 16>(params, stream) : launch_signed<0, 4>(params, stream);
  } else {
    vector == 16 ? launch_signed<1, 16>(params, stream) : launch_signed<1, 4>(params, stream);
  }
}

}  // namespace gpudnn::kernels::integer
