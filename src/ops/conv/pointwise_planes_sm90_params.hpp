// From a convolution problem to the parameters of the Hopper pointwise convolution on planes and to what its tensor
// maps describe. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/pointwise_planes_sm90.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// A tiled tensor map of rank 3, in boxes of rows of 128 bytes.
struct PlaneMap {
  std::int64_t dims[3] = {};   // elements of a row, rows, images
  std::int64_t steps[2] = {};  // bytes from row to row, from image to image
  std::int32_t box_rows = 0;
};

// The copy of a filter that the tensor map cannot take as it is: to[row][column], rows `pitch` elements apart.
struct FilterCopy {
  std::int64_t rows = 0, columns = 0;
  std::int64_t row_step = 0, column_step = 0;  // of the filter itself, in elements
  std::int64_t pitch = 0;
};

struct PlanesPlan {
  kernels::sm90::planes::Params params;  // but for the maps, pointers and scalars
  kernels::sm90::ElementType type = kernels::sm90::ElementType::f16;
  kernels::sm90::Direction direction = kernels::sm90::Direction::forward;
  int shape = 0;
  PlaneMap in;
  PlaneMap out;
  bool in_has_map = false;   // threads copy without
  bool out_has_map = false;  // ... and store, as across_tf32 always does
  bool has_filter = false;   // it is an operand
  PlaneMap filter;
  bool copies_filter = false;  // into the workspace, before the partial sums
  FilterCopy copy;
  std::size_t filter_bytes = 0;  // of the copy, in whole 256
  std::size_t workspace = 0;
};

// Null, or why the engine cannot take the problem on a device that it runs on.
[[nodiscard]] const char* planes_obstacle(const Problem& problem);

[[nodiscard]] PlanesPlan planes_plan(const Problem& problem, const Config& config);

// Whether a shape can take the problem, one that the engine takes.
[[nodiscard]] bool planes_shape_fits(const Problem& problem, const kernels::sm90::planes::TileShape& shape);

// The kind of tile that the problem's type and direction take.
[[nodiscard]] kernels::sm90::planes::Kind planes_kind(const Problem& problem);

// The cost model's candidates.
void planes_candidates(const Problem& problem, int multiprocessors, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
