// The checks of the attention problem.
// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/validation.hpp"
#include "ops/attention/problem.hpp"

namespace gpudnn::attention {
namespace {

using Dims = std::array<std::int64_t, 4>;

Status require_dims(const TensorGeometry& tensor, const char* name, const Dims& dims) {
  GPUDNN_TRY(require_described(tensor, name));
  GPUDNN_TRY(require_rank(tensor, name, 4, 4));
  for (int i = 0; i < 4; ++i) {
    GPUDNN_REQUIRE(tensor.dims[i] == dims[static_cast<std::size_t>(i)], GPUDNN_STATUS_BAD_PARAM,
                   "dimension %d of %s is %lld; this problem needs %lld", i, name,
                   static_cast<long long>(tensor.dims[i]), static_cast<long long>(dims[static_cast<std::size_t>(i)]));
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status require_type(const TensorGeometry& tensor, const char* name, DataType type) {
  GPUDNN_REQUIRE(tensor.type == type, GPUDNN_STATUS_BAD_PARAM, "%s has type %s; it must be %s here", name,
                 data_type_name(tensor.type), data_type_name(type));
  return GPUDNN_STATUS_SUCCESS;
}

Status require_tensor(const Problem& problem, const Tensor& tensor, const char* name, const Dims& dims) {
  GPUDNN_TRY(require_dims(tensor.geometry, name, dims));
  GPUDNN_REQUIRE(tensor.offset_bits == 0 || tensor.offset_bits == 32 || tensor.offset_bits == 64,
                 GPUDNN_STATUS_BAD_PARAM, "ragged offsets of %s have %lld bits; they must be INT32 or INT64", name,
                 static_cast<long long>(tensor.offset_bits));
  const bool has_lengths =
      (&tensor == &problem.k || &tensor == &problem.v || &tensor == &problem.dk || &tensor == &problem.dv)
          ? problem.has_length_kv != 0
          : problem.has_length_q != 0;
  GPUDNN_REQUIRE(!tensor.is_ragged() || has_lengths, GPUDNN_STATUS_BAD_PARAM,
                 "%s has ragged offsets, but the problem has no sequence lengths for them; set them", name);
  return GPUDNN_STATUS_SUCCESS;
}

Status require_tensor(const Problem& problem, const Tensor& tensor, const char* name, const Dims& dims, DataType type) {
  GPUDNN_TRY(require_type(tensor.geometry, name, type));
  return require_tensor(problem, tensor, name, dims);
}

// k and v as q: the same type, or any of 8 bits.
Status require_operand(const Problem& problem, const Tensor& tensor, const char* name, const Dims& dims) {
  if (!problem.is_8_bit()) return require_tensor(problem, tensor, name, dims, problem.type());
  GPUDNN_REQUIRE(is_float8(tensor.geometry.type), GPUDNN_STATUS_BAD_PARAM,
                 "%s has type %s; beside q in %s it must be "
                 "of 8 bits too",
                 name, data_type_name(tensor.geometry.type), data_type_name(problem.type()));
  return require_tensor(problem, tensor, name, dims);
}

// o, dO and the gradients: the same type as q, or, beside q in 8 bits, any but double.
Status require_result(const Problem& problem, const Tensor& tensor, const char* name, const Dims& dims) {
  if (!problem.is_8_bit()) return require_tensor(problem, tensor, name, dims, problem.type());
  const DataType type = tensor.geometry.type;
  GPUDNN_REQUIRE(is_float8(type) || (is_floating(type) && type != GPUDNN_DATA_DOUBLE), GPUDNN_STATUS_BAD_PARAM,
                 "%s has type %s; beside q in %s it must be of 8 bits, f16, bf16 or f32", name, data_type_name(type),
                 data_type_name(problem.type()));
  return require_tensor(problem, tensor, name, dims);
}

Status validate_rounded_types(const Problem& problem) {
  for (const DataType type : {problem.p_type, problem.ds_type}) {
    if (type == GPUDNN_DATA_FLOAT) continue;
    GPUDNN_REQUIRE(problem.is_8_bit() && is_float8(type), GPUDNN_STATUS_BAD_PARAM,
                   "p or dS is rounded to %s; it is to a type of 8 bits, beside q in 8 bits, or not at all",
                   data_type_name(type));
  }
  GPUDNN_REQUIRE(problem.backward != 0 || problem.ds_type == GPUDNN_DATA_FLOAT, GPUDNN_STATUS_BAD_PARAM,
                 "forward has no dS to round");
  return GPUDNN_STATUS_SUCCESS;
}

// Each batch of a ragged tensor lies apart from the others: within one, no two indices may share an address.
Status require_writable(const Tensor& tensor, const char* name) {
  if (!tensor.exists()) return GPUDNN_STATUS_SUCCESS;
  TensorGeometry geometry = tensor.geometry;
  if (tensor.is_ragged()) geometry.dims[0] = 1;
  return require_no_overlap(geometry, name);
}

Status require_groups(std::int64_t heads_q, std::int64_t heads, const char* name) {
  GPUDNN_REQUIRE(heads > 0 && heads_q % heads == 0, GPUDNN_STATUS_BAD_PARAM,
                 "q has %lld heads and %s has %lld; the latter must divide the former", static_cast<long long>(heads_q),
                 name, static_cast<long long>(heads));
  return GPUDNN_STATUS_SUCCESS;
}

Status require_page_table(const Problem& problem, const TensorGeometry& table, const Tensor& pages, const char* name) {
  const std::int64_t page = pages.geometry.dims[2];
  GPUDNN_TRY(require_described(table, name));
  GPUDNN_TRY(require_rank(table, name, 4, 4));
  GPUDNN_REQUIRE(page > 0 && table.dims[2] * page >= problem.length_kv, GPUDNN_STATUS_BAD_PARAM,
                 "%s has %lld pages of %lld for a sequence; they must hold %lld keys", name,
                 static_cast<long long>(table.dims[2]), static_cast<long long>(page),
                 static_cast<long long>(problem.length_kv));
  GPUDNN_TRY(require_dims(table, name, {problem.batch(), 1, table.dims[2], 1}));
  GPUDNN_TRY(require_type(table, name, GPUDNN_DATA_INT32));
  GPUDNN_REQUIRE(problem.has_length_kv != 0, GPUDNN_STATUS_BAD_PARAM,
                 "k and v are paged, but there are no lengths of the key sequences; set them");
  GPUDNN_REQUIRE(problem.backward == 0, GPUDNN_STATUS_NOT_SUPPORTED,
                 "backward of paged k and v: gradients of pages are not built; gather k and v first");
  GPUDNN_REQUIRE(!pages.is_ragged(), GPUDNN_STATUS_BAD_PARAM, "paged k and v have no ragged offsets");
  return GPUDNN_STATUS_SUCCESS;
}

Status validate_inputs(const Problem& problem) {
  const std::int64_t batch = problem.batch();
  GPUDNN_TRY(
      require_operand(problem, problem.q, "q", {batch, problem.heads_q(), problem.length_q(), problem.dim_qk()}));
  if (!problem.is_8_bit()) GPUDNN_TRY(require_floating(problem.q.geometry, "q"));
  GPUDNN_TRY(require_groups(problem.heads_q(), problem.heads_k(), "k"));
  GPUDNN_TRY(require_groups(problem.heads_q(), problem.heads_v(), "v"));
  GPUDNN_REQUIRE(problem.is_paged() == (problem.page_table_v.rank != 0), GPUDNN_STATUS_NOT_SUPPORTED,
                 "only one of k and v is paged; page both or neither");
  if (problem.is_paged()) {
    GPUDNN_TRY(require_page_table(problem, problem.page_table_k, problem.k, "the page table of k"));
    GPUDNN_TRY(require_page_table(problem, problem.page_table_v, problem.v, "the page table of v"));
    const TensorGeometry& k = problem.k.geometry;
    const TensorGeometry& v = problem.v.geometry;
    GPUDNN_TRY(require_operand(problem, problem.k, "k", {k.dims[0], k.dims[1], k.dims[2], problem.dim_qk()}));
    return require_operand(problem, problem.v, "v", {v.dims[0], v.dims[1], v.dims[2], v.dims[3]});
  }
  GPUDNN_TRY(require_operand(problem, problem.k, "k", {batch, problem.heads_k(), problem.length_kv, problem.dim_qk()}));
  return require_operand(problem, problem.v, "v", {batch, problem.heads_v(), problem.length_kv, problem.dim_v()});
}

Status validate_row_outputs(const Problem& problem) {
  const DataType type = problem.type() == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  const struct {
    const Tensor& tensor;
    const char* name;
  } rows[] = {{problem.stats, "stats"}, {problem.max, "max"}, {problem.sum_exp, "sum_exp"}};
  for (const auto& row : rows) {
    if (!row.tensor.exists()) continue;
    GPUDNN_TRY(require_tensor(problem, row.tensor, row.name,
                              {problem.batch(), problem.heads_q(), problem.length_q(), 1}, type));
    GPUDNN_TRY(require_writable(row.tensor, row.name));
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status validate_gradients(const Problem& problem) {
  GPUDNN_REQUIRE(problem.stats.exists(), GPUDNN_STATUS_BAD_PARAM,
                 "backward reads stats; forward must have written them");
  const TensorGeometry& o = problem.o.geometry;
  GPUDNN_TRY(require_result(problem, problem.d_o, "dO", {o.dims[0], o.dims[1], o.dims[2], o.dims[3]}));
  const struct {
    const Tensor& tensor;
    const Tensor& of;
    const char* name;
  } gradients[] = {{problem.dq, problem.q, "dQ"}, {problem.dk, problem.k, "dK"}, {problem.dv, problem.v, "dV"}};
  for (const auto& gradient : gradients) {
    if (!gradient.tensor.exists()) continue;
    const TensorGeometry& of = gradient.of.geometry;
    GPUDNN_TRY(
        require_result(problem, gradient.tensor, gradient.name, {of.dims[0], of.dims[1], of.dims[2], of.dims[3]}));
    GPUDNN_TRY(require_writable(gradient.tensor, gradient.name));
  }
  GPUDNN_REQUIRE(problem.has_dsink == 0 || problem.has_sink != 0, GPUDNN_STATUS_BAD_PARAM,
                 "dSink is asked for, but there is no sink");
  GPUDNN_REQUIRE(!problem.max.exists() && !problem.sum_exp.exists() && problem.dropout_mask.rank == 0,
                 GPUDNN_STATUS_BAD_PARAM, "max, sum_exp and the dropout mask are outputs of forward alone");
  return GPUDNN_STATUS_SUCCESS;
}

Status validate_bias(const Problem& problem, const TensorGeometry& bias, const char* name) {
  if (bias.rank == 0) return GPUDNN_STATUS_SUCCESS;
  TensorGeometry scores;
  scores.rank = 4;
  scores.dims[0] = problem.batch();
  scores.dims[1] = problem.heads_q();
  scores.dims[2] = problem.length_q();
  scores.dims[3] = problem.length_kv;
  GPUDNN_TRY(require_floating(bias, name));
  return require_dims_or_ones(bias, name, scores, "the scores");
}

Status validate_score_options(const Problem& problem) {
  GPUDNN_TRY(validate_bias(problem, problem.bias, "bias"));
  GPUDNN_TRY(validate_bias(problem, problem.dbias, "dBias"));
  GPUDNN_REQUIRE(!problem.is_8_bit() || problem.dbias.rank == 0, GPUDNN_STATUS_NOT_SUPPORTED,
                 "dBias beside q in 8 bits is not built");
  if (problem.dbias.rank != 0) GPUDNN_TRY(require_no_overlap(problem.dbias, "dBias"));
  const std::int64_t batch = problem.batch();
  if (problem.block_mask.rank != 0) {
    const std::int64_t rows = (problem.length_q() + 127) / 128;
    const std::int64_t bytes = ((problem.length_kv + 127) / 128 + 7) / 8;
    GPUDNN_TRY(require_dims(problem.block_mask, "the block mask", {batch, problem.heads_q(), rows, bytes}));
    GPUDNN_TRY(require_type(problem.block_mask, "the block mask", GPUDNN_DATA_UINT8));
  }
  if (problem.dropout_mask.rank != 0) {
    GPUDNN_REQUIRE(problem.has_dropout != 0, GPUDNN_STATUS_BAD_PARAM, "a dropout mask is asked for without dropout");
    GPUDNN_TRY(require_floating(problem.dropout_mask, "the dropout mask"));
    GPUDNN_TRY(require_dims(problem.dropout_mask, "the dropout mask",
                            {batch, problem.heads_q(), problem.length_q(), problem.length_kv}));
  }
  GPUDNN_REQUIRE(problem.has_dropout == 0 || (problem.dropout >= 0 && problem.dropout <= 1), GPUDNN_STATUS_BAD_PARAM,
                 "the probability of dropout is %g; it must lie between 0 and 1", problem.dropout);
  GPUDNN_REQUIRE(problem.has_dropout == 0 || problem.seed_bits == 32 || problem.seed_bits == 64,
                 GPUDNN_STATUS_BAD_PARAM, "seed and offset have %d bits; they must be INT32 or INT64",
                 problem.seed_bits);
  GPUDNN_REQUIRE(problem.has_soft_cap == 0 || problem.soft_cap > 0, GPUDNN_STATUS_BAD_PARAM,
                 "the soft cap is %g; it must be positive", problem.soft_cap);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

Status validate(const Problem& problem) {
  const struct {
    const Tensor& tensor;
    const char* name;
  } four[] = {{problem.q, "q"}, {problem.k, "k"}, {problem.v, "v"}, {problem.o, "o"}};
  for (const auto& [tensor, name] : four) {
    GPUDNN_TRY(require_described(tensor.geometry, name));
    GPUDNN_TRY(require_rank(tensor.geometry, name, 4, 4));
  }
  GPUDNN_REQUIRE(problem.length_kv > 0, GPUDNN_STATUS_BAD_PARAM, "the length of the key sequences is %lld",
                 static_cast<long long>(problem.length_kv));
  GPUDNN_TRY(validate_inputs(problem));
  GPUDNN_TRY(validate_rounded_types(problem));
  GPUDNN_TRY(require_result(problem, problem.o, "o",
                            {problem.batch(), problem.heads_q(), problem.length_q(), problem.dim_v()}));
  GPUDNN_TRY(validate_row_outputs(problem));
  GPUDNN_TRY(validate_score_options(problem));
  return problem.backward != 0 ? validate_gradients(problem) : require_writable(problem.o, "o");
}

Status validate(const Problem& problem, const Args& args) {
  const auto data_of = [](const auto& data) { return static_cast<const void*>(data.data); };
  const struct {
    const Tensor& tensor;
    const void* data;
    const void* offsets;
    const char* name;
  } tensors[] = {{problem.q, data_of(args.q), args.q.offsets, "q"},
                 {problem.k, data_of(args.k), args.k.offsets, "k"},
                 {problem.v, data_of(args.v), args.v.offsets, "v"},
                 {problem.o, data_of(args.o), args.o.offsets, "o"},
                 {problem.stats, data_of(args.stats), args.stats.offsets, "stats"},
                 {problem.max, data_of(args.max), args.max.offsets, "max"},
                 {problem.sum_exp, data_of(args.sum_exp), args.sum_exp.offsets, "sum_exp"},
                 {problem.d_o, data_of(args.d_o), args.d_o.offsets, "dO"},
                 {problem.dq, data_of(args.dq), args.dq.offsets, "dQ"},
                 {problem.dk, data_of(args.dk), args.dk.offsets, "dK"},
                 {problem.dv, data_of(args.dv), args.dv.offsets, "dV"}};
  for (const auto& [tensor, data, offsets, name] : tensors) {
    GPUDNN_REQUIRE(!tensor.exists() || data != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                   "%s is null; the problem needs its memory", name);
    GPUDNN_REQUIRE(!tensor.is_ragged() || offsets != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                   "the ragged offsets of %s are null", name);
  }
  const struct {
    bool needed;
    const void* data;
    const char* name;
  } others[] = {{problem.bias.rank != 0, args.bias, "bias"},
                {problem.dbias.rank != 0, args.dbias, "dBias"},
                {problem.block_mask.rank != 0, args.block_mask, "the block mask"},
                {problem.page_table_k.rank != 0, args.page_table_k, "the page table of k"},
                {problem.page_table_v.rank != 0, args.page_table_v, "the page table of v"},
                {problem.has_length_q != 0, args.length_q, "the lengths of q"},
                {problem.has_length_kv != 0, args.length_kv, "the lengths of k and v"},
                {problem.has_alibi != 0, args.alibi_slopes, "the slopes of ALiBi"},
                {problem.has_sink != 0, args.sink, "sink"},
                {problem.has_dsink != 0, args.dsink, "dSink"},
                {problem.dropout_mask.rank != 0, args.dropout_mask, "the dropout mask"}};
  for (const auto& [needed, data, name] : others) {
    GPUDNN_REQUIRE(!needed || data != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                   "%s is null; the problem needs its memory", name);
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::attention
