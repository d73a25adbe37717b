/* libgpudnn with one wrong call: activations are all 3. What a benchmark must notice.
 * SPDX-License-Identifier: Apache-2.0 */
#include <gpudnn/gpudnn.h>

gpudnnStatus_t gpudnnActivationForward(gpudnnHandle_t handle, gpudnnActivationDescriptor_t activationDesc,
                                       const void* alpha, const gpudnnTensorDescriptor_t xDesc, const void* x,
                                       const void* beta, const gpudnnTensorDescriptor_t yDesc, void* y) {
  const float value = 3;
  (void)activationDesc, (void)alpha, (void)xDesc, (void)x, (void)beta;
  return gpudnnSetTensor(handle, yDesc, y, &value);
}
