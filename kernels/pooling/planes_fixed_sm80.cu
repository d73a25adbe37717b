// Instances and launch of pooling of packed planes with the usual windows.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/pooling/launch_args.cuh"
#include "kernels/pooling/planes_halves.cuh"
#include "kernels/pooling/planes_linear_sm80.hpp"
#include "kernels/pooling/planes_runs_sm80.hpp"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/least.hpp"
#include "kernels/tile/loop_nest.hpp"
#include "kernels/tile/shared_memory.hpp"

namespace gpudnn::kernels {
namespace {

constexpr std::int64_t kMaxShared = 48 * 1024;    // what every kernel may have
constexpr std::int64_t kUsualShared = 20 * 1024;  // ten blocks on a multiprocessor: their loads overlap
// A block costs each thread some 700 instructions beside its elements; where those leave little to spare, fewer blocks.
constexpr std::int64_t kLargeShared = 38 * 1024;
constexpr std::int64_t kMaxArea = std::int64_t{1} << 30;

std::int64_t rounded(std::int64_t value, std::int64_t to) { return (value + to - 1) / to * to; }

// The forward kernels, and what backward is like: a column for a thread in each of its lanes.
enum class Way : std::uint8_t { columns, quads, runs };

Way way_of(const PoolingParams& params) {
  const WindowShape& shape = params.shape;
  if (params.backward || params.interleaved != 1) return Way::columns;
  if (shape.stride[1] == 1) return Way::runs;
  if (tile::element_bytes(params.type) == 4) return Way::columns;
  const bool quads = shape.x[2] % 8 == 0 && shape.stride[2] == 2 && shape.pad[2] == shape.window[2] - 2 &&
                     shape.y[2] == shape.x[2] / 2 && tile::is_aligned(params.x, 16) && tile::is_aligned(params.out, 8);
  if (shape.window[1] == 3 && params.mode == PoolingMode::max) return Way::runs;
  return quads ? Way::quads : Way::columns;
}

// How a problem is cut up.
struct Cut {
  Way way = Way::columns;
  std::int64_t group = 0;
  std::int32_t bands = 1;
  std::int32_t band = 0;
  std::int64_t x_pitch = 0, dy_pitch = 0, out_pitch = 0;
  std::int64_t dy_begin = 0, choices_begin = 0, out_begin = 0, bytes = 0;
};

std::int64_t planes_of(const PoolingParams& params) { return params.images * params.channels / params.interleaved; }

struct Rows {
  std::int64_t all;      // of windows (forward) or blocks of x (backward)
  std::int64_t overlap;  // rows of windows that a band of blocks needs from the band before
};
Rows rows_of(const PoolingParams& params) {
  const WindowShape& shape = params.shape;
  if (!params.backward) return {shape.y[1], 0};
  return {(shape.x[1] - 1 + shape.pad[1]) / shape.stride[1] + 1,
          (shape.window[1] + shape.stride[1] - 1) / shape.stride[1] - 1};
}

std::int64_t windows_of(const PoolingParams& params, const Cut& cut) {
  if (cut.bands == 1) return params.shape.y[1];
  return tile::least<std::int64_t>(cut.band + rows_of(params).overlap, params.shape.y[1]);
}

// Fills in what follows from the group and the bands.
void lay_out(const PoolingParams& params, Cut* cut) {
  const WindowShape& shape = params.shape;
  const int bytes = tile::element_bytes(params.type);
  const int width = 16 / bytes;
  const std::int64_t row = shape.x[2] * params.interleaved, window_row = shape.y[2] * params.interleaved;
  // In shared memory a plane begins as many elements past a 16-byte boundary as in global memory.
  const auto pitch = [&](std::int64_t count, std::int64_t area) {
    return cut->bands == 1 ? area : count + ((area - count) % width + width) % width;
  };
  const std::int64_t windows = windows_of(params, *cut);
  const std::int64_t x_rows = tile::least<std::int64_t>((windows - 1) * shape.stride[1] + shape.window[1], shape.x[1]);
  cut->x_pitch = pitch(x_rows * row, shape.x[1] * row);
  std::int64_t first_array = cut->group * cut->x_pitch;
  if (params.backward) {
    const std::int64_t out_rows =
        tile::least<std::int64_t>(static_cast<std::int64_t>(cut->band) * shape.stride[1], shape.x[1]);
    cut->out_pitch = pitch(out_rows * row, shape.x[1] * row);
    cut->dy_pitch = pitch(windows * window_row, shape.y[1] * window_row);
    first_array = cut->group * tile::greatest(cut->out_pitch, params.mode == PoolingMode::max ? cut->x_pitch : 0);
  }
  cut->bytes = rounded(first_array * bytes, 16) + 16;
  if (cut->way == Way::runs) {
    cut->out_begin = cut->bytes + 2 * kRunSlack;
    cut->out_pitch = pitch(windows * window_row, shape.y[1] * window_row);
    cut->bytes = cut->out_begin + rounded(cut->group * cut->out_pitch * bytes, 16) + 16;
  }
  if (!params.backward) return;
  cut->dy_begin = cut->bytes;
  cut->bytes += rounded(cut->group * cut->dy_pitch * bytes, 16) + 16;
  cut->choices_begin = cut->bytes;
  if (params.mode == PoolingMode::max) cut->bytes += rounded((cut->group + 1) * windows * window_row, 16);
}

Cut cut_up(const PoolingParams& params, Way way) {
  const std::int64_t planes = planes_of(params);
  const std::int64_t lanes = way == Way::columns && tile::element_bytes(params.type) == 2 && planes > 1 ? 2 : 1;
  const Rows rows = rows_of(params);
  const std::int64_t enough = 8 * static_cast<std::int64_t>(params.multiprocessors);
  const bool large = params.backward ? lanes == 2 : way == Way::runs && tile::element_bytes(params.type) == 2;
  std::int64_t usual = large ? kLargeShared : kUsualShared;
  Cut cut;
  cut.way = way;
  cut.group = lanes;
  cut.band = static_cast<std::int32_t>(rows.all);
  lay_out(params, &cut);
  // Bands of a gradient repeat a row of windows: they are as large as may be.
  const bool repeats = params.backward && lanes == 1 && cut.bytes > usual;
  if (repeats) usual = kLargeShared;
  while (cut.band > kStrip && (cut.bytes > usual || planes / cut.group * cut.bands < enough)) {
    // Whole strips, so that a band has no more threads at work than its rows need.
    cut.bands = repeats ? cut.bands + cut.bands / 4 + 1 : cut.bands * 2;
    cut.band = static_cast<std::int32_t>(rounded((rows.all + cut.bands - 1) / cut.bands, repeats ? 1 : kStrip));
    cut.bands = static_cast<std::int32_t>((rows.all + cut.band - 1) / cut.band);
    lay_out(params, &cut);
  }
  if (cut.bands == 1) {
    const std::int64_t by_bytes = usual / cut.bytes * lanes;
    const std::int64_t by_blocks = planes / enough / lanes * lanes;
    cut.group = tile::clamp<std::int64_t>(tile::least(by_bytes, by_blocks), lanes, 256);
    lay_out(params, &cut);
  }
  return cut;
}

// How many of `rows` rows a thread does, one below the other, where `columns` stand side by side: few, so that all
// threads are at work, and of those the number that leaves the fewest idle in the last round. A strip begins with
// `overlap` rows' worth of work beside its own.
std::int32_t strip_for(std::int64_t rows, std::int64_t columns, double overlap, std::int32_t longest = 12) {
  std::int32_t best = kStrip;
  double least = 1e300;
  for (std::int32_t strip = 3; strip <= longest; ++strip) {
    const std::int64_t units = (rows + strip - 1) / strip * columns;
    const double rounds = static_cast<double>((units + kPlanesFixedThreads - 1) / kPlanesFixedThreads);
    const double work = rounds * (static_cast<double>(tile::least<std::int64_t>(strip, rows)) + overlap);
    if (work < least) {
      least = work;
      best = strip;
    }
  }
  return best;
}

template <class T>
PlanesFixedArgs<T> planes_args(const PoolingParams& params, const Cut& cut) {
  PlanesFixedArgs<T> args = {};
  take_fixed_window(params, &args);
  args.interleaved = static_cast<std::int32_t>(params.interleaved);
  args.row = args.width * args.interleaved;
  args.window_row = args.windows_wide * args.interleaved;
  args.block_row = args.blocks_wide * args.interleaved;
  args.planes = planes_of(params);
  args.group = static_cast<std::int32_t>(cut.group);
  args.bands = cut.bands;
  args.band = cut.band;
  args.by_bands = tile::FastDivmod(static_cast<std::uint32_t>(cut.bands));
  args.by_interleaved = tile::FastDivmod(static_cast<std::uint32_t>(args.interleaved));
  args.by_block_row = tile::FastDivmod(static_cast<std::uint32_t>(args.block_row));
  // Each strip of windows reduces kOverlap - 1 rows more than it keeps; each strip of blocks loads a row of windows
  // more.
  const std::int64_t lanes = cut.way == Way::columns ? kPlaneLanes<T> : 1, units = (args.group + lanes - 1) / lanes;
  const std::int64_t windows = windows_of(params, cut);
  std::int64_t columns = args.window_row;
  if (cut.way == Way::quads) columns = args.width / 8;
  if (cut.way == Way::runs) {
    const int outputs = run_outputs(sizeof(T), params.shape.stride[1]);
    columns = (args.windows_wide + outputs - 1) / outputs;
  }
  args.by_window_row = tile::FastDivmod(static_cast<std::uint32_t>(columns));
  args.window_strip = kStrip;
  if (params.backward || cut.way != Way::columns) {
    double overlap = params.shape.stride[1] == 1 ? 1.2 : 0.5;
    if (cut.way == Way::runs) overlap = params.shape.stride[1] == 1 ? 4.5 : 2.5;  // a thread's beginning is long
    args.window_strip = strip_for(windows, units * columns, overlap, cut.way == Way::runs ? 18 : 12);
  }
  args.block_strip = strip_for(cut.band, units * args.block_row, params.shape.stride[1] == 1 ? 1.5 : 0.5);
  const auto chunks = [](std::int64_t rows, std::int32_t strip) {
    return tile::FastDivmod(static_cast<std::uint32_t>((rows + strip - 1) / strip));
  };
  args.by_window_chunks = chunks(windows, args.window_strip);
  args.by_block_chunks = chunks(cut.band, args.block_strip);
  args.x_pitch = static_cast<std::int32_t>(cut.x_pitch);
  args.dy_pitch = static_cast<std::int32_t>(cut.dy_pitch);
  args.out_pitch = static_cast<std::int32_t>(cut.out_pitch);
  args.dy_begin = static_cast<std::int32_t>(cut.dy_begin);
  args.choices_begin = static_cast<std::int32_t>(cut.choices_begin);
  args.out_begin = static_cast<std::int32_t>(cut.out_begin);
  return args;
}

bool fits(const PoolingParams& params, const Cut& cut) {
  const std::int64_t blocks = (planes_of(params) + cut.group - 1) / cut.group * cut.bands;
  return cut.bytes <= kMaxShared && blocks < tile::kMaxIterations;
}

template <auto kKernel, class T>
void launch_kernel(const PlanesFixedArgs<T>& args, const Cut& cut, cudaStream_t stream) {
  tile::allow_shared_memory<kKernel>(static_cast<int>(kMaxShared), true);
  const std::int64_t groups = (args.planes + args.group - 1) / args.group;
  kKernel<<<static_cast<unsigned>(groups * cut.bands), kPlanesFixedThreads, static_cast<std::size_t>(cut.bytes),
            stream>>>(args);
}

template <class T>
void launch_runs(const PoolingParams& params, const Cut& cut, bool gradient, cudaStream_t stream) {
  PlanesFixedArgs<T> args = planes_args<T>(params, cut);
  args.gradient = gradient;
  const std::int64_t groups = (args.planes + args.group - 1) / args.group;
  const RunsGrid grid = {static_cast<unsigned>(groups * cut.bands), static_cast<std::size_t>(cut.bytes)};
  launch_pooling_planes_runs<T>(args, params.shape.stride[1], params.mode == PoolingMode::max, params.propagate_nan,
                                grid, stream);
}

template <class T, int kWindow, int kStride, bool kMax, bool kNan>
void launch_pass(const PoolingParams& params, const Cut& cut, cudaStream_t stream) {
  const PlanesFixedArgs<T> args = planes_args<T>(params, cut);
  if constexpr (sizeof(T) == 2 && kStride == 2 && (kWindow == 2 || !kMax)) {
    if (cut.way == Way::quads) return launch_kernel<pooling_planes_quads<T, kWindow, kMax, kNan>, T>(args, cut, stream);
  }
  if (params.backward) {
    launch_kernel<pooling_planes_fixed_backward<T, kWindow, kStride, kMax, kNan>, T>(args, cut, stream);
  } else {
    launch_kernel<pooling_planes_fixed_forward<T, kWindow, kStride, kMax, kNan>, T>(args, cut, stream);
  }
}

template <class T, int kWindow, int kStride>
void launch_mode(const PoolingParams& params, const Cut& cut, cudaStream_t stream) {
  if (params.mode != PoolingMode::max) return launch_pass<T, kWindow, kStride, false, false>(params, cut, stream);
  if (params.propagate_nan) return launch_pass<T, kWindow, kStride, true, true>(params, cut, stream);
  launch_pass<T, kWindow, kStride, true, false>(params, cut, stream);
}

}  // namespace

bool pooling_planes_fixed_fit(const PoolingParams& params) {
  const WindowShape& shape = params.shape;
  if (params.type == tile::ElementType::f64 || !has_fixed_window(shape)) return false;
  if (shape.x_plane() >= kMaxArea / params.interleaved || shape.y_plane() >= kMaxArea / params.interleaved) {
    return false;
  }
  const Cut cut = cut_up(params, Way::columns);  // the ways that need more are taken only where they fit
  return fits(params, cut);
}

namespace {

// The gradient of an average of step 1 as a sum over windows of dy. False where it is no such problem.
bool launch_gradient_as_sum(const PoolingParams& params, cudaStream_t stream) {
  if (!params.backward || params.mode == PoolingMode::max || params.shape.stride[1] != 1 || params.interleaved != 1) {
    return false;
  }
  PoolingParams sum = params;
  sum.backward = false;
  sum.x = params.dy;
  for (int i = 1; i < 3; ++i) {
    sum.shape.x[i] = params.shape.y[i];
    sum.shape.y[i] = params.shape.x[i];
    sum.shape.pad[i] = params.shape.window[i] - 1 - params.shape.pad[i];
  }
  const Cut cut = cut_up(sum, Way::runs);
  if (!fits(sum, cut)) return false;
  tile::with_element_type(sum.type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      launch_runs<T>(sum, cut, true, stream);
    }
  });
  return true;
}

}  // namespace

void launch_pooling_planes_fixed(const PoolingParams& params, CUstream_st* stream) {
  if (pooling_planes_pairs_fit(params)) return launch_pooling_planes_pairs(params, stream);
  if (pooling_planes_floats_fit(params)) return launch_pooling_planes_floats(params, stream);
  if (pooling_planes_direct_fit(params)) return launch_pooling_planes_direct(params, stream);
  if (pooling_planes_linear_fit(params)) return launch_pooling_planes_linear(params, stream);
  if (launch_gradient_as_sum(params, stream)) return;
  Cut cut = cut_up(params, way_of(params));
  if (!fits(params, cut)) cut = cut_up(params, Way::columns);
  tile::with_element_type(params.type, [&]<class T>() {
    if constexpr (!std::is_same_v<T, double>) {
      const std::int32_t window = params.shape.window[1], step = params.shape.stride[1];
      if (cut.way == Way::runs) return launch_runs<T>(params, cut, false, stream);
      if (window == 2) return launch_mode<T, 2, 2>(params, cut, stream);
      if (step == 2) return launch_mode<T, 3, 2>(params, cut, stream);
      launch_mode<T, 3, 1>(params, cut, stream);
    }
  });
}

}  // namespace gpudnn::kernels
