// The launch of the Hopper implicit GEMM: from the type and direction to the file that has its instances.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/implicit_gemm/implicit_gemm_sm90_forward.hpp"
#include "kernels/tile/instances.hpp"

namespace gpudnn::kernels::sm90 {

namespace {

Epilogue epilogue_of(const Params& params) {
  if (params.splits > 1 || (params.is_plain && params.stores_boxes)) return Epilogue::plain;
  return params.is_simple && params.totals == nullptr ? Epilogue::bias_relu : Epilogue::any;
}

template <class T>
LaunchShape launch_of_direction(Direction direction, int shape, Epilogue epilogue) {
  if (direction == Direction::forward) {
    if constexpr (sizeof(T) == 2) {
      if (has_epilogue(kShapes[shape], direction, sizeof(T), epilogue)) {
        if (epilogue == Epilogue::plain) return launch_of_forward_epilogue<T, Epilogue::plain>(shape);
        if (epilogue == Epilogue::bias_relu) return launch_of_forward_epilogue<T, Epilogue::bias_relu>(shape);
      }
    }
    constexpr LaunchShape (*kParts[kForwardParts])(int) = {&launch_of_forward<T, 0>, &launch_of_forward<T, 1>,
                                                           &launch_of_forward<T, 2>};
    return kParts[part_of_shape(shape)](shape);
  }
  if (direction == Direction::data_gradient) return launch_of<T, Direction::data_gradient>(shape);
  if constexpr (!std::is_same_v<T, float>) {
    return launch_of<T, Direction::filter_gradient>(shape);
  } else {
    return launch_of_wgrad_tf32(shape);
  }
}

}  // namespace

void launch(int shape, ElementType type, Direction direction, const Params& params, std::uint32_t blocks,
            CUstream_st* stream) {
  tile::with_tensor_core_type(
      type, [&]<class T>() { launch_of_direction<T>(direction, shape, epilogue_of(params))(params, blocks, stream); });
}

}  // namespace gpudnn::kernels::sm90
