/* libgpudnn: the whole interface.
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUDNN_GPUDNN_H_
#define GPUDNN_GPUDNN_H_

#include "gpudnn/adv.h"
#include "gpudnn/cnn.h"
#include "gpudnn/ext.h"
#include "gpudnn/graph.h"
#include "gpudnn/ops.h"
#include "gpudnn/version.h"

#endif
