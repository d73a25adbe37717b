// Instances of the resident sweeps.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/resident_sm90.cuh"

namespace gpudnn::kernels {

bool launch_rnn_resident_f32(const RnnResident& resident, CUstream_st* stream) {
  return launch_rnn_resident_type<float>(resident, stream);
}

}  // namespace gpudnn::kernels
