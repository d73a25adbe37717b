// The labels' names, for refusals.
// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "ops/fused_ops/plan.hpp"

namespace gpudnn::fused_ops {
namespace {

constexpr const char* kConstNames[] = {
    "GPUDNN_PARAM_XDESC",
    "GPUDNN_PARAM_XDATA_PLACEHOLDER",
    "GPUDNN_PARAM_BN_MODE",
    "GPUDNN_PARAM_BN_EQSCALEBIAS_DESC",
    "GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER",
    "GPUDNN_PARAM_BN_EQBIAS_PLACEHOLDER",
    "GPUDNN_PARAM_ACTIVATION_DESC",
    "GPUDNN_PARAM_CONV_DESC",
    "GPUDNN_PARAM_WDESC",
    "GPUDNN_PARAM_WDATA_PLACEHOLDER",
    "GPUDNN_PARAM_DWDESC",
    "GPUDNN_PARAM_DWDATA_PLACEHOLDER",
    "GPUDNN_PARAM_YDESC",
    "GPUDNN_PARAM_YDATA_PLACEHOLDER",
    "GPUDNN_PARAM_DYDESC",
    "GPUDNN_PARAM_DYDATA_PLACEHOLDER",
    "GPUDNN_PARAM_YSTATS_DESC",
    "GPUDNN_PARAM_YSUM_PLACEHOLDER",
    "GPUDNN_PARAM_YSQSUM_PLACEHOLDER",
    "GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC",
    "GPUDNN_PARAM_BN_SCALE_PLACEHOLDER",
    "GPUDNN_PARAM_BN_BIAS_PLACEHOLDER",
    "GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER",
    "GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER",
    "GPUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER",
    "GPUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER",
    "GPUDNN_PARAM_ZDESC",
    "GPUDNN_PARAM_ZDATA_PLACEHOLDER",
    "GPUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC",
    "GPUDNN_PARAM_BN_Z_EQSCALE_PLACEHOLDER",
    "GPUDNN_PARAM_BN_Z_EQBIAS_PLACEHOLDER",
    "GPUDNN_PARAM_ACTIVATION_BITMASK_DESC",
    "GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER",
    "GPUDNN_PARAM_DXDESC",
    "GPUDNN_PARAM_DXDATA_PLACEHOLDER",
    "GPUDNN_PARAM_DZDESC",
    "GPUDNN_PARAM_DZDATA_PLACEHOLDER",
    "GPUDNN_PARAM_BN_DSCALE_PLACEHOLDER",
    "GPUDNN_PARAM_BN_DBIAS_PLACEHOLDER",
};
static_assert(std::size(kConstNames) == kConstLabels);

constexpr const char* kPointerNames[] = {
    "GPUDNN_PTR_XDATA",           "GPUDNN_PTR_BN_EQSCALE",
    "GPUDNN_PTR_BN_EQBIAS",       "GPUDNN_PTR_WDATA",
    "GPUDNN_PTR_DWDATA",          "GPUDNN_PTR_YDATA",
    "GPUDNN_PTR_DYDATA",          "GPUDNN_PTR_YSUM",
    "GPUDNN_PTR_YSQSUM",          "GPUDNN_PTR_WORKSPACE",
    "GPUDNN_PTR_BN_SCALE",        "GPUDNN_PTR_BN_BIAS",
    "GPUDNN_PTR_BN_SAVED_MEAN",   "GPUDNN_PTR_BN_SAVED_INVSTD",
    "GPUDNN_PTR_BN_RUNNING_MEAN", "GPUDNN_PTR_BN_RUNNING_VAR",
    "GPUDNN_PTR_ZDATA",           "GPUDNN_PTR_BN_Z_EQSCALE",
    "GPUDNN_PTR_BN_Z_EQBIAS",     "GPUDNN_PTR_ACTIVATION_BITMASK",
    "GPUDNN_PTR_DXDATA",          "GPUDNN_PTR_DZDATA",
    "GPUDNN_PTR_BN_DSCALE",       "GPUDNN_PTR_BN_DBIAS",
};
static_assert(std::size(kPointerNames) == kPointerLabels);

constexpr const char* kPatternNames[] = {
    "scale_bias_activation_conv_bnstats", "scale_bias_activation_wgrad",    "bn_finalize_statistics_training",
    "bn_finalize_statistics_inference",   "conv_scale_bias_add_activation", "scale_bias_add_activation_gen_bitmask",
    "dactivation_fork_dbatchnorm",
};
static_assert(std::size(kPatternNames) == GPUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM + 1);

}  // namespace

const char* const_label_name(int label) noexcept { return kConstNames[label]; }
const char* pointer_label_name(int label) noexcept { return kPointerNames[label]; }
const char* pattern_name(gpudnnFusedOps_t ops) noexcept { return kPatternNames[static_cast<int>(ops)]; }

}  // namespace gpudnn::fused_ops
