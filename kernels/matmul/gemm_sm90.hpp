// The Hopper matrix product: its configs, and the parameters that the host gives its kernel. Plain data.
//
//   v = alpha * sum + beta * c + bias;  v = f(v);  amax = max(amax, |v|);  d = convert(scale_d * v)
//
// How a caller runs it: describe the product (Gemm), take a config that fits (unsupported_reason), let
// plan_gemm_sm90 fill in the parameters, encode the tensor maps that the plan describes (MapBoxes, rank 4, 128-byte
// swizzle), and launch. A second call with other pointers replaces the addresses of the maps and of `Epilogue`.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/gemm/sm90/params.hpp"

struct CUstream_st;

namespace gpudnn::kernels::matmul::sm90 {

using gemm::Epilogue;
using gemm::Matrix;
using gemm::sm90::Multicast;
using gemm::sm90::Params;
using gemm::sm90::TileShape;

constexpr TileShape kTiles[] = {
    // clang-format off
    // name             bm   bn  ping-pong consumers stages residency efficiency swap-AB
    {"bm128_bn256",     128, 256, false, 2,  4, 1, 1.02f},
    {"bm128_bn224",     128, 224, false, 2,  4, 1, 1.00f},
    {"bm128_bn208",     128, 208, false, 2,  4, 1, 0.99f},
    {"bm128_bn192",     128, 192, false, 2,  4, 1, 0.98f},
    {"bm128_bn160",     128, 160, false, 2,  5, 1, 0.97f},
    {"bm128_bn128_pp",  128, 128, true,  2,  6, 1, 0.96f},
    {"bm128_bn128",     128, 128, false, 2,  6, 1, 0.97f},
    {"bm64_bn128_pp",    64, 128, true,  2,  8, 1, 0.80f},
    {"bm64_bn64_x2",     64,  64, true,  1,  6, 2, 0.85f},
    {"bm64_bn64_swap",   64,  64, false, 1,  3, 4, 0.60f, true},
    {"bm16_bn64_swap",   16,  64, false, 1,  5, 4, 0.20f, true},
    // clang-format on
};
constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

// Tiles for a last round of blocks that is fuller than with others: of 16-bit elements, B K-major, for D = alpha * sum
// in boxes, the last of which overlaps the one before.
constexpr bool is_plain_tile(const TileShape& tile) { return tile.bn % 64 != 0; }

struct GemmConfig {
  std::int32_t tile = 0;
  Multicast multicast = Multicast::none;
  std::int32_t splits = 1;  // 1, 2, 3, 4 or 8 blocks of a cluster share a tile's k; swap-AB tiles not 3
  std::int32_t raster = 8;  // tiles along m that neighbouring blocks take before the next along n
};

// a or b. Strides in elements.
struct Operand {
  const void* data = nullptr;
  Element type = Element::bf16;
  bool mn_major = false;        // neighbours in m (or n), not in k, lie side by side; 16-bit elements only
  std::int64_t row_stride = 0;  // K-major: from m (n) to the next; MN-major: from k to the next
  std::int64_t batch_stride[2] = {};
  std::int64_t repeat[2] = {1, 1};  // batches of d that one batch of it serves
};

// One product, or a batch of them: batch index 0 is the outer one.
struct Gemm {
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch[2] = {1, 1};
  bool fast_accumulation = true;  // fp8: sums stay in the tensor core's accumulator, which has fewer bits than a float
  bool promotes = false;  // bf16, both K-major: a k tile's sums are added to others in float, rounded to nearest
  bool is_plain = false;  // D = alpha * sum in every call
  Operand a;
  Operand b;
  Epilogue epilogue;
};

// A tensor map to encode: dimensions from the fastest on, elements of `type`. The swizzle is that of 128-byte rows; f32
// operands (not D) are rounded to TF32 on their way in.
struct MapBoxes {
  const void* data = nullptr;
  Element type = Element::bf16;
  std::int64_t extent[4] = {1, 1, 1, 1};
  std::int64_t step[3] = {16, 16, 16};  // bytes between neighbours along the dimensions from the second on
  std::int32_t box[4] = {1, 1, 1, 1};
};

struct GemmPlan {
  Params params;
  MapBoxes a;  // with swap_ab of the caller's b
  MapBoxes b;
  MapBoxes d;  // only where params.stores_boxes
  std::uint32_t blocks = 0;
  std::uint32_t cluster = 1;
  Element element_type = Element::bf16;  // of a
  std::int32_t tile = 0;
  bool swap_ab = false;
};

// Null if the kernel takes the product with the config, else why not, in static text.
[[nodiscard]] const char* unsupported_reason(const Gemm& gemm, const GemmConfig& config) noexcept;
[[nodiscard]] GemmPlan plan_gemm_sm90(const Gemm& gemm, const GemmConfig& config, int multiprocessors) noexcept;

using LaunchTile = void (*)(const Params& params, std::uint32_t blocks, std::uint32_t cluster, CUstream_st* stream);
// The instances of a type, made in a file of their own; plain: D = alpha * sum. Float8E4M3 stands for all 8-bit floats.
template <class T>
LaunchTile launch_of(int tile, bool plain);

// Whether a tile leaves registers for a second set of sums; and the instances of those that do, of bf16.
constexpr bool promotes_sums(const TileShape& tile) {
  return !tile.swap_ab && !is_plain_tile(tile) && tile.row_blocks() * tile.bn / 2 <= 96;
}
LaunchTile launch_of_promoted(int tile, bool plain);

// The params of the plan, with tensor maps encoded and pointers current. A failure stays with the runtime.
void launch_gemm_sm90(const GemmPlan& plan, CUstream_st* stream);

}  // namespace gpudnn::kernels::matmul::sm90
