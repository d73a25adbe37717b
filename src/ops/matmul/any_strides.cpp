// The parameters of the kernels that take any strides.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/any_strides.hpp"

#include <algorithm>
#include <utility>

#include "ops/matmul/element.hpp"

namespace gpudnn::matmul {
namespace {

namespace k = kernels::matmul;

std::int64_t bytes_of_vector(k::Element type, std::size_t vector_bytes) {
  if (vector_bytes > 0) return static_cast<std::int64_t>(vector_bytes);
  return std::min<std::int64_t>(16, 4 * std::int64_t{k::element_bytes(type)});
}

bool is_aligned(const void* pointer, std::int64_t bytes) {
  return reinterpret_cast<std::uintptr_t>(pointer) % static_cast<std::uintptr_t>(bytes) == 0;
}

// Strides that all lead from one vector to another.
bool keep_vectors(std::initializer_list<std::int64_t> strides, std::int64_t elements) {
  return std::ranges::all_of(strides, [elements](std::int64_t stride) { return stride % elements == 0; });
}

// `row` and `depth` are the tensor's dimensions with the operand's rows and with k.
k::GemmOperand operand_of(const TensorGeometry& tensor, const TensorGeometry& d, int row, int depth,
                          std::size_t vector_bytes, bool* vectors) {
  const Batched t = batched(tensor);
  const Batched whole = batched(d);
  k::GemmOperand o;
  o.type = element_of(tensor.type);
  o.row_stride = tensor.strides[row];
  o.k_stride = tensor.strides[depth];
  o.along_k = tensor.dims[depth] > 1 && (tensor.dims[row] == 1 || o.k_stride <= o.row_stride);
  for (int i = 0; i < kMaxBatchDims; ++i) {
    o.batch_stride[i] = t.dims[i] > 1 ? t.strides[i] : 0;
    o.repeat[i] = t.dims[i] > 0 ? whole.dims[i] / t.dims[i] : 1;
  }
  const int far = o.along_k ? row : depth;
  const std::int64_t far_stride = tensor.dims[far] > 1 ? tensor.strides[far] : 0;
  const std::int64_t elements =
      vector_bytes > 0 ? static_cast<std::int64_t>(vector_bytes) / k::element_bytes(o.type) : 4;
  *vectors = (o.along_k ? o.k_stride : o.row_stride) == 1 &&
             keep_vectors({far_stride, o.batch_stride[0], o.batch_stride[1]}, elements);
  return o;
}

k::GemmMatrix matrix_of(const TensorGeometry& tensor, bool swapped) {
  k::GemmMatrix x;
  if (tensor.rank == 0) return x;
  const Batched t = batched(tensor);
  x.type = element_of(tensor.type);
  x.m_stride = t.strides[kMaxBatchDims + (swapped ? 1 : 0)];
  x.n_stride = t.strides[kMaxBatchDims + (swapped ? 0 : 1)];
  for (int i = 0; i < kMaxBatchDims; ++i) x.batch_stride[i] = t.strides[i];
  return x;
}

}  // namespace

AnyStrides any_strides(const Problem& problem, bool swapped, std::size_t vector_bytes) {
  AnyStrides prepared;
  prepared.swapped = swapped;
  prepared.vector_bytes = vector_bytes;
  prepared.scales = problem.scales;
  prepared.overrides = problem.overrides;
  prepared.has_c = problem.c.rank > 0;
  prepared.has_bias = problem.bias.rank > 0;
  const int last = problem.d.rank - 1;
  k::GemmParams& p = prepared.params;
  p.a = operand_of(problem.a, problem.d, last - 1, last, vector_bytes, &prepared.a_vectors);
  p.b = operand_of(problem.b, problem.d, last, last - 1, vector_bytes, &prepared.b_vectors);
  p.m = rows(problem);
  p.n = columns(problem);
  p.k = depth(problem);
  if (swapped) {
    std::swap(p.a, p.b);
    std::swap(prepared.a_vectors, prepared.b_vectors);
    std::swap(p.m, p.n);
  }
  p.c = matrix_of(problem.c, swapped);
  p.bias = matrix_of(problem.bias, swapped);
  p.d = matrix_of(problem.d, swapped);
  prepared.d_vectors = p.d.n_stride == 1 && keep_vectors({p.d.m_stride, p.d.batch_stride[0], p.d.batch_stride[1]}, 4);
  const Batched d = batched(problem.d);
  p.batches = d.dims[0] * d.dims[1];
  p.inner_batches = d.dims[1];
  p.activation.mode = problem.activation;
  p.overrides.wide = problem.override_type == GPUDNN_DATA_INT64;
  p.overrides.by_outer = problem.d.rank == kMaxBatchDims + 2;
  p.has_padding = problem.has_padding != 0;
  return prepared;
}

k::GemmParams with_pointers(const AnyStrides& prepared, const Args& args) {
  k::GemmParams p = prepared.params;
  const auto if_scaled = [&](int bit, auto* pointer) { return (prepared.scales & bit) != 0 ? pointer : nullptr; };
  const auto if_overridden = [&](int bit, const void* values) {
    return (prepared.overrides & bit) != 0 ? values : nullptr;
  };
  p.a.data = prepared.swapped ? args.b : args.a;
  p.b.data = prepared.swapped ? args.a : args.b;
  p.a.vectors = prepared.a_vectors && is_aligned(p.a.data, bytes_of_vector(p.a.type, prepared.vector_bytes));
  p.b.vectors = prepared.b_vectors && is_aligned(p.b.data, bytes_of_vector(p.b.type, prepared.vector_bytes));
  p.c.data = prepared.has_c && args.beta != 0 ? const_cast<void*>(args.c) : nullptr;  // NOLINT: only read
  p.bias.data = prepared.has_bias ? const_cast<void*>(args.bias) : nullptr;           // NOLINT: only read
  p.d.data = args.d;
  p.d.vectors = prepared.d_vectors && is_aligned(args.d, bytes_of_vector(p.d.type, 0));
  p.alpha = args.alpha;
  p.beta = args.beta;
  p.activation = kernels::gemm::activation_args<double>(p.activation.mode, args.activation);
  p.padding = args.padding;
  p.descale_a = if_scaled(kDescaleA, args.descale_a);
  p.descale_b = if_scaled(kDescaleB, args.descale_b);
  p.scale_d = if_scaled(kScaleD, args.scale_d);
  p.amax = if_scaled(kAmax, args.amax);
  p.overrides.m = if_overridden(kOverrideM, args.m_override);
  p.overrides.n = if_overridden(kOverrideN, args.n_override);
  p.overrides.k = if_overridden(kOverrideK, args.k_override);
  if (prepared.swapped) std::swap(p.overrides.m, p.overrides.n);
  return p;
}

}  // namespace gpudnn::matmul
