/* Stands for another library that has functions of cuDNN's names, in the process of a program that uses libgpudnn.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

int other_cudnn_calls = 0;

size_t cudnnGetVersion(void) {
  ++other_cudnn_calls;
  return 1234;
}
int cudnnCreate(void** handle) {
  ++other_cudnn_calls;
  *handle = NULL;
  return 4000;
}
int cudnnDestroy(void* handle) {
  (void)handle;
  ++other_cudnn_calls;
  return 4000;
}
