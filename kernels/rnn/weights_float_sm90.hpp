// The gradients of the weights of small recurrent networks of floats on Hopper: the products and sums of
// weights_sm90.hpp, in one launch, by multiplications of floats. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/rnn/weights_place.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

constexpr int kRnnFloatGroups = 18;  // with which the list is less than 4 KiB

// Rows of b for the rows of a from `row_of_a` on.
struct RnnFloatPart {
  const float* b = nullptr;  // null: zeros
  std::int32_t row_stride = 0;
  std::int32_t rows = 0;
  std::int32_t row_of_a = 0;
  std::int32_t vectors = 0;  // rows of b are vectors of 16 bytes
};
struct RnnFloatMatrix {
  float* d = nullptr;  // [m, n], packed
  std::int32_t n = 0;  // 0: there is none
  RnnFloatPart part[2];
};
struct RnnFloatGroup {
  const float* a = nullptr;
  std::int32_t row_stride = 0;
  std::int32_t vectors = 0;  // rows of a are vectors of 16 bytes
  std::int32_t m = 0;
  float* bias = nullptr;   // [m] or null
  float* bias2 = nullptr;  // the same for rows below `bias2_m`
  std::int32_t bias2_m = 0;
  RnnWeightsOrder order;
  RnnFloatMatrix matrix[2];
};
struct RnnFloatWeights {
  RnnFloatGroup group[kRnnFloatGroups];
  std::int32_t groups = 0;
  std::int32_t adds = 0;
  float* partials = nullptr;  // of `room` floats, where many rows are divided over more blocks than a cluster has
  std::int64_t room = 0;
  // Set by the launch.
  std::uint32_t tiles = 0;
  std::int32_t splits = 1;  // blocks of a cluster
  std::int32_t slices = 1;  // clusters of a tile
  std::uint32_t first_tile[kRnnFloatGroups] = {};
};

// On the current device.
void launch_rnn_weights_float(RnnFloatWeights weights, int multiprocessors, CUstream_st* stream);

}  // namespace gpudnn::kernels
