// One small call each of recurrent networks and multi-head attention, for every_operation: forward alone, and training
// with its gradients.
// SPDX-License-Identifier: Apache-2.0
#include "runtime/sequence_operations.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

#include "support/number.hpp"
#include "support/random.hpp"
#include "support/rnn.hpp"

namespace gpudnn::test {
namespace {

using Shared = std::shared_ptr<DeviceTensor>;
using Numbers = std::vector<double>;

TensorGeometry row_of(gpudnnDataType_t type, std::size_t count) {
  const auto length = static_cast<std::int64_t>(count);
  return packed_tensor(type, GPUDNN_TENSOR_NCHW, 1, &length);
}
Shared input(const Backend& backend, gpudnnDataType_t type, const Numbers& values) {
  return std::make_shared<DeviceTensor>(backend, row_of(type, values.size()), &values);
}
Shared output(const Backend& backend, gpudnnDataType_t type, std::size_t count) {
  return std::make_shared<DeviceTensor>(backend, row_of(type, count), nullptr);
}

// --- recurrent networks ----------------------------------------------------------------------------------------------

using RnnDescriptor = Descriptor<gpudnnRNNDescriptor_t, gpudnnCreateRNNDescriptor, gpudnnDestroyRNNDescriptor>;
using RnnDataDescriptor =
    Descriptor<gpudnnRNNDataDescriptor_t, gpudnnCreateRNNDataDescriptor, gpudnnDestroyRNNDataDescriptor>;

// A network without first states, whose sequences have all steps, so that the oracle's layout is the caller's.
struct Recurrent {
  rnn::Problem problem;
  RnnDescriptor rnn;
  RnnDataDescriptor x_desc, y_desc;
  TensorDescriptor h_desc, c_desc;
  RnnValues values;
  RnnExpected expected;
  std::size_t weight_bytes = 0;

  explicit Recurrent(const char* line);
  [[nodiscard]] gpudnnDataType_t type() const { return problem.net.type; }
  [[nodiscard]] Expected within_tolerance(const Numbers& exact) const;
};

Recurrent::Recurrent(const char* line) {
  std::string why;
  const auto read = rnn::from_text(line, &why);
  if (!read) throw std::runtime_error(std::string(line) + ": " + why);
  problem = *read;
  const rnn::Network& net = problem.net;
  const rnn::Sequences& s = problem.sequences;
  Random random(11);
  const auto numbers = [&](std::size_t count, double scale) {
    Numbers made(count);
    for (double& value : made) value = round_to_type(scale * (2 * random.uniform() - 1), net.type);
    return made;
  };
  const auto cells = static_cast<std::size_t>(s.capacity());
  const auto weights = static_cast<std::size_t>(weight_count(net));
  values.x = numbers(cells * static_cast<std::size_t>(net.input), 1);
  values.dy = numbers(cells * static_cast<std::size_t>(net.output_width()), 1);
  values.weights = numbers(weights, 0.6 / std::sqrt(std::max(net.hidden, net.input)));
  weight_bytes = weights * element_size(net.type);
  expected = naive_rnn(problem, values);
  GPUDNN_TEST_REQUIRE(gpudnnSetRNNDescriptor_v8(rnn, GPUDNN_RNN_ALGO_STANDARD, net.cell, net.bias,
                                                net.bidirectional ? GPUDNN_BIDIRECTIONAL : GPUDNN_UNIDIRECTIONAL,
                                                GPUDNN_LINEAR_INPUT, net.type, compute_type(net.type), net.math,
                                                net.input, net.hidden, net.projected, net.layers, nullptr,
                                                GPUDNN_RNN_PADDED_IO_ENABLED));
  const auto describe = [&](gpudnnRNNDataDescriptor_t desc, std::int64_t width) {
    GPUDNN_TEST_REQUIRE(gpudnnSetRNNDataDescriptor(desc, net.type, s.layout, s.steps, s.batch, static_cast<int>(width),
                                                   s.lengths.data(), nullptr));
  };
  describe(x_desc, net.input);
  describe(y_desc, net.output_width());
  const auto describe_state = [&](gpudnnTensorDescriptor_t desc, int width) {
    const int dims[] = {net.pseudo_layers(), s.batch, width};
    const int strides[] = {dims[1] * dims[2], dims[2], 1};
    GPUDNN_TEST_REQUIRE(gpudnnSetTensorNdDescriptor(desc, net.type, 3, dims, strides));
  };
  describe_state(h_desc, net.projected);
  describe_state(c_desc, net.hidden);
}

Expected Recurrent::within_tolerance(const Numbers& exact) const {
  double scale = 0.05;
  for (const double value : exact) scale = std::max(scale, std::abs(value));
  return {exact, Numbers(exact.size(), rnn_tolerance(problem) * scale)};
}

PreparedCall recurrent_call(const Backend& backend, const char* line, bool training) {
  const auto net = std::make_shared<Recurrent>(line);
  const gpudnnDataType_t type = net->type();
  const gpudnnForwardMode_t mode = training ? GPUDNN_FWD_MODE_TRAINING : GPUDNN_FWD_MODE_INFERENCE;
  std::size_t work = 0;
  std::size_t kept = 0;
  GPUDNN_TEST_REQUIRE(gpudnnGetRNNTempSpaceSizes(backend.handle(), net->rnn, mode, net->x_desc, &work, &kept));
  const auto workspace = std::make_shared<GuardedBuffer>(backend, work);
  const auto reserve = std::make_shared<GuardedBuffer>(backend, kept);
  const Shared x = input(backend, type, net->values.x);
  const Shared weights = input(backend, type, net->values.weights);
  const Shared y = output(backend, type, net->expected.y.size());
  const auto forward = [=](gpudnnHandle_t h) {
    return gpudnnRNNForward(h, net->rnn, mode, nullptr, net->x_desc, x->data(), net->y_desc, y->data(), net->h_desc,
                            nullptr, nullptr, net->c_desc, nullptr, nullptr, net->weight_bytes, weights->data(), work,
                            workspace->data(), kept, reserve->data());
  };
  if (!training) return {std::string(line) + ", inference", forward, y, net->within_tolerance(net->expected.y)};
  const Shared dy = input(backend, type, net->values.dy);
  const Shared dx = output(backend, type, net->expected.dx.size());
  const Shared dweights = output(backend, type, net->expected.dweights.size());
  return {line,
          [=](gpudnnHandle_t h) {
            gpudnnStatus_t status = forward(h);
            if (status != GPUDNN_STATUS_SUCCESS) return status;
            status = gpudnnRNNBackwardData_v8(h, net->rnn, nullptr, net->y_desc, y->data(), dy->data(), net->x_desc,
                                              dx->data(), net->h_desc, nullptr, nullptr, nullptr, net->c_desc, nullptr,
                                              nullptr, nullptr, net->weight_bytes, weights->data(), work,
                                              workspace->data(), kept, reserve->data());
            if (status != GPUDNN_STATUS_SUCCESS) return status;
            return gpudnnRNNBackwardWeights_v8(h, net->rnn, GPUDNN_WGRAD_MODE_SET, nullptr, net->x_desc, x->data(),
                                               net->h_desc, nullptr, net->y_desc, y->data(), net->weight_bytes,
                                               dweights->data(), work, workspace->data(), kept, reserve->data());
          },
          dweights, net->within_tolerance(net->expected.dweights)};
}

// --- multi-head attention --------------------------------------------------------------------------------------------

using SeqDataDescriptor =
    Descriptor<gpudnnSeqDataDescriptor_t, gpudnnCreateSeqDataDescriptor, gpudnnDestroySeqDataDescriptor>;
using AttnDescriptor = Descriptor<gpudnnAttnDescriptor_t, gpudnnCreateAttnDescriptor, gpudnnDestroyAttnDescriptor>;

// Queries of zeros, so that each key gets a quarter of the attention; integers elsewhere, so that all is exact.
struct Attention {
  static constexpr int kHeads = 2, kSize = 4, kProjected = 2, kValue = 3, kOut = 5;
  static constexpr int kQueries = 3, kKeys = 4, kBatch = 2;
  AttnDescriptor attn;
  SeqDataDescriptor q_desc, kv_desc, o_desc;
  std::size_t weight_bytes = 0, work_bytes = 0, reserve_bytes = 0;
  Numbers q, kv, dout;                         // [time, batch, size]
  Numbers image;                               // of the weights' memory
  Numbers value_weights, output_weights;       // [head, to, from]
  std::vector<int> query_lengths, kv_lengths;  // of the sequences
  std::vector<int> first, end;                 // windows of the queries

  Attention(const Backend& backend, bool training);
  [[nodiscard]] Numbers out() const;
  [[nodiscard]] Numbers value_gradient() const;

 private:
  void place_weights(const Backend& backend, gpudnnMultiHeadAttnWeightKind_t kind, const Numbers& from);
};

Attention::Attention(const Backend& backend, bool training)
    : query_lengths(kBatch, kQueries), kv_lengths(kBatch, kKeys), first(kQueries, 0), end(kQueries, kKeys) {
  GPUDNN_TEST_REQUIRE(gpudnnSetAttnDescriptor(attn, GPUDNN_ATTN_QUERYMAP_ALL_TO_ONE, kHeads, 0.5, GPUDNN_DATA_FLOAT,
                                              GPUDNN_DATA_FLOAT, GPUDNN_DEFAULT_MATH, nullptr, nullptr, kSize, kSize,
                                              kSize, kProjected, kProjected, kValue, kOut, kQueries, kKeys, kBatch, 1));
  const auto describe = [](gpudnnSeqDataDescriptor_t desc, int steps, int size, const std::vector<int>& lengths) {
    const int dims[] = {steps, kBatch, 1, size};
    const gpudnnSeqDataAxis_t axes[] = {GPUDNN_SEQDATA_TIME_DIM, GPUDNN_SEQDATA_BATCH_DIM, GPUDNN_SEQDATA_BEAM_DIM,
                                        GPUDNN_SEQDATA_VECT_DIM};
    GPUDNN_TEST_REQUIRE(
        gpudnnSetSeqDataDescriptor(desc, GPUDNN_DATA_FLOAT, 4, dims, axes, lengths.size(), lengths.data(), nullptr));
  };
  describe(q_desc, kQueries, kSize, query_lengths);
  describe(kv_desc, kKeys, kSize, kv_lengths);
  describe(o_desc, kQueries, kOut, query_lengths);
  GPUDNN_TEST_REQUIRE(gpudnnGetMultiHeadAttnBuffers(backend.handle(), attn, &weight_bytes, &work_bytes,
                                                    training ? &reserve_bytes : nullptr));
  Random random(12);
  const auto integers = [&](int count) {
    Numbers made(static_cast<std::size_t>(count));
    for (double& value : made) value = static_cast<double>(random.between(-2, 2));
    return made;
  };
  q.resize(std::size_t{kQueries} * kBatch * kSize);
  kv = integers(kKeys * kBatch * kSize);
  dout = integers(kQueries * kBatch * kOut);
  value_weights = integers(kHeads * kValue * kSize);
  output_weights = integers(kHeads * kOut * kValue);
  image.resize(weight_bytes / sizeof(float));
  place_weights(backend, GPUDNN_MH_ATTN_Q_WEIGHTS, integers(kHeads * kProjected * kSize));
  place_weights(backend, GPUDNN_MH_ATTN_K_WEIGHTS, integers(kHeads * kProjected * kSize));
  place_weights(backend, GPUDNN_MH_ATTN_V_WEIGHTS, value_weights);
  place_weights(backend, GPUDNN_MH_ATTN_O_WEIGHTS, output_weights);
}

void Attention::place_weights(const Backend& backend, gpudnnMultiHeadAttnWeightKind_t kind, const Numbers& from) {
  const TensorDescriptor desc;
  void* address = nullptr;  // from null: the offset
  GPUDNN_TEST_REQUIRE(
      gpudnnGetMultiHeadAttnWeights(backend.handle(), attn, kind, weight_bytes, nullptr, desc, &address));
  gpudnnDataType_t type = GPUDNN_DATA_FLOAT;
  int rank = 0;
  int dims[3] = {};
  int strides[3] = {};
  GPUDNN_TEST_REQUIRE(gpudnnGetTensorNdDescriptor(desc, 3, &type, &rank, dims, strides));
  std::size_t next = 0;
  for (int h = 0; h < dims[0]; ++h) {
    for (int i = 0; i < dims[1]; ++i) {
      for (int j = 0; j < dims[2]; ++j) {
        const int place = h * strides[0] + i * strides[1] + j * strides[2];
        image[reinterpret_cast<std::uintptr_t>(address) / sizeof(float) + static_cast<std::size_t>(place)] =
            from[next++];
      }
    }
  }
}

// out = sum over heads of O_h V_h (mean of the values).
Numbers Attention::out() const {
  Numbers sums(std::size_t{kQueries} * kBatch * kOut);
  for (std::size_t at = 0; at < sums.size(); ++at) {
    const std::size_t o = at % kOut;
    const std::size_t n = at / kOut % kBatch;
    for (std::size_t h = 0; h < kHeads; ++h) {
      for (std::size_t i = 0; i < kValue; ++i) {
        for (std::size_t j = 0; j < kSize; ++j) {
          double sum = 0;
          for (std::size_t c = 0; c < kKeys; ++c) sum += kv[(c * kBatch + n) * kSize + j];
          sums[at] +=
              output_weights[(h * kOut + o) * kValue + i] * value_weights[(h * kValue + i) * kSize + j] * sum / kKeys;
        }
      }
    }
  }
  return sums;
}

Numbers Attention::value_gradient() const {
  Numbers sums(kv.size());
  for (std::size_t at = 0; at < sums.size(); ++at) {
    const std::size_t j = at % kSize;
    const std::size_t n = at / kSize % kBatch;
    for (std::size_t h = 0; h < kHeads; ++h) {
      for (std::size_t i = 0; i < kValue; ++i) {
        for (std::size_t o = 0; o < kOut; ++o) {
          double sum = 0;
          for (std::size_t t = 0; t < kQueries; ++t) sum += dout[(t * kBatch + n) * kOut + o];
          sums[at] +=
              output_weights[(h * kOut + o) * kValue + i] * value_weights[(h * kValue + i) * kSize + j] * sum / kKeys;
        }
      }
    }
  }
  return sums;
}

Expected exact(const Numbers& values) { return {values, Numbers(values.size())}; }

PreparedCall attention_call(const Backend& backend, bool training) {
  const auto a = std::make_shared<Attention>(backend, training);
  const auto upload = [&](const std::vector<int>& values) {
    const auto buffer = std::make_shared<GuardedBuffer>(backend, values.size() * sizeof(int));
    buffer->write(values.data(), buffer->bytes());
    return buffer;
  };
  const auto query_lengths = upload(a->query_lengths);
  const auto kv_lengths = upload(a->kv_lengths);
  const Shared q = input(backend, GPUDNN_DATA_FLOAT, a->q);
  const Shared k = input(backend, GPUDNN_DATA_FLOAT, a->kv);
  const Shared weights = input(backend, GPUDNN_DATA_FLOAT, a->image);
  const Shared out = output(backend, GPUDNN_DATA_FLOAT, a->dout.size());
  const auto workspace = std::make_shared<GuardedBuffer>(backend, a->work_bytes);
  const auto reserve = std::make_shared<GuardedBuffer>(backend, a->reserve_bytes);
  const auto forward = [=](gpudnnHandle_t h) {
    return gpudnnMultiHeadAttnForward(
        h, a->attn, -1, a->first.data(), a->end.data(), static_cast<const int*>(query_lengths->data()),
        static_cast<const int*>(kv_lengths->data()), a->q_desc, q->data(), nullptr, a->kv_desc, k->data(), a->kv_desc,
        k->data(), a->o_desc, out->data(), a->weight_bytes, weights->data(), a->work_bytes, workspace->data(),
        a->reserve_bytes, reserve->data());
  };
  if (!training) return {"multi-head attention, inference", forward, out, exact(a->out())};
  const Shared dout = input(backend, GPUDNN_DATA_FLOAT, a->dout);
  const Shared dq = output(backend, GPUDNN_DATA_FLOAT, a->q.size());
  const Shared dk = output(backend, GPUDNN_DATA_FLOAT, a->kv.size());
  const Shared dv = output(backend, GPUDNN_DATA_FLOAT, a->kv.size());
  const Shared dweights = output(backend, GPUDNN_DATA_FLOAT, a->image.size());
  return {"multi-head attention, training",
          [=](gpudnnHandle_t h) {
            gpudnnStatus_t status = forward(h);
            if (status != GPUDNN_STATUS_SUCCESS) return status;
            status = gpudnnMultiHeadAttnBackwardData(
                h, a->attn, a->first.data(), a->end.data(), static_cast<const int*>(query_lengths->data()),
                static_cast<const int*>(kv_lengths->data()), a->o_desc, dout->data(), a->q_desc, dq->data(), q->data(),
                a->kv_desc, dk->data(), k->data(), a->kv_desc, dv->data(), k->data(), a->weight_bytes, weights->data(),
                a->work_bytes, workspace->data(), a->reserve_bytes, reserve->data());
            if (status != GPUDNN_STATUS_SUCCESS) return status;
            return gpudnnMultiHeadAttnBackwardWeights(
                h, a->attn, GPUDNN_WGRAD_MODE_SET, a->q_desc, q->data(), a->kv_desc, k->data(), a->kv_desc, k->data(),
                a->o_desc, dout->data(), a->weight_bytes, weights->data(), dweights->data(), a->work_bytes,
                workspace->data(), a->reserve_bytes, reserve->data());
          },
          dv, exact(a->value_gradient())};
}

}  // namespace

void add_sequence_operations(const Backend& backend, std::vector<PreparedCall>* calls) {
  for (const bool training : {false, true}) {
    for (const char* line : {"rnn train f32 gru l2 bi t4b5 in8 h16 p16 bias=double seq",
                             "rnn train f16 lstm l1 uni t5b16 in64 h64 p64 bias=double seq"}) {
      calls->push_back(recurrent_call(backend, line, training));
    }
    calls->push_back(attention_call(backend, training));
  }
}

}  // namespace gpudnn::test
