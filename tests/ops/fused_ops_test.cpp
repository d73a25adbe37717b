// Fused operation plans through the public interface, against nested loops.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "support/fused.hpp"
#include "support/naive.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

// One random problem of the patterns with a convolution: all data small integers, so that every sum is exact.
struct ConvFusion {
  gpudnnDataType_t type;
  gpudnnDataType_t vector_type;
  int n, c, k, h, w, r, pad, stride;
  bool nhwc, gaps;
  bool scale, bias, add, z_scale, z_bias, in_place;
  int act;  // 0: none, 1: ReLU, 2: clipped ReLU
  bool sums, squares;
  std::uint64_t seed;
};

std::string describe(const ConvFusion& f) {
  std::string text = "type=" + std::to_string(f.type) + " vectors=" + std::to_string(f.vector_type);
  const std::pair<const char*, int> numbers[] = {{"n", f.n},
                                                 {"c", f.c},
                                                 {"k", f.k},
                                                 {"h", f.h},
                                                 {"w", f.w},
                                                 {"r", f.r},
                                                 {"pad", f.pad},
                                                 {"u", f.stride},
                                                 {"nhwc", f.nhwc},
                                                 {"gaps", f.gaps},
                                                 {"scale", f.scale},
                                                 {"bias", f.bias},
                                                 {"add", f.add},
                                                 {"zscale", f.z_scale},
                                                 {"zbias", f.z_bias},
                                                 {"inplace", f.in_place},
                                                 {"act", f.act},
                                                 {"sums", f.sums},
                                                 {"squares", f.squares}};
  for (const auto& [name, value] : numbers) text += std::string(" ") + name + '=' + std::to_string(value);
  return text;
}

ConvFusion random_fusion(Random& random) {
  ConvFusion f{};
  f.type = random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_DOUBLE});
  f.vector_type = f.type == GPUDNN_DATA_DOUBLE ? random.pick({GPUDNN_DATA_DOUBLE, GPUDNN_DATA_FLOAT})
                                               : random.pick({GPUDNN_DATA_FLOAT, f.type});
  const auto number = [&](int low, int high) { return static_cast<int>(random.between(low, high)); };
  f.n = number(1, 3);
  f.c = random.chance(0.5) ? 8 * number(1, 2) : number(1, 11);
  if (f.type == GPUDNN_DATA_BFLOAT16 && f.c > 14) f.c = 8;  // bf16 counts to 256: 14 * 9 products of up to 2
  f.k = random.chance(0.5) ? 8 * number(1, 8) : number(1, 35);
  f.r = random.pick({1, 3});
  f.h = number(f.r, 8);
  f.w = number(f.r, 8);
  f.pad = number(0, f.r / 2);
  f.stride = number(1, 2);
  f.nhwc = random.chance(0.6);
  f.gaps = random.chance(0.2);
  f.scale = random.chance(0.6);
  f.bias = random.chance(0.6);
  f.add = random.chance(0.6);
  f.z_scale = f.add && random.chance(0.3);
  f.z_bias = f.add && random.chance(0.3);
  f.in_place = f.add && random.chance(0.3);
  f.act = number(0, 2);
  f.sums = random.chance(0.8);
  f.squares = random.chance(0.8);
  f.seed = random.bits();
  return f;
}

constexpr double kCeiling = 5;

double f_of(int act, double v) {
  if (act == 0) return v;
  const double positive = v > 0 ? v : 0;
  return act == 2 && positive > kCeiling ? kCeiling : positive;
}
void set_activation(Fused* fused, int act) {
  if (act == 1) fused->activate(GPUDNN_ACTIVATION_RELU);
  if (act == 2) fused->activate(GPUDNN_ACTIVATION_CLIPPED_RELU, kCeiling);
}

// scale[c] * x + bias[c]; empty vectors stand for 1 and 0.
Values4 affine(const TensorGeometry& g, const Values4& x, const Values4& scale, const Values4& bias) {
  Values4 result(x.size());
  const auto pixels = static_cast<std::size_t>(g.dims[2] * g.dims[3]);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = i / pixels % static_cast<std::size_t>(g.dims[1]);
    result[i] = (scale.empty() ? 1 : scale[c]) * x[i] + (bias.empty() ? 0 : bias[c]);
  }
  return result;
}

// visit(x index, w index, y index) for each product of the convolution.
template <class Visit>
void each_product(const ConvFusion& f, int p, int q, Visit visit) {
  const auto at = [](int n, int c, int h, int w, int channels, int height, int width) {
    return static_cast<std::size_t>(((n * channels + c) * height + h) * width + w);
  };
  for (int n = 0; n < f.n; ++n)
    for (int k = 0; k < f.k; ++k)
      for (int i = 0; i < p; ++i)
        for (int j = 0; j < q; ++j)
          for (int c = 0; c < f.c; ++c)
            for (int r = 0; r < f.r; ++r)
              for (int s = 0; s < f.r; ++s) {
                const int h = i * f.stride + r - f.pad;
                const int w = j * f.stride + s - f.pad;
                if (h < 0 || h >= f.h || w < 0 || w >= f.w) continue;
                visit(at(n, c, h, w, f.c, f.h, f.w), at(k, c, r, s, f.c, f.r, f.r), at(n, k, i, j, f.k, p, q));
              }
}

// Everything about a fusion's tensors: shapes, values and, of the input side, what the convolution reads.
struct Data {
  explicit Data(const ConvFusion& f) : random(f.seed) {
    p = (f.h + 2 * f.pad - f.r) / f.stride + 1;
    q = (f.w + 2 * f.pad - f.r) / f.stride + 1;
    x = geometry(f.type, f.nhwc, f.gaps, f.n, f.c, f.h, f.w);
    w = geometry(f.type, f.nhwc, false, f.k, f.c, f.r, f.r);
    y = geometry(f.type, f.nhwc, f.gaps, f.n, f.k, p, q);
    x_values = integers(&random, x, 0, 1);
    w_values = integers(&random, w, -1, 1);
    if (f.type != GPUDNN_DATA_BFLOAT16) x_values = integers(&random, x, -3, 3);
  }
  Values4 vector(const ConvFusion& f, int channels, bool wanted) {
    return wanted ? integers(&random, vector_geometry(f.vector_type, channels), -1, 1) : Values4{};
  }

  Random random;
  int p, q;
  TensorGeometry x, w, y;
  Values4 x_values, w_values;
};

void give_vector(Fused* fused, const ConvFusion& f, int channels, gpudnnFusedOpsConstParamLabel_t desc,
                 gpudnnFusedOpsConstParamLabel_t placeholder, gpudnnFusedOpsVariantParamLabel_t label,
                 const Values4& values) {
  if (values.empty()) return;
  fused->describe(desc, vector_geometry(f.vector_type, channels));
  fused->tensor(placeholder, label, vector_geometry(f.vector_type, channels), values);
}

void give_scale_and_bias(Fused* fused, const ConvFusion& f, int channels, const Values4& scale, const Values4& bias) {
  give_vector(fused, f, channels, GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER,
              GPUDNN_PTR_BN_EQSCALE, scale);
  give_vector(fused, f, channels, GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_EQBIAS_PLACEHOLDER,
              GPUDNN_PTR_BN_EQBIAS, bias);
}

void give_x(Fused* fused, const Data& d) {
  fused->describe(GPUDNN_PARAM_XDESC, d.x);
  fused->tensor(GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA, d.x, d.x_values);
}

std::string check_conv_with_statistics(const ConvFusion& f) {
  Data d(f);
  const Values4 scale = d.vector(f, f.c, f.scale);
  const Values4 bias = d.vector(f, f.c, f.bias);
  Values4 input = affine(d.x, d.x_values, scale, bias);
  for (double& value : input) value = f_of(f.act, value);
  Values4 y(static_cast<std::size_t>(element_count(d.y)));
  each_product(f, d.p, d.q, [&](std::size_t x, std::size_t w, std::size_t at) { y[at] += input[x] * d.w_values[w]; });
  Fused fused(Backend::at_hand(), GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS);
  fused.convolve(f.pad, f.stride, compute_type(f.type));
  give_x(&fused, d);
  give_scale_and_bias(&fused, f, f.c, scale, bias);
  set_activation(&fused, f.act);
  fused.describe(GPUDNN_PARAM_WDESC, d.w);
  fused.tensor(GPUDNN_PARAM_WDATA_PLACEHOLDER, GPUDNN_PTR_WDATA, d.w, d.w_values);
  fused.describe(GPUDNN_PARAM_YDESC, d.y);
  const auto out = fused.tensor(GPUDNN_PARAM_YDATA_PLACEHOLDER, GPUDNN_PTR_YDATA, d.y, {});
  const TensorGeometry stats = vector_geometry(compute_type(f.type), f.k);
  fused.describe(GPUDNN_PARAM_YSTATS_DESC, stats);
  std::shared_ptr<DeviceTensor> sums;
  std::shared_ptr<DeviceTensor> squares;
  if (f.sums) sums = fused.tensor(GPUDNN_PARAM_YSUM_PLACEHOLDER, GPUDNN_PTR_YSUM, stats, {});
  if (f.squares) squares = fused.tensor(GPUDNN_PARAM_YSQSUM_PLACEHOLDER, GPUDNN_PTR_YSQSUM, stats, {});
  if (const std::string wrong = fused.run(); !wrong.empty()) return wrong;
  if (const std::string wrong = mismatch(d.y, out->values(), exactly(y)); !wrong.empty()) return "y: " + wrong;
  Values4 sum(static_cast<std::size_t>(f.k));
  Expected square{Values4(sum.size()), Values4(sum.size())};
  for (std::size_t i = 0; i < y.size(); ++i) {
    const std::size_t k = i / static_cast<std::size_t>(d.p * d.q) % sum.size();
    sum[k] += y[i];
    square.value[k] += y[i] * y[i];
  }
  for (std::size_t k = 0; k < sum.size(); ++k) {
    // The norm's error, of small integers 3u with its rounding, counts twice; beyond 2^24 sums of them round as well.
    const double terms = static_cast<double>(y.size()) / static_cast<double>(f.k);
    const double rounds = square.value[k] >= 0x1p24 ? 4 + 4 * std::sqrt(terms) : 0;
    square.slack[k] = (6 + rounds) * unit_roundoff(compute_type(f.type)) * square.value[k];
  }
  if (f.sums) {
    if (const std::string wrong = mismatch(stats, sums->values(), exactly(sum)); !wrong.empty()) return "sum: " + wrong;
  }
  if (!f.squares) return {};
  const std::string wrong = mismatch(stats, squares->values(), square);
  return wrong.empty() ? wrong : "squares: " + wrong;
}

std::string check_filter_gradient(const ConvFusion& f) {
  Data d(f);
  const Values4 scale = d.vector(f, f.c, f.scale);
  const Values4 bias = d.vector(f, f.c, f.bias);
  Values4 input = affine(d.x, d.x_values, scale, bias);
  for (double& value : input) value = f_of(f.act, value);
  const Values4 dy = integers(&d.random, d.y, -1, 1);
  Values4 dw(d.w_values.size());
  each_product(f, d.p, d.q, [&](std::size_t x, std::size_t w, std::size_t at) { dw[w] += input[x] * dy[at]; });
  Fused fused(Backend::at_hand(), GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_WGRAD);
  fused.convolve(f.pad, f.stride, compute_type(f.type));
  give_x(&fused, d);
  give_scale_and_bias(&fused, f, f.c, scale, bias);
  set_activation(&fused, f.act);
  fused.describe(GPUDNN_PARAM_DYDESC, d.y);
  fused.tensor(GPUDNN_PARAM_DYDATA_PLACEHOLDER, GPUDNN_PTR_DYDATA, d.y, dy);
  fused.describe(GPUDNN_PARAM_DWDESC, d.w);
  const auto out = fused.tensor(GPUDNN_PARAM_DWDATA_PLACEHOLDER, GPUDNN_PTR_DWDATA, d.w, {});
  if (const std::string wrong = fused.run(); !wrong.empty()) return wrong;
  return mismatch(d.w, out->values(), exactly(dw));
}

// z, its vectors, and what they add.
struct Addend {
  Values4 values, scale, bias;
  Values4 sum;
};
Addend make_addend(const ConvFusion& f, Data* d) {
  Addend z;
  if (!f.add) return z;
  z.values = integers(&d->random, d->y, -2, 2);
  z.scale = d->vector(f, f.k, f.z_scale);
  z.bias = d->vector(f, f.k, f.z_bias);
  z.sum = affine(d->y, z.values, z.scale, z.bias);
  return z;
}
// Returns what holds z (null without one).
std::shared_ptr<DeviceTensor> give_addend(Fused* fused, const ConvFusion& f, const Data& d, const Addend& z) {
  if (!f.add) return nullptr;
  fused->describe(GPUDNN_PARAM_ZDESC, d.y);
  give_vector(fused, f, f.k, GPUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_Z_EQSCALE_PLACEHOLDER,
              GPUDNN_PTR_BN_Z_EQSCALE, z.scale);
  give_vector(fused, f, f.k, GPUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_Z_EQBIAS_PLACEHOLDER,
              GPUDNN_PTR_BN_Z_EQBIAS, z.bias);
  return fused->tensor(GPUDNN_PARAM_ZDATA_PLACEHOLDER, GPUDNN_PTR_ZDATA, d.y, z.values);
}

// y on memory of its own, or on z's.
std::shared_ptr<DeviceTensor> give_y(Fused* fused, const ConvFusion& f, const Data& d,
                                     const std::shared_ptr<DeviceTensor>& z) {
  fused->describe(GPUDNN_PARAM_YDESC, d.y);
  if (!f.in_place) return fused->tensor(GPUDNN_PARAM_YDATA_PLACEHOLDER, GPUDNN_PTR_YDATA, d.y, {});
  fused->promise(GPUDNN_PARAM_YDATA_PLACEHOLDER, GPUDNN_PTR_ELEM_ALIGNED);
  fused->set_pointer(GPUDNN_PTR_YDATA, z->data());
  fused->is_updated(z);
  return z;
}

std::string check_conv_with_epilogue(const ConvFusion& f) {
  Data d(f);
  const Values4 scale = d.vector(f, f.k, f.scale);
  const Values4 bias = d.vector(f, f.k, f.bias);
  const Addend z = make_addend(f, &d);
  Values4 y(static_cast<std::size_t>(element_count(d.y)));
  each_product(f, d.p, d.q,
               [&](std::size_t x, std::size_t w, std::size_t at) { y[at] += d.x_values[x] * d.w_values[w]; });
  y = affine(d.y, y, scale, bias);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = f_of(f.act, y[i] + (f.add ? z.sum[i] : 0));
  Fused fused(Backend::at_hand(), GPUDNN_FUSED_CONV_SCALE_BIAS_ADD_ACTIVATION);
  fused.convolve(f.pad, f.stride, compute_type(f.type));
  give_x(&fused, d);
  give_scale_and_bias(&fused, f, f.k, scale, bias);
  set_activation(&fused, f.act);
  fused.describe(GPUDNN_PARAM_WDESC, d.w);
  fused.tensor(GPUDNN_PARAM_WDATA_PLACEHOLDER, GPUDNN_PTR_WDATA, d.w, d.w_values);
  const auto out = give_y(&fused, f, d, give_addend(&fused, f, d, z));
  if (const std::string wrong = fused.run(); !wrong.empty()) return wrong;
  return mismatch(d.y, out->values(), exactly(y));
}

TensorGeometry bit_geometry(const TensorGeometry& y) {
  const std::int64_t words = (y.dims[1] + 31) / 32;
  return geometry(GPUDNN_DATA_INT32, false, false, 1, 1, static_cast<int>(y.dims[0] * y.dims[2] * y.dims[3]),
                  static_cast<int>(words));
}
// The words for one truth value per element of y.
Values4 words_of(const TensorGeometry& y, const std::vector<bool>& passes) {
  const std::int64_t words = (y.dims[1] + 31) / 32;
  std::vector<std::uint32_t> bits(static_cast<std::size_t>(element_count(bit_geometry(y))));
  const std::int64_t pixels = y.dims[2] * y.dims[3];
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(passes.size()); ++i) {
    const std::int64_t c = i / pixels % y.dims[1];
    const std::int64_t place = i / pixels / y.dims[1] * pixels + i % pixels;
    if (passes[static_cast<std::size_t>(i)]) bits[static_cast<std::size_t>(place * words + c / 32)] |= 1u << (c % 32);
  }
  Values4 values;
  for (const std::uint32_t word : bits) values.push_back(static_cast<std::int32_t>(word));
  return values;
}

// x here has the shape of y.
std::string check_bitmask(const ConvFusion& f) {
  Data d(f);
  const Values4 scale = d.vector(f, f.k, f.scale);
  const Values4 bias = d.vector(f, f.k, f.bias);
  const Addend z = make_addend(f, &d);
  const Values4 x = integers(&d.random, d.y, -4, 4);
  Values4 y = affine(d.y, x, scale, bias);
  std::vector<bool> passes(y.size());
  for (std::size_t i = 0; i < y.size(); ++i) {
    const double v = y[i] + (f.add ? z.sum[i] : 0);
    passes[i] = f.act == 0 || (v > 0 && (f.act == 1 || v < kCeiling));
    y[i] = f_of(f.act, v);
  }
  Fused fused(Backend::at_hand(), GPUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK);
  TensorGeometry x_geometry = geometry(f.type, f.sums == f.nhwc, f.squares, f.n, f.k, d.p, d.q);
  fused.describe(GPUDNN_PARAM_XDESC, x_geometry);
  fused.tensor(GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA, x_geometry, x);
  give_scale_and_bias(&fused, f, f.k, scale, bias);
  set_activation(&fused, f.act);
  const auto out = give_y(&fused, f, d, give_addend(&fused, f, d, z));
  std::shared_ptr<DeviceTensor> bits;
  if (f.sums) {
    fused.describe(GPUDNN_PARAM_ACTIVATION_BITMASK_DESC, bit_geometry(d.y));
    bits =
        fused.tensor(GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER, GPUDNN_PTR_ACTIVATION_BITMASK, bit_geometry(d.y), {});
  }
  if (const std::string wrong = fused.run(); !wrong.empty()) return wrong;
  if (const std::string wrong = mismatch(d.y, out->values(), exactly(y)); !wrong.empty()) return "y: " + wrong;
  if (!f.sums) return {};
  const std::string wrong = mismatch(bit_geometry(d.y), bits->values(), exactly(words_of(d.y, passes)));
  return wrong.empty() ? wrong : "bits: " + wrong;
}

// The gradients of batch normalization behind an activation, with the error that sums of m terms may have.
struct NormGradient {
  Expected dx, dscale, dbias;
};
NormGradient norm_gradient(const TensorGeometry& g, const Values4& x, const Values4& dy, const Values4& scale,
                           const Values4& mean, const Values4& inverse) {
  const double u = unit_roundoff(compute_type(g.type));
  const auto channels = static_cast<std::size_t>(g.dims[1]);
  const auto pixels = static_cast<std::size_t>(g.dims[2] * g.dims[3]);
  const double m = static_cast<double>(x.size()) / static_cast<double>(channels);
  const auto zeros = [](std::size_t count) { return Expected{Values4(count), Values4(count)}; };
  NormGradient result{zeros(x.size()), zeros(channels), zeros(channels)};
  Values4 size_1(channels);
  Values4 size_2(channels);
  const auto channel = [&](std::size_t i) { return i / pixels % channels; };
  const auto reach = [&](std::size_t i) {
    return (std::fabs(x[i]) + std::fabs(mean[channel(i)])) * inverse[channel(i)];
  };
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = channel(i);
    result.dbias.value[c] += dy[i];
    result.dscale.value[c] += dy[i] * (x[i] - mean[c]) * inverse[c];
    size_1[c] += std::fabs(dy[i]);
    size_2[c] += std::fabs(dy[i]) * reach(i);
  }
  for (std::size_t c = 0; c < channels; ++c) {
    result.dbias.slack[c] = (m + 2) * u * size_1[c];
    result.dscale.slack[c] = (m + 8) * u * size_2[c];
  }
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t c = channel(i);
    const double xhat = (x[i] - mean[c]) * inverse[c];
    const double slope = scale[c] * inverse[c];
    result.dx.value[i] = slope * (dy[i] - result.dbias.value[c] / m - xhat * result.dscale.value[c] / m);
    result.dx.slack[i] =
        std::fabs(slope) * u * (8 * std::fabs(dy[i]) + (m + 16) * (size_1[c] + reach(i) * size_2[c]) / m);
  }
  return result;
}

std::string check_norm_gradient(const ConvFusion& f) {
  Data d(f);
  Random& random = d.random;
  const auto reals = [&](const TensorGeometry& tensor, double low) {
    Values4 values(static_cast<std::size_t>(element_count(tensor)));
    for (double& value : values) value = round_to_type(low + random.normal() * (low > 0 ? 0.1 : 1), tensor.type);
    return values;
  };
  const TensorGeometry params = vector_geometry(compute_type(f.type), f.k);
  const Values4 x = reals(d.y, 0);
  const Values4 dy = reals(d.y, 0);
  const Values4 scale = reals(params, 1);
  const Values4 mean = reals(params, 0);
  const Values4 inverse = reals(params, 2);
  std::vector<bool> passes(dy.size());
  Values4 gated = dy;
  for (std::size_t i = 0; i < dy.size(); ++i) {
    passes[i] = f.act == 0 || random.chance(0.5);
    if (!passes[i]) gated[i] = 0;
  }
  const NormGradient expected = norm_gradient(d.y, x, gated, scale, mean, inverse);

  Fused fused(Backend::at_hand(), GPUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM);
  const auto give = [&](gpudnnFusedOpsConstParamLabel_t desc, gpudnnFusedOpsConstParamLabel_t placeholder,
                        gpudnnFusedOpsVariantParamLabel_t label, const TensorGeometry& tensor, const Values4& values) {
    fused.describe(desc, tensor);
    return fused.tensor(placeholder, label, tensor, values);
  };
  give(GPUDNN_PARAM_XDESC, GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA, d.y, x);
  give(GPUDNN_PARAM_DYDESC, GPUDNN_PARAM_DYDATA_PLACEHOLDER, GPUDNN_PTR_DYDATA, d.y, dy);
  const auto dx = give(GPUDNN_PARAM_DXDESC, GPUDNN_PARAM_DXDATA_PLACEHOLDER, GPUDNN_PTR_DXDATA, d.y, {});
  constexpr auto kParams = GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC;
  give(kParams, GPUDNN_PARAM_BN_SCALE_PLACEHOLDER, GPUDNN_PTR_BN_SCALE, params, scale);
  give(kParams, GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_MEAN, params, mean);
  give(kParams, GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_INVSTD, params, inverse);
  std::shared_ptr<DeviceTensor> dz;
  std::shared_ptr<DeviceTensor> dscale;
  std::shared_ptr<DeviceTensor> dbias;
  if (f.add) dz = give(GPUDNN_PARAM_DZDESC, GPUDNN_PARAM_DZDATA_PLACEHOLDER, GPUDNN_PTR_DZDATA, d.y, {});
  if (f.sums) dscale = give(kParams, GPUDNN_PARAM_BN_DSCALE_PLACEHOLDER, GPUDNN_PTR_BN_DSCALE, params, {});
  if (f.squares) dbias = give(kParams, GPUDNN_PARAM_BN_DBIAS_PLACEHOLDER, GPUDNN_PTR_BN_DBIAS, params, {});
  set_activation(&fused, f.act);
  if (f.act != 0) {
    give(GPUDNN_PARAM_ACTIVATION_BITMASK_DESC, GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER,
         GPUDNN_PTR_ACTIVATION_BITMASK, bit_geometry(d.y), words_of(d.y, passes));
  }
  if (const std::string wrong = fused.run(); !wrong.empty()) return wrong;
  std::string wrong = mismatch(d.y, dx->values(), expected.dx);
  if (wrong.empty() && dz) wrong = mismatch(d.y, dz->values(), exactly(gated));
  if (wrong.empty() && dscale) wrong = mismatch(params, dscale->values(), expected.dscale);
  if (wrong.empty() && dbias) wrong = mismatch(params, dbias->values(), expected.dbias);
  return wrong;
}

TEST(FusedOps, ConvolutionWithStatistics) {
  sweep(120, random_fusion, [](const ConvFusion& f, int) { return check_conv_with_statistics(f); });
}
TEST(FusedOps, FilterGradient) {
  sweep(120, random_fusion, [](const ConvFusion& f, int) { return check_filter_gradient(f); });
}
TEST(FusedOps, ConvolutionScaleBiasAddActivation) {
  sweep(200, random_fusion, [](const ConvFusion& f, int) { return check_conv_with_epilogue(f); });
}
TEST(FusedOps, ScaleBiasAddActivationWithBits) {
  sweep(300, random_fusion, [](const ConvFusion& f, int) { return check_bitmask(f); });
}
TEST(FusedOps, ActivationAndNormGradient) {
  sweep(200, random_fusion, [](const ConvFusion& f, int) { return check_norm_gradient(f); });
}

// A workspace that is too small, or null, is refused before anything is written.
TEST(FusedOps, RefusesASmallWorkspace) {
  ConvFusion f{};
  f.type = f.vector_type = GPUDNN_DATA_FLOAT;
  f.n = f.pad = f.stride = 1;
  f.c = f.k = 4;
  f.h = f.w = 5;
  f.r = 3;
  const Data d(f);
  Fused fused(Backend::at_hand(), GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS);
  fused.convolve(f.pad, f.stride, GPUDNN_DATA_FLOAT);
  give_x(&fused, d);
  fused.activate(GPUDNN_ACTIVATION_RELU);
  fused.describe(GPUDNN_PARAM_WDESC, d.w);
  fused.tensor(GPUDNN_PARAM_WDATA_PLACEHOLDER, GPUDNN_PTR_WDATA, d.w, d.w_values);
  fused.describe(GPUDNN_PARAM_YDESC, d.y);
  const auto y = fused.tensor(GPUDNN_PARAM_YDATA_PLACEHOLDER, GPUDNN_PTR_YDATA, d.y, {});
  ASSERT_EQ(fused.make(), GPUDNN_STATUS_SUCCESS) << take_error_text();
  std::size_t bytes = 0;
  ASSERT_EQ(gpudnnGetFusedOpsVariantParamPackAttribute(fused.variants(), GPUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES,
                                                       &bytes),
            0);
  ASSERT_GT(bytes, 0u);
  --bytes;
  fused.set_pointer(GPUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES, &bytes);
  EXPECT_EQ(fused.execute(Backend::at_hand().handle()), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(take_error_text().find("GPUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES"), std::string::npos);
  for (const double value : y->values()) EXPECT_TRUE(std::isnan(value));
}

}  // namespace
}  // namespace gpudnn::test
