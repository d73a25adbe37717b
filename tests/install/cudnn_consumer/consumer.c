/* A program for cuDNN, of the age that the old call in it names: y = max(x, 0) of four values.
 * SPDX-License-Identifier: Apache-2.0 */
#define GPUDNN_COMPAT_VERSION 4
#include <cudnn.h>
#include <stdio.h>

int main(void) {
  const float x[4] = {-1, 0, 2, 3}, one = 1, zero = 0;
  float y[4];
  char text[256] = "";
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t tensor;
  cudnnConvolutionDescriptor_t convolution;
  if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS) return 1;
  if (cudnnCreateTensorDescriptor(&tensor) != CUDNN_STATUS_SUCCESS) return 2;
  if (cudnnSetTensor4dDescriptor(tensor, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 4, 1, 1) != CUDNN_STATUS_SUCCESS) {
    return 3;
  }
  if (cudnnActivationForward(handle, CUDNN_ACTIVATION_RELU, &one, tensor, x, &zero, tensor, y) !=
      CUDNN_STATUS_SUCCESS) {
    return 4;
  }
  /* What is refused by the headers alone leaves a text too, even where libcudnn.so alone was linked. */
  if (cudnnCreateConvolutionDescriptor(&convolution) != CUDNN_STATUS_SUCCESS) return 5;
  if (cudnnSetConvolution2dDescriptor(convolution, 0, 0, 1, 1, 2, 2, CUDNN_CONVOLUTION) != CUDNN_STATUS_NOT_SUPPORTED) {
    return 6;
  }
  cudnnGetLastErrorString(text, sizeof text);
  if (text[0] == '\0') return 7;
  (void)cudnnDestroyConvolutionDescriptor(convolution);
  (void)cudnnDestroyTensorDescriptor(tensor);
  (void)cudnnDestroy(handle);
  printf("relu: %g %g %g %g\n", y[0], y[1], y[2], y[3]);
  return 0;
}
