// The forward instances of the Hopper implicit GEMM. A fused epilogue makes each of them some 250 KB, and the first
// call into a module loads all of it: so the shapes lie in several files, and the instances of what most calls ask for
// (Epilogue) in files of their own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/conv/implicit_gemm/implicit_gemm_sm90.cuh"
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_forward.hpp"

namespace gpudnn::kernels::sm90 {

template <class T, int kShape, int kPart>
constexpr LaunchShape launch_of_forward_instance() {
  if constexpr (part_of_shape(kShape) != kPart) {
    return nullptr;
  } else {
    return launch_of_instance<T, Direction::forward, kShape>();
  }
}

template <class T, int kPart>
LaunchShape launch_of_forward(int shape) {
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    static constexpr LaunchShape kLaunches[] = {launch_of_forward_instance<T, static_cast<int>(kIndex), kPart>()...};
    return kLaunches[shape];
  }
  (std::make_index_sequence<kShapeCount>());
}

template <class T, Epilogue kEpilogue>
LaunchShape launch_of_forward_epilogue(int shape) {
  return [&]<std::size_t... kIndex>(std::index_sequence<kIndex...>) {
    static constexpr LaunchShape kLaunches[] = {
        launch_of_instance<T, Direction::forward, static_cast<int>(kIndex), kEpilogue>()...};
    return kLaunches[shape];
  }
  (std::make_index_sequence<kShapeCount>());
}

}  // namespace gpudnn::kernels::sm90
