// Launchers of the two-operand tensor kernels.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "kernels/op_tensor/op_tensor.hpp"
#include "ops/any_type.hpp"
#include "ops/loop_nest.hpp"
#include "ops/op_tensor/cuda_engines.hpp"

namespace gpudnn::op_tensor {
namespace {

kernels::OpTensorParams params_of(const Problem& problem, const Args& args) {
  kernels::OpTensorParams params;
  params.op = static_cast<kernels::OpTensorOp>(problem.op);
  params.propagate_nan = problem.nan == GPUDNN_PROPAGATE_NAN;
  params.alpha1 = args.alpha1;
  params.alpha2 = args.alpha2;
  params.beta = args.beta;
  params.a = args.a;
  params.b = args.b;
  params.c = args.c;
  params.a_type = any_type(problem.a.type);
  params.c_type = any_type(problem.c.type);
  if (has_b(problem.op)) {
    params.b_type = any_type(problem.b.type);
    params.nest = make_loop_nest(std::array{problem.a, broadcast_to(problem.b, problem.c), problem.c});
  } else {
    params.b_type = params.a_type;
    params.nest = make_loop_nest(std::array{problem.a, problem.c});
  }
  return params;
}

}  // namespace

Support supports_elementwise_cuda(const Problem& problem, const Device&) {
  const DataType in = problem.a.type;
  const DataType out = problem.c.type;
  if (has_b(problem.op) && problem.b.type != in) return Support::no("the operands differ in type");
  if (!is_floating(in) || !is_floating(out)) return Support::no("a tensor is of integers");
  const bool close = in == out || in == GPUDNN_DATA_FLOAT || out == GPUDNN_DATA_FLOAT;
  return close ? Support::yes() : Support::no("the types are half and bfloat16");
}

Status elementwise_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::launch_op_tensor(params_of(problem, args), site.stream);
  return cuda::launch_status("op_tensor");
}

Support supports_mixed_cuda(const Problem&, const Device&) { return Support::yes(); }

Status mixed_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::launch_op_tensor_mixed(params_of(problem, args), site.stream);
  return cuda::launch_status("op_tensor_mixed");
}

}  // namespace gpudnn::op_tensor
