// From the launch functions' plain data to the arguments of softmax's kernels.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/softmax/softmax_math.cuh"
#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::kernels {

// `offsets`: of a piece of the groups, in elements.
template <class T>
SoftmaxArgs<T> softmax_args(const SoftmaxParams& params, const std::int64_t (&offsets)[tile::kMaxTensors] = {}) {
  using C = tile::Compute<T>;
  SoftmaxArgs<T> args;
  args.a = static_cast<const T*>(params.a) + offsets[0];
  args.b = static_cast<const T*>(params.b) + offsets[1];
  args.out = static_cast<T*>(params.out) + offsets[2];
  args.alpha = static_cast<C>(params.alpha);
  args.beta = static_cast<C>(params.beta);
  args.logarithm = params.logarithm;
  args.length = params.within.count();
  args.cluster = 1;
  return args;
}

}  // namespace gpudnn::kernels
