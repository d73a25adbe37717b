// A recurrent network's forward pass and gradients of data as stages: what is done in which order, and on which memory.
// SPDX-License-Identifier: Apache-2.0
//
// Forward, for each layer: the products of all steps with W, into the place of the gates; the sweeps, which multiply
// with R step by step; dropout. Gradients of data, from the last layer: the sweeps against the steps, which leave the
// gradients of the gates in their place; their product with W. The gradients of weights are in weight_gradients.cpp.
//
// Longer than most files: both passes share the ways in which layers run together, and each of them is short.
#include <algorithm>

#include "ops/dropout/problem.hpp"
#include "ops/element_type.hpp"
#include "ops/rnn/call.hpp"

namespace gpudnn::rnn {
namespace {

class Layers : Call {
 public:
  using Call::Call;

  Status run() {
    GPUDNN_TRY(problem_.pass == Pass::dgrad ? dgrad() : forward());
    return failure_;
  }

 private:
  // One step of every sequence: its products with R are as good as those with W, and no sweep is needed. A GRU keeps
  // them apart.
  [[nodiscard]] bool is_one_step() const {
    return stages_.merges_products && rows_.steps == 1 && rows_.offsets == nullptr && !net_.projects() && !net_.skip &&
           net_.cell != GPUDNN_GRU;
  }
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
    return training() ? reserve(layer).gates[k] : work_.pre[k];
  }

  Status drop(int layer, bool backward, const void* in, void* out) {
    const std::int64_t dims[] = {1, 1, count_, net_.output_width()};
    const TensorGeometry tensor = packed_tensor(net_.type, GPUDNN_TENSOR_NCHW, 4, dims);
    const dropout::Problem problem = {backward, net_.dropout, tensor, tensor};
    const dropout::Args args = {in, out, reserve(layer).mask, mask_bytes(problem_),
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
        if (net_.has_input_matrix(0)) {
          d.products = training() ? d.gates : element_at(work_.products, (layer - 1) * count_ * gates_row(), bytes_);
        }
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
    d.gates = element_at(d.gates, row * gates_row(), bytes_);
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
        GPUDNN_TRY(drop(layer, false, output_of(layer), reserve(layer).dropped));
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
      d.recurrent_t = work_.recurrent_t[k + place];  // made by the sweep that reads it
      if (d.projection == nullptr) continue;
      d.projection_t = work_.projection_t[k];
      stages_.transpose(site_, l.type, d.projection, net_.projected, net_.hidden, work_.projection_t[k]);
    }
    return l;
  }
  Status input_gradient(int layer, void* all, std::int64_t first = 0, std::int64_t rows = -1) {
    if (rows < 0) rows = count_;
    const std::int64_t width = net_.input_width(layer);
    const LayerReserve& r = reserve(layer);
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
};

}  // namespace

Status run_stages(const Stages& stages, const LaunchSite& site, const Problem& problem, const Args& args) {
  if (problem.pass == Pass::wgrad) return weight_gradients(stages, site, problem, args);
  return Layers(stages, site, problem, args).run();
}

}  // namespace gpudnn::rnn
