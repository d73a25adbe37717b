// What the launch function of the reduction kernels takes, and how the work is laid over threads. Plain data and index
// arithmetic.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "kernels/tile/any_type.hpp"
#include "kernels/tile/loop_nest.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

enum class ReduceFamily : std::int32_t { sum, product, extremum };

// What happens to an element before it is folded in, how it is folded in, and what happens to the total.
struct ReduceRule {
  ReduceFamily family = ReduceFamily::sum;
  bool magnitude = false;   // |x| stands for x
  bool square = false;      // sum: of squares
  bool negate = false;      // extremum: the minimum, as the negated maximum of negated elements
  bool skip_zeros = false;  // product: a zero counts as 1
  bool root = false;        // sum: the total's square root
  bool nan_wins = false;    // extremum: a NaN is the result; else it is passed over
  double divisor = 1;       // sum: of the total
};

constexpr int kReduceThreads = 256;
constexpr int kReduceJoinThreads = 512;
constexpr int kReduceLoads = 4;  // in flight for each thread

// rows:     `lanes` threads fold one output, walking its elements; 1 to 32, a power of two, or a whole block
// columns:  `lanes` threads stand on neighbouring outputs, a power of two; the rows of the block share the elements
// Either way the elements of an output are cut into `splits` runs, whose partial results meet in the workspace.
struct ReduceShape {
  bool columns = false;
  int width = 1;  // elements in a pack: along the elements of an output (rows), or over outputs (columns)
  int lanes = 32;
  std::int64_t splits = 1;
};

// The loops over outputs (tensors: a, c, the packed index array) and over the elements of one output (tensor: a). Where
// indices are wanted the second runs in the order in which they count.
struct ReduceLoops {
  tile::HostNest kept;
  tile::HostNest reduced;
};

struct ReduceParams {
  tile::AnyType in_type = tile::AnyType::f32;
  tile::AnyType out_type = tile::AnyType::f32;
  ReduceRule rule;
  bool indexed = false;
  int index_bytes = 0;
  double alpha = 1;
  double beta = 0;
  const void* a = nullptr;
  void* c = nullptr;
  void* indices = nullptr;  // null where none are to be stored
  void* workspace = nullptr;
  ReduceLoops loops;
  ReduceShape shape;
};
void launch_reduce(const ReduceParams& params, CUstream_st* stream);

// Bytes of one partial result: the compute type, and with indices a 64-bit place beside it.
constexpr std::size_t reduce_partial_bytes(tile::AnyType in_type, bool indexed) {
  const bool wide = in_type == tile::AnyType::f64 || in_type == tile::AnyType::i8 || in_type == tile::AnyType::u8 ||
                    in_type == tile::AnyType::i32;
  return indexed ? 16 : wide ? 8 : 4;
}

// The widest pack that the loops allow; `bytes` is the size of an element. The pointer must be aligned to 16 bytes.
[[nodiscard]] inline int reduce_pack_width(const ReduceLoops& loops, bool columns, int bytes) {
  const int width = 16 / bytes;
  const tile::HostNest& fast = columns ? loops.kept : loops.reduced;
  const tile::HostNest& other = columns ? loops.reduced : loops.kept;
  const int last = fast.rank - 1;
  if (fast.strides[0][last] != 1 || fast.dims[last] % width != 0) return 1;
  for (int i = 0; i < last; ++i) {
    if (fast.dims[i] > 1 && fast.strides[0][i] % width != 0) return 1;
  }
  for (int i = 0; i < other.rank; ++i) {
    if (other.dims[i] > 1 && other.strides[0][i] % width != 0) return 1;
  }
  return width;
}

// Which kernel and how many threads and splits: a function of the loops, the element's size and the device alone, so
// that the workspace can be told beforehand. The width is the best case; the launch takes 1 where the pointer is not
// aligned.
[[nodiscard]] inline ReduceShape reduce_shape(const ReduceLoops& loops, int bytes, int multiprocessors) {
  const tile::HostNest& kept = loops.kept;
  const tile::HostNest& reduced = loops.reduced;
  const std::int64_t outputs = kept.count();
  const std::int64_t elements = reduced.count();
  const std::int64_t kept_step = kept.strides[0][kept.rank - 1];
  const std::int64_t reduced_step = reduced.strides[0][reduced.rank - 1];
  ReduceShape shape;
  shape.columns = outputs > 1 && (elements == 1 || kept_step < reduced_step);
  shape.width = reduce_pack_width(loops, shape.columns, bytes);
  // Enough blocks for each multiprocessor to hold four to eight: 64 KB and more in flight.
  const std::int64_t wanted = std::int64_t{4} * multiprocessors;
  std::int64_t tiles = 0;  // blocks without a split
  std::int64_t most = 0;   // splits that leave each thread two rounds of loads
  if (shape.columns) {
    const std::int64_t packs = outputs / shape.width;
    // At least 64 bytes of neighbouring outputs for a row of threads, and no more rows than a quarter of the elements.
    int narrowest = 64 / (bytes * shape.width);
    while (narrowest < kReduceThreads && kReduceThreads / narrowest > elements / kReduceLoads) narrowest *= 2;
    shape.lanes = narrowest > 32 ? narrowest : 32;
    while (shape.lanes > narrowest && (packs + shape.lanes - 1) / shape.lanes < 2 * wanted && packs > shape.lanes) {
      shape.lanes /= 2;
    }
    // One tile over few outputs is cut in runs anyway, and reads whole lines.
    while (shape.lanes < 32 && packs / shape.lanes * 8 < wanted && packs > shape.lanes) shape.lanes *= 2;
    while (shape.lanes > 1 && shape.lanes / 2 >= packs) shape.lanes /= 2;
    tiles = (packs + shape.lanes - 1) / shape.lanes;
    most = elements / (kReduceThreads / shape.lanes * (2 * kReduceLoads));
  } else {
    const std::int64_t packs = elements / shape.width;
    shape.lanes = 1;
    while (shape.lanes < 32 && shape.lanes * 2 < packs) shape.lanes *= 2;
    const bool few = outputs * 32 < wanted * kReduceThreads;
    if (packs >= 8 * kReduceThreads || (few && packs >= 2 * kReduceThreads)) shape.lanes = kReduceThreads;
    tiles = (outputs * shape.lanes + kReduceThreads - 1) / kReduceThreads;
    most = packs / (shape.lanes * (2 * kReduceLoads));
  }
  shape.splits = tiles < wanted ? (wanted + tiles - 1) / tiles : 1;
  if (shape.splits > most) shape.splits = most;
  if (shape.splits > 1024) shape.splits = 1024;
  if (shape.splits < 1) shape.splits = 1;
  return shape;
}

}  // namespace gpudnn::kernels
