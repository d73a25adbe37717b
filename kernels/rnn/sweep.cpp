// Sweeps over the steps of a layer, one launch for each step and part.
// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <initializer_list>

#include "kernels/rnn/step.hpp"

namespace gpudnn::kernels {
namespace {

bool is_aligned(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0; }

void launch_step(RnnStepArgs* args, RnnPart part, CUstream_st* stream) {
  args->part = part;
  if (rnn_places(*args) == 0) return;
  args->layer.tensor_cores ? launch_rnn_step_sm80(*args, stream) : launch_rnn_step_simt(*args, stream);
}

// The i-th step of the sweep in each direction; `against`: of the gradients' sweep.
void set_steps(RnnStepArgs* args, std::int32_t i, bool against) {
  const RnnRows& rows = args->layer.rows;
  for (int k = 0; k < args->layer.directions; ++k) {
    const bool downwards = args->layer.direction[k].downwards != against;
    const std::int32_t t = downwards ? rows.steps - 1 - i : i;
    args->step[k] = rnn_step(rows, downwards, t);
    args->forward[k] = rnn_step(rows, args->layer.direction[k].downwards, t);
  }
}

}  // namespace

bool rnn_is_aligned(const RnnLayer& l) {
  const int vector = 16 / tile::element_bytes(l.type);
  bool aligned = l.units % vector == 0 && l.width % vector == 0 && l.y_row % vector == 0;
  for (int i = 0; i < l.directions; ++i) {
    const RnnDirection& d = l.direction[i];
    for (const void* pointer :
         {d.recurrent, d.projection, d.hx, static_cast<const void*>(d.gates), static_cast<const void*>(d.hidden),
          static_cast<const void*>(d.y), d.recurrent_t, d.projection_t, static_cast<const void*>(d.dh)}) {
      aligned = aligned && is_aligned(pointer);
    }
  }
  return aligned;
}

void launch_rnn_forward(const RnnLayer& layer, CUstream_st* stream) {
  RnnStepArgs args;
  args.layer = layer;
  args.aligned = rnn_is_aligned(layer);
  for (std::int32_t i = 0; i < layer.rows.steps; ++i) {
    set_steps(&args, i, false);
    launch_step(&args, RnnPart::forward_cell, stream);
    if (layer.direction[0].projection != nullptr) launch_step(&args, RnnPart::forward_projection, stream);
  }
}

void launch_rnn_backward(const RnnLayer& layer, CUstream_st* stream) {
  RnnStepArgs args;
  args.layer = layer;
  args.aligned = rnn_is_aligned(layer);
  for (std::int32_t i = 0; i < layer.rows.steps; ++i) {
    set_steps(&args, i, true);
    if (layer.direction[0].projection_t != nullptr) launch_step(&args, RnnPart::backward_hidden, stream);
    launch_step(&args, RnnPart::backward_cell, stream);
  }
  launch_rnn_backward_first(layer, stream);
}

void launch_rnn_units(const RnnLayer& layer, std::int32_t i, bool backward, CUstream_st* stream) {
  RnnStepArgs args;
  args.layer = layer;
  args.part = backward ? RnnPart::backward_cell : RnnPart::forward_cell;
  set_steps(&args, i, backward);
  if (rnn_places(args) > 0) launch_rnn_step_units(args, stream);
}

void launch_rnn_backward_first(const RnnLayer& layer, CUstream_st* stream) {
  if (layer.direction[0].dhx == nullptr || layer.rows.steps == 0) return;
  RnnStepArgs args;
  args.layer = layer;
  args.aligned = rnn_is_aligned(layer);
  for (int k = 0; k < layer.directions; ++k) args.step[k] = rnn_step(layer.rows, true, 0);
  launch_step(&args, RnnPart::backward_first, stream);
}

}  // namespace gpudnn::kernels
