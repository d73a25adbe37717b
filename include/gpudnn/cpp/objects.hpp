// libgpudnn for C++: owners of handles, descriptors and memory. Each converts to its C type, so that every function of
// the C interface takes it.
// SPDX-License-Identifier: Apache-2.0
#ifndef GPUDNN_CPP_OBJECTS_HPP_
#define GPUDNN_CPP_OBJECTS_HPP_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "gpudnn/cpp/error.hpp"

namespace gpudnn {

// An object of the C interface: made with its owner, destroyed with it, moved, never copied. Owned(nullptr) is empty
// until try_create() fills it.
template <class T, gpudnnStatus_t (*kCreate)(T*), gpudnnStatus_t (*kDestroy)(T)>
class Owned {
 public:
  Owned() { check(kCreate(&value_)); }
  explicit Owned(std::nullptr_t) noexcept {}
  ~Owned() { reset(); }
  Owned(Owned&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(value_, other.value_);
    return *this;
  }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;

  Status try_create() {
    reset();
    return status_of(kCreate(&value_));
  }
  void reset() noexcept {
    if (value_ != nullptr) static_cast<void>(kDestroy(std::exchange(value_, nullptr)));
  }
  [[nodiscard]] T get() const noexcept { return value_; }
  operator T() const noexcept { return value_; }  // NOLINT(google-explicit-constructor)

 private:
  T value_ = nullptr;
};

class Handle : public Owned<gpudnnHandle_t, gpudnnCreate, gpudnnDestroy> {
 public:
  using Owned::Owned;
  Handle() = default;
  [[nodiscard]] gpudnnBackend_t backend() const {
    gpudnnBackend_t kind = GPUDNN_BACKEND_HOST;
    check(gpudnnGetBackend(get(), &kind));
    return kind;
  }
  [[nodiscard]] bool is_host() const { return backend() == GPUDNN_BACKEND_HOST; }
  void set_stream(cudaStream_t stream) const { check(gpudnnSetStream(get(), stream)); }
  [[nodiscard]] cudaStream_t stream() const {
    cudaStream_t stream = nullptr;
    check(gpudnnGetStream(get(), &stream));
    return stream;
  }
};

class TensorDescriptor
    : public Owned<gpudnnTensorDescriptor_t, gpudnnCreateTensorDescriptor, gpudnnDestroyTensorDescriptor> {
 public:
  using Owned::Owned;
  TensorDescriptor() = default;
  // Packed in `format`.
  TensorDescriptor(gpudnnDataType_t type, const std::vector<int>& dims,
                   gpudnnTensorFormat_t format = GPUDNN_TENSOR_NCHW) {
    set(type, dims, format);
  }
  void set(gpudnnDataType_t type, const std::vector<int>& dims, gpudnnTensorFormat_t format = GPUDNN_TENSOR_NCHW) {
    check(gpudnnSetTensorNdDescriptorEx(get(), format, type, static_cast<int>(dims.size()), dims.data()));
  }
  // Strides in elements, as many as dims.
  void set_strided(gpudnnDataType_t type, const std::vector<int>& dims, const std::vector<int>& strides) {
    check(strides.size() == dims.size() ? Status()
                                        : Status(GPUDNN_STATUS_BAD_PARAM, "a tensor needs as many strides as dims"));
    check(gpudnnSetTensorNdDescriptor(get(), type, static_cast<int>(dims.size()), dims.data(), strides.data()));
  }
  [[nodiscard]] std::size_t bytes() const {
    std::size_t size = 0;
    check(gpudnnGetTensorSizeInBytes(get(), &size));
    return size;
  }
};

class FilterDescriptor
    : public Owned<gpudnnFilterDescriptor_t, gpudnnCreateFilterDescriptor, gpudnnDestroyFilterDescriptor> {
 public:
  using Owned::Owned;
  FilterDescriptor() = default;
  FilterDescriptor(gpudnnDataType_t type, const std::vector<int>& dims,
                   gpudnnTensorFormat_t format = GPUDNN_TENSOR_NCHW) {
    set(type, dims, format);
  }
  void set(gpudnnDataType_t type, const std::vector<int>& dims, gpudnnTensorFormat_t format = GPUDNN_TENSOR_NCHW) {
    check(gpudnnSetFilterNdDescriptor(get(), type, format, static_cast<int>(dims.size()), dims.data()));
  }
};

// Empty vectors stand for paddings of 0, strides of 1 and dilations of 1.
struct ConvolutionOptions {
  std::vector<int> padding = {};
  std::vector<int> stride = {};
  std::vector<int> dilation = {};
  int groups = 1;
  gpudnnDataType_t compute = GPUDNN_DATA_FLOAT;
  gpudnnMathType_t math = GPUDNN_DEFAULT_MATH;
  gpudnnConvolutionMode_t mode = GPUDNN_CROSS_CORRELATION;
};

class ConvolutionDescriptor : public Owned<gpudnnConvolutionDescriptor_t, gpudnnCreateConvolutionDescriptor,
                                           gpudnnDestroyConvolutionDescriptor> {
 public:
  using Owned::Owned;
  ConvolutionDescriptor() = default;
  explicit ConvolutionDescriptor(int spatial, const ConvolutionOptions& options = {}) { set(spatial, options); }
  void set(int spatial, const ConvolutionOptions& options) {
    const auto filled = [spatial](std::vector<int> values, int value) {
      values.resize(std::max<std::size_t>(values.size(), static_cast<std::size_t>(spatial)), value);
      return values;
    };
    check(gpudnnSetConvolutionNdDescriptor(get(), spatial, filled(options.padding, 0).data(),
                                           filled(options.stride, 1).data(), filled(options.dilation, 1).data(),
                                           options.mode, options.compute));
    check(gpudnnSetConvolutionMathType(get(), options.math));
    check(gpudnnSetConvolutionGroupCount(get(), options.groups));
  }
};

class PoolingDescriptor
    : public Owned<gpudnnPoolingDescriptor_t, gpudnnCreatePoolingDescriptor, gpudnnDestroyPoolingDescriptor> {
 public:
  using Owned::Owned;
  PoolingDescriptor() = default;
  PoolingDescriptor(gpudnnPoolingMode_t mode, const std::vector<int>& window, const std::vector<int>& padding,
                    const std::vector<int>& stride, gpudnnNanPropagation_t nan = GPUDNN_PROPAGATE_NAN) {
    set(mode, window, padding, stride, nan);
  }
  void set(gpudnnPoolingMode_t mode, const std::vector<int>& window, const std::vector<int>& padding,
           const std::vector<int>& stride, gpudnnNanPropagation_t nan = GPUDNN_PROPAGATE_NAN) {
    check(padding.size() == window.size() && stride.size() == window.size()
              ? Status()
              : Status(GPUDNN_STATUS_BAD_PARAM, "a pooling window needs as many paddings and strides as dims"));
    check(gpudnnSetPoolingNdDescriptor(get(), mode, nan, static_cast<int>(window.size()), window.data(), padding.data(),
                                       stride.data()));
  }
};

class ActivationDescriptor
    : public Owned<gpudnnActivationDescriptor_t, gpudnnCreateActivationDescriptor, gpudnnDestroyActivationDescriptor> {
 public:
  using Owned::Owned;
  ActivationDescriptor() = default;
  explicit ActivationDescriptor(gpudnnActivationMode_t mode, double coef = 0,
                                gpudnnNanPropagation_t nan = GPUDNN_PROPAGATE_NAN) {
    set(mode, coef, nan);
  }
  void set(gpudnnActivationMode_t mode, double coef = 0, gpudnnNanPropagation_t nan = GPUDNN_PROPAGATE_NAN) {
    check(gpudnnSetActivationDescriptor(get(), mode, nan, coef));
  }
};

// Descriptors that the C setters fill.
using OpTensorDescriptor =
    Owned<gpudnnOpTensorDescriptor_t, gpudnnCreateOpTensorDescriptor, gpudnnDestroyOpTensorDescriptor>;
using ReduceTensorDescriptor =
    Owned<gpudnnReduceTensorDescriptor_t, gpudnnCreateReduceTensorDescriptor, gpudnnDestroyReduceTensorDescriptor>;
using DropoutDescriptor =
    Owned<gpudnnDropoutDescriptor_t, gpudnnCreateDropoutDescriptor, gpudnnDestroyDropoutDescriptor>;
using LrnDescriptor = Owned<gpudnnLRNDescriptor_t, gpudnnCreateLRNDescriptor, gpudnnDestroyLRNDescriptor>;
using CtcLossDescriptor =
    Owned<gpudnnCTCLossDescriptor_t, gpudnnCreateCTCLossDescriptor, gpudnnDestroyCTCLossDescriptor>;
using SpatialTransformerDescriptor =
    Owned<gpudnnSpatialTransformerDescriptor_t, gpudnnCreateSpatialTransformerDescriptor,
          gpudnnDestroySpatialTransformerDescriptor>;
using TensorTransformDescriptor = Owned<gpudnnTensorTransformDescriptor_t, gpudnnCreateTensorTransformDescriptor,
                                        gpudnnDestroyTensorTransformDescriptor>;
using RnnDescriptor = Owned<gpudnnRNNDescriptor_t, gpudnnCreateRNNDescriptor, gpudnnDestroyRNNDescriptor>;
using RnnDataDescriptor =
    Owned<gpudnnRNNDataDescriptor_t, gpudnnCreateRNNDataDescriptor, gpudnnDestroyRNNDataDescriptor>;

// Memory where a handle computes: on the GPU or, on the host backend, ordinary memory. The handle must outlive it.
class Buffer {
 public:
  Buffer() = default;
  Buffer(gpudnnHandle_t handle, std::size_t bytes) { check(try_allocate(handle, bytes)); }
  // With a copy of the values.
  template <class T>
  Buffer(gpudnnHandle_t handle, const std::vector<T>& values) : Buffer(handle, values.size() * sizeof(T)) {
    upload(values);
  }
  ~Buffer() { reset(); }
  Buffer(Buffer&& other) noexcept
      : handle_(other.handle_), data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  Status try_allocate(gpudnnHandle_t handle, std::size_t bytes) {
    reset();
    handle_ = handle;
    Status status = status_of(gpudnnMalloc(handle, &data_, bytes));
    if (status) bytes_ = bytes;
    return status;
  }
  void reset() noexcept {
    if (data_ != nullptr) static_cast<void>(gpudnnFree(handle_, std::exchange(data_, nullptr)));
    bytes_ = 0;
  }

  [[nodiscard]] void* get() const noexcept { return data_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  // Copies of the first values.size() elements, in the order of the handle's stream; they return when done.
  template <class T>
  Status try_upload(const std::vector<T>& values) {
    GPUDNN_CPP_TRY(fits(values.size() * sizeof(T)));
    return status_of(
        gpudnnMemcpy(handle_, data_, values.data(), values.size() * sizeof(T), GPUDNN_MEMCPY_HOST_TO_DEVICE));
  }
  template <class T>
  Status try_download(std::vector<T>* values) const {
    GPUDNN_CPP_TRY(fits(values->size() * sizeof(T)));
    return status_of(
        gpudnnMemcpy(handle_, values->data(), data_, values->size() * sizeof(T), GPUDNN_MEMCPY_DEVICE_TO_HOST));
  }
  template <class T>
  void upload(const std::vector<T>& values) {
    check(try_upload(values));
  }
  // All of it, as elements of type T.
  template <class T>
  [[nodiscard]] std::vector<T> download() const {
    static_assert(std::is_trivially_copyable<T>::value, "elements are copied as bytes");
    std::vector<T> values(bytes_ / sizeof(T));
    check(try_download(&values));
    return values;
  }

 private:
  [[nodiscard]] Status fits(std::size_t bytes) const {
    if (bytes <= bytes_) return {};
    return {GPUDNN_STATUS_BAD_PARAM,
            "a copy of " + std::to_string(bytes) + " bytes does not fit a buffer of " + std::to_string(bytes_)};
  }

  gpudnnHandle_t handle_ = nullptr;
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace gpudnn

#endif
