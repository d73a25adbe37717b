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

// Onto itself is nothing to do.
kernels::CopyPart part_of(const void* from, void* to, std::size_t bytes) {
  return {from, to, from == to ? std::size_t{0} : bytes};
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
    const TensorGeometry& filter = filterDesc->geometry;
    kernels::CopyPart parts[kernels::kCopyParts];
    parts[0] = part_of(filterData, reorderedFilterData, size_in_bytes(filter));
    if (reorderBias != 0) {
      parts[1] = part_of(biasData, reorderedBiasData, static_cast<std::size_t>(filter.dims[0]) * sizeof(float));
    }
    return transform::run_copies(handle, parts);
  });
}
