// Layer normalization for the tests. The oracle's bounds are derived in docs/numerics.md.
// SPDX-License-Identifier: Apache-2.0
#include "support/layer_norm.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <stdexcept>

#include "support/naive.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

using layer_norm::Mode;
using layer_norm::Pass;
using layer_norm::Problem;

std::vector<double> draw(Random* random, const TensorGeometry& geometry, double offset, double magnitude) {
  std::vector<double> values(geometry.rank == 0 ? 0 : static_cast<std::size_t>(element_count(geometry)));
  for (double& value : values) value = round_to_type(offset + magnitude * random->normal(), geometry.type);
  return values;
}

// For each element of x its set (the index along the dimensions in `kept`, row-major).
std::vector<std::size_t> index_along(const TensorGeometry& x, std::uint32_t kept) {
  std::vector<std::size_t> result(static_cast<std::size_t>(element_count(x)));
  for (std::size_t i = 0; i < result.size(); ++i) {
    auto rest = static_cast<std::int64_t>(i);
    std::int64_t at = 0;
    std::int64_t step = 1;
    for (int d = x.rank - 1; d >= 0; --d) {
      const std::int64_t coordinate = rest % x.dims[d];
      rest /= x.dims[d];
      if ((kept >> d & 1u) == 0) continue;
      at += coordinate * step;
      step *= x.dims[d];
    }
    result[i] = static_cast<std::size_t>(at);
  }
  return result;
}

std::int64_t extent(const TensorGeometry& x, std::uint32_t dims) {
  std::int64_t product = 1;
  for (int d = 0; d < x.rank; ++d)
    if ((dims >> d & 1u) != 0) product *= x.dims[d];
  return product;
}

// Roundings of a sum of n terms on the device: the terms of a thread one after the other, then a tree.
double sum_roundings(double n) { return 48 + n / 256; }

struct Sets {
  std::vector<std::size_t> set, parameter;
  std::size_t count, parameters;
  double length;
  explicit Sets(const Problem& p)
      : set(index_along(p.x, ~p.axes)),
        parameter(index_along(p.x, p.by)),
        count(static_cast<std::size_t>(extent(p.x, ~p.axes))),
        parameters(static_cast<std::size_t>(extent(p.x, p.by))),
        length(static_cast<double>(extent(p.x, p.axes))) {}
};

void size_to(Expected* expected, std::size_t count) {
  expected->value.assign(count, 0);
  expected->slack.assign(count, 0);
}

void forward(const Problem& p, const LayerNormValues& v, const Sets& s, LayerNormExpected* e) {
  const double u = unit_roundoff(compute_type(p.x.type));
  const double c = sum_roundings(s.length);
  size_to(&e->mean, s.count);
  size_to(&e->inverse, s.count);
  size_to(&e->out, v.x.size());
  std::vector<double> sizes(s.count);
  std::vector<double> squares(s.count);
  for (std::size_t i = 0; i < v.x.size(); ++i) {
    e->mean.value[s.set[i]] += v.x[i] / s.length;
    sizes[s.set[i]] += std::fabs(v.x[i]) / s.length;
  }
  if (p.mode == Mode::rms) {
    std::fill(e->mean.value.begin(), e->mean.value.end(), 0);
    std::fill(sizes.begin(), sizes.end(), 0);
  }
  for (std::size_t i = 0; i < v.x.size(); ++i) {
    const double distance = v.x[i] - e->mean.value[s.set[i]];
    squares[s.set[i]] += distance * distance / s.length;
  }
  for (std::size_t k = 0; k < s.count; ++k) {
    const double deviation2 = squares[k] + p.epsilon;
    e->mean.slack[k] = c * u * sizes[k];
    e->inverse.value[k] = 1 / std::sqrt(deviation2);
    const double drift = e->mean.slack[k];
    // (var + drift^2)(1 + c u): half of the relative error, and 4 roundings of the root.
    if (std::isinf(deviation2)) continue;  // 0 exactly
    e->inverse.slack[k] =
        e->inverse.value[k] * ((drift * drift + c * u * (squares[k] + drift * drift)) / deviation2 / 2 + 4 * u);
  }
  for (std::size_t i = 0; i < v.x.size(); ++i) {
    const std::size_t k = s.set[i];
    const double distance = v.x[i] - e->mean.value[k];
    const double xhat = distance * e->inverse.value[k];
    const double scale = v.scale.empty() ? 1 : v.scale[s.parameter[i]];
    const double bias = v.bias.empty() ? 0 : v.bias[s.parameter[i]];
    e->out.value[i] = scale * xhat + bias;
    const double of_xhat =
        e->mean.slack[k] * e->inverse.value[k] + std::fabs(distance) * e->inverse.slack[k] + 4 * u * std::fabs(xhat);
    e->out.slack[i] = std::fabs(scale) * of_xhat + 2 * u * (std::fabs(scale * xhat) + std::fabs(bias));
  }
}

void backward(const Problem& p, const LayerNormValues& v, const Sets& s, LayerNormExpected* e) {
  const double u = unit_roundoff(compute_type(p.x.type));
  const double c = sum_roundings(s.length);
  const double summed = static_cast<double>(v.x.size()) / static_cast<double>(s.parameters);
  const double of_parameters = sum_roundings(summed) + 64;
  size_to(&e->out, v.x.size());
  size_to(&e->dscale, s.parameters);
  size_to(&e->dbias, s.parameters);
  std::vector<double> sum(s.count), product(s.count), sum_size(s.count), product_size(s.count);
  const auto mean_of = [&](std::size_t i) { return v.mean.empty() ? 0 : v.mean[s.set[i]]; };
  const auto gradient_of = [&](std::size_t i) { return v.dy[i] * (v.scale.empty() ? 1 : v.scale[s.parameter[i]]); };
  for (std::size_t i = 0; i < v.x.size(); ++i) {
    const double xhat = (v.x[i] - mean_of(i)) * v.inverse[s.set[i]];
    const double g = gradient_of(i);
    sum[s.set[i]] += g / s.length;
    product[s.set[i]] += g * xhat / s.length;
    sum_size[s.set[i]] += std::fabs(g) / s.length;
    product_size[s.set[i]] += std::fabs(g * xhat) / s.length;
    e->dscale.value[s.parameter[i]] += v.dy[i] * xhat;
    e->dscale.slack[s.parameter[i]] += of_parameters * u * std::fabs(v.dy[i] * xhat);
    e->dbias.value[s.parameter[i]] += v.dy[i];
    e->dbias.slack[s.parameter[i]] += of_parameters * u * std::fabs(v.dy[i]);
  }
  for (std::size_t i = 0; i < v.x.size(); ++i) {
    const std::size_t k = s.set[i];
    const double xhat = (v.x[i] - mean_of(i)) * v.inverse[k];
    const double g = gradient_of(i);
    const bool rms = p.mode == Mode::rms;
    e->out.value[i] = v.inverse[k] * (g - (rms ? 0 : sum[k]) - xhat * product[k]);
    e->out.slack[i] = std::fabs(v.inverse[k]) * (c + 6) * u *
                      (std::fabs(g) + (rms ? 0 : sum_size[k]) + std::fabs(xhat) * product_size[k]);
  }
}

// A layout whose rows begin anywhere, or in which they are not contiguous.
void scramble(Random& random, TensorGeometry* tensor) {
  int order[kMaxRank];
  for (int i = 0; i < tensor->rank; ++i) order[i] = i;
  if (random.chance(0.3))
    for (int i = tensor->rank - 1; i > 0; --i) std::swap(order[i], order[random.between(0, i)]);
  std::int64_t step = random.chance(0.2) ? 2 : 1;
  for (int i = tensor->rank - 1; i >= 0; --i) {
    tensor->strides[order[i]] = step;
    step = step * tensor->dims[order[i]] + (random.chance(0.3) ? random.between(1, 9) : 0);
  }
}

}  // namespace

std::string describe(const LayerNormCase& c) {
  return to_text(c.problem) + " | seed=" + std::to_string(c.seed) + " offset=" + std::to_string(c.offset) +
         " magnitude=" + std::to_string(c.magnitude);
}

LayerNormCase random_layer_norm(Random& random) {
  constexpr const char* kModes[] = {"layer", "rms", "instance", "group", "ada"};
  constexpr const char* kPasses[] = {"infer", "train", "bwd"};
  const std::string mode = kModes[random.between(0, 4)];
  const std::string pass = kPasses[random.between(0, 2)];
  const std::string type = random.pick({"f16", "bf16", "f32", "f32", "f64"});
  std::string line = "layer_norm " + mode + ' ' + pass + ' ' + type;
  const auto length = [&] {
    return random.chance(0.5) ? random.between(1, 300)
                              : 8 * random.pick<std::int64_t>({1, 2, 3, 16, 24, 48, 96, 128, 192, 256, 384, 512, 1030});
  };
  const std::int64_t rows = random.between(1, 40);
  if (mode == "layer" || mode == "rms") {
    line += random.chance(0.7) ? " nchw " + std::to_string(rows) + 'x' + std::to_string(length())
                               : " nchw n" + std::to_string(rows) + "c" + std::to_string(random.between(1, 70)) + "h" +
                                     std::to_string(random.between(1, 6)) + "w8";
  } else if (mode == "ada") {
    line += " nchw n" + std::to_string(random.between(1, 4)) + "c" + std::to_string(random.between(1, 9)) + "w" +
            std::to_string(length());
  } else {
    const std::int64_t groups = random.between(1, 5);
    line += random.chance(0.5) ? " nchw n" : " nhwc n";
    line += std::to_string(random.between(1, 4)) + "c" + std::to_string(groups * random.between(1, 8)) + "h" +
            std::to_string(random.between(1, 9)) + "w" + std::to_string(random.pick({1, 3, 4, 8, 16, 40}));
    if (mode == "group") line += " groups=" + std::to_string(groups);
  }
  const bool wide = type == "f64";
  const auto narrow = [&] { return std::string(random.pick({"f16", "bf16", "f32"})); };
  if (random.chance(0.3)) line += " out=" + (wide ? "f64" : pass != "bwd" && random.chance(0.3) ? "f8e4m3" : narrow());
  if (pass == "bwd" && random.chance(0.2)) line += " dy=" + (wide ? "f64" : narrow());
  if (random.chance(0.5)) line += " params=" + (wide ? "f64" : narrow());
  if (pass != "bwd" && random.chance(0.2)) line += " bias=" + (wide ? "f64" : narrow());
  if (random.chance(0.2)) line += " stats=" + (wide ? "f64" : narrow());
  if (pass == "bwd" && random.chance(0.2)) line += " grads=" + (wide ? "f64" : narrow());
  if (random.chance(0.3)) line += " eps=0.001";
  if (random.chance(0.15)) line += " noscale";
  if (pass != "bwd" && random.chance(0.25)) line += " nobias";
  if (pass == "bwd" && random.chance(0.15)) line += " nodscale";
  if (pass == "bwd" && random.chance(0.25)) line += " nodbias";
  LayerNormCase c;
  std::string why;
  const auto problem = layer_norm::from_text(line, &why);
  if (!problem) throw std::runtime_error(line + ": " + why);
  c.problem = *problem;
  if (random.chance(0.2))
    for (TensorGeometry* tensor : {&c.problem.x, &c.problem.out, &c.problem.dy})
      if (tensor->rank > 0 && mode != "group") scramble(random, tensor);
  c.seed = random.bits();
  c.offset = random.pick({0.0, 0.0, 1.0, -30.0});
  c.magnitude = random.pick({1.0, 1.0, 0.01, 50.0});
  return c;
}

LayerNormValues make_values(const LayerNormCase& c) {
  const Problem& p = c.problem;
  Random random(c.seed);
  LayerNormValues v;
  v.x = draw(&random, p.x, c.offset, c.magnitude);
  for (const std::int64_t place : c.places) v.x[static_cast<std::size_t>(place)] = round_to_type(c.placed, p.x.type);
  v.dy = draw(&random, p.dy, 0, 1);
  v.scale = draw(&random, p.scale, 1, 0.5);
  v.bias = draw(&random, p.bias, 0, 1);
  if (!p.backward()) return v;
  // The statistics of forward, as their type holds them.
  LayerNormExpected statistics;
  forward(p, {v.x, {}, {}, {}, {}, {}}, Sets(p), &statistics);
  v.inverse = statistics.inverse.value;
  for (double& value : v.inverse) value = round_to_type(value, p.inverse.type);
  if (p.mean.rank == 0) return v;
  v.mean = statistics.mean.value;
  for (double& value : v.mean) value = round_to_type(value, p.mean.type);
  return v;
}

// GELU of what was expected, by engines that round at once (kernels/tile/rounded_math.cuh has their errors).
static void activate(const Problem& p, Expected* y) {
  if (p.around.activation == kernels::matmul::Activation::identity) return;
  if (p.around.activation != kernels::matmul::Activation::gelu) throw std::invalid_argument("no reference for it");
  for (std::size_t i = 0; i < y->value.size(); ++i) {
    const double x = y->value[i];
    y->value[i] = 0.5 * x * std::erfc(-x * std::sqrt(0.5));
    y->slack[i] = 1.13 * y->slack[i] + 0x1p-13 * std::abs(y->value[i]) + 0x1p-30 * std::abs(x);
  }
}

LayerNormExpected naive(const LayerNormCase& c, const LayerNormValues& values) {
  LayerNormExpected expected;
  const Sets sets(c.problem);
  if (c.problem.backward()) {
    backward(c.problem, values, sets, &expected);
  } else {
    forward(c.problem, values, sets, &expected);
    activate(c.problem, &expected.out);
  }
  return expected;
}

std::string check(const Backend& backend, const LayerNormEngine& engine, const LayerNormCase& c,
                  const LayerNormValues& values, const LayerNormExpected& expected, const LayerNormOptions& options) {
  const Problem& p = c.problem;
  std::vector<std::unique_ptr<DeviceTensor>> inputs;
  const auto input = [&](const TensorGeometry& tensor, const std::vector<double>& data) -> const void* {
    if (tensor.rank == 0) return nullptr;
    inputs.push_back(std::make_unique<DeviceTensor>(backend, tensor, &data, options.misaligned));
    return inputs.back()->data();
  };
  struct Output {
    const char* name;
    std::unique_ptr<DeviceTensor> tensor;
    const Expected* expected;
  };
  std::vector<Output> outputs;
  const auto output = [&](const char* name, const TensorGeometry& tensor, const Expected& of) -> void* {
    if (tensor.rank == 0) return nullptr;
    outputs.push_back({name, std::make_unique<DeviceTensor>(backend, tensor, nullptr, options.misaligned), &of});
    return outputs.back().tensor->data();
  };
  layer_norm::Args args;
  args.x = input(p.x, values.x);
  args.dy = input(p.dy, values.dy);
  args.scale = input(p.scale, values.scale);
  args.bias = input(p.bias, values.bias);
  if (p.backward()) {
    args.saved_mean = input(p.mean, values.mean);
    args.saved_inverse = input(p.inverse, values.inverse);
  } else {
    args.mean = output("mean", p.mean, expected.mean);
    args.inverse = output("inverse", p.inverse, expected.inverse);
  }
  args.out = output(p.backward() ? "dx" : "y", p.out, expected.out);
  args.dscale = output("dscale", p.dscale, expected.dscale);
  args.dbias = output("dbias", p.dbias, expected.dbias);
  const LaunchSite actual = launch_site(backend.handle());
  Device device = actual.device;
  if (options.multiprocessors > 0) device.multiprocessors = options.multiprocessors;
  const LaunchSite site = {device, actual.stream};
  const std::size_t bytes = options.without_workspace ? 0 : layer_norm::workspace_bytes(site.device, p);
  const GuardedBuffer workspace(backend, bytes);
  args.workspace = workspace.data();
  args.workspace_bytes = bytes;
  const cuda::DeviceScope scope(site.device);
  const auto launch = [&]() -> std::string {
    const Status status = engine.launch(site, p, args);
    if (status == GPUDNN_STATUS_SUCCESS) return {};
    return std::string(gpudnnGetErrorString(status)) + ": " + take_error_text();
  };
  using Images = std::vector<std::vector<unsigned char>>;
  const auto images = [&] {
    Images result;
    if (options.runs > 1)
      for (const Output& o : outputs) result.push_back(o.tensor->image());
    return result;
  };
  const Images poison = images();
  if (std::string failure = launch(); !failure.empty()) return failure;
  for (const auto& tensor : inputs)
    if (const std::string damage = tensor->damage_anywhere(); !damage.empty()) return "an input: " + damage;
  for (const Output& o : outputs) {
    std::string wrong = o.tensor->damage_outside_elements();
    if (wrong.empty()) wrong = mismatch(o.tensor->geometry(), o.tensor->values(), *o.expected);
    if (!wrong.empty()) return std::string(o.name) + ": " + wrong;
  }
  const Images first = images();
  for (int run = 2; run <= options.runs; ++run) {
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (gpudnnMemcpy(backend.handle(), outputs[i].tensor->data(), poison[i].data(), poison[i].size(),
                       GPUDNN_MEMCPY_HOST_TO_DEVICE) != GPUDNN_STATUS_SUCCESS)
        return "an output cannot be written: " + take_error_text();
    }
    if (std::string failure = launch(); !failure.empty()) return failure;
    if (images() != first) return "run " + std::to_string(run) + " differs";
  }
  return workspace.damage().empty() ? std::string{} : "workspace: " + workspace.damage();
}

}  // namespace gpudnn::test
