// Activations on the host, on tensors and on single values.
// SPDX-License-Identifier: Apache-2.0
#include "host/activation.hpp"

#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"
#include "host/element.hpp"
#include "kernels/tile/pointwise_math.cuh"

namespace gpudnn::host {
namespace {

using activation::Args;
using activation::Problem;

// f'(x) * dy, from x or from y = f(x), whichever is cheaper; the other one may be anything.
double gradient(const Problem& problem, double x, double y, double dy) noexcept {
  const bool pass_nan = problem.nan == GPUDNN_PROPAGATE_NAN && std::isnan(x);
  switch (problem.mode) {
    case GPUDNN_ACTIVATION_SIGMOID:
      return tile::pointwise::sigmoid_gradient_of_y(y, dy);
    case GPUDNN_ACTIVATION_RELU:
      return pass_nan ? x : x > 0 ? dy : 0;
    case GPUDNN_ACTIVATION_TANH:
      return tile::pointwise::tanh_gradient_of_y(y, dy);
    case GPUDNN_ACTIVATION_CLIPPED_RELU:
      return pass_nan ? x : x > 0 && x < problem.coef ? dy : 0;
    case GPUDNN_ACTIVATION_ELU:
      return x < 0 ? dy * (y + problem.coef) : dy;
    case GPUDNN_ACTIVATION_SWISH:
      return tile::pointwise::swish_gradient(x, dy, problem.coef);
    default:
      return dy;
  }
}

bool gradient_reads_x(gpudnnActivationMode_t mode) noexcept {
  return mode == GPUDNN_ACTIVATION_RELU || mode == GPUDNN_ACTIVATION_CLIPPED_RELU || mode == GPUDNN_ACTIVATION_ELU ||
         mode == GPUDNN_ACTIVATION_SWISH;
}
bool gradient_reads_y(gpudnnActivationMode_t mode) noexcept {
  return mode == GPUDNN_ACTIVATION_SIGMOID || mode == GPUDNN_ACTIVATION_TANH || mode == GPUDNN_ACTIVATION_ELU;
}

template <class T>
void forward(const Problem& problem, const Args& args) {
  TensorGeometry both[2] = {problem.y, problem.x};
  const int rank = merge_dimensions(both, 2);
  const auto* const x = static_cast<const T*>(args.x);
  auto* const y = static_cast<T*>(args.out);
  parallel_for(element_count(both[0]), grain_for(20), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const double input = to_double(x[offset_of(index, rank, both[0].dims, both[1].strides)]);
      store(y + offset_of(index, rank, both[0].dims, both[0].strides),
            args.alpha * activate(problem.mode, problem.nan, problem.coef, input), args.beta);
    }
  });
}

template <class T>
void backward(const Problem& problem, const Args& args) {
  TensorGeometry all[4] = {problem.dx, problem.dy, problem.x, problem.y};
  const int rank = merge_dimensions(all, 4);
  const auto* const dy = static_cast<const T*>(args.dy);
  // A tensor that the formula does not need is not touched.
  const auto* const x = gradient_reads_x(problem.mode) ? static_cast<const T*>(args.x) : nullptr;
  const auto* const y = gradient_reads_y(problem.mode) ? static_cast<const T*>(args.y) : nullptr;
  auto* const dx = static_cast<T*>(args.out);
  parallel_for(element_count(all[0]), grain_for(20), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const auto value = [&](const T* data, int tensor) {
        return data == nullptr ? 0 : to_double(data[offset_of(index, rank, all[0].dims, all[tensor].strides)]);
      };
      store(dx + offset_of(index, rank, all[0].dims, all[0].strides),
            args.alpha * gradient(problem, value(x, 2), value(y, 3), value(dy, 1)), args.beta);
    }
  });
}

}  // namespace

double activate(gpudnnActivationMode_t mode, gpudnnNanPropagation_t nan, double coef, double x) noexcept {
  const bool pass_nan = nan == GPUDNN_PROPAGATE_NAN && std::isnan(x);
  switch (mode) {
    case GPUDNN_ACTIVATION_SIGMOID:
      return tile::pointwise::logistic(x);
    case GPUDNN_ACTIVATION_RELU:
      return pass_nan ? x : x > 0 ? x : 0;
    case GPUDNN_ACTIVATION_TANH:
      return std::tanh(x);
    case GPUDNN_ACTIVATION_CLIPPED_RELU:
      return pass_nan ? x : std::min(x > 0 ? x : 0, coef);
    case GPUDNN_ACTIVATION_ELU:
      return tile::pointwise::elu(x, coef);
    case GPUDNN_ACTIVATION_SWISH:
      return tile::pointwise::swish(x, coef);
    default:
      return x;
  }
}

void activation(const Problem& problem, const Args& args) {
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
