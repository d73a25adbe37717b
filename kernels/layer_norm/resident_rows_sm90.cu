// Instances and launch of layer normalization over rows of halves by blocks that stay.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/layer_norm/resident_rows_sm90.cuh"
#include "kernels/layer_norm/rows_launch.cuh"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kWidth = 8;  // halves of a pack

template <class T, int kPacks, int kLanes, bool kAround>
void launch(LayerNormResidentArgs args, const LayerNormResidentAround& around, int multiprocessors, int threads,
            cudaStream_t stream) {
  constexpr std::int64_t kRows = kLanes > 0 ? kLnWarpThreads / kLanes : 1;  // of a block
  const std::int64_t together = tile::greatest(layer_norm_resident_threads(kPacks, kAround) / threads, 1);
  const std::int64_t at_once = tile::greatest<std::int64_t>(multiprocessors * together / args.cluster, 1);
  const std::int64_t turns = (args.rows + at_once * kRows - 1) / (at_once * kRows);
  // As few blocks as take all rows in as many turns.
  const std::int64_t blocks = (args.rows + turns * kRows - 1) / (turns * kRows);
  args.row_step = static_cast<std::uint32_t>(blocks * kRows);
  cuda::launch_kernel(layer_norm_resident_rows<T, kPacks, kLanes, kAround>,
                      cuda::clusters_of(blocks, args.cluster, threads), stream, args, around);
}

// Rows by a block each, or by a cluster.
template <class T, int kPacks, bool kAround>
void launch_blocks(LayerNormResidentArgs args, const LayerNormResidentAround& around, int multiprocessors,
                   cudaStream_t stream) {
  constexpr int kMost = layer_norm_resident_threads(kPacks, kAround);
  const int all = (args.packs + kPacks - 1) / kPacks;
  while (all > args.cluster * kMost) args.cluster *= 2;
  const int threads = ((all + args.cluster - 1) / args.cluster + 31) / 32 * 32;
  launch<T, kPacks, 0, kAround>(args, around, multiprocessors, threads, stream);
}

// Rows that leave no multiprocessor for a second one of their blocks.
bool are_few(std::int64_t rows, int multiprocessors) { return rows <= 2 * std::int64_t{multiprocessors}; }

template <class T, bool kAround>
void launch_typed(const LayerNormResidentArgs& args, const LayerNormResidentAround& around, int multiprocessors,
                  cudaStream_t stream) {
  if constexpr (kAround) {
    if (args.packs <= 64) return launch<T, 4, 16, true>(args, around, multiprocessors, kLnWarpThreads, stream);
    if (args.packs <= 128) return launch<T, 4, 32, true>(args, around, multiprocessors, kLnWarpThreads, stream);
  }
  // A residual has registers of its own.
  if constexpr (kAround) {
    if (around.residual == nullptr && !are_few(args.rows, multiprocessors))
      return launch_blocks<T, kLnResidentMany, true>(args, around, multiprocessors, stream);
  }
  launch_blocks<T, kLnResidentFew, kAround>(args, around, multiprocessors, stream);
}

// The two loops of the rows are one for all tensors but the parameters.
bool rows_in_line(const LayerNormParams& params) {
  const tile::HostNest& rows = params.between;
  if (rows.rank == 1) return true;
  if (rows.rank > 2) return false;
  const auto in_line = [&rows](int slot) { return rows.strides[slot][0] == rows.dims[1] * rows.strides[slot][1]; };
  return in_line(kLnX) && in_line(kLnOut) && (params.mean.data == nullptr || in_line(kLnMean)) &&
         (params.inverse.data == nullptr || in_line(kLnInverse));
}

// A scale, and maybe a bias, for each column, of floats or of x's type.
bool alike(const LayerNormParams& params) {
  return layer_norm_by_column(params) && params.scale.data != nullptr &&
         (params.scale.type == tile::AnyType::f32 || params.scale.type == params.x.type) &&
         (params.bias.data == nullptr || params.bias.type == params.scale.type);
}

}  // namespace

bool layer_norm_resident_rows_fit(const LayerNormParams& params) {
  if (!params.has_clusters || !layer_norm_rows_fit(params) || !layer_norm_in_packs(params, kWidth) ||
      (params.x.type != tile::AnyType::f16 && params.x.type != tile::AnyType::bf16)) {
    return false;
  }
  if (!rows_in_line(params)) return false;
  const std::int64_t packs = params.within.count() / kWidth;
  const bool around = params.around.is_there();
  if (!around && (packs <= 192 || packs > 2048 || !alike(params))) return false;
  // Of many rows, those of f16 alone: where conversions are instructions of their own, rows.cu has more of them.
  const bool of_f16 = params.x.type == tile::AnyType::f16 && params.scale.type == tile::AnyType::f16;
  if (!around && !of_f16 && !are_few(params.between.count(), params.multiprocessors)) return false;
  const int threads = layer_norm_resident_threads(kLnResidentFew, around);
  if (packs > std::int64_t{kLnMaxCluster} * threads * kLnResidentFew) return false;
  for (const void* pointer : {params.around.residual, static_cast<const void*>(params.around.sum)})
    if (!tile::is_aligned(pointer, 16)) return false;
  const bool rounds = params.out.type != tile::AnyType::f32;
  return gemm::is_common(gemm::activation_args<float>(params.around.activation, params.around.function), rounds);
}

void launch_layer_norm_resident_rows(const LayerNormParams& params, CUstream_st* stream) {
  LayerNormResidentAround around = {};
  around.factor = params.around.factor;
  around.number = params.around.number;
  around.amax = reinterpret_cast<std::uint32_t*>(params.around.amax);
  around.activation = gemm::activation_args<float>(params.around.activation, params.around.function);
  around.activation.drops_nan = params.around.drops_nan;
  around.clamps = around.activation.mode == gemm::Activation::relu && around.activation.lower == 0.0f &&
                  around.activation.slope == 0.0f && !around.activation.clips && !around.activation.drops_nan;
  if (around.amax != nullptr && cudaMemsetAsync(around.amax, 0, sizeof(float), stream) != cudaSuccess) return;
  const bool is_around = params.around.is_there();
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
    args.packs = static_cast<std::int32_t>(from.length / kWidth);
    args.cluster = 1;
    args.epsilon = from.epsilon;
    args.one_over_length = from.one_over_length;
    LayerNormResidentAround part = around;
    const auto moved = [offset](const void* data) {
      return data == nullptr ? nullptr : static_cast<const tile::Half*>(data) + offset;
    };
    part.residual = moved(params.around.residual);
    part.sum = const_cast<tile::Half*>(moved(params.around.sum));  // NOLINT: it was writable
    const auto typed = [&](auto type) {
      using T = decltype(type);
      if (is_around) return launch_typed<T, true>(args, part, params.multiprocessors, stream);
      launch_typed<T, false>(args, part, params.multiprocessors, stream);
    };
    if (params.x.type == tile::AnyType::f16) return typed(tile::Half{});
    typed(tile::BFloat16{});
  });
}

}  // namespace gpudnn::kernels
