// From the launch functions' plain data to a kernel's arguments.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm/unit.cuh"

namespace gpudnn::kernels {

template <class T>
NormArgs<T> norm_args(const NormParams& params) {
  using C = tile::Compute<T>;
  NormArgs<T> args{};
  args.x = static_cast<const T*>(params.x);
  args.side = static_cast<const T*>(params.side);
  args.out = static_cast<T*>(params.out);
  args.dz = static_cast<T*>(params.dz);
  args.mask = params.mask;
  args.scale = static_cast<const C*>(params.scale);
  args.bias = static_cast<const C*>(params.bias);
  args.given_mean = static_cast<const C*>(params.given_mean);
  args.given_deviation = static_cast<const C*>(params.given_deviation);
  args.running_mean = static_cast<C*>(params.running_mean);
  args.running_variance = static_cast<C*>(params.running_variance);
  args.saved_mean = static_cast<C*>(params.saved_mean);
  args.saved_inverse = static_cast<C*>(params.saved_inverse);
  args.dscale = static_cast<C*>(params.dscale);
  args.dbias = static_cast<C*>(params.dbias);
  args.partials = static_cast<C*>(params.partials);
  args.results = static_cast<C*>(params.results);
  args.alpha = static_cast<C>(params.alpha);
  args.beta = static_cast<C>(params.beta);
  args.alpha_param = static_cast<C>(params.alpha_param);
  args.beta_param = static_cast<C>(params.beta_param);
  args.factor = static_cast<C>(params.factor);
  args.epsilon = static_cast<C>(params.epsilon);
  args.ceiling = static_cast<C>(params.ceiling);
  args.count = static_cast<C>(params.count);
  args.inverse_count = static_cast<C>(1 / params.count);
  args.type = params.type;
  args.bytes = params.type == tile::ElementType::f64 ? 8 : params.type == tile::ElementType::f32 ? 4 : 2;
  args.stage = params.stage;
  args.activation = params.activation;
  args.propagate_nan = params.propagate_nan;
  args.parts = params.parts;
  args.lanes = params.lanes;
  args.cached = params.cached;
  return args;
}

}  // namespace gpudnn::kernels
