// A block of a direct split sweep (`split_direct_sm90.cuh`): the weights that it holds, and how states and sums come
// and go. Longer than most files: products, exchange and sums share the registers of one loop.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/bulk_copy.cuh"
#include "kernels/ptx/gpu_relaxed.cuh"
#include "kernels/ptx/gpu_relaxed_u64.cuh"
#include "kernels/ptx/ldmatrix.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/mma_sync.cuh"
#include "kernels/ptx/st_async_narrow.cuh"
#include "kernels/ptx/st_shared.cuh"
#include "kernels/ptx/tma.cuh"
#include "kernels/ptx/wgmma_shape.cuh"
#include "kernels/rnn/split.hpp"
#include "kernels/rnn/unit_sm90.cuh"
#include "kernels/tile/stage_ring.cuh"

namespace gpudnn::kernels {

// Which weights lie in registers: none, all of them, or those of half the memory that they take, the others in shared
// memory.
enum class RnnHeld { none, all, half };

// N: places of a tile.
template <class T, int kGates, int N, int kParts, int kWarpgroups, RnnHeld kHeld, bool kBackward, int kSets>
struct RnnDirectBlock {
  using Unit = RnnUnit<RnnDeviceConvert<T>>;
  static constexpr int kThreads = kWarpgroups * kRnnDirectThreads;
  static constexpr int kRowGates = kBackward ? 1 : kGates;
  static constexpr int kColumnGates = kBackward ? kGates : 1;
  static constexpr bool kRowsAreUnits = kRowGates == 1;
  static constexpr int kOperands = kRowsAreUnits ? 1 : 2;  // of 64 rows
  static constexpr int kRows = 64 * kOperands;
  static constexpr int kUnits = kRowsAreUnits ? 64 : 32;
  static constexpr int kVector16 = 16 / static_cast<int>(sizeof(T));  // elements of 16 bytes
  static constexpr int kPanel = 8 * kVector16;                        // columns of 128 bytes
  static constexpr bool kHoldsAll = kHeld == RnnHeld::all;
  static constexpr bool kHoldsHalf = kHeld == RnnHeld::half;
  static constexpr int kSharedPanels = kRnnDirectWeights / (kRows * 128);
  static constexpr int kMaxPanels = (kHoldsHalf ? 2 : 1) * kSharedPanels;
  // How states come: counted by TMA, or in words that say themselves that they have come; of four sets in halves.
  static constexpr bool kCounts = rnn_direct_counts(N, kHoldsHalf, kBackward);
  static constexpr bool kHalves = kSets > kRnnSplitSets;
  static constexpr int kVectors = kMaxPanels / (kHalves ? 2 : 1) * N * 8 / kThreads;  // of a thread, at most
  static constexpr int kMaxAtOnce = kHoldsHalf && N == 32 ? 8 : 16;                   // by the registers that are left
  static constexpr int kAtOnce = kVectors < kMaxAtOnce ? kVectors : kMaxAtOnce;       // looked for together
  // Of a part: the places at which a thread finishes units, and its units.
  static constexpr bool kSplitsPlaces = kWarpgroups > 1 && !kRowsAreUnits;
  static constexpr bool kSplitsUnits = kWarpgroups > 1 && kRowsAreUnits;
  static constexpr int kPlaces = N / 4 / kParts / (kSplitsPlaces ? 2 : 1);
  static constexpr int kOwn = kRowsAreUnits && !kSplitsUnits ? 2 : 1;
  static constexpr int kSums = kOperands * N / 2;  // of a thread
  static constexpr int kPartSums = kSums / kParts / kWarpgroups;
  // Products with few places wait for the one before with the same sums: those of two of them go in turns.
  // Floats have three products for each, so they do with as many places as well.
  static constexpr bool kFloats = sizeof(T) == 4;
  static constexpr int kOwnChains = kOperands * N / 8;
  static constexpr int kChains = !kHoldsAll || N == 32 ? 1 : kOwnChains == 1 ? 4 : 2;
  using Sums = float[kChains][kOperands][N / 2];
  using Halves = float[kParts][kPartSums];
  static_assert(kPlaces >= 1);
  // States that are counted come to a ring of stages: a panel of each warpgroup.
  static constexpr int kStages = kRnnCountedStages;
  static constexpr int kStageBytes = 2 * N * 128;
  static constexpr int kBarriers = kCounts ? 2 * kStages : 2 * kSets;
  using Ring = tile::PipelineState<kStages>;

  const RnnLayer& l;
  const RnnSplitShape& shape;
  const RnnDirection& d;
  int set;     // of the threads
  int thread;  // in the set
  int half;    // warpgroup of the set
  int rank;
  int group;
  std::uint32_t tile_bytes;
  std::uint32_t wanted = 0;
  std::uint32_t wanted_last = 0;  // of the second phase
  unsigned char* weights;
  unsigned char* states;
  float* received;
  float* inbox;  // of the other warpgroup's sums
  std::uint64_t* full;
  std::uint64_t* empty;

  __device__ __forceinline__ RnnDirectBlock(const RnnSplit& p, int direction, unsigned char* shared)
      : l(p.layer), shape(p.shape), d(p.layer.direction[direction]) {
    set = kHoldsHalf ? 0 : __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kThreads, 0);
    std::uint32_t in_set = threadIdx.x % kThreads;
    ptx::pin(in_set);
    thread = static_cast<int>(in_set);
    half = kWarpgroups == 1 ? 0 : __shfl_sync(0xffffffffu, thread / kRnnDirectThreads, 0);
    rank = static_cast<int>(blockIdx.x) % kParts;
    group = static_cast<int>(blockIdx.x) / kParts;
    tile_bytes = static_cast<std::uint32_t>(shape.panels * N * 128);
    weights = shared;
    unsigned char* after = weights + (kHoldsHalf ? kSharedPanels : shape.panels) * kRows * 128;
    states = after + set * state_bytes();
    after += shape.sets * state_bytes();
    constexpr int kReceived = kParts == 2 ? kPartSums * kThreads * 4 : 0;
    received = reinterpret_cast<float*>(after + set * kReceived);
    after += shape.sets * kReceived;
    constexpr int kInbox = kWarpgroups > 1 ? kSums * kRnnDirectThreads * 4 : 0;
    inbox = reinterpret_cast<float*>(after + set * kInbox);
    after += shape.sets * kInbox;
    full = reinterpret_cast<std::uint64_t*>(after) + set;
    empty = full + kBarriers / 2;
    if constexpr (kHalves) {
      static_assert(N * 8 == kThreads, "a vector of each thread is a panel");
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const int k = (thread % 8 ^ thread / 8 % 8) * kVector16;
        if (i < first_half() && column(i * kPanel + k) < columns()) wanted |= 1u << i;
        if (i + first_half() < shape.panels && column((i + first_half()) * kPanel + k) < columns()) {
          wanted_last |= 1u << i;
        }
      }
    } else if constexpr (!kCounts) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const int index = thread + i * kThreads;
        const int k = index / (N * 8) * kPanel + (index % 8 ^ index / 8 % 8) * kVector16;
        if (index / (N * 8) < shape.panels && column(k) < columns()) wanted |= 1u << i;
      }
    }
  }
  __device__ __forceinline__ int groups_of_part() const { return shape.panels * kPanel / (kColumnGates * kUnits); }
  __device__ __forceinline__ int own_part() const { return group / groups_of_part(); }
  __device__ __forceinline__ int first_half() const { return (shape.panels + 1) / 2; }
  __device__ __forceinline__ int state_bytes() const {
    if constexpr (kHalves) return first_half() * N * 128;
    return kCounts ? kStages * kStageBytes : static_cast<int>(tile_bytes);
  }
  __device__ __forceinline__ float* kept() const {
    return reinterpret_cast<float*>(full - set + kBarriers) + threadIdx.x;
  }
  __device__ __forceinline__ int columns() const { return shape.groups * kColumnGates * kUnits; }
  __device__ __forceinline__ int column(int k) const { return rank * shape.panels * kPanel + k; }
  __device__ __forceinline__ static int at(int rows, int row, int k) {
    return (k / kPanel * rows + row) * 128 + (k % kPanel / kVector16 ^ row % 8) * 16;
  }
  // The unit whose sums a thread has in rows `lower`.
  __device__ __forceinline__ int unit_of(int lower) const {
    const int warp = thread % kRnnDirectThreads / 32;
    const int r = thread % 32 / 4;
    return kRowsAreUnits ? warp * 16 + (kSplitsUnits ? half : lower) * 8 + r : warp * 8 + r;
  }

  __device__ __forceinline__ static int loaders() { return kHoldsHalf ? kThreads : static_cast<int>(blockDim.x); }
  // So many panels of the weights; which(i) is the i-th.
  template <class Which>
  __device__ __forceinline__ void load_panels(bool vectors, int panels, const Which& which) const {
    if constexpr (kBackward) {
      load_transposed(vectors, panels, which);
    } else {
      const int chunks = panels * 8;
      for (int i = static_cast<int>(threadIdx.x); i < kRows * chunks; i += loaders()) {
        const int row = i / chunks;
        const int k = i % chunks * kVector16;
        const int of_all = column(which(k / kPanel) * kPanel + k % kPanel);
        const int gate = kRowsAreUnits ? 0 : row / 64 * 2 + row / 8 % 2;
        const int unit = group * kUnits + (kRowsAreUnits ? row : row % 64 / 16 * 8 + row % 8);
        const std::int64_t units = l.units;
        const uint4 words =
            rnn_vector(static_cast<const T*>(d.recurrent) + (gate * units + unit) * units + of_all,
                       of_all < columns() && unit < l.units && gate < kGates ? l.units - of_all : 0, vectors);
        *reinterpret_cast<uint4*>(weights + at(kRows, row, k)) = words;
      }
    }
  }
  // Gradients multiply by the transpose of R: a thread reads as many columns of it as a vector has elements, which are
  // rows of R, for as many units.
  template <class Which>
  __device__ __forceinline__ void load_transposed(bool vectors, int panels, const Which& which) const {
    constexpr int kChunks = kRows / kVector16;  // of rows
    const std::int64_t units = l.units;
    for (int i = static_cast<int>(threadIdx.x); i < kChunks * panels * 8; i += loaders()) {
      const int row = i % kChunks * kVector16;
      const int k = i / kChunks * kVector16;
      const int of_all = column(which(k / kPanel) * kPanel + k % kPanel);
      const int unit = group * kUnits + row;
      const int gate = of_all / kUnits % kColumnGates;
      const int j = of_all / (kUnits * kColumnGates) * kUnits + of_all % kUnits;
      const T* const from = static_cast<const T*>(d.recurrent) + (gate * units + j) * units + unit;
      uint4 words[kVector16];
#pragma unroll
      for (int c = 0; c < kVector16; ++c) {
        words[c] = rnn_vector(from + c * units, of_all < columns() && j + c < l.units ? l.units - unit : 0, vectors);
      }
      rnn_transpose<T>(words);
#pragma unroll
      for (int r = 0; r < kVector16; ++r) *reinterpret_cast<uint4*>(weights + at(kRows, row + r, k)) = words[r];
    }
  }
  __device__ __forceinline__ void load_weights(bool vectors) {
    if constexpr (kHoldsHalf) {  // the first panels of both warpgroups go through shared memory
      const int first_half = (shape.panels + 1) / 2;
      load_panels(vectors, 2 * kHeldPanels, [&](int i) { return i < kHeldPanels ? i : first_half + i - kHeldPanels; });
      meet();
      hold();
      meet();
      load_panels(vectors, shape.panels - 2 * kHeldPanels,
                  [&](int i) { return i < first_half - kHeldPanels ? kHeldPanels + i : 2 * kHeldPanels + i; });
    } else {
      load_panels(vectors, shape.panels, [](int i) { return i; });
    }
    if constexpr (!kCounts) {
      for (int i = thread * 16; i < state_bytes(); i += kThreads * 16) {
        *reinterpret_cast<uint4*>(states + i) = make_uint4(0, 0, 0, 0);
      }
    }
  }
  __device__ __forceinline__ void meet() const { ptx::barrier_sync(1 + set, kThreads); }
  __device__ __forceinline__ void start_barriers() const {
    if (thread == 0) {
      ptx::mbarrier_init(full, 1);
      ptx::mbarrier_init(empty, 1);
      ptx::fence_mbarrier_init();
    }
  }
  __device__ __forceinline__ void expect_sums() const {
    if (thread == 0) ptx::mbarrier_arrive_expect_tx(full, kPartSums * kThreads * 4);
  }
  __device__ __forceinline__ static void wait(std::uint64_t* barrier, unsigned use) {
    while (!ptx::mbarrier_try_wait(barrier, use % 2)) {
    }
  }

  __device__ __forceinline__ void receive(const unsigned char* from) const {
    rnn_receive<kThreads, kVectors, kAtOnce>(from, thread, wanted, ptx::shared_address(states));
    if constexpr (!kHoldsAll) ptx::fence_proxy_async();
    meet();
  }

  // Descriptors of 64 bits whose upper half is the same for all operands: what lies between two products is short, or
  // they take less time than what makes their descriptors.
  __device__ __forceinline__ static std::uint64_t operand(std::uint32_t lower) {
    constexpr std::uint32_t kUpper = 0x40000040;  // rows of 128 bytes, swizzled, eight of them 1024 bytes apart
    return std::uint64_t{kUpper} << 32 | lower;
  }
  __device__ __forceinline__ static void pin(Sums& sums) {
#pragma unroll
    for (auto& chain : sums) {
#pragma unroll
      for (auto& operand : chain) ptx::pin(operand);
    }
  }
  __device__ __forceinline__ static void clear(Sums& sums) {
#pragma unroll
    for (auto& chain : sums) {
#pragma unroll
      for (auto& operand : chain) {
#pragma unroll
        for (float& sum : operand) sum = 0;
      }
    }
  }
  // Weights of the warpgroup's columns in registers, as wgmma takes them.
  static constexpr int kHeldPanels = kHeld != RnnHeld::none ? kSharedPanels / kWarpgroups : 1;
  std::uint32_t held[kHeldPanels * 4][kOperands][4];
  __device__ __forceinline__ int panels_of_half() const {
    const int first_half = (shape.panels + 1) / 2;
    return kWarpgroups == 1 ? shape.panels : half == 0 ? first_half : shape.panels - first_half;
  }
  __device__ __forceinline__ int first_panel() const {
    return kWarpgroups == 1 || half == 0 ? 0 : (shape.panels + 1) / 2;
  }
  __device__ __forceinline__ void hold() {
    const int row = thread % kRnnDirectThreads / 32 * 16 + thread % 32 / 4;
    const int first = kHoldsHalf ? half * kHeldPanels : first_panel();
    const int count = kHoldsHalf ? kHeldPanels : panels_of_half();
#pragma unroll
    for (int step = 0; step < kHeldPanels * 4; ++step) {
#pragma unroll
      for (int m = 0; m < kOperands; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int k = first * kPanel + (2 * step + i / 2) * kVector16;
          const unsigned char* const from = weights + at(kRows, m * 64 + row + i % 2 * 8, k) + thread % 4 * 4;
          held[step][m][i] = step / 4 < count ? *reinterpret_cast<const std::uint32_t*>(from) : 0;
        }
      }
    }
  }
  __device__ __forceinline__ void multiply_held(Sums& sums) {
    const int lane = static_cast<int>(threadIdx.x) % 32;
    const std::uint32_t first =
        ptx::shared_address(states) + static_cast<std::uint32_t>(first_panel() * N * 128 + lane % 8 * 128);
    const int count = panels_of_half();
    clear(sums);
#pragma unroll
    for (int panel = 0; panel < kHeldPanels; ++panel) {
      if (panel >= count) break;
#pragma unroll
      for (int step = 0; step < 4; step += 2) {
        std::uint32_t words[N / 8][4];
#pragma unroll
        for (int n = 0; n < N / 8; ++n) {
          ptx::ldmatrix_x4(
              first + static_cast<std::uint32_t>(panel * N * 128 + n * 1024 + ((step * 2 + lane / 8) ^ lane % 8) * 16),
              words[n]);
        }
        if constexpr (kFloats) {
          multiply_floats(panel * 4 + step, words, sums);
        } else {
#pragma unroll
          for (int k = 0; k < 2; ++k) multiply_step(panel * 4 + step + k, step + k, k, words, sums);
        }
      }
    }
  }
  template <class Multiply>
  __device__ __forceinline__ static void add_product(float (&all)[N / 2], int n, const Multiply& multiply) {
    float part[4] = {all[4 * n], all[4 * n + 1], all[4 * n + 2], all[4 * n + 3]};
    multiply(part);
#pragma unroll
    for (int i = 0; i < 4; ++i) all[4 * n + i] = part[i];
  }
  // Words 2 k and 2 k + 1 of each eight places.
  __device__ __forceinline__ void multiply_step(int step, int in_panel, int k, const std::uint32_t (&words)[N / 8][4],
                                                Sums& sums) {
    auto& all = sums[in_panel % kChains];
#pragma unroll
    for (int n = 0; n < N / 8; ++n) {
#pragma unroll
      for (int m = 0; m < kOperands; ++m) {
        add_product(all[m], n, [&](float(&part)[4]) {
          if constexpr (std::is_same_v<T, tile::Half>) {
            ptx::mma_m16n8k16_f16(part, held[step][m], words[n][2 * k], words[n][2 * k + 1]);
          } else {
            ptx::mma_m16n8k16_bf16(part, held[step][m], words[n][2 * k], words[n][2 * k + 1]);
          }
        });
      }
    }
  }
  // Two steps of floats. Each part with each, but the rests: products of a kind go together, as none of them waits for
  // another one's sums.
  __device__ __forceinline__ void multiply_floats(int step, const std::uint32_t (&words)[N / 8][4], Sums& sums) {
    const auto multiply = [&](int kind, const std::uint32_t(&a)[2][kOperands][4], const auto& part_of) {
#pragma unroll
      for (int k = 0; k < 2; ++k) {
        auto& all = sums[(kChains == 4 ? kind % 2 * 2 + k : k) % kChains];
#pragma unroll
        for (int n = 0; n < N / 8; ++n) {
          const std::uint32_t b0 = part_of(words[n][2 * k]);
          const std::uint32_t b1 = part_of(words[n][2 * k + 1]);
#pragma unroll
          for (int m = 0; m < kOperands; ++m) {
            add_product(all[m], n, [&](float(&part)[4]) { ptx::mma_m16n8k8_tf32(part, a[k][m], b0, b1); });
          }
        }
      }
    };
    std::uint32_t upper[2][kOperands][4];
    std::uint32_t rest[2][kOperands][4];
#pragma unroll
    for (int k = 0; k < 2; ++k) {
#pragma unroll
      for (int m = 0; m < kOperands; ++m) {
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          std::uint32_t& bits = held[step + k][m][i];
          ptx::pin(bits);  // else its parts are kept beside it
          upper[k][m][i] = rnn_upper(bits);
          rest[k][m][i] = rnn_rest(bits);
        }
      }
    }
    if (!l.cuts_to_tf32) {
      multiply(0, rest, rnn_upper);
      multiply(1, upper, rnn_rest);
    }
    multiply(2, upper, rnn_upper);
  }
  // Panels of weights and states that lie side by side.
  __device__ __forceinline__ static void multiply_shared(Sums& sums, std::uint32_t a, std::uint32_t b, int panels) {
#pragma unroll 1
    for (int panel = 0; panel < panels; ++panel) {
#pragma unroll
      for (int k = 0; k < 4; ++k) {
#pragma unroll
        for (int m = 0; m < kOperands; ++m) {
          ptx::wgmma_ss<T, T, N>(sums[k % kChains][m], operand(a + static_cast<unsigned>(m * 512 + k * 2)),
                                 operand(b + static_cast<unsigned>(k * 2)));
        }
      }
      a += kRows * 8;
      b += N * 8;
    }
  }
  __device__ __forceinline__ void multiply_held_half(Sums& sums, std::uint32_t b) const {
#pragma unroll
    for (int step = 0; step < kHeldPanels * 4; ++step) {
#pragma unroll
      for (int m = 0; m < kOperands; ++m) {
        ptx::wgmma_rs<T, T, N>(sums[0][m], held[step][m],
                               operand(b + static_cast<unsigned>(step / 4 * (N * 8) + step % 4 * 2)));
      }
    }
  }
  // States of four sets in halves: those of the second one are looked for while the first is multiplied. The products
  // of the second one are under way at the end.
  __device__ __forceinline__ void multiply_halves(const unsigned char* from, Sums& sums) const {
    const std::uint32_t to = ptx::shared_address(states) + static_cast<std::uint32_t>(thread * 16);
    const std::uint32_t a = (ptx::shared_address(weights) & 0x3ffffu) >> 4;
    const std::uint32_t b = (ptx::shared_address(states) & 0x3ffffu) >> 4;
    uint4 words[kVectors];
    const auto look = [&](const unsigned char* at, std::uint32_t missing) {
      std::int64_t first = reinterpret_cast<std::int64_t>(at) + thread * 16;
      ptx::pin(&first);
#pragma unroll 1
      while (missing != 0) {
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
          if (missing >> i & 1) {
            words[i] = ptx::ld_relaxed_gpu_v4(reinterpret_cast<const void*>(first + i * (kThreads * 16)));  // NOLINT
          }
        }
#pragma unroll
        for (int i = 0; i < kVectors; ++i) {
          if (rnn_is_there(words[i])) missing &= ~(1u << i);
        }
      }
    };
    const auto put = [&](std::uint32_t wanted_here) {
#pragma unroll
      for (int i = 0; i < kVectors; ++i) {
        const bool is_there = (wanted_here >> i & 1) != 0;
        if (!is_there && i >= first_half()) continue;
        ptx::st_shared(to + static_cast<std::uint32_t>(i * (kThreads * 16)),
                       is_there ? words[i] : make_uint4(0, 0, 0, 0));
      }
      ptx::fence_proxy_async();
      meet();
    };
    look(from, wanted);
    put(wanted);
    clear(sums);
    ptx::wgmma_fence();
    multiply_shared(sums, a, b, first_half());
    ptx::wgmma_commit_group();
    look(from + first_half() * (N * 128), wanted_last);
    ptx::wgmma_wait_group<0>();
    pin(sums);
    meet();
    put(wanted_last);
    ptx::wgmma_fence();
    multiply_shared(sums, a + static_cast<unsigned>(first_half() * kRows * 8), b, shape.panels - first_half());
    ptx::wgmma_commit_group();
  }
  // States that are counted: the panels of a turn in their order, those for weights in registers first.
  __device__ __forceinline__ void start_ring() const {
    if (threadIdx.x == 0) {
      for (int i = 0; i < kStages; ++i) {
        ptx::mbarrier_init(full + i, 1);
        ptx::mbarrier_init(empty + i, kThreads / 32);
      }
      ptx::fence_mbarrier_init();
    }
    __syncthreads();
  }
  __device__ __forceinline__ void copy_states(const unsigned char* from, Ring& ring) const {
    const int each = shape.panels / 2;
#pragma unroll 1
    for (int i = 0; i < each; ++i) {
      tile::wait(empty + ring.stage, ring.parity ^ 1);
      ptx::mbarrier_arrive_expect_tx(full + ring.stage, kStageBytes);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        ptx::bulk_copy(states + ring.stage * kStageBytes + h * (N * 128), from + (h * each + i) * (N * 128), N * 128,
                       full + ring.stage);
      }
      ring.next();
    }
  }
  __device__ __forceinline__ void multiply_ring(Ring& ring, Sums& sums) const {
    const int each = shape.panels / 2;
    const std::uint32_t first = ((ptx::shared_address(states) & 0x3ffffu) >> 4) + static_cast<unsigned>(half * N * 8);
    std::uint32_t a = ((ptx::shared_address(weights) & 0x3ffffu) >> 4) +
                      static_cast<unsigned>(half * (each - kHeldPanels) * kRows * 8);
    int previous = -1;
    const auto panel = [&](const auto& multiply) {
      tile::wait(full + ring.stage, ring.parity);
      ptx::wgmma_fence();
      multiply(first + static_cast<unsigned>(ring.stage * (kStageBytes / 16)));
      ptx::wgmma_commit_group();
      ptx::wgmma_wait_group<1>();
      release(previous);
      previous = ring.stage;
      ring.next();
    };
    clear(sums);
#pragma unroll
    for (int i = 0; i < kHeldPanels; ++i) {
      panel([&](std::uint32_t b) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          ptx::wgmma_rs<T, T, N>(sums[0][0], held[i * 4 + k][0], operand(b + static_cast<unsigned>(k * 2)));
        }
      });
    }
#pragma unroll 1
    for (int i = kHeldPanels; i < each; ++i) {
      panel([&](std::uint32_t b) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
          ptx::wgmma_ss<T, T, N>(sums[0][0], operand(a + static_cast<unsigned>(k * 2)),
                                 operand(b + static_cast<unsigned>(k * 2)));
        }
        a += kRows * 8;
      });
    }
    ptx::wgmma_wait_group<0>();
    pin(sums);
    release(previous);
  }
  __device__ __forceinline__ void release(int stage) const {
    if (stage >= 0 && threadIdx.x % 32 == 0) ptx::mbarrier_arrive(empty + stage);
  }
  __device__ __forceinline__ void start_products(Sums& sums) const {
    std::uint32_t a = (ptx::shared_address(weights) & 0x3ffffu) >> 4;
    std::uint32_t b = (ptx::shared_address(states) & 0x3ffffu) >> 4;
    const int first_half = (shape.panels + 1) / 2;
    constexpr int kHere = kHoldsHalf ? kHeldPanels : 0;  // of the warpgroup, in registers
    if (kWarpgroups > 1 && half == 1) {
      a += static_cast<unsigned>((first_half - kHere) * kRows * 8);
      b += static_cast<unsigned>(first_half * N * 8);
    }
    const std::uint32_t of_held = b;
    b += kHere * N * 8;
    // Where both warpgroups hold some, they have as many panels: a loop that is alike for all threads.
    const int panels = kHoldsHalf ? shape.panels / 2 - kHere : panels_of_half();
    clear(sums);
    ptx::wgmma_fence();
    multiply_shared(sums, a, b, panels);
    // Behind the loop: before it the compiler makes each product wait for the last one.
    if constexpr (kHoldsHalf) multiply_held_half(sums, of_held);
    ptx::wgmma_commit_group();
  }

  // The place-th of the thread's places in part `part` of half `of`: which eight places, and which of the two of a
  // thread there.
  __device__ __forceinline__ static constexpr int first_place(int part, int of) {
    return ((kSplitsPlaces ? of * kParts : 0) + part) * kPlaces;
  }
  __device__ __forceinline__ int place_at(int place) const {
    const int at = ((kSplitsPlaces ? half * kParts : 0) + rank) * kPlaces + place;
    return at / 2 * 8 + thread % 4 * 2 + at % 2;
  }
  // Sum i of a part of half `of`: [place][operand][lower].
  __device__ __forceinline__ static float sum_of(const Sums& sums, int part, int of, int i) {
    constexpr int kOfPlace = kRowsAreUnits ? kOwn : 4;
    const int at = first_place(part, of) + i / kOfPlace;
    const int lower = kSplitsUnits ? of : i % 2;
    const int operand = kRowsAreUnits ? 0 : i / 2 % 2;
    const int place = at / 2 * 4 + 2 * lower + at % 2;
    float sum = sums[0][operand][place];
#pragma unroll
    for (int chain = 1; chain < kChains; ++chain) sum += sums[chain][operand][place];
    return sum;
  }
  // Both warpgroups have summed a half of the columns: each gets what it finishes.
  __device__ __forceinline__ void meet_halves(const Sums& sums, Halves& out) const {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < kPartSums; ++i) {
        out[part][i] = sum_of(sums, part, 0, i);
        if (kWarpgroups > 1 && half == 1) out[part][i] = sum_of(sums, part, 1, i);
      }
    }
    if constexpr (kWarpgroups > 1) {
      float* const to = inbox + (1 - half) * (kSums / 2 * kRnnDirectThreads) + thread % kRnnDirectThreads;
      const float* const from = inbox + half * (kSums / 2 * kRnnDirectThreads) + thread % kRnnDirectThreads;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int i = 0; i < kPartSums; ++i) {
          to[(part * kPartSums + i) * kRnnDirectThreads] =
              half == 1 ? sum_of(sums, part, 0, i) : sum_of(sums, part, 1, i);
        }
      }
      meet();
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int i = 0; i < kPartSums; ++i) out[part][i] += from[(part * kPartSums + i) * kRnnDirectThreads];
      }
    }
  }
  __device__ __forceinline__ void own_sums(const Halves& sums, float (&own)[kPartSums]) const {
#pragma unroll
    for (int i = 0; i < kPartSums; ++i) {
      own[i] = sums[0][i];
#pragma unroll
      for (int part = 1; part < kParts; ++part) {
        if (rank == part) own[i] = sums[part][i];
      }
    }
  }
  // In a cluster of two: to the other block, [vector][thread].
  struct Target {
    std::uint32_t sums;
    std::uint32_t barrier;
  };
  static constexpr int kVector = kPartSums < 4 ? kPartSums : 4;
  __device__ __forceinline__ Target target() const {
    const auto other = static_cast<std::uint32_t>(1 - rank);
    return {ptx::mapa(ptx::shared_address(received + thread * kVector), other),
            ptx::mapa(ptx::shared_address(full), other)};
  }
  __device__ __forceinline__ void send(const Halves& sums, const Target& to) const {
    float other[kPartSums];
#pragma unroll
    for (int i = 0; i < kPartSums; ++i) other[i] = rank == 0 ? sums[kParts - 1][i] : sums[0][i];
#pragma unroll
    for (int i = 0; i < kPartSums; i += kVector) {
      const std::uint32_t address = to.sums + static_cast<std::uint32_t>(i * kThreads * 4);
      if constexpr (kVector == 4) {
        ptx::st_async(address, make_float4(other[i], other[i + 1], other[i + 2], other[i + 3]), to.barrier);
      } else if constexpr (kVector == 1) {
        ptx::st_async(address, other[i], to.barrier);
      } else {
        ptx::st_async(address,
                      std::uint64_t{__float_as_uint(other[i + 1])} << 32 | std::uint64_t{__float_as_uint(other[i])},
                      to.barrier);
      }
    }
  }
  __device__ __forceinline__ void add_received(float (&own)[kPartSums]) const {
#pragma unroll
    for (int i = 0; i < kPartSums; ++i) own[i] += received[(i / kVector * kThreads + thread) * kVector + i % kVector];
  }
  // Through L2: [part][rank][vector][thread], each word with the bit of its turn.
  __device__ __forceinline__ static std::uint32_t turned(float sum, unsigned turn) {
    const std::uint32_t bits = sum != sum ? 0x7fc00000u : __float_as_uint(sum);
    return (bits & ~1u) | turn;
  }
  static constexpr int kPartWords = kPartSums * kThreads;
  static constexpr int kAtOnceSums = kPartSums > 1 ? 2 : 1;  // stored and loaded together
  using SumWord = std::conditional_t<kAtOnceSums == 2, std::uint64_t, std::uint32_t>;
  __device__ __forceinline__ static std::uint32_t sum_in(SumWord word, int which) {
    if constexpr (kAtOnceSums == 2) return static_cast<std::uint32_t>(word >> (32 * which));
    return static_cast<std::uint32_t>(word);
  }
  __device__ __forceinline__ static SumWord load_sums(const std::uint32_t* from) {
    if constexpr (kAtOnceSums == 2) {
      return ptx::ld_relaxed_gpu_u64(from);
    } else {
      return ptx::ld_relaxed_gpu(from);
    }
  }
  __device__ __forceinline__ void store_sums(const Halves& sums, std::uint32_t* of_group, unsigned turn) const {
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
      if (part == rank) continue;
#pragma unroll
      for (int i = 0; i < kPartSums; i += kAtOnceSums) {
        std::uint32_t* const to =
            of_group + (part * kParts + rank) * kPartWords + (i / kVector * kThreads + thread) * kVector + i % kVector;
        if constexpr (kAtOnceSums == 2) {
          ptx::st_relaxed_gpu_u64(
              to, std::uint64_t{turned(sums[part][i + 1], turn)} << 32 | std::uint64_t{turned(sums[part][i], turn)});
        } else {
          ptx::st_relaxed_gpu(to, turned(sums[part][i], turn));
        }
      }
    }
  }
  __device__ __forceinline__ void add_stored(const std::uint32_t* of_group, unsigned turn,
                                             float (&own)[kPartSums]) const {
    SumWord words[kParts][kPartSums / kAtOnceSums];
    const auto word_at = [&](int part, int i) {
      return of_group + (rank * kParts + part) * kPartWords + (i / kVector * kThreads + thread) * kVector + i % kVector;
    };
    const auto is_there = [&](SumWord word) {
      return sum_in(word, 0) % 2 == turn && sum_in(word, kAtOnceSums - 1) % 2 == turn;
    };
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < kPartSums; i += kAtOnceSums) {
        SumWord& word = words[part][i / kAtOnceSums];
        if (part != rank) {
          word = load_sums(word_at(part, i));
        } else {
          word = turn;
          if constexpr (kAtOnceSums == 2) word |= SumWord{turn} << 32;
        }
      }
    }
    bool looks;
    do {
      looks = false;
#pragma unroll
      for (int part = 0; part < kParts; ++part) {
#pragma unroll
        for (int i = 0; i < kPartSums; i += kAtOnceSums) {
          SumWord& word = words[part][i / kAtOnceSums];
          if (is_there(word)) continue;
          word = load_sums(word_at(part, i));
          looks = true;
        }
      }
    } while (looks);
    float total[kPartSums] = {};
#pragma unroll
    for (int part = 0; part < kParts; ++part) {
#pragma unroll
      for (int i = 0; i < kPartSums; ++i) {
        const float other = __uint_as_float(sum_in(words[part][i / kAtOnceSums], i % kAtOnceSums));
        total[i] += part == rank ? own[i] : other;
      }
    }
#pragma unroll
    for (int i = 0; i < kPartSums; ++i) own[i] = total[i];
  }

  // A word of two units that are neighbours, which lie in two threads: each of them stores one of two words.
  __device__ __forceinline__ static std::uint32_t word_of(float first, float second, bool odd) {
    const std::uint32_t mine = odd ? rnn_word_bits<T>(second) : rnn_word_bits<T>(first);
    const std::uint32_t others =
        __shfl_xor_sync(0xffffffffu, odd ? rnn_word_bits<T>(first) : rnn_word_bits<T>(second), 4);
    return odd ? others | mine << 16 : mine | others << 16;
  }
};

}  // namespace gpudnn::kernels
