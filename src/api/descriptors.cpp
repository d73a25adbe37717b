// What stands behind the opaque descriptor pointers of the interface.
// SPDX-License-Identifier: Apache-2.0
#include "api/descriptors.hpp"

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
