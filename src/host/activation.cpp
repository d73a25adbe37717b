// Activations on the host, on tensors and on single values.
// SPDX-License-Identifier: Apache-2.0
#include "host/activation.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "core/parallel.hpp"
#include "host/element.hpp"
#include "host/walk.hpp"
#include "kernels/tile/pointwise_math.cuh"

namespace gpudnn::host {
namespace {

using activation::Args;
using activation::Problem;

// f'(x) * dy, from x or from y = f(x), whichever is cheaper; the other one may be anything.
inline double gradient(gpudnnActivationMode_t mode, gpudnnNanPropagation_t nan, double coef, double x, double y,
                       double dy) noexcept {
  const bool pass_nan = nan == GPUDNN_PROPAGATE_NAN && std::isnan(x);
  switch (mode) {
    case GPUDNN_ACTIVATION_SIGMOID:
      return tile::pointwise::sigmoid_gradient_of_y(y, dy);
    case GPUDNN_ACTIVATION_RELU:
      return pass_nan ? x : x > 0 ? dy : 0;
    case GPUDNN_ACTIVATION_TANH:
      return tile::pointwise::tanh_gradient_of_y(y, dy);
    case GPUDNN_ACTIVATION_CLIPPED_RELU:
      return pass_nan ? x : x > 0 && x < coef ? dy : 0;
    case GPUDNN_ACTIVATION_ELU:
      return x < 0 ? dy * (y + coef) : dy;
    case GPUDNN_ACTIVATION_SWISH:
      return tile::pointwise::swish_gradient(x, dy, coef);
    default:
      return dy;
  }
}

constexpr bool gradient_reads_x(gpudnnActivationMode_t mode) noexcept {
  return mode == GPUDNN_ACTIVATION_RELU || mode == GPUDNN_ACTIVATION_CLIPPED_RELU || mode == GPUDNN_ACTIVATION_ELU ||
         mode == GPUDNN_ACTIVATION_SWISH;
}
constexpr bool gradient_reads_y(gpudnnActivationMode_t mode) noexcept {
  return mode == GPUDNN_ACTIVATION_SIGMOID || mode == GPUDNN_ACTIVATION_TANH || mode == GPUDNN_ACTIVATION_ELU;
}

// activate() of host/activation.hpp, where the mode is known at compile time.
inline double activate_inline(gpudnnActivationMode_t mode, gpudnnNanPropagation_t nan, double coef, double x) noexcept {
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

// Calls f(mode); of ReLU, whose loops are short, with a mode that the compiler knows.
template <class F>
void with_mode(gpudnnActivationMode_t mode, const F& f) {
  if (mode == GPUDNN_ACTIVATION_RELU)
    return f(std::integral_constant<gpudnnActivationMode_t, GPUDNN_ACTIVATION_RELU>{});
  f(mode);
}

template <class T>
void forward(const Problem& problem, const Args& args) {
  const Walk<2> walk({problem.y, problem.x});
  const auto* const x = static_cast<const T*>(args.x);
  auto* const y = static_cast<T*>(args.out);
  with_mode(problem.mode, [&](auto mode) {
    parallel_for(walk.count(), grain_for(4), [&](std::int64_t begin, std::int64_t end) {
      walk.for_each(begin, end, [&](std::int64_t to, std::int64_t from) {
        store(y + to, args.alpha * activate_inline(mode, problem.nan, problem.coef, to_double(x[from])), args.beta);
      });
    });
  });
}

template <class T>
void backward(const Problem& problem, const Args& args) {
  const Walk<4> walk({problem.dx, problem.dy, problem.x, problem.y});
  const auto* const dy = static_cast<const T*>(args.dy);
  // A tensor that the formula does not need is not touched.
  const auto* const x = gradient_reads_x(problem.mode) ? static_cast<const T*>(args.x) : nullptr;
  const auto* const y = gradient_reads_y(problem.mode) ? static_cast<const T*>(args.y) : nullptr;
  auto* const dx = static_cast<T*>(args.out);
  with_mode(problem.mode, [&](auto mode) {
    parallel_for(walk.count(), grain_for(4), [&](std::int64_t begin, std::int64_t end) {
      walk.for_each(begin, end, [&](std::int64_t to, std::int64_t from_dy, std::int64_t from_x, std::int64_t from_y) {
        const double x_value = gradient_reads_x(mode) ? to_double(x[from_x]) : 0;
        const double y_value = gradient_reads_y(mode) ? to_double(y[from_y]) : 0;
        const double slope_dy = gradient(mode, problem.nan, problem.coef, x_value, y_value, to_double(dy[from_dy]));
        store(dx + to, args.alpha * slope_dy, args.beta);
      });
    });
  });
}

}  // namespace

double activate(gpudnnActivationMode_t mode, gpudnnNanPropagation_t nan, double coef, double x) noexcept {
  return activate_inline(mode, nan, coef, x);
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
