// What the launch functions of the fused step take. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/rnn/rnn.hpp"

namespace gpudnn::kernels {

struct RnnStepArgs {
  RnnLayer layer;
  RnnPart part = RnnPart::forward_cell;
  bool aligned = false;  // rows of both factors at multiples of 16 bytes, in whole vectors of that
  RnnStep step[2];
  RnnStep forward[2];  // gradients: of the sweep that made the gates
};

// Whether every factor of a layer's products can be read in vectors of 16 bytes.
[[nodiscard]] bool rnn_is_aligned(const RnnLayer& layer);

// The result's units and places.
inline std::int32_t rnn_columns(const RnnStepArgs& args) {
  const bool of_units = args.part == RnnPart::forward_cell || args.part == RnnPart::backward_cell;
  return of_units ? args.layer.units : args.layer.width;
}
inline std::int32_t rnn_places(const RnnStepArgs& args) {
  return args.step[0].rows > args.step[1].rows ? args.step[0].rows : args.step[1].rows;
}
inline int rnn_sums(const RnnStepArgs& args) {
  return args.part == RnnPart::forward_cell ? rnn_gates(args.layer.cell) : 1;
}

// Launches one part for one or both directions. Each has its own file.
void launch_rnn_step_simt(const RnnStepArgs& args, CUstream_st* stream);
void launch_rnn_step_sm80(const RnnStepArgs& args, CUstream_st* stream);
// The units alone: what they take in has the product.
void launch_rnn_step_units(const RnnStepArgs& args, CUstream_st* stream);

}  // namespace gpudnn::kernels
