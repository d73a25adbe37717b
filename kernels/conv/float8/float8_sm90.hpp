// Tiles and parameters of the Hopper convolution of 8-bit floats: plain data, shared by launcher and kernel.
//
//   v = f(alpha * factors * sum + bias);  amax = max(amax, |v|);  C = convert(c_alpha * c_factors * v)
//
// The product, its tensor maps and its index arithmetic are those of implicit_gemm_sm90.hpp, with A and B both K-major:
//
//                    m                  n        k                A     B
//   forward          pixel of y         filter   (tap, channel)   x     w
//   data gradient    pixel of dx        channel  (tap, filter)    dy    w, as [c][tap][k]
//
// The filter gradient would want both operands K-major along pixels: nothing that TMA could fetch from NHWC. Each 8-bit
// float is a half, so x and dy become halves, the kernel of halves multiplies them, and a kernel of here joins its
// partial sums.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.hpp"
#include "kernels/tile/any_type.hpp"

namespace gpudnn::kernels::float8 {

// Rows of C are pixels, shared by two consumers; or a block has one consumer, and a multiprocessor two blocks, one of
// which multiplies while the other stores. `efficiency` is the share of the 8-bit matrix rate in a long reduction.
constexpr sm90::TileShape kShapes[] = {
    {256, 128, false, 2, 4, 128, 0.80},
    {128, 160, false, 2, 5, 128, 0.72},
    {128, 128, false, 1, 3, 128, 0.72},
};
constexpr int kShapeCount = sizeof(kShapes) / sizeof(kShapes[0]);
constexpr int blocks_of_multiprocessor(const sm90::TileShape& shape) { return shape.consumers == 1 ? 2 : 1; }

constexpr int kMaxFactors = 4;

struct Params {
  sm90::Params gemm;  // its distances along C are in elements; of a filter gradient: c_step of s, r, t, k
  bool a_is_e5m2 = false;
  bool b_is_e5m2 = false;
  bool promotes = true;  // a k tile's sums are added to the others in float
  bool stores_vectors = false;
  tile::AnyType c_type = tile::AnyType::f32;
  tile::AnyType bias_type = tile::AnyType::f32;
  std::int64_t c_column_step = 1;  // elements
  std::int32_t bm = 0;             // of the tiles of a filter gradient
  std::int32_t bn = 0;
  // Filled in for each launch. Numbers in device memory, null behind the last.
  const float* factors[kMaxFactors] = {};
  const float* c_factors[kMaxFactors] = {};
  float c_alpha = 1;
  float* amax = nullptr;  // 0 before the launch
};
static_assert(sizeof(Params) <= 4096, "parameters of a kernel");

// On `blocks` blocks; with splits the sums go to the workspace, and a second kernel joins them.
void launch(int shape, const Params& params, std::uint32_t blocks, CUstream_st* stream);

// The second kernel of a filter gradient: joins the partial sums that the kernel of halves left, and stores dw.
void launch_join_wgrad(const Params& params, CUstream_st* stream);

// `count` 8-bit floats, a multiple of 16, as halves.
void launch_widen(const void* in, void* out, bool is_e5m2, std::size_t count, CUstream_st* stream);

// [group][a][middle][b] to [group][b][middle][a]; a is a multiple of 16.
struct TransposeParams {
  const void* in = nullptr;
  void* out = nullptr;
  std::uint32_t groups = 1;
  std::uint32_t a = 0;
  std::uint32_t middle = 0;
  std::uint32_t b = 0;
};
void launch_transpose_bytes(const TransposeParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels::float8
