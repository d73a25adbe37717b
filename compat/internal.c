/* The four functions that cuDNN's library exports for its own parts and that no header declares. They touch nothing.
 * SPDX-License-Identifier: Apache-2.0 */
#include "gpudnn/gpudnn.h"

#define REFUSE(name)                                                                                 \
  GPUDNN_EXPORT gpudnnStatus_t name(void);                                                           \
  gpudnnStatus_t name(void) {                                                                        \
    (void)gpudnnReportError(GPUDNN_STATUS_NOT_SUPPORTED,                                             \
                            #name ": an internal function of cuDNN, which libgpudnn does not have"); \
    return GPUDNN_STATUS_NOT_SUPPORTED;                                                              \
  }

/* Their arguments are not looked at: a caller cleans up its own, so that a body without parameters is safe. */
REFUSE(cudnnGetBackdoor)
REFUSE(cudnnSetBackdoor)
REFUSE(cudnnSetBackdoorEx)
REFUSE(cudnnGetRNNDropoutLocationsInternal)
