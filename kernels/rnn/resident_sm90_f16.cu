// Instances of the resident sweeps.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/resident_sm90.cuh"

namespace gpudnn::kernels {

bool launch_rnn_resident_f16(const RnnResident& resident, CUstream_st* stream) {
  return launch_rnn_resident_type<tile::Half>(resident, stream);
}

}  // namespace gpudnn::kernels
