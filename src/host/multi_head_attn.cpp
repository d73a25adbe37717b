// Multi-head attention on the host. Each pass starts from the inputs: nothing but lengths, windows and the dropout's
// state comes from an earlier call. All intermediate results are double; sums go in the order of their indices.
// SPDX-License-Identifier: Apache-2.0
#include "host/multi_head_attn.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "core/parallel.hpp"
#include "host/any_element.hpp"
#include "host/element.hpp"
#include "kernels/attention/attention.hpp"
#include "ops/dropout/problem.hpp"

namespace gpudnn::host {
namespace {

using mha::Args;
using mha::Buffers;
using mha::kK;
using mha::kO;
using mha::kParts;
using mha::kQ;
using mha::kV;
using mha::Layer;
using mha::Pass;
using mha::Problem;
using mha::Sequences;
using mha::WeightPart;

using Values = std::vector<double>;

double& at(Values& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
double at(const Values& values, std::int64_t i) { return values[static_cast<std::size_t>(i)]; }
Values zeros(std::int64_t count) { return Values(static_cast<std::size_t>(count)); }

std::uint32_t threshold(float probability) { return dropout::threshold_of(probability); }

// One row of the softmax of one head: the columns [first, end).
struct Row {
  std::int64_t first = 0;
  std::int64_t end = 0;
  Values p;     // by column - first
  Values kept;  // what dropout multiplies p by
};

template <class T>
class MultiHeadAttn {
 public:
  MultiHeadAttn(const Problem& problem, const Args& args, const Buffers& buffers)
      : problem_(problem), layer_(problem.layer), args_(args), b_(buffers) {}

  void run() {
    if (problem_.pass != Pass::wgrad) store_call();
    const void* const data[] = {args_.q, args_.k, args_.v};
    for (int part = kQ; part <= kV; ++part) {
      input_[part] = read_rows(part, data[part], sequences(part));
      operand_[part] = layer_.proj[part] > 0 ? project(part, input_[part]) : input_[part];
    }
    context_ = core_forward();
    if (problem_.pass == Pass::forward) return write_out();
    d_out_ = read_rows(kO, args_.dout, problem_.o);
    drop(&d_out_);
    core_backward(layer_.proj[kO] > 0 ? project_back(kO, d_out_) : d_out_);
    if (problem_.pass == Pass::dgrad) return write_gradients();
    write_weight_gradients();
  }

 private:
  [[nodiscard]] const Sequences& sequences(int part) const {
    const Sequences* const all[] = {&problem_.q, &problem_.k, &problem_.v, &problem_.o};
    return *all[part];
  }
  [[nodiscard]] bool of_queries(int part) const { return part == kQ || part == kO; }
  [[nodiscard]] std::int64_t steps(int part) const { return of_queries(part) ? problem_.steps() : problem_.k.time; }
  [[nodiscard]] std::int64_t rows(int part) const { return of_queries(part) ? problem_.rows_q() : problem_.rows_kv(); }
  [[nodiscard]] std::int64_t first_step() const { return std::max(problem_.current, 0); }

  // --- what the call says ---
  void store_call() {
    const std::int64_t count_q = std::int64_t{problem_.q.batch} * problem_.q.beam;
    const std::int64_t count_kv = std::int64_t{problem_.k.batch} * problem_.k.beam;
    std::copy_n(args_.length_q != nullptr ? args_.length_q : args_.host_length_q, count_q, b_.length_q);
    std::copy_n(args_.length_kv != nullptr ? args_.length_kv : args_.host_length_kv, count_kv, b_.length_kv);
    std::int32_t* to = b_.windows;
    for (const mha::Window& window : mha::windows_of(problem_, args_)) {
      *to++ = window.first;
      *to++ = window.end;
    }
    if (problem_.pass != Pass::forward || problem_.training == 0) return;
    if (layer_.attn_dropout > 0) {
      b_.dropout->attn_seed = args_.attn_states->seed;
      b_.dropout->attn_calls = args_.attn_states->calls++;
    }
    if (layer_.post_dropout > 0) {
      b_.dropout->post_seed = args_.post_states->seed;
      b_.dropout->post_calls = args_.post_states->calls++;
    }
  }

  // Whether a row {batch, beam, step} lies within its sequence.
  [[nodiscard]] bool is_inside(int part, std::int64_t row) const {
    const std::int64_t time = row % steps(part) + (of_queries(part) ? first_step() : 0);
    return time < (of_queries(part) ? b_.length_q : b_.length_kv)[row / steps(part)];
  }
  [[nodiscard]] std::int64_t offset_of_row(int part, std::int64_t row, const Sequences& s) const {
    const std::int64_t sequence = row / steps(part);
    return (row % steps(part) + (of_queries(part) ? first_step() : 0)) * s.stride(GPUDNN_SEQDATA_TIME_DIM) +
           sequence / s.beam * s.stride(GPUDNN_SEQDATA_BATCH_DIM) +
           sequence % s.beam * s.stride(GPUDNN_SEQDATA_BEAM_DIM);
  }

  // Rows within the lengths; the others are 0, whatever lies there.
  [[nodiscard]] Values read_rows(int part, const void* data, const Sequences& s) const {
    Values values = zeros(rows(part) * s.size);
    for (std::int64_t row = 0; row < rows(part); ++row) {
      if (!is_inside(part, row)) continue;
      const T* const from = static_cast<const T*>(data) + offset_of_row(part, row, s);
      for (std::int64_t c = 0; c < s.size; ++c) at(values, row * s.size + c) = to_double(from[c]);
    }
    return values;
  }

  // --- projections ---
  [[nodiscard]] WeightPart weights(int part, bool is_bias) const {
    return weight_part(layer_, static_cast<gpudnnMultiHeadAttnWeightKind_t>(part + (is_bias ? kParts : 0)));
  }
  [[nodiscard]] double weight(const WeightPart& w, std::int64_t h, std::int64_t p, std::int64_t i) const {
    return to_double(
        static_cast<const T*>(args_.weights)[w.offset + h * w.strides[0] + p * w.strides[1] + i * w.strides[2]]);
  }

  // The columns of a projection's input that a head reads, and of its result that a head writes.
  [[nodiscard]] std::int64_t in_column(int part, std::int64_t h) const {
    return part == kO ? h * layer_.in_size(kO) : 0;
  }
  [[nodiscard]] std::int64_t out_column(int part, std::int64_t h) const {
    return part == kO ? 0 : h * layer_.proj[part];
  }
  [[nodiscard]] std::int64_t in_columns(int part) const {
    return part == kO ? layer_.heads * layer_.in_size(kO) : layer_.in_size(part);
  }
  [[nodiscard]] std::int64_t out_columns(int part) const {
    return part == kO ? layer_.proj[kO] : std::int64_t{layer_.heads} * layer_.proj[part];
  }

  template <class Body>  // body(row) of the rows within the lengths
  void over_rows(int part, std::int64_t cost, Body body) const {
    parallel_for(rows(part), grain_for(cost), [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t row = begin; row < end; ++row) {
        if (is_inside(part, row)) body(row);
      }
    });
  }

  [[nodiscard]] Values project(int part, const Values& from) const {
    const std::int64_t in = in_columns(part);
    const std::int64_t out = out_columns(part);
    const WeightPart w = weights(part, false);
    const WeightPart bias = weights(part, true);
    Values to = zeros(rows(part) * out);
    over_rows(part, in * out, [&](std::int64_t row) {
      for (std::int64_t h = 0; h < layer_.heads; ++h) {
        for (std::int64_t p = 0; p < w.dims[1]; ++p) {
          double& sum = at(to, row * out + out_column(part, h) + p);
          if (bias.exists && (part != kO || h == 0)) {
            sum += to_double(static_cast<const T*>(args_.weights)[bias.offset + h * bias.strides[0] + p]);
          }
          for (std::int64_t i = 0; i < w.dims[2]; ++i) {
            sum += weight(w, h, p, i) * at(from, row * in + in_column(part, h) + i);
          }
        }
      }
    });
    return to;
  }

  [[nodiscard]] Values project_back(int part, const Values& from) const {
    const std::int64_t in = in_columns(part);
    const std::int64_t out = out_columns(part);
    const WeightPart w = weights(part, false);
    Values to = zeros(rows(part) * in);
    over_rows(part, in * out, [&](std::int64_t row) {
      for (std::int64_t h = 0; h < layer_.heads; ++h) {
        for (std::int64_t i = 0; i < w.dims[2]; ++i) {
          double& sum = at(to, row * in + in_column(part, h) + i);
          for (std::int64_t p = 0; p < w.dims[1]; ++p) {
            sum += weight(w, h, p, i) * at(from, row * out + out_column(part, h) + p);
          }
        }
      }
    });
    return to;
  }

  // --- the core ---
  // Where a head's vector of an operand starts.
  [[nodiscard]] std::int64_t head_offset(int part, std::int64_t row, std::int64_t h) const {
    return row * layer_.row_size(part) + (layer_.proj[part] > 0 ? h * layer_.proj[part] : 0);
  }
  [[nodiscard]] double dot(const Values& a, std::int64_t a_at, const Values& b, std::int64_t b_at,
                           std::int64_t count) const {
    double sum = 0;
    for (std::int64_t i = 0; i < count; ++i) sum += at(a, a_at + i) * at(b, b_at + i);
    return sum;
  }
  // The first row of keys that a row of queries sees.
  [[nodiscard]] std::int64_t keys_of(std::int64_t row) const {
    const std::int64_t sequence = row / problem_.steps();
    return (layer_.one_to_one != 0 ? sequence : sequence / problem_.q.beam) * problem_.k.time;
  }

  [[nodiscard]] Row softmax(std::int64_t row, std::int64_t h) const {
    const std::int64_t step = row % problem_.steps();
    const std::int64_t keys = keys_of(row);
    Row result;
    const std::int64_t length = std::clamp<std::int64_t>(b_.length_kv[keys / problem_.k.time], 0, problem_.k.time);
    result.first = std::min<std::int64_t>(b_.windows[2 * step], length);
    result.end = std::max(result.first, std::min<std::int64_t>(b_.windows[2 * step + 1], length));
    const std::int64_t size = layer_.head_size(kQ);
    double most = -std::numeric_limits<double>::infinity();
    for (std::int64_t c = result.first; c < result.end; ++c) {
      const double product =
          dot(operand_[kQ], head_offset(kQ, row, h), operand_[kK], head_offset(kK, keys + c, h), size);
      result.p.push_back(layer_.scale * product);
      most = std::max(most, result.p.back());
    }
    double sum = 0;
    for (double& value : result.p) sum += value = std::exp(value - most);
    for (double& value : result.p) value /= sum;
    add_dropout(row, h, &result);
    return result;
  }

  void add_dropout(std::int64_t row, std::int64_t h, Row* result) const {
    result->kept.assign(result->p.size(), 1);
    if (problem_.training == 0 || layer_.attn_dropout == 0) return;
    kernels::AttentionDropout state;
    state.seed_value = b_.dropout->attn_seed;
    state.offset_value = b_.dropout->attn_calls;
    const kernels::DropoutKey key = kernels::dropout_key(state);
    const std::int64_t per_batch = core_rows(problem_);
    const auto batch_head = static_cast<std::uint32_t>(row / per_batch * layer_.heads + h);
    for (std::size_t i = 0; i < result->p.size(); ++i) {
      const auto column = static_cast<std::uint32_t>(result->first) + static_cast<std::uint32_t>(i);
      const bool kept = kernels::is_score_kept(key, threshold(layer_.attn_dropout), batch_head,
                                               static_cast<std::uint32_t>(row % per_batch), column);
      result->kept[i] = kept ? dropout::scale_of(layer_.attn_dropout) : 0;
    }
  }

  [[nodiscard]] Values core_forward() const {
    const std::int64_t size = layer_.head_size(kV);
    Values context = zeros(problem_.rows_q() * layer_.heads * size);
    over_rows(kQ, problem_.k.time * (layer_.head_size(kQ) + size) * layer_.heads, [&](std::int64_t row) {
      for (std::int64_t h = 0; h < layer_.heads; ++h) {
        const Row softmax_row = softmax(row, h);
        for (std::int64_t c = softmax_row.first; c < softmax_row.end; ++c) {
          const double weight = at(softmax_row.p, c - softmax_row.first) * at(softmax_row.kept, c - softmax_row.first);
          if (weight == 0) continue;
          const std::int64_t v = head_offset(kV, keys_of(row) + c, h);
          for (std::int64_t i = 0; i < size; ++i) {
            at(context, (row * layer_.heads + h) * size + i) += weight * at(operand_[kV], v + i);
          }
        }
      }
    });
    return context;
  }

  // gradient_[part]: {row, head, element}, whether the part is projected or not.
  void core_backward(const Values& d_context) {
    for (int part = kQ; part <= kV; ++part) {
      gradient_[part] = zeros(rows(part) * layer_.heads * layer_.head_size(part));
    }
    const std::int64_t per_batch = core_rows(problem_);
    // A thread has all rows of a head that share keys.
    parallel_for(core_batch(problem_) * layer_.heads, 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t i = begin; i < end; ++i) {
        const std::int64_t first = i / layer_.heads * per_batch;
        for (std::int64_t row = first; row < first + per_batch; ++row) {
          if (is_inside(kQ, row)) backward_of_row(row, i % layer_.heads, d_context);
        }
      }
    });
  }

  void backward_of_row(std::int64_t row, std::int64_t h, const Values& d_context) {
    const std::int64_t size = layer_.head_size(kV);
    const std::int64_t qk = layer_.head_size(kQ);
    const std::int64_t d_row = (row * layer_.heads + h) * size;
    const Row r = softmax(row, h);
    Values dp = zeros(static_cast<std::int64_t>(r.p.size()));
    double delta = 0;
    for (std::int64_t c = r.first; c < r.end; ++c) {
      const std::int64_t i = c - r.first;
      const std::int64_t key = keys_of(row) + c;
      at(dp, i) = at(r.kept, i) * dot(d_context, d_row, operand_[kV], head_offset(kV, key, h), size);
      delta += at(dp, i) * at(r.p, i);
      const double weight = at(r.p, i) * at(r.kept, i);
      for (std::int64_t e = 0; e < size; ++e) {
        at(gradient_[kV], (key * layer_.heads + h) * size + e) += weight * at(d_context, d_row + e);
      }
    }
    for (std::int64_t c = r.first; c < r.end; ++c) {
      const std::int64_t key = keys_of(row) + c;
      const double ds = layer_.scale * at(r.p, c - r.first) * (at(dp, c - r.first) - delta);
      for (std::int64_t e = 0; e < qk; ++e) {
        at(gradient_[kQ], (row * layer_.heads + h) * qk + e) += ds * at(operand_[kK], head_offset(kK, key, h) + e);
        at(gradient_[kK], (key * layer_.heads + h) * qk + e) += ds * at(operand_[kQ], head_offset(kQ, row, h) + e);
      }
    }
  }

  // --- results ---
  // The post dropout of rows of out, or of their gradient.
  void drop(Values* values) const {
    if (problem_.training == 0 || layer_.post_dropout == 0) return;
    for (std::size_t i = 0; i < values->size(); ++i) {
      const bool kept = kernels::mha_is_kept(*b_.dropout, threshold(layer_.post_dropout), i);
      (*values)[i] = kept ? (*values)[i] * dropout::scale_of(layer_.post_dropout) : 0;
    }
  }

  void write_out() const {
    Values values = layer_.proj[kO] > 0 ? project(kO, context_) : context_;
    drop(&values);
    const std::int64_t size = problem_.o.size;
    for (std::int64_t row = 0; row < rows(kO); ++row) {
      T* const out = static_cast<T*>(args_.out) + offset_of_row(kO, row, problem_.o);
      if (!is_inside(kO, row)) {
        std::fill_n(out, size, round_to<T>(args_.fill));
        continue;
      }
      const T* const residual = static_cast<const T*>(args_.residual) + offset_of_row(kQ, row, problem_.q);
      for (std::int64_t c = 0; c < size; ++c) {
        const double more = problem_.has_residual != 0 ? to_double(residual[c]) : 0;
        out[c] = round_to<T>(at(values, row * size + c) + more);
      }
    }
  }

  void write_gradients() const {
    void* const data[] = {args_.dq, args_.dk, args_.dv};
    for (int part = kQ; part <= kV; ++part) {
      const Sequences& s = sequences(part);
      const Values values = layer_.proj[part] > 0 ? project_back(part, gradient_[part]) : summed_over_heads(part);
      for (std::int64_t row = 0; row < rows(part); ++row) {
        T* const out = static_cast<T*>(data[part]) + offset_of_row(part, row, s);
        for (std::int64_t c = 0; c < s.size; ++c) {
          out[c] = is_inside(part, row) ? round_to<T>(at(values, row * s.size + c)) : round_to<T>(0);
        }
      }
    }
  }

  [[nodiscard]] Values summed_over_heads(int part) const {
    const std::int64_t size = layer_.size[part];
    Values sums = zeros(rows(part) * size);
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(gradient_[part].size()); ++i) {
      at(sums, i / size / layer_.heads * size + i % size) += at(gradient_[part], i);
    }
    return sums;
  }

  void write_weight_gradients() const {
    for (int part = 0; part < kParts; ++part) {
      if (layer_.proj[part] == 0) continue;
      write_weight_gradient(part, part == kO ? context_ : input_[part], part == kO ? d_out_ : gradient_[part]);
    }
  }

  void write_weight_gradient(int part, const Values& inputs, const Values& gradients) const {
    const WeightPart w = weights(part, false);
    const WeightPart bias = weights(part, true);
    const std::int64_t in = in_columns(part);
    const std::int64_t out = out_columns(part);
    T* const target = static_cast<T*>(args_.dweights);
    parallel_for(w.dims[0] * w.dims[1], 1, [&](std::int64_t begin, std::int64_t end) {
      for (std::int64_t n = begin; n < end; ++n) {
        const std::int64_t h = n / w.dims[1];
        const std::int64_t p = n % w.dims[1];
        for (std::int64_t i = 0; i < w.dims[2]; ++i) {
          double sum = 0;
          for (std::int64_t row = 0; row < rows(part); ++row) {
            sum += at(gradients, row * out + out_column(part, h) + p) * at(inputs, row * in + in_column(part, h) + i);
          }
          store(target + w.offset + h * w.strides[0] + p * w.strides[1] + i * w.strides[2], sum, problem_.add);
        }
        if (!bias.exists || (part == kO && h > 0)) continue;
        double sum = 0;
        for (std::int64_t row = 0; row < rows(part); ++row) sum += at(gradients, row * out + out_column(part, h) + p);
        store(target + bias.offset + h * bias.strides[0] + p, sum, problem_.add);
      }
    });
  }

  const Problem& problem_;
  const Layer& layer_;
  const Args& args_;
  const Buffers& b_;
  Values input_[3];
  Values operand_[3];
  Values context_;
  Values d_out_;
  Values gradient_[3];
};

}  // namespace

void multi_head_attn(const Problem& problem, const Args& args, const Buffers& buffers) {
  with_floating_type(problem.layer.type, [&]<class T>() { MultiHeadAttn<T>(problem, args, buffers).run(); });
}

}  // namespace gpudnn::host
