// The table that hostile_arguments_test runs through; generate_hostile_calls.py writes its rows.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gpudnn/gpudnn.h>

#include <cstdint>
#include <type_traits>
#include <vector>

// A thunk's result for a function that returns no status.
constexpr int kNoStatus = -1;

// What a good value of a parameter is.
enum class Role {
  handle,
  tensor,               // (2, 4, 8, 8)
  bias_tensor,          // (1, 4, 1, 1)
  filter,               // (4, 4, 3, 3)
  convolution,          // padding 1, stride 1: the output has the input's shape
  pooling,              // window 3, padding 1, stride 1: likewise
  activation,           // ReLU
  op_tensor,            // addition
  dropout,              // probability 0, without states
  spatial_transformer,  // of output (2, 4, 8, 8)
  ctc_loss,             // softmax, label sequences of up to 4
  sequence_tensor,      // (2, 4, 8)
  state_tensor,         // (1, 2, 4): of the recurrent network
  rnn,                  // an LSTM of one layer, 4 inputs and 4 units
  rnn_data,             // 3 steps of 2 sequences of 4
  seq_data,             // two steps of two batches of vectors of 4
  attn,                 // two heads, every projection and bias, of such vectors
  lrn,                  // as created
  reduce_tensor,        // addition
  tensor_transform,     // four dimensions, nothing padded or folded
  fused_const_pack,     // of the inference statistics' last step, as the two below
  fused_variant_pack,
  fused_plan,
  backend_tensor,     // a backend descriptor: a tensor with everything set
  backend_finalized,  // the same, finalized
  backend_plan,
  backend_pack,
  unknown_object,  // of a type that the library does not build
  data,            // a buffer from gpudnnMalloc
  allocation,      // memory from gpudnnMalloc that the call may free
  buffer_size,     // the size of such a buffer
  scalar,          // a host float of 1
  host_output,     // host memory that the call may write
  dims,
  strides,
  filter_dims,
  seq_dims,
  seq_axes,
  ones,
  zeros,
  callback,
  null,  // null is the good value
  integer,
  size,
  real,
  enumeration,
};

// One argument without its type: a thunk's parameter list converts it to what the function wants.
struct Value {
  void* pointer = nullptr;
  std::int64_t number = 0;

  template <class T>
  operator T() const {  // NOLINT(google-explicit-constructor): the conversion is the purpose
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<T>(reinterpret_cast<std::uintptr_t>(pointer));
    } else {
      return static_cast<T>(number);
    }
  }
};

struct HostileParameter {
  const char* name;
  Role role;
  std::int64_t good;   // of integers and enums
  bool null_is_legal;  // the generator's list says why
};

struct HostileRow {
  const char* name;
  int (*call)(const Value* values);  // a gpudnnStatus_t, or kNoStatus
  bool returns_status;
  bool built;  // false: the function must refuse as "not built", whatever its arguments
  std::vector<HostileParameter> parameters;
};

const std::vector<HostileRow>& hostile_rows();
