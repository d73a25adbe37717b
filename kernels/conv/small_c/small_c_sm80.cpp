// The launch of the convolution kernels for images of few channels: the instance of a row.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/small_c/small_c_sm80.hpp"

#include "kernels/tile/instances.hpp"

namespace gpudnn::kernels::small_c {

void launch(int row, const Params& params, CUstream_st* stream) {
  tile::entry_at<kTileCount>(row, [](auto tile_row) -> LaunchRow { return &launch_row<tile_row()>; })(params, stream);
}

}  // namespace gpudnn::kernels::small_c
