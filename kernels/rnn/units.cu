// The units of a step whose products are made elsewhere: every type. The launch begins while the product ends.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/ptx/griddepcontrol.cuh"
#include "kernels/rnn/step.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 128;

template <class T>
__global__ void __launch_bounds__(kThreads) rnn_units(const __grid_constant__ RnnStepArgs args) {
  ptx::griddepcontrol_wait();
  const int direction = static_cast<int>(blockIdx.y);
  const unsigned blocks_of_place = (static_cast<unsigned>(args.layer.units) + kThreads - 1) / kThreads;
  const auto place = static_cast<int>(blockIdx.x / blocks_of_place);
  const auto j = static_cast<int>(blockIdx.x % blocks_of_place * kThreads + threadIdx.x);
  constexpr tile::Compute<T> kNone[4] = {};  // sums
  if (j < args.layer.units && place < args.step[direction].rows) rnn_finish<T>(args, direction, place, j, kNone);
}

}  // namespace

void launch_rnn_step_units(const RnnStepArgs& args, CUstream_st* stream) {
  const RnnLayer& l = args.layer;
  const dim3 blocks(static_cast<unsigned>((l.units + kThreads - 1) / kThreads * rnn_places(args)),
                    static_cast<unsigned>(l.directions));
  tile::with_element_type(l.type, [&]<class T>() {
    cuda::launch_kernel(rnn_units<T>, {.blocks = blocks, .threads = kThreads, .overlaps = true}, stream, args);
  });
}

}  // namespace gpudnn::kernels
