// Pooling descriptors and pooling.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/pooling/problem.hpp"

using namespace gpudnn;

namespace {

constexpr int kMaxWindowRank = kMaxRank - 2;

Status set_pooling(gpudnnPoolingDescriptor_t poolingDesc, gpudnnPoolingMode_t mode, gpudnnNanPropagation_t nan,
                   int spatial, const int* window, const int* pad, const int* stride) {
  GPUDNN_CHECK_OBJECT(poolingDesc, Kind::pooling);
  GPUDNN_TRY(check_enum(mode, GPUDNN_POOLING_MAX, GPUDNN_POOLING_MAX_DETERMINISTIC, "mode"));
  GPUDNN_TRY(check_enum(nan, GPUDNN_NOT_PROPAGATE_NAN, GPUDNN_PROPAGATE_NAN, "maxpoolingNanOpt"));
  GPUDNN_REQUIRE(spatial >= 1 && spatial <= kMaxWindowRank, refused_rank(spatial, kMaxWindowRank),
                 "nbDims is %d; a window has 1 to %d spatial dimensions", spatial, kMaxWindowRank);
  GPUDNN_REQUIRE(window != nullptr, GPUDNN_STATUS_BAD_PARAM, "windowDimA is null; it must point to memory");
  GPUDNN_REQUIRE(pad != nullptr, GPUDNN_STATUS_BAD_PARAM, "paddingA is null; it must point to memory");
  GPUDNN_REQUIRE(stride != nullptr, GPUDNN_STATUS_BAD_PARAM, "strideA is null; it must point to memory");
  for (int i = 0; i < spatial; ++i) {
    GPUDNN_REQUIRE(window[i] >= 1, GPUDNN_STATUS_BAD_PARAM, "the window of dimension %d is %d; it must be at least 1",
                   i, window[i]);
    GPUDNN_REQUIRE(pad[i] >= 0, GPUDNN_STATUS_BAD_PARAM, "the padding of dimension %d is %d; it must not be negative",
                   i, pad[i]);
    GPUDNN_REQUIRE(stride[i] >= 1, GPUDNN_STATUS_BAD_PARAM, "the stride of dimension %d is %d; it must be at least 1",
                   i, stride[i]);
  }
  poolingDesc->spatial = spatial;
  poolingDesc->mode = mode;
  poolingDesc->nan = nan;
  std::copy_n(window, spatial, poolingDesc->window);
  std::copy_n(pad, spatial, poolingDesc->pad);
  std::copy_n(stride, spatial, poolingDesc->stride);
  note_problem_lazily([&] {
    return "mode=" + std::to_string(mode) + " w" + list_text(window, spatial) + " p" + list_text(pad, spatial) + " t" +
           list_text(stride, spatial) + (nan == GPUDNN_PROPAGATE_NAN ? " nan=propagate" : "");
  });
  return GPUDNN_STATUS_SUCCESS;
}

Status check_pooling(gpudnnPoolingDescriptor_t poolingDesc) {
  GPUDNN_CHECK_OBJECT(poolingDesc, Kind::pooling);
  GPUDNN_REQUIRE(
      poolingDesc->spatial > 0, GPUDNN_STATUS_BAD_PARAM,
      "poolingDesc was created but never set; call gpudnnSetPooling2dDescriptor or gpudnnSetPoolingNdDescriptor");
  return GPUDNN_STATUS_SUCCESS;
}

// The extents of the output for the input.
Status output_dims(gpudnnPoolingDescriptor_t poolingDesc, gpudnnTensorDescriptor_t inputTensorDesc,
                   std::int64_t* dims) {
  GPUDNN_TRY(check_pooling(poolingDesc));
  GPUDNN_CHECK_TENSOR(inputTensorDesc);
  const TensorGeometry& input = inputTensorDesc->geometry;
  GPUDNN_REQUIRE(input.rank == poolingDesc->spatial + 2, GPUDNN_STATUS_BAD_PARAM,
                 "inputTensorDesc has %d dimensions; with a window of %d it must have %d", input.rank,
                 poolingDesc->spatial, poolingDesc->spatial + 2);
  dims[0] = input.dims[0];
  dims[1] = input.dims[1];
  for (int i = 0; i < poolingDesc->spatial; ++i) {
    dims[2 + i] =
        pooling::output_extent(input.dims[2 + i], poolingDesc->window[i], poolingDesc->pad[i], poolingDesc->stride[i]);
    GPUDNN_REQUIRE(dims[2 + i] >= 1, GPUDNN_STATUS_BAD_PARAM,
                   "the window of %d does not fit into dimension %d of the input: extent %lld, padding %d on each side",
                   poolingDesc->window[i], 2 + i, static_cast<long long>(input.dims[2 + i]), poolingDesc->pad[i]);
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status make_problem(gpudnnPoolingDescriptor_t poolingDesc, gpudnnTensorDescriptor_t xDesc,
                    gpudnnTensorDescriptor_t yDesc, pooling::Problem* problem) {
  GPUDNN_REQUIRE(poolingDesc->spatial <= pooling::kMaxSpatial, GPUDNN_STATUS_NOT_SUPPORTED,
                 "poolingDesc has %d spatial dimensions; pooling is built for 1 to %d", poolingDesc->spatial,
                 pooling::kMaxSpatial);
  problem->mode = poolingDesc->mode;
  problem->nan = poolingDesc->nan;
  problem->spatial = poolingDesc->spatial;
  std::copy_n(poolingDesc->window, problem->spatial, problem->window);
  std::copy_n(poolingDesc->pad, problem->spatial, problem->pad);
  std::copy_n(poolingDesc->stride, problem->spatial, problem->stride);
  problem->x = xDesc->geometry;
  problem->y = yDesc->geometry;
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnCreatePoolingDescriptor(gpudnnPoolingDescriptor_t* poolingDesc) {
  return guard(__func__, [&]() -> Status { return create_object(poolingDesc, "poolingDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroyPoolingDescriptor(gpudnnPoolingDescriptor_t poolingDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(poolingDesc, Kind::pooling, "poolingDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetPooling2dDescriptor(gpudnnPoolingDescriptor_t poolingDesc, gpudnnPoolingMode_t mode,
                                                       gpudnnNanPropagation_t maxpoolingNanOpt, int windowHeight,
                                                       int windowWidth, int verticalPadding, int horizontalPadding,
                                                       int verticalStride, int horizontalStride) {
  return guard(__func__, [&]() -> Status {
    const int window[] = {windowHeight, windowWidth};
    const int pad[] = {verticalPadding, horizontalPadding};
    const int stride[] = {verticalStride, horizontalStride};
    return set_pooling(poolingDesc, mode, maxpoolingNanOpt, 2, window, pad, stride);
  });
}

extern "C" gpudnnStatus_t gpudnnSetPoolingNdDescriptor(gpudnnPoolingDescriptor_t poolingDesc,
                                                       const gpudnnPoolingMode_t mode,
                                                       const gpudnnNanPropagation_t maxpoolingNanOpt, int nbDims,
                                                       const int windowDimA[], const int paddingA[],
                                                       const int strideA[]) {
  return guard(__func__, [&]() -> Status {
    return set_pooling(poolingDesc, mode, maxpoolingNanOpt, nbDims, windowDimA, paddingA, strideA);
  });
}

extern "C" gpudnnStatus_t gpudnnGetPooling2dDescriptor(const gpudnnPoolingDescriptor_t poolingDesc,
                                                       gpudnnPoolingMode_t* mode,
                                                       gpudnnNanPropagation_t* maxpoolingNanOpt, int* windowHeight,
                                                       int* windowWidth, int* verticalPadding, int* horizontalPadding,
                                                       int* verticalStride, int* horizontalStride) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_pooling(poolingDesc));
    GPUDNN_REQUIRE(poolingDesc->spatial == 2, GPUDNN_STATUS_BAD_PARAM,
                   "poolingDesc has %d spatial dimensions, not 2; use gpudnnGetPoolingNdDescriptor",
                   poolingDesc->spatial);
    if (mode != nullptr) *mode = poolingDesc->mode;
    if (maxpoolingNanOpt != nullptr) *maxpoolingNanOpt = poolingDesc->nan;
    if (windowHeight != nullptr) *windowHeight = poolingDesc->window[0];
    if (windowWidth != nullptr) *windowWidth = poolingDesc->window[1];
    if (verticalPadding != nullptr) *verticalPadding = poolingDesc->pad[0];
    if (horizontalPadding != nullptr) *horizontalPadding = poolingDesc->pad[1];
    if (verticalStride != nullptr) *verticalStride = poolingDesc->stride[0];
    if (horizontalStride != nullptr) *horizontalStride = poolingDesc->stride[1];
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetPoolingNdDescriptor(const gpudnnPoolingDescriptor_t poolingDesc, int nbDimsRequested,
                                                       gpudnnPoolingMode_t* mode,
                                                       gpudnnNanPropagation_t* maxpoolingNanOpt, int* nbDims,
                                                       int windowDimA[], int paddingA[], int strideA[]) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_pooling(poolingDesc));
    GPUDNN_REQUIRE(nbDimsRequested >= 0, GPUDNN_STATUS_BAD_PARAM, "nbDimsRequested is %d; it must not be negative",
                   nbDimsRequested);
    const int count = std::min(nbDimsRequested, poolingDesc->spatial);
    if (mode != nullptr) *mode = poolingDesc->mode;
    if (maxpoolingNanOpt != nullptr) *maxpoolingNanOpt = poolingDesc->nan;
    if (nbDims != nullptr) *nbDims = poolingDesc->spatial;
    if (windowDimA != nullptr) std::copy_n(poolingDesc->window, count, windowDimA);
    if (paddingA != nullptr) std::copy_n(poolingDesc->pad, count, paddingA);
    if (strideA != nullptr) std::copy_n(poolingDesc->stride, count, strideA);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetPooling2dForwardOutputDim(const gpudnnPoolingDescriptor_t poolingDesc,
                                                             const gpudnnTensorDescriptor_t inputTensorDesc, int* n,
                                                             int* c, int* h, int* w) {
  return guard(__func__, [&]() -> Status {
    std::int64_t dims[kMaxRank] = {};
    GPUDNN_TRY(output_dims(poolingDesc, inputTensorDesc, dims));
    GPUDNN_REQUIRE(poolingDesc->spatial == 2, GPUDNN_STATUS_BAD_PARAM,
                   "poolingDesc has %d spatial dimensions, not 2; use gpudnnGetPoolingNdForwardOutputDim",
                   poolingDesc->spatial);
    return copy_image_dims(dims, n, c, h, w);
  });
}

extern "C" gpudnnStatus_t gpudnnGetPoolingNdForwardOutputDim(const gpudnnPoolingDescriptor_t poolingDesc,
                                                             const gpudnnTensorDescriptor_t inputTensorDesc, int nbDims,
                                                             int outputTensorDimA[]) {
  return guard(__func__, [&]() -> Status {
    std::int64_t dims[kMaxRank] = {};
    GPUDNN_TRY(output_dims(poolingDesc, inputTensorDesc, dims));
    GPUDNN_REQUIRE(nbDims == poolingDesc->spatial + 2, GPUDNN_STATUS_BAD_PARAM,
                   "nbDims is %d; the output has %d dimensions", nbDims, poolingDesc->spatial + 2);
    GPUDNN_CHECK_POINTER(outputTensorDimA);
    return copy_to_int(dims, nbDims, outputTensorDimA, "the extent");
  });
}

extern "C" gpudnnStatus_t gpudnnPoolingForward(gpudnnHandle_t handle, const gpudnnPoolingDescriptor_t poolingDesc,
                                               const void* alpha, const gpudnnTensorDescriptor_t xDesc, const void* x,
                                               const void* beta, const gpudnnTensorDescriptor_t yDesc, void* y) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_pooling(poolingDesc));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    pooling::Problem problem;
    GPUDNN_TRY(make_problem(poolingDesc, xDesc, yDesc, &problem));
    GPUDNN_TRY(pooling::validate(problem));
    pooling::Args args;
    args.alpha = scalar(alpha, problem.y.type);
    args.beta = scalar(beta, problem.y.type);
    args.x = x;
    args.out = y;
    return pooling::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnPoolingBackward(gpudnnHandle_t handle, const gpudnnPoolingDescriptor_t poolingDesc,
                                                const void* alpha, const gpudnnTensorDescriptor_t yDesc, const void* y,
                                                const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                const gpudnnTensorDescriptor_t xDesc, const void* x, const void* beta,
                                                const gpudnnTensorDescriptor_t dxDesc, void* dx) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_pooling(poolingDesc));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_TENSOR(dyDesc);
    GPUDNN_CHECK_DATA(dy, dyDesc);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(dxDesc);
    GPUDNN_CHECK_DATA(dx, dxDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    pooling::Problem problem;
    problem.backward = true;
    GPUDNN_TRY(make_problem(poolingDesc, xDesc, yDesc, &problem));
    problem.dx = dxDesc->geometry;
    problem.dy = dyDesc->geometry;
    GPUDNN_TRY(pooling::validate(problem));
    pooling::Args args;
    args.alpha = scalar(alpha, problem.dx.type);
    args.beta = scalar(beta, problem.dx.type);
    args.x = x;
    args.y = y;
    args.dy = dy;
    args.out = dx;
    return pooling::run(handle, problem, args);
  });
}
