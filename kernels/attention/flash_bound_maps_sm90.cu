// Tensor maps of ragged tensors, cut where the last row of the last sequence is, so that a tile that lies across it
// brings zeros and reads nothing beyond: the tensor's memory may end there, and offsets and lengths are on the device.
// A warp for each map: the greatest end of its sequences, then a copy of the map with that extent.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/attention/flash_fused_backward_sm90.hpp"
#include "kernels/attention/flash_tile.cuh"
#include "kernels/ptx/tensormap_replace.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kWords = sizeof(tile::TensorMap) / sizeof(std::uint64_t);

__device__ __forceinline__ std::uint32_t end_of_rows(const AttentionTensor& tensor, const FlashMask& mask, int batch,
                                                     bool of_keys, int lane) {
  std::uint32_t end = 1;  // an extent is not 0
  for (int b = lane; b < batch; b += 32) {
    const flash::Sequence sequence = flash::sequence_of(mask, b);
    const int length = of_keys ? sequence.length_kv : sequence.length_q;
    const std::int64_t row = ragged_start(tensor, b) / tensor.strides[2];
    // Sequences elsewhere do not come by TMA.
    if (length > 0 && row >= 0 && row < std::int64_t{1} << 30) end = max(end, static_cast<std::uint32_t>(row + length));
  }
  return __reduce_max_sync(0xffffffffu, end);
}

__global__ void __launch_bounds__(128) flash_bound_maps_sm90(const __grid_constant__ FlashBoundMapsParams p) {
  const int warp = static_cast<int>(threadIdx.x) / 32;
  const int lane = static_cast<int>(threadIdx.x) % 32;
  const AttentionTensor* const tensors[] = {&p.q, &p.k, &p.v, &p.d_o};
  const tile::TensorMap* const maps[] = {&p.maps.q, &p.maps.k, &p.maps.v, &p.maps.d_o};
  tile::TensorMap* const outs[] = {&p.out->q, &p.out->k, &p.out->v, &p.out->d_o};
  const AttentionTensor& tensor = *tensors[warp];
  const bool is_ragged = tensor.offset_bits != 0;
  const std::uint32_t end = is_ragged ? end_of_rows(tensor, p.mask, p.batch, warp == 1 || warp == 2, lane) : 0;
  if (lane < kWords) outs[warp]->opaque[lane] = maps[warp]->opaque[lane];
  __syncwarp();
  if (lane != 0) return;
  if (is_ragged) ptx::tensormap_replace_extent_1(outs[warp], end);
  ptx::fence_tensormap_release();
}

}  // namespace

void launch_flash_bound_maps_sm90(const FlashBoundMapsParams& params, CUstream_st* stream) {
  cuda::launch_kernel(flash_bound_maps_sm90, {1, 128}, stream, params);
}

}  // namespace gpudnn::kernels
