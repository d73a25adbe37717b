/* Prints what the jump of libcudnn.so.9 costs: nanoseconds a call of a function directly, by way of the jump, and once
 * more directly as a control, whose distance from the first is what this machine's clock cannot tell apart. The three
 * take turns, and each figure is the median over the rounds. Not a test: a shared machine has hiccups.
 * SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "gpudnn/gpudnn.h"

extern size_t cudnnGetVersion(void);
extern int cudnnSetStream(gpudnnHandle_t handle, cudaStream_t stream);
extern int cudnnSetTensor4dDescriptor(gpudnnTensorDescriptor_t tensor, gpudnnTensorFormat_t format,
                                      gpudnnDataType_t type, int n, int c, int h, int w);
extern int cudnnActivationForward(gpudnnHandle_t handle, gpudnnActivationDescriptor_t activation, const void* alpha,
                                  gpudnnTensorDescriptor_t x_desc, const void* x, const void* beta,
                                  gpudnnTensorDescriptor_t y_desc, void* y);

enum { kRounds = 201, kWays = 3 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

static int by_value(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median(double* values) {
  qsort(values, kRounds, sizeof *values, by_value);
  return values[kRounds / 2];
}

/* A round of `calls` calls, in nanoseconds a call. */
#define ROUND(into, calls, call)                   \
  do {                                             \
    const double start_ = now();                   \
    int i_;                                        \
    for (i_ = 0; i_ < (calls); ++i_) (void)(call); \
    (into) = (now() - start_) / (calls);           \
  } while (0)

#define COMPARE(name, calls, direct, jump)                                                                       \
  do {                                                                                                           \
    static double ns_[kWays][kRounds];                                                                           \
    int round_;                                                                                                  \
    double first_;                                                                                               \
    for (round_ = 0; round_ < kRounds; ++round_) {                                                               \
      ROUND(ns_[0][round_], calls, direct);                                                                      \
      ROUND(ns_[1][round_], calls, jump);                                                                        \
      ROUND(ns_[2][round_], calls, direct);                                                                      \
    }                                                                                                            \
    first_ = median(ns_[0]);                                                                                     \
    printf("%-22s direct %8.2f ns   jump %+7.2f   direct again %+7.2f\n", name, first_, median(ns_[1]) - first_, \
           median(ns_[2]) - first_);                                                                             \
  } while (0)

int main(void) {
  gpudnnHandle_t handle;
  gpudnnTensorDescriptor_t tensor;
  gpudnnActivationDescriptor_t relu;
  const float one = 1;
  const float zero = 0;
  void* data;
  if (gpudnnCreate(&handle) != GPUDNN_STATUS_SUCCESS ||
      gpudnnCreateTensorDescriptor(&tensor) != GPUDNN_STATUS_SUCCESS ||
      gpudnnCreateActivationDescriptor(&relu) != GPUDNN_STATUS_SUCCESS ||
      gpudnnSetTensor4dDescriptor(tensor, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 1, 1, 8) != GPUDNN_STATUS_SUCCESS ||
      gpudnnSetActivationDescriptor(relu, GPUDNN_ACTIVATION_RELU, GPUDNN_NOT_PROPAGATE_NAN, 0) !=
          GPUDNN_STATUS_SUCCESS ||
      gpudnnMalloc(handle, &data, 256) != GPUDNN_STATUS_SUCCESS) {
    return 1;
  }
  COMPARE("GetVersion", 20000, gpudnnGetVersion(), cudnnGetVersion());
  COMPARE("SetStream", 5000, gpudnnSetStream(handle, NULL), cudnnSetStream(handle, NULL));
  COMPARE("SetTensor4dDescriptor", 2000,
          gpudnnSetTensor4dDescriptor(tensor, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 1, 1, 8),
          cudnnSetTensor4dDescriptor(tensor, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 1, 1, 8));
  COMPARE("ActivationForward", 500, gpudnnActivationForward(handle, relu, &one, tensor, data, &zero, tensor, data),
          cudnnActivationForward(handle, relu, &one, tensor, data, &zero, tensor, data));
  return gpudnnFree(handle, data) != GPUDNN_STATUS_SUCCESS || gpudnnDestroy(handle) != GPUDNN_STATUS_SUCCESS;
}
