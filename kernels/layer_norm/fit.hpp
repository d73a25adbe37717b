// Which problems the kernels over rows take, and pieces of tensors: for the launch functions.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/layer_norm/layer_norm.hpp"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {

inline void advance(LayerNormTensor* tensor, std::int64_t elements) {
  if (tensor->data != nullptr)
    tensor->data = static_cast<char*>(tensor->data) + elements * tile::any_type_bytes(tensor->type);
}
// A tensor and its place in a nest.
struct Part {
  LayerNormTensor* tensor;
  int slot;
};

inline bool is_float_or_half(tile::AnyType type) {
  return type == tile::AnyType::f32 || type == tile::AnyType::f16 || type == tile::AnyType::bf16;
}

// The data tensors of the pass.
inline bool is_data_slot(const LayerNormParams& params, int slot) {
  return slot == kLnX || slot == kLnOut || (slot == kLnOther && params.backward);
}
inline bool is_parameter_slot(const LayerNormParams& params, int slot) {
  if (slot == kLnScale) return params.scale.data != nullptr;
  return slot == kLnOther && !params.backward && params.bias.data != nullptr;
}

// An element of scale and bias for each column.
inline bool layer_norm_by_column(const LayerNormParams& params) {
  const tile::HostNest& within = params.within;
  for (const int slot : {kLnScale, kLnOther}) {
    if (is_parameter_slot(params, slot) && within.strides[slot][within.rank - 1] != 0) return true;
  }
  return false;
}

// The elements of a set lie one after the other, and scale and bias have an element for each of them, for each run of
// `dims[1]` of them, or one for all.
inline bool layer_norm_is_rows(const LayerNormParams& params) {
  const tile::HostNest& within = params.within;
  if (within.rank > 2) return false;
  for (const LayerNormTensor* tensor : {&params.x, &params.scale, &params.bias, &params.mean, &params.inverse}) {
    if (tensor->data != nullptr && !is_float_or_half(tensor->type)) return false;
  }
  if (!is_float_or_half(params.out.type) && params.out.type != tile::AnyType::e4m3 &&
      params.out.type != tile::AnyType::e5m2) {
    return false;
  }
  const int last = within.rank - 1;
  const bool single = within.count() == 1;
  const bool by_column = layer_norm_by_column(params);
  for (int slot = 0; slot < kLnSlots; ++slot) {
    if (is_data_slot(params, slot)) {
      if (!single && within.strides[slot][last] != 1) return false;
      if (last == 1 && within.strides[slot][0] != within.dims[1]) return false;
    } else if (is_parameter_slot(params, slot)) {
      if (by_column && (last != 0 || (!single && within.strides[slot][0] != 1))) return false;
      if (!by_column && last == 1 && within.strides[slot][0] != 1) return false;
    }
  }
  return last == 0 || within.count() < tile::kMaxIterations;
}

// Whether packs of `width` elements line up in all tensors, whose pointers are multiples of 16 bytes.
inline bool layer_norm_in_packs(const LayerNormParams& params, int width) {
  const tile::HostNest& within = params.within;
  if (within.dims[within.rank - 1] % width != 0) return false;
  for (const LayerNormTensor* tensor : {&params.x, &params.out, &params.scale, &params.bias, &params.dy}) {
    if (!tile::is_aligned(tensor->data, 16)) return false;
  }
  const bool by_column = layer_norm_by_column(params);
  for (int slot = 0; slot < kLnSlots; ++slot) {
    if (!is_data_slot(params, slot) && !(by_column && is_parameter_slot(params, slot))) continue;
    for (int i = 0; i < params.between.rank; ++i) {
      if (params.between.dims[i] > 1 && params.between.strides[slot][i] % width != 0) return false;
    }
  }
  return true;
}

}  // namespace gpudnn::kernels
