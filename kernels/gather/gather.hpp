// A map from the elements of an output to those of an input, and what the launch function of the gather kernel takes.
// Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/any_type.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels {

constexpr int kGatherLoops = 12;
constexpr int kGatherAxes = 8;

// One loop over the output. Its coordinate moves the output, and the input along one axis. Which loop runs fastest
// follows from `order`: the smallest.
struct GatherLoop {
  std::int64_t extent = 1;
  std::int64_t order = 0;
  std::int64_t out_step = 0;
  std::int64_t out_channel_step = 0;
  int axis = 0;
  std::int64_t in_step = 0;
};

// One axis of the input. A position p outside [0, extent) stands for a zero. Else the input moves by
// p / fold * stride, and its channel by p % fold * channel_step.
struct GatherAxis {
  std::int64_t extent = 1;
  std::int64_t base = 0;  // p of the loops' first iteration
  std::int64_t fold = 1;
  std::int64_t stride = 0;
  std::int64_t channel_step = 0;
};

// A tensor's channel k lies k / lanes * stride + k % lanes elements on; lanes is a power of two.
struct GatherChannel {
  std::int64_t stride = 0;
  int lanes = 1;
};

struct GatherMap {
  int loops = 0;
  int axes = 0;
  GatherLoop loop[kGatherLoops];
  GatherAxis axis[kGatherAxes];
  GatherChannel in_channel;
  GatherChannel out_channel;

  [[nodiscard]] std::int64_t count() const {
    std::int64_t product = 1;
    for (int i = 0; i < loops; ++i) product *= loop[i].extent;
    return product;
  }
  // The axis of the channels themselves: never beyond one fold.
  static constexpr std::int64_t kAllOneFold = (std::int64_t{1} << 31) - 1;
};

// out = alpha * in[map] + beta * out.
struct GatherParams {
  tile::AnyType in_type = tile::AnyType::f32;
  tile::AnyType out_type = tile::AnyType::f32;
  double alpha = 1;
  double beta = 0;
  const void* in = nullptr;
  void* out = nullptr;
  GatherMap map;
};
void launch_gather(const GatherParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
