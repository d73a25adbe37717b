// From a convolution problem to the parameters of the mma.sync implicit GEMM.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm/implicit_gemm_sm80_params.hpp"

#include <algorithm>

namespace gpudnn::conv {
namespace {

namespace simt = kernels::simt;
namespace sm80 = kernels::sm80;

bool is_vector(simt::LoadMode mode) { return mode == simt::LoadMode::outer_vector || mode == simt::LoadMode::k_vector; }
bool is_k_major(simt::LoadMode mode) { return mode == simt::LoadMode::k_vector || mode == simt::LoadMode::k_scalar; }

// Takes over the mode of an operand under wider or narrower vectors, if it has such.
void adopt(simt::LoadMode mode, int bytes, sm80::Load* load) {
  if (is_vector(mode)) *load = {is_k_major(mode), bytes};
}

// The widest power of two of bytes, at most `vector`, to which the pointer is aligned.
std::int32_t aligned_vector(const void* pointer, std::int32_t vector, std::int32_t element) {
  while (vector > element && reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(vector) != 0) {
    vector /= 2;
  }
  return vector;
}

}  // namespace

Sm80Shape sm80_shape(const Problem& problem) {
  Sm80Shape shape;
  const int element = tile::element_bytes(tile_type(problem));
  const int widths[] = {2 * element, 4 * element, 16};
  SimtLoadModes modes[3];
  shape.gemm = simt_shape(problem, widths, modes);
  const SimtLoadModes& standard = modes[1];
  // From the narrowest vectors to the widest; scalars run along whatever has the shorter steps.
  shape.a = {is_k_major(standard.a), element};
  shape.b = {is_k_major(standard.b), element};
  if (!is_vector(standard.a) || !is_vector(standard.b)) {
    adopt(modes[0].a, widths[0], &shape.a);
    adopt(modes[0].b, widths[0], &shape.b);
  }
  adopt(standard.a, widths[1], &shape.a);
  adopt(standard.b, widths[1], &shape.b);
  if (shape.a.vector == widths[1] || shape.b.vector == widths[1]) {
    adopt(modes[2].a, 16, &shape.a);
    adopt(modes[2].b, 16, &shape.b);
  }
  return shape;
}

sm80::Params sm80_params(const Problem& problem) {
  const Sm80Shape shape = sm80_shape(problem);
  return {simt_params(problem), shape.a, shape.b};
}

void restrict_sm80_to_alignment(tile::ElementType type, sm80::Params* params) {
  simt::Params& p = params->gemm;
  restrict_to_alignment(p.a, p.b, p.c, p.z, type, &p);
  const auto element = static_cast<std::int32_t>(tile::element_bytes(type));
  params->a.vector = aligned_vector(p.a, params->a.vector, element);
  params->b.vector = aligned_vector(p.b, params->b.vector, element);
}

int sm80_row_for_loads(int row, const sm80::Params& params) {
  if (!sm80::needs_halves(params) || sm80::kTiles[row].halves_warps_n > 0) return row;
  int best = 0;
  for (int i = 0; i < sm80::kTileCount; ++i) {
    if (sm80::kTiles[i].halves_warps_n == 0) continue;
    best = i;
    if (sm80::kTiles[i].bn <= sm80::kTiles[row].bn) break;
  }
  return best;
}

std::uint32_t set_sm80_config(const Config& config, tile::ElementType type, simt::Params* p) {
  const sm80::TileRow& row = sm80::kTiles[config.tile];
  const std::int64_t tile_k = sm80::tile_k(type);
  const auto tiles = [](std::int64_t extent, int size) {
    return static_cast<std::uint32_t>((extent + size - 1) / size);
  };
  const std::uint32_t m_tiles = tiles(p->whole.m_count, row.bm);
  const std::uint32_t n_tiles = tiles(p->n_count, row.bn);
  p->m_tiles = tile::FastDivmod(m_tiles);
  p->n_tiles = tile::FastDivmod(n_tiles);
  p->splits = static_cast<std::uint32_t>(std::max(config.split_k, 1));
  const std::int64_t k_tiles = (p->whole.k_count + tile_k - 1) / tile_k;
  p->k_per_split = std::max<std::int64_t>((k_tiles + p->splits - 1) / p->splits, 1) * tile_k;
  return m_tiles * n_tiles * p->phases * p->groups * p->splits;
}

const char* sm80_index_unsupported_reason(const Problem& problem) {
  bool wide = false;
  if (const char* const reason = simt_index_unsupported_reason(problem, &wide)) return reason;
  return wide ? "indices or positions beyond 32 bits" : nullptr;
}

}  // namespace gpudnn::conv
