// Running cases of batch normalization through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include "support/norm.hpp"

#include <cmath>
#include <optional>
#include <stdexcept>

#include "support/number.hpp"
#include "support/random_problems.hpp"

namespace gpudnn::test {
namespace {

std::size_t count_of(const TensorGeometry& geometry) {
  std::size_t count = 1;
  for (int i = 0; i < geometry.rank; ++i) count *= static_cast<std::size_t>(geometry.dims[i]);
  return count;
}

bool adds(const norm::Problem& p) { return p.ops == GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION; }

std::vector<double> normals(Random& random, const TensorGeometry& geometry, double mean, double deviation) {
  std::vector<double> values(count_of(geometry));
  for (double& value : values) value = round_to_type(mean + deviation * random.normal(), geometry.type);
  return values;
}

// The tensors of one call. What is given is an input unless it is named as an output.
class Memory {
 public:
  Memory(const Backend& backend, bool misaligned) : backend_(backend), misaligned_(misaligned) {}

  DeviceTensor& add(const TensorGeometry& geometry, const std::vector<double>& values, bool output) {
    tensors_.push_back(
        {std::make_unique<DeviceTensor>(backend_, geometry, values.empty() ? nullptr : &values, misaligned_), output});
    return *tensors_.back().tensor;
  }
  [[nodiscard]] std::string damage() const {
    for (const auto& entry : tensors_) {
      std::string text = entry.output ? entry.tensor->damage_outside_elements() : entry.tensor->damage_anywhere();
      if (!text.empty()) return text;
    }
    return {};
  }

 private:
  struct Entry {
    std::unique_ptr<DeviceTensor> tensor;
    bool output;
  };
  const Backend& backend_;
  bool misaligned_;
  std::vector<Entry> tensors_;
};

std::string failure(const char* call, gpudnnStatus_t status) {
  return std::string(call) + ": " + gpudnnGetErrorString(status) + ": " + take_error_text();
}

std::string compared(const char* what, const DeviceTensor& tensor, const Expected& expected) {
  const std::string text = mismatch(tensor.geometry(), tensor.values(), expected);
  return text.empty() ? text : std::string(what) + ": " + text;
}

gpudnnBatchNormMode_t mode_of(const norm::Problem& p) {
  return p.per_activation ? GPUDNN_BATCHNORM_PER_ACTIVATION : GPUDNN_BATCHNORM_SPATIAL;
}

struct Descriptors {
  explicit Descriptors(const NormCase& c)
      : x(c.forward.x),
        y(c.forward.y),
        z(adds(c.forward) ? c.forward.z : c.forward.x),
        dy(c.backward.dy),
        dx(c.backward.dx),
        dz(adds(c.backward) ? c.backward.dz : c.backward.x),
        params(c.forward.params),
        stats(c.forward.stats),
        activation(c.forward.mode, c.forward.nan, c.forward.coef) {}
  TensorDescriptor x, y, z, dy, dx, dz, params, stats;
  ActivationDescriptor activation;
};

// What forward leaves for backward.
struct Left {
  std::optional<GuardedBuffer> reserve;
  std::size_t reserve_bytes = 0;
  std::vector<double> mean, inverse;
};

std::string check_forward(const Backend& backend, const NormCase& c, const NormValues& v, const Descriptors& d,
                          const ForwardExpected& expected, Left* left) {
  const norm::Problem& p = c.forward;
  const gpudnnHandle_t h = backend.handle();
  const gpudnnBatchNormMode_t mode = mode_of(p);
  Memory memory(backend, c.misaligned);
  const DeviceTensor& x = memory.add(p.x, v.x, false);
  const void* const z = adds(p) ? memory.add(p.z, v.z, false).data() : nullptr;
  const DeviceTensor& y = memory.add(p.y, v.y, true);
  const DeviceTensor& scale = memory.add(p.params, v.scale, false);
  const DeviceTensor& bias = memory.add(p.params, v.bias, false);
  const DeviceTensor& running_mean = memory.add(p.stats, v.mean, p.running);
  const DeviceTensor& running_variance = memory.add(p.stats, v.variance, p.running);
  const DeviceTensor& saved_mean = memory.add(p.stats, {}, p.saved);
  const DeviceTensor& saved_inverse = memory.add(p.stats, {}, p.saved);
  void* const rm = p.running ? running_mean.data() : nullptr;
  void* const rv = p.running ? running_variance.data() : nullptr;
  void* const sm = p.saved ? saved_mean.data() : nullptr;
  void* const si = p.saved ? saved_inverse.data() : nullptr;
  const Scalar alpha(c.alpha, p.x.type);
  const Scalar beta(c.beta, p.x.type);
  gpudnnStatus_t status;
  std::size_t bytes = 0;
  status =
      gpudnnGetBatchNormalizationTrainingExReserveSpaceSize(h, mode, p.ops, d.activation, d.x, &left->reserve_bytes);
  if (status != GPUDNN_STATUS_SUCCESS) return failure("the reserve query", status);
  left->reserve.emplace(backend, left->reserve_bytes);
  if (c.plain && p.ops == GPUDNN_BATCHNORM_OPS_BN) {
    status = gpudnnBatchNormalizationForwardTraining(h, mode, alpha, beta, d.x, x.data(), d.y, y.data(), d.params,
                                                     scale.data(), bias.data(), c.factor, rm, rv, p.epsilon, sm, si);
  } else {
    status = gpudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(h, mode, p.ops, d.x, d.z, d.y, d.params,
                                                                       d.activation, &bytes);
    if (status != GPUDNN_STATUS_SUCCESS) return failure("the workspace query", status);
    if (c.without_workspace) bytes = 0;
    const GuardedBuffer workspace(backend, bytes);
    status = gpudnnBatchNormalizationForwardTrainingEx(h, mode, p.ops, alpha, beta, d.x, x.data(), d.z, z, d.y,
                                                       y.data(), d.params, scale.data(), bias.data(), c.factor, rm, rv,
                                                       p.epsilon, sm, si, d.activation, workspace.data(), bytes,
                                                       left->reserve->data(), left->reserve_bytes);
    if (status == GPUDNN_STATUS_SUCCESS && !workspace.damage().empty()) return "workspace: " + workspace.damage();
  }
  if (status != GPUDNN_STATUS_SUCCESS) return failure("forward", status);
  if (std::string text = compared("y", y, expected.y); !text.empty()) return text;
  if (p.running) {
    if (std::string text = compared("running mean", running_mean, expected.running_mean); !text.empty()) return text;
    std::string text = compared("running variance", running_variance, expected.running_variance);
    if (!text.empty()) return text;
  }
  if (p.saved) {
    if (std::string text = compared("saved mean", saved_mean, expected.saved_mean); !text.empty()) return text;
    std::string text = compared("saved inverse", saved_inverse, expected.saved_inverse);
    if (!text.empty()) return text;
    left->mean = saved_mean.values();
    left->inverse = saved_inverse.values();
  }
  if (!left->reserve->damage().empty()) return "reserve: " + left->reserve->damage();
  return memory.damage();
}

std::string check_inference(const Backend& backend, const NormCase& c, const NormValues& v, const Descriptors& d) {
  const norm::Problem& p = c.infer;
  const ForwardExpected expected = naive_forward(c, v, true);
  Memory memory(backend, c.misaligned);
  const DeviceTensor& x = memory.add(p.x, v.x, false);
  const void* const z = adds(p) ? memory.add(p.z, v.z, false).data() : nullptr;
  const DeviceTensor& y = memory.add(p.y, v.y, true);
  const DeviceTensor& scale = memory.add(p.params, v.scale, false);
  const DeviceTensor& bias = memory.add(p.params, v.bias, false);
  const DeviceTensor& mean = memory.add(p.stats, v.mean, false);
  const DeviceTensor& variance = memory.add(p.stats, v.variance, false);
  const Scalar alpha(c.alpha, p.x.type);
  const Scalar beta(c.beta, p.x.type);
  const bool plain = c.plain && p.ops == GPUDNN_BATCHNORM_OPS_BN;
  const gpudnnStatus_t status =
      plain ? gpudnnBatchNormalizationForwardInference(backend.handle(), mode_of(p), alpha, beta, d.x, x.data(), d.y,
                                                       y.data(), d.params, scale.data(), bias.data(), mean.data(),
                                                       variance.data(), p.epsilon)
            : gpudnnNormalizationForwardInference(
                  backend.handle(), p.per_activation ? GPUDNN_NORM_PER_ACTIVATION : GPUDNN_NORM_PER_CHANNEL,
                  static_cast<gpudnnNormOps_t>(p.ops), GPUDNN_NORM_ALGO_STANDARD, alpha, beta, d.x, x.data(), d.params,
                  scale.data(), bias.data(), d.stats, mean.data(), variance.data(), d.z, z, d.activation, d.y, y.data(),
                  p.epsilon, 1);
  if (status != GPUDNN_STATUS_SUCCESS) return failure("inference", status);
  if (std::string text = compared("inference", y, expected.y); !text.empty()) return text;
  return memory.damage();
}

std::string check_backward(const Backend& backend, const NormCase& c, const NormValues& v, const Descriptors& d,
                           const ForwardExpected& forward, Left* left) {
  const norm::Problem& p = c.backward;
  const gpudnnHandle_t h = backend.handle();
  const gpudnnBatchNormMode_t mode = mode_of(p);
  const bool saved = p.saved && !left->mean.empty();
  if (!saved) left->mean.clear();
  const BackwardExpected expected = naive_backward(c, v, forward.passes, left->mean, left->inverse);
  Memory memory(backend, c.misaligned);
  const DeviceTensor& x = memory.add(p.x, v.x, false);
  const DeviceTensor& dy = memory.add(p.dy, v.dy, false);
  const DeviceTensor& dx = memory.add(p.dx, v.dx, true);
  const DeviceTensor* const dz = adds(p) ? &memory.add(p.dz, {}, true) : nullptr;
  const DeviceTensor& scale = memory.add(p.params, v.scale, false);
  const DeviceTensor& bias = memory.add(p.params, v.bias, false);
  const DeviceTensor& dscale = memory.add(p.params, v.dscale, true);
  const DeviceTensor& dbias = memory.add(p.params, v.dbias, true);
  const void* const mean = saved ? memory.add(p.stats, left->mean, false).data() : nullptr;
  const void* const inverse = saved ? memory.add(p.stats, left->inverse, false).data() : nullptr;
  const Scalar alpha(c.alpha, p.x.type), beta(c.beta, p.x.type);
  const Scalar alpha_param(c.alpha_param, p.x.type), beta_param(c.beta_param, p.x.type);
  gpudnnStatus_t status;
  if (c.plain && p.ops == GPUDNN_BATCHNORM_OPS_BN) {
    status = gpudnnBatchNormalizationBackward(h, mode, alpha, beta, alpha_param, beta_param, d.x, x.data(), d.dy,
                                              dy.data(), d.dx, dx.data(), d.params, scale.data(), dscale.data(),
                                              dbias.data(), p.epsilon, mean, inverse);
  } else {
    std::size_t bytes = 0;
    status = gpudnnGetBatchNormalizationBackwardExWorkspaceSize(h, mode, p.ops, d.x, d.y, d.dy, d.dz, d.dx, d.params,
                                                                d.activation, &bytes);
    if (status != GPUDNN_STATUS_SUCCESS) return failure("the workspace query", status);
    if (c.without_workspace) bytes = 0;
    const GuardedBuffer workspace(backend, bytes);
    status = gpudnnBatchNormalizationBackwardEx(
        h, mode, p.ops, alpha, beta, alpha_param, beta_param, d.x, x.data(), d.y, nullptr, d.dy, dy.data(), d.dz,
        dz != nullptr ? dz->data() : nullptr, d.dx, dx.data(), d.params, scale.data(), bias.data(), dscale.data(),
        dbias.data(), p.epsilon, mean, inverse, d.activation, workspace.data(), bytes, left->reserve->data(),
        left->reserve_bytes);
    if (status == GPUDNN_STATUS_SUCCESS && !workspace.damage().empty()) return "workspace: " + workspace.damage();
  }
  if (status != GPUDNN_STATUS_SUCCESS) return failure("backward", status);
  if (std::string text = compared("dx", dx, expected.dx); !text.empty()) return text;
  if (std::string text = compared("dscale", dscale, expected.dscale); !text.empty()) return text;
  if (std::string text = compared("dbias", dbias, expected.dbias); !text.empty()) return text;
  if (dz != nullptr) {
    if (std::string text = compared("dz", *dz, expected.dz); !text.empty()) return text;
  }
  return memory.damage();
}

}  // namespace

std::string describe(const NormCase& c) {
  return to_text(c.forward) + " | " + to_text(c.backward) + " | alpha=" + std::to_string(c.alpha) +
         " beta=" + std::to_string(c.beta) + " mean=" + std::to_string(c.mean) +
         " deviation=" + std::to_string(c.deviation) + (c.plain ? " plain" : "") +
         (c.without_workspace ? " without workspace" : "") + (c.misaligned ? " misaligned" : "") +
         " seed=" + std::to_string(c.seed);
}

NormCase norm_case(const std::string& train_line) {
  std::string why;
  const auto problem = norm::from_text(train_line, &why);
  if (!problem) throw std::runtime_error(train_line + ": " + why);
  NormCase c;
  c.forward = c.infer = c.backward = *problem;
  c.infer.pass = norm::Pass::infer;
  c.backward.pass = norm::Pass::backward;
  c.backward.dy = c.backward.dx = problem->y;
  if (adds(*problem)) c.backward.dz = problem->z;
  return c;
}

NormCase random_norm(Random& random) {
  NormCase c;
  norm::Problem& p = c.forward;
  p.per_activation = random.chance(0.3);
  p.ops = random.pick({GPUDNN_BATCHNORM_OPS_BN, GPUDNN_BATCHNORM_OPS_BN, GPUDNN_BATCHNORM_OPS_BN_ACTIVATION,
                       GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION});
  p.mode = random.pick(
      {GPUDNN_ACTIVATION_RELU, GPUDNN_ACTIVATION_RELU, GPUDNN_ACTIVATION_CLIPPED_RELU, GPUDNN_ACTIVATION_IDENTITY});
  p.coef = p.mode == GPUDNN_ACTIVATION_CLIPPED_RELU ? 1.5 : 0;
  p.epsilon = random.pick({1e-5, 1e-3, 0.1});
  p.running = random.chance(0.7);
  p.saved = random.chance(0.7);
  SoftmaxCase shape = random_softmax(random);  // images of every type, and long and narrow ones
  p.x = shape.problem.y;
  p.y = p.z = p.x;
  if (random.chance(0.3)) set_random_layout(random, &p.y);
  if (random.chance(0.3)) set_random_layout(random, &p.z);
  p.params = p.stats = norm::parameter_geometry(p.x, p.per_activation);
  c.infer = c.backward = p;
  c.infer.pass = norm::Pass::infer;
  c.backward.pass = norm::Pass::backward;
  c.backward.saved = random.chance(0.7);
  c.backward.dy = p.y;
  c.backward.dx = c.backward.dz = p.x;
  if (random.chance(0.3)) set_random_layout(random, &c.backward.dx);
  if (random.chance(0.3)) set_random_layout(random, &c.backward.dz);
  c.alpha = random.pick({1.0, 1.0, -2.0, 0.5});
  c.beta = random.pick({0.0, 0.0, 0.25});
  c.alpha_param = random.pick({1.0, 1.0, 2.0});
  c.beta_param = random.pick({0.0, 0.0, 0.5});
  c.factor = random.pick({0.1, 1.0, 0.5, 0.0});
  c.mean = random.pick({0.0, 1.0, -3.0, 100.0});
  c.deviation = random.pick({1.0, 0.5, 4.0});
  c.plain = random.chance(0.4);
  c.without_workspace = random.chance(0.3);
  c.misaligned = random.chance(0.2);
  c.seed = random.bits() >> 16;
  return c;
}

NormValues make_values(const NormCase& c) {
  const norm::Problem& p = c.forward;
  Random random(c.seed);
  NormValues v;
  v.x = normals(random, p.x, c.mean, c.deviation);
  if (adds(p)) v.z = normals(random, p.x, 0, 1);
  v.dy = normals(random, p.x, 0.25, 1);
  v.scale = normals(random, p.params, 1, 0.5);
  v.bias = normals(random, p.params, 0, 0.7);
  v.mean = normals(random, p.stats, c.mean, 0.5);
  v.variance = normals(random, p.stats, 0, 1);
  for (double& value : v.variance) value = round_to_type(std::fabs(value) + 0.5, p.stats.type);
  if (c.beta != 0) {
    v.y = normals(random, p.x, 0, 1);
    v.dx = normals(random, p.x, 0, 1);
  }
  if (c.beta_param != 0) {
    v.dscale = normals(random, p.params, 0, 1);
    v.dbias = normals(random, p.params, 0, 1);
  }
  return v;
}

std::string check(const Backend& backend, const NormCase& given) {
  NormCase c = given;
  NormValues v = make_values(c);
  ForwardExpected expected = naive_forward(c, v, false);
  // Other data where rounding would decide a slope; a few tries find some.
  for (int i = 0; i < 50 && expected.doubtful; ++i) {
    c.seed += 0x10001;
    v = make_values(c);
    expected = naive_forward(c, v, false);
  }
  const Descriptors d(c);
  Left left;
  if (std::string text = check_forward(backend, c, v, d, expected, &left); !text.empty()) return text;
  if (std::string text = check_inference(backend, c, v, d); !text.empty()) return text;
  if (expected.doubtful) return {};  // too many elements for each to keep clear of the kink
  return check_backward(backend, c, v, d, expected, &left);
}

}  // namespace gpudnn::test
