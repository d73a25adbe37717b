// Local response and divisive normalization on the host: a group of elements whose windows meet (the channels of a
// pixel, or the plane of a channel) is copied to doubles and worked on there. The given scratch is left alone.
// SPDX-License-Identifier: Apache-2.0
#include "host/lrn.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/parallel.hpp"
#include "host/groups.hpp"

namespace gpudnn::host {
namespace {

using lrn::Args;
using lrn::Problem;

constexpr int kWindowDims = 3;

// Groups whose windows meet: along the channels, or along the spatial dimensions.
struct WindowGroups : Groups {
  std::int64_t extents[kWindowDims] = {1, 1, 1};

  explicit WindowGroups(const Problem& problem)
      : Groups(problem.spatial ? 2 : 1, problem.spatial ? problem.x.rank - 2 : 1, problem.x) {
    for (int i = 0; i < dims; ++i) extents[kWindowDims - dims + i] = problem.x.dims[first + i];
  }
};

// The sum of values over [at - before, at + after] in each direction, for each element of the group.
void window_sums(const WindowGroups& groups, std::int64_t before, std::int64_t after, const std::vector<double>& values,
                 std::vector<double>* sums) {
  std::int64_t at[kWindowDims] = {};
  for (std::int64_t i = 0; i < groups.size; ++i) {
    std::int64_t begin[kWindowDims], end[kWindowDims];
    for (int d = 0; d < kWindowDims; ++d) {
      begin[d] = std::max<std::int64_t>(at[d] - before, 0);
      end[d] = std::min(at[d] + after + 1, groups.extents[d]);
    }
    double sum = 0;
    for (std::int64_t a = begin[0]; a < end[0]; ++a) {
      for (std::int64_t b = begin[1]; b < end[1]; ++b) {
        const std::int64_t row = (a * groups.extents[1] + b) * groups.extents[2];
        for (std::int64_t c = begin[2]; c < end[2]; ++c) sum += values[static_cast<std::size_t>(row + c)];
      }
    }
    (*sums)[static_cast<std::size_t>(i)] = sum;
    for (int d = kWindowDims - 1; d >= 0 && ++at[d] == groups.extents[d]; --d) at[d] = 0;
  }
}

// Scratch of a thread, an entry an element.
struct Scratch {
  std::vector<double> z, terms, sums, s, dy;
  explicit Scratch(std::size_t size) : z(size), terms(size), sums(size), s(size), dy(size) {}
};

// z -> the result, into `terms`.
void normalise(const Problem& problem, const WindowGroups& groups, Scratch* scratch) {
  const double weight = lrn::weight(problem);
  const std::int64_t before = lrn::before(problem), after = problem.n - 1 - before;
  const std::size_t size = scratch->z.size();
  for (std::size_t i = 0; i < size; ++i) scratch->terms[i] = scratch->z[i] * scratch->z[i];
  window_sums(groups, before, after, scratch->terms, &scratch->sums);
  for (std::size_t i = 0; i < size; ++i) scratch->s[i] = problem.k + weight * scratch->sums[i];
  if (!problem.backward) {
    for (std::size_t i = 0; i < size; ++i) scratch->terms[i] = scratch->z[i] * std::pow(scratch->s[i], -problem.beta);
    return;
  }
  for (std::size_t i = 0; i < size; ++i) {
    scratch->terms[i] = scratch->dy[i] * scratch->z[i] * std::pow(scratch->s[i], -problem.beta - 1);
  }
  // The windows that hold an element are those of the elements from `after` before it to `before` after it.
  window_sums(groups, after, before, scratch->terms, &scratch->sums);
  for (std::size_t i = 0; i < size; ++i) {
    scratch->terms[i] = scratch->dy[i] * std::pow(scratch->s[i], -problem.beta) -
                        2 * weight * problem.beta * scratch->z[i] * scratch->sums[i];
  }
}

template <class T>
void run(const Problem& problem, const Args& args) {
  const WindowGroups groups(problem);
  const TensorGeometry& out = problem.backward ? problem.dx : problem.y;
  parallel_for(groups.count, grain_for(60 * groups.size), [&](std::int64_t begin, std::int64_t end) {
    Scratch scratch(static_cast<std::size_t>(groups.size));
    for (std::int64_t group = begin; group < end; ++group) {
      const std::int64_t x_offset = groups.group_offset(problem.x, group);
      const std::int64_t dy_offset = problem.backward ? groups.group_offset(problem.dy, group) : 0;
      for (std::int64_t i = 0; i < groups.size; ++i) {
        const auto at = static_cast<std::size_t>(i);
        const std::int64_t element = x_offset + groups.element_offset(problem.x, i);
        scratch.z[at] = to_double(static_cast<const T*>(args.x)[element]);
        if (args.means != nullptr) scratch.z[at] -= to_double(static_cast<const T*>(args.means)[element]);
        if (problem.backward) {
          scratch.dy[at] = to_double(static_cast<const T*>(args.dy)[dy_offset + groups.element_offset(problem.dy, i)]);
        }
      }
      normalise(problem, groups, &scratch);
      const std::int64_t out_offset = groups.group_offset(out, group);
      for (std::int64_t i = 0; i < groups.size; ++i) {
        const std::int64_t element = out_offset + groups.element_offset(out, i);
        const double value = args.alpha * scratch.terms[static_cast<std::size_t>(i)];
        store(static_cast<T*>(args.out) + element, value, args.beta);
        if (args.means_gradient != nullptr) store(static_cast<T*>(args.means_gradient) + element, -value, args.beta);
      }
    }
  });
}

}  // namespace

void lrn(const Problem& problem, const Args& args) {
  if (element_count(problem.x) == 0) return;
  with_floating_type(problem.x.type, [&]<class T>() { run<T>(problem, args); });
}

}  // namespace gpudnn::host
