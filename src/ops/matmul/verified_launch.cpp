// How a matrix product is verified: its operands, and how far the engines may be from the plain reference.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "core/float8.hpp"
#include "core/numerics.hpp"
#include "core/verify.hpp"
#include "host/matmul.hpp"
#include "ops/matmul/engine.hpp"

namespace gpudnn::matmul {
namespace {

// docs/numerics.md: the sum, what 8-bit floats add to it, the addends, the activation (whose slope is at most 1.13),
// and scale_d, which the magnitudes hold as well.
verify::Bound bound_of(const Problem& problem, const Args& args) {
  const auto k = static_cast<double>(depth(problem));
  const bool is_wide = problem.a.type == GPUDNN_DATA_DOUBLE || problem.a.type == GPUDNN_DATA_INT8;
  const DataType compute = is_wide ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  const double u = numerics::unit_roundoff(compute);
  double sum = numerics::sum_bound(compute, k) + numerics::tf32_bound(problem.a.type, problem.math) + 5 * u;
  if (is_float8(problem.a.type)) {
    const double runs = std::ceil(k / 32);
    sum += 0x1p-13 * (problem.compute == GPUDNN_DATA_FAST_FLOAT_FOR_FP8 ? runs : std::min(runs, 4.0));
  }
  if (problem.activation == Activation::identity) return verify::relative(sum);
  const double slope = std::max({1.13, std::fabs(args.activation.alpha), std::fabs(args.activation.slope)});
  const bool is_rounded = data_type_bits(problem.d.type) <= 16;
  return verify::by_magnitude([=](double value, double magnitude) {
    const double x = slope * magnitude;
    return sum * x + numerics::curve_slack(u, value, x) + 4 * u * x +
           (is_rounded ? numerics::rounded_curve_slack(value, x) : 0);
  });
}

void describe(Problem& problem, Args& args, verify::Check* check) {
  const verify::Bound bound = bound_of(problem, args);
  const DataType coarsest = problem.a.type;
  const TensorGeometry number = verify::vector_of(GPUDNN_DATA_FLOAT, 1);
  const TensorGeometry extents = verify::vector_of(problem.override_type, problem.d.dims[0]);
  check->read_as_is("m", args.m_override, extents);
  check->read_as_is("n", args.n_override, extents);
  check->read_as_is("k", args.k_override, extents);
  check->read_as_is("descale_a", args.descale_a, number);
  check->read_as_is("descale_b", args.descale_b, number);
  check->read_as_is("scale_d", args.scale_d, number);
  check->read("a", args.a, &problem.a);
  check->read("b", args.b, &problem.b);
  if (problem.c.rank > 0 && args.beta != 0) check->read("c", args.c, &problem.c);
  if (problem.bias.rank > 0) check->read("bias", args.bias, &problem.bias);
  check->write("d", args.d, &problem.d, false, bound);
  check->write_as_is("amax", args.amax, number, false, verify::whole(coarsest));
  check->on_magnitudes([&problem, &args] {
    args.alpha = std::fabs(args.alpha);
    args.beta = std::fabs(args.beta);
    args.padding = std::fabs(args.padding);
    problem.activation = Activation::identity;
  });
}

}  // namespace

Status launch_verified(gpudnnHandle_t handle, const Problem& problem, const Plan& plan, const Args& args,
                       void* workspace, std::size_t workspace_bytes) {
  const auto launch = [&] { return launch_plan(launch_site(handle, workspace, workspace_bytes), plan, args); };
  if (!verify::watching()) [[likely]]
    return launch();
  Problem problem_copy = problem;
  Args args_copy = args;
  return verify::run({.handle = handle,
                      .problem = to_text(problem),
                      .engine = plan.choice.engine->name,
                      .describe = [&](verify::Check* check) { describe(problem_copy, args_copy, check); },
                      .launch = launch,
                      .reference = [&]() -> Status {
                        host::matmul(problem_copy, args_copy);
                        return GPUDNN_STATUS_SUCCESS;
                      }});
}

}  // namespace gpudnn::matmul
