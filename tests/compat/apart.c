/* libgpudnn and another library with cuDNN's names in one process: each call goes where its name says.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "gpudnn/gpudnn.h"

extern size_t cudnnGetVersion(void);
extern int cudnnCreate(void** handle);
extern int other_cudnn_calls;

int main(void) {
  gpudnnHandle_t handle = NULL;
  void* other = NULL;
  if (gpudnnGetVersion() != GPUDNN_VERSION || gpudnnCreate(&handle) != GPUDNN_STATUS_SUCCESS) return 1;
  if (gpudnnDestroy(handle) != GPUDNN_STATUS_SUCCESS || other_cudnn_calls != 0) return 2;
  if (cudnnGetVersion() != 1234 || cudnnCreate(&other) != 4000 || other_cudnn_calls != 2) return 3;
  puts("each library answered for its own names");
  return 0;
}
