// The two-operand tensor operation on the host.
// SPDX-License-Identifier: Apache-2.0
#include "host/op_tensor.hpp"

#include <cmath>

#include "core/parallel.hpp"
#include "host/any_element.hpp"
#include "host/element.hpp"

namespace gpudnn::host {
namespace {

using op_tensor::Args;
using op_tensor::Problem;

// The smaller (sign -1) or the larger (sign 1).
double extreme(double x, double y, double sign, bool propagate_nan) {
  if (std::isnan(x)) return propagate_nan ? x : y;
  if (std::isnan(y)) return propagate_nan ? y : x;
  return sign * x > sign * y ? x : y;
}

double apply(const Problem& problem, double x, double y) {
  const bool nan = problem.nan == GPUDNN_PROPAGATE_NAN;
  switch (problem.op) {
    case GPUDNN_OP_TENSOR_ADD:
      return x + y;
    case GPUDNN_OP_TENSOR_MUL:
      return x * y;
    case GPUDNN_OP_TENSOR_MIN:
      return extreme(x, y, -1, nan);
    case GPUDNN_OP_TENSOR_MAX:
      return extreme(x, y, 1, nan);
    case GPUDNN_OP_TENSOR_SQRT:
      return std::sqrt(x);
    case GPUDNN_OP_TENSOR_NOT:
      return 1 - x;
  }
  return x;
}

}  // namespace

void op_tensor(const Problem& problem, const Args& args) {
  const TensorGeometry& out = problem.c;
  const bool binary = op_tensor::has_b(problem.op);
  std::int64_t b_strides[kMaxRank] = {};
  for (int i = 0; binary && i < out.rank; ++i) b_strides[i] = problem.b.dims[i] == 1 ? 0 : problem.b.strides[i];
  const LoadAny load_a = load_of(problem.a.type);
  const LoadAny load_b = load_of(binary ? problem.b.type : problem.a.type);
  const StoreAny store_c = store_of(out.type);
  parallel_for(element_count(out), grain_for(20), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const double x = args.alpha1 * load_a(args.a, offset_of(i, out.rank, out.dims, problem.a.strides));
      const double y = binary ? args.alpha2 * load_b(args.b, offset_of(i, out.rank, out.dims, b_strides)) : 0;
      store_c(args.c, offset_of(i, out.rank, out.dims, out.strides), apply(problem, x, y), args.beta);
    }
  });
}

}  // namespace gpudnn::host
