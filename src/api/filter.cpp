// Filter descriptors: packed filters of k output and c input channels.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/descriptors.hpp"
#include "core/guard.hpp"

using namespace gpudnn;

namespace {

Status set_filter(gpudnnFilterDescriptor_t filterDesc, DataType type, gpudnnTensorFormat_t format, int rank,
                  const int* dims) {
  GPUDNN_CHECK_OBJECT(filterDesc, Kind::filter);
  GPUDNN_TRY(check_data_type(type, "dataType"));
  GPUDNN_TRY(check_enum(format, GPUDNN_TENSOR_NCHW, GPUDNN_TENSOR_NCHW_VECT_C, "format"));
  GPUDNN_REQUIRE(rank >= 1 && rank <= kMaxRank, refused_rank(rank, kMaxRank),
                 "nbDims is %d; a filter has 1 to %d dimensions", rank, kMaxRank);
  GPUDNN_REQUIRE(dims != nullptr, GPUDNN_STATUS_BAD_PARAM, "filterDimA is null; it must point to memory");
  TensorGeometry geometry;
  geometry.type = type;
  geometry.rank = rank;
  std::int64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    GPUDNN_REQUIRE(dims[i] >= 1, GPUDNN_STATUS_BAD_PARAM,
                   "the extent of filter dimension %d is %d; it must be at least 1", i, dims[i]);
    GPUDNN_REQUIRE(count <= INT64_MAX / 64 / dims[i], GPUDNN_STATUS_NOT_SUPPORTED,
                   "dimension %d brings the filter to %lld times %d elements, whose bytes 64 bits cannot count; the "
                   "extents must be smaller",
                   i, static_cast<long long>(count), dims[i]);
    count *= dims[i];
    geometry.dims[i] = dims[i];
  }
  GPUDNN_TRY(pack_as(format, &geometry));
  filterDesc->geometry = geometry;
  filterDesc->format = format;
  note_problem_lazily([&] { return "filter " + tensor_text(geometry); });
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnCreateFilterDescriptor(gpudnnFilterDescriptor_t* filterDesc) {
  return guard(__func__, [&]() -> Status { return create_object(filterDesc, "filterDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroyFilterDescriptor(gpudnnFilterDescriptor_t filterDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(filterDesc, Kind::filter, "filterDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetFilter4dDescriptor(gpudnnFilterDescriptor_t filterDesc, gpudnnDataType_t dataType,
                                                      gpudnnTensorFormat_t format, int k, int c, int h, int w) {
  return guard(__func__, [&]() -> Status {
    const int dims[] = {k, c, h, w};
    return set_filter(filterDesc, dataType, format, 4, dims);
  });
}

extern "C" gpudnnStatus_t gpudnnSetFilterNdDescriptor(gpudnnFilterDescriptor_t filterDesc, gpudnnDataType_t dataType,
                                                      gpudnnTensorFormat_t format, int nbDims, const int filterDimA[]) {
  return guard(__func__, [&]() -> Status { return set_filter(filterDesc, dataType, format, nbDims, filterDimA); });
}

extern "C" gpudnnStatus_t gpudnnGetFilter4dDescriptor(const gpudnnFilterDescriptor_t filterDesc,
                                                      gpudnnDataType_t* dataType, gpudnnTensorFormat_t* format, int* k,
                                                      int* c, int* h, int* w) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_FILTER(filterDesc);
    const TensorGeometry& geometry = filterDesc->geometry;
    GPUDNN_REQUIRE(geometry.rank == 4, GPUDNN_STATUS_BAD_PARAM,
                   "filterDesc has %d dimensions, not 4; use gpudnnGetFilterNdDescriptor", geometry.rank);
    int* const dims[] = {k, c, h, w};
    for (int i = 0; i < 4; ++i) GPUDNN_TRY(copy_to_int(&geometry.dims[i], 1, dims[i], "the extent"));
    if (dataType != nullptr) *dataType = geometry.type;
    if (format != nullptr) *format = filterDesc->format;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetFilterNdDescriptor(const gpudnnFilterDescriptor_t filterDesc, int nbDimsRequested,
                                                      gpudnnDataType_t* dataType, gpudnnTensorFormat_t* format,
                                                      int* nbDims, int filterDimA[]) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_FILTER(filterDesc);
    GPUDNN_REQUIRE(nbDimsRequested >= 0, GPUDNN_STATUS_BAD_PARAM, "nbDimsRequested is %d; it must not be negative",
                   nbDimsRequested);
    const TensorGeometry& geometry = filterDesc->geometry;
    GPUDNN_TRY(copy_to_int(geometry.dims, std::min(nbDimsRequested, geometry.rank), filterDimA, "the extent"));
    if (dataType != nullptr) *dataType = geometry.type;
    if (format != nullptr) *format = filterDesc->format;
    if (nbDims != nullptr) *nbDims = geometry.rank;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetFilterSizeInBytes(const gpudnnFilterDescriptor_t filterDesc, size_t* size) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_FILTER(filterDesc);
    GPUDNN_CHECK_POINTER(size);
    // Filters are packed, so their size is that of their scalars.
    const TensorGeometry& geometry = filterDesc->geometry;
    const int bits = data_type_bits(geometry.type) / data_type_lanes(geometry.type);
    *size = (static_cast<size_t>(element_count(geometry)) * static_cast<size_t>(bits) + 7) / 8;
    return GPUDNN_STATUS_SUCCESS;
  });
}
