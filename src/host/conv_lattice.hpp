// Convolution as the matrix product of the host sees it: positions of the target tensor, and under each of them the
// same list of taps into the source tensor.
//
// Forward and filter gradient have one piece: y's positions, a step of the convolution's stride in x. The data gradient
// has one for each stride phase: the positions of dx that share a remainder by the stride meet the same taps, one step
// of dy apart. So nothing is multiplied that the stride leaves out.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "ops/conv/problem.hpp"

namespace gpudnn::host {

constexpr int kConvSpatial = 3;

// A tensor with three spatial dimensions; missing leading ones have extent 1.
struct ConvSide {
  std::int64_t channels = 0;  // of one group
  std::int64_t image_stride = 0;
  std::int64_t channel_stride = 0;
  std::int64_t dims[kConvSpatial] = {1, 1, 1};
  std::int64_t strides[kConvSpatial] = {};
};
[[nodiscard]] ConvSide conv_side(const TensorGeometry& tensor, std::int64_t groups) noexcept;

// Position i of a dimension is target coordinate first + i * target_step; tap t meets there the source coordinate
// i * source_step + the tap's own.
struct ConvAxis {
  std::int64_t count = 1;
  std::int64_t first = 0;
  std::int64_t target_step = 1;
  std::int64_t source_step = 1;
};

struct ConvTap {
  std::int64_t filter_offset;  // in elements
  std::int64_t source[kConvSpatial];
};

struct ConvPiece {
  ConvAxis axes[kConvSpatial];
  std::vector<ConvTap> taps;

  [[nodiscard]] std::int64_t positions() const noexcept { return axes[0].count * axes[1].count * axes[2].count; }
};

struct ConvLattice {
  std::int64_t images = 0;
  std::int64_t groups = 1;
  ConvSide source;
  ConvSide target;
  ConvSide addend;  // z of a fused forward convolution: as the target
  // Of the filter's channels as source and target count them.
  std::int64_t filter_source_stride = 0;
  std::int64_t filter_target_stride = 0;
  std::int64_t filter_group_stride = 0;
  std::vector<ConvPiece> pieces;
};
[[nodiscard]] ConvLattice conv_lattice(const conv::Problem& problem);

// Neighbouring positions along the last dimension, in columns [column, column + count) of a tile.
struct ConvRun {
  std::int64_t column;
  std::int64_t count;
  std::int64_t image;
  std::int64_t at[kConvSpatial];  // of the first one
};

// The runs that positions [first, last) fall into, counted over images and each image's positions in row-major order.
void conv_runs(const ConvPiece& piece, std::int64_t first, std::int64_t last, std::vector<ConvRun>* runs);

}  // namespace gpudnn::host
