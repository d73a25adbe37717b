// One small call each of dropout, the spatial transformer, the CTC loss and fused plans, for every_operation.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/more_operations.hpp"

#include <algorithm>
#include <stdexcept>

#include "support/fused.hpp"
#include "support/naive_misc.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

using Shared = std::shared_ptr<DeviceTensor>;

template <class Problem, class Parse>
Problem problem_of(const std::string& line, Parse parse) {
  std::string why;
  const auto problem = parse(line, &why);
  if (!problem) throw std::runtime_error(line + ": " + why);
  return *problem;
}

std::vector<double> values_of(const TensorGeometry& tensor, std::uint64_t seed) {
  Random random(seed);
  std::vector<double> values(static_cast<std::size_t>(element_count(tensor)));
  for (double& value : values) value = round_to_type(random.normal(), tensor.type);
  return values;
}

Shared make(const Backend& backend, const TensorGeometry& geometry, const std::vector<double>& values) {
  return std::make_shared<DeviceTensor>(backend, geometry, values.empty() ? nullptr : &values);
}

using DropoutDescriptor =
    Descriptor<gpudnnDropoutDescriptor_t, gpudnnCreateDropoutDescriptor, gpudnnDestroyDropoutDescriptor>;
using TransformerDescriptor = Descriptor<gpudnnSpatialTransformerDescriptor_t, gpudnnCreateSpatialTransformerDescriptor,
                                         gpudnnDestroySpatialTransformerDescriptor>;
using CtcDescriptor =
    Descriptor<gpudnnCTCLossDescriptor_t, gpudnnCreateCTCLossDescriptor, gpudnnDestroyCTCLossDescriptor>;

}  // namespace

// The states start anew in each call, so that all give the same mask; a call without that would draw another.
PreparedCall dropout_call(const Backend& backend, const std::string& line, bool starts_states) {
  const auto p = problem_of<dropout::Problem>(line, dropout::from_text);
  const std::vector<double> in = values_of(p.in, 1);
  const Shared x = make(backend, p.in, in);
  const Shared y = make(backend, p.out, {});
  const auto x_desc = std::make_shared<TensorDescriptor>(p.in);
  const auto y_desc = std::make_shared<TensorDescriptor>(p.out);
  const auto desc = std::make_shared<DropoutDescriptor>();
  std::size_t state_bytes = 0;
  std::size_t reserve_bytes = 0;
  GPUDNN_TEST_REQUIRE(gpudnnDropoutGetStatesSize(backend.handle(), &state_bytes));
  GPUDNN_TEST_REQUIRE(gpudnnDropoutGetReserveSpaceSize(*x_desc, &reserve_bytes));
  const auto states = std::make_shared<GuardedBuffer>(backend, state_bytes);
  const auto reserve = std::make_shared<GuardedBuffer>(backend, reserve_bytes);
  constexpr unsigned long long kSeed = 99;
  const auto start = [=](gpudnnHandle_t h) {
    return gpudnnSetDropoutDescriptor(*desc, h, p.probability, states->data(), state_bytes, kSeed);
  };
  const auto forward = [=](gpudnnHandle_t h) {
    return gpudnnDropoutForward(h, *desc, *x_desc, x->data(), *y_desc, y->data(), reserve->data(), reserve_bytes);
  };
  const Expected expected = naive_dropout(p.out, p.probability, naive_mask(p.out, p.probability, kSeed, 0), in);
  GPUDNN_TEST_REQUIRE(start(backend.handle()));
  if (p.backward) {
    GPUDNN_TEST_REQUIRE(forward(backend.handle()));
    return {line,
            [=](gpudnnHandle_t h) {
              return gpudnnDropoutBackward(h, *desc, *x_desc, x->data(), *y_desc, y->data(), reserve->data(),
                                           reserve_bytes);
            },
            y, expected};
  }
  if (!starts_states) return {line, forward, y, expected};
  return {"start the states, then " + line,
          [=](gpudnnHandle_t h) {
            const gpudnnStatus_t status = start(h);
            return status != GPUDNN_STATUS_SUCCESS ? status : forward(h);
          },
          y, expected};
}

namespace {

PreparedCall transformer_call(const Backend& backend, const std::string& line, bool dgrid_is_output) {
  using spatial_transformer::Operation;
  const auto p = problem_of<spatial_transformer::Problem>(line, spatial_transformer::from_text);
  const auto st = std::make_shared<TransformerDescriptor>();
  const int dims[] = {static_cast<int>(p.y.dims[0]), static_cast<int>(p.y.dims[1]), static_cast<int>(p.y.dims[2]),
                      static_cast<int>(p.y.dims[3])};
  GPUDNN_TEST_REQUIRE(gpudnnSetSpatialTransformerNdDescriptor(*st, GPUDNN_SAMPLER_BILINEAR, p.y.type, 4, dims));
  TransformerValues v;
  const TensorGeometry grid_shape = grid_geometry(p);
  if (p.operation == Operation::grid_forward) {
    v.theta = values_of(theta_geometry(p), 1);
    const Shared theta = make(backend, theta_geometry(p), v.theta);
    const Shared grid = make(backend, grid_shape, {});
    return {line,
            [=](gpudnnHandle_t h) { return gpudnnSpatialTfGridGeneratorForward(h, *st, theta->data(), grid->data()); },
            grid, naive_grid(p, v)};
  }
  v.grid = values_of(grid_shape, 2);
  const Shared grid = make(backend, grid_shape, v.grid);
  if (p.operation == Operation::grid_backward) {
    const Shared theta = make(backend, theta_geometry(p), {});
    return {line,
            [=](gpudnnHandle_t h) { return gpudnnSpatialTfGridGeneratorBackward(h, *st, grid->data(), theta->data()); },
            theta, naive_theta_gradient(p, v)};
  }
  v.x = values_of(p.x, 3);
  const Shared x = make(backend, p.x, v.x);
  const auto x_desc = std::make_shared<TensorDescriptor>(p.x);
  const auto y_desc = std::make_shared<TensorDescriptor>(p.y);
  if (p.operation == Operation::sample_forward) {
    const Shared y = make(backend, p.y, {});
    return {line,
            [=](gpudnnHandle_t h) {
              return gpudnnSpatialTfSamplerForward(h, *st, Scalar(1, GPUDNN_DATA_FLOAT), *x_desc, x->data(),
                                                   grid->data(), Scalar(0, GPUDNN_DATA_FLOAT), *y_desc, y->data());
            },
            y, naive_sample(p, v, {})};
  }
  v.dy = values_of(p.y, 4);
  const Shared dy = make(backend, p.y, v.dy);
  const Shared dx = make(backend, p.dx, {});
  const Shared dgrid = make(backend, grid_shape, {});
  const auto dx_desc = std::make_shared<TensorDescriptor>(p.dx);
  return {line + (dgrid_is_output ? ", dgrid" : ", dx"),
          [=](gpudnnHandle_t h) {
            const Scalar one(1, GPUDNN_DATA_FLOAT);
            const Scalar zero(0, GPUDNN_DATA_FLOAT);
            return gpudnnSpatialTfSamplerBackward(h, *st, one, *x_desc, x->data(), zero, *dx_desc, dx->data(), one,
                                                  *y_desc, dy->data(), grid->data(), zero, dgrid->data());
          },
          dgrid_is_output ? dgrid : dx,
          dgrid_is_output ? naive_grid_gradient(p, v, {}) : naive_image_gradient(p, v, {})};
}

PreparedCall ctc_call(const Backend& backend, const std::string& line) {
  const auto p = problem_of<ctc::Problem>(line, ctc::from_text);
  const std::vector<double> x_values = values_of(p.x, 1);
  const CtcLabels given = {{2, 2, 1, 3}, {3, 1}, {5, 4}};
  const Shared x = make(backend, p.x, x_values);
  const Shared gradients = make(backend, p.gradients, {});
  const auto desc = std::make_shared<TensorDescriptor>(p.x);
  const auto ctc = std::make_shared<CtcDescriptor>();
  GPUDNN_TEST_REQUIRE(gpudnnSetCTCLossDescriptor_v9(*ctc, p.x.type, GPUDNN_LOSS_NORMALIZATION_SOFTMAX,
                                                    GPUDNN_CTC_ZERO_OOB_GRADIENTS, static_cast<int>(p.max_labels)));
  const auto costs = std::make_shared<GuardedBuffer>(backend, 2 * sizeof(float));
  const Expected expected = naive_ctc(p, x_values, given).gradients;
  std::size_t bytes = 0;
  if (p.host_labels) {
    GPUDNN_TEST_REQUIRE(gpudnnGetCTCLossWorkspaceSize(backend.handle(), *desc, *desc, given.labels.data(),
                                                      given.label_lengths.data(), given.input_lengths.data(),
                                                      GPUDNN_CTC_LOSS_ALGO_DETERMINISTIC, *ctc, &bytes));
    const auto workspace = std::make_shared<GuardedBuffer>(backend, bytes);
    return {line,
            [=](gpudnnHandle_t h) {
              CtcLabels passing = given;  // gone when the call has returned
              const gpudnnStatus_t status =
                  gpudnnCTCLoss(h, *desc, x->data(), passing.labels.data(), passing.label_lengths.data(),
                                passing.input_lengths.data(), costs->data(), *desc, gradients->data(),
                                GPUDNN_CTC_LOSS_ALGO_DETERMINISTIC, *ctc, workspace->data(), bytes);
              for (int& label : passing.labels) label = 1 << 30;
              return status;
            },
            gradients, expected};
  }
  const auto upload = [&](const std::vector<int>& values) {
    const auto buffer = std::make_shared<GuardedBuffer>(backend, values.size() * sizeof(int));
    buffer->write(values.data(), values.size() * sizeof(int));
    return buffer;
  };
  const auto labels = upload(given.labels);
  const auto label_lengths = upload(given.label_lengths);
  const auto input_lengths = upload(given.input_lengths);
  GPUDNN_TEST_REQUIRE(gpudnnGetCTCLossWorkspaceSize_v8(backend.handle(), GPUDNN_CTC_LOSS_ALGO_DETERMINISTIC, *ctc,
                                                       *desc, *desc, &bytes));
  const auto workspace = std::make_shared<GuardedBuffer>(backend, bytes);
  return {line,
          [=](gpudnnHandle_t h) {
            return gpudnnCTCLoss_v8(
                h, GPUDNN_CTC_LOSS_ALGO_DETERMINISTIC, *ctc, *desc, x->data(), static_cast<const int*>(labels->data()),
                static_cast<const int*>(label_lengths->data()), static_cast<const int*>(input_lengths->data()),
                costs->data(), *desc, gradients->data(), bytes, workspace->data());
          },
          gradients, expected};
}

// ReLU(scale * x + bias) through a convolution of one pixel, with its workspace; integers, so every value is exact.
PreparedCall fused_convolution_call(const Backend& backend) {
  constexpr int kIn = 8;
  constexpr int kOut = 16;
  constexpr int kPixels = 5 * 6;
  Random random(7);
  const TensorGeometry x = geometry(GPUDNN_DATA_HALF, true, false, 2, kIn, 5, 6);
  const TensorGeometry w = geometry(GPUDNN_DATA_HALF, true, false, kOut, kIn, 1, 1);
  const TensorGeometry y = geometry(GPUDNN_DATA_HALF, true, false, 2, kOut, 5, 6);
  const TensorGeometry vector = vector_geometry(GPUDNN_DATA_FLOAT, kIn);
  const TensorGeometry stats = vector_geometry(GPUDNN_DATA_FLOAT, kOut);
  const Values4 x_values = integers(&random, x, -3, 3);
  const Values4 w_values = integers(&random, w, -1, 1);
  const Values4 scale = integers(&random, vector, -2, 2);
  const Values4 bias = integers(&random, vector, -2, 2);
  const auto fused = std::make_shared<Fused>(backend, GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS);
  fused->convolve(0, 1, GPUDNN_DATA_FLOAT);
  fused->activate(GPUDNN_ACTIVATION_RELU);
  fused->describe(GPUDNN_PARAM_XDESC, x);
  fused->tensor(GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA, x, x_values);
  fused->describe(GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, vector);
  fused->tensor(GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, GPUDNN_PTR_BN_EQSCALE, vector, scale);
  fused->tensor(GPUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, GPUDNN_PTR_BN_EQBIAS, vector, bias);
  fused->describe(GPUDNN_PARAM_WDESC, w);
  fused->tensor(GPUDNN_PARAM_WDATA_PLACEHOLDER, GPUDNN_PTR_WDATA, w, w_values);
  fused->describe(GPUDNN_PARAM_YDESC, y);
  const Shared out = fused->tensor(GPUDNN_PARAM_YDATA_PLACEHOLDER, GPUDNN_PTR_YDATA, y, {});
  fused->describe(GPUDNN_PARAM_YSTATS_DESC, stats);
  fused->tensor(GPUDNN_PARAM_YSUM_PLACEHOLDER, GPUDNN_PTR_YSUM, stats, {});
  fused->tensor(GPUDNN_PARAM_YSQSUM_PLACEHOLDER, GPUDNN_PTR_YSQSUM, stats, {});
  GPUDNN_TEST_REQUIRE(fused->make());
  Values4 expected(static_cast<std::size_t>(element_count(y)));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const std::size_t image = i / (kOut * kPixels);
    const std::size_t k = i / kPixels % kOut;
    for (std::size_t c = 0; c < kIn; ++c) {
      const double v = scale[c] * x_values[(image * kIn + c) * kPixels + i % kPixels] + bias[c];
      expected[i] += (v > 0 ? v : 0) * w_values[k * kIn + c];
    }
  }
  return {"fused scale_bias_activation_conv_bnstats", [fused](gpudnnHandle_t h) { return fused->execute(h); }, out,
          exactly(expected)};
}

// ReLU(x + z) with its bits.
PreparedCall fused_bits_call(const Backend& backend) {
  Random random(8);
  const TensorGeometry x = geometry(GPUDNN_DATA_HALF, true, false, 2, 40, 5, 6);
  const TensorGeometry bits = geometry(GPUDNN_DATA_INT32, false, false, 1, 1, 60, 2);
  const Values4 x_values = integers(&random, x, -3, 3);
  const Values4 z_values = integers(&random, x, -3, 3);
  const auto fused = std::make_shared<Fused>(backend, GPUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK);
  fused->activate(GPUDNN_ACTIVATION_RELU);
  for (const auto label : {GPUDNN_PARAM_XDESC, GPUDNN_PARAM_ZDESC, GPUDNN_PARAM_YDESC}) fused->describe(label, x);
  fused->describe(GPUDNN_PARAM_ACTIVATION_BITMASK_DESC, bits);
  fused->tensor(GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA, x, x_values);
  fused->tensor(GPUDNN_PARAM_ZDATA_PLACEHOLDER, GPUDNN_PTR_ZDATA, x, z_values);
  const Shared out = fused->tensor(GPUDNN_PARAM_YDATA_PLACEHOLDER, GPUDNN_PTR_YDATA, x, {});
  fused->tensor(GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER, GPUDNN_PTR_ACTIVATION_BITMASK, bits, {});
  GPUDNN_TEST_REQUIRE(fused->make());
  Values4 expected(x_values.size());
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = std::max(x_values[i] + z_values[i], 0.0);
  return {"fused scale_bias_add_activation_gen_bitmask", [fused](gpudnnHandle_t h) { return fused->execute(h); }, out,
          exactly(expected)};
}

}  // namespace

void add_more_operations(const Backend& backend, std::vector<PreparedCall>* calls) {
  calls->push_back(dropout_call(backend, "dropout fwd f16 nhwc n2c24h13w11 p=0.3", true));
  calls->push_back(dropout_call(backend, "dropout bwd f32 nchw n2c7h13w11 p=0.5", true));
  for (const char* line : {"stn grid_fwd f32 nchw n2c3h9w11", "stn grid_bwd f32 nchw n2c3h9w11",
                           "stn fwd f32 nchw n2c3h9w11 in=7x8", "stn fwd f16 nhwc n2c16h9w11 in=7x8"}) {
    calls->push_back(transformer_call(backend, line, false));
  }
  for (const bool dgrid : {false, true}) {
    calls->push_back(transformer_call(backend, "stn bwd f32 nchw n2c3h9w11 in=7x8", dgrid));
  }
  calls->push_back(ctc_call(backend, "ctc f32 nchw n5c2w4 softmax labels=3"));
  calls->push_back(fused_convolution_call(backend));
  calls->push_back(fused_bits_call(backend));
  calls->push_back(ctc_call(backend, "ctc f32 nchw n5c2w4 softmax labels=3 hostlabels"));
}

}  // namespace gpudnn::test
