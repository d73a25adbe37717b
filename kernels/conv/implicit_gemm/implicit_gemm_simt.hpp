// The parameters of the SIMT implicit-GEMM convolution, and its index arithmetic, which runs on host and device alike.
// Plain data.
//
// Every direction is a product C[m, n] = sum over k of A[m, k] * B[k, n], with separable addresses: an element of A
// lies at outer[m] + inner[k], where outer and inner are linear in the digits of a mixed-radix index, and so for B and
// C.
//
//                    m                  n        k                  A    B    C
//   forward          (image, pixel)     filter   (channel, tap)     x    w    y
//   data gradient    (image, pixel)     channel  (filter, tap)      dy   w    dx
//   filter gradient  (channel, tap)     filter   (image, pixel)     x    dy   dw
//
// Beside the offset, each index has a coordinate: the three spatial positions, packed into one integer so that one add
// sums all of them. An element whose positions fall outside of the image counts as zero (see in_bounds).
//
// The data gradient with a stride is one dense problem for each stride phase of (pixel + padding) modulo the stride:
// only the filter taps of that phase meet those pixels. Classes share a launch; see Residues. Where channels are few,
// the phases are rather columns: n = (phase, channel), so that an element of dy, once loaded, serves all of them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/gemm/epilogue/activation.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels::simt {

using tile::FastDivmod;

constexpr int kDigits = 4;

// One tile of C for a block: bm x bn, a thread computes tm x tn of it, and the reduction advances by kTileK.
struct TileRow {
  tile::ElementType type;
  bool wide;  // 64-bit indices and coordinates: any size, slower
  int bm, bn, tm, tn;
  int lanes_m;        // lanes of a warp along m; the others lie along n
  int min_blocks;     // per multiprocessor: bounds the registers
  double efficiency;  // share of the multiply-add rate in a long reduction with full multiprocessors

  [[nodiscard]] constexpr int threads() const { return bm * bn / (tm * tn); }
};
constexpr int kTileK = 8;

using tile::ElementType;
// The instances of the kernel. An instance exists because a row lists it.
constexpr TileRow kTiles[] = {
    // clang-format off
    // type             wide   bm   bn  tm  tn  lanes blocks efficiency
    {ElementType::f32,  false, 128, 128, 16, 8,  8, 2, 0.96},
    {ElementType::f32,  false, 128,  64,  8, 8,  8, 4, 0.70},
    {ElementType::f32,  false,  64, 128,  8, 8,  8, 4, 0.74},
    {ElementType::f32,  false,  64,  64,  8, 8,  8, 8, 0.71},
    {ElementType::f32,  false, 128,  32,  8, 8,  8, 8, 0.62},
    {ElementType::f32,  false, 256,  16,  4, 8, 16, 4, 0.52},
    {ElementType::f32,  false, 256,   4,  4, 4, 32, 8, 0.20},
    {ElementType::f32,  true,   64,  64,  8, 8,  8, 6, 0.50},
    {ElementType::f64,  false,  64,  64,  4, 8,  8, 3, 0.35},
    {ElementType::f64,  true,   64,  64,  4, 8,  8, 3, 0.30},
    {ElementType::f16,  false, 128,  64,  8, 8,  8, 4, 0.70},
    {ElementType::f16,  false, 256,   4,  4, 4, 32, 8, 0.19},
    {ElementType::f16,  true,   64,  64,  8, 8,  8, 6, 0.45},
    {ElementType::bf16, false, 128,  64,  8, 8,  8, 4, 0.70},
    {ElementType::bf16, false, 256,   4,  4, 4, 32, 8, 0.19},
    {ElementType::bf16, true,   64,  64,  8, 8,  8, 6, 0.45},
    {ElementType::f32,  false, 512,  12,  4, 12, 32, 3, 0.50},  // 3 colours in 4 stride phases
    // clang-format on
};
constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

// Where an index points: an offset in bytes and packed spatial positions.
struct alignas(16) Entry {
  std::int64_t offset;
  std::int64_t coord;
};

// What one step of each digit adds.
struct LinearMap {
  Entry step[kDigits];
};

// A mixed-radix index: digit 0 takes what the radices of digits 1 to 3 leave.
struct Radices {
  FastDivmod of[kDigits - 1];
};

// The packed positions are fields of one integer, each with a spare top bit (in `guards`). With t the sum of the packed
// positions and limit the last valid ones, some field of t or of limit - t is negative if a position is out of bounds.
// The topmost field holds no position: an index beyond its end has `poison` there, which is out of bounds with any
// other.
struct Bounds {
  std::int64_t limit;
  std::int64_t guards;
  std::int64_t poison;
};

// C is std::uint32_t, or std::uint64_t in wide instances.
template <class C>
GPUDNN_HOST_DEVICE bool in_bounds(C t, C limit, C guards) {
  return ((t | (limit - t)) & guards) == 0;
}

// Which neighbours a warp's lanes load, one element each or a vector of them at once.
enum class LoadMode : std::int32_t { outer_scalar, outer_vector, k_scalar, k_vector };

// A or B: outer is m or n.
struct Operand {
  LinearMap outer;
  LinearMap inner;
  Entry base;
  Bounds bounds;
  std::int64_t group_step;
  LoadMode mode;
};

// C, and z of the fused epilogue: offsets by m and by n.
struct Output {
  LinearMap m;
  LinearMap n;
  Entry base;
  Bounds bounds;
  std::int64_t group_step;
  bool m_is_fast;  // memory runs along m, else along n
  bool vectors;    // ... in whole aligned vectors
};

// One spatial dimension of the data gradient with stride phases. For the phase rho in [0, stride): pixels
// h = first + stride * j with j below quotient or quotient + 1, and the taps r = first_tap + tap_step * u, which exist
// if gcd(stride, dilation) divides rho. Then dy's position is p = first_p + j - u * (dilation / gcd).
struct StridePhase {
  FastDivmod stride;
  FastDivmod gcd;
  FastDivmod tap_step;    // stride / gcd
  std::uint32_t inverse;  // of dilation / gcd modulo tap_step
  std::uint32_t dilation;
  std::int32_t pad_remainder;
  std::int32_t pad_quotient;
  std::uint32_t pixel_remainder;  // of the image's extent by the stride
  std::uint32_t tap_remainder;    // of the filter's extent by tap_step
  FastDivmod pixels[2];           // the quotient and one more; a count of zero stands as 1 in the divisor
  FastDivmod taps[2];
  std::uint32_t pixel_quotient;
  std::uint32_t tap_quotient;
  std::int64_t a_offset_of_p;  // bytes from one p to the next, and so on
  std::int64_t a_coord_of_p;
  std::int64_t b_offset_of_tap;
  std::int64_t c_offset_of_pixel;
};

// Extents and bases of one dense problem.
struct Geometry {
  std::int64_t m_count;
  std::int64_t k_count;
  Radices m;
  Radices k;
  Entry a_base;
  std::int64_t b_base;
  std::int64_t c_base;
};

struct Params {
  // Filled in for each launch.
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  void* workspace = nullptr;
  const void* z = nullptr;
  const void* bias = nullptr;
  const void* scale = nullptr;
  double alpha = 1;
  double beta = 0;
  double alpha2 = 0;
  gemm::ActivationArgs<double> activation;
  bool store_vectors = false;  // the pointers' alignment allows it, too

  // Fixed by the problem.
  bool wide = false;
  bool tap_digits_first = false;  // k = (taps, channel), else (channel, taps)
  bool has_bias = false;
  bool has_scale = false;
  bool float_vectors = false;  // bias and scale are floats, else of the data's type
  bool has_z = false;
  std::int64_t bias_step = 0;  // bytes between the biases of neighbouring channels
  std::int64_t scale_step = 0;
  std::int64_t n_count = 0;
  Radices n;
  Geometry whole;  // of the only phase, or upper bounds over the phases
  std::uint32_t phases = 1;
  std::int64_t m_images = 0;    // with phases: what multiplies the pixels of a phase to m_count ...
  std::int64_t k_channels = 0;  // ... and the taps to k_count
  StridePhase stride_phases[3];
  Operand operand_a;
  Operand operand_b;
  Output output;
  Output addend;  // z

  // Fixed by the config.
  std::int64_t k_per_split = 0;  // a multiple of kTileK
  std::uint32_t splits = 1;
  std::uint32_t groups = 1;
  FastDivmod n_tiles;
  FastDivmod phase_count;
  FastDivmod m_tiles;
  FastDivmod group_count;
};

// What a block works on. Consecutive blocks share rows of A through the L2: n is fastest, then the phase (whose
// neighbours interleave in dx), then m, the group, and slowest the part of the reduction.
struct TilePosition {
  std::uint32_t n, stride_phase, m, group, split;
};
GPUDNN_HOST_DEVICE TilePosition tile_position(const Params& p, std::uint32_t block) {
  TilePosition at;
  std::uint32_t rest = p.n_tiles.divmod(block, &at.n);
  rest = p.phase_count.divmod(rest, &at.stride_phase);
  rest = p.m_tiles.divmod(rest, &at.m);
  at.split = p.group_count.divmod(rest, &at.group);
  return at;
}

// kUnroll: 3 where the geometry shall stay in registers, 1 where it is in memory.
template <int kUnroll = 3>
GPUDNN_HOST_DEVICE void set_phase(const Params& p, std::uint32_t stride_phase, Geometry* g) {
  std::int64_t pixels = 1;
  std::int64_t taps = 1;
#ifdef __CUDA_ARCH__
#pragma unroll kUnroll
#endif
  for (int i = 2; i >= 0; --i) {
    const StridePhase& r = p.stride_phases[i];
    std::uint32_t rho = 0;
    stride_phase = r.stride.divmod(stride_phase, &rho);
    auto first = static_cast<std::int32_t>(rho) - r.pad_remainder;
    const bool wrapped = first < 0;
    if (wrapped) first += static_cast<std::int32_t>(r.stride.divisor);
    const bool more_pixels = static_cast<std::uint32_t>(first) < r.pixel_remainder;
    pixels *= r.pixel_quotient + (more_pixels ? 1 : 0);
    std::uint32_t off_grid = 0;
    const std::uint32_t scaled = r.gcd.divmod(rho, &off_grid);
    std::uint32_t first_tap = 0;
    (void)r.tap_step.divmod(scaled * r.inverse, &first_tap);
    const bool more_taps = first_tap < r.tap_remainder;
    taps *= off_grid != 0 ? 0 : r.tap_quotient + (more_taps ? 1 : 0);
    const std::int64_t first_p =
        r.pad_quotient + (wrapped ? 1 : 0) - static_cast<std::int64_t>(r.stride.quotient(first_tap * r.dilation));
    g->m.of[i] = r.pixels[more_pixels ? 1 : 0];
    // Constant indices on both ways once the loop is unrolled.
    if (p.tap_digits_first) {
      if (i > 0) g->k.of[i > 0 ? i - 1 : 0] = r.taps[more_taps ? 1 : 0];
    } else {
      g->k.of[i] = r.taps[more_taps ? 1 : 0];
    }
    g->a_base.offset += first_p * r.a_offset_of_p;
    g->a_base.coord += first_p * r.a_coord_of_p;
    g->b_base += first_tap * r.b_offset_of_tap;
    g->c_base += first * r.c_offset_of_pixel;
  }
  g->m_count = p.m_images * pixels;
  g->k_count = p.k_channels * taps;
}

template <int kUnroll = 3>
GPUDNN_HOST_DEVICE void set_geometry(const Params& p, std::uint32_t stride_phase, Geometry* g) {
  *g = p.whole;
  if (p.phases > 1) set_phase<kUnroll>(p, stride_phase, g);
}

template <class Index>
struct DigitsOf {
  Index of[kDigits];
};

GPUDNN_HOST_DEVICE DigitsOf<std::uint32_t> digits(const Radices& radices, std::uint32_t index) {
  DigitsOf<std::uint32_t> d;
  index = radices.of[2].divmod(index, &d.of[3]);
  index = radices.of[1].divmod(index, &d.of[2]);
  d.of[0] = radices.of[0].divmod(index, &d.of[1]);
  return d;
}
GPUDNN_HOST_DEVICE DigitsOf<std::uint64_t> digits(const Radices& radices, std::uint64_t index) {
  DigitsOf<std::uint64_t> d;
  for (int i = 2; i >= 0; --i) {
    const std::uint64_t quotient = index / radices.of[i].divisor;
    d.of[i + 1] = index - quotient * radices.of[i].divisor;
    index = quotient;
  }
  d.of[0] = index;
  return d;
}

template <class Index>
GPUDNN_HOST_DEVICE Entry evaluate(const LinearMap& map, const DigitsOf<Index>& d, Entry base) {
#ifdef __CUDA_ARCH__
#pragma unroll
#endif
  for (int i = 0; i < kDigits; ++i) {
    base.offset += static_cast<std::int64_t>(d.of[i]) * map.step[i].offset;
    base.coord += static_cast<std::int64_t>(d.of[i]) * map.step[i].coord;
  }
  return base;
}

// The entry of an index in a map, or an out-of-bounds one at and beyond `count`.
template <class Index>
GPUDNN_HOST_DEVICE Entry entry_or_poison(const LinearMap& map, const Radices& radices, Index index, Index count,
                                         Entry base, std::int64_t poison) {
  if (index >= count) return Entry{0, poison};
  return evaluate(map, digits(radices, index), base);
}

// Launches the instance kTiles[row] on `blocks` blocks. With splits > 1 the sums go to the workspace, and a reduction
// kernel follows.
void launch(int row, const Params& params, std::uint32_t blocks, CUstream_st* stream);
// That reduction: of `tiles` tiles of bm x bn in params.splits parts. Other kernels with the same tiles use it, too.
void reduce_partial_sums(tile::ElementType type, int bm, int bn, const Params& params, std::uint32_t tiles,
                         CUstream_st* stream);

// Bytes of workspace of `blocks` tiles (all splits), with room to align the caller's pointer.
constexpr std::size_t kWorkspaceAlignment = 16;
constexpr std::size_t partial_bytes(const TileRow& row, std::size_t blocks) {
  const std::size_t element = row.type == ElementType::f64 ? 8 : 4;
  return blocks * static_cast<std::size_t>(row.bm * row.bn) * element + kWorkspaceAlignment;
}

}  // namespace gpudnn::kernels::simt
