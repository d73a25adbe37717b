// Where weights lie, and what a layer and its sequences are in numbers.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/multi_head_attn/problem.hpp"

namespace gpudnn::mha {

std::int64_t Sequences::stride(gpudnnSeqDataAxis_t axis) const noexcept {
  const std::int64_t extents[] = {time, batch, beam};
  std::int64_t step = size;
  for (int i = 2; i >= 0 && axes[i] != axis; --i) step *= extents[axes[i]];
  return step;
}

namespace {

// The weights of q, k and v are matrices [vector, heads * projection], those of o [heads * vector, projection], rows
// outermost: each projection is one product for all heads.
WeightPart part_of(const Layer& layer, int part, bool is_bias) noexcept {
  WeightPart w;
  const std::int64_t heads = layer.heads;
  const std::int64_t proj = layer.proj[part];
  const std::int64_t in = layer.in_size(part);
  w.exists = proj > 0 && (!is_bias || layer.biases != 0);
  if (!w.exists) return w;
  if (is_bias) {
    w.dims[0] = part == kO ? 1 : heads;
    w.dims[1] = proj;
    w.dims[2] = 1;
    w.strides[0] = proj;
    w.strides[1] = w.strides[2] = 1;
    return w;
  }
  w.dims[0] = heads;
  w.dims[1] = proj;
  w.dims[2] = in;
  w.strides[0] = part == kO ? in * proj : proj;
  w.strides[1] = 1;
  w.strides[2] = part == kO ? proj : heads * proj;
  return w;
}

}  // namespace

WeightPart weight_part(const Layer& layer, gpudnnMultiHeadAttnWeightKind_t kind) noexcept {
  WeightPart w;
  std::int64_t offset = 0;
  for (int i = 0; i <= static_cast<int>(kind); ++i) {
    w = part_of(layer, i % kParts, i >= kParts);
    w.offset = offset;
    offset += w.count();
  }
  return w;
}

std::size_t weight_bytes(const Layer& layer) noexcept {
  const WeightPart last = weight_part(layer, GPUDNN_MH_ATTN_O_BIASES);
  return static_cast<std::size_t>((last.offset + last.count()) * (data_type_bits(layer.type) / 8));
}

std::vector<Window> windows_of(const Problem& problem, const Args& args) {
  std::vector<Window> windows;
  const int begin = std::max(problem.current, 0);
  for (int step = begin; step < begin + problem.steps(); ++step) {
    const int first = std::clamp(args.first[step], 0, problem.k.time);
    windows.push_back({first, std::clamp(args.end[step], first, problem.k.time)});
  }
  return windows;
}

}  // namespace gpudnn::mha
