// Convolution descriptors, and the extents of a convolution's output.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"

using namespace gpudnn;

namespace {

constexpr int kMaxFilterRank = kMaxRank - 2;

Status set_convolution(gpudnnConvolutionDescriptor_t convDesc, int spatial, const int* pad, const int* stride,
                       const int* dilation, gpudnnConvolutionMode_t mode, gpudnnDataType_t compute) {
  GPUDNN_CHECK_OBJECT(convDesc, Kind::convolution);
  GPUDNN_REQUIRE(spatial >= 1 && spatial <= kMaxFilterRank, refused_rank(spatial, kMaxFilterRank),
                 "arrayLength is %d; a convolution has 1 to %d spatial dimensions", spatial, kMaxFilterRank);
  GPUDNN_REQUIRE(pad != nullptr, GPUDNN_STATUS_BAD_PARAM, "padA is null; it must point to memory");
  GPUDNN_REQUIRE(stride != nullptr, GPUDNN_STATUS_BAD_PARAM, "filterStrideA is null; it must point to memory");
  GPUDNN_REQUIRE(dilation != nullptr, GPUDNN_STATUS_BAD_PARAM, "dilationA is null; it must point to memory");
  for (int i = 0; i < spatial; ++i) {
    GPUDNN_REQUIRE(pad[i] >= 0, GPUDNN_STATUS_BAD_PARAM, "the padding of dimension %d is %d; it must not be negative",
                   i, pad[i]);
    GPUDNN_REQUIRE(stride[i] >= 1, GPUDNN_STATUS_BAD_PARAM, "the stride of dimension %d is %d; it must be at least 1",
                   i, stride[i]);
    GPUDNN_REQUIRE(dilation[i] >= 1, GPUDNN_STATUS_BAD_PARAM,
                   "the dilation of dimension %d is %d; it must be at least 1", i, dilation[i]);
  }
  GPUDNN_TRY(check_enum(mode, GPUDNN_CONVOLUTION, GPUDNN_CROSS_CORRELATION, "mode"));
  GPUDNN_TRY(check_data_type(compute, "computeType"));
  convDesc->spatial = spatial;
  std::copy_n(pad, spatial, convDesc->pad);
  std::copy_n(stride, spatial, convDesc->stride);
  std::copy_n(dilation, spatial, convDesc->dilation);
  convDesc->mode = mode;
  convDesc->compute = compute;
  note_problem_lazily([&] {
    return "p" + list_text(pad, spatial) + " t" + list_text(stride, spatial) + " d" + list_text(dilation, spatial) +
           (mode == GPUDNN_CONVOLUTION ? " mode=convolution" : " mode=cross") + " acc=" + data_type_name(compute);
  });
  return GPUDNN_STATUS_SUCCESS;
}

Status check_set(gpudnnConvolutionDescriptor_t convDesc) {
  GPUDNN_CHECK_OBJECT(convDesc, Kind::convolution);
  GPUDNN_REQUIRE(
      convDesc->spatial > 0, GPUDNN_STATUS_BAD_PARAM,
      "convDesc was created but never set; call gpudnnSetConvolution2dDescriptor or gpudnnSetConvolutionNdDescriptor");
  return GPUDNN_STATUS_SUCCESS;
}

Status output_dims(gpudnnConvolutionDescriptor_t convDesc, gpudnnTensorDescriptor_t inputTensorDesc,
                   gpudnnFilterDescriptor_t filterDesc, std::int64_t* dims) {
  GPUDNN_TRY(check_set(convDesc));
  GPUDNN_CHECK_TENSOR(inputTensorDesc);
  GPUDNN_CHECK_FILTER(filterDesc);
  const TensorGeometry& input = inputTensorDesc->geometry;
  const TensorGeometry& filter = filterDesc->geometry;
  const int rank = convDesc->spatial + 2;
  GPUDNN_REQUIRE(
      input.rank == rank && filter.rank == rank, GPUDNN_STATUS_BAD_PARAM,
      "inputTensorDesc has %d and filterDesc %d dimensions; with a convDesc of %d spatial ones both must have %d",
      input.rank, filter.rank, convDesc->spatial, rank);
  GPUDNN_REQUIRE(input.dims[1] == filter.dims[1] * convDesc->groups, GPUDNN_STATUS_BAD_PARAM,
                 "inputTensorDesc has %lld channels; a filter of %lld channels in %d groups takes %lld",
                 static_cast<long long>(input.dims[1]), static_cast<long long>(filter.dims[1]), convDesc->groups,
                 static_cast<long long>(filter.dims[1] * convDesc->groups));
  dims[0] = input.dims[0];
  dims[1] = filter.dims[0];
  for (int i = 0; i < convDesc->spatial; ++i) {
    const std::int64_t reach = std::int64_t{convDesc->dilation[i]} * (filter.dims[2 + i] - 1) + 1;
    const std::int64_t room = input.dims[2 + i] + 2 * std::int64_t{convDesc->pad[i]} - reach;
    GPUDNN_REQUIRE(room >= 0, GPUDNN_STATUS_BAD_PARAM,
                   "the filter, %lld wide with its dilation, does not fit into dimension %d of the input: extent %lld, "
                   "padding %d on each side",
                   static_cast<long long>(reach), 2 + i, static_cast<long long>(input.dims[2 + i]), convDesc->pad[i]);
    dims[2 + i] = room / convDesc->stride[i] + 1;
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnCreateConvolutionDescriptor(gpudnnConvolutionDescriptor_t* convDesc) {
  return guard(__func__, [&]() -> Status { return create_object(convDesc, "convDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroyConvolutionDescriptor(gpudnnConvolutionDescriptor_t convDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(convDesc, Kind::convolution, "convDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetConvolutionMathType(gpudnnConvolutionDescriptor_t convDesc,
                                                       gpudnnMathType_t mathType) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(convDesc, Kind::convolution);
    GPUDNN_TRY(check_enum(mathType, GPUDNN_DEFAULT_MATH, GPUDNN_FMA_MATH, "mathType"));
    convDesc->math = mathType;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetConvolutionMathType(gpudnnConvolutionDescriptor_t convDesc,
                                                       gpudnnMathType_t* mathType) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(convDesc, Kind::convolution);
    GPUDNN_CHECK_POINTER(mathType);
    *mathType = convDesc->math;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnSetConvolutionGroupCount(gpudnnConvolutionDescriptor_t convDesc, int groupCount) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(convDesc, Kind::convolution);
    GPUDNN_REQUIRE(groupCount >= 1, GPUDNN_STATUS_BAD_PARAM, "groupCount is %d; it must be at least 1", groupCount);
    convDesc->groups = groupCount;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetConvolutionGroupCount(gpudnnConvolutionDescriptor_t convDesc, int* groupCount) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(convDesc, Kind::convolution);
    GPUDNN_CHECK_POINTER(groupCount);
    *groupCount = convDesc->groups;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnSetConvolutionReorderType(gpudnnConvolutionDescriptor_t convDesc,
                                                          gpudnnReorderType_t reorderType) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(convDesc, Kind::convolution);
    GPUDNN_TRY(check_enum(reorderType, GPUDNN_DEFAULT_REORDER, GPUDNN_NO_REORDER, "reorderType"));
    convDesc->reorder = reorderType;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetConvolutionReorderType(gpudnnConvolutionDescriptor_t convDesc,
                                                          gpudnnReorderType_t* reorderType) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(convDesc, Kind::convolution);
    GPUDNN_CHECK_POINTER(reorderType);
    *reorderType = convDesc->reorder;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnSetConvolution2dDescriptor(gpudnnConvolutionDescriptor_t convDesc, int pad_h, int pad_w,
                                                           int u, int v, int dilation_h, int dilation_w,
                                                           gpudnnConvolutionMode_t mode, gpudnnDataType_t computeType) {
  return guard(__func__, [&]() -> Status {
    const int pad[] = {pad_h, pad_w};
    const int stride[] = {u, v};
    const int dilation[] = {dilation_h, dilation_w};
    return set_convolution(convDesc, 2, pad, stride, dilation, mode, computeType);
  });
}

extern "C" gpudnnStatus_t gpudnnGetConvolution2dDescriptor(const gpudnnConvolutionDescriptor_t convDesc, int* pad_h,
                                                           int* pad_w, int* u, int* v, int* dilation_h, int* dilation_w,
                                                           gpudnnConvolutionMode_t* mode,
                                                           gpudnnDataType_t* computeType) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_set(convDesc));
    GPUDNN_REQUIRE(convDesc->spatial == 2, GPUDNN_STATUS_BAD_PARAM,
                   "convDesc has %d spatial dimensions, not 2; use gpudnnGetConvolutionNdDescriptor",
                   convDesc->spatial);
    if (pad_h != nullptr) *pad_h = convDesc->pad[0];
    if (pad_w != nullptr) *pad_w = convDesc->pad[1];
    if (u != nullptr) *u = convDesc->stride[0];
    if (v != nullptr) *v = convDesc->stride[1];
    if (dilation_h != nullptr) *dilation_h = convDesc->dilation[0];
    if (dilation_w != nullptr) *dilation_w = convDesc->dilation[1];
    if (mode != nullptr) *mode = convDesc->mode;
    if (computeType != nullptr) *computeType = convDesc->compute;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnSetConvolutionNdDescriptor(gpudnnConvolutionDescriptor_t convDesc, int arrayLength,
                                                           const int padA[], const int filterStrideA[],
                                                           const int dilationA[], gpudnnConvolutionMode_t mode,
                                                           gpudnnDataType_t computeType) {
  return guard(__func__, [&]() -> Status {
    return set_convolution(convDesc, arrayLength, padA, filterStrideA, dilationA, mode, computeType);
  });
}

extern "C" gpudnnStatus_t gpudnnGetConvolutionNdDescriptor(const gpudnnConvolutionDescriptor_t convDesc,
                                                           int arrayLengthRequested, int* arrayLength, int padA[],
                                                           int strideA[], int dilationA[],
                                                           gpudnnConvolutionMode_t* mode,
                                                           gpudnnDataType_t* computeType) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_set(convDesc));
    GPUDNN_REQUIRE(arrayLengthRequested >= 0, GPUDNN_STATUS_BAD_PARAM,
                   "arrayLengthRequested is %d; it must not be negative", arrayLengthRequested);
    const int count = std::min(arrayLengthRequested, convDesc->spatial);
    if (arrayLength != nullptr) *arrayLength = convDesc->spatial;
    if (padA != nullptr) std::copy_n(convDesc->pad, count, padA);
    if (strideA != nullptr) std::copy_n(convDesc->stride, count, strideA);
    if (dilationA != nullptr) std::copy_n(convDesc->dilation, count, dilationA);
    if (mode != nullptr) *mode = convDesc->mode;
    if (computeType != nullptr) *computeType = convDesc->compute;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetConvolution2dForwardOutputDim(const gpudnnConvolutionDescriptor_t convDesc,
                                                                 const gpudnnTensorDescriptor_t inputTensorDesc,
                                                                 const gpudnnFilterDescriptor_t filterDesc, int* n,
                                                                 int* c, int* h, int* w) {
  return guard(__func__, [&]() -> Status {
    std::int64_t dims[kMaxRank] = {};
    GPUDNN_TRY(output_dims(convDesc, inputTensorDesc, filterDesc, dims));
    GPUDNN_REQUIRE(convDesc->spatial == 2, GPUDNN_STATUS_BAD_PARAM,
                   "convDesc has %d spatial dimensions, not 2; use gpudnnGetConvolutionNdForwardOutputDim",
                   convDesc->spatial);
    return copy_image_dims(dims, n, c, h, w);
  });
}

extern "C" gpudnnStatus_t gpudnnGetConvolutionNdForwardOutputDim(const gpudnnConvolutionDescriptor_t convDesc,
                                                                 const gpudnnTensorDescriptor_t inputTensorDesc,
                                                                 const gpudnnFilterDescriptor_t filterDesc, int nbDims,
                                                                 int tensorOuputDimA[]) {
  return guard(__func__, [&]() -> Status {
    std::int64_t dims[kMaxRank] = {};
    GPUDNN_TRY(output_dims(convDesc, inputTensorDesc, filterDesc, dims));
    GPUDNN_REQUIRE(nbDims == convDesc->spatial + 2, GPUDNN_STATUS_BAD_PARAM,
                   "nbDims is %d; the output has %d dimensions", nbDims, convDesc->spatial + 2);
    GPUDNN_CHECK_POINTER(tensorOuputDimA);
    return copy_to_int(dims, nbDims, tensorOuputDimA, "the extent");
  });
}
