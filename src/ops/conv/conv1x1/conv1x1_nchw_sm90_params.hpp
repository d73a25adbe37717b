// From a convolution problem to the parameters of the Hopper pointwise convolution on planes and to what its tensor
// maps describe. No CUDA is needed for it, so that tests can check it anywhere.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/conv1x1/conv1x1_nchw_sm90.hpp"
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
[[nodiscard]] const char* conv1x1_nchw_unsupported_reason(const Problem& problem);

// The sizes that all plans of a problem have in common.
struct PlanesSizes {
  std::int64_t element = 2;  // bytes
  std::int64_t in_planes = 0, out_planes = 0;
  std::int64_t chunks = 0;       // of kRowBytes of the pixels of all images
  double cut_chunks = 0;         // share of them that end with a plane, and are shorter
  bool by_threads = false;       // planes do not begin at multiples of 16 bytes: no maps
  bool cuts_sectors = false;     // ... nor of 32
  std::size_t filter_bytes = 0;  // of its copy, in whole 256; 0: none is made
};
[[nodiscard]] PlanesSizes planes_sizes(const Problem& problem);

// What a tile makes of them.
struct PlanesWorks {
  std::int64_t written = 0;   // tiles along the written planes
  std::int64_t others = 0;    // ... and along pixels or, in the filter gradient, the other planes
  std::int64_t k_blocks = 0;  // of each
};
[[nodiscard]] PlanesWorks planes_works(const PlanesSizes& sizes, const kernels::sm90::planes::TileShape& shape);
// Bytes of workspace.
[[nodiscard]] std::size_t planes_workspace(const PlanesSizes& sizes, const PlanesWorks& works,
                                           const kernels::sm90::planes::TileShape& shape, int splits);

[[nodiscard]] PlanesPlan planes_plan(const Problem& problem, const Config& config);

// The kind of tile that the problem's type and direction take.
[[nodiscard]] kernels::sm90::planes::Kind planes_kind(const Problem& problem);

// The configs with their expected times.
void planes_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates);

}  // namespace gpudnn::conv
