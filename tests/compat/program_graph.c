/* Handles, errors, the log and backend descriptors, as a program for cuDNN 9 uses them.
 * SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

static int messages;
static void listen(cudnnSeverity_t severity, void* user, const cudnnDebug_t* debug, const char* message) {
  (void)severity;
  (void)message;
  if (user == &messages && debug->cudnn_version == CUDNN_VERSION) ++messages;
}

int main(void) {
  cudnnHandle_t handle, second;
  cudnnBackendDescriptor_t tensor;
  cudaStream_t stream = NULL;
  cudnnStatus_t running = CUDNN_STATUS_INTERNAL_ERROR;
  char text[256] = "";
  require_libgpudnn();
  CHECK(cudnnGraphVersionCheck());
  CHECK(cudnnCreate(&handle));
  CHECK(cudnnCreate(&second));
  CHECK(cudnnSetStream(handle, NULL));
  CHECK(cudnnGetStream(handle, &stream));
  CHECK(cudnnQueryRuntimeError(handle, &running, CUDNN_ERRQUERY_BLOCKING, NULL));
  REQUIRE(running == CUDNN_STATUS_SUCCESS);

  CHECK(cudnnSetCallback(CUDNN_SEV_ERROR_EN, &messages, listen));
  REQUIRE(cudnnSetStream(NULL, NULL) == CUDNN_STATUS_BAD_PARAM);
  REQUIRE(messages == 1);
  CHECK(cudnnSetCallback(0, NULL, NULL));
  cudnnGetLastErrorString(text, sizeof text);
  REQUIRE(strlen(text) > 10);

  if (served("backend descriptor", cudnnBackendCreateDescriptor(CUDNN_BACKEND_TENSOR_DESCRIPTOR, &tensor))) {
    const int64_t id = 7;
    CHECK(cudnnBackendSetAttribute(tensor, CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, 1, &id));
    CHECK(cudnnBackendDestroyDescriptor(tensor));
  }
  CHECK(cudnnDestroy(handle));
  CHECK(cudnnDestroy(second));
  puts("done");
  return 0;
}
