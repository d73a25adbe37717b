// What lies where in the reserve space and in the workspace of a recurrent network. Neither depends on the algorithm or
// on the lengths of the sequences.
// SPDX-License-Identifier: Apache-2.0
#include "ops/rnn/memory.hpp"

#include <algorithm>

#include "core/integer.hpp"
#include "core/math_type.hpp"
#include "kernels/rnn/resident.hpp"
#include "kernels/rnn/split.hpp"
#include "ops/dropout/problem.hpp"
#include "ops/element_type.hpp"
#include "ops/rnn/call.hpp"

namespace gpudnn::rnn {
namespace {

std::int64_t element_bytes(const Network& net) noexcept { return data_type_bits(net.type) / 8; }
std::int64_t sum_bytes(const Network& net) noexcept { return net.type == GPUDNN_DATA_DOUBLE ? 8 : 4; }

bool has_own_layout(const Problem& problem) noexcept {
  return problem.sequences.layout != GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
}

// Of sweeps whose weights stay on the chip: no more than that holds.
bool may_be_resident(const Network& n) noexcept {
  return !n.projects() && n.hidden <= 2112 &&
         (element_bytes(n) == 4 || (element_bytes(n) == 2 && n.math != GPUDNN_FMA_MATH));
}

#ifdef GPUDNN_WITH_CUDA  // the host has no resident sweeps
// Layers, or directions of one, whose states are there at once.
std::int64_t lanes_of(const Problem& problem, Pass pass) noexcept {
  return may_pipeline(problem, pass) ? problem.net.layers : problem.net.directions();
}

void take_exchange(const Problem& problem, Pass pass, Workspace* w, Regions* regions) noexcept {
  const Network& n = problem.net;
  const Sequences& s = problem.sequences;
  const bool backward = pass == Pass::dgrad;
  if (pass == Pass::wgrad || !may_be_resident(n)) return;
  w->exchange_bytes = s.capacity() * kernels::rnn_exchange_row(n.kind(), n.hidden, backward) * element_bytes(n);
  w->exchange_room = lanes_of(problem, pass) * w->exchange_bytes;
  const int lanes = may_pair(problem, pass) ? 2 : n.directions();
  w->exchange_room =
      std::max(w->exchange_room, kernels::rnn_split_most_exchange_bytes(n.kind(), n.hidden, s.batch, s.steps, lanes,
                                                                        backward, static_cast<int>(element_bytes(n))));
  if (n.hidden > kernels::kRnnGemvClusterUnits && s.batch <= kernels::kRnnGemvPlaces &&
      n.hidden <= kernels::rnn_gemv_units(n.kind(), false, static_cast<int>(element_bytes(n)))) {
    w->exchange_room =
        std::max(w->exchange_room, kernels::rnn_gemv_copies(backward) * n.directions() * w->exchange_bytes);
  }
  w->exchange = regions->take(w->exchange_room);
}
#endif

// Layers of values may run in one launch that makes the products between them, too.
bool may_pipe(const Problem& problem) noexcept {
  const Network& n = problem.net;
  kernels::RnnLayer l;
  l.cell = n.kind();
  l.type = element_type(n.type);
  l.units = n.hidden;
  l.rows.batch = problem.sequences.batch;
  return may_pipeline(problem, Pass::infer) && kernels::rnn_gemv_pipes(l, n.layers, false);
}

void take_forward(const Problem& problem, Workspace* w, Regions* regions) noexcept {
  const Network& n = problem.net;
  const std::int64_t rows = problem.sequences.capacity();
  for (int d = 0; d < n.directions(); ++d) {
    const bool has_products = n.layers > 1 || n.has_input_matrix(0);
    w->pre[d] = regions->take(has_products ? rows * n.gates_row(false) * element_bytes(n) : 0);
    if (n.cell == GPUDNN_LSTM)
      w->cells[d] = regions->take((may_pipeline(problem, Pass::infer) ? n.layers
                                   : may_pair(problem, Pass::infer)   ? 2
                                                                      : 1) *
                                  std::int64_t{problem.sequences.batch} * n.hidden * sum_bytes(n));
    if (n.projects()) w->hidden[d] = regions->take(rows * n.hidden * element_bytes(n));
  }
  if (may_pipe(problem)) w->products = regions->take((n.layers - 1) * rows * n.gates_row(false) * element_bytes(n));
  if (n.layers > 1 || has_own_layout(problem)) {
    w->y[0] = regions->take(rows * n.output_width() * element_bytes(n));
    if (n.layers > 1) w->y[1] = regions->take(rows * n.output_width() * element_bytes(n));
  }
}

void take_dgrad(const Problem& problem, Workspace* w, Regions* regions) noexcept {
  const Network& n = problem.net;
  const std::int64_t rows = problem.sequences.capacity();
  const bool pipelines = may_pipeline(problem, Pass::dgrad);
  const std::int64_t lanes = pipelines ? n.layers : 1;
  const std::int64_t state = std::int64_t{problem.sequences.batch} * n.hidden * sum_bytes(n);
  const std::int64_t recurrent = std::int64_t{n.gates()} * n.hidden * n.projected * element_bytes(n);
  for (int d = 0; d < n.directions(); ++d) {
    if (n.cell == GPUDNN_LSTM) w->carry_c[d] = regions->take(lanes * state);
    if (n.cell == GPUDNN_GRU) w->carry_h[d] = regions->take(lanes * state);
  }
  // Gradients of y in rows, those between layers, and behind the last sweep, which needs them no more, those of x.
  const std::int64_t gradients = rows * n.output_width() * element_bytes(n);
  const bool has_layers_below = n.layers > 1;
  const std::int64_t of_x = has_own_layout(problem) ? rows * n.input * element_bytes(n) : 0;
  w->d[0] = regions->take(has_layers_below || of_x > 0 ? std::max(gradients, of_x) : 0);
  if (of_x > 0) w->x = w->d[0];
  // Of layers in one launch, or of such that run one by one or in pairs.
  Regions one_by_one = *regions;
  if (pipelines) w->pipeline_t = regions->take((2 * lanes - 1) * recurrent);
  w->d[1] = one_by_one.take(has_layers_below ? gradients : 0);
  for (int d = 0; d < n.directions(); ++d) {
    w->recurrent_t[d] = one_by_one.take(recurrent);
    if (n.projects()) w->projection_t[d] = one_by_one.take(std::int64_t{n.hidden} * n.projected * element_bytes(n));
  }
  if (may_pair(problem, Pass::dgrad)) {
    w->recurrent_t[1] = one_by_one.take(recurrent);
    if (n.cell == GPUDNN_LSTM) w->carry_c[1] = one_by_one.take(state);
    if (n.cell == GPUDNN_GRU) w->carry_h[1] = one_by_one.take(state);
    for (void*& buffer : w->dh_part) buffer = one_by_one.take(state);
  }
  regions->reach(one_by_one);
}

void take_wgrad(const Problem& problem, Workspace* w, Regions* regions) noexcept {
  const Network& n = problem.net;
  const std::int64_t lanes = n.pseudo_layers();
  const std::int64_t states = lanes * problem.sequences.capacity() * weight_state_row(n) * element_bytes(n);
  Regions copies = *regions;
  w->copies = copies.take(weight_copy_bytes(problem));
  if (merges_weight_products(problem)) w->inputs = regions->take(states);
  regions->reach(copies);
  const std::int64_t gates = std::int64_t{n.gates()} * n.hidden;
  const std::int64_t width = std::max<std::int64_t>(n.projected, n.input_width(n.layers > 1 ? 1 : 0));
  const int slices = most_weight_slices(problem, gates, width);
  w->slices_room = slices > 1 ? slices * kMaxDirections * gates * width : 0;
  w->slices = static_cast<float*>(regions->take(w->slices_room * 4));
  w->previous = regions->take(states);
  w->partials = regions->take(std::min<std::int64_t>(lanes, kernels::kRnnLanes) * kernels::kRnnSumSplits * n.slots() *
                              n.hidden * sum_bytes(n));
}

// The greatest products of forward, or of the gradients of data, over all rows.
Status product_scratch(const Stages& stages, gpudnnHandle_t handle, const Problem& problem, Pass pass,
                       std::size_t* bytes) {
  const Network& n = problem.net;
  const std::int64_t rows = problem.sequences.capacity();
  const std::int64_t gates = std::int64_t{n.gates()} * n.hidden;
  const std::int64_t gates_row = n.gates_row(pass != Pass::infer);
  for (int layer = 0; layer < std::min(n.layers, 2); ++layer) {
    const std::int64_t width = n.input_width(layer);
    const bool is_alike = layer > 0 && width == n.input_width(0) && (pass != Pass::wgrad || n.layers == 2);
    if (is_alike) continue;
    Product p{.type = n.type, .math = n.math};
    if (pass == Pass::dgrad) {
      p.m = rows, p.n = width, p.k = gates;
      p.a_strides[0] = gates_row, p.a_strides[1] = 1, p.b_strides[0] = width, p.b_strides[1] = 1, p.d_row = width;
    } else {
      p.m = rows, p.n = gates, p.k = width;
      p.a_strides[0] = width, p.a_strides[1] = 1, p.b_strides[0] = 1, p.b_strides[1] = width, p.d_row = gates_row;
    }
    std::size_t needed = 0;
    GPUDNN_TRY(stages.product_scratch(handle, p, &needed));
    *bytes = std::max(*bytes, needed);
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

bool may_pipeline(const Problem& problem, Pass pass) noexcept {
  const Network& n = problem.net;
  constexpr int kMaxLayers = 8;
  constexpr int kNarrowBlock = 16;  // of a block: its registers hold most columns
  return may_be_resident(n) && n.layers > 1 && n.layers <= kMaxLayers && !n.bidirectional && n.cell != GPUDNN_GRU &&
         n.hidden <= 1024 && !(n.drops() && pass != Pass::infer) &&
         (kernels::rnn_resident_holds(n.kind(), n.hidden, kNarrowBlock, true, pass == Pass::dgrad,
                                      static_cast<int>(element_bytes(n))) ||
          kernels::rnn_resident_holds(n.kind(), n.hidden, 2 * kNarrowBlock, true, pass == Pass::dgrad,
                                      static_cast<int>(element_bytes(n))));
}

bool may_pair(const Problem& problem, Pass pass) noexcept {
  const Network& n = problem.net;
  return pass != Pass::wgrad && may_be_resident(n) && element_bytes(n) == 2 && n.layers > 1 && !n.bidirectional &&
         !n.skip && !(n.drops() && pass != Pass::infer) && problem.sequences.steps > 1;
}

bool merges_weight_products(const Problem& problem) noexcept {
  constexpr std::int64_t kEnough = 100 * 128 * 256;  // elements of a product that keeps the device busy
  constexpr std::int64_t kFew = 512;                 // rows of one that is over before the next has begun
  const Network& n = problem.net;
  return !n.bidirectional && !n.projects() && !n.skip && (n.layers > 1 || n.input == n.hidden) &&
         (std::int64_t{n.hidden} * n.gates() * n.projected < kEnough || problem.sequences.capacity() <= kFew);
}

std::int64_t weight_copy_row(std::int64_t width) noexcept { return round_up(width, std::int64_t{8}); }

std::int64_t weight_state_row(const Network& n) noexcept {
  return element_bytes(n) == 2 ? weight_copy_row(n.projected) : n.projected;
}

std::int64_t weight_copy_bytes(const Problem& problem) noexcept {
  const Network& n = problem.net;
  if (element_bytes(n) != 2) return 0;
  Regions regions(nullptr);
  const auto copy = [&](std::int64_t width, std::int64_t count) {
    const std::int64_t row = weight_copy_row(width);
    for (std::int64_t i = 0; row != width && i < count; ++i) {
      (void)regions.take(problem.sequences.capacity() * row * element_bytes(n));
    }
  };
  copy(n.input, n.skip ? 0 : 1);
  copy(n.output_width(), n.layers - 1);
  if (n.projects()) copy(n.projected, n.pseudo_layers()), copy(n.hidden, n.pseudo_layers());
  return static_cast<std::int64_t>(regions.used());
}

int most_weight_slices(const Problem& problem, std::int64_t m, std::int64_t n) noexcept {
  constexpr std::int64_t kManyRows = 6144;
  constexpr std::int64_t kTile = 128;
  constexpr std::int64_t kFewTiles = 16;
  const Network& net = problem.net;
  const std::int64_t tiles = (m + kTile - 1) / kTile * ((n + kTile - 1) / kTile);
  if (net.type != GPUDNN_DATA_FLOAT || allows_tf32(net.math) || net.projects() || tiles > kFewTiles ||
      problem.sequences.capacity() < kManyRows) {
    return 1;
  }
  return static_cast<int>(std::min<std::int64_t>(2 * kFewTiles, 8 * kFewTiles / tiles));
}

std::size_t mask_bytes(const Problem& problem) noexcept {
  const std::int64_t dims[] = {1, 1, problem.sequences.capacity(), problem.net.output_width()};
  return dropout::reserve_size(packed_tensor(problem.net.type, GPUDNN_TENSOR_NCHW, 4, dims));
}

LayerReserve take_layer(const Problem& problem, Regions* regions) noexcept {
  const Network& n = problem.net;
  const std::int64_t rows = problem.sequences.capacity();
  LayerReserve r;
  for (int d = 0; d < n.directions(); ++d) {
    r.gates[d] = regions->take(rows * n.gates_row(true) * element_bytes(n));
    if (n.cell == GPUDNN_LSTM) r.cells[d] = regions->take(rows * n.hidden * sum_bytes(n));
    if (n.projects()) {
      r.hidden[d] = regions->take(rows * n.hidden * element_bytes(n));
      r.dh[d] = regions->take(rows * n.projected * element_bytes(n));
    }
  }
  if (n.layers > 1 || has_own_layout(problem)) r.y = regions->take(rows * n.output_width() * element_bytes(n));
  if (n.drops()) {
    r.dropped = regions->take(rows * n.output_width() * element_bytes(n));
    r.mask = regions->take(static_cast<std::int64_t>(mask_bytes(problem)));
  }
  return r;
}

std::size_t reserve_size(const Problem& problem) noexcept {
  Regions regions(nullptr);
  for (int layer = 0; layer < problem.net.layers; ++layer) (void)take_layer(problem, &regions);
  return regions.used();
}

Workspace take_workspace(const Problem& problem, Pass pass, Regions* regions) noexcept {
  const Sequences& s = problem.sequences;
  Workspace w;
  w.table = static_cast<std::int32_t*>(regions->take((std::int64_t{s.steps} + 1 + 2 * std::int64_t{s.batch}) * 4));
#ifdef GPUDNN_WITH_CUDA
  take_exchange(problem, pass, &w, regions);
#endif
  if (has_own_layout(problem) && pass != Pass::dgrad) {
    w.x = regions->take(s.capacity() * problem.net.input * element_bytes(problem.net));
  }
  if (pass == Pass::infer) take_forward(problem, &w, regions);
  if (pass == Pass::dgrad) take_dgrad(problem, &w, regions);
  if (pass == Pass::wgrad) take_wgrad(problem, &w, regions);
  return w;
}

namespace {
// What the size of the workspace depends on.
struct SizeKey {
  std::int64_t tag = 0x726e6e73697a65;  // of this operation
  std::int64_t forward_only, cell, bidirectional, skip, type, math, input, hidden, projected, layers, drops;
  std::int64_t layout, steps, batch;
};
SizeKey size_key(const Problem& problem, bool forward_only) noexcept {
  const Network& n = problem.net;
  const Sequences& s = problem.sequences;
  return {.forward_only = forward_only ? 1 : 0,
          .cell = n.cell,
          .bidirectional = n.bidirectional ? 1 : 0,
          .skip = n.skip ? 1 : 0,
          .type = n.type,
          .math = n.math,
          .input = n.input,
          .hidden = n.hidden,
          .projected = n.projected,
          .layers = n.layers,
          .drops = n.drops() ? 1 : 0,
          .layout = s.layout,
          .steps = s.steps,
          .batch = s.batch};
}
}  // namespace

Status workspace_size(gpudnnHandle_t handle, const Problem& problem, bool forward_only, std::size_t* bytes) {
  // Each call of a network asks for it, and a framework with each module.
  const SizeKey key = size_key(problem, forward_only);
  if (const auto kept = handle->plans.find<std::size_t>(key); kept != nullptr) {
    *bytes = *kept;
    return GPUDNN_STATUS_SUCCESS;
  }
#ifdef GPUDNN_WITH_CUDA
  const Stages& stages = handle->device->backend == GPUDNN_BACKEND_CUDA ? kStreamingStages : kHostStages;
#else
  const Stages& stages = kHostStages;
#endif
  *bytes = 0;
  for (const Pass pass : {Pass::infer, Pass::train, Pass::dgrad, Pass::wgrad}) {
    if (forward_only != (pass == Pass::infer)) continue;
    Regions regions(nullptr);
    (void)take_workspace(problem, pass, &regions);
    std::size_t scratch = 0;
    GPUDNN_TRY(pass == Pass::wgrad
                   ? weight_gradients_scratch(stages, launch_site(handle, nullptr, 0), handle, problem, &scratch)
                   : product_scratch(stages, handle, problem, pass, &scratch));
    *bytes = std::max(*bytes, regions.used() + scratch);
  }
  handle->plans.keep<std::size_t>(key, std::make_shared<std::size_t>(*bytes));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::rnn
