// The parameters of the tensor-core implicit-GEMM convolution through mma.sync. The product, its index arithmetic and
// most parameters are those of the SIMT kernel (implicit_gemm_simt.hpp); here is what differs. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_simt.hpp"

namespace gpudnn::kernels::sm80 {

using tile::ElementType;

// One tile of C for a block: bm x bn by warps_m x warps_n warps; the reduction advances by kTileKBytes of an operand.
struct TileRow {
  int bm, bn;
  int warps_m, warps_n;
  int stages;      // tiles of the reduction in shared memory
  int min_blocks;  // per multiprocessor: bounds the registers
  // Elements of 16 bits that lie at odd places have to pass through registers, one by one. Such an instance has more
  // warps, each with fewer sums: `halves_warps_n` in place of warps_n; 0: no such instance.
  int halves_warps_n;
  int halves_min_blocks;
  double efficiency;  // share of the mma.sync rate in a long reduction with full multiprocessors

  [[nodiscard]] constexpr int threads(bool halves) const { return 32 * warps_m * (halves ? halves_warps_n : warps_n); }
};
constexpr int kTileKBytes = 64;
constexpr int tile_k(ElementType type) { return kTileKBytes / tile::element_bytes(type); }

// The shapes of the instances, the same for each type.
constexpr TileRow kTiles[] = {
    // clang-format off
    //  bm   bn  warps stages blocks halves efficiency
    {256, 128,  4, 2, 3, 1,  0, 0, 0.86},
    {128, 128,  2, 2, 4, 2,  4, 1, 0.80},
    {128,  64,  2, 2, 4, 3,  0, 0, 0.64},
    { 64,  64,  2, 2, 4, 4,  2, 3, 0.50},
    {128,  32,  4, 1, 4, 4,  0, 0, 0.42},
    // clang-format on
};
constexpr int kTileCount = sizeof(kTiles) / sizeof(kTiles[0]);

// Which file has a row's instances: the first call into a module loads all of it, 5 ms for those of all rows. Rows with
// instances for halves have twice as many as others.
constexpr int part_of_row(int row) { return row == 1 ? 0 : row < 3 ? 1 : 2; }

// How an operand lies in shared memory and gets there.
struct Load {
  bool k_major = false;     // neighbours in k lie side by side, else neighbours in m or n
  std::int32_t vector = 0;  // bytes of a copy; 2: halves, through registers
};

struct Params {
  simt::Params gemm;
  Load a;
  Load b;
};

// The type of instance that the loads need.
constexpr bool needs_halves(const Params& p) { return p.a.vector < 4 || p.b.vector < 4; }

// Whether this library holds machine code, or an intermediate form of it, that runs these kernels on the current
// device.
[[nodiscard]] bool available();

// Launches the instance of a row of the part; one of another part does nothing.
template <ElementType kType, int kPart>
void launch_part(int row, const Params& params, std::uint32_t blocks, CUstream_st* stream);

// Launches the instance of kTiles[row] for the parameters on `blocks` blocks. With splits > 1 the sums go to the
// workspace, and the SIMT engine's reduction follows.
void launch(int row, ElementType type, const Params& params, std::uint32_t blocks, CUstream_st* stream);

constexpr std::size_t partial_bytes(const TileRow& row, std::size_t blocks) {
  return blocks * static_cast<std::size_t>(row.bm * row.bn) * sizeof(float) + simt::kWorkspaceAlignment;
}

}  // namespace gpudnn::kernels::sm80
