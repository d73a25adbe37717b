// Attention on the host. Each row of scores is made anew wherever it is needed, so no memory grows with the product of
// the lengths; sums are double and in the order of their indices.
// SPDX-License-Identifier: Apache-2.0
#include "host/attention.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <limits>
#include <vector>

#include "core/float8.hpp"
#include "core/parallel.hpp"
#include "host/any_element.hpp"
#include "host/element.hpp"
#include "kernels/attention/score_range.hpp"
#include "ops/attention/params.hpp"

namespace gpudnn::host {
namespace {

using attention::Args;
using attention::Problem;
using kernels::AttentionParams;
using kernels::AttentionTensor;
using kernels::ColumnRange;
using kernels::SequenceLengths;

constexpr double kMinusInfinity = -std::numeric_limits<double>::infinity();

// In place of the element type where each tensor has its own: with q in 8 bits.
struct Stored {};

template <class T>
struct Elements {
  T* first;
  [[nodiscard]] double operator[](std::int64_t i) const { return to_double(first[i]); }
  void put(std::int64_t i, double value) const { first[i] = round_to<T>(value); }
};
// The numbers of an 8-bit type by their bits; null for other types.
const double* numbers_of(DataType type) {
  static const auto tables = [] {
    std::array<std::array<double, 256>, 2> all{};
    for (int bits = 0; bits < 256; ++bits) {
      all[0][static_cast<std::size_t>(bits)] = to_double(Float8E4M3{static_cast<std::uint8_t>(bits)});
      all[1][static_cast<std::size_t>(bits)] = to_double(Float8E5M2{static_cast<std::uint8_t>(bits)});
    }
    return all;
  }();
  return type == GPUDNN_DATA_FP8_E4M3 ? tables[0].data() : type == GPUDNN_DATA_FP8_E5M2 ? tables[1].data() : nullptr;
}

template <>
struct Elements<Stored> {
  void* data;
  std::int64_t offset;
  DataType type;
  const double* numbers;
  [[nodiscard]] double operator[](std::int64_t i) const {
    if (numbers != nullptr) return numbers[static_cast<const std::uint8_t*>(data)[offset + i]];
    return load_of(type)(data, offset + i);
  }
  void put(std::int64_t i, double value) const {
    if (type == GPUDNN_DATA_FP8_E4M3) {
      static_cast<Float8E4M3*>(data)[offset + i] = round_to<Float8E4M3>(value);
    } else if (type == GPUDNN_DATA_FP8_E5M2) {
      static_cast<Float8E5M2*>(data)[offset + i] = round_to<Float8E5M2>(value);
    } else {
      store_of(type)(data, offset + i, value, 0);
    }
  }
};

// What p and dS are rounded to in 8-bit problems; FLOAT leaves them.
double rounded_to(DataType type, double value) {
  if (type == GPUDNN_DATA_FP8_E4M3) return to_double(round_to<Float8E4M3>(value));
  if (type == GPUDNN_DATA_FP8_E5M2) return to_double(round_to<Float8E5M2>(value));
  return value;
}

double number_or_one(const float* number) { return number == nullptr ? 1 : static_cast<double>(*number); }
double product_of(const float* const (&numbers)[2]) { return number_or_one(numbers[0]) * number_or_one(numbers[1]); }

// The greatest magnitude that any thread met; written out at the end.
class Greatest {
 public:
  explicit Greatest(float* out) : out_(out) {}
  ~Greatest() {
    if (out_ != nullptr) *out_ = static_cast<float>(value_.load());
  }
  Greatest(const Greatest&) = delete;
  Greatest& operator=(const Greatest&) = delete;
  void meet(double value) {
    if (out_ == nullptr) return;
    const double magnitude = std::fabs(value);
    // A NaN counts as greater than any number.
    const auto exceeds = [&](double now) { return magnitude > now || (std::isnan(magnitude) && !std::isnan(now)); };
    for (double now = value_.load(); exceeds(now) && !value_.compare_exchange_weak(now, magnitude);) {
    }
  }

 private:
  float* out_;
  std::atomic<double> value_ = 0;
};

// One row of scores of one head, and what backward makes of it; indexed by column.
struct Row {
  std::vector<double> probability;  // p; the scores before
  std::vector<double> slope;        // of the soft cap: d capped / d uncapped
  std::vector<double> gradient;     // of the loss by the score after bias and ALiBi
  std::vector<double> kept;         // what dropout multiplies p by
  ColumnRange columns;
  double max = kMinusInfinity;  // with the sink
  double sum = 0;               // of exp(s - max), with the sink
  double delta = 0;             // sum of dO o
};

template <class T>
class Attention {
 public:
  Attention(const Problem& problem, const Args& args, ProbabilityScale probability_scale)
      : problem_(problem),
        params_(attention_params(problem, args)),
        float8_(args.float8),
        probability_scale_(probability_scale) {
    if (problem.bias.rank != 0) load_bias_ = load_of(problem.bias.type);
    if (params_.has_dropout) key_ = kernels::dropout_key(params_.dropout);
  }

  void forward() const {
    const AttentionParams& p = params_;
    Greatest amax_s(float8_.amax_s);
    Greatest amax_o(float8_.amax_o);
    const double scale_s = number_or_one(float8_.scale_s);
    over_rows(p.batch, p.heads_q, p.length_q, [&](std::int64_t b, std::int64_t h, std::int64_t r) {
      const SequenceLengths lengths = kernels::sequence_lengths(p, b);
      const bool inside = r < lengths.q;
      Row row;
      if (inside) scores(b, h, r, lengths, &row);
      write_row_value(p.stats, b, h, r, inside,
                      row.sum > 0 || std::isnan(row.sum) ? row.max + std::log(row.sum) : kMinusInfinity);
      write_row_value(p.max, b, h, r, inside, row.max);
      write_row_value(p.sum_exp, b, h, r, inside, row.sum);
      write_dropout_mask(b, h, r, row);
      if (!inside && p.o.offset_bits != 0) return;
      std::vector<double> out(static_cast<std::size_t>(p.dim_v));
      if (inside) {
        softmax(&row);
        const double scale = scale_of(row);
        for (std::int64_t c = row.columns.first; c < row.columns.end; ++c) {
          const double probability = at(row.probability, c) * at(row.kept, c);
          amax_s.meet(probability);
          const double weight = rounded_to(problem_.p_type, probability * scale);
          if (weight == 0) continue;
          const Elements<T> v = row_of(p.v, b, v_head(h), c);
          for (std::int64_t d = 0; d < p.dim_v; ++d) at(out, d) += weight * v[d * p.v.strides[3]];
        }
        const double undone = product_of(float8_.output) * (scale == scale_s ? 1 : scale_s / scale);
        scale_result(&out, undone, number_or_one(float8_.scale_o), &amax_o);
      }
      write_vector(p.o, b, h, r, out);
    });
  }

  void backward() const {
    Greatest amax_ds(float8_.amax_ds);
    if (params_.dq.data != nullptr) query_gradient(&amax_ds);
    if (params_.dk.data != nullptr) key_gradient(params_.dk, params_.heads_k, params_.dim_qk, false, &amax_ds);
    if (params_.dv.data != nullptr) key_gradient(params_.dv, params_.heads_v, params_.dim_v, true, nullptr);
    if (params_.dbias.data != nullptr) bias_gradient();
    if (params_.dsink != nullptr) sink_gradient();
  }

 private:
  static double& at(std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
  static double at(const std::vector<double>& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }

  std::int64_t k_head(std::int64_t h) const { return h / (params_.heads_q / params_.heads_k); }
  std::int64_t v_head(std::int64_t h) const { return h / (params_.heads_q / params_.heads_v); }

  template <class Body>
  void over_rows(std::int64_t batch, std::int64_t heads, std::int64_t rows, Body body) const {
    const std::int64_t cost = problem_.length_kv * (params_.dim_qk + params_.dim_v);
    parallel_for(batch * heads * rows, grain_for(cost), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) body(i / rows / heads, i / rows % heads, i % rows);
    });
  }

  Elements<T> row_of(const AttentionTensor& tensor, std::int64_t b, std::int64_t h, std::int64_t r) const {
    const std::int64_t offset = kernels::row_offset(tensor, b, h, r);
    if constexpr (std::is_same_v<T, Stored>) {
      const DataType type = type_of(tensor);
      return {tensor.data, offset, type, numbers_of(type)};
    } else {
      return {static_cast<T*>(tensor.data) + offset};
    }
  }

  // Of one of the tensors in params_.
  DataType type_of(const AttentionTensor& tensor) const {
    const struct {
      const AttentionTensor& tensor;
      const attention::Tensor& described;
    } all[] = {{params_.q, problem_.q},  {params_.k, problem_.k},     {params_.v, problem_.v},
               {params_.o, problem_.o},  {params_.d_o, problem_.d_o}, {params_.dq, problem_.dq},
               {params_.dk, problem_.dk}};
    for (const auto& one : all) {
      if (&one.tensor == &tensor) return one.described.geometry.type;
    }
    return problem_.dv.geometry.type;
  }

  // Sums of products -> what is stored: the operands' scales undone, the greatest magnitude noted, the result's own
  // scale.
  static void scale_result(std::vector<double>* values, double factor, double scale, Greatest* amax) {
    for (double& value : *values) {
      value *= factor;
      amax->meet(value);
      value *= scale;
    }
  }

  // dS as dq and dk multiply it.
  double gradient_weight(const Row& row, std::int64_t c, Greatest* amax) const {
    const double gradient = params_.scale * at(row.gradient, c) * at(row.slope, c);
    amax->meet(gradient);
    return rounded_to(problem_.ds_type, gradient * number_or_one(float8_.scale_ds));
  }

  void write_vector(const AttentionTensor& tensor, std::int64_t b, std::int64_t h, std::int64_t r,
                    const std::vector<double>& values) const {
    const Elements<T> out = row_of(tensor, b, h, r);
    for (std::size_t d = 0; d < values.size(); ++d)
      out.put(static_cast<std::int64_t>(d) * tensor.strides[3], values[d]);
  }

  // stats, max and sum_exp are double with double tensors, else float.
  void write_row_value(const AttentionTensor& tensor, std::int64_t b, std::int64_t h, std::int64_t r, bool inside,
                       double value) const {
    if (tensor.data == nullptr || (!inside && tensor.offset_bits != 0)) return;
    const std::int64_t offset = kernels::row_offset(tensor, b, h, r);
    if constexpr (std::is_same_v<T, double>) {
      static_cast<double*>(tensor.data)[offset] = value;
    } else {
      static_cast<float*>(tensor.data)[offset] = static_cast<float>(value);
    }
  }
  double read_stats(std::int64_t b, std::int64_t h, std::int64_t r) const {
    const std::int64_t offset = kernels::row_offset(params_.stats, b, h, r);
    if constexpr (std::is_same_v<T, double>) {
      return static_cast<const double*>(params_.stats.data)[offset];
    } else {
      return static_cast<double>(static_cast<const float*>(params_.stats.data)[offset]);
    }
  }

  static bool holds_sum(double stats) {
    if constexpr (std::is_same_v<T, double>) return kernels::holds_sum(stats);
    return kernels::holds_sum(static_cast<float>(stats));
  }

  double dot(const Elements<T>& a, std::int64_t a_stride, const Elements<T>& b, std::int64_t b_stride,
             std::int64_t count) const {
    double sum = 0;
    for (std::int64_t d = 0; d < count; ++d) sum += a[d * a_stride] * b[d * b_stride];
    return sum;
  }

  bool is_visible(std::int64_t b, std::int64_t h, std::int64_t r, std::int64_t c) const {
    return params_.block_mask == nullptr || kernels::is_tile_kept(params_, b, h, r, c);
  }

  // The visible scores of the row, the others -inf; their maximum and sum.
  void scores(std::int64_t b, std::int64_t h, std::int64_t r, const SequenceLengths& lengths, Row* row) const {
    const AttentionParams& p = params_;
    const auto count = static_cast<std::size_t>(p.length_kv);
    row->columns = kernels::visible_columns(p, lengths, r);
    row->probability.assign(count, kMinusInfinity);
    row->slope.assign(count, 1);
    row->kept.assign(count, 1);
    const Elements<T> q = row_of(p.q, b, h, r);
    const double scale = p.scale * product_of(float8_.scores);
    for (std::int64_t c = row->columns.first; c < row->columns.end; ++c) {
      if (!is_visible(b, h, r, c)) continue;
      double score = scale * dot(q, p.q.strides[3], row_of(p.k, b, k_head(h), c), p.k.strides[3], p.dim_qk);
      if (p.soft_cap > 0) {
        const double t = std::tanh(score / p.soft_cap);
        score = p.soft_cap * t;
        at(row->slope, c) = 1 - t * t;
      }
      if (p.bias.data != nullptr) score += load_bias_(p.bias.data, kernels::bias_offset(p.bias, b, h, r, c));
      if (p.alibi_slopes != nullptr) score += static_cast<double>(p.alibi_slopes[h]) * static_cast<double>(c - r);
      at(row->probability, c) = score;
    }
    add_dropout(b, h, r, row);
    for (const double score : row->probability) row->max = std::max(row->max, score);
    const double sink = p.sink != nullptr ? static_cast<double>(p.sink[h]) : kMinusInfinity;
    row->max = std::max(row->max, sink);
    if (row->max == kMinusInfinity && !has_nan(*row)) return;
    for (const double score : row->probability) row->sum += std::exp(score - row->max);
    row->sum += std::exp(sink - row->max);
  }

  static bool has_nan(const Row& row) {
    return std::any_of(row.probability.begin(), row.probability.end(), [](double score) { return std::isnan(score); });
  }

  void add_dropout(std::int64_t b, std::int64_t h, std::int64_t r, Row* row) const {
    if (!params_.has_dropout) return;
    const auto batch_head = static_cast<std::uint32_t>(b * params_.heads_q + h);
    for (std::int64_t c = 0; c < params_.length_kv; ++c) {
      const bool kept = kernels::is_score_kept(key_, params_.dropout.threshold, batch_head,
                                               static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(c));
      at(row->kept, c) = kept ? params_.dropout.scale : 0;
    }
  }

  void write_dropout_mask(std::int64_t b, std::int64_t h, std::int64_t r, const Row& row) const {
    const AttentionTensor& mask = params_.dropout_mask;
    if (mask.data == nullptr) return;
    const auto batch_head = static_cast<std::uint32_t>(b * params_.heads_q + h);
    const StoreAny store = store_of(problem_.dropout_mask.type);
    for (std::int64_t c = 0; c < params_.length_kv; ++c) {
      const bool kept = kernels::is_score_kept(key_, params_.dropout.threshold, batch_head,
                                               static_cast<std::uint32_t>(r), static_cast<std::uint32_t>(c));
      store(mask.data, kernels::row_offset(mask, b, h, r) + c * mask.strides[3], kept ? 1 : 0, 0);
    }
    (void)row;
  }

  // Scores -> p, by the row's own maximum and sum.
  static void softmax(Row* row) {
    for (double& value : row->probability) {
      value = value == kMinusInfinity ? 0 : std::exp(value - row->max) / row->sum;
    }
  }

  // What p is multiplied by before it is rounded forward.
  double scale_of(const Row& row) const {
    double greatest = 0;
    if (probability_scale_ == ProbabilityScale::by_greatest && problem_.p_type != GPUDNN_DATA_FLOAT) {
      for (const double p : row.probability) greatest = std::max(greatest, p * params_.dropout.scale);
    }
    if (greatest == 0) return number_or_one(float8_.scale_s);
    const bool e4m3 = problem_.p_type == GPUDNN_DATA_FP8_E4M3;
    return static_cast<double>(e4m3 ? kernels::kGreatestE4M3 : kernels::kGreatestE5M2) / greatest;
  }

  // p from stats, the gradient of the scores, and delta.
  void differentiate(std::int64_t b, std::int64_t h, std::int64_t r, const SequenceLengths& lengths, Row* row) const {
    const AttentionParams& p = params_;
    scores(b, h, r, lengths, row);
    const double stats = read_stats(b, h, r);
    const Elements<T> d_o = row_of(p.d_o, b, h, r);
    row->delta = delta_of(b, h, r);
    const double dp_factor = product_of(float8_.dp);
    row->gradient.assign(row->probability.size(), 0);
    for (std::int64_t c = row->columns.first; c < row->columns.end; ++c) {
      double& value = at(row->probability, c);
      value = !holds_sum(stats) || value == kMinusInfinity ? 0 : std::exp(value - stats);
      if (!is_visible(b, h, r, c)) continue;
      const double dp = dp_factor * dot(d_o, p.d_o.strides[3], row_of(p.v, b, v_head(h), c), p.v.strides[3], p.dim_v);
      at(row->gradient, c) = value == 0 ? 0 : value * (dp * at(row->kept, c) - row->delta);
    }
  }

  double delta_of(std::int64_t b, std::int64_t h, std::int64_t r) const {
    const AttentionParams& p = params_;
    return product_of(float8_.delta) *
           dot(row_of(p.d_o, b, h, r), p.d_o.strides[3], row_of(p.o, b, h, r), p.o.strides[3], p.dim_v);
  }

  void query_gradient(Greatest* amax_ds) const {
    const AttentionParams& p = params_;
    Greatest amax_dq(float8_.amax_dq);
    over_rows(p.batch, p.heads_q, p.length_q, [&](std::int64_t b, std::int64_t h, std::int64_t r) {
      const SequenceLengths lengths = kernels::sequence_lengths(p, b);
      std::vector<double> out(static_cast<std::size_t>(p.dim_qk));
      if (r >= lengths.q && p.dq.offset_bits != 0) return;
      if (r < lengths.q) {
        Row row;
        differentiate(b, h, r, lengths, &row);
        for (std::int64_t c = row.columns.first; c < row.columns.end; ++c) {
          const double weight = gradient_weight(row, c, amax_ds);
          if (weight == 0) continue;
          const Elements<T> k = row_of(p.k, b, k_head(h), c);
          for (std::int64_t d = 0; d < p.dim_qk; ++d) at(out, d) += weight * k[d * p.k.strides[3]];
        }
        scale_result(&out, product_of(float8_.dq), number_or_one(float8_.scale_dq), &amax_dq);
      }
      write_vector(p.dq, b, h, r, out);
    });
  }

  // dV (of_values) or dK: a thread has a whole head, as each row adds to all of its columns.
  void key_gradient(const AttentionTensor& out, std::int64_t heads, std::int64_t dim, bool of_values,
                    Greatest* amax_ds) const {
    const AttentionParams& p = params_;
    Greatest amax(of_values ? float8_.amax_dv : float8_.amax_dk);
    parallel_for(p.batch * heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        key_gradient_of_head(out, i / heads, i % heads, heads, dim, of_values, amax_ds, &amax);
      }
    });
  }

  void key_gradient_of_head(const AttentionTensor& out, std::int64_t b, std::int64_t head, std::int64_t heads,
                            std::int64_t dim, bool of_values, Greatest* amax_ds, Greatest* amax) const {
    const AttentionParams& p = params_;
    const SequenceLengths lengths = kernels::sequence_lengths(p, b);
    const std::int64_t group = p.heads_q / heads;
    std::vector<double> sums(static_cast<std::size_t>(p.length_kv * dim));
    const double scale_s = number_or_one(float8_.scale_s);
    const AttentionTensor& factor = of_values ? p.d_o : p.q;
    for (std::int64_t h = head * group; h < (head + 1) * group; ++h) {
      for (std::int64_t r = 0; r < lengths.q; ++r) {
        Row row;
        differentiate(b, h, r, lengths, &row);
        const Elements<T> x = row_of(factor, b, h, r);
        for (std::int64_t c = row.columns.first; c < row.columns.end; ++c) {
          const double weight = of_values
                                    ? rounded_to(problem_.p_type, at(row.probability, c) * at(row.kept, c) * scale_s)
                                    : gradient_weight(row, c, amax_ds);
          if (weight == 0) continue;
          for (std::int64_t d = 0; d < dim; ++d) at(sums, c * dim + d) += weight * x[d * factor.strides[3]];
        }
      }
    }
    scale_result(&sums, product_of(of_values ? float8_.dv : float8_.dk),
                 number_or_one(of_values ? float8_.scale_dv : float8_.scale_dk), amax);
    for (std::int64_t c = 0; c < (out.offset_bits != 0 ? lengths.kv : p.length_kv); ++c) {
      const auto first = sums.begin() + static_cast<std::ptrdiff_t>(c * dim);
      write_vector(out, b, head, c, std::vector<double>(first, first + static_cast<std::ptrdiff_t>(dim)));
    }
  }

  void bias_gradient() const {
    const AttentionParams& p = params_;
    const std::int64_t* const dims = p.dbias_dims;
    std::vector<double> sums(static_cast<std::size_t>(dims[0] * dims[1] * dims[2] * dims[3]));
    for (std::int64_t b = 0; b < p.batch; ++b) {
      const SequenceLengths lengths = kernels::sequence_lengths(p, b);
      for (std::int64_t h = 0; h < p.heads_q; ++h) {
        for (std::int64_t r = 0; r < lengths.q; ++r) {
          Row row;
          differentiate(b, h, r, lengths, &row);
          const std::int64_t first = ((b % dims[0] * dims[1] + h % dims[1]) * dims[2] + r % dims[2]) * dims[3];
          for (std::int64_t c = 0; c < p.length_kv; ++c) at(sums, first + c % dims[3]) += at(row.gradient, c);
        }
      }
    }
    const StoreAny store = store_of(problem_.dbias.type);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(sums.size()); ++i) {
      store(p.dbias.data, offset_of(i, 4, dims, problem_.dbias.strides), at(sums, i), 0);
    }
  }

  void sink_gradient() const {
    const AttentionParams& p = params_;
    parallel_for(p.heads_q, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t h = begin; h < end; ++h) {
        double sum = 0;
        for (std::int64_t b = 0; b < p.batch; ++b) {
          const SequenceLengths lengths = kernels::sequence_lengths(p, b);
          for (std::int64_t r = 0; r < lengths.q; ++r) {
            const double stats = read_stats(b, h, r);
            if (!holds_sum(stats)) continue;
            sum -= std::exp(static_cast<double>(p.sink[h]) - stats) * delta_of(b, h, r);
          }
        }
        p.dsink[h] = static_cast<float>(sum);
      }
    });
  }

  const Problem& problem_;
  AttentionParams params_;
  kernels::AttentionFloat8 float8_;
  ProbabilityScale probability_scale_;
  kernels::DropoutKey key_;
  LoadAny load_bias_ = nullptr;
};

}  // namespace

void attention(const Problem& problem, const Args& args, ProbabilityScale probability_scale) {
  const kernels::AttentionFloat8& numbers = args.float8;
  for (float* const amax :
       {numbers.amax_s, numbers.amax_o, numbers.amax_ds, numbers.amax_dq, numbers.amax_dk, numbers.amax_dv}) {
    if (amax != nullptr) *amax = 0;
  }
  const auto run = [&]<class T>() {
    const Attention<T> operation(problem, args, probability_scale);
    if (problem.backward != 0) {
      operation.backward();
    } else {
      operation.forward();
    }
  };
  if (problem.is_8_bit()) return run.template operator()<Stored>();
  with_floating_type(problem.type(), run);
}

}  // namespace gpudnn::host
