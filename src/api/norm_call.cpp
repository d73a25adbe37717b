// From the arguments of a normalization call to a problem.
// SPDX-License-Identifier: Apache-2.0
#include "api/norm_call.hpp"

#include "core/validation.hpp"

namespace gpudnn::norm {
namespace {

// Refuses with the names of the interface; a call that has no such argument is not asked for it.
#define GPUDNN_NORM_NEEDS(call, member, name) \
  GPUDNN_REQUIRE((call).member != nullptr, GPUDNN_STATUS_BAD_PARAM, "%s is null; it must point to memory", name)

bool activates(gpudnnBatchNormOps_t ops) { return ops != GPUDNN_BATCHNORM_OPS_BN; }
bool adds(gpudnnBatchNormOps_t ops) { return ops == GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION; }

Status take_activation(gpudnnBatchNormOps_t ops, gpudnnActivationDescriptor_t activationDesc, Problem* problem) {
  GPUDNN_TRY(check_enum(ops, GPUDNN_BATCHNORM_OPS_BN, GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION, "ops"));
  problem->ops = ops;
  if (activationDesc == nullptr && !activates(ops)) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_CHECK_OBJECT(activationDesc, Kind::activation);
  GPUDNN_REQUIRE(activationDesc->set, GPUDNN_STATUS_BAD_PARAM,
                 "activationDesc was created but never set; call gpudnnSetActivationDescriptor");
  if (!activates(ops)) return GPUDNN_STATUS_SUCCESS;
  problem->mode = activationDesc->mode;
  problem->nan = activationDesc->nan;
  problem->coef = problem->mode == GPUDNN_ACTIVATION_CLIPPED_RELU ? activationDesc->coef : 0;
  return GPUDNN_STATUS_SUCCESS;
}

template <class Call>
Status take_parameters(const Call& call, Problem* problem) {
  GPUDNN_TRY(check_tensor(call.scaleBiasDesc, call.names->scaleBiasDesc));
  GPUDNN_TRY(check_tensor(call.meanVarDesc, call.names->meanVarDesc));
  problem->params = call.scaleBiasDesc->geometry;
  problem->stats = call.meanVarDesc->geometry;
  return GPUDNN_STATUS_SUCCESS;
}

Status make_problem(const ForwardCall& call, Problem* problem) {
  problem->pass = call.pass;
  problem->per_activation = call.per_activation;
  problem->epsilon = call.epsilon;
  GPUDNN_TRY(take_activation(call.ops, call.activationDesc, problem));
  const auto xDesc = call.xDesc;
  const auto yDesc = call.yDesc;
  const auto zDesc = call.zDesc;
  GPUDNN_CHECK_TENSOR(xDesc);
  GPUDNN_CHECK_TENSOR(yDesc);
  problem->x = xDesc->geometry;
  problem->y = yDesc->geometry;
  if (adds(call.ops) || zDesc != nullptr) GPUDNN_CHECK_TENSOR(zDesc);
  if (adds(call.ops)) problem->z = zDesc->geometry;
  return take_parameters(call, problem);
}

Status make_problem(const BackwardCall& call, Problem* problem) {
  problem->pass = Pass::backward;
  problem->per_activation = call.per_activation;
  problem->epsilon = call.epsilon;
  GPUDNN_TRY(take_activation(call.ops, call.activationDesc, problem));
  const auto xDesc = call.xDesc;
  const auto yDesc = call.yDesc;
  const auto dyDesc = call.dyDesc;
  const auto dxDesc = call.dxDesc;
  const auto dzDesc = call.dzDesc;
  GPUDNN_CHECK_TENSOR(xDesc);
  if (yDesc != nullptr) GPUDNN_CHECK_TENSOR(yDesc);
  GPUDNN_CHECK_TENSOR(dyDesc);
  GPUDNN_CHECK_TENSOR(dxDesc);
  problem->x = xDesc->geometry;
  problem->dy = dyDesc->geometry;
  problem->dx = dxDesc->geometry;
  if (adds(call.ops) || dzDesc != nullptr) GPUDNN_CHECK_TENSOR(dzDesc);
  if (adds(call.ops)) problem->dz = dzDesc->geometry;
  return take_parameters(call, problem);
}

// Both of a pair, or neither.
Status check_pair(const void* first, const char* first_name, const void* second, const char* second_name) {
  GPUDNN_REQUIRE((first == nullptr) == (second == nullptr), GPUDNN_STATUS_BAD_PARAM,
                 "%s is null and %s is not; give both or neither", first == nullptr ? first_name : second_name,
                 first == nullptr ? second_name : first_name);
  return GPUDNN_STATUS_SUCCESS;
}

// An output that is an input must lie as the input does.
Status check_in_place(const void* in, const TensorGeometry& in_geometry, const char* in_name, const void* out,
                      const TensorGeometry& out_geometry, const char* out_name) {
  GPUDNN_REQUIRE(in != out || same_layout(in_geometry, out_geometry), GPUDNN_STATUS_BAD_PARAM,
                 "%s and %s are the same memory with different strides; in place, both need one layout", out_name,
                 in_name);
  return GPUDNN_STATUS_SUCCESS;
}

Status take_memory(gpudnnHandle_t handle, const CallMemory& memory, const Problem& problem, Args* args) {
  GPUDNN_REQUIRE(memory.workspace != nullptr || memory.workspace_bytes == 0, GPUDNN_STATUS_BAD_PARAM,
                 "%s is null but has %zu bytes; its size must be 0",
                 problem.pass == Pass::backward ? "workSpace" : "workspace", memory.workspace_bytes);
  args->scratch = memory.workspace;
  args->scratch_bytes = memory.workspace_bytes;
  if (!has_mask(problem)) return GPUDNN_STATUS_SUCCESS;
  const std::size_t needed = reserve_bytes(*handle->device, problem);
  GPUDNN_REQUIRE(memory.reserve_bytes >= needed && (memory.reserve != nullptr || needed == 0), GPUDNN_STATUS_BAD_PARAM,
                 "the reserve space has %zu bytes at %p; the activation needs %zu", memory.reserve_bytes,
                 memory.reserve, needed);
  args->mask = memory.reserve;
  return GPUDNN_STATUS_SUCCESS;
}

Status take_forward_pointers(const ForwardCall& call, Problem* problem, Args* args) {
  GPUDNN_NORM_NEEDS(call, alpha, "alpha");
  GPUDNN_NORM_NEEDS(call, beta, "beta");
  if (element_count(problem->x) > 0) {
    GPUDNN_NORM_NEEDS(call, x, call.names->x);
    GPUDNN_NORM_NEEDS(call, y, call.names->y);
    if (adds(call.ops)) GPUDNN_NORM_NEEDS(call, z, call.names->z);
  }
  GPUDNN_NORM_NEEDS(call, scale, call.names->scale);
  GPUDNN_NORM_NEEDS(call, bias, call.names->bias);
  if (call.pass == Pass::infer) {
    GPUDNN_NORM_NEEDS(call, estimatedMean, "estimatedMean");
    GPUDNN_NORM_NEEDS(call, estimatedVariance, "estimatedVariance");
  }
  GPUDNN_TRY(check_pair(call.runningMean, "resultRunningMean", call.runningVariance, "resultRunningVariance"));
  GPUDNN_TRY(check_pair(call.saveMean, "resultSaveMean", call.saveInvVariance, "resultSaveInvVariance"));
  GPUDNN_TRY(check_in_place(call.x, problem->x, "x", call.y, problem->y, "y"));
  if (adds(call.ops)) GPUDNN_TRY(check_in_place(call.z, problem->z, "z", call.y, problem->y, "y"));
  problem->running = call.runningMean != nullptr;
  problem->saved = call.saveMean != nullptr;
  args->alpha = scalar(call.alpha, problem->x.type);
  args->beta = scalar(call.beta, problem->x.type);
  args->factor = call.factor;
  args->x = call.x;
  args->z = call.z;
  args->out = call.y;
  args->scale = call.scale;
  args->bias = call.bias;
  args->running_mean = call.runningMean;
  args->running_variance = call.runningVariance;
  args->saved_mean = call.saveMean;
  args->saved_inverse = call.saveInvVariance;
  args->given_mean = call.estimatedMean;
  args->given_deviation = call.estimatedVariance;
  return GPUDNN_STATUS_SUCCESS;
}

Status take_backward_pointers(const BackwardCall& call, Problem* problem, Args* args) {
  GPUDNN_NORM_NEEDS(call, alphaData, "alphaDataDiff");
  GPUDNN_NORM_NEEDS(call, betaData, "betaDataDiff");
  GPUDNN_NORM_NEEDS(call, alphaParam, "alphaParamDiff");
  GPUDNN_NORM_NEEDS(call, betaParam, "betaParamDiff");
  if (element_count(problem->x) > 0) {
    GPUDNN_NORM_NEEDS(call, x, call.names->x);
    GPUDNN_NORM_NEEDS(call, dy, call.names->dy);
    GPUDNN_NORM_NEEDS(call, dx, call.names->dx);
    if (adds(call.ops)) GPUDNN_NORM_NEEDS(call, dz, call.names->dz);
  }
  GPUDNN_NORM_NEEDS(call, scale, call.names->scale);
  GPUDNN_NORM_NEEDS(call, dScale, call.names->dScale);
  GPUDNN_NORM_NEEDS(call, dBias, call.names->dBias);
  GPUDNN_TRY(check_pair(call.savedMean, "savedMean", call.savedInvVariance, "savedInvVariance"));
  GPUDNN_TRY(check_in_place(call.x, problem->x, "x", call.dx, problem->dx, "dx"));
  GPUDNN_TRY(check_in_place(call.dy, problem->dy, "dy", call.dx, problem->dx, "dx"));
  if (adds(call.ops)) {
    GPUDNN_TRY(check_in_place(call.dy, problem->dy, "dy", call.dz, problem->dz, "dz"));
    GPUDNN_REQUIRE(call.dz != call.dx && call.dz != call.x, GPUDNN_STATUS_BAD_PARAM,
                   "dz is the memory of %s; of the inputs it may be dy alone", call.dz == call.dx ? "dx" : "x");
  }
  problem->saved = call.savedMean != nullptr;
  args->alpha = scalar(call.alphaData, problem->x.type);
  args->beta = scalar(call.betaData, problem->x.type);
  args->alpha_param = scalar(call.alphaParam, problem->x.type);
  args->beta_param = scalar(call.betaParam, problem->x.type);
  args->x = call.x;
  args->dy = call.dy;
  args->out = call.dx;
  args->dz = call.dz;
  args->scale = call.scale;
  args->dscale = call.dScale;
  args->dbias = call.dBias;
  args->given_mean = call.savedMean;
  args->given_deviation = call.savedInvVariance;
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

Status check_input(gpudnnTensorDescriptor_t xDesc) {
  GPUDNN_TRY(require_floating(xDesc->geometry, "xDesc"));
  return require_rank(xDesc->geometry, "xDesc", 2, kMaxRank);
}

Status run_forward(gpudnnHandle_t handle, const ForwardCall& call) {
  Problem problem;
  Args args;
  GPUDNN_TRY(make_problem(call, &problem));
  GPUDNN_TRY(validate(problem));
  GPUDNN_TRY(take_forward_pointers(call, &problem, &args));
  GPUDNN_TRY(take_memory(handle, call.memory, problem, &args));
  return run(handle, problem, args);
}

Status run_backward(gpudnnHandle_t handle, const BackwardCall& call) {
  Problem problem;
  Args args;
  GPUDNN_TRY(make_problem(call, &problem));
  GPUDNN_TRY(validate(problem));
  GPUDNN_TRY(take_backward_pointers(call, &problem, &args));
  GPUDNN_TRY(take_memory(handle, call.memory, problem, &args));
  return run(handle, problem, args);
}

Status forward_workspace(gpudnnHandle_t handle, const ForwardCall& call, std::size_t* sizeInBytes) {
  GPUDNN_CHECK_POINTER(sizeInBytes);
  Problem problem;
  GPUDNN_TRY(make_problem(call, &problem));
  GPUDNN_TRY(validate(problem));
  *sizeInBytes = workspace_bytes(handle, problem);
  return GPUDNN_STATUS_SUCCESS;
}

Status backward_workspace(gpudnnHandle_t handle, const BackwardCall& call, std::size_t* sizeInBytes) {
  GPUDNN_CHECK_POINTER(sizeInBytes);
  Problem problem;
  GPUDNN_TRY(make_problem(call, &problem));
  GPUDNN_TRY(validate(problem));
  problem.saved = false;  // the call may come without, and then needs more
  *sizeInBytes = workspace_bytes(handle, problem);
  return GPUDNN_STATUS_SUCCESS;
}

Status reserve_size(gpudnnHandle_t handle, const ForwardCall& call, std::size_t* sizeInBytes) {
  GPUDNN_CHECK_POINTER(sizeInBytes);
  const auto xDesc = call.xDesc;
  GPUDNN_CHECK_TENSOR(xDesc);
  GPUDNN_TRY(check_input(xDesc));
  Problem problem;
  problem.pass = call.pass;
  problem.per_activation = call.per_activation;
  problem.x = xDesc->geometry;
  GPUDNN_TRY(take_activation(call.ops, call.activationDesc, &problem));
  *sizeInBytes = reserve_bytes(*handle->device, problem);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::norm
