// Layer normalization on the host, in double. A set is copied to doubles, worked on and written back, so the output may
// be the input.
// SPDX-License-Identifier: Apache-2.0
#include "host/layer_norm.hpp"

#include <cmath>
#include <vector>

#include "core/float8.hpp"
#include "core/parallel.hpp"
#include "host/any_element.hpp"
#include "host/element.hpp"
#include "kernels/gemm/epilogue/activation.hpp"

namespace gpudnn::host {
namespace {

using layer_norm::Args;
using layer_norm::Mode;
using layer_norm::Problem;

// Some of the dimensions of x, in row-major order.
struct Loops {
  int rank = 0;
  int dim[kMaxRank] = {};
  std::int64_t dims[kMaxRank] = {};
  std::int64_t count = 1;

  Loops(const TensorGeometry& x, std::uint32_t kept) {
    for (int i = 0; i < x.rank; ++i) {
      if ((kept >> i & 1u) == 0) continue;
      dim[rank] = i;
      dims[rank++] = x.dims[i];
      count *= x.dims[i];
    }
  }
};

// A tensor that is stretched to x's extents, or one that is not there.
class Data {
 public:
  Data(const TensorGeometry& geometry, const void* data)
      : geometry_(geometry), data_(const_cast<void*>(data)) {  // NOLINT: written where it is an output
    if (data_ == nullptr) return;
    if (is_float8(geometry.type)) return;
    load_ = load_of(geometry.type);
    store_ = store_of(geometry.type);
  }
  [[nodiscard]] bool is_there() const { return data_ != nullptr; }
  [[nodiscard]] std::int64_t offset(const Loops& loops, std::int64_t index) const {
    std::int64_t offset = 0;
    for (int i = loops.rank - 1; i >= 0; --i) {
      const int dim = loops.dim[i];
      if (data_ != nullptr && geometry_.dims[dim] > 1) offset += index % loops.dims[i] * geometry_.strides[dim];
      index /= loops.dims[i];
    }
    return offset;
  }
  [[nodiscard]] double get(std::int64_t at, double otherwise) const {
    return data_ == nullptr ? otherwise : load_(data_, at);
  }
  // As it is once it was stored.
  [[nodiscard]] double rounded(double value) const {
    alignas(double) unsigned char element[sizeof(double)];
    store_(element, 0, value, 0);
    return load_(element, 0);
  }
  void put(std::int64_t at, double value) const {
    if (data_ == nullptr) return;
    if (geometry_.type == GPUDNN_DATA_FP8_E4M3) {
      static_cast<Float8E4M3*>(data_)[at] = round_to<Float8E4M3>(value);
    } else if (geometry_.type == GPUDNN_DATA_FP8_E5M2) {
      static_cast<Float8E5M2*>(data_)[at] = round_to<Float8E5M2>(value);
    } else {
      store_(data_, at, value, 0);
    }
  }

 private:
  TensorGeometry geometry_;
  void* data_;
  LoadAny load_ = nullptr;
  StoreAny store_ = nullptr;
};

struct Tensors {
  Data x, out, dy, scale, bias, mean, inverse, dscale, dbias, residual, sum;
  Tensors(const Problem& p, const Args& a)
      : x(p.x, a.x),
        out(p.out, a.out),
        dy(p.dy, a.dy),
        scale(p.scale, a.scale),
        bias(p.bias, a.bias),
        mean(p.mean, p.backward() ? a.saved_mean : a.mean),
        inverse(p.inverse, p.backward() ? a.saved_inverse : a.inverse),
        dscale(p.dscale, a.dscale),
        dbias(p.dbias, a.dbias),
        residual(p.x, a.residual),
        sum(p.x, a.sum) {}
};

kernels::gemm::ActivationArgs<double> activation_of(const layer_norm::Around& around) {
  auto activation = kernels::gemm::activation_args<double>(around.activation, around.function);
  activation.drops_nan = around.drops_nan;
  return activation;
}

void forward(const Problem& p, const Args& a, const Tensors& t) {
  const auto activation = activation_of(p.around);
  const double factor = a.factor != nullptr ? static_cast<double>(*static_cast<const float*>(a.factor)) : a.number;
  std::vector<double> greatest(static_cast<std::size_t>(p.around.amax ? Loops(p.x, ~p.axes).count : 0));
  const Loops within(p.x, p.axes);
  const Loops between(p.x, ~p.axes);
  const auto n = static_cast<double>(within.count);
  parallel_for(between.count, grain_for(30 * within.count), [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> x(static_cast<std::size_t>(within.count));
    for (std::int64_t set = begin; set < end; ++set) {
      const std::int64_t first = t.x.offset(between, set);
      double sum = 0;
      for (std::int64_t i = 0; i < within.count; ++i) {
        const std::int64_t at = first + t.x.offset(within, i);
        double& value = x[static_cast<std::size_t>(i)];
        value = t.x.get(at, 0);
        if (t.residual.is_there()) value = t.x.rounded(value + t.residual.get(at, 0));
        t.sum.put(at, value);
        sum += value;
      }
      const double mean = p.mode == Mode::rms ? 0 : sum / n;
      double squares = 0;
      for (const double value : x) squares += (value - mean) * (value - mean);
      const double inverse = 1 / std::sqrt(squares / n + p.epsilon);
      t.mean.put(t.mean.offset(between, set), mean);
      t.inverse.put(t.inverse.offset(between, set), inverse);
      const std::int64_t out = t.out.offset(between, set);
      const std::int64_t scale = t.scale.offset(between, set);
      const std::int64_t bias = t.bias.offset(between, set);
      for (std::int64_t i = 0; i < within.count; ++i) {
        const double xhat = (x[static_cast<std::size_t>(i)] - mean) * inverse;
        double y =
            t.scale.get(scale + t.scale.offset(within, i), 1) * xhat + t.bias.get(bias + t.bias.offset(within, i), 0);
        y = kernels::gemm::activate(activation, y);
        if (p.around.amax) {
          double& most = greatest[static_cast<std::size_t>(set)];
          if (!std::isnan(most) && !(std::fabs(y) <= most)) most = std::fabs(y);  // a NaN stays
        }
        t.out.put(out + t.out.offset(within, i), factor * y);
      }
    }
  });
  if (!p.around.amax) return;
  double most = 0;
  for (const double value : greatest)
    if (!std::isnan(most) && !(value <= most)) most = value;
  *static_cast<float*>(a.amax) = static_cast<float>(most);
}

// dscale and dbias, an element at a time, before dx is written: it may lie where dy does.
void parameter_gradients(const Problem& p, const Tensors& t) {
  const Loops parameters(p.x, p.by);
  const Loops summed(p.x, ~p.by);
  parallel_for(parameters.count, grain_for(30 * summed.count), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t parameter = begin; parameter < end; ++parameter) {
      double sum = 0;
      double product = 0;
      for (std::int64_t i = 0; i < summed.count; ++i) {
        const auto at = [&](const Data& data) { return data.offset(parameters, parameter) + data.offset(summed, i); };
        const double dy = t.dy.get(at(t.dy), 0);
        sum += dy;
        product += dy * ((t.x.get(at(t.x), 0) - t.mean.get(at(t.mean), 0)) * t.inverse.get(at(t.inverse), 1));
      }
      t.dbias.put(t.dbias.offset(parameters, parameter), sum);
      t.dscale.put(t.dscale.offset(parameters, parameter), product);
    }
  });
}

void backward(const Problem& p, const Tensors& t) {
  if (t.dscale.is_there() || t.dbias.is_there()) parameter_gradients(p, t);
  const Loops within(p.x, p.axes);
  const Loops between(p.x, ~p.axes);
  const auto n = static_cast<double>(within.count);
  parallel_for(between.count, grain_for(60 * within.count), [&](std::int64_t begin, std::int64_t end) {
    std::vector<double> xhat(static_cast<std::size_t>(within.count));
    std::vector<double> gradient(xhat.size());
    for (std::int64_t set = begin; set < end; ++set) {
      const double mean = t.mean.get(t.mean.offset(between, set), 0);
      const double inverse = t.inverse.get(t.inverse.offset(between, set), 1);
      const std::int64_t x = t.x.offset(between, set);
      const std::int64_t dy = t.dy.offset(between, set);
      const std::int64_t scale = t.scale.offset(between, set);
      double sum = 0;
      double product = 0;
      for (std::int64_t i = 0; i < within.count; ++i) {
        const auto k = static_cast<std::size_t>(i);
        xhat[k] = (t.x.get(x + t.x.offset(within, i), 0) - mean) * inverse;
        gradient[k] = t.dy.get(dy + t.dy.offset(within, i), 0) * t.scale.get(scale + t.scale.offset(within, i), 1);
        sum += gradient[k];
        product += gradient[k] * xhat[k];
      }
      if (p.mode == Mode::rms) sum = 0;
      const std::int64_t out = t.out.offset(between, set);
      for (std::int64_t i = 0; i < within.count; ++i) {
        const auto k = static_cast<std::size_t>(i);
        t.out.put(out + t.out.offset(within, i), inverse * (gradient[k] - sum / n - xhat[k] * product / n));
      }
    }
  });
}

}  // namespace

void layer_norm(const Problem& problem, const Args& args) {
  const Tensors tensors(problem, args);
  problem.backward() ? backward(problem, tensors) : forward(problem, args, tensors);
}

}  // namespace gpudnn::host
