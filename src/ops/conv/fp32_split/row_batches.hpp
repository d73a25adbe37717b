// Batches of products of float rows by fp32_split's kernels: the parts of the workspace that hold them, and the plan of
// one batch's product made that of all. What Winograd's and the Fourier convolution have in common on Hopper. No CUDA.
// SPDX-License-Identifier: Apache-2.0
#pragma once

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

}  // namespace gpudnn::conv
