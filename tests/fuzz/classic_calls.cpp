// The operations of the C interface on the host backend: descriptors of random types, extents, strides and parameters,
// and buffers of exactly the sizes that the library asks for. A call may refuse; it must not fail inside, and under
// AddressSanitizer must not touch a byte beside its buffers.
// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "bytes.hpp"
#include "check.hpp"
#include "gpudnn/gpudnn.h"

namespace {

using gpudnn::fuzz::Bytes;

constexpr std::size_t kLargest = 1 << 16;         // bytes of a buffer; calls with larger ones are left out
constexpr std::size_t kLargestProduct = 1 << 20;  // multiplications of a call

template <class Descriptor, gpudnnStatus_t (*create)(Descriptor*), gpudnnStatus_t (*destroy)(Descriptor)>
class Owned {
 public:
  Owned() { (void)create(&descriptor_); }
  ~Owned() { (void)destroy(descriptor_); }
  Owned(const Owned&) = delete;
  Owned& operator=(const Owned&) = delete;
  operator Descriptor() const {
    return descriptor_;
  }  // NOLINT(google-explicit-constructor): as the C functions take it

 private:
  Descriptor descriptor_ = nullptr;
};
using Convolution =
    Owned<gpudnnConvolutionDescriptor_t, gpudnnCreateConvolutionDescriptor, gpudnnDestroyConvolutionDescriptor>;
using Pooling = Owned<gpudnnPoolingDescriptor_t, gpudnnCreatePoolingDescriptor, gpudnnDestroyPoolingDescriptor>;
using Activation =
    Owned<gpudnnActivationDescriptor_t, gpudnnCreateActivationDescriptor, gpudnnDestroyActivationDescriptor>;
using OpTensor = Owned<gpudnnOpTensorDescriptor_t, gpudnnCreateOpTensorDescriptor, gpudnnDestroyOpTensorDescriptor>;
using Reduction =
    Owned<gpudnnReduceTensorDescriptor_t, gpudnnCreateReduceTensorDescriptor, gpudnnDestroyReduceTensorDescriptor>;
using Lrn = Owned<gpudnnLRNDescriptor_t, gpudnnCreateLRNDescriptor, gpudnnDestroyLRNDescriptor>;

struct Buffer {
  explicit Buffer(std::size_t bytes) : size(bytes), memory(new std::uint8_t[bytes]) {
    // Bytes of small numbers in every float type, and of small integers.
    for (std::size_t i = 0; i < bytes; ++i) memory[i] = static_cast<std::uint8_t>(i % 61);
  }
  std::size_t size;
  std::unique_ptr<std::uint8_t[]> memory;
  void* get() { return memory.get(); }
};

// Extents, strides or windows: small as a rule, at times what nothing may have.
int extent(Bytes* bytes) {
  const std::uint32_t kind = bytes->next(64);
  if (kind == 0) return -static_cast<int>(bytes->next(4));
  if (kind == 1) return static_cast<int>(bytes->next(0)) << bytes->next(16);
  return 1 + static_cast<int>(bytes->next(kind < 8 ? 40 : 7));
}
template <class Enum>
Enum any(Bytes* bytes, int usual, int all) {
  return static_cast<Enum>(bytes->next(static_cast<std::uint32_t>(bytes->next(16) == 0 ? all : usual)));
}
// Float, double and half mostly, as most calls take no other.
gpudnnDataType_t any_type(Bytes* bytes) {
  const std::uint32_t kind = bytes->next(8);
  return kind < 4 ? GPUDNN_DATA_FLOAT : kind == 4 ? GPUDNN_DATA_HALF : any<gpudnnDataType_t>(bytes, 10, 20);
}

std::size_t product(const std::vector<int>& dims) {
  double all = 1;
  for (const int dim : dims) all *= dim;
  return all < 0 || all > 1e9 ? std::size_t{1000000000} : static_cast<std::size_t>(all);
}

// A tensor and its memory. `like`: the same extents, so that operations meet tensors that fit.
struct Tensor {
  Owned<gpudnnTensorDescriptor_t, gpudnnCreateTensorDescriptor, gpudnnDestroyTensorDescriptor> descriptor;
  std::vector<int> dims;
  gpudnnDataType_t type = GPUDNN_DATA_FLOAT;
  std::unique_ptr<Buffer> buffer;

  void set(Bytes* bytes, gpudnnDataType_t of_type, std::vector<int> of_dims) {
    dims = std::move(of_dims);
    type = of_type;
    std::vector<int> strides(dims.size(), 1);
    const std::uint32_t kind = bytes->next(8);
    for (std::size_t i = dims.size(); i-- > 1;) {
      strides[i - 1] = static_cast<int>(static_cast<std::uint32_t>(strides[i]) * static_cast<std::uint32_t>(dims[i]) +
                                        (kind == 0 ? bytes->next(3) : 0));
    }
    if (kind == 1) {
      for (int& stride : strides) stride = extent(bytes);
    }
    gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
    if (kind < 6) {
      status =
          gpudnnSetTensorNdDescriptor(descriptor, type, static_cast<int>(dims.size()), dims.data(), strides.data());
    } else {
      status = gpudnnSetTensorNdDescriptorEx(descriptor, kind == 6 ? GPUDNN_TENSOR_NHWC : GPUDNN_TENSOR_NCHW, type,
                                             static_cast<int>(dims.size()), dims.data());
    }
    std::size_t size = 0;
    if (status == GPUDNN_STATUS_SUCCESS && gpudnnGetTensorSizeInBytes(descriptor, &size) == GPUDNN_STATUS_SUCCESS &&
        size <= kLargest && product(dims) <= kLargest) {  // small strides reach many elements in few bytes
      buffer = std::make_unique<Buffer>(size);
    }
  }
  void set(Bytes* bytes) {
    std::vector<int> any_dims(3 + bytes->next(4));
    if (bytes->next(4) != 0) any_dims.resize(4);
    for (int& dim : any_dims) dim = extent(bytes);
    set(bytes, any_type(bytes), any_dims);
  }
  // At times one extent is another one, or 1, and the type another one.
  void set_like(Bytes* bytes, const Tensor& other) {
    std::vector<int> its_dims = other.dims;
    const std::uint32_t kind = bytes->next(8);
    if (kind == 0) its_dims[bytes->next(static_cast<std::uint32_t>(its_dims.size()))] = extent(bytes);
    if (kind == 1) {
      for (int& dim : its_dims) dim = bytes->next(2) == 0 ? 1 : dim;
    }
    set(bytes, bytes->next(8) == 0 ? any_type(bytes) : other.type, its_dims);
  }
  [[nodiscard]] explicit operator bool() const { return buffer != nullptr; }
  [[nodiscard]] void* data() const { return buffer->get(); }
};

struct Filter {
  Owned<gpudnnFilterDescriptor_t, gpudnnCreateFilterDescriptor, gpudnnDestroyFilterDescriptor> descriptor;
  std::vector<int> dims;
  std::unique_ptr<Buffer> buffer;

  void set(Bytes* bytes, const Tensor& x) {
    dims.resize(x.dims.size());
    for (int& dim : dims) dim = 1 + static_cast<int>(bytes->next(5));
    if (bytes->next(8) != 0) dims[1] = x.dims[1];
    if (bytes->next(16) == 0) dims[bytes->next(static_cast<std::uint32_t>(dims.size()))] = extent(bytes);
    const auto format = any<gpudnnTensorFormat_t>(bytes, 2, 4);
    std::size_t size = 0;
    if (gpudnnSetFilterNdDescriptor(descriptor, bytes->next(16) == 0 ? any_type(bytes) : x.type, format,
                                    static_cast<int>(dims.size()), dims.data()) == GPUDNN_STATUS_SUCCESS &&
        gpudnnGetFilterSizeInBytes(descriptor, &size) == GPUDNN_STATUS_SUCCESS && size <= kLargest) {
      buffer = std::make_unique<Buffer>(size);
    }
  }
};

// The two scalars, of the type that a call reads: both have room for a vector of 32 bytes, which gpudnnSetTensor takes.
struct Scalars {
  alignas(double) std::array<std::uint8_t, 32> alpha = {}, beta = {};
  Scalars(Bytes* bytes, gpudnnDataType_t type) {
    const double values[2] = {bytes->next(4) == 0 ? 0.5 : 1, bytes->next(2) == 0 ? 0.0 : 0.25};
    for (int i = 0; i < 2; ++i) {
      const auto as_float = static_cast<float>(values[i]);
      auto* to = i == 0 ? alpha.data() : beta.data();
      if (type == GPUDNN_DATA_DOUBLE) {
        std::memcpy(to, &values[i], sizeof values[i]);
      } else {
        std::memcpy(to, &as_float, sizeof as_float);
      }
    }
  }
};

struct Context {
  gpudnnHandle_t handle;
  Bytes* bytes;
  std::string_view input;
  void expect_sane(gpudnnStatus_t status) const {
    gpudnn::fuzz::expect(status != GPUDNN_STATUS_INTERNAL_ERROR, "a call failed inside", input);
  }
};

void convolve(const Context& c) {
  Bytes& bytes = *c.bytes;
  Tensor x, y, bias;
  Filter w;
  Convolution convolution;
  Activation activation;
  x.set(&bytes);
  w.set(&bytes, x);
  const std::size_t spatial = x.dims.size() - 2;
  std::vector<int> padding(spatial), strides(spatial), dilation(spatial), dims(x.dims.size());
  for (std::size_t i = 0; i < spatial; ++i) {
    padding[i] = static_cast<int>(bytes.next(4)) - (bytes.next(64) == 0 ? 2 : 0);
    strides[i] = bytes.next(32) == 0 ? extent(&bytes) : 1 + static_cast<int>(bytes.next(3));
    dilation[i] = bytes.next(32) == 0 ? extent(&bytes) : 1 + static_cast<int>(bytes.next(2));
  }
  c.expect_sane(gpudnnSetConvolutionNdDescriptor(convolution, static_cast<int>(spatial), padding.data(), strides.data(),
                                                 dilation.data(), any<gpudnnConvolutionMode_t>(&bytes, 2, 3),
                                                 bytes.next(8) == 0 ? any_type(&bytes) : GPUDNN_DATA_FLOAT));
  if (bytes.next(4) == 0) c.expect_sane(gpudnnSetConvolutionGroupCount(convolution, extent(&bytes)));
  const gpudnnStatus_t fits = gpudnnGetConvolutionNdForwardOutputDim(convolution, x.descriptor, w.descriptor,
                                                                     static_cast<int>(dims.size()), dims.data());
  c.expect_sane(fits);
  if (fits != GPUDNN_STATUS_SUCCESS) dims = x.dims;
  y.set(&bytes, bytes.next(8) == 0 ? any_type(&bytes) : x.type, dims);
  if (!x || !y || !w.buffer || product(y.dims) * product(w.dims) > kLargestProduct) return;
  const Scalars scalars(&bytes, x.type);
  const void *alpha = scalars.alpha.data(), *beta = scalars.beta.data();
  std::size_t size = 0;
  const int algorithm = static_cast<int>(bytes.next(9));
  // A workspace of exactly the size that was asked for.
  const auto workspace = [&] { return std::make_unique<Buffer>(size <= (1 << 22) ? size : 0); };
  switch (bytes.next(5)) {
    case 0: {
      const auto number = static_cast<gpudnnConvolutionFwdAlgo_t>(algorithm);
      c.expect_sane(gpudnnGetConvolutionForwardWorkspaceSize(c.handle, x.descriptor, w.descriptor, convolution,
                                                             y.descriptor, number, &size));
      const auto space = workspace();
      c.expect_sane(gpudnnConvolutionForward(c.handle, alpha, x.descriptor, x.data(), w.descriptor, w.buffer->get(),
                                             convolution, number, space->get(), space->size, beta, y.descriptor,
                                             y.data()));
      break;
    }
    case 1: {
      const auto number = static_cast<gpudnnConvolutionBwdDataAlgo_t>(algorithm);
      c.expect_sane(gpudnnGetConvolutionBackwardDataWorkspaceSize(c.handle, w.descriptor, y.descriptor, convolution,
                                                                  x.descriptor, number, &size));
      const auto space = workspace();
      c.expect_sane(gpudnnConvolutionBackwardData(c.handle, alpha, w.descriptor, w.buffer->get(), y.descriptor,
                                                  y.data(), convolution, number, space->get(), space->size, beta,
                                                  x.descriptor, x.data()));
      break;
    }
    case 2: {
      const auto number = static_cast<gpudnnConvolutionBwdFilterAlgo_t>(algorithm);
      c.expect_sane(gpudnnGetConvolutionBackwardFilterWorkspaceSize(c.handle, x.descriptor, y.descriptor, convolution,
                                                                    w.descriptor, number, &size));
      const auto space = workspace();
      c.expect_sane(gpudnnConvolutionBackwardFilter(c.handle, alpha, x.descriptor, x.data(), y.descriptor, y.data(),
                                                    convolution, number, space->get(), space->size, beta, w.descriptor,
                                                    w.buffer->get()));
      break;
    }
    default: {
      std::vector<int> bias_dims(y.dims.size(), 1);
      bias_dims[1] = y.dims[1];
      bias.set(&bytes, bytes.next(8) == 0 ? any_type(&bytes) : y.type, bias_dims);
      Tensor z;
      z.set_like(&bytes, y);
      if (!bias || !z) return;
      c.expect_sane(gpudnnSetActivationDescriptor(activation, any<gpudnnActivationMode_t>(&bytes, 7, 10),
                                                  GPUDNN_PROPAGATE_NAN, 1.0));
      if (bytes.next(2) == 0) {
        c.expect_sane(
            gpudnnConvolutionBackwardBias(c.handle, alpha, y.descriptor, y.data(), beta, bias.descriptor, bias.data()));
        break;
      }
      const auto number = static_cast<gpudnnConvolutionFwdAlgo_t>(algorithm);
      c.expect_sane(gpudnnGetConvolutionForwardWorkspaceSize(c.handle, x.descriptor, w.descriptor, convolution,
                                                             y.descriptor, number, &size));
      const auto space = workspace();
      c.expect_sane(gpudnnConvolutionBiasActivationForward(
          c.handle, alpha, x.descriptor, x.data(), w.descriptor, w.buffer->get(), convolution, number, space->get(),
          space->size, beta, z.descriptor, z.data(), bias.descriptor, bias.data(), activation, y.descriptor, y.data()));
    }
  }
}

void pool(const Context& c) {
  Bytes& bytes = *c.bytes;
  Tensor x, y, dy, dx;
  Pooling pooling;
  x.set(&bytes);
  const std::size_t spatial = x.dims.size() - 2;
  std::vector<int> window(spatial), padding(spatial), strides(spatial), dims(x.dims.size());
  for (std::size_t i = 0; i < spatial; ++i) {
    window[i] = extent(&bytes);
    padding[i] = static_cast<int>(bytes.next(4));
    strides[i] = 1 + static_cast<int>(bytes.next(4));
  }
  c.expect_sane(gpudnnSetPoolingNdDescriptor(pooling, any<gpudnnPoolingMode_t>(&bytes, 4, 6),
                                             any<gpudnnNanPropagation_t>(&bytes, 2, 3), static_cast<int>(spatial),
                                             window.data(), padding.data(), strides.data()));
  const gpudnnStatus_t fits =
      gpudnnGetPoolingNdForwardOutputDim(pooling, x.descriptor, static_cast<int>(dims.size()), dims.data());
  c.expect_sane(fits);
  if (fits != GPUDNN_STATUS_SUCCESS) return;
  if (bytes.next(4) == 0) dims.back() += static_cast<int>(bytes.next(3));
  y.set(&bytes, x.type, dims);
  dy.set_like(&bytes, y);
  dx.set_like(&bytes, x);
  if (!x || !y || !dy || !dx || product(y.dims) * product(window) > kLargestProduct) return;
  const Scalars scalars(&bytes, x.type);
  c.expect_sane(gpudnnPoolingForward(c.handle, pooling, scalars.alpha.data(), x.descriptor, x.data(),
                                     scalars.beta.data(), y.descriptor, y.data()));
  c.expect_sane(gpudnnPoolingBackward(c.handle, pooling, scalars.alpha.data(), y.descriptor, y.data(), dy.descriptor,
                                      dy.data(), x.descriptor, x.data(), scalars.beta.data(), dx.descriptor,
                                      dx.data()));
}

// Operations whose tensors have the same extents.
void pointwise(const Context& c) {
  Bytes& bytes = *c.bytes;
  Tensor x, y, dy, dx;
  Activation activation;
  OpTensor op;
  Lrn lrn;
  x.set(&bytes);
  y.set_like(&bytes, x);
  dy.set_like(&bytes, x);
  dx.set_like(&bytes, x);
  if (!x || !y || !dy || !dx) return;
  const Scalars scalars(&bytes, x.type);
  const void *alpha = scalars.alpha.data(), *beta = scalars.beta.data();
  const auto nan = any<gpudnnNanPropagation_t>(&bytes, 2, 3);
  switch (bytes.next(7)) {
    case 0: {
      c.expect_sane(gpudnnSetActivationDescriptor(activation, any<gpudnnActivationMode_t>(&bytes, 7, 10), nan, 1.5));
      c.expect_sane(
          gpudnnActivationForward(c.handle, activation, alpha, x.descriptor, x.data(), beta, y.descriptor, y.data()));
      c.expect_sane(gpudnnActivationBackward(c.handle, activation, alpha, y.descriptor, y.data(), dy.descriptor,
                                             dy.data(), x.descriptor, x.data(), beta, dx.descriptor, dx.data()));
      break;
    }
    case 1: {
      const auto algorithm = any<gpudnnSoftmaxAlgorithm_t>(&bytes, 3, 4);
      const auto mode = any<gpudnnSoftmaxMode_t>(&bytes, 2, 3);
      c.expect_sane(
          gpudnnSoftmaxForward(c.handle, algorithm, mode, alpha, x.descriptor, x.data(), beta, y.descriptor, y.data()));
      c.expect_sane(gpudnnSoftmaxBackward(c.handle, algorithm, mode, alpha, y.descriptor, y.data(), dy.descriptor,
                                          dy.data(), beta, dx.descriptor, dx.data()));
      break;
    }
    case 2: {
      c.expect_sane(gpudnnSetLRNDescriptor(lrn, bytes.next(18), 1e-4, 0.75, 2.0));
      c.expect_sane(gpudnnLRNCrossChannelForward(c.handle, lrn, GPUDNN_LRN_CROSS_CHANNEL_DIM1, alpha, x.descriptor,
                                                 x.data(), beta, y.descriptor, y.data()));
      c.expect_sane(gpudnnLRNCrossChannelBackward(c.handle, lrn, GPUDNN_LRN_CROSS_CHANNEL_DIM1, alpha, y.descriptor,
                                                  y.data(), dy.descriptor, dy.data(), x.descriptor, x.data(), beta,
                                                  dx.descriptor, dx.data()));
      break;
    }
    case 3:
      c.expect_sane(gpudnnSetOpTensorDescriptor(op, any<gpudnnOpTensorOp_t>(&bytes, 6, 8),
                                                x.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT,
                                                nan));
      c.expect_sane(gpudnnOpTensor(c.handle, op, alpha, x.descriptor, x.data(), alpha, dy.descriptor, dy.data(), beta,
                                   y.descriptor, y.data()));
      break;
    case 4:
      c.expect_sane(gpudnnTransformTensor(c.handle, alpha, x.descriptor, x.data(), beta, y.descriptor, y.data()));
      break;
    case 5:
      c.expect_sane(gpudnnAddTensor(c.handle, alpha, x.descriptor, x.data(), beta, y.descriptor, y.data()));
      break;
    default:
      c.expect_sane(gpudnnSetTensor(c.handle, y.descriptor, y.data(), alpha));
      c.expect_sane(gpudnnScaleTensor(c.handle, x.descriptor, x.data(), alpha));
  }
}

void reduce(const Context& c) {
  Bytes& bytes = *c.bytes;
  Tensor a, r;
  Reduction reduction;
  a.set(&bytes);
  std::vector<int> dims = a.dims;
  for (int& dim : dims) dim = bytes.next(2) == 0 ? 1 : dim;
  r.set(&bytes, bytes.next(8) == 0 ? any_type(&bytes) : a.type, dims);
  c.expect_sane(gpudnnSetReduceTensorDescriptor(
      reduction, any<gpudnnReduceTensorOp_t>(&bytes, 9, 11),
      a.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT, any<gpudnnNanPropagation_t>(&bytes, 2, 3),
      any<gpudnnReduceTensorIndices_t>(&bytes, 2, 3), any<gpudnnIndicesType_t>(&bytes, 1, 5)));
  if (!a || !r) return;
  const Scalars scalars(&bytes, a.type);
  std::size_t space_size = 0, indices_size = 0;
  c.expect_sane(gpudnnGetReductionWorkspaceSize(c.handle, reduction, a.descriptor, r.descriptor, &space_size));
  c.expect_sane(gpudnnGetReductionIndicesSize(c.handle, reduction, a.descriptor, r.descriptor, &indices_size));
  Buffer space(space_size), indices(indices_size);
  c.expect_sane(gpudnnReduceTensor(c.handle, reduction, indices.get(), indices.size, space.get(), space.size,
                                   scalars.alpha.data(), a.descriptor, a.data(), scalars.beta.data(), r.descriptor,
                                   r.data()));
}

void batch_norm(const Context& c) {
  Bytes& bytes = *c.bytes;
  Tensor x, y, dy, dx, parameters;
  x.set(&bytes);
  y.set_like(&bytes, x);
  dy.set_like(&bytes, x);
  dx.set_like(&bytes, x);
  const auto mode = any<gpudnnBatchNormMode_t>(&bytes, 3, 4);
  c.expect_sane(gpudnnDeriveBNTensorDescriptor(parameters.descriptor, x.descriptor, mode));
  std::size_t size = 0;
  if (gpudnnGetTensorSizeInBytes(parameters.descriptor, &size) != GPUDNN_STATUS_SUCCESS || size > kLargest || !x ||
      !y || !dy || !dx) {
    return;
  }
  const Scalars scalars(&bytes, x.type);
  const void *alpha = scalars.alpha.data(), *beta = scalars.beta.data();
  Buffer scale(size), bias(size), mean(size), variance(size), saved_mean(size), saved_variance(size);
  c.expect_sane(gpudnnBatchNormalizationForwardTraining(
      c.handle, mode, alpha, beta, x.descriptor, x.data(), y.descriptor, y.data(), parameters.descriptor, scale.get(),
      bias.get(), 0.5, mean.get(), variance.get(), 1e-5, saved_mean.get(), saved_variance.get()));
  c.expect_sane(gpudnnBatchNormalizationForwardInference(c.handle, mode, alpha, beta, x.descriptor, x.data(),
                                                         y.descriptor, y.data(), parameters.descriptor, scale.get(),
                                                         bias.get(), mean.get(), variance.get(), 1e-5));
  c.expect_sane(gpudnnBatchNormalizationBackward(c.handle, mode, alpha, beta, alpha, beta, x.descriptor, x.data(),
                                                 dy.descriptor, dy.data(), dx.descriptor, dx.data(),
                                                 parameters.descriptor, scale.get(), bias.get(), mean.get(), 1e-5,
                                                 saved_mean.get(), saved_variance.get()));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static gpudnnHandle_t handle = [] {
    gpudnnHandle_t made = nullptr;
    gpudnn::fuzz::expect(gpudnnCreate(&made) == GPUDNN_STATUS_SUCCESS, "no handle", "");
    return made;
  }();
  Bytes bytes(data, size);
  const Context context = {handle, &bytes, gpudnn::fuzz::text_of(data, size)};
  switch (bytes.next(6)) {
    case 0:
    case 1:
      convolve(context);
      break;
    case 2:
      pool(context);
      break;
    case 3:
      reduce(context);
      break;
    case 4:
      batch_norm(context);
      break;
    default:
      pointwise(context);
  }
  return 0;
}
