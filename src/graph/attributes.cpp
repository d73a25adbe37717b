// The table of attributes, kind by kind.
// SPDX-License-Identifier: Apache-2.0
//
// Longer than most files: it is one table.
#include "graph/attributes.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include "graph/kinds.hpp"

namespace gpudnn::graph {
namespace {

constexpr std::int8_t narrow(int kind) { return static_cast<std::int8_t>(kind); }

// A number, an enumerator, a handle or a pointer.
constexpr Attribute may(int kind, AttributeName name, const char* text, AttributeType type) {
  return {.text = text, .name = name, .type = type, .other = type, .kind = narrow(kind)};
}
constexpr Attribute need(int kind, AttributeName name, const char* text, AttributeType type) {
  return {.text = text, .name = name, .type = type, .other = type, .kind = narrow(kind), .required = true};
}
constexpr Attribute either(int kind, AttributeName name, const char* text, AttributeType type, AttributeType other) {
  return {.text = text, .name = name, .type = type, .other = other, .kind = narrow(kind)};
}
// A real number, given as float or double.
constexpr Attribute real(int kind, AttributeName name, const char* text) {
  return either(kind, name, text, GPUDNN_TYPE_DOUBLE, GPUDNN_TYPE_FLOAT);
}
// Set by the library.
constexpr Attribute told(int kind, AttributeName name, const char* text, AttributeType type) {
  Attribute row = may(kind, name, text, type);
  row.answer = true;
  return row;
}
constexpr Attribute list(int kind, AttributeName name, const char* text, AttributeType type, std::int32_t least) {
  Attribute row = may(kind, name, text, type);
  row.least = least;
  row.most = type == GPUDNN_TYPE_CHAR ? 1 << 30 : kMaxElements;
  return row;
}
// One number a dimension of a tensor.
constexpr Attribute rank(int kind, AttributeName name, const char* text) {
  Attribute row = need(kind, name, text, GPUDNN_TYPE_INT64);
  row.most = 64;  // Finalize refuses more than the library's own limit
  return row;
}
// One number a spatial dimension.
constexpr Attribute extents(int kind, AttributeName name, const char* text) { return rank(kind, name, text); }
constexpr Attribute fractions(int kind, AttributeName name, const char* text) {
  Attribute row = rank(kind, name, text);
  row.type = GPUDNN_TYPE_FRACTION;
  return row;
}
// One number, or one for each of the last dimensions.
constexpr Attribute blocks(int kind, AttributeName name, const char* text) {
  Attribute row = rank(kind, name, text);
  row.type = GPUDNN_TYPE_INT32;
  return row;
}
constexpr Attribute child(int kind, AttributeName name, const char* text, int of, bool required) {
  Attribute row = may(kind, name, text, GPUDNN_TYPE_BACKEND_DESCRIPTOR);
  row.child = narrow(of);
  row.required = required;
  return row;
}
constexpr Attribute tensor(int kind, AttributeName name, const char* text, bool required) {
  return child(kind, name, text, kTensor, required);
}
constexpr Attribute tensor_or_integer(int kind, AttributeName name, const char* text, bool required) {
  Attribute row = child(kind, name, text, kTensor, required);
  row.other = GPUDNN_TYPE_INT64;
  return row;
}
constexpr Attribute children(int kind, AttributeName name, const char* text, int of, std::int32_t least,
                             std::int32_t most, bool required) {
  Attribute row = child(kind, name, text, of, required);
  row.least = least;
  row.most = most;
  return row;
}
constexpr Attribute children_told(int kind, AttributeName name, const char* text, int of) {
  Attribute row = child(kind, name, text, of, false);
  row.answer = true;
  return row;
}
constexpr Attribute operations(int kind, AttributeName name, const char* text) {
  return children(kind, name, text, -1, 1, kMaxElements, true);
}

// Enumerator and spelling of an attribute.
#define A(name) GPUDNN_ATTR_##name, "GPUDNN_ATTR_" #name

constexpr Attribute kTable[] = {
    need(kPointwise, A(POINTWISE_MODE), GPUDNN_TYPE_POINTWISE_MODE),
    may(kPointwise, A(POINTWISE_MATH_PREC), GPUDNN_TYPE_DATA_TYPE),
    may(kPointwise, A(POINTWISE_NAN_PROPAGATION), GPUDNN_TYPE_NAN_PROPOGATION),
    real(kPointwise, A(POINTWISE_RELU_LOWER_CLIP)),
    real(kPointwise, A(POINTWISE_RELU_UPPER_CLIP)),
    real(kPointwise, A(POINTWISE_RELU_LOWER_CLIP_SLOPE)),
    real(kPointwise, A(POINTWISE_ELU_ALPHA)),
    real(kPointwise, A(POINTWISE_SOFTPLUS_BETA)),
    real(kPointwise, A(POINTWISE_SWISH_BETA)),
    may(kPointwise, A(POINTWISE_AXIS), GPUDNN_TYPE_INT64),

    need(kConvolution, A(CONVOLUTION_COMP_TYPE), GPUDNN_TYPE_DATA_TYPE),
    need(kConvolution, A(CONVOLUTION_CONV_MODE), GPUDNN_TYPE_CONVOLUTION_MODE),
    extents(kConvolution, A(CONVOLUTION_DILATIONS)),
    extents(kConvolution, A(CONVOLUTION_FILTER_STRIDES)),
    extents(kConvolution, A(CONVOLUTION_POST_PADDINGS)),
    extents(kConvolution, A(CONVOLUTION_PRE_PADDINGS)),
    need(kConvolution, A(CONVOLUTION_SPATIAL_DIMS), GPUDNN_TYPE_INT64),

    child(kEngine, A(ENGINE_OPERATION_GRAPH), kGraph, true),
    need(kEngine, A(ENGINE_GLOBAL_INDEX), GPUDNN_TYPE_INT64),
    children_told(kEngine, A(ENGINE_KNOB_INFO), kKnobInfo),
    told(kEngine, A(ENGINE_NUMERICAL_NOTE), GPUDNN_TYPE_NUMERICAL_NOTE),
    children_told(kEngine, A(ENGINE_LAYOUT_INFO), kLayoutInfo),
    told(kEngine, A(ENGINE_BEHAVIOR_NOTE), GPUDNN_TYPE_BEHAVIOR_NOTE),
    may(kEngine, A(ENGINE_SM_COUNT_TARGET), GPUDNN_TYPE_INT32),
    child(kEngine, A(ENGINE_DEVICEPROP), kDeviceProp, false),
    may(kEngine, A(ENGINE_DISABLE_CLUSTER_COOPERATIVE), GPUDNN_TYPE_BOOLEAN),

    child(kEngineConfig, A(ENGINECFG_ENGINE), kEngine, true),
    children_told(kEngineConfig, A(ENGINECFG_INTERMEDIATE_INFO), kIntermediateInfo),
    children(kEngineConfig, A(ENGINECFG_KNOB_CHOICES), kKnobChoice, 0, GPUDNN_KNOB_TYPE_COUNTS, false),
    told(kEngineConfig, A(ENGINECFG_WORKSPACE_SIZE), GPUDNN_TYPE_INT64),
    told(kEngineConfig, A(ENGINECFG_SHARED_MEMORY_USED), GPUDNN_TYPE_INT32),

    need(kHeuristics, A(ENGINEHEUR_MODE), GPUDNN_TYPE_HEUR_MODE),
    child(kHeuristics, A(ENGINEHEUR_OPERATION_GRAPH), kGraph, true),
    children_told(kHeuristics, A(ENGINEHEUR_RESULTS), kEngineConfig),
    may(kHeuristics, A(ENGINEHEUR_SM_COUNT_TARGET), GPUDNN_TYPE_INT32),
    child(kHeuristics, A(ENGINEHEUR_DEVICEPROP), kDeviceProp, false),

    may(kPlan, A(EXECUTION_PLAN_HANDLE), GPUDNN_TYPE_HANDLE),
    child(kPlan, A(EXECUTION_PLAN_ENGINE_CONFIG), kEngineConfig, false),
    told(kPlan, A(EXECUTION_PLAN_WORKSPACE_SIZE), GPUDNN_TYPE_INT64),
    told(kPlan, A(EXECUTION_PLAN_COMPUTED_INTERMEDIATE_UIDS), GPUDNN_TYPE_INT64),
    list(kPlan, A(EXECUTION_PLAN_RUN_ONLY_INTERMEDIATE_UIDS), GPUDNN_TYPE_INT64, 0),
    list(kPlan, A(EXECUTION_PLAN_JSON_REPRESENTATION), GPUDNN_TYPE_CHAR, 1),
    child(kPlan, A(EXECUTION_PLAN_KERNEL_CACHE), kKernelCache, false),
    child(kPlan, A(EXECUTION_PLAN_DEVICEPROP), kDeviceProp, false),

    told(kIntermediateInfo, A(INTERMEDIATE_INFO_UNIQUE_ID), GPUDNN_TYPE_INT64),
    told(kIntermediateInfo, A(INTERMEDIATE_INFO_SIZE), GPUDNN_TYPE_INT64),
    told(kIntermediateInfo, A(INTERMEDIATE_INFO_DEPENDENT_DATA_UIDS), GPUDNN_TYPE_INT64),
    told(kIntermediateInfo, A(INTERMEDIATE_INFO_DEPENDENT_ATTRIBUTES), GPUDNN_TYPE_ATTRIB_NAME),

    need(kKnobChoice, A(KNOB_CHOICE_KNOB_TYPE), GPUDNN_TYPE_KNOB_TYPE),
    need(kKnobChoice, A(KNOB_CHOICE_KNOB_VALUE), GPUDNN_TYPE_INT64),

    told(kKnobInfo, A(KNOB_INFO_TYPE), GPUDNN_TYPE_KNOB_TYPE),
    told(kKnobInfo, A(KNOB_INFO_MAXIMUM_VALUE), GPUDNN_TYPE_INT64),
    told(kKnobInfo, A(KNOB_INFO_MINIMUM_VALUE), GPUDNN_TYPE_INT64),
    told(kKnobInfo, A(KNOB_INFO_STRIDE), GPUDNN_TYPE_INT64),

    told(kLayoutInfo, A(LAYOUT_INFO_TENSOR_UID), GPUDNN_TYPE_INT64),
    told(kLayoutInfo, A(LAYOUT_INFO_TYPES), GPUDNN_TYPE_LAYOUT_TYPE),

    real(kOpConvForward, A(OPERATION_CONVOLUTION_FORWARD_ALPHA)),
    real(kOpConvForward, A(OPERATION_CONVOLUTION_FORWARD_BETA)),
    child(kOpConvForward, A(OPERATION_CONVOLUTION_FORWARD_CONV_DESC), kConvolution, true),
    tensor(kOpConvForward, A(OPERATION_CONVOLUTION_FORWARD_W), true),
    tensor(kOpConvForward, A(OPERATION_CONVOLUTION_FORWARD_X), true),
    tensor(kOpConvForward, A(OPERATION_CONVOLUTION_FORWARD_Y), true),

    real(kOpConvData, A(OPERATION_CONVOLUTION_BWD_DATA_ALPHA)),
    real(kOpConvData, A(OPERATION_CONVOLUTION_BWD_DATA_BETA)),
    child(kOpConvData, A(OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC), kConvolution, true),
    tensor(kOpConvData, A(OPERATION_CONVOLUTION_BWD_DATA_W), true),
    tensor(kOpConvData, A(OPERATION_CONVOLUTION_BWD_DATA_DX), true),
    tensor(kOpConvData, A(OPERATION_CONVOLUTION_BWD_DATA_DY), true),

    real(kOpConvFilter, A(OPERATION_CONVOLUTION_BWD_FILTER_ALPHA)),
    real(kOpConvFilter, A(OPERATION_CONVOLUTION_BWD_FILTER_BETA)),
    child(kOpConvFilter, A(OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC), kConvolution, true),
    tensor(kOpConvFilter, A(OPERATION_CONVOLUTION_BWD_FILTER_DW), true),
    tensor(kOpConvFilter, A(OPERATION_CONVOLUTION_BWD_FILTER_X), true),
    tensor(kOpConvFilter, A(OPERATION_CONVOLUTION_BWD_FILTER_DY), true),

    child(kOpPointwise, A(OPERATION_POINTWISE_PW_DESCRIPTOR), kPointwise, true),
    tensor(kOpPointwise, A(OPERATION_POINTWISE_XDESC), false),
    tensor(kOpPointwise, A(OPERATION_POINTWISE_BDESC), false),
    tensor(kOpPointwise, A(OPERATION_POINTWISE_YDESC), false),
    real(kOpPointwise, A(OPERATION_POINTWISE_ALPHA1)),
    real(kOpPointwise, A(OPERATION_POINTWISE_ALPHA2)),
    tensor(kOpPointwise, A(OPERATION_POINTWISE_DXDESC), false),
    tensor(kOpPointwise, A(OPERATION_POINTWISE_DYDESC), false),
    tensor(kOpPointwise, A(OPERATION_POINTWISE_TDESC), false),

    may(kOpGenStats, A(OPERATION_GENSTATS_MODE), GPUDNN_TYPE_GENSTATS_MODE),
    may(kOpGenStats, A(OPERATION_GENSTATS_MATH_PREC), GPUDNN_TYPE_DATA_TYPE),
    tensor(kOpGenStats, A(OPERATION_GENSTATS_XDESC), true),
    tensor(kOpGenStats, A(OPERATION_GENSTATS_SUMDESC), true),
    tensor(kOpGenStats, A(OPERATION_GENSTATS_SQSUMDESC), true),

    may(kGraph, A(OPERATIONGRAPH_HANDLE), GPUDNN_TYPE_HANDLE),
    operations(kGraph, A(OPERATIONGRAPH_OPS)),
    told(kGraph, A(OPERATIONGRAPH_ENGINE_GLOBAL_COUNT), GPUDNN_TYPE_INT64),
    may(kGraph, A(OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED), GPUDNN_TYPE_BOOLEAN),
    may(kGraph, A(OPERATIONGRAPH_IS_SAME_TOPOLOGY), GPUDNN_TYPE_BOOLEAN),

    list(kPack, A(VARIANT_PACK_UNIQUE_IDS), GPUDNN_TYPE_INT64, 0),
    list(kPack, A(VARIANT_PACK_DATA_POINTERS), GPUDNN_TYPE_VOID_PTR, 0),
    list(kPack, A(VARIANT_PACK_INTERMEDIATES), GPUDNN_TYPE_VOID_PTR, 0),
    may(kPack, A(VARIANT_PACK_WORKSPACE), GPUDNN_TYPE_VOID_PTR),
    list(kPack, A(VARIANT_PACK_OVERRIDE_UNIQUE_IDS), GPUDNN_TYPE_INT64, 0),
    may(kPack, A(VARIANT_PACK_OVERRIDE_SHAPES), GPUDNN_TYPE_VOID_PTR),
    may(kPack, A(VARIANT_PACK_OVERRIDE_STRIDES), GPUDNN_TYPE_VOID_PTR),

    need(kTensor, A(TENSOR_BYTE_ALIGNMENT), GPUDNN_TYPE_INT64),
    need(kTensor, A(TENSOR_DATA_TYPE), GPUDNN_TYPE_DATA_TYPE),
    rank(kTensor, A(TENSOR_DIMENSIONS)),
    rank(kTensor, A(TENSOR_STRIDES)),
    may(kTensor, A(TENSOR_VECTOR_COUNT), GPUDNN_TYPE_INT64),
    may(kTensor, A(TENSOR_VECTORIZED_DIMENSION), GPUDNN_TYPE_INT64),
    need(kTensor, A(TENSOR_UNIQUE_ID), GPUDNN_TYPE_INT64),
    may(kTensor, A(TENSOR_IS_VIRTUAL), GPUDNN_TYPE_BOOLEAN),
    may(kTensor, A(TENSOR_IS_BY_VALUE), GPUDNN_TYPE_BOOLEAN),
    either(kTensor, A(TENSOR_REORDERING_MODE), GPUDNN_TYPE_TENSOR_REORDERING_MODE, GPUDNN_TYPE_INT64),
    tensor(kTensor, A(TENSOR_RAGGED_OFFSET_DESC), false),

    need(kMatmul, A(MATMUL_COMP_TYPE), GPUDNN_TYPE_DATA_TYPE),
    real(kMatmul, A(MATMUL_PADDING_VALUE)),

    tensor(kOpMatmul, A(OPERATION_MATMUL_ADESC), true),
    tensor(kOpMatmul, A(OPERATION_MATMUL_BDESC), true),
    tensor(kOpMatmul, A(OPERATION_MATMUL_CDESC), true),
    child(kOpMatmul, A(OPERATION_MATMUL_DESC), kMatmul, true),
    may(kOpMatmul, A(OPERATION_MATMUL_IRREGULARLY_STRIDED_BATCH_COUNT), GPUDNN_TYPE_INT64),
    tensor(kOpMatmul, A(OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC), false),
    tensor(kOpMatmul, A(OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC), false),
    tensor(kOpMatmul, A(OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC), false),

    may(kOpBnFinalize, A(OPERATION_BN_FINALIZE_STATS_MODE), GPUDNN_TYPE_BN_FINALIZE_STATS_MODE),
    may(kOpBnFinalize, A(OPERATION_BN_FINALIZE_MATH_PREC), GPUDNN_TYPE_DATA_TYPE),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_Y_SUM_DESC), false),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC), false),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_SCALE_DESC), true),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_BIAS_DESC), true),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC), false),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC), false),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC), false),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC), false),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_SAVED_MEAN_DESC), false),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC), false),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_EQ_SCALE_DESC), false),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_EQ_BIAS_DESC), false),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC), false),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_EPSILON_DESC), true),
    tensor(kOpBnFinalize, A(OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC), false),

    need(kReduction, A(REDUCTION_OPERATOR), GPUDNN_TYPE_REDUCTION_OPERATOR_TYPE),
    may(kReduction, A(REDUCTION_COMP_TYPE), GPUDNN_TYPE_DATA_TYPE),
    may(kReduction, A(REDUCTION_IS_DETERMINISTIC), GPUDNN_TYPE_BOOLEAN),

    tensor(kOpReduction, A(OPERATION_REDUCTION_XDESC), true),
    tensor(kOpReduction, A(OPERATION_REDUCTION_YDESC), true),
    child(kOpReduction, A(OPERATION_REDUCTION_DESC), kReduction, true),

    may(kOpBnWeights, A(OPERATION_BN_BWD_WEIGHTS_MATH_PREC), GPUDNN_TYPE_DATA_TYPE),
    tensor(kOpBnWeights, A(OPERATION_BN_BWD_WEIGHTS_MEAN_DESC), true),
    tensor(kOpBnWeights, A(OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC), true),
    tensor(kOpBnWeights, A(OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC), true),
    tensor(kOpBnWeights, A(OPERATION_BN_BWD_WEIGHTS_X_DESC), true),
    tensor(kOpBnWeights, A(OPERATION_BN_BWD_WEIGHTS_DY_DESC), true),
    tensor(kOpBnWeights, A(OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC), false),
    tensor(kOpBnWeights, A(OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC), false),
    tensor(kOpBnWeights, A(OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC), false),
    tensor(kOpBnWeights, A(OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC), false),
    tensor(kOpBnWeights, A(OPERATION_BN_BWD_WEIGHTS_EQ_BIAS), false),

    need(kResample, A(RESAMPLE_MODE), GPUDNN_TYPE_RESAMPLE_MODE),
    may(kResample, A(RESAMPLE_COMP_TYPE), GPUDNN_TYPE_DATA_TYPE),
    need(kResample, A(RESAMPLE_SPATIAL_DIMS), GPUDNN_TYPE_INT64),
    fractions(kResample, A(RESAMPLE_POST_PADDINGS)),
    fractions(kResample, A(RESAMPLE_PRE_PADDINGS)),
    fractions(kResample, A(RESAMPLE_STRIDES)),
    fractions(kResample, A(RESAMPLE_WINDOW_DIMS)),
    may(kResample, A(RESAMPLE_NAN_PROPAGATION), GPUDNN_TYPE_NAN_PROPOGATION),
    may(kResample, A(RESAMPLE_PADDING_MODE), GPUDNN_TYPE_PADDING_MODE),

    tensor(kOpResampleForward, A(OPERATION_RESAMPLE_FWD_XDESC), true),
    tensor(kOpResampleForward, A(OPERATION_RESAMPLE_FWD_YDESC), true),
    tensor(kOpResampleForward, A(OPERATION_RESAMPLE_FWD_IDXDESC), false),
    real(kOpResampleForward, A(OPERATION_RESAMPLE_FWD_ALPHA)),
    real(kOpResampleForward, A(OPERATION_RESAMPLE_FWD_BETA)),
    child(kOpResampleForward, A(OPERATION_RESAMPLE_FWD_DESC), kResample, true),

    tensor(kOpResampleBackward, A(OPERATION_RESAMPLE_BWD_DXDESC), true),
    tensor(kOpResampleBackward, A(OPERATION_RESAMPLE_BWD_DYDESC), true),
    tensor(kOpResampleBackward, A(OPERATION_RESAMPLE_BWD_IDXDESC), false),
    real(kOpResampleBackward, A(OPERATION_RESAMPLE_BWD_ALPHA)),
    real(kOpResampleBackward, A(OPERATION_RESAMPLE_BWD_BETA)),
    child(kOpResampleBackward, A(OPERATION_RESAMPLE_BWD_DESC), kResample, true),
    tensor(kOpResampleBackward, A(OPERATION_RESAMPLE_BWD_XDESC), false),
    tensor(kOpResampleBackward, A(OPERATION_RESAMPLE_BWD_YDESC), false),

    need(kOpConcat, A(OPERATION_CONCAT_AXIS), GPUDNN_TYPE_INT64),
    children(kOpConcat, A(OPERATION_CONCAT_INPUT_DESCS), kTensor, 1, kMaxElements, true),
    may(kOpConcat, A(OPERATION_CONCAT_INPLACE_INDEX), GPUDNN_TYPE_INT64),
    tensor(kOpConcat, A(OPERATION_CONCAT_OUTPUT_DESC), true),

    need(kOpSignal, A(OPERATION_SIGNAL_MODE), GPUDNN_TYPE_SIGNAL_MODE),
    tensor(kOpSignal, A(OPERATION_SIGNAL_FLAGDESC), true),
    need(kOpSignal, A(OPERATION_SIGNAL_VALUE), GPUDNN_TYPE_INT64),
    tensor(kOpSignal, A(OPERATION_SIGNAL_XDESC), false),
    tensor(kOpSignal, A(OPERATION_SIGNAL_YDESC), false),

    need(kOpNormForward, A(OPERATION_NORM_FWD_MODE), GPUDNN_TYPE_NORM_MODE),
    need(kOpNormForward, A(OPERATION_NORM_FWD_PHASE), GPUDNN_TYPE_NORM_FWD_PHASE),
    tensor(kOpNormForward, A(OPERATION_NORM_FWD_XDESC), true),
    tensor(kOpNormForward, A(OPERATION_NORM_FWD_MEAN_DESC), false),
    tensor(kOpNormForward, A(OPERATION_NORM_FWD_INV_VARIANCE_DESC), false),
    tensor(kOpNormForward, A(OPERATION_NORM_FWD_SCALE_DESC), false),
    tensor(kOpNormForward, A(OPERATION_NORM_FWD_BIAS_DESC), false),
    tensor(kOpNormForward, A(OPERATION_NORM_FWD_EPSILON_DESC), false),
    tensor(kOpNormForward, A(OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC), false),
    tensor(kOpNormForward, A(OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC), false),
    tensor(kOpNormForward, A(OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC), false),
    tensor(kOpNormForward, A(OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC), false),
    tensor(kOpNormForward, A(OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC), false),
    tensor(kOpNormForward, A(OPERATION_NORM_FWD_YDESC), true),
    children(kOpNormForward, A(OPERATION_NORM_FWD_PEER_STAT_DESCS), kTensor, 0, 64, false),

    need(kOpNormBackward, A(OPERATION_NORM_BWD_MODE), GPUDNN_TYPE_NORM_MODE),
    tensor(kOpNormBackward, A(OPERATION_NORM_BWD_XDESC), true),
    tensor(kOpNormBackward, A(OPERATION_NORM_BWD_MEAN_DESC), false),
    tensor(kOpNormBackward, A(OPERATION_NORM_BWD_INV_VARIANCE_DESC), false),
    tensor(kOpNormBackward, A(OPERATION_NORM_BWD_DYDESC), true),
    tensor(kOpNormBackward, A(OPERATION_NORM_BWD_SCALE_DESC), false),
    tensor(kOpNormBackward, A(OPERATION_NORM_BWD_EPSILON_DESC), false),
    tensor(kOpNormBackward, A(OPERATION_NORM_BWD_DSCALE_DESC), false),
    tensor(kOpNormBackward, A(OPERATION_NORM_BWD_DBIAS_DESC), false),
    tensor(kOpNormBackward, A(OPERATION_NORM_BWD_DXDESC), true),
    children(kOpNormBackward, A(OPERATION_NORM_BWD_PEER_STAT_DESCS), kTensor, 0, 64, false),

    tensor(kOpReshape, A(OPERATION_RESHAPE_XDESC), true),
    tensor(kOpReshape, A(OPERATION_RESHAPE_YDESC), true),

    need(kRng, A(RNG_DISTRIBUTION), GPUDNN_TYPE_RNG_DISTRIBUTION),
    real(kRng, A(RNG_NORMAL_DIST_MEAN)),
    real(kRng, A(RNG_NORMAL_DIST_STANDARD_DEVIATION)),
    real(kRng, A(RNG_UNIFORM_DIST_MAXIMUM)),
    real(kRng, A(RNG_UNIFORM_DIST_MINIMUM)),
    real(kRng, A(RNG_BERNOULLI_DIST_PROBABILITY)),

    tensor(kOpRng, A(OPERATION_RNG_YDESC), true),
    tensor_or_integer(kOpRng, A(OPERATION_RNG_SEED), true),
    child(kOpRng, A(OPERATION_RNG_DESC), kRng, true),
    tensor(kOpRng, A(OPERATION_RNG_OFFSET_DESC), false),

    child(kKernelCache, A(KERNEL_CACHE_OPERATION_GRAPH), kGraph, false),
    told(kKernelCache, A(KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED), GPUDNN_TYPE_BOOLEAN),
    list(kKernelCache, A(KERNEL_CACHE_JSON_REPRESENTATION), GPUDNN_TYPE_CHAR, 1),

    tensor(kOpPagedLoad, A(OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC), true),
    tensor(kOpPagedLoad, A(OPERATION_PAGED_CACHE_LOAD_YDESC), true),
    tensor(kOpPagedLoad, A(OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC), true),
    tensor(kOpPagedLoad, A(OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC), true),

    tensor(kOpQuantize, A(OPERATION_BLOCK_SCALE_QUANTIZE_XDESC), true),
    tensor(kOpQuantize, A(OPERATION_BLOCK_SCALE_QUANTIZE_YDESC), true),
    tensor(kOpQuantize, A(OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC), true),
    may(kOpQuantize, A(OPERATION_BLOCK_SCALE_QUANTIZE_MATH_PREC), GPUDNN_TYPE_DATA_TYPE),
    blocks(kOpQuantize, A(OPERATION_BLOCK_SCALE_QUANTIZE_BLOCK_SIZE)),

    tensor(kOpDequantize, A(OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC), true),
    tensor(kOpDequantize, A(OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC), true),
    tensor(kOpDequantize, A(OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC), true),
    may(kOpDequantize, A(OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC), GPUDNN_TYPE_DATA_TYPE),
    blocks(kOpDequantize, A(OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE)),
    may(kOpDequantize, A(OPERATION_BLOCK_SCALE_DEQUANTIZE_NEG_SCALE), GPUDNN_TYPE_BOOLEAN),

    may(kDeviceProp, A(DEVICEPROP_DEVICE_ID), GPUDNN_TYPE_INT32),
    may(kDeviceProp, A(DEVICEPROP_HANDLE), GPUDNN_TYPE_HANDLE),
    list(kDeviceProp, A(DEVICEPROP_JSON_REPRESENTATION), GPUDNN_TYPE_CHAR, 1),

    tensor(kOpExpandBand, A(OPERATION_EXPAND_BAND_MATRIX_XDESC), true),
    tensor(kOpExpandBand, A(OPERATION_EXPAND_BAND_MATRIX_YDESC), true),
    need(kOpExpandBand, A(OPERATION_EXPAND_BAND_MATRIX_LOWER_BANDWIDTH), GPUDNN_TYPE_INT64),
    need(kOpExpandBand, A(OPERATION_EXPAND_BAND_MATRIX_UPPER_BANDWIDTH), GPUDNN_TYPE_INT64),
    may(kOpExpandBand, A(OPERATION_EXPAND_BAND_MATRIX_AXIS), GPUDNN_TYPE_INT64),
    real(kOpExpandBand, A(OPERATION_EXPAND_BAND_MATRIX_PAD_VALUE)),
    tensor(kOpExpandBand, A(OPERATION_EXPAND_BAND_MATRIX_KV_TOKEN_OFFSET_DESC), false),
    tensor(kOpExpandBand, A(OPERATION_EXPAND_BAND_MATRIX_SPECULATIVE_MASK_DESC), false),

    tensor(kOpContractBand, A(OPERATION_CONTRACT_BAND_MATRIX_XDESC), true),
    tensor(kOpContractBand, A(OPERATION_CONTRACT_BAND_MATRIX_YDESC), true),
    need(kOpContractBand, A(OPERATION_CONTRACT_BAND_MATRIX_LOWER_BANDWIDTH), GPUDNN_TYPE_INT64),
    need(kOpContractBand, A(OPERATION_CONTRACT_BAND_MATRIX_UPPER_BANDWIDTH), GPUDNN_TYPE_INT64),
    may(kOpContractBand, A(OPERATION_CONTRACT_BAND_MATRIX_AXIS), GPUDNN_TYPE_INT64),
    real(kOpContractBand, A(OPERATION_CONTRACT_BAND_MATRIX_PAD_VALUE)),
    real(kOpContractBand, A(OPERATION_CONTRACT_BAND_MAX_TOKEN_VALUE)),

    tensor(kOpSdpaForward, A(OPERATION_SDPA_FWD_QDESC), true),
    tensor(kOpSdpaForward, A(OPERATION_SDPA_FWD_KDESC), true),
    tensor(kOpSdpaForward, A(OPERATION_SDPA_FWD_VDESC), true),
    tensor(kOpSdpaForward, A(OPERATION_SDPA_FWD_ODESC), true),
    tensor(kOpSdpaForward, A(OPERATION_SDPA_FWD_STATSDESC), false),
    tensor(kOpSdpaForward, A(OPERATION_SDPA_FWD_SCALEDESC), false),
    tensor(kOpSdpaForward, A(OPERATION_SDPA_FWD_BLOCK_MASK_DESC), false),
    tensor(kOpSdpaForward, A(OPERATION_SDPA_FWD_PAGE_TABLE_KDESC), false),
    tensor(kOpSdpaForward, A(OPERATION_SDPA_FWD_PAGE_TABLE_VDESC), false),
    tensor(kOpSdpaForward, A(OPERATION_SDPA_FWD_SEQ_LEN_QDESC), false),
    tensor(kOpSdpaForward, A(OPERATION_SDPA_FWD_SEQ_LEN_KVDESC), false),

    tensor(kOpSdpaBackward, A(OPERATION_SDPA_BWD_QDESC), true),
    tensor(kOpSdpaBackward, A(OPERATION_SDPA_BWD_KDESC), true),
    tensor(kOpSdpaBackward, A(OPERATION_SDPA_BWD_VDESC), true),
    tensor(kOpSdpaBackward, A(OPERATION_SDPA_BWD_ODESC), true),
    tensor(kOpSdpaBackward, A(OPERATION_SDPA_BWD_STATSDESC), true),
    tensor(kOpSdpaBackward, A(OPERATION_SDPA_BWD_SCALEDESC), false),
    tensor(kOpSdpaBackward, A(OPERATION_SDPA_BWD_SEQ_LEN_QDESC), false),
    tensor(kOpSdpaBackward, A(OPERATION_SDPA_BWD_SEQ_LEN_KVDESC), false),
    tensor(kOpSdpaBackward, A(OPERATION_SDPA_BWD_DQDESC), true),
    tensor(kOpSdpaBackward, A(OPERATION_SDPA_BWD_DKDESC), true),
    tensor(kOpSdpaBackward, A(OPERATION_SDPA_BWD_DVDESC), true),
    tensor(kOpSdpaBackward, A(OPERATION_SDPA_BWD_DODDESC), true),

    need(kOpMoe, A(OPERATION_MOE_GROUPED_MATMUL_MODE), GPUDNN_TYPE_MOE_GROUPED_MATMUL_MODE),
    may(kOpMoe, A(OPERATION_MOE_GROUPED_MATMUL_MATH_PREC), GPUDNN_TYPE_DATA_TYPE),
    tensor(kOpMoe, A(OPERATION_MOE_GROUPED_MATMUL_TOKEN_DESC), true),
    tensor(kOpMoe, A(OPERATION_MOE_GROUPED_MATMUL_WEIGHT_DESC), true),
    tensor(kOpMoe, A(OPERATION_MOE_GROUPED_MATMUL_FIRST_TOKEN_OFFSET_DESC), true),
    tensor(kOpMoe, A(OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC), true),
    tensor(kOpMoe, A(OPERATION_MOE_GROUPED_MATMUL_TOKEN_INDEX_DESC), false),
    tensor(kOpMoe, A(OPERATION_MOE_GROUPED_MATMUL_TOKEN_KS_DESC), false),
    may(kOpMoe, A(OPERATION_MOE_GROUPED_MATMUL_TOP_K), GPUDNN_TYPE_INT32),
};
#undef A

struct Range {
  int first = 0;
  int count = 0;
};
constexpr std::array<Range, kKinds> ranges() {
  std::array<Range, kKinds> of{};
  for (int i = 0; i < static_cast<int>(std::size(kTable)); ++i) {
    Range& range = of[static_cast<unsigned char>(kTable[i].kind)];
    if (range.count++ == 0) range.first = i;
  }
  return of;
}
constexpr std::array<Range, kKinds> kRanges = ranges();
constexpr bool blocks_are_whole() {
  for (int kind = 0; kind < kKinds; ++kind) {
    const Range range = kRanges[static_cast<std::size_t>(kind)];
    for (int i = range.first; i < range.first + range.count; ++i)
      if (kTable[i].kind != kind) return false;
    if (range.count == 0) return false;
  }
  return true;
}
static_assert(blocks_are_whole(), "the rows of a kind stand together, and each kind has some");
constexpr bool names_ascend() {
  for (std::size_t i = 1; i < std::size(kTable); ++i)
    if (kTable[i].kind == kTable[i - 1].kind && kTable[i].name <= kTable[i - 1].name) return false;
  return true;
}
static_assert(names_ascend(), "place_of() halves the rows of a kind");

constexpr const char* kKindTexts[kKinds] = {
    "POINTWISE",
    "CONVOLUTION",
    "ENGINE",
    "ENGINECFG",
    "ENGINEHEUR",
    "EXECUTION_PLAN",
    "INTERMEDIATE_INFO",
    "KNOB_CHOICE",
    "KNOB_INFO",
    "LAYOUT_INFO",
    "OPERATION_CONVOLUTION_FORWARD",
    "OPERATION_CONVOLUTION_BACKWARD_FILTER",
    "OPERATION_CONVOLUTION_BACKWARD_DATA",
    "OPERATION_POINTWISE",
    "OPERATION_GEN_STATS",
    "OPERATIONGRAPH",
    "VARIANT_PACK",
    "TENSOR",
    "MATMUL",
    "OPERATION_MATMUL",
    "OPERATION_BN_FINALIZE_STATISTICS",
    "REDUCTION",
    "OPERATION_REDUCTION",
    "OPERATION_BN_BWD_WEIGHTS",
    "RESAMPLE",
    "OPERATION_RESAMPLE_FWD",
    "OPERATION_RESAMPLE_BWD",
    "OPERATION_CONCAT",
    "OPERATION_SIGNAL",
    "OPERATION_NORM_FORWARD",
    "OPERATION_NORM_BACKWARD",
    "OPERATION_RESHAPE",
    "RNG",
    "OPERATION_RNG",
    "KERNEL_CACHE",
    "OPERATION_PAGED_CACHE_LOAD",
    "OPERATION_BLOCK_SCALE_QUANTIZE",
    "OPERATION_BLOCK_SCALE_DEQUANTIZE",
    "DEVICEPROP",
    "OPERATION_EXPAND_BAND_MATRIX",
    "OPERATION_CONTRACT_BAND_MATRIX",
    "OPERATION_SDPA_FWD",
    "OPERATION_MOE_GROUPED_MATMUL",
    "OPERATION_SDPA_BWD",
};

constexpr const char* kTypeTexts[] = {
    "GPUDNN_TYPE_HANDLE",
    "GPUDNN_TYPE_DATA_TYPE",
    "GPUDNN_TYPE_BOOLEAN",
    "GPUDNN_TYPE_INT64",
    "GPUDNN_TYPE_FLOAT",
    "GPUDNN_TYPE_DOUBLE",
    "GPUDNN_TYPE_VOID_PTR",
    "GPUDNN_TYPE_CONVOLUTION_MODE",
    "GPUDNN_TYPE_HEUR_MODE",
    "GPUDNN_TYPE_KNOB_TYPE",
    "GPUDNN_TYPE_NAN_PROPOGATION",
    "GPUDNN_TYPE_NUMERICAL_NOTE",
    "GPUDNN_TYPE_LAYOUT_TYPE",
    "GPUDNN_TYPE_ATTRIB_NAME",
    "GPUDNN_TYPE_POINTWISE_MODE",
    "GPUDNN_TYPE_BACKEND_DESCRIPTOR",
    "GPUDNN_TYPE_GENSTATS_MODE",
    "GPUDNN_TYPE_BN_FINALIZE_STATS_MODE",
    "GPUDNN_TYPE_REDUCTION_OPERATOR_TYPE",
    "GPUDNN_TYPE_BEHAVIOR_NOTE",
    "GPUDNN_TYPE_TENSOR_REORDERING_MODE",
    "GPUDNN_TYPE_RESAMPLE_MODE",
    "GPUDNN_TYPE_PADDING_MODE",
    "GPUDNN_TYPE_INT32",
    "GPUDNN_TYPE_CHAR",
    "GPUDNN_TYPE_SIGNAL_MODE",
    "GPUDNN_TYPE_FRACTION",
    "GPUDNN_TYPE_NORM_MODE",
    "GPUDNN_TYPE_NORM_FWD_PHASE",
    "GPUDNN_TYPE_RNG_DISTRIBUTION",
    "GPUDNN_TYPE_MOE_GROUPED_MATMUL_MODE",
};

// The modes of pointwise operations, whose values have gaps.
constexpr bool is_pointwise_mode(std::int64_t mode) {
  return (mode >= 0 && mode <= 23) || (mode >= 100 && mode <= 107) || (mode >= 200 && mode <= 207) ||
         (mode >= 300 && mode <= 305) || (mode >= 400 && mode <= 402) || mode == 501 || mode == 601;
}

// The greatest value of an enum without gaps; -1 for what is no enum.
constexpr std::int64_t greatest(AttributeType type) {
  switch (type) {
    case GPUDNN_TYPE_DATA_TYPE:
      return GPUDNN_DATA_COMPLEX_FP64;
    case GPUDNN_TYPE_CONVOLUTION_MODE:
    case GPUDNN_TYPE_NAN_PROPOGATION:
    case GPUDNN_TYPE_BN_FINALIZE_STATS_MODE:
    case GPUDNN_TYPE_SIGNAL_MODE:
    case GPUDNN_TYPE_NORM_FWD_PHASE:
      return 1;
    case GPUDNN_TYPE_HEUR_MODE:
      return GPUDNN_HEUR_MODES_COUNT - 1;
    case GPUDNN_TYPE_KNOB_TYPE:
      return GPUDNN_KNOB_TYPE_COUNTS - 1;
    case GPUDNN_TYPE_GENSTATS_MODE:
      return 0;
    case GPUDNN_TYPE_REDUCTION_OPERATOR_TYPE:
      return GPUDNN_REDUCE_TENSOR_MUL_NO_ZEROS;
    case GPUDNN_TYPE_TENSOR_REORDERING_MODE:
      return GPUDNN_TENSOR_REORDERING_F8_128x4;
    case GPUDNN_TYPE_RESAMPLE_MODE:
      return GPUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING;
    case GPUDNN_TYPE_PADDING_MODE:
    case GPUDNN_TYPE_RNG_DISTRIBUTION:
    case GPUDNN_TYPE_MOE_GROUPED_MATMUL_MODE:
      return 2;
    case GPUDNN_TYPE_NORM_MODE:
      return GPUDNN_ADA_LAYER_NORM;
    default:
      return -1;
  }
}

}  // namespace

std::span<const Attribute> attributes_of(int kind) noexcept {
  if (kind < 0 || kind >= kKinds) return {};
  const Range range = kRanges[static_cast<std::size_t>(kind)];
  return {kTable + range.first, static_cast<std::size_t>(range.count)};
}

int place_of(int kind, AttributeName name) noexcept {
  const std::span<const Attribute> rows = attributes_of(kind);
  // Most kinds' names are numbers in a row.
  const std::int64_t near = rows.empty() ? -1 : std::int64_t{name} - rows.front().name;
  if (near >= 0 && near < std::ssize(rows) && rows[static_cast<std::size_t>(near)].name == name)
    return static_cast<int>(near);
  const auto row = std::ranges::lower_bound(rows, name, {}, &Attribute::name);
  return row == rows.end() || row->name != name ? -1 : static_cast<int>(row - rows.begin());
}

const char* attribute_text(AttributeName name) noexcept {
  for (int kind = 0; kind < kKinds; ++kind) {
    const int place = place_of(kind, name);
    if (place >= 0) return attributes_of(kind)[static_cast<std::size_t>(place)].text;
  }
  return nullptr;
}

const char* kind_text(int kind) noexcept { return kind < 0 || kind >= kKinds ? nullptr : kKindTexts[kind]; }

const char* type_text(AttributeType type) noexcept {
  const auto i = static_cast<std::size_t>(type);
  return i < std::size(kTypeTexts) ? kTypeTexts[i] : "an unknown type";
}

bool is_enumerator(AttributeType type, std::int64_t value) noexcept {
  if (type == GPUDNN_TYPE_POINTWISE_MODE) return is_pointwise_mode(value);
  const std::int64_t most = greatest(type);
  return most < 0 || (value >= 0 && value <= most);
}

int type_size(AttributeType type) noexcept {
  switch (type) {
    case GPUDNN_TYPE_HANDLE:
    case GPUDNN_TYPE_INT64:
    case GPUDNN_TYPE_DOUBLE:
    case GPUDNN_TYPE_VOID_PTR:
    case GPUDNN_TYPE_BACKEND_DESCRIPTOR:
      return 8;
    case GPUDNN_TYPE_BOOLEAN:
    case GPUDNN_TYPE_CHAR:
      return 1;
    case GPUDNN_TYPE_FRACTION:
      return 16;
    default:
      return static_cast<std::size_t>(type) < std::size(kTypeTexts) ? 4 : 0;
  }
}

}  // namespace gpudnn::graph
