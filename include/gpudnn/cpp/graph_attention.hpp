// libgpudnn for C++: attention in the graph builder. Included by graph.hpp.
// SPDX-License-Identifier: Apache-2.0
#ifndef GPUDNN_CPP_GRAPH_ATTENTION_HPP_
#define GPUDNN_CPP_GRAPH_ATTENTION_HPP_

#include <cmath>
#include <limits>

#include "gpudnn/cpp/graph.hpp"

namespace gpudnn {

inline AttentionResult Graph::attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options) {
  if (!own("attention", {q, k, v})) return {};
  if (rank_of(q) != 4 || rank_of(k) != 4 || rank_of(v) != 4) {
    return fail("attention: q, k and v must have 4 extents: batch, heads, length, size of a head"), AttentionResult();
  }
  if (options.causal) return causal_attention(q, k, v, options);
  AttentionResult made;
  made.o = result({q.dims()[0], q.dims()[1], q.dims()[2], v.dims()[3]}, q);
  if (options.statistics) {
    Tensor statistics = result({q.dims()[0], q.dims()[1], q.dims()[2], 1}, Tensor());
    made.statistics = statistics.set_type(GPUDNN_DATA_FLOAT).set_output();
  }
  const double size = static_cast<double>(q.dims()[3]);
  const Tensor scale = scalar(options.scale > 0 ? options.scale : 1 / std::sqrt(size));
  detail::Node node(GPUDNN_BACKEND_OPERATION_SDPA_FWD_DESCRIPTOR);
  node.links = {in(GPUDNN_ATTR_OPERATION_SDPA_FWD_QDESC, q),
                in(GPUDNN_ATTR_OPERATION_SDPA_FWD_KDESC, k),
                in(GPUDNN_ATTR_OPERATION_SDPA_FWD_VDESC, v),
                in(GPUDNN_ATTR_OPERATION_SDPA_FWD_SCALEDESC, scale),
                in(GPUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_QDESC, options.seq_len_q),
                in(GPUDNN_ATTR_OPERATION_SDPA_FWD_SEQ_LEN_KVDESC, options.seq_len_kv),
                out(GPUDNN_ATTR_OPERATION_SDPA_FWD_ODESC, made.o),
                out(GPUDNN_ATTR_OPERATION_SDPA_FWD_STATSDESC, made.statistics)};
  add_node(std::move(node));
  return made;
}

inline AttentionGradients Graph::attention_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor d_o,
                                                    Tensor statistics, const AttentionOptions& options) {
  if (!own("attention_backward", {q, k, v, o, d_o, statistics})) return {};
  if (options.causal) return causal_attention_backward(q, k, v, o, d_o, statistics, options);
  AttentionGradients made{result(q.dims(), q), result(k.dims(), k), result(v.dims(), v)};
  const double size = static_cast<double>(q.dims()[3]);
  const Tensor scale = scalar(options.scale > 0 ? options.scale : 1 / std::sqrt(size));
  detail::Node node(GPUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR);
  node.links = {in(GPUDNN_ATTR_OPERATION_SDPA_BWD_QDESC, q),
                in(GPUDNN_ATTR_OPERATION_SDPA_BWD_KDESC, k),
                in(GPUDNN_ATTR_OPERATION_SDPA_BWD_VDESC, v),
                in(GPUDNN_ATTR_OPERATION_SDPA_BWD_ODESC, o),
                in(GPUDNN_ATTR_OPERATION_SDPA_BWD_DODDESC, d_o),
                in(GPUDNN_ATTR_OPERATION_SDPA_BWD_STATSDESC, statistics),
                in(GPUDNN_ATTR_OPERATION_SDPA_BWD_SCALEDESC, scale),
                in(GPUDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_QDESC, options.seq_len_q),
                in(GPUDNN_ATTR_OPERATION_SDPA_BWD_SEQ_LEN_KVDESC, options.seq_len_kv),
                out(GPUDNN_ATTR_OPERATION_SDPA_BWD_DQDESC, made.dq),
                out(GPUDNN_ATTR_OPERATION_SDPA_BWD_DKDESC, made.dk),
                out(GPUDNN_ATTR_OPERATION_SDPA_BWD_DVDESC, made.dv)};
  add_node(std::move(node));
  return made;
}

// --- with a causal mask
// -----------------------------------------------------------------------------------------------

inline Tensor Graph::causal_scores(Tensor rows, Tensor columns, double scale, bool transposed) {
  const Tensor scores = mul(matmul(rows, columns), scale);
  const std::int64_t query_axis = transposed ? 3 : 2;
  const Tensor visible = greater_equal(gen_index(scores, query_axis), gen_index(scores, 5 - query_axis));
  return select(visible, scores, scalar(-std::numeric_limits<double>::infinity()));
}

inline AttentionResult Graph::causal_attention(Tensor q, Tensor k, Tensor v, const AttentionOptions& options) {
  const std::int64_t heads = q.dims()[1];
  if (options.seq_len_q || options.seq_len_kv || k.dims()[1] != heads || v.dims()[1] != heads) {
    return fail("attention: causal takes no seq_len, and k and v must have as many heads as q"), AttentionResult();
  }
  const double scale = options.scale > 0 ? options.scale : 1 / std::sqrt(static_cast<double>(q.dims()[3]));
  const Tensor scores = causal_scores(q, transpose(k), scale, false);
  if (!scores) return {};
  const Tensor most = reduce_max(scores, {3});
  const Tensor weights = exp(sub(scores, most));
  const Tensor total = reduce_sum(weights, {3});
  AttentionResult made;
  made.o = matmul(div(weights, total), v);
  if (made.o) made.o.row().strides = detail::packed_as(made.o.dims(), q.row());
  if (options.statistics) {
    made.statistics = add(most, log(total));
    made.statistics.set_type(GPUDNN_DATA_FLOAT).set_output();
  }
  return made;
}

// dv = p^T do;  ds = p (do v^T - sum of do o);  dq = scale ds k;  dk = scale ds^T q. Transposes of p and ds are made
// anew from the operands' transposes.
inline AttentionGradients Graph::causal_attention_backward(Tensor q, Tensor k, Tensor v, Tensor o, Tensor d_o,
                                                           Tensor statistics, const AttentionOptions& options) {
  const std::int64_t heads = q.dims().size() == 4 ? q.dims()[1] : 0;
  if (rank_of(q) != 4 || rank_of(k) != 4 || rank_of(v) != 4 || options.seq_len_q || options.seq_len_kv ||
      k.dims()[1] != heads || v.dims()[1] != heads) {
    return fail("attention_backward: causal takes 4 extents and no seq_len, and k and v must have as many heads as q"),
           AttentionGradients();
  }
  const double scale = options.scale > 0 ? options.scale : 1 / std::sqrt(static_cast<double>(q.dims()[3]));
  const auto score_gradient = [&](Tensor p, Tensor dp, Tensor delta) { return mul(mul(p, sub(dp, delta)), scale); };
  AttentionGradients made;
  {
    const Tensor p = exp(sub(causal_scores(q, transpose(k), scale, false), statistics));
    const Tensor ds = score_gradient(p, matmul(d_o, transpose(v)), reduce_sum(mul(o, d_o), {3}));
    made.dq = matmul(ds, k);
  }
  const Tensor p = exp(sub(causal_scores(k, transpose(q), scale, true), transpose(statistics)));
  const Tensor ds = score_gradient(p, matmul(v, transpose(d_o)), reduce_sum(mul(transpose(o), transpose(d_o)), {2}));
  made.dk = matmul(ds, q);
  made.dv = matmul(p, d_o);
  for (const auto& [gradient, of] : {std::pair(made.dq, q), std::pair(made.dk, k), std::pair(made.dv, v)}) {
    if (gradient) gradient.row().strides = detail::packed_as(gradient.dims(), of.row());
  }
  return made;
}

}  // namespace gpudnn

#endif
