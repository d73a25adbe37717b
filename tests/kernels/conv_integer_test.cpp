// Convolutions of 8-bit integers: every engine in every configuration and the public interface against the oracle, bit
// by bit, with guard zones and gaps.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "core/handle.hpp"
#include "ops/conv/engine.hpp"
#include "support/backend.hpp"
#include "support/integer_conv.hpp"
#include "support/session.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

// The operands of a case on the backend.
class Operands {
 public:
  Operands(const Backend& backend, const IntegerCase& c, const IntegerData& data, std::size_t shift)
      : c_(c), data_(data), shift_(shift), backend_(backend) {
    args_.alpha = static_cast<double>(c.alpha);
    args_.activation_coef = c.coef;
    (c.problem.has_z != 0 ? args_.alpha2 : args_.beta) = static_cast<double>(c.beta);
    args_.x = place(data.x.data(), data.x.size());
    args_.w = place(data.w.data(), data.w.size());
    args_.out = place(data.y.data(), data.y.size());
    out_ = buffers_.size() - 1;
    if (c.problem.has_z != 0) args_.z = place(data.z.data(), data.z.size());
    shift_ = 0;  // floats are aligned
    if (c.problem.has_bias != 0) args_.bias = place(data.bias.data(), data.bias.size() * sizeof(float));
    if (c.problem.has_scale != 0) args_.scale = place(data.scale.data(), data.scale.size() * sizeof(float));
  }

  [[nodiscard]] const conv::Args& args() const { return args_; }
  [[nodiscard]] std::vector<unsigned char> output() const {
    std::vector<unsigned char> bytes(data_.y.size());
    buffers_[out_].read(bytes.data(), bytes.size());
    return bytes;
  }
  void restore_output() { buffers_[out_].write(data_.y.data(), data_.y.size()); }
  [[nodiscard]] std::string damage() const {
    for (const GuardedBuffer& buffer : buffers_) {
      if (std::string found = buffer.damage(); !found.empty()) return found;
    }
    return {};
  }

 private:
  void* place(const void* bytes, std::size_t count) {
    buffers_.emplace_back(backend_, count, shift_, false, 1, bytes);
    return buffers_.back().data();
  }

  const IntegerCase& c_;
  const IntegerData& data_;
  std::size_t shift_;
  const Backend& backend_;
  std::vector<GuardedBuffer> buffers_;
  std::size_t out_ = 0;
  conv::Args args_;
};

// Empty if the bytes are the expected ones.
std::string difference(const std::vector<unsigned char>& got, const std::vector<unsigned char>& expected) {
  std::size_t count = 0;
  std::size_t first = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    if (got[i] == expected[i]) continue;
    if (count++ == 0) first = i;
  }
  if (count == 0) return {};
  return std::to_string(count) + " of " + std::to_string(got.size()) + " bytes differ, the first at " +
         std::to_string(first) + ": " + std::to_string(got[first]) + " in place of " + std::to_string(expected[first]);
}

std::string check_engines(const IntegerCase& c, Random& random, std::map<std::string, int>* counts, int runs = 1) {
  const Backend& backend = Backend::at_hand();
  const Device& device = *backend.handle()->device;
  const IntegerData data = random_integer_data(c, random);
  const std::vector<unsigned char> expected = naive_integer_conv(c, data);
  const bool wide = data_type_bits(c.problem.y.type) == 32 && data_type_lanes(c.problem.y.type) == 1;
  const std::size_t shift = below(random, 6) == 0 ? (wide ? 4 : 1) : 0;
  Operands operands(backend, c, data, shift);
  for (const conv::ConvEngine& engine : conv::engines()) {
    if (engine.backend != backend.kind() || !engine.supports(c.problem, device)) continue;
    if (shift != 0 && engine.alignment > 1) continue;
    std::vector<conv::Candidate> candidates;
    engine.candidates(c.problem, device, &candidates);
    for (const conv::Candidate& candidate : candidates) {
      GuardedBuffer workspace(backend, candidate.workspace);
      const auto prepared = engine.prepare(c.problem, candidate.config, device);
      for (int i = 0; i < runs; ++i) {
        const std::string wrong = verdict_or_error([&]() -> std::string {
          operands.restore_output();
          const Status status = engine.launch(launch_site(backend.handle(), workspace.data(), workspace.bytes()),
                                              prepared.get(), operands.args());
          if (status != GPUDNN_STATUS_SUCCESS) return take_error_text();
          if (const std::string found = difference(operands.output(), expected); !found.empty()) return found;
          std::string found = operands.damage();
          if (found.empty() && !(found = workspace.damage()).empty()) found = "workspace: " + found;
          return found;
        });
        if (wrong.empty()) continue;
        return conv::choice_text(engine, candidate.config) + " run " + std::to_string(i) + ": " + wrong;
      }
    }
    ++(*counts)[engine.name];
  }
  return {};
}

TEST(IntegerConvolutionEngines, AgreeWithTheOracle) {
  Random random(session_seed());
  std::map<std::string, int> counts;
  constexpr int kOnTheHost = 120;  // which has one engine for integers
  const int cases = session_cases(Backend::at_hand().is_cuda() ? 1500 : kOnTheHost);
  int failures = 0;
  for (int i = 0; i < cases && failures < 10; ++i) {
    const IntegerCase c = random_integer_case(random);
    ASSERT_EQ(conv::validate(c.problem), GPUDNN_STATUS_SUCCESS) << case_text(c) << "\n" << take_error_text();
    const std::string found = check_engines(c, random, &counts);
    if (!found.empty()) ++failures;
    EXPECT_TRUE(found.empty()) << case_text(c) << "\n  " << found;
  }
  for (const conv::ConvEngine& engine : conv::engines()) {
    const bool integer = std::string(engine.name).starts_with("integer_") || std::string(engine.name) == "host_direct";
    if (!integer || engine.backend != Backend::at_hand().kind()) continue;
    std::printf("%s: %d cases\n", engine.name, counts[engine.name]);
    if (cases >= kOnTheHost && std::string(engine.name) != "integer_sm90") {
      EXPECT_GT(counts[engine.name], 0) << engine.name;
    }
  }
}

// Enough blocks to fill a device, and few with long sums, which clusters share.
TEST(IntegerConvolutionEngines, TwentyRunsGiveTheSameBits) {
  Random random(session_seed());
  std::map<std::string, int> counts;
  std::vector<std::string> lines = {
      "conv fwd i8 nhwc n1c64h28w28 k64r3s3 p1x1 t1x1 d1x1 g1 acc=i32 math=tensor act=relu bias",
      "conv fwd i8 nhwc n1c256h7w7 k64r3s3 p1x1 t1x1 d1x1 g1 out=f32 acc=i32 math=tensor"};
  if (!Backend::at_hand().is_cuda())
    lines = {"conv fwd i8 nhwc n1c64h10w10 k32r3s3 p1x1 t1x1 d1x1 g1 acc=i32 act=relu bias"};
  for (const std::string& line : lines) {
    std::string why;
    const auto problem = conv::from_text(line, &why);
    ASSERT_TRUE(problem.has_value()) << why;
    const IntegerCase c = {.problem = *problem, .alpha = 0.01f};
    // Each run has the oracle's bits, so all have the same.
    ASSERT_EQ(check_engines(c, random, &counts, 20), "") << line;
  }
  EXPECT_FALSE(counts.empty());
}

TEST(IntegerConvolutionEngines, FloatingEnginesRefuseIntegers) {
  Random random(session_seed());
  const Device& device = *Backend::at_hand().handle()->device;
  for (int i = 0; i < 50; ++i) {
    const IntegerCase c = random_integer_case(random);
    for (const conv::ConvEngine& engine : conv::engines()) {
      if (engine.backend != device.backend) continue;
      const bool integer =
          std::string(engine.name).starts_with("integer_") || std::string(engine.name) == "host_direct";
      if (!integer) {
        EXPECT_FALSE(engine.supports(c.problem, device)) << engine.name << " " << case_text(c);
      }
    }
  }
}

TEST(IntegerConvolution, TextComesBack) {
  Random random(session_seed());
  for (int i = 0; i < 300; ++i) {
    const IntegerCase c = random_integer_case(random);
    const std::string text = conv::to_text(c.problem);
    std::string why;
    const auto parsed = conv::from_text(text, &why);
    ASSERT_TRUE(parsed) << text << ": " << why;
    EXPECT_EQ(conv::to_text(*parsed), text);
    EXPECT_EQ(parsed->float_vectors, c.problem.float_vectors) << text;
  }
}

// --- through the interface ------------------------------------------------------------------------------------------

struct Descriptors {
  gpudnnTensorDescriptor_t x = nullptr, y = nullptr, bias = nullptr;
  gpudnnFilterDescriptor_t w = nullptr;
  gpudnnConvolutionDescriptor_t conv = nullptr;
  gpudnnActivationDescriptor_t activation = nullptr;

  Descriptors() {
    GPUDNN_TEST_REQUIRE(gpudnnCreateTensorDescriptor(&x));
    GPUDNN_TEST_REQUIRE(gpudnnCreateTensorDescriptor(&y));
    GPUDNN_TEST_REQUIRE(gpudnnCreateTensorDescriptor(&bias));
    GPUDNN_TEST_REQUIRE(gpudnnCreateFilterDescriptor(&w));
    GPUDNN_TEST_REQUIRE(gpudnnCreateConvolutionDescriptor(&conv));
    GPUDNN_TEST_REQUIRE(gpudnnCreateActivationDescriptor(&activation));
  }
  ~Descriptors() {
    gpudnnDestroyTensorDescriptor(x);
    gpudnnDestroyTensorDescriptor(y);
    gpudnnDestroyTensorDescriptor(bias);
    gpudnnDestroyFilterDescriptor(w);
    gpudnnDestroyConvolutionDescriptor(conv);
    gpudnnDestroyActivationDescriptor(activation);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;
};

template <class T>
GuardedBuffer buffer_of(const Backend& backend, const std::vector<T>& values) {
  GuardedBuffer buffer(backend, values.size() * sizeof(T));
  buffer.write(values.data(), values.size() * sizeof(T));
  return buffer;
}

// One pixel of four channels, two filters: -128 * 127 * 4 saturates, and 2.5, 3.5 and -2.5 round to even.
TEST(IntegerConvolution, SaturatesAndRoundsToEvenByHand) {
  const Backend& backend = Backend::at_hand();
  Descriptors d;
  GPUDNN_TEST_REQUIRE(gpudnnSetTensor4dDescriptor(d.x, GPUDNN_TENSOR_NHWC, GPUDNN_DATA_INT8, 1, 4, 1, 1));
  GPUDNN_TEST_REQUIRE(gpudnnSetFilter4dDescriptor(d.w, GPUDNN_DATA_INT8, GPUDNN_TENSOR_NHWC, 8, 4, 1, 1));
  GPUDNN_TEST_REQUIRE(gpudnnSetTensor4dDescriptor(d.y, GPUDNN_TENSOR_NHWC, GPUDNN_DATA_INT8, 1, 8, 1, 1));
  GPUDNN_TEST_REQUIRE(
      gpudnnSetConvolution2dDescriptor(d.conv, 0, 0, 1, 1, 1, 1, GPUDNN_CROSS_CORRELATION, GPUDNN_DATA_INT32));
  const std::vector<std::int8_t> x = {1, -128, -128, 5};
  const std::vector<std::int8_t> w = {5,  0, 0,   0, 7, 0,    0,    0, -5, 0, 0, 0, 0, 127, 127, 0,
                                      -1, 1, 127, 0, 0, -128, -128, 0, 0,  0, 0, 1, 3, 0,   0,   0};
  // Sums: 5, 7, -5, -32512, -16385, 32768, 5, 3; halves of them, clamped.
  const std::vector<std::int8_t> expected = {2, 4, -2, -128, -128, 127, 2, 2};
  const GuardedBuffer of_x = buffer_of(backend, x);
  const GuardedBuffer of_w = buffer_of(backend, w);
  GuardedBuffer of_y(backend, expected.size());
  const float alpha = 0.5f;
  const float beta = 0;
  GPUDNN_TEST_REQUIRE(gpudnnConvolutionForward(backend.handle(), &alpha, d.x, of_x.data(), d.w, of_w.data(), d.conv,
                                               GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, nullptr, 0, &beta,
                                               d.y, of_y.data()));
  std::vector<std::int8_t> y(expected.size());
  of_y.read(y.data(), y.size());
  EXPECT_EQ(y, expected);
  EXPECT_EQ(of_y.damage(), "");
}

// Vectors of 4 channels: 8 channels are two vectors, a pixel's channels 0 to 3 beside each other.
TEST(IntegerConvolution, VectorsOfFourByHand) {
  const Backend& backend = Backend::at_hand();
  Descriptors d;
  GPUDNN_TEST_REQUIRE(gpudnnSetTensor4dDescriptor(d.x, GPUDNN_TENSOR_NCHW_VECT_C, GPUDNN_DATA_UINT8x4, 1, 8, 1, 2));
  GPUDNN_TEST_REQUIRE(gpudnnSetFilter4dDescriptor(d.w, GPUDNN_DATA_INT8x4, GPUDNN_TENSOR_NCHW_VECT_C, 4, 8, 1, 1));
  GPUDNN_TEST_REQUIRE(gpudnnSetTensor4dDescriptor(d.y, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 4, 1, 2));
  GPUDNN_TEST_REQUIRE(gpudnnSetTensor4dDescriptor(d.bias, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 4, 1, 1));
  GPUDNN_TEST_REQUIRE(
      gpudnnSetConvolution2dDescriptor(d.conv, 0, 0, 1, 1, 1, 1, GPUDNN_CROSS_CORRELATION, GPUDNN_DATA_INT32));
  GPUDNN_TEST_REQUIRE(gpudnnSetActivationDescriptor(d.activation, GPUDNN_ACTIVATION_RELU, GPUDNN_NOT_PROPAGATE_NAN, 0));
  const std::vector<std::uint8_t> x = {255, 0, 0, 1, 0, 2, 0, 0,   // channels 0 to 3 of two pixels
                                       3,   0, 0, 0, 0, 0, 0, 4};  // channels 4 to 7
  std::vector<std::int8_t> w(32);
  w[0] = 1;                        // filter 0: channel 0
  w[8 + 4] = -1, w[8 + 7] = 10;    // filter 1: channels 4 and 7
  w[16 + 1] = 2, w[16 + 3] = 100;  // filter 2: channels 1 and 3
  w[24 + 0] = -128;                // filter 3: channel 0
  const std::vector<float> bias = {0.5f, 0, 0, 0};
  const std::vector<float> expected = {127.5f + 0.5f, 0.5f, 0, 20, 50, 2, 0, 0};
  const GuardedBuffer of_x = buffer_of(backend, x);
  const GuardedBuffer of_w = buffer_of(backend, w);
  const GuardedBuffer of_bias = buffer_of(backend, bias);
  GuardedBuffer of_y(backend, expected.size() * sizeof(float));
  const float alpha = 0.5f;
  const float alpha2 = 0;
  GPUDNN_TEST_REQUIRE(
      gpudnnConvolutionBiasActivationForward(backend.handle(), &alpha, d.x, of_x.data(), d.w, of_w.data(), d.conv,
                                             GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, nullptr, 0, &alpha2,
                                             d.y, of_y.data(), d.bias, of_bias.data(), d.activation, d.y, of_y.data()));
  std::vector<float> y(expected.size());
  of_y.read(y.data(), y.size() * sizeof(float));
  EXPECT_EQ(y, expected);
}

TEST(IntegerConvolution, AlgorithmsAreListed) {
  const Backend& backend = Backend::at_hand();
  Descriptors d;
  GPUDNN_TEST_REQUIRE(gpudnnSetTensor4dDescriptor(d.x, GPUDNN_TENSOR_NCHW_VECT_C, GPUDNN_DATA_INT8x32, 2, 64, 7, 7));
  GPUDNN_TEST_REQUIRE(gpudnnSetFilter4dDescriptor(d.w, GPUDNN_DATA_INT8x32, GPUDNN_TENSOR_NCHW_VECT_C, 32, 64, 3, 3));
  GPUDNN_TEST_REQUIRE(gpudnnSetTensor4dDescriptor(d.y, GPUDNN_TENSOR_NCHW_VECT_C, GPUDNN_DATA_INT8x32, 2, 32, 7, 7));
  GPUDNN_TEST_REQUIRE(
      gpudnnSetConvolution2dDescriptor(d.conv, 1, 1, 1, 1, 1, 1, GPUDNN_CROSS_CORRELATION, GPUDNN_DATA_INT32));
  gpudnnConvolutionFwdAlgoPerf_t rows[GPUDNN_CONVOLUTION_FWD_ALGO_COUNT];
  int count = 0;
  GPUDNN_TEST_REQUIRE(gpudnnGetConvolutionForwardAlgorithm_v7(backend.handle(), d.x, d.w, d.conv, d.y,
                                                              GPUDNN_CONVOLUTION_FWD_ALGO_COUNT, &count, rows));
  ASSERT_GT(count, 0);
  EXPECT_EQ(rows[0].status, GPUDNN_STATUS_SUCCESS);
  std::size_t bytes = 1;
  GPUDNN_TEST_REQUIRE(
      gpudnnGetConvolutionForwardWorkspaceSize(backend.handle(), d.x, d.w, d.conv, d.y, rows[0].algo, &bytes));
  EXPECT_EQ(bytes, rows[0].memory);
  GPUDNN_TEST_REQUIRE(gpudnnFindConvolutionForwardAlgorithm(backend.handle(), d.x, d.w, d.conv, d.y,
                                                            GPUDNN_CONVOLUTION_FWD_ALGO_COUNT, &count, rows));
  EXPECT_EQ(rows[0].status, GPUDNN_STATUS_SUCCESS);
}

TEST(IntegerConvolution, RefusalsSayWhy) {
  const Backend& backend = Backend::at_hand();
  Descriptors d;
  EXPECT_EQ(gpudnnSetTensor4dDescriptor(d.x, GPUDNN_TENSOR_NCHW_VECT_C, GPUDNN_DATA_INT8x4, 1, 6, 4, 4),
            GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("multiple of 4"), std::string::npos);
  EXPECT_EQ(gpudnnSetFilter4dDescriptor(d.w, GPUDNN_DATA_INT8x32, GPUDNN_TENSOR_NCHW_VECT_C, 32, 48, 3, 3),
            GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("multiple of 32"), std::string::npos);
  GPUDNN_TEST_REQUIRE(gpudnnSetTensor4dDescriptor(d.x, GPUDNN_TENSOR_NHWC, GPUDNN_DATA_INT8, 1, 8, 4, 4));
  GPUDNN_TEST_REQUIRE(gpudnnSetTensor4dDescriptor(d.y, GPUDNN_TENSOR_NHWC, GPUDNN_DATA_INT8, 1, 8, 4, 4));
  GPUDNN_TEST_REQUIRE(gpudnnSetFilter4dDescriptor(d.w, GPUDNN_DATA_INT8, GPUDNN_TENSOR_NHWC, 8, 8, 1, 1));
  GPUDNN_TEST_REQUIRE(
      gpudnnSetConvolution2dDescriptor(d.conv, 0, 0, 1, 1, 1, 1, GPUDNN_CROSS_CORRELATION, GPUDNN_DATA_FLOAT));
  std::size_t bytes = 0;
  const auto size = [&] {
    return gpudnnGetConvolutionForwardWorkspaceSize(backend.handle(), d.x, d.w, d.conv, d.y,
                                                    GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, &bytes);
  };
  EXPECT_EQ(size(), GPUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_NE(take_error_text().find("must be i32"), std::string::npos);
  GPUDNN_TEST_REQUIRE(
      gpudnnSetConvolution2dDescriptor(d.conv, 0, 0, 1, 1, 1, 1, GPUDNN_CROSS_CORRELATION, GPUDNN_DATA_INT32));
  EXPECT_EQ(size(), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(gpudnnGetConvolutionBackwardDataWorkspaceSize(backend.handle(), d.w, d.y, d.conv, d.x,
                                                          GPUDNN_CONVOLUTION_BWD_DATA_ALGO_1, &bytes),
            GPUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_NE(take_error_text().find("forward alone"), std::string::npos);
  GPUDNN_TEST_REQUIRE(gpudnnSetTensor4dDescriptor(d.y, GPUDNN_TENSOR_NHWC, GPUDNN_DATA_HALF, 1, 8, 4, 4));
  EXPECT_EQ(size(), GPUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_NE(take_error_text().find("yDesc is f16"), std::string::npos);
}

}  // namespace
}  // namespace gpudnn::test
