// The calls that PyTorch 2.11 makes for an LSTM of two layers before RNNForward: descriptors of the network, of its
// sequences and of its states, the size of the weight space, the address of each matrix and bias with descriptors of
// their own, which are read, and the sizes of workspace and reserve space. The least time of all rounds counts, since
// what else runs on the machine only adds.
// SPDX-License-Identifier: Apache-2.0
#include "module_cost.hpp"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <vector>

namespace gpudnn::bench {
namespace {

constexpr int kRounds = 200;
constexpr int kModules = 50;  // of a round
constexpr int kLayers = 2;
constexpr int kMatrices = 8;  // of a layer of an LSTM
constexpr int kUnits = 512;
constexpr int kSteps = 100;
constexpr int kBatch = 64;

class Module {
 public:
  explicit Module(const Library& library) : api_(library.api), handle_(library.handle), lengths_(kBatch, kSteps) {}

  // All calls for one module. False: one failed.
  bool call() {
    good_ = true;
    gpudnnRNNDescriptor_t rnn = nullptr;
    gpudnnDropoutDescriptor_t dropout = nullptr;
    gpudnnRNNDataDescriptor_t data[2] = {};
    gpudnnTensorDescriptor_t states[4] = {};
    note(api_.CreateDropoutDescriptor(&dropout));
    note(api_.SetDropoutDescriptor(dropout, handle_, 0, nullptr, 0, 0));
    note(api_.CreateRNNDescriptor(&rnn));
    note(api_.SetRNNDescriptor_v8(rnn, GPUDNN_RNN_ALGO_STANDARD, GPUDNN_LSTM, GPUDNN_RNN_DOUBLE_BIAS,
                                  GPUDNN_UNIDIRECTIONAL, GPUDNN_LINEAR_INPUT, GPUDNN_DATA_HALF, GPUDNN_DATA_FLOAT,
                                  GPUDNN_TENSOR_OP_MATH, kUnits, kUnits, kUnits, kLayers, dropout,
                                  GPUDNN_RNN_PADDED_IO_DISABLED));
    for (gpudnnRNNDataDescriptor_t& d : data) {
      note(api_.CreateRNNDataDescriptor(&d));
      note(api_.SetRNNDataDescriptor(d, GPUDNN_DATA_HALF, GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED, kSteps, kBatch,
                                     kUnits, lengths_.data(), nullptr));
    }
    for (gpudnnTensorDescriptor_t& d : states) {
      const int dims[] = {kLayers, kBatch, kUnits, 1, 1};
      const int strides[] = {kBatch * kUnits, kUnits, 1, 1, 1};
      note(api_.CreateTensorDescriptor(&d));
      note(api_.SetTensorNdDescriptor(d, GPUDNN_DATA_HALF, 5, dims, strides));
    }
    std::size_t bytes = 0;
    note(api_.GetRNNWeightSpaceSize(handle_, rnn, &bytes));
    for (int layer = 0; layer < kLayers; ++layer) {
      for (int i = 0; i < 2 * kMatrices; ++i) weight(rnn, layer, bytes, i % kMatrices);  // matrices, then biases
    }
    std::size_t work = 0;
    std::size_t reserve = 0;
    note(api_.GetRNNTempSpaceSizes(handle_, rnn, GPUDNN_FWD_MODE_TRAINING, data[0], &work, &reserve));
    for (const gpudnnTensorDescriptor_t d : states) note(api_.DestroyTensorDescriptor(d));
    for (const gpudnnRNNDataDescriptor_t d : data) note(api_.DestroyRNNDataDescriptor(d));
    note(api_.DestroyRNNDescriptor(rnn));
    note(api_.DestroyDropoutDescriptor(dropout));
    return good_;
  }

 private:
  void note(gpudnnStatus_t status) { good_ = good_ && status == GPUDNN_STATUS_SUCCESS; }
  void weight(gpudnnRNNDescriptor_t rnn, int layer, std::size_t bytes, int id) {
    gpudnnTensorDescriptor_t descriptors[2] = {};
    void* addresses[2] = {};
    for (gpudnnTensorDescriptor_t& d : descriptors) note(api_.CreateTensorDescriptor(&d));
    // Any address: nothing is read there.
    void* const weights = reinterpret_cast<void*>(std::uintptr_t{1} << 20);  // NOLINT
    note(api_.GetRNNWeightParams(handle_, rnn, layer, bytes, weights, id, descriptors[0], &addresses[0], descriptors[1],
                                 &addresses[1]));
    for (const gpudnnTensorDescriptor_t d : descriptors) {
      gpudnnDataType_t type = GPUDNN_DATA_FLOAT;
      int rank = 0;
      int dims[5];
      int strides[5];
      note(api_.GetTensorNdDescriptor(d, 5, &type, &rank, dims, strides));
      note(api_.DestroyTensorDescriptor(d));
    }
  }

  const Api& api_;
  gpudnnHandle_t handle_;
  std::vector<int> lengths_;
  bool good_ = true;
};

}  // namespace

bool print_module_cost(const Library& library) {
  using Clock = std::chrono::steady_clock;
  Module module(library);
  double least = std::numeric_limits<double>::max();
  for (int round = 0; round < kRounds; ++round) {
    const auto begin = Clock::now();
    for (int i = 0; i < kModules; ++i) {
      if (!module.call()) return std::fprintf(stderr, "gpudnn-bench: a call failed\n"), false;
    }
    const std::chrono::duration<double, std::micro> time = Clock::now() - begin;
    least = std::min(least, time.count() / kModules);
  }
  std::printf("%s: the calls before RNNForward for an LSTM of %d layers, as PyTorch makes them: %.2f us\n",
              library.path.c_str(), kLayers, least);
  return true;
}

}  // namespace gpudnn::bench
