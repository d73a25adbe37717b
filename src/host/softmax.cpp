// Softmax on the host. Each group of elements that are normalised together is copied to doubles, worked on, and written
// back, so the output may be the input. FAST computes as ACCURATE does: the maximum is subtracted, nothing overflows.
// SPDX-License-Identifier: Apache-2.0
#include "host/softmax.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/parallel.hpp"
#include "host/groups.hpp"

namespace gpudnn::host {
namespace {

using softmax::Args;
using softmax::Problem;

// values -> softmax(values), or its logarithm.
void normalise(bool logarithm, std::vector<double>* values) {
  double most = -std::numeric_limits<double>::infinity();
  for (const double value : *values) most = std::max(most, value);
  double sum = 0;
  if (logarithm) {
    for (const double value : *values) sum += std::exp(value - most);
    const double log_sum = std::log(sum);
    for (double& value : *values) value = value - most - log_sum;
    return;
  }
  for (double& value : *values) sum += value = std::exp(value - most);
  for (double& value : *values) value /= sum;
}

// gradient: dy -> dx, from y.
void differentiate(bool logarithm, const std::vector<double>& y, std::vector<double>* gradient) {
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += logarithm ? (*gradient)[i] : y[i] * (*gradient)[i];
  for (std::size_t i = 0; i < y.size(); ++i) {
    double& value = (*gradient)[i];
    value = logarithm ? value - std::exp(y[i]) * sum : y[i] * (value - sum);
  }
}

template <class T>
void run(const Problem& problem, const Args& args) {
  const bool logarithm = problem.algorithm == GPUDNN_SOFTMAX_LOG;
  const TensorGeometry& out = problem.backward ? problem.dx : problem.y;
  const Groups groups(1, problem.mode == GPUDNN_SOFTMAX_MODE_INSTANCE ? out.rank - 1 : 1, out);
  const auto read = [&](const TensorGeometry& tensor, const void* data, std::int64_t group,
                        std::vector<double>* values) {
    const T* const first = static_cast<const T*>(data) + groups.group_offset(tensor, group);
    double* next = values->data();
    groups.walk(tensor).for_each(0, groups.size, [&](std::int64_t at) { *next++ = to_double(first[at]); });
  };
  parallel_for(groups.count, grain_for(30 * groups.size), [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> values(static_cast<std::size_t>(groups.size));
    std::vector<double> y(problem.backward ? values.size() : 0);
    for (std::int64_t group = begin; group < end; ++group) {
      if (problem.backward) {
        read(problem.y, args.y, group, &y);
        read(problem.dy, args.dy, group, &values);
        differentiate(logarithm, y, &values);
      } else {
        read(problem.x, args.x, group, &values);
        normalise(logarithm, &values);
      }
      T* const first = static_cast<T*>(args.out) + groups.group_offset(out, group);
      const double* next = values.data();
      groups.walk(out).for_each(0, groups.size,
                                [&](std::int64_t at) { store(first + at, args.alpha * *next++, args.beta); });
    }
  });
}

}  // namespace

void softmax(const Problem& problem, const Args& args) {
  const TensorGeometry& out = problem.backward ? problem.dx : problem.y;
  if (element_count(out) == 0) return;
  with_floating_type(out.type, [&]<class T>() { run<T>(problem, args); });
}

}  // namespace gpudnn::host
