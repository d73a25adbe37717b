// What processes that train one network pass to each other. This one is for a single process, which has nobody to ask.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <gpudnn/gpudnn.hpp>

class Exchange {
 public:
  Exchange() = default;
  virtual ~Exchange() = default;
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // How many processes there are.
  virtual int count() const { return 1; }
  // The sums over all processes in place of `values`, which lie where the handle computes; in stream order. All
  // processes make the same calls in the same order, and get the same bits.
  virtual void sum(void* values, size_t count, gpudnnDataType_t type) { (void)values, (void)count, (void)type; }
};
