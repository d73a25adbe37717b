// From a const pack to the stages of its pattern.
// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_ops/plan.hpp"

#include <algorithm>

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

bool changes_anything(const AffineProblem& affine) {
  return affine.mode != GPUDNN_ACTIVATION_IDENTITY || affine.z.rank != 0 || affine.vectors[kScale].present ||
         affine.vectors[kBias].present;
}

// The convolution with its tensors as the caller has them.
Status take_conv(Maker* m, conv::Direction direction) {
  GPUDNN_TRY(check_mode(*m));
  GPUDNN_REQUIRE(m->pack.set[GPUDNN_PARAM_CONV_DESC], GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_PARAM_CONV_DESC was not set; the pattern %s needs it", pattern_name(m->pack.ops));
  const bool forward = direction == conv::Direction::forward;
  Plan& plan = *m->plan;
  plan.conv = m->pack.conv;
  plan.conv.direction = direction;
  GPUDNN_TRY(take_tensor(m, kX, &plan.conv.x));
  GPUDNN_TRY(take_tensor(m, forward ? kW : kDw, &plan.conv.w));
  GPUDNN_TRY(take_tensor(m, forward ? kY : kDy, &plan.conv.y));
  plan.has_conv = true;
  return conv::validate(plan.conv);
}

// Workspace for the convolution, whose engine is chosen now rather than in the first execution, and for what follows
// it.
Status reserve_for_conv(Maker* m, std::size_t after) {
  Plan& plan = *m->plan;
  std::size_t bytes = 0;
  plan.conv_algorithm = plan.conv.direction == conv::Direction::forward ? kBestForward : kBestBackwardFilter;
  GPUDNN_TRY(conv::workspace_size(m->handle, plan.conv, plan.conv_algorithm, &bytes));
  plan.conv_bytes = bytes;
  reserve(&plan, std::max(bytes, after), &plan.scratch);
  return conv::find_plan(m->handle, plan.conv, plan.conv_algorithm, bytes, conv::kMaxAlignment, &plan.chosen);
}

// x of a convolution that may first go through scale, bias and activation.
Status take_affine_input(Maker* m) {
  Plan& plan = *m->plan;
  const TensorGeometry x = plan.conv.x;
  plan.affine.x = x;
  GPUDNN_TRY(require_floating(x, "GPUDNN_PARAM_XDESC"));
  GPUDNN_TRY(require_rank(x, "GPUDNN_PARAM_XDESC", 3, 5));
  GPUDNN_TRY(take_scale_and_bias(m, x));
  take_activation(m);
  plan.has_affine = changes_anything(plan.affine);
  if (!plan.has_affine) return GPUDNN_STATUS_SUCCESS;
  plan.affine.y = dense_like(x);
  GPUDNN_TRY(validate(plan.affine));
  plan.conv.x = plan.affine.y;
  reserve(&plan, size_in_bytes(plan.affine.y), &plan.between);
  return GPUDNN_STATUS_SUCCESS;
}

// One of the sums over y, as a reduction.
Status take_sum(Maker* m, const Entry& entry, gpudnnReduceTensorOp_t op, ChannelVector* vector,
                reduce::Problem* problem, std::size_t* scratch) {
  const TensorGeometry& y = m->plan->conv.y;
  const bool wide = y.type == GPUDNN_DATA_DOUBLE;
  const DataType type = wide ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  GPUDNN_TRY(take_vector(m, entry, y.dims[1], wide, vector));
  if (!vector->present) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_REQUIRE(vector->type == type, GPUDNN_STATUS_NOT_SUPPORTED,
                 "GPUDNN_PARAM_YSTATS_DESC is %s; sums over %s data are kept in %s", data_type_name(vector->type),
                 data_type_name(y.type), data_type_name(type));
  problem->op = op;
  problem->compute = type;
  problem->nan = GPUDNN_PROPAGATE_NAN;
  problem->a = y;
  problem->c = norm::parameter_geometry(y, false);
  problem->c.strides[1] = vector->stride;
  GPUDNN_TRY(reduce::validate(*problem));
  *scratch = std::max(*scratch, reduce::workspace_size(*problem, *m->handle->device));
  return GPUDNN_STATUS_SUCCESS;
}

Status plan_statistics(Maker* m, std::size_t* scratch) {
  Plan& plan = *m->plan;
  plan.sums.y = plan.conv.y;
  GPUDNN_TRY(take_sum(m, kYSum, GPUDNN_REDUCE_TENSOR_ADD, &plan.sums.sum, &plan.sum, scratch));
  GPUDNN_TRY(take_sum(m, kYSquares, GPUDNN_REDUCE_TENSOR_NORM2, &plan.sums.squares, &plan.squares, scratch));
  plan.squaring.op = GPUDNN_OP_TENSOR_MUL;
  plan.squaring.compute = plan.squares.compute;
  plan.squaring.a = plan.squaring.b = plan.squaring.c = plan.squares.c;
  std::size_t bytes = 0;
  plan.sums_together = takes_sums(plan.sums, *m->handle->device, &bytes);
  if (plan.sums_together) *scratch = std::max(*scratch, bytes);
  return GPUDNN_STATUS_SUCCESS;
}

Status plan_conv_with_statistics(Maker* m) {
  GPUDNN_TRY(take_conv(m, conv::Direction::forward));
  GPUDNN_TRY(take_affine_input(m));
  std::size_t after = 0;
  GPUDNN_TRY(plan_statistics(m, &after));
  return reserve_for_conv(m, after);
}

Status plan_filter_gradient(Maker* m) {
  GPUDNN_TRY(take_conv(m, conv::Direction::wgrad));
  GPUDNN_TRY(take_affine_input(m));
  return reserve_for_conv(m, 0);
}

// A convolution's epilogue has a scale and a bias, both of y's type or floats beside 16 bits, and an addend as it is.
bool fits_epilogue(const AffineProblem& affine, DataType type) {
  const ChannelVector& scale = affine.vectors[kScale];
  const ChannelVector& bias = affine.vectors[kBias];
  const auto fits = [type](const ChannelVector& vector) {
    return !vector.present || vector.type == type || (vector.type == GPUDNN_DATA_FLOAT && data_type_bits(type) == 16);
  };
  return fits(scale) && fits(bias) && (!scale.present || !bias.present || scale.type == bias.type) &&
         !affine.vectors[kZScale].present && !affine.vectors[kZBias].present;
}

// What follows the product becomes the convolution's own epilogue.
Status give_epilogue(Plan* plan) {
  plan->has_epilogue = true;
  plan->conv.activation = plan->affine.mode;
  plan->conv.has_z = plan->affine.z.rank != 0 ? 1 : 0;
  plan->conv.z = plan->affine.z;
  const ChannelVector& scale = plan->affine.vectors[kScale];
  const ChannelVector& bias = plan->affine.vectors[kBias];
  for (const ChannelVector* vector : {&scale, &bias}) {
    if (vector->present && vector->type != plan->conv.y.type) plan->conv.float_vectors = 1;
  }
  plan->conv.has_scale = scale.present ? 1 : 0;
  plan->conv.scale_stride = scale.present ? scale.stride : 0;
  plan->conv.has_bias = bias.present ? 1 : 0;
  plan->conv.bias_stride = bias.present ? bias.stride : 0;
  return conv::validate(plan->conv);
}

Status plan_conv_with_epilogue(Maker* m) {
  Plan& plan = *m->plan;
  GPUDNN_TRY(take_conv(m, conv::Direction::forward));
  const TensorGeometry y = plan.conv.y;
  plan.affine.x = plan.affine.y = y;
  GPUDNN_TRY(take_scale_and_bias(m, y));
  GPUDNN_TRY(take_addend(m, y));
  take_activation(m);
  GPUDNN_TRY(validate(plan.affine));
  plan.coef = m->pack.coef;
  plan.propagate_nan = m->pack.nan == GPUDNN_PROPAGATE_NAN;
  if (changes_anything(plan.affine) && fits_epilogue(plan.affine, y.type)) {
    GPUDNN_TRY(give_epilogue(&plan));
  } else if (changes_anything(plan.affine)) {
    plan.has_affine = true;
    // z may be y, so the convolution's result cannot lie there before z was read.
    if (plan.affine.z.rank != 0) {
      plan.conv.y = plan.affine.x = dense_like(y);
      reserve(&plan, size_in_bytes(plan.conv.y), &plan.between);
    }
  }
  return reserve_for_conv(m, 0);
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
  if (plan.has_affine || plan.bits_in_norm) stages.affine = plan.affine;
  if (plan.norm.x.rank != 0) {
    stages.norm = plan.norm;
    stages.norm->ops = GPUDNN_BATCHNORM_OPS_BN;
  }
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
