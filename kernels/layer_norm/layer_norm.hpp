// What the launch functions of the layer-normalization kernels take. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/matmul/epilogue.hpp"
#include "kernels/tile/any_type.hpp"
#include "kernels/tile/loop_nest.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

// The tensors of the nests `within` and `between`, in this order.
enum LayerNormSlot : std::int32_t { kLnMean, kLnInverse, kLnScale, kLnOther, kLnOut, kLnX, kLnSlots };
// The tensors of the nests `params` and `summed`.
enum LayerNormSumSlot : std::int32_t { kLnSumMean, kLnSumInverse, kLnSumDscale, kLnSumDbias, kLnSumDy, kLnSumX };

struct LayerNormTensor {
  void* data = nullptr;  // null: there is none
  tile::AnyType type = tile::AnyType::f32;
};

// What stands around a forward pass: an addend before it; an activation, a factor and the greatest size of the values
// before that factor behind it.
struct LayerNormAround {
  const void* residual = nullptr;  // of x's type and strides
  void* sum = nullptr;             // x + residual, likewise, or null
  matmul::Activation activation = matmul::Activation::identity;
  matmul::ActivationParams function;
  bool drops_nan = false;         // of ReLU
  const float* factor = nullptr;  // on the device; null: `number`
  float number = 1;
  float* amax = nullptr;

  [[nodiscard]] bool is_there() const {
    return residual != nullptr || activation != matmul::Activation::identity || factor != nullptr || number != 1.0f ||
           amax != nullptr;
  }
};

struct LayerNormParams {
  bool backward = false;
  bool rms = false;    // no mean
  bool given = false;  // forward: mean and inverse are read, not made
  double epsilon = 0;
  LayerNormTensor x, out;             // out: y, or dx
  LayerNormTensor mean, inverse;      // forward: written if there (read if `given`); backward: read
  LayerNormTensor scale, bias;        // bias: forward
  LayerNormTensor dy, dscale, dbias;  // backward
  LayerNormAround around;             // forward
  tile::HostNest within;   // the elements that are normalised together; "other" is bias of forward, dy of backward
  tile::HostNest between;  // the sets of them
  tile::HostNest params;   // backward: the elements of dscale and dbias,
  tile::HostNest summed;   // and what is added up for one of them
  int multiprocessors = 1;
  bool has_clusters = false;  // compute capability 9.0
  float* partials = nullptr;  // backward over rows: the workspace
};

// Sets whose elements lie one after the other, in whole packs of 16 bytes.
[[nodiscard]] bool layer_norm_rows_fit(const LayerNormParams& params);
void launch_layer_norm_rows(const LayerNormParams& params, CUstream_st* stream);

// Rows of halves in whole packs, with something around, or few; compute capability 9.0, as the next ones.
[[nodiscard]] bool layer_norm_resident_rows_fit(const LayerNormParams& params);
void launch_layer_norm_resident_rows(const LayerNormParams& params, CUstream_st* stream);
// The same, many: several rows a block.
[[nodiscard]] bool layer_norm_row_groups_fit(const LayerNormParams& params);
void launch_layer_norm_row_groups(const LayerNormParams& params, CUstream_st* stream);
// Large sets that share their parameters in long runs, held in shared memory.
[[nodiscard]] bool layer_norm_held_sets_fit(const LayerNormParams& params);
void launch_layer_norm_held_sets(const LayerNormParams& params, CUstream_st* stream);
// Rows of halves, many, with the parameters of their samples.
[[nodiscard]] bool layer_norm_row_tiles_fit(const LayerNormParams& params);
void launch_layer_norm_row_tiles(const LayerNormParams& params, CUstream_st* stream);
// Rows of halves, many and long, with nothing around: through a ring in shared memory.
[[nodiscard]] bool layer_norm_ring_rows_fit(const LayerNormParams& params);
void launch_layer_norm_ring_rows(const LayerNormParams& params, CUstream_st* stream);
// The same, many, with a residual and nothing else around.
[[nodiscard]] bool layer_norm_rows_of_sum_fit(const LayerNormParams& params);
void launch_layer_norm_rows_of_sum(const LayerNormParams& params, CUstream_st* stream);

// Rows, backward, where scale, dscale and dbias have an element for each column, or for each column of a sample.
[[nodiscard]] bool layer_norm_rows_backward_fit(const LayerNormParams& params);
// Bytes of `partials`: 0 where neither dscale nor dbias is asked for.
[[nodiscard]] std::size_t layer_norm_partial_bytes(const LayerNormParams& params);
void launch_layer_norm_rows_backward(const LayerNormParams& params, CUstream_st* stream);

// Backward, where a set is a run of planes of whole packs, and scale, dscale and dbias have an element for each plane
// of a sample. `partials` is always there.
[[nodiscard]] bool layer_norm_planes_backward_fit(const LayerNormParams& params);
[[nodiscard]] std::size_t layer_norm_planes_backward_bytes(const LayerNormParams& params);
void launch_layer_norm_planes_backward(const LayerNormParams& params, CUstream_st* stream);

// Any strides and types.
void launch_layer_norm_strided(const LayerNormParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
