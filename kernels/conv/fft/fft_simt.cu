// The instances of the Fourier transforms and their launches.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/conv/fft/fft_simt.cuh"

namespace gpudnn::kernels::fft {
namespace {

template <int kT>
cuda::LaunchConfig config_of(const Tiles& tiles) {
  const auto groups_of = [](std::int32_t count) {
    return static_cast<unsigned>((count + items_of(kT) - 1) / items_of(kT));
  };
  const auto all = [](std::int32_t count) { return static_cast<unsigned>(count); };
  return {.blocks = tiles.along_channels ? dim3(all(tiles.count), groups_of(tiles.channels))
                                         : dim3(groups_of(tiles.count), all(tiles.channels)),
          .threads = dim3(Shape<kT>::kThreads)};
}

}  // namespace

void launch_forward(int size, const ForwardParams& p, CUstream_st* stream) {
  if (size == 16) {
    cuda::launch_kernel(fft_forward_simt<16>, config_of<16>(p.tiles), stream, p);
  } else if (size == 32) {
    cuda::launch_kernel(fft_forward_simt<32>, config_of<32>(p.tiles), stream, p);
  } else {
    cuda::launch_kernel(fft_forward_simt<64>, config_of<64>(p.tiles), stream, p);
  }
}

void launch_inverse(int size, const InverseParams& p, CUstream_st* stream) {
  if (size == 16) {
    cuda::launch_kernel(fft_inverse_simt<16>, config_of<16>(p.tiles), stream, p);
  } else if (size == 32) {
    cuda::launch_kernel(fft_inverse_simt<32>, config_of<32>(p.tiles), stream, p);
  } else {
    cuda::launch_kernel(fft_inverse_simt<64>, config_of<64>(p.tiles), stream, p);
  }
}

}  // namespace gpudnn::kernels::fft
