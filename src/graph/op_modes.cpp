// The modes of operations, by the names that a graph's text has for them.
// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "graph/graph.hpp"

namespace gpudnn::graph {
namespace {

struct ModeName {
  const char* name;
  int mode;
};
constexpr ModeName kPointwiseModes[] = {
    {"add", GPUDNN_POINTWISE_ADD},
    {"add_square", GPUDNN_POINTWISE_ADD_SQUARE},
    {"div", GPUDNN_POINTWISE_DIV},
    {"max", GPUDNN_POINTWISE_MAX},
    {"min", GPUDNN_POINTWISE_MIN},
    {"mod", GPUDNN_POINTWISE_MOD},
    {"mul", GPUDNN_POINTWISE_MUL},
    {"pow", GPUDNN_POINTWISE_POW},
    {"sub", GPUDNN_POINTWISE_SUB},
    {"abs", GPUDNN_POINTWISE_ABS},
    {"ceil", GPUDNN_POINTWISE_CEIL},
    {"cos", GPUDNN_POINTWISE_COS},
    {"exp", GPUDNN_POINTWISE_EXP},
    {"floor", GPUDNN_POINTWISE_FLOOR},
    {"log", GPUDNN_POINTWISE_LOG},
    {"neg", GPUDNN_POINTWISE_NEG},
    {"rsqrt", GPUDNN_POINTWISE_RSQRT},
    {"sin", GPUDNN_POINTWISE_SIN},
    {"sqrt", GPUDNN_POINTWISE_SQRT},
    {"tan", GPUDNN_POINTWISE_TAN},
    {"erf", GPUDNN_POINTWISE_ERF},
    {"identity", GPUDNN_POINTWISE_IDENTITY},
    {"reciprocal", GPUDNN_POINTWISE_RECIPROCAL},
    {"atan2", GPUDNN_POINTWISE_ATAN2},
    {"relu_fwd", GPUDNN_POINTWISE_RELU_FWD},
    {"tanh_fwd", GPUDNN_POINTWISE_TANH_FWD},
    {"sigmoid_fwd", GPUDNN_POINTWISE_SIGMOID_FWD},
    {"elu_fwd", GPUDNN_POINTWISE_ELU_FWD},
    {"gelu_fwd", GPUDNN_POINTWISE_GELU_FWD},
    {"softplus_fwd", GPUDNN_POINTWISE_SOFTPLUS_FWD},
    {"swish_fwd", GPUDNN_POINTWISE_SWISH_FWD},
    {"gelu_approx_tanh_fwd", GPUDNN_POINTWISE_GELU_APPROX_TANH_FWD},
    {"relu_bwd", GPUDNN_POINTWISE_RELU_BWD},
    {"tanh_bwd", GPUDNN_POINTWISE_TANH_BWD},
    {"sigmoid_bwd", GPUDNN_POINTWISE_SIGMOID_BWD},
    {"elu_bwd", GPUDNN_POINTWISE_ELU_BWD},
    {"gelu_bwd", GPUDNN_POINTWISE_GELU_BWD},
    {"softplus_bwd", GPUDNN_POINTWISE_SOFTPLUS_BWD},
    {"swish_bwd", GPUDNN_POINTWISE_SWISH_BWD},
    {"gelu_approx_tanh_bwd", GPUDNN_POINTWISE_GELU_APPROX_TANH_BWD},
    {"cmp_eq", GPUDNN_POINTWISE_CMP_EQ},
    {"cmp_neq", GPUDNN_POINTWISE_CMP_NEQ},
    {"cmp_gt", GPUDNN_POINTWISE_CMP_GT},
    {"cmp_ge", GPUDNN_POINTWISE_CMP_GE},
    {"cmp_lt", GPUDNN_POINTWISE_CMP_LT},
    {"cmp_le", GPUDNN_POINTWISE_CMP_LE},
    {"logical_and", GPUDNN_POINTWISE_LOGICAL_AND},
    {"logical_or", GPUDNN_POINTWISE_LOGICAL_OR},
    {"logical_not", GPUDNN_POINTWISE_LOGICAL_NOT},
    {"gen_index", GPUDNN_POINTWISE_GEN_INDEX},
    {"binary_select", GPUDNN_POINTWISE_BINARY_SELECT},
};
constexpr ModeName kReductionModes[] = {
    {"add", GPUDNN_REDUCE_TENSOR_ADD},
    {"mul", GPUDNN_REDUCE_TENSOR_MUL},
    {"min", GPUDNN_REDUCE_TENSOR_MIN},
    {"max", GPUDNN_REDUCE_TENSOR_MAX},
    {"amax", GPUDNN_REDUCE_TENSOR_AMAX},
    {"avg", GPUDNN_REDUCE_TENSOR_AVG},
    {"norm1", GPUDNN_REDUCE_TENSOR_NORM1},
    {"norm2", GPUDNN_REDUCE_TENSOR_NORM2},
    {"mul_no_zeros", GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS},
};
constexpr ModeName kResampleModes[] = {
    {"nearest", GPUDNN_RESAMPLE_NEAREST},
    {"bilinear", GPUDNN_RESAMPLE_BILINEAR},
    {"avg_include", GPUDNN_RESAMPLE_AVGPOOL_INCLUDE_PADDING},
    {"avg_exclude", GPUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING},
    {"max", GPUDNN_RESAMPLE_MAXPOOL},
};
constexpr ModeName kNormModes[] = {
    {"layer", GPUDNN_LAYER_NORM}, {"instance", GPUDNN_INSTANCE_NORM}, {"batch", GPUDNN_BATCH_NORM},
    {"group", GPUDNN_GROUP_NORM}, {"rms", GPUDNN_RMS_NORM},           {"ada_layer", GPUDNN_ADA_LAYER_NORM},
};
constexpr ModeName kRngModes[] = {
    {"bernoulli", GPUDNN_RNG_DISTRIBUTION_BERNOULLI},
    {"uniform", GPUDNN_RNG_DISTRIBUTION_UNIFORM},
    {"normal", GPUDNN_RNG_DISTRIBUTION_NORMAL},
};
constexpr ModeName kConvolutionModes[] = {
    {"convolution", GPUDNN_CONVOLUTION},
    {"cross", GPUDNN_CROSS_CORRELATION},
};
constexpr ModeName kMoeModes[] = {
    {"in_order", GPUDNN_MOE_GROUPED_MATMUL_MODE_NONE},
    {"gather", GPUDNN_MOE_GROUPED_MATMUL_MODE_GATHER},
    {"scatter", GPUDNN_MOE_GROUPED_MATMUL_MODE_SCATTER},
};

std::span<const ModeName> modes_of(Op op) noexcept {
  switch (op) {
    case Op::pointwise:
      return kPointwiseModes;
    case Op::reduction:
      return kReductionModes;
    case Op::resample_fwd:
    case Op::resample_bwd:
      return kResampleModes;
    case Op::norm_fwd:
    case Op::norm_bwd:
      return kNormModes;
    case Op::rng:
      return kRngModes;
    case Op::conv_fwd:
    case Op::conv_dgrad:
    case Op::conv_wgrad:
      return kConvolutionModes;
    case Op::moe:
      return kMoeModes;
    default:
      return {};
  }
}

}  // namespace

const char* mode_name(Op op, int mode) {
  for (const ModeName& row : modes_of(op))
    if (row.mode == mode) return row.name;
  return nullptr;
}

int parse_mode(Op op, std::string_view name) {
  for (const ModeName& row : modes_of(op))
    if (name == row.name) return row.mode;
  return -1;
}

}  // namespace gpudnn::graph
