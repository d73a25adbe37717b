// The instances of the transforms around Winograd's products on bfloat16 tensor cores, and their launches.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/conv/winograd/winograd_sm90.cuh"

namespace gpudnn::kernels::winograd {
namespace {

// Of blocks that wait for the kernel before by themselves.
cuda::LaunchConfig blocks_of(std::int64_t blocks, int threads) {
  return {
      .blocks = dim3(static_cast<unsigned>(blocks)), .threads = dim3(static_cast<unsigned>(threads)), .overlaps = true};
}

cuda::LaunchConfig blocks_of(const Tiles& tiles, std::int32_t count) {
  const std::int64_t of_tiles = (count + kTilesOfBlock - 1) / kTilesOfBlock;
  return blocks_of(of_tiles * tiles.channel_blocks.divisor, kRowThreads);
}

template <class M>
void launch_data_matrix(bool exchanges, const DataParams& p, CUstream_st* stream) {
  cuda::launch_kernel(exchanges ? winograd_data_sm90<M, true> : winograd_data_sm90<M, false>,
                      blocks_of(p.tiles, p.tiles.padded), stream, p);
}

template <int kPoints, int kM>
void launch_output_points(bool exchanges, const OutputParams& p, CUstream_st* stream) {
  cuda::launch_kernel(exchanges ? winograd_output_sm90<kPoints, kM, true> : winograd_output_sm90<kPoints, kM, false>,
                      blocks_of(p.tiles, p.tiles.count), stream, p);
}

}  // namespace

void launch_data_rows(int m, bool as_filter, bool exchanges, const DataParams& p, CUstream_st* stream) {
  if (m == 4) {
    return as_filter ? launch_data_matrix<FilterMatrix<6, 4>>(exchanges, p, stream)
                     : launch_data_matrix<InputMatrix<4>>(exchanges, p, stream);
  }
  return as_filter ? launch_data_matrix<FilterMatrix<4, 2>>(exchanges, p, stream)
                   : launch_data_matrix<InputMatrix<2>>(exchanges, p, stream);
}

void launch_filter_terms(int m, const FilterTermsParams& p, CUstream_st* stream) {
  const std::int64_t items = std::int64_t{p.groups} * p.outer_count.divisor * p.chunks.divisor *
                             (fp32_split::kChunkBytes / static_cast<int>(sizeof(std::uint32_t)));
  cuda::launch_kernel(m == 4 ? winograd_filter_terms_sm90<6> : winograd_filter_terms_sm90<4>,
                      blocks_of((items + kFilterThreads - 1) / kFilterThreads, kFilterThreads), stream, p);
}

void launch_output_rows(int m, bool exchanges, const OutputParams& p, CUstream_st* stream) {
  return m == 4 ? launch_output_points<6, 4>(exchanges, p, stream) : launch_output_points<4, 2>(exchanges, p, stream);
}

}  // namespace gpudnn::kernels::winograd
