// A block of a sweep of one or two sequences (`gemv_sm90.cuh`): its weights, products, sums, and the exchange.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/ptx/barrier.cuh"
#include "kernels/ptx/gpu_relaxed.cuh"
#include "kernels/ptx/gpu_relaxed_u64.cuh"
#include "kernels/ptx/ld_shared_if.cuh"
#include "kernels/ptx/mbarrier.cuh"
#include "kernels/ptx/st_async.cuh"
#include "kernels/rnn/resident.hpp"
#include "kernels/rnn/unit_sm90.cuh"
#include "kernels/tile/cluster.cuh"
#include "kernels/tile/dynamic_shared.cuh"
#include "kernels/tile/mma.cuh"

namespace gpudnn::kernels {

// The `use`-th phase of a barrier in shared memory.
__device__ __forceinline__ void rnn_wait(std::uint64_t* barrier, unsigned use) {
  while (!ptx::mbarrier_try_wait(barrier, use % 2)) {
  }
}

// kOwn, kAcross: most vectors of 32 columns of the lane's own states, of a part, and of its neighbour's.
template <class T, int G, int kOwn, int kAcross, int kWarps, bool kBackward, bool kCluster>
struct RnnGemvBlock {
  static constexpr bool kFloats = sizeof(T) == 4;
  static constexpr int kVector = 16 / static_cast<int>(sizeof(T));
  static constexpr int kColumns = 32;
  static constexpr int kSlices = kColumns / kVector;  // lanes that share a vector of columns
  static constexpr int kWarpUnits = 4;
  static constexpr int kParts = kCluster ? 1 : 32 / kOwn;  // warps that divide the columns of their units
  static constexpr int kThreads = kWarps * 32;
  static constexpr int kGroups = kWarps / kParts;
  static constexpr int kUnits = kWarpUnits * kGroups;
  static constexpr int kStates = kBackward ? G : 1;  // rows of states of a sequence
  // States of sequences alone are loaded. Forward it takes more shuffles behind the product.
  static constexpr bool kFewLoads = !kFloats && (kBackward || kAcross > 0);
  static_assert(!kFewLoads || kBackward || G == 4, "each lane asks for one gate");
  // Of launches with lanes for products.
  static constexpr bool kPipes = G == 4 && kCluster && kWarps == 8 && !kBackward && !kFloats;
  static constexpr int kPlaces = kRnnGemvPlaces;
  static constexpr int kRows = kPlaces * kStates;
  // Elements of a row in shared memory: zeros behind its states; loads of 16 bytes meet no bank twice.
  static constexpr int kPadding = 64 / static_cast<int>(sizeof(T));
  static constexpr int kRow = kOwn * kParts * kColumns + kPadding;
  static constexpr int kAcrossRow = kAcross * kColumns + kPadding;
  static constexpr int kBuffer = kRows * kRow;
  static constexpr int kAcrossBuffer = kAcross > 0 ? kRows* kAcrossRow : 0;  // of a warp
  static constexpr int kSharedBytes = (2 * kBuffer + kWarps * kAcrossBuffer) * static_cast<int>(sizeof(T));
  static constexpr int kWords = kFloats ? 16 : 8;  // of a lane's weights for a vector of columns
  static_assert(!kFloats || kCluster, "floats are exchanged in clusters");
  static_assert(kOwn % 4 == 0 && kAcross % 4 == 0, "vectors are loaded by four");

  const RnnResident& p;
  const RnnLayer& l;
  const RnnResidentLane& lane;
  const RnnDirection& d;
  const int thread = static_cast<int>(threadIdx.x);
  const int id = thread % 32;
  const int part = thread / 32 / kGroups;
  int batch;
  int padded;      // units as the exchange holds them
  int own;         // elements of a row of the exchange
  int unit0;       // of the warp
  int first;       // vector of columns of the part
  int count;       // its vectors
  int across = 0;  // of the neighbour
  // Of shared memory: in registers, else they are worked out for each access anew.
  std::uint32_t states;  // two buffers
  std::uint32_t across_states;
  std::uint32_t barriers = 0;
  static constexpr int kTargets = kBackward ? 4 : 1;
  std::uint32_t states_there[kTargets];  // of blocks that the lane sends to
  std::uint32_t barriers_there[kTargets];
  std::uint32_t weights[kOwn + kAcross][kWords];
  static constexpr int kAhead = kAcross == 0 ? 0 : kBackward ? kStates : kRows;  // rows that are looked for ahead
  uint4 words[kAhead > 0 ? kAhead : 1];
  float sums[4][4];  // 16 bits: of four chains; float: [sequence][gate]

  __device__ __forceinline__ RnnGemvBlock(const RnnResident& args, int which)
      : p(args), l(args.layer), lane(args.lane[which]), d(lane.d) {
    batch = l.rows.batch;
    padded = static_cast<int>(rnn_exchange_units(l.units));
    own = padded * kStates;
    unit0 = static_cast<int>(blockIdx.x) * kUnits + thread / 32 % kGroups * kWarpUnits;
    const int vectors = padded / kColumns;
    // As many each, or backward whole groups of vectors: what is loaded behind the last one are zeros.
    const int of_part = kParts > 1 && kBackward ? (vectors + 15) / 16 * 8 : (vectors + kParts - 1) / kParts;
    first = part * of_part;
    count = part + 1 < kParts ? of_part : vectors - first;
    if (kAcross > 0 && lane.neighbour >= 0) across = count;
    states = ptx::shared_address(tile::dynamic_shared());
    ptx::pin(states);
    across_states = states + bytes(2 * kBuffer + thread / 32 * kAcrossBuffer);
    ptx::pin(across_states);
  }
  // Through L2 a row lies in several copies, each of all sequences, of which a block looks at one: where all look at
  // the same lines, they wait for each other.
  __device__ __forceinline__ int copies() const { return kCluster ? 1 : p.copies; }
  __device__ __forceinline__ std::int64_t row_elements() const { return std::int64_t{own} * copies(); }
  __device__ __forceinline__ int own_copy() const {
    return kCluster ? 0 : static_cast<int>(blockIdx.x) % copies() * batch * own;
  }
  __device__ __forceinline__ static std::uint32_t bytes(int elements) {
    return static_cast<std::uint32_t>(elements * static_cast<int>(sizeof(T)));
  }
  template <class U>
  __device__ __forceinline__ static U* shared(std::uint32_t address) {
    return static_cast<U*>(__cvta_shared_to_generic(address));
  }
  __device__ __forceinline__ T* rows_of(int which) const {
    const int number = kPipes && p.pipes ? which / 2 : which;
    return reinterpret_cast<T*>(static_cast<unsigned char*>(p.exchange) + number * p.lane_bytes);
  }

  // What the lane finishes: a gate of a unit of the warp of one sequence.
  __device__ __forceinline__ int place() const { return kFloats ? id / 4 % 2 : kBackward ? id % 4 / 2 : id / 16; }
  __device__ __forceinline__ int unit() const { return kFloats ? id / 8 : id / 4 % 4; }
  __device__ __forceinline__ int gate() const { return !kFloats && kBackward ? id % 2 + id / 16 * 2 : id % 4; }
  // The value of another gate.
  __device__ __forceinline__ float of_gate(float value, int which) const {
    const int from = !kFloats && kBackward ? (id & 14) + which % 2 + which / 2 * 16 : (id & 28) + which;
    return __shfl_sync(0xffffffffu, value, from);
  }
  // Row of the gate in the exchange, where it has one; of a GRU the recurrent part of n stands for n.
  __device__ __forceinline__ int row_of_gate() const { return G == 3 && gate() == 3 ? 2 : gate(); }
  __device__ __forceinline__ bool has_row() const { return !kBackward || G == 4 || gate() != 2; }
  // Number of the lane among those that have the same values to send.
  __device__ __forceinline__ int number() const { return kBackward ? unit() : kFloats ? id / 8 * 4 + id % 4 : id % 16; }

  __device__ __forceinline__ int column(int vector) const {
    return ((first + vector) * kSlices + id % kSlices) * kVector;
  }
  __device__ __forceinline__ uint4 weight(bool of_neighbour, int of_gate, int at, int k) const {
    const T* from = static_cast<const T*>(of_neighbour ? d.across : kBackward ? d.recurrent_t : d.recurrent);
    const int j = unit0 + at;
    if (of_gate >= G || j >= l.units || k >= l.units) return make_uint4(0, 0, 0, 0);
    const std::int64_t units = l.units;
    const std::int64_t row = kBackward ? j * std::int64_t{G} + of_gate : of_gate * units + j;
    return *reinterpret_cast<const uint4*>(from + row * units + k);
  }
  __device__ __forceinline__ void load_weights(int at, int vector, bool of_neighbour) {
    const int k = column(vector);
    std::uint32_t(&w)[kWords] = weights[at];
    if constexpr (kFloats) {
#pragma unroll
      for (int g = 0; g < 4; ++g) {
        const uint4 v = weight(of_neighbour, g, id / 8, k);
        w[4 * g] = v.x, w[4 * g + 1] = v.y, w[4 * g + 2] = v.z, w[4 * g + 3] = v.w;
      }
    } else {
      const uint4 upper = weight(of_neighbour, id / 16, id / 4 % 4, k);
      const uint4 lower = weight(of_neighbour, 2 + id / 16, id / 4 % 4, k);
      w[0] = upper.x, w[1] = lower.x, w[2] = upper.y, w[3] = lower.y;
      w[4] = upper.z, w[5] = lower.z, w[6] = upper.w, w[7] = lower.w;
    }
  }
  // Of vectors that there are not zeros.
  __device__ __forceinline__ void load_weights() {
#pragma unroll
    for (int v = 0; v < kOwn + kAcross; ++v) {
#pragma unroll
      for (std::uint32_t& word : weights[v]) word = 0;
      if (v < kOwn && v < count) load_weights(v, v, kPipes && lane.multiplies);
      if (v >= kOwn && v - kOwn < across) load_weights(v, v - kOwn, true);
    }
  }

  __device__ __forceinline__ std::uint32_t state_bytes() const { return bytes(batch * own); }
  __device__ __forceinline__ void start() {
    using Unit = RnnUnit<RnnDeviceConvert<T>>;
    for (int i = thread * 16; i < kSharedBytes; i += kThreads * 16) {
      *reinterpret_cast<uint4*>(tile::dynamic_shared() + i) = make_uint4(0, 0, 0, 0);
    }
    __syncthreads();
    if (!kBackward && d.hx != nullptr) {
      for (int i = thread; i < batch * l.units; i += kThreads) {
        *shared<T>(states + bytes(i / l.units * kRow + i % l.units)) = tile::narrow<T>(Unit::load(d.hx, i));
      }
    }
    if constexpr (kCluster) {
      __shared__ std::uint64_t arrivals[2];
      barriers = ptx::shared_address(arrivals);
      ptx::pin(barriers);
      if (thread == 0) {
        for (int i = 0; i < 2; ++i) {
          ptx::mbarrier_init(arrivals + i, 1);
          ptx::mbarrier_arrive_expect_tx(arrivals + i, state_bytes());
        }
        ptx::fence_mbarrier_init();
      }
      const int row = place() * kStates + (kBackward ? row_of_gate() : 0);
      const std::uint32_t at = states + bytes(row * kRow + unit0);
#pragma unroll
      for (int i = 0; i < kTargets; ++i) {
        const auto rank = static_cast<std::uint32_t>(has_target(i) ? number() + 4 * i : 0);
        states_there[i] = ptx::mapa(at, rank);
        barriers_there[i] = ptx::mapa(barriers, rank);
      }
      tile::cluster_sync(2);  // of all its blocks: the number says that there may be several
    } else {
      __syncthreads();
    }
  }
  __device__ __forceinline__ bool has_target(int i) const { return number() + 4 * i < static_cast<int>(gridDim.x); }

  __device__ __forceinline__ void clear() {
#pragma unroll
    for (auto& chain : sums) {
#pragma unroll
      for (float& sum : chain) sum = 0;
    }
  }
  __device__ __forceinline__ void multiply_16_bits(int at, int vector, const uint4& w) {
    const std::uint32_t(&a)[kWords] = weights[at];
    const std::uint32_t lower[4] = {a[0], a[1], a[2], a[3]};
    const std::uint32_t upper[4] = {a[4], a[5], a[6], a[7]};
    float(&first_chain)[4] = sums[vector % 2 * 2];
    float(&second_chain)[4] = sums[vector % 2 * 2 + 1];
    tile::mma_m16n8k16<T>(first_chain, lower, w.x, w.y);
    tile::mma_m16n8k16<T>(second_chain, upper, w.z, w.w);
  }
  __device__ __forceinline__ void multiply_gate(int at, int which, int of_gate, const uint4& h) {
    const std::uint32_t* const w = weights[at] + 4 * of_gate;
    float& sum = sums[which][of_gate];
    sum = fmaf(__uint_as_float(w[0]), __uint_as_float(h.x), sum);
    sum = fmaf(__uint_as_float(w[1]), __uint_as_float(h.y), sum);
    sum = fmaf(__uint_as_float(w[2]), __uint_as_float(h.z), sum);
    sum = fmaf(__uint_as_float(w[3]), __uint_as_float(h.w), sum);
  }
  // Weights from vector kFrom on times `there` vectors of rows of kRowElements in shared memory.
  template <int kFrom, int kVectors, int kRowElements>
  __device__ __forceinline__ void multiply(std::uint32_t rows, int there) {
    constexpr int kAtOnce = kVectors == 16 ? 8 : 4;  // vectors that are loaded before the first is multiplied
    const std::uint32_t now = rows + bytes(column(0));
    // 16 bits: the row of the lane's column. Where a column without a sequence is nobody's, it is not loaded, and
    // nobody reads its sums: a load takes as long as there are lanes that load.
    const int of_column = kBackward ? id / 16 : kFewLoads ? id / 4 : id / 4 % 2;
    const int of_gate = kBackward && id / 4 % 4 < G ? id / 4 % 4 : 0;
    const bool loads = of_column < batch;
    const int state_row = (loads || kFewLoads ? of_column : 0) * kStates + of_gate;
    const auto load = [&](int row, int begin, uint4(&loaded)[kAtOnce]) {
#pragma unroll
      for (int i = 0; i < kAtOnce; ++i) {
        const std::uint32_t at = now + bytes(row * kRowElements + (begin + i) * kColumns);
        if constexpr (kFewLoads) {
          loaded[i] = ptx::ld_shared_if(loads, at);
        } else {
          loaded[i] = *shared<const uint4>(at);
        }
      }
    };
#pragma unroll
    for (int begin = 0; begin < kVectors; begin += kAtOnce) {
      if (begin >= there) break;
      uint4 loaded[kAtOnce];
      if constexpr (kFloats) {
#pragma unroll
        for (int n = 0; n < kPlaces; ++n) {
          if (n >= batch) break;
#pragma unroll
          for (int g = 0; g < G; ++g) {
            if (kBackward || g == 0) load(n * kStates + g, begin, loaded);
#pragma unroll
            for (int i = 0; i < kAtOnce; ++i) multiply_gate(kFrom + begin + i, n, g, loaded[i]);
          }
        }
      } else {
        load(state_row, begin, loaded);
#pragma unroll
        for (int i = 0; i < kAtOnce; ++i) {
          // What is loaded behind the last vector are zeros.
          if (kParts > 1 && !kBackward && begin > 0 && begin + i >= there) break;
          multiply_16_bits(kFrom + begin + i, begin + i, loaded[i]);
        }
      }
    }
  }

  // The neighbour's words of a step: of each row a vector a lane.
  static_assert(kAcross == 0 || kAcross * kColumns == 32 * kVector, "a row has no more vectors");
  __device__ __forceinline__ bool has_word(int row) const { return row / kStates < batch && id * kVector < padded; }
  __device__ __forceinline__ void look_across(const T* from) {
#pragma unroll
    for (int row = 0; row < kAhead; ++row) {
      if (has_word(row)) words[row] = ptx::ld_relaxed_gpu_v4(from + row * padded + id * kVector);
    }
  }
  __device__ __forceinline__ void take_across(const T* from) {
    __syncwarp();
#pragma unroll
    for (int row = 0; row < kRows; ++row) {
      if (!has_word(row)) continue;
      const T* const at = from + row * padded + id * kVector;
      uint4 w = row < kAhead ? words[row < kAhead ? row : 0] : ptx::ld_relaxed_gpu_v4(at);
      while (!rnn_is_there(w)) w = ptx::ld_relaxed_gpu_v4(at);
      *shared<uint4>(across_states + bytes(row * kAcrossRow + id * kVector)) = w;
    }
    __syncwarp();
  }
  __device__ __forceinline__ void multiply_across() {
    if constexpr (kAcross > 0) multiply<kOwn, kAcross, kAcrossRow>(across_states, across);
  }

  // Waits for the states before step `step`, which lie from `from` on in the exchange.
  __device__ __forceinline__ void wait(const T* from, int step) {
    if constexpr (kCluster) {
      auto* const barrier = shared<std::uint64_t>(barriers + static_cast<std::uint32_t>((step - 1) % 2 * 8));
      rnn_wait(barrier, static_cast<unsigned>(step - 1) / 2);
      if (thread == 0) ptx::mbarrier_arrive_expect_tx(barrier, state_bytes());
      __syncwarp();
    } else {
      receive(from, step);
      __syncthreads();
    }
  }
  // From L2. Warps that finish no units begin.
  __device__ __forceinline__ void receive(const T* from, int step) {
    constexpr int kMost = kStates;  // vectors of a thread
    // Exact for multiples of a vector below 2^13 and rows of 288 to 1024 elements, a multiple of 32.
    constexpr int kRowShift = 20;
    const int part_of_row = ((1 << kRowShift) + padded - 1) / padded;
    const int begin = (thread + kThreads / 2) % kThreads;
    const std::uint32_t to = states + bytes(step % 2 * kBuffer);
    unsigned missing = 0;
#pragma unroll
    for (int i = 0; i < kMost; ++i) {
      if ((begin + i * kThreads) * kVector < batch * own) missing |= 1u << i;
    }
    uint4 vectors[kMost];
#pragma unroll 1
    while (missing != 0) {
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        if (missing >> i & 1) vectors[i] = ptx::ld_relaxed_gpu_v4(from + (begin + i * kThreads) * kVector);
      }
#pragma unroll
      for (int i = 0; i < kMost; ++i) {
        if ((missing >> i & 1) == 0 || !rnn_is_there(vectors[i])) continue;
        const int at = (begin + i * kThreads) * kVector;
        const int row = at * part_of_row >> kRowShift;
        *shared<uint4>(to + bytes(at + row * (kRow - padded))) = vectors[i];
        missing &= ~(1u << i);
      }
    }
  }
  __device__ __forceinline__ void multiply_own(int step) {
    multiply<0, kOwn, kRow>(states + bytes(step % 2 * kBuffer), count);
  }

  // Sums of the lane's unit and sequence: of each gate, but of floats of the lane's own and a GRU's third one, or
  // backward one of all. Parts are added in their order.
  template <int N>
  __device__ __forceinline__ void take_sums(float (&total)[N]) {
    if constexpr (kFloats) {
      // Each lane keeps half of what it has, and adds what another lane has of it.
      const auto exchange = [&](bool keeps_second, float first, float second, int distance) {
        float sent = keeps_second ? first : second;
        ptx::pin(&sent);  // no branch for each half of the warp
        return (keeps_second ? second : first) + __shfl_xor_sync(0xffffffffu, sent, distance);
      };
      const auto of_place = [&](int n, int g) { return batch == 1 ? sums[0][g] : sums[n][g]; };
      if constexpr (kBackward) {
        float all[kPlaces];
#pragma unroll
        for (int n = 0; n < kPlaces; ++n) all[n] = of_place(n, 0) + of_place(n, 1) + (of_place(n, 2) + of_place(n, 3));
        total[0] = exchange(id / 4 % 2 != 0, all[0], all[1], 4);
        total[0] += __shfl_xor_sync(0xffffffffu, total[0], 2);
        total[0] += __shfl_xor_sync(0xffffffffu, total[0], 1);
      } else {
        float of_gates[4];
#pragma unroll
        for (int g = 0; g < 4; ++g) of_gates[g] = exchange(id / 4 % 2 != 0, of_place(0, g), of_place(1, g), 4);
        const float even = exchange(id / 2 % 2 != 0, of_gates[0], of_gates[2], 2);
        const float odd = exchange(id / 2 % 2 != 0, of_gates[1], of_gates[3], 2);
        const float own_gate = exchange(id % 2 != 0, even, odd, 1);
#pragma unroll
        for (float& sum : total) sum = own_gate;
        if constexpr (N == 3) total[2] = of_gate(own_gate, 2);
      }
    } else {
      float s[4];
#pragma unroll
      for (int i = 0; i < 4; ++i) s[i] = sums[0][i] + sums[1][i] + (sums[2][i] + sums[3][i]);
      if constexpr (!kCluster) meet_parts(s);
      const bool upper = id >= 16;
      if constexpr (kBackward) {
        const bool odd = id % 2 != 0;
        const float first_gates = upper ? s[1] : s[0];
        const float last_gates = upper ? s[3] : s[2];
        float mine = odd ? last_gates : first_gates;
        if (G == 3 && odd && upper) mine = 0;  // there is no such gate
        mine += __shfl_xor_sync(0xffffffffu, mine, 16);
        total[0] = mine + __shfl_xor_sync(0xffffffffu, mine, 1);
      } else {
        if constexpr (kFewLoads) {
          // The lane's gate alone is asked for.
          float got[4];
#pragma unroll
          for (int i = 0; i < 4; ++i) got[i] = __shfl_sync(0xffffffffu, s[i], gate() % 2 * 16 + unit() * 4);
          const float low = upper ? got[1] : got[0];
          const float high = upper ? got[3] : got[2];
#pragma unroll
          for (float& sum : total) sum = gate() < 2 ? low : high;
        } else {
          const float got0 = __shfl_xor_sync(0xffffffffu, upper ? s[0] : s[1], 16);
          const float got1 = __shfl_xor_sync(0xffffffffu, upper ? s[2] : s[3], 16);
          total[0] = upper ? got0 : s[0];
          total[1] = upper ? s[1] : got0;
          total[2] = upper ? got1 : s[2];
          if constexpr (N == 4) total[3] = upper ? s[3] : got1;
        }
      }
    }
  }
  // A lane for products: of all steps, as soon as the states of one have come.
  __device__ __forceinline__ void make_products(std::int64_t first_row, std::int64_t rows_of_step) {
    static_assert(!kPipes || kThreads * kVector >= kRows * kOwn * kColumns, "a thread takes a vector");
    const T* from = rows_of(lane.neighbour) + first_row * own;
    T* to = static_cast<T*>(d.products) + (first_row + place()) * l.pre_row + gate() * l.pre_gate + unit0;
    const bool stores = place() < batch && unit() == 0 && unit0 < l.units;
#pragma unroll 1
    for (int step = 0; step < l.rows.steps; ++step) {
      receive(from, step);
      __syncthreads();
      clear();
      multiply_own(step);
      float total[4];
      take_sums(total);
      const float mine = gate() < 2 ? (gate() == 0 ? total[0] : total[1]) : gate() == 2 ? total[2] : total[3];
      const Payload payload = gather(mine);
      if constexpr (!kFloats) {
        if (stores) ptx::st_relaxed_gpu_u64(to, payload);
      }
      from += rows_of_step * own;
      to += rows_of_step * l.pre_row;
    }
  }
  __device__ __forceinline__ void meet_parts(float (&s)[4]) {
    __shared__ float4 meeting[kWarps][32];
    meeting[thread / 32][id] = make_float4(s[0], s[1], s[2], s[3]);
    ptx::barrier_sync(1 + thread / 32 % kGroups, 32 * kParts);
#pragma unroll
    for (int i = 0; i < kParts; ++i) {
      const float4 of = meeting[thread / 32 % kGroups + i * kGroups][id];
      s[0] = i == 0 ? of.x : s[0] + of.x, s[1] = i == 0 ? of.y : s[1] + of.y;
      s[2] = i == 0 ? of.z : s[2] + of.z, s[3] = i == 0 ? of.w : s[3] + of.w;
    }
  }

  // The warp's four values of the lane's sequence, as they lie in a row; all lanes of the warp come here.
  using Payload = std::conditional_t<kFloats, float4, std::uint64_t>;
  __device__ __forceinline__ Payload gather(float value) const {
    if constexpr (kFloats) {
      const float mine = __uint_as_float(rnn_word_bits<T>(value));
      return make_float4(__shfl_sync(0xffffffffu, mine, id % 8), __shfl_sync(0xffffffffu, mine, 8 + id % 8),
                         __shfl_sync(0xffffffffu, mine, 16 + id % 8), __shfl_sync(0xffffffffu, mine, 24 + id % 8));
    } else {
      const std::uint32_t bits = rnn_word_bits<T>(value);
      const std::uint32_t other = __shfl_xor_sync(0xffffffffu, bits, 4);
      const std::uint32_t pair = unit() % 2 == 0 ? bits | other << 16 : other | bits << 16;
      const std::uint32_t other_pair = __shfl_xor_sync(0xffffffffu, pair, 8);
      const bool later = unit() >= 2;
      return std::uint64_t{later ? pair : other_pair} << 32 | std::uint64_t{later ? other_pair : pair};
    }
  }
  // To the buffers of the next step.
  __device__ __forceinline__ void send(int step, const Payload& payload) const {
    if (place() >= batch || !has_row()) return;
    const auto buffer = bytes((step + 1) % 2 * kBuffer);
    const auto barrier = static_cast<std::uint32_t>(step % 2 * 8);
#pragma unroll
    for (int i = 0; i < kTargets; ++i) {
      if (has_target(i)) ptx::st_async(states_there[i] + buffer, payload, barriers_there[i] + barrier);
    }
  }
  // To the row of the exchange of sequence 0: a lane a copy.
  __device__ __forceinline__ void store_in_exchange(T* row, const Payload& payload) const {
    if (part != 0 || place() >= batch || !has_row() || number() >= copies()) return;
    T* const to = row + (number() * batch + place()) * own + ((kBackward ? row_of_gate() : 0) * padded + unit0);
    if constexpr (kFloats) {
      ptx::st_relaxed_gpu_v2(
          to, {std::uint64_t{__float_as_uint(payload.y)} << 32 | std::uint64_t{__float_as_uint(payload.x)},
               std::uint64_t{__float_as_uint(payload.w)} << 32 | std::uint64_t{__float_as_uint(payload.z)}});
    } else {
      ptx::st_relaxed_gpu_u64(to, payload);
    }
  }
};

}  // namespace gpudnn::kernels
