// Connectionist temporal classification (Graves, Fernandez, Gomez & Schmidhuber 2006): costs and gradients.
// SPDX-License-Identifier: Apache-2.0
//
// A sequence of L labels becomes S = 2L + 1 states, a blank before, between and after the labels. With w[t, k] the
// probability of label k at step t, or any multiple of it that is one for all k, and k(s) the label of state s:
//
//   alpha[t, s] = w[t, k(s)] * sum of alpha[t-1, s'] over s' = s, s-1, and s-2 where that may be skipped
//   beta[t, s]  = sum of beta[t+1, s'] w[t+1, k(s')] over s' = s, s+1, and s+2 likewise
//   share[t, k] = sum over s with k(s) = k of alpha[t, s] beta[t, s], divided by the sum over all s
//   gradient[t, n, k] = y[t, k] - share[t, k]
//   cost        = -log of the sum of alpha[T-1, s] over the last two states, each w having been divided by its multiple
//
// s-2 may be skipped to s where k(s) is no blank and differs from k(s-2). The gradient is that with respect to the
// input of the softmax that made y, whether this library computed it or the caller did. For a softmax here w is exp(x):
// its denominator cancels in the shares, and the cost gets the sum of the denominators' logarithms at the end.
//
// All of alpha and beta are numbers with exponents of their own (scaled.cuh): T steps lose the digits of T additions
// and multiplications, whatever the probabilities come to. Each step of a walk depends on the one before, so its
// latency is what takes the time: shifts, three multiply-adds and a barrier.
//
// Data flow: (1) A block for each sequence walks the steps up with alpha, and another one at the same time down with
// beta: a thread for each state (or several), two rows in shared memory, emissions fetched four steps ahead; both
// tables go to the workspace. The block of alpha links the places of equal labels. (2) A block for each (t, n) finds
// the softmax of its row and writes the gradients: first y for every k, then, for each label that occurs, y less the
// sum along its chain of places, and for the blank a sum over the block. The last block of a sequence to finish adds up
// the denominators for the cost. Without gradients a kernel in front of (1) finds the denominators. Every sum is in a
// fixed order. Labels in host memory come with the arguments of (1), which leaves them in the workspace (upload.cuh).
//
// Bytes: x once, gradients once; tables 4 S numbers of two elements a step and sequence.

#include "core/launch/launch.hpp"
#include "kernels/ctc/ctc_loss.hpp"
#include "kernels/ctc/scaled.cuh"
#include "kernels/ctc/upload.cuh"
#include "kernels/tile/least.hpp"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kAhead = 4;
constexpr int kWalkThreads = 512;  // of a walk at most; states beyond take a second round
constexpr int kCellThreads = 256;  // of a (t, n) at most

template <class C>
struct CtcArgs {
  const C* x;
  C* costs;
  C* gradients;
  Scaled<C>* alpha;
  Scaled<C>* beta;
  Scaled<C>* rows;  // null where rows are in shared memory
  double* log_sum;
  double* log_probability;
  long long* first_label;
  const int* labels;
  const int* label_lengths;
  const int* input_lengths;
  int* ints;  // room for a payload: label lengths, input lengths, labels, and labels again
  int* flags;
  unsigned* finished;
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
  __device__ __forceinline__ C input(std::int64_t t, std::int64_t n, std::int64_t k) const {
    return x[t * x_strides[0] + n * x_strides[1] + k * x_strides[2]];
  }
  // Some multiple of y[t, n, k] that is one for all k.
  __device__ __forceinline__ Scaled<C> emission(C input) const {
    return softmax ? scaled_exp(input) : scaled_value(input);
  }
};

template <class C>
__device__ __forceinline__ C infinity() {
  return static_cast<C>(__int_as_float(0x7f800000));
}

// The greatest of a row of x, and the sum of exp (x - that). All threads of the block take part.
template <class C>
struct Softmax {
  C most;
  C sum;

  __device__ __forceinline__ Softmax(const CtcArgs<C>& args, const C* row, C (&scratch)[2][32]) {
    most = -infinity<C>();
    for (std::int64_t k = threadIdx.x; k < args.alphabet; k += blockDim.x) {
      most = fmax(most, row[k * args.x_strides[2]]);
    }
    most = tile::block_reduce(most, -infinity<C>(), tile::Max{}, scratch[0]);
    sum = C(0);
    for (std::int64_t k = threadIdx.x; k < args.alphabet; k += blockDim.x) {
      sum += exp(row[k * args.x_strides[2]] - most);
    }
    sum = tile::block_reduce(sum, C(0), tile::Sum{}, scratch[1]);
  }
  __device__ __forceinline__ double log_of_sum() const {
    return static_cast<double>(most) + log(static_cast<double>(sum));
  }
};

// Lengths, of the payload where there is one.
template <class C, class Given>
__device__ __forceinline__ int label_length(const CtcArgs<C>& args, const Given& given, std::int64_t n) {
  if constexpr (Given::kHasLabels) {
    return given.length(n);
  } else {
    return args.label_lengths[n];
  }
}
template <class C, class Given>
__device__ __forceinline__ int input_length(const CtcArgs<C>& args, const Given& given, std::int64_t n) {
  if constexpr (Given::kHasLabels) {
    return given.length(args.sequences + n);
  } else {
    return args.input_lengths[n];
  }
}

template <class C, class Given>
__global__ void __launch_bounds__(kCellThreads, 4)
    ctc_log_sum(const __grid_constant__ CtcArgs<C> args, const __grid_constant__ Given given) {
  __shared__ C scratch[2][32];
  const std::int64_t t = blockIdx.x / static_cast<unsigned>(args.sequences);
  const std::int64_t n = blockIdx.x % static_cast<unsigned>(args.sequences);
  if (t >= input_length(args, given, n)) return;
  const Softmax<C> softmax(args, args.x + t * args.x_strides[0] + n * args.x_strides[1], scratch);
  if (threadIdx.x == 0) args.log_sum[t * args.sequences + n] = softmax.log_of_sum();
}

// -log of the probability, given that of the walk. All threads of the block take part; thread 0 gets it.
template <class C>
__device__ __forceinline__ double cost_of(const CtcArgs<C>& args, std::int64_t n, std::int32_t steps,
                                          double log_probability, double (&scratch)[32]) {
  if (!args.softmax) return -log_probability;
  double sum = 0;
  for (std::int32_t t = static_cast<std::int32_t>(threadIdx.x); t < steps; t += static_cast<std::int32_t>(blockDim.x)) {
    sum += __ldcg(&args.log_sum[static_cast<std::int64_t>(t) * args.sequences + n]);  // of other blocks
  }
  return tile::block_reduce(sum, 0.0, tile::Sum{}, scratch) - log_probability;
}

// What a block knows of its sequence.
struct Sequence {
  const int* labels;
  std::int32_t length;
  std::int32_t steps;
  bool legal;     // lengths and labels are in range
  bool possible;  // there are steps enough for the labels, and for the blanks between equal ones
};

// All threads of the block take part. The walk down takes a copy of a payload's labels for itself; the one up leaves
// its own, and the lengths, for the kernel that comes next.
template <class C, class Given>
__device__ __forceinline__ Sequence read_sequence(const CtcArgs<C>& args, const Given& given, std::int64_t n, bool down,
                                                  long long (&scratch)[2][32]) {
  Sequence sequence;
  long long before = 0;
  for (std::int64_t i = threadIdx.x; i < n; i += blockDim.x) before += max(label_length(args, given, i), 0);
  before = tile::block_reduce(before, 0LL, tile::Sum{}, scratch[0]);
  sequence.labels = args.labels + before;
  sequence.length = label_length(args, given, n);
  sequence.steps = input_length(args, given, n);
  sequence.legal =
      sequence.length >= 0 && sequence.length <= args.max_labels && sequence.steps >= 0 && sequence.steps <= args.steps;
  if constexpr (Given::kHasLabels) {
    int* const own = args.ints + 2 * static_cast<std::int64_t>(args.sequences) + (down ? given.labels : 0) + before;
    for (int i = static_cast<int>(threadIdx.x); i < sequence.length; i += static_cast<int>(blockDim.x)) {
      own[i] = given.label(before + i);
    }
    if (!down && threadIdx.x == 0) {
      args.ints[n] = sequence.length;
      args.ints[args.sequences + n] = sequence.steps;
    }
    sequence.labels = own;
    __syncthreads();
  }
  long long repeats = 0;
  int illegal = 0;
  for (std::int32_t i = static_cast<std::int32_t>(threadIdx.x); sequence.legal && i < sequence.length;
       i += static_cast<std::int32_t>(blockDim.x)) {
    const int label = sequence.labels[i];
    illegal |= label < 1 || label >= args.alphabet ? 1 : 0;
    repeats += i > 0 && sequence.labels[i - 1] == label ? 1 : 0;
  }
  sequence.legal = __syncthreads_or(illegal) == 0 && sequence.legal;
  repeats = tile::block_reduce(repeats, 0LL, tile::Sum{}, scratch[1]);
  sequence.possible = sequence.length + repeats <= sequence.steps;
  if (!down && threadIdx.x == 0) args.first_label[n] = before;
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

// Blocks: alpha of sequence n is block n, beta block sequences + n. A row has two margins of zeros before state 0 and
// two behind the last.
template <class C, class Given>
__global__ void __launch_bounds__(kWalkThreads, 1)
    ctc_walk(const __grid_constant__ CtcArgs<C> args, const __grid_constant__ Given given) {
  extern __shared__ double2 shared_rows[];
  __shared__ long long scratch[2][32];
  __shared__ double cost_scratch[32];
  const bool down = blockIdx.x >= static_cast<unsigned>(args.sequences);
  const std::int64_t n = down ? blockIdx.x - args.sequences : blockIdx.x;
  const Sequence sequence = read_sequence(args, given, n, down, scratch);
  if (!down && threadIdx.x == 0) args.finished[n] = 0;
  if (!sequence.legal || !sequence.possible) {
    if (!down && threadIdx.x == 0) {
      args.costs[n] = sequence.legal ? infinity<C>() : static_cast<C>(__int_as_float(0x7fc00000));
      args.flags[n] = 1;
    }
    return;
  }
  const std::int64_t row_length = args.states() + kCtcRowMargin;
  Scaled<C>* rows = reinterpret_cast<Scaled<C>*>(shared_rows);
  if (args.rows != nullptr) rows = args.rows + static_cast<std::int64_t>(blockIdx.x) * 2 * row_length;
  const int states = 2 * sequence.length + 1;
  const int threads = static_cast<int>(blockDim.x);
  const Scaled<C> zero = {C(0), kZeroExponent};
  for (std::int64_t i = threadIdx.x; i < 2 * row_length; i += threads) rows[i] = zero;
  Scaled<C>* table = down ? args.beta : args.alpha;
  if (table != nullptr) table += n * args.steps * args.states();

  const int own = static_cast<int>(threadIdx.x);
  const int toward = down ? 1 : -1;
  const auto label_of = [&](int s) { return s % 2 == 0 ? 0 : sequence.labels[s / 2]; };
  const auto skips_to = [&](int s, int label) {
    const int skipped = s + 2 * toward;
    return s % 2 != 0 && skipped >= 0 && skipped < states && label_of(skipped) != label;
  };
  const int own_label = own < states ? label_of(own) : 0;
  const bool own_skips = own < states && skips_to(own, own_label);
  const auto step_of = [&](int i) { return down ? sequence.steps - 1 - i : i; };
  C ahead[kAhead];
#pragma unroll
  for (int u = 0; u < kAhead; ++u) {
    ahead[u] = own < states && u < sequence.steps ? args.input(step_of(u), n, own_label) : C(0);
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
        const Scaled<C>* const before = rows + ((i + 1) % 2) * row_length + 2;
        Scaled<C>* const now = rows + (i % 2) * row_length + 2;
        const Scaled<C> own_emission = args.emission(ahead[u]);
        if (own < states && i + kAhead < sequence.steps) ahead[u] = args.input(step_of(i + kAhead), n, own_label);
        for (int s = own; s < states; s += threads) {
          const int label = s == own ? own_label : label_of(s);
          const bool skips = s == own ? own_skips : skips_to(s, label);
          const Scaled<C> emission = s == own ? own_emission : args.emission(args.input(t, n, label));
          Scaled<C> sum = zero;
          if (i != 0) {
            sum = sum_of(before[s], before[s + toward], skips ? before[s + 2 * toward] : zero);
          } else if (down ? s >= states - 2 : s < 2) {
            sum = {C(1), 0};
          }
          const Scaled<C> next = normalized(sum.m * emission.m, sum.e + emission.e);
          now[s] = next;
          if (table != nullptr) table[static_cast<std::int64_t>(t) * args.states() + s] = down ? sum : next;
        }
        __syncthreads();
      }
    }
  }
  if (down) return;
  if (args.links != nullptr) link_labels(sequence, args.links + n * args.max_labels);
  Scaled<C> total = {C(1), 0};
  if (sequence.steps > 0) {
    const Scaled<C>* const last = rows + ((sequence.steps - 1) % 2) * row_length + 2;
    total = sum_of(last[states - 1], states > 1 ? last[states - 2] : zero, zero);
  }
  const bool impossible = total.m == C(0);
  const double log_probability = log(static_cast<double>(total.m)) + total.e * 0.69314718055994531;
  // With gradients the denominators are found by the kernel that comes next.
  const bool is_last = !args.softmax || args.gradients == nullptr || args.steps == 0 || impossible;
  const double cost = is_last ? cost_of(args, n, sequence.steps, log_probability, cost_scratch) : 0;
  if (threadIdx.x != 0) return;
  args.flags[n] = impossible ? 1 : 0;
  args.log_probability[n] = log_probability;
  if (is_last) args.costs[n] = impossible ? infinity<C>() : static_cast<C>(cost);
}

// After every other block of the sequence: the cost. All threads of the block take part.
template <class C>
__device__ __forceinline__ void finish_sequence(const CtcArgs<C>& args, std::int64_t n) {
  __shared__ double scratch[32];
  __shared__ bool is_last;
  __syncthreads();  // thread 0 has written the denominator
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(&args.finished[n], 1u) + 1 == static_cast<unsigned>(args.steps);
    __threadfence();
  }
  __syncthreads();
  if (!is_last) return;
  const double cost = cost_of(args, n, args.input_lengths[n], args.log_probability[n], scratch);
  if (threadIdx.x == 0) args.costs[n] = static_cast<C>(cost);
}

struct Most {
  __device__ __forceinline__ int operator()(int a, int b) const { return a > b ? a : b; }
};

template <class C>
__global__ void __launch_bounds__(kCellThreads, 4) ctc_gradients(const __grid_constant__ CtcArgs<C> args) {
  __shared__ C softmax_scratch[2][32];
  __shared__ C scratch[2][32];
  __shared__ int exponent_scratch[32];
  const std::int64_t t = blockIdx.x / static_cast<unsigned>(args.sequences);
  const std::int64_t n = blockIdx.x % static_cast<unsigned>(args.sequences);
  C* const out = args.gradients + t * args.gradient_strides[0] + n * args.gradient_strides[1];
  const std::int64_t step = args.gradient_strides[2];
  const bool impossible = args.flags[n] != 0;
  if (impossible && args.skip_impossible) return;
  const bool beyond = t >= args.input_lengths[n];
  if (impossible || beyond) {
    for (std::int64_t k = threadIdx.x; k < args.alphabet; k += blockDim.x) out[k * step] = C(0);
    if (args.softmax && !impossible) finish_sequence(args, n);
    return;
  }
  const C* const row = args.x + t * args.x_strides[0] + n * args.x_strides[1];
  C most = C(0);
  C over_sum = C(1);
  if (args.softmax) {
    const Softmax<C> softmax(args, row, softmax_scratch);
    most = softmax.most;
    over_sum = C(1) / softmax.sum;
    if (threadIdx.x == 0) args.log_sum[t * args.sequences + n] = softmax.log_of_sum();
  }
  const auto probability = [&](std::int64_t k) {
    const C value = row[k * args.x_strides[2]];
    return args.softmax ? exp(value - most) * over_sum : value;
  };
  for (std::int64_t k = threadIdx.x; k < args.alphabet; k += blockDim.x) out[k * step] = probability(k);

  const int* const labels = args.labels + args.first_label[n];
  const int* const links = args.links + n * args.max_labels;
  const int length = args.label_lengths[n];
  const Scaled<C>* const alpha = args.alpha + (n * args.steps + t) * args.states();
  const Scaled<C>* const beta = args.beta + (n * args.steps + t) * args.states();
  // alpha * beta over 2^largest, of which the sums are near 1.
  int largest = 2 * kZeroExponent;
  for (int s = static_cast<int>(threadIdx.x); s <= 2 * length; s += static_cast<int>(blockDim.x)) {
    if (alpha[s].m != C(0) && beta[s].m != C(0)) largest = Most{}(largest, alpha[s].e + beta[s].e);
  }
  largest = tile::block_reduce(largest, 2 * kZeroExponent, Most{}, exponent_scratch);
  const auto joint = [&](int s) {
    const Scaled<C> a = alpha[s];
    const Scaled<C> b = beta[s];
    const C m = a.m * b.m;
    return m == C(0) ? m : m * scale_down<C>(a.e + b.e - largest);
  };
  C blanks = C(0);
  C others = C(0);
  for (int i = static_cast<int>(threadIdx.x); i <= length; i += static_cast<int>(blockDim.x)) {
    blanks += joint(2 * i);
    if (i < length) others += joint(2 * i + 1);
  }
  blanks = tile::block_reduce(blanks, C(0), tile::Sum{}, scratch[0]);  // and every y is written
  others = tile::block_reduce(others, C(0), tile::Sum{}, scratch[1]);
  const C over_total = C(1) / (blanks + others);
  if (threadIdx.x == 0) out[0] = probability(0) - blanks * over_total;
  for (int i = static_cast<int>(threadIdx.x); i < length; i += static_cast<int>(blockDim.x)) {
    int next = links[i];
    if (next < 0) continue;
    C sum = joint(2 * i + 1);
    while (next > 0) {
      sum += joint(2 * next + 1);
      next = links[next];
      if (next < 0) next = -1 - next;
    }
    out[labels[i] * step] = probability(labels[i]) - sum * over_total;
  }
  if (args.softmax) finish_sequence(args, n);
}

template <class C, class Given>
void launch_kernels(const CtcShape& shape, CtcArgs<C> args, Given* given, cudaStream_t stream) {
  const std::int64_t states = 2 * shape.max_labels + 1;
  const auto threads = static_cast<unsigned>(tile::least<std::int64_t>(kWalkThreads, (states + 31) / 32 * 32));
  const std::size_t shared = ctc_rows_are_shared(shape) ? ctc_row_bytes(shape) : 0;
  const auto cells = static_cast<unsigned>(shape.steps * shape.sequences);
  const unsigned row_threads = shape.alphabet <= 64 ? 32 : shape.alphabet <= 512 ? 128 : kCellThreads;
  if (shape.softmax && !shape.has_gradients && cells > 0) {
    cuda::launch_kernel(&ctc_log_sum<C, Given>, {cells, row_threads}, stream, args, *given);
  }
  const auto walks = static_cast<unsigned>(shape.sequences * (shape.has_gradients ? 2 : 1));
  cuda::launch_kernel(&ctc_walk<C, Given>, {walks, threads, shared}, stream, args, *given);
  const unsigned gradient_threads = tile::greatest(row_threads, states <= 64 ? 32u : 128u);
  if (shape.has_gradients && cells > 0) {
    cuda::launch_kernel(&ctc_gradients<C>, {cells, gradient_threads}, stream, args);
  }
}

template <class C, int kBytes>
void launch_with_payload(const CtcParams& params, const CtcArgs<C>& args, cudaStream_t stream) {
  Payload<kBytes> payload;
  fill(params, &payload);
  launch_kernels(params.shape, args, &payload, stream);
}

template <class C>
CtcArgs<C> arguments_of(const CtcParams& params) {
  const CtcShape& shape = params.shape;
  const CtcWorkspace place = ctc_workspace(shape);
  auto* const base = static_cast<char*>(params.workspace);
  CtcArgs<C> args{};
  args.x = static_cast<const C*>(params.x);
  args.costs = static_cast<C*>(params.costs);
  args.gradients = static_cast<C*>(params.gradients);
  if (shape.has_gradients) {
    args.alpha = reinterpret_cast<Scaled<C>*>(base + place.alpha);
    args.beta = reinterpret_cast<Scaled<C>*>(base + place.beta);
    args.links = reinterpret_cast<int*>(base + place.links);
  }
  if (!ctc_rows_are_shared(shape)) args.rows = reinterpret_cast<Scaled<C>*>(base + place.rows);
  args.log_sum = reinterpret_cast<double*>(base + place.log_sum);
  args.log_probability = reinterpret_cast<double*>(base + place.log_probability);
  args.first_label = reinterpret_cast<long long*>(base + place.first_label);
  args.finished = reinterpret_cast<unsigned*>(base + place.finished);
  args.flags = reinterpret_cast<int*>(base + place.flags);
  args.labels = params.labels;
  args.label_lengths = params.label_lengths;
  args.input_lengths = params.input_lengths;
  if (shape.stores_labels) {
    args.ints = reinterpret_cast<int*>(base + place.ints);
    args.label_lengths = args.ints;
    args.input_lengths = args.ints + shape.sequences;
    args.labels = args.ints + 2 * shape.sequences;
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
  return args;
}

template <class C>
void launch(const CtcParams& params, cudaStream_t stream) {
  const CtcArgs<C> args = arguments_of<C>(params);
  if (params.shape.stores_labels) {
    const std::int64_t bytes = payload_bytes(params.shape);
    if (bytes <= kSmallPayload) return launch_with_payload<C, kSmallPayload>(params, args, stream);
    if (bytes <= kLargePayload) return launch_with_payload<C, kLargePayload>(params, args, stream);
    store_labels(params, args.ints, stream);
  }
  NoPayload none;
  launch_kernels(params.shape, args, &none, stream);
}

}  // namespace

void launch_ctc_loss(const CtcParams& params, CUstream_st* stream) {
  params.shape.wide ? launch<double>(params, stream) : launch<float>(params, stream);
}

}  // namespace gpudnn::kernels
