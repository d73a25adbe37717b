// libgpudnn for C++: the operations of the graph builder. Included by graph.hpp.
// SPDX-License-Identifier: Apache-2.0
#ifndef GPUDNN_CPP_GRAPH_OPERATIONS_HPP_
#define GPUDNN_CPP_GRAPH_OPERATIONS_HPP_

#include <cmath>

#include "gpudnn/cpp/graph.hpp"

namespace gpudnn {

// --- tensors --------------------------------------------------------------------------------------------------------

inline Tensor Graph::tensor(const TensorOptions& options) {
  Row row;
  row.dims = options.dims;
  row.name = options.name;
  row.has_strides = !options.strides.empty();
  row.strides = row.has_strides         ? options.strides
                : options.channels_last ? detail::channels_last(options.dims)
                                        : detail::row_major(options.dims);
  if (row.strides.size() != row.dims.size()) fail("a tensor needs as many strides as extents");
  state_->tensors.push_back(std::move(row));
  return {state_.get(), static_cast<int>(state_->tensors.size()) - 1};
}

inline Tensor Graph::transpose(Tensor x) {
  if (!own("transpose", {x})) return {};
  const Row from = x.row();
  const std::size_t rank = from.dims.size();
  if (from.produced || from.by_value || rank < 2) {
    return fail("transpose: x must be an input of at least 2 dimensions; a result has no memory to see in another way"),
           Tensor();
  }
  Row row = from;
  std::swap(row.dims[rank - 2], row.dims[rank - 1]);
  std::swap(row.strides[rank - 2], row.strides[rank - 1]);
  row.view_of = from.view_of >= 0 ? from.view_of : x.index_;
  row.read = false;
  state_->tensors.push_back(std::move(row));
  return {state_.get(), static_cast<int>(state_->tensors.size()) - 1};
}

inline Tensor Graph::scalar(double value, int rank) {
  Tensor made = tensor({Extents(static_cast<std::size_t>(std::max(rank, 1)), 1)}, GPUDNN_DATA_FLOAT);
  const auto narrowed = static_cast<float>(value);
  std::memcpy(made.row().value, &narrowed, sizeof narrowed);
  made.row().by_value = true;
  return made;
}

inline Tensor Graph::result(Extents dims, const Tensor& like) {
  Row row;
  row.strides = detail::packed_as(dims, like.row());
  row.dims = std::move(dims);
  row.produced = true;
  state_->tensors.push_back(std::move(row));
  return {state_.get(), static_cast<int>(state_->tensors.size()) - 1};
}

inline bool Graph::own(const char* operation, std::initializer_list<Tensor> needed) {
  for (const Tensor& t : needed) {
    if (t.state_ == state_.get()) continue;
    fail(std::string(operation) +
         (t ? ": an operand is a tensor of another graph" : ": an operand is missing; it was never made"));
    return false;
  }
  return true;
}

inline void Graph::add_node(detail::Node node) {
  // Optional tensors that are missing have no attribute at all.
  node.links.erase(std::remove_if(node.links.begin(), node.links.end(),
                                  [](const detail::Link& link) { return link.tensors.empty(); }),
                   node.links.end());
  for (const detail::Link& link : node.links)
    for (const int tensor : link.tensors)
      if (!link.is_output) state_->tensors[static_cast<std::size_t>(tensor)].read = true;
  state_->nodes.push_back(std::move(node));
}

// --- convolution and matrix products
// ----------------------------------------------------------------------------------

namespace detail {
inline Extents filled(Extents values, std::size_t count, std::int64_t value) {
  values.resize(std::max(values.size(), count), value);
  return values;
}
inline std::size_t spatial_of(const Extents& dims) { return dims.size() > 2 ? dims.size() - 2 : 0; }
}  // namespace detail

inline detail::Node Graph::convolution(gpudnnBackendDescriptorType_t kind, gpudnnBackendAttributeName_t companion_name,
                                       const ConvOptions& options, std::size_t spatial) const {
  using namespace detail;
  const Extents before = filled(options.padding, spatial, 0);
  Node node(kind);
  node.has_companion = true;
  node.companion = GPUDNN_BACKEND_CONVOLUTION_DESCRIPTOR;
  node.companion_name = companion_name;
  node.companion_attributes = {
      data_type(GPUDNN_ATTR_CONVOLUTION_COMP_TYPE, options_.compute),
      enumerator(GPUDNN_ATTR_CONVOLUTION_CONV_MODE, GPUDNN_TYPE_CONVOLUTION_MODE, options.mode),
      integer(GPUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, static_cast<std::int64_t>(spatial)),
      integers(GPUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, before),
      integers(GPUDNN_ATTR_CONVOLUTION_POST_PADDINGS,
               options.padding_after.empty() ? before : filled(options.padding_after, spatial, 0)),
      integers(GPUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, filled(options.stride, spatial, 1)),
      integers(GPUDNN_ATTR_CONVOLUTION_DILATIONS, filled(options.dilation, spatial, 1))};
  return node;
}

inline Tensor Graph::conv(Tensor x, Tensor w, const ConvOptions& options) {
  if (!own("conv", {x, w})) return {};
  const Extents& from = x.dims();
  const Extents& taps = w.dims();
  const std::size_t spatial = detail::spatial_of(from);
  if (from.size() != taps.size() || spatial == 0) {
    return fail("conv: x (" + detail::dims_text(from) + ") and w (" + detail::dims_text(taps) +
                ") must have as many extents, of which the first two are no spatial ones"),
           Tensor();
  }
  const Extents before = detail::filled(options.padding, spatial, 0);
  const Extents after = options.padding_after.empty() ? before : detail::filled(options.padding_after, spatial, 0);
  const Extents stride = detail::filled(options.stride, spatial, 1);
  const Extents dilation = detail::filled(options.dilation, spatial, 1);
  Extents dims = {from[0], taps[0]};
  for (std::size_t i = 0; i < spatial; ++i) {
    const std::int64_t room = from[i + 2] + before[i] + after[i] - dilation[i] * (taps[i + 2] - 1) - 1;
    if (room < 0 || stride[i] < 1) {
      return fail("conv: w (" + detail::dims_text(taps) + ") does not fit into x (" + detail::dims_text(from) +
                  ") along spatial dimension " + std::to_string(i)),
             Tensor();
    }
    dims.push_back(room / stride[i] + 1);
  }
  const Tensor y = result(std::move(dims), x);
  detail::Node node = convolution(GPUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR,
                                  GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC, options, spatial);
  node.links = {in(GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X, x), in(GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W, w),
                out(GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y, y)};
  add_node(std::move(node));
  return y;
}

inline Tensor Graph::conv_dgrad(Tensor dy, Tensor w, const Extents& dx_dims, const ConvOptions& options) {
  if (!own("conv_dgrad", {dy, w})) return {};
  const Tensor dx = result(dx_dims, dy);
  detail::Node node =
      convolution(GPUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR,
                  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC, options, detail::spatial_of(dx_dims));
  node.links = {in(GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY, dy),
                in(GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W, w),
                out(GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX, dx)};
  add_node(std::move(node));
  return dx;
}

inline Tensor Graph::conv_wgrad(Tensor x, Tensor dy, const Extents& dw_dims, const ConvOptions& options) {
  if (!own("conv_wgrad", {x, dy})) return {};
  const Tensor dw = result(dw_dims, x);
  detail::Node node =
      convolution(GPUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR,
                  GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC, options, detail::spatial_of(dw_dims));
  node.links = {in(GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X, x),
                in(GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY, dy),
                out(GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW, dw)};
  add_node(std::move(node));
  return dw;
}

inline Tensor Graph::matmul(Tensor a, Tensor b) {
  if (!own("matmul", {a, b})) return {};
  const Extents& left = a.dims();
  const Extents& right = b.dims();
  const std::size_t rank = left.size();
  if (rank < 2 || right.size() != rank || left[rank - 1] != right[rank - 2]) {
    return fail("matmul: " + detail::dims_text(left) + " times " + detail::dims_text(right) + " is no product"),
           Tensor();
  }
  Extents dims = left;
  dims[rank - 1] = right[rank - 1];
  for (std::size_t i = 0; i + 2 < rank; ++i) dims[i] = std::max(left[i], right[i]);
  Tensor y = result(std::move(dims), a);
  y.row().strides = detail::row_major(y.dims());
  detail::Node node(GPUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  node.links = {in(GPUDNN_ATTR_OPERATION_MATMUL_ADESC, a), in(GPUDNN_ATTR_OPERATION_MATMUL_BDESC, b),
                out(GPUDNN_ATTR_OPERATION_MATMUL_CDESC, y)};
  node.has_companion = true;
  node.companion = GPUDNN_BACKEND_MATMUL_DESCRIPTOR;
  node.companion_name = GPUDNN_ATTR_OPERATION_MATMUL_DESC;
  node.companion_attributes = {detail::data_type(GPUDNN_ATTR_MATMUL_COMP_TYPE, options_.compute)};
  add_node(std::move(node));
  return y;
}

// --- pointwise and reductions
// -----------------------------------------------------------------------------------------

inline detail::Node Graph::pointwise_node(gpudnnPointwiseMode_t mode, const PointwiseOptions& options) const {
  using namespace detail;
  Node node(GPUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  node.has_companion = true;
  node.companion = GPUDNN_BACKEND_POINTWISE_DESCRIPTOR;
  node.companion_name = GPUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR;
  auto& set = node.companion_attributes;
  set = {enumerator(GPUDNN_ATTR_POINTWISE_MODE, GPUDNN_TYPE_POINTWISE_MODE, mode),
         data_type(GPUDNN_ATTR_POINTWISE_MATH_PREC, options_.compute)};
  const PointwiseOptions usual;
  const auto differs = [](double a, double b) { return a < b || a > b; };
  if (differs(options.lower_clip, usual.lower_clip))
    set.push_back(real(GPUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, options.lower_clip));
  if (options.upper_clip >= options.lower_clip)
    set.push_back(real(GPUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, options.upper_clip));
  if (differs(options.slope, usual.slope))
    set.push_back(real(GPUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, options.slope));
  if (differs(options.elu_alpha, usual.elu_alpha))
    set.push_back(real(GPUDNN_ATTR_POINTWISE_ELU_ALPHA, options.elu_alpha));
  if (differs(options.softplus_beta, usual.softplus_beta))
    set.push_back(real(GPUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, options.softplus_beta));
  if (differs(options.swish_beta, usual.swish_beta))
    set.push_back(real(GPUDNN_ATTR_POINTWISE_SWISH_BETA, options.swish_beta));
  if (options.axis >= 0) set.push_back(integer(GPUDNN_ATTR_POINTWISE_AXIS, options.axis));
  return node;
}

inline Tensor Graph::pointwise(gpudnnPointwiseMode_t mode, Tensor x, Tensor b, Tensor t,
                               const PointwiseOptions& options) {
  if (!own("pointwise", {x})) return {};
  // Extents broadcast: that of the result is the greatest; operands of fewer dimensions are aligned to the last ones.
  Extents dims = x.dims();
  Tensor like = x;
  for (const Tensor& other : {b, t}) {
    if (!other) continue;
    if (!own("pointwise", {other})) return {};
    Extents more = other.dims();
    if (more.size() > dims.size()) std::swap(dims, more), like = other;
    const std::size_t shift = dims.size() - more.size();
    for (std::size_t i = 0; i < more.size(); ++i) {
      if (more[i] != dims[i + shift] && more[i] != 1 && dims[i + shift] != 1) {
        return fail("pointwise: " + detail::dims_text(x.dims()) + " and " + detail::dims_text(other.dims()) +
                    " do not broadcast: each extent must be equal or 1"),
               Tensor();
      }
      if (more[i] > dims[i + shift]) dims[i + shift] = more[i], like = other;
    }
  }
  const Tensor y = result(std::move(dims), like);
  const bool is_truth =
      mode == GPUDNN_POINTWISE_LOGICAL_NOT || (mode >= GPUDNN_POINTWISE_CMP_EQ && mode <= GPUDNN_POINTWISE_LOGICAL_OR);
  if (is_truth) Tensor(y).set_type(GPUDNN_DATA_BOOLEAN);
  detail::Node node = pointwise_node(mode, options);
  node.links = {in(GPUDNN_ATTR_OPERATION_POINTWISE_XDESC, x), in(GPUDNN_ATTR_OPERATION_POINTWISE_BDESC, b),
                in(GPUDNN_ATTR_OPERATION_POINTWISE_TDESC, t), out(GPUDNN_ATTR_OPERATION_POINTWISE_YDESC, y)};
  add_node(std::move(node));
  return y;
}

inline Tensor Graph::pointwise_backward(gpudnnPointwiseMode_t mode, Tensor dy, Tensor x,
                                        const PointwiseOptions& options) {
  if (!own("pointwise_backward", {dy, x})) return {};
  const Tensor dx = result(x.dims(), x);
  detail::Node node = pointwise_node(mode, options);
  node.links = {in(GPUDNN_ATTR_OPERATION_POINTWISE_DYDESC, dy), in(GPUDNN_ATTR_OPERATION_POINTWISE_XDESC, x),
                out(GPUDNN_ATTR_OPERATION_POINTWISE_DXDESC, dx)};
  add_node(std::move(node));
  return dx;
}

inline Tensor Graph::gen_index(Tensor x, std::int64_t axis) {
  PointwiseOptions options;
  options.axis = axis;
  Tensor index = pointwise(GPUDNN_POINTWISE_GEN_INDEX, x, {}, {}, options);
  if (index) index.set_type(GPUDNN_DATA_INT32);
  return index;
}

inline Tensor Graph::reduce(gpudnnReduceTensorOp_t operation, Tensor x, const ReduceOptions& options) {
  if (!own("reduce", {x})) return {};
  Extents dims = options.axes.empty() ? Extents(x.dims().size(), 1) : x.dims();
  for (const std::int64_t axis : options.axes) {
    if (axis < 0 || axis >= static_cast<std::int64_t>(dims.size())) {
      return fail("reduce: axis " + std::to_string(axis) + " is none of x (" + detail::dims_text(x.dims()) + ")"),
             Tensor();
    }
    dims[static_cast<std::size_t>(axis)] = 1;
  }
  const Tensor y = result(std::move(dims), x);
  detail::Node node(GPUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  node.links = {in(GPUDNN_ATTR_OPERATION_REDUCTION_XDESC, x), out(GPUDNN_ATTR_OPERATION_REDUCTION_YDESC, y)};
  node.has_companion = true;
  node.companion = GPUDNN_BACKEND_REDUCTION_DESCRIPTOR;
  node.companion_name = GPUDNN_ATTR_OPERATION_REDUCTION_DESC;
  node.companion_attributes = {
      detail::enumerator(GPUDNN_ATTR_REDUCTION_OPERATOR, GPUDNN_TYPE_REDUCTION_OPERATOR_TYPE, operation),
      detail::data_type(GPUDNN_ATTR_REDUCTION_COMP_TYPE, options_.compute)};
  add_node(std::move(node));
  return y;
}

// --- normalizations
// ---------------------------------------------------------------------------------------------------

inline Extents Graph::statistics_dims(gpudnnBackendNormMode_t mode, const Extents& x, const Extents& scale) {
  Extents dims(x.size(), 1);
  const std::size_t shift = x.size() - std::min(x.size(), scale.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const bool is_scaled = i >= shift && scale[i - shift] != 1;
    const bool is_kept = mode == GPUDNN_BATCH_NORM ? i == 1 : mode == GPUDNN_INSTANCE_NORM ? i < 2 : !is_scaled;
    if (is_kept) dims[i] = x[i];
  }
  return dims;
}

inline NormResult Graph::norm(gpudnnBackendNormMode_t mode, Tensor x, Tensor scale, Tensor bias,
                              const NormOptions& options) {
  if (!own("norm", {x, scale})) return {};
  NormResult made;
  made.y = result(x.dims(), x);
  if (options.statistics) {
    const Extents dims = statistics_dims(mode, x.dims(), scale.dims());
    const auto statistic = [&] {
      Tensor t = result(dims, scale);
      return t.set_type(GPUDNN_DATA_FLOAT).set_output();
    };
    if (mode != GPUDNN_RMS_NORM) made.mean = statistic();
    made.inv_variance = statistic();
  }
  const Tensor epsilon = scalar(options.epsilon, rank_of(x));
  detail::Node node(GPUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  node.attributes = {detail::enumerator(GPUDNN_ATTR_OPERATION_NORM_FWD_MODE, GPUDNN_TYPE_NORM_MODE, mode),
                     detail::enumerator(GPUDNN_ATTR_OPERATION_NORM_FWD_PHASE, GPUDNN_TYPE_NORM_FWD_PHASE,
                                        options.statistics ? GPUDNN_NORM_FWD_TRAINING : GPUDNN_NORM_FWD_INFERENCE)};
  node.links = {in(GPUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x),
                in(GPUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, scale),
                in(GPUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, bias),
                in(GPUDNN_ATTR_OPERATION_NORM_FWD_EPSILON_DESC, epsilon),
                out(GPUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, made.mean),
                out(GPUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, made.inv_variance),
                out(GPUDNN_ATTR_OPERATION_NORM_FWD_YDESC, made.y)};
  add_node(std::move(node));
  return made;
}

inline NormResult Graph::batch_norm(Tensor x, Tensor scale, Tensor bias, Tensor running_mean, Tensor running_var,
                                    const NormOptions& options) {
  NormOptions training = options;
  training.statistics = true;
  NormResult made = norm(GPUDNN_BATCH_NORM, x, scale, bias, training);
  if (!made.y || !running_mean) return made;
  if (!own("batch_norm", {running_mean, running_var})) return {};
  const auto next = [&](const Tensor& before) {
    Tensor t = result(before.dims(), before);
    return t.set_type(GPUDNN_DATA_FLOAT).set_output();
  };
  made.next_running_mean = next(running_mean);
  made.next_running_var = next(running_var);
  const Tensor factor = scalar(options.momentum, rank_of(x));
  detail::Node node = std::move(state_->nodes.back());
  state_->nodes.pop_back();
  for (detail::Link& link :
       std::vector<detail::Link>{in(GPUDNN_ATTR_OPERATION_NORM_FWD_EXP_AVG_FACTOR_DESC, factor),
                                 in(GPUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_MEAN_DESC, running_mean),
                                 in(GPUDNN_ATTR_OPERATION_NORM_FWD_INPUT_RUNNING_VAR_DESC, running_var),
                                 out(GPUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_MEAN_DESC, made.next_running_mean),
                                 out(GPUDNN_ATTR_OPERATION_NORM_FWD_OUTPUT_RUNNING_VAR_DESC, made.next_running_var)}) {
    node.links.push_back(std::move(link));
  }
  add_node(std::move(node));
  return made;
}

inline Tensor Graph::batch_norm_inference(Tensor x, Tensor mean, Tensor inv_variance, Tensor scale, Tensor bias) {
  if (!own("batch_norm_inference", {x, mean, inv_variance, scale, bias})) return {};
  const Tensor y = result(x.dims(), x);
  detail::Node node(GPUDNN_BACKEND_OPERATION_NORM_FORWARD_DESCRIPTOR);
  node.attributes = {
      detail::enumerator(GPUDNN_ATTR_OPERATION_NORM_FWD_MODE, GPUDNN_TYPE_NORM_MODE, GPUDNN_BATCH_NORM),
      detail::enumerator(GPUDNN_ATTR_OPERATION_NORM_FWD_PHASE, GPUDNN_TYPE_NORM_FWD_PHASE, GPUDNN_NORM_FWD_INFERENCE)};
  node.links = {in(GPUDNN_ATTR_OPERATION_NORM_FWD_XDESC, x),
                in(GPUDNN_ATTR_OPERATION_NORM_FWD_MEAN_DESC, mean),
                in(GPUDNN_ATTR_OPERATION_NORM_FWD_INV_VARIANCE_DESC, inv_variance),
                in(GPUDNN_ATTR_OPERATION_NORM_FWD_SCALE_DESC, scale),
                in(GPUDNN_ATTR_OPERATION_NORM_FWD_BIAS_DESC, bias),
                out(GPUDNN_ATTR_OPERATION_NORM_FWD_YDESC, y)};
  add_node(std::move(node));
  return y;
}

inline NormGradients Graph::norm_backward(gpudnnBackendNormMode_t mode, Tensor dy, Tensor x, Tensor scale, Tensor mean,
                                          Tensor inv_variance) {
  if (!own("norm_backward", {dy, x, scale, inv_variance})) return {};
  NormGradients made;
  made.dx = result(x.dims(), x);
  const auto of_parameters = [&] { return result(scale.dims(), scale).set_type(GPUDNN_DATA_FLOAT).set_output(); };
  made.dscale = of_parameters();
  if (mode != GPUDNN_RMS_NORM) made.dbias = of_parameters();
  detail::Node node(GPUDNN_BACKEND_OPERATION_NORM_BACKWARD_DESCRIPTOR);
  node.attributes = {detail::enumerator(GPUDNN_ATTR_OPERATION_NORM_BWD_MODE, GPUDNN_TYPE_NORM_MODE, mode)};
  node.links = {in(GPUDNN_ATTR_OPERATION_NORM_BWD_XDESC, x),
                in(GPUDNN_ATTR_OPERATION_NORM_BWD_DYDESC, dy),
                in(GPUDNN_ATTR_OPERATION_NORM_BWD_MEAN_DESC, mean),
                in(GPUDNN_ATTR_OPERATION_NORM_BWD_INV_VARIANCE_DESC, inv_variance),
                in(GPUDNN_ATTR_OPERATION_NORM_BWD_SCALE_DESC, scale),
                out(GPUDNN_ATTR_OPERATION_NORM_BWD_DXDESC, made.dx),
                out(GPUDNN_ATTR_OPERATION_NORM_BWD_DSCALE_DESC, made.dscale),
                out(GPUDNN_ATTR_OPERATION_NORM_BWD_DBIAS_DESC, made.dbias)};
  add_node(std::move(node));
  return made;
}

// --- resampling and moving
// ----------------------------------------------------------------------------------------------

inline detail::Node Graph::resampling(gpudnnBackendDescriptorType_t kind, gpudnnBackendAttributeName_t companion_name,
                                      const ResampleOptions& options, std::size_t spatial) const {
  using namespace detail;
  const Extents padding = filled(options.padding, spatial, 0);
  Node node(kind);
  node.has_companion = true;
  node.companion = GPUDNN_BACKEND_RESAMPLE_DESCRIPTOR;
  node.companion_name = companion_name;
  node.companion_attributes = {
      enumerator(GPUDNN_ATTR_RESAMPLE_MODE, GPUDNN_TYPE_RESAMPLE_MODE, options.mode),
      data_type(GPUDNN_ATTR_RESAMPLE_COMP_TYPE, options_.compute),
      integer(GPUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, static_cast<std::int64_t>(spatial)),
      enumerator(GPUDNN_ATTR_RESAMPLE_PADDING_MODE, GPUDNN_TYPE_PADDING_MODE,
                 options.mode == GPUDNN_RESAMPLE_MAXPOOL ? GPUDNN_NEG_INF_PAD : GPUDNN_ZERO_PAD),
      fractions(GPUDNN_ATTR_RESAMPLE_PRE_PADDINGS, padding),
      fractions(GPUDNN_ATTR_RESAMPLE_POST_PADDINGS, padding),
      fractions(GPUDNN_ATTR_RESAMPLE_WINDOW_DIMS, options.window),
      fractions(GPUDNN_ATTR_RESAMPLE_STRIDES, options.stride.empty() ? options.window : options.stride)};
  return node;
}

inline Tensor Graph::resample(Tensor x, const ResampleOptions& options) {
  if (!own("resample", {x})) return {};
  const std::size_t spatial = detail::spatial_of(x.dims());
  const Extents& stride = options.stride.empty() ? options.window : options.stride;
  const Extents padding = detail::filled(options.padding, spatial, 0);
  Extents dims = x.dims();
  bool fits = spatial > 0 && options.window.size() == spatial && stride.size() == spatial;
  for (std::size_t i = 0; fits && i < spatial; ++i) {
    const std::int64_t room = dims[i + 2] + 2 * padding[i] - options.window[i];
    fits = room >= 0 && stride[i] > 0;
    if (fits) dims[i + 2] = room / stride[i] + 1;
  }
  if (!fits) {
    return fail("resample: the window (" + detail::dims_text(options.window) + ") does not fit x (" +
                detail::dims_text(x.dims()) + "), or its strides are none"),
           Tensor();
  }
  const Tensor y = result(std::move(dims), x);
  detail::Node node = resampling(GPUDNN_BACKEND_OPERATION_RESAMPLE_FWD_DESCRIPTOR,
                                 GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_DESC, options, spatial);
  node.links = {in(GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_XDESC, x), out(GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_YDESC, y)};
  add_node(std::move(node));
  return y;
}

inline Tensor Graph::resample_backward(Tensor dy, Tensor x, Tensor y, const ResampleOptions& options) {
  if (!own("resample_backward", {dy, x})) return {};
  const Tensor dx = result(x.dims(), x);
  detail::Node node = resampling(GPUDNN_BACKEND_OPERATION_RESAMPLE_BWD_DESCRIPTOR,
                                 GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_DESC, options, detail::spatial_of(x.dims()));
  node.links = {in(GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_DYDESC, dy), in(GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_XDESC, x),
                in(GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_YDESC, y), out(GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_DXDESC, dx)};
  add_node(std::move(node));
  return dx;
}

inline Tensor Graph::reshape(Tensor x, const Extents& dims) {
  if (!own("reshape", {x})) return {};
  const Tensor y = result(dims, Tensor());
  if (y.elements() != x.elements()) {
    return fail("reshape: " + detail::dims_text(x.dims()) + " and " + detail::dims_text(dims) +
                " have different numbers of elements"),
           Tensor();
  }
  detail::Node node(GPUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR);
  node.links = {in(GPUDNN_ATTR_OPERATION_RESHAPE_XDESC, x), out(GPUDNN_ATTR_OPERATION_RESHAPE_YDESC, y)};
  add_node(std::move(node));
  return y;
}

inline Tensor Graph::concat(const std::vector<Tensor>& parts, std::int64_t axis) {
  detail::Link items{GPUDNN_ATTR_OPERATION_CONCAT_INPUT_DESCS, {}, false};
  Extents dims;
  for (const Tensor& part : parts) {
    if (!own("concat", {part})) return {};
    if (axis < 0 || axis >= rank_of(part) || (!dims.empty() && dims.size() != part.dims().size())) {
      return fail("concat: the parts must have as many extents, and axis " + std::to_string(axis) + " among them"),
             Tensor();
    }
    const auto at = static_cast<std::size_t>(axis);
    const std::int64_t before = dims.empty() ? 0 : dims[at];
    if (dims.empty()) dims = part.dims();
    dims[at] = before + part.dims()[at];
    items.tensors.push_back(part.index_);
  }
  if (parts.empty()) return fail("concat: there is no part"), Tensor();
  const Tensor y = result(std::move(dims), parts.front());
  detail::Node node(GPUDNN_BACKEND_OPERATION_CONCAT_DESCRIPTOR);
  node.links = {std::move(items), out(GPUDNN_ATTR_OPERATION_CONCAT_OUTPUT_DESC, y)};
  node.attributes = {detail::integer(GPUDNN_ATTR_OPERATION_CONCAT_AXIS, axis)};
  add_node(std::move(node));
  return y;
}

}  // namespace gpudnn

#endif
