// Instances of the filter gradient of the float convolution on bfloat16 tensor cores.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/fp32_split/fp32_split_wgrad_sm90.cuh"

namespace gpudnn::kernels::fp32_split {
namespace {

using LaunchWgrad = void (*)(const WgradParams& params, std::uint32_t blocks, CUstream_st* stream);

template <class I>
void launch_instance(const WgradParams& params, std::uint32_t blocks, CUstream_st* stream) {
  constexpr int kBytes = static_cast<int>(sizeof(Shared<I>));
  static_assert(kBytes <= 227 * 1024, "shared memory of a block");
  cuda::allow_shared_memory<&fp32_split_wgrad_sm90<I>>(kBytes);
  cuda::launch_kernel(&fp32_split_wgrad_sm90<I>, {blocks, I::kThreads, kBytes}, stream, params);
  if (params.gemm.splits > 1) sm90::launch_reduction<I>(params.gemm, stream);
}

}  // namespace

void launch_wgrad(int shape, const WgradParams& params, std::uint32_t blocks, CUstream_st* stream) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    static constexpr LaunchWgrad kLaunches[] = {&launch_instance<Wgrad<static_cast<int>(kIndex)>>...};
    kLaunches[shape](params, blocks, stream);
  }
  (std::make_index_sequence<kWgradShapeCount>());
}

}  // namespace gpudnn::kernels::fp32_split
