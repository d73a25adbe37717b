// The exchange between processes with a GPU each, by NCCL.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include "common/exchange.hpp"
#include "ranks.hpp"

class NcclExchange final : public Exchange {
 public:
  // Returns when all processes are here. The calling thread's current GPU is the process's own.
  NcclExchange(const gpudnn::Handle& handle, const Rank& rank);
  ~NcclExchange() override;

  int count() const override { return count_; }
  void sum(void* values, size_t count, gpudnnDataType_t type) override;

 private:
  int count_;
  cudaStream_t stream_ = nullptr;  // the handle's
  ncclComm_t communicator_ = nullptr;
};
