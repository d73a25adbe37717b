/* A program as one wrote it for cuDNN 4: it rounds the output extents of pooling up, so the last window reaches past
 * the image, as the networks of Caffe's age want it.
 * SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

enum { kIn = 6, kWindow = 3, kStep = 2 };

static int rounded_up(int extent) { return (extent - kWindow + kStep - 1) / kStep + 1; }

static void require_equal(const float* values, const float* expected, int count) {
  int i;
  wait_for_device();
  for (i = 0; i < count; ++i) REQUIRE(values[i] == expected[i]);
}

int main(void) {
  static const float row[kIn] = {-2, -1, 0, 1, 2, 3};
  static const float row_max[] = {0, 2, 3}, row_average[] = {-1, 1, 2.5f};
  static const float max_gradient[kIn] = {0, 0, 1, 0, 1, 1};
  static const float one = 1, zero = 0;
  cudnnHandle_t handle;
  cudnnTensorDescriptor_t x_desc, y_desc;
  cudnnPoolingDescriptor_t pooling;
  const int wide = rounded_up(kIn);
  float* x = both_memory(kIn * sizeof(float));
  float* y = both_memory(kIn * sizeof(float));
  float* dy = both_memory(kIn * sizeof(float));
  float* dx = both_memory(kIn * sizeof(float));
  int i, n, c, h, w;
  memcpy(x, row, sizeof row);
  for (i = 0; i < kIn; ++i) dy[i] = 1;
  CHECK(cudnnCreate(&handle));
  CHECK(cudnnCreateTensorDescriptor(&x_desc));
  CHECK(cudnnCreateTensorDescriptor(&y_desc));
  CHECK(cudnnCreatePoolingDescriptor(&pooling));
  CHECK(cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, kIn));
  CHECK(cudnnSetTensor4dDescriptor(y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 1, 1, wide));
  CHECK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, 1, kWindow, 0, 0, 1, kStep));
  CHECK(cudnnGetPooling2dForwardOutputDim(pooling, x_desc, &n, &c, &h, &w));
  REQUIRE(w == 2 && wide == 3); /* the query rounds down, the program up */
  CHECK(cudnnPoolingForward(handle, pooling, &one, x_desc, x, &zero, y_desc, y));
  require_equal(y, row_max, wide);
  CHECK(cudnnPoolingBackward(handle, pooling, &one, y_desc, y, y_desc, dy, x_desc, x, &zero, x_desc, dx));
  require_equal(dx, max_gradient, kIn);
  CHECK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, 1, kWindow, 0, 0, 1, kStep));
  CHECK(cudnnPoolingForward(handle, pooling, &one, x_desc, x, &zero, y_desc, y));
  require_equal(y, row_average, wide);
  CHECK(cudnnDestroyPoolingDescriptor(pooling));
  CHECK(cudnnDestroyTensorDescriptor(y_desc));
  CHECK(cudnnDestroyTensorDescriptor(x_desc));
  CHECK(cudnnDestroy(handle));
  both_free(x);
  both_free(y);
  both_free(dy);
  both_free(dx);
  printf("pooling rounded up\n");
  return 0;
}
