/* cudnnGetErrorString must give the names of gpudnnGetErrorString under cuDNN's prefix, for every code.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "gpudnn/gpudnn.h"

extern const char* cudnnGetErrorString(gpudnnStatus_t status);

int main(void) {
  int code, known = 0, failures = 0;
  for (code = -10; code < 10000; ++code) {
    const char* ours = gpudnnGetErrorString((gpudnnStatus_t)code);
    const char* theirs = cudnnGetErrorString((gpudnnStatus_t)code);
    if (strcmp(ours, "GPUDNN_STATUS_UNKNOWN") == 0) {
      failures += strcmp(theirs, "CUDNN_UNKNOWN_STATUS") != 0;
    } else {
      ++known;
      failures += strncmp(theirs, "CUDNN_STATUS_", 13) != 0 || strcmp(theirs + 1, ours + 2) != 0;
    }
  }
  printf("%d codes with a name, %d failures\n", known, failures);
  return failures != 0 || known < 40;
}
