// Pooling on the host, plane by plane (a plane is one channel of one image).
//
// The maximum of a window is that of its elements inside the image. With GPUDNN_NOT_PROPAGATE_NAN a NaN is passed over,
// with GPUDNN_PROPAGATE_NAN the first one is the maximum. A window without any element to choose has the lowest finite
// value of the type, and no place for a gradient to go. An average divides by the number of the window's elements
// inside the image or, counting padding, inside the padded image; it is 0 where that number is 0.
// SPDX-License-Identifier: Apache-2.0
#include "host/pooling.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "core/parallel.hpp"
#include "host/element.hpp"

namespace gpudnn::host {
namespace {

using pooling::Args;
using pooling::Problem;

constexpr int kSpatial = 3;

// The spatial part of a tensor, with three dimensions (missing leading ones have extent 1).
struct Plane {
  std::int64_t dims[kSpatial] = {1, 1, 1};
  std::int64_t strides[kSpatial] = {};

  explicit Plane(const TensorGeometry& tensor) {
    const int first = kSpatial - (tensor.rank - 2);
    for (int i = 2; i < tensor.rank; ++i) {
      dims[first + i - 2] = tensor.dims[i];
      strides[first + i - 2] = tensor.strides[i];
    }
  }
  [[nodiscard]] std::int64_t positions() const noexcept { return dims[0] * dims[1] * dims[2]; }
  // Calls body(d, h, offset) for each row, in row-major order.
  template <class Body>
  void for_each_row(const Body& body) const {
    for (std::int64_t d = 0; d < dims[0]; ++d) {
      for (std::int64_t h = 0; h < dims[1]; ++h) body(d, h, d * strides[0] + h * strides[1]);
    }
  }
};

// The windows of a row of the output, element by element: for each of a window's elements in turn, all windows of the
// row. Inner loops are long and without branches so.
class Windows {
 public:
  Windows(const Problem& problem, const Plane& image, const Plane& output) : image_(image) {
    for (int i = 0; i < kSpatial; ++i) {
      const int axis = i - (kSpatial - problem.spatial);
      for (std::int64_t at = 0; at < output.dims[i]; ++at) {
        axes_[i].push_back(axis < 0 ? Extent{0, 1, 1} : extent(problem, axis, image.dims[i], at));
      }
    }
    const int last = problem.spatial - 1;
    step_ = problem.stride[last];
    for (std::int64_t tap = 0; tap < problem.window[last]; ++tap) {
      const std::int64_t start = tap - problem.pad[last];  // the first window's element
      const std::int64_t end = (image.dims[kSpatial - 1] - start + step_ - 1) / step_;
      taps_.push_back({start, start < 0 ? (-start + step_ - 1) / step_ : 0, std::min(end, output.dims[kSpatial - 1])});
    }
  }
  // Calls body(column of the output, row-major number in the image) for each element of the windows of row (d, h); of
  // one window in row-major order.
  template <class Body>
  void for_each(std::int64_t d, std::int64_t h, const Body& body) const {
    const std::int64_t step = step_;  // what a body writes may be thought to change a member
    const Extent& depth = axes_[0][static_cast<std::size_t>(d)];
    const Extent& height = axes_[1][static_cast<std::size_t>(h)];
    for (std::int64_t i = depth.begin; i < depth.end; ++i) {
      for (std::int64_t j = height.begin; j < height.end; ++j) {
        const std::int64_t row = (i * image_.dims[1] + j) * image_.dims[2];
        for (const Tap tap : taps_) {
          for (std::int64_t w = tap.begin; w < tap.end; ++w) body(w, row + tap.start + w * step);
        }
      }
    }
  }
  // What an average divides by: the window's elements inside the image, or its positions inside the padded image.
  [[nodiscard]] double divisor(gpudnnPoolingMode_t mode, std::int64_t d, std::int64_t h, std::int64_t w) const {
    const Extent* const extents[] = {&axes_[0][static_cast<std::size_t>(d)], &axes_[1][static_cast<std::size_t>(h)],
                                     &axes_[2][static_cast<std::size_t>(w)]};
    double divisor = 1;
    for (const Extent* along : extents) {
      divisor *= mode == GPUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING
                     ? along->padded
                     : static_cast<double>(std::max<std::int64_t>(along->end - along->begin, 0));
    }
    return divisor;
  }

 private:
  struct Extent {
    std::int64_t begin;  // inside the image
    std::int64_t end;
    double padded;  // positions inside the padded image
  };
  // One column of the windows, and the columns of the output whose windows have it inside the image.
  struct Tap {
    std::int64_t start;
    std::int64_t begin;
    std::int64_t end;
  };
  static Extent extent(const Problem& problem, int axis, std::int64_t image, std::int64_t at) {
    const std::int64_t start = at * problem.stride[axis] - problem.pad[axis];
    const std::int64_t end = start + problem.window[axis];
    const std::int64_t padded = std::min(end, image + problem.pad[axis]) - start;
    return {std::max<std::int64_t>(start, 0), std::min(end, image),
            static_cast<double>(std::max<std::int64_t>(padded, 0))};
  }

  const Plane& image_;
  std::vector<Extent> axes_[kSpatial];
  std::int64_t step_ = 1;
  std::vector<Tap> taps_;
};

bool is_average(const Problem& problem) {
  return problem.mode == GPUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING ||
         problem.mode == GPUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
}

template <class T>
double lowest() {
  if constexpr (std::is_same_v<T, Half>) {
    return -65504.0;
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return -0x1.FEp127;
  } else {
    return static_cast<double>(std::numeric_limits<T>::lowest());
  }
}

// The first maxima of a row of windows.
struct Maxima {
  std::vector<double> values;
  std::vector<std::int64_t> numbers;  // in the image; -1: there was nothing to choose

  explicit Maxima(std::int64_t columns)
      : values(static_cast<std::size_t>(columns)), numbers(static_cast<std::size_t>(columns)) {}
  void find(const Problem& problem, const Windows& windows, std::int64_t d, std::int64_t h, const double* image) {
    const auto none = [](std::int64_t number) { return number < 0; };
    const bool propagates = problem.nan == GPUDNN_PROPAGATE_NAN;
    std::fill(values.begin(), values.end(), -std::numeric_limits<double>::infinity());
    std::fill(numbers.begin(), numbers.end(), -1);
    double* const greatest = values.data();
    std::int64_t* const best = numbers.data();
    const auto take = [=](bool takes, std::int64_t w, std::int64_t at) {
      best[w] = takes ? at : best[w];
      greatest[w] = takes ? image[at] : greatest[w];
    };
    if (propagates) {
      windows.for_each(d, h, [=](std::int64_t w, std::int64_t at) {
        take(!(image[at] <= greatest[w]) & (greatest[w] == greatest[w]), w, at);
      });
    } else {
      windows.for_each(d, h, [=](std::int64_t w, std::int64_t at) { take(image[at] > greatest[w], w, at); });
    }
    if (std::none_of(numbers.begin(), numbers.end(), none)) return;
    // Nothing above -infinity: the first that is one, if any.
    windows.for_each(d, h, [=](std::int64_t w, std::int64_t at) {
      take(best[w] < 0 && image[at] == -std::numeric_limits<double>::infinity(), w, at);
    });
  }
};

template <class T>
void read_plane(const T* data, const Plane& plane, std::vector<double>* values) {
  double* to = values->data();
  plane.for_each_row([&](std::int64_t, std::int64_t, std::int64_t row) {
    for (std::int64_t w = 0; w < plane.dims[2]; ++w) *to++ = to_double(data[row + w * plane.strides[2]]);
  });
}

// The offset of plane `index`, counted over images and channels.
std::int64_t plane_offset(const TensorGeometry& tensor, std::int64_t index) {
  return index / tensor.dims[1] * tensor.strides[0] + index % tensor.dims[1] * tensor.strides[1];
}

template <class T>
void forward(const Problem& problem, const Args& args) {
  const Plane image(problem.x);
  const Plane output(problem.y);
  const Windows windows(problem, image, output);
  parallel_for(problem.y.dims[0] * problem.y.dims[1], grain_for(10 * image.positions()),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<double> values(static_cast<std::size_t>(image.positions()));
                 std::vector<double> sums(static_cast<std::size_t>(output.dims[2]));
                 Maxima maxima(output.dims[2]);
                 for (std::int64_t plane = begin; plane < end; ++plane) {
                   read_plane(static_cast<const T*>(args.x) + plane_offset(problem.x, plane), image, &values);
                   T* const y = static_cast<T*>(args.out) + plane_offset(problem.y, plane);
                   output.for_each_row([&](std::int64_t d, std::int64_t h, std::int64_t row) {
                     if (is_average(problem)) {
                       std::fill(sums.begin(), sums.end(), 0.0);
                       windows.for_each(d, h,
                                        [sum = sums.data(), from = values.data()](std::int64_t w, std::int64_t at) {
                                          sum[w] += from[at];
                                        });
                     } else {
                       maxima.find(problem, windows, d, h, values.data());
                     }
                     for (std::int64_t w = 0; w < output.dims[2]; ++w) {
                       const auto i = static_cast<std::size_t>(w);
                       double result = maxima.numbers[i] < 0 ? lowest<T>() : maxima.values[i];
                       if (is_average(problem)) {
                         const double divisor = windows.divisor(problem.mode, d, h, w);
                         result = divisor == 0 ? 0 : sums[i] / divisor;
                       }
                       store(y + row + w * output.strides[2], args.alpha * result, args.beta);
                     }
                   });
                 }
               });
}

template <class T>
void backward(const Problem& problem, const Args& args) {
  const Plane image(problem.x);
  const Plane output(problem.dy);
  const Plane image_gradient(problem.dx);
  const Windows windows(problem, image, output);
  parallel_for(problem.dx.dims[0] * problem.dx.dims[1], grain_for(10 * image.positions()),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<double> values(static_cast<std::size_t>(image.positions()));
                 std::vector<double> sums(values.size());
                 std::vector<double> shares(static_cast<std::size_t>(output.dims[2]));
                 Maxima maxima(output.dims[2]);
                 for (std::int64_t plane = begin; plane < end; ++plane) {
                   std::fill(sums.begin(), sums.end(), 0.0);
                   if (!is_average(problem)) {
                     read_plane(static_cast<const T*>(args.x) + plane_offset(problem.x, plane), image, &values);
                   }
                   const T* const dy = static_cast<const T*>(args.dy) + plane_offset(problem.dy, plane);
                   output.for_each_row([&](std::int64_t d, std::int64_t h, std::int64_t row) {
                     const T* const gradients = dy + row;
                     if (is_average(problem)) {
                       for (std::int64_t w = 0; w < output.dims[2]; ++w) {
                         shares[static_cast<std::size_t>(w)] =
                             to_double(gradients[w * output.strides[2]]) / windows.divisor(problem.mode, d, h, w);
                       }
                       windows.for_each(d, h,
                                        [to = sums.data(), share = shares.data()](std::int64_t w, std::int64_t at) {
                                          to[at] += share[w];
                                        });
                       return;
                     }
                     maxima.find(problem, windows, d, h, values.data());
                     for (std::int64_t w = 0; w < output.dims[2]; ++w) {
                       const std::int64_t best = maxima.numbers[static_cast<std::size_t>(w)];
                       if (best >= 0)
                         sums[static_cast<std::size_t>(best)] += to_double(gradients[w * output.strides[2]]);
                     }
                   });
                   T* const dx = static_cast<T*>(args.out) + plane_offset(problem.dx, plane);
                   const double* sum = sums.data();
                   image_gradient.for_each_row([&](std::int64_t, std::int64_t, std::int64_t row) {
                     for (std::int64_t w = 0; w < image_gradient.dims[2]; ++w) {
                       store(dx + row + w * image_gradient.strides[2], args.alpha * *sum++, args.beta);
                     }
                   });
                 }
               });
}

}  // namespace

void pooling(const Problem& problem, const Args& args) {
  const TensorGeometry& out = problem.backward ? problem.dx : problem.y;
  if (element_count(out) == 0) return;
  with_floating_type(out.type, [&]<class T>() {
    if (problem.backward) {
      backward<T>(problem, args);
    } else {
      forward<T>(problem, args);
    }
  });
}

}  // namespace gpudnn::host
