// Transforms and column buffers on the host: an output element at a time, by a map to the input.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/data_type.hpp"
#include "kernels/gather/gather.hpp"

namespace gpudnn::host {

void gather(const kernels::GatherMap& map, DataType in_type, DataType out_type, double alpha, double beta,
            const void* in, void* out);

}  // namespace gpudnn::host
