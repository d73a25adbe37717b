// Tensor transform descriptors, and transforms of tensors and filters by them.
// SPDX-License-Identifier: Apache-2.0
#include "api/transform.hpp"

#include <algorithm>
#include <climits>

#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"

using namespace gpudnn;

namespace gpudnn {

Status check_transform(gpudnnTensorTransformDescriptor_t transformDesc, const char* argument) {
  GPUDNN_TRY(check_object(transformDesc, Kind::tensor_transform, argument));
  GPUDNN_REQUIRE(transformDesc->rank > 0, GPUDNN_STATUS_BAD_PARAM,
                 "%s was created but never set; call gpudnnSetTensorTransformDescriptor", argument);
  return GPUDNN_STATUS_SUCCESS;
}

transform::Transform transform_of(const gpudnnTensorTransformStruct& desc) {
  transform::Transform transform = transform::identity(desc.rank);
  transform.unfold = desc.direction == GPUDNN_TRANSFORM_UNFOLD;
  for (int i = 0; i < desc.rank; ++i) {
    transform.before[i] = desc.pad_before[i];
    transform.after[i] = desc.pad_after[i];
    if (i >= 2) transform.fold[i] = std::max(desc.fold[i - 2], 1u);
  }
  return transform;
}

Status set_packed_descriptor(TensorGeometry geometry, gpudnnTensorFormat_t format, gpudnnTensorDescriptor_t desc) {
  int dims[kMaxRank];
  GPUDNN_TRY(copy_to_int(geometry.dims, geometry.rank, dims, "the extent"));
  const int lanes = data_type_lanes(geometry.type);
  const bool vectors = format == GPUDNN_TENSOR_NCHW_VECT_C;
  GPUDNN_REQUIRE(vectors == (lanes > 1), GPUDNN_STATUS_BAD_PARAM,
                 "destFormat %d and data type %s do not go together: NCHW_VECT_C takes INT8x4, UINT8x4 and INT8x32, "
                 "and they take no other",
                 static_cast<int>(format), data_type_name(geometry.type));
  if (vectors) {
    GPUDNN_REQUIRE(geometry.dims[1] % lanes == 0, GPUDNN_STATUS_BAD_PARAM,
                   "the transform makes %lld channels; with %s they must be a multiple of %d, so pad them to one",
                   static_cast<long long>(geometry.dims[1]), data_type_name(geometry.type), lanes);
    set_packed_strides(&geometry, GPUDNN_TENSOR_NCHW);
  } else {
    set_packed_strides(&geometry, format);
  }
  desc->geometry = geometry;
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn

extern "C" gpudnnStatus_t gpudnnCreateTensorTransformDescriptor(gpudnnTensorTransformDescriptor_t* transformDesc) {
  return guard(__func__, [&]() -> Status { return create_object(transformDesc, "transformDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroyTensorTransformDescriptor(gpudnnTensorTransformDescriptor_t transformDesc) {
  return guard(__func__,
               [&]() -> Status { return destroy_object(transformDesc, Kind::tensor_transform, "transformDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetTensorTransformDescriptor(gpudnnTensorTransformDescriptor_t transformDesc,
                                                             const uint32_t nbDims,
                                                             const gpudnnTensorFormat_t destFormat,
                                                             const int32_t padBeforeA[], const int32_t padAfterA[],
                                                             const uint32_t foldA[],
                                                             const gpudnnFoldingDirection_t direction) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(transformDesc, Kind::tensor_transform);
    GPUDNN_REQUIRE(nbDims >= 3 && nbDims <= kMaxRank, GPUDNN_STATUS_BAD_PARAM,
                   "nbDims is %u; a transform has 3 to %d dimensions", nbDims, kMaxRank);
    GPUDNN_TRY(check_enum(destFormat, GPUDNN_TENSOR_NCHW, GPUDNN_TENSOR_NCHW_VECT_C, "destFormat"));
    GPUDNN_TRY(check_enum(static_cast<int>(direction), GPUDNN_TRANSFORM_FOLD, GPUDNN_TRANSFORM_UNFOLD, "direction"));
    const int rank = static_cast<int>(nbDims);
    for (int i = 0; foldA != nullptr && i < rank - 2; ++i) {
      GPUDNN_REQUIRE(foldA[i] <= INT_MAX, GPUDNN_STATUS_BAD_PARAM, "foldA[%d] is %u; it must not be above %d", i,
                     foldA[i], INT_MAX);
    }
    transformDesc->rank = rank;
    transformDesc->format = destFormat;
    transformDesc->direction = direction;
    for (int i = 0; i < rank; ++i) {
      transformDesc->pad_before[i] = padBeforeA != nullptr ? padBeforeA[i] : 0;
      transformDesc->pad_after[i] = padAfterA != nullptr ? padAfterA[i] : 0;
      if (i >= 2) transformDesc->fold[i - 2] = foldA != nullptr ? foldA[i - 2] : 1;
    }
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetTensorTransformDescriptor(gpudnnTensorTransformDescriptor_t transformDesc,
                                                             uint32_t nbDimsRequested, gpudnnTensorFormat_t* destFormat,
                                                             int32_t padBeforeA[], int32_t padAfterA[],
                                                             uint32_t foldA[], gpudnnFoldingDirection_t* direction) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_transform(transformDesc, "transformDesc"));
    const int count = static_cast<int>(std::min<uint32_t>(nbDimsRequested, static_cast<uint32_t>(transformDesc->rank)));
    if (destFormat != nullptr) *destFormat = transformDesc->format;
    if (padBeforeA != nullptr) std::copy_n(transformDesc->pad_before, count, padBeforeA);
    if (padAfterA != nullptr) std::copy_n(transformDesc->pad_after, count, padAfterA);
    if (foldA != nullptr) std::copy_n(transformDesc->fold, std::max(count - 2, 0), foldA);
    if (direction != nullptr) *direction = transformDesc->direction;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnInitTransformDest(const gpudnnTensorTransformDescriptor_t transformDesc,
                                                  const gpudnnTensorDescriptor_t srcDesc,
                                                  gpudnnTensorDescriptor_t destDesc, size_t* destSizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_transform(transformDesc, "transformDesc"));
    GPUDNN_CHECK_TENSOR(srcDesc);
    GPUDNN_CHECK_OBJECT(destDesc, Kind::tensor);
    GPUDNN_CHECK_POINTER(destSizeInBytes);
    TensorGeometry dest;
    dest.type = srcDesc->geometry.type;
    GPUDNN_TRY(transform::output_dims(transform_of(*transformDesc), srcDesc->geometry, "srcDesc", &dest));
    GPUDNN_TRY(set_packed_descriptor(dest, transformDesc->format, destDesc));
    *destSizeInBytes = static_cast<std::size_t>(element_count(dest)) *
                       static_cast<std::size_t>(data_type_bits(dest.type)) / 8 /
                       static_cast<std::size_t>(data_type_lanes(dest.type));
    return GPUDNN_STATUS_SUCCESS;
  });
}

namespace {

Status run_transform(gpudnnHandle_t handle, const transform::Problem& problem, const char* in_name,
                     const char* out_name, const void* alpha, const void* in, const void* beta, void* out) {
  GPUDNN_TRY(transform::validate(problem, in_name, out_name));
  transform::Args args;
  args.alpha = scalar(alpha, problem.out.type);
  args.beta = scalar(beta, problem.out.type);
  args.in = in;
  args.out = out;
  return transform::run(handle, problem, args);
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnTransformTensorEx(gpudnnHandle_t handle,
                                                  const gpudnnTensorTransformDescriptor_t transDesc, const void* alpha,
                                                  const gpudnnTensorDescriptor_t srcDesc, const void* srcData,
                                                  const void* beta, const gpudnnTensorDescriptor_t destDesc,
                                                  void* destData) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_transform(transDesc, "transDesc"));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(srcDesc);
    GPUDNN_CHECK_DATA(srcData, srcDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(destDesc);
    GPUDNN_CHECK_DATA(destData, destDesc);
    const transform::Problem problem{transform_of(*transDesc), srcDesc->geometry, destDesc->geometry};
    return run_transform(handle, problem, "srcDesc", "destDesc", alpha, srcData, beta, destData);
  });
}

extern "C" gpudnnStatus_t gpudnnTransformFilter(gpudnnHandle_t handle,
                                                const gpudnnTensorTransformDescriptor_t transDesc, const void* alpha,
                                                const gpudnnFilterDescriptor_t srcDesc, const void* srcData,
                                                const void* beta, const gpudnnFilterDescriptor_t destDesc,
                                                void* destData) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_transform(transDesc, "transDesc"));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_FILTER(srcDesc);
    GPUDNN_CHECK_POINTER(srcData);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_FILTER(destDesc);
    GPUDNN_CHECK_POINTER(destData);
    const transform::Problem problem{transform_of(*transDesc), srcDesc->geometry, destDesc->geometry};
    return run_transform(handle, problem, "srcDesc", "destDesc", alpha, srcData, beta, destData);
  });
}
