// From the launch functions' plain data to a kernel's arguments, instance and launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/norm/unit.cuh"
#include "kernels/tile/dispatch.hpp"

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
  args.old_mean = static_cast<const C*>(params.old_mean);
  args.old_variance = static_cast<const C*>(params.old_variance);
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
  args.inverse_given = params.inverse_given;
  args.parts = params.parts;
  args.lanes = params.lanes;
  args.cached = params.cached;
  return args;
}

// Calls launch.template operator()<T, kBackward, kElements>() for the instance that takes the problem.
template <class Launch>
void with_norm_instance(const NormParams& params, Launch&& launch) {
  tile::with_element_type(params.type, [&]<class T>() {
    if constexpr (sizeof(T) < 8) {
      const NormWalk& walk = params.walk;
      if (walk.access > static_cast<int>(sizeof(T)) && walk.lines.rank == 1 && walk.cross.rank == 1) {
        params.backward ? launch.template operator()<T, true, false>() : launch.template operator()<T, false, false>();
        return;
      }
    }
    using Any = tile::Compute<T>;  // one instance takes every type but double
    params.backward ? launch.template operator()<Any, true, true>() : launch.template operator()<Any, false, true>();
  });
}

// One stage over `groups` sets or tiles of sets; `shared_bytes` without what is kept between the passes.
template <auto kKernel, class T>
void launch_stage(const NormParams& params, std::int64_t groups, int shared_bytes, cudaStream_t stream) {
  const int kept = params.cached * params.threads * static_cast<int>(sizeof(Unit<T>)) * (params.backward ? 2 : 1);
  cuda::allow_shared_memory<kKernel>(cuda::kAllThatABlockMayHave);
  const bool clusters = params.stage == NormStage::whole;
  cuda::launch_kernel(kKernel,
                      cuda::clusters_of(clusters ? groups : groups * params.parts, clusters ? params.parts : 1,
                                        params.threads, shared_bytes + kept),
                      stream, norm_args<T>(params), params.walk);
}

}  // namespace gpudnn::kernels
