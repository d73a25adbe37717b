// The launcher of flash_fused_backward_sm90: attention backward in 16-bit types on Hopper, with five products.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_fused_backward_sm90.hpp"

#include <cuda_runtime.h>

#include <algorithm>

#include "core/tensor_map_cuda.hpp"
#include "kernels/attention/flash_dbias_sm90.hpp"
#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/flash_gather.hpp"
#include "ops/attention/flash_sm90.hpp"
#include "ops/attention/params.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::attention {
namespace {

// What flash_fused_backward_sm90 keeps in the workspace: dq in float, lse and delta, a word for each query tile,
// tickets; sums of dk and dv of a group's parts; of ragged tensors, maps; partial sums of dBias.
struct FusedSpace {
  int dim = 0;                   // of q and k that the kernel is built for
  std::int64_t lead = 0;         // rows of a head's first tile of queries before the first query
  std::int64_t query_tiles = 0;  // of a head
  std::int64_t all_tiles = 0;    // of queries
  std::int64_t pitch = 0;
  std::int64_t dq_floats = 0, row_floats = 0;
  std::int64_t words = 0;
  std::int64_t parts = 1;    // of a group of query heads
  std::int64_t members = 1;  // of a part
  std::int64_t query_parts = 1;
  std::int64_t partial_rows = 0, partial_floats = 0;
  std::int64_t maps_at = 0;  // bytes
  std::int64_t partial_at = 0;
  std::int64_t bytes = 0;
};
bool has_ragged(const Problem& problem) {
  for (const Tensor* tensor : {&problem.q, &problem.k, &problem.v, &problem.d_o, &problem.dk, &problem.dv}) {
    if (tensor->is_ragged()) return true;
  }
  return false;
}

// What TMA asks of bias and dBias: their own element for each score, or for those of each batch or head.
bool has_tiles(const Problem& problem, const TensorGeometry& bias) {
  if (bias.rank == 0 || bias.type != problem.type()) return false;
  if (bias.dims[2] != problem.length_q() || bias.dims[3] != problem.length_kv || bias.strides[3] != 1) return false;
  for (int i = 0; i < 3; ++i) {
    if (bias.dims[i] == 1) continue;
    if (bias.strides[i] % 8 != 0 || bias.strides[i] <= 0 || bias.strides[i] >= std::int64_t{1} << 38) return false;
  }
  return true;
}

// Bias that is the same for all rows, ALiBi and dropout, which have a kernel of their own.
bool has_options_of_keys(const Problem& problem) {
  const TensorGeometry& bias = problem.bias;
  const bool other = problem.has_dropout != 0 || problem.has_alibi != 0;
  if (bias.rank == 0) return other;
  if (!other && has_tiles(problem, bias)) return false;
  return bias.dims[2] == 1 && (bias.dims[1] == 1 || problem.heads_q() == problem.heads_k());
}

// Whether dBias is dS. Tiles of scores that nothing sees are zeros from a fill, which wants one piece of memory.
bool sees_all(const Problem& problem) {
  return problem.has_left == 0 && problem.has_right == 0 && problem.has_length_q == 0 && problem.has_length_kv == 0;
}
bool dbias_is_ds(const Problem& problem) {
  const TensorGeometry& dbias = problem.dbias;
  if (problem.bias.rank == 0 || has_options_of_keys(problem) || !has_tiles(problem, dbias)) return false;
  // Stores by TMA end with a piece of 16 bytes.
  if (dbias.dims[3] % 8 != 0) return false;
  if (dbias.dims[0] != problem.batch() || dbias.dims[1] != problem.heads_q()) return false;
  return sees_all(problem) || element_span(dbias) == element_count(dbias);
}

// Whether dBias is made of an element for each row and column, by flash_dbias_sm90.
bool has_wide_dbias(const Problem& problem) {
  return problem.dbias.rank != 0 && !dbias_is_ds(problem) && !has_options_of_keys(problem) && !has_ragged(problem) &&
         problem.dbias.dims[2] == problem.length_q() && problem.dbias.dims[3] == problem.length_kv;
}
kernels::FlashDbiasParams wide_dbias_shape(const Problem& problem, const Device& device) {
  return dbias_shape(problem, device, kernels::kFlashDbiasWideTile, 1);
}

// Copies of 8-bit floats, of whose problem o alone has its own type: their kernels are built for head dimensions of 64
// and 128, and lse and delta are not made here.
bool is_of_copies(const Problem& problem) { return problem.o.geometry.type != problem.type(); }

// Of a head.
std::int64_t key_tiles(const Problem& problem) {
  return (problem.length_kv + kernels::kFlashFusedRows - 1) / kernels::kFlashFusedRows;
}

// Query heads of a group that a block visits: fewer than all where tiles of keys do not fill the device, or, without
// bounds, half of it: then there are some five tiles for two multiprocessors. Neither dropout nor bias of each score
// goes with parts.
std::int64_t members_of_part(const Problem& problem, const Device& device) {
  const std::int64_t group = problem.heads_q() / problem.heads_k();
  const std::int64_t tiles = key_tiles(problem) * problem.batch() * problem.heads_k();
  const std::int64_t blocks = device.multiprocessors;
  const std::int64_t enough = sees_all(problem) ? blocks / 2 : blocks;
  const bool has_no_parts =
      has_ragged(problem) || problem.has_dropout != 0 || (problem.bias.rank != 0 && !has_options_of_keys(problem));
  if (has_no_parts || tiles >= enough || group * problem.length_q() < kWorthSharing) return group;
  const std::int64_t parts = std::min((5 * blocks / 2 + tiles - 1) / tiles, group);
  return (group + parts - 1) / parts;
}

// Parts that the tiles of queries are shared by where few tiles of keys, all of the same length, leave a last round of
// blocks mostly empty: by the steps of a round, of which a tile's start and end take some three, and the sums' bytes.
std::int64_t query_parts_of(const Problem& problem, const Device& device, std::int64_t tiles, std::int64_t steps,
                            std::int64_t floats) {
  constexpr std::int64_t kEnds = 3;
  constexpr std::int64_t kPartsAtMost = 16;
  constexpr std::int64_t kFloatsOfStep = 1 << 20;  // that are written and read again in the time of a step
  const std::int64_t blocks = device.multiprocessors;
  if (!sees_all(problem) || has_ragged(problem) || problem.has_dropout != 0) return 1;
  if (problem.heads_q() / problem.heads_k() * problem.length_q() < kWorthSharing) return 1;
  if (problem.bias.rank != 0 && !has_options_of_keys(problem)) return 1;
  const auto time = [&](std::int64_t parts) {
    const std::int64_t rounds = (tiles * parts + blocks - 1) / blocks;
    const std::int64_t sums = parts == 1 ? 0 : 2 + parts * floats / kFloatsOfStep;
    return rounds * ((steps + parts - 1) / parts + kEnds) + sums;
  };
  std::int64_t best = 1;
  for (std::int64_t parts = 2; parts <= std::min(kPartsAtMost, steps); ++parts) {
    if (time(parts) < time(best) && 10 * time(parts) < 9 * time(1)) best = parts;
  }
  return best;
}

// With the causal mask alone, tiles of queries end where the queries do, as all tiles of keys see the last query. Not
// of one tile of keys, which gains nothing, and whose dq is stored by TMA: what it stores must not start before the
// first row. A multiple of 16, for which one block of dropout's generator is. Not of 8-bit floats' copies.
std::int64_t lead_of(const Problem& problem, std::int64_t dim, std::int64_t rows) {
  const bool is_causal = problem.has_right != 0 && problem.has_left == 0;
  if (dim != 64 || !is_causal || problem.dbias.rank != 0 || has_ragged(problem)) return 0;
  if (is_of_copies(problem) || key_tiles(problem) == 1) return 0;
  return (rows - problem.length_q() % rows) % rows / 16 * 16;
}

// The head dimension of q and k that the kernel is built for; 96 without options.
int built_dim(const Problem& problem) {
  const std::int64_t dim = std::max(problem.dim_qk(), problem.dim_v());
  if (problem.dim_qk() > 128) return 192;
  if (dim <= 64) return 64;
  const bool is_plain =
      problem.bias.rank == 0 && problem.dbias.rank == 0 && !has_options_of_keys(problem) && !is_of_copies(problem);
  return dim <= 96 && is_plain ? 96 : 128;
}

FusedSpace fused_space(const Problem& problem, const Device& device) {
  FusedSpace space;
  space.dim = built_dim(problem);
  const std::int64_t rows = kernels::flash_fused_stream(space.dim);
  const std::int64_t heads = problem.batch() * problem.heads_q();
  space.lead = lead_of(problem, space.dim, rows);
  space.query_tiles = (problem.length_q() + space.lead + rows - 1) / rows;
  space.all_tiles = space.query_tiles * heads;
  constexpr std::int64_t kTo = kernels::kFlashBackwardPitch;  // which the kernel of dBias wants
  space.pitch = (space.query_tiles * rows + kTo - 1) / kTo * kTo;
  space.dq_floats = problem.dq.exists() ? space.all_tiles * rows * space.dim : 0;
  space.row_floats = 2 * space.pitch * heads;
  space.words = (space.all_tiles + 1 + 3) / 4 * 4;  // what follows is read in 16 bytes
  const std::int64_t group = problem.heads_q() / problem.heads_k();
  space.members = members_of_part(problem, device);
  space.parts = (group + space.members - 1) / space.members;
  const std::int64_t heads_k = problem.batch() * problem.heads_k();
  space.partial_rows = key_tiles(problem) * kernels::kFlashFusedRows;
  const std::int64_t sums = heads_k * space.partial_rows * (space.dim + kernels::flash_fused_dim_v(space.dim));
  if (space.parts == 1) {
    space.query_parts = query_parts_of(problem, device, key_tiles(problem) * heads_k, group * space.query_tiles, sums);
    space.parts = space.query_parts;
  }
  if (space.parts > 1) space.partial_floats = space.parts * sums;
  space.bytes = 4 * (space.dq_floats + space.row_floats + space.words + space.partial_floats);
  if (has_ragged(problem)) {
    constexpr auto kAlignment = static_cast<std::int64_t>(alignof(kernels::FlashBoundedMaps));
    space.maps_at = (space.bytes + kAlignment - 1) / kAlignment * kAlignment;
    space.bytes = space.maps_at + static_cast<std::int64_t>(sizeof(kernels::FlashBoundedMaps));
  }
  if (problem.dbias.rank != 0 && !dbias_is_ds(problem)) {
    space.partial_at = space.bytes;
    space.bytes +=
        static_cast<std::int64_t>(has_wide_dbias(problem) ? dbias_partial_bytes(wide_dbias_shape(problem, device))
                                                          : gather_dbias_workspace(problem, device));
  }
  return space;
}

// Of a ragged tensor the map has all rows in one batch.
bool encode_rows(const Tensor& tensor, const void* data, std::int64_t rows, tile::TensorMap* map) {
  if (!tensor.is_ragged()) return encode(tensor, data, rows, map);
  Tensor all = tensor;
  all.geometry.dims[0] = 1;
  all.geometry.dims[2] += kMaxLength;
  return encode(all, data, rows, map);
}

bool encode_scores(const TensorGeometry& bias, const void* data, std::int64_t rows, tile::TensorMap* map) {
  Tensor scores;
  scores.geometry = bias;
  return encode(scores, data, rows, map);
}

Status launch_wide_dbias(const LaunchSite& site, const Problem& problem, const Args& args, int dim,
                         const kernels::FlashGatherBackwardParams& base, float* partial) {
  constexpr std::int64_t kRows = kernels::kFlashDbiasWideTile;
  kernels::FlashDbiasWideParams params;
  params.its = wide_dbias_shape(problem, site.device);
  params.its.base = base;
  params.its.group_v = static_cast<std::int32_t>(problem.heads_q() / problem.heads_v());
  params.its.partial = partial;
  params.has_bias = problem.bias.rank != 0;
  params.bias_has_batches = params.has_bias && problem.bias.dims[0] != 1;
  params.bias_has_heads = params.has_bias && problem.bias.dims[1] != 1;
  const bool encoded = cuda::with_context(site.device.ordinal, [&] {
    return encode(problem.q, args.q.data, kRows, &params.q) && encode(problem.k, args.k.data, kRows, &params.k) &&
           encode(problem.v, args.v.data, kRows, &params.v) && encode(problem.d_o, args.d_o.data, kRows, &params.d_o) &&
           (!params.has_bias || encode_scores(problem.bias, args.bias, kRows, &params.bias));
  });
  GPUDNN_REQUIRE(encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
  kernels::launch_flash_dbias_sm90(params, dim, site.stream);
  return GPUDNN_STATUS_SUCCESS;
}

// What is left to do behind dq, dk and dv.
Status launch_rest(const LaunchSite& site, const Problem& problem, const Args& args, const FusedSpace& space,
                   const kernels::FlashDeltaParams& delta) {
  if ((problem.dbias.rank == 0 || dbias_is_ds(problem)) && problem.has_dsink == 0) return GPUDNN_STATUS_SUCCESS;
  kernels::FlashGatherBackwardParams params = gather_backward_params(site, problem, args);
  params.lse = delta.lse + space.lead;
  params.delta = delta.delta + space.lead;
  params.pitch = delta.pitch;
  if (!dbias_is_ds(problem)) {
    auto* const partial = reinterpret_cast<float*>(static_cast<unsigned char*>(site.workspace) + space.partial_at);
    if (has_wide_dbias(problem)) {
      GPUDNN_TRY(launch_wide_dbias(site, problem, args, space.dim, params, partial));
    } else {
      launch_gather_dbias(site, problem, params, partial);
    }
  }
  launch_gather_dsink(site, problem, params);
  return GPUDNN_STATUS_SUCCESS;
}

// Tiles of keys in a run, of which every other one goes down. A tile of keys adds to dq more than a step of queries
// behind its predecessor on the head, and is two steps shorter: blocks that go upwards end in the opposite order, and
// would start their next tiles closer than that. Those that then go downwards end two steps further apart than they
// began, as far as the next ones going upwards need. Where a group's heads, or smaller tiles of queries, are more steps
// a tile, the ends are far apart anyway. A constant, so that the order of a sequence's sums is its own.
std::int32_t run_tiles_of(const Problem& problem, std::int64_t rows) {
  constexpr std::int32_t kRunTiles = 8;
  const bool is_causal = problem.has_right != 0 && problem.has_left == 0;
  const bool has_groups = problem.heads_q() != problem.heads_k();
  return is_causal && !has_groups && kernels::kFlashFusedRows <= 2 * rows ? kRunTiles : 0;
}

// Whether one tile of keys makes dq, of all rows of q.
bool dq_is_whole(const Problem& problem, const FusedSpace& space) {
  if (space.dim != 64 || !problem.dq.exists() || key_tiles(problem) != 1) return false;
  if (has_ragged(problem) || problem.bias.rank != 0 || has_options_of_keys(problem)) return false;
  if (is_of_copies(problem) || problem.has_length_q != 0 || problem.has_length_kv != 0) return false;
  return problem.has_left == 0 && (problem.has_right == 0 || (problem.right >= 0 && problem.bottom_right == 0));
}

// Heads whose key tiles go together: some 8 blocks on each, or up to 32 of long sequences without bounds, one for eight
// steps. The last block of a head starts so many tiles late, and the first alone reads q and dO from device memory. Of
// short sequences, as many as leave q, dO and dq half of the L2: then the tiles of one head, which add dq in turn, are
// further apart. 8-bit products outrun the additions of dq, unless the L2 holds it: without bounds, where no block
// waits for a shorter one, fewer heads at once.
std::int32_t fused_heads_of_section(const Problem& problem, const Device& device, const FusedSpace& space,
                                    bool is_turned) {
  const std::int64_t heads = problem.batch() * problem.heads_k() * space.parts;
  const std::int64_t row = problem.length_q() * space.members * space.dim;
  const auto held = [&](std::int64_t bytes_of_element) {
    return static_cast<std::int64_t>(device.l2_bytes) / 2 / std::max<std::int64_t>(row * bytes_of_element, 1);
  };
  const std::int64_t steps = space.query_tiles / space.query_parts * space.members;
  const std::int64_t blocks_of_head = sees_all(problem) ? std::clamp<std::int64_t>(steps / 8, 8, 32) : 8;
  std::int64_t most = std::max<std::int64_t>((device.multiprocessors + blocks_of_head - 1) / blocks_of_head, 1);
  if (is_turned && sees_all(problem)) most = std::clamp<std::int64_t>(held(4), 1, most);
  most = std::max(most, held(kBytesOfQueries));
  const std::int64_t sections = (heads + most - 1) / most;
  return static_cast<std::int32_t>((heads + sections - 1) / sections);
}

}  // namespace

Support supports_flash_fused_backward_sm90(const Problem& problem, const Device& device) {
  const FlashTakes takes = {.ragged = true, .dropout = true, .alibi = true, .widest = 192};
  if (const Support common = supports_backward_sm90(problem, device, takes); !common) return common;
  if (problem.dim_v() > 128) return Support::no("it takes head dimensions of v up to 128");
  if (problem.dim_qk() > 128 && (problem.bias.rank != 0 || problem.dbias.rank != 0 || has_options_of_keys(problem)))
    return Support::no("it takes head dimensions beyond 128 without bias, ALiBi and dropout");
  if (problem.bias.rank != 0 && !has_tiles(problem, problem.bias) && !has_options_of_keys(problem)) {
    return Support::no(
        "it takes bias of keys, or of all rows and columns in the tensors' type, at strides that are multiples of 8");
  }
  if ((problem.has_dropout != 0 || problem.has_alibi != 0) && !has_options_of_keys(problem))
    return Support::no("it takes dropout and ALiBi with bias of keys");
  if (problem.has_alibi != 0 && (problem.heads_q() != problem.heads_k() || problem.has_dropout != 0 ||
                                 problem.dbias.rank != 0 || problem.has_dsink != 0)) {
    return Support::no("it takes ALiBi with as many heads of q as of k, without dropout, dBias and dSink");
  }
  if (problem.dbias.rank != 0 && !dbias_is_ds(problem)) {
    if (const char* const reason = unsupported_gather_options(problem)) return Support::no(reason);
  }
  if (fused_space(problem, device).all_tiles >= std::int64_t{1} << 30)
    return Support::no("it takes up to 2^30 tiles of queries");
  return Support::yes();
}

std::size_t flash_fused_backward_sm90_workspace(const Problem& problem, const Device& device) {
  return static_cast<std::size_t>(fused_space(problem, device).bytes);
}

Status flash_fused_backward_sm90(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::FlashDeltaParams delta = fused_delta_params(site, problem, args);
  const auto lead = static_cast<std::int32_t>(fused_space(problem, site.device).lead);
  kernels::launch_flash_fused_delta_sm90(delta, lead, element_type(problem.type()), site.stream);
  return fused_backward_behind_delta(site, problem, args, delta, nullptr, nullptr);
}

kernels::FlashDeltaParams fused_delta_params(const LaunchSite& site, const Problem& problem, const Args& args) {
  const FusedSpace space = fused_space(problem, site.device);
  auto* const rows = static_cast<float*>(site.workspace) + space.dq_floats;
  kernels::FlashDeltaParams delta = delta_params(problem, args, space.pitch, rows);
  delta.zeroed = reinterpret_cast<std::uint32_t*>(rows + space.row_floats);
  delta.zeroed_words = space.words;
  if (problem.has_alibi != 0) delta.alibi_slopes = args.alibi_slopes;
  delta.tile_rows = kernels::flash_fused_stream(space.dim);
  return delta;
}

Status fused_backward_behind_delta(const LaunchSite& site, const Problem& problem, const Args& args,
                                   const kernels::FlashDeltaParams& delta, const kernels::AttentionFloat8* numbers,
                                   const FusedByteMaps* byte_maps) {
  const FusedSpace space = fused_space(problem, site.device);
  auto* const dq_tiles = static_cast<float*>(site.workspace);
  std::uint32_t* const words = delta.zeroed;
  kernels::FlashFusedBackwardParams params;
  params.is_scaled = numbers != nullptr;
  for (int i = 0; i < 2 && params.is_scaled; ++i) {
    params.score_factors[i] = numbers->scores[i];
    params.dp_factors[i] = numbers->dp[i];
    params.amax_ds = numbers->amax_ds;
  }
  const std::int64_t rows = kernels::flash_fused_stream(space.dim);
  params.has_options_of_keys = has_options_of_keys(problem);
  params.has_bias = problem.bias.rank != 0 && !params.has_options_of_keys;
  params.bias_has_batches = params.has_bias && problem.bias.dims[0] != 1;
  params.bias_has_heads = params.has_bias && problem.bias.dims[1] != 1;
  params.writes_dbias = dbias_is_ds(problem);
  params.dq_is_whole = dq_is_whole(problem, space);
  const bool encoded = cuda::with_context(site.device.ordinal, [&] {
    return (byte_maps != nullptr || (encode_rows(problem.q, args.q.data, rows, &params.q) &&
                                     encode_rows(problem.d_o, args.d_o.data, rows, &params.d_o) &&
                                     encode_rows(problem.k, args.k.data, kernels::kFlashFusedRows, &params.k) &&
                                     encode_rows(problem.v, args.v.data, kernels::kFlashFusedRows, &params.v))) &&
           (!problem.dk.exists() || encode_rows(problem.dk, args.dk.data, 64, &params.dk)) &&
           (!problem.dv.exists() || encode_rows(problem.dv, args.dv.data, 64, &params.dv)) &&
           (!params.dq_is_whole || encode_rows(problem.dq, args.dq.data, rows, &params.dq_rows)) &&
           (!params.has_bias || encode_scores(problem.bias, args.bias, rows, &params.bias)) &&
           (!params.writes_dbias || encode_scores(problem.dbias, args.dbias, rows, &params.dbias));
  });
  GPUDNN_REQUIRE(encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
  if (byte_maps != nullptr) {
    params.is_turned = true;
    params.gradients_are_e5m2 = byte_maps->gradients_are_e5m2;
    params.q_bytes = byte_maps->q;
    params.k_bytes = byte_maps->k;
    params.d_o_bytes = byte_maps->d_o;
    params.v = byte_maps->v;
    params.q = byte_maps->q_turned;
    params.k = byte_maps->k_turned;
    params.d_o = byte_maps->d_o_turned;
    params.scale_p = numbers->scale_s;
    params.scale_ds = numbers->scale_ds;
  }
  const kernels::AttentionParams tensors = attention_params(problem, args);
  params.key_bias = tensors.bias;
  params.alibi_slopes = tensors.alibi_slopes;
  params.drops = tensors.has_dropout && tensors.dropout.threshold != 0;
  params.dropout = tensors.dropout;
  params.keep_scale = tensors.has_dropout ? static_cast<float>(tensors.dropout.scale) : 1.0F;
  params.is_ragged = has_ragged(problem);
  params.q_rows = tensors.q;
  params.k_rows = tensors.k;
  params.v_rows = tensors.v;
  params.d_o_rows = tensors.d_o;
  params.dk_rows = tensors.dk;
  params.dv_rows = tensors.dv;
  params.dim_qk = static_cast<std::int32_t>(problem.dim_qk());
  params.dim_v = static_cast<std::int32_t>(problem.dim_v());
  params.mask = delta.mask;
  params.lse = delta.lse;
  params.delta = delta.delta;
  params.pitch = delta.pitch;
  params.dq = problem.dq.exists() ? dq_tiles : nullptr;
  params.added = words;
  params.tickets = words + space.all_tiles;
  params.heads = static_cast<std::int32_t>(problem.heads_k());
  params.group = static_cast<std::int32_t>(problem.heads_q() / problem.heads_k());
  params.key_tiles = static_cast<std::int32_t>(key_tiles(problem));
  params.query_tiles = static_cast<std::int32_t>(space.query_tiles);
  params.lead = static_cast<std::int32_t>(space.lead);
  params.batch = static_cast<std::int32_t>(problem.batch());
  params.parts = static_cast<std::int32_t>(space.parts);
  params.members = static_cast<std::int32_t>(space.members);
  params.query_parts = static_cast<std::int32_t>(space.query_parts);
  params.batch_heads = params.batch * params.heads * params.parts;
  if (space.parts > 1) {
    params.partial_rows = space.partial_rows;
    params.partial_dk = reinterpret_cast<float*>(words + space.words);
    params.partial_dv = params.partial_dk + std::int64_t{params.batch_heads} * space.partial_rows * space.dim;
  }
  params.blocks = std::min(params.key_tiles * params.batch_heads, site.device.multiprocessors);
  constexpr std::int64_t kKeys = kernels::kFlashFusedRows;
  const std::int64_t read = params.blocks * space.members * kKeys * space.dim * kBytesOfQueries;
  params.period = walk_period(params.mask, kKeys, rows, read, site.device);
  // With fewer heads in a group than that takes, neighbours that go upwards wait for each other instead.
  params.alternates =
      params.mask.has_right && !params.mask.has_left && 2 * read > 3 * static_cast<std::int64_t>(site.device.l2_bytes);
  params.run_tiles = run_tiles_of(problem, rows);
  params.sections = {fused_heads_of_section(problem, site.device, space, params.is_turned), params.key_tiles,
                     params.batch_heads, problem.heads_k() * space.parts};
  params.by_parts = tile::FastDivmod(static_cast<std::uint32_t>(space.parts));
  params.writes_dk = problem.dk.exists();
  params.writes_dv = problem.dv.exists();
  params.scale = static_cast<float>(problem.scale);
  params.scale_log2 = static_cast<float>(problem.scale * kLog2E);
  params.result_scale = params.is_turned ? 1.0F : params.scale;
  kernels::FlashFusedDqParams dq;
  dq.tiles = params.dq;
  dq.added = words;
  dq.dq = tensors.dq;
  dq.mask = delta.mask;
  dq.heads = static_cast<std::int32_t>(problem.heads_q());
  dq.dim = static_cast<std::int32_t>(problem.dim_qk());
  dq.query_tiles = params.query_tiles;
  dq.lead = params.lead;
  dq.batch_heads = static_cast<std::int32_t>(problem.batch() * problem.heads_q());
  dq.scale = params.result_scale;
  const tile::ElementType type = element_type(problem.type());
  if (params.is_ragged) {
    kernels::FlashBoundMapsParams bounds;
    bounds.maps = {params.q, params.k, params.v, params.d_o};
    bounds.q = tensors.q;
    bounds.k = tensors.k;
    bounds.v = tensors.v;
    bounds.d_o = tensors.d_o;
    bounds.mask = delta.mask;
    bounds.batch = static_cast<std::int32_t>(problem.batch());
    bounds.out =
        reinterpret_cast<kernels::FlashBoundedMaps*>(static_cast<unsigned char*>(site.workspace) + space.maps_at);
    params.bounded = bounds.out;
    kernels::launch_flash_bound_maps_sm90(bounds, site.stream);
  }
  if (params.writes_dbias && !sees_all(problem)) {
    const auto bytes = static_cast<std::size_t>(2 * element_count(problem.dbias));
    (void)cudaMemsetAsync(args.dbias, 0, bytes, site.stream);
  }
  kernels::launch_flash_fused_backward_sm90(params, dq, type, space.dim, site.stream);
  if (space.parts > 1) {
    launch_sums_of_parts(site, problem, args,
                         {params.partial_dk, params.partial_dv, space.partial_rows, params.parts, space.dim,
                          kernels::flash_fused_dim_v(space.dim), params.result_scale, params.keep_scale});
  }
  GPUDNN_TRY(launch_rest(site, problem, args, space, delta));
  return cuda::launch_status("flash_fused_backward_sm90");
}

}  // namespace gpudnn::attention
