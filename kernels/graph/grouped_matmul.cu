// Products of rows with matrices of experts, the rows grouped by expert:
//
//   y[to(t), n] = sum over k of x[from(t), k] * w[e, k, n]     for offsets[e] <= t < offsets[e + 1]
//
// With rows gathered, from(t) = index[t]; scattered, to(t) = index[t]; t otherwise. Offsets lie on the device. A thread
// sums one number in double; a first kernel clears y, whose other rows are 0.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/element.cuh"

namespace gpudnn::kernels {
namespace {

__global__ void __launch_bounds__(kNodeThreads) clear(const __grid_constant__ NodeTensor y) {
  const std::int64_t count = count_of(y);
  for (std::int64_t i = first_of_thread(); i < count; i += threads_of_grid())
    write_node(y, offset_of(y, index_of(y, i)), 0);
}

__device__ std::int64_t integer_at(const NodeTensor& t, std::int64_t flat) {
  return static_cast<std::int64_t>(read_node(t, index_of(t, flat)));
}

__global__ void __launch_bounds__(kNodeThreads) grouped_matmul(const __grid_constant__ NodeGroupedMatmul work) {
  const std::int64_t width = work.w.dims[2], depth = work.x.dims[2], experts = work.w.dims[0];
  const std::int64_t rows = work.gathers ? work.y.dims[1] : work.x.dims[1];
  const std::int64_t indices = work.index.data != nullptr ? count_of(work.index) : 0;
  for (std::int64_t i = first_of_thread(); i < rows * width; i += threads_of_grid()) {
    const std::int64_t t = i / width, n = i % width;
    if (t < integer_at(work.offsets, 0)) continue;
    std::int64_t expert = 0;
    while (expert + 1 < experts && t >= integer_at(work.offsets, expert + 1)) ++expert;
    const std::int64_t other = t < indices ? integer_at(work.index, t) : t;
    const std::int64_t from = work.gathers ? other : t;
    const std::int64_t to = work.scatters ? other : t;
    if (from < 0 || from >= work.x.dims[1] || to < 0 || to >= work.y.dims[1]) continue;
    double sum = 0;
    for (std::int64_t k = 0; k < depth; ++k)
      sum += read_node(work.x, NodeIndex{{0, from, k}}) * read_node(work.w, NodeIndex{{expert, k, n}});
    write_node(work.y, offset_of(work.y, NodeIndex{{0, to, n}}), sum);
  }
}

}  // namespace

void launch_node_grouped_matmul(const NodeGroupedMatmul& work, CUstream_st* stream) {
  cuda::launch_kernel(clear, node_grid(count_of(work.y)), stream, work.y);
  const std::int64_t rows = work.gathers ? work.y.dims[1] : work.x.dims[1];
  cuda::launch_kernel(grouped_matmul, node_grid(rows * work.w.dims[2]), stream, work);
}

}  // namespace gpudnn::kernels
