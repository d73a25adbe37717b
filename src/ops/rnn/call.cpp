// One call's memory, rows and geometry.
// SPDX-License-Identifier: Apache-2.0
#include "ops/rnn/call.hpp"

#include <algorithm>
#include <numeric>

#include "core/math_type.hpp"
#include "ops/element_type.hpp"

namespace gpudnn::rnn {

Call::Call(const Stages& stages, const LaunchSite& site, const Problem& problem, const Args& args)
    : stages_(stages),
      problem_(problem),
      net_(problem.net),
      args_(args),
      site_{site, args.handle, nullptr, 0, nullptr, 0, 0, problem.net.type, problem.net.math, &failure_, transposes_},
      bytes_(data_type_bits(problem.net.type) / 8),
      direct_(problem.sequences.direct()) {
  Regions regions(args.workspace);
  work_ = take_workspace(problem, problem.pass, &regions);
  for (int k = 0; k < kMaxDirections; ++k) transposes_[k].at = work_.recurrent_t[k];
  site_.exchange = work_.exchange, site_.exchange_bytes = work_.exchange_bytes;
  site_.exchange_room = work_.exchange_room;
  if (args.workspace != nullptr && args.workspace_bytes > regions.used()) {
    site_.scratch_bytes = (args.workspace_bytes - regions.used()) / kRegionAlignment * kRegionAlignment;
    if (site_.scratch_bytes > 0) site_.scratch = regions.take(static_cast<std::int64_t>(site_.scratch_bytes));
  }
  if (problem.pass != Pass::infer) {
    Regions reserve(args.reserve);
    for (int layer = 0; layer < net_.layers; ++layer) layers_.push_back(take_layer(problem, &reserve));
  }
  make_rows();
}

void make_transposes(const Site& site, const kernels::RnnLayer& l, decltype(Stages::transpose) transpose) {
  for (int k = 0; k < l.directions; ++k) {
    const kernels::RnnDirection& d = l.direction[k];
    for (Transpose& t : site.transposes) {
      if (t.at != d.recurrent_t || t.at == nullptr || t.of == d.recurrent) continue;
      transpose(site, l.type, d.recurrent, std::int64_t{kernels::rnn_gates(l.cell)} * l.units, l.width,
                const_cast<void*>(t.at));  // NOLINT: of the workspace
      t.of = d.recurrent;
    }
  }
}

// Sorts the sequences, longest first, and uploads what kernels need to know of that.
void Call::make_rows() {
  const Sequences& s = problem_.sequences;
  rows_.steps = s.steps;
  rows_.batch = s.batch;
  count_ = s.capacity();
  if (s.even()) return;
  const auto batch = static_cast<std::size_t>(s.batch);
  const auto steps = static_cast<std::size_t>(s.steps);
  table_.assign(steps + 1 + 2 * batch, 0);
  std::int32_t* const lengths = table_.data() + steps + 1;
  std::int32_t* const order = lengths + batch;
  std::iota(order, order + batch, 0);
  std::stable_sort(order, order + batch, [&](std::int32_t a, std::int32_t b) {
    return s.lengths[static_cast<std::size_t>(a)] > s.lengths[static_cast<std::size_t>(b)];
  });
  for (std::size_t i = 0; i < batch; ++i) lengths[i] = s.lengths[static_cast<std::size_t>(order[i])];
  std::size_t active = batch;
  for (std::size_t t = 0; t < steps; ++t) {
    while (active > 0 && lengths[active - 1] <= static_cast<std::int32_t>(t)) --active;
    table_[t + 1] = table_[t] + static_cast<std::int32_t>(active);
  }
  count_ = table_[steps];
  stages_.upload(site_, table_.data(), static_cast<std::int64_t>(table_.size()), work_.table);
  rows_.offsets = table_.data();
  rows_.device_offsets = work_.table;
  rows_.device_lengths = work_.table + steps + 1;
  rows_.device_order = rows_.device_lengths + batch;
}

kernels::RnnCopy Call::copy_of(std::int64_t width) const {
  const Sequences& s = problem_.sequences;
  const bool by_batch = s.layout == GPUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED;
  kernels::RnnCopy copy;
  copy.type = element_type(net_.type);
  copy.rows = rows_;
  copy.step = by_batch ? width : width * s.batch;
  copy.sequence = by_batch ? width * s.steps : width;
  copy.width = static_cast<std::int32_t>(width);
  copy.fills = problem_.fills;
  copy.fill = problem_.fill;
  return copy;
}

const void* Call::gathered(const void* from, std::int64_t width, void* to) {
  if (direct_) return from;
  stages_.gather(site_, copy_of(width), from, to);
  return to;
}

kernels::RnnLayer Call::layer_of(int layer) const {
  kernels::RnnLayer l;
  l.cell = net_.kind();
  l.type = element_type(net_.type);
  l.units = net_.hidden;
  l.width = net_.projected;
  l.pre_row = gates_row();
  l.pre_gate = net_.hidden;
  l.y_row = net_.output_width();
  l.keeps_cells = training();
  l.clips = net_.clips && net_.cell == GPUDNN_LSTM;
  l.clip_passes_nan = net_.clip_passes_nan;
  l.clip_low = net_.clip_low;
  l.clip_high = net_.clip_high;
  l.cuts_to_tf32 = allows_tf32(net_.math);
  l.tensor_cores = bytes_ == 2 && net_.math != GPUDNN_FMA_MATH && site_.launch.device.compute_capability() >= 80;
  l.rows = rows_;
  l.directions = net_.directions();
  for (int k = 0; k < l.directions; ++k) {
    kernels::RnnDirection& d = l.direction[k];
    const int pseudo = layer * l.directions + k;
    const std::int64_t h = std::int64_t{pseudo} * rows_.batch * net_.projected;
    const std::int64_t c = std::int64_t{pseudo} * rows_.batch * net_.hidden;
    const WeightBlock block = weight_block(net_, pseudo);
    d.downwards = k == 1;
    d.recurrent = weight(block.recurrent);
    d.projection = weight(block.projection);
    d.input_bias = weight(block.input_bias);
    d.hidden_bias = weight(block.hidden_bias);
    d.hx = element_at(args_.hx, h, bytes_), d.cx = element_at(args_.cx, c, bytes_);
    d.hy = element_at(args_.hy, h, bytes_), d.cy = element_at(args_.cy, c, bytes_);
    d.dhy = element_at(args_.dhy, h, bytes_), d.dcy = element_at(args_.dcy, c, bytes_);
    d.dhx = element_at(args_.dhx, h, bytes_), d.dcx = element_at(args_.dcx, c, bytes_);
    d.y = element_at(output_of(layer), std::int64_t{k} * net_.projected, bytes_);
    if (!training()) continue;
    const LayerReserve& r = reserve(layer);
    d.gates = r.gates[k], d.cells = r.cells[k], d.hidden = r.hidden[k], d.dh = r.dh[k];
  }
  return l;
}

void* Call::output_of(int layer) const {
  if (layer == net_.layers - 1 && direct_) return args_.y;
  return training() ? reserve(layer).y : work_.y[layer % 2];
}
const void* Call::input_of(int layer) const {
  const bool drops = net_.drops() && training();
  return drops ? reserve(layer - 1).dropped : output_of(layer - 1);
}

Status Call::product(Product p) {
  p.type = net_.type;
  p.math = net_.math;
  return p.m == 0 || p.n == 0 || p.k == 0 ? GPUDNN_STATUS_SUCCESS : stages_.product(site_, p);
}

}  // namespace gpudnn::rnn
