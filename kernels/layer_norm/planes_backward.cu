// Which problems planes are taken from, instances and launch of the backward pass of group and instance normalization
// over planes.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/layer_norm/finish.hpp"
#include "kernels/layer_norm/fit.hpp"
#include "kernels/layer_norm/planes_backward.cuh"
#include "kernels/layer_norm/planes_held.hpp"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

using Sets = tile::LoopNest<kLnSlots>;

// x as samples x groups x planes of a set x elements of a plane.
struct Planes {
  std::int64_t samples = 0;
  std::int64_t groups = 0;
  std::int64_t of_set = 0;
  std::int64_t elements = 0;  // 0: x is not that
};

Planes planes_of(const LayerNormParams& params) {
  const tile::HostNest& summed = params.summed;
  if (summed.rank < 1 || summed.rank > 2 || summed.strides[kLnSumX][summed.rank - 1] != 1) return {};
  Planes planes;
  planes.elements = summed.dims[summed.rank - 1];
  planes.samples = summed.count() / planes.elements;
  const std::int64_t length = params.within.count();
  const std::int64_t channels = params.params.count();
  if (length % planes.elements != 0) return {};
  planes.of_set = length / planes.elements;
  planes.groups = channels / planes.of_set;
  if (planes.groups * planes.of_set != channels || params.between.count() != planes.samples * planes.groups) return {};
  return planes;
}

// Channels are in order, each a plane further on, and samples at least a sample.
bool channels_in_order(const LayerNormParams& params, const Planes& planes) {
  const tile::HostNest& nest = params.params;
  if (nest.rank > 2) return false;
  for (const int slot : {kLnSumX, kLnSumDscale, kLnSumDbias}) {
    if (slot != kLnSumX && (slot == kLnSumDscale ? params.dscale : params.dbias).data == nullptr) continue;
    const std::int64_t step = slot == kLnSumX ? planes.elements : 1;
    const int last = nest.rank - 1;
    if (nest.dims[last] > 1 && nest.strides[slot][last] != step) return false;
    if (last == 1 && nest.dims[0] > 1 && nest.strides[slot][0] != nest.dims[1] * step) return false;
  }
  return planes.samples == 1 || params.summed.strides[kLnSumX][0] >= planes.groups * planes.of_set * planes.elements;
}

// The scale has an element for each channel, in order.
bool scale_by_channel(const LayerNormParams& params, const Planes& planes) {
  if (params.scale.data == nullptr) return true;
  const tile::HostNest& within = params.within;
  const tile::HostNest& between = params.between;
  const auto* const inner = within.strides[kLnScale];
  const auto* const outer = between.strides[kLnScale];
  if (within.rank > 2 || between.rank > 2) return false;
  if (planes.elements > 1 && inner[within.rank - 1] != 0) return false;
  if (planes.of_set > 1 && (within.rank != 2 || within.dims[1] != planes.elements || inner[0] != 1)) return false;
  if (planes.samples > 1 && planes.groups > 1)
    return between.rank == 2 && between.dims[1] == planes.groups && outer[0] == 0 && outer[1] == planes.of_set;
  if (between.rank != 1) return false;
  return between.count() == 1 || outer[0] == (planes.groups > 1 ? planes.of_set : 0);
}

struct PlaneCut {
  int parts = 1;
  int part_packs = 0;
  int pieces = 1;
  LayerNormHeld held;  // x and dy in shared memory, by parts of planes
};

PlaneCut cut_of(const LayerNormParams& params, const Planes& planes) {
  const std::int64_t packs = planes.elements * tile::any_type_bytes(params.x.type) / 16;
  const std::int64_t all = planes.samples * planes.groups * planes.of_set;
  PlaneCut cut;
  if (params.has_clusters && packs >= kLnHeldLeast) {
    constexpr std::int64_t kHeldPiece = 128;  // packs, at most
    const std::int64_t parts = (packs + kHeldPiece - 1) / kHeldPiece;
    cut.part_packs = static_cast<int>((packs + parts - 1) / parts);
    cut.parts = static_cast<int>((packs + cut.part_packs - 1) / cut.part_packs);
    cut.held = layer_norm_held(planes.of_set * cut.parts, cut.part_packs);
    if (cut.held.cluster > 0) return cut;
  }
  std::int64_t part = kLnPlanePiece;
  while (part > kLnPlaneWarp && all * ((packs + part - 1) / part) < 4 * params.multiprocessors) part /= 2;
  cut.parts = static_cast<int>((packs + part - 1) / part);
  cut.part_packs = static_cast<int>((packs + cut.parts - 1) / cut.parts);
  const std::int64_t of_set = packs * planes.of_set;
  cut.pieces = of_set <= kLnPlaneWarp ? 1 : static_cast<int>((of_set + kLnPlanePiece - 1) / kLnPlanePiece);
  return cut;
}

template <class T>
void launch_typed(LayerNormPlaneArgs args, const PlaneCut& cut, const Sets& sets, cudaStream_t stream) {
  constexpr unsigned kWarps = kLnPlaneThreads / 32;
  args.units = sets.count * args.of_set.divisor * static_cast<unsigned>(cut.parts);
  if (cut.part_packs <= kLnPlaneWarp) {
    cuda::launch_kernel(layer_norm_plane_sums<T, 32>, {(args.units + kWarps - 1) / kWarps, kLnPlaneThreads}, stream,
                        args, sets);
  } else {
    cuda::launch_kernel(layer_norm_plane_sums<T, kLnPlaneThreads>, {args.units, kLnPlaneThreads}, stream, args, sets);
  }
  args.units = sets.count * static_cast<unsigned>(cut.pieces);
  if (args.of_set.divisor * args.plane_packs.divisor <= kLnPlaneWarp) {
    cuda::launch_kernel(layer_norm_plane_dx<T, 32>, {(args.units + kWarps - 1) / kWarps, kLnPlaneThreads}, stream, args,
                        sets);
  } else {
    cuda::launch_kernel(layer_norm_plane_dx<T, kLnPlaneThreads>, {args.units, kLnPlaneThreads}, stream, args, sets);
  }
}

}  // namespace

bool layer_norm_planes_backward_fit(const LayerNormParams& params) {
  if (!params.backward || !layer_norm_is_rows(params)) return false;
  if (params.dy.type != params.x.type || params.out.type != params.x.type) return false;
  for (const LayerNormTensor* tensor : {&params.dscale, &params.dbias}) {
    if (tensor->data != nullptr && !is_float_or_half(tensor->type)) return false;
  }
  const Planes planes = planes_of(params);
  const int width = 16 / tile::any_type_bytes(params.x.type);
  if (planes.elements == 0 || planes.elements % width != 0 || !layer_norm_in_packs(params, width)) return false;
  if (!channels_in_order(params, planes) || !scale_by_channel(params, planes)) return false;
  const PlaneCut cut = cut_of(params, planes);
  const std::int64_t units =
      params.between.count() * tile::greatest<std::int64_t>(planes.of_set * cut.parts, cut.pieces);
  return units < tile::kMaxIterations && params.within.count() < tile::kMaxIterations &&
         planes.samples * cut.parts < tile::kMaxIterations;
}

std::size_t layer_norm_planes_backward_bytes(const LayerNormParams& params) {
  const Planes planes = planes_of(params);
  return static_cast<std::size_t>(planes.samples * cut_of(params, planes).parts * 2 * params.params.count()) *
         sizeof(float);
}

void launch_layer_norm_planes_backward(const LayerNormParams& params, CUstream_st* stream) {
  const Planes planes = planes_of(params);
  const PlaneCut cut = cut_of(params, planes);
  const int width = 16 / tile::any_type_bytes(params.x.type);
  const auto divisor = [](std::int64_t value) { return tile::FastDivmod(static_cast<std::uint32_t>(value)); };
  LayerNormPlaneArgs args = {};
  args.x = params.x.data;
  args.dy = params.dy.data;
  args.dx = params.out.data;
  args.scale = {params.scale.data, params.scale.type};
  args.mean = {params.rms ? nullptr : params.mean.data, params.mean.type};
  args.inverse = {params.inverse.data, params.inverse.type};
  args.partials = params.partials;
  args.channels = static_cast<std::int32_t>(params.params.count());
  args.parts = cut.parts;
  args.part_packs = cut.part_packs;
  args.pieces = cut.pieces;
  args.plane_packs = divisor(planes.elements / width);
  args.by_parts = divisor(cut.parts);
  args.by_pieces = divisor(cut.pieces);
  args.of_set = divisor(planes.of_set);
  args.groups = divisor(planes.groups);
  args.one_over_count = static_cast<float>(1 / static_cast<double>(params.within.count()));
  const Sets sets(params.between);
  if (cut.held.cluster > 0) {
    launch_layer_norm_planes_held(cut.held, params.x.type, args, sets, stream);
  } else if (params.x.type == tile::AnyType::f16) {
    launch_typed<tile::Half>(args, cut, sets, stream);
  } else if (params.x.type == tile::AnyType::bf16) {
    launch_typed<tile::BFloat16>(args, cut, sets, stream);
  } else {
    launch_typed<float>(args, cut, sets, stream);
  }
  if (params.dscale.data == nullptr && params.dbias.data == nullptr) return;
  launch_layer_norm_finish({.partials = params.partials,
                            .length = params.params.count(),
                            .parts = static_cast<int>(planes.samples * cut.parts),
                            .dscale = params.dscale,
                            .dbias = params.dbias},
                           stream);
}

}  // namespace gpudnn::kernels
