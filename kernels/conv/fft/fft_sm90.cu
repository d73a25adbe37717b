// The instances of the transforms around complex products on bfloat16 tensor cores, and their launches.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/conv/fft/fft_sm90.cuh"

namespace gpudnn::kernels::fft {
namespace {

// A kernel waits for the one before by itself.
template <int kT, auto kKernel, class Params>
void launch(const Params& params, std::int64_t tiles, const RowBlocks& blocks, CUstream_st* stream) {
  using S = RowShape<kT>;
  constexpr int kBytes = S::kItems * S::kTile * static_cast<int>(sizeof(float));
  cuda::allow_shared_memory<kKernel>(kBytes);
  const std::int64_t all = tiles * blocks.channels.divisor * blocks.groups.divisor;
  cuda::launch_kernel(kKernel,
                      {.blocks = dim3(static_cast<unsigned>(all)),
                       .threads = dim3(S::kThreads),
                       .shared_bytes = kBytes,
                       .overlaps = true},
                      stream, params);
}

}  // namespace

void launch_data_rows(int size, const DataRowsParams& p, CUstream_st* stream) {
  return size == 16 ? launch<16, &fft_data_sm90<16>>(p, p.padded, p.blocks, stream)
                    : launch<32, &fft_data_sm90<32>>(p, p.padded, p.blocks, stream);
}

void launch_filter_terms(int size, const FilterTermsParams& p, CUstream_st* stream) {
  return size == 16 ? launch<16, &fft_filter_sm90<16>>(p, p.filter.tiles.count, p.blocks, stream)
                    : launch<32, &fft_filter_sm90<32>>(p, p.filter.tiles.count, p.blocks, stream);
}

void launch_result_rows(int size, const ResultRowsParams& p, CUstream_st* stream) {
  return size == 16 ? launch<16, &fft_result_sm90<16>>(p, p.result.tiles.count, p.blocks, stream)
                    : launch<32, &fft_result_sm90<32>>(p, p.result.tiles.count, p.blocks, stream);
}

}  // namespace gpudnn::kernels::fft
