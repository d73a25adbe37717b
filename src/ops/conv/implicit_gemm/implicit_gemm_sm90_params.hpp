// From a convolution problem to the parameters of the Hopper implicit GEMM and to what its tensor maps describe.
// No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// A tensor of pixels as TMA's im2col mode sees it. Axis 0 is w, 1 is h, 2 is d.
struct PixelMap {
  std::int64_t channels = 0;
  std::int64_t extent[3] = {1, 1, 1};
  std::int64_t images = 0;
  std::int64_t step[4] = {};   // bytes between neighbours along w, h, d, n
  std::int32_t lower[3] = {};  // first and last corner of a window, from the image's first and last pixel
  std::int32_t upper[3] = {};
  std::int32_t stride[3] = {1, 1, 1};
  std::int32_t pixels_per_box = 0;
  std::int32_t box_channels = 0;
  std::int64_t row_step = 0;  // bytes; where the pixels, each with one tap, are the even rows of a matrix
};

// A filter [rows][taps][columns], or an output [pixels][1][channels], as a tiled tensor map sees it.
struct FilterMap {
  std::int64_t columns = 0;
  std::int64_t taps = 0;
  std::int64_t rows = 0;
  std::int64_t row_step = 0;  // bytes; 0: packed
  std::int32_t box_columns = 0;
  std::int32_t box_rows = 0;
};

struct Sm90Plan {
  kernels::sm90::Params params;  // but for the maps, pointers and scalars
  kernels::sm90::ElementType type = kernels::sm90::ElementType::f16;
  kernels::sm90::Direction direction = kernels::sm90::Direction::forward;
  int shape = 0;
  std::uint32_t tiles = 0;  // of a split
  PixelMap a[kernels::sm90::kMaxPhases];
  bool b_is_filter = true;
  FilterMap filter;
  PixelMap b;
  FilterMap c;                     // where params.stores_boxes
  FilterMap z;                     // where adds_boxes
  bool fuses = false;              // where the call's scalars and activation allow it
  bool adds_boxes = false;         // z lies in boxes as C
  bool transposes_filter = false;  // into the workspace, before the partial sums
  std::size_t filter_bytes = 0;    // of that copy
  std::size_t workspace = 0;
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* sm90_unsupported_reason(const Problem& problem);

// The same for x and y alone: their layout, and the windows that TMA takes. It says nothing of the math type.
// `any_output`: the output and z may have any strides.
[[nodiscard]] const char* sm90_layout_unsupported_reason(const Problem& problem, bool any_output);

[[nodiscard]] Sm90Plan sm90_plan(const Problem& problem, const Config& config);
// For a tile that is not of the engine's list.
[[nodiscard]] Sm90Plan sm90_plan(const Problem& problem, const kernels::sm90::TileShape& shape, int split_k);

// The sizes that all plans of a problem have in common, from which the cost model has those of any tile.
struct Sm90Sizes {
  int phases = 0;
  double rows[kernels::sm90::kMaxPhases];  // of C, of each phase
  double taps[kernels::sm90::kMaxPhases];  // that are summed over; filter gradient: 1
  double columns = 0;                      // of C, of a group; filter gradient: chunks of kRowBytes of all taps
  double summed = 0;                       // channels of a group; filter gradient: pixels
  std::size_t workspace = 0;               // without a split
};
[[nodiscard]] Sm90Sizes sm90_sizes(const Problem& problem);

// Tiles of C, and their k tiles: of all together and of the longest.
struct Sm90Work {
  double tiles = 0;
  double all_k = 0;
  double longest_k = 0;
};
// With tiles of so many rows and columns of C and so many summed elements in a k tile.
[[nodiscard]] Sm90Work sm90_work(const Sm90Sizes& sizes, double groups, double rows, double columns, double summed);

// Lets the phases of a data gradient take turns of so many tiles, where all have taps and equally many tiles.
void sm90_take_turns(std::uint32_t tiles, kernels::sm90::Params* params);

// Whether a shape can take the problem, one that the engine takes: k tiles must not reach into the next group, and
// blocks of 64 bytes make sense for few channels alone.
[[nodiscard]] bool sm90_shape_fits(const Problem& problem, const kernels::sm90::TileShape& shape);

// Thread blocks of the plan's launch, and what they leave of sums by channel.
[[nodiscard]] std::uint32_t sm90_blocks(const Sm90Plan& plan, const Device& device);
[[nodiscard]] kernels::sm90::Totals sm90_totals(const Sm90Plan& plan, std::uint32_t blocks);
[[nodiscard]] std::size_t implicit_gemm_sm90_sums_workspace(const Problem& problem, const Config& config,
                                                            const Device& device);

// The configs with their expected times.
void sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
