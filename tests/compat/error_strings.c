/* cudnnGetErrorString must give the names of gpudnnGetErrorString under cuDNN's prefix, for every code, and tell of the
 * last refusal after the name of its status, until the text is taken.
 * SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "gpudnn/gpudnn.h"

extern const char* cudnnGetErrorString(gpudnnStatus_t status);

static int refusals(void) {
  char text[256], expected[320];
  int failures = 0;
  const gpudnnStatus_t status = gpudnnCreate(NULL);
  const char* name = gpudnnGetErrorString(status) + 2; /* from the U on, as in CUDNN */
  failures += status == GPUDNN_STATUS_SUCCESS;
  failures += strcmp(cudnnGetErrorString(GPUDNN_STATUS_NOT_SUPPORTED), "CUDNN_STATUS_NOT_SUPPORTED") != 0;
  failures += strcmp(cudnnGetErrorString(GPUDNN_STATUS_SUCCESS), "CUDNN_STATUS_SUCCESS") != 0;
  snprintf(expected, sizeof expected, "%s", cudnnGetErrorString(status));
  printf("%s\n", expected);
  failures += expected[0] != 'C' || strncmp(expected + 1, name, strlen(name)) != 0;
  failures += strstr(expected, ": gpudnnCreate: ") == NULL;
  gpudnnGetLastErrorString(text, sizeof text);
  failures += text[0] == '\0' || strstr(expected, text) == NULL;
  failures += strcmp(cudnnGetErrorString(status) + 1, name) != 0; /* the text has been taken */
  return failures;
}

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
  failures += refusals();
  printf("%d codes with a name, %d failures\n", known, failures);
  return failures != 0 || known < 40;
}
