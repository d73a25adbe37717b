// How a convolution is verified: its operands, and how far the engines may be from the plain reference.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "core/numerics.hpp"
#include "core/verify.hpp"
#include "host/convolution.hpp"
#include "ops/conv/plan.hpp"

namespace gpudnn::conv {
namespace {

// Terms of the sum behind one output element, at most.
double reduction_length(const Problem& problem) noexcept {
  double taps = 1;
  auto outputs = static_cast<double>(problem.y.dims[0]);
  for (int i = 0; i < problem.spatial; ++i) {
    taps *= static_cast<double>(problem.w.dims[2 + i]);
    outputs *= static_cast<double>(problem.y.dims[2 + i]);
  }
  switch (problem.direction) {
    case Direction::forward:
      return taps * static_cast<double>(problem.w.dims[1]);
    case Direction::dgrad: {
      const std::int64_t channels_of_group = problem.w.dims[0] / problem.groups;
      return taps * static_cast<double>(channels_of_group);
    }
    default:
      return outputs;
  }
}

// The sum, its addends and its activation, whose slope is at most 1.13, or the coefficient of ELU. The errors of a
// transform spread over a tile, so that they are judged as a whole.
verify::Bound bound_of(const Problem& problem, const Args& args, Family family) {
  if (family != Family::direct) return verify::whole(problem.y.type);
  const DataType type = problem.y.type;
  const double u = numerics::unit_roundoff(numerics::compute_type(type));
  const double tf32 = numerics::tf32_bound(problem.x.type, problem.math);
  const double sum = numerics::sum_bound(type, reduction_length(problem)) + tf32 + 5 * u;
  const bool is_curved = problem.activation >= 0 && problem.activation != GPUDNN_ACTIVATION_RELU &&
                         problem.activation != GPUDNN_ACTIVATION_CLIPPED_RELU &&
                         problem.activation != GPUDNN_ACTIVATION_IDENTITY;
  if (!is_curved) return verify::relative(sum * std::fmax(1, std::fabs(args.relu_slope)));
  const bool is_rounded = data_type_bits(type) <= 16;
  const double slope = std::fmax(1.13, std::fabs(args.activation_coef));
  return verify::by_magnitude([=](double value, double magnitude) {
    const double x = slope * magnitude;
    const double rounded = is_rounded ? numerics::rounded_curve_slack(value, x) : 0;
    return sum * x + numerics::curve_slack(u, value, x) + 8 * u * x + rounded;
  });
}

void describe(Problem& problem, Args& args, Family family, verify::Check* check) {
  const verify::Bound bound = bound_of(problem, args, family);
  const DataType vectors = problem.float_vectors != 0 ? GPUDNN_DATA_FLOAT : problem.y.type;
  const std::int64_t filters = problem.w.dims[0];
  if (problem.has_bias != 0) {
    check->read("bias", args.bias, verify::vector_of(vectors, filters, problem.bias_stride));
  }
  if (problem.has_scale != 0) {
    check->read("scale", args.scale, verify::vector_of(vectors, filters, problem.scale_stride));
  }
  if (problem.has_z != 0) check->read("z", args.z, &problem.z);
  problem.float_vectors = 0;
  const Names& names = names_of(problem.direction);
  check->on_magnitudes([&problem, &args] {
    args.alpha = std::fabs(args.alpha);
    args.alpha2 = std::fabs(args.alpha2);
    args.beta = std::fabs(args.beta);
    problem.activation = -1;
  });
  const auto tensor = [&](Direction writer, const char* name, const void*& input, TensorGeometry* geometry) {
    if (problem.direction == writer) {
      check->write(name, args.out, geometry, args.beta != 0, bound);
    } else {
      check->read(name, input, geometry);
    }
  };
  tensor(Direction::dgrad, names.x, args.x, &problem.x);
  tensor(Direction::wgrad, names.w, args.w, &problem.w);
  tensor(Direction::forward, names.y, args.y, &problem.y);
}

}  // namespace

Status launch_verified(gpudnnHandle_t handle, const Problem& problem, const Plan& plan, const Args& args,
                       void* workspace, std::size_t workspace_bytes) {
  const auto launch = [&] { return launch_plan(launch_site(handle, workspace, workspace_bytes), plan, args); };
  // The reference of integers works on their own types, not on the wider copies that a check compares.
  if (!verify::watching() || is_integer(problem)) [[likely]]
    return launch();
  Problem problem_copy = problem;
  Args args_copy = args;
  return verify::run(
      {.handle = handle,
       .problem = to_text(problem),
       .engine = plan.choice.engine->name,
       .describe = [&](verify::Check* check) { describe(problem_copy, args_copy, plan.choice.engine->family, check); },
       .launch = launch,
       .reference = [&]() -> Status {
         host::convolution(problem_copy, args_copy);
         return GPUDNN_STATUS_SUCCESS;
       }});
}

}  // namespace gpudnn::conv
