// Batch normalization on the host: set by set, the mean first, then the squared deviations from it, in double.
// SPDX-License-Identifier: Apache-2.0
#include "host/norm.hpp"

#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <thread>
#include <vector>

#include "core/parallel.hpp"
#include "host/activation.hpp"
#include "host/element.hpp"
#include "host/walk.hpp"

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
    if (problem_.peers > 1) share();
    parallel_for(element_count(between_), grain_for(10 * length_), [&](std::int64_t begin, std::int64_t end) {
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

  // The offset of the set's first element, or of its parameter.
  [[nodiscard]] std::int64_t start(std::int64_t set, const TensorGeometry& tensor) const {
    return offset_of(set, between_.rank, between_.dims, tensor.strides);
  }
  // A set's elements in the tensor; of one that the problem has not, nothing is read.
  [[nodiscard]] TensorGeometry inner(const TensorGeometry& tensor, bool exists = true) const {
    TensorGeometry elements = within_;
    for (int i = 0; exists && i < within_.rank; ++i) elements.strides[i] = tensor.strides[i];
    return elements;
  }
  [[nodiscard]] const T* x_of(std::int64_t set) const {
    return static_cast<const T*>(args_.x) + start(set, problem_.x);
  }
  [[nodiscard]] static double parameter(const void* data, std::int64_t offset) {
    return static_cast<double>(static_cast<const P*>(data)[offset]);
  }

  [[nodiscard]] Moments batch_moments(std::int64_t set) const {
    const Walk<1> walk({inner(problem_.x)});
    const T* const x = x_of(set);
    double sum = 0;
    walk.for_each(0, length_, [&](std::int64_t at) { sum += to_double(x[at]); });
    const double mean = sum / static_cast<double>(length_);
    double squares = 0;
    walk.for_each(0, length_, [&](std::int64_t at) {
      const double deviation = to_double(x[at]) - mean;
      squares += deviation * deviation;
    });
    return {mean, squares / static_cast<double>(length_)};
  }

  // A pair of numbers of each set: mean and sum of squared deviations, or the two sums of backward.
  using Pair = std::array<double, 2>;

  // Pairs of all GPUs joined in the order of their buffers. Handles of one process stand for GPUs here, each in a
  // thread of its own, and the first buffer is the handle's own. How words are passed is told at
  // kernels/norm/finish.cu.
  void share() {
    const std::int64_t sets = element_count(between_);
    shared_.resize(static_cast<std::size_t>(sets));
    parallel_for(sets, grain_for(10 * length_), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t set = begin; set < end; ++set) {
        Pair& pair = shared_[static_cast<std::size_t>(set)];
        if (problem_.pass == Pass::backward) {
          pair = own_sums(set);
        } else {
          const Moments own = batch_moments(set);
          pair = {own.mean, own.variance * static_cast<double>(length_)};
        }
      }
    });
    for (std::int64_t set = 0; set < sets; ++set)
      for (int to = 1; to < problem_.peers; ++to) post(to, set, shared_[static_cast<std::size_t>(set)]);
    for (std::int64_t set = 0; set < sets; ++set) join(set, &shared_[static_cast<std::size_t>(set)]);
  }
  static constexpr std::uint64_t kThere = std::uint64_t{1} << 32;
  // A word of what `from` posts to `to`.
  [[nodiscard]] std::atomic_ref<std::uint64_t> word(int from, int to, std::int64_t set, int which) const {
    const int row = (from - to + problem_.peers) % problem_.peers;
    auto* const words = static_cast<std::uint64_t*>(args_.peers[to]);
    return std::atomic_ref(words[(row * element_count(between_) + set) * 2 + which]);
  }
  void post(int to, std::int64_t set, const Pair& pair) const {
    for (int which = 0; which < 2; ++which) {
      const auto place = word(0, to, set, which);
      while (place.load() >> 32 == 1) std::this_thread::yield();
      const auto value = static_cast<float>(pair[static_cast<std::size_t>(which)]);
      place.store(kThere | std::bit_cast<std::uint32_t>(value));
    }
  }
  void join(std::int64_t set, Pair* pair) const {
    const auto n = static_cast<double>(length_);
    Pair all{};
    for (int from = 0; from < problem_.peers; ++from) {
      Pair its{};
      for (int which = 0; which < 2; ++which) {
        auto& value = its[static_cast<std::size_t>(which)];
        if (from == 0) {  // rounded as it was for the others
          value = static_cast<float>((*pair)[static_cast<std::size_t>(which)]);
          continue;
        }
        const auto place = word(from, 0, set, which);
        std::uint64_t taken = place.load();
        for (; taken >> 32 != 1; taken = place.load()) std::this_thread::yield();
        place.store(0);
        value = std::bit_cast<float>(static_cast<std::uint32_t>(taken));
      }
      if (problem_.pass == Pass::backward) {
        all = {all[0] + its[0], all[1] + its[1]};
      } else {
        const double distance = its[0] - all[0];
        all[1] += its[1] + distance * distance * (n * from / (from + 1));
        all[0] += distance / (from + 1);
      }
    }
    *pair = all;
  }

  // Elements of a set, on all GPUs.
  [[nodiscard]] double count() const { return static_cast<double>(length_) * problem_.peers; }
  [[nodiscard]] Moments moments_of(std::int64_t set) const {
    if (problem_.peers == 1) return batch_moments(set);
    const Pair& pair = shared_[static_cast<std::size_t>(set)];
    return {pair[0], pair[1] / count()};
  }

  static void average(const void* old, void* running, std::int64_t offset, double factor, double value) {
    const double before = factor == 1 ? 0 : (1 - factor) * parameter(old != nullptr ? old : running, offset);
    store(static_cast<P*>(running) + offset, factor * value + before, 0);
  }

  // What forward keeps of a batch's statistics.
  void keep(std::int64_t offset, const Moments& moments, double inverse) const {
    if (problem_.running) {
      const double m = count();
      const double unbiased = m > 1 ? moments.variance * (m / (m - 1)) : moments.variance;
      average(args_.old_mean, args_.running_mean, offset, args_.factor, moments.mean);
      average(args_.old_variance, args_.running_variance, offset, args_.factor, unbiased);
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
        trains ? moments_of(set)
               : Moments{parameter(args_.given_mean, at_stats), parameter(args_.given_deviation, at_stats)};
    const double inverse =
        problem_.inverse_given ? moments.variance : 1 / std::sqrt(moments.variance + problem_.epsilon);
    const double scale = parameter(args_.scale, at_params);
    const double bias = parameter(args_.bias, at_params);
    const T* const x = x_of(set);
    auto* const y = static_cast<T*>(args_.out) + start(set, problem_.y);
    const auto* const z = adds_ ? static_cast<const T*>(args_.z) + start(set, problem_.z) : nullptr;
    auto* const mask = masked() ? static_cast<unsigned char*>(args_.mask) + set * mask_row_ : nullptr;
    const Walk<3> walk({inner(problem_.y), inner(problem_.x), inner(problem_.z, adds_)});
    std::int64_t i = 0;
    walk.for_each(0, length_, [&](std::int64_t to, std::int64_t from, std::int64_t from_z) {
      double value = scale * ((to_double(x[from]) - moments.mean) * inverse) + bias;
      if (z != nullptr) value += to_double(z[from_z]);
      if (mask != nullptr) {
        const auto bit = static_cast<unsigned char>(1u << (i % 8));
        if (i % 8 == 0) mask[i / 8] = 0;
        if (passes(value)) mask[i / 8] = static_cast<unsigned char>(mask[i / 8] | bit);
      }
      if (activates_) value = activate(problem_.mode, problem_.nan, problem_.coef, value);
      store(y + to, args_.alpha * value, args_.beta);
      ++i;
    });
    if (trains) keep(at_stats, moments, inverse);
  }

  [[nodiscard]] bool masked() const { return norm::has_mask(problem_); }
  // Whether the activation's slope is 1 here.
  [[nodiscard]] bool passes(double value) const {
    if (std::isnan(value)) return problem_.nan == GPUDNN_PROPAGATE_NAN;
    return value > 0 && (problem_.mode != GPUDNN_ACTIVATION_CLIPPED_RELU || value < problem_.coef);
  }

  struct Given {
    double mean;
    double inverse;
  };
  [[nodiscard]] Given given(std::int64_t set) const {
    if (problem_.saved) {
      const std::int64_t at = start(set, problem_.stats);
      return {parameter(args_.given_mean, at), parameter(args_.given_deviation, at)};
    }
    const Moments moments = batch_moments(set);
    return {moments.mean, 1 / std::sqrt(moments.variance + problem_.epsilon)};
  }
  // dy, 0 where the activation had slope 0.
  [[nodiscard]] double gradient(std::int64_t set, std::int64_t i, double dy) const {
    if (!masked()) return dy;
    const auto* const mask = static_cast<const unsigned char*>(args_.mask) + set * mask_row_;
    return (mask[i / 8] >> (i % 8) & 1) == 0 ? 0.0 : dy;
  }
  // Of dy, and of dy * xhat.
  [[nodiscard]] Pair own_sums(std::int64_t set) const {
    const auto [mean, inverse] = given(set);
    const T* const x = x_of(set);
    const auto* const dy = static_cast<const T*>(args_.dy) + start(set, problem_.dy);
    Pair sums{};
    std::int64_t i = 0;
    const Walk<2> walk({inner(problem_.x), inner(problem_.dy)});
    walk.for_each(0, length_, [&, mean = mean, inverse = inverse](std::int64_t at_x, std::int64_t at_dy) {
      const double g = gradient(set, i++, to_double(dy[at_dy]));
      sums[0] += g;
      sums[1] += g * ((to_double(x[at_x]) - mean) * inverse);
    });
    return sums;
  }

  void backward(std::int64_t set) const {
    const std::int64_t at_params = start(set, problem_.params);
    const Given its = given(set);
    const auto [sum, product] = problem_.peers > 1 ? shared_[static_cast<std::size_t>(set)] : own_sums(set);
    const T* const x = x_of(set);
    const auto* const dy = static_cast<const T*>(args_.dy) + start(set, problem_.dy);
    const double mean_g = sum / count();
    const double mean_product = product / count();
    const double scale = parameter(args_.scale, at_params);
    auto* const dx = static_cast<T*>(args_.out) + start(set, problem_.dx);
    auto* const dz = adds_ ? static_cast<T*>(args_.dz) + start(set, problem_.dz) : nullptr;
    const Walk<4> outputs({inner(problem_.dx), inner(problem_.x), inner(problem_.dy), inner(problem_.dz, adds_)});
    std::int64_t i = 0;
    outputs.for_each(0, length_, [&](std::int64_t to, std::int64_t at_x, std::int64_t at_dy, std::int64_t to_z) {
      const double g = gradient(set, i++, to_double(dy[at_dy]));
      const double xhat = (to_double(x[at_x]) - its.mean) * its.inverse;
      // x and dy are read before the outputs, which may be the same memory, are written.
      if (dz != nullptr) store(dz + to_z, g, 0);
      store(dx + to, args_.alpha * (scale * its.inverse * (g - mean_g - xhat * mean_product)), args_.beta);
    });
    store(static_cast<P*>(args_.dscale) + at_params, args_.alpha_param * product / problem_.peers, args_.beta_param);
    store(static_cast<P*>(args_.dbias) + at_params, args_.alpha_param * sum / problem_.peers, args_.beta_param);
  }

  const Problem& problem_;
  const Args& args_;
  TensorGeometry within_;   // the elements of a set
  TensorGeometry between_;  // the sets
  std::int64_t length_ = 0;
  std::int64_t mask_row_ = 0;
  bool adds_ = false;
  bool activates_ = false;
  std::vector<Pair> shared_;  // of all GPUs together
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
