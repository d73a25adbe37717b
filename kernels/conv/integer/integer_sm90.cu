// Instances of the Hopper convolution of integers, and their launch.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/integer/integer_sm90.cuh"

namespace gpudnn::kernels::integer {
namespace {

template <int kTile>
void launch_instance(const Sm90Params& params, std::uint32_t blocks, CUstream_st* stream) {
  using S = Sm90Shape<kTile>;
  constexpr int kBytes = static_cast<int>(sizeof(Sm90Shared<S>));
  static_assert(kBytes <= 227 * 1024, "shared memory of a block");
  cuda::allow_shared_memory<&integer_sm90<kTile>>(kBytes);
  const cuda::LaunchConfig config = {blocks, S::kThreads, kBytes, params.splits};
  cuda::launch_kernel(&integer_sm90<kTile>, config, stream, params);
}

}  // namespace

void launch_sm90(int tile, const Sm90Params& params, std::uint32_t blocks, CUstream_st* stream) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    using Launch = void (*)(const Sm90Params&, std::uint32_t, CUstream_st*);
    static constexpr Launch kLaunches[] = {&launch_instance<static_cast<int>(kIndex)>...};
    kLaunches[tile](params, blocks, stream);
  }
  (std::make_index_sequence<kSm90TileCount>());
}

}  // namespace gpudnn::kernels::integer
