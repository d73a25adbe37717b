// What is known of each operation: its ports, its fields, and the attributes that set them.
// SPDX-License-Identifier: Apache-2.0
//
// Longer than most files: it is one table.
#include <algorithm>
#include <iterator>
#include <utility>

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

TensorGeometry reshaped(const Tensor& x, const Tensor& y) {
  const int rank = x.geometry.rank;
  if (!x.is_virtual || rank < 2) return x.geometry;
  const TensorGeometry packed = packed_tensor(x.geometry.type, GPUDNN_TENSOR_NCHW, rank, x.geometry.dims);
  TensorGeometry exchanged = packed;
  std::swap(exchanged.dims[rank - 2], exchanged.dims[rank - 1]);
  std::swap(exchanged.strides[rank - 2], exchanged.strides[rank - 1]);
  return same_layout(exchanged, y.geometry) ? packed : x.geometry;
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
