// Convolution engines on tensors of more than 2^31 elements: what lies at both ends and across the border must come out
// where it belongs.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "ops/conv/engine.hpp"
#include "support/large_halves.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

constexpr std::int64_t kChannels = 64;
constexpr std::int64_t kPixels = std::int64_t{4096} * 8193;
constexpr std::int64_t kCount = kChannels * kPixels;
static_assert(kCount > (std::int64_t{1} << 31));
constexpr std::int64_t kMarked[] = {0, kPixels / 2, (std::int64_t{1} << 31) / kChannels, kPixels - 1};

// Runs the engine in the config that its model likes best.
gpudnnStatus_t launch(const Backend& backend, const conv::ConvEngine& engine, const conv::Problem& problem,
                      const conv::Args& args) {
  const Device& device = *backend.handle()->device;
  std::vector<conv::Candidate> candidates;
  engine.candidates(problem, device, &candidates);
  const auto best = std::min_element(candidates.begin(), candidates.end(),
                                     [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  void* workspace = nullptr;
  const std::size_t bytes = best->workspace;
  if (bytes > 0 && gpudnnMalloc(backend.handle(), &workspace, bytes) != GPUDNN_STATUS_SUCCESS) {
    return GPUDNN_STATUS_ALLOC_FAILED;
  }
  const auto prepared = engine.prepare(problem, best->config, device);
  const gpudnnStatus_t status = engine.launch(launch_site(backend.handle(), workspace, bytes), prepared.get(), args);
  (void)gpudnnFree(backend.handle(), workspace);  // waits for the device
  return status;
}

conv::Problem problem_of(const char* direction) {
  std::string why;
  const auto problem = conv::from_text(
      std::string("conv ") + direction + " f16 nhwc n1c64h4096w8193 k64r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
      &why);
  if (!problem) throw std::runtime_error(why);
  return *problem;
}

TEST(ConvolutionEngines, MoreThanTwoToThe31Elements) {
  const Backend& backend = Backend::at_hand();
  GPUDNN_NEEDS_GPU();
  const Device& device = *backend.handle()->device;
  LargeHalves x(backend, kCount);
  LargeHalves y(backend, kCount);
  LargeHalves w(backend, kChannels * kChannels);
  if (x.data() == nullptr || y.data() == nullptr) GTEST_SKIP() << "needs a GPU with 10 GB of free memory";
  for (LargeHalves* const tensor : {&x, &y, &w}) tensor->set_all(0);
  // The first and the last channel of the marked pixels.
  for (const std::int64_t pixel : kMarked) {
    x.write(pixel * kChannels, 1);
    x.write(pixel * kChannels + kChannels - 1, 2);
  }
  for (std::int64_t k = 0; k < kChannels; ++k) {
    w.write(k * kChannels, 100);
    w.write(k * kChannels + kChannels - 1, static_cast<double>(k + 1));
  }
  conv::Args args;
  args.x = x.data();
  args.w = w.data();
  args.out = y.data();
  int engines = 0;
  const conv::Problem forward = problem_of("fwd");
  for (const conv::ConvEngine& engine : conv::engines()) {
    if (engine.backend != backend.kind() || !engine.supports(forward, device)) continue;
    for (const std::int64_t pixel : kMarked) y.write(pixel * kChannels, -1);
    ASSERT_EQ(launch(backend, engine, forward, args), GPUDNN_STATUS_SUCCESS) << engine.name << take_error_text();
    ++engines;
    for (const std::int64_t pixel : kMarked) {
      for (const std::int64_t k : {std::int64_t{0}, kChannels - 1}) {
        EXPECT_EQ(y.read(pixel * kChannels + k), 100 + 2 * static_cast<double>(k + 1)) << engine.name << " " << pixel;
      }
    }
    EXPECT_EQ(y.read(kChannels), 0) << engine.name;
    EXPECT_EQ(y.read(kCount - kChannels - 1), 0) << engine.name;
  }
  EXPECT_GT(engines, 1);
  // y now holds 100 + 2 (k + 1) at the marked pixels; it serves as dy.
  args.y = y.data();
  args.out = w.data();
  const conv::Problem filter = problem_of("wgrad");
  for (const conv::ConvEngine& engine : conv::engines()) {
    if (engine.backend != backend.kind() || !engine.supports(filter, device)) continue;
    ASSERT_EQ(launch(backend, engine, filter, args), GPUDNN_STATUS_SUCCESS) << engine.name << take_error_text();
    const auto marked = static_cast<double>(std::size(kMarked));
    for (const std::int64_t k : {std::int64_t{0}, kChannels - 1}) {
      const double dy = 100 + 2 * static_cast<double>(k + 1);
      EXPECT_EQ(w.read(k * kChannels), marked * dy) << engine.name;
      EXPECT_EQ(w.read(k * kChannels + kChannels - 1), 2 * marked * dy) << engine.name;
      EXPECT_EQ(w.read(k * kChannels + 1), 0) << engine.name;
    }
  }
}

}  // namespace
}  // namespace gpudnn::test
