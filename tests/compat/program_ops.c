/* The operations on tensors, as a program for cuDNN 9 uses them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

enum { kCount = 2 * 3 * 4 * 4 };
static float *x, *y, *dx;
static const float one = 1, zero = 0, half = 0.5f;

static void versions(void) {
  int major = 0, minor = 0, patch = 0;
  CHECK(cudnnGetProperty(MAJOR_VERSION, &major));
  CHECK(cudnnGetProperty(MINOR_VERSION, &minor));
  CHECK(cudnnGetProperty(PATCH_LEVEL, &patch));
  REQUIRE((size_t)(major * 10000 + minor * 100 + patch) == cudnnGetVersion());
  CHECK(cudnnOpsVersionCheck());
  printf("version %zu, CUDA runtime %zu, devices to %zu\n", cudnnGetVersion(), cudnnGetCudartVersion(),
         cudnnGetMaxDeviceVersion());
  REQUIRE(strstr(cudnnGetErrorString(CUDNN_STATUS_NOT_SUPPORTED), "STATUS_NOT_SUPPORTED") != NULL);
}

static void tensors(cudnnHandle_t handle, cudnnTensorDescriptor_t desc) {
  size_t bytes = 0;
  int i;
  CHECK(cudnnGetTensorSizeInBytes(desc, &bytes));
  REQUIRE(bytes == kCount * sizeof(float));
  CHECK(cudnnSetTensor(handle, desc, x, &one));
  CHECK(cudnnScaleTensor(handle, desc, x, &half));
  CHECK(cudnnAddTensor(handle, &one, desc, x, &zero, desc, y));
  CHECK(cudnnTransformTensor(handle, &one, desc, x, &one, desc, y));
  wait_for_device();
  for (i = 0; i < kCount; ++i) REQUIRE(x[i] == 0.5f && y[i] == 1.0f);
}

static void layers(cudnnHandle_t handle, cudnnTensorDescriptor_t desc) {
  cudnnActivationDescriptor_t relu;
  int i;
  CHECK(cudnnCreateActivationDescriptor(&relu));
  CHECK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_NOT_PROPAGATE_NAN, 0.0));
  for (i = 0; i < kCount; ++i) x[i] = (float)(i % 5 - 2);
  CHECK(cudnnActivationForward(handle, relu, &one, desc, x, &zero, desc, y));
  CHECK(cudnnActivationBackward(handle, relu, &one, desc, y, desc, x, desc, x, &zero, desc, dx));
  wait_for_device();
  for (i = 0; i < kCount; ++i) REQUIRE(y[i] == (x[i] > 0 ? x[i] : 0) && dx[i] == (x[i] > 0 ? x[i] : 0));
  CHECK(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_LOG, CUDNN_SOFTMAX_MODE_CHANNEL, &one, desc, x, &zero, desc, y));
  wait_for_device();
  REQUIRE(y[0] < 0);
  CHECK(cudnnDestroyActivationDescriptor(relu));
}

static void later(cudnnTensorDescriptor_t desc) {
  cudnnLRNDescriptor_t lrn;
  cudnnDropoutDescriptor_t dropout;
  cudnnReduceTensorDescriptor_t reduction;
  cudnnSpatialTransformerDescriptor_t spatial;
  (void)desc;
  if (served("LRN", cudnnCreateLRNDescriptor(&lrn))) CHECK(cudnnDestroyLRNDescriptor(lrn));
  if (served("dropout", cudnnCreateDropoutDescriptor(&dropout))) CHECK(cudnnDestroyDropoutDescriptor(dropout));
  if (served("reduction", cudnnCreateReduceTensorDescriptor(&reduction))) {
    CHECK(cudnnDestroyReduceTensorDescriptor(reduction));
  }
  if (served("spatial transformer", cudnnCreateSpatialTransformerDescriptor(&spatial))) {
    CHECK(cudnnDestroySpatialTransformerDescriptor(spatial));
  }
}

int main(void) {
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t desc;
  require_libgpudnn();
  versions();
  x = both_memory(kCount * sizeof(float));
  y = both_memory(kCount * sizeof(float));
  dx = both_memory(kCount * sizeof(float));
  CHECK(cudnnCreate(&handle));
  CHECK(cudnnCreateTensorDescriptor(&desc));
  CHECK(cudnnSetTensor4dDescriptor(desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 4, 4));
  tensors(handle, desc);
  layers(handle, desc);
  later(desc);
  CHECK(cudnnDestroy(handle));
  CHECK(cudnnDestroyTensorDescriptor(desc));
  puts("done");
  return 0;
}
