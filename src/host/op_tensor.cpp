// The two-operand tensor operation on the host.
// SPDX-License-Identifier: Apache-2.0
#include "host/op_tensor.hpp"

#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"
#include "host/any_element.hpp"
#include "host/element.hpp"
#include "host/walk.hpp"

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

// Tensors of floats, the most usual ones, without a call for each element.
void run_floats(const Problem& problem, const Args& args, bool binary, const Walk<3>& walk) {
  const auto* const a = static_cast<const float*>(args.a);
  const auto* const b = static_cast<const float*>(args.b);
  auto* const c = static_cast<float*>(args.c);
  parallel_for(walk.count(), grain_for(6), [&](std::int64_t begin, std::int64_t end) {
    walk.for_each(begin, end, [&](std::int64_t to, std::int64_t from_a, std::int64_t from_b) {
      const double x = args.alpha1 * static_cast<double>(a[from_a]);
      const double y = binary ? args.alpha2 * static_cast<double>(b[from_b]) : 0;
      store(c + to, apply(problem, x, y), args.beta);
    });
  });
}

}  // namespace

void op_tensor(const Problem& problem, const Args& args) {
  const TensorGeometry& out = problem.c;
  const bool binary = op_tensor::has_b(problem.op);
  std::int64_t b_strides[kMaxRank] = {};
  for (int i = 0; binary && i < out.rank; ++i) b_strides[i] = problem.b.dims[i] == 1 ? 0 : problem.b.strides[i];
  TensorGeometry wide_a = problem.a;
  TensorGeometry wide_b = binary ? problem.b : problem.a;
  for (int i = 0; i < out.rank; ++i) wide_a.dims[i] = wide_b.dims[i] = out.dims[i];
  std::copy_n(b_strides, kMaxRank, wide_b.strides);
  const Walk<3> walk({out, wide_a, wide_b});
  if (wide_a.type == GPUDNN_DATA_FLOAT && wide_b.type == GPUDNN_DATA_FLOAT && out.type == GPUDNN_DATA_FLOAT) {
    return run_floats(problem, args, binary, walk);
  }
  const LoadAny load_a = load_of(problem.a.type);
  const LoadAny load_b = load_of(binary ? problem.b.type : problem.a.type);
  const StoreAny store_c = store_of(out.type);
  parallel_for(walk.count(), grain_for(20), [&](std::int64_t begin, std::int64_t end) {
    walk.for_each(begin, end, [&](std::int64_t to, std::int64_t from_a, std::int64_t from_b) {
      const double x = args.alpha1 * load_a(args.a, from_a);
      const double y = binary ? args.alpha2 * load_b(args.b, from_b) : 0;
      store_c(args.c, to, apply(problem, x, y), args.beta);
    });
  });
}

}  // namespace gpudnn::host
