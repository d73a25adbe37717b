// The gradients of a recurrent network's weights as stages: one product over all rows for each W and R, of several
// layers and directions at once where they lie in like steps, and sums over rows for the biases.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/element_type.hpp"
#include "ops/rnn/call.hpp"

namespace gpudnn::rnn {
namespace {

class WeightGradients : Call {
 public:
  using Call::Call;

  Status run() {
    if (count_ == 0) {
      if (problem_.adds) return GPUDNN_STATUS_SUCCESS;
      return stages_.clear(site_, args_.dweights, static_cast<std::size_t>(weight_count(net_) * bytes_));
    }
    const void* const input = gathered(args_.x, net_.input, work_.x);
    const int lanes = net_.pseudo_layers();
    const bool lists = may_list(input) && lists_all(input);
    for (int first = 0; first < lanes; first += kernels::kRnnLanes) {
      over_lanes(first, std::min(lanes - first, kernels::kRnnLanes), !lists);
    }
    if (lists) {
      GPUDNN_TRY(listed_gradients(input));
      return failure_;
    }
    for (int layer = first_merged(); layer < net_.layers; ++layer) {
      GPUDNN_TRY(stages_.copy_rows(site_, {.type = element_type(net_.type),
                                           .from = layer == 0 ? input : input_of(layer),
                                           .from_row = net_.projected,
                                           .width = net_.projected,
                                           .to = input_copy(layer),
                                           .to_row = state_row(),
                                           .to_width = state_row(),
                                           .rows = count_}));
    }
    GPUDNN_TRY(products(input));
    return failure_;
  }

  // What the products need, by their shapes alone.
  Status scratch(std::size_t* bytes) {
    scratch_ = bytes;
    return products(direct_ ? args_.x : work_.x);
  }

 private:
  Status products(const void* input) {
    const int first = first_merged();
    if (first < net_.layers) GPUDNN_TRY(merged_gradients(first, net_.layers - first));
    if (first > 0) GPUDNN_TRY(matrix_gradients(0, 1, input));
    return first > 1 && net_.layers > 1 ? matrix_gradients(1, net_.layers - 1, input_of(1)) : GPUDNN_STATUS_SUCCESS;
  }
  // Layers from this one on have both gradients of all of them in one product.
  [[nodiscard]] int first_merged() const {
    return stages_.merges_products && merges_weight_products(problem_) ? first_of_alike() : net_.layers;
  }
  // Elements from row to row of h one step back, and of inputs beside it.
  [[nodiscard]] std::int64_t state_row() const { return weight_state_row(net_); }
  [[nodiscard]] void* input_copy(int layer) const {
    return element_at(work_.inputs, std::int64_t{layer} * count_ * state_row(), bytes_);
  }
  [[nodiscard]] const void* previous_of(int layer, int k) const {
    return element_at(static_cast<const void*>(work_.previous),
                      (std::int64_t{layer} * net_.directions() + k) * count_ * state_row(), bytes_);
  }
  [[nodiscard]] void* gradient(std::int64_t at) const {
    return at < 0 ? nullptr : element_at(args_.dweights, at, bytes_);
  }

  // What is done for each pseudo-layer alike: h one step back, if it is copied, and the gradients of the biases.
  void over_lanes(int first, int count, bool copies) {
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
    if (copies) {
      stages_.previous(site_, previous, element_at(work_.previous, first * count_ * state_row(), bytes_), state_row());
    }
    if (net_.bias != GPUDNN_RNN_NO_BIAS) stages_.column_sums(site_, sums);
  }

  // Products take inputs and states from where they lie: of sequences of equal length, in whole vectors.
  [[nodiscard]] bool may_list(const void* input) const {
    constexpr int kVector = 16;
    if (stages_.listed_product == nullptr || rows_.offsets != nullptr) return false;
    if (net_.projects() || net_.hidden * bytes_ % kVector != 0) return false;
    const auto is_of_vectors = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % kVector == 0; };
    return is_of_vectors(input) && is_of_vectors(args_.hx) && is_of_vectors(output_of(net_.layers - 1));
  }
  // Whether the device makes all of these.
  bool lists_all(const void* input) {
    asks_ = true;
    const bool all = listed_gradients(input) == GPUDNN_STATUS_SUCCESS;
    asks_ = false;
    return all;
  }
  // h one step back: of all steps but the last one of the direction, and hx.
  [[nodiscard]] matmul::ListedOperand states_of(int layer, int k) const {
    const std::int64_t batch = rows_.batch;
    const std::int64_t rest = count_ - batch;
    const kernels::RnnDirection d = layer_of(layer).direction[k];
    const void* const y =
        element_at(static_cast<const void*>(d.y), d.downwards ? batch * net_.output_width() : 0, bytes_);
    return {{{.at = y, .row_stride = net_.output_width(), .rows = rest, .row_of_a = d.downwards ? 0 : batch},
             {.at = d.hx, .row_stride = net_.hidden, .rows = batch, .row_of_a = d.downwards ? rest : 0}}};
  }
  // Of `count` layers from `layer` on, each in its own product of `counts[1]`: from slots of the gates, rows
  // [from, from + m) of the matrices; of(layer, i) is the operand, d(layer, i) the matrix.
  template <class Of, class D>
  Status listed_rows(int layer, int count, int inner, std::int64_t n, std::int64_t m, const Of& of, const D& d,
                     const auto& a) {
    constexpr int kMost = ListedProduct::kMost;
    const int at_once = std::max(kMost / inner, 1);
    for (int first = layer; first < layer + count; first += at_once) {
      const int some = std::min(at_once, layer + count - first);
      const int next = some > 1 ? first + 1 : first;
      const int other = inner - 1;
      ListedProduct p;
      p.shape = {.m = m,
                 .n = n,
                 .k = count_,
                 .a = a(first, 0),
                 .a_strides = {1, gates_row()},
                 .b_strides = {n, 1},
                 .d = const_cast<void*>(d(first, 0)),  // NOLINT: of dweights
                 .d_row = n,
                 .counts = {some, inner},
                 .a_steps = {distance(a(first, 0), a(next, 0)), distance(a(first, 0), a(first, other))},
                 .b_steps = {},
                 .d_steps = {distance(d(first, 0), d(next, 0)), distance(d(first, 0), d(first, other))},
                 .adds = problem_.adds};
      p.shape.type = net_.type, p.shape.math = net_.math;
      for (int i = 0; i < some * inner; ++i) p.b[i] = of(first + i / inner, i % inner);
      if (asks_ && !stages_.takes_listed(site_, p)) return GPUDNN_STATUS_NOT_SUPPORTED;
      if (!asks_) GPUDNN_TRY(stages_.listed_product(site_, p));
    }
    return GPUDNN_STATUS_SUCCESS;
  }
  Status listed_gradients(const void* input) {
    const std::int64_t hidden = net_.hidden;
    const std::int64_t gates = net_.gates() * hidden;
    const int directions = net_.directions();
    const bool gru = net_.cell == GPUDNN_GRU;
    const auto x_of = [&](int l) {
      return matmul::ListedOperand{
          {{.at = l == 0 ? input : input_of(l), .row_stride = net_.input_width(l), .rows = count_}, {}}};
    };
    const auto slot = [&](int l, int k, std::int64_t i) {
      return element_at(static_cast<const void*>(reserve(l).gates[k]), i * hidden, bytes_);
    };
    const auto at = [&](int l, int k, std::int64_t WeightBlock::*member, std::int64_t row) -> const void* {
      return gradient(weight_block(net_, l * directions + k).*member + row);
    };
    // W and R of layers that have both alike; of a GRU the third recurrent matrix has gradients of its own.
    const int merged = directions == 1 && !net_.skip ? first_of_alike() : net_.layers;
    const auto both = [&](std::int64_t first, std::int64_t m, std::int64_t x_slot, std::int64_t h_slot) {
      return listed_rows(
          merged, net_.layers - merged, 2, hidden, m, [&](int l, int i) { return i == 0 ? x_of(l) : states_of(l, 0); },
          [&](int l, int i) {
            return at(l, 0, i == 0 ? &WeightBlock::input : &WeightBlock::recurrent, first * hidden);
          },
          [&](int l, int i) { return slot(l, 0, i == 0 ? x_slot : h_slot); });
    };
    if (merged < net_.layers) {
      GPUDNN_TRY(both(0, gru ? 2 * hidden : gates, 0, 0));
      if (gru) GPUDNN_TRY(both(2 * hidden, hidden, 2, 3));
    }
    const auto states = [&](int layer, int count, std::int64_t first, std::int64_t m, std::int64_t h_slot) {
      return listed_rows(
          layer, count, directions, hidden, m, [&](int l, int k) { return states_of(l, k); },
          [&](int l, int k) { return at(l, k, &WeightBlock::recurrent, first * hidden); },
          [&](int l, int k) { return slot(l, k, h_slot); });
    };
    // The matrices of the first layer and of the others lie in other steps.
    const int others = std::min(1, merged);
    for (const auto& [from, to] : {std::pair(0, others), std::pair(others, merged)}) {
      if (from == to) continue;
      if (!asks_) GPUDNN_TRY(input_gradients(from, to - from, from == 0 ? input : input_of(from)));
      GPUDNN_TRY(states(from, to - from, 0, gru ? 2 * hidden : gates, 0));
      if (gru) GPUDNN_TRY(states(from, to - from, 2 * hidden, hidden, 3));
    }
    return GPUDNN_STATUS_SUCCESS;
  }

  Status merged_gradients(int layer, int count) {
    const std::int64_t hidden = net_.hidden;
    // Rows [from, from + m) of both matrices, from slots of the gates.
    const auto product_of = [&](std::int64_t from, std::int64_t m, std::int64_t slot, std::int64_t recurrent_slot) {
      const auto gates = [&](int l) { return reserve(l).gates[0]; };
      const auto at = [&](int l, std::int64_t WeightBlock::*member) { return weight_block(net_, l).*member; };
      const int next = count > 1 ? layer + 1 : layer;
      return rows_product({.m = m,
                           .n = net_.projected,
                           .k = count_,
                           .a = element_at(gates(layer), slot * hidden, bytes_),
                           .a_strides = {1, gates_row()},
                           .b = input_copy(layer),
                           .b_strides = {state_row(), 1},
                           .d = gradient(at(layer, &WeightBlock::input) + from * net_.projected),
                           .d_row = net_.projected,
                           .counts = {count, 2},
                           .a_steps = {distance(gates(layer), gates(next)), (recurrent_slot - slot) * hidden},
                           .b_steps = {count_ * state_row(), distance(work_.inputs, work_.previous)},
                           .d_steps = {at(next, &WeightBlock::input) - at(layer, &WeightBlock::input),
                                       at(layer, &WeightBlock::recurrent) - at(layer, &WeightBlock::input)},
                           .adds = problem_.adds});
    };
    if (net_.cell != GPUDNN_GRU) return product_of(0, net_.gates() * hidden, 0, 0);
    GPUDNN_TRY(product_of(0, 2 * hidden, 0, 0));
    return product_of(2 * hidden, hidden, 2, 3);
  }

  // Of dweights, by the member of its block.
  [[nodiscard]] Matrices gradients_of(int layer, int count, std::int64_t WeightBlock::*member, std::int64_t row,
                                      std::int64_t skip) const {
    return matrices(layer, count, row, [&](int l, int k) {
      return static_cast<const void*>(gradient(weight_block(net_, l * net_.directions() + k).*member + skip));
    });
  }
  [[nodiscard]] Matrices slots_of(int layer, int count, std::int64_t slot) const {
    return matrices(layer, count, gates_row(), [&](int l, int k) {
      return element_at(static_cast<const void*>(reserve(l).gates[k]), slot * net_.hidden, bytes_);
    });
  }
  // Of the matrices of the input.
  Status input_gradients(int layer, int count, const void* input) {
    if (!net_.has_input_matrix(layer)) return GPUDNN_STATUS_SUCCESS;
    const std::int64_t width = net_.input_width(layer);
    Matrices x = matrices(layer, count, width, [&](int l, int) { return l == layer ? input : input_of(l); });
    x.steps[1] = 0;
    return over_rows(count, gradients_of(layer, count, &WeightBlock::input, width, 0),
                     std::int64_t{net_.gates()} * net_.hidden, slots_of(layer, count, 0), x, width);
  }
  Status matrix_gradients(int layer, int count, const void* input) {
    const std::int64_t hidden = net_.hidden;
    const std::int64_t gates = net_.gates() * hidden;
    GPUDNN_TRY(input_gradients(layer, count, input));
    const Matrices h = matrices(layer, count, state_row(), [&](int l, int k) { return previous_of(l, k); });
    // Of a GRU the third recurrent matrix has gradients of its own, in the fourth slot.
    const std::int64_t width = net_.projected;
    const std::int64_t first = net_.cell == GPUDNN_GRU ? 2 * hidden : gates;
    GPUDNN_TRY(over_rows(count, gradients_of(layer, count, &WeightBlock::recurrent, width, 0), first,
                         slots_of(layer, count, 0), h, width));
    if (first < gates) {
      GPUDNN_TRY(over_rows(count, gradients_of(layer, count, &WeightBlock::recurrent, width, first * width), hidden,
                           slots_of(layer, count, 3), h, width));
    }
    if (!net_.projects()) return GPUDNN_STATUS_SUCCESS;
    const Matrices dh =
        matrices(layer, count, width, [&](int l, int k) { return static_cast<const void*>(reserve(l).dh[k]); });
    const Matrices kept =
        matrices(layer, count, hidden, [&](int l, int k) { return static_cast<const void*>(reserve(l).hidden[k]); });
    return over_rows(count, gradients_of(layer, count, &WeightBlock::projection, hidden, 0), width, dh, kept, hidden);
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

  // A product over the rows: where it would leave multiprocessors idle, in slices that are added.
  Status rows_product(const Product& p) {
    const std::int64_t size = p.m * p.n;
    std::int64_t slices = 1;
    // Hopper's product of float rows divides them itself.
    const bool divides = site_.launch.device.compute_capability() == 90;
    if (stages_.slices != nullptr && !divides && work_.slices_room > 0 && size > 0) {
      slices = std::min<std::int64_t>(most_weight_slices(problem_, p.m, p.n), work_.slices_room / (size * p.counts[1]));
      while (slices > 1 && p.k % slices != 0) --slices;
    }
    if (slices <= 1) return counted_product(p);
    for (std::int64_t layer = 0; layer < p.counts[0]; ++layer) {
      Product q = p;
      q.k = p.k / slices;
      q.counts[0] = slices;
      q.a = element_at(p.a, layer * p.a_steps[0], bytes_), q.a_steps[0] = q.k * p.a_strides[1];
      q.b = element_at(p.b, layer * p.b_steps[0], bytes_), q.b_steps[0] = q.k * p.b_strides[0];
      q.d = work_.slices, q.d_row = p.n, q.d_steps[0] = p.counts[1] * size, q.d_steps[1] = size;
      q.adds = false;
      GPUDNN_TRY(counted_product(q));
      if (scratch_ != nullptr) continue;
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
  Status counted_product(Product p) {
    if (scratch_ == nullptr) return product(p);
    p.type = net_.type;
    p.math = net_.math;
    std::size_t bytes = 0;
    GPUDNN_TRY(stages_.product_scratch(site_.handle, p, &bytes));
    *scratch_ = std::max(*scratch_, bytes);
    return GPUDNN_STATUS_SUCCESS;
  }

  std::size_t* scratch_ = nullptr;  // products are not made, but what they need is told
  bool asks_ = false;               // nor are listed ones, but whether they can be
};

}  // namespace

Status weight_gradients(const Stages& stages, const LaunchSite& site, const Problem& problem, const Args& args) {
  return WeightGradients(stages, site, problem, args).run();
}

Status weight_gradients_scratch(const Stages& stages, const LaunchSite& site, gpudnnHandle_t handle,
                                const Problem& problem, std::size_t* bytes) {
  Problem longest = problem;
  longest.pass = Pass::wgrad;
  longest.sequences.lengths.assign(static_cast<std::size_t>(problem.sequences.batch), problem.sequences.steps);
  // Addresses that nobody reads, each with room before the next: distances between matrices depend on the shapes alone.
  const auto nowhere = [](std::uintptr_t i) { return reinterpret_cast<void*>(i << 44); };  // NOLINT
  Args args;
  args.handle = handle;
  args.x = nowhere(1), args.y = nowhere(2), args.dweights = nowhere(3);
  args.reserve = nowhere(4), args.workspace = nowhere(5);
  for (const bool adds : {false, true}) {  // the query does not say
    longest.adds = adds;
    GPUDNN_TRY(WeightGradients(stages, site, longest, args).scratch(bytes));
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::rnn
