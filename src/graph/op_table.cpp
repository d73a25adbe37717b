// What is known of each operation: its ports, its fields, and the attributes that set them.
// SPDX-License-Identifier: Apache-2.0
//
// Longer than most files: it is one table.
#include <algorithm>
#include <iterator>

#include "graph/graph.hpp"
#include "graph/kinds.hpp"

namespace gpudnn::graph {
namespace {

constexpr const char* kPortNames[] = {
    "x",
    "w",
    "y",
    "b",
    "t",
    "dx",
    "dw",
    "dy",
    "index",
    "m_override",
    "n_override",
    "k_override",
    "sum",
    "sqsum",
    "mean",
    "inverse",
    "scale",
    "bias",
    "epsilon",
    "factor",
    "running_mean_in",
    "running_var_in",
    "running_mean_out",
    "running_var_out",
    "eq_scale",
    "eq_bias",
    "count",
    "dscale",
    "dbias",
    "eq_dy_scale",
    "eq_x_scale",
    "seed",
    "offset",
    "q",
    "k",
    "v",
    "o",
    "stats",
    "block_mask",
    "page_table_k",
    "page_table_v",
    "seq_len_q",
    "seq_len_kv",
    "dq",
    "dk",
    "dv",
    "d_o",
    "page_table",
    "seq_len",
    "flag",
    "token_index",
    "token_ks",
    "token_offset",
    "kv_offset",
    "speculative_mask",
    "item",
};
static_assert(std::size(kPortNames) == static_cast<std::size_t>(Port::last));

// In the order of Op.
const std::vector<OpRow>& rows() {
  static const std::vector<OpRow> table = {
      {Op::conv_fwd,
       kOpConvForward,
       "conv_fwd",
       kConvolution,
       GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X},
           {Port::w, GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W},
           {Port::y, GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, true},
       },
       {
           {"compute", &Node::compute, GPUDNN_ATTR_CONVOLUTION_COMP_TYPE},
           {"mode", &Node::mode, GPUDNN_ATTR_CONVOLUTION_CONV_MODE},
           {"pre", &Node::pre, GPUDNN_ATTR_CONVOLUTION_PRE_PADDINGS},
           {"post", &Node::post, GPUDNN_ATTR_CONVOLUTION_POST_PADDINGS},
           {"stride", &Node::stride, GPUDNN_ATTR_CONVOLUTION_FILTER_STRIDES},
           {"dilation", &Node::dilation, GPUDNN_ATTR_CONVOLUTION_DILATIONS},
           {"alpha", &Node::alpha, GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA},
           {"beta", &Node::beta, GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA},
       }},
      {Op::conv_dgrad,
       kOpConvData,
       "conv_dgrad",
       kConvolution,
       GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
       {
           {Port::dy, GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY},
           {Port::w, GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W},
           {Port::dx, GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, true},
       },
       {
           {"compute", &Node::compute, GPUDNN_ATTR_CONVOLUTION_COMP_TYPE},
           {"mode", &Node::mode, GPUDNN_ATTR_CONVOLUTION_CONV_MODE},
           {"pre", &Node::pre, GPUDNN_ATTR_CONVOLUTION_PRE_PADDINGS},
           {"post", &Node::post, GPUDNN_ATTR_CONVOLUTION_POST_PADDINGS},
           {"stride", &Node::stride, GPUDNN_ATTR_CONVOLUTION_FILTER_STRIDES},
           {"dilation", &Node::dilation, GPUDNN_ATTR_CONVOLUTION_DILATIONS},
           {"alpha", &Node::alpha, GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA},
           {"beta", &Node::beta, GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA},
       }},
      {Op::conv_wgrad,
       kOpConvFilter,
       "conv_wgrad",
       kConvolution,
       GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X},
           {Port::dy, GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY},
           {Port::dw, GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, true},
       },
       {
           {"compute", &Node::compute, GPUDNN_ATTR_CONVOLUTION_COMP_TYPE},
           {"mode", &Node::mode, GPUDNN_ATTR_CONVOLUTION_CONV_MODE},
           {"pre", &Node::pre, GPUDNN_ATTR_CONVOLUTION_PRE_PADDINGS},
           {"post", &Node::post, GPUDNN_ATTR_CONVOLUTION_POST_PADDINGS},
           {"stride", &Node::stride, GPUDNN_ATTR_CONVOLUTION_FILTER_STRIDES},
           {"dilation", &Node::dilation, GPUDNN_ATTR_CONVOLUTION_DILATIONS},
           {"alpha", &Node::alpha, GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA},
           {"beta", &Node::beta, GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA},
       }},
      {Op::pointwise,
       kOpPointwise,
       "pointwise",
       kPointwise,
       GPUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_POINTWISE_XDESC},
           {Port::b, GPUDNN_ATTR_OPERATION_POINTWISE_BDESC},
           {Port::t, GPUDNN_ATTR_OPERATION_POINTWISE_TDESC},
           {Port::dy, GPUDNN_ATTR_OPERATION_POINTWISE_DYDESC},
           {Port::y, GPUDNN_ATTR_OPERATION_POINTWISE_YDESC, true},
           {Port::dx, GPUDNN_ATTR_OPERATION_POINTWISE_DXDESC, true},
       },
       {
           {"mode", &Node::mode, GPUDNN_ATTR_POINTWISE_MODE},
           {"compute", &Node::compute, GPUDNN_ATTR_POINTWISE_MATH_PREC},
           {"nan", &Node::nan, GPUDNN_ATTR_POINTWISE_NAN_PROPAGATION},
           {"lower_clip", &Node::lower_clip, GPUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP},
           {"upper_clip", &Node::upper_clip, GPUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP},
           {"slope", &Node::slope, GPUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE},
           {"elu_alpha", &Node::elu_alpha, GPUDNN_ATTR_POINTWISE_ELU_ALPHA},
           {"softplus_beta", &Node::softplus_beta, GPUDNN_ATTR_POINTWISE_SOFTPLUS_BETA},
           {"swish_beta", &Node::swish_beta, GPUDNN_ATTR_POINTWISE_SWISH_BETA},
           {"axis", &Node::axis, GPUDNN_ATTR_POINTWISE_AXIS},
           {"alpha1", &Node::alpha, GPUDNN_ATTR_OPERATION_POINTWISE_ALPHA1},
           {"alpha2", &Node::alpha2, GPUDNN_ATTR_OPERATION_POINTWISE_ALPHA2},
       }},
      {Op::gen_stats,
       kOpGenStats,
       "gen_stats",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_GENSTATS_XDESC},
           {Port::sum, GPUDNN_ATTR_OPERATION_GENSTATS_SUMDESC, true},
           {Port::sqsum, GPUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC, true},
       },
       {
           {"mode", &Node::mode, GPUDNN_ATTR_OPERATION_GENSTATS_MODE},
       }},
      {Op::matmul,
       kOpMatmul,
       "matmul",
       kMatmul,
       GPUDNN_ATTR_OPERATION_MATMUL_DESC,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_MATMUL_ADESC},
           {Port::b, GPUDNN_ATTR_OPERATION_MATMUL_BDESC},
           {Port::y, GPUDNN_ATTR_OPERATION_MATMUL_CDESC, true},
           {Port::m_override, GPUDNN_ATTR_OPERATION_MATMUL_GEMM_M_OVERRIDE_DESC},
           {Port::n_override, GPUDNN_ATTR_OPERATION_MATMUL_GEMM_N_OVERRIDE_DESC},
           {Port::k_override, GPUDNN_ATTR_OPERATION_MATMUL_GEMM_K_OVERRIDE_DESC},
       },
       {
           {"compute", &Node::compute, GPUDNN_ATTR_MATMUL_COMP_TYPE},
           {"padding_value", &Node::padding_value, GPUDNN_ATTR_MATMUL_PADDING_VALUE},
       }},
      {Op::bn_finalize,
       kOpBnFinalize,
       "bn_finalize",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::sum, GPUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SUM_DESC},
           {Port::sqsum, GPUDNN_ATTR_OPERATION_BN_FINALIZE_Y_SQ_SUM_DESC},
           {Port::scale, GPUDNN_ATTR_OPERATION_BN_FINALIZE_SCALE_DESC},
           {Port::bias, GPUDNN_ATTR_OPERATION_BN_FINALIZE_BIAS_DESC},
           {Port::running_mean_in, GPUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_MEAN_DESC},
           {Port::running_var_in, GPUDNN_ATTR_OPERATION_BN_FINALIZE_PREV_RUNNING_VAR_DESC},
           {Port::count, GPUDNN_ATTR_OPERATION_BN_FINALIZE_ACCUM_COUNT_DESC},
           {Port::epsilon, GPUDNN_ATTR_OPERATION_BN_FINALIZE_EPSILON_DESC},
           {Port::factor, GPUDNN_ATTR_OPERATION_BN_FINALIZE_EXP_AVERATE_FACTOR_DESC},
           {Port::running_mean_out, GPUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_MEAN_DESC, true},
           {Port::running_var_out, GPUDNN_ATTR_OPERATION_BN_FINALIZE_UPDATED_RUNNING_VAR_DESC, true},
           {Port::mean, GPUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_MEAN_DESC, true},
           {Port::inverse, GPUDNN_ATTR_OPERATION_BN_FINALIZE_SAVED_INV_STD_DESC, true},
           {Port::eq_scale, GPUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_SCALE_DESC, true},
           {Port::eq_bias, GPUDNN_ATTR_OPERATION_BN_FINALIZE_EQ_BIAS_DESC, true},
       },
       {
           {"mode", &Node::mode, GPUDNN_ATTR_OPERATION_BN_FINALIZE_STATS_MODE},
           {"compute", &Node::compute, GPUDNN_ATTR_OPERATION_BN_FINALIZE_MATH_PREC},
       }},
      {Op::reduction,
       kOpReduction,
       "reduction",
       kReduction,
       GPUDNN_ATTR_OPERATION_REDUCTION_DESC,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_REDUCTION_XDESC},
           {Port::y, GPUDNN_ATTR_OPERATION_REDUCTION_YDESC, true},
       },
       {
           {"mode", &Node::mode, GPUDNN_ATTR_REDUCTION_OPERATOR},
           {"compute", &Node::compute, GPUDNN_ATTR_REDUCTION_COMP_TYPE},
           {"deterministic", &Node::deterministic, GPUDNN_ATTR_REDUCTION_IS_DETERMINISTIC},
       }},
      {Op::bn_weights,
       kOpBnWeights,
       "bn_weights",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::mean, GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MEAN_DESC},
           {Port::inverse, GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_INVSTD_DESC},
           {Port::scale, GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_BN_SCALE_DESC},
           {Port::x, GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_X_DESC},
           {Port::dy, GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DY_DESC},
           {Port::dscale, GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_SCALE_DESC, true},
           {Port::dbias, GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_DBN_BIAS_DESC, true},
           {Port::eq_dy_scale, GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_DY_SCALE_DESC, true},
           {Port::eq_x_scale, GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_X_SCALE_DESC, true},
           {Port::eq_bias, GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_EQ_BIAS, true},
       },
       {
           {"compute", &Node::compute, GPUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_MATH_PREC},
       }},
      {Op::resample_fwd,
       kOpResampleForward,
       "resample_fwd",
       kResample,
       GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC},
           {Port::y, GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, true},
           {Port::index, GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_IDXDESC, true},
       },
       {
           {"mode", &Node::mode, GPUDNN_ATTR_RESAMPLE_MODE},
           {"compute", &Node::compute, GPUDNN_ATTR_RESAMPLE_COMP_TYPE},
           {"nan", &Node::nan, GPUDNN_ATTR_RESAMPLE_NAN_PROPAGATION},
           {"padding_mode", &Node::padding_mode, GPUDNN_ATTR_RESAMPLE_PADDING_MODE},
           {"pre", &Node::pre, GPUDNN_ATTR_RESAMPLE_PRE_PADDINGS},
           {"post", &Node::post, GPUDNN_ATTR_RESAMPLE_POST_PADDINGS},
           {"stride", &Node::stride, GPUDNN_ATTR_RESAMPLE_STRIDES},
           {"window", &Node::window, GPUDNN_ATTR_RESAMPLE_WINDOW_DIMS},
           {"alpha", &Node::alpha, GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA},
           {"beta", &Node::beta, GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_BETA},
       }},
      {Op::resample_bwd,
       kOpResampleBackward,
       "resample_bwd",
       kResample,
       GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC,
       {
           {Port::dy, GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC},
           {Port::x, GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC},
           {Port::y, GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC},
           {Port::index, GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_IDXDESC},
           {Port::dx, GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, true},
       },
       {
           {"mode", &Node::mode, GPUDNN_ATTR_RESAMPLE_MODE},
           {"compute", &Node::compute, GPUDNN_ATTR_RESAMPLE_COMP_TYPE},
           {"nan", &Node::nan, GPUDNN_ATTR_RESAMPLE_NAN_PROPAGATION},
           {"padding_mode", &Node::padding_mode, GPUDNN_ATTR_RESAMPLE_PADDING_MODE},
           {"pre", &Node::pre, GPUDNN_ATTR_RESAMPLE_PRE_PADDINGS},
           {"post", &Node::post, GPUDNN_ATTR_RESAMPLE_POST_PADDINGS},
           {"stride", &Node::stride, GPUDNN_ATTR_RESAMPLE_STRIDES},
           {"window", &Node::window, GPUDNN_ATTR_RESAMPLE_WINDOW_DIMS},
           {"alpha", &Node::alpha, GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA},
           {"beta", &Node::beta, GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_BETA},
       }},
      {Op::concat,
       kOpConcat,
       "concat",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::item, GPUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS},
           {Port::y, GPUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC, true},
       },
       {
           {"axis", &Node::axis, GPUDNN_ATTR_OPERATION_CONCAT_AXIS},
           {"inplace", &Node::inplace, GPUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX},
       }},
      {Op::signal,
       kOpSignal,
       "signal",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::flag, GPUDNN_ATTR_OPERATION_SIGNAL_FLAGDESC},
           {Port::x, GPUDNN_ATTR_OPERATION_SIGNAL_XDESC},
           {Port::y, GPUDNN_ATTR_OPERATION_SIGNAL_YDESC, true},
       },
       {
           {"mode", &Node::mode, GPUDNN_ATTR_OPERATION_SIGNAL_MODE},
           {"value", &Node::value, GPUDNN_ATTR_OPERATION_SIGNAL_VALUE},
       }},
      {Op::norm_fwd,
       kOpNormForward,
       "norm_fwd",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_NORM_FWD_XDESC},
           {Port::scale, GPUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC},
           {Port::bias, GPUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC},
           {Port::epsilon, GPUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC},
           {Port::factor, GPUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC},
           {Port::running_mean_in, GPUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC},
           {Port::running_var_in, GPUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC},
           {Port::item, GPUDNN_ATTR_OPERATION_NORM_FWD_PEER_STAT_DESCS},
           {Port::mean, GPUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, true},
           {Port::inverse, GPUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, true},
           {Port::running_mean_out, GPUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, true},
           {Port::running_var_out, GPUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, true},
           {Port::y, GPUDNN_ATTR_OPERATION_NORM_FWD_YDESC, true},
       },
       {
           {"mode", &Node::mode, GPUDNN_ATTR_OPERATION_NORM_FWD_MODE},
           {"phase", &Node::phase, GPUDNN_ATTR_OPERATION_NORM_FWD_PHASE},
       }},
      {Op::norm_bwd,
       kOpNormBackward,
       "norm_bwd",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_NORM_BWD_XDESC},
           {Port::dy, GPUDNN_ATTR_OPERATION_NORM_BWD_DYDESC},
           {Port::mean, GPUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC},
           {Port::inverse, GPUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC},
           {Port::scale, GPUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC},
           {Port::epsilon, GPUDNN_ATTR_OPERATION_NORM_BWD_EPSILON_DESC},
           {Port::item, GPUDNN_ATTR_OPERATION_NORM_BWD_PEER_STAT_DESCS},
           {Port::dx, GPUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, true},
           {Port::dscale, GPUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, true},
           {Port::dbias, GPUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, true},
       },
       {
           {"mode", &Node::mode, GPUDNN_ATTR_OPERATION_NORM_BWD_MODE},
       }},
      {Op::reshape,
       kOpReshape,
       "reshape",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_RESHAPE_XDESC},
           {Port::y, GPUDNN_ATTR_OPERATION_RESHAPE_YDESC, true},
       },
       {

       }},
      {Op::rng,
       kOpRng,
       "rng",
       kRng,
       GPUDNN_ATTR_OPERATION_RNG_DESC,
       {
           {Port::seed, GPUDNN_ATTR_OPERATION_RNG_SEED},
           {Port::offset, GPUDNN_ATTR_OPERATION_RNG_OFFSET_DESC},
           {Port::y, GPUDNN_ATTR_OPERATION_RNG_YDESC, true},
       },
       {
           {"mode", &Node::mode, GPUDNN_ATTR_RNG_DISTRIBUTION},
           {"mean", &Node::rng_mean, GPUDNN_ATTR_RNG_NORMAL_DIST_MEAN},
           {"deviation", &Node::rng_deviation, GPUDNN_ATTR_RNG_NORMAL_DIST_STANDARD_DEVIATION},
           {"most", &Node::rng_most, GPUDNN_ATTR_RNG_UNIFORM_DIST_MAXIMUM},
           {"least", &Node::rng_least, GPUDNN_ATTR_RNG_UNIFORM_DIST_MINIMUM},
           {"probability", &Node::probability, GPUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY},
           {"number", &Node::value, GPUDNN_ATTR_OPERATION_RNG_SEED},
       }},
      {Op::paged_load,
       kOpPagedLoad,
       "paged_load",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_CONTAINER_DESC},
           {Port::page_table, GPUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_PAGE_TABLE_DESC},
           {Port::seq_len, GPUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_SEQUENCE_DESC},
           {Port::y, GPUDNN_ATTR_OPERATION_PAGED_CACHE_LOAD_YDESC, true},
       },
       {

       }},
      {Op::quantize,
       kOpQuantize,
       "quantize",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_XDESC},
           {Port::y, GPUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_YDESC, true},
           {Port::scale, GPUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_SCALE_DESC, true},
       },
       {
           {"compute", &Node::compute, GPUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_MATH_PREC},
           {"block", &Node::block, GPUDNN_ATTR_OPERATION_BLOCK_SCALE_QUANTIZE_BLOCK_SIZE},
       }},
      {Op::dequantize,
       kOpDequantize,
       "dequantize",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_XDESC},
           {Port::scale, GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_SCALE_DESC},
           {Port::y, GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_YDESC, true},
       },
       {
           {"compute", &Node::compute, GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_MATH_PREC},
           {"block", &Node::block, GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_BLOCK_SIZE},
           {"negate_scale", &Node::negate_scale, GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_NEG_SCALE},
       }},
      {Op::expand_band,
       kOpExpandBand,
       "expand_band",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_XDESC},
           {Port::kv_offset, GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_KV_TOKEN_OFFSET_DESC},
           {Port::speculative_mask, GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_SPECULATIVE_MASK_DESC},
           {Port::y, GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_YDESC, true},
       },
       {
           {"lower", &Node::lower, GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_LOWER_BANDWIDTH},
           {"upper", &Node::upper, GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_UPPER_BANDWIDTH},
           {"axis", &Node::axis, GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_AXIS},
           {"padding_value", &Node::padding_value, GPUDNN_ATTR_OPERATION_EXPAND_BAND_MATRIX_PAD_VALUE},
       }},
      {Op::contract_band,
       kOpContractBand,
       "contract_band",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_XDESC},
           {Port::y, GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_YDESC, true},
       },
       {
           {"lower", &Node::lower, GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_LOWER_BANDWIDTH},
           {"upper", &Node::upper, GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_UPPER_BANDWIDTH},
           {"axis", &Node::axis, GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_AXIS},
           {"padding_value", &Node::padding_value, GPUDNN_ATTR_OPERATION_CONTRACT_BAND_MATRIX_PAD_VALUE},
       }},
      {Op::sdpa_fwd,
       kOpSdpaForward,
       "sdpa_fwd",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::q, GPUDNN_ATTR_OPERATION_SDPA_FWD_QDESC},
           {Port::k, GPUDNN_ATTR_OPERATION_SDPA_FWD_KDESC},
           {Port::v, GPUDNN_ATTR_OPERATION_SDPA_FWD_VDESC},
           {Port::scale, GPUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC},
           {Port::block_mask, GPUDNN_ATTR_OPERATION_SDPA_FWD_BLOCK_MASK_DESC},
           {Port::page_table_k, GPUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_KDESC},
           {Port::page_table_v, GPUDNN_ATTR_OPERATION_SDPA_FWD_PAGE_TABLE_VDESC},
           {Port::seq_len_q, GPUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC},
           {Port::seq_len_kv, GPUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC},
           {Port::o, GPUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, true},
           {Port::stats, GPUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, true},
       },
       {

       }},
      {Op::moe,
       kOpMoe,
       "moe",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::x, GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_DESC},
           {Port::w, GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_WEIGHT_DESC},
           {Port::token_offset, GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_FIRST_TOKEN_OFFSET_DESC},
           {Port::token_index, GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_INDEX_DESC},
           {Port::token_ks, GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOKEN_KS_DESC},
           {Port::y, GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_OUTPUT_DESC, true},
       },
       {
           {"mode", &Node::mode, GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MODE},
           {"compute", &Node::compute, GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_MATH_PREC},
           {"top_k", &Node::top_k, GPUDNN_ATTR_OPERATION_MOE_GROUPED_MATMUL_TOP_K},
       }},
      {Op::sdpa_bwd,
       kOpSdpaBackward,
       "sdpa_bwd",
       -1,
       GPUDNN_ATTR_POINTWISE_MODE,
       {
           {Port::q, GPUDNN_ATTR_OPERATION_SDPA_BWD_QDESC},
           {Port::k, GPUDNN_ATTR_OPERATION_SDPA_BWD_KDESC},
           {Port::v, GPUDNN_ATTR_OPERATION_SDPA_BWD_VDESC},
           {Port::o, GPUDNN_ATTR_OPERATION_SDPA_BWD_ODESC},
           {Port::stats, GPUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC},
           {Port::d_o, GPUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC},
           {Port::scale, GPUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC},
           {Port::seq_len_q, GPUDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_QDESC},
           {Port::seq_len_kv, GPUDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_KVDESC},
           {Port::dq, GPUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, true},
           {Port::dk, GPUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC, true},
           {Port::dv, GPUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC, true},
       },
       {

       }},
  };
  return table;
}

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

const char* port_name(Port port) noexcept { return kPortNames[static_cast<std::size_t>(port)]; }

const OpRow& row_of(Op op) { return rows()[static_cast<std::size_t>(op)]; }

const OpRow* row_of_kind(int kind) {
  static const std::array<std::int8_t, kKinds> places = [] {
    std::array<std::int8_t, kKinds> of{};
    of.fill(-1);
    for (std::size_t i = 0; i < rows().size(); ++i)
      of[static_cast<std::size_t>(rows()[i].kind)] = static_cast<std::int8_t>(i);
    return of;
  }();
  const int place = kind < 0 || kind >= kKinds ? -1 : places[static_cast<std::size_t>(kind)];
  return place < 0 ? nullptr : &rows()[static_cast<std::size_t>(place)];
}

bool is_output(const Node& node, Port port) {
  if (node.op == Op::norm_fwd && node.phase == GPUDNN_NORM_FWD_INFERENCE &&
      (port == Port::mean || port == Port::inverse))
    return false;
  if (node.op == Op::pointwise && port == Port::y && node.at(Port::dx) >= 0) return false;
  for (const PortRow& row : row_of(node.op).ports)
    if (row.port == port) return row.output;
  return false;
}

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

int Node::at(Port port) const noexcept {
  for (const Link& link : links)
    if (link.port == port) return link.tensor;
  return -1;
}

int Graph::find(std::int64_t uid) const noexcept {
  const auto found = std::find_if(tensors.begin(), tensors.end(), [uid](const Tensor& t) { return t.uid == uid; });
  return found == tensors.end() ? -1 : static_cast<int>(found - tensors.begin());
}

}  // namespace gpudnn::graph
