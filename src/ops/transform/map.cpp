// Transforms and column buffers as maps from output to input.
// SPDX-License-Identifier: Apache-2.0
#include "ops/transform/problem.hpp"

namespace gpudnn::transform {
namespace {

using kernels::GatherAxis;
using kernels::GatherLoop;
using kernels::GatherMap;

void add_loop(GatherMap* map, const GatherLoop& loop) {
  if (loop.extent != 1) map->loop[map->loops++] = loop;
}

// Strides in lanes.
std::int64_t stride_of(const TensorGeometry& tensor, int i) { return tensor.strides[i] * data_type_lanes(tensor.type); }

// The output's channels: `count` of them from channel 0 on, as whole vectors and lanes where they divide.
void add_channel_loops(const TensorGeometry& out, std::int64_t count, std::int64_t in_step, GatherMap* map) {
  const int lanes = data_type_lanes(out.type);
  const std::int64_t stride = stride_of(out, 1);
  if (lanes > 1 && count % lanes == 0) {
    add_loop(map, {count / lanes, stride, 0, lanes, 1, in_step * lanes});
    add_loop(map, {lanes, 1, 0, 1, 1, in_step});
  } else {
    add_loop(map, {count, stride, 0, 1, 1, in_step});
  }
}

}  // namespace

kernels::GatherMap make_map(const Problem& problem) {
  const Transform& t = problem.transform;
  const TensorGeometry& in = problem.in;
  const TensorGeometry& out = problem.out;
  GatherMap map;
  map.axes = in.rank;
  map.in_channel = {in.rank > 1 ? stride_of(in, 1) : 0, data_type_lanes(in.type)};
  map.out_channel = {in.rank > 1 ? stride_of(out, 1) : 0, data_type_lanes(out.type)};
  std::int64_t block = 1;
  for (int i = 2; i < in.rank; ++i) block *= t.fold[i];
  const std::int64_t in_channels = in.rank > 1 ? in.dims[1] / (t.unfold ? block : 1) : 1;
  const std::int64_t out_channels = in.rank > 1 ? out.dims[1] / (t.unfold ? 1 : block) : 1;
  std::int64_t inner = 1;  // the product of the folds of later dimensions
  for (int i = in.rank - 1; i >= 0; --i) {
    GatherAxis& axis = map.axis[i];
    axis.base = -t.before[i];
    if (i == 1) {
      axis.extent = in_channels;
      axis.fold = GatherMap::kAllOneFold;
      axis.channel_step = 1;
      add_channel_loops(out, out_channels, 1, &map);
      continue;
    }
    const std::int64_t fold = t.fold[i];
    axis.stride = stride_of(in, i);
    if (t.unfold) {
      axis.extent = in.dims[i] * fold;
      axis.fold = fold;
      axis.channel_step = inner * in_channels;
      add_loop(&map, {out.dims[i], stride_of(out, i), stride_of(out, i), 0, i, 1});
    } else {
      axis.extent = in.dims[i];
      add_loop(&map, {out.dims[i], stride_of(out, i), stride_of(out, i), 0, i, fold});
      add_loop(&map,
               {fold, inner * out_channels * stride_of(out, 1) / map.out_channel.lanes, 0, inner * out_channels, i, 1});
    }
    inner *= fold;
  }
  return map;
}

kernels::GatherMap make_map(const ColumnProblem& problem) {
  const TensorGeometry& x = problem.x;
  GatherMap map;
  map.axes = x.rank;
  map.in_channel = {x.strides[1], 1};
  std::int64_t step = 1;
  const auto add = [&](std::int64_t extent, int axis, std::int64_t in_step) {
    add_loop(&map, {extent, step, step, 0, axis, in_step});
    step *= extent;
  };
  for (int i = problem.spatial - 1; i >= 0; --i) {
    GatherAxis& axis = map.axis[2 + i];
    axis.extent = x.dims[2 + i];
    axis.stride = x.strides[2 + i];
    axis.base = -problem.pad[i] + (problem.flip ? (problem.taps[i] - 1) * problem.dilation[i] : 0);
    add(problem.outputs[i], 2 + i, problem.stride[i]);
  }
  map.axis[0].extent = x.dims[0];
  map.axis[0].stride = x.strides[0];
  add(x.dims[0], 0, 1);
  for (int i = problem.spatial - 1; i >= 0; --i) {
    add(problem.taps[i], 2 + i, problem.flip ? -problem.dilation[i] : problem.dilation[i]);
  }
  map.axis[1].extent = x.dims[1];
  map.axis[1].fold = GatherMap::kAllOneFold;
  map.axis[1].channel_step = 1;
  add(x.dims[1], 1, 1);
  return map;
}

}  // namespace gpudnn::transform
