// What lies where in the reserve space and in the workspace of a recurrent network.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/rnn/problem.hpp"

namespace gpudnn::rnn {

constexpr std::size_t kRegionAlignment = 256;

// Takes regions from a block of memory, one after the other; with a null block it counts.
class Regions {
 public:
  explicit Regions(void* base) noexcept
      : base_(reinterpret_cast<std::uintptr_t>(base) + padding(base)), used_(padding(base)), counts_(base == nullptr) {}
  void* take(std::int64_t bytes) noexcept {
    const std::uintptr_t at = base_;
    const std::size_t size =
        (static_cast<std::size_t>(bytes) + kRegionAlignment - 1) / kRegionAlignment * kRegionAlignment;
    base_ += size;
    used_ += size;
    return counts_ || bytes == 0 ? nullptr : reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr)
  }
  // Goes on behind the longer of two ways from one place.
  void reach(const Regions& other) noexcept {
    if (other.used_ > used_) *this = other;
  }
  // Bytes so far; of a count, with room to align a block that begins anywhere.
  [[nodiscard]] std::size_t used() const noexcept { return used_ + (counts_ ? kRegionAlignment : 0); }

 private:
  static std::size_t padding(const void* base) noexcept {
    return (kRegionAlignment - reinterpret_cast<std::uintptr_t>(base) % kRegionAlignment) % kRegionAlignment;
  }
  std::uintptr_t base_;
  std::size_t used_;
  bool counts_;
};

constexpr int kMaxDirections = 2;

// Layers of both gradients and values that may run in one launch.
[[nodiscard]] bool may_pipeline(const Problem& problem, Pass pass) noexcept;

// Two layers may run in parts of the steps, both in one launch.
[[nodiscard]] bool may_pair(const Problem& problem, Pass pass) noexcept;

// Gradients of weights: W and R of a layer, but perhaps the first, have like shapes and one direction, and a product
// for each would leave multiprocessors idle. Inputs are copied to where h one step back lies.
[[nodiscard]] bool merges_weight_products(const Problem& problem) noexcept;
// Elements from row to row of h one step back: of 16 bits in whole vectors of 16 bytes, as fast products want them.
[[nodiscard]] std::int64_t weight_state_row(const Network& net) noexcept;

// The same for any rows, and the bytes of all copies of odd rows of 16 bits that the gradients of weights make where
// all of them are made at once: inputs, and what a projection has.
[[nodiscard]] std::int64_t weight_copy_row(std::int64_t width) noexcept;
[[nodiscard]] std::int64_t weight_copy_bytes(const Problem& problem) noexcept;

// Products over the rows that leave multiprocessors idle, of floats, are made in slices of the rows: of how many rows'
// divisors at most. 1: they are not.
[[nodiscard]] int most_weight_slices(const Problem& problem, std::int64_t m, std::int64_t n) noexcept;

// Of one layer, from forward to the gradients.
struct LayerReserve {
  void* gates[kMaxDirections] = {};   // T [rows, S H], rows in whole vectors
  void* cells[kMaxDirections] = {};   // C [rows, H]: LSTM
  void* hidden[kMaxDirections] = {};  // T [rows, H]: h before the projection
  void* dh[kMaxDirections] = {};      // T [rows, P]: with a projection
  void* y = nullptr;                  // T [rows, D P]
  void* dropped = nullptr;            // T [rows, D P]: y behind dropout, all layers but the last
  void* mask = nullptr;
};
[[nodiscard]] LayerReserve take_layer(const Problem& problem, Regions* regions) noexcept;
[[nodiscard]] std::size_t mask_bytes(const Problem& problem) noexcept;

struct Workspace {
  std::int32_t* table = nullptr;    // offsets of the steps, lengths and order of the sequences
  void* exchange = nullptr;         // of resident sweeps
  std::int64_t exchange_bytes = 0;  // of a lane
  std::int64_t exchange_room = 0;   // of all
  void* x = nullptr;                // rows of x or dx; the latter are where d[0] is
  // forward without a reserve space
  void* pre[kMaxDirections] = {};
  void* products = nullptr;  // of all layers but the first, where one launch makes them
  void* cells[kMaxDirections] = {};
  void* hidden[kMaxDirections] = {};
  void* y[2] = {};
  // gradients of data
  void* recurrent_t[kMaxDirections] = {};
  void* pipeline_t = nullptr;  // transposes of all matrices but the first W, where layers run in one launch
  void* projection_t[kMaxDirections] = {};
  void* carry_c[kMaxDirections] = {};
  void* carry_h[kMaxDirections] = {};
  void* d[2] = {};
  void* dh_part[2] = {};  // gradients of h between parts of the steps
  // gradients of weights
  void* inputs = nullptr;  // of all layers, where their products are merged
  void* copies = nullptr;  // of odd rows; where the former are
  void* previous = nullptr;
  float* slices = nullptr;  // of products over the rows
  std::int64_t slices_room = 0;
  void* partials = nullptr;
  void* scratch = nullptr;  // of products; the rest
};
[[nodiscard]] Workspace take_workspace(const Problem& problem, Pass pass, Regions* regions) noexcept;

}  // namespace gpudnn::rnn
