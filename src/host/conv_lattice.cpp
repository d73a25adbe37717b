// From a convolution problem to pieces of positions and taps.
// SPDX-License-Identifier: Apache-2.0
#include "host/conv_lattice.hpp"

#include <algorithm>
#include <utility>

namespace gpudnn::host {
namespace {

using conv::Direction;
using conv::Problem;

// Along one dimension: a tap's number in the stored filter, and the source coordinate that position 0 meets.
struct TapAlong {
  std::int64_t stored;
  std::int64_t source;
};
struct AxisTaps {
  ConvAxis axis;
  std::vector<TapAlong> taps;
};

// The convolution along one dimension.
struct Along {
  std::int64_t x = 1;
  std::int64_t y = 1;
  std::int64_t taps = 1;
  std::int64_t pad = 0;
  std::int64_t stride = 1;
  std::int64_t dilation = 1;
  std::int64_t filter_stride = 0;
  bool mirrored = false;

  [[nodiscard]] std::int64_t stored(std::int64_t tap) const noexcept { return mirrored ? taps - 1 - tap : tap; }
};

AxisTaps forward_axis(const Along& along, bool all_taps) {
  AxisTaps result;
  result.axis = {along.y, 0, 1, along.stride};
  for (std::int64_t t = 0; t < along.taps; ++t) {
    const std::int64_t source = t * along.dilation - along.pad;
    // A tap that lies in the padding at every position adds nothing; but its gradient is asked for.
    const bool is_outside = source + (along.y - 1) * along.stride < 0 || source >= along.x;
    if (is_outside && !all_taps) continue;
    result.taps.push_back({along.stored(t), source});
  }
  return result;
}

// One entry for each stride phase of dx's coordinates. Where y has one position, any stride says the same, and one
// larger than x leaves no position a tap that it does not meet.
std::vector<AxisTaps> backward_axis(const Along& along) {
  const std::int64_t stride = along.y == 1 ? along.x + along.pad + along.taps * along.dilation : along.stride;
  std::vector<AxisTaps> phases;
  for (std::int64_t first = 0; first < std::min(stride, along.x); ++first) {
    AxisTaps phase;
    phase.axis = {(along.x - first - 1) / stride + 1, first, stride, 1};
    for (std::int64_t t = 0; t < along.taps; ++t) {
      const std::int64_t scaled = first + along.pad - t * along.dilation;
      if (scaled % stride != 0) continue;
      const std::int64_t source = scaled / stride;
      if (source + phase.axis.count - 1 < 0 || source >= along.y) continue;
      phase.taps.push_back({along.stored(t), source});
    }
    phases.push_back(std::move(phase));
  }
  return phases;
}

ConvPiece piece_of(const AxisTaps* const axes[kConvSpatial], const Along along[kConvSpatial]) {
  ConvPiece piece;
  for (int i = 0; i < kConvSpatial; ++i) piece.axes[i] = axes[i]->axis;
  for (const TapAlong& a : axes[0]->taps) {
    for (const TapAlong& b : axes[1]->taps) {
      for (const TapAlong& c : axes[2]->taps) {
        piece.taps.push_back(
            {a.stored * along[0].filter_stride + b.stored * along[1].filter_stride + c.stored * along[2].filter_stride,
             {a.source, b.source, c.source}});
      }
    }
  }
  return piece;
}

// Without padding, stride and window, rows that lie one behind the other are one row.
void merge_rows(ConvLattice* lattice) {
  constexpr int kLast = kConvSpatial - 1;
  ConvPiece& piece = lattice->pieces.front();
  if (lattice->pieces.size() != 1 || piece.taps.size() != 1) return;
  for (int i = 0; i < kConvSpatial; ++i) {
    const ConvAxis& axis = piece.axes[i];
    const bool plain = piece.taps[0].source[i] == 0 && axis.source_step == 1 && axis.target_step == 1;
    if (!plain || axis.count != lattice->source.dims[i] || axis.count != lattice->target.dims[i]) return;
  }
  ConvSide* const sides[] = {&lattice->source, &lattice->target, &lattice->addend};
  for (int i = kLast - 1; i >= 0; --i) {
    for (const ConvSide* side : sides) {
      if (side->dims[i] > 1 && side->strides[i] != side->dims[kLast] * side->strides[kLast]) return;
    }
    piece.axes[kLast].count *= piece.axes[i].count;
    piece.axes[i].count = 1;
    for (ConvSide* side : sides) {
      side->dims[kLast] *= side->dims[i];
      side->dims[i] = 1;
    }
  }
}

}  // namespace

ConvSide conv_side(const TensorGeometry& tensor, std::int64_t groups) noexcept {
  ConvSide side;
  side.channels = tensor.dims[1] / groups;
  side.image_stride = tensor.strides[0];
  side.channel_stride = tensor.strides[1];
  const int first = kConvSpatial - (tensor.rank - 2);
  for (int i = 2; i < tensor.rank; ++i) {
    side.dims[first + i - 2] = tensor.dims[i];
    side.strides[first + i - 2] = tensor.strides[i];
  }
  return side;
}

ConvLattice conv_lattice(const Problem& problem) {
  const bool backwards = problem.direction == Direction::dgrad;
  ConvLattice lattice;
  lattice.images = problem.x.dims[0];
  lattice.groups = problem.groups;
  const ConvSide x = conv_side(problem.x, problem.groups);
  const ConvSide y = conv_side(problem.y, problem.groups);
  lattice.source = backwards ? y : x;
  lattice.target = backwards ? x : y;
  if (problem.has_z != 0) lattice.addend = conv_side(problem.z, problem.groups);
  lattice.filter_source_stride = problem.w.strides[backwards ? 0 : 1];
  lattice.filter_target_stride = problem.w.strides[backwards ? 1 : 0];
  lattice.filter_group_stride = y.channels * problem.w.strides[0];

  Along along[kConvSpatial];
  std::vector<AxisTaps> phases[kConvSpatial];
  for (int i = 0; i < kConvSpatial; ++i) {
    const int dim = i - (kConvSpatial - problem.spatial);
    if (dim >= 0) {
      along[i] = {x.dims[i],
                  y.dims[i],
                  problem.w.dims[2 + dim],
                  problem.pad[dim],
                  problem.stride[dim],
                  problem.dilation[dim],
                  problem.w.strides[2 + dim],
                  problem.mode == GPUDNN_CONVOLUTION};
    }
    if (backwards) {
      phases[i] = backward_axis(along[i]);
    } else {
      phases[i].push_back(forward_axis(along[i], problem.direction == Direction::wgrad));
    }
  }
  for (const AxisTaps& a : phases[0]) {
    for (const AxisTaps& b : phases[1]) {
      for (const AxisTaps& c : phases[2]) {
        const AxisTaps* const axes[] = {&a, &b, &c};
        lattice.pieces.push_back(piece_of(axes, along));
      }
    }
  }
  merge_rows(&lattice);
  return lattice;
}

void conv_runs(const ConvPiece& piece, std::int64_t first, std::int64_t last, std::vector<ConvRun>* runs) {
  const std::int64_t row = piece.axes[2].count;
  const std::int64_t rows = piece.axes[1].count;
  runs->clear();
  for (std::int64_t at = first; at < last;) {
    const std::int64_t line = at / row;
    const std::int64_t within = at % row;
    const std::int64_t plane = line / rows;
    const std::int64_t count = std::min(row - within, last - at);
    runs->push_back(
        {at - first, count, plane / piece.axes[0].count, {plane % piece.axes[0].count, line % rows, within}});
    at += count;
  }
}

}  // namespace gpudnn::host
