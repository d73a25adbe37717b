// What the launchers of the gather engines (flash_gather_sm90, flash_gather_backward_sm90, flash_sm80) share: how they
// cut a problem, and what their kernels are told.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_dbias_sm80.hpp"
#include "ops/attention/problem.hpp"

namespace gpudnn::attention {

// An engine's forward tiles, and the rates by which the model of splits counts.
struct GatherTiles {
  int rows = 128;
  int short_rows = 128;  // of a tile for few rows
  int columns = 128;
  int short_columns = 0;  // of tiles of short_rows; 0: as the others
  int short_blocks = 1;   // of a multiprocessor
  double short_step = 0;  // the least microseconds of a step of theirs
  double bytes = 0;       // a microsecond, of the device
  double operations = 0;  // a microsecond, of one multiprocessor
};

// How an engine cuts a problem; the splits are asked for apart.
struct GatherShape {
  int rows_of_tile = 128;
  std::int64_t packed = 1;  // heads of q in a tile
  std::int64_t heads = 0;   // of the grid
  std::int64_t rows = 0;    // of one of its heads
  std::int64_t row_tiles = 0;
  std::int64_t splits = 1;

  [[nodiscard]] double blocks(const Problem& problem) const noexcept {
    return static_cast<double>(row_tiles) * static_cast<double>(heads * problem.batch()) * static_cast<double>(splits);
  }
};

// The dimension that kernels are built for, of kernels::kFlashGatherDims.
[[nodiscard]] int gather_dim(const Problem& problem);
[[nodiscard]] GatherShape gather_shape(const Problem& problem, const GatherTiles& tiles);
// The number of blocks that share the columns of a tile: the model of it is the dearest question of a call.
[[nodiscard]] std::int64_t gather_splits(const Problem& problem, const Device& device, const GatherTiles& tiles,
                                         const GatherShape& shape);
// Of partial sums, where there are splits; and how many splits the workspace that a launch has was asked for.
[[nodiscard]] std::size_t gather_workspace(const Problem& problem, const GatherShape& shape, std::int64_t splits);
[[nodiscard]] std::int64_t splits_of_workspace(const Problem& problem, const GatherShape& shape, std::size_t bytes);
// All but what one engine alone has.
[[nodiscard]] kernels::FlashGatherParams gather_params(const LaunchSite& site, const Problem& problem, const Args& args,
                                                       const GatherShape& shape);

// Backward. The workspace holds lse, delta and the partial sums of dBias.
[[nodiscard]] std::size_t gather_backward_workspace(const Problem& problem, const Device& device);
[[nodiscard]] kernels::FlashGatherBackwardParams gather_backward_params(const LaunchSite& site, const Problem& problem,
                                                                        const Args& args);
// How a kernel of dBias with tiles of `side` rows and columns cuts it, where a multiprocessor has `blocks_each`.
[[nodiscard]] kernels::FlashDbiasParams dbias_shape(const Problem& problem, const Device& device, std::int32_t side,
                                                    std::int32_t blocks_each);
[[nodiscard]] std::size_t dbias_partial_bytes(const kernels::FlashDbiasParams& dbias);
// dBias, where there is one, from lse and delta; bytes of its partial sums.
[[nodiscard]] std::size_t gather_dbias_workspace(const Problem& problem, const Device& device);
void launch_gather_dbias(const LaunchSite& site, const Problem& problem,
                         const kernels::FlashGatherBackwardParams& params, float* partial);
// The same of dSink.
void launch_gather_dsink(const LaunchSite& site, const Problem& problem, kernels::FlashGatherBackwardParams params);
// lse and delta, the gradients of q, k and v by `launch`, dBias and dSink.
void launch_gather_backward(const LaunchSite& site, const Problem& problem, kernels::FlashGatherBackwardParams params,
                            void (*launch)(const kernels::FlashGatherBackwardParams&, kernels::FlashGradient,
                                           CUstream_st*));

// What all of them refuse; null: nothing.
[[nodiscard]] const char* unsupported_gather_options(const Problem& problem);

}  // namespace gpudnn::attention
