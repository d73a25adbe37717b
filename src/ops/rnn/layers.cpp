// A recurrent network's three calls as stages: what is done in which order, and on which memory.
// SPDX-License-Identifier: Apache-2.0
//
// Forward, for each layer: the products of all steps with W, into the place of the gates; the sweeps, which multiply
// with R step by step; dropout. Gradients of data, from the last layer: the sweeps against the steps, which leave the
// gradients of the gates in their place; their product with W. Gradients of weights: one product over all rows for each
// W and R, and sums over rows for the biases.
//
// Longer than most files: the passes share one call's memory and geometry, and each of them is short.
#include <algorithm>
#include <numeric>

#include "core/math_type.hpp"
#include "ops/dropout/problem.hpp"
#include "ops/element_type.hpp"
#include "ops/rnn/memory.hpp"
#include "ops/rnn/stages.hpp"

namespace gpudnn::rnn {
namespace {

const void* element_at(const void* base, std::int64_t index, std::int64_t bytes) noexcept {
  return base == nullptr ? nullptr : static_cast<const char*>(base) + index * bytes;
}
void* element_at(void* base, std::int64_t index, std::int64_t bytes) noexcept {
  return base == nullptr ? nullptr : static_cast<char*>(base) + index * bytes;
}

class Call {
 public:
  Call(const Stages& stages, const LaunchSite& site, const Problem& problem, const Args& args)
      : stages_(stages),
        problem_(problem),
        net_(problem.net),
        args_(args),
        site_{site, args.handle, nullptr, 0, nullptr, 0, 0, problem.net.type, problem.net.math, &failure_},
        bytes_(data_type_bits(problem.net.type) / 8),
        direct_(problem.sequences.direct()) {
    Regions regions(args.workspace);
    work_ = take_workspace(problem, problem.pass, &regions);
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

  Status run() {
    GPUDNN_TRY(run_pass());
    return failure_;
  }

 private:
  Status run_pass() {
    switch (problem_.pass) {
      case Pass::infer:
      case Pass::train:
        return forward();
      case Pass::dgrad:
        return dgrad();
      case Pass::wgrad:
        return wgrad();
    }
    return GPUDNN_STATUS_SUCCESS;
  }

  [[nodiscard]] bool training() const { return problem_.pass != Pass::infer; }
  [[nodiscard]] std::int64_t gates_row() const {
    return std::int64_t{training() ? net_.slots() : net_.gates()} * net_.hidden;
  }
  [[nodiscard]] const void* weight(std::int64_t at) const {
    return at < 0 ? nullptr : element_at(args_.weights, at, bytes_);
  }

  // Sorts the sequences, longest first, and uploads what kernels need to know of that.
  void make_rows() {
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

  [[nodiscard]] kernels::RnnCopy copy_of(std::int64_t width) const {
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
  // Rows of the caller's tensor; gathered into `to` where its layout is another.
  const void* gathered(const void* from, std::int64_t width, void* to) {
    if (direct_) return from;
    stages_.gather(site_, copy_of(width), from, to);
    return to;
  }

  // One step of every sequence: its products with R are as good as those with W, and no sweep is needed. A GRU keeps
  // them apart.
  [[nodiscard]] bool is_one_step() const {
    return stages_.merges_products && rows_.steps == 1 && rows_.offsets == nullptr && !net_.projects() && !net_.skip &&
           net_.cell != GPUDNN_GRU;
  }
  // Layers from `first` on whose matrices lie in like steps: all, or all but the first.
  [[nodiscard]] int first_of_alike() const { return net_.input == net_.output_width() ? 0 : 1; }
  // Products of hx with R for `count` layers, into the place of the gates.
  Status first_state_products(int layer, int count) {
    if (count <= 0 || args_.hx == nullptr) return GPUDNN_STATUS_SUCCESS;
    const std::int64_t gates = std::int64_t{net_.gates()} * net_.hidden;
    const Matrices h = matrices(layer, count, net_.hidden, [&](int l, int k) { return layer_of(l).direction[k].hx; });
    const Matrices r =
        matrices(layer, count, net_.hidden, [&](int l, int k) { return layer_of(l).direction[k].recurrent; });
    const Matrices pre = matrices(layer, count, gates_row(), [&](int l, int k) { return pre_of(l, k); });
    return product({.m = count_,
                    .n = gates,
                    .k = net_.hidden,
                    .a = h.at,
                    .a_strides = {h.row, 1},
                    .b = r.at,
                    .b_strides = {1, r.row},
                    .d = const_cast<void*>(pre.at),  // NOLINT: of the reserve space or the workspace
                    .d_row = pre.row,
                    .counts = {count, net_.directions()},
                    .a_steps = {h.steps[0], h.steps[1]},
                    .b_steps = {r.steps[0], r.steps[1]},
                    .d_steps = {pre.steps[0], pre.steps[1]}});
  }
  // Gradients of hx for `count` layers, from those of their gates.
  Status first_state_gradients(int layer, int count) {
    if (count <= 0 || args_.dhx == nullptr) return GPUDNN_STATUS_SUCCESS;
    const Matrices g = matrices(layer, count, gates_row(), [&](int l, int k) { return pre_of(l, k); });
    const Matrices r =
        matrices(layer, count, net_.hidden, [&](int l, int k) { return layer_of(l).direction[k].recurrent; });
    const Matrices dhx = matrices(layer, count, net_.hidden,
                                  [&](int l, int k) { return static_cast<const void*>(layer_of(l).direction[k].dhx); });
    return product({.m = count_,
                    .n = net_.hidden,
                    .k = std::int64_t{net_.gates()} * net_.hidden,
                    .a = g.at,
                    .a_strides = {g.row, 1},
                    .b = r.at,
                    .b_strides = {r.row, 1},
                    .d = const_cast<void*>(dhx.at),  // NOLINT: the caller's
                    .d_row = dhx.row,
                    .counts = {count, net_.directions()},
                    .a_steps = {g.steps[0], g.steps[1]},
                    .b_steps = {r.steps[0], r.steps[1]},
                    .d_steps = {dhx.steps[0], dhx.steps[1]}});
  }
  // Where the products with the input go.
  [[nodiscard]] const void* pre_of(int layer, int k) const {
    return training() ? layers_[static_cast<std::size_t>(layer)].gates[k] : work_.pre[k];
  }

  // What the passes have in common. The states are those of the layer.
  kernels::RnnLayer layer_of(int layer) const {
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
      const LayerReserve& r = layers_[static_cast<std::size_t>(layer)];
      d.gates = r.gates[k], d.cells = r.cells[k], d.hidden = r.hidden[k], d.dh = r.dh[k];
    }
    return l;
  }
  // Where h of all steps lies.
  [[nodiscard]] void* output_of(int layer) const {
    if (layer == net_.layers - 1 && direct_) return args_.y;
    return training() ? layers_[static_cast<std::size_t>(layer)].y : work_.y[layer % 2];
  }
  // What a layer above the first takes.
  [[nodiscard]] const void* input_of(int layer) const {
    const bool drops = net_.drops() && training();
    return drops ? layers_[static_cast<std::size_t>(layer - 1)].dropped : output_of(layer - 1);
  }

  Status drop(int layer, bool backward, const void* in, void* out) {
    const std::int64_t dims[] = {1, 1, count_, net_.output_width()};
    const TensorGeometry tensor = packed_tensor(net_.type, GPUDNN_TENSOR_NCHW, 4, dims);
    const dropout::Problem problem = {backward, net_.dropout, tensor, tensor};
    const dropout::Args args = {in, out, layers_[static_cast<std::size_t>(layer)].mask, mask_bytes(problem_),
                                backward ? nullptr : args_.dropout_states};
    return dropout::run(site_.handle, problem, args);
  }

  [[nodiscard]] bool pipelines(bool backward) const {
    return stages_.pipelines != nullptr && !is_one_step() && may_pipeline(problem_, problem_.pass) && count_ > 0 &&
           stages_.pipelines(site_, layer_of(0), net_.layers, backward);
  }
  // All layers at once; false: one by one.
  bool forward_pipeline(const void* input, Status* status) {
    std::vector<kernels::RnnLayer> layers;
    for (int layer = 0; layer < net_.layers; ++layer) {
      kernels::RnnLayer l = layer_of(layer);
      kernels::RnnDirection& d = l.direction[0];
      if (!training()) {
        d.cells = element_at(work_.cells[0], std::int64_t{layer} * rows_.batch * net_.hidden, 4);
        if (layer + 1 < net_.layers) d.y = nullptr;
      }
      if (layer > 0) {
        d.across = weight(weight_block(net_, layer).input);
      } else if (net_.has_input_matrix(0)) {
        void* const pre = training() ? d.gates : work_.pre[0];
        d.pre = pre;
        *status = input_product(0, 0, input, pre);
        if (*status != GPUDNN_STATUS_SUCCESS) return true;
      } else {
        d.pre = input;
        l.pre_row = net_.hidden, l.pre_gate = 0;
      }
      layers.push_back(l);
    }
    if (!stages_.pipeline(site_, layers, false)) return false;
    for (const kernels::RnnLayer& l : layers) stages_.pass(site_, l, false);
    if (!direct_) stages_.scatter(site_, copy_of(net_.output_width()), output_of(net_.layers - 1), args_.y);
    return true;
  }
  // Steps [first, first + steps) of a layer of one direction.
  [[nodiscard]] kernels::RnnLayer part_of(kernels::RnnLayer l, std::int32_t first, std::int32_t steps) const {
    kernels::RnnDirection& d = l.direction[0];
    const std::int64_t row = std::int64_t{first} * rows_.batch;
    l.rows.steps = steps;
    d.continues = first > 0;
    d.pre = element_at(d.pre, row * l.pre_row, bytes_);
    d.gates = element_at(d.gates, row * net_.slots() * net_.hidden, bytes_);
    if (l.keeps_cells) d.cells = element_at(d.cells, row * net_.hidden, 4);
    d.y = element_at(d.y, row * l.y_row, bytes_);
    d.dy = element_at(d.dy, row * l.y_row, bytes_);
    return l;
  }
  [[nodiscard]] kernels::RnnLayer forward_part(const kernels::RnnLayer& layer, int lane, std::int32_t first,
                                               std::int32_t steps) const {
    kernels::RnnLayer l = part_of(layer, first, steps);
    kernels::RnnDirection& d = l.direction[0];
    float* const state = static_cast<float*>(element_at(work_.cells[0], lane * rows_.batch * net_.hidden, 4));
    const std::int64_t state_size = std::int64_t{rows_.batch} * net_.hidden;
    if (first > 0) {
      d.hx = static_cast<const char*>(d.y) - state_size * bytes_;
      if (net_.cell == GPUDNN_LSTM) d.c_first = training() ? static_cast<const float*>(d.cells) - state_size : state;
    }
    if (first + steps < rows_.steps) {
      d.hy = d.cy = nullptr;
      if (!training() && net_.cell == GPUDNN_LSTM) d.c_last = state;
    }
    return l;
  }
  [[nodiscard]] kernels::RnnLayer backward_part(const kernels::RnnLayer& layer, int lane, std::int32_t first,
                                                std::int32_t steps) const {
    kernels::RnnLayer l = part_of(layer, first, steps);
    kernels::RnnDirection& d = l.direction[0];
    if (first + steps < rows_.steps) {
      d.dhy = work_.dh_part[lane];
      if (net_.cell == GPUDNN_LSTM) d.c_first = static_cast<const float*>(work_.carry_c[lane]);
    }
    // The launch that makes dhx makes that of both lanes: of the upper layer it may be one that nobody asked for.
    if (first > 0 || (d.dhx == nullptr && lane == 0)) d.dhx = work_.dh_part[lane];
    if (first > 0) {
      d.dcx = nullptr;
      if (net_.cell == GPUDNN_LSTM) d.c_last = static_cast<float*>(work_.carry_c[lane]);
    }
    return l;
  }
  [[nodiscard]] int parts_of_pair(int layer, bool backward) const {
    if (stages_.parts_of_pair == nullptr || layer < 0 || layer + 1 >= net_.layers || is_one_step() || count_ == 0) {
      return 0;
    }
    const bool may = may_pair(problem_, problem_.pass) && rows_.offsets == nullptr;
    return may ? stages_.parts_of_pair(site_, layer_of(layer), backward) : 0;
  }
  // Parts of as many steps of two layers as two lanes of one launch, or of one layer alone.
  bool run_parts(const kernels::RnnLayer* first, const kernels::RnnLayer* second, bool backward) {
    kernels::RnnLayer both = first != nullptr ? *first : *second;
    if (first != nullptr && second != nullptr) {
      both.directions = 2;
      both.direction[1] = second->direction[0];
    }
    return stages_.part(site_, both, backward);
  }
  static Status part_refused() { return GPUDNN_STATUS_EXECUTION_FAILED; }
  // Layers `layer` and `layer` + 1. False in `ran`: nothing has been done that is in the way.
  Status forward_pair(int layer, const void* input, int parts, bool* ran) {
    kernels::RnnLayer layers[2] = {layer_of(layer), layer_of(layer + 1)};
    for (int i = 0; i < 2; ++i) {
      kernels::RnnDirection& d = layers[i].direction[0];
      if (!training()) d.cells = nullptr;
      d.pre = pre_of(layer + i, 0);
    }
    *ran = false;
    const std::int32_t steps = (rows_.steps + parts - 1) / parts;
    GPUDNN_TRY(input_product(layer, 0, input, const_cast<void*>(pre_of(layer, 0))));  // NOLINT: the call's memory
    for (std::int32_t lower = 0, upper = 0; upper < rows_.steps;) {
      const std::int32_t next = std::min(steps, rows_.steps - lower);
      const std::int32_t behind = next > 0 ? std::min(next, lower - upper) : lower - upper;
      kernels::RnnLayer part[2];
      if (next > 0) part[0] = forward_part(layers[0], 0, lower, next);
      if (behind > 0) {
        part[1] = forward_part(layers[1], 1, upper, behind);
        const std::int64_t row = std::int64_t{upper} * rows_.batch;
        GPUDNN_TRY(input_product(layer + 1, 0, element_at(output_of(layer), row * net_.projected, bytes_),
                                 const_cast<void*>(part[1].direction[0].pre), false,  // NOLINT: the call's memory
                                 std::int64_t{behind} * rows_.batch));
      }
      if (!run_parts(next > 0 ? &part[0] : nullptr, behind > 0 ? &part[1] : nullptr, false)) {
        return *ran ? part_refused() : GPUDNN_STATUS_SUCCESS;
      }
      *ran = true;
      lower += next, upper += behind;
    }
    return GPUDNN_STATUS_SUCCESS;
  }
  // Layers `layer` and `layer` - 1; the upper one's gradients of the input go to `between`.
  Status backward_pair(int layer, const void* dy, void* between, int parts, bool* ran) {
    kernels::RnnLayer layers[2] = {gradient_layer(layer, dy), gradient_layer(layer - 1, between, 1)};
    *ran = false;
    const std::int32_t steps = (rows_.steps + parts - 1) / parts;
    // Each layer has the steps from here on behind it.
    for (std::int32_t upper = rows_.steps, lower = rows_.steps; lower > 0;) {
      const std::int32_t next = std::min(steps, upper);
      const std::int32_t behind = next > 0 ? std::min(next, lower - upper) : lower - upper;
      kernels::RnnLayer part[2];
      if (next > 0) part[0] = backward_part(layers[0], 0, upper - next, next);
      if (behind > 0) {
        GPUDNN_TRY(input_gradient(layer, between, std::int64_t{lower - behind} * rows_.batch,
                                  std::int64_t{behind} * rows_.batch));
        part[1] = backward_part(layers[1], 1, lower - behind, behind);
      }
      if (!run_parts(next > 0 ? &part[0] : nullptr, behind > 0 ? &part[1] : nullptr, true)) {
        return *ran ? part_refused() : GPUDNN_STATUS_SUCCESS;
      }
      *ran = true;
      upper -= next, lower -= behind;
    }
    return GPUDNN_STATUS_SUCCESS;
  }
  Status forward() {
    const void* input = count_ > 0 ? gathered(args_.x, net_.input, work_.x) : nullptr;
    if (pipelines(false)) {
      Status status = GPUDNN_STATUS_SUCCESS;
      if (forward_pipeline(input, &status)) return status;
    }
    const bool one_step = is_one_step();
    const int alike = one_step && training() ? first_of_alike() : net_.layers;
    if (one_step && training()) GPUDNN_TRY(first_state_products(alike, net_.layers - alike));
    for (int layer = 0; layer < net_.layers; ++layer) {
      if (layer > 0) input = input_of(layer);
      if (const int parts = parts_of_pair(layer, false); parts > 0) {
        bool ran = false;
        GPUDNN_TRY(forward_pair(layer, input, parts, &ran));
        if (ran) {
          ++layer;
          continue;
        }
      }
      kernels::RnnLayer l = layer_of(layer);
      for (int k = 0; k < l.directions; ++k) {
        kernels::RnnDirection& d = l.direction[k];
        if (!training()) d.cells = work_.cells[k], d.hidden = work_.hidden[k];
        void* const pre = training() ? d.gates : work_.pre[k];
        d.pre = net_.has_input_matrix(layer) ? pre : input;
        if (one_step && layer < alike && k == 0) GPUDNN_TRY(first_state_products(layer, 1));
        if (net_.has_input_matrix(layer)) {
          GPUDNN_TRY(input_product(layer, k, input, pre, one_step && args_.hx != nullptr));
        }
        if (one_step) d.hx = nullptr;  // it has come in
      }
      if (!net_.has_input_matrix(layer)) l.pre_row = net_.hidden, l.pre_gate = 0;
      if (count_ > 0) stages_.forward(site_, l);
      stages_.pass(site_, l, false);
      if (net_.drops() && training() && layer + 1 < net_.layers && count_ > 0) {
        GPUDNN_TRY(drop(layer, false, output_of(layer), layers_[static_cast<std::size_t>(layer)].dropped));
      }
    }
    if (!direct_) stages_.scatter(site_, copy_of(net_.output_width()), output_of(net_.layers - 1), args_.y);
    return GPUDNN_STATUS_SUCCESS;
  }
  Status input_product(int layer, int k, const void* input, void* pre, bool adds = false, std::int64_t rows = -1) {
    const std::int64_t width = net_.input_width(layer);
    const std::int64_t gates = std::int64_t{net_.gates()} * net_.hidden;
    return product({.m = rows < 0 ? count_ : rows,
                    .n = gates,
                    .k = width,
                    .a = input,
                    .a_strides = {width, 1},
                    .b = weight(weight_block(net_, layer * net_.directions() + k).input),
                    .b_strides = {1, width},
                    .d = pre,
                    .d_row = gates_row(),
                    .adds = adds});
  }
  Status product(Product p) {
    p.type = net_.type;
    p.math = net_.math;
    return p.m == 0 || p.n == 0 || p.k == 0 ? GPUDNN_STATUS_SUCCESS : stages_.product(site_, p);
  }

  Status dgrad() {
    int free = 0;  // which of work_.d takes the next gradient
    const void* dy = args_.dy;
    if (!direct_ && count_ > 0) {
      dy = gathered(args_.dy, net_.output_width(), work_.d[0]);
      free = 1;
    }
    if (pipelines(true) && backward_pipeline(dy)) {
      GPUDNN_TRY(input_gradient(0, direct_ ? args_.dx : work_.x));
      if (!direct_) stages_.scatter(site_, copy_of(net_.input), work_.x, args_.dx);
      return GPUDNN_STATUS_SUCCESS;
    }
    for (int layer = net_.layers - 1; layer >= 0; --layer) {
      if (const int parts = parts_of_pair(layer - 1, true); parts > 0) {
        bool ran = false;
        GPUDNN_TRY(backward_pair(layer, dy, work_.d[free], parts, &ran));
        if (ran) {
          --layer;
          free = 1 - free;
          void* const dx = layer > 0 ? work_.d[free] : direct_ ? args_.dx : work_.x;
          GPUDNN_TRY(input_gradient(layer, dx));
          dy = dx;
          free = 1 - free;
          continue;
        }
      }
      const kernels::RnnLayer l = gradient_layer(layer, dy);
      if (count_ > 0) stages_.backward(site_, l);
      stages_.pass(site_, l, true);
      void* const dx = layer > 0 ? work_.d[free] : direct_ ? args_.dx : work_.x;
      if (count_ > 0) GPUDNN_TRY(input_gradient(layer, dx));
      dy = dx;
      free = 1 - free;
      if (layer > 0 && net_.drops() && count_ > 0) {
        GPUDNN_TRY(drop(layer - 1, true, dx, work_.d[free]));
        dy = work_.d[free];
        free = 1 - free;
      }
    }
    if (is_one_step()) {
      const int alike = first_of_alike();
      GPUDNN_TRY(first_state_gradients(0, alike));
      GPUDNN_TRY(first_state_gradients(alike, net_.layers - alike));
    }
    if (!direct_) stages_.scatter(site_, copy_of(net_.input), work_.x, args_.dx);
    return GPUDNN_STATUS_SUCCESS;
  }
  // All layers at once; false: one by one.
  bool backward_pipeline(const void* dy) {
    const std::int64_t gates = std::int64_t{net_.gates()} * net_.hidden;
    const std::int64_t size = gates * net_.hidden;
    std::vector<kernels::RnnLayer> layers;
    for (int layer = 0; layer < net_.layers; ++layer) {
      kernels::RnnLayer l = layer_of(layer);
      kernels::RnnDirection& d = l.direction[0];
      d.carry_c = element_at(work_.carry_c[0], std::int64_t{layer} * rows_.batch * net_.hidden, 4);
      void* const recurrent_t = element_at(work_.pipeline_t, 2 * layer * size, bytes_);
      stages_.transpose(site_, l.type, d.recurrent, gates, net_.hidden, recurrent_t);
      d.recurrent_t = recurrent_t;
      if (layer + 1 < net_.layers) {
        void* const across = element_at(work_.pipeline_t, (2 * layer + 1) * size, bytes_);
        stages_.transpose(site_, l.type, weight(weight_block(net_, layer + 1).input), gates, net_.hidden, across);
        d.across = across;
      } else {
        d.dy = dy;
      }
      layers.push_back(l);
    }
    if (!stages_.pipeline(site_, layers, true)) return false;
    for (const kernels::RnnLayer& l : layers) stages_.pass(site_, l, true);
    return true;
  }
  // `place`: of what it takes of the workspace.
  kernels::RnnLayer gradient_layer(int layer, const void* dy, int place = 0) {
    kernels::RnnLayer l = layer_of(layer);
    for (int k = 0; k < l.directions; ++k) {
      kernels::RnnDirection& d = l.direction[k];
      d.dy = element_at(dy, std::int64_t{k} * net_.projected, bytes_);
      d.carry_c = work_.carry_c[k + place];
      d.carry_h = work_.carry_h[k + place];
      if (is_one_step()) {
        d.dhx = nullptr;  // products of all layers give it
        continue;
      }
      d.recurrent_t = work_.recurrent_t[k + place];
      stages_.transpose(site_, l.type, d.recurrent, std::int64_t{net_.gates()} * net_.hidden, net_.projected,
                        work_.recurrent_t[k + place]);
      if (d.projection == nullptr) continue;
      d.projection_t = work_.projection_t[k];
      stages_.transpose(site_, l.type, d.projection, net_.projected, net_.hidden, work_.projection_t[k]);
    }
    return l;
  }
  Status input_gradient(int layer, void* all, std::int64_t first = 0, std::int64_t rows = -1) {
    if (rows < 0) rows = count_;
    const std::int64_t width = net_.input_width(layer);
    const LayerReserve& r = layers_[static_cast<std::size_t>(layer)];
    void* const dx = element_at(all, first * width, bytes_);
    for (int k = 0; k < net_.directions(); ++k) {
      const void* const gates = element_at(r.gates[k], first * gates_row(), bytes_);
      if (!net_.has_input_matrix(layer)) {
        stages_.gate_sum(site_, {.type = element_type(net_.type),
                                 .gates = gates,
                                 .row_stride = gates_row(),
                                 .gate_count = net_.gates(),
                                 .units = net_.hidden,
                                 .rows = rows,
                                 .to = dx,
                                 .adds = k > 0});
        continue;
      }
      GPUDNN_TRY(product({.m = rows,
                          .n = width,
                          .k = std::int64_t{net_.gates()} * net_.hidden,
                          .a = gates,
                          .a_strides = {gates_row(), 1},
                          .b = weight(weight_block(net_, layer * net_.directions() + k).input),
                          .b_strides = {width, 1},
                          .d = dx,
                          .d_row = width,
                          .adds = k > 0}));
    }
    return GPUDNN_STATUS_SUCCESS;
  }

  Status wgrad() {
    if (count_ == 0) {
      if (problem_.adds) return GPUDNN_STATUS_SUCCESS;
      return stages_.clear(site_, args_.dweights, static_cast<std::size_t>(weight_count(net_) * bytes_));
    }
    const void* const input = gathered(args_.x, net_.input, work_.x);
    const int lanes = net_.pseudo_layers();
    for (int first = 0; first < lanes; first += kernels::kRnnLanes) {
      over_lanes(first, std::min(lanes - first, kernels::kRnnLanes));
    }
    if (pads()) {
      for (int layer = 0; layer < net_.layers; ++layer) {
        GPUDNN_TRY(padded_gradients(layer, layer == 0 ? input : input_of(layer)));
      }
      return GPUDNN_STATUS_SUCCESS;
    }
    const int first = merges_weights() ? first_of_alike() : net_.layers;
    for (int layer = first; layer < net_.layers; ++layer) {
      GPUDNN_TRY(stages_.copy(site_, layer == 0 ? input : input_of(layer), input_copy(layer),
                              static_cast<std::size_t>(count_ * net_.projected * bytes_)));
    }
    if (first < net_.layers) GPUDNN_TRY(merged_gradients(first, net_.layers - first));
    if (first > 0) GPUDNN_TRY(matrix_gradients(0, 1, input));
    return first > 1 && net_.layers > 1 ? matrix_gradients(1, net_.layers - 1, input_of(1)) : GPUDNN_STATUS_SUCCESS;
  }
  // The gradients of both matrices of like layers in one product, where one for each would leave multiprocessors idle:
  // inputs are copied to where h one step back lies.
  [[nodiscard]] bool merges_weights() const {
    constexpr std::int64_t kEnough = 100 * 128 * 256;  // elements of a product that keeps the device busy
    constexpr std::int64_t kFew = 512;                 // rows of one that is over before the next has begun
    return stages_.merges_products && merges_weight_products(net_) &&
           (net_.hidden * net_.gates() * std::int64_t{net_.projected} < kEnough || count_ <= kFew);
  }
  [[nodiscard]] void* input_copy(int layer) const {
    return element_at(work_.inputs, std::int64_t{layer} * count_ * net_.projected, bytes_);
  }
  Status merged_gradients(int layer, int count) {
    const std::int64_t hidden = net_.hidden;
    const std::int64_t size = count_ * net_.projected;
    // Rows [from, from + m) of both matrices, from slots of the gates.
    const auto product_of = [&](std::int64_t from, std::int64_t m, std::int64_t slot, std::int64_t recurrent_slot) {
      const auto gates = [&](int l) { return layers_[static_cast<std::size_t>(l)].gates[0]; };
      const auto at = [&](int l, std::int64_t WeightBlock::*member) { return weight_block(net_, l).*member; };
      const std::int64_t next = count > 1 ? layer + 1 : layer;
      return rows_product(
          {.m = m,
           .n = net_.projected,
           .k = count_,
           .a = element_at(gates(layer), slot * hidden, bytes_),
           .a_strides = {1, gates_row()},
           .b = input_copy(layer),
           .b_strides = {net_.projected, 1},
           .d = gradient(at(layer, &WeightBlock::input) + from * net_.projected),
           .d_row = net_.projected,
           .counts = {count, 2},
           .a_steps = {distance(gates(layer), gates(static_cast<int>(next))), (recurrent_slot - slot) * hidden},
           .b_steps = {size, distance(work_.inputs, work_.previous)},
           .d_steps = {at(static_cast<int>(next), &WeightBlock::input) - at(layer, &WeightBlock::input),
                       at(layer, &WeightBlock::recurrent) - at(layer, &WeightBlock::input)},
           .adds = problem_.adds});
    };
    if (net_.cell != GPUDNN_GRU) return product_of(0, net_.gates() * hidden, 0, 0);
    GPUDNN_TRY(product_of(0, 2 * hidden, 0, 0));
    return product_of(2 * hidden, hidden, 2, 3);
  }
  [[nodiscard]] bool pads() const { return stages_.pad != nullptr && pads_weight_products(problem_); }
  [[nodiscard]] std::int64_t previous_row() const { return pads() ? whole_row(net_.projected) : net_.projected; }
  void pad(const void* from, std::int64_t from_row, std::int64_t width, void* to, std::int64_t to_row) {
    stages_.pad(site_, {.type = element_type(net_.type),
                        .from = from,
                        .from_row = from_row,
                        .width = width,
                        .to = to,
                        .to_row = to_row,
                        .to_width = to_row,
                        .rows = count_});
  }
  // Of one layer, from copies where rows are not whole vectors: of the input, of the gates, and h one step back.
  Status padded_gradients(int layer, const void* input) {
    const std::int64_t hidden = net_.hidden;
    const int directions = net_.directions();
    const bool gru = net_.cell == GPUDNN_GRU;
    const auto skip = [&](const void* at, std::int64_t elements) { return element_at(at, elements, bytes_); };
    Matrices x = {input, net_.input_width(layer)};
    const bool copies_x = whole_row(x.row) != x.row || reinterpret_cast<std::uintptr_t>(input) % 16 != 0;
    if (net_.has_input_matrix(layer) && copies_x) {
      pad(input, x.row, x.row, work_.inputs, whole_row(x.row));
      x = {work_.inputs, whole_row(x.row)};
    }
    const void* h[kMaxDirections] = {};
    const void* gates[kMaxDirections] = {};
    const bool copies_gates = whole_row(gates_row()) != gates_row() || (gru && hidden % 8 != 0);
    const std::int64_t row = copies_gates ? padded_slot(net_, net_.slots()) : gates_row();
    const auto slot = [&](int i) { return copies_gates ? padded_slot(net_, i) : i * hidden; };
    for (int k = 0; k < directions; ++k) {
      h[k] = skip(work_.previous, (std::int64_t{layer} * directions + k) * count_ * previous_row());
      gates[k] = layers_[static_cast<std::size_t>(layer)].gates[k];
      if (!copies_gates) continue;
      char* const to = static_cast<char*>(work_.padded_gates[k]);
      // Of a GRU slots 0 and 1, 2, 3; zeros up to the next.
      const int ends[] = {gru ? 2 : net_.slots(), 3, 4};
      int from = 0;
      for (const int end : ends) {
        if (end > net_.slots() || end <= from) break;
        copy_slots(gates[k], from, end, to, slot(from), slot(end) - slot(from), row);
        from = end;
      }
      gates[k] = to;
    }
    const auto at = [&](int k, std::int64_t WeightBlock::*member) {
      return weight_block(net_, layer * directions + k).*member;
    };
    // Rows [from, from + m) of the matrices of the input and of h, from one slot of each: both at once where they are
    // alike, else those of both directions.
    const std::int64_t between = directions > 1 ? distance(gates[0], gates[1]) : 0;
    const auto products = [&](std::int64_t from, std::int64_t m, int x_slot, int h_slot) {
      Product p{.m = m,
                .n = net_.projected,
                .k = count_,
                .a_strides = {1, row},
                .b_strides = {previous_row(), 1},
                .adds = problem_.adds};
      p.counts[1] = directions, p.a_steps[1] = between;
      p.a = skip(gates[0], slot(h_slot));
      p.b = h[0], p.b_steps[1] = directions > 1 ? distance(h[0], h[1]) : 0;
      p.d = gradient(at(0, &WeightBlock::recurrent) + from * p.n), p.d_row = p.n;
      if (directions > 1) p.d_steps[1] = at(1, &WeightBlock::recurrent) - at(0, &WeightBlock::recurrent);
      if (!net_.has_input_matrix(layer)) return product(p);
      const std::int64_t n = net_.input_width(layer);
      if (directions == 1 && n == p.n && x.at == work_.inputs) {  // which lie before h, as W does before R
        p.counts[1] = 2;
        p.a = skip(gates[0], slot(x_slot)), p.a_steps[1] = slot(h_slot) - slot(x_slot);
        p.b = x.at, p.b_steps[1] = distance(x.at, h[0]);
        p.d = gradient(at(0, &WeightBlock::input) + from * n);
        p.d_steps[1] = at(0, &WeightBlock::recurrent) - at(0, &WeightBlock::input);
        return product(p);
      }
      GPUDNN_TRY(product(p));
      p.n = n;
      p.a = skip(gates[0], slot(x_slot));
      p.b = x.at, p.b_strides[0] = x.row, p.b_steps[1] = 0;
      p.d = gradient(at(0, &WeightBlock::input) + from * n), p.d_row = n;
      if (directions > 1) p.d_steps[1] = at(1, &WeightBlock::input) - at(0, &WeightBlock::input);
      return product(p);
    };
    if (!gru) return products(0, net_.gates() * hidden, 0, 0);
    GPUDNN_TRY(products(0, 2 * hidden, 0, 0));
    return products(2 * hidden, hidden, 2, 3);
  }
  // Slots [from, end) of the gates to `at` of rows that are `row` elements apart, with zeros up to `width` elements.
  void copy_slots(const void* gates, int from, int end, void* to, std::int64_t at, std::int64_t width,
                  std::int64_t row) {
    stages_.pad(site_, {.type = element_type(net_.type),
                        .from = element_at(gates, from * std::int64_t{net_.hidden}, bytes_),
                        .from_row = gates_row(),
                        .width = (end - from) * std::int64_t{net_.hidden},
                        .to = element_at(to, at, bytes_),
                        .to_row = row,
                        .to_width = width,
                        .rows = count_});
  }
  // What is done for each pseudo-layer alike: h one step back, and the gradients of the biases.
  void over_lanes(int first, int count) {
    kernels::RnnPrevious previous;
    previous.layer = layer_of(0);
    previous.lanes = count;
    const bool gru = net_.cell == GPUDNN_GRU;
    kernels::RnnColumnSums sums;
    sums.type = element_type(net_.type);
    sums.lanes = count;
    sums.stride = gates_row();
    sums.rows = count_;
    sums.columns = net_.slots() * net_.hidden;
    sums.skip_from = 2 * net_.hidden;
    sums.skip = gru ? net_.hidden : 0;
    sums.adds = problem_.adds;
    sums.partials = work_.partials;
    for (int i = 0; i < count; ++i) {
      const int pseudo = first + i;
      const WeightBlock block = weight_block(net_, pseudo);
      const kernels::RnnLayer l = layer_of(pseudo / net_.directions());
      previous.lane[i] = l.direction[pseudo % net_.directions()];
      sums.lane[i] = {previous.lane[i].gates, gradient(block.input_bias), gradient(block.hidden_bias)};
    }
    stages_.previous(site_, previous, element_at(work_.previous, first * count_ * previous_row(), bytes_),
                     previous_row());
    if (net_.bias != GPUDNN_RNN_NO_BIAS) stages_.column_sums(site_, sums);
  }
  [[nodiscard]] void* gradient(std::int64_t at) const {
    return at < 0 ? nullptr : element_at(args_.dweights, at, bytes_);
  }
  // A matrix of each direction of `count` layers from `layer` on, one behind the other in like steps.
  struct Matrices {
    const void* at = nullptr;
    std::int64_t row = 0;
    std::int64_t steps[2] = {};  // from layer to layer, and from direction to direction
  };
  [[nodiscard]] std::int64_t distance(const void* from, const void* to) const {
    return (static_cast<const char*>(to) - static_cast<const char*>(from)) / bytes_;
  }
  // of(layer, direction) is where the matrix lies.
  template <class Of>
  Matrices matrices(int layer, int count, std::int64_t row, const Of& of) const {
    Matrices m = {of(layer, 0), row};
    if (count > 1) m.steps[0] = distance(m.at, of(layer + 1, 0));
    if (net_.bidirectional) m.steps[1] = distance(m.at, of(layer, 1));
    return m;
  }
  // A product over the rows: where it would leave multiprocessors idle, in slices that are added.
  Status rows_product(const Product& p) {
    const std::int64_t size = p.m * p.n;
    std::int64_t slices = 1;
    if (stages_.slices != nullptr && work_.slices_room > 0 && size > 0) {
      slices = std::min<std::int64_t>(most_weight_slices(problem_, p.m, p.n), work_.slices_room / (size * p.counts[1]));
      while (slices > 1 && p.k % slices != 0) --slices;
    }
    if (slices <= 1) return product(p);
    for (std::int64_t layer = 0; layer < p.counts[0]; ++layer) {
      Product q = p;
      q.k = p.k / slices;
      q.counts[0] = slices;
      q.a = element_at(p.a, layer * p.a_steps[0], bytes_), q.a_steps[0] = q.k * p.a_strides[1];
      q.b = element_at(p.b, layer * p.b_steps[0], bytes_), q.b_steps[0] = q.k * p.b_strides[0];
      q.d = work_.slices, q.d_row = p.n, q.d_steps[0] = p.counts[1] * size, q.d_steps[1] = size;
      q.adds = false;
      GPUDNN_TRY(product(q));
      for (std::int64_t i = 0; i < p.counts[1]; ++i) {
        stages_.slices(site_, {.from = work_.slices + i * size,
                               .stride = q.d_steps[0],
                               .slices = static_cast<std::int32_t>(slices),
                               .count = size,
                               .to = static_cast<float*>(p.d) + layer * p.d_steps[0] + i * p.d_steps[1],
                               .adds = p.adds});
      }
    }
    return GPUDNN_STATUS_SUCCESS;
  }
  // [m, n] (+)= the sum over the rows of a[row, m] b[row, n].
  Status over_rows(int count, const Matrices& d, std::int64_t m, const Matrices& a, const Matrices& b, std::int64_t n) {
    return rows_product({.m = m,
                         .n = n,
                         .k = count_,
                         .a = a.at,
                         .a_strides = {1, a.row},
                         .b = b.at,
                         .b_strides = {b.row, 1},
                         .d = const_cast<void*>(d.at),  // NOLINT: of dweights
                         .d_row = d.row,
                         .counts = {count, net_.directions()},
                         .a_steps = {a.steps[0], a.steps[1]},
                         .b_steps = {b.steps[0], b.steps[1]},
                         .d_steps = {d.steps[0], d.steps[1]},
                         .adds = problem_.adds});
  }
  Status matrix_gradients(int layer, int count, const void* input) {
    const std::int64_t hidden = net_.hidden;
    const std::int64_t gates = net_.gates() * hidden;
    const auto reserve = [&](int l) -> const LayerReserve& { return layers_[static_cast<std::size_t>(l)]; };
    // Of dweights, by the member of its block.
    const auto gradients = [&](std::int64_t WeightBlock::*member, std::int64_t row, std::int64_t skip) {
      return matrices(layer, count, row, [&](int l, int k) {
        return static_cast<const void*>(gradient(weight_block(net_, l * net_.directions() + k).*member + skip));
      });
    };
    const auto slots = [&](std::int64_t slot) {
      return matrices(layer, count, gates_row(), [&](int l, int k) {
        return element_at(static_cast<const void*>(reserve(l).gates[k]), slot * hidden, bytes_);
      });
    };
    if (net_.has_input_matrix(layer)) {
      Matrices x =
          matrices(layer, count, net_.input_width(layer), [&](int l, int) { return l == layer ? input : input_of(l); });
      x.steps[1] = 0;
      GPUDNN_TRY(over_rows(count, gradients(&WeightBlock::input, x.row, 0), gates, slots(0), x, x.row));
    }
    const Matrices h = matrices(layer, count, net_.projected, [&](int l, int k) {
      return element_at(static_cast<const void*>(work_.previous),
                        (std::int64_t{l} * net_.directions() + k) * count_ * net_.projected, bytes_);
    });
    // Of a GRU the third recurrent matrix has gradients of its own, in the fourth slot.
    const std::int64_t first = net_.cell == GPUDNN_GRU ? 2 * hidden : gates;
    GPUDNN_TRY(
        over_rows(count, gradients(&WeightBlock::recurrent, net_.projected, 0), first, slots(0), h, net_.projected));
    if (first < gates) {
      GPUDNN_TRY(over_rows(count, gradients(&WeightBlock::recurrent, net_.projected, first * net_.projected), hidden,
                           slots(3), h, net_.projected));
    }
    if (!net_.projects()) return GPUDNN_STATUS_SUCCESS;
    const Matrices dh = matrices(layer, count, net_.projected,
                                 [&](int l, int k) { return static_cast<const void*>(reserve(l).dh[k]); });
    const Matrices kept =
        matrices(layer, count, hidden, [&](int l, int k) { return static_cast<const void*>(reserve(l).hidden[k]); });
    return over_rows(count, gradients(&WeightBlock::projection, hidden, 0), net_.projected, dh, kept, hidden);
  }

  const Stages& stages_;
  const Problem& problem_;
  const Network& net_;
  const Args& args_;
  Status failure_ = GPUDNN_STATUS_SUCCESS;
  Site site_;
  std::int64_t bytes_;  // of an element
  bool direct_;
  Workspace work_;
  std::vector<LayerReserve> layers_;
  kernels::RnnRows rows_;
  std::int64_t count_ = 0;  // of rows
  std::vector<std::int32_t> table_;
};

}  // namespace

Status run_stages(const Stages& stages, const LaunchSite& site, const Problem& problem, const Args& args) {
  return Call(stages, site, problem, args).run();
}

}  // namespace gpudnn::rnn
