// The launcher of flash_wide_backward_sm90: attention backward in 16-bit types on Hopper with head dimensions of 129 to
// 256, with five products.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_wide_backward_sm90.hpp"

#include <algorithm>

#include "core/tensor_map_cuda.hpp"
#include "ops/attention/cuda_engines.hpp"
#include "ops/attention/flash_gather.hpp"
#include "ops/attention/flash_sm90.hpp"
#include "ops/attention/params.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::attention {
namespace {

// What the engine keeps in the workspace, one after the other: dq in float, lse and delta, words that count, and, where
// heads of a group are shared, sums of dk and dv.
struct WideSpace {
  std::int64_t query_tiles = 0;  // of a head
  std::int64_t all_tiles = 0;    // of queries
  std::int64_t key_tiles = 0;    // of a head, a cluster's
  std::int64_t pitch = 0;
  std::int64_t parts = 1;
  std::int64_t partial_rows = 0;
  std::int64_t dq_floats = 0, row_floats = 0, words = 0, partial_floats = 0;
  [[nodiscard]] std::int64_t bytes() const { return 4 * (dq_floats + row_floats + words + partial_floats); }
};

std::int64_t tiles_of(std::int64_t length, std::int64_t rows) { return (length + rows - 1) / rows; }

WideSpace wide_space(const Problem& problem, const Device& device) {
  WideSpace space;
  const std::int64_t heads = problem.batch() * problem.heads_q();
  const std::int64_t heads_k = problem.batch() * problem.heads_k();
  space.query_tiles = tiles_of(problem.length_q(), kernels::kFlashWideStream);
  space.all_tiles = space.query_tiles * heads;
  const std::int64_t keys = std::int64_t{kernels::kFlashWideBlocks} * kernels::kFlashWideRows;
  space.key_tiles = tiles_of(problem.length_kv, keys);
  space.pitch = tiles_of(problem.length_q(), kernels::kFlashBackwardPitch) * kernels::kFlashBackwardPitch;
  space.parts = parts_of_group(problem, space.key_tiles * heads_k, device.multiprocessors / kernels::kFlashWideBlocks);
  space.partial_rows = space.key_tiles * keys;
  space.dq_floats = problem.dq.exists() ? space.all_tiles * kernels::kFlashWideStream * kernels::kFlashWideDim : 0;
  space.row_floats = 2 * space.pitch * heads;
  space.words = (space.all_tiles * kernels::kFlashWideWords + 1 + 3) / 4 * 4;  // what follows is read in 16 bytes
  if (space.parts > 1) {
    space.partial_floats = space.parts * heads_k * space.partial_rows * 2 * kernels::kFlashWideDim;
  }
  return space;
}

// Heads whose key tiles go together: some 4 clusters on each. The last of them starts so many tiles late, and the first
// alone reads q and dO from device memory.
std::int32_t wide_heads_of_section(std::int64_t heads, int clusters) {
  const std::int64_t wanted = std::max((clusters + 3) / 4, 1);
  const std::int64_t sections = tiles_of(heads, wanted);
  return static_cast<std::int32_t>(tiles_of(heads, sections));
}

}  // namespace

void launch_sums_of_parts(const LaunchSite& site, const Problem& problem, const Args& args, const PartialSums& sums) {
  const kernels::AttentionParams tensors = attention_params(problem, args);
  kernels::FlashWideSumParams params;
  params.mask = mask_of(problem, args);
  params.rows = sums.rows;
  params.batch = static_cast<std::int32_t>(problem.batch());
  params.heads = static_cast<std::int32_t>(problem.heads_k());
  params.parts = sums.parts;
  const auto launch = [&](const kernels::AttentionTensor& out, std::int64_t dim, const float* partial,
                          std::int32_t built_dim, float scale) {
    params.out = out;
    params.dim = static_cast<std::int32_t>(dim);
    params.partial = partial;
    params.built_dim = built_dim;
    params.scale = scale;
    kernels::launch_flash_wide_sums_sm90(params, element_type(problem.type()), site.stream);
  };
  if (problem.dk.exists()) launch(tensors.dk, problem.dim_qk(), sums.dk, sums.dim_qk, sums.scale_dk);
  if (problem.dv.exists()) launch(tensors.dv, problem.dim_v(), sums.dv, sums.dim_v, sums.scale_dv);
}

Support supports_flash_wide_backward_sm90(const Problem& problem, const Device& device) {
  if (const Support common = supports_backward_sm90(problem, device, {.widest = 256}); !common) return common;
  if (problem.dim_qk() <= 128 && problem.dim_v() <= 128) {
    return Support::no("it takes head dimensions beyond 128");
  }
  if (problem.bias.rank != 0 || problem.dbias.rank != 0) return Support::no("it takes no bias");
  const WideSpace space = wide_space(problem, device);
  const std::int64_t tiles = space.key_tiles * problem.batch() * problem.heads_k() * space.parts;
  if (space.all_tiles >= std::int64_t{1} << 30 || tiles >= std::int64_t{1} << 30) {
    return Support::no("it takes up to 2^30 tiles of queries and of keys");
  }
  if (problem.batch() * problem.heads_k() > 65535)
    return Support::no("it takes up to 65,535 heads of k in all batches");
  return Support::yes();
}

std::size_t flash_wide_backward_sm90_workspace(const Problem& problem, const Device& device) {
  return static_cast<std::size_t>(wide_space(problem, device).bytes());
}

Status flash_wide_backward_sm90(const LaunchSite& site, const Problem& problem, const Args& args) {
  const WideSpace space = wide_space(problem, site.device);
  auto* const dq_tiles = static_cast<float*>(site.workspace);
  float* const rows = dq_tiles + space.dq_floats;
  kernels::FlashDeltaParams delta = delta_params(problem, args, space.pitch, rows);
  delta.zeroed = reinterpret_cast<std::uint32_t*>(rows + space.row_floats);
  delta.zeroed_words = space.words;
  const tile::ElementType type = element_type(problem.type());
  kernels::launch_flash_delta_sm90(delta, type, site.stream);

  kernels::FlashWideBackwardParams params;
  const std::int64_t box = kernels::kFlashWideBox;
  const bool encoded = cuda::with_context(site.device.ordinal, [&] {
    return encode(problem.q, args.q.data, box, &params.q) && encode(problem.d_o, args.d_o.data, box, &params.d_o) &&
           encode(problem.k, args.k.data, kernels::kFlashWideRows, &params.k) &&
           encode(problem.v, args.v.data, kernels::kFlashWideRows, &params.v) &&
           (!problem.dk.exists() || encode(problem.dk, args.dk.data, kernels::kFlashWideRows, &params.dk)) &&
           (!problem.dv.exists() || encode(problem.dv, args.dv.data, kernels::kFlashWideRows, &params.dv));
  });
  GPUDNN_REQUIRE(encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
  params.mask = delta.mask;
  params.lse = delta.lse;
  params.delta = delta.delta;
  params.pitch = delta.pitch;
  params.dq = problem.dq.exists() ? dq_tiles : nullptr;
  params.added = delta.zeroed;
  params.tickets = delta.zeroed + space.all_tiles * kernels::kFlashWideWords;
  params.batch = static_cast<std::int32_t>(problem.batch());
  params.heads = static_cast<std::int32_t>(problem.heads_k());
  params.group = static_cast<std::int32_t>(problem.heads_q() / problem.heads_k());
  params.parts = static_cast<std::int32_t>(space.parts);
  params.key_tiles = static_cast<std::int32_t>(space.key_tiles);
  params.query_tiles = static_cast<std::int32_t>(space.query_tiles);
  params.batch_heads = static_cast<std::int32_t>(problem.batch() * problem.heads_k() * space.parts);
  const int at_once = std::max(site.device.multiprocessors / kernels::kFlashWideBlocks, 1);
  params.clusters = std::min(params.key_tiles * params.batch_heads, at_once);
  constexpr std::int64_t kKeys = std::int64_t{kernels::kFlashWideBlocks} * kernels::kFlashWideRows;
  const std::int64_t read =
      params.clusters * (params.group / params.parts) * kKeys * kernels::kFlashWideDim * kBytesOfQueries;
  params.period = walk_period(params.mask, kKeys, kernels::kFlashWideStream, read, site.device);
  params.sections = {wide_heads_of_section(params.batch_heads, at_once), params.key_tiles, params.batch_heads,
                     problem.heads_k() * space.parts};
  params.by_parts = tile::FastDivmod(static_cast<std::uint32_t>(space.parts));
  params.writes_dk = problem.dk.exists();
  params.writes_dv = problem.dv.exists();
  params.scale = static_cast<float>(problem.scale);
  params.scale_log2 = static_cast<float>(problem.scale * kLog2E);
  if (space.parts > 1) {
    params.partial_dk = rows + space.row_floats + space.words;
    params.partial_rows = space.partial_rows;
    const std::int64_t of_parts = space.parts * params.batch * params.heads * space.partial_rows;
    params.partial_dv = params.partial_dk + of_parts * kernels::kFlashWideDim;
  }

  const kernels::AttentionParams tensors = attention_params(problem, args);
  kernels::FlashWideDqParams dq;
  dq.tiles = params.dq;
  dq.added = params.added;
  dq.dq = tensors.dq;
  dq.length = delta.mask.length_q;
  dq.heads = static_cast<std::int32_t>(problem.heads_q());
  dq.dim = static_cast<std::int32_t>(problem.dim_qk());
  dq.query_tiles = params.query_tiles;
  dq.batch_heads = static_cast<std::int32_t>(problem.batch() * problem.heads_q());
  dq.scale = params.scale;
  kernels::launch_flash_wide_backward_sm90(params, dq, type, site.stream);
  if (space.parts > 1) {
    launch_sums_of_parts(site, problem, args,
                         {params.partial_dk, params.partial_dv, space.partial_rows, params.parts,
                          kernels::kFlashWideDim, kernels::kFlashWideDim, params.scale, 1.0F});
  }
  if (problem.has_dsink != 0) {
    kernels::FlashGatherBackwardParams sink = gather_backward_params(site, problem, args);
    sink.lse = delta.lse;
    sink.delta = delta.delta;
    sink.pitch = delta.pitch;
    launch_gather_dsink(site, problem, sink);
  }
  return cuda::launch_status("flash_wide_backward_sm90");
}

}  // namespace gpudnn::attention
