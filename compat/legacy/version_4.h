/* What cuDNN 2 to 4 had and 5 changed: filters without a format, pooling without a word on NaN, activations by mode.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUDNN_LEGACY_VERSION_4_H_
#define GPUDNN_LEGACY_VERSION_4_H_

#include "version_5.h"

#define cudnnSetFilter4dDescriptor cudnnSetFilter4dDescriptor_v3
#define cudnnGetFilter4dDescriptor cudnnGetFilter4dDescriptor_v3
#define cudnnSetFilterNdDescriptor cudnnSetFilterNdDescriptor_v3
#define cudnnGetFilterNdDescriptor cudnnGetFilterNdDescriptor_v3
#define cudnnSetPooling2dDescriptor cudnnSetPooling2dDescriptor_v3
#define cudnnGetPooling2dDescriptor cudnnGetPooling2dDescriptor_v3
#define cudnnSetPoolingNdDescriptor cudnnSetPoolingNdDescriptor_v3
#define cudnnGetPoolingNdDescriptor cudnnGetPoolingNdDescriptor_v3
#define cudnnActivationForward cudnnActivationForward_v3
#define cudnnActivationBackward cudnnActivationBackward_v3

#endif
