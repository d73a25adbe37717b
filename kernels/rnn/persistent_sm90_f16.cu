// Instances of the persistent sweeps.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/persistent_sm90.cuh"

namespace gpudnn::kernels {

bool launch_rnn_persistent_f16(const RnnLayer& layer, const RnnPersistentShape& shape, bool backward,
                               std::uint32_t* flags, CUstream_st* stream) {
  return launch_rnn_persistent_type<tile::Half>(layer, shape, backward, flags, stream);
}

}  // namespace gpudnn::kernels
