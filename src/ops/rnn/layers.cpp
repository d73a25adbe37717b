// A recurrent network's three calls as stages: what is done in which order, and on which memory.
// SPDX-License-Identifier: Apache-2.0
//
// Forward, for each layer: the products of all steps with W, into the place of the gates; the sweeps, which multiply
// with R step by step; dropout. Gradients of data, from the last layer: the sweeps against the steps, which leave the
// gradients of the gates in their place; their product with W. Gradients of weights: one product over all rows for each
// W and R, and sums over rows for the biases.
#include <algorithm>
#include <numeric>

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
        site_{site, args.handle, nullptr, 0, nullptr},
        bytes_(data_type_bits(problem.net.type) / 8),
        direct_(problem.sequences.direct()) {
    Regions regions(args.workspace);
    work_ = take_workspace(problem, problem.pass, &regions);
    site_.flags = work_.flags;
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

 private:
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

  Status forward() {
    const void* input = count_ > 0 ? gathered(args_.x, net_.input, work_.x) : nullptr;
    for (int layer = 0; layer < net_.layers; ++layer) {
      if (layer > 0) input = input_of(layer);
      kernels::RnnLayer l = layer_of(layer);
      for (int k = 0; k < l.directions; ++k) {
        kernels::RnnDirection& d = l.direction[k];
        if (!training()) d.cells = work_.cells[k], d.hidden = work_.hidden[k];
        void* const pre = training() ? d.gates : work_.pre[k];
        d.pre = net_.has_input_matrix(layer) ? pre : input;
        if (net_.has_input_matrix(layer)) GPUDNN_TRY(input_product(layer, k, input, pre));
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
  Status input_product(int layer, int k, const void* input, void* pre) {
    const std::int64_t width = net_.input_width(layer);
    const std::int64_t gates = std::int64_t{net_.gates()} * net_.hidden;
    return product({.m = count_,
                    .n = gates,
                    .k = width,
                    .a = input,
                    .a_strides = {width, 1},
                    .b = weight(weight_block(net_, layer * net_.directions() + k).input),
                    .b_strides = {1, width},
                    .d = pre,
                    .d_row = gates_row()});
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
    for (int layer = net_.layers - 1; layer >= 0; --layer) {
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
    if (!direct_) stages_.scatter(site_, copy_of(net_.input), work_.x, args_.dx);
    return GPUDNN_STATUS_SUCCESS;
  }
  kernels::RnnLayer gradient_layer(int layer, const void* dy) {
    kernels::RnnLayer l = layer_of(layer);
    for (int k = 0; k < l.directions; ++k) {
      kernels::RnnDirection& d = l.direction[k];
      d.dy = element_at(dy, std::int64_t{k} * net_.projected, bytes_);
      d.carry_c = work_.carry_c[k];
      d.carry_h = work_.carry_h[k];
      d.recurrent_t = work_.recurrent_t[k];
      stages_.transpose(site_, l.type, d.recurrent, std::int64_t{net_.gates()} * net_.hidden, net_.projected,
                        work_.recurrent_t[k]);
      if (d.projection == nullptr) continue;
      d.projection_t = work_.projection_t[k];
      stages_.transpose(site_, l.type, d.projection, net_.projected, net_.hidden, work_.projection_t[k]);
    }
    return l;
  }
  Status input_gradient(int layer, void* dx) {
    const std::int64_t width = net_.input_width(layer);
    const LayerReserve& r = layers_[static_cast<std::size_t>(layer)];
    for (int k = 0; k < net_.directions(); ++k) {
      if (!net_.has_input_matrix(layer)) {
        stages_.gate_sum(site_, {.type = element_type(net_.type),
                                 .gates = r.gates[k],
                                 .row_stride = gates_row(),
                                 .gate_count = net_.gates(),
                                 .units = net_.hidden,
                                 .rows = count_,
                                 .to = dx,
                                 .adds = k > 0});
        continue;
      }
      GPUDNN_TRY(product({.m = count_,
                          .n = width,
                          .k = std::int64_t{net_.gates()} * net_.hidden,
                          .a = r.gates[k],
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
    const void* input = gathered(args_.x, net_.input, work_.x);
    for (int layer = 0; layer < net_.layers; ++layer) {
      if (layer > 0) input = input_of(layer);
      const kernels::RnnLayer l = layer_of(layer);
      for (int k = 0; k < l.directions; ++k) {
        const WeightBlock block = weight_block(net_, layer * l.directions + k);
        GPUDNN_TRY(matrix_gradients(l, k, block, input, net_.input_width(layer)));
        if (net_.bias == GPUDNN_RNN_NO_BIAS) continue;
        const bool gru = net_.cell == GPUDNN_GRU;
        stages_.column_sums(site_, {.type = l.type,
                                    .matrix = l.direction[k].gates,
                                    .stride = gates_row(),
                                    .rows = count_,
                                    .columns = net_.slots() * net_.hidden,
                                    .skip_from = 2 * net_.hidden,
                                    .skip = gru ? net_.hidden : 0,
                                    .out = gradient(block.input_bias),
                                    .out2 = gradient(block.hidden_bias),
                                    .adds = problem_.adds,
                                    .partials = work_.partials});
      }
    }
    return GPUDNN_STATUS_SUCCESS;
  }
  [[nodiscard]] void* gradient(std::int64_t at) const {
    return at < 0 ? nullptr : element_at(args_.dweights, at, bytes_);
  }
  // [m, n] (+)= the sum over the rows of a[row, m] b[row, n].
  Status over_rows(void* d, const void* a, std::int64_t a_row, std::int64_t m, const void* b, std::int64_t n) {
    return product({.m = m,
                    .n = n,
                    .k = count_,
                    .a = a,
                    .a_strides = {1, a_row},
                    .b = b,
                    .b_strides = {n, 1},
                    .d = d,
                    .d_row = n,
                    .adds = problem_.adds});
  }
  Status matrix_gradients(const kernels::RnnLayer& l, int k, const WeightBlock& block, const void* input,
                          std::int64_t width) {
    const kernels::RnnDirection& d = l.direction[k];
    const std::int64_t hidden = net_.hidden;
    const std::int64_t gates = net_.gates() * hidden;
    if (block.input >= 0) {
      GPUDNN_TRY(over_rows(gradient(block.input), d.gates, gates_row(), gates, input, width));
    }
    stages_.previous(site_, l, k, work_.previous);
    // Of a GRU the third recurrent matrix has gradients of its own, in the fourth slot.
    const std::int64_t first = net_.cell == GPUDNN_GRU ? 2 * hidden : gates;
    GPUDNN_TRY(over_rows(gradient(block.recurrent), d.gates, gates_row(), first, work_.previous, net_.projected));
    if (first < gates) {
      GPUDNN_TRY(over_rows(gradient(block.recurrent + first * net_.projected), element_at(d.gates, 3 * hidden, bytes_),
                           gates_row(), hidden, work_.previous, net_.projected));
    }
    if (block.projection < 0) return GPUDNN_STATUS_SUCCESS;
    return over_rows(gradient(block.projection), d.dh, net_.projected, net_.projected, d.hidden, hidden);
  }

  const Stages& stages_;
  const Problem& problem_;
  const Network& net_;
  const Args& args_;
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
