// What the launch functions of the fused operations' own kernels take. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/any_type.hpp"
#include "kernels/tile/element_type.hpp"
#include "kernels/tile/loop_nest.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

enum class AffineActivation : std::int32_t { none, relu, clipped_relu };

// One value for each channel; null: absent.
struct ChannelData {
  void* data = nullptr;
  tile::AnyType type = tile::AnyType::f32;
  std::int64_t stride = 0;
  bool in_packs = false;  // contiguous, at a multiple of 16 bytes
};

// The tensors of `places` and of `channel_strides` are x, z, y. With bits the places are in row-major order.
struct ChannelAffineParams {
  tile::ElementType type = tile::ElementType::f32;
  AffineActivation activation = AffineActivation::none;
  bool propagate_nan = false;
  bool gates = false;  // the bits are read: y = x where one is set, else 0
  double ceiling = 0;
  const void* x = nullptr;
  const void* z = nullptr;  // null: no addend
  void* y = nullptr;
  ChannelData vectors[4];  // scale, bias, and those of z
  std::uint8_t* bits = nullptr;
  std::int64_t channels = 0;
  std::int64_t channel_strides[3] = {};
  tile::HostNest places;
  int multiprocessors = 1;
};
void launch_channel_affine(const ChannelAffineParams& params, CUstream_st* stream);

// The sum and the sum of squares over the places of each channel; null: not wanted. In the compute type of y.
constexpr int kSumsWidth = 64;  // channels of a block, at most
struct ChannelSumsParams {
  tile::ElementType type = tile::ElementType::f32;
  std::int64_t channels = 0;
  std::int64_t channel_stride = 0;
  tile::HostNest places;  // one tensor
  int multiprocessors = 1;
  const void* y = nullptr;  // at a multiple of 16 bytes
  void* sum = nullptr;
  void* squares = nullptr;
  std::int64_t sum_stride = 0;
  std::int64_t squares_stride = 0;
  void* workspace = nullptr;
};
// Whether the kernel is made for the layout: contiguous channels in whole packs.
bool takes_channel_sums(const ChannelSumsParams& params);
std::size_t channel_sums_workspace(const ChannelSumsParams& params);
void launch_channel_sums(const ChannelSumsParams& params, CUstream_st* stream);

// In this order: sum, sum of squares, scale, bias, saved mean, saved inverse deviation, running mean, running variance,
// equivalent scale, equivalent bias.
constexpr int kFinalizeVectors = 10;
struct FinalizeParams {
  bool training = false;
  std::int64_t channels = 0;
  double count = 1;
  double factor = 1;
  double epsilon = 0;
  ChannelData vectors[kFinalizeVectors];
};
void launch_finalize_statistics(const FinalizeParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
