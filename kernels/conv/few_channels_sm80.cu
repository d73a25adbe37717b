// The launch of the convolution kernels for images of few channels: the instance of a row.
// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "kernels/conv/few_channels_sm80.cuh"

namespace gpudnn::kernels::few_channels {
namespace {

template <std::size_t... kRows>
LaunchRow launch_of(int row, std::index_sequence<kRows...>) {
  static constexpr LaunchRow kLaunches[] = {&launch_row<static_cast<int>(kRows)>...};
  return kLaunches[row];
}

}  // namespace

void launch(int row, const Params& params, CUstream_st* stream) {
  launch_of(row, std::make_index_sequence<kTileCount>())(params, stream);
}

}  // namespace gpudnn::kernels::few_channels
