// What the launch functions of the kernels over rows of halves share: arguments, and which rows those are.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/launch/launch.hpp"
#include "kernels/layer_norm/resident_rows_sm90.cuh"
#include "kernels/layer_norm/rows_launch.cuh"

namespace gpudnn::kernels {

constexpr int kLnHalves = 8;  // of a pack

// Rows that leave no multiprocessor for a second one of their blocks.
inline bool are_few(std::int64_t rows, int multiprocessors) { return rows <= 2 * std::int64_t{multiprocessors}; }

// The two loops of the rows are one for all tensors but the parameters.
inline bool rows_in_line(const LayerNormParams& params) {
  const tile::HostNest& rows = params.between;
  if (rows.rank == 1) return true;
  if (rows.rank > 2) return false;
  const auto in_line = [&rows](int slot) { return rows.strides[slot][0] == rows.dims[1] * rows.strides[slot][1]; };
  return in_line(kLnX) && in_line(kLnOut) && (params.mean.data == nullptr || in_line(kLnMean)) &&
         (params.inverse.data == nullptr || in_line(kLnInverse));
}

// A scale, and maybe a bias, for each column, of floats or of x's type.
inline bool alike(const LayerNormParams& params) {
  return layer_norm_by_column(params) && params.scale.data != nullptr &&
         (params.scale.type == tile::AnyType::f32 || params.scale.type == params.x.type) &&
         (params.bias.data == nullptr || params.bias.type == params.scale.type);
}

inline gemm::ActivationArgs<float> resident_activation(const LayerNormAround& around) {
  gemm::ActivationArgs<float> activation = gemm::activation_args<float>(around.activation, around.function);
  activation.drops_nan = around.drops_nan;
  return activation;
}

// max(x, 0), with NaNs passed on.
inline bool clamps_at_zero(const gemm::ActivationArgs<float>& activation) {
  return activation.mode == gemm::Activation::relu && activation.lower == 0.0f && activation.slope == 0.0f &&
         !activation.clips && !activation.drops_nan;
}

// use(args, around) for pieces of the rows that 32 bits count.
template <class Use>
void for_resident_pieces(const LayerNormParams& params, cudaStream_t stream, const Use& use) {
  LayerNormResidentAround around = {};
  around.factor = params.around.factor;
  around.number = params.around.number;
  around.amax = reinterpret_cast<std::uint32_t*>(params.around.amax);
  around.activation = resident_activation(params.around);
  around.clamps = clamps_at_zero(around.activation);
  if (around.amax != nullptr && cudaMemsetAsync(around.amax, 0, sizeof(float), stream) != cudaSuccess) return;
  for_row_pieces(params, [&](const LayerNormRowArgs& from, const Rows& rows, std::int64_t offset) {
    LayerNormResidentArgs args = {};
    args.x = from.x;
    args.y = from.y;
    args.y_type = from.y_type;
    args.y_as_x = from.y_as_x;
    args.rms = from.rms;
    args.by_column = from.by_column;
    args.segment = from.segment;
    args.alike = alike(params);
    args.scale = from.scale;
    args.bias = from.bias;
    args.mean = from.mean;
    args.inverse = from.inverse;
    args.mean_type = from.mean_type;
    args.inverse_type = from.inverse_type;
    const auto stride = [&rows](int slot, int loop) { return loop < rows.rank ? rows.strides[slot][loop] : 0; };
    args.x_row = stride(kLnX, 0);
    args.out_row = stride(kLnOut, 0);
    args.mean_row = stride(kLnMean, 0);
    args.inverse_row = stride(kLnInverse, 0);
    args.scale_slow = stride(kLnScale, 1);
    args.scale_quick = stride(kLnScale, 0);
    args.bias_slow = stride(kLnOther, 1);
    args.bias_quick = stride(kLnOther, 0);
    args.parameters_vary = (args.scale_slow | args.scale_quick | args.bias_slow | args.bias_quick) != 0;
    args.quick_rows = rows.rank == 2 ? rows.dims[0] : tile::FastDivmod(rows.count);
    args.rows = rows.count;
    args.packs = static_cast<std::int32_t>(from.length / kLnHalves);
    args.cluster = 1;
    args.epsilon = from.epsilon;
    args.one_over_length = from.one_over_length;
    LayerNormResidentAround part = around;
    const auto moved = [offset](const void* data) {
      return data == nullptr ? nullptr : static_cast<const tile::Half*>(data) + offset;
    };
    part.residual = moved(params.around.residual);
    part.sum = const_cast<tile::Half*>(moved(params.around.sum));  // NOLINT: it was writable
    use(args, part);
  });
}

}  // namespace gpudnn::kernels
