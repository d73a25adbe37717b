// Dropout descriptors and dropout.
// SPDX-License-Identifier: Apache-2.0
#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/dropout/problem.hpp"

using namespace gpudnn;

namespace {

Status check_dropout(gpudnnDropoutDescriptor_t dropoutDesc) {
  GPUDNN_CHECK_OBJECT(dropoutDesc, Kind::dropout);
  GPUDNN_REQUIRE(dropoutDesc->set, GPUDNN_STATUS_BAD_PARAM,
                 "dropoutDesc was created but never set; call gpudnnSetDropoutDescriptor");
  return GPUDNN_STATUS_SUCCESS;
}

Status check_states(float dropout, const void* states, std::size_t stateSizeInBytes) {
  GPUDNN_REQUIRE(dropout >= 0 && dropout <= 1, GPUDNN_STATUS_BAD_PARAM,
                 "dropout is %g; it must be a probability, 0 to 1", static_cast<double>(dropout));
  if (states == nullptr) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_REQUIRE(stateSizeInBytes >= sizeof(dropout::States), GPUDNN_STATUS_BAD_PARAM,
                 "stateSizeInBytes is %zu; gpudnnDropoutGetStatesSize says %zu", stateSizeInBytes,
                 sizeof(dropout::States));
  GPUDNN_REQUIRE(reinterpret_cast<std::uintptr_t>(states) % alignof(dropout::States) == 0, GPUDNN_STATUS_BAD_PARAM,
                 "states (%p) must be aligned to %zu bytes", states, alignof(dropout::States));
  return GPUDNN_STATUS_SUCCESS;
}

void keep(gpudnnDropoutDescriptor_t dropoutDesc, float dropout, void* states, unsigned long long seed) {
  dropoutDesc->set = true;
  dropoutDesc->probability = dropout;
  dropoutDesc->states = states;
  dropoutDesc->seed = seed;
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnCreateDropoutDescriptor(gpudnnDropoutDescriptor_t* dropoutDesc) {
  return guard(__func__, [&]() -> Status { return create_object(dropoutDesc, "dropoutDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroyDropoutDescriptor(gpudnnDropoutDescriptor_t dropoutDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(dropoutDesc, Kind::dropout, "dropoutDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDropoutGetStatesSize(gpudnnHandle_t handle, size_t* sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(sizeInBytes);
    *sizeInBytes = sizeof(dropout::States);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnDropoutGetReserveSpaceSize(gpudnnTensorDescriptor_t xdesc, size_t* sizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_TENSOR(xdesc);
    GPUDNN_CHECK_POINTER(sizeInBytes);
    *sizeInBytes = dropout::reserve_size(xdesc->geometry);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnSetDropoutDescriptor(gpudnnDropoutDescriptor_t dropoutDesc, gpudnnHandle_t handle,
                                                     float dropout, void* states, size_t stateSizeInBytes,
                                                     unsigned long long seed) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(dropoutDesc, Kind::dropout);
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_states(dropout, states, stateSizeInBytes));
    if (states != nullptr) GPUDNN_TRY(dropout::start_states(handle, states, seed));
    keep(dropoutDesc, dropout, states, seed);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnRestoreDropoutDescriptor(gpudnnDropoutDescriptor_t dropoutDesc, gpudnnHandle_t handle,
                                                         float dropout, void* states, size_t stateSizeInBytes,
                                                         unsigned long long seed) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(dropoutDesc, Kind::dropout);
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_POINTER(states);
    GPUDNN_TRY(check_states(dropout, states, stateSizeInBytes));
    keep(dropoutDesc, dropout, states, seed);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetDropoutDescriptor(gpudnnDropoutDescriptor_t dropoutDesc, gpudnnHandle_t handle,
                                                     float* dropout, void** states, unsigned long long* seed) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_dropout(dropoutDesc));
    GPUDNN_TRY(check_handle(handle));
    if (dropout != nullptr) *dropout = dropoutDesc->probability;
    if (states != nullptr) *states = dropoutDesc->states;
    if (seed != nullptr) *seed = dropoutDesc->seed;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnDropoutForward(gpudnnHandle_t handle, const gpudnnDropoutDescriptor_t dropoutDesc,
                                               const gpudnnTensorDescriptor_t xdesc, const void* x,
                                               const gpudnnTensorDescriptor_t ydesc, void* y, void* reserveSpace,
                                               size_t reserveSpaceSizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_dropout(dropoutDesc));
    GPUDNN_CHECK_TENSOR(xdesc);
    GPUDNN_CHECK_DATA(x, xdesc);
    GPUDNN_CHECK_TENSOR(ydesc);
    GPUDNN_CHECK_DATA(y, ydesc);
    GPUDNN_CHECK_POINTER(reserveSpace);
    const dropout::Problem problem = {false, dropoutDesc->probability, xdesc->geometry, ydesc->geometry};
    const dropout::Args args = {x, y, reserveSpace, reserveSpaceSizeInBytes, dropoutDesc->states};
    GPUDNN_TRY(dropout::validate(problem, args));
    return dropout::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnDropoutBackward(gpudnnHandle_t handle, const gpudnnDropoutDescriptor_t dropoutDesc,
                                                const gpudnnTensorDescriptor_t dydesc, const void* dy,
                                                const gpudnnTensorDescriptor_t dxdesc, void* dx, void* reserveSpace,
                                                size_t reserveSpaceSizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_dropout(dropoutDesc));
    GPUDNN_CHECK_TENSOR(dydesc);
    GPUDNN_CHECK_DATA(dy, dydesc);
    GPUDNN_CHECK_TENSOR(dxdesc);
    GPUDNN_CHECK_DATA(dx, dxdesc);
    GPUDNN_CHECK_POINTER(reserveSpace);
    const dropout::Problem problem = {true, dropoutDesc->probability, dydesc->geometry, dxdesc->geometry};
    const dropout::Args args = {dy, dx, reserveSpace, reserveSpaceSizeInBytes, nullptr};
    GPUDNN_TRY(dropout::validate(problem, args));
    return dropout::run(handle, problem, args);
  });
}
