// Entry points of local response normalization and divisive normalization.
// SPDX-License-Identifier: Apache-2.0
#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/lrn/problem.hpp"

using namespace gpudnn;

namespace {

lrn::Problem make_problem(gpudnnLRNDescriptor_t normDesc, gpudnnTensorDescriptor_t xDesc) {
  lrn::Problem problem;
  problem.n = static_cast<std::int32_t>(normDesc->n);
  problem.alpha = normDesc->alpha;
  problem.beta = normDesc->beta;
  problem.k = normDesc->k;
  problem.x = xDesc->geometry;
  return problem;
}

lrn::Args make_args(const void* alpha, const void* beta, const lrn::Problem& problem) {
  lrn::Args args;
  args.alpha = scalar(alpha, problem.x.type);
  args.beta = scalar(beta, problem.x.type);
  return args;
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnCreateLRNDescriptor(gpudnnLRNDescriptor_t* normDesc) {
  return guard(__func__, [&]() -> Status { return create_object(normDesc, "normDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroyLRNDescriptor(gpudnnLRNDescriptor_t lrnDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(lrnDesc, Kind::lrn, "lrnDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetLRNDescriptor(gpudnnLRNDescriptor_t normDesc, unsigned lrnN, double lrnAlpha,
                                                 double lrnBeta, double lrnK) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(normDesc, Kind::lrn);
    GPUDNN_REQUIRE(lrnN >= GPUDNN_LRN_MIN_N && lrnN <= GPUDNN_LRN_MAX_N, GPUDNN_STATUS_BAD_PARAM,
                   "lrnN is %u; a window has %d to %d elements", lrnN, GPUDNN_LRN_MIN_N, GPUDNN_LRN_MAX_N);
    // Written so that a NaN is refused too.
    GPUDNN_REQUIRE(lrnBeta >= GPUDNN_LRN_MIN_BETA, GPUDNN_STATUS_BAD_PARAM, "lrnBeta is %g; it must be at least %g",
                   lrnBeta, GPUDNN_LRN_MIN_BETA);
    GPUDNN_REQUIRE(lrnK >= GPUDNN_LRN_MIN_K, GPUDNN_STATUS_BAD_PARAM, "lrnK is %g; it must be at least %g", lrnK,
                   GPUDNN_LRN_MIN_K);
    normDesc->n = lrnN;
    normDesc->alpha = lrnAlpha;
    normDesc->beta = lrnBeta;
    normDesc->k = lrnK;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetLRNDescriptor(gpudnnLRNDescriptor_t normDesc, unsigned* lrnN, double* lrnAlpha,
                                                 double* lrnBeta, double* lrnK) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(normDesc, Kind::lrn);
    if (lrnN != nullptr) *lrnN = normDesc->n;
    if (lrnAlpha != nullptr) *lrnAlpha = normDesc->alpha;
    if (lrnBeta != nullptr) *lrnBeta = normDesc->beta;
    if (lrnK != nullptr) *lrnK = normDesc->k;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnLRNCrossChannelForward(gpudnnHandle_t handle, gpudnnLRNDescriptor_t normDesc,
                                                       gpudnnLRNMode_t lrnMode, const void* alpha,
                                                       const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                       const void* beta, const gpudnnTensorDescriptor_t yDesc,
                                                       void* y) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_OBJECT(normDesc, Kind::lrn);
    GPUDNN_TRY(check_enum(lrnMode, GPUDNN_LRN_CROSS_CHANNEL_DIM1, GPUDNN_LRN_CROSS_CHANNEL_DIM1, "lrnMode"));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    lrn::Problem problem = make_problem(normDesc, xDesc);
    problem.y = yDesc->geometry;
    GPUDNN_TRY(lrn::validate(problem));
    lrn::Args args = make_args(alpha, beta, problem);
    args.x = x;
    args.out = y;
    return lrn::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnLRNCrossChannelBackward(gpudnnHandle_t handle, gpudnnLRNDescriptor_t normDesc,
                                                        gpudnnLRNMode_t lrnMode, const void* alpha,
                                                        const gpudnnTensorDescriptor_t yDesc, const void* y,
                                                        const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                        const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                        const void* beta, const gpudnnTensorDescriptor_t dxDesc,
                                                        void* dx) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_OBJECT(normDesc, Kind::lrn);
    GPUDNN_TRY(check_enum(lrnMode, GPUDNN_LRN_CROSS_CHANNEL_DIM1, GPUDNN_LRN_CROSS_CHANNEL_DIM1, "lrnMode"));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    GPUDNN_CHECK_TENSOR(dyDesc);
    GPUDNN_CHECK_DATA(dy, dyDesc);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(dxDesc);
    GPUDNN_CHECK_DATA(dx, dxDesc);
    lrn::Problem problem = make_problem(normDesc, xDesc);
    problem.backward = true;
    problem.y = yDesc->geometry;
    problem.dy = dyDesc->geometry;
    problem.dx = dxDesc->geometry;
    GPUDNN_TRY(lrn::validate(problem));
    lrn::Args args = make_args(alpha, beta, problem);
    args.x = x;
    args.dy = dy;
    args.out = dx;
    return lrn::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnDivisiveNormalizationForward(gpudnnHandle_t handle, gpudnnLRNDescriptor_t normDesc,
                                                             gpudnnDivNormMode_t mode, const void* alpha,
                                                             const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                             const void* means, void* temp, void* temp2,
                                                             const void* beta, const gpudnnTensorDescriptor_t yDesc,
                                                             void* y) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_OBJECT(normDesc, Kind::lrn);
    GPUDNN_TRY(check_enum(mode, GPUDNN_DIVNORM_PRECOMPUTED_MEANS, GPUDNN_DIVNORM_PRECOMPUTED_MEANS, "mode"));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_DATA(temp, xDesc);
    GPUDNN_CHECK_DATA(temp2, xDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    lrn::Problem problem = make_problem(normDesc, xDesc);
    problem.spatial = true;
    problem.has_means = means != nullptr;
    problem.y = yDesc->geometry;
    GPUDNN_TRY(lrn::validate(problem));
    lrn::Args args = make_args(alpha, beta, problem);
    args.x = x;
    args.means = means;
    args.temp = temp;
    args.temp2 = temp2;
    args.out = y;
    return lrn::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnDivisiveNormalizationBackward(
    gpudnnHandle_t handle, gpudnnLRNDescriptor_t normDesc, gpudnnDivNormMode_t mode, const void* alpha,
    const gpudnnTensorDescriptor_t xDesc, const void* x, const void* means, const void* dy, void* temp, void* temp2,
    const void* beta, const gpudnnTensorDescriptor_t dXdMeansDesc, void* dx, void* dMeans) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_OBJECT(normDesc, Kind::lrn);
    GPUDNN_TRY(check_enum(mode, GPUDNN_DIVNORM_PRECOMPUTED_MEANS, GPUDNN_DIVNORM_PRECOMPUTED_MEANS, "mode"));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_DATA(dy, xDesc);
    GPUDNN_CHECK_DATA(temp, xDesc);
    GPUDNN_CHECK_DATA(temp2, xDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(dXdMeansDesc);
    GPUDNN_CHECK_DATA(dx, dXdMeansDesc);
    lrn::Problem problem = make_problem(normDesc, xDesc);
    problem.spatial = true;
    problem.backward = true;
    problem.has_means = means != nullptr;
    problem.means_gradient = dMeans != nullptr;
    problem.dy = xDesc->geometry;
    problem.dx = dXdMeansDesc->geometry;
    GPUDNN_TRY(lrn::validate(problem));
    lrn::Args args = make_args(alpha, beta, problem);
    args.x = x;
    args.means = means;
    args.dy = dy;
    args.temp = temp;
    args.temp2 = temp2;
    args.out = dx;
    args.means_gradient = dMeans;
    return lrn::run(handle, problem, args);
  });
}
