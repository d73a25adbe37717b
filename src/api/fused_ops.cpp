// Fused operation plans: const packs, variant packs, and the plans that join them.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>

#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/fused_ops/plan.hpp"

using namespace gpudnn;

struct gpudnnFusedOpsConstParamStruct : Object {
  gpudnnFusedOpsConstParamStruct() : Object{Kind::fused_const_pack} {}
  fused_ops::ConstPack pack;
  gpudnnTensorFormat_t filter_format = GPUDNN_TENSOR_NCHW;
  // The descriptors that were set, to be read back.
  gpudnnConvolutionStruct conv;
  gpudnnActivationStruct activation;
};

struct gpudnnFusedOpsVariantParamStruct : Object {
  gpudnnFusedOpsVariantParamStruct() : Object{Kind::fused_variant_pack} {}
  fused_ops::VariantPack pack;
};

struct gpudnnFusedOpsPlanStruct : Object {
  gpudnnFusedOpsPlanStruct() : Object{Kind::fused_plan} {}
  gpudnnFusedOps_t ops = GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS;
  std::shared_ptr<const fused_ops::Plan> plan;  // null until it is made
};

namespace {

enum class Entry : std::int32_t { tensor, filter, conv, activation, mode, placeholder };

Entry entry_of(gpudnnFusedOpsConstParamLabel_t label) {
  switch (label) {
    case GPUDNN_PARAM_XDESC:
    case GPUDNN_PARAM_BN_EQSCALEBIAS_DESC:
    case GPUDNN_PARAM_YDESC:
    case GPUDNN_PARAM_DYDESC:
    case GPUDNN_PARAM_YSTATS_DESC:
    case GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC:
    case GPUDNN_PARAM_ZDESC:
    case GPUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC:
    case GPUDNN_PARAM_ACTIVATION_BITMASK_DESC:
    case GPUDNN_PARAM_DXDESC:
    case GPUDNN_PARAM_DZDESC:
      return Entry::tensor;
    case GPUDNN_PARAM_WDESC:
    case GPUDNN_PARAM_DWDESC:
      return Entry::filter;
    case GPUDNN_PARAM_CONV_DESC:
      return Entry::conv;
    case GPUDNN_PARAM_ACTIVATION_DESC:
      return Entry::activation;
    case GPUDNN_PARAM_BN_MODE:
      return Entry::mode;
    default:
      return Entry::placeholder;
  }
}

Status check_pattern(gpudnnFusedOps_t ops) {
  return check_enum(ops, GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS, GPUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM,
                    "ops");
}
Status check_label(gpudnnFusedOpsConstParamLabel_t label) {
  return check_enum(label, 0, fused_ops::kConstLabels - 1, "paramLabel");
}

// Setting null takes an entry back.
Status clear_entry(gpudnnFusedOpsConstParamPack_t pack, gpudnnFusedOpsConstParamLabel_t label) {
  fused_ops::ConstPack& entries = pack->pack;
  entries.set[label] = false;
  entries.placeholders[label] = GPUDNN_PTR_NULL;
  if (label == GPUDNN_PARAM_ACTIVATION_DESC) entries.activation = GPUDNN_ACTIVATION_IDENTITY;
  if (label == GPUDNN_PARAM_BN_MODE) entries.mode = GPUDNN_BATCHNORM_SPATIAL;
  return GPUDNN_STATUS_SUCCESS;
}

Status set_conv(gpudnnFusedOpsConstParamPack_t pack, const gpudnnConvolutionStruct* convDesc) {
  GPUDNN_CHECK_OBJECT(convDesc, Kind::convolution);
  GPUDNN_REQUIRE(
      convDesc->spatial > 0, GPUDNN_STATUS_BAD_PARAM,
      "convDesc was created but never set; call gpudnnSetConvolution2dDescriptor or gpudnnSetConvolutionNdDescriptor");
  GPUDNN_REQUIRE(convDesc->spatial <= conv::kMaxSpatial, GPUDNN_STATUS_NOT_SUPPORTED,
                 "convDesc has %d spatial dimensions; convolution is built for 1 to %d", convDesc->spatial,
                 conv::kMaxSpatial);
  pack->conv = *convDesc;
  conv::Problem& problem = pack->pack.conv;
  problem = {};
  problem.spatial = convDesc->spatial;
  problem.groups = convDesc->groups;
  problem.mode = convDesc->mode;
  problem.compute = convDesc->compute;
  problem.math = convDesc->math;
  std::copy_n(convDesc->pad, problem.spatial, problem.pad);
  std::copy_n(convDesc->stride, problem.spatial, problem.stride);
  std::copy_n(convDesc->dilation, problem.spatial, problem.dilation);
  return GPUDNN_STATUS_SUCCESS;
}

Status set_activation(gpudnnFusedOpsConstParamPack_t pack, const gpudnnActivationStruct* activationDesc) {
  GPUDNN_CHECK_OBJECT(activationDesc, Kind::activation);
  GPUDNN_REQUIRE(activationDesc->set, GPUDNN_STATUS_BAD_PARAM,
                 "activationDesc was created but never set; call gpudnnSetActivationDescriptor");
  pack->activation = *activationDesc;
  pack->pack.activation = activationDesc->mode;
  pack->pack.nan = activationDesc->nan;
  pack->pack.coef = activationDesc->coef;
  return GPUDNN_STATUS_SUCCESS;
}

Status set_entry(gpudnnFusedOpsConstParamPack_t pack, gpudnnFusedOpsConstParamLabel_t label, const void* param) {
  fused_ops::ConstPack& entries = pack->pack;
  switch (entry_of(label)) {
    case Entry::tensor: {
      auto* const desc = static_cast<gpudnnTensorDescriptor_t>(const_cast<void*>(param));
      GPUDNN_TRY(check_tensor(desc, fused_ops::const_label_name(label)));
      entries.tensors[label] = desc->geometry;
      return GPUDNN_STATUS_SUCCESS;
    }
    case Entry::filter: {
      auto* const desc = static_cast<gpudnnFilterDescriptor_t>(const_cast<void*>(param));
      GPUDNN_TRY(check_filter(desc, fused_ops::const_label_name(label)));
      entries.tensors[label] = desc->geometry;
      pack->filter_format = desc->format;
      return GPUDNN_STATUS_SUCCESS;
    }
    case Entry::conv:
      return set_conv(pack, static_cast<const gpudnnConvolutionStruct*>(param));
    case Entry::activation:
      return set_activation(pack, static_cast<const gpudnnActivationStruct*>(param));
    case Entry::mode: {
      const auto mode = *static_cast<const gpudnnBatchNormMode_t*>(param);
      GPUDNN_TRY(check_enum(mode, GPUDNN_BATCHNORM_PER_ACTIVATION, GPUDNN_BATCHNORM_SPATIAL_PERSISTENT, "*param"));
      entries.mode = mode;
      return GPUDNN_STATUS_SUCCESS;
    }
    case Entry::placeholder: {
      const auto placeholder = *static_cast<const gpudnnFusedOpsPointerPlaceHolder_t*>(param);
      GPUDNN_TRY(check_enum(placeholder, GPUDNN_PTR_NULL, GPUDNN_PTR_16B_ALIGNED, "*param"));
      entries.placeholders[label] = placeholder;
      return GPUDNN_STATUS_SUCCESS;
    }
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status get_entry(gpudnnFusedOpsConstParamPack_t pack, gpudnnFusedOpsConstParamLabel_t label, void* param) {
  const fused_ops::ConstPack& entries = pack->pack;
  const char* const name = "param";
  switch (entry_of(label)) {
    case Entry::tensor: {
      auto* const desc = static_cast<gpudnnTensorDescriptor_t>(param);
      GPUDNN_TRY(check_object(desc, Kind::tensor, name));
      desc->geometry = entries.tensors[label];
      break;
    }
    case Entry::filter: {
      auto* const desc = static_cast<gpudnnFilterDescriptor_t>(param);
      GPUDNN_TRY(check_object(desc, Kind::filter, name));
      desc->geometry = entries.tensors[label];
      desc->format = pack->filter_format;
      break;
    }
    case Entry::conv: {
      auto* const desc = static_cast<gpudnnConvolutionDescriptor_t>(param);
      GPUDNN_TRY(check_object(desc, Kind::convolution, name));
      *desc = pack->conv;
      break;
    }
    case Entry::activation: {
      auto* const desc = static_cast<gpudnnActivationDescriptor_t>(param);
      GPUDNN_TRY(check_object(desc, Kind::activation, name));
      *desc = pack->activation;
      break;
    }
    case Entry::mode:
      *static_cast<gpudnnBatchNormMode_t*>(param) = entries.mode;
      break;
    case Entry::placeholder:
      *static_cast<gpudnnFusedOpsPointerPlaceHolder_t*>(param) = entries.placeholders[label];
      break;
  }
  return GPUDNN_STATUS_SUCCESS;
}

// One of the data pointers, not one of the host scalars.
bool is_pointer(gpudnnFusedOpsVariantParamLabel_t label) {
  return label >= GPUDNN_PTR_XDATA && static_cast<int>(label) < fused_ops::kPointerLabels;
}

Status set_scalar(fused_ops::VariantPack* pack, gpudnnFusedOpsVariantParamLabel_t label, const void* ptr) {
  GPUDNN_CHECK_POINTER(ptr);
  switch (static_cast<int>(label)) {
    case GPUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES:
      pack->workspace_bytes = *static_cast<const std::size_t*>(ptr);
      break;
    case GPUDNN_SCALAR_INT64_T_BN_ACCUMULATION_COUNT: {
      const auto count = *static_cast<const std::int64_t*>(ptr);
      GPUDNN_REQUIRE(count >= 1, GPUDNN_STATUS_BAD_PARAM,
                     "GPUDNN_SCALAR_INT64_T_BN_ACCUMULATION_COUNT is %lld; it must be at least 1",
                     static_cast<long long>(count));
      pack->count = count;
      break;
    }
    case GPUDNN_SCALAR_DOUBLE_BN_EXP_AVG_FACTOR:
      pack->factor = *static_cast<const double*>(ptr);
      break;
    default: {
      const double epsilon = *static_cast<const double*>(ptr);
      GPUDNN_REQUIRE(epsilon >= GPUDNN_BN_MIN_EPSILON && std::isfinite(epsilon), GPUDNN_STATUS_BAD_PARAM,
                     "GPUDNN_SCALAR_DOUBLE_BN_EPSILON is %g; it must be finite and at least GPUDNN_BN_MIN_EPSILON, %g",
                     epsilon, GPUDNN_BN_MIN_EPSILON);
      pack->epsilon = epsilon;
      break;
    }
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status check_variant_label(gpudnnFusedOpsVariantParamLabel_t label) {
  GPUDNN_REQUIRE(
      is_pointer(label) ||
          (label >= GPUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES && label <= GPUDNN_SCALAR_DOUBLE_BN_EPSILON),
      GPUDNN_STATUS_BAD_PARAM, "paramLabel is %d; it must be a gpudnnFusedOpsVariantParamLabel_t: 0 to %d, or %d to %d",
      static_cast<int>(label), fused_ops::kPointerLabels - 1,
      static_cast<int>(GPUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES),
      static_cast<int>(GPUDNN_SCALAR_DOUBLE_BN_EPSILON));
  return GPUDNN_STATUS_SUCCESS;
}

Status check_same_pattern(gpudnnFusedOps_t plan, gpudnnFusedOps_t pack, const char* name) {
  GPUDNN_REQUIRE(plan == pack, GPUDNN_STATUS_BAD_PARAM, "%s was created for the pattern %s and the plan for %s", name,
                 fused_ops::pattern_name(pack), fused_ops::pattern_name(plan));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

// --- const packs ----------------------------------------------------------------------------------------------------

extern "C" gpudnnStatus_t gpudnnCreateFusedOpsConstParamPack(gpudnnFusedOpsConstParamPack_t* constPack,
                                                             gpudnnFusedOps_t ops) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_POINTER(constPack);
    GPUDNN_TRY(check_pattern(ops));
    GPUDNN_TRY(create_object(constPack, "constPack"));
    (*constPack)->pack.ops = ops;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnDestroyFusedOpsConstParamPack(gpudnnFusedOpsConstParamPack_t constPack) {
  return guard(__func__, [&]() -> Status { return destroy_object(constPack, Kind::fused_const_pack, "constPack"); });
}

extern "C" gpudnnStatus_t gpudnnSetFusedOpsConstParamPackAttribute(gpudnnFusedOpsConstParamPack_t constPack,
                                                                   gpudnnFusedOpsConstParamLabel_t paramLabel,
                                                                   const void* param) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(constPack, Kind::fused_const_pack);
    GPUDNN_TRY(check_label(paramLabel));
    if (param == nullptr) return clear_entry(constPack, paramLabel);
    GPUDNN_TRY(set_entry(constPack, paramLabel, param));
    constPack->pack.set[paramLabel] = true;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetFusedOpsConstParamPackAttribute(const gpudnnFusedOpsConstParamPack_t constPack,
                                                                   gpudnnFusedOpsConstParamLabel_t paramLabel,
                                                                   void* param, int* isNULL) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(constPack, Kind::fused_const_pack);
    GPUDNN_TRY(check_label(paramLabel));
    GPUDNN_CHECK_POINTER(param);
    GPUDNN_CHECK_POINTER(isNULL);
    const bool set = constPack->pack.set[paramLabel];
    *isNULL = set ? 0 : 1;
    return set ? get_entry(constPack, paramLabel, param) : GPUDNN_STATUS_SUCCESS;
  });
}

// --- variant packs --------------------------------------------------------------------------------------------------

extern "C" gpudnnStatus_t gpudnnCreateFusedOpsVariantParamPack(gpudnnFusedOpsVariantParamPack_t* varPack,
                                                               gpudnnFusedOps_t ops) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_POINTER(varPack);
    GPUDNN_TRY(check_pattern(ops));
    GPUDNN_TRY(create_object(varPack, "varPack"));
    (*varPack)->pack.ops = ops;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnDestroyFusedOpsVariantParamPack(gpudnnFusedOpsVariantParamPack_t varPack) {
  return guard(__func__, [&]() -> Status { return destroy_object(varPack, Kind::fused_variant_pack, "varPack"); });
}

extern "C" gpudnnStatus_t gpudnnSetFusedOpsVariantParamPackAttribute(gpudnnFusedOpsVariantParamPack_t varPack,
                                                                     gpudnnFusedOpsVariantParamLabel_t paramLabel,
                                                                     void* ptr) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(varPack, Kind::fused_variant_pack);
    GPUDNN_TRY(check_variant_label(paramLabel));
    if (!is_pointer(paramLabel)) return set_scalar(&varPack->pack, paramLabel, ptr);
    varPack->pack.pointers[paramLabel] = ptr;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetFusedOpsVariantParamPackAttribute(const gpudnnFusedOpsVariantParamPack_t varPack,
                                                                     gpudnnFusedOpsVariantParamLabel_t paramLabel,
                                                                     void* ptr) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(varPack, Kind::fused_variant_pack);
    GPUDNN_TRY(check_variant_label(paramLabel));
    GPUDNN_CHECK_POINTER(ptr);
    const fused_ops::VariantPack& pack = varPack->pack;
    if (is_pointer(paramLabel)) {
      *static_cast<void**>(ptr) = pack.pointers[paramLabel];
    } else if (paramLabel == GPUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES) {
      *static_cast<std::size_t*>(ptr) = pack.workspace_bytes;
    } else if (paramLabel == GPUDNN_SCALAR_INT64_T_BN_ACCUMULATION_COUNT) {
      *static_cast<std::int64_t*>(ptr) = pack.count;
    } else {
      *static_cast<double*>(ptr) = paramLabel == GPUDNN_SCALAR_DOUBLE_BN_EPSILON ? pack.epsilon : pack.factor;
    }
    return GPUDNN_STATUS_SUCCESS;
  });
}

// --- plans ----------------------------------------------------------------------------------------------------------

extern "C" gpudnnStatus_t gpudnnCreateFusedOpsPlan(gpudnnFusedOpsPlan_t* plan, gpudnnFusedOps_t ops) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_POINTER(plan);
    GPUDNN_TRY(check_pattern(ops));
    GPUDNN_TRY(create_object(plan, "plan"));
    (*plan)->ops = ops;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnDestroyFusedOpsPlan(gpudnnFusedOpsPlan_t plan) {
  return guard(__func__, [&]() -> Status { return destroy_object(plan, Kind::fused_plan, "plan"); });
}

extern "C" gpudnnStatus_t gpudnnMakeFusedOpsPlan(gpudnnHandle_t handle, gpudnnFusedOpsPlan_t plan,
                                                 const gpudnnFusedOpsConstParamPack_t constPack,
                                                 size_t* workspaceSizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_OBJECT(plan, Kind::fused_plan);
    GPUDNN_CHECK_OBJECT(constPack, Kind::fused_const_pack);
    GPUDNN_CHECK_POINTER(workspaceSizeInBytes);
    GPUDNN_TRY(check_same_pattern(plan->ops, constPack->pack.ops, "constPack"));
    std::shared_ptr<const fused_ops::Plan> made;
    GPUDNN_TRY(fused_ops::make_plan(handle, constPack->pack, &made));
    *workspaceSizeInBytes = made->workspace;
    plan->plan = std::move(made);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnFusedOpsExecute(gpudnnHandle_t handle, const gpudnnFusedOpsPlan_t plan,
                                                gpudnnFusedOpsVariantParamPack_t varPack) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_OBJECT(plan, Kind::fused_plan);
    GPUDNN_CHECK_OBJECT(varPack, Kind::fused_variant_pack);
    GPUDNN_REQUIRE(plan->plan != nullptr, GPUDNN_STATUS_BAD_PARAM,
                   "plan was created but never made; call gpudnnMakeFusedOpsPlan");
    GPUDNN_TRY(check_same_pattern(plan->ops, varPack->pack.ops, "varPack"));
    return fused_ops::execute(handle, *plan->plan, varPack->pack);
  });
}
