// From a convolution problem to the parameters of the SIMT implicit GEMM.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm/implicit_gemm_simt_params.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "ops/conv/epilogue_args.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_simt_mapping.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_simt_modes.hpp"
#include "ops/conv/implicit_gemm/implicit_gemm_simt_packing.hpp"
#include "ops/loop_nest.hpp"

namespace gpudnn::conv {
namespace {

using namespace kernels::simt;  // NOLINT: this file speaks of nothing else
using namespace mapping;        // NOLINT: and how to get there
using std::int64_t;

LinearMap to_map(const Digits& digits, Step Digit::*side, const Packing& packing, int64_t bytes) {
  LinearMap map;
  for (int i = 0; i < kDigits; ++i) {
    const Step& step = digits[static_cast<std::size_t>(i)].*side;
    map.step[i] = {step.offset * bytes, packing.pack(step.position)};
  }
  return map;
}
Entry to_entry(const Step& step, const Packing& packing, int64_t bytes) {
  return {step.offset * bytes, packing.pack(step.position)};
}
Radices to_radices(const Digits& digits) {
  Radices radices;
  for (int i = 1; i < kDigits; ++i) {
    radices.of[i - 1] = FastDivmod(static_cast<std::uint32_t>(digits[static_cast<std::size_t>(i)].radix));
  }
  return radices;
}
std::uint32_t inverse_modulo(int64_t value, int64_t modulus) {
  for (int64_t i = 0; i < modulus; ++i) {
    if (value * i % modulus == 1 % modulus) return static_cast<std::uint32_t>(i);
  }
  return 0;  // cannot be: the two are coprime
}

FastDivmod divisor(int64_t value) { return FastDivmod(static_cast<std::uint32_t>(std::max<int64_t>(value, 1))); }

StridePhase make_phase(const Conv& conv, int i, const Packing& packing, int64_t bytes) {
  const int64_t s = conv.stride[i];
  const int64_t gcd = std::gcd(s, conv.dilation[i]);
  const int64_t tap_step = s / gcd;
  StridePhase r;
  r.stride = divisor(s);
  r.gcd = divisor(gcd);
  r.tap_step = divisor(tap_step);
  r.inverse = inverse_modulo(conv.dilation[i] / gcd % tap_step, tap_step);
  r.dilation = static_cast<std::uint32_t>(conv.dilation[i]);
  r.pad_remainder = static_cast<std::int32_t>(conv.pad[i] % s);
  r.pad_quotient = static_cast<std::int32_t>(conv.pad[i] / s);
  r.pixel_remainder = static_cast<std::uint32_t>(conv.x[i] % s);
  r.tap_remainder = static_cast<std::uint32_t>(conv.r[i] % tap_step);
  r.pixel_quotient = static_cast<std::uint32_t>(conv.x[i] / s);
  r.tap_quotient = static_cast<std::uint32_t>(conv.r[i] / tap_step);
  for (int more = 0; more < 2; ++more) {
    r.pixels[more] = divisor(conv.x[i] / s + more);
    r.taps[more] = divisor(conv.r[i] / tap_step + more);
  }
  r.a_offset_of_p = conv.ys.spatial[i] * bytes;
  r.a_coord_of_p = packing.pack(unit(i, 1));
  r.b_offset_of_tap = conv.ws.spatial[i] * bytes;
  r.c_offset_of_pixel = conv.xs.spatial[i] * bytes;
  return r;
}

constexpr int64_t kLargestIndex = (int64_t{1} << 31) - 4096;  // room for the last tile
bool has_wide_counts(const Gemm& g) { return count(g.m) > kLargestIndex || count(g.k) > kLargestIndex; }

}  // namespace

const char* simt_index_unsupported_reason(const Problem& problem, bool* wide) {
  const Conv conv = normalize(problem);
  for (int i = 0; i < 3; ++i) {
    if (conv.stride[i] > (1 << 15) || conv.dilation[i] > (1 << 15) || conv.pad[i] > kLargestIndex) {
      if (problem.direction == Direction::dgrad) return "a stride or dilation is beyond 32768";
    }
    if (conv.x[i] > kLargestIndex || conv.y[i] > kLargestIndex) return "a spatial extent is beyond 2^31";
  }
  const Gemm g = make_gemm(conv, problem.direction);
  const bool narrow_positions = all_fit(pack_all(g, conv, false));
  if (!narrow_positions && !all_fit(pack_all(g, conv, true))) return "positions do not fit into 64 bits";
  if (wide != nullptr) *wide = !narrow_positions || has_wide_counts(g);
  return nullptr;
}

Params simt_params(const Problem& problem, bool wide) {
  const Conv conv = normalize(problem);
  const int64_t bytes = tile::element_bytes(element_type(problem.x.type));
  const int64_t width = bytes == 8 ? 2 : 4;
  Gemm g = make_gemm(conv, problem.direction);
  Params p;
  const int64_t m_count = count(g.m);
  const int64_t k_count = count(g.k);
  Packings packings = pack_all(g, conv, false);
  p.wide = wide || has_wide_counts(g) || !all_fit(packings);
  if (p.wide) packings = pack_all(g, conv, true);

  p.groups = static_cast<std::uint32_t>(problem.groups);
  p.group_count = FastDivmod(p.groups);
  set_modes(&g, conv, width, problem.groups > 1, &p);
  p.operand_a.outer = to_map(g.m, &Digit::first, packings.a, bytes);
  p.operand_a.inner = to_map(g.k, &Digit::first, packings.a, bytes);
  p.operand_a.base = to_entry(g.a_base, packings.a, bytes);
  p.operand_a.bounds = packings.a.bounds;
  p.operand_a.group_step = g.a_group * bytes;
  p.operand_b.outer = to_map(g.n, &Digit::first, packings.b, bytes);
  p.operand_b.inner = to_map(g.k, &Digit::second, packings.b, bytes);
  p.operand_b.base = to_entry(g.b_base, packings.b, bytes);
  p.operand_b.bounds = packings.b.bounds;
  p.operand_b.group_step = g.b_group * bytes;
  p.output.m = to_map(g.m, &Digit::second, packings.c, bytes);
  p.output.n = to_map(g.n, &Digit::second, packings.c, bytes);
  p.output.base = to_entry(g.c_base, packings.c, bytes);
  p.output.bounds = packings.c.bounds;
  p.output.group_step = g.c_group * bytes;
  p.addend = p.output;
  for (std::size_t i = 0; i < kDigits; ++i) {
    p.addend.m.step[i] = {g.m[i].addend * bytes, 0};
    p.addend.n.step[i] = {g.n[i].addend * bytes, 0};
  }
  p.addend.base = {0, 0};
  p.addend.group_step = g.z_group * bytes;
  p.addend.vectors = problem.has_z != 0 && addend_vectors(g, p.output.m_is_fast, width, problem.groups > 1);

  p.tap_digits_first = g.tap_digits_first;
  set_activation(problem, &p);
  p.has_z = problem.has_z != 0;
  p.n_count = count(g.n);
  p.n = to_radices(g.n);
  p.whole = {m_count, k_count, to_radices(g.m), to_radices(g.k), {0, 0}, 0, 0};
  if (g.has_phases) {
    for (int i = 0; i < 3; ++i) {
      p.stride_phases[i] = make_phase(conv, i, packings.a, bytes);
      p.phases *= static_cast<std::uint32_t>(conv.stride[i]);
    }
    p.m_images = conv.images;
    p.k_channels = conv.filters;
    if (p.phases == 1) set_phase(p, 0, &p.whole);
  }
  p.phase_count = FastDivmod(p.phases);
  return p;
}

tile::ElementType tile_type(const Problem& problem) { return element_type(problem.x.type); }

SimtShape simt_shape(const Problem& problem, std::span<const int> vectors, SimtLoadModes* modes) {
  const Conv conv = normalize(problem);
  Gemm g = make_gemm(conv, problem.direction);
  SimtShape shape = {tile_type(problem), false, 0, 0, 0, 0, 1, static_cast<std::uint32_t>(problem.groups), true};
  shape.wide = has_wide_counts(g) || !all_fit(pack_all(g, conv, false));
  shape.m = static_cast<double>(count(g.m));
  shape.n = static_cast<double>(count(g.n));
  shape.k = static_cast<double>(count(g.k));
  shape.useful_k = shape.k;
  if (g.has_phases) {
    double useful = static_cast<double>(conv.filters);
    for (int i = 0; i < 3; ++i) {
      shape.phases *= static_cast<std::uint32_t>(conv.stride[i]);
      // Taps of all phases together are the filter's; a tap belongs to one phase.
      useful *= static_cast<double>(conv.r[i]) / static_cast<double>(conv.stride[i]);
    }
    if (shape.phases > 1) shape.useful_k = useful;
  }
  drop_all_unchecked(&g);
  shape.stores_vectors = store_mode(g, conv, tile::element_bytes(shape.type) == 8 ? 2 : 4, problem.groups > 1).vectors;
  const int bytes = tile::element_bytes(shape.type);
  for (const int vector : vectors) *modes++ = load_modes(g, conv, vector / bytes, problem.groups > 1);
  return shape;
}

std::uint32_t set_simt_config(const Config& config, Params* p) {
  const TileRow& row = kTiles[config.tile];
  const auto tiles = [](int64_t extent, int size) { return static_cast<std::uint32_t>((extent + size - 1) / size); };
  const std::uint32_t m_tiles = tiles(p->whole.m_count, row.bm);
  const std::uint32_t n_tiles = tiles(p->n_count, row.bn);
  p->m_tiles = FastDivmod(m_tiles);
  p->n_tiles = FastDivmod(n_tiles);
  p->splits = static_cast<std::uint32_t>(std::max(config.split_k, 1));
  const int64_t k_tiles = (p->whole.k_count + kTileK - 1) / kTileK;
  p->k_per_split = std::max<int64_t>((k_tiles + p->splits - 1) / p->splits, 1) * kTileK;
  return m_tiles * n_tiles * p->phases * p->groups * p->splits;
}

void restrict_to_alignment(const void* a, const void* b, const void* c, const void* z, tile::ElementType type,
                           Params* p) {
  const auto bytes = static_cast<std::uintptr_t>(tile::element_bytes(type));
  const std::uintptr_t vector = bytes == 8 ? 16 : 4 * bytes;
  const auto aligned = [&](const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % vector == 0; };
  const auto scalar = [](LoadMode mode) {
    return mode == LoadMode::outer_vector ? LoadMode::outer_scalar
           : mode == LoadMode::k_vector   ? LoadMode::k_scalar
                                          : mode;
  };
  if (!aligned(a)) p->operand_a.mode = scalar(p->operand_a.mode);
  if (!aligned(b)) p->operand_b.mode = scalar(p->operand_b.mode);
  p->store_vectors = p->output.vectors && aligned(c) && (!p->has_z || (p->addend.vectors && aligned(z)));
}

void set_simt_pointers(Direction direction, const Args& args, Params* p) {
  p->a = direction == Direction::dgrad ? args.y : args.x;
  p->b = direction == Direction::wgrad ? args.y : args.w;
  p->c = args.out;
  p->z = args.z;
  p->bias = args.bias;
  p->alpha = args.alpha;
  p->beta = args.beta;
  p->alpha2 = args.alpha2;
  p->scale = args.scale;
  set_activation_numbers(args, &p->activation);
}

}  // namespace gpudnn::conv
