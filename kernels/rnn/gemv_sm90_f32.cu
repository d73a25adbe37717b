// Instances of the sweeps of few sequences.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/gemv_sm90.cuh"

namespace gpudnn::kernels {

bool launch_rnn_gemv_f32(const RnnResident& resident, CUstream_st* stream) {
  return launch_rnn_gemv_type<float>(resident, stream);
}

}  // namespace gpudnn::kernels
