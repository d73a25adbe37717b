// Instances and launch of the backward pass of layer normalization over rows.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/layer_norm/few_rows.hpp"
#include "kernels/layer_norm/finish.hpp"
#include "kernels/layer_norm/fit.hpp"
#include "kernels/layer_norm/ring.hpp"
#include "kernels/layer_norm/rows_backward.cuh"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

using Rows = tile::LoopNest<kLnSlots>;

// How a problem is cut: from its shape and the device alone, as the workspace is.
struct Cut {
  int packs = 0;    // of a thread
  int lanes = 0;    // of a row; 0: a block or cluster
  int threads = 0;  // of a block
  int cluster = 1;
  std::int64_t steps = 0;  // groups of rows that are worked on at once
  std::int64_t parts = 0;  // clusters of a sample, each with its part of dscale and dbias
  LayerNormRing ring;      // if it takes the problem, nothing but `parts` counts of the others
  bool warp_rings = false;
};

constexpr int kMaxPacks = 3;
constexpr std::int64_t kMaxSamples = 65535;

bool asks_for_parameters(const LayerNormParams& params) {
  return params.dscale.data != nullptr || params.dbias.data != nullptr;
}

// Samples, each with a scale, dscale and dbias of its own: 1 unless the rows come as samples of rows. 0: neither.
std::int64_t samples_of(const LayerNormParams& params) {
  const tile::HostNest& between = params.between;
  const std::int64_t length = params.within.count();
  const bool asks = asks_for_parameters(params);
  const std::int64_t samples = asks ? params.params.count() / length
                               : params.scale.data != nullptr && between.rank == 2 && between.strides[kLnScale][0] != 0
                                   ? between.dims[0]
                                   : 1;
  if (samples == 1) return 1;
  const tile::HostNest& nest = params.params;
  if (between.rank != 2 || between.dims[0] != samples || samples > kMaxSamples) return 0;
  if (asks && (nest.rank != 2 || nest.dims[0] != samples || nest.strides[kLnSumX][0] != between.strides[kLnX][0]))
    return 0;
  return samples;
}

// Threads of a multiprocessor that the registers of a thread with that many packs of so many elements leave room for.
int resident_threads(const Cut& cut, int width) {
  if (cut.packs == 1) return 1024;
  return cut.lanes > 0 && width == 4 ? kLnBackwardFloatBlocks * kLnWarpThreads : 512;
}

Cut cut_of(const LayerNormParams& params) {
  const int width = 16 / tile::any_type_bytes(params.x.type);
  const std::int64_t packs = params.within.count() / width;
  const std::int64_t samples = samples_of(params);
  const std::int64_t rows = params.between.count() / samples;
  Cut cut;
  cut.warp_rings = params.has_clusters && width == 8 && layer_norm_warp_ring_takes(packs);
  if (params.has_clusters && !cut.warp_rings) {
    cut.ring = layer_norm_ring(packs, width == 8 ? 2 : 4, 2, rows, samples, params.multiprocessors);
    if (cut.ring.cluster > 0) {
      cut.parts = cut.ring.clusters;
      return cut;
    }
  }
  if (cut.warp_rings) {
    cut.packs = 2;
    cut.threads = kLnWarpThreads;
    const int at_once = layer_norm_warp_ring_at_once(packs);
    cut.steps = (rows + at_once - 1) / at_once;
  } else if (packs <= 64) {
    cut.packs = packs <= 4 ? 1 : 2;
    cut.lanes = packs <= 8 ? 4 : packs <= 16 ? 8 : packs <= 32 ? 16 : 32;
    cut.threads = kLnWarpThreads;
    const int at_once = cut.threads / cut.lanes;
    cut.steps = (rows + at_once - 1) / at_once;
  } else {
    const int most = params.has_clusters ? kLnMaxCluster : 1;
    // Two packs a thread: with three, and where there are no clusters, the scale does not fit the registers.
    while (cut.cluster < most && packs > 2 * kLnBackwardThreads * cut.cluster) cut.cluster *= 2;
    while (cut.cluster < most && packs > 256 * cut.cluster && rows * samples * cut.cluster < params.multiprocessors)
      cut.cluster *= 2;
    const std::int64_t of_block = (packs + cut.cluster - 1) / cut.cluster;
    cut.packs = of_block <= 2 * kLnBackwardThreads ? 2 : 3;
    cut.threads = static_cast<int>(((of_block + cut.packs - 1) / cut.packs + 31) / 32 * 32);
    cut.steps = rows;
  }
  const int blocks = cut.warp_rings ? layer_norm_warp_ring_blocks(packs)
                                    : tile::greatest(resident_threads(cut, width) / cut.threads, 1);
  const std::int64_t resident =
      tile::greatest<std::int64_t>(params.multiprocessors * blocks / cut.cluster / samples, 1);
  cut.parts = tile::least(resident, cut.steps);
  return cut;
}

template <class T, int kPacks, int kLanes>
void launch_rows(const Cut& cut, const LayerNormBackwardArgs& args, const Rows& rows, cudaStream_t stream) {
  cuda::launch_kernel(layer_norm_rows_backward<T, kPacks, kLanes>,
                      cuda::clusters_of(rows.count / args.of_sample * cut.parts, cut.cluster, cut.threads), stream,
                      args, rows);
}

template <class T>
void launch_typed(const Cut& cut, const LayerNormBackwardArgs& args, const Rows& rows, cudaStream_t stream) {
  switch (cut.lanes) {
    case 4:
      return cut.packs == 1 ? launch_rows<T, 1, 4>(cut, args, rows, stream)
                            : launch_rows<T, 2, 4>(cut, args, rows, stream);
    case 8:
      return launch_rows<T, 2, 8>(cut, args, rows, stream);
    case 16:
      return launch_rows<T, 2, 16>(cut, args, rows, stream);
    case 32:
      return launch_rows<T, 2, 32>(cut, args, rows, stream);
    default:
      return cut.packs == 2 ? launch_rows<T, 2, 0>(cut, args, rows, stream)
                            : launch_rows<T, 3, 0>(cut, args, rows, stream);
  }
}

void launch_finish(const LayerNormParams& params, std::int64_t parts, cudaStream_t stream) {
  launch_layer_norm_finish({.partials = params.partials,
                            .length = params.within.count(),
                            .parts = static_cast<int>(parts),
                            .dscale = params.dscale,
                            .dbias = params.dbias,
                            .samples = static_cast<int>(samples_of(params)),
                            .dscale_sample = params.params.strides[kLnSumDscale][0],
                            .dbias_sample = params.params.strides[kLnSumDbias][0]},
                           stream);
}

// Few rows that are one step apart, and dx apart from x and dy, which are read while it is written.
bool are_few(const LayerNormParams& params) {
  return asks_for_parameters(params) && params.between.rank == 1 && params.between.count() <= kLnFewRows &&
         params.out.data != params.x.data && params.out.data != params.dy.data;
}

void launch_few_rows(const LayerNormParams& params, cudaStream_t stream) {
  const tile::HostNest& rows = params.between;
  launch_layer_norm_few_rows({.x = params.x.data,
                              .dy = params.dy.data,
                              .type = params.x.type,
                              .mean = params.rms ? LayerNormTensor{} : params.mean,
                              .inverse = params.inverse,
                              .dscale = params.dscale,
                              .dbias = params.dbias,
                              .length = params.within.count(),
                              .x_row = rows.strides[kLnX][0],
                              .dy_row = rows.strides[kLnOther][0],
                              .mean_row = rows.strides[kLnMean][0],
                              .inverse_row = rows.strides[kLnInverse][0],
                              .rows = static_cast<int>(rows.count())},
                             stream);
}

}  // namespace

bool layer_norm_rows_backward_fit(const LayerNormParams& params) {
  if (!params.backward || !layer_norm_is_rows(params) || params.within.rank != 1) return false;
  const int width = 16 / tile::any_type_bytes(params.x.type);
  if (params.dy.type != params.x.type || params.out.type != params.x.type) return false;
  if (!layer_norm_in_packs(params, width) || params.between.count() > tile::kMaxIterations / kLnMaxCluster)
    return false;
  if (params.scale.data != nullptr && params.within.strides[kLnScale][0] != 1) return false;
  const std::int64_t samples = samples_of(params);
  if (samples == 0) return false;
  for (int i = samples == 1 ? 0 : 1; i < params.between.rank; ++i) {
    if (params.between.dims[i] > 1 && params.between.strides[kLnScale][i] != 0) return false;
  }
  if (asks_for_parameters(params)) {
    // The parameters are the columns, in their order, of each sample.
    const int last = samples == 1 ? 0 : 1;
    if (params.params.count() != samples * params.within.count() || params.params.rank != last + 1) return false;
    for (const int slot : {kLnSumX, kLnSumDscale, kLnSumDbias}) {
      const bool asked = slot == kLnSumX || (slot == kLnSumDscale ? params.dscale : params.dbias).data != nullptr;
      if (asked && params.params.strides[slot][last] != 1) return false;
    }
    for (const LayerNormTensor* tensor : {&params.dscale, &params.dbias}) {
      if (tensor->data != nullptr && !is_float_or_half(tensor->type)) return false;
    }
  }
  const int most = params.has_clusters ? kLnMaxCluster : 1;
  return params.within.count() / width <= std::int64_t{kMaxPacks} * kLnBackwardThreads * most;
}

std::size_t layer_norm_partial_bytes(const LayerNormParams& params) {
  if (!asks_for_parameters(params)) return 0;
  return static_cast<std::size_t>(cut_of(params).parts * samples_of(params) * 2 * params.within.count()) *
         sizeof(float);
}

void launch_layer_norm_rows_backward(const LayerNormParams& params, CUstream_st* stream) {
  const Cut cut = cut_of(params);
  LayerNormBackwardArgs args = {};
  args.x = params.x.data;
  args.dy = params.dy.data;
  args.dx = params.out.data;
  args.scale = {params.scale.data, params.scale.type};
  args.mean = {params.rms ? nullptr : params.mean.data, params.mean.type};
  args.inverse = {params.inverse.data, params.inverse.type};
  args.is_accompanied = cut.ring.cluster > 0 && samples_of(params) == 1 && are_few(params);
  args.partials = asks_for_parameters(params) && !args.is_accompanied ? params.partials : nullptr;
  args.length = params.within.count();
  args.one_over_length = static_cast<float>(1 / static_cast<double>(args.length));
  const std::int64_t samples = samples_of(params);
  args.of_sample = static_cast<std::uint32_t>(params.between.count() / samples);
  args.parts = static_cast<std::uint32_t>(cut.parts);
  args.scale_sample = samples == 1 ? 0 : params.between.strides[kLnScale][0];
  args.steps = static_cast<std::uint32_t>(cut.steps);
  args.cluster = cut.cluster;
  const Rows rows(params.between);
  if (cut.ring.cluster > 0) {
    const int parts = launch_layer_norm_ring_backward(cut.ring, params.x.type, args, rows, stream);
    if (args.partials != nullptr) launch_finish(params, parts, stream);
    if (args.is_accompanied) launch_few_rows(params, stream);
    return;
  }
  if (cut.warp_rings) {
    launch_layer_norm_warp_ring_backward(params.x.type, args, rows, stream);
    if (args.partials != nullptr) launch_finish(params, cut.parts, stream);
    return;
  }
  switch (params.x.type) {
    case tile::AnyType::f16:
      launch_typed<tile::Half>(cut, args, rows, stream);
      break;
    case tile::AnyType::bf16:
      launch_typed<tile::BFloat16>(cut, args, rows, stream);
      break;
    default:
      launch_typed<float>(cut, args, rows, stream);
      break;
  }
  if (args.partials != nullptr) launch_finish(params, cut.parts, stream);
}

}  // namespace gpudnn::kernels
