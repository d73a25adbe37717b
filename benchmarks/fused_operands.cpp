// Which tensors a fused operation plan reads and writes, pattern by pattern.
// SPDX-License-Identifier: Apache-2.0
#include "fused_operands.hpp"

namespace gpudnn::bench {
namespace {

using fused_ops::Stages;

TensorGeometry channel_vector(DataType type, std::int64_t channels, int rank) {
  TensorGeometry vector;
  vector.type = type;
  vector.rank = rank;
  for (int i = 0; i < rank; ++i) vector.dims[i] = i == 1 ? channels : 1;
  set_packed_strides(&vector, GPUDNN_TENSOR_NCHW);
  return vector;
}

// Words of bits: a row for each place of the images, rounded up to 32 of them, and a word for each 32 channels, rounded
// up to 64. That is the shape that cuDNN wants; libgpudnn takes any with words enough.
TensorGeometry bit_tensor(const TensorGeometry& y) {
  TensorGeometry bits;
  bits.type = GPUDNN_DATA_INT32;
  bits.rank = 4;
  const std::int64_t dims[] = {(element_count(y) / y.dims[1] + 31) / 32 * 32, (y.dims[1] + 63) / 64 * 2, 1, 1};
  for (int i = 0; i < 4; ++i) bits.dims[i] = dims[i];
  set_packed_strides(&bits, GPUDNN_TENSOR_NCHW);
  return bits;
}

struct Operands {
  std::vector<FusedOperand> list;

  FusedOperand& in(gpudnnFusedOpsConstParamLabel_t desc, gpudnnFusedOpsConstParamLabel_t placeholder,
                   gpudnnFusedOpsVariantParamLabel_t label, const TensorGeometry& geometry) {
    list.push_back({desc, placeholder, label, geometry});
    return list.back();
  }
  FusedOperand& out(gpudnnFusedOpsConstParamLabel_t desc, gpudnnFusedOpsConstParamLabel_t placeholder,
                    gpudnnFusedOpsVariantParamLabel_t label, const TensorGeometry& geometry) {
    FusedOperand& operand = in(desc, placeholder, label, geometry);
    operand.is_output = true;
    return operand;
  }
  void x(const TensorGeometry& geometry) {
    in(GPUDNN_PARAM_XDESC, GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA, geometry);
  }
  void y(const TensorGeometry& geometry) {
    out(GPUDNN_PARAM_YDESC, GPUDNN_PARAM_YDATA_PLACEHOLDER, GPUDNN_PTR_YDATA, geometry);
  }
  void scale_and_bias(const fused_ops::AffineProblem& affine) {
    const auto vector = [&](int which) {
      return channel_vector(affine.vectors[which].type, affine.y.dims[1], affine.y.rank);
    };
    using fused_ops::kBias, fused_ops::kScale, fused_ops::kZBias, fused_ops::kZScale;
    if (affine.vectors[kScale].present) {
      in(GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, GPUDNN_PTR_BN_EQSCALE, vector(kScale));
    }
    if (affine.vectors[kBias].present) {
      in(GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, GPUDNN_PTR_BN_EQBIAS, vector(kBias));
    }
    if (affine.z.rank == 0) return;
    in(GPUDNN_PARAM_ZDESC, GPUDNN_PARAM_ZDATA_PLACEHOLDER, GPUDNN_PTR_ZDATA, affine.z);
    if (affine.vectors[kZScale].present) {
      in(GPUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_Z_EQSCALE_PLACEHOLDER, GPUDNN_PTR_BN_Z_EQSCALE,
         vector(kZScale));
    }
    if (affine.vectors[kZBias].present) {
      in(GPUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_Z_EQBIAS_PLACEHOLDER, GPUDNN_PTR_BN_Z_EQBIAS,
         vector(kZBias));
    }
  }
};

void add_conv(const Stages& stages, Operands* operands) {
  const conv::Problem& conv = *stages.conv;
  operands->x(conv.x);
  if (stages.affine) operands->scale_and_bias(*stages.affine);
  if (stages.ops == GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_WGRAD) {
    operands->in(GPUDNN_PARAM_DYDESC, GPUDNN_PARAM_DYDATA_PLACEHOLDER, GPUDNN_PTR_DYDATA, conv.y);
    operands->out(GPUDNN_PARAM_DWDESC, GPUDNN_PARAM_DWDATA_PLACEHOLDER, GPUDNN_PTR_DWDATA, conv.w).is_filter = true;
    return;
  }
  operands->in(GPUDNN_PARAM_WDESC, GPUDNN_PARAM_WDATA_PLACEHOLDER, GPUDNN_PTR_WDATA, conv.w).is_filter = true;
  if (stages.ops == GPUDNN_FUSED_CONV_SCALE_BIAS_ADD_ACTIVATION && !stages.affine) {  // by the convolution's epilogue
    if (conv.has_bias != 0) {
      operands->in(GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, GPUDNN_PTR_BN_EQBIAS,
                   channel_vector(conv.y.type, conv.y.dims[1], conv.y.rank));
    }
    if (conv.has_z != 0) {
      operands->in(GPUDNN_PARAM_ZDESC, GPUDNN_PARAM_ZDATA_PLACEHOLDER, GPUDNN_PTR_ZDATA, conv.z);
    }
  }
  operands->y(conv.y);
  if (stages.ops != GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS) return;
  const TensorGeometry sums = channel_vector(conv.y.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT,
                                             conv.y.dims[1], conv.y.rank);
  operands->out(GPUDNN_PARAM_YSTATS_DESC, GPUDNN_PARAM_YSUM_PLACEHOLDER, GPUDNN_PTR_YSUM, sums);
  operands->out(GPUDNN_PARAM_YSTATS_DESC, GPUDNN_PARAM_YSQSUM_PLACEHOLDER, GPUDNN_PTR_YSQSUM, sums);
}

void add_finalize(const fused_ops::FinalizeProblem& finalize, Operands* operands) {
  const TensorGeometry vector = channel_vector(GPUDNN_DATA_FLOAT, finalize.channels, 4);
  const TensorGeometry eq = channel_vector(finalize.vectors[fused_ops::kEqScale].type, finalize.channels, 4);
  constexpr auto kStats = GPUDNN_PARAM_YSTATS_DESC;
  constexpr auto kParams = GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC;
  constexpr auto kEq = GPUDNN_PARAM_BN_EQSCALEBIAS_DESC;
  if (finalize.training) {
    operands->in(kStats, GPUDNN_PARAM_YSUM_PLACEHOLDER, GPUDNN_PTR_YSUM, vector);
    operands->in(kStats, GPUDNN_PARAM_YSQSUM_PLACEHOLDER, GPUDNN_PTR_YSQSUM, vector).fill = Fill::positive;
  }
  operands->in(kParams, GPUDNN_PARAM_BN_SCALE_PLACEHOLDER, GPUDNN_PTR_BN_SCALE, vector);
  operands->in(kParams, GPUDNN_PARAM_BN_BIAS_PLACEHOLDER, GPUDNN_PTR_BN_BIAS, vector);
  if (!finalize.training) {
    operands->in(kParams, GPUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER, GPUDNN_PTR_BN_RUNNING_MEAN, vector);
    operands->in(kParams, GPUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER, GPUDNN_PTR_BN_RUNNING_VAR, vector).fill =
        Fill::positive;
  }
  operands->out(kEq, GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, GPUDNN_PTR_BN_EQSCALE, eq);
  operands->out(kEq, GPUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, GPUDNN_PTR_BN_EQBIAS, eq);
  if (!finalize.training) return;
  operands->out(kParams, GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_MEAN, vector);
  operands->out(kParams, GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_INVSTD, vector);
  operands->out(kParams, GPUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER, GPUDNN_PTR_BN_RUNNING_MEAN, vector).is_read = true;
  FusedOperand& variance =
      operands->out(kParams, GPUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER, GPUDNN_PTR_BN_RUNNING_VAR, vector);
  variance.is_read = true;
  variance.fill = Fill::positive;
}

void add_bitmask(const fused_ops::AffineProblem& affine, Operands* operands) {
  operands->x(affine.x);
  operands->scale_and_bias(affine);
  operands->y(affine.y);
  if (affine.bits == fused_ops::Bits::none) return;
  operands->out(GPUDNN_PARAM_ACTIVATION_BITMASK_DESC, GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER,
                GPUDNN_PTR_ACTIVATION_BITMASK, bit_tensor(affine.y));
}

void add_norm_gradient(const Stages& stages, Operands* operands) {
  const norm::Problem& norm = *stages.norm;
  constexpr auto kParams = GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC;
  operands->x(norm.x);
  operands->in(GPUDNN_PARAM_DYDESC, GPUDNN_PARAM_DYDATA_PLACEHOLDER, GPUDNN_PTR_DYDATA, norm.dy);
  if (stages.affine) {
    operands->in(GPUDNN_PARAM_ACTIVATION_BITMASK_DESC, GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER,
                 GPUDNN_PTR_ACTIVATION_BITMASK, bit_tensor(norm.dy));
  }
  operands->in(kParams, GPUDNN_PARAM_BN_SCALE_PLACEHOLDER, GPUDNN_PTR_BN_SCALE, norm.params);
  if (norm.saved) {
    operands->in(kParams, GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_MEAN, norm.params);
    operands->in(kParams, GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_INVSTD, norm.params).fill =
        Fill::positive;
  }
  operands->out(GPUDNN_PARAM_DXDESC, GPUDNN_PARAM_DXDATA_PLACEHOLDER, GPUDNN_PTR_DXDATA, norm.dx);
  operands->out(GPUDNN_PARAM_DZDESC, GPUDNN_PARAM_DZDATA_PLACEHOLDER, GPUDNN_PTR_DZDATA, norm.dy);
  operands->out(kParams, GPUDNN_PARAM_BN_DSCALE_PLACEHOLDER, GPUDNN_PTR_BN_DSCALE, norm.params);
  operands->out(kParams, GPUDNN_PARAM_BN_DBIAS_PLACEHOLDER, GPUDNN_PTR_BN_DBIAS, norm.params);
}

}  // namespace

std::vector<FusedOperand> fused_operands(const Stages& stages) {
  Operands operands;
  switch (stages.ops) {
    case GPUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING:
    case GPUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE:
      add_finalize(*stages.finalize, &operands);
      break;
    case GPUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK:
      add_bitmask(*stages.affine, &operands);
      break;
    case GPUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM:
      add_norm_gradient(stages, &operands);
      break;
    default:
      add_conv(stages, &operands);
  }
  return operands.list;
}

gpudnnActivationMode_t fused_activation(const Stages& stages) {
  if (stages.ops == GPUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM) {
    return stages.affine ? GPUDNN_ACTIVATION_RELU : GPUDNN_ACTIVATION_IDENTITY;
  }
  if (stages.affine) return stages.affine->mode;
  if (stages.conv && stages.conv->activation >= 0) return static_cast<gpudnnActivationMode_t>(stages.conv->activation);
  return GPUDNN_ACTIVATION_IDENTITY;
}

}  // namespace gpudnn::bench
