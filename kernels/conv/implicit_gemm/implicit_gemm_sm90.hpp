// The parameters of the Hopper implicit-GEMM convolution: plain data, shared by the launcher and the kernel.
//
// Every direction is a product C[m, n] = sum over k of A[m, k] * B[k, n]:
//
//                    m                n                k                A    B    C
//   forward          pixel of y       filter           (tap, channel)   x    w    y
//   data gradient    pixel of dx      channel          (tap, filter)    dy   w    dx
//   filter gradient  filter           (tap, channel)   pixel of y       dy   x    dw
//
// Pixels are fetched by TMA's im2col mode: a box of the tensor map's traversal over output pixels, moved by the offset
// of a filter tap; what lies outside of the image is zero. The data gradient with a stride is one dense problem for
// each stride phase of (pixel + padding) modulo the stride, because only the taps of that phase meet those pixels:
// each phase has a tensor map, a pixel grid and a list of taps; all phases share a launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/epilogue/activation.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"
#include "kernels/tile/tensor_map.hpp"

struct CUstream_st;

namespace gpudnn::kernels::sm90 {

using tile::ElementType;
using tile::FastDivmod;
using tile::TensorMap;

enum class Direction : std::int32_t { forward, data_gradient, filter_gradient };

// A tile of C for a block. Cooperative: the consumer warpgroups share its rows, 64 (TF32 filter gradient: up to 128)
// each. Ping-pong: the consumers take whole tiles in turn, one multiplying while the others store.
struct TileShape {
  std::int16_t bm, bn;
  bool ping_pong;
  std::int8_t consumers;
  std::int8_t stages;
  // Of a pixel's channels in a k tile (forward and data gradient): 128, or 64 where channels are few.
  std::uint8_t k_bytes;
  double efficiency;             // rate in a long reduction over that of a large matrix product
  bool transposes = false;       // of the TF32 filter gradient, and of it alone: its consumers share the rows
  bool cluster_split_k = false;  // the splits of a tile are the blocks of a cluster, which add up their sums
  // Forward and data gradient: C's columns are the rows m of the product and pixels its columns n, of which
  // a tile can have any multiple of 16.
  bool swap_ab = false;
  // Filter gradient in 16 bits: a block for each tile, and others that take a share of each tile's reduction off it
  // (implicit_gemm_sm90_stream_k.cuh). The kernel is that of the same shape without.
  bool stream_k = false;

  // Of C: pixels (in the filter gradient filters) and columns.
  [[nodiscard]] constexpr int rows_of_c() const { return swap_ab ? bn : bm; }
  [[nodiscard]] constexpr int columns_of_c() const { return swap_ab ? bm : bn; }
};
constexpr TileShape kShapes[] = {
    // clang-format off
    {128, 256, false, 2,  4, 128, 1.00},
    {128, 128, true,  2,  6, 128, 1.05},
    {128,  64, true,  3,  6, 128, 0.93},
    { 64, 256, true,  2,  4, 128, 0.91},
    { 64, 128, true,  3,  6, 128, 0.96},
    { 64,  64, true,  3,  8, 128, 0.36},
    {128, 192, false, 2,  4, 128, 0.92},
    { 64, 192, true,  2,  6, 128, 0.81},
    {192, 128, false, 3,  4, 128, 1.05},
    {128,  64, true,  3, 10,  64, 0.80},
    {128,  96, false, 2,  6, 128, 1.00, false, false, true},
    {192, 128, false, 3,  8,  64, 0.90},
    // Shared memory is the limit of these (see implicit_gemm_sm90_wgrad_tf32.cuh).
    {256, 128, false, 2,  4, 128, 0.70, true},
    {128, 128, false, 2,  6, 128, 0.55, true},
    { 64, 128, false, 1,  8, 128, 0.38, true},
    {128, 128, false, 2,  6, 128, 1.00, false, true},
    { 64, 128, false, 1,  8, 128, 0.70, false, true},
    // Channels in multiples of 320.
    {128, 160, false, 2,  5, 128, 1.00},
    {256, 160, false, 2,  4, 128, 1.00},
    {128, 192, false, 2,  4, 128, 0.92, false, false, false, true},
    {256,  96, false, 2,  4, 128, 1.00, false, false, true},
    // clang-format on
};
// Of MN-major operands and of C in shared memory: 64 halves or 32 floats. The filter gradient's k tiles are as many
// pixels.
constexpr int kRowBytes = 128;
constexpr int kShapeCount = sizeof(kShapes) / sizeof(kShapes[0]);

// Whether the kernel has a shape for a direction of a type of so many bytes.
constexpr bool has_shape(const TileShape& shape, Direction direction, int element_bytes) {
  const bool by_taps = direction == Direction::filter_gradient;
  if (shape.transposes != (by_taps && element_bytes == 4)) return false;
  if (shape.swap_ab && by_taps) return false;
  // Measured: 256 columns of C for 96 pixels pay in TF32 forward alone, and 64 x 192 nowhere in TF32.
  if (shape.swap_ab && shape.bm == 256 && (direction != Direction::forward || element_bytes == 2)) return false;
  if (shape.bm == 64 && shape.bn == 192 && element_bytes == 4) return false;
  if (shape.stream_k && (!by_taps || element_bytes == 4)) return false;
  // An MN-major filter comes in boxes of 64 columns.
  if (shape.columns_of_c() % 64 != 0 && (direction != Direction::forward || element_bytes != 2)) return false;
  return !by_taps || shape.k_bytes == 128;
}

// The shape whose kernel it is.
constexpr int kernel_of_shape(int shape) {
  if (!kShapes[shape].stream_k) return shape;
  for (int i = 0; i < kShapeCount; ++i) {
    const TileShape& other = kShapes[i];
    if (!other.stream_k && !other.cluster_split_k && !other.transposes && !other.ping_pong &&
        other.bm == kShapes[shape].bm && other.bn == kShapes[shape].bn && other.k_bytes == kRowBytes) {
      return i;
    }
  }
  return shape;
}
constexpr bool is_stream_k_elsewhere(int shape) {
  for (int i = 0; i < kShapeCount; ++i) {
    if (kShapes[i].stream_k && kernel_of_shape(i) == shape) return true;
  }
  return false;
}

// Whether the kernel of a shape has the epilogue of implicit_gemm_sm90_fused.cuh.
constexpr bool has_fused_epilogue(const TileShape& shape, Direction direction, int element_bytes) {
  return direction == Direction::forward && element_bytes == 2 && !shape.cluster_split_k;
}

// Sums of a thread while a tile is multiplied.
constexpr int accumulators(const TileShape& shape) {
  return shape.bm / 64 / (shape.ping_pong ? 1 : shape.consumers) * shape.bn / 2;
}
// What that epilogue has besides, where registers are left: sums that begin with the bias, and the sums by channel.
constexpr bool starts_with_bias(const TileShape& shape) { return accumulators(shape) < 160; }
constexpr bool has_channel_sums(const TileShape& shape) {
  return shape.ping_pong ? accumulators(shape) <= 128 : accumulators(shape) < 128;
}

// What the kernel does with a tile's sums. In turn with other kernels the code that a block meets comes from memory,
// and a kernel with every epilogue is 250 KB where one with the sums as they are is 16 to 20: so what most calls ask
// for are kernels of their own, of the shapes with the fused epilogue.
enum class Epilogue : std::int32_t {
  any,
  plain,      // the sums as they are, in boxes; or partial sums of a split reduction
  bias_relu,  // the sums began with the bias; identity or ReLU
};
constexpr bool has_epilogue(const TileShape& shape, Direction direction, int element_bytes, Epilogue epilogue) {
  if (epilogue == Epilogue::any) return true;
  return has_fused_epilogue(shape, direction, element_bytes) &&
         (epilogue == Epilogue::plain || starts_with_bias(shape));
}

constexpr int kMaxFixupTiles = 256;       // tiles ...
constexpr int kMaxFixupKTiles = 1 << 20;  // ... and k tiles: their product counts in 31 bits

constexpr int kMaxPhases = 9;
constexpr int kMaxClusterSplits = 8;           // blocks of a cluster on any device
constexpr std::int64_t kMaxRows = 0x7f000000;  // of C; room for tiles beyond them in 31 bits

// Of a row of C on its epilogue: 128, or 64 where the tile's columns are no multiple of that.
constexpr int chunk_bytes(const TileShape& shape) { return shape.columns_of_c() % 64 == 0 ? kRowBytes : kRowBytes / 2; }

// One dense problem: all there is, or a stride phase of the data gradient. Index 0 is w, 1 is h, 2 is d.
struct DenseProblem {
  FastDivmod extent[3];         // of the pixel grid; the image is what they leave
  std::uint32_t pixels = 0;     // of all images
  std::int32_t corner[3] = {};  // of the first pixel's window
  std::uint32_t taps[3] = {1, 1, 1};
  std::int32_t first_tap = 0;     // number in the filter of the tap at the window's corner ...
  std::int32_t tap_step[3] = {};  // ... and of its neighbours, relative to it
  std::int64_t c_base = 0;        // bytes from the tensor's start to the first pixel of C
  std::uint32_t first_work = 0;   // number of the phase's first work item
  FastDivmod m_tiles;             // along the rows of C
  std::uint32_t k_blocks = 0;
  std::uint32_t k_blocks_per_split = 0;
};

// Of a channel of C, over some of its rows.
struct alignas(8) ChannelTotal {
  float sum, squares;
};

// What the first load waits for comes first, close together: parameters that are not in the caches yet take a memory
// access for each line.
struct Params {
  // --- the way to a work item's loads; fixed by the config ...
  FastDivmod works;  // tiles: the work items of a split
  FastDivmod n_tiles;
  std::uint32_t splits = 1;
  std::uint32_t fixup_ctas = 0;  // blocks that take the last `fix-up` k tiles of each tile off the tile's own block:
  FastDivmod fixup;              // of them, one tile's after the other's, each has `fixup_quantum`. Not divided by as
  std::uint32_t fixup_quantum = 0;  // a number, lest the compiler forget that all lanes have the same work item.
  // ... and by the problem
  std::uint32_t phases = 1;
  std::int32_t stride[3] = {1, 1, 1};      // of the windows
  std::int32_t tap_offset[3] = {1, 1, 1};  // pixels from tap to tap
  std::uint32_t a_channels = 0;            // of a group: of A's tensor
  std::uint32_t b_channels = 0;            // of a group: of B's tensor, along the dimension that groups divide
  std::uint32_t b_channels_all = 0;        // filter gradient: of all groups, a coordinate that is out of bounds
  std::uint32_t channel_chunks = 1;        // k tiles that hold a pixel's channels of a group
  FastDivmod chunks_of_n;                  // filter gradient: chunks of kRowBytes of channels in a tap
  FastDivmod taps_of_n[2];                 // filter gradient: s and r extents of the filter
  std::uint32_t n_chunks = 0;              // filter gradient: chunks of all taps
  bool three_dimensional = false;          // the tensor maps have rank 5, not 4
  bool a_is_matrix = false;                // its pixels, each with one tap, are even rows: a tiled map fetches them,
  bool b_is_matrix = false;                // for which TMA has less to work out
  bool m_is_fastest = false;               // filter gradient: neighbouring work items share columns of C, not rows
  bool filter_by_pdl = false;              // the kernel before is still transposing it
  // Data gradient: the phases take turns of so many tiles, so that what they read they find in the L2; 0: one phase
  // comes after the other.
  std::uint32_t turn = 0;
  std::uint32_t tiles_of_class = 0;
  FastDivmod works_of_raster_group;

  // --- the epilogue
  bool has_bias = false;
  bool has_scale = false;
  bool float_vectors = false;  // bias and scale are floats, else of C's type
  bool c_is_even = false;      // every pixel lies c_step[0] after the one before
  bool addend_is_even = false;
  bool stores_boxes = false;  // C has a tensor map
  // Filled in for each launch.
  bool is_plain = false;  // C = sum: nothing is scaled, combined or added, and there is no activation
  // implicit_gemm_sm90_fused.cuh stores the tiles ...
  bool is_fused = false;
  bool adds_boxes = false;  // ... the addend comes in boxes ...
  bool has_curve = false;   // ... f is neither identity nor ReLU at 0, which rounding has at no cost ...
  bool is_simple = false;   // ... or nothing of that and alpha is 1: the sums, which began with the bias, are rounded
  float alpha = 1;
  float addend_scale = 0;  // 0: the addend is not read
  gemm::ActivationArgs<float> activation;
  void* c = nullptr;
  const void* addend = nullptr;  // what is combined in: C itself, or z
  const void* bias = nullptr;
  const void* scale = nullptr;
  float* partials = nullptr;
  std::uint64_t fixup_key = 0;  // tile/mailboxes.cuh
  // Fixed by the problem.
  std::uint32_t m_count = 0;        // filter gradient: filters of a group
  std::uint32_t n_count = 0;        // columns of a group; in the filter gradient channels of a tap
  std::uint32_t group_columns = 0;  // of C from group to group (filter gradient: rows)
  std::int64_t bias_step = 0;       // bytes
  std::int64_t scale_step = 0;
  std::int64_t c_step[4] = {};  // bytes from pixel to pixel along w, h, d, n; filter gradient: [0] of filters
  std::int64_t addend_step[4] = {};

  DenseProblem problem[kMaxPhases];
  TensorMap a[kMaxPhases];
  TensorMap b;
  TensorMap c_map;
  TensorMap addend_map;  // of the fused epilogue: boxes as C's
  // The sums of C and of its squares by channel, of the fused epilogue: rows that finish_sums adds up; null: none.
  ChannelTotal* totals = nullptr;
  std::uint32_t total_channels = 0;  // of a row
  bool totals_of_blocks = false;     // a row for each block, whose tiles all have the same columns; else for each tile
};
static_assert(sizeof(Params) <= 4096, "parameters of a kernel");

using LaunchShape = void (*)(const Params& params, std::uint32_t blocks, CUstream_st* stream);
// The instances of a type and direction, made in a file of their own.
template <class T, Direction kDirection>
LaunchShape launch_of(int shape);
LaunchShape launch_of_wgrad_tf32(int shape);

// Launches the instance on `blocks` blocks. With splits > 1 the sums go to the workspace, and a second kernel joins
// them; but where the shape joins them itself, there is a block for each work item and split.
void launch(int shape, ElementType type, Direction direction, const Params& params, std::uint32_t blocks,
            CUstream_st* stream);

// The rows of totals of a launch on `blocks` blocks, and whether they are those of blocks.
struct Totals {
  std::uint32_t rows = 0;
  bool of_blocks = false;
};
constexpr Totals totals_of(const TileShape& shape, std::uint32_t m_tiles, std::uint32_t n_tiles, std::uint32_t groups,
                           std::uint32_t blocks) {
  const auto consumers = static_cast<std::uint32_t>(shape.swap_ab ? 1 : shape.consumers);
  if (groups == 1 && blocks % n_tiles == 0) return {blocks / n_tiles * consumers, true};
  return {m_tiles * (shape.ping_pong ? 1 : consumers), false};
}

// Adds up the rows, in order: sum[c] and squares[c] (or null) of `channels`, a multiple of 8. Launched behind the
// product.
void launch_finish_sums(const ChannelTotal* totals, std::uint32_t rows, std::uint32_t channels, float* sum,
                        float* squares, CUstream_st* stream);

// Bytes of the partial sums of `tiles` tiles (of all splits).
constexpr std::size_t partial_bytes(const TileShape& shape, std::size_t tiles) {
  return tiles * static_cast<std::size_t>(shape.bm * shape.bn) * sizeof(float);
}

}  // namespace gpudnn::kernels::sm90
