// What a C++ program puts around the C API: statuses become exceptions, descriptors and memory are freed by themselves.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gpudnn/gpudnn.h>

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

// Throws with the call, the status's name and the library's own explanation.
inline void check_status(gpudnnStatus_t status, const char* call) {
  if (status == GPUDNN_STATUS_SUCCESS) return;
  char reason[1024] = "";
  gpudnnGetLastErrorString(reason, sizeof reason);
  throw std::runtime_error(std::string(call) + "\n  gave " + gpudnnGetErrorString(status) + ": " + reason);
}
#define GPUDNN_CHECK(call) check_status((call), #call)

// A handle or descriptor: created with the object, destroyed with it, and usable wherever the C type is.
template <typename T, gpudnnStatus_t (*create)(T*), gpudnnStatus_t (*destroy)(T)>
class Owned {
 public:
  Owned() { check_status(create(&value_), "creating a handle or descriptor"); }
  ~Owned() {
    if (value_ != nullptr) static_cast<void>(destroy(value_));
  }
  Owned(Owned&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  operator T() const { return value_; }

 private:
  T value_ = nullptr;
};

using Handle = Owned<gpudnnHandle_t, gpudnnCreate, gpudnnDestroy>;
using TensorDescriptor = Owned<gpudnnTensorDescriptor_t, gpudnnCreateTensorDescriptor, gpudnnDestroyTensorDescriptor>;
using FilterDescriptor = Owned<gpudnnFilterDescriptor_t, gpudnnCreateFilterDescriptor, gpudnnDestroyFilterDescriptor>;
using ConvolutionDescriptor =
    Owned<gpudnnConvolutionDescriptor_t, gpudnnCreateConvolutionDescriptor, gpudnnDestroyConvolutionDescriptor>;
using PoolingDescriptor =
    Owned<gpudnnPoolingDescriptor_t, gpudnnCreatePoolingDescriptor, gpudnnDestroyPoolingDescriptor>;
using ActivationDescriptor =
    Owned<gpudnnActivationDescriptor_t, gpudnnCreateActivationDescriptor, gpudnnDestroyActivationDescriptor>;

// Memory where the handle computes: on the GPU or, on the host backend, ordinary memory.
struct DeviceFree {
  gpudnnHandle_t handle = nullptr;
  void operator()(void* data) const { static_cast<void>(gpudnnFree(handle, data)); }
};
using DeviceMemory = std::unique_ptr<void, DeviceFree>;

inline DeviceMemory allocate(gpudnnHandle_t handle, size_t bytes) {
  void* data = nullptr;
  GPUDNN_CHECK(gpudnnMalloc(handle, &data, bytes));
  return DeviceMemory(data, DeviceFree{handle});
}
