/* The least program: ReLU of eight numbers, on the GPU or, where there is none, on the CPU.
 *   cc 00_relu.c $(pkg-config --cflags --libs gpudnn) -o relu && ./relu
 * SPDX-License-Identifier: Apache-2.0 */
#include <gpudnn/gpudnn.h>
#include <stdio.h>
#include <stdlib.h>

/* Ends the program with the library's own explanation. */
static void check(gpudnnStatus_t status) {
  if (status == GPUDNN_STATUS_SUCCESS) return;
  char text[1024];
  gpudnnGetLastErrorString(text, sizeof text);
  fprintf(stderr, "%s: %s\n", gpudnnGetErrorString(status), text);
  exit(1);
}

int main(void) {
  const float input[8] = {-3, -2, -1, 0, 1, 2, 3, 4};
  float output[8];
  const float one = 1, zero = 0; /* y = 1 * relu(x) + 0 * y */

  gpudnnHandle_t handle; /* the current GPU, or the CPU where there is none */
  check(gpudnnCreate(&handle));
  gpudnnTensorDescriptor_t image;
  check(gpudnnCreateTensorDescriptor(&image));
  check(gpudnnSetTensor4dDescriptor(image, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 2, 2, 2));
  gpudnnActivationDescriptor_t relu;
  check(gpudnnCreateActivationDescriptor(&relu));
  check(gpudnnSetActivationDescriptor(relu, GPUDNN_ACTIVATION_RELU, GPUDNN_PROPAGATE_NAN, 0));

  void *x, *y; /* memory where the handle computes */
  check(gpudnnMalloc(handle, &x, sizeof input));
  check(gpudnnMalloc(handle, &y, sizeof output));
  check(gpudnnMemcpy(handle, x, input, sizeof input, GPUDNN_MEMCPY_HOST_TO_DEVICE));
  check(gpudnnActivationForward(handle, relu, &one, image, x, &zero, image, y));
  check(gpudnnMemcpy(handle, output, y, sizeof output, GPUDNN_MEMCPY_DEVICE_TO_HOST));

  for (int i = 0; i < 8; ++i) printf("%g ", (double)output[i]);
  printf("\n"); /* 0 0 0 0 1 2 3 4 */

  gpudnnFree(handle, y);
  gpudnnFree(handle, x);
  gpudnnDestroyActivationDescriptor(relu);
  gpudnnDestroyTensorDescriptor(image);
  gpudnnDestroy(handle);
  return 0;
}
