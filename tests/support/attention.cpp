// Attention cases. Every tensor is an image of its memory, poisoned with NaN; elements are found by the same arithmetic
// that the kernels use. The reference runs on images of the same places in double, so one walk over the places judges
// values, gaps and padding alike: what the reference leaves poisoned must be untouched. Where an input is poisoned,
// calls with infinities and with zeros there must give the same bits.
//
// Longer than most files: memory, reference and judgement of a case are one argument.
// SPDX-License-Identifier: Apache-2.0
#include "support/attention.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <memory>

#include "host/attention.hpp"
#include "kernels/attention/score_range.hpp"
#include "ops/attention/params.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

using attention::Args;
using attention::Problem;
using attention::Tensor;
using kernels::AttentionParams;
using kernels::AttentionTensor;

using Bytes = std::vector<unsigned char>;

constexpr Tensor Problem::*kTensors[] = {&Problem::q,     &Problem::k,   &Problem::v,       &Problem::o,
                                         &Problem::stats, &Problem::max, &Problem::sum_exp, &Problem::d_o,
                                         &Problem::dq,    &Problem::dk,  &Problem::dv};
constexpr const char* kNames[] = {"q", "k", "v", "o", "stats", "max", "sum_exp", "dO", "dQ", "dK", "dV"};
enum Which { kQ, kK, kV, kO, kStats, kMax, kSumExp, kDO, kDQ, kDK, kDV, kTensorCount };

bool is_output(int tensor, bool backward) { return backward ? tensor >= kDQ : tensor >= kO && tensor <= kSumExp; }

// The pointers of the plain tensors among the arguments, by number.
enum Plain {
  kBias,
  kDBias,
  kBlockMask,
  kTableK,
  kTableV,
  kLengthQ,
  kLengthKv,
  kSlopes,
  kSink,
  kDSink,
  kSeed,
  kOffset,
  kMask,
  kNumbers,  // that scale 8-bit floats
  kAmax,
  kPlainCount
};
constexpr const char* kPlainNames[] = {"bias",     "dbias",     "block_mask",   "page_table_k", "page_table_v",
                                       "length_q", "length_kv", "alibi",        "sink",         "dsink",
                                       "seed",     "offset",    "dropout_mask", "numbers",      "amax"};

// Of 8-bit problems: products stay near 1 before they are rounded, probabilities and their gradients near 64.
constexpr float kNumberValues[] = {0.8F,      1.25F, 0x1.1p-7F, 0.9F, 0.95F, 1.05F, 0.9F, 1.1F, 0x1.2p-6F, 0.9F,
                                   0x1.1p-6F, 0.95F, 0x1.3p-7F, 0.9F, 128,   1.2F,  64,   1.1F, 0.9F,      1.3F};
constexpr std::size_t kAmaxCount = 6;
constexpr const char* kAmaxNames[] = {"amax_s", "amax_o", "amax_ds", "amax_dq", "amax_dk", "amax_dv"};

void bind_numbers(const float* numbers, float* amax, kernels::AttentionFloat8* out) {
  if (numbers == nullptr) return;
  for (auto* const pair : {&out->scores, &out->output, &out->delta, &out->dp, &out->dq, &out->dk, &out->dv}) {
    for (const float*& number : *pair) number = numbers++;
  }
  for (auto* const scale :
       {&out->scale_s, &out->scale_o, &out->scale_ds, &out->scale_dq, &out->scale_dk, &out->scale_dv}) {
    *scale = numbers++;
  }
  for (auto* const most : {&out->amax_s, &out->amax_o, &out->amax_ds, &out->amax_dq, &out->amax_dk, &out->amax_dv}) {
    *most = amax++;
  }
}

// All memory of a case: on the host, or copied to a backend.
struct Memory {
  Bytes tensors[kTensorCount];
  Bytes offsets[kTensorCount];
  Bytes plain[kPlainCount];
};

Args bind(const std::function<void*(int)>& tensor, const std::function<void*(int)>& offsets,
          const std::function<void*(int)>& plain) {
  Args args;
  args.q = {tensor(kQ), offsets(kQ)};
  args.k = {tensor(kK), offsets(kK)};
  args.v = {tensor(kV), offsets(kV)};
  args.o = {tensor(kO), offsets(kO)};
  args.stats = {tensor(kStats), offsets(kStats)};
  args.max = {tensor(kMax), offsets(kMax)};
  args.sum_exp = {tensor(kSumExp), offsets(kSumExp)};
  args.d_o = {tensor(kDO), offsets(kDO)};
  args.dq = {tensor(kDQ), offsets(kDQ)};
  args.dk = {tensor(kDK), offsets(kDK)};
  args.dv = {tensor(kDV), offsets(kDV)};
  args.bias = plain(kBias);
  args.dbias = plain(kDBias);
  args.block_mask = static_cast<const std::uint8_t*>(plain(kBlockMask));
  args.page_table_k = static_cast<const std::int32_t*>(plain(kTableK));
  args.page_table_v = static_cast<const std::int32_t*>(plain(kTableV));
  args.length_q = static_cast<const std::int32_t*>(plain(kLengthQ));
  args.length_kv = static_cast<const std::int32_t*>(plain(kLengthKv));
  args.alibi_slopes = static_cast<const float*>(plain(kSlopes));
  args.sink = static_cast<const float*>(plain(kSink));
  args.dsink = static_cast<float*>(plain(kDSink));
  args.seed = plain(kSeed);
  args.offset = plain(kOffset);
  args.dropout_mask = plain(kMask);
  bind_numbers(static_cast<const float*>(plain(kNumbers)), static_cast<float*>(plain(kAmax)), &args.float8);
  return args;
}

bool is_poison(const Bytes& bytes, std::size_t place, std::size_t size) {
  const auto* const first = bytes.data() + place * size;
  return std::all_of(first, first + size, [](unsigned char byte) { return byte == 0xff; });
}

void* data_of(Bytes& bytes) { return bytes.empty() ? nullptr : bytes.data(); }
Args bind(Memory& memory) {
  return bind([&](int i) { return data_of(memory.tensors[i]); }, [&](int i) { return data_of(memory.offsets[i]); },
              [&](int i) { return data_of(memory.plain[i]); });
}

const AttentionTensor& view(const AttentionParams& params, int tensor) {
  const AttentionTensor* const views[] = {&params.q,     &params.k,   &params.v,       &params.o,
                                          &params.stats, &params.max, &params.sum_exp, &params.d_o,
                                          &params.dq,    &params.dk,  &params.dv};
  return *views[tensor];
}

template <class T>
void put(Bytes* bytes, const std::vector<T>& values) {
  const auto* const first = reinterpret_cast<const unsigned char*>(values.data());
  bytes->assign(first, first + values.size() * sizeof(T));
}

class CaseMemory {
 public:
  explicit CaseMemory(const AttentionCase& c) : case_(c), problem_(c.problem), random_(c.seed) {
    make_lengths();
    make_plain();
    for (int i = 0; i < kTensorCount; ++i) make_tensor(i);
    if (case_.low_scores) lower_scores();
  }

  Memory memory;

 private:
  bool of_keys(int tensor) const { return tensor == kK || tensor == kV || tensor == kDK || tensor == kDV; }

  void make_lengths() {
    const auto batch = static_cast<std::size_t>(problem_.batch());
    const auto draw = [&](std::int64_t most) {
      std::vector<std::int32_t> lengths(batch);
      for (std::size_t b = 0; b < batch; ++b) {
        lengths[b] = static_cast<std::int32_t>(random_.chance(0.25) ? most : random_.between(1, most));
        if (case_.zero_lengths > 0 && random_.between(1, case_.zero_lengths) == 1) lengths[b] = 0;
      }
      return lengths;
    };
    lengths_q_.assign(batch, static_cast<std::int32_t>(problem_.length_q()));
    lengths_kv_.assign(batch, static_cast<std::int32_t>(problem_.length_kv));
    if (problem_.has_length_q != 0) put(&memory.plain[kLengthQ], lengths_q_ = draw(problem_.length_q()));
    if (problem_.has_length_kv != 0) put(&memory.plain[kLengthKv], lengths_kv_ = draw(problem_.length_kv));
  }

  void make_plain() {
    const auto heads = static_cast<std::size_t>(problem_.heads_q());
    fill_geometry(problem_.bias, &memory.plain[kBias], true);
    fill_geometry(problem_.dbias, &memory.plain[kDBias], false);
    fill_geometry(problem_.dropout_mask, &memory.plain[kMask], false);
    if (case_.hidden_rows && problem_.bias.rank != 0) hide_some();
    if (problem_.bias.rank != 0) poison_beyond_lengths();
    if (problem_.block_mask.rank != 0) {
      std::vector<std::uint8_t> bits(static_cast<std::size_t>(element_span(problem_.block_mask)));
      for (auto& b : bits) b = static_cast<std::uint8_t>(random_.bits() | random_.bits());
      put(&memory.plain[kBlockMask], bits);
    }
    if (problem_.is_8_bit()) {
      put(&memory.plain[kNumbers], std::vector<float>(std::begin(kNumberValues), std::end(kNumberValues)));
      memory.plain[kAmax].assign(4 * kAmaxCount, 0xff);
    }
    make_page_table(problem_.page_table_k, problem_.k, &memory.plain[kTableK]);
    make_page_table(problem_.page_table_v, problem_.v, &memory.plain[kTableV]);
    std::vector<float> values(heads);
    for (std::size_t h = 0; h < heads; ++h)
      values[h] = static_cast<float>(std::exp2(-8.0 * static_cast<double>(h + 1) / static_cast<double>(heads)));
    if (problem_.has_alibi != 0) put(&memory.plain[kSlopes], values);
    for (float& value : values) value = static_cast<float>(random_.normal());
    if (problem_.has_sink != 0) put(&memory.plain[kSink], values);
    if (problem_.has_dsink != 0) memory.plain[kDSink].assign(4 * heads, 0xff);
    if (problem_.has_dropout != 0 && problem_.seed_bits == 32) {
      put<std::int32_t>(&memory.plain[kSeed], {static_cast<std::int32_t>(random_.bits())});
      put<std::int32_t>(&memory.plain[kOffset], {static_cast<std::int32_t>(random_.bits())});
    } else if (problem_.has_dropout != 0) {
      put<std::uint64_t>(&memory.plain[kSeed], {random_.bits()});
      put<std::uint64_t>(&memory.plain[kOffset], {random_.bits()});
    }
  }

  void fill_geometry(const TensorGeometry& geometry, Bytes* bytes, bool fill) {
    if (geometry.rank == 0) return;
    const std::size_t size = element_size(geometry.type);
    bytes->assign(static_cast<std::size_t>(element_span(geometry)) * size, 0xff);
    if (!fill) return;
    for (const std::int64_t offset : element_offsets(geometry)) {
      encode(random_.normal(), geometry.type, bytes->data() + static_cast<std::size_t>(offset) * size);
    }
  }

  // -inf, or another number, in some elements of bias, and in all of some of its rows.
  void hide_some() {
    const TensorGeometry& bias = problem_.bias;
    const std::size_t size = element_size(bias.type);
    const std::vector<std::int64_t> offsets = element_offsets(bias);
    const auto columns = static_cast<std::size_t>(bias.dims[3]);
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      const bool whole_row = (bias.dims[2] > 1 || std::isfinite(case_.hidden_by)) && i / columns % 5 == 3;
      if (!whole_row && !random_.chance(0.3)) continue;
      encode(case_.hidden_by, bias.type, memory.plain[kBias].data() + static_cast<std::size_t>(offsets[i]) * size);
    }
  }

  // Bias of rows and columns beyond the lengths of all sequences that it stands for.
  void poison_beyond_lengths() {
    const TensorGeometry& bias = problem_.bias;
    const std::size_t size = element_size(bias.type);
    const std::vector<std::int64_t> offsets = element_offsets(bias);
    const std::size_t batches = bias.dims[0] == 1 ? lengths_q_.size() : 1;
    for (std::size_t i = 0; i < offsets.size(); ++i) {
      auto rest = static_cast<std::int64_t>(i);
      const std::int64_t column = rest % bias.dims[3], row = (rest /= bias.dims[3]) % bias.dims[2];
      const auto first = static_cast<std::size_t>(rest / bias.dims[2] / bias.dims[1]);
      bool is_used = false;
      for (std::size_t b = first; b < first + batches; ++b) {
        is_used = is_used || (row < lengths_q_[b] && column < lengths_kv_[b]);
      }
      if (!is_used) std::memset(memory.plain[kBias].data() + static_cast<std::size_t>(offsets[i]) * size, 0xff, size);
    }
  }

  // Pages in a random order, each used once; entries beyond a sequence's length are garbage within the container.
  void make_page_table(const TensorGeometry& table, const Tensor& pages, Bytes* bytes) {
    if (table.rank == 0) return;
    const std::int64_t count = pages.geometry.dims[0];
    std::vector<std::int32_t> order(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<std::int32_t>(i);
    for (std::size_t i = order.size(); i > 1; --i) {
      std::swap(order[i - 1], order[static_cast<std::size_t>(random_.between(0, static_cast<std::int64_t>(i) - 1))]);
    }
    std::vector<std::int32_t> entries(static_cast<std::size_t>(element_span(table)), -1);
    std::size_t next = 0;
    for (std::int64_t b = 0; b < table.dims[0]; ++b) {
      for (std::int64_t page = 0; page < table.dims[2]; ++page) {
        const bool used = page * pages.geometry.dims[2] < lengths_kv_[static_cast<std::size_t>(b)];
        entries[static_cast<std::size_t>(b * table.strides[0] + page * table.strides[2])] =
            used ? order[next++ % order.size()] : static_cast<std::int32_t>(random_.between(-5, 2 * count));
      }
    }
    put(bytes, entries);
  }

  void make_offsets(int index, const Tensor& tensor) {
    const std::vector<std::int32_t>& lengths = of_keys(index) ? lengths_kv_ : lengths_q_;
    std::vector<std::int64_t> offsets = {case_.first_offset / tensor.offset_scale};
    const std::int64_t token = std::max(tensor.geometry.strides[2], std::int64_t{1});
    for (const std::int32_t length : lengths) offsets.push_back(offsets.back() + length * token / tensor.offset_scale);
    if (tensor.offset_bits == 64) {
      put(&memory.offsets[index], offsets);
    } else {
      put(&memory.offsets[index], std::vector<std::int32_t>(offsets.begin(), offsets.end()));
    }
  }

  // Poison, with values in the inputs' rows within the sequences' lengths; 0 in those that forward makes for backward.
  void make_tensor(int index) {
    const Tensor& tensor = problem_.*kTensors[index];
    if (!tensor.exists()) return;
    if (tensor.is_ragged()) make_offsets(index, tensor);
    const AttentionParams params = attention_params(problem_, bind(memory));
    const AttentionTensor& its = view(params, index);
    const TensorGeometry& g = tensor.geometry;
    const std::vector<std::int32_t>& lengths = of_keys(index) ? lengths_kv_ : lengths_q_;
    std::vector<std::int64_t> places;
    for (std::int64_t b = 0; b < problem_.batch(); ++b) {
      for (std::int64_t h = 0; h < g.dims[1]; ++h) {
        for (std::int64_t r = 0; r < lengths[static_cast<std::size_t>(b)]; ++r) {
          const std::int64_t offset = kernels::row_offset(its, b, h, r);
          for (std::int64_t d = 0; d < g.dims[3]; ++d) places.push_back(offset + d * g.strides[3]);
        }
      }
    }
    std::int64_t span = tensor.is_ragged() ? 1 : element_span(g);
    for (const std::int64_t place : places) span = std::max(span, place + 1);
    const std::size_t size = element_size(g.type);
    memory.tensors[index].assign(static_cast<std::size_t>(span) * size, 0xff);
    if (is_output(index, problem_.backward != 0)) return;
    const bool is_drawn = index <= kV || index == kDO;
    const double magnitude = index <= kK ? case_.magnitude : 1;
    for (const std::int64_t place : places) {
      const bool in_units = case_.in_units && index <= kK;
      const double value = !is_drawn ? 0 : in_units ? static_cast<double>(random_.between(-1, 1)) : random_.normal();
      encode(magnitude * value, g.type, memory.tensors[index].data() + static_cast<std::size_t>(place) * size);
    }
  }

  void lower_scores() {
    for (const int index : {kQ, kK}) {
      const TensorGeometry& g = (problem_.*kTensors[index]).geometry;
      for (const std::int64_t offset : element_offsets(g)) {
        unsigned char* const at =
            memory.tensors[index].data() + static_cast<std::size_t>(offset) * element_size(g.type);
        const double value = std::abs(decode(at, g.type));
        encode(index == kQ ? value : -value, g.type, at);
      }
    }
  }

  const AttentionCase& case_;
  const Problem& problem_;
  Random random_;
  std::vector<std::int32_t> lengths_q_, lengths_kv_;
};

// The same places in double.
Bytes widened(const Bytes& bytes, DataType type) {
  const std::size_t size = element_size(type);
  Bytes result(bytes.size() / size * 8);
  for (std::size_t i = 0; i < bytes.size() / size; ++i) {
    if (is_poison(bytes, i, size)) {
      std::memset(result.data() + 8 * i, 0xff, 8);
    } else {
      const double value = decode(bytes.data() + i * size, type);
      std::memcpy(result.data() + 8 * i, &value, 8);
    }
  }
  return result;
}
// Rounds the doubles into the places that are not poisoned.
void narrow_into(const Bytes& doubles, DataType type, Bytes* bytes) {
  const std::size_t size = element_size(type);
  for (std::size_t i = 0; i < doubles.size() / 8; ++i) {
    double value;
    std::memcpy(&value, doubles.data() + 8 * i, 8);
    if (!is_poison(*bytes, i, size)) encode(value, type, bytes->data() + i * size);
  }
}

// The bytes with `value` where they are poisoned. Of 8-bit types E5M2 alone has infinities, which encode() does not
// make; E4M3 takes its greatest number.
Bytes with_padding(const Bytes& bytes, DataType type, double value) {
  const std::size_t size = element_size(type);
  unsigned char padding[8];
  encode(value, type, padding);
  if (type == GPUDNN_DATA_FP8_E5M2 && std::isinf(value)) padding[0] = value > 0 ? 0x7c : 0xfc;
  Bytes result = bytes;
  for (std::size_t i = 0; i < bytes.size() / size; ++i) {
    if (is_poison(bytes, i, size)) std::memcpy(result.data() + i * size, padding, size);
  }
  return result;
}

Problem in_double(Problem problem) {
  for (const auto tensor : kTensors) {
    if ((problem.*tensor).exists()) (problem.*tensor).geometry.type = GPUDNN_DATA_DOUBLE;
  }
  if (problem.dbias.rank != 0) problem.dbias.type = GPUDNN_DATA_DOUBLE;
  return problem;
}

// Backward reads what forward wrote: the reference's, rounded to the tensors' types.
void add_forward(const Problem& backward, Memory* memory) {
  Problem problem = backward;
  problem.backward = 0;
  problem.has_dsink = 0;
  problem.d_o = problem.dq = problem.dk = problem.dv = {};
  problem.dbias = {};
  Memory copy = *memory;
  for (const int i : {kDO, kDQ, kDK, kDV}) copy.tensors[i].clear();
  for (int i = 0; i < kTensorCount; ++i) {
    if ((problem.*kTensors[i]).exists())
      copy.tensors[i] = widened(copy.tensors[i], (problem.*kTensors[i]).geometry.type);
  }
  host::attention(in_double(problem), bind(copy));
  for (const int i : {kO, kStats})
    narrow_into(copy.tensors[i], (backward.*kTensors[i]).geometry.type, &memory->tensors[i]);
}

// What the reference makes of the same memory, in double.
Memory reference(const Problem& problem, const Memory& memory, host::ProbabilityScale probability_scale) {
  Memory copy = memory;
  for (int i = 0; i < kTensorCount; ++i) {
    const Tensor& tensor = problem.*kTensors[i];
    if (tensor.exists()) copy.tensors[i] = widened(copy.tensors[i], tensor.geometry.type);
  }
  if (problem.dbias.rank != 0) copy.plain[kDBias] = widened(copy.plain[kDBias], problem.dbias.type);
  // Which rows' statistics hold their sums is a matter of float, in which the call has them.
  if (problem.backward != 0 && problem.type() != GPUDNN_DATA_DOUBLE) {
    Bytes& stats = copy.tensors[kStats];
    for (std::size_t at = 0; at < stats.size(); at += 8) {
      double value;
      std::memcpy(&value, stats.data() + at, 8);
      if (!kernels::holds_sum(static_cast<float>(value))) value = std::copysign(1e300, value);
      std::memcpy(stats.data() + at, &value, 8);
    }
  }
  host::attention(in_double(problem), bind(copy), probability_scale);
  return copy;
}

// The relative error of a result's norm. Of an engine in 16-bit types p, ds and the result are rounded once each; sums
// are float or double, over up to a few thousand terms, in scores of up to some 30 units.
double bound_of(DataType type) {
  switch (type) {
    case GPUDNN_DATA_BFLOAT16:
      return 3 * 0x1p-9;
    case GPUDNN_DATA_HALF:
      return 3 * 0x1p-12 + 4e-5;
    case GPUDNN_DATA_DOUBLE:
      return 1e-13;
    case GPUDNN_DATA_FP8_E4M3:
      return 0x1p-5;
    case GPUDNN_DATA_FP8_E5M2:
      return 0x1p-4;
    default:
      return 1e-5;
  }
}

// Where a graph in 8 bits rounds neither p nor dS, engines by another rule round both and the gradients to bf16.
bool rounds_to_bf16(const Problem& problem, bool same_rule) {
  return !same_rule && problem.p_type == GPUDNN_DATA_FLOAT && problem.ds_type == GPUDNN_DATA_FLOAT;
}

// Of 8-bit problems: what is rounded in between, by the same rule (a number in the middle may become either) or, in
// engines that do not know a row's sum before they round, by another one; and the result.
double bound_of_8_bits(const Problem& problem, DataType type, bool same_rule) {
  if (rounds_to_bf16(problem, same_rule)) return bound_of(type) + bound_of(GPUDNN_DATA_BFLOAT16);
  const double between = std::max(problem.p_type == GPUDNN_DATA_FLOAT ? 0 : bound_of(problem.p_type),
                                  problem.ds_type == GPUDNN_DATA_FLOAT ? 0 : bound_of(problem.ds_type));
  return bound_of(type) + (same_rule ? between / 8 : 2 * between);
}

// A gradient in bf16 is rounded by up to 2^-9, and so is each term of its sum, dS or P: a sum of few terms, of which
// two may have opposite signs, has up to twice that.
double bound_of_amax(const Problem& problem, bool same_rule) {
  if (rounds_to_bf16(problem, same_rule)) return bound_of(GPUDNN_DATA_BFLOAT16);
  return 4 * bound_of_8_bits(problem, GPUDNN_DATA_FLOAT, same_rule);
}

std::string judge_amax(const Problem& problem, const Bytes& actual, const Bytes& expected, bool same_rule) {
  for (std::size_t i = 0; i < actual.size() / 4; ++i) {
    float value, wanted;
    std::memcpy(&value, actual.data() + 4 * i, 4);
    std::memcpy(&wanted, expected.data() + 4 * i, 4);
    const bool unrounded = i == 0 || i == 2;  // of p and dS themselves
    const double bound = unrounded ? (same_rule ? 1e-3 : 0x1p-6) : bound_of_amax(problem, same_rule);
    if (!(std::fabs(value - wanted) <= bound * static_cast<double>(wanted))) {
      return std::string(kAmaxNames[i]) + ": " + std::to_string(value) + " in place of " + std::to_string(wanted);
    }
  }
  return {};
}

// Judges one output: places that the reference left poisoned must be untouched; the others are compared by the norm and
// one by one. -inf must be met exactly.
std::string judge(const char* name, const Bytes& actual, const Bytes& expected, DataType type, double bound,
                  double noise) {
  const std::size_t size = element_size(type);
  double error_norm = 0, norm = 0, largest = 0, worst = 0;
  std::size_t worst_at = 0, count = 0;
  for (std::size_t i = 0; i < actual.size() / size; ++i) {
    std::uint64_t bits;
    double wanted;
    std::memcpy(&bits, expected.data() + 8 * i, 8);
    std::memcpy(&wanted, expected.data() + 8 * i, 8);
    if (bits == ~std::uint64_t{0}) {
      for (std::size_t byte = i * size; byte < (i + 1) * size; ++byte) {
        if (actual[byte] != 0xff)
          return std::string(name) + ": written at place " + std::to_string(i) + " outside of it";
      }
      continue;
    }
    const double value = decode(actual.data() + i * size, type);
    if (std::isinf(wanted) || std::isnan(value) || std::isinf(value)) {
      if (value == wanted) continue;
      return std::string(name) + ": " + std::to_string(value) + " at place " + std::to_string(i) + " in place of " +
             std::to_string(wanted);
    }
    const double error = std::fabs(value - wanted);
    error_norm += error * error;
    norm += wanted * wanted;
    largest = std::max(largest, std::fabs(wanted));
    ++count;
    if (error > worst) worst = error, worst_at = i;
  }
  error_norm = std::sqrt(error_norm);
  norm = std::sqrt(norm);
  const double root = std::sqrt(static_cast<double>(count));
  if (error_norm > bound * norm + noise * root || worst > 8 * (bound * largest + noise)) {
    return std::string(name) + ": normwise error " + std::to_string(error_norm / norm) + " (bound " +
           std::to_string(bound) + "), largest " + std::to_string(worst) + " at place " + std::to_string(worst_at) +
           " of values up to " + std::to_string(largest);
  }
  return {};
}

// Of the reference's values, which are doubles; those it left poisoned are NaN.
double greatest_finite(const Bytes& values) {
  double greatest = 0;
  for (std::size_t at = 0; at < values.size(); at += 8) {
    double value;
    std::memcpy(&value, values.data() + at, 8);
    if (std::isfinite(value)) greatest = std::max(greatest, std::fabs(value));
  }
  return greatest;
}

// What share of the rows' sums of exponentials, by the norm, is not of the greatest one, which is 1 without an error.
double share_beside_greatest(const Bytes& sums) {
  double beside = 0, all = 0;
  for (std::size_t at = 0; at < sums.size(); at += 8) {
    double sum;
    std::memcpy(&sum, sums.data() + at, 8);
    if (!(sum >= 1)) continue;
    beside += (sum - 1) * (sum - 1);
    all += sum * sum;
  }
  return all == 0 ? 0 : std::sqrt(beside / all);
}

// Tensor cores add products of 8 bits in steps of 32, cut to 13 bits of fraction of the greatest number: half of such a
// bit of the greatest score for each step, in what exponentials are of.
double bound_of_sums_in_8_bits(const Problem& problem, const Memory& expected) {
  const double greatest = greatest_finite(expected.tensors[problem.max.exists() ? kMax : kStats]);
  const auto steps = static_cast<double>((problem.dim_qk() + 31) / 32);
  return 1e-5 + steps * 0x1p-14 * greatest * share_beside_greatest(expected.tensors[kSumExp]);
}

std::string judge_all(const AttentionCase& c, bool same_rule, const Memory& actual, const Memory& expected,
                      const Memory& before) {
  const Problem& problem = c.problem;
  const double magnitude = c.magnitude;
  const bool backward = problem.backward != 0;
  const double bound = bound_of(problem.type());
  // Differences of sums that cancel, such as dO v^T - delta where a row sees one column, leave their terms' rounding.
  // In 8 bits forward what is rounded is far above it.
  const double units = backward || !problem.is_8_bit() ? std::max(1.0, problem.scale) : 1;
  const double noise = (problem.type() == GPUDNN_DATA_DOUBLE ? 1e-14 : 4e-6) * magnitude * units;
  for (int i = 0; i < kTensorCount; ++i) {
    const Tensor& tensor = problem.*kTensors[i];
    if (!tensor.exists()) continue;
    if (!is_output(i, backward)) {
      if (actual.tensors[i] != before.tensors[i]) return std::string(kNames[i]) + " is an input and was changed";
      continue;
    }
    const bool row_value = i >= kStats && i <= kSumExp;
    double its = row_value ? (problem.type() == GPUDNN_DATA_DOUBLE ? 1e-13 : 1e-5) : bound;
    // A float score of size m is rounded by m / 2^24 (ALiBi over long rows makes large ones), and sums are of its e^.
    if (i == kSumExp && problem.max.exists() && problem.type() != GPUDNN_DATA_DOUBLE)
      its += 0x1p-24 * greatest_finite(expected.tensors[kMax]);
    if (problem.is_8_bit()) {
      const double of_scores = i == kSumExp ? bound_of_sums_in_8_bits(problem, expected) : 0x1p-11;
      its = row_value ? (same_rule ? 1e-5 : of_scores) : bound_of_8_bits(problem, tensor.geometry.type, same_rule);
    }
    // dK sums such differences over the rows of a group's heads; each has the rounding of sums on tensor cores, 2^-22.
    // Exact scores leave none in what is not a sum of q or k.
    double of_sums = c.in_units && i != kDQ && i != kDK ? noise / magnitude : noise;
    if (&tensor == &problem.dk && problem.type() != GPUDNN_DATA_DOUBLE) {
      const auto terms =
          static_cast<double>(problem.dim_v() * problem.length_q() * problem.heads_q() / problem.heads_k());
      of_sums = std::max(of_sums, 0x1p-22 * std::sqrt(terms) * magnitude * std::max(1.0, problem.scale));
    }
    std::string wrong = judge(kNames[i], actual.tensors[i], expected.tensors[i], tensor.geometry.type, its, of_sums);
    if (!wrong.empty()) return wrong;
  }
  if (problem.dbias.rank != 0) {
    const double its = std::max(bound, bound_of(problem.dbias.type));
    std::string wrong =
        judge("dbias", actual.plain[kDBias], expected.plain[kDBias], problem.dbias.type, its, noise * 30);
    if (!wrong.empty()) return wrong;
  }
  if (problem.has_dsink != 0) {
    const Bytes wanted = widened(expected.plain[kDSink], GPUDNN_DATA_FLOAT);
    std::string wrong =
        judge("dsink", actual.plain[kDSink], wanted, GPUDNN_DATA_FLOAT, std::max(bound, 1e-5), noise * 30);
    if (!wrong.empty()) return wrong;
  }
  if (actual.plain[kMask] != expected.plain[kMask]) return "the dropout mask differs";
  return judge_amax(problem, actual.plain[kAmax], expected.plain[kAmax], same_rule);
}

}  // namespace

Problem attention_problem(const std::string& line) {
  std::string why;
  const auto problem = attention::from_text(line, &why);
  if (!problem) throw std::runtime_error(line + ": " + why);
  return *problem;
}

std::string describe(const AttentionCase& c) {
  return to_text(c.problem) + " | seed=" + std::to_string(c.seed) + " magnitude=" + std::to_string(c.magnitude) +
         (c.low_scores ? " low_scores" : "") + (c.in_units ? " in_units" : "") +
         (c.zero_lengths != 0 ? " zero_lengths=" + std::to_string(c.zero_lengths) : "") +
         (c.first_offset != 0 ? " first_offset=" + std::to_string(c.first_offset) : "") +
         (c.hidden_rows ? " hidden_by=" + std::to_string(c.hidden_by) : "");
}

struct PreparedAttention {
  AttentionCase c;
  Memory memory;
  Memory expected;
  Memory expected_on_device;  // forward in 8 bits alone, where there is a device
  std::string invalid;
};

std::shared_ptr<const PreparedAttention> prepare(const AttentionCase& c) {
  auto prepared = std::make_shared<PreparedAttention>();
  prepared->c = c;
  if (validate(c.problem) != GPUDNN_STATUS_SUCCESS) {
    prepared->invalid = "invalid: " + take_error_text();
    return prepared;
  }
  prepared->memory = CaseMemory(c).memory;
  if (c.problem.backward != 0) add_forward(c.problem, &prepared->memory);
  prepared->expected = reference(c.problem, prepared->memory, host::ProbabilityScale::graph);
  if (c.problem.backward == 0 && c.problem.is_8_bit() && Backend::at_hand().is_cuda()) {
    prepared->expected_on_device = reference(c.problem, prepared->memory, host::ProbabilityScale::by_greatest);
  }
  return prepared;
}

namespace {

bool holds(const GuardedBuffer& buffer, const Bytes& wanted) {
  Bytes bytes = wanted;
  if (!bytes.empty()) buffer.read(bytes.data(), bytes.size());
  return bytes == wanted;
}

}  // namespace

std::string check(const Backend& backend, const attention::AttentionEngine& engine, const PreparedAttention& prepared,
                  const AttentionOptions& options) {
  if (!prepared.invalid.empty()) return prepared.invalid;
  const AttentionCase& c = prepared.c;
  const Memory& memory = prepared.memory;
  const bool other_scale = c.problem.backward == 0 && c.problem.is_8_bit() && backend.is_cuda();
  const Memory& expected = other_scale ? prepared.expected_on_device : prepared.expected;

  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  const auto copied = [&](const Bytes& bytes, std::size_t misalignment, bool ends_mapping = false) -> GuardedBuffer* {
    buffers.push_back(
        std::make_unique<GuardedBuffer>(backend, bytes.size(), misalignment, ends_mapping, 1, bytes.data()));
    return buffers.back().get();
  };
  std::vector<std::pair<GuardedBuffer*, const Bytes*>> late;
  const auto changed = [&](const Bytes& bytes) -> GuardedBuffer* {
    if (options.captured == nullptr || bytes.empty()) return copied(bytes, 0);
    buffers.push_back(std::make_unique<GuardedBuffer>(backend, bytes.size()));
    late.emplace_back(buffers.back().get(), &bytes);
    return buffers.back().get();
  };
  GuardedBuffer* tensors[kTensorCount];
  GuardedBuffer* offsets[kTensorCount];
  GuardedBuffer* plain[kPlainCount];
  for (int i = 0; i < kTensorCount; ++i) {
    const bool is_moved = options.misaligned && (i <= kO || i >= kDO) && !memory.tensors[i].empty();
    tensors[i] = copied(memory.tensors[i], is_moved ? element_size((c.problem.*kTensors[i]).geometry.type) : 0,
                        options.ends_mapping && !memory.tensors[i].empty());
    offsets[i] = changed(memory.offsets[i]);
  }
  constexpr int kRead[] = {kTableK, kTableV, kLengthQ, kLengthKv, kSeed, kOffset};
  for (int i = 0; i < kPlainCount; ++i) {
    const bool is_read = std::ranges::find(kRead, i) != std::end(kRead);
    plain[i] = is_read ? changed(memory.plain[i]) : copied(memory.plain[i], 0);
  }
  const Args args = bind([&](int i) { return tensors[i]->data(); }, [&](int i) { return offsets[i]->data(); },
                         [&](int i) { return plain[i]->data(); });
  const std::size_t needed = engine.workspace(c.problem, *backend.handle()->device);
  GuardedBuffer workspace(backend, needed);
  const auto call = [&] {
    return run_engine(engine, backend.handle(), c.problem, args, workspace.data(), needed) == GPUDNN_STATUS_SUCCESS;
  };
  const auto change = [&] {
    for (const auto& [buffer, bytes] : late) buffer->write(bytes->data(), bytes->size());
  };
  if (!(options.captured == nullptr ? call() : options.captured(call, change))) return "failed: " + take_error_text();

  Memory actual = memory;
  for (int i = 0; i < kTensorCount; ++i) {
    if (!actual.tensors[i].empty()) tensors[i]->read(actual.tensors[i].data(), actual.tensors[i].size());
  }
  for (int i = 0; i < kPlainCount; ++i) {
    if (!actual.plain[i].empty()) plain[i]->read(actual.plain[i].data(), actual.plain[i].size());
  }
  std::string wrong = judge_all(c, engine.alignment == 1, actual, expected, memory);
  const bool backward = c.problem.backward != 0;
  // The name of an output that no longer holds what the first run wrote, and why not; empty: they all hold it.
  const auto changed_output = [&](const std::string& why) -> std::string {
    for (int i = 0; i < kTensorCount; ++i) {
      if (is_output(i, backward) && !holds(*tensors[i], actual.tensors[i])) return kNames[i] + why;
    }
    for (const int i : {kDBias, kDSink, kMask, kAmax}) {
      if (!holds(*plain[i], actual.plain[i])) return kPlainNames[i] + why;
    }
    return {};
  };
  for (int i = 0; i < options.more_runs && wrong.empty(); ++i) {
    if (!call()) return take_error_text();
    wrong = changed_output(" has other bits in another run");
  }
  const auto write = [](GuardedBuffer* buffer, const Bytes& bytes) {
    if (!bytes.empty()) buffer->write(bytes.data(), bytes.size());
  };
  for (const double padding : {HUGE_VAL, -HUGE_VAL, 0.0}) {
    if (!wrong.empty() || options.captured != nullptr) break;
    bool is_padded = false;
    const auto pad = [&](GuardedBuffer* buffer, const Bytes& bytes, DataType type) {
      const Bytes padded = with_padding(bytes, type, padding);
      is_padded = is_padded || padded != bytes;
      write(buffer, padded);
    };
    for (int i = 0; i < kTensorCount; ++i) {
      const Tensor& tensor = c.problem.*kTensors[i];
      if (tensor.exists() && !is_output(i, backward)) pad(tensors[i], memory.tensors[i], tensor.geometry.type);
    }
    if (c.problem.bias.rank != 0) pad(plain[kBias], memory.plain[kBias], c.problem.bias.type);
    if (!is_padded) break;
    for (int i = 0; i < kTensorCount; ++i) {
      if (is_output(i, backward)) write(tensors[i], memory.tensors[i]);
    }
    for (const int i : {kDBias, kDSink, kMask, kAmax}) write(plain[i], memory.plain[i]);
    if (!call()) return take_error_text();
    wrong = changed_output(" has other bits with padding of " + std::to_string(padding) + " in place of NaN");
  }
  for (const auto& buffer : buffers) {
    if (wrong.empty()) wrong = buffer->damage();
  }
  return wrong.empty() ? workspace.damage() : wrong;
}

AttentionCase random_attention(Random& random, bool in_8_bits) {
  const bool backward = random.chance(0.5);
  const std::int64_t heads_k = random.between(1, 3);
  const std::int64_t group = random.pick<std::int64_t>({1, 1, 2, 3, 4});
  const bool is_short = random.chance(0.2);
  const std::int64_t length_q = random.chance(0.2) ? 1 : random.between(1, is_short ? 64 : 200);
  const std::int64_t length_kv = random.chance(0.3) ? length_q : random.between(1, is_short ? 64 : 260);
  const std::int64_t dim = random.chance(0.7) ? 8 * random.between(1, 20) : random.between(1, 100);
  const std::int64_t dim_v = random.chance(0.7) ? dim : 8 * random.between(1, 20);
  const std::int64_t batch = random.between(1, 3);
  const char* const type = in_8_bits ? random.pick({"f8e4m3", "f8e4m3", "f8e4m3", "f8e5m2"})
                                     : random.pick({"f16", "bf16", "bf16", "f32", "f64"});
  const auto number = [](std::int64_t value) { return std::to_string(value); };
  std::string line = std::string("attention ") + (backward ? "bwd " : "fwd ") + type + " b" + number(batch) + "h" +
                     number(heads_k * group) + "/" + number(heads_k) + "/" +
                     number(random.chance(0.8) ? heads_k : heads_k * group) + "s" + number(length_q) + "/" +
                     number(length_kv) + "d" + number(dim) + "/" + number(dim_v);
  line += " scale=" + std::to_string(1 / std::sqrt(static_cast<double>(dim)));
  const bool paged = !backward && random.chance(0.15);
  if (paged) {
    const std::int64_t page = random.pick<std::int64_t>({1, 16, 48, 64});
    line += " pages=" + number(batch * ((length_kv + page - 1) / page) + 2) + "/" + number(page) + " length_kv";
  }
  if (random.chance(0.5)) line += " bshd";
  if (!backward && random.chance(0.7)) line += " stats";
  if (!backward && random.chance(0.1)) line += " max sum_exp";
  if (random.chance(0.45)) line += random.chance(0.6) ? " causal" : " right=" + number(random.between(-5, 60));
  if (random.chance(0.2)) line += " left=" + number(random.between(1, 150));
  if (random.chance(0.3)) line += " bottom_right";
  if (random.chance(0.1)) line += " softcap=2.5";
  if (random.chance(0.1)) line += " alibi";
  if (random.chance(0.15)) line += backward ? " sink dsink" : " sink";
  if (random.chance(0.15)) {
    line += " dropout=" + std::string(random.pick({"0", "0.1", "0.5", "1"})) + (random.chance(0.5) ? ":i32" : "");
    if (!backward && random.chance(0.5)) {
      line += " dropout_mask=f32:" + number(batch) + "x" + number(heads_k * group) + "x" + number(length_q) + "x" +
              number(length_kv);
    }
  }
  if (random.chance(0.2)) {
    const auto dims = [&] {
      return number(random.chance(0.5) ? 1 : batch) + "x" + number(random.chance(0.5) ? 1 : heads_k * group) + "x" +
             number(random.chance(0.2) ? 1 : length_q) + "x" + number(random.chance(0.1) ? 1 : length_kv);
    };
    line += std::string(" bias=") + (in_8_bits ? "bf16" : type) + ":" + dims();
    if (backward && !in_8_bits && random.chance(0.7)) line += std::string(" dbias=") + type + ":" + dims();
  }
  if (random.chance(0.1)) {
    line += " block_mask=u8:" + number(batch) + "x" + number(heads_k * group) + "x" + number((length_q + 127) / 128) +
            "x" + number(((length_kv + 127) / 128 + 7) / 8);
  }
  const bool lengths = random.chance(0.35);
  if (lengths) line += paged ? " length_q" : " length_q length_kv";
  if (lengths && !paged && random.chance(0.5)) {
    const std::string bits = random.pick({"i32", "i64"});
    if (line.find(" bshd") == std::string::npos) line += " bshd";
    for (const char* name : {"q", "k", "v", "o"}) line += std::string(" ") + name + ":offsets=" + bits;
    if (backward) {
      for (const char* name : {"dO", "dQ", "dK", "dV"}) line += std::string(" ") + name + ":offsets=" + bits;
    }
  }
  if (in_8_bits) {
    // Results of 8 bits are for cases by hand: where few of them are small, their rounding exceeds the bounds of norms.
    const auto set = [&](const char* name) {
      line += " " + std::string(name) + ":type=" + random.pick({"bf16", "f16", "f32"});
    };
    set("o");
    if (backward) {
      const std::string gradient = random.pick({"f8e4m3", "f8e4m3", "f8e5m2", "bf16"});
      line += " dO:type=" + gradient;
      for (const char* name : {"dQ", "dK", "dV"}) set(name);
      line += random.chance(0.8) && gradient != "bf16" ? " ds=" + gradient : random.chance(0.5) ? " ds=f32" : "";
    }
    if (random.chance(0.2)) line += " p=f32";
  }
  std::string why;
  const auto problem = attention::from_text(line, &why);
  if (!problem) throw std::runtime_error(line + ": " + why);
  AttentionCase c;
  c.problem = *problem;
  c.seed = random.bits();
  c.magnitude = random.pick({1.0, 1.0, 3.0});
  c.zero_lengths = static_cast<int>(random.pick({0, 3}));
  c.hidden_rows = random.chance(0.3);
  // bf16's least or greatest number; f16's are close enough to scores for float to round these.
  const bool is_wide = c.problem.bias.rank != 0 && c.problem.bias.type != GPUDNN_DATA_HALF;
  if (c.hidden_rows && is_wide && random.chance(0.5))
    c.hidden_by = random.pick({-0x1.fep127, -0x1.fep127, 0x1.fep127, -0x1.94p99});
  return c;
}

}  // namespace gpudnn::test
