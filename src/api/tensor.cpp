// Tensor descriptors, and the element-wise operations on whole tensors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/tensor/problem.hpp"
#include "ops/transform/problem.hpp"

using namespace gpudnn;

namespace {

Status check_rank(int rank, const char* argument) {
  GPUDNN_REQUIRE(rank >= 1 && rank <= kMaxRank, refused_rank(rank, kMaxRank),
                 "%s is %d; a tensor has 1 to %d dimensions", argument, rank, kMaxRank);
  return GPUDNN_STATUS_SUCCESS;
}

Status check_dims(int rank, const int* dims) {
  GPUDNN_REQUIRE(dims != nullptr, GPUDNN_STATUS_BAD_PARAM, "dimA is null; it must point to memory");
  std::int64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    GPUDNN_REQUIRE(dims[i] >= 0, GPUDNN_STATUS_BAD_PARAM, "the extent of dimension %d is %d; it must not be negative",
                   i, dims[i]);
    GPUDNN_REQUIRE(dims[i] == 0 || count <= INT64_MAX / 64 / dims[i], GPUDNN_STATUS_NOT_SUPPORTED,
                   "dimension %d brings the tensor to %lld times %d elements, whose bytes 64 bits cannot count; the "
                   "extents must be smaller",
                   i, static_cast<long long>(count), dims[i]);
    count *= std::max(dims[i], 1);
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status set_strided(gpudnnTensorDescriptor_t tensorDesc, DataType type, int rank, const int* dims, const int* strides) {
  GPUDNN_CHECK_OBJECT(tensorDesc, Kind::tensor);
  GPUDNN_TRY(check_data_type(type, "dataType"));
  GPUDNN_TRY(check_rank(rank, "nbDims"));
  GPUDNN_TRY(check_dims(rank, dims));
  GPUDNN_REQUIRE(strides != nullptr, GPUDNN_STATUS_BAD_PARAM, "strideA is null; it must point to memory");
  TensorGeometry geometry;
  geometry.type = type;
  geometry.rank = rank;
  std::int64_t last = 0;  // the offset of the last element
  for (int i = 0; i < rank; ++i) {
    GPUDNN_REQUIRE(strides[i] >= 0, GPUDNN_STATUS_BAD_PARAM,
                   "the stride of dimension %d is %d; it must not be negative", i, strides[i]);
    geometry.dims[i] = dims[i];
    geometry.strides[i] = strides[i];
    const std::int64_t reach = std::int64_t{std::max(dims[i] - 1, 0)} * strides[i];
    GPUDNN_REQUIRE(reach <= INT64_MAX / 512 - last, GPUDNN_STATUS_NOT_SUPPORTED,
                   "the tensor's last element lies beyond what a 64-bit size can count; its strides must be smaller");
    last += reach;
  }
  tensorDesc->geometry = geometry;
  note_problem_lazily([&] { return "tensor " + tensor_text(geometry); });
  return GPUDNN_STATUS_SUCCESS;
}

Status set_packed(gpudnnTensorDescriptor_t tensorDesc, gpudnnTensorFormat_t format, DataType type, int rank,
                  const int* dims) {
  GPUDNN_CHECK_OBJECT(tensorDesc, Kind::tensor);
  GPUDNN_TRY(check_enum(format, GPUDNN_TENSOR_NCHW, GPUDNN_TENSOR_NCHW_VECT_C, "format"));
  GPUDNN_TRY(check_data_type(type, "dataType"));
  GPUDNN_TRY(check_rank(rank, "nbDims"));
  GPUDNN_TRY(check_dims(rank, dims));
  TensorGeometry geometry;
  geometry.type = type;
  geometry.rank = rank;
  std::copy_n(dims, rank, geometry.dims);
  GPUDNN_TRY(pack_as(format, &geometry));
  tensorDesc->geometry = geometry;
  note_problem_lazily([&] { return "tensor " + tensor_text(geometry); });
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnCreateTensorDescriptor(gpudnnTensorDescriptor_t* tensorDesc) {
  return guard(__func__, [&]() -> Status { return create_object(tensorDesc, "tensorDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroyTensorDescriptor(gpudnnTensorDescriptor_t tensorDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(tensorDesc, Kind::tensor, "tensorDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetTensor4dDescriptor(gpudnnTensorDescriptor_t tensorDesc, gpudnnTensorFormat_t format,
                                                      gpudnnDataType_t dataType, int n, int c, int h, int w) {
  return guard(__func__, [&]() -> Status {
    const int dims[] = {n, c, h, w};
    return set_packed(tensorDesc, format, dataType, 4, dims);
  });
}

extern "C" gpudnnStatus_t gpudnnSetTensor4dDescriptorEx(gpudnnTensorDescriptor_t tensorDesc, gpudnnDataType_t dataType,
                                                        int n, int c, int h, int w, int nStride, int cStride,
                                                        int hStride, int wStride) {
  return guard(__func__, [&]() -> Status {
    const int dims[] = {n, c, h, w};
    const int strides[] = {nStride, cStride, hStride, wStride};
    return set_strided(tensorDesc, dataType, 4, dims, strides);
  });
}

extern "C" gpudnnStatus_t gpudnnGetTensor4dDescriptor(const gpudnnTensorDescriptor_t tensorDesc,
                                                      gpudnnDataType_t* dataType, int* n, int* c, int* h, int* w,
                                                      int* nStride, int* cStride, int* hStride, int* wStride) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_TENSOR(tensorDesc);
    const TensorGeometry& geometry = tensorDesc->geometry;
    GPUDNN_REQUIRE(geometry.rank == 4, GPUDNN_STATUS_BAD_PARAM,
                   "tensorDesc has %d dimensions, not 4; use gpudnnGetTensorNdDescriptor", geometry.rank);
    int* const dims[] = {n, c, h, w};
    int* const strides[] = {nStride, cStride, hStride, wStride};
    for (int i = 0; i < 4; ++i) {
      GPUDNN_TRY(copy_to_int(&geometry.dims[i], 1, dims[i], "the extent"));
      GPUDNN_TRY(copy_to_int(&geometry.strides[i], 1, strides[i], "the stride"));
    }
    if (dataType != nullptr) *dataType = geometry.type;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnSetTensorNdDescriptor(gpudnnTensorDescriptor_t tensorDesc, gpudnnDataType_t dataType,
                                                      int nbDims, const int dimA[], const int strideA[]) {
  return guard(__func__, [&]() -> Status { return set_strided(tensorDesc, dataType, nbDims, dimA, strideA); });
}

extern "C" gpudnnStatus_t gpudnnSetTensorNdDescriptorEx(gpudnnTensorDescriptor_t tensorDesc,
                                                        gpudnnTensorFormat_t format, gpudnnDataType_t dataType,
                                                        int nbDims, const int dimA[]) {
  return guard(__func__, [&]() -> Status { return set_packed(tensorDesc, format, dataType, nbDims, dimA); });
}

extern "C" gpudnnStatus_t gpudnnGetTensorNdDescriptor(const gpudnnTensorDescriptor_t tensorDesc, int nbDimsRequested,
                                                      gpudnnDataType_t* dataType, int* nbDims, int dimA[],
                                                      int strideA[]) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(tensorDesc, Kind::tensor);  // of no dimension: unset, or of a weight that there is not
    GPUDNN_REQUIRE(nbDimsRequested >= 0, GPUDNN_STATUS_BAD_PARAM, "nbDimsRequested is %d; it must not be negative",
                   nbDimsRequested);
    const TensorGeometry& geometry = tensorDesc->geometry;
    const int count = std::min(nbDimsRequested, geometry.rank);
    GPUDNN_TRY(copy_to_int(geometry.dims, count, dimA, "the extent"));
    GPUDNN_TRY(copy_to_int(geometry.strides, count, strideA, "the stride"));
    if (dataType != nullptr) *dataType = geometry.type;
    if (nbDims != nullptr) *nbDims = geometry.rank;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetTensorSizeInBytes(const gpudnnTensorDescriptor_t tensorDesc, size_t* size) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_TENSOR(tensorDesc);
    GPUDNN_CHECK_POINTER(size);
    *size = size_in_bytes(tensorDesc->geometry);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnSetTensor(gpudnnHandle_t handle, const gpudnnTensorDescriptor_t yDesc, void* y,
                                          const void* valuePtr) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    GPUDNN_CHECK_POINTER(valuePtr);
    tensor::Problem problem;
    problem.operation = tensor::Operation::set;
    problem.c = in_elements(yDesc->geometry);
    GPUDNN_TRY(tensor::validate(problem));
    tensor::Args args;
    args.c = y;
    args.value = valuePtr;
    // 16-bit floating tensors take a float here, as they take alpha and beta; the operation wants an element.
    Half half;
    BFloat16 bfloat16;
    if (problem.c.type == GPUDNN_DATA_HALF) {
      half = round_to<Half>(scalar(valuePtr, problem.c.type));
      args.value = &half;
    } else if (problem.c.type == GPUDNN_DATA_BFLOAT16) {
      bfloat16 = round_to<BFloat16>(scalar(valuePtr, problem.c.type));
      args.value = &bfloat16;
    }
    return tensor::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnScaleTensor(gpudnnHandle_t handle, const gpudnnTensorDescriptor_t yDesc, void* y,
                                            const void* alpha) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    GPUDNN_CHECK_POINTER(alpha);
    tensor::Problem problem;
    problem.operation = tensor::Operation::scale;
    problem.c = yDesc->geometry;
    GPUDNN_TRY(tensor::validate(problem));
    tensor::Args args;
    args.alpha = scalar(alpha, problem.c.type);
    args.c = y;
    return tensor::run(handle, problem, args);
  });
}

namespace {

Status two_tensors(gpudnnHandle_t handle, tensor::Operation operation, const void* alpha, const void* a,
                   gpudnnTensorDescriptor_t aDesc, const void* beta, gpudnnTensorDescriptor_t cDesc, void* c) {
  tensor::Problem problem;
  problem.operation = operation;
  problem.a = aDesc->geometry;
  problem.c = cDesc->geometry;
  GPUDNN_TRY(tensor::validate(problem));
  tensor::Args args;
  args.alpha = scalar(alpha, problem.c.type);
  args.beta = scalar(beta, problem.c.type);
  args.a = a;
  args.c = c;
  return tensor::run(handle, problem, args);
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnAddTensor(gpudnnHandle_t handle, const void* alpha,
                                          const gpudnnTensorDescriptor_t aDesc, const void* A, const void* beta,
                                          const gpudnnTensorDescriptor_t cDesc, void* C) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(aDesc);
    GPUDNN_CHECK_DATA(A, aDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(cDesc);
    GPUDNN_CHECK_DATA(C, cDesc);
    return two_tensors(handle, tensor::Operation::add, alpha, A, aDesc, beta, cDesc, C);
  });
}

extern "C" gpudnnStatus_t gpudnnTransformTensor(gpudnnHandle_t handle, const void* alpha,
                                                const gpudnnTensorDescriptor_t xDesc, const void* x, const void* beta,
                                                const gpudnnTensorDescriptor_t yDesc, void* y) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    // Integers and vector formats go the way of the transforms without padding and folding.
    const transform::Problem problem{transform::identity(xDesc->geometry.rank), xDesc->geometry, yDesc->geometry};
    if (!is_floating(problem.in.type) || !is_floating(problem.out.type)) {
      GPUDNN_TRY(transform::validate(problem, "xDesc", "yDesc"));
      transform::Args args;
      args.alpha = scalar(alpha, problem.out.type);
      args.beta = scalar(beta, problem.out.type);
      args.in = x;
      args.out = y;
      return transform::run(handle, problem, args);
    }
    return two_tensors(handle, tensor::Operation::transform, alpha, x, xDesc, beta, yDesc, y);
  });
}
