// The fused operations' own stages on the host, in double.
// SPDX-License-Identifier: Apache-2.0
#include "host/fused_ops.hpp"

#include <algorithm>
#include <cmath>

#include "core/parallel.hpp"
#include "host/activation.hpp"
#include "host/element.hpp"

namespace gpudnn::host {
namespace {

using fused_ops::AffineArgs;
using fused_ops::AffineProblem;
using fused_ops::Bits;
using fused_ops::ChannelVector;

double channel_value(const ChannelVector& vector, const void* data, std::int64_t channel, double otherwise) {
  if (!vector.present) return otherwise;
  return with_floating_type(vector.type,
                            [&]<class T>() { return to_double(static_cast<const T*>(data)[channel * vector.stride]); });
}

void store_channel_value(const ChannelVector& vector, void* data, std::int64_t channel, double value) {
  if (!vector.present) return;
  with_floating_type(vector.type,
                     [&]<class T>() { static_cast<T*>(data)[channel * vector.stride] = round_to<T>(value); });
}

// Whether f has slope 1 at v; a NaN that is passed on counts.
bool passes(const AffineProblem& problem, double v) {
  if (problem.mode == GPUDNN_ACTIVATION_IDENTITY) return true;
  if (std::isnan(v)) return problem.nan == GPUDNN_PROPAGATE_NAN;
  return v > 0 && (problem.mode == GPUDNN_ACTIVATION_RELU || v < problem.coef);
}

template <class T>
void affine_typed(const AffineProblem& problem, const AffineArgs& args) {
  const TensorGeometry places = fused_ops::without_channels(problem.y);
  const TensorGeometry x_places = fused_ops::without_channels(problem.x);
  const bool adds = problem.z.rank != 0;
  const TensorGeometry z_places = adds ? fused_ops::without_channels(problem.z) : places;
  const std::int64_t channels = problem.y.dims[1];
  const std::int64_t words = fused_ops::bit_row_bytes(problem.y) / 4;
  const auto* const x = static_cast<const T*>(args.x);
  const auto* const z = static_cast<const T*>(args.z);
  auto* const y = static_cast<T*>(args.y);
  auto* const bits = static_cast<std::uint32_t*>(args.bits);
  const auto value_of = [&](std::int64_t c, std::int64_t x_at, std::int64_t z_at) {
    const auto vector = [&](int v, double otherwise) {
      return channel_value(problem.vectors[v], args.vectors[v], c, otherwise);
    };
    double value = vector(fused_ops::kScale, 1) * to_double(x[x_at]) + vector(fused_ops::kBias, 0);
    if (adds) value += vector(fused_ops::kZScale, 1) * to_double(z[z_at]) + vector(fused_ops::kZBias, 0);
    return value;
  };
  // An index is a place and 32 channels of it: the bits of one word.
  parallel_for(element_count(places) * words, grain_for(1000), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t place = index / words;
      const std::int64_t first = index % words * 32;
      const std::int64_t x_base = offset_of(place, places.rank, places.dims, x_places.strides);
      const std::int64_t z_base = adds ? offset_of(place, places.rank, places.dims, z_places.strides) : 0;
      const std::int64_t y_base = offset_of(place, places.rank, places.dims, places.strides);
      std::uint32_t word = problem.bits == Bits::read ? bits[index] : 0;
      for (std::int64_t c = first; c < std::min(first + 32, channels); ++c) {
        const std::int64_t x_at = x_base + c * problem.x.strides[1];
        T* const out = y + y_base + c * problem.y.strides[1];
        if (problem.bits == Bits::read) {
          *out = (word >> (c - first) & 1u) != 0 ? x[x_at] : round_to<T>(0);
          continue;
        }
        const double value = value_of(c, x_at, adds ? z_base + c * problem.z.strides[1] : 0);
        if (passes(problem, value)) word |= 1u << (c - first);
        *out = round_to<T>(activate(problem.mode, problem.nan, problem.coef, value));
      }
      if (problem.bits == Bits::write) bits[index] = word;
    }
  });
}

}  // namespace

void channel_affine(const AffineProblem& problem, const AffineArgs& args) {
  with_floating_type(problem.y.type, [&]<class T>() { affine_typed<T>(problem, args); });
}

void finalize_statistics(const fused_ops::FinalizeProblem& problem, const fused_ops::FinalizeArgs& args) {
  using namespace fused_ops;
  const auto m = static_cast<double>(args.count);
  for (std::int64_t c = 0; c < problem.channels; ++c) {
    const auto in = [&](int v, double otherwise) {
      return channel_value(problem.vectors[v], args.vectors[v], c, otherwise);
    };
    const auto out = [&](int v, double value) { store_channel_value(problem.vectors[v], args.vectors[v], c, value); };
    double mean = 0;
    double variance = 0;
    if (problem.training) {
      mean = in(kSum, 0) / m;
      const double difference = in(kSquares, 0) / m - mean * mean;
      variance = difference < 0 ? 0 : difference;  // a NaN stays one
      const double unbiased = m > 1 ? variance * (m / (m - 1)) : variance;
      const double old = 1 - args.factor;
      const auto move = [&](int v, double value) { out(v, args.factor * value + (old != 0 ? old * in(v, 0) : 0)); };
      move(kRunningMean, mean);
      move(kRunningVariance, unbiased);
    } else {
      mean = in(kRunningMean, 0);
      variance = in(kRunningVariance, 0);
    }
    const double inverse = 1 / std::sqrt(variance + args.epsilon);
    if (problem.training) {
      out(kSavedMean, mean);
      out(kSavedInverse, inverse);
    }
    const double slope = in(kBnScale, 1) * inverse;
    out(kEqScale, slope);
    out(kEqBias, in(kBnBias, 0) - mean * slope);
  }
}

}  // namespace gpudnn::host
