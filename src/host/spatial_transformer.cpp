// The spatial transformer on the host: the affine grid, bilinear sampling, and their gradients.
// SPDX-License-Identifier: Apache-2.0
#include "host/spatial_transformer.hpp"

#include <cmath>
#include <vector>

#include "core/parallel.hpp"
#include "host/element.hpp"

namespace gpudnn::host {
namespace {

using spatial_transformer::Args;
using spatial_transformer::Operation;
using spatial_transformer::Problem;

double position(std::int64_t index, std::int64_t extent) {
  if (extent == 1) return 0;
  return static_cast<double>(2 * index - (extent - 1)) / static_cast<double>(extent - 1);
}

template <class T>
void grid_forward(const Problem& problem, const Args& args) {
  const auto* const theta = static_cast<const T*>(args.theta);
  auto* const grid = static_cast<T*>(args.out);
  const std::int64_t height = problem.y.dims[2];
  const std::int64_t width = problem.y.dims[3];
  parallel_for(problem.y.dims[0] * height, grain_for(20 * width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t row = begin; row < end; ++row) {
      const T* const m = theta + row / height * 6;
      const double y = position(row % height, height);
      for (std::int64_t w = 0; w < width; ++w) {
        const double x = position(w, width);
        for (int i = 0; i < 2; ++i) {
          grid[(row * width + w) * 2 + i] =
              round_to<T>(to_double(m[3 * i]) * x + to_double(m[3 * i + 1]) * y + to_double(m[3 * i + 2]));
        }
      }
    }
  });
}

template <class T>
void grid_backward(const Problem& problem, const Args& args) {
  const auto* const dgrid = static_cast<const T*>(args.grid);
  auto* const dtheta = static_cast<T*>(args.out);
  const std::int64_t height = problem.y.dims[2];
  const std::int64_t width = problem.y.dims[3];
  parallel_for(problem.y.dims[0], grain_for(20 * height * width), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      double sums[6] = {};
      for (std::int64_t p = 0; p < height * width; ++p) {
        const double x = position(p % width, width);
        const double y = position(p / width, height);
        for (int i = 0; i < 2; ++i) {
          const double d = to_double(dgrid[(n * height * width + p) * 2 + i]);
          sums[3 * i] += d * x;
          sums[3 * i + 1] += d * y;
          sums[3 * i + 2] += d;
        }
      }
      for (int i = 0; i < 6; ++i) dtheta[n * 6 + i] = round_to<T>(sums[i]);
    }
  });
}

// The four pixels around a grid point, where they lie in the image, and how far the point is from the first.
struct Point {
  bool inside = false;
  std::int64_t row = 0;
  std::int64_t column = 0;
  double fy = 0;
  double fx = 0;

  [[nodiscard]] double weight(int corner) const {
    return (corner / 2 != 0 ? fy : 1 - fy) * (corner % 2 != 0 ? fx : 1 - fx);
  }
  [[nodiscard]] bool has(int corner, const TensorGeometry& image) const {
    const std::int64_t r = row + corner / 2;
    const std::int64_t c = column + corner % 2;
    return inside && r >= 0 && r < image.dims[2] && c >= 0 && c < image.dims[3];
  }
  [[nodiscard]] std::int64_t offset(int corner, const TensorGeometry& image) const {
    return (row + corner / 2) * image.strides[2] + (column + corner % 2) * image.strides[3];
  }
};

template <class T>
Point locate(const T* grid, std::int64_t index, const TensorGeometry& image) {
  Point point;
  const double x = (to_double(grid[2 * index]) + 1) * 0.5 * static_cast<double>(image.dims[3] - 1);
  const double y = (to_double(grid[2 * index + 1]) + 1) * 0.5 * static_cast<double>(image.dims[2] - 1);
  point.inside = x > -1 && x < static_cast<double>(image.dims[3]) && y > -1 && y < static_cast<double>(image.dims[2]);
  if (!point.inside) return point;
  point.column = static_cast<std::int64_t>(std::floor(x));
  point.row = static_cast<std::int64_t>(std::floor(y));
  point.fx = x - std::floor(x);
  point.fy = y - std::floor(y);
  return point;
}

template <class T>
void sample_forward(const Problem& problem, const Args& args) {
  const TensorGeometry& x = problem.x;
  const TensorGeometry& y = problem.y;
  const auto* const grid = static_cast<const T*>(args.grid);
  const std::int64_t pixels = y.dims[2] * y.dims[3];
  parallel_for(y.dims[0] * pixels, grain_for(20 * y.dims[1]), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t n = index / pixels;
      const std::int64_t p = index % pixels;
      const Point point = locate(grid, index, x);
      for (std::int64_t c = 0; c < y.dims[1]; ++c) {
        const T* const plane = static_cast<const T*>(args.x) + n * x.strides[0] + c * x.strides[1];
        double sum = 0;
        for (int i = 0; i < 4; ++i) {
          if (point.has(i, x)) sum += point.weight(i) * to_double(plane[point.offset(i, x)]);
        }
        store(static_cast<T*>(args.out) + n * y.strides[0] + c * y.strides[1] + p / y.dims[3] * y.strides[2] +
                  p % y.dims[3] * y.strides[3],
              args.alpha * sum, args.beta);
      }
    }
  });
}

template <class T>
void image_gradient(const Problem& problem, const Args& args) {
  const TensorGeometry& dx = problem.dx;
  const TensorGeometry& dy = problem.y;
  const auto* const grid = static_cast<const T*>(args.grid);
  const std::int64_t pixels = dy.dims[2] * dy.dims[3];
  parallel_for(dx.dims[0] * dx.dims[1], grain_for(20 * pixels), [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> sums(static_cast<std::size_t>(dx.dims[2] * dx.dims[3]));
    for (std::int64_t plane = begin; plane < end; ++plane) {
      const std::int64_t n = plane / dx.dims[1];
      const std::int64_t c = plane % dx.dims[1];
      sums.assign(sums.size(), 0);
      for (std::int64_t p = 0; p < pixels; ++p) {
        const Point point = locate(grid, n * pixels + p, dx);
        const double d =
            to_double(static_cast<const T*>(args.dy)[n * dy.strides[0] + c * dy.strides[1] +
                                                     p / dy.dims[3] * dy.strides[2] + p % dy.dims[3] * dy.strides[3]]);
        for (int i = 0; i < 4; ++i) {
          const std::int64_t place = (point.row + i / 2) * dx.dims[3] + point.column + i % 2;
          if (point.has(i, dx)) sums[static_cast<std::size_t>(place)] += point.weight(i) * d;
        }
      }
      for (std::int64_t q = 0; q < dx.dims[2] * dx.dims[3]; ++q) {
        store(static_cast<T*>(args.out) + n * dx.strides[0] + c * dx.strides[1] + q / dx.dims[3] * dx.strides[2] +
                  q % dx.dims[3] * dx.strides[3],
              args.alpha * sums[static_cast<std::size_t>(q)], args.beta);
      }
    }
  });
}

template <class T>
void grid_gradient(const Problem& problem, const Args& args) {
  const TensorGeometry& x = problem.x;
  const TensorGeometry& dy = problem.y;
  const auto* const grid = static_cast<const T*>(args.grid);
  const std::int64_t pixels = dy.dims[2] * dy.dims[3];
  parallel_for(dy.dims[0] * pixels, grain_for(30 * dy.dims[1]), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t n = index / pixels;
      const std::int64_t p = index % pixels;
      const Point point = locate(grid, index, x);
      double along_x = 0;
      double along_y = 0;
      for (std::int64_t c = 0; point.inside && c < dy.dims[1]; ++c) {
        const T* const plane = static_cast<const T*>(args.x) + n * x.strides[0] + c * x.strides[1];
        double v[4] = {};
        for (int i = 0; i < 4; ++i) {
          if (point.has(i, x)) v[i] = to_double(plane[point.offset(i, x)]);
        }
        const double d =
            to_double(static_cast<const T*>(args.dy)[n * dy.strides[0] + c * dy.strides[1] +
                                                     p / dy.dims[3] * dy.strides[2] + p % dy.dims[3] * dy.strides[3]]);
        along_x += d * ((v[1] - v[0]) * (1 - point.fy) + (v[3] - v[2]) * point.fy);
        along_y += d * ((v[2] - v[0]) * (1 - point.fx) + (v[3] - v[1]) * point.fx);
      }
      T* const place = static_cast<T*>(args.dgrid) + 2 * index;
      store(place, args.grid_alpha * along_x * 0.5 * static_cast<double>(x.dims[3] - 1), args.grid_beta);
      store(place + 1, args.grid_alpha * along_y * 0.5 * static_cast<double>(x.dims[2] - 1), args.grid_beta);
    }
  });
}

}  // namespace

void spatial_transformer(const Problem& problem, const Args& args) {
  with_floating_type(problem.y.type, [&]<class T>() {
    switch (problem.operation) {
      case Operation::grid_forward:
        return grid_forward<T>(problem, args);
      case Operation::grid_backward:
        return grid_backward<T>(problem, args);
      case Operation::sample_forward:
        return sample_forward<T>(problem, args);
      case Operation::sample_backward:
        image_gradient<T>(problem, args);
        return grid_gradient<T>(problem, args);
    }
  });
}

}  // namespace gpudnn::host
