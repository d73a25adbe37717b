/* Prints what the jump of libcudnn.so.9 costs: nanoseconds a call of a function directly and by way of it. Not a test:
 * the difference is less than what a shared machine's clock tells apart.
 * SPDX-License-Identifier: Apache-2.0 */
#define _POSIX_C_SOURCE 199309L
#include <stdio.h>
#include <time.h>

#include "gpudnn/gpudnn.h"

extern size_t cudnnGetVersion(void);
extern int cudnnSetStream(gpudnnHandle_t handle, cudaStream_t stream);

enum { kCalls = 5000000, kRounds = 7 };

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e9 + (double)time.tv_nsec;
}

/* The least of some rounds, in nanoseconds a call. */
#define NANOSECONDS(call)                               \
  do {                                                  \
    int round_, i_;                                     \
    best = 1e30;                                        \
    for (round_ = 0; round_ < kRounds; ++round_) {      \
      const double start_ = now();                      \
      for (i_ = 0; i_ < kCalls; ++i_) (void)(call);     \
      if (now() - start_ < best) best = now() - start_; \
    }                                                   \
    best /= kCalls;                                     \
  } while (0)

int main(void) {
  gpudnnHandle_t handle;
  double best, direct;
  if (gpudnnCreate(&handle) != GPUDNN_STATUS_SUCCESS) return 1;
  NANOSECONDS(gpudnnGetVersion());
  direct = best;
  NANOSECONDS(cudnnGetVersion());
  printf("GetVersion   gpudnn %6.2f ns   cudnn %6.2f ns   difference %+.2f ns\n", direct, best, best - direct);
  NANOSECONDS(gpudnnSetStream(handle, NULL));
  direct = best;
  NANOSECONDS(cudnnSetStream(handle, NULL));
  printf("SetStream    gpudnn %6.2f ns   cudnn %6.2f ns   difference %+.2f ns\n", direct, best, best - direct);
  return gpudnnDestroy(handle) != GPUDNN_STATUS_SUCCESS;
}
