// Instances of the TF32 filter gradient on wgmma.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_wgrad_tf32.cuh"
#include "kernels/tile/launch.hpp"
#include "kernels/tile/shared_memory.hpp"

namespace gpudnn::kernels::sm90 {

namespace {

template <class I>
void launch_wgrad_tf32(const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<I>));
  static_assert(kBytes <= 227 * 1024, "shared memory of a block");
  tile::allow_shared_memory<&wgrad_tf32_sm90<I>>(kBytes);
  tile::launch_kernel(&wgrad_tf32_sm90<I>, {blocks, I::kThreads, kBytes}, stream, params);
  if (params.splits > 1) launch_reduction<I>(params, stream);
}

// Null for a shape that is of the other directions and types.
template <int kShape>
constexpr LaunchShape launch_of_shape() {
  if constexpr (kShapes[kShape].transposes) {
    return &launch_wgrad_tf32<WgradTf32<kShape>>;
  } else {
    return nullptr;
  }
}

}  // namespace

LaunchShape launch_of_wgrad_tf32(int shape) {
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    static constexpr LaunchShape kLaunches[] = {launch_of_shape<static_cast<int>(kIndex)>()...};
    return kLaunches[shape];
  }
  (std::make_index_sequence<kShapeCount>());
}

}  // namespace gpudnn::kernels::sm90
