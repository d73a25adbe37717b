// What the launch functions of the two-operand tensor kernels take. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/any_type.hpp"
#include "kernels/tile/loop_nest.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

enum class OpTensorOp : std::int32_t { add, mul, min, max, sqrt, complement };

// The nest's tensors are a, b, c, or a, c where the operation has one operand.
struct OpTensorParams {
  OpTensorOp op = OpTensorOp::add;
  bool propagate_nan = false;
  double alpha1 = 1;
  double alpha2 = 1;
  double beta = 0;
  tile::AnyType a_type = tile::AnyType::f32;
  tile::AnyType b_type = tile::AnyType::f32;
  tile::AnyType c_type = tile::AnyType::f32;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  tile::HostNest nest;
};

// a and b of one floating type, c of the same, or one of the two f32.
void launch_op_tensor(const OpTensorParams& params, CUstream_st* stream);
// Any types, an element at a time; f64 with f64 alone.
void launch_op_tensor_mixed(const OpTensorParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
