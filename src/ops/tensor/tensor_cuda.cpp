// Launchers of the tensor kernels.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>

#include "kernels/tensor/tensor.hpp"
#include "ops/loop_nest.hpp"
#include "ops/tensor/cuda_engines.hpp"

namespace gpudnn::tensor {
namespace {

// Loops over the input and the output; scale has its output as the input.
tile::HostNest linear_nest(const Problem& problem) {
  const TensorGeometry& in = problem.operation == Operation::scale ? problem.c : problem.a;
  return make_loop_nest(std::array{broadcast_to(in, problem.c), problem.c});
}

kernels::LinearParams linear_params(const Problem& problem, const Args& args) {
  const bool scale = problem.operation == Operation::scale;
  kernels::LinearParams params;
  params.in_type = element_type(scale ? problem.c.type : problem.a.type);
  params.out_type = element_type(problem.c.type);
  params.alpha = args.alpha;
  params.beta = scale ? 0 : args.beta;
  params.in = scale ? args.c : args.a;
  params.out = args.c;
  params.nest = linear_nest(problem);
  return params;
}

// The loop along which the input is contiguous if it is not the output's fastest one, both are long enough for tiles to
// pay, and the input is no broadcast; else -1.
int transposed_loop(const tile::HostNest& nest) {
  constexpr std::int64_t kLeast = 8;  // below, most of a tile would be idle and the caches serve the strided reads
  const int last = nest.rank - 1;
  int found = -1;
  for (int i = 0; i < nest.rank; ++i) {
    if (nest.strides[0][i] == 0) return -1;
    if (nest.strides[0][i] == 1) found = i;
  }
  if (found < 0 || found == last || nest.strides[1][last] != 1) return -1;
  if (nest.dims[found] < kLeast || nest.dims[last] < kLeast) return -1;
  return nest.count() < tile::kMaxIterations * kLeast ? found : -1;
}

}  // namespace

Support supports_fill_cuda(const Problem& problem, const Device&) {
  return problem.operation == Operation::set ? Support::yes() : Support::no("the operation is not set");
}

Status fill_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::FillParams params;
  params.element_bytes = data_type_bits(problem.c.type) / 8;
  std::memcpy(params.value, args.value, static_cast<std::size_t>(params.element_bytes));
  params.out = args.c;
  params.nest = make_loop_nest(std::array{problem.c});
  kernels::launch_fill(params, site.stream);
  return cuda::launch_status("fill");
}

Support supports_transpose_cuda(const Problem& problem, const Device&) {
  if (problem.operation != Operation::add && problem.operation != Operation::transform) {
    return Support::no("the operation has no second tensor");
  }
  if (transposed_loop(linear_nest(problem)) < 0) return Support::no("the layouts are no transposes of each other");
  return Support::yes();
}

Status transpose_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  const kernels::LinearParams params = linear_params(problem, args);
  kernels::launch_transpose(params, transposed_loop(params.nest), site.stream);
  return cuda::launch_status("transpose");
}

Support supports_linear_cuda(const Problem& problem, const Device&) {
  return problem.operation == Operation::set ? Support::no("set is a fill") : Support::yes();
}

Status linear_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  kernels::launch_linear(linear_params(problem, args), site.stream);
  return cuda::launch_status("linear");
}

}  // namespace gpudnn::tensor
