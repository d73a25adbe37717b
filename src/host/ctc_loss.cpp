// The CTC loss on the host: forward and backward probabilities in logarithms (Graves et al. 2006), in double.
// SPDX-License-Identifier: Apache-2.0
#include "host/ctc_loss.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "core/parallel.hpp"
#include "host/element.hpp"

namespace gpudnn::host {
namespace {

using ctc::Args;
using ctc::Problem;

constexpr double kNone = -std::numeric_limits<double>::infinity();

double log_add(double a, double b) {
  const double most = std::fmax(a, b);
  return most == kNone ? a + b : most + std::log(std::exp(a - most) + std::exp(b - most));
}

// One sequence: its labels with blanks between them, and log y of each step and label.
class Sequence {
 public:
  Sequence(const Problem& problem, const int* labels, int length, int steps)
      : alphabet_(static_cast<std::size_t>(problem.x.dims[2])), steps_(steps), states_(2 * length + 1) {
    for (int s = 0; s < states_; ++s) labels_.push_back(s % 2 == 0 ? 0 : labels[s / 2]);
  }

  [[nodiscard]] int states() const { return states_; }
  [[nodiscard]] int steps() const { return steps_; }
  [[nodiscard]] int label(int s) const { return labels_[static_cast<std::size_t>(s)]; }
  // Whether a path may go from state s - 2 to s.
  [[nodiscard]] bool skips_to(int s) const { return s >= 2 && label(s) != 0 && label(s) != label(s - 2); }

  template <class T>
  void read(const Problem& problem, const T* x, std::int64_t n) {
    const std::int64_t* const strides = problem.x.strides;
    log_y_.resize(static_cast<std::size_t>(steps_) * alphabet_);
    for (int t = 0; t < steps_; ++t) {
      const T* const row = x + t * strides[0] + n * strides[1];
      double most = kNone;
      for (std::size_t k = 0; k < alphabet_; ++k) {
        most = std::fmax(most, to_double(row[static_cast<std::int64_t>(k) * strides[2]]));
      }
      double sum = 0;
      for (std::size_t k = 0; k < alphabet_; ++k) {
        sum += std::exp(to_double(row[static_cast<std::int64_t>(k) * strides[2]]) - most);
      }
      for (std::size_t k = 0; k < alphabet_; ++k) {
        const double value = to_double(row[static_cast<std::int64_t>(k) * strides[2]]);
        log_y(t, k) = problem.softmax ? value - most - std::log(sum) : std::log(value);
      }
    }
  }
  [[nodiscard]] double& log_y(int t, std::size_t k) { return log_y_[static_cast<std::size_t>(t) * alphabet_ + k]; }
  [[nodiscard]] double emission(int t, int s) { return log_y(t, static_cast<std::size_t>(label(s))); }

 private:
  std::size_t alphabet_;
  int steps_;
  int states_;
  std::vector<int> labels_;
  std::vector<double> log_y_;
};

using Table = std::vector<double>;  // [step][state]

Table forward(Sequence& q) {
  const auto states = static_cast<std::size_t>(q.states());
  Table alpha(static_cast<std::size_t>(q.steps()) * states, kNone);
  for (int t = 0; t < q.steps(); ++t) {
    double* const now = &alpha[static_cast<std::size_t>(t) * states];
    const double* const before = now - states;
    for (int s = 0; s < q.states(); ++s) {
      double sum = t == 0 && s < 2 ? 0 : kNone;
      if (t > 0) {
        sum = before[s];
        if (s > 0) sum = log_add(sum, before[s - 1]);
        if (q.skips_to(s)) sum = log_add(sum, before[s - 2]);
      }
      now[s] = sum + q.emission(t, s);
    }
  }
  return alpha;
}

Table backward(Sequence& q) {
  const auto states = static_cast<std::size_t>(q.states());
  Table beta(static_cast<std::size_t>(q.steps()) * states, kNone);
  for (int t = q.steps() - 1; t >= 0; --t) {
    double* const now = &beta[static_cast<std::size_t>(t) * states];
    const double* const after = now + states;
    for (int s = 0; s < q.states(); ++s) {
      if (t == q.steps() - 1) {
        now[s] = s >= q.states() - 2 ? 0 : kNone;
        continue;
      }
      double sum = after[s] + q.emission(t + 1, s);
      if (s + 1 < q.states()) sum = log_add(sum, after[s + 1] + q.emission(t + 1, s + 1));
      if (s + 2 < q.states() && q.skips_to(s + 2)) sum = log_add(sum, after[s + 2] + q.emission(t + 1, s + 2));
      now[s] = sum;
    }
  }
  return beta;
}

double log_probability(const Sequence& q, const Table& alpha) {
  if (q.steps() == 0) return q.states() == 1 ? 0 : kNone;
  const double* const last = &alpha[alpha.size() - static_cast<std::size_t>(q.states())];
  return q.states() == 1 ? last[0] : log_add(last[q.states() - 1], last[q.states() - 2]);
}

template <class T>
void fill_gradients(const Problem& problem, T* gradients, std::int64_t n, int first_step) {
  const std::int64_t* const strides = problem.gradients.strides;
  for (std::int64_t t = first_step; t < problem.x.dims[0]; ++t) {
    for (std::int64_t k = 0; k < problem.x.dims[2]; ++k) {
      gradients[t * strides[0] + n * strides[1] + k * strides[2]] = round_to<T>(0);
    }
  }
}

template <class T>
void write_gradients(const Problem& problem, Sequence& q, const Table& alpha, double log_p, T* gradients,
                     std::int64_t n) {
  const Table beta = backward(q);
  const std::int64_t* const strides = problem.gradients.strides;
  std::vector<double> share(static_cast<std::size_t>(problem.x.dims[2]));
  for (int t = 0; t < q.steps(); ++t) {
    share.assign(share.size(), 0);
    for (int s = 0; s < q.states(); ++s) {
      const auto cell =
          static_cast<std::size_t>(t) * static_cast<std::size_t>(q.states()) + static_cast<std::size_t>(s);
      share[static_cast<std::size_t>(q.label(s))] += std::exp(alpha[cell] + beta[cell] - log_p);
    }
    for (std::size_t k = 0; k < share.size(); ++k) {
      gradients[t * strides[0] + n * strides[1] + static_cast<std::int64_t>(k) * strides[2]] =
          round_to<T>(std::exp(q.log_y(t, k)) - share[k]);
    }
  }
}

bool legal(const Problem& problem, const int* labels, int length, int steps) {
  if (length < 0 || length > problem.max_labels || steps < 0 || steps > problem.x.dims[0]) return false;
  for (int i = 0; i < length; ++i) {
    if (labels[i] < 1 || labels[i] >= problem.x.dims[2]) return false;
  }
  return true;
}

template <class T>
void run_sequence(const Problem& problem, const Args& args, std::int64_t n, std::int64_t first_label) {
  const int* const labels = args.labels + first_label;
  const int length = args.label_lengths[n];
  const int steps = args.input_lengths[n];
  auto* const gradients = static_cast<T*>(args.gradients);
  auto* const cost = static_cast<T*>(args.costs) + n;
  double log_p = std::numeric_limits<double>::quiet_NaN();
  const bool in_range = legal(problem, labels, length, steps);
  if (in_range) {
    Sequence q(problem, labels, length, steps);
    q.read(problem, static_cast<const T*>(args.x), n);
    const Table alpha = forward(q);
    log_p = log_probability(q, alpha);
    if (problem.has_gradients && log_p != kNone) {
      write_gradients(problem, q, alpha, log_p, gradients, n);
      fill_gradients(problem, gradients, n, steps);
    }
  }
  *cost = round_to<T>(-log_p);
  if (problem.has_gradients && (!in_range || log_p == kNone) && !problem.skip_impossible) {
    fill_gradients(problem, gradients, n, 0);
  }
}

}  // namespace

void ctc_loss(const Problem& problem, const Args& args) {
  std::vector<std::int64_t> first(static_cast<std::size_t>(problem.x.dims[1]) + 1);
  for (std::size_t n = 0; n + 1 < first.size(); ++n) {
    first[n + 1] = first[n] + (args.label_lengths[n] > 0 ? args.label_lengths[n] : 0);
  }
  parallel_for(problem.x.dims[1], 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t n = begin; n < end; ++n) {
      if (problem.x.type == GPUDNN_DATA_DOUBLE) {
        run_sequence<double>(problem, args, n, first[static_cast<std::size_t>(n)]);
      } else {
        run_sequence<float>(problem, args, n, first[static_cast<std::size_t>(n)]);
      }
    }
  });
}

}  // namespace gpudnn::host
