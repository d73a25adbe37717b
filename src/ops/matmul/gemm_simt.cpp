// The launcher of the general matrix product kernel.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/gemm_simt.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "core/cost_model.hpp"
#include "core/integer.hpp"
#include "kernels/matmul/gemm_simt.hpp"
#include "ops/matmul/element.hpp"

namespace gpudnn::matmul {
namespace {

namespace k = kernels::matmul;

// Everything but the pointers, and what a launch asks of them.
struct Prepared {
  k::GemmSimtParams params;
  std::int32_t scales = 0;
  std::int32_t overrides = 0;
  bool has_c = false;
  bool has_bias = false;
  int tile = 0;
  bool swapped = false;  // the kernel makes the transpose of d: its a is ours b
  bool a_vectors = false;
  bool b_vectors = false;
  bool d_vectors = false;
};

std::size_t vector_bytes(k::Element type) {
  return std::min<std::size_t>(16, 4 * static_cast<std::size_t>(k::element_bytes(type)));
}

bool is_aligned(const void* pointer, k::Element type) {
  return reinterpret_cast<std::uintptr_t>(pointer) % vector_bytes(type) == 0;
}

bool all_multiples_of_four(std::initializer_list<std::int64_t> values) {
  return std::ranges::all_of(values, [](std::int64_t value) { return value % 4 == 0; });
}

// `row` and `depth` are the tensor's dimensions with the operand's rows and with k.
k::GemmOperand operand_of(const TensorGeometry& tensor, const TensorGeometry& d, int row, int depth, bool* vectors) {
  const Batched t = batched(tensor);
  const Batched whole = batched(d);
  k::GemmOperand o;
  o.type = element_of(tensor.type);
  o.row_stride = tensor.strides[row];
  o.k_stride = tensor.strides[depth];
  o.along_k = tensor.dims[depth] > 1 && (tensor.dims[row] == 1 || o.k_stride <= o.row_stride);
  for (int i = 0; i < kMaxBatchDims; ++i) {
    o.batch_stride[i] = t.strides[i];
    o.repeat[i] = whole.dims[i] / t.dims[i];
  }
  const std::int64_t near = o.along_k ? o.k_stride : o.row_stride;
  const std::int64_t far = o.along_k ? o.row_stride : o.k_stride;
  *vectors = near == 1 && all_multiples_of_four({far, o.batch_stride[0], o.batch_stride[1]});
  return o;
}

k::GemmMatrix matrix_of(const TensorGeometry& tensor, bool swapped) {
  k::GemmMatrix x;
  if (tensor.rank == 0) return x;
  const Batched t = batched(tensor);
  x.type = element_of(tensor.type);
  x.m_stride = t.strides[kMaxBatchDims + (swapped ? 1 : 0)];
  x.n_stride = t.strides[kMaxBatchDims + (swapped ? 0 : 1)];
  for (int i = 0; i < kMaxBatchDims; ++i) x.batch_stride[i] = t.strides[i];
  return x;
}

int tile_index(const Config& config) {
  for (int i = 0; i < k::kGemmSimtTileCount; ++i) {
    if (config.starts_with(k::kGemmSimtTiles[i].name)) return i;
  }
  return -1;
}

Unit unit_of(DataType type) { return type == GPUDNN_DATA_DOUBLE ? Unit::fma_f64 : Unit::fma_f32; }

// Of the rate, measured on large products of floats; smaller tiles read shared memory more often.
constexpr double kEfficiency[] = {0.72, 0.5, 0.25};
constexpr int kTogether[] = {1, 3, 4};

Footprint footprint_of(const Problem& problem, int tile, bool swapped) {
  const k::GemmSimtTile& shape = k::kGemmSimtTiles[tile];
  const std::int64_t m = swapped ? columns(problem) : rows(problem);
  const std::int64_t n = swapped ? rows(problem) : columns(problem);
  const std::int64_t down = ceil_div(m, shape.m);
  const std::int64_t across = ceil_div(n, shape.n);
  const auto bytes = static_cast<double>(data_type_bits(problem.a.type)) / 8;
  Footprint f;
  f.tiles = down * across * batches(problem);
  f.tiles_per_multiprocessor = kTogether[tile];
  f.unit = unit_of(problem.a.type);
  f.flops = 2.0 * static_cast<double>(f.tiles) * shape.m * shape.n *
            static_cast<double>(round_up(std::max<std::int64_t>(depth(problem), 1), k::kGemmSimtDepth));
  f.dram_bytes = bytes_of_tensors(problem);
  f.l2_bytes = static_cast<double>(f.tiles) * (shape.m + shape.n) * static_cast<double>(depth(problem)) * bytes;
  f.efficiency = kEfficiency[tile] * (problem.a.type == GPUDNN_DATA_INT8 ? 0.5 : 1);
  f.tile_seconds = 2e-6;
  return f;
}

}  // namespace

Support gemm_simt_supports(const Problem&, const Device&) { return Support::yes(); }

void gemm_simt_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const bool usual = is_columnwise(problem.d);
  for (int tile = 0; tile < k::kGemmSimtTileCount; ++tile) {
    if (!k::gemm_simt_has(element_of(problem.a.type), tile)) continue;
    const std::string name = k::kGemmSimtTiles[tile].name;
    candidates->push_back({usual ? name + " swap" : name, estimate(footprint_of(problem, tile, usual), device)});
    // The other way round only where the tile is not square and fits better so.
    const std::int64_t down = usual ? columns(problem) : rows(problem);
    const std::int64_t across = usual ? rows(problem) : columns(problem);
    if (k::kGemmSimtTiles[tile].m != k::kGemmSimtTiles[tile].n && across <= k::kGemmSimtTiles[tile].m &&
        across < down) {
      candidates->push_back({usual ? name : name + " swap", estimate(footprint_of(problem, tile, !usual), device)});
    }
  }
}

std::size_t gemm_simt_workspace(const Problem&, const Config&, const Device&) { return 0; }

std::shared_ptr<const void> gemm_simt_prepare(const Problem& problem, const Config& config, const Device&) {
  auto prepared = std::make_shared<Prepared>();
  prepared->tile = tile_index(config);
  if (prepared->tile < 0 || !k::gemm_simt_has(element_of(problem.a.type), prepared->tile)) return nullptr;
  prepared->swapped = config.ends_with(" swap");
  const int last = problem.d.rank - 1;
  k::GemmSimtParams& p = prepared->params;
  p.a = operand_of(problem.a, problem.d, last - 1, last, &prepared->a_vectors);
  p.b = operand_of(problem.b, problem.d, last, last - 1, &prepared->b_vectors);
  p.m = rows(problem);
  p.n = columns(problem);
  p.k = depth(problem);
  if (prepared->swapped) {
    std::swap(p.a, p.b);
    std::swap(prepared->a_vectors, prepared->b_vectors);
    std::swap(p.m, p.n);
  }
  p.c = matrix_of(problem.c, prepared->swapped);
  p.bias = matrix_of(problem.bias, prepared->swapped);
  p.d = matrix_of(problem.d, prepared->swapped);
  prepared->d_vectors =
      p.d.n_stride == 1 && all_multiples_of_four({p.d.m_stride, p.d.batch_stride[0], p.d.batch_stride[1]});
  const Batched d = batched(problem.d);
  p.batches = d.dims[0] * d.dims[1];
  p.inner_batches = d.dims[1];
  p.activation = problem.activation;
  p.overrides.wide = problem.override_type == GPUDNN_DATA_INT64;
  p.overrides.by_outer = problem.d.rank == kMaxBatchDims + 2;
  p.has_padding = problem.has_padding != 0;
  prepared->scales = problem.scales;
  prepared->overrides = problem.overrides;
  prepared->has_c = problem.c.rank > 0;
  prepared->has_bias = problem.bias.rank > 0;
  return prepared;
}

namespace {

// The scalars in device memory that the problem has.
void set_scales(const Prepared& problem, const Args& args, k::GemmSimtParams* p) {
  if ((problem.scales & kDescaleA) != 0) p->descale_a = args.descale_a;
  if ((problem.scales & kDescaleB) != 0) p->descale_b = args.descale_b;
  if ((problem.scales & kScaleD) != 0) p->scale_d = args.scale_d;
  if ((problem.scales & kAmax) != 0) p->amax = args.amax;
  if ((problem.overrides & kOverrideM) != 0) p->overrides.m = args.m_override;
  if ((problem.overrides & kOverrideN) != 0) p->overrides.n = args.n_override;
  if ((problem.overrides & kOverrideK) != 0) p->overrides.k = args.k_override;
}

}  // namespace

Status gemm_simt_launch(const LaunchSite& site, const void* prepared_plan, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(prepared_plan);
  k::GemmSimtParams p = prepared.params;
  p.a.data = prepared.swapped ? args.b : args.a;
  p.b.data = prepared.swapped ? args.a : args.b;
  p.a.vectors = prepared.a_vectors && is_aligned(p.a.data, p.a.type);
  p.b.vectors = prepared.b_vectors && is_aligned(p.b.data, p.b.type);
  p.c.data = prepared.has_c && args.beta != 0 ? const_cast<void*>(args.c) : nullptr;  // NOLINT: only read
  p.bias.data = prepared.has_bias ? const_cast<void*>(args.bias) : nullptr;           // NOLINT: only read
  p.d.data = args.d;
  p.d.vectors = prepared.d_vectors && is_aligned(args.d, p.d.type);
  p.alpha = args.alpha;
  p.beta = args.beta;
  p.activation_params = args.activation;
  p.padding = args.padding;
  set_scales(prepared, args, &p);
  if (prepared.swapped) std::swap(p.overrides.m, p.overrides.n);
  k::launch_gemm_simt(p, prepared.tile, site.stream);
  return cuda::launch_status("gemm_simt");
}

}  // namespace gpudnn::matmul
