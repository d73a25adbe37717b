// From a convolution of integers to the parameters of its kernels.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/integer/integer_params.hpp"

#include <bit>

#include "ops/conv/epilogue_args.hpp"

namespace gpudnn::conv {

namespace integer = kernels::integer;

namespace {

integer::OutType out_type(DataType type) {
  switch (type) {
    case GPUDNN_DATA_FLOAT:
      return integer::OutType::f32;
    case GPUDNN_DATA_INT32:
      return integer::OutType::i32;
    case GPUDNN_DATA_UINT8:
    case GPUDNN_DATA_UINT8x4:
      return integer::OutType::u8;
    default:
      return integer::OutType::i8;
  }
}

bool is_aligned(const TensorGeometry& tensor, std::int64_t bytes) {
  const std::int64_t lanes = data_type_lanes(tensor.type);
  if (lanes == 1 && tensor.dims[1] > 1 && tensor.strides[1] != 1) return false;
  if (lanes > 1 && lanes % bytes != 0) return false;
  for (int i = 0; i < tensor.rank; ++i) {
    if ((i == 1 && lanes == 1) || tensor.dims[i] == 1) continue;
    if (tensor.strides[i] * lanes % bytes != 0) return false;
  }
  return true;
}

}  // namespace

integer::Tensor integer_tensor(const TensorGeometry& tensor) {
  const std::int64_t lanes = data_type_lanes(tensor.type);
  integer::Tensor at;
  at.image = tensor.strides[0] * lanes;
  at.run = tensor.strides[1] * lanes;
  at.run_shift = std::countr_zero(static_cast<std::uint64_t>(lanes));
  if (lanes == 1 && tensor.strides[1] == 1) at.run_shift = integer::kOneRun;
  for (int i = 2; i < tensor.rank; ++i) at.spatial[tensor.rank - 1 - i] = tensor.strides[i] * lanes;
  return at;
}

integer::Params integer_params(const Problem& problem) {
  integer::Params p;
  p.x_at = integer_tensor(problem.x);
  p.w_at = integer_tensor(problem.w);
  p.y_at = integer_tensor(problem.y);
  p.addend_at = problem.has_z != 0 ? integer_tensor(problem.z) : p.y_at;
  p.x_is_unsigned = problem.x.type == GPUDNN_DATA_UINT8 || problem.x.type == GPUDNN_DATA_UINT8x4;
  p.filters = static_cast<std::uint32_t>(problem.w.dims[0] / problem.groups);
  p.channels = static_cast<std::uint32_t>(problem.w.dims[1]);
  p.groups = static_cast<std::uint32_t>(problem.groups);
  std::int64_t pixels = problem.y.dims[0];
  std::uint32_t taps[3] = {1, 1, 1};
  for (int i = 0; i < problem.spatial; ++i) {
    const int axis = problem.spatial - 1 - i;
    pixels *= problem.y.dims[2 + i];
    p.extent[axis] = integer::FastDivmod(static_cast<std::uint32_t>(problem.y.dims[2 + i]));
    p.x_extent[axis] = static_cast<std::int32_t>(problem.x.dims[2 + i]);
    p.pad[axis] = static_cast<std::int32_t>(problem.pad[i]);
    p.stride[axis] = static_cast<std::int32_t>(problem.stride[i]);
    p.dilation[axis] = static_cast<std::int32_t>(problem.dilation[i]);
    taps[axis] = static_cast<std::uint32_t>(problem.w.dims[2 + i]);
  }
  p.pixels = static_cast<std::uint32_t>(pixels);
  p.tap_count = taps[0] * taps[1] * taps[2];
  p.taps[0] = integer::FastDivmod(taps[0]);
  p.taps[1] = integer::FastDivmod(taps[1]);
  if (problem.mode == GPUDNN_CONVOLUTION) {  // the last tap comes first
    for (int axis = 0; axis < 3; ++axis) {
      p.w_offset += (static_cast<std::int64_t>(taps[axis]) - 1) * p.w_at.spatial[axis];
      p.w_at.spatial[axis] = -p.w_at.spatial[axis];
    }
  }
  integer::Epilogue& e = p.epilogue;
  e.out = out_type(problem.y.type);
  e.has_scale = problem.has_scale != 0;
  e.has_bias = problem.has_bias != 0;
  e.scale_stride = problem.scale_stride;
  e.bias_stride = problem.bias_stride;
  return p;
}

void set_chunks(std::uint32_t channels, integer::Params* params) {
  const std::uint32_t of_tap = (params->channels + channels - 1) / channels;
  params->chunks_of_tap = integer::FastDivmod(of_tap);
  params->chunks = params->tap_count * of_tap;
}

void set_integer_epilogue(const Problem& problem, const Args& args, integer::Params* params) {
  const bool adds_z = args.z != nullptr && problem.has_z != 0;
  integer::Epilogue& e = params->epilogue;
  params->addend = adds_z ? args.z : args.out;
  params->scale = static_cast<const float*>(args.scale);
  params->bias = static_cast<const float*>(args.bias);
  e.alpha = static_cast<float>(args.alpha);
  e.addend_scale = static_cast<float>(adds_z ? args.alpha2 : args.beta);
  e.adds = e.addend_scale != 0.0f;
  kernels::gemm::ActivationArgs<float> activation;
  set_activation_mode(problem, &activation);
  set_activation_numbers(args, &activation);
  e.has_relu = activation.mode == kernels::gemm::Activation::relu;
  e.drops_nan = activation.drops_nan;
  e.lower = activation.lower;
  e.upper = activation.upper;
  e.slope = activation.slope;
  e.is_sum = e.alpha == 1.0f && !e.adds && !e.has_scale && !e.has_bias && !e.has_relu;
}

const char* integer_index_unsupported_reason(const Problem& problem) {
  constexpr std::int64_t kMax = std::int64_t{1} << 30;
  std::int64_t pixels = problem.y.dims[0];
  std::int64_t products = problem.w.dims[1] + 64;
  for (int i = 0; i < problem.spatial; ++i) {
    pixels *= problem.y.dims[2 + i];
    products *= problem.w.dims[2 + i];
    const std::int64_t reach = problem.x.dims[2 + i] + 2 * problem.pad[i];
    if (reach >= kMax || problem.dilation[i] >= kMax || problem.stride[i] >= kMax) return "an extent of 2^30 or more";
  }
  if (pixels >= kMax) return "2^30 output pixels or more";
  if (products >= kMax || problem.w.dims[0] >= kMax) return "2^30 products or filters or more";
  return nullptr;
}

bool channels_in_vectors(const Problem& problem, std::int64_t bytes) {
  return problem.w.dims[1] % bytes == 0 && is_aligned(problem.x, bytes) && is_aligned(problem.w, bytes);
}

}  // namespace gpudnn::conv
