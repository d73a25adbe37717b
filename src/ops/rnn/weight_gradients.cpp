// The gradients of a recurrent network's weights as stages. Where the backend makes all of them at once
// (Stages::weights): a list of products and of sums over the rows, whose operands are copied if they lie in odd rows.
// Else one product over all rows for each W and R, of several layers and directions at once where they lie in like
// steps, and sums over rows for the biases.
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
    if (lists()) {
      GPUDNN_TRY(list_all(input));
      return failure_;
    }
    over_lanes(&WeightGradients::previous_states);
    if (net_.bias != GPUDNN_RNN_NO_BIAS) over_lanes(&WeightGradients::bias_gradients);
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
    return lists() ? GPUDNN_STATUS_SUCCESS : products(direct_ ? args_.x : work_.x);
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

  // What is done for each pseudo-layer alike, for as many at once as a launch takes.
  void over_lanes(void (WeightGradients::*what)(int first, int count)) {
    const int lanes = net_.pseudo_layers();
    for (int first = 0; first < lanes; first += kernels::kRnnLanes) {
      (this->*what)(first, std::min(lanes - first, kernels::kRnnLanes));
    }
  }
  [[nodiscard]] kernels::RnnDirection direction_of(int pseudo) const {
    return layer_of(pseudo / net_.directions()).direction[pseudo % net_.directions()];
  }
  // h one step back.
  void previous_states(int first, int count) {
    kernels::RnnPrevious previous;
    previous.layer = layer_of(0);
    previous.lanes = count;
    for (int i = 0; i < count; ++i) previous.lane[i] = direction_of(first + i);
    stages_.previous(site_, previous, element_at(work_.previous, first * count_ * state_row(), bytes_), state_row());
  }
  void bias_gradients(int first, int count) {
    kernels::RnnColumnSums sums;
    sums.type = element_type(net_.type);
    sums.lanes = count;
    sums.stride = gates_row();
    sums.rows = count_;
    sums.columns = net_.slots() * net_.hidden;
    sums.skip_from = 2 * net_.hidden;
    sums.skip = net_.cell == GPUDNN_GRU ? net_.hidden : 0;
    sums.adds = problem_.adds;
    sums.partials = work_.partials;
    for (int i = 0; i < count; ++i) {
      const WeightBlock block = weight_block(net_, first + i);
      sums.lane[i] = {direction_of(first + i).gates, gradient(block.input_bias), gradient(block.hidden_bias)};
    }
    stages_.column_sums(site_, sums);
  }

  [[nodiscard]] bool lists() const {
    std::int64_t weights = 0;  // that a row is multiplied for
    for (int layer = 0; layer < net_.layers; ++layer) {
      weights += std::int64_t{net_.directions()} * net_.gates() * net_.hidden *
                 (net_.projected + (net_.has_input_matrix(layer) ? net_.input_width(layer) : 0));
    }
    const auto is_of_vectors = [](const void* at) { return reinterpret_cast<std::uintptr_t>(at) % 16 == 0; };
    if (bytes_ == 2 && !(is_of_vectors(args_.x) && is_of_vectors(args_.y) && is_of_vectors(args_.hx))) return false;
    constexpr std::int64_t kRowLimit = std::int64_t{1} << 29;  // of which a list tells those that do not exist
    return stages_.takes_weights != nullptr && count_ < kRowLimit &&
           stages_.takes_weights(site_, static_cast<double>(weights) * static_cast<double>(count_),
                                 work_.slices_room > 0);
  }
  // Rows of 16 bits that are no vectors of 16 bytes.
  [[nodiscard]] bool is_odd(std::int64_t row_stride) const { return bytes_ == 2 && row_stride % 8 != 0; }

  // Rows that are a multiple of 16 bytes apart: these, or copies that are to be made.
  WeightRows whole_rows(const void* at, std::int64_t row_stride, std::int64_t width) {
    WeightRows of = {.at = at, .row_stride = row_stride, .width = width, .rows = count_};
    if (!is_odd(row_stride)) return of;
    const std::int64_t whole = weight_copy_row(width);
    if (pads_.count == kernels::kRnnLanes) make_copies();
    pads_.pad[pads_.count++] = {.type = element_type(net_.type),
                                .from = at,
                                .from_row = row_stride,
                                .width = width,
                                .to = copies_.take(count_ * whole * bytes_),
                                .to_row = whole,
                                .to_width = whole,
                                .rows = count_};
    of.at = pads_.pad[pads_.count - 1].to;
    of.row_stride = whole;
    return of;
  }
  void make_copies() {
    if (pads_.count > 0) stages_.pad_rows(site_, pads_);
    pads_.count = 0;
  }
  // h one step back: of all steps but the last one of the direction, and hx; or a copy.
  [[nodiscard]] bool copies_states() const { return rows_.offsets != nullptr || is_odd(net_.projected); }
  void set_states(int pseudo, WeightRows (&b)[2]) const {
    if (copies_states()) {
      b[0] = {previous_of(pseudo / net_.directions(), pseudo % net_.directions()), state_row(), net_.projected, count_};
      return;
    }
    const std::int64_t batch = rows_.batch;
    const std::int64_t rest = count_ - batch;
    const kernels::RnnDirection d = direction_of(pseudo);
    const void* const y =
        element_at(static_cast<const void*>(d.y), d.downwards ? batch * net_.output_width() : 0, bytes_);
    b[0] = {y, net_.output_width(), net_.projected, rest, d.downwards ? 0 : batch};
    b[1] = {d.hx, net_.projected, net_.projected, batch, d.downwards ? rest : 0};
  }

  // All products and sums in one list.
  Status list_all(const void* input) {
    const bool gru = net_.cell == GPUDNN_GRU;
    // The sums of a GRU's third slot have no matrix where W is left out.
    const bool sums_apart = gru && net_.skip;
    if (net_.bias != GPUDNN_RNN_NO_BIAS && sums_apart) over_lanes(&WeightGradients::bias_gradients);
    if (copies_states()) over_lanes(&WeightGradients::previous_states);
    copies_ = Regions(work_.copies);
    const std::int64_t hidden = net_.hidden;
    const std::int64_t width = net_.projected;
    std::vector<WeightProducts> list;
    WeightRows x;
    for (int pseudo = 0; pseudo < net_.pseudo_layers(); ++pseudo) {
      const int layer = pseudo / net_.directions();
      const int k = pseudo % net_.directions();
      const WeightBlock block = weight_block(net_, pseudo);
      const bool has_input = net_.has_input_matrix(layer);
      const std::int64_t input_width = net_.input_width(layer);
      if (k == 0 && has_input) x = whole_rows(layer == 0 ? input : input_of(layer), input_width, input_width);
      const WeightRows gates = {.at = reserve(layer).gates[k],
                                .row_stride = gates_row(),
                                .width = net_.slots() * net_.hidden,
                                .rows = count_};
      // From `column` of the gates on, m rows of W and R from their rows `first` on.
      const auto add = [&](std::int64_t column, std::int64_t first, std::int64_t m, bool of_input, bool of_states) {
        WeightProducts& p = list.emplace_back();
        p.a = gates;
        p.column = column;
        p.m = m;
        int count = 0;
        if (of_input && has_input) {
          WeightProduct& w = p.product[count++];
          w.b[0] = x;
          w.d = gradient(block.input + first * input_width);
          w.n = input_width;
        }
        if (of_states) {
          WeightProduct& r = p.product[count++];
          set_states(pseudo, r.b);
          r.d = gradient(block.recurrent + first * width);
          r.n = width;
        }
        return &p;
      };
      const std::int64_t rows = std::int64_t{net_.gates()} * hidden;
      void* const input_bias = gradient(block.input_bias);
      void* const hidden_bias = gradient(block.hidden_bias);
      if (!gru) {
        WeightProducts* const both = add(0, 0, rows, true, true);
        both->bias = input_bias, both->bias2 = hidden_bias, both->bias2_m = rows;
      } else {
        // The last third of R has gradients of its own, in the fourth slot; and of few tiles the last round is fuller
        // with W in one piece.
        if (has_input) {
          WeightProducts* const w = add(0, 0, rows, true, false);
          if (!sums_apart) w->bias = input_bias, w->bias2 = hidden_bias, w->bias2_m = 2 * hidden;
        }
        add(0, 0, 2 * hidden, false, true);
        WeightProducts* const last = add(3 * hidden, 2 * hidden, hidden, false, true);
        if (!sums_apart) last->bias = element_at(hidden_bias, 2 * hidden, bytes_);
      }
      if (!net_.projects()) continue;
      WeightProducts& p = list.emplace_back();
      p.a = whole_rows(reserve(layer).dh[k], width, width);
      p.m = width;
      p.product[0].b[0] = whole_rows(reserve(layer).hidden[k], hidden, hidden);
      p.product[0].d = gradient(block.projection);
      p.product[0].n = hidden;
    }
    make_copies();
    return stages_.weights(site_, list, count_, {work_.slices, static_cast<std::size_t>(work_.slices_room)},
                           problem_.adds);
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
  Regions copies_{nullptr};
  kernels::RnnPads pads_;
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
