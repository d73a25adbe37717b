// Taking the entries of a const pack, each with its checks, while a plan is made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/fused_ops/plan.hpp"

namespace gpudnn::fused_ops {

struct Maker {
  gpudnnHandle_t handle;
  const ConstPack& pack;
  Plan* plan;

  [[nodiscard]] bool is_promised(int placeholder) const { return pack.placeholders[placeholder] != GPUDNN_PTR_NULL; }
};

// How the packs name a tensor or a vector: its shape, how it is promised, its pointer.
struct Entry {
  gpudnnFusedOpsConstParamLabel_t desc;
  gpudnnFusedOpsConstParamLabel_t placeholder;
  gpudnnFusedOpsVariantParamLabel_t label;
};
constexpr Entry kX = {GPUDNN_PARAM_XDESC, GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA};
constexpr Entry kW = {GPUDNN_PARAM_WDESC, GPUDNN_PARAM_WDATA_PLACEHOLDER, GPUDNN_PTR_WDATA};
constexpr Entry kDw = {GPUDNN_PARAM_DWDESC, GPUDNN_PARAM_DWDATA_PLACEHOLDER, GPUDNN_PTR_DWDATA};
constexpr Entry kY = {GPUDNN_PARAM_YDESC, GPUDNN_PARAM_YDATA_PLACEHOLDER, GPUDNN_PTR_YDATA};
constexpr Entry kDy = {GPUDNN_PARAM_DYDESC, GPUDNN_PARAM_DYDATA_PLACEHOLDER, GPUDNN_PTR_DYDATA};
constexpr Entry kDx = {GPUDNN_PARAM_DXDESC, GPUDNN_PARAM_DXDATA_PLACEHOLDER, GPUDNN_PTR_DXDATA};
constexpr Entry kZ = {GPUDNN_PARAM_ZDESC, GPUDNN_PARAM_ZDATA_PLACEHOLDER, GPUDNN_PTR_ZDATA};
constexpr Entry kDz = {GPUDNN_PARAM_DZDESC, GPUDNN_PARAM_DZDATA_PLACEHOLDER, GPUDNN_PTR_DZDATA};
constexpr Entry kBits = {GPUDNN_PARAM_ACTIVATION_BITMASK_DESC, GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER,
                         GPUDNN_PTR_ACTIVATION_BITMASK};
constexpr Entry kYSum = {GPUDNN_PARAM_YSTATS_DESC, GPUDNN_PARAM_YSUM_PLACEHOLDER, GPUDNN_PTR_YSUM};
constexpr Entry kYSquares = {GPUDNN_PARAM_YSTATS_DESC, GPUDNN_PARAM_YSQSUM_PLACEHOLDER, GPUDNN_PTR_YSQSUM};
constexpr Entry parameter_entry(gpudnnFusedOpsConstParamLabel_t placeholder, gpudnnFusedOpsVariantParamLabel_t label) {
  return {GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, placeholder, label};
}
// The vectors of the element-wise stage, in the order of VectorIndex.
constexpr Entry kAffineEntries[kVectors] = {
    {GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, GPUDNN_PTR_BN_EQSCALE},
    {GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, GPUDNN_PTR_BN_EQBIAS},
    {GPUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_Z_EQSCALE_PLACEHOLDER, GPUDNN_PTR_BN_Z_EQSCALE},
    {GPUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_Z_EQBIAS_PLACEHOLDER, GPUDNN_PTR_BN_Z_EQBIAS}};
// Those of the statistics' last step, in the order of FinalizeVector.
constexpr Entry kFinalizeEntries[kFinalizeVectors] = {
    kYSum,
    kYSquares,
    parameter_entry(GPUDNN_PARAM_BN_SCALE_PLACEHOLDER, GPUDNN_PTR_BN_SCALE),
    parameter_entry(GPUDNN_PARAM_BN_BIAS_PLACEHOLDER, GPUDNN_PTR_BN_BIAS),
    parameter_entry(GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_MEAN),
    parameter_entry(GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_INVSTD),
    parameter_entry(GPUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER, GPUDNN_PTR_BN_RUNNING_MEAN),
    parameter_entry(GPUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER, GPUDNN_PTR_BN_RUNNING_VAR),
    kAffineEntries[kScale],
    kAffineEntries[kBias]};

// The entry was set.
[[nodiscard]] Status require_desc(const Maker& m, int label, const TensorGeometry** tensor);
// The pointer will be there; both or neither will.
[[nodiscard]] Status require_promised(const Maker& m, int placeholder);
[[nodiscard]] Status check_pair(const Maker& m, int first, int second);
[[nodiscard]] Status check_mode(const Maker& m);

// Notes a pointer that the pattern uses if there is one.
void note_pointer(Maker* m, const Entry& entry, DataType type);
// A tensor (or filter) that the pattern cannot do without: its descriptor and its pointer.
[[nodiscard]] Status take_tensor(Maker* m, const Entry& entry, TensorGeometry* out);
// A vector of one value for each of `channels` channels; absent where its placeholder says so.
[[nodiscard]] Status take_vector(Maker* m, const Entry& entry, std::int64_t channels, bool data_is_double,
                                 ChannelVector* out);
// The bits of an activation on y, if they are promised.
[[nodiscard]] Status take_bits(Maker* m, const TensorGeometry& y);

// The element-wise stage on tensors like y: scale and bias, the addend with its own, the activation.
[[nodiscard]] Status take_scale_and_bias(Maker* m, const TensorGeometry& y);
[[nodiscard]] Status take_addend(Maker* m, const TensorGeometry& y);
void take_activation(Maker* m);

// A tensor of the same dims that holds every element once: laid out likewise if that leaves no gaps.
[[nodiscard]] TensorGeometry dense_like(TensorGeometry tensor);
// Room in the workspace.
void reserve(Plan* plan, std::size_t bytes, Room* room);

// Patterns without a convolution (patterns.cpp).
[[nodiscard]] Status plan_bitmask(Maker* m);
[[nodiscard]] Status plan_batch_norm_gradient(Maker* m);
[[nodiscard]] Status plan_finalize(Maker* m, bool training);

}  // namespace gpudnn::fused_ops
