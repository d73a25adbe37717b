// From a const pack to the stages of its pattern.
// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_ops/plan.hpp"

#include <algorithm>

#include "core/layout_words.hpp"
#include "core/validation.hpp"
#include "ops/conv/engine.hpp"
#include "ops/conv/plan.hpp"
#include "ops/fused_ops/entries.hpp"
#include "ops/fused_ops/text.hpp"

namespace gpudnn::fused_ops {
namespace {

// The classic numbers that stand for "the best engine that fits".
constexpr int kBestForward = GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM;
constexpr int kBestBackwardFilter = GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_1;

void take_activation(const Maker& m, AffineProblem* affine) {
  affine->mode = m.pack.activation;
  affine->nan = m.pack.nan;
  affine->coef = m.pack.coef;
}

Status take_scale_and_bias(Maker* m, std::int64_t channels, bool wide, AffineProblem* affine) {
  GPUDNN_TRY(take_vector(m, GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER,
                         GPUDNN_PTR_BN_EQSCALE, channels, wide, &affine->vectors[kScale]));
  return take_vector(m, GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, GPUDNN_PTR_BN_EQBIAS,
                     channels, wide, &affine->vectors[kBias]);
}

// The addend and its own scale and bias.
Status take_addend(Maker* m, const TensorGeometry& y, AffineProblem* affine) {
  const bool scaled =
      m->is_promised(GPUDNN_PARAM_BN_Z_EQSCALE_PLACEHOLDER) || m->is_promised(GPUDNN_PARAM_BN_Z_EQBIAS_PLACEHOLDER);
  if (!m->is_promised(GPUDNN_PARAM_ZDATA_PLACEHOLDER)) {
    GPUDNN_REQUIRE(!scaled, GPUDNN_STATUS_BAD_PARAM,
                   "GPUDNN_PARAM_ZDATA_PLACEHOLDER is GPUDNN_PTR_NULL, but z has a scale or a bias; promise z too");
    return GPUDNN_STATUS_SUCCESS;
  }
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_ZDESC, GPUDNN_PARAM_ZDATA_PLACEHOLDER, GPUDNN_PTR_ZDATA, &affine->z));
  const std::int64_t channels = y.dims[1];
  const bool wide = y.type == GPUDNN_DATA_DOUBLE;
  GPUDNN_TRY(take_vector(m, GPUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_Z_EQSCALE_PLACEHOLDER,
                         GPUDNN_PTR_BN_Z_EQSCALE, channels, wide, &affine->vectors[kZScale]));
  return take_vector(m, GPUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_Z_EQBIAS_PLACEHOLDER,
                     GPUDNN_PTR_BN_Z_EQBIAS, channels, wide, &affine->vectors[kZBias]);
}

bool changes_anything(const AffineProblem& affine) {
  return affine.mode != GPUDNN_ACTIVATION_IDENTITY || affine.z.rank != 0 || affine.vectors[kScale].present ||
         affine.vectors[kBias].present;
}

// A tensor of the same dims that holds every element once: laid out likewise if that leaves no gaps.
TensorGeometry dense_like(TensorGeometry tensor) {
  if (!is_dense(tensor) || overlaps_itself(tensor)) set_packed_strides(&tensor, implied_format(tensor));
  return tensor;
}

// The convolution without its tensors.
Status take_conv(const Maker& m, conv::Direction direction, conv::Problem* problem) {
  GPUDNN_REQUIRE(m.pack.set[GPUDNN_PARAM_CONV_DESC], GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_PARAM_CONV_DESC was not set; the pattern %s needs it", pattern_name(m.pack.ops));
  *problem = m.pack.conv;
  problem->direction = direction;
  return GPUDNN_STATUS_SUCCESS;
}

Status reserve_for_conv(Maker* m, std::size_t* scratch) {
  const int algorithm = m->plan->conv.direction == conv::Direction::forward ? kBestForward : kBestBackwardFilter;
  std::size_t bytes = 0;
  GPUDNN_TRY(conv::workspace_size(m->handle, m->plan->conv, algorithm, &bytes));
  *scratch = std::max(*scratch, bytes);
  // Chosen now rather than in the first execution.
  std::shared_ptr<const conv::Plan> chosen;
  return conv::find_plan(m->handle, m->plan->conv, algorithm, bytes, conv::kMostAlignment, &chosen);
}

// x of a convolution that may first go through scale, bias and activation.
Status take_affine_input(Maker* m, const TensorGeometry& x) {
  Plan& plan = *m->plan;
  plan.affine.x = x;
  GPUDNN_TRY(require_floating(x, "GPUDNN_PARAM_XDESC"));
  GPUDNN_TRY(require_rank(x, "GPUDNN_PARAM_XDESC", 3, 5));
  GPUDNN_TRY(take_scale_and_bias(m, x.dims[1], x.type == GPUDNN_DATA_DOUBLE, &plan.affine));
  take_activation(*m, &plan.affine);
  plan.has_affine = changes_anything(plan.affine);
  if (!plan.has_affine) return GPUDNN_STATUS_SUCCESS;
  plan.affine.y = dense_like(x);
  GPUDNN_TRY(validate(plan.affine));
  plan.conv.x = plan.affine.y;
  reserve(&plan, size_in_bytes(plan.affine.y), &plan.between);
  return GPUDNN_STATUS_SUCCESS;
}

Status plan_statistics(Maker* m, std::size_t* scratch) {
  Plan& plan = *m->plan;
  const TensorGeometry& y = plan.conv.y;
  const bool wide = y.type == GPUDNN_DATA_DOUBLE;
  const auto take = [&](int placeholder, gpudnnFusedOpsVariantParamLabel_t label, gpudnnReduceTensorOp_t op,
                        reduce::Problem* problem) -> Status {
    if (!m->is_promised(placeholder)) return GPUDNN_STATUS_SUCCESS;
    ChannelVector vector;
    GPUDNN_TRY(take_vector(m, GPUDNN_PARAM_YSTATS_DESC, placeholder, label, y.dims[1], wide, &vector));
    const DataType type = wide ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
    GPUDNN_REQUIRE(vector.type == type, GPUDNN_STATUS_NOT_SUPPORTED,
                   "GPUDNN_PARAM_YSTATS_DESC is %s; sums over %s data are kept in %s", data_type_name(vector.type),
                   data_type_name(y.type), data_type_name(type));
    problem->op = op;
    problem->compute = type;
    problem->nan = GPUDNN_PROPAGATE_NAN;
    problem->a = y;
    problem->c = norm::parameter_geometry(y, false);
    problem->c.strides[1] = vector.stride;
    GPUDNN_TRY(reduce::validate(*problem));
    *scratch = std::max(*scratch, reduce::workspace_size(*problem, *m->handle->device));
    return GPUDNN_STATUS_SUCCESS;
  };
  GPUDNN_TRY(take(GPUDNN_PARAM_YSUM_PLACEHOLDER, GPUDNN_PTR_YSUM, GPUDNN_REDUCE_TENSOR_ADD, &plan.sum));
  GPUDNN_TRY(take(GPUDNN_PARAM_YSQSUM_PLACEHOLDER, GPUDNN_PTR_YSQSUM, GPUDNN_REDUCE_TENSOR_NORM2, &plan.squares));
  plan.squaring.op = GPUDNN_OP_TENSOR_MUL;
  plan.squaring.compute = plan.squares.compute;
  plan.squaring.a = plan.squaring.b = plan.squaring.c = plan.squares.c;
  return GPUDNN_STATUS_SUCCESS;
}

Status plan_conv_with_statistics(Maker* m) {
  Plan& plan = *m->plan;
  GPUDNN_TRY(check_mode(*m));
  GPUDNN_TRY(take_conv(*m, conv::Direction::forward, &plan.conv));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_XDESC, GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA, &plan.conv.x));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_WDESC, GPUDNN_PARAM_WDATA_PLACEHOLDER, GPUDNN_PTR_WDATA, &plan.conv.w));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_YDESC, GPUDNN_PARAM_YDATA_PLACEHOLDER, GPUDNN_PTR_YDATA, &plan.conv.y));
  GPUDNN_TRY(conv::validate(plan.conv));
  GPUDNN_TRY(take_affine_input(m, TensorGeometry(plan.conv.x)));
  plan.has_conv = true;
  std::size_t scratch = 0;
  GPUDNN_TRY(reserve_for_conv(m, &scratch));
  GPUDNN_TRY(plan_statistics(m, &scratch));
  reserve(&plan, scratch, &plan.scratch);
  return GPUDNN_STATUS_SUCCESS;
}

Status plan_filter_gradient(Maker* m) {
  Plan& plan = *m->plan;
  GPUDNN_TRY(check_mode(*m));
  GPUDNN_TRY(take_conv(*m, conv::Direction::backward_filter, &plan.conv));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_XDESC, GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA, &plan.conv.x));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_DWDESC, GPUDNN_PARAM_DWDATA_PLACEHOLDER, GPUDNN_PTR_DWDATA, &plan.conv.w));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_DYDESC, GPUDNN_PARAM_DYDATA_PLACEHOLDER, GPUDNN_PTR_DYDATA, &plan.conv.y));
  GPUDNN_TRY(conv::validate(plan.conv));
  GPUDNN_TRY(take_affine_input(m, TensorGeometry(plan.conv.x)));
  plan.has_conv = true;
  std::size_t scratch = 0;
  GPUDNN_TRY(reserve_for_conv(m, &scratch));
  reserve(&plan, scratch, &plan.scratch);
  return GPUDNN_STATUS_SUCCESS;
}

// A convolution's epilogue has a bias of y's type and an addend as it is, no scales.
bool fits_epilogue(const AffineProblem& affine, DataType type) {
  const ChannelVector& bias = affine.vectors[kBias];
  return bias.present && bias.type == type && !affine.vectors[kScale].present && !affine.vectors[kZScale].present &&
         !affine.vectors[kZBias].present;
}

Status plan_conv_with_epilogue(Maker* m) {
  Plan& plan = *m->plan;
  GPUDNN_TRY(check_mode(*m));
  GPUDNN_TRY(take_conv(*m, conv::Direction::forward, &plan.conv));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_XDESC, GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA, &plan.conv.x));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_WDESC, GPUDNN_PARAM_WDATA_PLACEHOLDER, GPUDNN_PTR_WDATA, &plan.conv.w));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_YDESC, GPUDNN_PARAM_YDATA_PLACEHOLDER, GPUDNN_PTR_YDATA, &plan.conv.y));
  GPUDNN_TRY(conv::validate(plan.conv));
  plan.has_conv = true;
  const TensorGeometry y = plan.conv.y;
  plan.affine.x = plan.affine.y = y;
  GPUDNN_TRY(take_scale_and_bias(m, y.dims[1], y.type == GPUDNN_DATA_DOUBLE, &plan.affine));
  GPUDNN_TRY(take_addend(m, y, &plan.affine));
  take_activation(*m, &plan.affine);
  GPUDNN_TRY(validate(plan.affine));
  plan.coef = m->pack.coef;
  plan.propagate_nan = m->pack.nan == GPUDNN_PROPAGATE_NAN;
  if (fits_epilogue(plan.affine, y.type)) {
    plan.has_epilogue = true;
    plan.conv.activation = plan.affine.mode;
    plan.conv.has_z = plan.affine.z.rank != 0 ? 1 : 0;
    plan.conv.z = plan.affine.z;
    TensorGeometry bias = norm::parameter_geometry(y, false);
    bias.type = y.type;
    bias.strides[1] = plan.affine.vectors[kBias].stride;
    GPUDNN_TRY(conv::set_bias(&plan.conv, bias));
    GPUDNN_TRY(conv::validate(plan.conv));
  } else if (changes_anything(plan.affine)) {
    plan.has_affine = true;
    // z may be y, so the convolution's result cannot lie there before z was read.
    if (plan.affine.z.rank != 0) {
      plan.conv.y = plan.affine.x = dense_like(y);
      reserve(&plan, size_in_bytes(plan.conv.y), &plan.between);
    }
  }
  std::size_t scratch = 0;
  GPUDNN_TRY(reserve_for_conv(m, &scratch));
  reserve(&plan, scratch, &plan.scratch);
  return GPUDNN_STATUS_SUCCESS;
}

Status plan_bitmask(Maker* m) {
  Plan& plan = *m->plan;
  AffineProblem& affine = plan.affine;
  GPUDNN_TRY(check_mode(*m));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_XDESC, GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA, &affine.x));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_YDESC, GPUDNN_PARAM_YDATA_PLACEHOLDER, GPUDNN_PTR_YDATA, &affine.y));
  take_activation(*m, &affine);
  GPUDNN_TRY(validate(affine));
  GPUDNN_TRY(take_scale_and_bias(m, affine.y.dims[1], affine.y.type == GPUDNN_DATA_DOUBLE, &affine));
  GPUDNN_TRY(take_addend(m, affine.y, &affine));
  GPUDNN_TRY(take_bits(m, affine.y));
  affine.bits = plan.promised[GPUDNN_PTR_ACTIVATION_BITMASK] ? Bits::write : Bits::none;
  plan.has_affine = true;
  return validate(affine);
}

// The gradient behind the activation goes to dz if that is wanted, else to the workspace.
Status plan_gate(Maker* m, const TensorGeometry& dy) {
  Plan& plan = *m->plan;
  GPUDNN_TRY(take_bits(m, dy));
  const bool has_bits = plan.promised[GPUDNN_PTR_ACTIVATION_BITMASK];
  const bool has_dz = m->is_promised(GPUDNN_PARAM_DZDATA_PLACEHOLDER);
  GPUDNN_REQUIRE(has_bits || m->pack.activation == GPUDNN_ACTIVATION_IDENTITY, GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER is GPUDNN_PTR_NULL; the gradient of the activation is "
                 "taken from the bits");
  plan.has_affine = has_bits || has_dz;
  plan.affine.bits = has_bits ? Bits::read : Bits::none;
  plan.affine.x = plan.affine.y = plan.norm.dy = dy;
  if (has_dz) {
    GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_DZDESC, GPUDNN_PARAM_DZDATA_PLACEHOLDER, GPUDNN_PTR_DZDATA, &plan.affine.y));
  } else if (has_bits) {
    plan.affine.y = dense_like(dy);
    reserve(&plan, size_in_bytes(plan.affine.y), &plan.between);
  }
  if (plan.has_affine) GPUDNN_TRY(validate(plan.affine));
  plan.norm.dy = plan.affine.y;
  return GPUDNN_STATUS_SUCCESS;
}

Status plan_batch_norm_gradient(Maker* m) {
  Plan& plan = *m->plan;
  norm::Problem& problem = plan.norm;
  TensorGeometry dy;
  GPUDNN_TRY(check_mode(*m));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_XDESC, GPUDNN_PARAM_XDATA_PLACEHOLDER, GPUDNN_PTR_XDATA, &problem.x));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_DYDESC, GPUDNN_PARAM_DYDATA_PLACEHOLDER, GPUDNN_PTR_DYDATA, &dy));
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_DXDESC, GPUDNN_PARAM_DXDATA_PLACEHOLDER, GPUDNN_PTR_DXDATA, &problem.dx));
  TensorGeometry params;
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, GPUDNN_PARAM_BN_SCALE_PLACEHOLDER,
                         GPUDNN_PTR_BN_SCALE, &params));
  problem.pass = norm::Pass::backward;
  problem.params = problem.stats = params;
  GPUDNN_TRY(check_pair(*m, GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER));
  problem.saved = m->is_promised(GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER);
  problem.dy = dy;
  GPUDNN_TRY(norm::validate(problem));
  note_pointer(m, GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_MEAN, params.type);
  note_pointer(m, GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER, GPUDNN_PTR_BN_SAVED_INVSTD, params.type);
  note_pointer(m, GPUDNN_PARAM_BN_DSCALE_PLACEHOLDER, GPUDNN_PTR_BN_DSCALE, params.type);
  note_pointer(m, GPUDNN_PARAM_BN_DBIAS_PLACEHOLDER, GPUDNN_PTR_BN_DBIAS, params.type);
  GPUDNN_TRY(plan_gate(m, dy));
  if (!plan.promised[GPUDNN_PTR_BN_DSCALE]) reserve(&plan, size_in_bytes(params), &plan.dscale);
  if (!plan.promised[GPUDNN_PTR_BN_DBIAS]) reserve(&plan, size_in_bytes(params), &plan.dbias);
  reserve(&plan, norm::workspace_bytes(m->handle, problem), &plan.scratch);
  return GPUDNN_STATUS_SUCCESS;
}

// One row for each vector of the last step: where its shape stands, how it is promised, and its pointer.
struct FinalizeRow {
  FinalizeVector vector;
  gpudnnFusedOpsConstParamLabel_t desc;
  gpudnnFusedOpsConstParamLabel_t placeholder;
  gpudnnFusedOpsVariantParamLabel_t label;
};
constexpr FinalizeRow kFinalizeRows[] = {
    {kSum, GPUDNN_PARAM_YSTATS_DESC, GPUDNN_PARAM_YSUM_PLACEHOLDER, GPUDNN_PTR_YSUM},
    {kSquares, GPUDNN_PARAM_YSTATS_DESC, GPUDNN_PARAM_YSQSUM_PLACEHOLDER, GPUDNN_PTR_YSQSUM},
    {kBnScale, GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, GPUDNN_PARAM_BN_SCALE_PLACEHOLDER, GPUDNN_PTR_BN_SCALE},
    {kBnBias, GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, GPUDNN_PARAM_BN_BIAS_PLACEHOLDER, GPUDNN_PTR_BN_BIAS},
    {kSavedMean, GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER,
     GPUDNN_PTR_BN_SAVED_MEAN},
    {kSavedInverse, GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER,
     GPUDNN_PTR_BN_SAVED_INVSTD},
    {kRunningMean, GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, GPUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER,
     GPUDNN_PTR_BN_RUNNING_MEAN},
    {kRunningVariance, GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC, GPUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER,
     GPUDNN_PTR_BN_RUNNING_VAR},
    {kEqScale, GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER, GPUDNN_PTR_BN_EQSCALE},
    {kEqBias, GPUDNN_PARAM_BN_EQSCALEBIAS_DESC, GPUDNN_PARAM_BN_EQBIAS_PLACEHOLDER, GPUDNN_PTR_BN_EQBIAS},
};

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
  for (const FinalizeRow& row : kFinalizeRows) {
    const bool of_training =
        row.vector == kSum || row.vector == kSquares || row.vector == kSavedMean || row.vector == kSavedInverse;
    if (of_training && !training) continue;
    GPUDNN_TRY(
        take_vector(m, row.desc, row.placeholder, row.label, problem.channels, true, &problem.vectors[row.vector]));
  }
  const bool writes = problem.vectors[kEqScale].present || problem.vectors[kEqBias].present ||
                      (training && (problem.vectors[kSavedMean].present || problem.vectors[kRunningMean].present));
  GPUDNN_REQUIRE(writes, GPUDNN_STATUS_BAD_PARAM,
                 "the pack promises no output: GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER and the others are GPUDNN_PTR_NULL");
  return GPUDNN_STATUS_SUCCESS;
}

Status plan_pattern(Maker* m) {
  switch (m->pack.ops) {
    case GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS:
      return plan_conv_with_statistics(m);
    case GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_WGRAD:
      return plan_filter_gradient(m);
    case GPUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING:
      return plan_finalize(m, true);
    case GPUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE:
      return plan_finalize(m, false);
    case GPUDNN_FUSED_CONV_SCALE_BIAS_ADD_ACTIVATION:
      return plan_conv_with_epilogue(m);
    case GPUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK:
      return plan_bitmask(m);
    case GPUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM:
      return plan_batch_norm_gradient(m);
  }
  return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM, "%d is no gpudnnFusedOps_t", static_cast<int>(m->pack.ops));
}

std::string text_of(const Plan& plan) {
  Stages stages;
  stages.ops = plan.ops;
  if (plan.has_conv) stages.conv = plan.conv;
  if (plan.has_affine) stages.affine = plan.affine;
  if (plan.norm.x.rank != 0) stages.norm = plan.norm;
  if (plan.finalize.channels != 0) stages.finalize = plan.finalize;
  return to_text(stages);
}

}  // namespace

Status make_plan(gpudnnHandle_t handle, const ConstPack& pack, std::shared_ptr<const Plan>* plan) {
  const auto made = std::make_shared<Plan>();
  made->ops = pack.ops;
  made->device = handle->device;
  Maker maker{handle, pack, made.get()};
  GPUDNN_TRY(plan_pattern(&maker));
  made->text = text_of(*made);
  note_problem_lazily([&] { return made->text; });
  *plan = made;
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::fused_ops
