// Convolution on the host: forward, data gradient and filter gradient.
//
// Forward and data gradient are one algorithm. For each position of the output it collects what the filter sees there:
// the input values under the taps that lie inside the image, and for each the row of the filter matrix that it is
// multiplied with. A row holds the weights of one (input channel, tap) for all output channels of the group, so the
// innermost loop runs over output channels, contiguous in memory, whether the image is large or a single pixel. For the
// data gradient dy is the input, x the output, and the taps are looked up backwards.
//
// The filter gradient collects the same values, and adds each times dy's channels to its row of the result.
//
// Padding is never multiplied: a tap outside the image contributes nothing, whatever the weight is.
// SPDX-License-Identifier: Apache-2.0
#include "host/convolution.hpp"

#include <algorithm>
#include <vector>

#include "core/parallel.hpp"
#include "host/conv_epilogue.hpp"
#include "host/conv_integer.hpp"
#include "host/element.hpp"

namespace gpudnn::host {
namespace {

using conv::Args;
using conv::Direction;
using conv::Problem;

constexpr int kSpatial = 3;

// One side of the convolution, x or y, with three spatial dimensions (missing leading ones have extent 1).
struct Side {
  std::int64_t channels = 0;  // of one group
  std::int64_t image_stride = 0;
  std::int64_t channel_stride = 0;
  std::int64_t dims[kSpatial] = {1, 1, 1};
  std::int64_t strides[kSpatial] = {};

  [[nodiscard]] std::int64_t positions() const noexcept { return dims[0] * dims[1] * dims[2]; }
};

// The problem with three spatial dimensions.
struct Shape {
  std::int64_t images = 0;
  std::int64_t groups = 1;
  Side x;
  Side y;
  bool mirrored = false;
  std::int64_t taps[kSpatial] = {1, 1, 1};
  std::int64_t w_strides[2 + kSpatial] = {};  // k, c, taps
  std::int64_t pad[kSpatial] = {};
  std::int64_t stride[kSpatial] = {1, 1, 1};
  std::int64_t dilation[kSpatial] = {1, 1, 1};

  [[nodiscard]] std::int64_t tap_count() const noexcept { return taps[0] * taps[1] * taps[2]; }
};

Side side_of(const TensorGeometry& tensor, std::int64_t groups) {
  Side side;
  side.channels = tensor.dims[1] / groups;
  side.image_stride = tensor.strides[0];
  side.channel_stride = tensor.strides[1];
  const int first = kSpatial - (tensor.rank - 2);
  for (int i = 2; i < tensor.rank; ++i) {
    side.dims[first + i - 2] = tensor.dims[i];
    side.strides[first + i - 2] = tensor.strides[i];
  }
  return side;
}

Shape shape_of(const Problem& problem) {
  Shape shape;
  shape.images = problem.x.dims[0];
  shape.groups = problem.groups;
  shape.x = side_of(problem.x, problem.groups);
  shape.y = side_of(problem.y, problem.groups);
  shape.mirrored = problem.mode == GPUDNN_CONVOLUTION;
  shape.w_strides[0] = problem.w.strides[0];
  shape.w_strides[1] = problem.w.strides[1];
  const int first = kSpatial - problem.spatial;
  for (int i = 0; i < problem.spatial; ++i) {
    shape.taps[first + i] = problem.w.dims[2 + i];
    shape.w_strides[2 + first + i] = problem.w.strides[2 + i];
    shape.pad[first + i] = problem.pad[i];
    shape.stride[first + i] = problem.stride[i];
    shape.dilation[first + i] = problem.dilation[i];
  }
  return shape;
}

// A tap that meets the image: its number in row-major order of the filter as stored, and the offset of the element
// under it from the first element of the channel.
struct Tap {
  std::int64_t number;
  std::int64_t offset;
};

// Along one dimension: tap t as the mathematics counts it, and the coordinate on the other side.
struct TapAlong {
  std::int64_t stored;
  std::int64_t coordinate;
};

// The taps of dimension i that connect `position` (of y, or of x when backwards) with a coordinate inside the other
// side.
void taps_along(const Shape& shape, int i, std::int64_t position, bool backwards, std::vector<TapAlong>* found) {
  found->clear();
  for (std::int64_t t = 0; t < shape.taps[i]; ++t) {
    std::int64_t coordinate;
    if (backwards) {
      const std::int64_t scaled = position + shape.pad[i] - t * shape.dilation[i];
      if (scaled < 0 || scaled % shape.stride[i] != 0) continue;
      coordinate = scaled / shape.stride[i];
      if (coordinate >= shape.y.dims[i]) continue;
    } else {
      coordinate = position * shape.stride[i] - shape.pad[i] + t * shape.dilation[i];
      if (coordinate < 0 || coordinate >= shape.x.dims[i]) continue;
    }
    found->push_back({shape.mirrored ? shape.taps[i] - 1 - t : t, coordinate});
  }
}

// Finds the taps of one position after the other; keeps its vectors between calls.
class TapFinder {
 public:
  TapFinder(const Shape& shape, bool backwards) : shape_(shape), backwards_(backwards) {}

  // `index` counts the positions of the output side in row-major order.
  const std::vector<Tap>& find(std::int64_t index) {
    const Side& here = backwards_ ? shape_.x : shape_.y;
    const Side& there = backwards_ ? shape_.y : shape_.x;
    for (int i = kSpatial - 1; i >= 0; --i) {
      const std::int64_t position = index % here.dims[i];
      index /= here.dims[i];
      if (position == last_[i]) continue;
      last_[i] = position;
      taps_along(shape_, i, position, backwards_, &along_[i]);
    }
    taps_.clear();
    for (const TapAlong& a : along_[0]) {
      for (const TapAlong& b : along_[1]) {
        for (const TapAlong& c : along_[2]) {
          taps_.push_back(
              {(a.stored * shape_.taps[1] + b.stored) * shape_.taps[2] + c.stored,
               a.coordinate * there.strides[0] + b.coordinate * there.strides[1] + c.coordinate * there.strides[2]});
        }
      }
    }
    return taps_;
  }

 private:
  const Shape& shape_;
  const bool backwards_;
  std::int64_t last_[kSpatial] = {-1, -1, -1};
  std::vector<TapAlong> along_[kSpatial];
  std::vector<Tap> taps_;
};

std::int64_t spatial_offset(const Side& side, std::int64_t index) noexcept {
  return offset_of(index, kSpatial, side.dims, side.strides);
}

// sums[j] += values[0] * rows[0][j] + values[1] * rows[1][j] + ..., added in that order.
void add_rows(std::int64_t count, const double* values, const double* const* rows, std::int64_t width, double* sums) {
  std::int64_t i = 0;
  for (; i + 4 <= count; i += 4) {
    const double a = values[i], b = values[i + 1], c = values[i + 2], d = values[i + 3];
    const double* const row_a = rows[i];
    const double* const row_b = rows[i + 1];
    const double* const row_c = rows[i + 2];
    const double* const row_d = rows[i + 3];
    for (std::int64_t j = 0; j < width; ++j) {
      sums[j] = sums[j] + a * row_a[j] + b * row_b[j] + c * row_c[j] + d * row_d[j];
    }
  }
  for (; i < count; ++i) {
    for (std::int64_t j = 0; j < width; ++j) sums[j] += values[i] * rows[i][j];
  }
}

// The filter as a matrix of doubles: for each group, a row for each (source channel, tap), in it the target channels.
// Forward goes from x's channels to y's, the data gradient back.
template <class T>
std::vector<double> filter_matrix(const Shape& shape, const T* w, bool backwards) {
  const std::int64_t sources = backwards ? shape.y.channels : shape.x.channels;
  const std::int64_t targets = backwards ? shape.x.channels : shape.y.channels;
  const std::int64_t taps = shape.tap_count();
  std::vector<double> matrix(static_cast<std::size_t>(shape.groups * sources * taps * targets));
  parallel_for(shape.groups * sources, grain_for(taps * targets), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const std::int64_t group = row / sources;
      const std::int64_t source = row % sources;
      for (std::int64_t tap = 0; tap < taps; ++tap) {
        double* const to = &matrix[static_cast<std::size_t>((row * taps + tap) * targets)];
        const T* const from = w + offset_of(tap, kSpatial, shape.taps, shape.w_strides + 2);
        for (std::int64_t target = 0; target < targets; ++target) {
          const std::int64_t k = group * shape.y.channels + (backwards ? source : target);
          const std::int64_t c = backwards ? target : source;
          to[target] = to_double(from[k * shape.w_strides[0] + c * shape.w_strides[1]]);
        }
      }
    }
  });
  return matrix;
}

// Calls write(image, channel, position, sum) for each output element, with the sum of the convolution.
template <class T, class Write>
void convolve(const Shape& shape, bool backwards, const T* source_data, const T* w, const Write& write) {
  const Side& source = backwards ? shape.y : shape.x;
  const Side& target = backwards ? shape.x : shape.y;
  const std::int64_t taps = shape.tap_count();
  const std::int64_t width = target.channels;
  const std::vector<double> matrix = filter_matrix(shape, w, backwards);
  const std::int64_t positions = target.positions();
  const std::int64_t cost = shape.groups * source.channels * taps * (width + 4);
  parallel_for(shape.images * positions, grain_for(cost), [&](std::int64_t begin, std::int64_t end) {
    TapFinder finder(shape, backwards);
    std::vector<double> values(static_cast<std::size_t>(source.channels * taps));
    std::vector<const double*> rows(values.size());
    std::vector<double> sums(static_cast<std::size_t>(width));
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t image = index / positions;
      const std::int64_t position = index % positions;
      const std::vector<Tap>& found = finder.find(position);
      for (std::int64_t group = 0; group < shape.groups; ++group) {
        std::size_t count = 0;
        for (std::int64_t c = group * source.channels; c < (group + 1) * source.channels; ++c) {
          const T* const channel = source_data + image * source.image_stride + c * source.channel_stride;
          const double* const channel_rows = matrix.data() + c * taps * width;
          for (const Tap& tap : found) {
            values[count] = to_double(channel[tap.offset]);
            rows[count++] = channel_rows + tap.number * width;
          }
        }
        std::fill(sums.begin(), sums.end(), 0.0);
        add_rows(static_cast<std::int64_t>(count), values.data(), rows.data(), width, sums.data());
        for (std::int64_t k = 0; k < width; ++k) {
          write(image, group * width + k, position, sums[static_cast<std::size_t>(k)]);
        }
      }
    }
  });
}

template <class T>
void forward(const Problem& problem, const Args& args) {
  const Shape shape = shape_of(problem);
  const Side z = problem.has_z != 0 ? side_of(problem.z, problem.groups) : Side{};
  const auto* const z_data = static_cast<const T*>(args.z);
  auto* const y = static_cast<T*>(args.out);
  const ConvEpilogue<T> epilogue(problem, args);
  convolve(
      shape, false, static_cast<const T*>(args.x), static_cast<const T*>(args.w),
      [&](std::int64_t n, std::int64_t k, std::int64_t position, double sum) {
        const T* const addend = epilogue.adds()
                                    ? z_data + n * z.image_stride + k * z.channel_stride + spatial_offset(z, position)
                                    : nullptr;
        const double value = epilogue(sum, addend, k);
        const Side& side = shape.y;
        store(y + n * side.image_stride + k * side.channel_stride + spatial_offset(side, position), value, args.beta);
      });
}

template <class T>
void dgrad(const Problem& problem, const Args& args) {
  const Shape shape = shape_of(problem);
  auto* const dx = static_cast<T*>(args.out);
  convolve(shape, true, static_cast<const T*>(args.y), static_cast<const T*>(args.w),
           [&](std::int64_t n, std::int64_t c, std::int64_t position, double sum) {
             const Side& side = shape.x;
             store(dx + n * side.image_stride + c * side.channel_stride + spatial_offset(side, position),
                   args.alpha * sum, args.beta);
           });
}

// Rows [first, last) of the gradient; a row is one (input channel, tap) and holds the output channels of its group.
template <class T>
void filter_gradient_rows(const Shape& shape, const T* x, const T* dy, std::int64_t first, std::int64_t last,
                          double* sums) {
  const std::int64_t taps = shape.tap_count();
  const std::int64_t width = shape.y.channels;
  const std::int64_t first_channel = first / taps;
  const std::int64_t last_channel = (last - 1) / taps;
  const std::int64_t first_k = first_channel / shape.x.channels * width;
  const std::int64_t last_k = (last_channel / shape.x.channels + 1) * width;
  TapFinder finder(shape, false);
  std::vector<double> gradient(static_cast<std::size_t>(last_k - first_k));
  for (std::int64_t image = 0; image < shape.images; ++image) {
    for (std::int64_t position = 0; position < shape.y.positions(); ++position) {
      const std::vector<Tap>& found = finder.find(position);
      const T* const pixel = dy + image * shape.y.image_stride + spatial_offset(shape.y, position);
      for (std::int64_t k = first_k; k < last_k; ++k) {
        gradient[static_cast<std::size_t>(k - first_k)] = to_double(pixel[k * shape.y.channel_stride]);
      }
      for (std::int64_t c = first_channel; c <= last_channel; ++c) {
        const T* const channel = x + image * shape.x.image_stride + c * shape.x.channel_stride;
        const double* const group = gradient.data() + (c / shape.x.channels * width - first_k);
        for (const Tap& tap : found) {
          const std::int64_t row = c * taps + tap.number;
          if (row < first || row >= last) continue;
          const double value = to_double(channel[tap.offset]);
          double* const to = sums + (row - first) * width;
          for (std::int64_t k = 0; k < width; ++k) to[k] += value * group[k];
        }
      }
    }
  }
}

template <class T>
void wgrad(const Problem& problem, const Args& args) {
  const Shape shape = shape_of(problem);
  auto* const dw = static_cast<T*>(args.out);
  const std::int64_t taps = shape.tap_count();
  const std::int64_t width = shape.y.channels;
  const std::int64_t rows = shape.groups * shape.x.channels * taps;
  // Blocks of rows that stay in the cache while all images pass by, and enough of them for every thread.
  constexpr std::int64_t kSumsInCache = 16384;
  const std::int64_t block =
      std::max<std::int64_t>(1, std::min(kSumsInCache / width, (rows - 1) / (2 * host_threads()) + 1));
  parallel_for((rows - 1) / block + 1, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> sums(static_cast<std::size_t>(block * width));
    for (std::int64_t b = begin; b < end; ++b) {
      const std::int64_t first = b * block;
      const std::int64_t last = std::min(first + block, rows);
      std::fill(sums.begin(), sums.end(), 0.0);
      filter_gradient_rows(shape, static_cast<const T*>(args.x), static_cast<const T*>(args.y), first, last,
                           sums.data());
      for (std::int64_t row = first; row < last; ++row) {
        const std::int64_t channel = row / taps;
        const std::int64_t first_k = channel / shape.x.channels * width;
        const std::int64_t at = channel % shape.x.channels * shape.w_strides[1] +
                                offset_of(row % taps, kSpatial, shape.taps, shape.w_strides + 2);
        for (std::int64_t k = 0; k < width; ++k) {
          store(dw + (first_k + k) * shape.w_strides[0] + at,
                args.alpha * sums[static_cast<std::size_t>((row - first) * width + k)], args.beta);
        }
      }
    }
  });
}

}  // namespace

void convolution(const Problem& problem, const Args& args) {
  if (element_count(conv::output(problem)) == 0) return;
  if (conv::is_integer(problem)) return convolution_of_integers(problem, args);
  with_floating_type(conv::output(problem).type, [&]<class T>() {
    switch (problem.direction) {
      case Direction::forward:
        return forward<T>(problem, args);
      case Direction::dgrad:
        return dgrad<T>(problem, args);
      case Direction::wgrad:
        return wgrad<T>(problem, args);
    }
  });
}

}  // namespace gpudnn::host
