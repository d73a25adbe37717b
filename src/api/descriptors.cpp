// What stands behind the opaque descriptor pointers of the interface.
// SPDX-License-Identifier: Apache-2.0
#include "api/descriptors.hpp"

#include <algorithm>
#include <climits>
#include <cstring>

namespace gpudnn {

Status check_tensor(gpudnnTensorDescriptor_t desc, const char* argument) noexcept {
  GPUDNN_TRY(check_object(desc, Kind::tensor, argument));
  GPUDNN_REQUIRE(desc->geometry.rank > 0, GPUDNN_STATUS_BAD_PARAM,
                 "%s was created but never set; call gpudnnSetTensor4dDescriptor or one of its siblings", argument);
  return GPUDNN_STATUS_SUCCESS;
}

Status check_filter(gpudnnFilterDescriptor_t desc, const char* argument) noexcept {
  GPUDNN_TRY(check_object(desc, Kind::filter, argument));
  GPUDNN_REQUIRE(desc->geometry.rank > 0, GPUDNN_STATUS_BAD_PARAM,
                 "%s was created but never set; call gpudnnSetFilter4dDescriptor or gpudnnSetFilterNdDescriptor",
                 argument);
  return GPUDNN_STATUS_SUCCESS;
}

Status copy_to_int(const std::int64_t* values, int count, int* out, const char* what) {
  if (out == nullptr) return GPUDNN_STATUS_SUCCESS;
  for (int i = 0; i < count; ++i) {
    GPUDNN_REQUIRE(values[i] <= INT_MAX, GPUDNN_STATUS_NOT_SUPPORTED,
                   "%s %lld of dimension %d does not fit into an int", what, static_cast<long long>(values[i]), i);
    out[i] = static_cast<int>(values[i]);
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status copy_image_dims(const std::int64_t* dims, int* n, int* c, int* h, int* w) {
  int* const out[] = {n, c, h, w};
  for (int i = 0; i < 4; ++i) {
    GPUDNN_REQUIRE(out[i] != nullptr, GPUDNN_STATUS_BAD_PARAM, "output argument %c is null; pass the address of an int",
                   "nchw"[i]);
    GPUDNN_TRY(copy_to_int(&dims[i], 1, out[i], "the extent"));
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status pack_as(gpudnnTensorFormat_t format, TensorGeometry* geometry) {
  const int lanes = data_type_lanes(geometry->type);
  const bool vectors = format == GPUDNN_TENSOR_NCHW_VECT_C;
  GPUDNN_REQUIRE(vectors == (lanes > 1), GPUDNN_STATUS_BAD_PARAM,
                 "format %d and dataType %s do not go together: NCHW_VECT_C takes INT8x4, UINT8x4 and INT8x32, and "
                 "they take no other",
                 static_cast<int>(format), data_type_name(geometry->type));
  if (!vectors || geometry->rank < 2) {
    set_packed_strides(geometry, format);
    return GPUDNN_STATUS_SUCCESS;
  }
  GPUDNN_REQUIRE(geometry->dims[1] % lanes == 0, GPUDNN_STATUS_BAD_PARAM,
                 "c is %lld; with %s it must be a multiple of %d", static_cast<long long>(geometry->dims[1]),
                 data_type_name(geometry->type), lanes);
  set_packed_strides(geometry, GPUDNN_TENSOR_NCHW);
  return GPUDNN_STATUS_SUCCESS;
}

Status check_enum(int value, int first, int last, const char* argument) noexcept {
  GPUDNN_REQUIRE(value >= first && value <= last, GPUDNN_STATUS_BAD_PARAM,
                 "%s is %d; it must be one of its enum's values, %d to %d", argument, value, first, last);
  return GPUDNN_STATUS_SUCCESS;
}

Status check_data_type(DataType type, const char* argument) noexcept {
  GPUDNN_REQUIRE(data_type_bits(type) > 0, GPUDNN_STATUS_BAD_PARAM, "%s is %d; it must be a gpudnnDataType_t", argument,
                 static_cast<int>(type));
  return GPUDNN_STATUS_SUCCESS;
}

std::string list_text(const int* values, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += (i > 0 ? "x" : "") + std::to_string(values[i]);
  return text;
}

double scalar(const void* value, DataType tensor_type) noexcept {
  // By memcpy: the caller's variable need not be aligned.
  if (tensor_type == GPUDNN_DATA_DOUBLE) {
    double d;
    std::memcpy(&d, value, sizeof d);
    return d;
  }
  float f;
  std::memcpy(&f, value, sizeof f);
  return static_cast<double>(f);
}

}  // namespace gpudnn
