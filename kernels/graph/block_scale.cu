// Numbers that share a scale by blocks:
//
//   dequantize   y = x * scale, or its negative
//   quantize     scale = max |x| of the block / greatest, rounded to the scale's type; y = x / scale
//
// Quantization runs as two kernels: a block of threads finds each scale; then a thread makes an element of y, or the
// two elements of a byte.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/graph/element.cuh"

namespace gpudnn::kernels {
namespace {

// Where an element's scale is: the last one of a dimension serves all that follows.
__device__ NodeIndex scale_index(const NodeBlockScale& work, const NodeIndex& index) {
  NodeIndex place{};
  for (int d = 0; d < work.scale.rank; ++d) {
    const std::int64_t at = index.at[d] / work.block[d];
    place.at[d] = at < work.scale.dims[d] ? at : work.scale.dims[d] - 1;
  }
  return place;
}

// NaN loses against numbers.
__device__ double greater(double a, double b) { return fmax(a, b); }

__global__ void __launch_bounds__(kNodeThreads) block_scales(const __grid_constant__ NodeBlockScale work) {
  __shared__ double partial[kNodeThreads];
  const std::int64_t scales = count_of(work.scale);
  for (std::int64_t s = blockIdx.x; s < scales; s += gridDim.x) {
    const NodeIndex place = index_of(work.scale, s);
    NodeTensor part = work.x;  // the elements of this block
    NodeIndex first{};
    for (int d = 0; d < work.x.rank; ++d) {
      first.at[d] = place.at[d] * work.block[d];
      const std::int64_t rest = work.x.dims[d] - first.at[d];
      const bool last = place.at[d] + 1 == work.scale.dims[d];
      part.dims[d] = last || rest < work.block[d] ? (rest > 0 ? rest : 0) : work.block[d];
    }
    double greatest = 0;
    const std::int64_t count = count_of(part);
    for (std::int64_t i = threadIdx.x; i < count; i += kNodeThreads) {
      NodeIndex index = index_of(part, i);
      for (int d = 0; d < part.rank; ++d) index.at[d] += first.at[d];
      greatest = greater(greatest, fabs(read_node(work.x, index)));
    }
    partial[threadIdx.x] = greatest;
    __syncthreads();
    for (int half = kNodeThreads / 2; half > 0; half /= 2) {
      if (threadIdx.x < half) partial[threadIdx.x] = greater(partial[threadIdx.x], partial[threadIdx.x + half]);
      __syncthreads();
    }
    if (threadIdx.x == 0) write_node(work.scale, offset_of(work.scale, place), partial[0] / work.greatest);
    __syncthreads();
  }
}

__device__ double scaled(const NodeBlockScale& work, const NodeIndex& index) {
  const double scale = read_node(work.scale, scale_index(work, index));
  const double x = read_node(work.x, index);
  if (!work.quantize) return (work.negate ? -1 : 1) * x * scale;
  return scale == 0 ? 0 : x / scale;
}

// `fast`: the dimension along which two elements of y share a byte, or -1.
__global__ void __launch_bounds__(kNodeThreads)
    block_scaled(const __grid_constant__ NodeBlockScale work, const int fast) {
  NodeTensor units = work.y;
  if (fast >= 0) units.dims[fast] /= 2;
  const std::int64_t count = count_of(units);
  for (std::int64_t i = first_of_thread(); i < count; i += threads_of_grid()) {
    NodeIndex index = index_of(units, i);
    if (fast < 0) {
      write_node(work.y, offset_of(work.y, index), scaled(work, index));
      continue;
    }
    index.at[fast] *= 2;
    const std::int64_t offset = offset_of(work.y, index);
    const unsigned low = e2m1_of_value(scaled(work, index));
    index.at[fast] += 1;
    const unsigned high = e2m1_of_value(scaled(work, index));
    static_cast<unsigned char*>(work.y.data)[offset / 2] = static_cast<unsigned char>(low | high << 4);
  }
}

}  // namespace

void launch_node_block_scale(const NodeBlockScale& work, CUstream_st* stream) {
  int fast = -1;
  if (work.y.special == NodeType::e2m1)
    for (int d = 0; d < work.y.rank; ++d)
      if (work.y.strides[d] == 1 && work.y.dims[d] > 1) fast = d;
  if (work.quantize) cuda::launch_kernel(block_scales, node_grid(count_of(work.scale) * kNodeThreads), stream, work);
  cuda::launch_kernel(block_scaled, node_grid(count_of(work.y)), stream, work, fast);
}

}  // namespace gpudnn::kernels
