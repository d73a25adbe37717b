// Instances and launch of the reductions to values alone.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/bias_grad/bias_grad.hpp"
#include "kernels/reduce/launch.cuh"

namespace gpudnn::kernels {
namespace {

constexpr std::int64_t kMaxChannels = 1024;

// Sums of few channels that lie side by side over very many pixels are what the bias gradient computes: its blocks join
// their sums within the kernel, and too many of them meet there for a cluster.
bool is_bias_gradient(const ReduceParams& params) {
  const ReduceRule& rule = params.rule;
  const tile::HostNest& kept = params.loops.kept;
  const bool plain = rule.family == ReduceFamily::sum && !rule.magnitude && !rule.square && !rule.root;
  const bool typed = params.in_type == params.out_type &&
                     (params.in_type == tile::AnyType::f32 || params.in_type == tile::AnyType::f16 ||
                      params.in_type == tile::AnyType::bf16);
  return plain && typed && params.shape.way == ReduceWay::columns && params.shape.splits > kReduceCluster &&
         kept.rank == 1 && kept.strides[0][0] == 1 && kept.dims[0] > 1 && kept.dims[0] <= kMaxChannels;
}

void launch_as_bias_gradient(const ReduceParams& params, CUstream_st* stream) {
  BiasGradParams bias;
  bias.type = params.in_type == tile::AnyType::f32   ? tile::ElementType::f32
              : params.in_type == tile::AnyType::f16 ? tile::ElementType::f16
                                                     : tile::ElementType::bf16;
  bias.alpha = params.alpha / params.rule.divisor;
  bias.beta = params.beta;
  bias.dy = params.a;
  bias.db = params.c;
  bias.channels = params.loops.kept.dims[0];
  bias.dy_channel_step = 1;
  bias.db_channel_step = params.loops.kept.strides[1][0];
  bias.sum = params.loops.reduced;
  bias.multiprocessors = params.multiprocessors;
  bias.has_clusters = params.has_clusters;
  launch_bias_grad(bias, stream);
}

}  // namespace

void launch_reduce_values(const ReduceParams& params, CUstream_st* stream) {
  is_bias_gradient(params) ? launch_as_bias_gradient(params, stream) : launch_reduce_any<false>(params, stream);
}

void launch_reduce(const ReduceParams& params, CUstream_st* stream) {
  params.indexed ? launch_reduce_places(params, stream) : launch_reduce_values(params, stream);
}

}  // namespace gpudnn::kernels
