// The classic multi-head attention through the public interface: the host backend against the definition and against
// differences of its own results, the backend at hand against the host, and what the interface promises.
//
// Longer than most files: the definition, the caller and the judgement serve all of its tests and nothing else.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "ops/multi_head_attn/problem.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

using mha::Layer;
using mha::Problem;
using mha::Sequences;

using SeqDataDescriptor =
    Descriptor<gpudnnSeqDataDescriptor_t, gpudnnCreateSeqDataDescriptor, gpudnnDestroySeqDataDescriptor>;
using AttnDescriptor = Descriptor<gpudnnAttnDescriptor_t, gpudnnCreateAttnDescriptor, gpudnnDestroyAttnDescriptor>;
using DropoutDescriptor =
    Descriptor<gpudnnDropoutDescriptor_t, gpudnnCreateDropoutDescriptor, gpudnnDestroyDropoutDescriptor>;

constexpr int kKinds = GPUDNN_ATTN_WKIND_COUNT;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// What a call is given: sequences by (batch, beam, step, element), weights by kind and row-major index.
struct Given {
  std::vector<double> q, k, v, residual, dout;
  std::array<std::vector<double>, kKinds> weights;
  std::array<std::vector<double>, kKinds> weights_before;  // in the gradients' memory
  std::vector<int> length_q, length_kv, first, end;
  bool device_lengths = true;
};

struct Results {
  gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
  std::string text;
  std::vector<double> out, dq, dk, dv;
  std::array<std::vector<double>, kKinds> dw;
  std::string damage;
};

std::int64_t element_of(const Sequences& s, std::int64_t i) {
  const std::int64_t row = i / s.size;
  const std::int64_t sequence = row / s.time;
  return row % s.time * s.stride(GPUDNN_SEQDATA_TIME_DIM) + sequence / s.beam * s.stride(GPUDNN_SEQDATA_BATCH_DIM) +
         sequence % s.beam * s.stride(GPUDNN_SEQDATA_BEAM_DIM) + i % s.size;
}
std::int64_t count_of(const Sequences& s) { return s.rows() * s.size; }

// Sequences on the backend. Without values they are poison.
class SequenceBuffer {
 public:
  SequenceBuffer(const Backend& backend, gpudnnDataType_t type, const Sequences& s, const std::vector<double>* values)
      : type_(type), s_(s), buffer_(backend, static_cast<std::size_t>(count_of(s)) * element_size(type)) {
    if (values == nullptr) return;
    std::vector<char> image(buffer_.bytes());
    for (std::int64_t i = 0; i < count_of(s); ++i) {
      encode((*values)[static_cast<std::size_t>(i)], type,
             &image[static_cast<std::size_t>(element_of(s, i)) * element_size(type)]);
    }
    buffer_.write(image.data(), image.size());
  }
  [[nodiscard]] void* data() const { return buffer_.data(); }
  [[nodiscard]] std::string damage() const { return buffer_.damage(); }
  [[nodiscard]] std::vector<double> values() const {
    std::vector<char> image(buffer_.bytes());
    buffer_.read(image.data(), image.size());
    std::vector<double> values;
    for (std::int64_t i = 0; i < count_of(s_); ++i) {
      values.push_back(decode(&image[static_cast<std::size_t>(element_of(s_, i)) * element_size(type_)], type_));
    }
    return values;
  }

 private:
  gpudnnDataType_t type_;
  Sequences s_;
  GuardedBuffer buffer_;
};

// Where the interface says that weights of a kind lie.
struct Kind {
  std::int64_t offset = 0;  // bytes
  int dims[3] = {};
  int strides[3] = {};
  [[nodiscard]] std::int64_t count() const { return std::int64_t{dims[0]} * dims[1] * dims[2]; }
  [[nodiscard]] std::size_t at(std::int64_t i, std::size_t element) const {
    const std::int64_t place =
        i / dims[2] / dims[1] * strides[0] + i / dims[2] % dims[1] * strides[1] + i % dims[2] * strides[2];
    return static_cast<std::size_t>(offset) + static_cast<std::size_t>(place) * element;
  }
};

class Call {
 public:
  Call(const Backend& backend, const Problem& problem, const Given& given)
      : backend_(backend),
        p_(problem),
        given_(given),
        type_(problem.layer.type),
        q_(backend, type_, p_.q, &given.q),
        k_(backend, type_, p_.k, &given.k),
        v_(backend, type_, p_.v, &given.v),
        residual_(backend, type_, residual_layout(problem), &given.residual),
        dout_(backend, type_, p_.o, &given.dout),
        out_(backend, type_, p_.o, nullptr),
        dq_(backend, type_, p_.q, nullptr),
        dk_(backend, type_, p_.k, nullptr),
        dv_(backend, type_, p_.v, nullptr),
        length_q_(backend, given.length_q.size() * sizeof(int)),
        length_kv_(backend, given.length_kv.size() * sizeof(int)) {
    length_q_.write(given.length_q.data(), length_q_.bytes());
    length_kv_.write(given.length_kv.data(), length_kv_.bytes());
    set_descriptors();
  }

  Results run() {
    Results r;
    const bool training = p_.training != 0;
    std::size_t weight_bytes = 0;
    std::size_t work_bytes = 0;
    std::size_t reserve_bytes = 0;
    r.status = gpudnnGetMultiHeadAttnBuffers(backend_.handle(), attn_, &weight_bytes, &work_bytes,
                                             training ? &reserve_bytes : nullptr);
    if (r.status != GPUDNN_STATUS_SUCCESS) return refused(r);
    const GuardedBuffer weights = weights_of(given_.weights, weight_bytes);
    const GuardedBuffer dweights = weights_of(given_.weights_before, weight_bytes);
    const GuardedBuffer reserve(backend_, reserve_bytes);
    const int* const lq = given_.device_lengths ? static_cast<const int*>(length_q_.data()) : nullptr;
    const int* const lk = given_.device_lengths ? static_cast<const int*>(length_kv_.data()) : nullptr;
    const GuardedBuffer work(backend_, work_bytes);
    r.status = gpudnnMultiHeadAttnForward(
        backend_.handle(), attn_, p_.current, given_.first.data(), given_.end.data(), lq, lk, qd_, q_.data(),
        p_.has_residual != 0 ? residual_.data() : nullptr, kd_, k_.data(), vd_, v_.data(), od_, out_.data(),
        weight_bytes, weights.data(), work_bytes, work.data(), reserve_bytes, training ? reserve.data() : nullptr);
    if (r.status != GPUDNN_STATUS_SUCCESS) return refused(r);
    r.out = out_.values();
    r.damage = work.damage() + reserve.damage() + out_.damage();
    if (!training) return r;
    const GuardedBuffer other(backend_, work_bytes);  // the workspace may be another one in each call
    r.status = gpudnnMultiHeadAttnBackwardData(backend_.handle(), attn_, given_.first.data(), given_.end.data(), lq, lk,
                                               od_, dout_.data(), qd_, dq_.data(), q_.data(), kd_, dk_.data(),
                                               k_.data(), vd_, dv_.data(), v_.data(), weight_bytes, weights.data(),
                                               work_bytes, other.data(), reserve_bytes, reserve.data());
    if (r.status != GPUDNN_STATUS_SUCCESS) return refused(r);
    r.dq = dq_.values();
    r.dk = dk_.values();
    r.dv = dv_.values();
    r.status = gpudnnMultiHeadAttnBackwardWeights(
        backend_.handle(), attn_, p_.add != 0 ? GPUDNN_WGRAD_MODE_ADD : GPUDNN_WGRAD_MODE_SET, qd_, q_.data(), kd_,
        k_.data(), vd_, v_.data(), od_, dout_.data(), weight_bytes, weights.data(), dweights.data(), work_bytes,
        other.data(), reserve_bytes, reserve.data());
    if (r.status != GPUDNN_STATUS_SUCCESS) return refused(r);
    read_weights(dweights, &r.dw);
    r.damage += other.damage() + reserve.damage() + weights.damage() + dweights.damage() + dq_.damage() + dk_.damage() +
                dv_.damage();
    return r;
  }

 private:
  static Sequences residual_layout(const Problem& problem) {
    Sequences s = problem.o;
    std::copy_n(problem.q.axes, 3, s.axes);
    return s;
  }
  static Results refused(Results r) {
    r.text = take_error_text();
    return r;
  }

  void set_sequences(gpudnnSeqDataDescriptor_t desc, const Sequences& s, const std::vector<int>& lengths, void* fill) {
    const int dims[] = {s.time, s.batch, s.beam, s.size};
    const gpudnnSeqDataAxis_t axes[] = {s.axes[0], s.axes[1], s.axes[2], GPUDNN_SEQDATA_VECT_DIM};
    GPUDNN_TEST_REQUIRE(gpudnnSetSeqDataDescriptor(desc, type_, 4, dims, axes, lengths.size(), lengths.data(), fill));
  }

  void set_descriptors() {
    double fill = 0;
    encode(kFill, type_, &fill);
    set_sequences(qd_, p_.q, given_.length_q, nullptr);
    set_sequences(kd_, p_.k, given_.length_kv, nullptr);
    set_sequences(vd_, p_.v, given_.length_kv, nullptr);
    set_sequences(od_, p_.o, given_.length_q, p_.has_fill != 0 ? &fill : nullptr);
    const Layer& l = p_.layer;
    std::size_t bytes = 0;
    GPUDNN_TEST_REQUIRE(gpudnnDropoutGetStatesSize(backend_.handle(), &bytes));
    const float probability[] = {l.attn_dropout, l.post_dropout};
    gpudnnDropoutDescriptor_t dropout[2] = {};
    for (std::size_t i = 0; i < 2; ++i) {
      if (probability[i] == 0) continue;
      states_.emplace_back(backend_, bytes);
      GPUDNN_TEST_REQUIRE(gpudnnSetDropoutDescriptor(dropout_[i], backend_.handle(), probability[i],
                                                     states_.back().data(), bytes, 77 + i));
      dropout[i] = dropout_[i];
    }
    const unsigned mode = (l.one_to_one != 0 ? GPUDNN_ATTN_QUERYMAP_ONE_TO_ONE : 0U) |
                          (l.biases != 0 ? GPUDNN_ATTN_ENABLE_PROJ_BIASES : 0U);
    GPUDNN_TEST_REQUIRE(gpudnnSetAttnDescriptor(
        attn_, mode, l.heads, l.scale, l.type, l.compute, l.math, dropout[0], dropout[1], l.size[0], l.size[1],
        l.size[2], l.proj[0], l.proj[1], l.proj[2], l.proj[3], l.max_time_q, l.max_time_kv, l.max_batch, l.max_beam));
  }

  [[nodiscard]] Kind kind(int i, std::size_t weight_bytes) const {
    Kind found;
    void* address = nullptr;
    const TensorDescriptor desc;
    GPUDNN_TEST_REQUIRE(gpudnnGetMultiHeadAttnWeights(backend_.handle(), attn_,
                                                      static_cast<gpudnnMultiHeadAttnWeightKind_t>(i), weight_bytes,
                                                      nullptr, desc, &address));
    gpudnnDataType_t type = GPUDNN_DATA_FLOAT;
    int rank = 0;
    GPUDNN_TEST_REQUIRE(gpudnnGetTensorNdDescriptor(desc, 3, &type, &rank, found.dims, found.strides));
    found.offset = reinterpret_cast<std::intptr_t>(address);
    return found;
  }

  [[nodiscard]] GuardedBuffer weights_of(const std::array<std::vector<double>, kKinds>& values,
                                         std::size_t bytes) const {
    GuardedBuffer buffer(backend_, bytes);
    std::vector<char> image(bytes, static_cast<char>(0xff));
    for (int i = 0; i < kKinds; ++i) {
      const std::vector<double>& of_kind = values[static_cast<std::size_t>(i)];
      if (of_kind.empty()) continue;
      const Kind where = kind(i, bytes);
      for (std::int64_t j = 0; j < where.count(); ++j) {
        encode(of_kind[static_cast<std::size_t>(j)], type_, &image[where.at(j, element_size(type_))]);
      }
    }
    if (bytes > 0) buffer.write(image.data(), bytes);
    return buffer;
  }
  void read_weights(const GuardedBuffer& buffer, std::array<std::vector<double>, kKinds>* values) const {
    std::vector<char> image(buffer.bytes());
    if (!image.empty()) buffer.read(image.data(), image.size());
    for (int i = 0; i < kKinds; ++i) {
      if (given_.weights[static_cast<std::size_t>(i)].empty()) continue;
      const Kind where = kind(i, buffer.bytes());
      for (std::int64_t j = 0; j < where.count(); ++j) {
        (*values)[static_cast<std::size_t>(i)].push_back(decode(&image[where.at(j, element_size(type_))], type_));
      }
    }
  }

 public:
  static constexpr double kFill = 0.75;

 private:
  const Backend& backend_;
  Problem p_;
  const Given& given_;
  gpudnnDataType_t type_;
  SequenceBuffer q_, k_, v_, residual_, dout_, out_, dq_, dk_, dv_;
  GuardedBuffer length_q_, length_kv_;
  AttnDescriptor attn_;
  SeqDataDescriptor qd_, kd_, vd_, od_;
  DropoutDescriptor dropout_[2];
  std::vector<GuardedBuffer> states_;
};

Results run_call(const Backend& backend, const Problem& problem, const Given& given) {
  return Call(backend, problem, given).run();
}

// --- data ------------------------------------------------------------------------------------------------------------

std::vector<double> normal_values(Random& random, std::int64_t count, gpudnnDataType_t type, double scale = 1) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (double& value : values) value = round_to_type(scale * random.normal(), type);
  return values;
}

void poison_padding(const Sequences& s, const std::vector<int>& lengths, std::vector<double>* values) {
  for (std::size_t i = 0; i < values->size(); ++i) {
    const std::size_t row = i / static_cast<std::size_t>(s.size);
    const std::size_t time = row % static_cast<std::size_t>(s.time);
    if (static_cast<int>(time) >= lengths[row / static_cast<std::size_t>(s.time)]) (*values)[i] = kNaN;
  }
}

std::vector<int> random_lengths(Random& random, const Sequences& s, bool full) {
  std::vector<int> lengths(static_cast<std::size_t>(s.batch) * static_cast<std::size_t>(s.beam));
  for (int& length : lengths) length = full ? s.time : static_cast<int>(random.between(0, s.time));
  return lengths;
}

// Everything, one band of columns, or any windows, empty and overhanging ones among them.
void set_random_windows(Random& random, const Problem& p, Given* given) {
  const std::int64_t style = random.between(0, 3);
  const int left = static_cast<int>(random.between(1, p.k.time));
  const int right = static_cast<int>(random.between(0, 3));
  for (int t = 0; t < p.q.time; ++t) {
    int first = 0;
    int end = std::numeric_limits<int>::max();
    if (style == 1) end = t + 1;
    if (style == 2) first = std::max(0, t - left + 1), end = t + right + 1;
    if (style == 3) {
      first = static_cast<int>(random.between(-2, p.k.time));
      end = static_cast<int>(random.between(-1, p.k.time + 2));
    }
    given->first.push_back(first);
    given->end.push_back(end);
  }
}

Given make_given(const Problem& p, std::uint64_t seed) {
  Random random(seed);
  const gpudnnDataType_t type = p.layer.type;
  Given given;
  given.q = normal_values(random, count_of(p.q), type);
  given.k = normal_values(random, count_of(p.k), type);
  given.v = normal_values(random, count_of(p.v), type);
  given.residual = normal_values(random, count_of(p.o), type);
  given.dout = normal_values(random, count_of(p.o), type);
  for (int i = 0; i < kKinds; ++i) {
    const mha::WeightPart part = weight_part(p.layer, static_cast<gpudnnMultiHeadAttnWeightKind_t>(i));
    if (!part.exists) continue;
    const double scale = 1 / std::sqrt(static_cast<double>(part.dims[2]));
    given.weights[static_cast<std::size_t>(i)] = normal_values(random, part.count(), type, scale);
    if (p.add != 0) given.weights_before[static_cast<std::size_t>(i)] = normal_values(random, part.count(), type);
  }
  const bool full = random.chance(0.4);
  given.length_q = random_lengths(random, p.q, full);
  given.length_kv = random_lengths(random, p.k, full);
  given.device_lengths = random.chance(0.7);
  poison_padding(p.q, given.length_q, &given.q);
  poison_padding(p.k, given.length_kv, &given.k);
  poison_padding(p.v, given.length_kv, &given.v);
  poison_padding(p.o, given.length_q, &given.residual);
  poison_padding(p.o, given.length_q, &given.dout);
  set_random_windows(random, p, &given);
  return given;
}

void shuffle_axes(Random& random, Sequences* s) {
  for (std::int64_t i = 2; i > 0; --i) std::swap(s->axes[i], s->axes[random.between(0, i)]);
}

Problem random_problem(Random& random) {
  Problem p;
  Layer& l = p.layer;
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return static_cast<std::int32_t>(random.between(low, high));
  };
  l.type = random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_DOUBLE, GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16});
  l.compute = compute_type(l.type);
  l.math = l.type == GPUDNN_DATA_FLOAT ? GPUDNN_FMA_MATH : random.pick({GPUDNN_DEFAULT_MATH, GPUDNN_TENSOR_OP_MATH});
  l.one_to_one = draw(0, 1);
  l.biases = draw(0, 1);
  const int unit = random.chance(0.2) ? 8 : 1;
  l.heads = draw(1, 4);
  for (std::int32_t& size : l.size) size = unit * draw(1, 12);
  for (std::int32_t& size : l.proj) size = random.chance(0.7) ? unit * draw(1, 9) : 0;
  if (l.proj[mha::kK] > 0) {
    l.proj[mha::kK] = static_cast<std::int32_t>(l.head_size(mha::kQ));
  } else {
    l.size[mha::kK] = static_cast<std::int32_t>(l.head_size(mha::kQ));
  }
  if (random.chance(0.3)) l.proj[mha::kO] = l.size[mha::kQ];
  l.scale = 1 / std::sqrt(static_cast<double>(l.head_size(mha::kQ)));
  const std::int32_t longest = unit == 8 ? 40 : 8;
  const std::int32_t time_q = draw(1, longest);
  const std::int32_t time_kv = draw(1, longest);
  const std::int32_t batch = draw(1, 3);
  const std::int32_t beam = random.chance(0.6) ? 1 : draw(2, 3);
  const std::int32_t beam_kv = l.one_to_one != 0 ? beam : 1;
  p.q = {time_q, batch, beam, l.size[mha::kQ]};
  p.k = {time_kv, batch, beam_kv, l.size[mha::kK]};
  p.v = {time_kv, batch, beam_kv, l.size[mha::kV]};
  p.o = {time_q, batch, beam, static_cast<std::int32_t>(l.out_size())};
  for (Sequences* s : {&p.q, &p.k, &p.v, &p.o}) shuffle_axes(random, s);
  l.max_time_q = time_q + draw(0, 2);
  l.max_time_kv = time_kv + draw(0, 2);
  l.max_batch = batch + draw(0, 1);
  l.max_beam = beam + draw(0, 1);
  p.training = random.chance(0.7) ? 1 : 0;
  p.has_residual = l.out_size() == l.size[mha::kQ] ? draw(0, 1) : 0;
  p.has_fill = draw(0, 1);
  p.add = draw(0, 1);
  if (p.training == 0 && random.chance(0.5)) p.current = draw(0, time_q - 1);
  if (p.training != 0 && random.chance(0.3)) l.attn_dropout = 0.25F;
  if (p.training != 0 && random.chance(0.3)) l.post_dropout = 0.5F;
  return p;
}

// --- the definition --------------------------------------------------------------------------------------------------

// A head's vector: the projection of x, or x itself.
std::vector<double> head_vector(const Problem& p, const Given& given, int part, std::int64_t head, const double* x) {
  const Layer& l = p.layer;
  const std::int64_t size = l.size[part];
  const std::int64_t proj = l.proj[part];
  if (proj == 0) return {x, x + size};
  const std::vector<double>& w = given.weights[static_cast<std::size_t>(part)];
  const std::vector<double>& bias = given.weights[static_cast<std::size_t>(part) + 4];
  std::vector<double> y;
  for (std::int64_t i = head * proj; i < (head + 1) * proj; ++i) {
    double sum = bias.empty() ? 0 : bias[static_cast<std::size_t>(i)];
    for (std::int64_t j = 0; j < size; ++j) sum += w[static_cast<std::size_t>(i * size + j)] * x[j];
    y.push_back(sum);
  }
  return y;
}

// The vectors of all heads of keys or values, by row and head.
using HeadVectors = std::vector<std::vector<double>>;
HeadVectors head_vectors(const Problem& p, const Given& given, int part, const std::vector<double>& values) {
  HeadVectors vectors;
  const auto size = static_cast<std::size_t>(p.layer.size[part]);
  for (std::size_t row = 0; row < values.size() / size; ++row) {
    for (std::int64_t h = 0; h < p.layer.heads; ++h) {
      vectors.push_back(head_vector(p, given, part, h, &values[row * size]));
    }
  }
  return vectors;
}

// One row of out without dropout.
std::vector<double> naive_row(const Problem& p, const Given& given, const HeadVectors& all_k, const HeadVectors& all_v,
                              std::int64_t sequence, std::int64_t t) {
  const Layer& l = p.layer;
  const std::int64_t keys = l.one_to_one != 0 ? sequence : sequence / p.q.beam;
  const int first = std::max(given.first[static_cast<std::size_t>(t)], 0);
  const int end = std::min(given.end[static_cast<std::size_t>(t)], given.length_kv[static_cast<std::size_t>(keys)]);
  std::vector<double> heads;
  for (std::int64_t h = 0; h < l.heads; ++h) {
    const auto q =
        head_vector(p, given, mha::kQ, h, &given.q[static_cast<std::size_t>((sequence * p.q.time + t) * p.q.size)]);
    std::vector<double> h_sum(static_cast<std::size_t>(l.head_size(mha::kV)));
    double total = 0;
    for (int pass = 0; pass < 2; ++pass) {  // the denominator, then the values
      for (int c = first; c < end; ++c) {
        const auto row = static_cast<std::size_t>((keys * p.k.time + c) * l.heads + h);
        const std::vector<double>& k = all_k[row];
        double score = 0;
        for (std::size_t i = 0; i < q.size(); ++i) score += l.scale * q[i] * k[i];
        if (pass == 0) {
          total += std::exp(score);
          continue;
        }
        const std::vector<double>& v = all_v[row];
        for (std::size_t i = 0; i < v.size(); ++i) h_sum[i] += std::exp(score) / total * v[i];
      }
    }
    heads.insert(heads.end(), h_sum.begin(), h_sum.end());
  }
  std::vector<double> out = heads;
  if (l.proj[mha::kO] > 0) {
    const std::vector<double>& w = given.weights[mha::kO];
    const std::vector<double>& bias = given.weights[mha::kO + 4];
    const auto size = static_cast<std::size_t>(l.head_size(mha::kV));
    const auto proj = static_cast<std::size_t>(l.proj[mha::kO]);
    out.assign(proj, 0);
    for (std::size_t o = 0; o < proj; ++o) {
      if (!bias.empty()) out[o] = bias[o];
      for (std::size_t i = 0; i < heads.size(); ++i) out[o] += w[(i / size * proj + o) * size + i % size] * heads[i];
    }
  }
  if (p.has_residual != 0) {
    for (std::size_t o = 0; o < out.size(); ++o) {
      out[o] += given.residual[static_cast<std::size_t>(sequence * p.q.time + t) * out.size() + o];
    }
  }
  return out;
}

// NaN where nothing may be written.
std::vector<double> naive_out(const Problem& p, const Given& given) {
  const HeadVectors k = head_vectors(p, given, mha::kK, given.k);
  const HeadVectors v = head_vectors(p, given, mha::kV, given.v);
  std::vector<double> out;
  for (std::int64_t row = 0; row < p.q.rows(); ++row) {
    const std::int64_t t = row % p.q.time;
    const bool wanted = p.current < 0 || t == p.current;
    const bool inside = t < given.length_q[static_cast<std::size_t>(row / p.q.time)];
    std::vector<double> values(static_cast<std::size_t>(p.o.size), !wanted ? kNaN : p.has_fill != 0 ? Call::kFill : 0);
    if (wanted && inside) values = naive_row(p, given, k, v, row / p.q.time, t);
    out.insert(out.end(), values.begin(), values.end());
  }
  return out;
}

// --- judgement -------------------------------------------------------------------------------------------------------

// By the norm: as docs/numerics.md allows large problems, and what intermediate results rounded to 16 bits add: a
// gradient of weights comes through ten of them (projections, heads, their gradients), whose errors a softmax may
// double; the same multiple of the unit roundoff for both formats. Gradients that cancel are held against a tenth of
// the data's own size.
double bound_of(gpudnnDataType_t type) {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return 1e-11;
    case GPUDNN_DATA_FLOAT:
      return 2e-5;
    default:
      return 20 * unit_roundoff(type);
  }
}

std::string compare(const char* name, const std::vector<double>& is, const std::vector<double>& expected, double bound,
                    double terms = 1) {
  if (is.size() != expected.size()) return std::string(name) + " has another size";
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < is.size(); ++i) {
    if (std::isnan(is[i]) != std::isnan(expected[i])) {
      return std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(is[i]) + ", expected " +
             std::to_string(expected[i]);
    }
    if (std::isnan(is[i])) continue;
    difference += (is[i] - expected[i]) * (is[i] - expected[i]);
    size += expected[i] * expected[i];
  }
  const double least = 0.1 * std::sqrt(static_cast<double>(is.size()) * terms);
  const double error = std::sqrt(difference) / std::max(std::sqrt(size), least);
  if (is.empty() || error <= bound) return "";
  return std::string(name) + " is off by " + std::to_string(error / bound) + " of the bound; ";
}

// A bias of the keys moves all scores of a row alike, so its gradient is 0 but for the rounding of its terms, one for
// each key and then some: it is held against their number.
std::string compare(const Problem& p, const Results& is, const Results& expected, double bound) {
  std::string wrong = compare("out", is.out, expected.out, bound);
  wrong += compare("dq", is.dq, expected.dq, bound) + compare("dk", is.dk, expected.dk, bound) +
           compare("dv", is.dv, expected.dv, bound);
  for (std::size_t i = 0; i < kKinds; ++i) {
    const double terms = i == GPUDNN_MH_ATTN_K_BIASES ? 10 * static_cast<double>(p.rows_kv()) : 1;
    wrong += compare("a gradient of weights", is.dw[i], expected.dw[i], bound, terms);
  }
  return wrong;
}

std::string check_against_host(const Problem& problem, std::uint64_t seed) {
  const Given given = make_given(problem, seed);
  const Results host = run_call(Backend::host(), problem, given);
  if (host.status != GPUDNN_STATUS_SUCCESS) return "the host refuses: " + host.text;
  std::string wrong = host.damage;
  const double bound = bound_of(problem.layer.type);
  if (problem.layer.attn_dropout == 0 && problem.layer.post_dropout == 0) {
    wrong += compare("the host's out", host.out, naive_out(problem, given), bound);
  }
  if (!Backend::at_hand().is_cuda()) return wrong;
  const Results device = run_call(Backend::at_hand(), problem, given);
  if (device.status != GPUDNN_STATUS_SUCCESS) return wrong + "the device refuses: " + device.text;
  return wrong + device.damage + compare(problem, device, host, bound);
}

Problem problem_of(const std::string& line) {
  std::string why;
  const auto problem = mha::from_text(line, &why);
  if (!problem) throw std::runtime_error(line + ": " + why);
  return *problem;
}

TEST(MultiHeadAttn, RandomProblemsAgreeWithTheDefinition) {
  const auto make = [](Random& random) {
    const Problem problem = random_problem(random);
    return Seeded<Problem>{problem, random.bits()};
  };
  sweep(120, make, [](const Seeded<Problem>& c, int) { return check_against_host(c.problem, c.seed); });
}

TEST(MultiHeadAttn, HandPickedProblems) {
  for (const std::string& line : case_lines("multi_head_attn/edges.txt")) {
    const Problem problem = problem_of(line);
    EXPECT_EQ(to_text(problem), line);
    for (std::uint64_t seed = 1; seed < 4; ++seed) EXPECT_EQ(check_against_host(problem, seed), "") << line;
  }
}

// Two keys with scores 0 and log 3 share 1 : 3; values 4 and 8 give 7, the projection -2 x + 1 gives -13.
TEST(MultiHeadAttn, ByHand) {
  const Problem problem = problem_of("mha fwd f64 h1q1k1v1 p0x0x0x1 t1s2n1b1 biases scale=0.5 math=default");
  Given given;
  given.q = {2};
  given.k = {0, std::log(3)};
  given.v = {4, 8};
  given.residual = {0};
  given.dout = {0};
  given.weights[GPUDNN_MH_ATTN_O_WEIGHTS] = {-2};
  given.weights[GPUDNN_MH_ATTN_O_BIASES] = {1};
  given.length_q = {1};
  given.length_kv = {2};
  given.first = {0};
  given.end = {2};
  const Results result = run_call(Backend::at_hand(), problem, given);
  ASSERT_EQ(result.status, GPUDNN_STATUS_SUCCESS) << result.text;
  EXPECT_NEAR(result.out[0], -13, 1e-13);
}

// Every gradient is the slope of sum(out dout), with the masks of dropout held.
void check_slopes(const std::string& line) {
  const Problem problem = problem_of(line);
  const Given given = make_given(problem, 5);
  const Results exact = run_call(Backend::at_hand(), problem, given);
  ASSERT_EQ(exact.status, GPUDNN_STATUS_SUCCESS) << exact.text;
  const auto loss = [&](const Given& changed) {
    const Results result = run_call(Backend::at_hand(), problem, changed);
    double sum = 0;
    for (std::size_t i = 0; i < result.out.size(); ++i) {
      if (!std::isnan(given.dout[i])) sum += result.out[i] * given.dout[i];
    }
    return sum;
  };
  constexpr double kStep = 1e-5;
  const auto check = [&](const std::vector<double>& gradient, auto values_of, const char* name) {
    for (std::size_t i = 0; i < gradient.size(); i += 1 + gradient.size() / 12) {
      Given up = given;
      Given down = given;
      values_of(up)[i] += kStep;
      values_of(down)[i] -= kStep;
      // Third derivatives below 100 leave 100 kStep^2 / 6; a sum below 1000 is known to 1e-12, over 2 kStep.
      EXPECT_NEAR(gradient[i], (loss(up) - loss(down)) / (2 * kStep), 1e-6) << name << ' ' << i;
    }
  };
  check(
      exact.dq, [](Given& g) -> std::vector<double>& { return g.q; }, "dq");
  check(
      exact.dk, [](Given& g) -> std::vector<double>& { return g.k; }, "dk");
  check(
      exact.dv, [](Given& g) -> std::vector<double>& { return g.v; }, "dv");
  for (std::size_t i = 0; i < kKinds; ++i) {
    check(
        exact.dw[i], [i](Given& g) -> std::vector<double>& { return g.weights[i]; }, "dw");
  }
}
TEST(MultiHeadAttn, GradientsAreSlopes) {
  check_slopes("mha wgrad f64 h2q4k5v3 p3x3x2x4 t3s4n2b1 biases train residual scale=0.5 math=default");
  check_slopes("mha wgrad f64 h2q4k4v3 p0x0x0x4 t3s4n2b2 biases train scale=0.5 math=default");
  check_slopes("mha wgrad f64 h2q3k3v3 p3x0x2x0 t3s4n1b2 one_to_one train adrop=0.25 pdrop=0.25 scale=1 math=default");
}

// Step after step of queries gives what all at once do.
TEST(MultiHeadAttn, OneStepAtATimeIsTheWholePass) {
  Problem problem = problem_of("mha fwd f32 h2q8k8v8 p4x4x4x8 t6s6n2b2 biases residual scale=0.5 math=fma");
  Given given = make_given(problem, 3);
  for (int t = 0; t < 6; ++t)
    given.first[static_cast<std::size_t>(t)] = 0, given.end[static_cast<std::size_t>(t)] = t + 1;
  const Results whole = run_call(Backend::at_hand(), problem, given);
  ASSERT_EQ(whole.status, GPUDNN_STATUS_SUCCESS) << whole.text;
  std::vector<double> steps(whole.out.size(), kNaN);
  for (problem.current = 0; problem.current < 6; ++problem.current) {
    const Results one = run_call(Backend::at_hand(), problem, given);
    ASSERT_EQ(one.status, GPUDNN_STATUS_SUCCESS) << one.text;
    for (std::size_t i = 0; i < one.out.size(); ++i) {
      if (!std::isnan(one.out[i])) steps[i] = one.out[i];
    }
  }
  EXPECT_EQ(compare("the steps", steps, whole.out, 2e-6), "");
}

TEST(MultiHeadAttn, TheSameBitsEachTime) {
  for (const std::string& line : case_lines("multi_head_attn/edges.txt")) {
    const Problem problem = problem_of(line);
    const Given given = make_given(problem, 9);
    const Results one = run_call(Backend::at_hand(), problem, given);
    const Results two = run_call(Backend::at_hand(), problem, given);
    EXPECT_EQ(compare(problem, two, one, 0), "") << line;
  }
}

TEST(MultiHeadAttn, TheLineOfTheDocumentsIsReadAndPrinted) {
  const std::string line =
      "mha wgrad f16 h8q512k512v512 p64x64x64x512 t128s128n32b1 biases train scale=0.125 math=tensor";
  EXPECT_EQ(to_text(problem_of(line)), line);
}

TEST(MultiHeadAttn, WhatMakesNoSenseIsRefused) {
  const AttnDescriptor attn;
  const auto set = [&](unsigned mode, int heads, double scale, int q_proj, int k_proj, gpudnnDataType_t type,
                       gpudnnDataType_t compute) {
    return gpudnnSetAttnDescriptor(attn, mode, heads, scale, type, compute, GPUDNN_DEFAULT_MATH, nullptr, nullptr, 8, 6,
                                   4, q_proj, k_proj, 0, 0, 4, 4, 2, 1);
  };
  const auto f32 = GPUDNN_DATA_FLOAT;
  EXPECT_EQ(set(0, 2, 1, 3, 3, f32, f32), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(set(4, 2, 1, 3, 3, f32, f32), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(0, 0, 1, 3, 3, f32, f32), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(0, 2, -1, 3, 3, f32, f32), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(0, 2, 1, 3, 0, f32, f32), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(0, 2, 1, 0, 0, f32, f32), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(set(0, 2, 1, 3, 3, f32, GPUDNN_DATA_DOUBLE), GPUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(set(0, 2, 1, 3, 3, GPUDNN_DATA_INT8, f32), GPUDNN_STATUS_NOT_SUPPORTED);
  Problem problem = problem_of("mha fwd f32 h2q8k8v8 p4x4x4x8 t6s6n2b1 train scale=0.5 math=fma");
  problem.current = 2;
  const Results result = run_call(Backend::at_hand(), problem, make_given(problem, 1));
  EXPECT_EQ(result.status, GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(result.text.find("currIdx"), std::string::npos) << result.text;
}

}  // namespace
}  // namespace gpudnn::test
