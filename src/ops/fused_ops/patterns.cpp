// From a const pack to the stages of the patterns without a convolution.
// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_ops/entries.hpp"

namespace gpudnn::fused_ops {
namespace {

// Whether the bits are what normalization's own kernels take for the mask of an activation: a byte for each 8 elements
// in the order of memory, where a place's channels are whole words of bits. The host's mask goes by channels.
bool bits_are_mask(const Maker& m, const TensorGeometry& x) {
  const TensorGeometry places = without_channels(x);
  TensorGeometry packed = places;
  set_packed_strides(&packed, GPUDNN_TENSOR_NCHW);
  bool fits = m.handle->device->backend == GPUDNN_BACKEND_CUDA && x.dims[1] % 32 == 0 && x.strides[1] == 1;
  for (int i = 0; i < places.rank; ++i) {
    fits = fits && (places.dims[i] == 1 || places.strides[i] == packed.strides[i] * x.dims[1]);
  }
  return fits && element_count(places) > 1;
}

// The gradient behind the activation: by normalization itself, or by a stage before it, to dz if that is wanted, else
// to the workspace.
Status plan_gate(Maker* m, const TensorGeometry& dy) {
  Plan& plan = *m->plan;
  GPUDNN_TRY(take_bits(m, dy));
  const bool has_bits = plan.promised[GPUDNN_PTR_ACTIVATION_BITMASK];
  const bool has_dz = m->is_promised(kDz.placeholder);
  GPUDNN_REQUIRE(has_bits || m->pack.activation == GPUDNN_ACTIVATION_IDENTITY, GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER is GPUDNN_PTR_NULL; the gradient of the activation is "
                 "taken from the bits");
  plan.has_affine = has_bits || has_dz;
  plan.affine.bits = has_bits ? Bits::read : Bits::none;
  plan.affine.x = plan.affine.y = plan.norm.dy = dy;
  if (has_dz) {
    GPUDNN_TRY(take_tensor(m, kDz, &plan.affine.y));
  } else if (has_bits) {
    plan.affine.y = dense_like(dy);
  }
  if (plan.has_affine) GPUDNN_TRY(validate(plan.affine));
  if (has_bits && bits_are_mask(*m, plan.norm.x)) {
    plan.has_affine = false;
    plan.bits_in_norm = true;
    plan.norm.ops = has_dz ? GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION : GPUDNN_BATCHNORM_OPS_BN_ACTIVATION;
    plan.norm.mode = GPUDNN_ACTIVATION_RELU;  // any that leaves bits
    plan.norm.dz = plan.affine.y;
    return GPUDNN_STATUS_SUCCESS;
  }
  if (has_bits && !has_dz) reserve(&plan, size_in_bytes(plan.affine.y), &plan.between);
  plan.norm.dy = plan.affine.y;
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

Status plan_bitmask(Maker* m) {
  Plan& plan = *m->plan;
  AffineProblem& affine = plan.affine;
  GPUDNN_TRY(check_mode(*m));
  GPUDNN_TRY(take_tensor(m, kX, &affine.x));
  GPUDNN_TRY(take_tensor(m, kY, &affine.y));
  take_activation(m);
  GPUDNN_TRY(validate(affine));
  GPUDNN_TRY(take_scale_and_bias(m, affine.y));
  GPUDNN_TRY(take_addend(m, affine.y));
  GPUDNN_TRY(take_bits(m, affine.y));
  affine.bits = plan.promised[GPUDNN_PTR_ACTIVATION_BITMASK] ? Bits::write : Bits::none;
  plan.has_affine = true;
  return validate(affine);
}

Status plan_batch_norm_gradient(Maker* m) {
  Plan& plan = *m->plan;
  norm::Problem& problem = plan.norm;
  TensorGeometry dy;
  GPUDNN_TRY(check_mode(*m));
  GPUDNN_TRY(take_tensor(m, kX, &problem.x));
  GPUDNN_TRY(take_tensor(m, kDy, &dy));
  GPUDNN_TRY(take_tensor(m, kDx, &problem.dx));
  TensorGeometry params;
  GPUDNN_TRY(take_tensor(m, kFinalizeEntries[kBnScale], &params));
  problem.pass = norm::Pass::backward;
  problem.params = problem.stats = params;
  GPUDNN_TRY(check_pair(*m, GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER));
  problem.saved = m->is_promised(GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER);
  problem.dy = dy;
  GPUDNN_TRY(norm::validate(problem));
  note_pointer(m, parameter_entry(GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_MEAN), params.type);
  note_pointer(m, parameter_entry(GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_INVSTD), params.type);
  note_pointer(m, parameter_entry(GPUDNN_PARAM_BN_DSCALE_PLACEHOLDER, GPUDNN_PTR_BN_DSCALE), params.type);
  note_pointer(m, parameter_entry(GPUDNN_PARAM_BN_DBIAS_PLACEHOLDER, GPUDNN_PTR_BN_DBIAS), params.type);
  GPUDNN_TRY(plan_gate(m, dy));
  if (!plan.promised[GPUDNN_PTR_BN_DSCALE]) reserve(&plan, size_in_bytes(params), &plan.dscale);
  if (!plan.promised[GPUDNN_PTR_BN_DBIAS]) reserve(&plan, size_in_bytes(params), &plan.dbias);
  reserve(&plan, norm::workspace_bytes(m->handle, problem), &plan.scratch);
  return GPUDNN_STATUS_SUCCESS;
}

Status plan_finalize(Maker* m, bool training) {
  FinalizeProblem& problem = m->plan->finalize;
  GPUDNN_TRY(check_mode(*m));
  const TensorGeometry* first = nullptr;
  GPUDNN_TRY(require_desc(*m, training ? GPUDNN_PARAM_YSTATS_DESC : GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, &first));
  problem.training = training;
  problem.channels = first->rank >= 2 ? first->dims[1] : 1;
  if (training) {
    GPUDNN_TRY(require_promised(*m, GPUDNN_PARAM_YSUM_PLACEHOLDER));
    GPUDNN_TRY(require_promised(*m, GPUDNN_PARAM_YSQSUM_PLACEHOLDER));
    GPUDNN_TRY(check_pair(*m, GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER));
    GPUDNN_TRY(check_pair(*m, GPUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER, GPUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER));
  } else {
    GPUDNN_TRY(require_promised(*m, GPUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER));
    GPUDNN_TRY(require_promised(*m, GPUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER));
  }
  for (int v = 0; v < kFinalizeVectors; ++v) {
    const bool of_training = v == kSum || v == kSquares || v == kSavedMean || v == kSavedInverse;
    if (of_training && !training) continue;
    GPUDNN_TRY(take_vector(m, kFinalizeEntries[v], problem.channels, true, &problem.vectors[v]));
  }
  const bool writes = problem.vectors[kEqScale].present || problem.vectors[kEqBias].present ||
                      (training && (problem.vectors[kSavedMean].present || problem.vectors[kRunningMean].present));
  GPUDNN_REQUIRE(writes, GPUDNN_STATUS_BAD_PARAM,
                 "the pack promises no output: GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER and the others are GPUDNN_PTR_NULL");
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::fused_ops
