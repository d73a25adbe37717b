// The verify mode and the NaN watch: a planted fault is found, by the right problem and engine.
// SPDX-License-Identifier: Apache-2.0
#include "core/verify.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/guard.hpp"
#include "host/activation.hpp"
#include "host/conv_gemm.hpp"
#include "ops/activation/problem.hpp"
#include "ops/conv/plan.hpp"
#include "support/api_run.hpp"
#include "support/backend.hpp"
#include "support/random.hpp"
#include "support/session.hpp"

#ifdef GPUDNN_WITH_CUDA
#include <cuda_runtime_api.h>
#endif

namespace gpudnn::test {
namespace {

// The warnings while it lives, under one setting of the mode.
class Watched {
 public:
  explicit Watched(const VerifySettings& settings) {
    verify::configure(settings);
    GPUDNN_TEST_REQUIRE(
        gpudnnSetCallback(GPUDNN_SEV_WARNING_EN, &lines_, [](auto, void* lines, auto, const char* text) {
          static_cast<std::vector<std::string>*>(lines)->emplace_back(text);
        }));
  }
  ~Watched() {
    (void)gpudnnSetCallback(0, nullptr, nullptr);
    verify::configure({});
  }
  Watched(const Watched&) = delete;
  Watched& operator=(const Watched&) = delete;
  [[nodiscard]] const std::vector<std::string>& lines() const { return lines_; }
  // All of them.
  [[nodiscard]] std::string text() const {
    std::string all;
    for (const std::string& line : lines_) all += line + "\n";
    return all;
  }

 private:
  std::vector<std::string> lines_;
};

constexpr VerifySettings kEveryCall{.share = 1};

// --- a convolution engine that goes wrong ---------------------------------------------------------------------------

struct Planted {
  int calls = 0;
  int wrong_from = 0;     // the first call that does harm
  std::size_t place = 5;  // the element of the output
  float error = 1e-3F;
};
Planted planted;

// host_gemm, with one element of its output made wrong.
Status launch_wrong(const LaunchSite&, const void* prepared, const conv::Args& args) {
  host::conv_gemm(*static_cast<const conv::Problem*>(prepared), args);
  if (planted.calls++ >= planted.wrong_from) static_cast<float*>(args.out)[planted.place] += planted.error;
  return GPUDNN_STATUS_SUCCESS;
}
Status launch_right(const LaunchSite&, const void* prepared, const conv::Args& args) {
  host::conv_gemm(*static_cast<const conv::Problem*>(prepared), args);
  return GPUDNN_STATUS_SUCCESS;
}
constexpr conv::ConvEngine kWrongEngine = {
    .name = "wrong_gemm", .backend = GPUDNN_BACKEND_HOST, .launch = &launch_wrong};
constexpr conv::ConvEngine kRightEngine = {
    .name = "right_gemm", .backend = GPUDNN_BACKEND_HOST, .launch = &launch_right};

struct Convolution {
  Convolution(const Convolution&) = delete;
  Convolution(Convolution&&) = default;
  explicit Convolution(const char* line) {
    std::string why;
    problem = conv::from_text(line, &why).value();
    for (std::vector<float>* values : {&x, &w, &y}) values->resize(4096);
    Random random(7);
    for (float& value : x) value = static_cast<float>(random.normal());
    for (float& value : w) value = static_cast<float>(random.normal());
    args.x = x.data();
    args.w = w.data();
    args.out = y.data();
    plan.choice.engine = &kWrongEngine;
    plan.prepared = std::make_shared<const conv::Problem>(problem);
  }
  Status run() {
    return guard("gpudnnConvolutionForward", [&]() -> Status {
      GPUDNN_TRY(check_handle(Backend::host().handle()));
      return conv::launch_verified(Backend::host().handle(), problem, plan, args, nullptr, 0);
    });
  }
  conv::Problem problem;
  conv::Args args;
  conv::Plan plan;
  std::vector<float> x, w, y;
};

constexpr const char* kLine = "conv fwd f32 nchw n2c3h8w8 k4r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=default";

TEST(Verify, FindsAPlantedFaultByProblemEngineAndPlace) {
  const Watched watched(kEveryCall);
  planted = {};
  Convolution convolution(kLine);
  EXPECT_EQ(convolution.run(), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(watched.lines().size(), 1u) << watched.text();
  const std::string& line = watched.lines().front();
  EXPECT_EQ(line.find(std::string("gpudnnConvolutionForward | ") + kLine + " | engine=wrong_gemm | yDesc differs"), 0u)
      << line;
  EXPECT_NE(line.find("in 1 of 512 elements; the largest error is 0.000998, at [0,0,0,5]: 16.11"), std::string::npos)
      << line;
}

TEST(Verify, IsSilentWhereNothingIsWrong) {
  const Watched watched(kEveryCall);
  for (const char* const line : {kLine, "conv dgrad f32 nhwc n2c3h8w8 k4r3s3 p1x1 t2x2 d1x1 g1",
                                 "conv wgrad f32 nchw n2c4h9w7 k4r3s3 p1x1 t1x1 d2x1 g2"}) {
    Convolution convolution(line);
    convolution.plan.choice.engine = &kRightEngine;
    convolution.args.y = convolution.x.data();
    convolution.args.beta = -0.5;
    if (convolution.problem.direction == conv::Direction::dgrad) convolution.args.x = nullptr;
    if (convolution.problem.direction == conv::Direction::wgrad) convolution.args.w = nullptr;
    EXPECT_EQ(convolution.run(), GPUDNN_STATUS_SUCCESS);
  }
  EXPECT_EQ(watched.text(), "");
  EXPECT_EQ(verify::counts().verified, 3u);
}

// The bound of this sum is some 3e-5.
TEST(Verify, JudgesByTheBoundOfTheSum) {
  for (const float error : {1e-4F, 5e-6F}) {
    const Watched watched(kEveryCall);
    planted = {.error = error};
    Convolution convolution(kLine);
    EXPECT_EQ(convolution.run(), GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(watched.lines().empty(), error < 1e-5F) << watched.text();
  }
}

// Ten problems in turn, one of them with the fault.
TEST(Verify, OnePercentFindsAFaultWithinAThousandCalls) {
  const Watched watched({.share = 0.01});
  planted = {};
  std::vector<Convolution> convolutions;
  for (int i = 0; i < 9; ++i) {
    convolutions.emplace_back(
        ("conv fwd f32 nchw n1c2h" + std::to_string(5 + i) + "w5 k3r3s3 p1x1 t1x1 d1x1 g1").c_str());
    convolutions.back().plan.choice.engine = &kRightEngine;
  }
  convolutions.emplace_back(kLine);
  for (int call = 0; call < 1000; ++call) {
    EXPECT_EQ(convolutions[static_cast<std::size_t>(call % 10)].run(), GPUDNN_STATUS_SUCCESS);
  }
  const verify::Counts counts = verify::counts();
  EXPECT_EQ(counts.operations, 1000u);
  EXPECT_GE(counts.verified, 10u);
  EXPECT_LE(counts.verified, 20u);
  EXPECT_EQ(counts.differing, watched.lines().size());
  ASSERT_FALSE(watched.lines().empty());
  for (const std::string& line : watched.lines()) EXPECT_NE(line.find(kLine), std::string::npos) << line;
}

TEST(Verify, OnePercentFindsAFaultThatBeginsLater) {
  const Watched watched({.share = 0.01});
  planted = {.wrong_from = 700};
  Convolution convolution(kLine);
  for (int call = 0; call < 1000; ++call) EXPECT_EQ(convolution.run(), GPUDNN_STATUS_SUCCESS);
  EXPECT_FALSE(watched.lines().empty());
}

#ifdef GPUDNN_WITH_CUDA
// A convolution on the device, by the engine that its call takes. In the wrong one an element of the output is
// overwritten behind the kernel.
const conv::ConvEngine* right_on_device = nullptr;
Status launch_wrong_on_device(const LaunchSite& site, const void* prepared, const conv::Args& args) {
  static const float wrong = 1000;
  GPUDNN_TRY(right_on_device->launch(site, prepared, args));
  const cudaError_t error = cudaMemcpyAsync(static_cast<float*>(args.out) + planted.place, &wrong, sizeof wrong,
                                            cudaMemcpyHostToDevice, site.stream);
  return error == cudaSuccess ? GPUDNN_STATUS_SUCCESS : GPUDNN_STATUS_EXECUTION_FAILED_CUDART;
}
constexpr conv::ConvEngine kWrongOnDevice = {
    .name = "wrong_kernel", .backend = GPUDNN_BACKEND_CUDA, .launch = &launch_wrong_on_device};

struct DeviceConvolution {
  explicit DeviceConvolution(const std::string& line) : host(line.c_str()) {
    for (const std::vector<float>* const values : {&host.x, &host.w, &host.y}) {
      buffers.emplace_back(Backend::at_hand(), values->size() * sizeof(float));
      buffers.back().write(values->data(), values->size() * sizeof(float));
    }
    args.x = buffers[0].data();
    args.w = buffers[1].data();
    args.out = buffers[2].data();
    std::shared_ptr<const conv::Plan> found;
    if (conv::find_plan(Backend::at_hand().handle(), host.problem, GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, 0,
                        conv::kMaxAlignment, &found) != GPUDNN_STATUS_SUCCESS)
      throw std::runtime_error(line + ": " + take_error_text());
    plan = *found;
  }
  Status run() {
    return guard("gpudnnConvolutionForward", [&]() -> Status {
      GPUDNN_TRY(check_handle(Backend::at_hand().handle()));
      return conv::launch_verified(Backend::at_hand().handle(), host.problem, plan, args, nullptr, 0);
    });
  }
  Convolution host;
  std::vector<GuardedBuffer> buffers;
  conv::Args args;
  conv::Plan plan;
};

TEST(Verify, OnePercentFindsAWrongKernelOfADeviceWithinAThousandCalls) {
  GPUDNN_NEEDS_GPU();
  const Watched watched({.share = 0.01});
  planted = {};
  const std::string line = "conv fwd f32 nhwc n2c16h8w8 k16r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor";
  std::vector<DeviceConvolution> convolutions;
  for (int i = 0; i < 9; ++i) {
    convolutions.emplace_back("conv fwd f32 nhwc n1c16h" + std::to_string(5 + i) +
                              "w5 k16r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor");
  }
  convolutions.emplace_back(line);
  right_on_device = convolutions.back().plan.choice.engine;
  convolutions.back().plan.choice.engine = &kWrongOnDevice;
  for (std::size_t call = 0; call < 1000; ++call) {
    EXPECT_EQ(convolutions[call % 10].run(), GPUDNN_STATUS_SUCCESS);
  }
  const verify::Counts counts = verify::counts();
  EXPECT_EQ(counts.operations, 1000u);
  EXPECT_LE(counts.verified, 20u);
  ASSERT_FALSE(watched.lines().empty());
  for (const std::string& told : watched.lines()) {
    EXPECT_EQ(told.find("gpudnnConvolutionForward | " + line + " | engine=wrong_kernel | yDesc differs"), 0u) << told;
  }
  std::printf("  %s\n", watched.lines().front().c_str());
}
#endif

TEST(Verify, AbortFailsTheCall) {
  const Watched watched({.share = 1, .abort = true});
  planted = {};
  Convolution convolution(kLine);
  EXPECT_EQ(convolution.run(), GPUDNN_STATUS_EXECUTION_FAILED);
  const std::string text = take_error_text();
  EXPECT_NE(text.find("GPUDNN_VERIFY: yDesc differs from the reference in 1 of 512 elements"), std::string::npos)
      << text;
  EXPECT_NE(text.find(kLine), std::string::npos) << text;
  convolution.plan.choice.engine = &kRightEngine;
  EXPECT_EQ(convolution.run(), GPUDNN_STATUS_SUCCESS);
}

// --- an engine of a plain list --------------------------------------------------------------------------------------

// ReLU of halves, which is exact: one unit in the last place is a fault.
TEST(Verify, FindsOneUnitInTheLastPlaceOfAnExactOperation) {
  constexpr Engine<activation::Problem, activation::Args> kEngines[] = {
      {"wrong_relu", GPUDNN_BACKEND_HOST, supports_all<activation::Problem>,
       [](const LaunchSite&, const activation::Problem& problem, const activation::Args& args) -> Status {
         host::activation(problem, args);
         ++static_cast<std::uint16_t*>(args.out)[3];
         return GPUDNN_STATUS_SUCCESS;
       }},
      host_reference<host::activation, activation::Problem, activation::Args>(),
  };
  const std::span<const Engine<activation::Problem, activation::Args>> engines = kEngines;
  std::string why;
  const auto problem = activation::from_text("act fwd relu f16 nchw n1c1h2w4", &why);
  ASSERT_TRUE(problem) << why;
  // 1 to 8 in halves, in place.
  std::vector<std::uint16_t> values = {0x3c00, 0x4000, 0x4200, 0x4400, 0x4500, 0x4600, 0x4700, 0x4800};
  activation::Args args;
  args.x = args.out = values.data();
  const Watched watched(kEveryCall);
  const auto describe = [](activation::Problem& p, activation::Args& a, verify::Check* check) {
    check->read("x", a.x, &p.x);
    check->write("y", a.out, &p.y, false, verify::exact());
  };
  EXPECT_EQ(verify::run_first_engine(engines, Backend::host().handle(), *problem, args, +describe),
            GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(watched.lines().size(), 1u) << watched.text();
  EXPECT_NE(watched.lines()[0].find("act fwd relu f16 nchw n1c1h2w4 | engine=wrong_relu | y differs"),
            std::string::npos)
      << watched.text();
  EXPECT_NE(watched.lines()[0].find("[0,0,0,3]: 4.00390625 instead of 4"), std::string::npos) << watched.text();
}

TEST(Verify, WhatIsNotCoveredIsToldOnce) {
  const Watched watched(kEveryCall);
  for (int i = 0; i < 3; ++i) {
    (void)guard("gpudnnRNNForward", [&]() -> Status {
      verify::note_not_covered(Backend::host().handle(), "this is not covered");
      return GPUDNN_STATUS_SUCCESS;
    });
  }
  ASSERT_EQ(watched.lines().size(), 1u) << watched.text();
  EXPECT_EQ(watched.lines()[0], "gpudnnRNNForward: not verified: this is not covered");
}

TEST(Verify, IsOffUnlessAskedFor) {
  const Watched watched({});
  EXPECT_FALSE(verify::watching());
  planted = {};
  Convolution convolution(kLine);
  EXPECT_EQ(convolution.run(), GPUDNN_STATUS_SUCCESS);
  verify::note_not_covered(Backend::host().handle(), "this is not covered");
  EXPECT_EQ(watched.text(), "");
  EXPECT_EQ(verify::counts().operations, 0u);
}

// --- the NaN watch --------------------------------------------------------------------------------------------------

// c = sqrt(a).
void take_roots(const std::vector<float>& a, std::vector<float>* c) {
  const TensorDescriptor descriptor(GPUDNN_DATA_FLOAT, 1, 1, 1, static_cast<int>(a.size()));
  gpudnnOpTensorDescriptor_t root = nullptr;
  GPUDNN_TEST_REQUIRE(gpudnnCreateOpTensorDescriptor(&root));
  GPUDNN_TEST_REQUIRE(
      gpudnnSetOpTensorDescriptor(root, GPUDNN_OP_TENSOR_SQRT, GPUDNN_DATA_FLOAT, GPUDNN_PROPAGATE_NAN));
  const float one = 1;
  const float zero = 0;
  GPUDNN_TEST_REQUIRE(gpudnnOpTensor(Backend::host().handle(), root, &one, descriptor, a.data(), &one, descriptor,
                                     a.data(), &zero, descriptor, c->data()));
  GPUDNN_TEST_REQUIRE(gpudnnDestroyOpTensorDescriptor(root));
}

TEST(CheckNan, NamesTheFirstCallWhoseFiniteInputsGaveANan) {
  const Watched watched({.check_nan = true});
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> c3(3), c4(4), c5(5), c6(6);
  take_roots({1, 4, 9}, &c3);              // no NaN
  take_roots({1, kNan, 9, 16}, &c4);       // its input has one
  take_roots({1, kInfinity, -1, 1}, &c4);  // so has this one an infinity
  EXPECT_EQ(watched.text(), "");
  take_roots({1, 4, 9, -1, 1}, &c5);      // the first
  take_roots({1, -4, 9, -1, 1, 0}, &c6);  // the second
  ASSERT_EQ(watched.lines().size(), 1u) << watched.text();
  const std::string& line = watched.lines().front();
  EXPECT_EQ(line.find("gpudnnOpTensor | optensor sqrt f32"), 0u) << line;
  EXPECT_NE(line.find("n1c1h1w5"), std::string::npos) << line;
  EXPECT_NE(line.find("| finite inputs gave a NaN: c[0,0,0,3]"), std::string::npos) << line;
  EXPECT_FALSE(verify::watching()) << "the watch ends with the first";
}

}  // namespace
}  // namespace gpudnn::test
