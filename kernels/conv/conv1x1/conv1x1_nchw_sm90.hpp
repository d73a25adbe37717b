// The parameters of the Hopper pointwise convolution on planes (NCHW): plain data, shared by the launcher and the
// kernels.
//
// A pointwise convolution of images whose planes (all pixels of one channel) are contiguous is a product for each
// image, with nothing to move:
//
//                    written          sum over      of
//   forward          y[n][k][pixel]   c             w[k][c] * x[n][c][pixel]
//   data gradient    dx[n][c][pixel]  k             w[k][c] * dy[n][k][pixel]
//   filter gradient  dw[k][c]         n, pixel      dy[n][k][pixel] * x[n][c][pixel]
//
// Planes are cut into chunks of 128 bytes of pixels, the last one of a plane shorter; a tile takes chunks as they come,
// of one image or of many.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.hpp"

namespace gpudnn::kernels::sm90::planes {

// across: sums over planes, into pixels (forward and data gradient). along: sums over pixels (filter gradient).
enum class Kind : std::int32_t { across, across_tf32, along };

// A tile of the product, of bm rows and bn columns. Rows and columns are
//   across        written planes and pixels
//   across_tf32   pixels and written planes: TF32 comes from registers where it is not contiguous along the sum
//   along         planes of dy and planes of x
struct TileShape {
  Kind kind;
  int bm, bn;
  bool ping_pong;
  int consumers;
  int stages;
  double efficiency;  // rate in a long reduction over that of a large matrix product
  // Threads copy the image tensors, in pieces of 8 or 4 bytes: for planes that do not begin at multiples of 16, which
  // TMA wants.
  bool by_threads = false;
  int cluster = 1;  // blocks that lie along written planes and share the loads of pixels (across)
};
constexpr TileShape kTileShapes[] = {
    // clang-format off
    {Kind::across,      128, 128, true,  2, 6, 1.00},
    {Kind::across,       64, 128, true,  3, 6, 0.90},
    {Kind::across,      128, 128, true,  2, 6, 1.00, false, 2},
    {Kind::across_tf32, 128, 128, true,  2, 6, 0.75},
    {Kind::across_tf32, 128,  64, true,  3, 8, 0.60},
    {Kind::across_tf32, 256, 128, false, 2, 4, 0.85},
    {Kind::along,       128, 128, true,  2, 6, 1.00},
    {Kind::along,       128,  64, true,  3, 8, 0.85},
    {Kind::along,        64, 128, true,  3, 8, 0.90},
    {Kind::along,       128, 256, false, 2, 4, 0.95},
    {Kind::across,      128, 128, true,  2, 6, 0.50, true},
    {Kind::along,       128, 128, true,  2, 6, 0.55, true},
    // clang-format on
};
constexpr int kTileShapeCount = sizeof(kTileShapes) / sizeof(kTileShapes[0]);

constexpr int kBlock = 64;  // of planes, in a box

struct Params {
  // --- the way to a work item's loads
  FastDivmod works;        // clusters of tiles, of a split
  FastDivmod inner_tiles;  // across: clusters along written planes; along: planes of x. Inner tiles are neighbours
  std::uint32_t splits = 1;
  FastDivmod chunks_of_image;
  std::uint32_t chunks = 0;  // of all images
  std::uint32_t k_blocks = 0;
  std::uint32_t k_blocks_per_split = 0;
  std::uint32_t in_planes = 0;   // of x; data gradient: of dy
  std::uint32_t out_planes = 0;  // of y; data gradient: of dx; filter gradient: of dy

  // --- the epilogue
  std::uint32_t pixels = 0;  // of a plane
  bool has_bias = false;
  bool float_vectors = false;   // the bias is of floats, else of the data's type
  bool addend_vectors = false;  // the addend comes in by vectors: of four pixels in TF32, else of two
  // Filled in for each launch.
  bool is_plain = false;  // C = sum: nothing is scaled, combined or added, and there is no activation
  float alpha = 1;
  float addend_scale = 0;  // 0: the addend is not read
  gemm::ActivationArgs<float> activation;
  void* c = nullptr;
  const void* addend = nullptr;  // what is combined in: C itself, or z
  const void* bias = nullptr;
  float* partials = nullptr;
  // by_threads: what TMA has maps of.
  const void* in_data = nullptr;
  const void* out_data = nullptr;
  std::int64_t in_step[2] = {};  // bytes from plane to plane, from image to image
  std::int64_t out_step[2] = {};
  // Bytes. Across: from plane to plane, from image to image. Along: of dw, from filter to filter and channel to
  // channel.
  std::int64_t c_step[2] = {};
  std::int64_t addend_step[2] = {};
  std::int64_t bias_step = 0;

  TensorMap in;
  TensorMap out;
  TensorMap filter;
};
static_assert(sizeof(Params) <= 4096, "parameters of a kernel");

using LaunchPlanes = void (*)(const Params& params, std::uint32_t blocks, CUstream_st* stream);
// The instances of a type and direction, made in the file of the type.
template <class T, Direction kDirection>
LaunchPlanes launch_of(int shape);

// Launches the instance of kTileShapes[shape]. Sums of the filter gradient go to the workspace, and a second kernel
// joins them.
void launch(int shape, ElementType type, Direction direction, const Params& params, std::uint32_t blocks,
            CUstream_st* stream);

// --- index maps of the TF32 kernel, for it and for its test on the host
// -----------------------------------------------

// A box is 32 planes (rows of 128 bytes) of 32 pixels, its vectors of 4 pixels swizzled. Of a box, lanes 4g to 4g + 3
// own the vector number vector_of_group(g): then the 8 lanes that an access serves at once meet 8 different places, for
// rows t and t + 4, t = lane % 4, have swizzles that differ in the lower two bits, and the vectors differ in the upper
// one.
constexpr int kBoxPixels = 32;
constexpr int kBoxBytes = 32 * kRowBytes;
constexpr int vector_of_group(int group) { return (group & 1) << 2 | group >> 1; }
// The byte of a box with a lane's vector of pixels in row t (0) or t + 4 (1) of the first 8.
constexpr int fragment_at(int lane, int column_half) {
  const int row = lane % 4 + 4 * column_half;
  return row * kRowBytes + ((vector_of_group(lane / 4) ^ (row & 7)) << 4);
}

}  // namespace gpudnn::kernels::sm90::planes
