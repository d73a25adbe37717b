// What the launch of pooling_planes_runs (planes_runs_sm80.cuh) takes.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/pooling/planes_fixed_sm80.cuh"

namespace gpudnn::kernels {

constexpr int kRunSlack = 32;  // bytes before and after the elements in shared memory, zeros and what is not used

// Outputs of a row, for a thread: so many that it reads an odd number of words further than the one before.
constexpr int run_outputs(int bytes, int stride) { return (bytes == 2 ? 6 : 3) / stride; }

struct RunsGrid {
  unsigned blocks;
  std::size_t shared_bytes;  // at most 48 KB
};
// With args.gradient, the gradient of an average of step 1.
template <class T>
void launch_pooling_planes_runs(const PlanesFixedArgs<T>& args, int stride, bool max, bool nan, const RunsGrid& grid,
                                CUstream_st* stream);

}  // namespace gpudnn::kernels
