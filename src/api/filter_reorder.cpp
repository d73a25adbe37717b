// Reordering of filters and biases for INT8x32: the order that the library's readers expect is the one of the
// NCHW_VECT_C format itself, (k, c / 32, taps, 32), whose rows of 32 channels are what integer tensor cores load. So
// both reorder types keep the order.
// SPDX-License-Identifier: Apache-2.0
#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/transform/problem.hpp"

using namespace gpudnn;

namespace {

// Bytes as they are; onto itself is nothing.
Status copy_bytes(gpudnnHandle_t handle, const void* from, void* to, std::size_t bytes) {
  if (from == to || bytes == 0) return GPUDNN_STATUS_SUCCESS;
  // As words where they are whole and aligned: fewer, and bits pass through the copy of 32-bit integers unchanged.
  const bool words = bytes % 4 == 0 && reinterpret_cast<std::uintptr_t>(from) % 4 == 0 &&
                     reinterpret_cast<std::uintptr_t>(to) % 4 == 0;
  transform::Problem problem;
  TensorGeometry& flat = problem.in;
  flat.type = words ? GPUDNN_DATA_INT32 : GPUDNN_DATA_UINT8;
  flat.rank = 1;
  flat.dims[0] = static_cast<std::int64_t>(words ? bytes / 4 : bytes);
  flat.strides[0] = 1;
  problem.out = flat;
  problem.transform = transform::identity(1);
  transform::Args args;
  args.in = from;
  args.out = to;
  return transform::run(handle, problem, args);
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnReorderFilterAndBias(gpudnnHandle_t handle, const gpudnnFilterDescriptor_t filterDesc,
                                                     gpudnnReorderType_t reorderType, const void* filterData,
                                                     void* reorderedFilterData, int reorderBias, const void* biasData,
                                                     void* reorderedBiasData) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_FILTER(filterDesc);
    GPUDNN_TRY(check_enum(reorderType, GPUDNN_DEFAULT_REORDER, GPUDNN_NO_REORDER, "reorderType"));
    GPUDNN_CHECK_POINTER(filterData);
    GPUDNN_CHECK_POINTER(reorderedFilterData);
    if (reorderBias != 0) {
      GPUDNN_CHECK_POINTER(biasData);
      GPUDNN_CHECK_POINTER(reorderedBiasData);
    }
    TensorGeometry vectors = filterDesc->geometry;
    if (vectors.rank >= 2) vectors.dims[1] /= data_type_lanes(vectors.type);
    GPUDNN_TRY(copy_bytes(handle, filterData, reorderedFilterData, size_in_bytes(vectors)));
    if (reorderBias == 0) return GPUDNN_STATUS_SUCCESS;
    return copy_bytes(handle, biasData, reorderedBiasData, static_cast<std::size_t>(vectors.dims[0]) * sizeof(float));
  });
}
