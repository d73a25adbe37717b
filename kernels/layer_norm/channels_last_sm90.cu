// How channels-last tensors are cut for group and instance normalization, its instances and its launch.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/layer_norm/channels_last_sm90.cuh"
#include "kernels/layer_norm/finish.hpp"
#include "kernels/layer_norm/fit.hpp"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

std::int64_t rounded_up(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

// The strides of a tensor in the canonical loops.
struct LastStrides {
  std::int64_t sample, group, pixel, channel;
};

// Which loops of the nests are samples, groups, pixels and channels of a group; -1: none.
struct LastLoops {
  int sample = -1, group = -1, pixel = -1, channel = -1;
};

LastStrides strides_of(const LayerNormParams& params, const LastLoops& loops, int slot) {
  const auto at = [slot](const tile::HostNest& nest, int loop) { return loop < 0 ? 0 : nest.strides[slot][loop]; };
  return {at(params.between, loops.sample), at(params.between, loops.group), at(params.within, loops.pixel),
          at(params.within, loops.channel)};
}

// x as samples x pixels x groups x channels of a group; channels 0: it is not that.
LayerNormChannelsLast shape_of(const LayerNormParams& params, LastLoops* loops) {
  const tile::HostNest& within = params.within;
  const tile::HostNest& between = params.between;
  LayerNormChannelsLast shape;
  if (within.rank < 1 || within.rank > 2 || between.rank < 1 || between.rank > 2) return shape;
  shape.pixels = within.dims[0];
  loops->pixel = 0;
  std::int64_t of_group = 1;
  if (within.rank == 2) {
    if (within.strides[kLnX][1] != 1) return shape;
    loops->channel = 1;
    of_group = within.dims[1];
  }
  const std::int64_t channels = within.strides[kLnX][0];
  // The groups of a pixel lie side by side, and fill it.
  std::int64_t groups = 1;
  shape.samples = 1;
  for (int i = 0; i < between.rank; ++i) {
    const bool last = i + 1 == between.rank;
    if (last && between.strides[kLnX][i] == of_group && between.dims[i] * of_group == channels) {
      loops->group = i;
      groups = between.dims[i];
    } else if (i == 0) {
      loops->sample = 0;
      shape.samples = between.dims[0];
    } else {
      return {};
    }
  }
  if (groups * of_group != channels || channels > kLnLastThreads * 8 || shape.samples >= tile::kMaxIterations)
    return {};
  shape.groups = static_cast<int>(groups);
  shape.of_group = static_cast<int>(of_group);
  shape.channels = static_cast<int>(channels);
  return shape;
}

// Whether `slot` lies as x does, but for the distance of samples.
bool lies_as_x(const LayerNormParams& params, const LastLoops& loops, const LayerNormChannelsLast& shape, int slot,
               int width) {
  const LastStrides strides = strides_of(params, loops, slot);
  return (shape.groups == 1 || strides.group == shape.of_group) &&
         (shape.pixels == 1 || strides.pixel == shape.channels) && (shape.of_group == 1 || strides.channel == 1) &&
         (shape.samples == 1 || strides.sample % width == 0);
}

// A parameter has an element for each channel, in order.
bool is_by_channel(const LayerNormParams& params, const LastLoops& loops, const LayerNormChannelsLast& shape,
                   int slot) {
  const LastStrides strides = strides_of(params, loops, slot);
  return (shape.samples == 1 || strides.sample == 0) && (shape.pixels == 1 || strides.pixel == 0) &&
         (shape.groups == 1 || strides.group == shape.of_group) && (shape.of_group == 1 || strides.channel == 1);
}

bool asks_for_parameters(const LayerNormParams& params) {
  return params.backward && (params.dscale.data != nullptr || params.dbias.data != nullptr);
}

// dscale and dbias have the channels in their order.
bool gradients_by_channel(const LayerNormParams& params, const LayerNormChannelsLast& shape) {
  const tile::HostNest& nest = params.params;
  if (nest.count() != shape.channels || nest.rank < 1 || nest.rank > 2) return false;
  for (const int slot : {kLnSumX, kLnSumDscale, kLnSumDbias}) {
    const bool asked = slot == kLnSumX || (slot == kLnSumDscale ? params.dscale : params.dbias).data != nullptr;
    if (!asked) continue;
    if (nest.dims[nest.rank - 1] > 1 && nest.strides[slot][nest.rank - 1] != 1) return false;
    if (nest.rank == 2 && nest.dims[0] > 1 && nest.strides[slot][0] != nest.dims[1]) return false;
  }
  return true;
}

int width_of(const LayerNormParams& params) { return 16 / tile::any_type_bytes(params.x.type); }

LayerNormLastCut cut_of(const LayerNormParams& params, const LayerNormChannelsLast& shape) {
  return layer_norm_last_cut(shape, tile::any_type_bytes(params.x.type), params.backward ? 2 : 1,
                             params.multiprocessors);
}

LayerNormLastStatistic statistic_of(const LayerNormTensor& tensor, const LastStrides& strides) {
  return {tensor.data, tensor.type, strides.sample, strides.group};
}

struct LastPlan {
  LayerNormChannelsLast shape;
  LastLoops loops;
  LayerNormLastCut cut;
};

std::size_t bytes_of(const LayerNormParams& params, const LastPlan& plan) {
  return layer_norm_last_layout(plan.cut, plan.shape, asks_for_parameters(params)).bytes;
}

LayerNormLastArgs args_of(const LayerNormParams& params, const LastPlan& plan) {
  const auto& [shape, loops, cut] = plan;
  const int width = width_of(params);
  LayerNormLastArgs args = {};
  args.x = params.x.data;
  args.dy = params.dy.data;
  args.out = params.out.data;
  args.out_type = params.out.type;
  args.out_as_x = params.out.type == params.x.type;
  args.rms = params.rms;
  args.scale = {params.scale.data, params.scale.type};
  args.bias = {params.backward ? nullptr : params.bias.data, params.bias.type};
  args.mean = statistic_of(params.mean, strides_of(params, loops, kLnMean));
  if (params.rms) args.mean.data = nullptr;
  args.inverse = statistic_of(params.inverse, strides_of(params, loops, kLnInverse));
  args.x_sample = strides_of(params, loops, kLnX).sample;
  args.dy_sample = strides_of(params, loops, kLnOther).sample;
  args.out_sample = strides_of(params, loops, kLnOut).sample;
  args.pixels = shape.pixels;
  args.samples = static_cast<std::int32_t>(shape.samples);
  args.groups = shape.groups;
  args.of_group = shape.of_group;
  args.channels = shape.channels;
  args.packs_in_groups = shape.of_group % width == 0;
  args.by_group = tile::FastDivmod(static_cast<std::uint32_t>(shape.of_group));
  args.by_entry =
      tile::FastDivmod(static_cast<std::uint32_t>(args.packs_in_groups ? shape.of_group / width : shape.of_group));
  args.epsilon = static_cast<float>(params.epsilon);
  args.one_over_count = static_cast<float>(1 / (static_cast<double>(shape.pixels) * shape.of_group));
  const LayerNormLastLayout layout = layer_norm_last_layout(cut, shape, asks_for_parameters(params));
  auto* const workspace = reinterpret_cast<char*>(params.partials);
  args.partials = reinterpret_cast<LayerNormLastPost*>(workspace);
  args.totals = reinterpret_cast<LayerNormLastPost*>(workspace + layout.totals);
  args.parameters = asks_for_parameters(params) ? reinterpret_cast<float*>(workspace + layout.parameters) : nullptr;
  args.cut = cut;
  return args;
}

template <class T, bool kBackward>
void launch(const LayerNormLastArgs& args, cudaStream_t stream) {
  const LayerNormLastCut& cut = args.cut;
  cuda::allow_shared_memory<layer_norm_channels_last<T, kBackward>>(kLnLastBytes, true);
  const int bytes = kLnLastHeader + cut.entry_bytes + cut.group_bytes +
                    cut.stages * cut.chunk_pixels * cut.packs * 16 * (kBackward ? 2 : 1);
  cuda::launch_kernel(layer_norm_channels_last<T, kBackward>,
                      {.blocks = dim3(static_cast<unsigned>(cut.teams * cut.members)),
                       .threads = dim3(static_cast<unsigned>(cut.threads + 64)),
                       .shared_bytes = static_cast<std::size_t>(bytes),
                       .cooperative = cut.members > 1},
                      stream, args);
}

template <class T>
void launch_typed(const LayerNormParams& params, const LayerNormLastArgs& args, cudaStream_t stream) {
  if (params.backward) {
    launch<T, true>(args, stream);
  } else {
    launch<T, false>(args, stream);
  }
}

bool plan_of(const LayerNormParams& params, LastPlan* plan) {
  if (!params.has_clusters || params.given || !is_float_or_half(params.x.type)) return false;
  LastLoops& loops = plan->loops;
  const LayerNormChannelsLast shape = plan->shape = shape_of(params, &loops);
  const int width = width_of(params);
  if (shape.channels == 0 || shape.channels % width != 0) return false;
  for (const LayerNormTensor* tensor :
       {&params.scale, &params.bias, &params.mean, &params.inverse, &params.dscale, &params.dbias}) {
    if (tensor->data != nullptr && !is_float_or_half(tensor->type)) return false;
  }
  const bool eight_bit = params.out.type == tile::AnyType::e4m3 || params.out.type == tile::AnyType::e5m2;
  if (params.backward ? params.dy.type != params.x.type || params.out.type != params.x.type
                      : !is_float_or_half(params.out.type) && !eight_bit) {
    return false;
  }
  for (const LayerNormTensor* tensor : {&params.x, &params.out, &params.scale, &params.bias, &params.dy}) {
    if (!tile::is_aligned(tensor->data, 16)) return false;
  }
  for (int slot = 0; slot < kLnSlots; ++slot) {
    if (is_data_slot(params, slot) && !lies_as_x(params, loops, shape, slot, width)) return false;
    if (is_parameter_slot(params, slot) && !is_by_channel(params, loops, shape, slot)) return false;
  }
  if (asks_for_parameters(params) && !gradients_by_channel(params, shape)) return false;
  const LayerNormLastCut cut = plan->cut = cut_of(params, shape);
  return cut.stages > 0 && cut.slice < (std::int64_t{1} << 30);
}

}  // namespace

LayerNormLastCut layer_norm_last_cut(const LayerNormChannelsLast& shape, int element_bytes, int tensors,
                                     int multiprocessors) {
  LayerNormLastCut cut;
  const int width = 16 / element_bytes;
  cut.packs = shape.channels / width;
  if (cut.packs < 1 || cut.packs > kLnLastThreads) return {};
  cut.rows =
      static_cast<std::int32_t>(tile::least<std::int64_t>(tile::greatest(kLnLastThreads / cut.packs, 1), shape.pixels));
  cut.threads = static_cast<std::int32_t>(rounded_up(cut.packs * cut.rows, 32));
  cut.chunk_pixels = cut.rows * kLnLastFlight;
  // dscale and dbias pass through the entries too, a pair for each channel of each row.
  const bool by_pack = tensors == 1 && shape.of_group % width == 0;
  cut.entry_bytes = static_cast<std::int32_t>(rounded_up(cut.rows * cut.packs * (by_pack ? 1 : width) * 8, 128));
  cut.copies_statistics = tensors == 2 && shape.groups <= cut.threads;
  cut.group_bytes = static_cast<std::int32_t>(rounded_up(shape.groups * (cut.copies_statistics ? 4 : 1) * 8, 128));
  const int chunk_bytes = cut.chunk_pixels * cut.packs * 16 * tensors;
  cut.stages = static_cast<std::int32_t>(
      tile::least((kLnLastBytes - kLnLastHeader - cut.entry_bytes - cut.group_bytes) / chunk_bytes, kLnLastMaxStages));
  if (cut.stages < 2) return {};

  // The number of rounds in which the teams go through the samples: seconds * 1e9 of each, and the least of them. A
  // block moves 16 bytes a nanosecond where all are at work, and 32 where few are; a sample's joining takes some 4000,
  // and what a block posts and reads for it is bytes too.
  const std::int64_t most = 2 * multiprocessors;
  double best = 0;
  for (std::int64_t rounds = (shape.samples + most - 1) / most, tried = 0; rounds <= shape.samples && tried < 24;
       ++rounds, ++tried) {
    LayerNormLastCut trial = cut;
    trial.teams = static_cast<std::int32_t>((shape.samples + rounds - 1) / rounds);
    const std::int64_t members = tile::least(tile::least(most / trial.teams, std::int64_t{kLnLastMaxMembers}),
                                             (shape.pixels + cut.rows - 1) / cut.rows);
    trial.slice = rounded_up((shape.pixels + members - 1) / members, cut.rows);
    trial.members = static_cast<std::int32_t>((shape.pixels + trial.slice - 1) / trial.slice);
    const std::int64_t chunks = (trial.slice + cut.chunk_pixels - 1) / cut.chunk_pixels;
    trial.held = chunks <= cut.stages;
    trial.ahead = rounds > 1 && 2 * chunks <= cut.stages;
    const double tensor = static_cast<double>(trial.slice) * cut.packs * 16;
    const double posted = trial.members > 1 ? 48.0 * shape.groups : 0.0;
    const double bytes = tensor * (tensors * (trial.held ? 1 : 2) + 1) + posted;
    const double rate = tile::least(16.0 * static_cast<double>(most) / (trial.teams * trial.members), 32.0);
    const double joining = trial.ahead ? 1000 : trial.members > 1 ? 4000 : 1500;
    const double cost = static_cast<double>(rounds) * (bytes / rate + joining);
    if (best == 0 || cost < best) {
      best = cost;
      cut = trial;
    }
  }
  return cut;
}

LayerNormLastLayout layer_norm_last_layout(const LayerNormLastCut& cut, const LayerNormChannelsLast& shape,
                                           bool parameters) {
  const auto padded = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
  const auto teams = static_cast<std::size_t>(cut.teams);
  const auto members = static_cast<std::size_t>(cut.members);
  const auto groups = static_cast<std::size_t>(shape.groups);
  constexpr std::size_t kPost = 16;
  LayerNormLastLayout layout;
  layout.totals = members > 1 ? padded(teams * kLnLastPartials * members * groups * kPost) : 0;
  layout.parameters = layout.totals + padded(teams * kLnLastTotals * groups * kPost);
  layout.bytes = layout.parameters;
  if (parameters) {
    layout.bytes += teams * members * 2 * static_cast<std::size_t>(shape.channels) * sizeof(float);
  }
  return layout;
}

bool layer_norm_channels_last_fit(const LayerNormParams& params) {
  LastPlan plan;
  return plan_of(params, &plan);
}

std::size_t layer_norm_channels_last_bytes(const LayerNormParams& params) {
  LastPlan plan;
  return plan_of(params, &plan) ? bytes_of(params, plan) : 0;
}

bool launch_layer_norm_channels_last(const LayerNormParams& params, std::size_t workspace_bytes, CUstream_st* stream) {
  LastPlan plan;
  if (!plan_of(params, &plan) || params.partials == nullptr || workspace_bytes < bytes_of(params, plan)) return false;
  const LayerNormLastArgs args = args_of(params, plan);
  switch (params.x.type) {
    case tile::AnyType::f16:
      launch_typed<tile::Half>(params, args, stream);
      break;
    case tile::AnyType::bf16:
      launch_typed<tile::BFloat16>(params, args, stream);
      break;
    default:
      launch_typed<float>(params, args, stream);
      break;
  }
  if (args.parameters != nullptr) {
    launch_layer_norm_finish({.partials = args.parameters,
                              .length = args.channels,
                              .parts = args.cut.teams * args.cut.members,
                              .dscale = params.dscale,
                              .dbias = params.dbias},
                             stream);
  }
  return true;
}

}  // namespace gpudnn::kernels
