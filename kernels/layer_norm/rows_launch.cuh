// What the launch functions over rows share: arguments, and how many blocks a row has.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/fit.hpp"
#include "kernels/layer_norm/rows.cuh"

namespace gpudnn::kernels {

using Rows = tile::LoopNest<kLnSlots>;

// Blocks of a cluster for a row of so many packs, `kEach` at most in each thread. Blocks of at most 256 threads as far
// as clusters go: a larger one has a multiprocessor to itself, which then loads or computes, but not both. Smaller ones
// gain nothing where rows are few, as the blocks of a cluster must meet.
template <int kEach>
int cluster_of_rows(const LayerNormParams& params, std::int64_t packs) {
  const int most = params.has_clusters ? kLnMaxCluster : 1;
  int cluster = 1;
  while (cluster < most && packs > 256 * kEach * cluster) cluster *= 2;
  return cluster;
}

inline LayerNormRowArgs row_args(const LayerNormParams& params) {
  LayerNormRowArgs args = {};
  args.x = params.x.data;
  args.y = params.out.data;
  args.y_type = params.out.type;
  args.y_as_x = params.out.type == params.x.type;
  args.rms = params.rms;
  args.by_column = layer_norm_by_column(params);
  args.scale = {params.scale.data, params.scale.type};
  args.bias = {params.bias.data, params.bias.type};
  args.mean = params.mean.data;
  args.inverse = params.inverse.data;
  args.mean_type = params.mean.type;
  args.inverse_type = params.inverse.type;
  args.length = params.within.count();
  const tile::HostNest& within = params.within;
  // One parameter for all columns: divisor 1 says so.
  args.segment = tile::FastDivmod(within.rank == 2 ? static_cast<std::uint32_t>(within.dims[1]) : 1u);
  args.epsilon = static_cast<float>(params.epsilon);
  args.one_over_length = static_cast<float>(1 / static_cast<double>(args.length));
  args.cluster = 1;
  return args;
}

// use(args, rows) for pieces of the rows that 32 bits count.
template <class Use>
void for_row_pieces(const LayerNormParams& params, const Use& use) {
  tile::for_each_piece(
      params.between, tile::kMaxIterations / kLnMaxCluster, {},
      [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
        LayerNormParams part = params;
        for (const auto& [tensor, slot] :
             {Part{&part.x, kLnX}, Part{&part.out, kLnOut}, Part{&part.scale, kLnScale}, Part{&part.bias, kLnOther},
              Part{&part.mean, kLnMean}, Part{&part.inverse, kLnInverse}}) {
          advance(tensor, offsets[slot]);
        }
        use(row_args(part), Rows(piece), offsets[kLnX]);
      });
}

}  // namespace gpudnn::kernels
