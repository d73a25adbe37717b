// Convolution: the three directions, their algorithm queries and searches, and the bias gradient.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/bias_grad/problem.hpp"
#include "ops/conv/engine.hpp"

using namespace gpudnn;
using conv::Direction;
using conv::Problem;

namespace {

// The problem of a direction from its three tensors and the convolution; checks the descriptors and validates.
Status make_problem(Direction direction, gpudnnTensorDescriptor_t xDesc, gpudnnFilterDescriptor_t wDesc,
                    gpudnnConvolutionDescriptor_t convDesc, gpudnnTensorDescriptor_t yDesc, Problem* problem) {
  const conv::Names& names = conv::names_of(direction);
  GPUDNN_TRY(check_tensor(xDesc, names.x));
  GPUDNN_TRY(check_filter(wDesc, names.w));
  GPUDNN_CHECK_OBJECT(convDesc, Kind::convolution);
  GPUDNN_TRY(check_tensor(yDesc, names.y));
  GPUDNN_REQUIRE(
      convDesc->spatial > 0, GPUDNN_STATUS_BAD_PARAM,
      "convDesc was created but never set; call gpudnnSetConvolution2dDescriptor or gpudnnSetConvolutionNdDescriptor");
  GPUDNN_REQUIRE(convDesc->spatial <= conv::kMaxSpatial, GPUDNN_STATUS_NOT_SUPPORTED,
                 "convDesc has %d spatial dimensions; convolution is built for 1 to %d", convDesc->spatial,
                 conv::kMaxSpatial);
  problem->direction = direction;
  problem->spatial = convDesc->spatial;
  problem->groups = convDesc->groups;
  problem->mode = convDesc->mode;
  problem->compute = convDesc->compute;
  problem->math = convDesc->math;
  problem->x = xDesc->geometry;
  problem->w = wDesc->geometry;
  problem->y = yDesc->geometry;
  std::copy_n(convDesc->pad, problem->spatial, problem->pad);
  std::copy_n(convDesc->stride, problem->spatial, problem->stride);
  std::copy_n(convDesc->dilation, problem->spatial, problem->dilation);
  return GPUDNN_STATUS_SUCCESS;
}

Status make_valid_problem(Direction direction, gpudnnTensorDescriptor_t xDesc, gpudnnFilterDescriptor_t wDesc,
                          gpudnnConvolutionDescriptor_t convDesc, gpudnnTensorDescriptor_t yDesc, Problem* problem) {
  GPUDNN_TRY(make_problem(direction, xDesc, wDesc, convDesc, yDesc, problem));
  return conv::validate(*problem);
}

Status check_algorithm(Direction direction, int algo) {
  return check_enum(algo, 0, conv::algorithm_count(direction) - 1, "algo");
}

Status max_count(gpudnnHandle_t handle, Direction direction, int* count) {
  GPUDNN_TRY(check_handle(handle));
  GPUDNN_CHECK_POINTER(count);
  *count = conv::algorithm_count(direction);
  return GPUDNN_STATUS_SUCCESS;
}

// Hands the rows to the caller's array, as many as it asked for. The three result structs differ in one enum type.
template <class Perf>
Status report(std::span<const conv::Performance> rows, int requested, int* returned, Perf* results) {
  const int count = std::min(requested, static_cast<int>(rows.size()));
  for (int i = 0; i < count; ++i) {
    const conv::Performance& row = rows[static_cast<std::size_t>(i)];
    results[i] = Perf{};
    results[i].algo = static_cast<decltype(results[i].algo)>(row.algorithm);
    results[i].status = row.status;
    results[i].time = row.milliseconds;
    results[i].memory = row.memory;
    results[i].determinism = GPUDNN_DETERMINISTIC;
    results[i].mathType = row.math;
  }
  *returned = count;
  return GPUDNN_STATUS_SUCCESS;
}

Status check_results(int requested, const int* returnedAlgoCount, const void* perfResults) {
  GPUDNN_REQUIRE(requested >= 1, GPUDNN_STATUS_BAD_PARAM, "requestedAlgoCount is %d; it must be at least 1", requested);
  GPUDNN_CHECK_POINTER(returnedAlgoCount);
  GPUDNN_CHECK_POINTER(perfResults);
  return GPUDNN_STATUS_SUCCESS;
}

template <class Perf>
Status query(gpudnnHandle_t handle, Direction direction, gpudnnTensorDescriptor_t xDesc, gpudnnFilterDescriptor_t wDesc,
             gpudnnConvolutionDescriptor_t convDesc, gpudnnTensorDescriptor_t yDesc, int requested, int* returned,
             Perf* results) {
  GPUDNN_TRY(check_handle(handle));
  Problem problem;
  GPUDNN_TRY(make_valid_problem(direction, xDesc, wDesc, convDesc, yDesc, &problem));
  GPUDNN_TRY(check_results(requested, returned, results));
  conv::Performances performances;
  GPUDNN_TRY(conv::query_algorithms(handle, problem, &performances));
  return report<Perf>({performances.rows, performances.count}, requested, returned, results);
}

// The search on the caller's data (`given`), or on memory of its own.
template <class Perf>
Status search(gpudnnHandle_t handle, Direction direction, gpudnnTensorDescriptor_t xDesc,
              gpudnnFilterDescriptor_t wDesc, gpudnnConvolutionDescriptor_t convDesc, gpudnnTensorDescriptor_t yDesc,
              const conv::Args* given, void* workSpace, std::size_t workSpaceSizeInBytes, int requested, int* returned,
              Perf* results) {
  GPUDNN_TRY(check_handle(handle));
  Problem problem;
  GPUDNN_TRY(make_valid_problem(direction, xDesc, wDesc, convDesc, yDesc, &problem));
  GPUDNN_TRY(check_results(requested, returned, results));
  std::vector<conv::Performance> rows;
  if (given != nullptr) {
    GPUDNN_TRY(conv::measure_algorithms(handle, problem, *given, workSpace, workSpaceSizeInBytes, &rows));
  } else {
    GPUDNN_TRY(conv::measure_algorithms_on_own_memory(handle, problem, &rows));
  }
  return report<Perf>(rows, requested, returned, results);
}

Status workspace_size(gpudnnHandle_t handle, Direction direction, gpudnnTensorDescriptor_t xDesc,
                      gpudnnFilterDescriptor_t wDesc, gpudnnConvolutionDescriptor_t convDesc,
                      gpudnnTensorDescriptor_t yDesc, int algo, std::size_t* sizeInBytes) {
  GPUDNN_TRY(check_handle(handle));
  Problem problem;
  GPUDNN_TRY(make_valid_problem(direction, xDesc, wDesc, convDesc, yDesc, &problem));
  GPUDNN_TRY(check_algorithm(direction, algo));
  GPUDNN_CHECK_POINTER(sizeInBytes);
  return conv::workspace_size(handle, problem, algo, sizeInBytes);
}

Status check_workspace(const void* workSpace, std::size_t workSpaceSizeInBytes) {
  GPUDNN_REQUIRE(workSpace != nullptr || workSpaceSizeInBytes == 0, GPUDNN_STATUS_BAD_PARAM,
                 "workSpace is null, but workSpaceSizeInBytes is %zu; pass the memory, or a size of 0",
                 workSpaceSizeInBytes);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

// --- forward --------------------------------------------------------------------------------------------------------

extern "C" gpudnnStatus_t gpudnnGetConvolutionForwardAlgorithmMaxCount(gpudnnHandle_t handle, int* count) {
  return guard(__func__, [&]() -> Status { return max_count(handle, Direction::forward, count); });
}

extern "C" gpudnnStatus_t gpudnnGetConvolutionForwardAlgorithm_v7(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t srcDesc, const gpudnnFilterDescriptor_t filterDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t destDesc, const int requestedAlgoCount,
    int* returnedAlgoCount, gpudnnConvolutionFwdAlgoPerf_t* perfResults) {
  return guard(__func__, [&]() -> Status {
    return query(handle, Direction::forward, srcDesc, filterDesc, convDesc, destDesc, requestedAlgoCount,
                 returnedAlgoCount, perfResults);
  });
}

extern "C" gpudnnStatus_t gpudnnFindConvolutionForwardAlgorithm(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const gpudnnFilterDescriptor_t wDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t yDesc, const int requestedAlgoCount,
    int* returnedAlgoCount, gpudnnConvolutionFwdAlgoPerf_t* perfResults) {
  return guard(__func__, [&]() -> Status {
    return search(handle, Direction::forward, xDesc, wDesc, convDesc, yDesc, nullptr, nullptr, 0, requestedAlgoCount,
                  returnedAlgoCount, perfResults);
  });
}

extern "C" gpudnnStatus_t gpudnnFindConvolutionForwardAlgorithmEx(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const void* x, const gpudnnFilterDescriptor_t wDesc,
    const void* w, const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t yDesc, void* y,
    const int requestedAlgoCount, int* returnedAlgoCount, gpudnnConvolutionFwdAlgoPerf_t* perfResults, void* workSpace,
    size_t workSpaceSizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_FILTER(wDesc);
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_DATA(w, wDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    GPUDNN_TRY(check_workspace(workSpace, workSpaceSizeInBytes));
    conv::Args args;
    args.x = x;
    args.w = w;
    args.out = y;
    return search(handle, Direction::forward, xDesc, wDesc, convDesc, yDesc, &args, workSpace, workSpaceSizeInBytes,
                  requestedAlgoCount, returnedAlgoCount, perfResults);
  });
}

extern "C" gpudnnStatus_t gpudnnGetConvolutionForwardWorkspaceSize(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const gpudnnFilterDescriptor_t wDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t yDesc, gpudnnConvolutionFwdAlgo_t algo,
    size_t* sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    return workspace_size(handle, Direction::forward, xDesc, wDesc, convDesc, yDesc, algo, sizeInBytes);
  });
}

extern "C" gpudnnStatus_t gpudnnConvolutionForward(gpudnnHandle_t handle, const void* alpha,
                                                   const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                   const gpudnnFilterDescriptor_t wDesc, const void* w,
                                                   const gpudnnConvolutionDescriptor_t convDesc,
                                                   gpudnnConvolutionFwdAlgo_t algo, void* workSpace,
                                                   size_t workSpaceSizeInBytes, const void* beta,
                                                   const gpudnnTensorDescriptor_t yDesc, void* y) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_POINTER(beta);
    Problem problem;
    GPUDNN_TRY(make_valid_problem(Direction::forward, xDesc, wDesc, convDesc, yDesc, &problem));
    GPUDNN_TRY(check_algorithm(Direction::forward, algo));
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_DATA(w, wDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    GPUDNN_TRY(check_workspace(workSpace, workSpaceSizeInBytes));
    conv::Args args;
    args.alpha = scalar(alpha, problem.y.type);
    args.beta = scalar(beta, problem.y.type);
    args.x = x;
    args.w = w;
    args.out = y;
    return conv::run(handle, problem, algo, workSpace, workSpaceSizeInBytes, args);
  });
}

extern "C" gpudnnStatus_t gpudnnConvolutionBiasActivationForward(
    gpudnnHandle_t handle, const void* alpha1, const gpudnnTensorDescriptor_t xDesc, const void* x,
    const gpudnnFilterDescriptor_t wDesc, const void* w, const gpudnnConvolutionDescriptor_t convDesc,
    gpudnnConvolutionFwdAlgo_t algo, void* workSpace, size_t workSpaceSizeInBytes, const void* alpha2,
    const gpudnnTensorDescriptor_t zDesc, const void* z, const gpudnnTensorDescriptor_t biasDesc, const void* bias,
    const gpudnnActivationDescriptor_t activationDesc, const gpudnnTensorDescriptor_t yDesc, void* y) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(alpha1);
    GPUDNN_CHECK_POINTER(alpha2);
    Problem problem;
    GPUDNN_TRY(make_problem(Direction::forward, xDesc, wDesc, convDesc, yDesc, &problem));
    GPUDNN_TRY(check_algorithm(Direction::forward, algo));
    GPUDNN_CHECK_TENSOR(zDesc);
    GPUDNN_CHECK_TENSOR(biasDesc);
    GPUDNN_CHECK_OBJECT(activationDesc, Kind::activation);
    GPUDNN_REQUIRE(activationDesc->set, GPUDNN_STATUS_BAD_PARAM,
                   "activationDesc was created but never set; call gpudnnSetActivationDescriptor");
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_DATA(w, wDesc);
    GPUDNN_REQUIRE(z != nullptr || scalar(alpha2, problem.y.type) == 0 || element_count(zDesc->geometry) == 0,
                   GPUDNN_STATUS_BAD_PARAM, "z is null, but alpha2 is not 0; pass the data that zDesc describes");
    GPUDNN_CHECK_DATA(bias, biasDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    GPUDNN_TRY(check_workspace(workSpace, workSpaceSizeInBytes));
    conv::Args args;
    args.alpha = scalar(alpha1, problem.y.type);
    args.alpha2 = scalar(alpha2, problem.y.type);
    args.x = x;
    args.w = w;
    args.z = z;
    args.bias = bias;
    args.out = y;
    args.activation_coef =
        activationDesc->mode == GPUDNN_ACTIVATION_SWISH ? activationDesc->swish_beta : activationDesc->coef;
    args.propagate_nan = activationDesc->nan == GPUDNN_PROPAGATE_NAN;
    // With alpha2 == 0 z is not read, as an output with beta == 0 is not.
    problem.has_z = args.alpha2 != 0 ? 1 : 0;
    if (problem.has_z != 0) problem.z = zDesc->geometry;
    problem.activation = activationDesc->mode;
    GPUDNN_TRY(conv::set_bias(&problem, biasDesc->geometry));
    GPUDNN_TRY(conv::validate(problem));
    return conv::run(handle, problem, algo, workSpace, workSpaceSizeInBytes, args);
  });
}

// --- data gradient --------------------------------------------------------------------------------------------------

extern "C" gpudnnStatus_t gpudnnGetConvolutionBackwardDataAlgorithmMaxCount(gpudnnHandle_t handle, int* count) {
  return guard(__func__, [&]() -> Status { return max_count(handle, Direction::dgrad, count); });
}

extern "C" gpudnnStatus_t gpudnnGetConvolutionBackwardDataAlgorithm_v7(
    gpudnnHandle_t handle, const gpudnnFilterDescriptor_t filterDesc, const gpudnnTensorDescriptor_t diffDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t gradDesc, const int requestedAlgoCount,
    int* returnedAlgoCount, gpudnnConvolutionBwdDataAlgoPerf_t* perfResults) {
  return guard(__func__, [&]() -> Status {
    return query(handle, Direction::dgrad, gradDesc, filterDesc, convDesc, diffDesc, requestedAlgoCount,
                 returnedAlgoCount, perfResults);
  });
}

extern "C" gpudnnStatus_t gpudnnFindConvolutionBackwardDataAlgorithm(
    gpudnnHandle_t handle, const gpudnnFilterDescriptor_t wDesc, const gpudnnTensorDescriptor_t dyDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t dxDesc, const int requestedAlgoCount,
    int* returnedAlgoCount, gpudnnConvolutionBwdDataAlgoPerf_t* perfResults) {
  return guard(__func__, [&]() -> Status {
    return search(handle, Direction::dgrad, dxDesc, wDesc, convDesc, dyDesc, nullptr, nullptr, 0, requestedAlgoCount,
                  returnedAlgoCount, perfResults);
  });
}

extern "C" gpudnnStatus_t gpudnnFindConvolutionBackwardDataAlgorithmEx(
    gpudnnHandle_t handle, const gpudnnFilterDescriptor_t wDesc, const void* w, const gpudnnTensorDescriptor_t dyDesc,
    const void* dy, const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t dxDesc, void* dx,
    const int requestedAlgoCount, int* returnedAlgoCount, gpudnnConvolutionBwdDataAlgoPerf_t* perfResults,
    void* workSpace, size_t workSpaceSizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_FILTER(wDesc);
    GPUDNN_CHECK_TENSOR(dyDesc);
    GPUDNN_CHECK_TENSOR(dxDesc);
    GPUDNN_CHECK_DATA(w, wDesc);
    GPUDNN_CHECK_DATA(dy, dyDesc);
    GPUDNN_CHECK_DATA(dx, dxDesc);
    GPUDNN_TRY(check_workspace(workSpace, workSpaceSizeInBytes));
    conv::Args args;
    args.w = w;
    args.y = dy;
    args.out = dx;
    return search(handle, Direction::dgrad, dxDesc, wDesc, convDesc, dyDesc, &args, workSpace, workSpaceSizeInBytes,
                  requestedAlgoCount, returnedAlgoCount, perfResults);
  });
}

extern "C" gpudnnStatus_t gpudnnGetConvolutionBackwardDataWorkspaceSize(
    gpudnnHandle_t handle, const gpudnnFilterDescriptor_t wDesc, const gpudnnTensorDescriptor_t dyDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t dxDesc,
    gpudnnConvolutionBwdDataAlgo_t algo, size_t* sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    return workspace_size(handle, Direction::dgrad, dxDesc, wDesc, convDesc, dyDesc, algo, sizeInBytes);
  });
}

extern "C" gpudnnStatus_t gpudnnConvolutionBackwardData(gpudnnHandle_t handle, const void* alpha,
                                                        const gpudnnFilterDescriptor_t wDesc, const void* w,
                                                        const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                        const gpudnnConvolutionDescriptor_t convDesc,
                                                        gpudnnConvolutionBwdDataAlgo_t algo, void* workSpace,
                                                        size_t workSpaceSizeInBytes, const void* beta,
                                                        const gpudnnTensorDescriptor_t dxDesc, void* dx) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_POINTER(beta);
    Problem problem;
    GPUDNN_TRY(make_valid_problem(Direction::dgrad, dxDesc, wDesc, convDesc, dyDesc, &problem));
    GPUDNN_TRY(check_algorithm(Direction::dgrad, algo));
    GPUDNN_CHECK_DATA(w, wDesc);
    GPUDNN_CHECK_DATA(dy, dyDesc);
    GPUDNN_CHECK_DATA(dx, dxDesc);
    GPUDNN_TRY(check_workspace(workSpace, workSpaceSizeInBytes));
    conv::Args args;
    args.alpha = scalar(alpha, problem.x.type);
    args.beta = scalar(beta, problem.x.type);
    args.w = w;
    args.y = dy;
    args.out = dx;
    return conv::run(handle, problem, algo, workSpace, workSpaceSizeInBytes, args);
  });
}

// --- filter gradient ------------------------------------------------------------------------------------------------

extern "C" gpudnnStatus_t gpudnnGetConvolutionBackwardFilterAlgorithmMaxCount(gpudnnHandle_t handle, int* count) {
  return guard(__func__, [&]() -> Status { return max_count(handle, Direction::wgrad, count); });
}

extern "C" gpudnnStatus_t gpudnnGetConvolutionBackwardFilterAlgorithm_v7(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t srcDesc, const gpudnnTensorDescriptor_t diffDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnFilterDescriptor_t gradDesc, const int requestedAlgoCount,
    int* returnedAlgoCount, gpudnnConvolutionBwdFilterAlgoPerf_t* perfResults) {
  return guard(__func__, [&]() -> Status {
    return query(handle, Direction::wgrad, srcDesc, gradDesc, convDesc, diffDesc, requestedAlgoCount, returnedAlgoCount,
                 perfResults);
  });
}

extern "C" gpudnnStatus_t gpudnnFindConvolutionBackwardFilterAlgorithm(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const gpudnnTensorDescriptor_t dyDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnFilterDescriptor_t dwDesc, const int requestedAlgoCount,
    int* returnedAlgoCount, gpudnnConvolutionBwdFilterAlgoPerf_t* perfResults) {
  return guard(__func__, [&]() -> Status {
    return search(handle, Direction::wgrad, xDesc, dwDesc, convDesc, dyDesc, nullptr, nullptr, 0, requestedAlgoCount,
                  returnedAlgoCount, perfResults);
  });
}

extern "C" gpudnnStatus_t gpudnnFindConvolutionBackwardFilterAlgorithmEx(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const void* x, const gpudnnTensorDescriptor_t dyDesc,
    const void* y, const gpudnnConvolutionDescriptor_t convDesc, const gpudnnFilterDescriptor_t dwDesc, void* dw,
    const int requestedAlgoCount, int* returnedAlgoCount, gpudnnConvolutionBwdFilterAlgoPerf_t* perfResults,
    void* workSpace, size_t workSpaceSizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_TENSOR(dyDesc);
    GPUDNN_CHECK_FILTER(dwDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_DATA(y, dyDesc);
    GPUDNN_CHECK_DATA(dw, dwDesc);
    GPUDNN_TRY(check_workspace(workSpace, workSpaceSizeInBytes));
    conv::Args args;
    args.x = x;
    args.y = y;
    args.out = dw;
    return search(handle, Direction::wgrad, xDesc, dwDesc, convDesc, dyDesc, &args, workSpace, workSpaceSizeInBytes,
                  requestedAlgoCount, returnedAlgoCount, perfResults);
  });
}

extern "C" gpudnnStatus_t gpudnnGetConvolutionBackwardFilterWorkspaceSize(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const gpudnnTensorDescriptor_t dyDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnFilterDescriptor_t gradDesc,
    gpudnnConvolutionBwdFilterAlgo_t algo, size_t* sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    return workspace_size(handle, Direction::wgrad, xDesc, gradDesc, convDesc, dyDesc, algo, sizeInBytes);
  });
}

extern "C" gpudnnStatus_t gpudnnConvolutionBackwardFilter(gpudnnHandle_t handle, const void* alpha,
                                                          const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                          const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                          const gpudnnConvolutionDescriptor_t convDesc,
                                                          gpudnnConvolutionBwdFilterAlgo_t algo, void* workSpace,
                                                          size_t workSpaceSizeInBytes, const void* beta,
                                                          const gpudnnFilterDescriptor_t dwDesc, void* dw) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_POINTER(beta);
    Problem problem;
    GPUDNN_TRY(make_valid_problem(Direction::wgrad, xDesc, dwDesc, convDesc, dyDesc, &problem));
    GPUDNN_TRY(check_algorithm(Direction::wgrad, algo));
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_DATA(dy, dyDesc);
    GPUDNN_CHECK_DATA(dw, dwDesc);
    GPUDNN_TRY(check_workspace(workSpace, workSpaceSizeInBytes));
    conv::Args args;
    args.alpha = scalar(alpha, problem.w.type);
    args.beta = scalar(beta, problem.w.type);
    args.x = x;
    args.y = dy;
    args.out = dw;
    return conv::run(handle, problem, algo, workSpace, workSpaceSizeInBytes, args);
  });
}

// --- bias gradient --------------------------------------------------------------------------------------------------

extern "C" gpudnnStatus_t gpudnnConvolutionBackwardBias(gpudnnHandle_t handle, const void* alpha,
                                                        const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                        const void* beta, const gpudnnTensorDescriptor_t dbDesc,
                                                        void* db) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(dyDesc);
    GPUDNN_CHECK_DATA(dy, dyDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(dbDesc);
    GPUDNN_CHECK_DATA(db, dbDesc);
    bias_grad::Problem problem;
    problem.dy = dyDesc->geometry;
    problem.db = dbDesc->geometry;
    GPUDNN_TRY(bias_grad::validate(problem));
    bias_grad::Args args;
    args.alpha = scalar(alpha, problem.db.type);
    args.beta = scalar(beta, problem.db.type);
    args.dy = dy;
    args.db = db;
    return bias_grad::run(handle, problem, args);
  });
}
