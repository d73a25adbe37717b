// From a product and a config to the parameters of the Hopper kernel.
// SPDX-License-Identifier: Apache-2.0
#include <initializer_list>
#include <utility>

#include "kernels/matmul/gemm_sm90.hpp"

namespace gpudnn::kernels::matmul::sm90 {
namespace {

using gemm::sm90::kMaxSplits;
using gemm::sm90::kRowBytes;
using tile::FastDivmod;

constexpr std::int64_t kMaxExtent = 0x7f000000;  // room for tiles beyond it in 31 bits

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
bool is_f8(Element type) { return type == Element::e4m3 || type == Element::e5m2; }
bool aligned(const void* pointer, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0;
}

std::int64_t batches(const Gemm& gemm) { return gemm.batch[0] * gemm.batch[1]; }
std::int64_t k_tiles_of(const Gemm& gemm) { return divide_up(gemm.k, kRowBytes / element_bytes(gemm.a.type)); }

const char* unsupported_operand(const Gemm& gemm, const Operand& x) {
  const std::int64_t bytes = element_bytes(x.type);
  if (x.mn_major && bytes != 2) return "an operand of 32- or 8-bit elements is MN-major; wgmma takes only K-major ones";
  if (!aligned(x.data, 16)) return "an operand does not begin at a multiple of 16 bytes, as TMA wants it";
  if (x.row_stride * bytes % 16 != 0) return "an operand's rows are no multiple of 16 bytes apart, as TMA wants them";
  for (int i = 0; i < 2; ++i) {
    if (gemm.batch[i] > 1 && x.batch_stride[i] * bytes % 16 != 0) {
      return "an operand's batches are no multiple of 16 bytes apart, as TMA wants them";
    }
    if (x.row_stride < 0 || x.batch_stride[i] < 0) return "an operand has a negative stride";
  }
  return nullptr;
}

const char* unsupported_result(const Matrix& x) {
  const bool known = x.type == Element::f16 || x.type == Element::bf16 || x.type == Element::f32 || is_f8(x.type);
  return x.data != nullptr && !known ? "c, bias or d has a type that the kernel does not convert" : nullptr;
}

// Whether 8 neighbours along n are one vector (of f32 two): from the addresses of a call.
bool has_vectors(const Gemm& gemm, const Matrix& x) {
  const std::int64_t bytes = element_bytes(x.type);
  const std::int64_t vector = is_f8(x.type) ? 8 : 16;
  if (x.data == nullptr || x.n_stride != 1 || !aligned(x.data, vector)) return false;
  return x.m_stride * bytes % vector == 0 && (gemm.batch[0] == 1 || x.batch_stride[0] * bytes % vector == 0) &&
         (gemm.batch[1] == 1 || x.batch_stride[1] * bytes % vector == 0);
}

// TMA writes whole vectors of 16 bytes: where the last one of a row would reach beyond it, elements are stored.
bool stores_boxes(const Gemm& gemm) {
  const Matrix& d = gemm.epilogue.d;
  return has_vectors(gemm, d) && !is_f8(d.type) && gemm.n * element_bytes(d.type) % 16 == 0;
}

const char* unsupported_config(const Gemm& gemm, const GemmConfig& config) {
  const TileShape& tile = kTiles[config.tile];
  const int s = config.splits;
  const bool is_power = s == 1 || s == 2 || s == 4 || s == kMaxSplits;
  if (!is_power && (s != 3 || tile.swap_ab)) return "splits are 1, 2, 4 or 8, and 3 but for swap-AB tiles";
  if (s > 1 && config.multicast != Multicast::none) return "a cluster shares its loads or its reduction, not both";
  if (s > k_tiles_of(gemm)) return "more splits than k tiles";
  if (tile.swap_ab) {
    if (config.multicast != Multicast::none) return "swap-AB tiles load no operand in pairs";
    if (gemm.m > tile.bm) return "a swap-AB tile holds all rows";
    if (gemm.a.mn_major) return "a swap-AB tile takes rows that are contiguous along k";
  }
  if (is_plain_tile(tile)) {
    if (!gemm.is_plain || s > 1 || !stores_boxes(gemm)) return "the tile is for sums that TMA stores as they are";
    if (element_bytes(gemm.a.type) != 2 || element_bytes(gemm.epilogue.d.type) != 2 || gemm.b.mn_major) {
      return "the tile takes 16-bit elements, and a K-major B";
    }
  }
  // Each block of a pair loads half of the boxes of 64 m or n.
  const bool shares_a = config.multicast == Multicast::a;
  const bool shares_b = config.multicast == Multicast::b;
  if (shares_a && gemm.a.mn_major && tile.bm % 128 != 0) return "an odd number of boxes of A cannot be shared";
  if (shares_b && gemm.b.mn_major && tile.bn % 128 != 0) return "an odd number of boxes of B cannot be shared";
  if (gemm.promotes && (!promotes_sums(tile) || gemm.a.mn_major || gemm.b.mn_major)) {
    return "the tile leaves no registers for sums outside of the tensor core, or an operand is MN-major";
  }
  if (is_f8(gemm.a.type) && !gemm.fast_accumulation && tile.row_blocks() * tile.bn / 2 > 64) {
    return "the tile leaves no registers for sums outside of the tensor core";
  }
  return nullptr;
}

// Operand rows (m or n) from the fastest dimension on; a batch dimension that repeats has the extents that differ.
MapBoxes operand_boxes(const Gemm& gemm, const Operand& x, std::int64_t rows, int tile_rows) {
  const std::int64_t bytes = element_bytes(x.type);
  const auto row_elements = static_cast<std::int32_t>(kRowBytes / bytes);
  MapBoxes boxes;
  boxes.data = x.data;
  boxes.type = x.type;
  boxes.extent[0] = x.mn_major ? rows : gemm.k;
  boxes.extent[1] = x.mn_major ? gemm.k : rows;
  boxes.step[0] = x.row_stride > 0 ? x.row_stride * bytes : 16;
  boxes.box[0] = row_elements;
  boxes.box[1] = x.mn_major ? row_elements : tile_rows;
  for (int i = 0; i < 2; ++i) {
    const int batch = 1 - i;
    const bool repeats_all = x.batch_stride[batch] == 0;
    boxes.extent[2 + i] = repeats_all ? 1 : gemm.batch[batch] / x.repeat[batch];
    boxes.step[1 + i] = repeats_all ? 16 : x.batch_stride[batch] * bytes;
  }
  return boxes;
}

void set_repeats(const Gemm& gemm, const Operand& x, FastDivmod (&repeat)[2]) {
  for (int i = 0; i < 2; ++i) {
    repeat[i] = FastDivmod(static_cast<std::uint32_t>(x.batch_stride[i] == 0 ? gemm.batch[i] : x.repeat[i]));
  }
}

MapBoxes result_boxes(const Gemm& gemm) {
  const Matrix& d = gemm.epilogue.d;
  const std::int64_t bytes = element_bytes(d.type);
  MapBoxes boxes;
  boxes.data = d.data;
  boxes.type = d.type;
  boxes.extent[0] = gemm.n;
  boxes.extent[1] = gemm.m;
  boxes.step[0] = gemm.m > 1 ? d.m_stride * bytes : 16;
  boxes.box[0] = static_cast<std::int32_t>(kRowBytes / bytes);
  boxes.box[1] = 16;  // of a warp
  for (int i = 0; i < 2; ++i) {
    boxes.extent[2 + i] = gemm.batch[1 - i];
    boxes.step[1 + i] = gemm.batch[1 - i] > 1 ? d.batch_stride[1 - i] * bytes : 16;
  }
  return boxes;
}

// The order of work tiles.
void schedule(const Gemm& gemm, const GemmConfig& config, Params* p) {
  const TileShape& tile = kTiles[config.tile];
  const auto units_of = [](std::int64_t extent, int of_tile, bool pairs) {
    const std::int64_t tiles = divide_up(extent, of_tile);
    return static_cast<std::uint32_t>(pairs ? divide_up(tiles, 2) : tiles);
  };
  const bool pairs_m = config.multicast == Multicast::b;
  const std::uint32_t units_m = units_of(gemm.m, tile.bm, pairs_m);
  const std::uint32_t units_n = units_of(gemm.n, tile.bn, config.multicast == Multicast::a);
  auto group = static_cast<std::uint32_t>(pairs_m ? (config.raster + 1) / 2 : config.raster);
  if (group < 1) group = 1;
  if (group > units_m) group = units_m;
  p->units = FastDivmod(units_m * units_n);
  p->group_units = FastDivmod(group * units_n);
  p->group = FastDivmod(group);
  p->full_groups = units_m / group;
  const std::uint32_t rest = units_m % group;
  p->last_group = FastDivmod(rest > 0 ? rest : 1);
  p->works = units_m * units_n * static_cast<std::uint32_t>(batches(gemm));
  p->inner_batches = FastDivmod(static_cast<std::uint32_t>(gemm.batch[1]));
}

}  // namespace

const char* unsupported_reason(const Gemm& gemm, const GemmConfig& config) noexcept {
  if (gemm.m < 1 || gemm.n < 1 || gemm.k < 1) return "an extent is 0";
  if (gemm.m > kMaxExtent || gemm.n > kMaxExtent || gemm.k > kMaxExtent || batches(gemm) > kMaxExtent) {
    return "an extent has more than 31 bits";
  }
  const Element a = gemm.a.type;
  if (a != Element::f16 && a != Element::bf16 && a != Element::f32 && !is_f8(a)) return "the operands' type";
  if (gemm.b.type != a && !(is_f8(a) && is_f8(gemm.b.type))) return "the operands have different types";
  if (const char* const why = unsupported_operand(gemm, gemm.a)) return why;
  if (const char* const why = unsupported_operand(gemm, gemm.b)) return why;
  for (const Matrix* x : {&gemm.epilogue.c, &gemm.epilogue.bias, &gemm.epilogue.d}) {
    if (const char* const why = unsupported_result(*x)) return why;
  }
  if (const char* const why = unsupported_config(gemm, config)) return why;
  const TileShape& tile = kTiles[config.tile];
  const double works = static_cast<double>(divide_up(gemm.m, tile.bm)) *
                       static_cast<double>(divide_up(gemm.n, tile.bn)) * static_cast<double>(batches(gemm)) *
                       config.splits;
  if (works > static_cast<double>(kMaxExtent)) return "the work tiles count in more than 31 bits";
  return nullptr;
}

GemmPlan plan_gemm_sm90(const Gemm& gemm, const GemmConfig& config, int multiprocessors) noexcept {
  GemmPlan plan;
  Params& p = plan.params;
  const TileShape& tile = kTiles[config.tile];
  schedule(gemm, config, &p);
  p.splits = static_cast<std::uint32_t>(config.splits);
  p.multicast = config.multicast;
  p.k_tiles = static_cast<std::uint32_t>(k_tiles_of(gemm));
  p.k_tiles_per_split = (p.k_tiles + p.splits - 1) / p.splits;
  const Operand& a = tile.swap_ab ? gemm.b : gemm.a;
  const Operand& b = tile.swap_ab ? gemm.a : gemm.b;
  p.a_mn_major = a.mn_major;
  p.b_mn_major = b.mn_major;
  p.a_is_e5m2 = a.type == Element::e5m2;
  p.b_is_e5m2 = b.type == Element::e5m2;
  p.promotes = is_f8(gemm.a.type) ? !gemm.fast_accumulation : gemm.promotes;
  p.starts_early = batches(gemm) == 1 && !p.a_mn_major && !p.b_mn_major && p.multicast == Multicast::none;
  set_repeats(gemm, a, p.a_repeat);
  set_repeats(gemm, b, p.b_repeat);
  p.m = static_cast<std::uint32_t>(gemm.m);
  p.n = static_cast<std::uint32_t>(gemm.n);
  p.epilogue = gemm.epilogue;
  for (Matrix* x : {&p.epilogue.c, &p.epilogue.bias, &p.epilogue.d}) x->vectors = has_vectors(gemm, *x);
  p.stores_boxes = stores_boxes(gemm);
  plan.a = operand_boxes(gemm, gemm.a, gemm.m, config.multicast == Multicast::a ? tile.bm / 2 : tile.bm);
  plan.b = operand_boxes(gemm, gemm.b, gemm.n, config.multicast == Multicast::b ? tile.bn / 2 : tile.bn);
  plan.swap_ab = tile.swap_ab;
  if (plan.swap_ab) std::swap(plan.a, plan.b);
  if (p.stores_boxes) plan.d = result_boxes(gemm);
  plan.tile = config.tile;
  plan.element_type = gemm.a.type;
  plan.cluster = config.multicast != Multicast::none ? 2 : p.splits;
  // Blocks that split a tile stay for that tile alone, and those of swap-AB.
  const auto slots = static_cast<std::uint32_t>(multiprocessors * tile.residency) / plan.cluster;
  const bool one_tile = p.splits > 1 || tile.swap_ab || p.works < slots;
  plan.blocks = (one_tile ? p.works : slots) * plan.cluster;
  return plan;
}

}  // namespace gpudnn::kernels::matmul::sm90
