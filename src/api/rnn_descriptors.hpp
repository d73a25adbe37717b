// What stands behind the descriptors of recurrent networks and of their sequences.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/descriptors.hpp"
#include "ops/rnn/problem.hpp"

namespace gpudnn {
inline constexpr Kind kRnnKind{0x6770646e726e6e20};
inline constexpr Kind kRnnDataKind{0x6770646e726e6e64};
}  // namespace gpudnn

struct gpudnnRNNStruct : gpudnn::Object {
  gpudnnRNNStruct() : Object{gpudnn::kRnnKind} {}
  bool set = false;
  gpudnn::rnn::Network net;  // dropout excepted, which the dropout descriptor tells at each call
  gpudnnRNNAlgo_t algo = GPUDNN_RNN_ALGO_STANDARD;
  gpudnnDataType_t math_precision = GPUDNN_DATA_FLOAT;
  gpudnnDropoutDescriptor_t dropout = nullptr;
  uint32_t flags = 0;
};

struct gpudnnRNNDataStruct : gpudnn::Object {
  gpudnnRNNDataStruct() : Object{gpudnn::kRnnDataKind} {}
  bool set = false;
  gpudnnDataType_t type = GPUDNN_DATA_FLOAT;
  int vector = 0;
  gpudnn::rnn::Sequences sequences;
  bool fills = false;
  double fill = 0;
};

namespace gpudnn::rnn {

// Live, of the kind, and set.
[[nodiscard]] Status check_network(gpudnnRNNDescriptor_t rnnDesc);
[[nodiscard]] Status check_data(gpudnnRNNDataDescriptor_t desc, const char* argument);

}  // namespace gpudnn::rnn
