// A sweep over combinations of descriptors: each operation is called once for each combination, and its status printed.
// Two runs of the program, on libgpudnn and on NVIDIA's library under the same name, are compared by compare.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cudnn.h>

#include <cstddef>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

namespace sweep {

using Dims = std::vector<int>;

// Where the operations read and write: zeros, as large as any operand here.
[[nodiscard]] void* arena(int number);
constexpr std::size_t kArenaBytes = std::size_t{4} << 20;
constexpr std::size_t kWorkspaceBytes = std::size_t{64} << 20;
[[nodiscard]] void* workspace();

[[nodiscard]] cudnnHandle_t handle();

// What a combination came to: the first setter that refused, or the status of the call.
struct Result {
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  bool set = false;  // a setter's
};

// Counts the combination and, unless it lies before the one to begin with, runs it and prints a line.
void run(const std::string& operation, const std::string& parameters, const std::function<Result()>& body);

// The first failure of the setters, then the call.
class Setters {
 public:
  void add(cudnnStatus_t status) {
    if (first_ == CUDNN_STATUS_SUCCESS) first_ = status;
  }
  template <class Call>
  [[nodiscard]] Result then(Call call) const {
    if (first_ != CUDNN_STATUS_SUCCESS) return {first_, true};
    return {call(), false};
  }

 private:
  cudnnStatus_t first_ = CUDNN_STATUS_SUCCESS;
};

// A descriptor of any kind, with its makers.
template <class Desc, cudnnStatus_t (*kCreate)(Desc*), cudnnStatus_t (*kDestroy)(Desc)>
class Held {
 public:
  Held() { (void)kCreate(&desc_); }
  ~Held() { (void)kDestroy(desc_); }
  Held(const Held&) = delete;
  Held& operator=(const Held&) = delete;
  operator Desc() const { return desc_; }

 private:
  Desc desc_ = nullptr;
};
using TensorDesc = Held<cudnnTensorDescriptor_t, cudnnCreateTensorDescriptor, cudnnDestroyTensorDescriptor>;
using FilterDesc = Held<cudnnFilterDescriptor_t, cudnnCreateFilterDescriptor, cudnnDestroyFilterDescriptor>;
using ConvDesc =
    Held<cudnnConvolutionDescriptor_t, cudnnCreateConvolutionDescriptor, cudnnDestroyConvolutionDescriptor>;
using PoolDesc = Held<cudnnPoolingDescriptor_t, cudnnCreatePoolingDescriptor, cudnnDestroyPoolingDescriptor>;
using ActivationDesc =
    Held<cudnnActivationDescriptor_t, cudnnCreateActivationDescriptor, cudnnDestroyActivationDescriptor>;
using LrnDesc = Held<cudnnLRNDescriptor_t, cudnnCreateLRNDescriptor, cudnnDestroyLRNDescriptor>;
using OpDesc = Held<cudnnOpTensorDescriptor_t, cudnnCreateOpTensorDescriptor, cudnnDestroyOpTensorDescriptor>;
using ReduceDesc =
    Held<cudnnReduceTensorDescriptor_t, cudnnCreateReduceTensorDescriptor, cudnnDestroyReduceTensorDescriptor>;
using DropoutDesc = Held<cudnnDropoutDescriptor_t, cudnnCreateDropoutDescriptor, cudnnDestroyDropoutDescriptor>;
using SpatialDesc = Held<cudnnSpatialTransformerDescriptor_t, cudnnCreateSpatialTransformerDescriptor,
                         cudnnDestroySpatialTransformerDescriptor>;
using CtcDesc = Held<cudnnCTCLossDescriptor_t, cudnnCreateCTCLossDescriptor, cudnnDestroyCTCLossDescriptor>;

// How a tensor lies in memory.
enum class Layout { nchw, nhwc, gaps, reversed };
constexpr Layout kLayouts[] = {Layout::nchw, Layout::nhwc, Layout::gaps, Layout::reversed};
constexpr cudnnDataType_t kFloats[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_BFLOAT16};
constexpr cudnnDataType_t kTypes[] = {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE,   CUDNN_DATA_HALF,
                                      CUDNN_DATA_INT8,  CUDNN_DATA_INT32,    CUDNN_DATA_INT8x4,
                                      CUDNN_DATA_UINT8, CUDNN_DATA_BFLOAT16, CUDNN_DATA_INT64};

[[nodiscard]] cudnnStatus_t set(cudnnTensorDescriptor_t desc, cudnnDataType_t type, const Dims& dims, Layout layout);
[[nodiscard]] std::string text(cudnnDataType_t type);
[[nodiscard]] std::string text(Layout layout);
[[nodiscard]] std::string text(const Dims& dims);
inline std::string text(int number) { return std::to_string(number); }
inline std::string text(const char* words) { return words; }

// The parts, separated by spaces.
template <class... Parts>
[[nodiscard]] std::string words(const Parts&... parts) {
  std::string line;
  ((line += (line.empty() ? "" : " ") + text(parts)), ...);
  return line;
}

// alpha and beta for the type of the data.
struct Scalar {
  float narrow;
  double wide;
  explicit Scalar(double value) : narrow(static_cast<float>(value)), wide(value) {}
  [[nodiscard]] const void* of(cudnnDataType_t type) const {
    return type == CUDNN_DATA_DOUBLE ? static_cast<const void*>(&wide) : &narrow;
  }
};
inline const Scalar kOne(1);
inline const Scalar kZero(0);

void sweep_descriptors();
void sweep_tensors();
void sweep_layers();
void sweep_norms();
void sweep_convolutions();

}  // namespace sweep
