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
// Blocks that a multiprocessor holds. Turing holds fewer, and ptxas says that it ignores the number there
// (.minnctapersm); it stays in the PTX, which later GPUs run.
constexpr int kReduceBlocks = 4;
constexpr int kReduceSimpleBlocks = 6;  // of the kernels for simple loops
constexpr int kReduceShortBlocks = 4;
constexpr int kReduceColumnLoads = 8;
constexpr int kReduceRowThreads = 512;
constexpr int kReduceRowBlocks = 2;
constexpr int kReduceSimpleRowBlocks = 4;
constexpr int kReduceRunBlocks = 7;
constexpr int kReduceRunPacks = kReduceThreads * kReduceLoads;  // of a block
constexpr int kReduceRunMost = 16;                              // of a row

// groups:   `lanes` lanes of a warp (a power of two) fold one output, 2^depth packs each at once, and as many outputs
// at
//           once as leave each lane its loads
// rows:     a block folds one output, walking its elements
// columns:  `lanes` threads stand on neighbouring outputs, a power of two; the rows of the block share the elements
// rows and columns: the elements of an output are cut into `splits` runs, whose partial results meet in the workspace.
enum class ReduceWay : std::int32_t { groups, rows, columns };

struct ReduceShape {
  ReduceWay way = ReduceWay::groups;
  int width = 1;  // elements in a pack: along the elements of an output, or over outputs (columns)
  int lanes = 32;
  int depth = 0;
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
  int multiprocessors = 1;
  bool has_clusters = false;  // compute capability 9.0
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

// Whether all lines of the fastest loop, and all rows of the other nest, begin at a multiple of the width.
[[nodiscard]] inline bool reduce_even(const ReduceLoops& loops, bool columns, int width) {
  const tile::HostNest& fast = columns ? loops.kept : loops.reduced;
  const tile::HostNest& other = columns ? loops.reduced : loops.kept;
  const int last = fast.rank - 1;
  bool even = fast.dims[last] % width == 0;
  for (int i = 0; i < last; ++i) even = even && (fast.dims[i] == 1 || fast.strides[0][i] % width == 0);
  for (int i = 0; i < other.rank; ++i) even = even && (other.dims[i] == 1 || other.strides[0][i] % width == 0);
  return even;
}

// The widest pack that the loops allow. Columns want a pointer aligned to 16 bytes too; the elements of an output go in
// packs wherever they begin.
[[nodiscard]] inline int reduce_pack_width(const ReduceLoops& loops, bool columns, tile::AnyType type) {
  using tile::AnyType;
  if (type == AnyType::i8 || type == AnyType::u8 || type == AnyType::i32) return 1;
  const int width = 16 / tile::any_type_bytes(type);
  const tile::HostNest& fast = columns ? loops.kept : loops.reduced;
  const int last = fast.rank - 1;
  if (fast.strides[0][last] != 1) return 1;
  if (columns) return reduce_even(loops, true, width) ? width : 1;
  if (fast.dims[last] < 2 * width) return 1;
  return fast.count() <= tile::kMaxIterations || reduce_even(loops, false, width) ? width : 1;
}

// As many runs as the device has places for their blocks; none where the blocks of whole outputs fill two fifths of
// them: that is enough bytes in flight, and a second kernel costs more than the rest brings.
[[nodiscard]] inline std::int64_t reduce_splits(std::int64_t tiles, std::int64_t most, std::int64_t places) {
  if (tiles >= places * 2 / 5) return 1;
  std::int64_t splits = places / tiles;
  if (splits > most) splits = most;
  if (splits > 1024) splits = 1024;
  return splits > 1 ? splits : 1;
}

// Which kernel and how many threads and splits: a function of the loops, the type and the device alone, so that the
// workspace can be told beforehand. The width of columns is the best case; the launch takes 1 where the pointer is not
// aligned.
[[nodiscard]] inline ReduceShape reduce_shape(const ReduceLoops& loops, tile::AnyType type, int multiprocessors) {
  const tile::HostNest& kept = loops.kept;
  const tile::HostNest& reduced = loops.reduced;
  const std::int64_t outputs = kept.count();
  const std::int64_t elements = reduced.count();
  const std::int64_t kept_step = kept.strides[0][kept.rank - 1];
  const std::int64_t reduced_step = reduced.strides[0][reduced.rank - 1];
  const int bytes = tile::any_type_bytes(type);
  const bool columns = outputs > 1 && (elements == 1 || kept_step < reduced_step);
  ReduceShape shape;
  shape.width = reduce_pack_width(loops, columns, type);
  if (columns) {
    shape.way = ReduceWay::columns;
    const std::int64_t packs = outputs / shape.width;
    // At least 64 bytes of neighbouring outputs for a row of threads, and no more rows than there are elements for.
    int narrowest = 64 / (bytes * shape.width);
    while (narrowest < kReduceThreads && kReduceThreads / narrowest > (elements + kReduceLoads - 1) / kReduceLoads)
      narrowest *= 2;
    // Tiles as wide as leave two blocks for each multiprocessor, so that few rows of threads have to meet; 128 bytes at
    // least, as far as there are elements for the rows.
    const int least = narrowest > 8 ? narrowest : 8;
    const auto tiles = [&] { return (packs + shape.lanes - 1) / shape.lanes; };
    shape.lanes = kReduceThreads;
    while (shape.lanes > least && tiles() < 2 * multiprocessors) shape.lanes /= 2;
    while (shape.lanes > 1 && shape.lanes / 2 >= packs) shape.lanes /= 2;
    const std::int64_t places = std::int64_t{kReduceBlocks} * multiprocessors;
    shape.splits = reduce_splits(tiles(), elements / (kReduceThreads / shape.lanes * 2 * kReduceLoads), places);
    return shape;
  }
  const std::int64_t steps = elements / reduced.dims[reduced.rank - 1] * (reduced.dims[reduced.rank - 1] / shape.width);
  const bool few = outputs < std::int64_t{16} * multiprocessors;
  if (steps >= 4 * kReduceThreads || (few && steps >= kReduceThreads / 2)) {
    shape.way = ReduceWay::rows;
    shape.splits = reduce_splits(outputs, steps / (kReduceRowThreads * 2 * kReduceLoads),
                                 std::int64_t{kReduceRowBlocks} * multiprocessors);
    return shape;
  }
  shape.way = ReduceWay::groups;
  shape.lanes = 1;
  // 128 bytes side by side, and four packs for each lane of a longer row.
  while (shape.lanes < 32 && shape.lanes < steps && (shape.lanes < 8 || shape.lanes * 4 < steps)) shape.lanes *= 2;
  // Several rows at a time spread start and end over them; only few rows are each given more of a lane's loads.
  const auto blocks = [&] { return outputs * shape.lanes / kReduceThreads / (kReduceLoads >> shape.depth); };
  while (1 << shape.depth < kReduceLoads && blocks() < std::int64_t{3} * multiprocessors &&
         std::int64_t{shape.lanes} << shape.depth < steps) {
    ++shape.depth;
  }
  // Rows of several rounds in few waves of blocks: shorter blocks leave less of the last wave empty.
  const std::int64_t places = std::int64_t{kReduceBlocks} * multiprocessors;
  if (shape.depth == 0 && shape.lanes == 32 && steps > 64 && blocks() > places && blocks() < 4 * places) ++shape.depth;
  return shape;
}

}  // namespace gpudnn::kernels
