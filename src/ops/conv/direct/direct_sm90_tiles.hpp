// Problems as the Hopper direct convolution sees them, its tiles, and its cost model.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <limits>

#include "core/integer.hpp"
#include "kernels/conv/direct/direct_sm90.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv::direct_tiles {

constexpr int kAxes = 3;  // w, h, d
constexpr std::int64_t kOctetBytes = 16;

struct Axis {
  std::int64_t in = 1, out = 1, taps = 1;
  std::int64_t pad = 0;  // before the first pixel; negative where the first window begins inside of the image
  std::int64_t in_step = kOctetBytes, out_step = kOctetBytes, addend_step = kOctetBytes;  // bytes
};

// The problem as a correlation: the data gradient is one of dy with the mirrored filter.
struct View {
  Axis axis[kAxes];
  std::int64_t images = 0;
  std::int64_t in_image = 0, out_image = 0, addend_image = 0;
  std::int64_t k = 0, m = 0;  // channels of a group of the input and of the output
  std::int64_t groups = 1;
  std::int64_t element = 2;  // bytes
  bool f32 = false;
  bool transposed = false;  // the data gradient
  std::int64_t taps = 1;
};

// What does not depend on the tile. Octets are 16 bytes of channels, steps 32.
struct Operands {
  std::int64_t row_blocks;  // of a group
  std::int64_t m_octets, k_octets, k_blocks, filter_bytes;
  std::int64_t channel_bytes;  // of a position in a patch
  std::int64_t channel_blocks, block_steps, last_steps;
};

struct TileChoice {
  std::int64_t w = 0, h = 0, pitch = 0, stages = 0, stage_bytes = 0;
  double tiles = 0;  // of the problem, for a row block
  Operands o = {};
  double seconds = std::numeric_limits<double>::infinity();
};

[[nodiscard]] inline std::int64_t element_size(const TensorGeometry& tensor) {
  return tensor.type == GPUDNN_DATA_FLOAT ? 4 : 2;
}

[[nodiscard]] View view_of(const Problem& problem);

// Whether the shape of that number has a tile; and the best one with its time, one of no stages if there is none. Those
// that take longer than `bound` seconds need not be looked at.
[[nodiscard]] bool has_tile(const View& view, int number);
[[nodiscard]] TileChoice best_tile(const View& view, const kernels::direct::Shape& shape, double multiprocessors,
                                   double bound = std::numeric_limits<double>::infinity());

// Of a consumer's staging area, and of all that lies behind the patches.
[[nodiscard]] std::int64_t staging_bytes(const View& view, const Operands& o, const kernels::direct::Shape& shape);
[[nodiscard]] std::int64_t bytes_behind_patches(const View& view, const Operands& o,
                                                const kernels::direct::Shape& shape);

}  // namespace gpudnn::conv::direct_tiles
