// Normalization where a process has been given fewer multiprocessors than the device has.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ops/norm/cuda_engines.hpp"
#include "ops/norm/plan.hpp"
#include "support/norm.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

#ifdef GPUDNN_WITH_CUDA

// Training as planned for `planned`, launched on the device at hand; what is wrong with its results.
std::string train_as_planned_for(const Device& planned, const NormCase& c, bool* is_grid) {
  const Backend& backend = Backend::at_hand();
  const NormValues v = make_values(c);
  const ForwardExpected expected = naive_forward(c, v, false);
  norm::Problem problem = c.forward;
  const GuardedBuffer scratch(backend, std::size_t{1} << 24);
  problem.scratch = scratch.bytes();
  const norm::LaunchPlan plan = norm::make_plan(planned, problem);
  *is_grid = plan.segments.reason_against == nullptr && plan.segments.segments.grid != 0;
  problem.plan = &plan;

  const DeviceTensor x(backend, problem.x, &v.x), y(backend, problem.y, nullptr);
  const DeviceTensor scale(backend, problem.params, &v.scale), bias(backend, problem.params, &v.bias);
  const DeviceTensor mean(backend, problem.stats, &v.mean), variance(backend, problem.stats, &v.variance);
  const DeviceTensor saved_mean(backend, problem.stats, nullptr), saved_inverse(backend, problem.stats, nullptr);
  norm::Args args;
  args.factor = c.factor;
  args.x = x.data();
  args.scale = scale.data();
  args.bias = bias.data();
  args.out = y.data();
  args.running_mean = mean.data();
  args.running_variance = variance.data();
  args.saved_mean = saved_mean.data();
  args.saved_inverse = saved_inverse.data();
  args.scratch = scratch.data();
  args.scratch_bytes = scratch.bytes();
  const Status status = norm::segments_cuda(launch_site(backend.handle()), problem, args);
  if (status != GPUDNN_STATUS_SUCCESS) return take_error_text();
  for (const auto& [tensor, its] :
       {std::pair(&y, &expected.y), std::pair(&mean, &expected.running_mean),
        std::pair(&variance, &expected.running_variance), std::pair(&saved_mean, &expected.saved_mean),
        std::pair(&saved_inverse, &expected.saved_inverse)}) {
    std::string wrong = mismatch(tensor->geometry(), tensor->values(), *its);
    if (wrong.empty()) wrong = tensor->damage_outside_elements();
    if (!wrong.empty()) return wrong;
  }
  return scratch.damage();
}

// A grid whose blocks must meet is refused where they do not all find a place, so it is planned here for a device with
// more multiprocessors than blocks fit on the one at hand. The results then come in more launches.
TEST(NormSegments, AGridThatDoesNotFitGoesAnotherWay) {
  GPUDNN_NEEDS_GPU();
  const Device& device = *Backend::at_hand().handle()->device;
  if (device.major != 9) GTEST_SKIP() << "segments are built for compute capability 9.0";
  Device larger = device;
  larger.multiprocessors *= 64;  // a multiprocessor holds at most 32 blocks of 64 threads
  const NormCase c = norm_case("bn train spatial f32 nchw n64c2h64w64");
  bool is_grid = false;
  EXPECT_EQ(train_as_planned_for(device, c, &is_grid), "");
  EXPECT_TRUE(is_grid) << "the case does not reach the barrier of the grid";
  EXPECT_EQ(train_as_planned_for(larger, c, &is_grid), "");
  EXPECT_TRUE(is_grid) << "the case does not reach the way round";
}

#endif

}  // namespace
}  // namespace gpudnn::test
