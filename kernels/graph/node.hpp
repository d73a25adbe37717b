// What the kernels for single operations of a graph take. Plain data.
//
// These kernels take whatever their operation can be: any strides, any mix of types, each number computed in double by
// one thread. Operations that have faster kernels of their own come here only where those do not take them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "kernels/attention/attention.hpp"
#include "kernels/tile/any_type.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

constexpr int kNodeRank = 8;
constexpr int kNodeSpatial = 3;

// The types of block scales, and of what they scale, beside those of tile::AnyType. Integers of 4 bits are read alone.
enum class NodeType : std::int32_t { any, e8m0, e2m1, int4, uint4 };

struct NodeTensor {
  void* data = nullptr;
  NodeType special = NodeType::any;
  tile::AnyType type = tile::AnyType::f32;
  bool tiled = false;  // block scales in tiles of 128 rows and 4 columns
  int rank = 0;
  std::int64_t dims[kNodeRank] = {};
  std::int64_t strides[kNodeRank] = {};
};

// y = x within y's part that begins `first` elements along `axis`. `raw`: elements of one type, moved as they are.
struct NodeCopy {
  NodeTensor x, y;
  int axis = 0;
  std::int64_t first = 0;
};
void launch_node_copy(const NodeCopy& copy, CUstream_st* stream);

enum class Distribution : std::int32_t { bernoulli, uniform, normal };
struct NodeRng {
  NodeTensor y;
  AttentionDropout key;
  Distribution distribution = Distribution::bernoulli;
  double probability = 0.5;
  double least = 0, most = 1;
  double mean = 0, deviation = 1;
};
void launch_node_rng(const NodeRng& rng, CUstream_st* stream);

// y[b, h, row, d] = pages[table[b, row / block], h, row % block, d], 0 from row length[b] on. `turned`: y's last two
// dimensions are exchanged.
struct NodePagedLoad {
  NodeTensor pages, table, lengths, y;
  bool turned = false;
};
void launch_node_paged_load(const NodePagedLoad& load, CUstream_st* stream);

// Page tables that lie one behind the other, as rows of equal length: y[b, i] = x[starts[b] + i * stride] for the
// starts[b + 1] - starts[b] elements of sequence b, 0 for the others of its `pages`.
struct NodePageRows {
  const std::int32_t* x = nullptr;
  const void* starts = nullptr;  // batches + 1 integers of 32 bits, of 64 where `wide`
  bool wide = false;
  std::int64_t batches = 0, pages = 0, stride = 1;
  std::int32_t* y = nullptr;
};
void launch_node_page_rows(const NodePageRows& rows, CUstream_st* stream);

// quantize: scale = greatest |x| of a block / greatest, rounded to the scale's type, and y = x / scale.
// Otherwise y = x * scale, or -x * scale.
struct NodeBlockScale {
  NodeTensor x, y, scale;
  bool quantize = false;
  bool negate = false;
  double greatest = 1;
  std::int64_t block[kNodeRank] = {};
};
void launch_node_block_scale(const NodeBlockScale& work, CUstream_st* stream);

enum class Resample : std::int32_t { maximum, average, average_inside, nearest, bilinear };
struct NodeResample {
  NodeTensor x;       // dx where `backward`
  NodeTensor y;       // dy
  NodeTensor values;  // x of a backward maximum; no data elsewhere
  NodeTensor index;   // of the maximum in its window; no data if there is none
  Resample mode = Resample::average;
  bool backward = false;
  bool clamps = false;  // padding repeats the pixels at the edge
  bool zeros = false;   // padding is 0 to a maximum, not minus infinity
  bool propagates_nan = true;
  int spatial = 0;
  std::int64_t window[kNodeSpatial] = {1, 1, 1};
  double stride[kNodeSpatial] = {1, 1, 1};
  double pad[kNodeSpatial] = {};
  double alpha = 1;
  double beta = 0;
};
void launch_node_resample(const NodeResample& work, CUstream_st* stream);

// Products of rows of x, grouped by expert, with the expert's matrix: y[to(t)] = x[from(t)] * w[expert(t)].
struct NodeGroupedMatmul {
  NodeTensor x, w, offsets, y;
  NodeTensor index;  // no data if there is none
  bool gathers = false;
  bool scatters = false;
};
void launch_node_grouped_matmul(const NodeGroupedMatmul& work, CUstream_st* stream);

}  // namespace gpudnn::kernels
