// The last step of batch statistics, and the packs of fused operation plans, through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "support/fused.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

// --- statistics -----------------------------------------------------------------------------------------------------

struct FinalizeCase {
  bool training;
  gpudnnDataType_t type, eq_type;
  int c;
  std::int64_t m;
  double factor, epsilon;
  bool scale, bias, saved, running, eqscale, eqbias;
  std::uint64_t seed;
};
std::string describe(const FinalizeCase& f) {
  return std::string(f.training ? "training" : "inference") + " c=" + std::to_string(f.c) +
         " m=" + std::to_string(f.m) + " type=" + std::to_string(f.type) + " eq=" + std::to_string(f.eq_type) +
         " seed=" + std::to_string(f.seed);
}

FinalizeCase random_finalize(Random& random) {
  FinalizeCase f{};
  f.training = random.chance(0.6);
  f.type = random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_FLOAT, GPUDNN_DATA_DOUBLE});
  f.eq_type = random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_DOUBLE});
  f.c = static_cast<int>(random.between(1, 300));
  f.m = random.between(1, 1000);
  f.factor = random.pick({1.0, 0.1, 0.5});
  f.epsilon = random.pick({1e-5, 1e-3});
  f.scale = random.chance(0.8);
  f.bias = random.chance(0.8);
  f.saved = random.chance(0.7);
  f.running = random.chance(0.7);
  f.eqscale = true;
  f.eqbias = random.chance(0.8);
  f.seed = random.bits();
  return f;
}

std::string check_finalize(const FinalizeCase& f) {
  Random random(f.seed);
  const TensorGeometry params = vector_geometry(f.type, f.c);
  const TensorGeometry eq = vector_geometry(f.eq_type, f.c);
  const auto count = static_cast<std::size_t>(f.c);
  Values4 mean(count), variance(count), sum(count), squares(count), scale(count), bias(count), old_mean(count),
      old_variance(count);
  const auto m = static_cast<double>(f.m);
  for (std::size_t i = 0; i < count; ++i) {
    const double centre = random.normal();
    sum[i] = round_to_type(m * centre, f.type);
    squares[i] = round_to_type(m * (centre * centre + 0.5 + random.uniform()), f.type);
    scale[i] = round_to_type(random.normal(), f.type);
    bias[i] = round_to_type(random.normal(), f.type);
    old_mean[i] = round_to_type(random.normal(), f.type);
    old_variance[i] = round_to_type(random.uniform(), f.type);
    mean[i] = f.training ? sum[i] / m : old_mean[i];
    variance[i] = f.training ? squares[i] / m - mean[i] * mean[i] : old_variance[i];
  }
  Fused fused(Backend::at_hand(), f.training ? GPUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING
                                             : GPUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE);
  fused.describe(GPUDNN_PARAM_YSTATS_DESC, params);
  fused.describe(GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, params);
  fused.describe(GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, eq);
  const auto give = [&](bool wanted, gpudnnFusedOpsConstParamLabel_t placeholder,
                        gpudnnFusedOpsVariantParamLabel_t label, const TensorGeometry& tensor, const Values4& values) {
    return wanted ? fused.tensor(placeholder, label, tensor, values) : nullptr;
  };
  const bool running = f.running || !f.training;
  give(f.training, GPUDNN_PARAM_YSUM_PLACEHOLDER, GPUDNN_PTR_YSUM, params, sum);
  give(f.training, GPUDNN_PARAM_YSQSUM_PLACEHOLDER, GPUDNN_PTR_YSQSUM, params, squares);
  give(f.scale, GPUDNN_PARAM_BN_SCALE_PLACEHOLDER, GPUDNN_PTR_BN_SCALE, params, scale);
  give(f.bias, GPUDNN_PARAM_BN_BIAS_PLACEHOLDER, GPUDNN_PTR_BN_BIAS, params, bias);
  const auto saved_mean =
      give(f.training && f.saved, GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_MEAN, params, {});
  const auto saved_inverse =
      give(f.training && f.saved, GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_INVSTD, params, {});
  // With a factor of 1 the running pair may be anything: it starts as NaN.
  const bool fresh = f.training && f.factor == 1;
  const auto running_mean = give(running, GPUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER, GPUDNN_PTR_BN_RUNNING_MEAN, params,
                                 fresh ? Values4{} : old_mean);
  const auto running_variance = give(running, GPUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER, GPUDNN_PTR_BN_RUNNING_VAR,
                                     params, fresh ? Values4{} : old_variance);
  if (f.training) fused.is_updated(running_mean), fused.is_updated(running_variance);
  const auto eqscale = give(true, GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, GPUDNN_PTR_BN_EQSCALE, eq, {});
  const auto eqbias = give(f.eqbias, GPUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, GPUDNN_PTR_BN_EQBIAS, eq, {});
  std::int64_t m_count = f.m;
  double factor = f.factor;
  double epsilon = f.epsilon;
  fused.set_pointer(GPUDNN_SCALAR_INT64_T_BN_ACCUMULATION_COUNT, &m_count);
  fused.set_pointer(GPUDNN_SCALAR_DOUBLE_BN_EXP_AVG_FACTOR, &factor);
  fused.set_pointer(GPUDNN_SCALAR_DOUBLE_BN_EPSILON, &epsilon);
  if (const std::string wrong = fused.run(); !wrong.empty()) return wrong;

  // Everything is computed in double; a variance is off by a few roundings of the squares that it is the difference of.
  const double u = 0x1p-53;
  std::string wrong;
  const auto expect = [&](const char* name, const std::shared_ptr<DeviceTensor>& tensor, const TensorGeometry& geometry,
                          auto value, auto slack) {
    if (tensor == nullptr || !wrong.empty()) return;
    Expected expected;
    for (std::size_t i = 0; i < count; ++i) {
      expected.value.push_back(value(i));
      expected.slack.push_back(slack(i));
    }
    wrong = mismatch(geometry, tensor->values(), expected);
    if (!wrong.empty()) wrong = std::string(name) + ": " + wrong;
  };
  const auto spread = [&](std::size_t i) { return 8 * u * (std::fabs(variance[i]) + 2 * mean[i] * mean[i]); };
  const auto inverse = [&](std::size_t i) { return 1 / std::sqrt(variance[i] + f.epsilon); };
  const auto inverse_slack = [&](std::size_t i) {
    return inverse(i) * (8 * u + spread(i) / (variance[i] + f.epsilon));
  };
  const auto slope = [&](std::size_t i) { return (f.scale ? scale[i] : 1) * inverse(i); };
  const auto slope_slack = [&](std::size_t i) { return (f.scale ? std::fabs(scale[i]) : 1) * 2 * inverse_slack(i); };
  expect("eqscale", eqscale, eq, slope, slope_slack);
  expect(
      "eqbias", eqbias, eq, [&](std::size_t i) { return (f.bias ? bias[i] : 0) - mean[i] * slope(i); },
      [&](std::size_t i) { return 8 * u * std::fabs(bias[i]) + 4 * std::fabs(mean[i]) * slope_slack(i); });
  expect(
      "saved mean", saved_mean, params, [&](std::size_t i) { return mean[i]; },
      [&](std::size_t i) { return 2 * u * std::fabs(mean[i]); });
  expect("saved inverse", saved_inverse, params, inverse, inverse_slack);
  if (!f.training) return wrong;
  const double kept = 1 - f.factor;
  expect(
      "running mean", running_mean, params, [&](std::size_t i) { return f.factor * mean[i] + kept * old_mean[i]; },
      [&](std::size_t i) { return 8 * u * (std::fabs(mean[i]) + std::fabs(old_mean[i])); });
  const double stretch = f.m > 1 ? m / (m - 1) : 1;
  expect(
      "running variance", running_variance, params,
      [&](std::size_t i) { return f.factor * stretch * variance[i] + kept * old_variance[i]; },
      [&](std::size_t i) { return 2 * stretch * spread(i) + 8 * u * old_variance[i]; });
  return wrong;
}

TEST(FusedOps, FinalizeStatistics) {
  sweep(200, random_finalize, [](const FinalizeCase& f, int) { return check_finalize(f); });
}

// --- by hand --------------------------------------------------------------------------------------------------------

// Two channels, four elements each: (1, 3, 5, 7) has mean 4 and variance 5; (2, 2, 2, 2) mean 2 and none.
TEST(FusedOps, FinalizeByHand) {
  Fused fused(Backend::at_hand(), GPUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING);
  const TensorGeometry params = vector_geometry(GPUDNN_DATA_FLOAT, 2);
  for (const auto label :
       {GPUDNN_PARAM_YSTATS_DESC, GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, GPUDNN_PARAM_BN_EQSCALEBIAS_DESC}) {
    fused.describe(label, params);
  }
  fused.tensor(GPUDNN_PARAM_YSUM_PLACEHOLDER, GPUDNN_PTR_YSUM, params, {16, 8});
  fused.tensor(GPUDNN_PARAM_YSQSUM_PLACEHOLDER, GPUDNN_PTR_YSQSUM, params, {84, 16});
  fused.tensor(GPUDNN_PARAM_BN_SCALE_PLACEHOLDER, GPUDNN_PTR_BN_SCALE, params, {6, 2});
  fused.tensor(GPUDNN_PARAM_BN_BIAS_PLACEHOLDER, GPUDNN_PTR_BN_BIAS, params, {1, 10});
  const auto scale = fused.tensor(GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, GPUDNN_PTR_BN_EQSCALE, params, {});
  const auto bias = fused.tensor(GPUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, GPUDNN_PTR_BN_EQBIAS, params, {});
  std::int64_t m = 4;
  double epsilon = 4;  // deviations of 3 and 2
  fused.set_pointer(GPUDNN_SCALAR_INT64_T_BN_ACCUMULATION_COUNT, &m);
  fused.set_pointer(GPUDNN_SCALAR_DOUBLE_BN_EPSILON, &epsilon);
  ASSERT_EQ(fused.run(), "");
  EXPECT_EQ(scale->values(), (Values4{2, 1}));
  EXPECT_EQ(bias->values(), (Values4{-7, 8}));
}

// --- packs and refusals ---------------------------------------------------------------------------------------------

TEST(FusedOps, PacksGiveBackWhatTheyTook) {
  Fused fused(Backend::at_hand(), GPUDNN_FUSED_CONV_SCALE_BIAS_ADD_ACTIVATION);
  const TensorDescriptor desc;
  int is_null = -1;
  const auto get = [&](gpudnnFusedOpsConstParamLabel_t label, void* param) {
    return gpudnnGetFusedOpsConstParamPackAttribute(fused.constants(), label, param, &is_null);
  };
  ASSERT_EQ(get(GPUDNN_PARAM_XDESC, static_cast<gpudnnTensorDescriptor_t>(desc)), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(is_null, 1);
  fused.describe(GPUDNN_PARAM_XDESC, geometry(GPUDNN_DATA_HALF, true, false, 2, 3, 4, 5));
  ASSERT_EQ(get(GPUDNN_PARAM_XDESC, static_cast<gpudnnTensorDescriptor_t>(desc)), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(is_null, 0);
  gpudnnDataType_t type;
  int numbers[8];
  GPUDNN_TEST_REQUIRE(gpudnnGetTensor4dDescriptor(desc, &type, &numbers[0], &numbers[1], &numbers[2], &numbers[3],
                                                  &numbers[4], &numbers[5], &numbers[6], &numbers[7]));
  EXPECT_EQ(type, GPUDNN_DATA_HALF);
  EXPECT_EQ(numbers[3], 5);
  EXPECT_EQ(numbers[5], 1);
  fused.set(GPUDNN_PARAM_XDESC, nullptr);
  ASSERT_EQ(get(GPUDNN_PARAM_XDESC, static_cast<gpudnnTensorDescriptor_t>(desc)), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(is_null, 1);
  auto placeholder = GPUDNN_PTR_NULL;
  fused.promise(GPUDNN_PARAM_ZDATA_PLACEHOLDER, GPUDNN_PTR_16B_ALIGNED);
  ASSERT_EQ(get(GPUDNN_PARAM_ZDATA_PLACEHOLDER, &placeholder), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(placeholder, GPUDNN_PTR_16B_ALIGNED);
  int memory = 0;
  void* pointer = nullptr;
  fused.set_pointer(GPUDNN_PTR_ZDATA, &memory);
  ASSERT_EQ(gpudnnGetFusedOpsVariantParamPackAttribute(fused.variants(), GPUDNN_PTR_ZDATA, &pointer), 0);
  EXPECT_EQ(pointer, &memory);
  double factor = 0.25;
  fused.set_pointer(GPUDNN_SCALAR_DOUBLE_BN_EXP_AVG_FACTOR, &factor);
  factor = 0;
  ASSERT_EQ(
      gpudnnGetFusedOpsVariantParamPackAttribute(fused.variants(), GPUDNN_SCALAR_DOUBLE_BN_EXP_AVG_FACTOR, &factor), 0);
  EXPECT_EQ(factor, 0.25);
}

TEST(FusedOps, RefusesWithReasons) {
  const Backend& backend = Backend::at_hand();
  const TensorGeometry data = geometry(GPUDNN_DATA_FLOAT, false, false, 2, 3, 4, 4);
  Fused fused(backend, GPUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK);
  const auto refusal = [&](gpudnnStatus_t status, const char* word) {
    EXPECT_EQ(fused.make(), status) << word;
    const std::string text = take_error_text();
    EXPECT_NE(text.find(word), std::string::npos) << text;
  };
  EXPECT_EQ(fused.execute(backend.handle()), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("never made"), std::string::npos);
  refusal(GPUDNN_STATUS_BAD_PARAM, "GPUDNN_PARAM_XDESC was not set");
  fused.describe(GPUDNN_PARAM_XDESC, data);
  refusal(GPUDNN_STATUS_BAD_PARAM, "GPUDNN_PARAM_XDATA_PLACEHOLDER is GPUDNN_PTR_NULL");
  const Values4 zeros(96);
  fused.tensor(GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA, data, zeros);
  fused.describe(GPUDNN_PARAM_YDESC, data);
  const auto y = fused.tensor(GPUDNN_PARAM_YDATA_PLACEHOLDER, GPUDNN_PTR_YDATA, data, {});
  fused.activate(GPUDNN_ACTIVATION_TANH);
  refusal(GPUDNN_STATUS_NOT_SUPPORTED, "tanh");
  fused.activate(GPUDNN_ACTIVATION_RELU);
  fused.promise(GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, GPUDNN_PTR_ELEM_ALIGNED);
  fused.describe(GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, vector_geometry(GPUDNN_DATA_FLOAT, 4));
  refusal(GPUDNN_STATUS_BAD_PARAM, "one value for each of the 3 channels");
  fused.promise(GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, GPUDNN_PTR_NULL);
  fused.promise(GPUDNN_PARAM_BN_Z_EQSCALE_PLACEHOLDER, GPUDNN_PTR_ELEM_ALIGNED);
  refusal(GPUDNN_STATUS_BAD_PARAM, "GPUDNN_PARAM_ZDATA_PLACEHOLDER");
  fused.promise(GPUDNN_PARAM_BN_Z_EQSCALE_PLACEHOLDER, GPUDNN_PTR_NULL);
  fused.promise(GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER, GPUDNN_PTR_ELEM_ALIGNED);
  fused.describe(GPUDNN_PARAM_ACTIVATION_BITMASK_DESC, geometry(GPUDNN_DATA_INT32, false, false, 1, 1, 1, 31));
  refusal(GPUDNN_STATUS_BAD_PARAM, "need 32");
  fused.promise(GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER, GPUDNN_PTR_NULL);
  auto mode = GPUDNN_BATCHNORM_PER_ACTIVATION;
  fused.set(GPUDNN_PARAM_BN_MODE, &mode);
  refusal(GPUDNN_STATUS_NOT_SUPPORTED, "PER_ACTIVATION");
  mode = GPUDNN_BATCHNORM_SPATIAL_PERSISTENT;
  fused.set(GPUDNN_PARAM_BN_MODE, &mode);
  ASSERT_EQ(fused.make(), GPUDNN_STATUS_SUCCESS) << take_error_text();
  fused.set_pointer(GPUDNN_PTR_YDATA, nullptr);
  EXPECT_EQ(fused.execute(backend.handle()), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("GPUDNN_PTR_YDATA is null"), std::string::npos);
  fused.set_pointer(GPUDNN_PTR_YDATA, static_cast<unsigned char*>(y->data()) + 2);
  EXPECT_EQ(fused.execute(backend.handle()), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("aligned to 4 bytes"), std::string::npos);
  fused.set_pointer(GPUDNN_PTR_YDATA, y->data());
  EXPECT_EQ(fused.execute(backend.handle()), GPUDNN_STATUS_SUCCESS) << take_error_text();
  const Fused other(backend, GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_WGRAD);
  std::size_t bytes = 0;
  EXPECT_EQ(gpudnnMakeFusedOpsPlan(backend.handle(), other.plan(), fused.constants(), &bytes), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(gpudnnFusedOpsExecute(backend.handle(), fused.plan(), other.variants()), GPUDNN_STATUS_BAD_PARAM);
}

}  // namespace
}  // namespace gpudnn::test
