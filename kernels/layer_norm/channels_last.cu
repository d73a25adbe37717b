// Which problems the kernels of channels-last tensors take, how they are cut, instances and launch.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/launch/launch.hpp"
#include "core/launch/waits_by_pdl.hpp"
#include "kernels/layer_norm/channels_last.cuh"
#include "kernels/layer_norm/fit.hpp"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

// A block has `kLnLastBundle` groups at most, threads side by side, and the parts of a sample by rows of threads.
__global__ void __launch_bounds__(kLnLastJoinThreads, 1)
    layer_norm_last_statistics(const __grid_constant__ LayerNormLastArgs args) {
  constexpr int kRows = kLnLastJoinThreads / kLnLastBundle;
  __shared__ double scratch[kRows][kLnLastBundle];
  const auto lane = static_cast<int>(threadIdx.x) % kLnLastBundle;
  const auto row = static_cast<int>(threadIdx.x) / kLnLastBundle;
  const int group = static_cast<int>(blockIdx.x) * kLnLastBundle + lane;
  const auto sample = static_cast<std::int64_t>(blockIdx.y);
  const LayerNormLastCut& cut = args.cut;
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  const bool there = group < args.groups;
  const auto* const from =
      reinterpret_cast<const float2*>(args.partials) + sample * cut.parts * args.groups + (there ? group : 0);
  const auto over_rows = [&](double value) {
    __syncthreads();
    scratch[row][lane] = value;
    __syncthreads();
    double sum = 0;
#pragma unroll
    for (int r = 0; r < kRows; ++r) sum += scratch[r][lane];
    return sum;
  };
  const auto for_parts = [&](const auto& body) {
#pragma unroll 4
    for (int part = row; part < cut.parts; part += kRows) {
      const float2 values = from[static_cast<std::int64_t>(part) * args.groups];
      const bool scaled = std::signbit(values.y);
      const double up = scaled ? static_cast<double>(kLnUp) : 1.0;
      const auto pixels = static_cast<double>(min(cut.slice, args.pixels - part * cut.slice));
      body(values.x * up, fabsf(values.y) * (up * up), pixels * args.of_group);
    }
  };
  const double one_over = 1.0 / (static_cast<double>(args.pixels) * args.of_group);
  // Means of parts are those of distances from the sample's first value of the group.
  const double base = there ? load_one(args.x_type, args.x, sample * args.x_sample + group * args.of_group) : 0.0f;
  double sum = 0;
  for_parts([&](double of_part, double, double elements) { sum += of_part * elements; });
  double mean = over_rows(sum) * one_over;
  sum = 0;
  for_parts([&](double of_part, double squares, double elements) {
    const double distance = of_part - mean;
    sum += squares + distance * distance * elements;
  });
  double variance = over_rows(sum) * one_over;
  if (row != 0 || !there) return;
  mean += base;
  if (args.rms) {
    variance += mean * mean;
    mean = 0;
  }
  const double inverse = 1.0 / sqrt(variance + static_cast<double>(args.epsilon));
  const bool scaled = variance > static_cast<double>(kLnGreatest);
  args.totals[sample * args.groups + group] =
      scaled ? make_float2(static_cast<float>(mean * kLnDown), static_cast<float>(-inverse * kLnUp))
             : make_float2(static_cast<float>(mean), static_cast<float>(inverse));
  if (args.mean.data != nullptr) {
    tile::store_any(args.mean.type, args.mean.data, sample * args.mean.sample + group * args.mean.group,
                    static_cast<float>(mean));
  }
  if (args.inverse.data != nullptr) {
    tile::store_any(args.inverse.type, args.inverse.data, sample * args.inverse.sample + group * args.inverse.group,
                    static_cast<float>(inverse));
  }
}

// A block has whole groups: `lanes` channels side by side at a time, and the parts of a sample by rows of threads.
__global__ void __launch_bounds__(kLnLastJoinThreads)
    layer_norm_last_means(const __grid_constant__ LayerNormLastArgs args) {
  __shared__ float2 scratch[kLnLastJoinThreads];
  __shared__ float2 of_groups[kLnLastBundle];
  const LayerNormLastCut& cut = args.cut;
  const auto thread = static_cast<int>(threadIdx.x);
  const int lane = thread % cut.lanes;
  const int row = thread / cut.lanes;
  const int rows = kLnLastJoinThreads / cut.lanes;
  const auto sample = static_cast<std::int64_t>(blockIdx.y);
  const int first_group = static_cast<int>(blockIdx.x) * cut.bundle;
  const int groups = min(cut.bundle, args.groups - first_group);
  const int begin = first_group * args.of_group;
  const int end = begin + groups * args.of_group;
  if (thread < kLnLastBundle) of_groups[thread] = make_float2(0, 0);
  ptx::griddepcontrol_wait();
  ptx::griddepcontrol_launch_dependents();
  for (int first = begin; first < end; first += cut.lanes) {
    const int channel = first + lane;
    float2 sum = make_float2(0, 0);
    if (channel < end) {
      const float* const from = args.partials + sample * cut.parts * 2 * args.channels + channel;
#pragma unroll 4
      for (int part = row; part < cut.parts; part += rows) {
        const std::int64_t at = static_cast<std::int64_t>(part) * 2 * args.channels;
        sum.x += from[at];
        sum.y += from[at + args.channels];
      }
    }
    scratch[thread] = sum;
    __syncthreads();
    if (row == 0) {
      for (int r = 1; r < rows; ++r) {
        sum.x += scratch[r * cut.lanes + lane].x;
        sum.y += scratch[r * cut.lanes + lane].y;
      }
      if (channel < end) {
        float* const to = args.sums + sample * 2 * args.channels + channel;
        to[0] = sum.x;
        to[args.channels] = sum.y;
        const float scale = args.scale.data == nullptr ? 1.0f : load_one(args.scale.type, args.scale.data, channel);
        scratch[thread] = make_float2(sum.x * scale, sum.y * scale);
      }
    }
    __syncthreads();
    if (thread < groups) {
      const int low = tile::greatest(begin + thread * args.of_group, first);
      const int high = tile::least(begin + (thread + 1) * args.of_group, tile::least(first + cut.lanes, end));
      for (int c = low; c < high; ++c) {
        of_groups[thread].x += scratch[c - first].x;
        of_groups[thread].y += scratch[c - first].y;
      }
    }
    __syncthreads();
  }
  if (thread < groups) {
    const float2 sum = of_groups[thread];
    args.totals[sample * args.groups + first_group + thread] =
        make_float2(sum.y * args.one_over_count, sum.x * args.one_over_count);
  }
}

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
  if (groups * of_group != channels || channels > kLnLastPacks * 8 || shape.samples >= tile::kMaxIterations) return {};
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

LayerNormLastStatistic statistic_of(const LayerNormTensor& tensor, const LastStrides& strides) {
  return {tensor.data, tensor.type, strides.sample, strides.group};
}

struct LastPlan {
  LayerNormChannelsLast shape;
  LastLoops loops;
  LayerNormLastCut cut;
};

std::size_t bytes_of(const LayerNormParams& params, const LastPlan& plan) {
  return layer_norm_last_layout(plan.cut, plan.shape, params.backward).bytes;
}

LayerNormLastArgs args_of(const LayerNormParams& params, const LastPlan& plan) {
  const auto& [shape, loops, cut] = plan;
  const int width = width_of(params);
  const auto divisor = [](std::int64_t value) { return tile::FastDivmod(static_cast<std::uint32_t>(value)); };
  LayerNormLastArgs args = {};
  args.x = params.x.data;
  args.x_type = params.x.type;
  args.dy = params.dy.data;
  args.out = params.out.data;
  args.out_type = params.out.type;
  args.out_as_x = params.out.type == params.x.type;
  args.rms = params.rms;
  args.packs_in_groups = shape.of_group % width == 0;
  args.scale = {params.scale.data, params.scale.type};
  args.bias = {params.backward ? nullptr : params.bias.data, params.bias.type};
  args.mean = statistic_of(params.mean, strides_of(params, loops, kLnMean));
  if (params.rms) args.mean.data = nullptr;
  args.inverse = statistic_of(params.inverse, strides_of(params, loops, kLnInverse));
  args.dscale = params.dscale;
  args.dbias = params.dbias;
  args.x_sample = strides_of(params, loops, kLnX).sample;
  args.dy_sample = strides_of(params, loops, kLnOther).sample;
  args.out_sample = strides_of(params, loops, kLnOut).sample;
  args.pixels = shape.pixels;
  args.samples = static_cast<std::int32_t>(shape.samples);
  args.groups = shape.groups;
  args.of_group = shape.of_group;
  args.channels = shape.channels;
  args.by_packs = divisor(cut.packs);
  args.by_parts = divisor(cut.parts);
  args.by_group = divisor(shape.of_group);
  args.by_entry = divisor(args.packs_in_groups ? shape.of_group / width : shape.of_group);
  args.epsilon = static_cast<float>(params.epsilon);
  args.one_over_count = static_cast<float>(1 / (static_cast<double>(shape.pixels) * shape.of_group));
  const LayerNormLastLayout layout = layer_norm_last_layout(cut, shape, params.backward);
  auto* const workspace = reinterpret_cast<char*>(params.partials);
  args.partials = params.partials;
  args.totals = reinterpret_cast<float2*>(workspace + layout.totals);
  args.sums = reinterpret_cast<float*>(workspace + layout.channels);
  if (asks_for_parameters(params)) args.parameter_blocks = (2 * shape.channels + cut.threads - 1) / cut.threads;
  args.cut = cut;
  return args;
}

template <auto kKernel>
void launch(dim3 blocks, int threads, std::size_t shared_bytes, bool first, const LayerNormLastArgs& args,
            cudaStream_t stream) {
  cuda::launch_kernel(kKernel,
                      {.blocks = blocks,
                       .threads = dim3(static_cast<unsigned>(threads)),
                       .shared_bytes = shared_bytes,
                       .overlaps = !first && cuda::waits_by_pdl<kKernel>()},
                      stream, args);
}

template <class T>
void launch_typed(const LayerNormParams& params, const LayerNormLastArgs& args, cudaStream_t stream) {
  const LayerNormLastCut& cut = args.cut;
  const auto samples = static_cast<unsigned>(args.samples);
  const unsigned parts = samples * static_cast<unsigned>(cut.parts);
  const auto of = [](int count, int each) { return static_cast<unsigned>((count + each - 1) / each); };
  const int of_pack = !params.backward && args.packs_in_groups ? 1 : tile::kPackWidth<T>;
  const auto entry_bytes = static_cast<std::size_t>(cut.rows * cut.packs * of_pack) * sizeof(float2);
  if (!params.backward) {
    launch<layer_norm_last_moments<T>>(dim3(parts), cut.threads, entry_bytes, true, args, stream);
    launch<layer_norm_last_statistics>(dim3(of(args.groups, kLnLastBundle), samples), kLnLastJoinThreads, 0, false,
                                       args, stream);
    launch<layer_norm_last_apply<T>>(dim3(parts), cut.threads, 0, false, args, stream);
    return;
  }
  launch<layer_norm_last_sums<T>>(dim3(parts), cut.threads, entry_bytes, true, args, stream);
  launch<layer_norm_last_means>(dim3(of(args.groups, cut.bundle), samples), kLnLastJoinThreads, 0, false, args, stream);
  launch<layer_norm_last_dx<T>>(dim3(parts + static_cast<unsigned>(args.parameter_blocks)), cut.threads, 0, false, args,
                                stream);
}

bool plan_of(const LayerNormParams& params, LastPlan* plan) {
  if (params.given || !is_float_or_half(params.x.type)) return false;
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
  const LayerNormLastCut cut = plan->cut =
      layer_norm_last_cut(shape, tile::any_type_bytes(params.x.type), params.multiprocessors);
  constexpr std::int64_t kMaxSamples = 65535;  // of a grid's second dimension
  return cut.packs > 0 && shape.samples <= kMaxSamples && shape.samples * cut.parts < tile::kMaxIterations &&
         cut.slice < (std::int64_t{1} << 30);
}

}  // namespace

LayerNormLastCut layer_norm_last_cut(const LayerNormChannelsLast& shape, int element_bytes, int multiprocessors) {
  LayerNormLastCut cut;
  const int width = 16 / element_bytes;
  const int packs = shape.channels / width;
  if (packs < 1 || packs > kLnLastPacks) return cut;
  cut.packs = packs;
  cut.rows =
      static_cast<std::int32_t>(tile::least<std::int64_t>(tile::greatest(kLnLastThreads / packs, 1), shape.pixels));
  cut.threads = static_cast<std::int32_t>(rounded_up(packs * cut.rows, 32));
  // All parts at once, side by side.
  const std::int64_t wanted =
      tile::greatest<std::int64_t>(std::int64_t{kLnLastTogether} * multiprocessors / shape.samples, 1);
  const std::int64_t step = std::int64_t{cut.rows} * kLnLastFlight;
  cut.slice = rounded_up((shape.pixels + wanted - 1) / wanted, step);
  cut.parts = static_cast<std::int32_t>((shape.pixels + cut.slice - 1) / cut.slice);
  cut.bundle = tile::least(tile::greatest(kLnLastBundle / shape.of_group, 1), shape.groups);
  cut.lanes = 32;
  while (cut.lanes < 256 && cut.lanes < cut.bundle * shape.of_group) cut.lanes *= 2;
  return cut;
}

LayerNormLastLayout layer_norm_last_layout(const LayerNormLastCut& cut, const LayerNormChannelsLast& shape,
                                           bool backward) {
  const auto padded = [](std::int64_t bytes) { return (static_cast<std::size_t>(bytes) + 255) / 256 * 256; };
  constexpr std::int64_t kPair = 8;
  LayerNormLastLayout layout;
  layout.totals = padded(shape.samples * cut.parts * (backward ? shape.channels : shape.groups) * kPair);
  layout.channels = layout.totals + padded(shape.samples * shape.groups * kPair);
  layout.bytes = layout.channels + (backward ? padded(shape.samples * shape.channels * kPair) : 0);
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
  return true;
}

}  // namespace gpudnn::kernels
