// Batch normalization on the host: set by set, the mean first, then the squared deviations from it, in double.
// SPDX-License-Identifier: Apache-2.0
#include "host/norm.hpp"

#include <cmath>

#include "core/parallel.hpp"
#include "host/activation.hpp"
#include "host/element.hpp"

namespace gpudnn::host {
namespace {

using norm::Args;
using norm::Pass;
using norm::Problem;

// The problem in double, parameters of type P.
template <class T, class P>
class Sets {
 public:
  Sets(const Problem& problem, const Args& args) : problem_(problem), args_(args) {
    within_ = between_ = problem.x;
    for (int i = 0; i < problem.x.rank; ++i) (norm::is_reduced(problem, i) ? between_ : within_).dims[i] = 1;
    length_ = element_count(within_);
    mask_row_ = (length_ + 7) / 8;
    adds_ = problem.ops == GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION;
    activates_ = problem.ops != GPUDNN_BATCHNORM_OPS_BN;
  }

  void run() {
    parallel_for(element_count(between_), grain_for(40 * length_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t set = begin; set < end; ++set) {
        if (problem_.pass == Pass::backward) {
          backward(set);
        } else {
          forward(set);
        }
      }
    });
  }

 private:
  struct Moments {
    double mean;
    double variance;
  };

  // Offsets of the set's first element, of element i from there, and of the set's parameter.
  [[nodiscard]] std::int64_t start(std::int64_t set, const TensorGeometry& tensor) const {
    return offset_of(set, between_.rank, between_.dims, tensor.strides);
  }
  [[nodiscard]] std::int64_t step(std::int64_t i, const TensorGeometry& tensor) const {
    return offset_of(i, within_.rank, within_.dims, tensor.strides);
  }
  [[nodiscard]] double x_at(std::int64_t set, std::int64_t i) const {
    return to_double(static_cast<const T*>(args_.x)[start(set, problem_.x) + step(i, problem_.x)]);
  }
  [[nodiscard]] static double parameter(const void* data, std::int64_t offset) {
    return static_cast<double>(static_cast<const P*>(data)[offset]);
  }

  [[nodiscard]] Moments batch_moments(std::int64_t set) const {
    double sum = 0;
    for (std::int64_t i = 0; i < length_; ++i) sum += x_at(set, i);
    const double mean = sum / static_cast<double>(length_);
    double squares = 0;
    for (std::int64_t i = 0; i < length_; ++i) squares += (x_at(set, i) - mean) * (x_at(set, i) - mean);
    return {mean, squares / static_cast<double>(length_)};
  }

  static void average(void* running, std::int64_t offset, double factor, double value) {
    store(static_cast<P*>(running) + offset, factor * value, 1 - factor);
  }

  // What forward keeps of a batch's statistics.
  void keep(std::int64_t offset, const Moments& moments, double inverse) const {
    if (problem_.running) {
      const auto m = static_cast<double>(length_);
      const double unbiased = length_ > 1 ? moments.variance * (m / (m - 1)) : moments.variance;
      average(args_.running_mean, offset, args_.factor, moments.mean);
      average(args_.running_variance, offset, args_.factor, unbiased);
    }
    if (problem_.saved) {
      store(static_cast<P*>(args_.saved_mean) + offset, moments.mean, 0);
      store(static_cast<P*>(args_.saved_inverse) + offset, inverse, 0);
    }
  }

  void forward(std::int64_t set) const {
    const std::int64_t at_stats = start(set, problem_.stats);
    const std::int64_t at_params = start(set, problem_.params);
    const bool trains = problem_.pass == Pass::train;
    const Moments moments =
        trains ? batch_moments(set)
               : Moments{parameter(args_.given_mean, at_stats), parameter(args_.given_deviation, at_stats)};
    const double inverse = 1 / std::sqrt(moments.variance + problem_.epsilon);
    const double scale = parameter(args_.scale, at_params);
    const double bias = parameter(args_.bias, at_params);
    auto* const y = static_cast<T*>(args_.out);
    auto* const mask = masked() ? static_cast<unsigned char*>(args_.mask) + set * mask_row_ : nullptr;
    for (std::int64_t i = 0; i < length_; ++i) {
      double value = scale * ((x_at(set, i) - moments.mean) * inverse) + bias;
      if (adds_) value += to_double(static_cast<const T*>(args_.z)[start(set, problem_.z) + step(i, problem_.z)]);
      if (mask != nullptr) {
        const auto bit = static_cast<unsigned char>(1u << (i % 8));
        if (i % 8 == 0) mask[i / 8] = 0;
        if (passes(value)) mask[i / 8] = static_cast<unsigned char>(mask[i / 8] | bit);
      }
      if (activates_) value = activate(problem_.mode, problem_.nan, problem_.coef, value);
      store(y + start(set, problem_.y) + step(i, problem_.y), args_.alpha * value, args_.beta);
    }
    if (trains) keep(at_stats, moments, inverse);
  }

  [[nodiscard]] bool masked() const { return norm::has_mask(problem_); }
  // Whether the activation's slope is 1 here.
  [[nodiscard]] bool passes(double value) const {
    if (std::isnan(value)) return problem_.nan == GPUDNN_PROPAGATE_NAN;
    return value > 0 && (problem_.mode != GPUDNN_ACTIVATION_CLIPPED_RELU || value < problem_.coef);
  }

  void backward(std::int64_t set) const {
    const std::int64_t at_stats = start(set, problem_.stats);
    const std::int64_t at_params = start(set, problem_.params);
    double mean, inverse;
    if (problem_.saved) {
      mean = parameter(args_.given_mean, at_stats);
      inverse = parameter(args_.given_deviation, at_stats);
    } else {
      const Moments moments = batch_moments(set);
      mean = moments.mean;
      inverse = 1 / std::sqrt(moments.variance + problem_.epsilon);
    }
    const auto* const mask = masked() ? static_cast<const unsigned char*>(args_.mask) + set * mask_row_ : nullptr;
    const auto* const dy = static_cast<const T*>(args_.dy);
    const auto gradient = [&](std::int64_t i) {
      if (mask != nullptr && (mask[i / 8] >> (i % 8) & 1) == 0) return 0.0;
      return to_double(dy[start(set, problem_.dy) + step(i, problem_.dy)]);
    };
    double sum = 0;
    double product = 0;
    for (std::int64_t i = 0; i < length_; ++i) {
      sum += gradient(i);
      product += gradient(i) * ((x_at(set, i) - mean) * inverse);
    }
    const auto m = static_cast<double>(length_);
    const double scale = parameter(args_.scale, at_params);
    auto* const dx = static_cast<T*>(args_.out);
    for (std::int64_t i = 0; i < length_; ++i) {
      const double g = gradient(i);
      const double xhat = (x_at(set, i) - mean) * inverse;
      // x and dy are read before the outputs, which may be the same memory, are written.
      if (adds_) store(static_cast<T*>(args_.dz) + start(set, problem_.dz) + step(i, problem_.dz), g, 0);
      store(dx + start(set, problem_.dx) + step(i, problem_.dx),
            args_.alpha * (scale * inverse * (g - sum / m - xhat * (product / m))), args_.beta);
    }
    store(static_cast<P*>(args_.dscale) + at_params, args_.alpha_param * product, args_.beta_param);
    store(static_cast<P*>(args_.dbias) + at_params, args_.alpha_param * sum, args_.beta_param);
  }

  const Problem& problem_;
  const Args& args_;
  TensorGeometry within_;   // the elements of a set
  TensorGeometry between_;  // the sets
  std::int64_t length_ = 0;
  std::int64_t mask_row_ = 0;
  bool adds_ = false;
  bool activates_ = false;
};

}  // namespace

void norm(const Problem& problem, const Args& args) {
  if (element_count(problem.x) == 0) return;
  with_floating_type(problem.x.type, [&]<class T>() {
    using P = std::conditional_t<std::is_same_v<T, double>, double, float>;
    Sets<T, P>(problem, args).run();
  });
}

std::size_t norm_reserve_bytes(const Problem& problem) noexcept {
  if (!norm::has_mask(problem)) return 0;
  std::int64_t sets = 1;
  std::int64_t length = 1;
  for (int i = 0; i < problem.x.rank; ++i) (norm::is_reduced(problem, i) ? length : sets) *= problem.x.dims[i];
  return static_cast<std::size_t>(sets * ((length + 7) / 8));
}

}  // namespace gpudnn::host
