/* What cuDNN 5 had and 6 changed: a 2-D convolution was described without a compute type.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUDNN_LEGACY_VERSION_5_H_
#define GPUDNN_LEGACY_VERSION_5_H_

#include "version_7.h"

#define cudnnSetConvolution2dDescriptor cudnnSetConvolution2dDescriptor_v4
#define cudnnGetConvolution2dDescriptor cudnnGetConvolution2dDescriptor_v4

#endif
