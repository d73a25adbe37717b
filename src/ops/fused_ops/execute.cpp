// Runs the stages of a plan one after the other on the handle's stream.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "ops/conv/plan.hpp"
#include "ops/fused_ops/entries.hpp"

namespace gpudnn::fused_ops {
namespace {

constexpr std::size_t kWorkspaceAlignment = 16;

struct Run {
  gpudnnHandle_t handle;
  const Plan& plan;
  const VariantPack& pack;

  // Null where it was promised to be.
  [[nodiscard]] void* pointer(gpudnnFusedOpsVariantParamLabel_t label) const {
    return plan.promised[label] ? pack.pointers[label] : nullptr;
  }
  [[nodiscard]] void* in(const Room& room) const {
    return room.bytes == 0 ? nullptr : static_cast<std::byte*>(pack.pointers[GPUDNN_PTR_WORKSPACE]) + room.offset;
  }
};

Status check_pack(const Run& run) {
  GPUDNN_REQUIRE(run.plan.device == run.handle->device, GPUDNN_STATUS_BAD_PARAM,
                 "the plan was made with a handle on device %s; this handle is on %s: make a plan with it",
                 run.plan.device->name.c_str(), run.handle->device->name.c_str());
  for (const Promise& promise : run.plan.promises) {
    const void* const pointer = run.pack.pointers[promise.label];
    GPUDNN_REQUIRE(pointer != nullptr, GPUDNN_STATUS_BAD_PARAM,
                   "%s is null; the plan was made for a pack that promises it", pointer_label_name(promise.label));
    GPUDNN_REQUIRE(reinterpret_cast<std::uintptr_t>(pointer) % promise.alignment == 0, GPUDNN_STATUS_BAD_PARAM,
                   "%s (%p) must be aligned to %zu bytes, as its placeholder promised",
                   pointer_label_name(promise.label), pointer, promise.alignment);
  }
  if (run.plan.workspace == 0) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_REQUIRE(run.pack.workspace_bytes >= run.plan.workspace, GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES is %zu; gpudnnMakeFusedOpsPlan said %zu",
                 run.pack.workspace_bytes, run.plan.workspace);
  const void* const workspace = run.pack.pointers[GPUDNN_PTR_WORKSPACE];
  GPUDNN_REQUIRE(workspace != nullptr && reinterpret_cast<std::uintptr_t>(workspace) % kWorkspaceAlignment == 0,
                 GPUDNN_STATUS_BAD_PARAM, "GPUDNN_PTR_WORKSPACE (%p) must point to %zu bytes of memory aligned to %zu",
                 workspace, run.plan.workspace, kWorkspaceAlignment);
  return GPUDNN_STATUS_SUCCESS;
}

Status run_affine(const Run& run, const void* x, void* y) {
  AffineArgs args;
  args.x = x;
  args.y = y;
  args.z = run.pointer(GPUDNN_PTR_ZDATA);
  for (int v = 0; v < kVectors; ++v) args.vectors[v] = run.pointer(kAffineEntries[v].label);
  args.bits = run.pointer(GPUDNN_PTR_ACTIVATION_BITMASK);
  return fused_ops::run(run.handle, run.plan.affine, args);
}

// The input of the convolution: x as it is, or after scale, bias and activation.
Status run_affine_input(const Run& run, const void** x) {
  *x = run.pointer(GPUDNN_PTR_XDATA);
  if (!run.plan.has_affine) return GPUDNN_STATUS_SUCCESS;
  void* const between = run.in(run.plan.between);
  GPUDNN_TRY(run_affine(run, *x, between));
  *x = between;
  return GPUDNN_STATUS_SUCCESS;
}

bool is_at_sixteen(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % conv::kMaxAlignment == 0; }

// By the engine that the plan chose, without a look-up; pointers at odd addresses, and what has no elements, go the
// convolution's usual way.
Status run_conv(const Run& run, const conv::Args& args) {
  const Plan& plan = run.plan;
  void* const scratch = run.in(plan.scratch);
  if (conv::alignment_of(args) == conv::kMaxAlignment && element_count(plan.conv.x) > 0 &&
      element_count(plan.conv.y) > 0 && element_count(plan.conv.w) > 0) {
    return conv::launch_verified(run.handle, plan.conv, *plan.chosen, args, scratch, plan.conv_bytes);
  }
  return conv::run(run.handle, plan.conv, plan.conv_algorithm, scratch, plan.conv_bytes, args);
}

bool sums_together(const Run& run) { return run.plan.sums_together && is_at_sixteen(run.pointer(GPUDNN_PTR_YDATA)); }

Status run_statistics(const Run& run) {
  const Plan& plan = run.plan;
  reduce::Args args;
  args.a = run.pointer(GPUDNN_PTR_YDATA);
  void* const sum = run.pointer(GPUDNN_PTR_YSUM);
  void* const squares = run.pointer(GPUDNN_PTR_YSQSUM);
  if (sums_together(run)) return fused_ops::run(run.handle, plan.sums, {args.a, sum, squares, run.in(plan.scratch)});
  if (sum != nullptr) {
    args.c = sum;
    GPUDNN_TRY(reduce::run(run.handle, plan.sum, args, run.in(plan.scratch), plan.scratch.bytes));
  }
  if (squares == nullptr) return GPUDNN_STATUS_SUCCESS;
  args.c = squares;
  GPUDNN_TRY(reduce::run(run.handle, plan.squares, args, run.in(plan.scratch), plan.scratch.bytes));
  op_tensor::Args squaring;
  squaring.a = squaring.b = squaring.c = squares;
  return op_tensor::run(run.handle, plan.squaring, squaring);
}

Status run_conv_with_statistics(const Run& run) {
  conv::Args args;
  GPUDNN_TRY(run_affine_input(run, &args.x));
  args.w = run.pointer(GPUDNN_PTR_WDATA);
  args.out = run.pointer(GPUDNN_PTR_YDATA);
  GPUDNN_TRY(run_conv(run, args));
  return run_statistics(run);
}

Status run_filter_gradient(const Run& run) {
  conv::Args args;
  GPUDNN_TRY(run_affine_input(run, &args.x));
  args.y = run.pointer(GPUDNN_PTR_DYDATA);
  args.out = run.pointer(GPUDNN_PTR_DWDATA);
  return run_conv(run, args);
}

Status run_conv_with_epilogue(const Run& run) {
  const Plan& plan = run.plan;
  void* const y = run.pointer(GPUDNN_PTR_YDATA);
  conv::Args args;
  args.x = run.pointer(GPUDNN_PTR_XDATA);
  args.w = run.pointer(GPUDNN_PTR_WDATA);
  args.out = plan.between.bytes != 0 ? run.in(plan.between) : y;
  if (plan.has_epilogue) {
    args.z = run.pointer(GPUDNN_PTR_ZDATA);
    args.alpha2 = plan.conv.has_z != 0 ? 1 : 0;
    args.scale = run.pointer(GPUDNN_PTR_BN_EQSCALE);
    args.bias = run.pointer(GPUDNN_PTR_BN_EQBIAS);
    args.activation_coef = plan.coef;
    args.propagate_nan = plan.propagate_nan;
  }
  GPUDNN_TRY(run_conv(run, args));
  return plan.has_affine ? run_affine(run, args.out, y) : GPUDNN_STATUS_SUCCESS;
}

Status run_batch_norm_gradient(const Run& run) {
  const Plan& plan = run.plan;
  norm::Problem problem = plan.norm;
  problem.epsilon = run.pack.epsilon;
  norm::Args args;
  args.dy = run.pointer(GPUDNN_PTR_DYDATA);
  void* const dz = run.pointer(GPUDNN_PTR_DZDATA);
  if (plan.bits_in_norm) {
    args.mask = run.pointer(GPUDNN_PTR_ACTIVATION_BITMASK);
    args.dz = dz;
  } else if (plan.has_affine) {
    void* const gated = dz != nullptr ? dz : run.in(plan.between);
    GPUDNN_TRY(run_affine(run, args.dy, gated));
    args.dy = gated;
  }
  args.x = run.pointer(GPUDNN_PTR_XDATA);
  args.scale = run.pointer(GPUDNN_PTR_BN_SCALE);
  args.out = run.pointer(GPUDNN_PTR_DXDATA);
  args.dscale = run.pointer(GPUDNN_PTR_BN_DSCALE);
  args.dbias = run.pointer(GPUDNN_PTR_BN_DBIAS);
  if (args.dscale == nullptr) args.dscale = run.in(plan.dscale);
  if (args.dbias == nullptr) args.dbias = run.in(plan.dbias);
  args.given_mean = run.pointer(GPUDNN_PTR_BN_SAVED_MEAN);
  args.given_deviation = run.pointer(GPUDNN_PTR_BN_SAVED_INVSTD);
  args.scratch = run.in(plan.scratch);
  args.scratch_bytes = plan.scratch.bytes;
  return norm::run(run.handle, problem, args);
}

Status run_finalize(const Run& run) {
  FinalizeArgs args;
  const VariantPack& pack = run.pack;
  if (run.plan.finalize.training) {
    GPUDNN_REQUIRE(pack.count >= 1, GPUDNN_STATUS_BAD_PARAM,
                   "GPUDNN_SCALAR_INT64_T_BN_ACCUMULATION_COUNT is %lld; set the number of elements behind each sum",
                   static_cast<long long>(pack.count));
    args.count = pack.count;
    args.factor = pack.factor;
  }
  args.epsilon = pack.epsilon;
  for (int v = 0; v < kFinalizeVectors; ++v) args.vectors[v] = run.pointer(kFinalizeEntries[v].label);
  return fused_ops::run(run.handle, run.plan.finalize, args);
}

Status run_pattern(const Run& run) {
  switch (run.plan.ops) {
    case GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS:
      return run_conv_with_statistics(run);
    case GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_WGRAD:
      return run_filter_gradient(run);
    case GPUDNN_FUSED_CONV_SCALE_BIAS_ADD_ACTIVATION:
      return run_conv_with_epilogue(run);
    case GPUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK:
      return run_affine(run, run.pointer(GPUDNN_PTR_XDATA), run.pointer(GPUDNN_PTR_YDATA));
    case GPUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM:
      return run_batch_norm_gradient(run);
    default:
      return run_finalize(run);
  }
}

}  // namespace

Status execute(gpudnnHandle_t handle, const Plan& plan, const VariantPack& pack) {
  const Run run{handle, plan, pack};
  GPUDNN_TRY(check_pack(run));
  const Status status = run_pattern(run);
  note_problem_lazily([&] { return plan.text; });  // in place of the last stage's
  return status;
}

}  // namespace gpudnn::fused_ops
