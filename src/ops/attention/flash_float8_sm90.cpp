// The launchers of flash_float8_sm90: attention in 8-bit floats on Hopper.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_float8_sm90.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "core/float8.hpp"
#include "core/tensor_map_cuda.hpp"
#include "kernels/attention/flash_fused_backward_sm90.hpp"
#include "ops/any_type.hpp"
#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/flash_sm90.hpp"

namespace gpudnn::attention {
namespace {

std::int64_t padded(std::int64_t rows) {
  constexpr std::int64_t kTo = kernels::kFlashFloat8Keys;
  return (rows + kTo - 1) / kTo * kTo;
}
std::size_t turned_bytes(const Tensor& tensor) {
  const TensorGeometry& g = tensor.geometry;
  return static_cast<std::size_t>(g.dims[0] * g.dims[1] * g.dims[3] * padded(g.dims[2]));
}

// Of bytes; `extent` is that of the elements which lie side by side, steps are in bytes.
bool encode_bytes(const TmaBoxes& boxes, std::int64_t panel, const void* data, tile::TensorMap* map) {
  const cuda::MapFormat format{CU_TENSOR_MAP_DATA_TYPE_UINT8, cuda::swizzle_of_rows(panel),
                               CU_TENSOR_MAP_L2_PROMOTION_L2_256B};
  return cuda::encode_boxes(boxes, format, map) && cuda::replace_address(map, data);
}

bool encode_rows(const Tensor& tensor, const void* data, std::int64_t panel, std::int64_t rows, tile::TensorMap* map) {
  const TensorGeometry& g = tensor.geometry;
  TmaBoxes boxes;
  const int order[4] = {3, 2, 1, 0};
  for (int i = 0; i < 4; ++i) {
    boxes.extent[i] = g.dims[order[i]];
    if (i > 0) boxes.step[i - 1] = g.dims[order[i]] == 1 ? 16 : g.strides[order[i]];
  }
  boxes.box[0] = static_cast<std::int32_t>(panel);
  boxes.box[1] = static_cast<std::int32_t>(rows);
  return encode_bytes(boxes, panel, data, map);
}

bool encode_turned(const Tensor& tensor, const void* turned, std::int64_t panel, std::int64_t rows,
                   tile::TensorMap* map) {
  const TensorGeometry& g = tensor.geometry;
  const std::int64_t pitch = padded(g.dims[2]);
  TmaBoxes boxes;
  boxes.extent[0] = pitch;
  boxes.extent[1] = g.dims[3];
  boxes.extent[2] = g.dims[1];
  boxes.extent[3] = g.dims[0];
  boxes.step[0] = pitch;
  boxes.step[1] = pitch * g.dims[3];
  boxes.step[2] = pitch * g.dims[3] * g.dims[1];
  boxes.box[0] = static_cast<std::int32_t>(panel);
  boxes.box[1] = static_cast<std::int32_t>(rows);
  return encode_bytes(boxes, panel, turned, map);
}

const char* unsupported_layout(const Tensor& tensor) {
  const TensorGeometry& g = tensor.geometry;
  if (tensor.is_ragged()) return "it takes no ragged offsets";
  if (g.dims[3] % 16 != 0 || g.dims[3] > 256) return "it takes head dimensions that are multiples of 16 up to 256";
  if (g.strides[3] != 1) return "it takes tensors whose last stride is 1";
  for (int i = 0; i < 3; ++i) {
    if (g.dims[i] == 1) continue;
    if (g.strides[i] % 16 != 0 || g.strides[i] <= 0 || g.strides[i] >= std::int64_t{1} << 38) {
      return "it takes strides that are multiples of 16 elements, not 0";
    }
  }
  return nullptr;
}

const char* unsupported_options(const Problem& problem) {
  if (problem.bias.rank != 0 || problem.has_alibi != 0 || problem.has_soft_cap != 0) {
    return "it takes no bias, ALiBi or soft cap";
  }
  if (problem.has_dropout != 0) return "it takes no dropout";
  if (problem.block_mask.rank != 0) return "it takes no block mask";
  if (problem.is_paged()) return "it takes no paged keys";
  if (problem.length_q() >= kMaxLength || problem.length_kv >= kMaxLength) return "it takes lengths below 2^30";
  for (const Tensor* rows : {&problem.stats, &problem.max, &problem.sum_exp}) {
    if (rows->is_ragged()) return "it takes no ragged offsets";
  }
  return nullptr;
}

// The first shape that holds the head dimensions.
int shape_of(const Problem& problem) {
  int shape = 0;
  for (const kernels::FlashFloat8Shape& its : kernels::kFlashFloat8Shapes) {
    if (problem.dim_qk() <= its.dim_qk && problem.dim_v() <= its.dim_v) break;
    ++shape;
  }
  return shape;
}

// Forward's tiles, and what it counts in and leaves between blocks.
struct ForwardPlan {
  int shape = 0;
  std::int32_t row_tiles = 0, tiles = 0;
  bool goes_to_the_free = false;  // tiles of different lengths; others are the same for all
  std::int32_t shared = 0;        // tiles of the last round that two blocks take, half of the keys each
  std::int32_t counter_words = 0;
  std::size_t counter_bytes = 0, sum_bytes = 0;
};
ForwardPlan forward_plan(const Problem& problem, const Device& device) {
  ForwardPlan plan;
  plan.shape = shape_of(problem);
  const kernels::FlashFloat8Shape& its = kernels::kFlashFloat8Shapes[plan.shape];
  plan.row_tiles = static_cast<std::int32_t>((problem.length_q() + its.rows - 1) / its.rows);
  plan.tiles = plan.row_tiles * static_cast<std::int32_t>(problem.batch() * problem.heads_q());
  const bool differs = problem.has_left != 0 || problem.has_right != 0 || problem.has_length_kv != 0;
  plan.goes_to_the_free = differs && plan.tiles > device.multiprocessors;
  const std::int32_t rest = plan.tiles % device.multiprocessors;
  if (!differs && 2 * rest <= device.multiprocessors && problem.length_kv > its.columns) plan.shared = rest;
  const std::int32_t parts = plan.shared * its.rows / 64;  // of a warpgroup each
  plan.counter_words = plan.goes_to_the_free ? 1 : 2 * parts;
  plan.counter_bytes = (static_cast<std::size_t>(plan.counter_words) * 4 + 255) / 256 * 256;
  plan.sum_bytes = static_cast<std::size_t>(parts) * 128 * 4 *
                   static_cast<std::size_t>(its.dim_v / 2 + kernels::kFlashFloat8RowValues);
  return plan;
}

kernels::FlashFloat8TurnParams turn_params(const Tensor& tensor, const void* data, void* turned,
                                           const std::int32_t* lengths, const Args& args) {
  const TensorGeometry& g = tensor.geometry;
  kernels::FlashFloat8TurnParams params;
  params.v = data;
  params.turned = turned;
  for (int i = 0; i < 3; ++i) params.strides[i] = g.strides[i];
  params.lengths_kv = lengths;
  params.length_kv = static_cast<std::int32_t>(g.dims[2]);
  params.padded = static_cast<std::int32_t>(padded(g.dims[2]));
  params.heads = static_cast<std::int32_t>(g.dims[1]);
  params.batch_heads = static_cast<std::int32_t>(g.dims[0] * g.dims[1]);
  params.dim = static_cast<std::int32_t>(g.dims[3]);
  params.numbers = args.float8;
  return params;
}

Support supports_common(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  for (const Tensor* tensor : {&problem.q, &problem.k, &problem.v}) {
    if (tensor->geometry.type != GPUDNN_DATA_FP8_E4M3) return Support::no("it takes q, k and v in e4m3");
  }
  if (const char* const reason = unsupported_options(problem)) return Support::no(reason);
  for (const Tensor* tensor : {&problem.q, &problem.k, &problem.v, &problem.o}) {
    if (const char* const reason = unsupported_layout(*tensor)) return Support::no(reason);
  }
  return cuda::makes_tensor_maps(device) ? Support::yes() : Support::no("the driver does not make tensor maps");
}

// --- backward -------------------------------------------------------------------------------------------------------

// The copies in bf16, and what the rows have, in the order of the workspace.
struct BackwardCopies {
  Tensor q, k, v, d_o, dq, dk, dv;  // packed; rank 0 where there is none
};
BackwardCopies copies_of(const Problem& problem) {
  const auto packed = [](const Tensor& tensor) {
    Tensor copy;
    if (tensor.exists())
      copy.geometry = packed_tensor(GPUDNN_DATA_BFLOAT16, GPUDNN_TENSOR_NCHW, 4, tensor.geometry.dims);
    return copy;
  };
  return {packed(problem.q),  packed(problem.k),  packed(problem.v), packed(problem.d_o),
          packed(problem.dq), packed(problem.dk), packed(problem.dv)};
}

// Hands out the workspace in multiples of 256 bytes.
class Pieces {
 public:
  explicit Pieces(void* memory) : memory_(static_cast<char*>(memory)) {}
  void* take(std::size_t bytes) {
    char* const piece = memory_ == nullptr ? nullptr : memory_ + taken_;
    taken_ += (bytes + 255) / 256 * 256;
    return piece;
  }
  void* take(const Tensor& copy) { return copy.exists() ? take(size_in_bytes(copy.geometry)) : nullptr; }
  [[nodiscard]] std::size_t taken() const { return taken_; }

 private:
  char* memory_;
  std::size_t taken_ = 0;
};

kernels::FlashFloat8Copy copy_between(const Tensor& tensor, const void* data, void* copy) {
  kernels::FlashFloat8Copy result;
  if (!tensor.exists()) return result;
  result.data = const_cast<void*>(data);  // NOLINT: one struct for inputs and outputs
  result.copy = copy;
  for (int i = 0; i < 3; ++i) result.strides[i] = tensor.geometry.strides[i];
  result.heads = static_cast<std::int32_t>(tensor.geometry.dims[1]);
  result.rows = static_cast<std::int32_t>(tensor.geometry.dims[2]);
  result.dim = static_cast<std::int32_t>(tensor.geometry.dims[3]);
  result.type = any_type(tensor.geometry.type);
  return result;
}
// Whether all products are of 8-bit floats, P and dS rounded as the graph says: where a row of them fills a panel.
bool multiplies_bytes(const Problem& problem) {
  const DataType d_o = problem.d_o.geometry.type;
  if (problem.p_type != GPUDNN_DATA_FP8_E4M3 || !is_float8(d_o) || problem.ds_type != d_o) return false;
  return std::max(problem.dim_qk(), problem.dim_v()) > 64;
}

std::int64_t chunks_of(const Tensor& tensor) { return tensor.exists() ? element_count(tensor.geometry) / 16 : 0; }

kernels::FlashFloat8DeltaParams delta_params(const Problem& problem, const Args& args) {
  kernels::FlashFloat8DeltaParams params;
  params.o = copy_between(problem.o, args.o.data, nullptr);
  params.d_o = copy_between(problem.d_o, args.d_o.data, nullptr);
  params.stats = row_values(problem.stats, args.stats.data);
  params.mask = mask_of(problem, args);
  params.numbers = args.float8;
  params.heads = static_cast<std::int32_t>(problem.heads_q());
  params.batch_heads = static_cast<std::int32_t>(problem.batch() * problem.heads_q());
  return params;
}

// The seven copies' memory, in their order.
struct CopyData {
  void *q, *k, *v, *d_o, *dq, *dk, *dv;
};

// The problem in bf16 that the copies make, and its arguments. o, which nothing reads there, says what they are: it may
// be of 16 bits itself, and has the type of bytes here.
Problem problem_of_copies(const Problem& problem, const BackwardCopies& copies) {
  Problem result = problem;
  result.q = copies.q, result.k = copies.k, result.v = copies.v, result.d_o = copies.d_o;
  result.dq = copies.dq, result.dk = copies.dk, result.dv = copies.dv;
  result.o.geometry.type = problem.type();
  return result;
}
Args args_of_copies(const Args& args, const CopyData& data) {
  Args result = args;
  result.q.data = data.q, result.k.data = data.k, result.v.data = data.v, result.d_o.data = data.d_o;
  result.dq.data = data.dq, result.dk.data = data.dk, result.dv.data = data.dv;
  return result;
}

// Where q, k, v and dO go in the workspace: turned bytes, without v, or copies.
CopyData take_operands(const Problem& problem, const BackwardCopies& copies, Pieces* pieces) {
  CopyData data{};
  if (multiplies_bytes(problem)) {
    data.q = pieces->take(turned_bytes(problem.q)), data.k = pieces->take(turned_bytes(problem.k));
    data.d_o = pieces->take(turned_bytes(problem.d_o));
  } else {
    data.q = pieces->take(copies.q), data.k = pieces->take(copies.k);
    data.v = pieces->take(copies.v), data.d_o = pieces->take(copies.d_o);
  }
  return data;
}

bool encode_operands(const Problem& problem, const Args& args, const CopyData& data, FusedByteMaps* maps) {
  constexpr std::int64_t kRow = 128;  // of bytes
  constexpr std::int64_t kKeys = kernels::kFlashFusedRows;
  constexpr std::int64_t kQueries = kernels::flash_fused_stream(128);
  maps->gradients_are_e5m2 = problem.d_o.geometry.type == GPUDNN_DATA_FP8_E5M2;
  return encode_rows(problem.q, args.q.data, kRow, kQueries, &maps->q) &&
         encode_rows(problem.k, args.k.data, kRow, kKeys, &maps->k) &&
         encode_rows(problem.v, args.v.data, kRow, kKeys, &maps->v) &&
         encode_rows(problem.d_o, args.d_o.data, kRow, kQueries, &maps->d_o) &&
         encode_turned(problem.q, data.q, kQueries, kRow, &maps->q_turned) &&
         encode_turned(problem.k, data.k, kKeys, kRow, &maps->k_turned) &&
         encode_turned(problem.d_o, data.d_o, kQueries, kRow, &maps->d_o_turned);
}

void launch_turns(const LaunchSite& site, const Problem& problem, const Args& args, const CopyData& data) {
  const std::int32_t* const lengths_q = problem.has_length_q != 0 ? args.length_q : nullptr;
  const std::int32_t* const lengths_kv = problem.has_length_kv != 0 ? args.length_kv : nullptr;
  kernels::FlashFloat8TurnParams turns[] = {turn_params(problem.q, args.q.data, data.q, lengths_q, args),
                                            turn_params(problem.d_o, args.d_o.data, data.d_o, lengths_q, args),
                                            turn_params(problem.k, args.k.data, data.k, lengths_kv, args)};
  turns[2].is_paired = true;
  for (kernels::FlashFloat8TurnParams& turn : turns) {
    turn.is_straight = true;
    kernels::launch_flash_float8_turn_sm90(turn, site.stream);
  }
}

}  // namespace

Support supports_flash_float8_sm90(const Problem& problem, const Device& device) {
  if (problem.backward != 0) return Support::no("it is a forward engine");
  if (const Support common = supports_common(problem, device); !common) return common;
  if (problem.p_type != GPUDNN_DATA_FP8_E4M3) return Support::no("it takes p in e4m3");
  return Support::yes();
}

std::size_t flash_float8_sm90_workspace(const Problem& problem, const Device& device) {
  const ForwardPlan plan = forward_plan(problem, device);
  return plan.counter_bytes + plan.sum_bytes + turned_bytes(problem.v);
}

Status flash_float8_sm90(const LaunchSite& site, const Problem& problem, const Args& args) {
  const ForwardPlan plan = forward_plan(problem, site.device);
  const kernels::FlashFloat8Shape& its = kernels::kFlashFloat8Shapes[plan.shape];
  char* const sums = static_cast<char*>(site.workspace) + plan.counter_bytes;
  void* const turned = sums + plan.sum_bytes;
  const std::int64_t panel = kernels::flash_float8_panel(its.dim_qk);
  kernels::FlashFloat8Params params;
  const bool encoded = cuda::with_context(site.device.ordinal, [&] {
    return encode_rows(problem.q, args.q.data, panel, its.rows, &params.q) &&
           encode_rows(problem.k, args.k.data, panel, its.columns, &params.k) &&
           encode_turned(problem.v, turned, kernels::flash_float8_panel(its.columns), its.dim_v, &params.v);
  });
  GPUDNN_REQUIRE(encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
  params.mask = mask_of(problem, args);
  params.stats = row_values(problem.stats, args.stats.data);
  params.max = row_values(problem.max, args.max.data);
  params.sum_exp = row_values(problem.sum_exp, args.sum_exp.data);
  params.sink = problem.has_sink != 0 ? args.sink : nullptr;
  params.o_data = args.o.data;
  for (int i = 0; i < 4; ++i) params.o_strides[i] = problem.o.geometry.strides[i];
  params.group_k = tile::FastDivmod(static_cast<std::uint32_t>(problem.heads_q() / problem.heads_k()));
  params.group_v = tile::FastDivmod(static_cast<std::uint32_t>(problem.heads_q() / problem.heads_v()));
  params.dim_v = static_cast<std::int32_t>(problem.dim_v());
  params.row_tiles = plan.row_tiles;
  const std::int64_t batch_heads = problem.batch() * problem.heads_q();
  params.whole_tiles = plan.tiles - plan.shared;
  params.tiles = plan.tiles + plan.shared;
  const std::int32_t together = heads_of_section(problem, site.device, problem.heads_q(), problem.length_kv);
  params.sections = {together, params.row_tiles, batch_heads, problem.heads_q()};
  if (plan.goes_to_the_free) params.next_tile = static_cast<std::int32_t*>(site.workspace);
  params.turns = static_cast<std::uint32_t*>(site.workspace);
  params.sums = reinterpret_cast<float*>(sums);
  params.scale = static_cast<float>(problem.scale);
  params.numbers = args.float8;
  params.o_type = any_type(problem.o.geometry.type);
  const std::int32_t* const lengths = problem.has_length_kv != 0 ? args.length_kv : nullptr;
  kernels::FlashFloat8TurnParams turn = turn_params(problem.v, args.v.data, turned, lengths, args);
  turn.counters = params.turns;
  turn.counter_words = plan.counter_words;
  kernels::launch_flash_float8_turn_sm90(turn, site.stream);
  kernels::launch_flash_float8_forward_sm90(params, plan.shape, site.device.multiprocessors, site.stream);
  return cuda::launch_status("flash_float8_sm90");
}

Support supports_flash_float8_backward_sm90(const Problem& problem, const Device& device) {
  if (problem.backward == 0) return Support::no("it is a backward engine");
  if (const Support common = supports_common(problem, device); !common) return common;
  if (problem.dim_qk() > 128 || problem.dim_v() > 128) return Support::no("it takes head dimensions up to 128");
  if (problem.heads_k() != problem.heads_v()) return Support::no("it takes as many heads of k as of v");
  if (problem.has_dsink != 0) return Support::no("it makes no dSink");
  if (!problem.dq.exists() || (!problem.dk.exists() && !problem.dv.exists())) {
    return Support::no("it makes dq together with dk or dv");
  }
  for (const Tensor* tensor : {&problem.d_o, &problem.dq, &problem.dk, &problem.dv}) {
    if (!tensor->exists()) continue;
    if (const char* const reason = unsupported_layout(*tensor)) return Support::no(reason);
  }
  return Support::yes();
}

std::size_t flash_float8_backward_sm90_workspace(const Problem& problem, const Device& device) {
  Pieces pieces(nullptr);
  const BackwardCopies c = copies_of(problem);
  (void)take_operands(problem, c, &pieces);
  for (const Tensor* copy : {&c.dq, &c.dk, &c.dv}) (void)pieces.take(*copy);
  (void)pieces.take(flash_fused_backward_sm90_workspace(problem_of_copies(problem, c), device));
  return pieces.taken();
}

Status flash_float8_backward_sm90(const LaunchSite& site, const Problem& problem, const Args& args) {
  const bool has_bytes = multiplies_bytes(problem);
  Pieces pieces(site.workspace);
  const BackwardCopies c = copies_of(problem);
  CopyData data = take_operands(problem, c, &pieces);
  data.dq = pieces.take(c.dq), data.dk = pieces.take(c.dk), data.dv = pieces.take(c.dv);
  FusedByteMaps maps;
  const bool encoded = !has_bytes || cuda::with_context(site.device.ordinal,
                                                        [&] { return encode_operands(problem, args, data, &maps); });
  GPUDNN_REQUIRE(encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
  const Problem of_copies = problem_of_copies(problem, c);
  LaunchSite inner = site;
  inner.workspace_bytes = flash_fused_backward_sm90_workspace(of_copies, site.device);
  inner.workspace = pieces.take(inner.workspace_bytes);
  const Args copied = args_of_copies(args, data);
  const kernels::FlashDeltaParams rows = fused_delta_params(inner, of_copies, copied);
  kernels::FlashFloat8DeltaParams delta = delta_params(problem, args);
  delta.lse = rows.lse;
  delta.delta = rows.delta;
  delta.pitch = rows.pitch;
  (void)cudaMemsetAsync(rows.zeroed, 0, static_cast<std::size_t>(rows.zeroed_words) * 4, site.stream);
  if (has_bytes) {
    launch_turns(site, problem, args, data);
  } else {
    kernels::FlashFloat8WidenParams widen{
        {copy_between(problem.q, args.q.data, data.q), copy_between(problem.k, args.k.data, data.k),
         copy_between(problem.v, args.v.data, data.v), copy_between(problem.d_o, args.d_o.data, data.d_o)},
        {chunks_of(c.q), chunks_of(c.k), chunks_of(c.v), chunks_of(c.d_o)},
        args.float8};
    kernels::launch_flash_float8_widen_sm90(widen, site.stream);
  }
  kernels::launch_flash_float8_delta_sm90(delta, site.stream);
  GPUDNN_TRY(fused_backward_behind_delta(inner, of_copies, copied, rows, &args.float8, has_bytes ? &maps : nullptr));
  kernels::FlashFloat8NarrowParams narrow{
      {copy_between(problem.dq, args.dq.data, data.dq), copy_between(problem.dk, args.dk.data, data.dk),
       copy_between(problem.dv, args.dv.data, data.dv)},
      {chunks_of(c.dq), chunks_of(c.dk), chunks_of(c.dv)},
      has_bytes,
      args.float8};
  kernels::launch_flash_float8_narrow_sm90(narrow, site.stream);
  return cuda::launch_status("flash_float8_backward_sm90");
}

}  // namespace gpudnn::attention
