// Connectionist temporal classification (Graves, Fernandez, Gomez & Schmidhuber 2006): costs and gradients.
// SPDX-License-Identifier: Apache-2.0
//
// A sequence of L labels becomes S = 2L + 1 states, a blank before, between and after the labels. With y[t, k] the
// probability of label k at step t and k(s) the label of state s, in logarithms throughout:
//
//   alpha[t, s] = log y[t, k(s)] + log sum of exp alpha[t-1, s'] over s' = s, s-1, and s-2 where that may be skipped
//   beta[t, s]  = log sum of exp (beta[t+1, s'] + log y[t+1, k(s')]) over s' = s, s+1, and s+2 likewise
//   cost        = -log P,  P = the sum of exp alpha[T-1, s] over the last two states
//   gradient[t, n, k] = y[t, k] - sum over s with k(s) = k of exp(alpha[t, s] + beta[t, s] - log P)
//
// s-2 may be skipped to s where k(s) is no blank and differs from k(s-2). The gradient is that with respect to the
// input of the softmax that made y, whether this library computed it or the caller did.
//
// Data flow: (1) softmax only: a block for each (t, n) writes the logarithm of its denominator. (2) A block for each
// sequence walks the steps up with alpha, and another one at the same time down with beta: a thread for each state (or
// several), two rows in shared memory, emissions fetched four steps ahead; both tables go to the workspace. The block
// of alpha writes the cost, and links the places of equal labels. (3) A block for each (t, n) writes the gradients:
// first y for every k, then, for each label that occurs, y less the sum along its chain of places, and for the blank a
// sum over the block. Every sum is in a fixed order.
//
// Bytes: x once or twice, gradients once; tables 4 S values a step and sequence. For short sequences the walk of T
// dependent steps (a barrier and a logarithm each) is what takes the time.
#include <algorithm>

#include "kernels/ctc/ctc_loss.hpp"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kAhead = 4;
constexpr int kWalkThreads = 512;  // of a walk at most; states beyond take a second round
constexpr int kCellThreads = 256;  // of a (t, n) at most
constexpr int kStoredInts = 1000;  // kernel arguments hold 4 KB on every target

struct Ints {
  int value[kStoredInts];
};

__global__ void store_ints(const __grid_constant__ Ints from, int* to, int count) {
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) to[i] = from.value[i];
}

template <class C>
struct CtcArgs {
  const C* x;
  C* costs;
  C* gradients;
  C* alpha;
  C* beta;
  C* rows;  // null where rows are in shared memory
  C* log_sum;
  const int* labels;
  const int* label_lengths;
  const int* input_lengths;
  int* flags;
  int* links;
  std::int64_t x_strides[3];
  std::int64_t gradient_strides[3];
  std::int64_t alphabet;
  std::int32_t steps;
  std::int32_t sequences;
  std::int32_t max_labels;
  bool softmax;
  bool skip_impossible;

  __device__ __forceinline__ std::int64_t states() const { return 2 * static_cast<std::int64_t>(max_labels) + 1; }
  // log y[t, n, k].
  __device__ __forceinline__ C emission(std::int64_t t, std::int64_t n, std::int64_t k) const {
    const C value = x[t * x_strides[0] + n * x_strides[1] + k * x_strides[2]];
    return softmax ? value - log_sum[t * sequences + n] : log(value);
  }
};

template <class C>
__device__ __forceinline__ C minus_infinity() {
  return -static_cast<C>(__int_as_float(0x7f800000));
}

// log(exp a + exp b + exp c). A NaN stays one; nothing but minus infinities is minus infinity.
template <class C>
__device__ __forceinline__ C log_add(C a, C b, C c) {
  const C most = fmax(a, fmax(b, c));
  if (most == minus_infinity<C>()) return a + b + c;
  return most + log(exp(a - most) + exp(b - most) + exp(c - most));
}

template <class C>
__global__ void __launch_bounds__(kCellThreads, 4) ctc_log_sum(const __grid_constant__ CtcArgs<C> args) {
  __shared__ C scratch[2][32];
  const std::int64_t t = blockIdx.x / static_cast<unsigned>(args.sequences);
  const std::int64_t n = blockIdx.x % static_cast<unsigned>(args.sequences);
  if (t >= args.input_lengths[n]) return;
  const C* const row = args.x + t * args.x_strides[0] + n * args.x_strides[1];
  C most = minus_infinity<C>();
  for (std::int64_t k = threadIdx.x; k < args.alphabet; k += blockDim.x) most = fmax(most, row[k * args.x_strides[2]]);
  most = tile::block_reduce(most, minus_infinity<C>(), tile::Max{}, scratch[0]);
  C sum = C(0);
  for (std::int64_t k = threadIdx.x; k < args.alphabet; k += blockDim.x) sum += exp(row[k * args.x_strides[2]] - most);
  sum = tile::block_reduce(sum, C(0), tile::Sum{}, scratch[1]);
  if (threadIdx.x == 0) args.log_sum[t * args.sequences + n] = most + log(sum);
}

// What a block knows of its sequence.
struct Sequence {
  const int* labels;
  std::int32_t length;
  std::int32_t steps;
  bool legal;     // lengths and labels are in range
  bool possible;  // there are steps enough for the labels, and for the blanks between equal ones
};

// All threads of the block take part.
__device__ __forceinline__ Sequence read_sequence(const int* labels, const int* label_lengths, const int* input_lengths,
                                                  std::int64_t n, std::int32_t max_labels, std::int32_t most_steps,
                                                  std::int64_t alphabet, long long (&scratch)[2][32]) {
  Sequence sequence;
  long long before = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) before += label_lengths[i] > 0 ? label_lengths[i] : 0;
  before = tile::block_reduce(before, 0LL, tile::Sum{}, scratch[0]);
  sequence.labels = labels + before;
  sequence.length = label_lengths[n];
  sequence.steps = input_lengths[n];
  sequence.legal =
      sequence.length >= 0 && sequence.length <= max_labels && sequence.steps >= 0 && sequence.steps <= most_steps;
  long long repeats = 0;
  int illegal = 0;
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); sequence.legal && i < sequence.length;
       i += static_cast<std::int32_t>(blockDim.x)) {
    const int label = sequence.labels[i];
    illegal |= label < 1 || label >= alphabet ? 1 : 0;
    repeats += i > 0 && sequence.labels[i - 1] == label ? 1 : 0;
  }
  sequence.legal = __syncthreads_or(illegal) == 0 && sequence.legal;
  repeats = tile::block_reduce(repeats, 0LL, tile::Sum{}, scratch[1]);
  sequence.possible = sequence.length + repeats <= sequence.steps;
  return sequence;
}

// The next place of the same label (0: none), negative unless this place is the label's first: -1 - next.
__device__ __forceinline__ void link_labels(const Sequence& sequence, int* links) {
  for (int i = static_cast<int>(threadIdx.x); i < sequence.length; i += static_cast<int>(blockDim.x)) {
    const int label = sequence.labels[i];
    int next = i + 1;
    while (next < sequence.length && sequence.labels[next] != label) ++next;
    if (next == sequence.length) next = 0;
    bool first = true;
    for (int j = 0; j < i && first; ++j) first = sequence.labels[j] != label;
    links[i] = first ? next : -1 - next;
  }
}

// Blocks: alpha of sequence n is block n, beta block sequences + n. A row has two margins of minus infinity before
// state 0 and two behind the last.
template <class C>
__global__ void __launch_bounds__(kWalkThreads, 1) ctc_walk(const __grid_constant__ CtcArgs<C> args) {
  extern __shared__ double2 shared_rows[];
  __shared__ long long scratch[2][32];
  const bool down = blockIdx.x >= static_cast<unsigned>(args.sequences);
  const std::int64_t n = down ? blockIdx.x - args.sequences : blockIdx.x;
  const Sequence sequence = read_sequence(args.labels, args.label_lengths, args.input_lengths, n, args.max_labels,
                                          args.steps, args.alphabet, scratch);
  if (!sequence.legal || !sequence.possible) {
    if (!down && threadIdx.x == 0) {
      args.costs[n] = sequence.legal ? -minus_infinity<C>() : static_cast<C>(__int_as_float(0x7fc00000));
      args.flags[n] = 1;
    }
    return;
  }
  const std::int64_t row_length = args.states() + kCtcRowMargin;
  C* rows = reinterpret_cast<C*>(shared_rows);
  if (args.rows != nullptr) rows = args.rows + static_cast<std::int64_t>(blockIdx.x) * 2 * row_length;
  const int states = 2 * sequence.length + 1;
  const int threads = static_cast<int>(blockDim.x);
  const C none = minus_infinity<C>();
  for (std::int64_t i = threadIdx.x; i < 2 * row_length; i += threads) rows[i] = none;
  C* table = down ? args.beta : args.alpha;
  if (table != nullptr) table += n * args.steps * args.states();

  const int own = static_cast<int>(threadIdx.x);
  const auto label_of = [&](int s) { return s % 2 == 0 ? 0 : sequence.labels[s / 2]; };
  const int own_label = own < states ? label_of(own) : 0;
  const auto step_of = [&](int i) { return down ? sequence.steps - 1 - i : i; };
  C ahead[kAhead];
#pragma unroll
  for (int u = 0; u < kAhead; ++u) {
    ahead[u] = own < states && u < sequence.steps ? args.emission(step_of(u), n, own_label) : C(0);
  }
  __syncthreads();

  // Step i of the walk reads row (i + 1) % 2 and writes row i % 2, both with the emission in them.
#pragma unroll 1
  for (int base = 0; base < sequence.steps; base += kAhead) {
#pragma unroll
    for (int u = 0; u < kAhead; ++u) {
      const int i = base + u;
      if (i < sequence.steps) {  // the same for the whole block
        const int t = step_of(i);
        const C* const before = rows + ((i + 1) % 2) * row_length + 2;
        C* const now = rows + (i % 2) * row_length + 2;
        const C own_emission = ahead[u];
        if (own < states && i + kAhead < sequence.steps) ahead[u] = args.emission(step_of(i + kAhead), n, own_label);
        for (int s = own; s < states; s += threads) {
          const int label = s == own ? own_label : label_of(s);
          const C emission = s == own ? own_emission : args.emission(t, n, label);
          C sum;
          if (i == 0) {
            sum = (down ? s >= states - 2 : s < 2) ? C(0) : none;
          } else {
            const int toward = down ? 1 : -1;
            const int skipped = s + 2 * toward;
            const bool skips = s % 2 != 0 && skipped >= 0 && skipped < states && label_of(skipped) != label;
            sum = log_add(before[s], before[s + toward], skips ? before[skipped] : none);
          }
          now[s] = sum + emission;
          if (table != nullptr) table[static_cast<std::int64_t>(t) * args.states() + s] = down ? sum : sum + emission;
        }
        __syncthreads();
      }
    }
  }
  if (down) return;
  if (args.links != nullptr) link_labels(sequence, args.links + n * args.max_labels);
  if (threadIdx.x == 0) {
    C log_probability = C(0);
    if (sequence.steps > 0) {
      const C* const last = rows + ((sequence.steps - 1) % 2) * row_length + 2;
      log_probability = log_add(last[states - 1], states > 1 ? last[states - 2] : none, none);
    }
    args.costs[n] = -log_probability;
    args.flags[n] = log_probability == none ? 1 : 0;
  }
}

template <class C>
__global__ void __launch_bounds__(kCellThreads, 4) ctc_gradients(const __grid_constant__ CtcArgs<C> args) {
  __shared__ C scratch[32];
  const std::int64_t t = blockIdx.x / static_cast<unsigned>(args.sequences);
  const std::int64_t n = blockIdx.x % static_cast<unsigned>(args.sequences);
  C* const out = args.gradients + t * args.gradient_strides[0] + n * args.gradient_strides[1];
  const std::int64_t step = args.gradient_strides[2];
  const bool impossible = args.flags[n] != 0;
  if (impossible && args.skip_impossible) return;
  const bool zero = impossible || t >= args.input_lengths[n];
  const auto probability = [&](std::int64_t k) {
    const C value = args.x[t * args.x_strides[0] + n * args.x_strides[1] + k * args.x_strides[2]];
    return args.softmax ? exp(value - args.log_sum[t * args.sequences + n]) : value;
  };
  for (std::int64_t k = threadIdx.x; k < args.alphabet; k += blockDim.x) out[k * step] = zero ? C(0) : probability(k);
  if (zero) return;

  long long before = 0;
  // The labels of the sequences before: few numbers, the same for all blocks of n, from the L1 or L2.
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x)
    before += args.label_lengths[i] > 0 ? args.label_lengths[i] : 0;
  __shared__ long long places[32];
  before = tile::block_reduce(before, 0LL, tile::Sum{}, places);
  const int* const labels = args.labels + before;
  const int* const links = args.links + n * args.max_labels;
  const int length = args.label_lengths[n];
  const C* const alpha = args.alpha + (n * args.steps + t) * args.states();
  const C* const beta = args.beta + (n * args.steps + t) * args.states();
  const C log_probability = -args.costs[n];
  const auto share = [&](int s) { return exp(alpha[s] + beta[s] - log_probability); };

  C blank = C(0);
  for (int i = static_cast<int>(threadIdx.x); i <= length; i += static_cast<int>(blockDim.x)) blank += share(2 * i);
  blank = tile::block_reduce(blank, C(0), tile::Sum{}, scratch);  // and every y is written
  if (threadIdx.x == 0) out[0] = probability(0) - blank;
  for (int i = static_cast<int>(threadIdx.x); i < length; i += static_cast<int>(blockDim.x)) {
    int next = links[i];
    if (next < 0) continue;
    C sum = share(2 * i + 1);
    while (next > 0) {
      sum += share(2 * next + 1);
      next = links[next];
      if (next < 0) next = -1 - next;
    }
    out[labels[i] * step] = probability(labels[i]) - sum;
  }
}

// Copies the caller's arrays into the workspace: label lengths, input lengths, labels.
void store_labels(const CtcParams& params, int* to, cudaStream_t stream) {
  Ints chunk;
  int filled = 0;
  const auto flush = [&] {
    if (filled == 0) return;
    store_ints<<<1, 256, 0, stream>>>(chunk, to, filled);
    to += filled;
    filled = 0;
  };
  const auto append = [&](const int* from, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i) {
      chunk.value[filled++] = from[i];
      if (filled == kStoredInts) flush();
    }
  };
  append(params.label_lengths, params.shape.sequences);
  append(params.input_lengths, params.shape.sequences);
  append(params.labels, params.shape.stored_labels);
  flush();
}

template <class C>
void launch(const CtcParams& params, cudaStream_t stream) {
  const CtcShape& shape = params.shape;
  const CtcWorkspace place = ctc_workspace(shape);
  auto* const base = static_cast<char*>(params.workspace);
  CtcArgs<C> args{};
  args.x = static_cast<const C*>(params.x);
  args.costs = static_cast<C*>(params.costs);
  args.gradients = static_cast<C*>(params.gradients);
  if (shape.has_gradients) {
    args.alpha = reinterpret_cast<C*>(base + place.alpha);
    args.beta = reinterpret_cast<C*>(base + place.beta);
    args.links = reinterpret_cast<int*>(base + place.links);
  }
  args.log_sum = reinterpret_cast<C*>(base + place.log_sum);
  args.flags = reinterpret_cast<int*>(base + place.flags);
  args.labels = params.labels;
  args.label_lengths = params.label_lengths;
  args.input_lengths = params.input_lengths;
  if (shape.stores_labels) {
    int* const ints = reinterpret_cast<int*>(base + place.ints);
    store_labels(params, ints, stream);
    args.label_lengths = ints;
    args.input_lengths = ints + shape.sequences;
    args.labels = ints + 2 * shape.sequences;
  }
  for (int i = 0; i < 3; ++i) {
    args.x_strides[i] = params.x_strides[i];
    args.gradient_strides[i] = params.gradient_strides[i];
  }
  args.alphabet = shape.alphabet;
  args.steps = static_cast<std::int32_t>(shape.steps);
  args.sequences = static_cast<std::int32_t>(shape.sequences);
  args.max_labels = static_cast<std::int32_t>(shape.max_labels);
  args.softmax = shape.softmax;
  args.skip_impossible = params.skip_impossible;

  const std::int64_t states = 2 * shape.max_labels + 1;
  const bool in_shared = states <= kCtcSharedStates;
  if (!in_shared) args.rows = reinterpret_cast<C*>(base + place.rows);
  const int threads = static_cast<int>(std::min<std::int64_t>(kWalkThreads, (states + 31) / 32 * 32));
  const std::size_t shared = in_shared ? 2 * static_cast<std::size_t>(states + kCtcRowMargin) * sizeof(C) : 0;
  const auto cells = static_cast<unsigned>(shape.steps * shape.sequences);
  const int row_threads = shape.alphabet <= 64 ? 32 : shape.alphabet <= 512 ? 128 : kCellThreads;
  if (shape.softmax && cells > 0) ctc_log_sum<C><<<cells, row_threads, 0, stream>>>(args);
  const auto walks = static_cast<unsigned>(shape.sequences * (shape.has_gradients ? 2 : 1));
  ctc_walk<C><<<walks, threads, shared, stream>>>(args);
  if (shape.has_gradients && cells > 0) ctc_gradients<C><<<cells, 128, 0, stream>>>(args);
}

}  // namespace

void launch_ctc_loss(const CtcParams& params, CUstream_st* stream) {
  params.shape.wide ? launch<double>(params, stream) : launch<float>(params, stream);
}

}  // namespace gpudnn::kernels
