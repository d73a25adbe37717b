// Instances of the resident sweeps.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/resident_sm90.cuh"

namespace gpudnn::kernels {

bool launch_rnn_resident_bf16(const RnnResident& resident, CUstream_st* stream) {
  return launch_rnn_resident_type<tile::BFloat16>(resident, stream);
}

}  // namespace gpudnn::kernels
