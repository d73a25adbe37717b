// Reductions on the host: each output in turn, its elements in the order of the dimensions.
// SPDX-License-Identifier: Apache-2.0
#include "host/reduce.hpp"

#include <cmath>

#include "core/parallel.hpp"
#include "host/any_element.hpp"
#include "host/element.hpp"
#include "host/walk.hpp"

namespace gpudnn::host {
namespace {

using reduce::Args;
using reduce::Problem;

struct Total {
  double value;
  std::int64_t place;
};

// Whether `fresh` takes the place of `kept`; `sign` is -1 for the minimum.
bool is_better(double fresh, double kept, double sign, bool nan_wins) {
  if (std::isnan(kept)) return !nan_wins && !std::isnan(fresh);
  if (std::isnan(fresh)) return nan_wins;
  return sign * fresh > sign * kept;
}

// The dims of a that are reduced, and those that are kept, as geometries of a's strides.
struct Parts {
  TensorGeometry reduced;
  TensorGeometry kept;
};
Parts parts_of(const Problem& problem) {
  Parts parts{problem.a, problem.a};
  for (int i = 0; i < problem.a.rank; ++i) (problem.c.dims[i] == 1 ? parts.kept : parts.reduced).dims[i] = 1;
  return parts;
}

template <class T>
Total fold(const Problem& problem, const Walk<1>& reduced, const T* a) {
  const bool product = problem.op == GPUDNN_REDUCE_TENSOR_MUL || problem.op == GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS;
  const double sign = problem.op == GPUDNN_REDUCE_TENSOR_MIN ? -1 : 1;
  const bool nan_wins = problem.nan == GPUDNN_PROPAGATE_NAN;
  Total total{product ? 1.0 : 0.0, 0};
  std::int64_t i = 0;
  reduced.for_each(0, reduced.count(), [&](std::int64_t at) {
    const double x = to_double(a[at]);
    switch (problem.op) {
      case GPUDNN_REDUCE_TENSOR_MUL:
        total.value *= x;
        break;
      case GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS:
        total.value *= x == 0 ? 1 : x;
        break;
      case GPUDNN_REDUCE_TENSOR_MIN:
      case GPUDNN_REDUCE_TENSOR_MAX:
      case GPUDNN_REDUCE_TENSOR_AMAX: {
        const double fresh = problem.op == GPUDNN_REDUCE_TENSOR_AMAX ? std::fabs(x) : x;
        if (i == 0 || is_better(fresh, total.value, sign, nan_wins)) total = {fresh, i};
        break;
      }
      case GPUDNN_REDUCE_TENSOR_NORM1:
        total.value += std::fabs(x);
        break;
      case GPUDNN_REDUCE_TENSOR_NORM2:
        total.value += x * x;
        break;
      default:
        total.value += x;
        break;
    }
    ++i;
  });
  if (problem.op == GPUDNN_REDUCE_TENSOR_AVG) total.value /= static_cast<double>(reduced.count());
  if (problem.op == GPUDNN_REDUCE_TENSOR_NORM2) total.value = std::sqrt(total.value);
  return total;
}

void store_place(gpudnnIndicesType_t type, void* indices, std::int64_t at, std::int64_t place) {
  switch (type) {
    case GPUDNN_8BIT_INDICES:
      static_cast<std::uint8_t*>(indices)[at] = static_cast<std::uint8_t>(place);
      break;
    case GPUDNN_16BIT_INDICES:
      static_cast<std::uint16_t*>(indices)[at] = static_cast<std::uint16_t>(place);
      break;
    case GPUDNN_32BIT_INDICES:
      static_cast<std::uint32_t*>(indices)[at] = static_cast<std::uint32_t>(place);
      break;
    case GPUDNN_64BIT_INDICES:
      static_cast<std::int64_t*>(indices)[at] = place;
      break;
  }
}

template <class A>
void reduce_typed(const Problem& problem, const Args& args) {
  const auto* const a = static_cast<const A*>(args.a);
  const StoreAny store_c = store_of(problem.c.type);
  const Parts parts = parts_of(problem);
  const bool indexed = reduce::has_indices(problem) && args.indices != nullptr;
  const Walk<1> reduced({parts.reduced});
  parallel_for(element_count(problem.c), grain_for(4 * reduced.count()), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t from = offset_of(i, problem.c.rank, problem.c.dims, parts.kept.strides);
      const Total total = fold(problem, reduced, a + from);
      const std::int64_t to = offset_of(i, problem.c.rank, problem.c.dims, problem.c.strides);
      store_c(args.c, to, args.alpha * total.value, args.beta);
      if (indexed) store_place(problem.index_type, args.indices, i, total.place);
    }
  });
}

}  // namespace

void reduce(const Problem& problem, const Args& args) {
  with_any_type(problem.a.type, [&]<class A>() { reduce_typed<A>(problem, args); });
}

}  // namespace gpudnn::host
