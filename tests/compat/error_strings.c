/* cudnnGetErrorString must give the names of gpudnnGetErrorString under cuDNN's prefix, for every code, and tell of the
 * last refusal after the name of its status, until the text is taken or a call succeeds.
 * SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "gpudnn/gpudnn.h"

extern const char* cudnnGetErrorString(gpudnnStatus_t status);

static const char* told_in_a_thread;

static void* refuse_in_a_thread(void* unused) {
  (void)unused;
  told_in_a_thread = cudnnGetErrorString(gpudnnCreate(NULL));
  return NULL;
}

/* The reason is told only right after the failure, and what was told stays as it is: whatever fails later, also when
 * the thread has ended. */
static int strings_stay(void) {
  int failures = 0;
  char first[320];
  gpudnnTensorDescriptor_t desc = NULL;
  pthread_t thread;
  const char* told = cudnnGetErrorString(gpudnnCreate(NULL));
  snprintf(first, sizeof first, "%s", told);
  failures += strstr(cudnnGetErrorString(gpudnnCreateTensorDescriptor(NULL)), "gpudnnCreateTensorDescriptor") == NULL;
  failures += strcmp(told, first) != 0;
  failures += cudnnGetErrorString(gpudnnCreate(NULL)) != told; /* the same words, the same string */
  failures += pthread_create(&thread, NULL, refuse_in_a_thread, NULL) != 0;
  failures += pthread_join(thread, NULL) != 0;
  failures += told_in_a_thread != told || strcmp(told, first) != 0;
  failures += gpudnnCreateTensorDescriptor(&desc) != GPUDNN_STATUS_SUCCESS;
  failures += strchr(cudnnGetErrorString(gpudnnCreate(NULL)), ':') == NULL;
  failures += gpudnnSetTensor4dDescriptor(desc, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 1, 1, 1) != 0;
  failures +=
      strcmp(cudnnGetErrorString(GPUDNN_STATUS_BAD_PARAM), "CUDNN_STATUS_BAD_PARAM") != 0; /* a call went well */
  failures += gpudnnDestroyTensorDescriptor(desc) != GPUDNN_STATUS_SUCCESS;
  return failures;
}

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
  failures += strings_stay();
  printf("%d codes with a name, %d failures\n", known, failures);
  return failures != 0 || known < 40;
}
