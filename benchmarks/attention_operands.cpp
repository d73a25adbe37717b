// The tensors of an attention problem.
// SPDX-License-Identifier: Apache-2.0
#include "attention_operands.hpp"

#include <algorithm>
#include <numeric>

#include "kernels/attention/attention.hpp"

namespace gpudnn::bench {
namespace {

using attention::Args;
using attention::Problem;

TensorGeometry vector_of(DataType type, std::size_t count) {
  const std::int64_t dims[] = {static_cast<std::int64_t>(count)};
  return packed_tensor(type, GPUDNN_TENSOR_NCHW, 1, dims);
}
Operand integers(std::vector<std::int32_t> values) {
  return {vector_of(GPUDNN_DATA_INT32, values.size()), Fill::normal, std::move(values)};
}

// The starts of sequences that all have the greatest length. 64-bit ones are pairs of words.
Operand offsets(const attention::Tensor& tensor, std::int64_t batch, std::int64_t length) {
  std::vector<std::int32_t> values;
  for (std::int64_t b = 0; b <= batch; ++b) {
    const std::int64_t offset = b * length * tensor.geometry.strides[2] / tensor.offset_scale;
    values.push_back(static_cast<std::int32_t>(offset));
    if (tensor.offset_bits == 64) values.push_back(static_cast<std::int32_t>(offset >> 32));
  }
  return integers(std::move(values));
}

// Neighbours of a sequence are far from each other in the container.
Operand page_table(const TensorGeometry& table, const attention::Tensor& pages) {
  const std::int64_t count = std::max<std::int64_t>(pages.geometry.dims[0], 1);
  std::int64_t step = count * 5 / 8 + 1;
  while (std::gcd(step, count) != 1) ++step;
  std::vector<std::int32_t> values(static_cast<std::size_t>(element_span(table)));
  std::int64_t number = 0;
  for (std::int64_t b = 0; b < table.dims[0]; ++b) {
    for (std::int64_t i = 0; i < table.dims[2]; ++i) {
      values[static_cast<std::size_t>(b * table.strides[0] + i * table.strides[2])] =
          static_cast<std::int32_t>(number++ * step % count);
    }
  }
  return integers(std::move(values));
}

// Packed ragged tensors have the span of full ones.
void add(std::vector<AttentionOperand>* list, const attention::Tensor& tensor, Fill fill, void (*bind)(Args*, void*)) {
  if (tensor.exists()) list->push_back({{tensor.geometry, fill, {}}, bind});
}
void add(std::vector<AttentionOperand>* list, const TensorGeometry& tensor, void (*bind)(Args*, void*)) {
  if (tensor.rank != 0) list->push_back({{tensor, Fill::normal, {}}, bind});
}
void add_offsets(std::vector<AttentionOperand>* list, const Problem& p, const attention::Tensor& tensor,
                 std::int64_t length, void (*bind)(Args*, void*)) {
  if (tensor.is_ragged()) list->push_back({offsets(tensor, p.batch(), length), bind});
}

void add_all_offsets(std::vector<AttentionOperand>* list, const Problem& p) {
  const std::int64_t q = p.length_q();
  add_offsets(list, p, p.q, q, [](Args* a, void* data) { a->q.offsets = data; });
  add_offsets(list, p, p.k, p.length_kv, [](Args* a, void* data) { a->k.offsets = data; });
  add_offsets(list, p, p.v, p.length_kv, [](Args* a, void* data) { a->v.offsets = data; });
  add_offsets(list, p, p.o, q, [](Args* a, void* data) { a->o.offsets = data; });
  add_offsets(list, p, p.stats, q, [](Args* a, void* data) { a->stats.offsets = data; });
  add_offsets(list, p, p.d_o, q, [](Args* a, void* data) { a->d_o.offsets = data; });
  add_offsets(list, p, p.dq, q, [](Args* a, void* data) { a->dq.offsets = data; });
  add_offsets(list, p, p.dk, p.length_kv, [](Args* a, void* data) { a->dk.offsets = data; });
  add_offsets(list, p, p.dv, p.length_kv, [](Args* a, void* data) { a->dv.offsets = data; });
}

void add_options(std::vector<AttentionOperand>* list, const Problem& p) {
  const auto heads = static_cast<std::size_t>(p.heads_q());
  const auto batch = static_cast<std::size_t>(p.batch());
  const auto lengths = [&](std::int64_t length) {
    return integers(std::vector<std::int32_t>(batch, static_cast<std::int32_t>(length)));
  };
  add(list, p.bias, [](Args* a, void* data) { a->bias = data; });
  if (p.block_mask.rank != 0) {
    const std::vector<std::int32_t> all(static_cast<std::size_t>(element_span(p.block_mask) + 3) / 4, -1);
    list->push_back({integers(all), [](Args* a, void* data) { a->block_mask = static_cast<std::uint8_t*>(data); }});
  }
  if (p.page_table_k.rank != 0) {
    list->push_back({page_table(p.page_table_k, p.k),
                     [](Args* a, void* data) { a->page_table_k = static_cast<std::int32_t*>(data); }});
    list->push_back({page_table(p.page_table_v, p.v),
                     [](Args* a, void* data) { a->page_table_v = static_cast<std::int32_t*>(data); }});
  }
  if (p.has_length_q != 0)
    list->push_back(
        {lengths(p.length_q()), [](Args* a, void* data) { a->length_q = static_cast<std::int32_t*>(data); }});
  if (p.has_length_kv != 0)
    list->push_back(
        {lengths(p.length_kv), [](Args* a, void* data) { a->length_kv = static_cast<std::int32_t*>(data); }});
  const TensorGeometry of_heads = vector_of(GPUDNN_DATA_FLOAT, heads);
  if (p.has_alibi != 0) add(list, of_heads, [](Args* a, void* data) { a->alibi_slopes = static_cast<float*>(data); });
  if (p.has_sink != 0) add(list, of_heads, [](Args* a, void* data) { a->sink = static_cast<float*>(data); });
  // Of the numbers that scale 8-bit floats one of each kind, and the greatest magnitudes.
  if (!p.is_8_bit()) return;
  const Operand number{vector_of(GPUDNN_DATA_FLOAT, 1), Fill::positive, {}};
  list->push_back({number, [](Args* a, void* data) { a->float8.scores[0] = static_cast<float*>(data); }});
  list->push_back({number, [](Args* a, void* data) { a->float8.output[0] = static_cast<float*>(data); }});
  list->push_back({number, [](Args* a, void* data) { a->float8.scale_s = static_cast<float*>(data); }});
  list->push_back({number, [](Args* a, void* data) { a->float8.scale_o = static_cast<float*>(data); }});
}

}  // namespace

std::vector<AttentionOperand> attention_inputs(const Problem& p) {
  std::vector<AttentionOperand> list;
  add(&list, p.q, Fill::normal, [](Args* a, void* data) { a->q.data = data; });
  add(&list, p.k, Fill::normal, [](Args* a, void* data) { a->k.data = data; });
  add(&list, p.v, Fill::normal, [](Args* a, void* data) { a->v.data = data; });
  if (p.backward != 0) {
    add(&list, p.o, Fill::normal, [](Args* a, void* data) { a->o.data = data; });
    add(&list, p.stats, Fill::positive, [](Args* a, void* data) { a->stats.data = data; });
    add(&list, p.d_o, Fill::normal, [](Args* a, void* data) { a->d_o.data = data; });
  }
  add_all_offsets(&list, p);
  add_options(&list, p);
  return list;
}

std::vector<AttentionOperand> attention_outputs(const Problem& p) {
  std::vector<AttentionOperand> list;
  if (p.backward == 0) {
    add(&list, p.o, Fill::normal, [](Args* a, void* data) { a->o.data = data; });
    add(&list, p.stats, Fill::normal, [](Args* a, void* data) { a->stats.data = data; });
    add(&list, p.max, Fill::normal, [](Args* a, void* data) { a->max.data = data; });
    add(&list, p.sum_exp, Fill::normal, [](Args* a, void* data) { a->sum_exp.data = data; });
    add(&list, p.dropout_mask, [](Args* a, void* data) { a->dropout_mask = data; });
    if (p.is_8_bit()) {
      const TensorGeometry number = vector_of(GPUDNN_DATA_FLOAT, 1);
      add(&list, number, [](Args* a, void* data) { a->float8.amax_s = static_cast<float*>(data); });
      add(&list, number, [](Args* a, void* data) { a->float8.amax_o = static_cast<float*>(data); });
    }
    return list;
  }
  add(&list, p.dq, Fill::normal, [](Args* a, void* data) { a->dq.data = data; });
  add(&list, p.dk, Fill::normal, [](Args* a, void* data) { a->dk.data = data; });
  add(&list, p.dv, Fill::normal, [](Args* a, void* data) { a->dv.data = data; });
  if (p.is_8_bit()) {
    const TensorGeometry number = vector_of(GPUDNN_DATA_FLOAT, 1);
    add(&list, number, [](Args* a, void* data) { a->float8.amax_ds = static_cast<float*>(data); });
    add(&list, number, [](Args* a, void* data) { a->float8.amax_dq = static_cast<float*>(data); });
  }
  add(&list, p.dbias, [](Args* a, void* data) { a->dbias = data; });
  if (p.has_dsink != 0) {
    add(&list, vector_of(GPUDNN_DATA_FLOAT, static_cast<std::size_t>(p.heads_q())),
        [](Args* a, void* data) { a->dsink = static_cast<float*>(data); });
  }
  return list;
}

double attention_flops(const Problem& problem) {
  kernels::AttentionParams bounds;
  bounds.length_q = problem.length_q();
  bounds.length_kv = problem.length_kv;
  bounds.has_left = problem.has_left != 0, bounds.left = problem.left;
  bounds.has_right = problem.has_right != 0, bounds.right = problem.right;
  bounds.bottom_right = problem.bottom_right != 0;
  double pairs = 0;
  for (std::int64_t row = 0; row < problem.length_q(); ++row) {
    const kernels::ColumnRange range = kernels::visible_columns(bounds, {problem.length_q(), problem.length_kv}, row);
    pairs += static_cast<double>(std::max<std::int64_t>(range.end - std::max<std::int64_t>(range.first, 0), 0));
  }
  const auto qk = static_cast<double>(problem.dim_qk());
  const auto v = static_cast<double>(problem.dim_v());
  const double of_pair = problem.backward != 0 ? 2 * (3 * qk + 2 * v) : 2 * (qk + v);
  return pairs * of_pair * static_cast<double>(problem.batch() * problem.heads_q());
}

}  // namespace gpudnn::bench
