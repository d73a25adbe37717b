// The classic multi-head attention as a sequence of the library's own operations.
//
//   forward:           gather q, k, v; project each; attention core; project its result; scatter to out
//   backward data:     gather dout; back through the projection of out; core backward; back through each projection;
//                      scatter to dq, dk, dv
//   backward weights:  gather q, k, v, dout; a product and a column sum for each kind of weights
//
// Gathered rows beyond a sequence's length are 0, whatever the caller's memory holds there, so padding adds nothing to
// any sum. Each operation keeps one order of sums.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/attention/attention_simt.hpp"
#include "ops/attention/params.hpp"
#include "ops/dropout/problem.hpp"
#include "ops/element_type.hpp"
#include "ops/matmul/engine.hpp"
#include "ops/multi_head_attn/cuda_engines.hpp"
#include "ops/reduce/problem.hpp"

namespace gpudnn::mha {
namespace {

TensorGeometry matrix(DataType type, std::int64_t rows, std::int64_t columns, std::int64_t row_stride,
                      std::int64_t column_stride) {
  TensorGeometry m;
  m.type = type;
  m.rank = 2;
  m.dims[0] = rows;
  m.dims[1] = columns;
  m.strides[0] = row_stride;
  m.strides[1] = column_stride;
  return m;
}

// The windows as options of the attention problem, where they are such.
struct Bounds {
  bool by_rows = false;  // else the options say everything
  bool has_left = false;
  bool has_right = false;
  std::int64_t left = 0;
  std::int64_t right = 0;
};

Window window_of_band(const Bounds& bounds, std::int32_t time, std::int64_t step) {
  Window w{0, time};
  if (bounds.has_left) w.first = static_cast<std::int32_t>(std::clamp<std::int64_t>(step - bounds.left + 1, 0, time));
  if (bounds.has_right) w.end = static_cast<std::int32_t>(std::clamp<std::int64_t>(step + bounds.right + 1, 0, time));
  w.end = std::max(w.first, w.end);
  return w;
}

Bounds bounds_of(const std::vector<Window>& windows, std::int32_t time, bool folded) {
  Bounds bounds;
  const auto count = static_cast<std::int64_t>(windows.size());
  for (std::int64_t t = 0; t < count; ++t) {
    const Window& w = windows[static_cast<std::size_t>(t)];
    if (w.first > 0 && w.end > w.first && !bounds.has_left) {
      bounds.has_left = true;
      bounds.left = t - w.first + 1;
    }
    if (w.end < time && w.end > w.first && !bounds.has_right) {
      bounds.has_right = true;
      bounds.right = w.end - t - 1;
    }
  }
  const bool bounded = bounds.has_left || bounds.has_right;
  bool same = !(bounded && folded) && bounds.left >= 0 && bounds.right >= 0 && !(bounds.has_left && bounds.left == 0);
  for (std::int64_t t = 0; t < count && same; ++t) {
    const Window& w = windows[static_cast<std::size_t>(t)];
    const Window band = window_of_band(bounds, time, t);
    same = (w.first == band.first && w.end == band.end) || (w.end == w.first && band.end == band.first);
  }
  if (same) return bounds;
  return {.by_rows = true};
}

class Composed {
 public:
  Composed(gpudnnHandle_t handle, const Problem& problem, const Args& args, const Buffers& buffers)
      : handle_(handle),
        problem_(problem),
        layer_(problem.layer),
        args_(args),
        b_(buffers),
        site_(launch_site(handle)) {}

  Status run() {
    const bool reads_kept = problem_.pass == Pass::wgrad;
    if (!reads_kept) GPUDNN_TRY(store_call());
    Status status = GPUDNN_STATUS_SUCCESS;
    switch (problem_.pass) {
      case Pass::forward:
        status = forward();
        break;
      case Pass::dgrad:
        status = dgrad();
        break;
      case Pass::wgrad:
        status = wgrad();
        break;
    }
    GPUDNN_TRY(status);
    call_context().engine = "composed";
    return cuda::launch_status("multi_head_attn");
  }

 private:
  [[nodiscard]] const Sequences& sequences(int part) const {
    const Sequences* const all[] = {&problem_.q, &problem_.k, &problem_.v, &problem_.o};
    return *all[part];
  }
  [[nodiscard]] std::int64_t rows(int part) const {
    return part == kQ || part == kO ? problem_.rows_q() : problem_.rows_kv();
  }
  [[nodiscard]] bool drops_out() const { return problem_.training != 0 && layer_.post_dropout > 0; }

  // --- what the call says ---
  Status store_call() {
    const bool drops = problem_.training != 0 && (layer_.attn_dropout > 0 || layer_.post_dropout > 0);
    if (drops && problem_.pass == Pass::forward) {
      kernels::launch_mha_start_dropout(layer_.attn_dropout > 0 ? args_.attn_states : nullptr,
                                        layer_.post_dropout > 0 ? args_.post_states : nullptr, b_.dropout,
                                        site_.stream);
    }
    store_lengths(args_.length_q, args_.host_length_q, std::int64_t{problem_.q.batch} * problem_.q.beam, b_.length_q);
    store_lengths(args_.length_kv, args_.host_length_kv, std::int64_t{problem_.k.batch} * problem_.k.beam,
                  b_.length_kv);
    const std::vector<Window> windows = windows_of(problem_, args_);
    const bool folded = folds_beams(problem_);
    bounds_ = bounds_of(windows, problem_.k.time, folded);
    if (bounds_.by_rows) {
      static_assert(sizeof(Window) == 8, "windows are stored as pairs of integers");
      kernels::launch_mha_store(reinterpret_cast<const std::int32_t*>(windows.data()),
                                2 * static_cast<std::int64_t>(windows.size()), folded ? problem_.q.beam : 1, b_.windows,
                                site_.stream);
    }
    return GPUDNN_STATUS_SUCCESS;
  }

  void store_lengths(const int* on_device, const int* on_host, std::int64_t count, std::int32_t* to) const {
    if (on_device != nullptr) {
      kernels::launch_mha_copy(on_device, count, to, site_.stream);
    } else {
      kernels::launch_mha_store(on_host, count, 1, to, site_.stream);
    }
  }

  // --- sequences and rows ---
  [[nodiscard]] kernels::MhaSequences rows_and(int part, const void* memory, void* rows) const {
    const Sequences& s = sequences(part);
    const bool of_queries = part == kQ || part == kO;
    kernels::MhaSequences copy;
    copy.memory = const_cast<void*>(memory);  // NOLINT: one struct for both ways
    copy.rows = rows;
    copy.lengths = of_queries ? b_.length_q : b_.length_kv;
    set_strides(s, copy.strides);
    copy.columns = s.size;
    copy.batch = s.batch;
    copy.beam = s.beam;
    copy.steps = of_queries ? static_cast<std::int32_t>(problem_.steps()) : s.time;
    copy.first_time = of_queries ? std::max(problem_.current, 0) : 0;
    return copy;
  }

  static void set_strides(const Sequences& s, std::int64_t (&strides)[3]) {
    strides[0] = s.stride(GPUDNN_SEQDATA_TIME_DIM);
    strides[1] = s.stride(GPUDNN_SEQDATA_BATCH_DIM);
    strides[2] = s.stride(GPUDNN_SEQDATA_BEAM_DIM);
  }

  [[nodiscard]] kernels::MhaSequencesParams params_of_sequences() const {
    kernels::MhaSequencesParams params;
    params.type = element_type(layer_.type);
    params.dropout = b_.dropout;
    params.threshold = dropout::threshold_of(layer_.post_dropout);
    params.scale = dropout::scale_of(layer_.post_dropout);
    return params;
  }

  // The projected inputs into scratch, and, if wanted, the others into the core's operands.
  void add_inputs(bool all, kernels::MhaSequencesParams* params) const {
    const void* const inputs[] = {args_.q, args_.k, args_.v};
    for (int part = kQ; part <= kV; ++part) {
      const bool projected = layer_.proj[part] > 0;
      if (!projected && !all) continue;
      params->sequences[params->count++] =
          rows_and(part, inputs[part], projected ? b_.gathered[part] : b_.operand[part]);
    }
  }
  void add_dout(kernels::MhaSequencesParams* params) const {
    kernels::MhaSequences& dout = params->sequences[params->count++];
    dout = rows_and(kO, args_.dout, b_.out_rows);
    dout.has_dropout = drops_out();
  }

  void scatter_out() const {
    kernels::MhaSequencesParams params = params_of_sequences();
    kernels::MhaSequences& out = params.sequences[params.count++];
    out = rows_and(kO, args_.out, layer_.proj[kO] > 0 ? b_.out_rows : b_.context);
    out.has_dropout = drops_out();
    out.padding = args_.fill;
    if (problem_.has_residual != 0) {
      out.residual = args_.residual;
      set_strides(problem_.q, out.residual_strides);
    }
    kernels::launch_mha_scatter(params, site_.stream);
  }

  void scatter_gradients() const {
    void* const gradients[] = {args_.dq, args_.dk, args_.dv};
    kernels::MhaSequencesParams params = params_of_sequences();
    for (int part = kQ; part <= kV; ++part) {
      const bool projected = layer_.proj[part] > 0;
      kernels::MhaSequences& gradient = params.sequences[params.count++];
      gradient = rows_and(part, gradients[part], projected ? b_.gathered[part] : b_.gradient[part]);
      gradient.heads = part == kQ && !projected ? layer_.heads : 1;
    }
    kernels::launch_mha_scatter(params, site_.stream);
  }

  // --- products ---
  [[nodiscard]] WeightPart weights(int part, bool is_bias = false) const {
    return weight_part(layer_, static_cast<gpudnnMultiHeadAttnWeightKind_t>(part + (is_bias ? kParts : 0)));
  }
  [[nodiscard]] const void* weights_at(const WeightPart& w) const { return at(args_.weights, w.offset); }
  template <class Pointer>
  [[nodiscard]] Pointer at(Pointer base, std::int64_t elements) const {
    using Byte = std::conditional_t<std::is_const_v<std::remove_pointer_t<Pointer>>, const char, char>;
    return static_cast<Byte*>(base) + elements * (data_type_bits(layer_.type) / 8);
  }

  // The weights as a matrix [in, out] of all heads: heads side by side in `out`, or, for the last projection, in `in`.
  [[nodiscard]] TensorGeometry weight_matrix(int part) const {
    const WeightPart w = weights(part);
    if (part == kO) return matrix(layer_.type, w.dims[0] * w.dims[2], w.dims[1], w.strides[2], w.strides[1]);
    return matrix(layer_.type, w.dims[2], w.dims[0] * w.dims[1], w.strides[2], w.strides[1]);
  }
  static TensorGeometry transposed(TensorGeometry m) {
    std::swap(m.dims[0], m.dims[1]);
    std::swap(m.strides[0], m.strides[1]);
    return m;
  }
  [[nodiscard]] TensorGeometry rows_matrix(int part, std::int64_t columns) const {
    return matrix(layer_.type, rows(part), columns, columns, 1);
  }

  Status multiply(const TensorGeometry& a, const void* a_data, const TensorGeometry& b, const void* b_data,
                  const TensorGeometry& d, void* d_data, const void* bias, bool adds) const {
    matmul::Problem problem;
    problem.compute = layer_.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
    problem.math = layer_.math;
    problem.a = a;
    problem.b = b;
    problem.d = d;
    matmul::Args args;
    args.a = a_data;
    args.b = b_data;
    args.d = d_data;
    if (bias != nullptr) {
      problem.bias = matrix(layer_.type, d.dims[0], d.dims[1], 0, 1);
      args.bias = bias;
    }
    if (adds) {
      problem.c = d;
      args.c = d_data;
      args.beta = 1;
    }
    return matmul::run(handle_, problem, args, b_.product, b_.product_bytes);
  }

  // rows [rows, in] -> [rows, out], with the bias.
  Status project(int part, const void* from, void* to) const {
    const WeightPart w = weights(part);
    const WeightPart bias = weights(part, true);
    const TensorGeometry matrix_of_weights = weight_matrix(part);
    return multiply(rows_matrix(part, matrix_of_weights.dims[0]), from, matrix_of_weights, weights_at(w),
                    rows_matrix(part, matrix_of_weights.dims[1]), to, bias.exists ? weights_at(bias) : nullptr, false);
  }
  // The gradient of a projection's input from that of its result.
  Status project_back(int part, const void* from, void* to) const {
    const TensorGeometry back = transposed(weight_matrix(part));
    return multiply(rows_matrix(part, back.dims[0]), from, back, weights_at(weights(part)),
                    rows_matrix(part, back.dims[1]), to, nullptr, false);
  }
  // The gradients of a projection's weights and bias.
  Status weight_gradient(int part, const void* inputs, const void* gradients) const {
    const WeightPart w = weights(part);
    const TensorGeometry target = weight_matrix(part);
    const bool adds = problem_.add != 0;
    GPUDNN_TRY(multiply(transposed(rows_matrix(part, target.dims[0])), inputs, rows_matrix(part, target.dims[1]),
                        gradients, target, at(args_.dweights, w.offset), nullptr, adds));
    const WeightPart bias = weights(part, true);
    if (!bias.exists) return GPUDNN_STATUS_SUCCESS;
    reduce::Problem sum;
    sum.compute = layer_.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
    sum.nan = GPUDNN_PROPAGATE_NAN;
    sum.a = rows_matrix(part, target.dims[1]);
    sum.c = matrix(layer_.type, 1, target.dims[1], target.dims[1], 1);
    reduce::Args args;
    args.beta = adds ? 1 : 0;
    args.a = gradients;
    args.c = at(args_.dweights, bias.offset);
    return reduce::run(handle_, sum, args, b_.product, b_.product_bytes);
  }

  // --- the core ---
  Status run_core(bool backward) const {
    attention::Problem core = core_problem(problem_, backward);
    attention::Args args;
    core.has_left = bounds_.has_left ? 1 : 0;
    core.has_right = bounds_.has_right ? 1 : 0;
    core.left = bounds_.left;
    core.right = bounds_.right;
    args.q.data = b_.operand[kQ];
    args.k.data = b_.operand[kK];
    args.v.data = b_.operand[kV];
    args.o.data = b_.context;
    args.stats.data = b_.stats;
    args.length_kv = b_.length_kv;
    if (core.has_dropout != 0) {
      args.seed = &b_.dropout->attn_seed;
      args.offset = &b_.dropout->attn_calls;
    }
    if (backward) {
      args.d_o.data = b_.context_rows;
      args.dq.data = b_.gradient[kQ];
      args.dk.data = b_.gradient[kK];
      args.dv.data = b_.gradient[kV];
    }
    if (bounds_.by_rows) return run_core_by_rows(core, args);
    return attention::run(handle_, core, args, b_.core, b_.core_bytes);
  }

  // Each row's own window: the general engine alone.
  Status run_core_by_rows(const attention::Problem& core, const attention::Args& args) const {
    kernels::AttentionParams params = attention::attention_params(core, args);
    params.delta = b_.core;
    if (core.backward != 0) {
      kernels::launch_attention_backward_simt(params, site_.stream, b_.windows);
    } else {
      kernels::launch_attention_forward_simt(params, site_.stream, b_.windows);
    }
    return cuda::launch_status("attention_simt");
  }

  // --- the passes ---
  Status forward() const {
    kernels::MhaSequencesParams inputs = params_of_sequences();
    add_inputs(true, &inputs);
    kernels::launch_mha_gather(inputs, site_.stream);
    for (int part = kQ; part <= kV; ++part) {
      if (layer_.proj[part] > 0) GPUDNN_TRY(project(part, b_.gathered[part], b_.operand[part]));
    }
    GPUDNN_TRY(run_core(false));
    if (layer_.proj[kO] > 0) GPUDNN_TRY(project(kO, b_.context, b_.out_rows));
    scatter_out();
    return GPUDNN_STATUS_SUCCESS;
  }

  Status dgrad() const {
    kernels::MhaSequencesParams dout = params_of_sequences();
    add_dout(&dout);
    kernels::launch_mha_gather(dout, site_.stream);
    if (layer_.proj[kO] > 0) GPUDNN_TRY(project_back(kO, b_.out_rows, b_.context_rows));
    GPUDNN_TRY(run_core(true));
    for (int part = kQ; part <= kV; ++part) {
      if (layer_.proj[part] > 0) GPUDNN_TRY(project_back(part, b_.gradient[part], b_.gathered[part]));
    }
    scatter_gradients();
    return GPUDNN_STATUS_SUCCESS;
  }

  Status wgrad() const {
    if (weight_bytes(layer_) == 0) return GPUDNN_STATUS_SUCCESS;
    kernels::MhaSequencesParams inputs = params_of_sequences();
    add_inputs(false, &inputs);
    if (layer_.proj[kO] > 0) add_dout(&inputs);
    kernels::launch_mha_gather(inputs, site_.stream);
    for (int part = kQ; part <= kV; ++part) {
      if (layer_.proj[part] > 0) GPUDNN_TRY(weight_gradient(part, b_.gathered[part], b_.gradient[part]));
    }
    return layer_.proj[kO] > 0 ? weight_gradient(kO, b_.context, b_.out_rows) : GPUDNN_STATUS_SUCCESS;
  }

  gpudnnHandle_t handle_;
  const Problem& problem_;
  const Layer& layer_;
  const Args& args_;
  const Buffers& b_;
  LaunchSite site_;
  Bounds bounds_;
};

}  // namespace

Status run_cuda(gpudnnHandle_t handle, const Problem& problem, const Args& args, const Buffers& buffers) {
  return Composed(handle, problem, args, buffers).run();
}

}  // namespace gpudnn::mha
