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
  // Calls body(row-major number, offset, coordinates) for each position, in row-major order.
  template <class Body>
  void for_each(const Body& body) const {
    std::int64_t number = 0;
    std::int64_t at[kSpatial];
    for (at[0] = 0; at[0] < dims[0]; ++at[0]) {
      for (at[1] = 0; at[1] < dims[1]; ++at[1]) {
        const std::int64_t row = at[0] * strides[0] + at[1] * strides[1];
        for (at[2] = 0; at[2] < dims[2]; ++at[2]) body(number++, row + at[2] * strides[2], at);
      }
    }
  }
};

// The part of a window that lies inside the image, and the number of its positions inside the padded image.
struct Window {
  std::int64_t begin[kSpatial];
  std::int64_t end[kSpatial];
  double padded_count = 1;

  [[nodiscard]] std::int64_t count() const noexcept {
    std::int64_t elements = 1;
    for (int i = 0; i < kSpatial; ++i) elements *= std::max<std::int64_t>(end[i] - begin[i], 0);
    return elements;
  }
  // Calls body(row-major number in the image) for each element, in row-major order.
  template <class Body>
  void for_each(const Plane& image, const Body& body) const {
    for (std::int64_t d = begin[0]; d < end[0]; ++d) {
      for (std::int64_t h = begin[1]; h < end[1]; ++h) {
        for (std::int64_t w = begin[2]; w < end[2]; ++w) body((d * image.dims[1] + h) * image.dims[2] + w);
      }
    }
  }
};

Window window_at(const Problem& problem, const Plane& image, const std::int64_t (&at)[kSpatial]) {
  Window window = {{0, 0, 0}, {1, 1, 1}, 1};
  const int first = kSpatial - problem.spatial;
  for (int i = kSpatial - 1; i >= first; --i) {
    const std::int64_t start = at[i] * problem.stride[i - first] - problem.pad[i - first];
    window.begin[i] = std::max<std::int64_t>(start, 0);
    window.end[i] = std::min(start + problem.window[i - first], image.dims[i]);
    const std::int64_t padded_end = std::min(start + problem.window[i - first], image.dims[i] + problem.pad[i - first]);
    window.padded_count *= static_cast<double>(std::max<std::int64_t>(padded_end - start, 0));
  }
  return window;
}

bool is_average(const Problem& problem) {
  return problem.mode == GPUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING ||
         problem.mode == GPUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING;
}

// What an average divides by.
double divisor(const Problem& problem, const Window& window) {
  if (problem.mode == GPUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING) return static_cast<double>(window.count());
  return window.padded_count;
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

// The number of the window's first maximum in the image's values, or -1.
std::int64_t find_maximum(const Problem& problem, const Plane& image, const Window& window, const double* values) {
  std::int64_t best = -1;
  window.for_each(image, [&](std::int64_t at) {
    const double value = values[at];
    if (best >= 0 && std::isnan(values[best])) return;
    if (std::isnan(value)) {
      if (problem.nan == GPUDNN_PROPAGATE_NAN) best = at;
    } else if (best < 0 || value > values[best]) {
      best = at;
    }
  });
  return best;
}

double average(const Problem& problem, const Plane& image, const Window& window, const double* values) {
  double sum = 0;
  window.for_each(image, [&](std::int64_t at) { sum += values[at]; });
  const double parts = divisor(problem, window);
  return parts == 0 ? 0 : sum / parts;
}

template <class T>
void read_plane(const T* data, const Plane& plane, std::vector<double>* values) {
  double* const to = values->data();
  plane.for_each(
      [&](std::int64_t i, std::int64_t at, const std::int64_t(&)[kSpatial]) { to[i] = to_double(data[at]); });
}

// The offset of plane `index`, counted over images and channels.
std::int64_t plane_offset(const TensorGeometry& tensor, std::int64_t index) {
  return index / tensor.dims[1] * tensor.strides[0] + index % tensor.dims[1] * tensor.strides[1];
}

template <class T>
void forward(const Problem& problem, const Args& args) {
  const Plane image(problem.x);
  const Plane output(problem.y);
  parallel_for(problem.y.dims[0] * problem.y.dims[1], grain_for(10 * image.positions()),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<double> values(static_cast<std::size_t>(image.positions()));
                 for (std::int64_t plane = begin; plane < end; ++plane) {
                   read_plane(static_cast<const T*>(args.x) + plane_offset(problem.x, plane), image, &values);
                   T* const y = static_cast<T*>(args.out) + plane_offset(problem.y, plane);
                   output.for_each([&](std::int64_t, std::int64_t to, const std::int64_t(&at)[kSpatial]) {
                     const Window window = window_at(problem, image, at);
                     double result = 0;
                     if (is_average(problem)) {
                       result = average(problem, image, window, values.data());
                     } else {
                       const std::int64_t best = find_maximum(problem, image, window, values.data());
                       result = best < 0 ? lowest<T>() : values[static_cast<std::size_t>(best)];
                     }
                     store(y + to, args.alpha * result, args.beta);
                   });
                 }
               });
}

template <class T>
void backward(const Problem& problem, const Args& args) {
  const Plane image(problem.x);
  const Plane output(problem.dy);
  const Plane image_gradient(problem.dx);
  parallel_for(problem.dx.dims[0] * problem.dx.dims[1], grain_for(10 * image.positions()),
               [&](std::int64_t begin, std::int64_t end) {
                 std::vector<double> values(static_cast<std::size_t>(image.positions()));
                 std::vector<double> sums(values.size());
                 for (std::int64_t plane = begin; plane < end; ++plane) {
                   std::fill(sums.begin(), sums.end(), 0.0);
                   if (!is_average(problem)) {
                     read_plane(static_cast<const T*>(args.x) + plane_offset(problem.x, plane), image, &values);
                   }
                   const T* const dy = static_cast<const T*>(args.dy) + plane_offset(problem.dy, plane);
                   output.for_each([&](std::int64_t, std::int64_t from, const std::int64_t(&place)[kSpatial]) {
                     const Window window = window_at(problem, image, place);
                     const double gradient = to_double(dy[from]);
                     if (is_average(problem)) {
                       const double share = gradient / divisor(problem, window);
                       window.for_each(image, [&](std::int64_t at) { sums[static_cast<std::size_t>(at)] += share; });
                     } else if (const auto best = find_maximum(problem, image, window, values.data()); best >= 0) {
                       sums[static_cast<std::size_t>(best)] += gradient;
                     }
                   });
                   T* const dx = static_cast<T*>(args.out) + plane_offset(problem.dx, plane);
                   image_gradient.for_each([&](std::int64_t i, std::int64_t to, const std::int64_t(&)[kSpatial]) {
                     store(dx + to, args.alpha * sums[static_cast<std::size_t>(i)], args.beta);
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
