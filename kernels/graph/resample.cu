// Pooling and interpolation of any window, padding and fraction of a stride, forward and backward.
//
// Output pixel o looks at the window that begins at o * stride - pad. Its taps are
//   maximum, average      the pixels of the window
//   nearest               the pixel nearest to the window's begin
//   bilinear              the two pixels beside the begin, along each dimension, by their distance
//
// Forward, a thread makes an output pixel. Backward, a thread makes an input pixel: it goes over the output pixels
// whose windows can reach it, in order, and so adds what they send it in the same order each time.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/element.cuh"

namespace gpudnn::kernels {
namespace {

struct Window {
  double begin[kNodeSpatial];
  std::int64_t taps[kNodeSpatial];
};

__device__ Window window_of(const NodeResample& work, const NodeIndex& output) {
  Window w{};
  for (int d = 0; d < kNodeSpatial; ++d) {
    w.taps[d] = 1;
    if (d >= work.spatial) continue;
    w.begin[d] = static_cast<double>(output.at[d + 2]) * work.stride[d] - work.pad[d];
    w.taps[d] = work.mode == Resample::bilinear ? 2 : work.mode == Resample::nearest ? 1 : work.window[d];
  }
  return w;
}

// A tap: its input pixel, or outside; and its weight.
struct Tap {
  NodeIndex pixel;
  bool inside;
  double weight;
};
__device__ Tap tap_of(const NodeResample& work, const Window& w, const NodeIndex& output, std::int64_t number) {
  Tap tap{output, true, 1};
  for (int d = work.spatial - 1; d >= 0; --d) {
    const std::int64_t t = number % w.taps[d];
    number /= w.taps[d];
    const double floor_of_begin = floor(w.begin[d]);
    std::int64_t at = static_cast<std::int64_t>(floor_of_begin) + t;
    const double part = w.begin[d] - floor_of_begin;
    if (work.mode == Resample::bilinear) tap.weight *= t == 0 ? 1 - part : part;
    if (work.mode == Resample::nearest) at = static_cast<std::int64_t>(floor(w.begin[d] + 0.5));
    const std::int64_t extent = work.x.dims[d + 2];
    if (work.clamps || work.mode == Resample::nearest) at = at < 0 ? 0 : at >= extent ? extent - 1 : at;
    tap.inside = tap.inside && at >= 0 && at < extent;
    tap.pixel.at[d + 2] = at;
  }
  return tap;
}
__device__ std::int64_t tap_count(const Window& w) { return w.taps[0] * w.taps[1] * w.taps[2]; }

__device__ double divisor_of(const NodeResample& work, const Window& w, const NodeIndex& output) {
  const std::int64_t all = tap_count(w);
  if (work.mode == Resample::average) return static_cast<double>(all);
  if (work.mode != Resample::average_inside) return 1;
  std::int64_t inside = 0;
  for (std::int64_t t = 0; t < all; ++t) inside += tap_of(work, w, output, t).inside ? 1 : 0;
  return static_cast<double>(inside > 1 ? inside : 1);
}

// The tap with the maximum; the first of equal ones. A NaN wins where it propagates, and is no number elsewhere.
struct Maximum {
  std::int64_t tap;
  double value;
};
__device__ Maximum maximum_of(const NodeResample& work, const NodeTensor& x, const Window& w, const NodeIndex& output) {
  Maximum best{0, -INFINITY};
  bool any = false;
  for (std::int64_t t = 0; t < tap_count(w); ++t) {
    const Tap tap = tap_of(work, w, output, t);
    if (!tap.inside && !work.zeros) continue;
    const double value = tap.inside ? read_node(x, tap.pixel) : 0;
    if (isnan(value) && !work.propagates_nan) continue;
    if (any && (isnan(best.value) || (!isnan(value) && value <= best.value))) continue;
    best = {t, value};
    any = true;
  }
  return best;
}

__device__ void put(const NodeResample& work, const NodeTensor& out, const NodeIndex& index, double value) {
  const std::int64_t offset = offset_of(out, index);
  value *= work.alpha;
  if (work.beta != 0) value += work.beta * read_node(out, offset);
  write_node(out, offset, value);
}

__global__ void __launch_bounds__(kNodeThreads) resample_forward(const __grid_constant__ NodeResample work) {
  const std::int64_t count = count_of(work.y);
  for (std::int64_t i = first_of_thread(); i < count; i += threads_of_grid()) {
    const NodeIndex output = index_of(work.y, i);
    const Window w = window_of(work, output);
    if (work.mode == Resample::maximum) {
      const Maximum best = maximum_of(work, work.x, w, output);
      put(work, work.y, output, best.value);
      if (work.index.data != nullptr)
        write_node(work.index, offset_of(work.index, output), static_cast<double>(best.tap));
      continue;
    }
    double sum = 0;
    for (std::int64_t t = 0; t < tap_count(w); ++t) {
      const Tap tap = tap_of(work, w, output, t);
      if (tap.inside && tap.weight != 0) sum += tap.weight * read_node(work.x, tap.pixel);
    }
    put(work, work.y, output, sum / divisor_of(work, w, output));
  }
}

// What output pixel `output` sends to input pixel `pixel`.
__device__ double share_of(const NodeResample& work, const NodeIndex& output, const NodeIndex& pixel) {
  const Window w = window_of(work, output);
  double weight = 0;
  std::int64_t wanted = -1;
  if (work.mode == Resample::maximum) {
    wanted = work.index.data != nullptr ? static_cast<std::int64_t>(read_node(work.index, output))
                                        : maximum_of(work, work.values, w, output).tap;
  }
  for (std::int64_t t = 0; t < tap_count(w); ++t) {
    if (work.mode == Resample::maximum && t != wanted) continue;
    const Tap tap = tap_of(work, w, output, t);
    bool same = tap.inside;
    for (int d = 2; d < work.spatial + 2; ++d) same = same && tap.pixel.at[d] == pixel.at[d];
    if (same) weight += tap.weight;
  }
  if (weight == 0) return 0;
  return weight * (read_node(work.y, output) / divisor_of(work, w, output));
}

__global__ void __launch_bounds__(kNodeThreads) resample_backward(const __grid_constant__ NodeResample work) {
  const std::int64_t count = count_of(work.x);
  for (std::int64_t i = first_of_thread(); i < count; i += threads_of_grid()) {
    const NodeIndex pixel = index_of(work.x, i);
    std::int64_t low[kNodeSpatial] = {0, 0, 0}, high[kNodeSpatial] = {0, 0, 0};
    for (int d = 0; d < work.spatial; ++d) {
      // Windows that begin from one window before the pixel to one pixel behind it; at an edge that clamps, all beyond.
      const double reach = static_cast<double>(work.window[d] > 2 ? work.window[d] : 2);
      const auto at = static_cast<double>(pixel.at[d + 2]);
      low[d] = static_cast<std::int64_t>(floor((at - reach - 1 + work.pad[d]) / work.stride[d]));
      high[d] = static_cast<std::int64_t>(ceil((at + 2 + work.pad[d]) / work.stride[d]));
      const bool held = work.clamps || work.mode == Resample::nearest;
      if (low[d] < 0 || (held && pixel.at[d + 2] == 0)) low[d] = 0;
      if (high[d] > work.y.dims[d + 2] - 1 || (held && pixel.at[d + 2] == work.x.dims[d + 2] - 1))
        high[d] = work.y.dims[d + 2] - 1;
    }
    double sum = 0;
    NodeIndex output = pixel;
    for (std::int64_t a = low[0]; a <= high[0]; ++a)
      for (std::int64_t b = low[1]; b <= high[1]; ++b)
        for (std::int64_t c = low[2]; c <= high[2]; ++c) {
          const std::int64_t at[kNodeSpatial] = {a, b, c};
          for (int d = 0; d < work.spatial; ++d) output.at[d + 2] = at[d];
          sum += share_of(work, output, pixel);
        }
    put(work, work.x, pixel, sum);
  }
}

}  // namespace

void launch_node_resample(const NodeResample& work, CUstream_st* stream) {
  if (work.backward)
    cuda::launch_kernel(resample_backward, node_grid(count_of(work.x)), stream, work);
  else
    cuda::launch_kernel(resample_forward, node_grid(count_of(work.y)), stream, work);
}

}  // namespace gpudnn::kernels
