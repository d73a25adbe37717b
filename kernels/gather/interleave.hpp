// What the launch function of the interleaving kernel takes: a gather that it may be able to do.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/gather/gather.hpp"

namespace gpudnn::kernels {

// Elements must change neither type nor value. False, with nothing launched, where the map is none of a fold by two
// along contiguous rows of whole packs: gather.cu does those.
bool launch_interleave(const GatherParams& params, CUstream_st* stream);

}  // namespace gpudnn::kernels
