// The number of the next tile of a cluster of two blocks: its first block takes it and tells the other one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/attention/flash_sm90_tile.cuh"
#include "kernels/ptx/st_async.cuh"

namespace gpudnn::kernels::flash_sm90 {

// In shared memory of each block; every barrier is of one arrival.
struct ClusterTicket {
  std::uint64_t full[2], empty[2];
  std::uint64_t ticket[2];
};

__device__ __forceinline__ int take_cluster_ticket(std::uint32_t* tickets, int rank, const tile::PipelineState<2>& slot,
                                                   ClusterTicket& shared) {
  std::uint64_t* const full = &shared.full[slot.stage];
  std::uint64_t* const empty = &shared.empty[slot.stage];
  if (rank == 0) {
    const std::uint64_t ticket = atomicAdd(tickets, 1U);
    while (!ptx::mbarrier_try_wait_acquire_cluster(empty, slot.parity ^ 1)) {
    }
    ptx::st_async(ptx::mapa(ptx::shared_address(&shared.ticket[slot.stage]), 1), ticket,
                  ptx::mapa(ptx::shared_address(full), 1));
    return static_cast<int>(ticket);
  }
  ptx::mbarrier_arrive_expect_tx(full, 8);
  while (!ptx::mbarrier_try_wait_acquire_cluster(full, slot.parity)) {
  }
  const auto ticket = static_cast<int>(*reinterpret_cast<volatile std::uint64_t*>(&shared.ticket[slot.stage]));
  ptx::mbarrier_arrive_cluster(ptx::mapa(ptx::shared_address(empty), 0));
  return ticket;
}

}  // namespace gpudnn::kernels::flash_sm90
