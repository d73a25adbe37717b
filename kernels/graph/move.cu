// Operations of a graph that move elements: a part of a concatenation, pages put in order, page tables in rows of equal
// length, random numbers. A thread makes one element of the output.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/element.cuh"

namespace gpudnn::kernels {
namespace {

__global__ void __launch_bounds__(kNodeThreads) node_copy(const __grid_constant__ NodeCopy work) {
  const std::int64_t count = count_of(work.x);
  const int bytes = tile::any_type_bytes(work.x.type);
  for (std::int64_t i = first_of_thread(); i < count; i += threads_of_grid()) {
    NodeIndex index = index_of(work.x, i);
    const std::int64_t from = offset_of(work.x, index);
    index.at[work.axis] += work.first;
    const std::int64_t to = offset_of(work.y, index);
    if (work.x.type != work.y.type) {
      write_node(work.y, to, read_node(work.x, from));
      continue;
    }
    // As they are: a double does not hold every 64-bit integer.
    const auto* const source = static_cast<const unsigned char*>(work.x.data) + from * bytes;
    auto* const target = static_cast<unsigned char*>(work.y.data) + to * bytes;
    for (int b = 0; b < bytes; ++b) target[b] = source[b];
  }
}

__global__ void __launch_bounds__(kNodeThreads) node_paged_load(const __grid_constant__ NodePagedLoad work) {
  const std::int64_t count = count_of(work.y);
  const std::int64_t block = work.pages.dims[2];
  for (std::int64_t i = first_of_thread(); i < count; i += threads_of_grid()) {
    const NodeIndex index = index_of(work.y, i);
    const std::int64_t row = work.turned ? index.at[3] : index.at[2];
    const std::int64_t column = work.turned ? index.at[2] : index.at[3];
    double value = 0;
    const NodeIndex sequence{{index.at[0]}};
    if (row < static_cast<std::int64_t>(read_node(work.lengths, sequence))) {
      const NodeIndex entry{{index.at[0], 0, row / block}};
      const auto page = static_cast<std::int64_t>(read_node(work.table, entry));
      const NodeIndex place{{page, index.at[1], row % block, column}};
      if (page >= 0 && page < work.pages.dims[0]) value = read_node(work.pages, place);
    }
    write_node(work.y, offset_of(work.y, index), value);
  }
}

__device__ std::int64_t page_start(const NodePageRows& rows, std::int64_t batch) {
  return rows.wide ? static_cast<const std::int64_t*>(rows.starts)[batch]
                   : static_cast<const std::int32_t*>(rows.starts)[batch];
}

__global__ void __launch_bounds__(kNodeThreads) node_page_rows(const __grid_constant__ NodePageRows rows) {
  const std::int64_t count = rows.batches * rows.pages;
  for (std::int64_t i = first_of_thread(); i < count; i += threads_of_grid()) {
    const std::int64_t batch = i / rows.pages, page = i % rows.pages;
    const std::int64_t from = page_start(rows, batch) + page * rows.stride;
    rows.y[i] = from < page_start(rows, batch + 1) ? rows.x[from] : 0;
  }
}

// A number of [0, 1) from a word of a Philox block.
__device__ double unit(std::uint32_t word) { return static_cast<double>(word) * 0x1p-32; }

// Philox4x32-10: the key is the seed, the counter the element's row-major position and the offset. A mask of
// attention's scores, which has four dimensions, is the one that the attention engines draw.
__device__ double drawn(const NodeRng& work, const NodeIndex& index, std::int64_t flat) {
  AttentionDropout parts = work.key;
  if (work.distribution == Distribution::bernoulli && work.y.rank == 4) {
    const DropoutKey key = dropout_key(parts);
    const auto threshold = static_cast<std::uint32_t>(rint((1 - work.probability) * 65536));
    const bool kept =
        is_score_kept(key, threshold, static_cast<std::uint32_t>(index.at[0] * work.y.dims[1] + index.at[1]),
                      static_cast<std::uint32_t>(index.at[2]), static_cast<std::uint32_t>(index.at[3]));
    return kept ? 1 : 0;
  }
  // dropout_key folds seed and offset into three words; here each keeps its two.
  const auto whole = [&parts](const void* memory, std::uint64_t value) -> std::uint64_t {
    if (memory == nullptr) return value;
    if (parts.bits == 64) return *static_cast<const std::uint64_t*>(memory);
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(*static_cast<const std::int32_t*>(memory)));
  };
  const std::uint64_t seed = whole(parts.seed, parts.seed_value);
  const std::uint64_t offset = whole(parts.offset, parts.offset_value);
  PhiloxBlock block[1] = {{{static_cast<std::uint32_t>(flat), static_cast<std::uint32_t>(flat >> 32),
                            static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(offset >> 32)}}};
  philox(block, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  const double u = unit(block[0].word[0]);
  if (work.distribution == Distribution::bernoulli) return u < work.probability ? 1 : 0;
  if (work.distribution == Distribution::uniform) return work.least + u * (work.most - work.least);
  const double radius = sqrt(-2 * log(1 - u));
  return work.mean + work.deviation * radius * cospi(2 * unit(block[0].word[1]));
}

__global__ void __launch_bounds__(kNodeThreads) node_rng(const __grid_constant__ NodeRng work) {
  const std::int64_t count = count_of(work.y);
  for (std::int64_t i = first_of_thread(); i < count; i += threads_of_grid()) {
    const NodeIndex index = index_of(work.y, i);
    write_node(work.y, offset_of(work.y, index), drawn(work, index, i));
  }
}

}  // namespace

void launch_node_copy(const NodeCopy& copy, CUstream_st* stream) {
  cuda::launch_kernel(node_copy, node_grid(count_of(copy.x)), stream, copy);
}
void launch_node_paged_load(const NodePagedLoad& load, CUstream_st* stream) {
  cuda::launch_kernel(node_paged_load, node_grid(count_of(load.y)), stream, load);
}
void launch_node_page_rows(const NodePageRows& rows, CUstream_st* stream) {
  cuda::launch_kernel(node_page_rows, node_grid(rows.batches * rows.pages), stream, rows);
}
void launch_node_rng(const NodeRng& rng, CUstream_st* stream) {
  cuda::launch_kernel(node_rng, node_grid(count_of(rng.y)), stream, rng);
}

}  // namespace gpudnn::kernels
