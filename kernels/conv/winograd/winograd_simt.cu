// The instances of the Winograd transforms and their launches.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/conv/winograd/winograd_simt.cuh"

namespace gpudnn::kernels::winograd {
namespace {

unsigned ceil_div(std::int64_t a, std::int64_t b) { return static_cast<unsigned>((a + b - 1) / b); }

// Of 32 x 8 threads, each with one tile of one filter or channel.
cuda::LaunchConfig blocks_of(std::int64_t fast, std::int64_t slow, std::int64_t groups) {
  return {.blocks = dim3(ceil_div(fast, kLanes), ceil_div(slow, kRowsOfBlock), static_cast<unsigned>(groups)),
          .threads = dim3(kLanes * kRowsOfBlock)};
}
cuda::LaunchConfig blocks_of(const Tiles& tiles, bool along_channels) {
  cuda::LaunchConfig config = blocks_of(tiles.count, tiles.channels, 1);
  if (along_channels) config.blocks = dim3(ceil_div(tiles.count, kRowsOfBlock), ceil_div(tiles.channels, kLanes));
  return config;
}

template <class M>
void launch_data_matrix(const DataParams& p, CUstream_st* stream) {
  const cuda::LaunchConfig config = blocks_of(p.tiles, p.along_channels);
  cuda::launch_kernel(p.staged ? winograd_data_simt<M, true> : winograd_data_simt<M, false>, config, stream, p);
}

}  // namespace

void launch_data(int m, bool as_filter, const DataParams& p, CUstream_st* stream) {
  if (m == 4) {
    return as_filter ? launch_data_matrix<FilterMatrix<6, 4>>(p, stream)
                     : launch_data_matrix<InputMatrix<4>>(p, stream);
  }
  return as_filter ? launch_data_matrix<FilterMatrix<4, 2>>(p, stream) : launch_data_matrix<InputMatrix<2>>(p, stream);
}

void launch_filter(int m, const FilterParams& p, CUstream_st* stream) {
  cuda::launch_kernel(m == 4 ? winograd_filter_simt<6> : winograd_filter_simt<4>,
                      blocks_of(p.outer_count, p.inner_count, p.groups), stream, p);
}

void launch_output(int m, const OutputParams& p, CUstream_st* stream) {
  cuda::launch_kernel(m == 4 ? winograd_output_simt<6, 4> : winograd_output_simt<4, 2>,
                      blocks_of(p.tiles, p.along_channels), stream, p);
}

void launch_filter_output(int m, const FilterOutputParams& p, CUstream_st* stream) {
  cuda::launch_kernel(m == 4 ? winograd_filter_output_simt<6> : winograd_filter_output_simt<4>,
                      blocks_of(p.group_inputs, p.group_outputs, p.groups), stream, p);
}

}  // namespace gpudnn::kernels::winograd
