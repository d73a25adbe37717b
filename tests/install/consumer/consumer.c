/* A program outside the project that uses the installed library: y = max(x, 0) of four values.
 * SPDX-License-Identifier: Apache-2.0 */
#include <gpudnn/gpudnn.h>
#include <stdio.h>

#define CHECK(call)                                    \
  do {                                                 \
    if ((call) != GPUDNN_STATUS_SUCCESS) {             \
      char reason[1024];                               \
      gpudnnGetLastErrorString(reason, sizeof reason); \
      fprintf(stderr, "%s\n", reason);                 \
      return 1;                                        \
    }                                                  \
  } while (0)

int main(void) {
  const float x[4] = {-1, 0, 2, 3}, one = 1, zero = 0;
  float y[4];
  gpudnnHandle_t handle;
  gpudnnTensorDescriptor_t tensor;
  gpudnnActivationDescriptor_t relu;
  CHECK(gpudnnCreate(&handle));
  CHECK(gpudnnCreateTensorDescriptor(&tensor));
  CHECK(gpudnnSetTensor4dDescriptor(tensor, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 4, 1, 1));
  CHECK(gpudnnCreateActivationDescriptor(&relu));
  CHECK(gpudnnSetActivationDescriptor(relu, GPUDNN_ACTIVATION_RELU, GPUDNN_NOT_PROPAGATE_NAN, 0));
  /* GPUDNN_BACKEND=host is set, so host pointers are what the handle works on. */
  CHECK(gpudnnActivationForward(handle, relu, &one, tensor, x, &zero, tensor, y));
  CHECK(gpudnnDestroyActivationDescriptor(relu));
  CHECK(gpudnnDestroyTensorDescriptor(tensor));
  CHECK(gpudnnDestroy(handle));
  if (gpudnnGetVersion() != GPUDNN_VERSION || gpudnnGetLibraryVersion() != GPUDNN_LIBRARY_VERSION) {
    fprintf(stderr, "the header and the library are of different versions\n");
    return 1;
  }
  printf("relu: %g %g %g %g\n", y[0], y[1], y[2], y[3]);
  return 0;
}
