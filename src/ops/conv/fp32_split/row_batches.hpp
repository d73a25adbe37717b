// Batches of products of float rows by fp32_split's kernels: the parts of the workspace that hold them, and the plan of
// one batch's product made that of all. What Winograd's and the Fourier convolution have in common on Hopper. No CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "core/cost_model.hpp"
#include "core/tma_boxes.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"
#include "ops/conv/transform_params.hpp"

namespace gpudnn::conv {

constexpr std::size_t kPartAlignment = 256;  // of the workspace's parts
constexpr std::int64_t kPixelsOfKTile = 32;  // filter gradient

// The workspace from its first aligned address on. Offsets are bytes.
struct PartsOfWorkspace {
  char* first;
  [[nodiscard]] float* floats(std::size_t at) const { return reinterpret_cast<float*>(first + at); }
};

// What the launches of a call have of the product. Offsets are bytes from the workspace's first aligned address.
struct RowProductLaunch {
  Direction direction = Direction::forward;
  int tile = 0;      // a row of fp32_split::kShapes or kWgradShapes
  Sm90Plan product;  // of all batches
  TmaBoxes terms;    // forward and data gradient: the filter's
  std::uint32_t m_tiles_of_batch = 0;
  std::uint32_t rows_of_batch = 0;     // of terms
  std::uint32_t k_tiles_of_batch = 0;  // filter gradient

  std::int64_t batches = 0;
  std::int64_t tiles = 0;         // of all images
  std::int64_t chunk_tiles = 0;   // that the workspace holds at a time
  std::int64_t padded_tiles = 0;  // with those that fill up a batch
  std::int64_t first_tap = 0;     // where the taps begin in a filter, in floats
  std::size_t filter_at = 0, data_at = 0, product_at = 0, partials_at = 0;
  std::size_t workspace = 0;
};

// The offset of the next part, of so many bytes.
[[nodiscard]] std::size_t take_part(std::int64_t bytes, std::size_t* end);

// Rows of [batch][row][channel].
struct Rows {
  std::int64_t channels = 0, pitch = 0, all = 0;  // rows of all batches
  [[nodiscard]] std::int64_t bytes() const { return all * pitch * static_cast<std::int64_t>(sizeof(float)); }
};
[[nodiscard]] inline Rows rows_of(std::int64_t channels, std::int64_t batches, std::int64_t rows) noexcept {
  return {channels, pitch_of(channels), batches * rows};
}

// The product as a 1x1 convolution of rows.
[[nodiscard]] Problem product_problem(Direction direction, const Rows& in, const Rows& out);

// The plan of a filter gradient's product of one batch becomes that of all: a batch is a group, whose channels lie
// where those of the others do.
void make_batches(std::int64_t batches, std::int64_t k_tiles, std::int64_t rows_of_c, std::int64_t pitch_of_c,
                  Sm90Plan* plan);

// What the product costs, but for operations, bytes from the L2 and time of a tile. `bytes`: between the launches.
[[nodiscard]] Footprint footprint_of(const RowProductLaunch& l, const kernels::sm90::TileShape& tile,
                                     const TransformBytes& bytes, const DeviceRates& rates);
[[nodiscard]] TransformBytes bytes_of_parts(const RowProductLaunch& l);

constexpr double kRowTransformRate = 0.8;       // of the copy rate
constexpr double kSplitWgradEfficiency = 0.95;  // of fp32_split's kernel for filter gradients, of its tile's

// Forward and data gradient: chunks of the images are offered, all at once and what fits in each limit of bytes.
// seconds(launch) are those of all launches that make(problem, config) gives.
void offer_chunks(const Problem& problem, Config config, std::span<const double> limits, auto make, auto seconds,
                  std::vector<Candidate>* candidates) {
  constexpr double kMaxChunks = 64;
  config.split_k = 1;
  const auto whole = make(problem, config);
  const auto bytes = static_cast<double>(whole.workspace - whole.data_at);
  std::int64_t former = 0;
  const auto offer = [&](const auto& launch) {
    if (launch.chunk_tiles == former) return;
    former = launch.chunk_tiles;
    candidates->push_back({config, seconds(launch), launch.workspace});
  };
  for (const double limit : limits) {
    const auto chunks = static_cast<std::int32_t>(std::min(kMaxChunks, std::ceil(bytes / limit)));
    if (chunks == config.split_k && former > 0) continue;
    config.split_k = chunks;
    if (chunks == 1) {
      offer(whole);
    } else {
      offer(make(problem, config));
    }
  }
}

}  // namespace gpudnn::conv
