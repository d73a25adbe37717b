// libgpudnn for C++: a builder of graphs on the backend descriptors.
//
//   gpudnn::Graph graph({GPUDNN_DATA_HALF});                     // tensors are half; sums and intermediates float
//   auto x = graph.tensor({{8, 64, 56, 56}});
//   auto w = graph.tensor({{64, 64, 3, 3}});
//   auto bias = graph.tensor({{1, 64, 1, 1}});
//   auto y = graph.relu(graph.add(graph.conv(x, w, {{1, 1}}), bias));   // C++20: {.padding = {1, 1}}
//   graph.build(handle);
//   gpudnn::Buffer workspace(handle, graph.workspace_size());
//   graph.execute(handle, {{x, px}, {w, pw}, {bias, pb}, {y, py}}, workspace);
//
// Extents, strides and types of results follow from the operations; a result is packed in the order of its first
// operand. A result that no operation reads is an output, as are those marked by set_output(); the others are
// intermediates and have no memory. What is wrong in an operation is kept and told by build(). The operations are in
// graph_operations.hpp and graph_attention.hpp.
// SPDX-License-Identifier: Apache-2.0
#ifndef GPUDNN_CPP_GRAPH_HPP_
#define GPUDNN_CPP_GRAPH_HPP_

#include <memory>

#include "gpudnn/cpp/node.hpp"
#include "gpudnn/cpp/objects.hpp"

namespace gpudnn {

namespace detail {
// On the heap, so that tensors find it when the graph is moved.
struct GraphState {
  std::vector<TensorRow> tensors;
  std::vector<Node> nodes;
  Status error;  // the first mistake
  bool built = false;
};
}  // namespace detail

// A tensor of a graph: a small value that names it.
class Tensor {
 public:
  Tensor() = default;
  explicit operator bool() const noexcept { return state_ != nullptr; }
  // The unique id, counted from 1.
  [[nodiscard]] std::int64_t uid() const noexcept { return index_ + 1; }
  [[nodiscard]] const Extents& dims() const { return row().dims; }
  [[nodiscard]] const Extents& strides() const { return row().strides; }
  [[nodiscard]] std::int64_t elements() const {
    std::int64_t count = 1;
    for (const std::int64_t extent : dims()) count *= extent;
    return count;
  }
  // Of results; before build().
  Tensor& set_output(bool output = true) { return row().output = output, *this; }
  Tensor& set_type(gpudnnDataType_t type) { return row().type = type, row().has_type = true, *this; }
  Tensor& set_strides(Extents strides) { return row().strides = std::move(strides), row().has_strides = true, *this; }
  Tensor& set_name(std::string name) { return row().name = std::move(name), *this; }

 private:
  friend class Graph;
  Tensor(detail::GraphState* state, int index) : state_(state), index_(index) {}
  // Of the missing tensor a row of its own, so that nothing is read through null.
  [[nodiscard]] detail::TensorRow& row() const {
    static thread_local detail::TensorRow nothing;
    return state_ != nullptr ? state_->tensors[static_cast<std::size_t>(index_)] : nothing = detail::TensorRow();
  }
  detail::GraphState* state_ = nullptr;
  int index_ = -1;
};

// A tensor with its memory, for execute().
struct Binding {
  Binding(const Tensor& which, const void* data) : tensor(which), pointer(const_cast<void*>(data)) {}  // NOLINT
  Binding(const Tensor& which, const Buffer& data) : tensor(which), pointer(data.get()) {}
  Tensor tensor;
  void* pointer;
};

// --- options: aggregates, to be written in order, by member, or (C++20) by designated initialisers
// --------------------

struct GraphOptions {
  gpudnnDataType_t type = GPUDNN_DATA_FLOAT;          // of inputs and outputs that are given none
  gpudnnDataType_t intermediate = GPUDNN_DATA_FLOAT;  // of what lies between operations
  gpudnnDataType_t compute = GPUDNN_DATA_FLOAT;       // what operations compute in
};
// An input. Without strides it is packed: row-major, or with channels (dimension 1) last.
struct TensorOptions {
  Extents dims = {};
  bool channels_last = false;
  Extents strides = {};
  const char* name = "";
};
// Empty lists stand for paddings of 0, strides of 1, dilations of 1. `padding_after`, where given, is the padding
// behind each dimension, and `padding` that before it alone.
struct ConvOptions {
  Extents padding = {};
  Extents stride = {};
  Extents dilation = {};
  Extents padding_after = {};
  gpudnnConvolutionMode_t mode = GPUDNN_CROSS_CORRELATION;
};
struct PointwiseOptions {
  double lower_clip = 0;   // of ReLU: values below it become it, or slope times themselves
  double upper_clip = -1;  // of ReLU; none if below the lower one
  double slope = 0;
  double elu_alpha = 1;
  double softplus_beta = 1;
  double swish_beta = 1;
  std::int64_t axis = -1;  // of gen_index
};
// Empty axes: all of them.
struct ReduceOptions {
  Extents axes = {};
};
struct NormOptions {
  double epsilon = 1e-5;
  bool statistics = false;  // mean and inverse deviation too: what the backward operations read
  double momentum = 0.1;    // batch_norm: the weight of this batch in the running statistics
};
struct NormResult {
  Tensor y;
  Tensor mean;                                 // missing without statistics, and of RMS norm
  Tensor inv_variance;                         // 1 / sqrt(variance + epsilon); missing without statistics
  Tensor next_running_mean, next_running_var;  // batch_norm with running statistics
  operator Tensor() const { return y; }        // NOLINT(google-explicit-constructor)
};
struct NormGradients {
  Tensor dx, dscale, dbias;  // dbias is missing of RMS norm
};
struct AttentionOptions {
  double scale = 0;         // of the scores; 0: 1 / sqrt(size of a head)
  bool statistics = false;  // the row's log of summed exponentials too: what attention_backward reads
  Tensor seq_len_q = {};    // int32, batch x 1 x 1 x 1: how much of each sequence counts
  Tensor seq_len_kv = {};
  // Row r of q sees keys 0 to r alone. A chain of products, masking and softmax by parts, as the operation itself has
  // no mask; forward it is recognized and runs as attention, backward it takes memory of length x length. k and v are
  // inputs with as many heads as q, without seq_len; backward, all are.
  bool causal = false;
};
struct AttentionResult {
  Tensor o;
  Tensor statistics;
  operator Tensor() const { return o; }  // NOLINT(google-explicit-constructor)
};
struct AttentionGradients {
  Tensor dq, dk, dv;
};
// Empty lists: paddings of 0, strides of the window's extents.
struct ResampleOptions {
  Extents window = {};
  Extents padding = {};
  Extents stride = {};
  gpudnnResampleMode_t mode = GPUDNN_RESAMPLE_MAXPOOL;
};
struct BuildOptions {
  gpudnnBackendHeurMode_t heuristic = GPUDNN_HEUR_MODE_A;
  std::int64_t max_workspace = -1;  // bytes; -1: any
  std::int64_t engine = -1;         // its index; -1: the best that serves
};

class Graph {
 public:
  explicit Graph(GraphOptions options = {}) : options_(options), state_(new detail::GraphState) {}

  // --- inputs
  Tensor tensor(const TensorOptions& options);
  Tensor tensor(const TensorOptions& options, gpudnnDataType_t type) { return tensor(options).set_type(type); }
  // An input with its last two dimensions swapped: the same memory, which is bound with x alone.
  Tensor transpose(Tensor x);
  // A number that the graph holds itself.
  Tensor scalar(double value, int rank = 4);

  // --- convolutions. The extents of a gradient are given: they do not follow from the operands.
  Tensor conv(Tensor x, Tensor w, const ConvOptions& options = {});
  Tensor conv_dgrad(Tensor dy, Tensor w, const Extents& dx_dims, const ConvOptions& options = {});
  Tensor conv_wgrad(Tensor x, Tensor dy, const Extents& dw_dims, const ConvOptions& options = {});

  // --- matrix products over the last two dimensions; batches broadcast
  Tensor matmul(Tensor a, Tensor b);

  // --- pointwise, of any mode; b and t broadcast. Backward modes take dy, and x or y.
  Tensor pointwise(gpudnnPointwiseMode_t mode, Tensor x, Tensor b = {}, Tensor t = {},
                   const PointwiseOptions& options = {});
  Tensor pointwise_backward(gpudnnPointwiseMode_t mode, Tensor dy, Tensor x, const PointwiseOptions& options = {});

#define GPUDNN_CPP_UNARY(name, MODE)                               \
  Tensor name(Tensor x, const PointwiseOptions& options = {}) {    \
    return pointwise(GPUDNN_POINTWISE_##MODE, x, {}, {}, options); \
  }
#define GPUDNN_CPP_BINARY(name, MODE)                                                  \
  Tensor name(Tensor a, Tensor b) { return pointwise(GPUDNN_POINTWISE_##MODE, a, b); } \
  Tensor name(Tensor a, double b) { return pointwise(GPUDNN_POINTWISE_##MODE, a, scalar(b, rank_of(a))); }
#define GPUDNN_CPP_BACKWARD(name, MODE)                                    \
  Tensor name(Tensor dy, Tensor x, const PointwiseOptions& options = {}) { \
    return pointwise_backward(GPUDNN_POINTWISE_##MODE, dy, x, options);    \
  }
  GPUDNN_CPP_UNARY(abs, ABS)
  GPUDNN_CPP_UNARY(ceil, CEIL)
  GPUDNN_CPP_UNARY(cos, COS)
  GPUDNN_CPP_UNARY(erf, ERF)
  GPUDNN_CPP_UNARY(exp, EXP)
  GPUDNN_CPP_UNARY(floor, FLOOR)
  GPUDNN_CPP_UNARY(identity, IDENTITY)
  GPUDNN_CPP_UNARY(log, LOG)
  GPUDNN_CPP_UNARY(logical_not, LOGICAL_NOT)
  GPUDNN_CPP_UNARY(neg, NEG)
  GPUDNN_CPP_UNARY(reciprocal, RECIPROCAL)
  GPUDNN_CPP_UNARY(rsqrt, RSQRT)
  GPUDNN_CPP_UNARY(sin, SIN)
  GPUDNN_CPP_UNARY(sqrt, SQRT)
  GPUDNN_CPP_UNARY(tan, TAN)
  GPUDNN_CPP_UNARY(relu, RELU_FWD)
  GPUDNN_CPP_UNARY(tanh, TANH_FWD)
  GPUDNN_CPP_UNARY(sigmoid, SIGMOID_FWD)
  GPUDNN_CPP_UNARY(elu, ELU_FWD)
  GPUDNN_CPP_UNARY(gelu, GELU_FWD)
  GPUDNN_CPP_UNARY(gelu_tanh, GELU_APPROX_TANH_FWD)
  GPUDNN_CPP_UNARY(softplus, SOFTPLUS_FWD)
  GPUDNN_CPP_UNARY(swish, SWISH_FWD)
  GPUDNN_CPP_BINARY(add, ADD)
  GPUDNN_CPP_BINARY(add_square, ADD_SQUARE)
  GPUDNN_CPP_BINARY(atan2, ATAN2)
  GPUDNN_CPP_BINARY(div, DIV)
  GPUDNN_CPP_BINARY(max, MAX)
  GPUDNN_CPP_BINARY(min, MIN)
  GPUDNN_CPP_BINARY(mod, MOD)
  GPUDNN_CPP_BINARY(mul, MUL)
  GPUDNN_CPP_BINARY(pow, POW)
  GPUDNN_CPP_BINARY(sub, SUB)
  GPUDNN_CPP_BINARY(equal, CMP_EQ)
  GPUDNN_CPP_BINARY(not_equal, CMP_NEQ)
  GPUDNN_CPP_BINARY(greater, CMP_GT)
  GPUDNN_CPP_BINARY(greater_equal, CMP_GE)
  GPUDNN_CPP_BINARY(less, CMP_LT)
  GPUDNN_CPP_BINARY(less_equal, CMP_LE)
  GPUDNN_CPP_BINARY(logical_and, LOGICAL_AND)
  GPUDNN_CPP_BINARY(logical_or, LOGICAL_OR)
  GPUDNN_CPP_BACKWARD(relu_backward, RELU_BWD)
  GPUDNN_CPP_BACKWARD(tanh_backward, TANH_BWD)
  GPUDNN_CPP_BACKWARD(sigmoid_backward, SIGMOID_BWD)
  GPUDNN_CPP_BACKWARD(elu_backward, ELU_BWD)
  GPUDNN_CPP_BACKWARD(gelu_backward, GELU_BWD)
  GPUDNN_CPP_BACKWARD(gelu_tanh_backward, GELU_APPROX_TANH_BWD)
  GPUDNN_CPP_BACKWARD(softplus_backward, SOFTPLUS_BWD)
  GPUDNN_CPP_BACKWARD(swish_backward, SWISH_BWD)
#undef GPUDNN_CPP_UNARY
#undef GPUDNN_CPP_BINARY
#undef GPUDNN_CPP_BACKWARD
  // a where the mask is true, else b.
  Tensor select(Tensor mask, Tensor a, Tensor b) { return pointwise(GPUDNN_POINTWISE_BINARY_SELECT, a, b, mask); }
  // The index along an axis, with the extents of x; int32.
  Tensor gen_index(Tensor x, std::int64_t axis);

  // --- reductions; the axes' extents become 1
  Tensor reduce(gpudnnReduceTensorOp_t operation, Tensor x, const ReduceOptions& options = {});
  Tensor reduce_sum(Tensor x, const Extents& axes = {}) { return reduce(GPUDNN_REDUCE_TENSOR_ADD, x, {axes}); }
  Tensor reduce_mean(Tensor x, const Extents& axes = {}) { return reduce(GPUDNN_REDUCE_TENSOR_AVG, x, {axes}); }
  Tensor reduce_max(Tensor x, const Extents& axes = {}) { return reduce(GPUDNN_REDUCE_TENSOR_MAX, x, {axes}); }
  Tensor reduce_min(Tensor x, const Extents& axes = {}) { return reduce(GPUDNN_REDUCE_TENSOR_MIN, x, {axes}); }

  // --- normalizations. Scale and bias have extents of 1 where they broadcast; layer and RMS norm normalize the
  // dimensions in which the scale has extents, instance norm the spatial ones, batch norm all but the channels.
  NormResult layer_norm(Tensor x, Tensor scale, Tensor bias, const NormOptions& options = {}) {
    return norm(GPUDNN_LAYER_NORM, x, scale, bias, options);
  }
  NormResult rms_norm(Tensor x, Tensor scale, const NormOptions& options = {}) {
    return norm(GPUDNN_RMS_NORM, x, scale, {}, options);
  }
  NormResult instance_norm(Tensor x, Tensor scale, Tensor bias, const NormOptions& options = {}) {
    return norm(GPUDNN_INSTANCE_NORM, x, scale, bias, options);
  }
  // Training, with the batch's statistics; they are outputs.
  NormResult batch_norm(Tensor x, Tensor scale, Tensor bias, Tensor running_mean = {}, Tensor running_var = {},
                        const NormOptions& options = {});
  Tensor batch_norm_inference(Tensor x, Tensor mean, Tensor inv_variance, Tensor scale, Tensor bias);
  NormResult norm(gpudnnBackendNormMode_t mode, Tensor x, Tensor scale, Tensor bias, const NormOptions& options);
  // `mean` is left out for RMS norm.
  NormGradients norm_backward(gpudnnBackendNormMode_t mode, Tensor dy, Tensor x, Tensor scale, Tensor mean,
                              Tensor inv_variance);

  // --- attention: q, k, v are batch x heads x length x size of a head; fewer heads of k and v are shared
  AttentionResult attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options = {});
  AttentionGradients attention_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor d_o, Tensor statistics,
                                        const AttentionOptions& options = {});

  // --- pooling and other resampling; moving
  Tensor resample(Tensor x, const ResampleOptions& options);
  Tensor resample_backward(Tensor dy, Tensor x, Tensor y, const ResampleOptions& options);
  Tensor max_pool(Tensor x, const Extents& window, const Extents& padding = {}, const Extents& stride = {}) {
    return resample(x, {window, padding, stride, GPUDNN_RESAMPLE_MAXPOOL});
  }
  Tensor avg_pool(Tensor x, const Extents& window, const Extents& padding = {}, const Extents& stride = {}) {
    return resample(x, {window, padding, stride, GPUDNN_RESAMPLE_AVGPOOL_EXCLUDE_PADDING});
  }
  Tensor reshape(Tensor x, const Extents& dims);
  Tensor concat(const std::vector<Tensor>& parts, std::int64_t axis);

  // --- from operations to work
  // The first mistake in the operations so far.
  [[nodiscard]] const Status& status() const noexcept { return state_->error; }
  // Makes the plan: the heuristic's best config that serves.
  Status try_build(gpudnnHandle_t handle, const BuildOptions& options = {});
  void build(gpudnnHandle_t handle, const BuildOptions& options = {}) { check(try_build(handle, options)); }
  [[nodiscard]] std::size_t workspace_size() const noexcept { return workspace_size_; }
  // The index of the plan's engine (docs/graph.md lists them), and the plan as text that another process loads.
  [[nodiscard]] std::int64_t engine() const noexcept { return engine_; }
  [[nodiscard]] std::string json() const;

  // Queues the work on the handle's stream. Every input and output needs memory; by-value tensors have their own.
  Status try_execute(gpudnnHandle_t handle, const std::vector<Binding>& bindings, void* workspace = nullptr) const;
  void execute(gpudnnHandle_t handle, const std::vector<Binding>& bindings, void* workspace = nullptr) const {
    check(try_execute(handle, bindings, workspace));
  }
  void execute(gpudnnHandle_t handle, const std::vector<Binding>& bindings, const Buffer& workspace) const {
    check(try_execute(handle, bindings, workspace.get()));
  }

 private:
  using Row = detail::TensorRow;
  struct Plan {
    detail::BackendDescriptor config, plan;
  };
  [[nodiscard]] static int rank_of(const Tensor& t) { return static_cast<int>(t.dims().size()); }
  void fail(const std::string& text) {
    if (state_->error) state_->error = Status(GPUDNN_STATUS_BAD_PARAM, "graph: " + text);
  }
  // False, with the mistake kept, if a tensor is missing or of another graph.
  bool own(const char* operation, std::initializer_list<Tensor> needed);
  // A result with these extents, in the order of `like`.
  Tensor result(Extents dims, const Tensor& like);
  [[nodiscard]] static detail::Link in(gpudnnBackendAttributeName_t name, const Tensor& t) {
    return {name, t ? std::vector<int>{t.index_} : std::vector<int>{}, false};
  }
  [[nodiscard]] static detail::Link out(gpudnnBackendAttributeName_t name, const Tensor& t) {
    return {name, t ? std::vector<int>{t.index_} : std::vector<int>{}, true};
  }
  void add_node(detail::Node node);
  detail::Node convolution(gpudnnBackendDescriptorType_t kind, gpudnnBackendAttributeName_t companion_name,
                           const ConvOptions& options, std::size_t spatial) const;
  detail::Node resampling(gpudnnBackendDescriptorType_t kind, gpudnnBackendAttributeName_t companion_name,
                          const ResampleOptions& options, std::size_t spatial) const;
  detail::Node pointwise_node(gpudnnPointwiseMode_t mode, const PointwiseOptions& options) const;
  // Of causal attention: scale * q k^T, or its transpose, with minus infinity where the key is behind the
  // query.
  Tensor causal_scores(Tensor rows, Tensor columns, double scale, bool transposed);
  AttentionResult causal_attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options);
  AttentionGradients causal_attention_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor d_o, Tensor statistics,
                                               const AttentionOptions& options);
  // The statistics of a norm: x's extents where the scale has 1, and 1 where it does not.
  [[nodiscard]] static Extents statistics_dims(gpudnnBackendNormMode_t mode, const Extents& x, const Extents& scale);

  void resolve_types();
  Status make_tensor(std::size_t index, std::vector<detail::BackendDescriptor>* tensors) const;
  static Status make_operation(const detail::Node& node, const std::vector<detail::BackendDescriptor>& tensors,
                               detail::BackendDescriptor* operation);
  Status make_graph(gpudnnHandle_t handle, detail::BackendDescriptor* graph) const;
  Status rank_configs(const detail::BackendDescriptor& graph, const BuildOptions& options,
                      std::vector<detail::BackendDescriptor>* configs) const;
  Status take_config(detail::BackendDescriptor config, const BuildOptions& options);

  GraphOptions options_;
  std::unique_ptr<detail::GraphState> state_;
  Plan plan_;
  std::size_t workspace_size_ = 0;
  std::int64_t engine_ = -1;
};

}  // namespace gpudnn

#include "gpudnn/cpp/graph_attention.hpp"
#include "gpudnn/cpp/graph_build.hpp"
#include "gpudnn/cpp/graph_operations.hpp"

#endif
