// What the launch functions of the recurrent kernels take, and how rows, steps and weights of a layer lie. Plain data
// and functions on it, for the host backend too.
// SPDX-License-Identifier: Apache-2.0
//
// Rows. Sequences are sorted by length, longest first; the place of a sequence is its number in that order. All
// matrices over time are packed: the rows of step 0, one for each place, then those of step 1, which has as many as
// there are sequences that long, and so on. Step t therefore occupies rows offset(t) to offset(t + 1) - 1, and the same
// place at t - 1 always exists. A sweep goes through the steps upwards or, for the reverse direction and for the
// gradients of the forward one, downwards.
#pragma once

#include <cstdint>

#include "kernels/tile/element_type.hpp"
#include "kernels/tile/fast_divmod.cuh"

struct CUstream_st;

namespace gpudnn::kernels {

enum class RnnCell : std::int32_t { relu, tanh, lstm, gru };

// Matrices of a unit on its input, or on its state.
GPUDNN_HOST_DEVICE constexpr int rnn_gates(RnnCell cell) {
  return cell == RnnCell::lstm ? 4 : cell == RnnCell::gru ? 3 : 1;
}
// Values of a unit that training keeps: the activated gates, and of a GRU the recurrent part of n as the fourth.
GPUDNN_HOST_DEVICE constexpr int rnn_slots(RnnCell cell) {
  return cell == RnnCell::lstm || cell == RnnCell::gru ? 4 : 1;
}

// Elements from row to row of a matrix of so many columns that the library makes: of 16 bits whole vectors of 16 bytes,
// as products want them.
GPUDNN_HOST_DEVICE constexpr std::int64_t rnn_whole_row(std::int64_t columns, int element_bytes) {
  return element_bytes == 2 ? (columns + 7) / 8 * 8 : columns;
}
// Of the slots of all units.
GPUDNN_HOST_DEVICE constexpr std::int64_t rnn_gates_row(RnnCell cell, std::int64_t units, int element_bytes) {
  return rnn_whole_row(rnn_slots(cell) * units, element_bytes);
}

// `offsets` is host memory, what `device_` starts with is memory of the backend; all are null where every sequence has
// all steps and the order is the caller's.
struct RnnRows {
  std::int32_t steps = 0;
  std::int32_t batch = 0;
  const std::int32_t* offsets = nullptr;         // steps + 1
  const std::int32_t* device_offsets = nullptr;  // the same
  const std::int32_t* device_order = nullptr;    // the caller's number of the sequence at a place
  const std::int32_t* device_lengths = nullptr;  // by place
};

// One step of a sweep.
struct RnnStep {
  std::int64_t first = 0;           // row of place 0
  std::int64_t previous_first = 0;  // row of place 0 at the step before in this sweep
  std::int32_t rows = 0;
  std::int32_t previous_rows = 0;  // places that have a step before; the others begin here
  std::int32_t ends_from = 0;      // places from here on have no step after this one in the sweep
};

// `offset(t)` gives the first row of step t.
template <class Offset>
GPUDNN_HOST_DEVICE RnnStep rnn_step(const RnnRows& rows, bool downwards, std::int32_t t, const Offset& offset) {
  const auto count = [&](std::int32_t step) {
    return step < 0 || step >= rows.steps ? 0 : static_cast<std::int32_t>(offset(step + 1) - offset(step));
  };
  RnnStep s;
  s.first = offset(t);
  s.rows = count(t);
  if (downwards) {
    s.previous_rows = count(t + 1);
    s.previous_first = t + 1 < rows.steps ? offset(t + 1) : 0;
    s.ends_from = t == 0 ? 0 : s.rows;
  } else {
    s.previous_rows = t == 0 ? 0 : s.rows;
    s.previous_first = t == 0 ? 0 : offset(t - 1);
    s.ends_from = count(t + 1);
  }
  return s;
}
// On the host.
inline RnnStep rnn_step(const RnnRows& rows, bool downwards, std::int32_t t) {
  return rnn_step(rows, downwards, t, [&](std::int32_t step) {
    return rows.offsets != nullptr ? std::int64_t{rows.offsets[step]} : std::int64_t{step} * rows.batch;
  });
}

// One direction of a layer. T is the data type, C the type of the sums. G gates, S slots, H units, P the width of h.
struct RnnDirection {
  bool downwards = false;  // the reverse direction
  // Weights, in T.
  const void* recurrent = nullptr;    // [G H, P]
  const void* projection = nullptr;   // [P, H]; null where h is not projected
  const void* input_bias = nullptr;   // [G H] or null
  const void* hidden_bias = nullptr;  // [G H] or null
  // First and last states in T, by the caller's numbers; null: zero, or not wanted.
  const void* hx = nullptr;  // [batch, P]
  const void* cx = nullptr;  // [batch, H]
  void* hy = nullptr;
  void* cy = nullptr;
  // Of a part of the steps: those before are there, their rows in front; and of an LSTM C [batch, H] by place, in place
  // of cx (backward dcy) and beside cy (dcx). Split sweeps alone know it.
  bool continues = false;
  const float* c_first = nullptr;
  float* c_last = nullptr;
  // Over the rows.
  const void* pre = nullptr;  // T: products with the input, element (row, g, j) at row * pre_row + g * pre_gate + j
  // T [rows, S H], rows as rnn_gates_row says: the slots; backward the gradients in their place; null in inference.
  void* gates = nullptr;
  void* cells = nullptr;   // C: c of an LSTM, [rows, H], or in inference the state [batch, H]
  void* hidden = nullptr;  // T: h before the projection, [rows, H]
  void* y = nullptr;       // T: h, element (row, j) at row * y_row + j; null: nobody asks for it
  // Of the gradients.
  const void* recurrent_t = nullptr;   // T [P, G H]: the transpose
  const void* projection_t = nullptr;  // T [H, P]
  // Where several layers run in one launch: T, the layer's W, [G H, width of the layer below]; backward the transpose
  // of the W of the layer above. Null: `pre` or `dy` has what it makes.
  const void* across = nullptr;
  const void* dy = nullptr;   // T, as y; null: zero
  const void* dhy = nullptr;  // T [batch, P] or null
  const void* dcy = nullptr;
  void* dhx = nullptr;  // T or null
  void* dcx = nullptr;
  void* carry_c = nullptr;  // C [batch, H] by place: gradient of c one step back
  void* carry_h = nullptr;  // C [batch, H] by place: what of the gradient of h bypasses the product (GRU)
  void* dh = nullptr;       // T [rows, P]: gradient of the projected h
  // T, as pre: where a launch of several layers puts this layer's products with W, if it does; null: there is no room.
  void* products = nullptr;
};

struct RnnLayer {
  RnnCell cell = RnnCell::tanh;
  tile::ElementType type = tile::ElementType::f32;
  std::int32_t units = 0;  // H
  std::int32_t width = 0;  // P
  std::int64_t pre_row = 0;
  std::int64_t pre_gate = 0;
  std::int64_t y_row = 0;
  bool keeps_cells = false;  // cells are [rows, H]
  bool clips = false;
  bool clip_passes_nan = true;
  double clip_low = 0;
  double clip_high = 0;
  bool cuts_to_tf32 = false;  // the math type lets float be cut to TF32
  bool tensor_cores = false;  // of a 16-bit type, on a device that has mma.sync
  RnnRows rows;
  std::int32_t directions = 1;
  RnnDirection direction[2];
};

// What a fused step computes behind its product.
enum class RnnPart : std::int32_t {
  forward_cell,
  forward_projection,
  backward_hidden,  // gradient of the projected h
  backward_cell,
  backward_first,  // gradient of hx
};

// Whole sweeps, one launch a step.
void launch_rnn_forward(const RnnLayer& layer, CUstream_st* stream);
void launch_rnn_backward(const RnnLayer& layer, CUstream_st* stream);
// The end of a backward sweep alone: the gradient of hx.
void launch_rnn_backward_first(const RnnLayer& layer, CUstream_st* stream);
// Step i of a sweep alone, for a layer whose `pre` or `dy` has the product with R.
void launch_rnn_units(const RnnLayer& layer, std::int32_t i, bool backward, CUstream_st* stream);

// Between the caller's layouts and rows: element (t, n, j) at t * step + n * sequence + j.
struct RnnCopy {
  tile::ElementType type = tile::ElementType::f32;
  RnnRows rows;
  std::int64_t step = 0;
  std::int64_t sequence = 0;
  std::int32_t width = 0;
  bool fills = false;  // scatter: what no sequence reaches gets `fill`
  double fill = 0;
};
void launch_rnn_gather(const RnnCopy& copy, const void* from, void* rows, CUstream_st* stream);
void launch_rnn_scatter(const RnnCopy& copy, const void* rows, void* to, CUstream_st* stream);
// Stores host integers in device memory, through kernel arguments.
void launch_rnn_upload(const std::int32_t* from, std::int64_t count, std::int32_t* to, CUstream_st* stream);
// h one step back of each row, [lanes, rows, P] in T, of directions of like layers.
constexpr int kRnnLanes = 16;
struct RnnPrevious {
  RnnLayer layer;  // its directions say nothing
  std::int32_t lanes = 0;
  RnnDirection lane[kRnnLanes];
};
// Rows of `to` are `to_row` elements apart; from the width on they get zeros.
void launch_rnn_previous(const RnnPrevious& previous, void* to, std::int64_t to_row, CUstream_st* stream);
// Copies rows of 16-bit values to such that are whole vectors of 16 bytes; from the width on they get zeros.
struct RnnPad {
  tile::ElementType type = tile::ElementType::f16;
  const void* from = nullptr;
  std::int64_t from_row = 0;
  std::int64_t width = 0;
  void* to = nullptr;
  std::int64_t to_row = 0;
  std::int64_t to_width = 0;  // with the zeros
  std::int64_t rows = 0;
};
void launch_rnn_pad(const RnnPad& pad, CUstream_st* stream);
// to[columns, rows] = from[rows, columns]^T, both packed.
void launch_rnn_transpose(tile::ElementType type, const void* from, std::int64_t rows, std::int64_t columns, void* to,
                          CUstream_st* stream);
// Sequences without a step: the last states are the first ones, forward (hx, cx -> hy, cy) or backward.
void launch_rnn_pass(const RnnLayer& layer, bool backward, CUstream_st* stream);

// out[j] (+)= the sum over the rows of m[row * stride + j], for `columns` columns; out2 too unless null. `partials`:
// lanes * kRnnSumSplits * columns numbers of the type of the sums.
struct RnnColumnSums {
  struct Lane {
    const void* matrix = nullptr;
    void* out = nullptr;   // T or null
    void* out2 = nullptr;  // T or null
  };
  tile::ElementType type = tile::ElementType::f32;
  std::int32_t lanes = 0;
  Lane lane[kRnnLanes];
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int32_t columns = 0;
  std::int32_t skip_from = 0;  // from this column on, the column `skip` further right is summed for out2
  std::int32_t skip = 0;
  bool adds = false;
  void* partials = nullptr;
};
constexpr int kRnnSumSplits = 32;
void launch_rnn_column_sums(const RnnColumnSums& sums, CUstream_st* stream);
// to[i] (+)= the sum of `slices` floats that are `stride` apart, in order.
struct RnnSlices {
  const float* from = nullptr;
  std::int64_t stride = 0;
  std::int32_t slices = 0;
  std::int64_t count = 0;
  float* to = nullptr;
  bool adds = false;
};
void launch_rnn_slices(const RnnSlices& slices, CUstream_st* stream);
// Skip input: dx[row, j] (+)= the sum over the gates of gates[row, g, j].
struct RnnGateSum {
  tile::ElementType type = tile::ElementType::f32;
  const void* gates = nullptr;
  std::int64_t row_stride = 0;
  std::int32_t gate_count = 0;
  std::int32_t units = 0;
  std::int64_t rows = 0;
  void* to = nullptr;  // [rows, units]
  bool adds = false;
};
void launch_rnn_gate_sum(const RnnGateSum& sum, CUstream_st* stream);

}  // namespace gpudnn::kernels
