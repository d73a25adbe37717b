// Instances of the Hopper convolution of 8-bit floats, and their launch.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/float8/float8_sm90.cuh"

namespace gpudnn::kernels::float8 {

void launch(int shape, const Params& params, std::uint32_t blocks, CUstream_st* stream) {
  [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    using Launch = void (*)(const Params&, std::uint32_t, CUstream_st*);
    static constexpr Launch kLaunches[] = {&launch_instance<Instance<static_cast<int>(kIndex)>>...};
    kLaunches[shape](params, blocks, stream);
  }
  (std::make_index_sequence<kShapeCount>());
}

}  // namespace gpudnn::kernels::float8
