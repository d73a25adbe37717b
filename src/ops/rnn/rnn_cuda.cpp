// The stages of recurrent networks on CUDA.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "kernels/rnn/persistent.hpp"
#include "kernels/rnn/step.hpp"
#include "ops/matmul/engine.hpp"
#include "ops/rnn/cuda_engines.hpp"
#include "ops/rnn/stages.hpp"

namespace gpudnn::rnn {
namespace {

TensorGeometry matrix(DataType type, std::int64_t rows, std::int64_t columns, std::int64_t row, std::int64_t column) {
  TensorGeometry m;
  m.type = type;
  m.rank = 2;
  m.dims[0] = rows, m.dims[1] = columns;
  m.strides[0] = row, m.strides[1] = column;
  return m;
}

matmul::Problem matmul_of(const Product& p) {
  matmul::Problem problem;
  problem.compute = p.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  problem.math = p.math;
  problem.a = matrix(p.type, p.m, p.k, p.a_strides[0], p.a_strides[1]);
  problem.b = matrix(p.type, p.k, p.n, p.b_strides[0], p.b_strides[1]);
  problem.d = matrix(p.type, p.m, p.n, p.d_row, 1);
  if (p.adds) problem.c = problem.d;
  return problem;
}

Status product(const Site& site, const Product& p) {
  matmul::Args args;
  args.a = p.a;
  args.b = p.b;
  args.d = p.d;
  if (p.adds) args.c = p.d, args.beta = 1;
  return matmul::run(site.handle, matmul_of(p), args, site.scratch, site.scratch_bytes);
}

Status product_scratch(gpudnnHandle_t handle, const Product& p, std::size_t* bytes) {
  return matmul::workspace_size(handle, matmul_of(p), bytes);
}

void forward(const Site& site, const kernels::RnnLayer& layer) {
  kernels::launch_rnn_forward(layer, site.launch.stream);
}
void backward(const Site& site, const kernels::RnnLayer& layer) {
  kernels::launch_rnn_backward(layer, site.launch.stream);
}
void pass(const Site& site, const kernels::RnnLayer& layer, bool backward) {
  kernels::launch_rnn_pass(layer, backward, site.launch.stream);
}
void gather(const Site& site, const kernels::RnnCopy& copy, const void* from, void* rows) {
  kernels::launch_rnn_gather(copy, from, rows, site.launch.stream);
}
void scatter(const Site& site, const kernels::RnnCopy& copy, const void* rows, void* to) {
  kernels::launch_rnn_scatter(copy, rows, to, site.launch.stream);
}
void upload(const Site& site, const std::int32_t* from, std::int64_t count, std::int32_t* to) {
  kernels::launch_rnn_upload(from, count, to, site.launch.stream);
}
void previous(const Site& site, const kernels::RnnLayer& layer, int direction, void* to) {
  kernels::launch_rnn_previous(layer, direction, to, site.launch.stream);
}
void transpose(const Site& site, tile::ElementType type, const void* from, std::int64_t rows, std::int64_t columns,
               void* to) {
  kernels::launch_rnn_transpose(type, from, rows, columns, to, site.launch.stream);
}
void column_sums(const Site& site, const kernels::RnnColumnSums& sums) {
  kernels::launch_rnn_column_sums(sums, site.launch.stream);
}
void gate_sum(const Site& site, const kernels::RnnGateSum& sum) {
  kernels::launch_rnn_gate_sum(sum, site.launch.stream);
}
Status clear(const Site& site, void* to, std::size_t bytes) {
  return cuda::fill(site.launch.device, site.launch.stream, to, 0, bytes);
}

kernels::RnnPersistentShape persistent_shape(const kernels::RnnLayer& l, bool backward, const Device& device) {
  return kernels::rnn_persistent_shape(l.cell, l.units, l.rows.batch, l.directions, backward, device.multiprocessors);
}

// False where the layer does not fit on the chip after all.
bool sweep_persistent(const Site& site, const kernels::RnnLayer& layer, bool backward) {
  if (!layer.tensor_cores || !kernels::rnn_is_aligned(layer)) return false;
  const kernels::RnnPersistentShape shape = persistent_shape(layer, backward, site.launch.device);
  if (shape.block < 0) return false;
  const cudaStream_t stream = site.launch.stream;
  if (cuda::fill(site.launch.device, stream, site.flags, 0, kernels::kRnnFlagBytes) != GPUDNN_STATUS_SUCCESS) {
    return false;
  }
  auto* const flags = static_cast<std::uint32_t*>(site.flags);
  return layer.type == tile::ElementType::f16
             ? kernels::launch_rnn_persistent_f16(layer, shape, backward, flags, stream)
             : kernels::launch_rnn_persistent_bf16(layer, shape, backward, flags, stream);
}

// Clusters exchange h within the chip; they take sequences of equal length.
bool sweep_clusters(const Site& site, const kernels::RnnLayer& layer) {
  if (!layer.tensor_cores || !kernels::rnn_is_aligned(layer) || layer.rows.offsets != nullptr) return false;
  if (layer.cell != kernels::RnnCell::lstm && layer.cell != kernels::RnnCell::gru) return false;
  const kernels::RnnPersistentShape shape = kernels::rnn_cluster_shape(layer.cell, layer.units);
  if (shape.block < 0) return false;
  return layer.type == tile::ElementType::f16 ? kernels::launch_rnn_cluster_f16(layer, shape, site.launch.stream)
                                              : kernels::launch_rnn_cluster_bf16(layer, shape, site.launch.stream);
}

void forward_persistent(const Site& site, const kernels::RnnLayer& layer) {
  if (sweep_clusters(site, layer)) return;
  if (!sweep_persistent(site, layer, false)) forward(site, layer);
}
void backward_persistent(const Site& site, const kernels::RnnLayer& layer) {
  if (!sweep_persistent(site, layer, true)) return backward(site, layer);
  kernels::launch_rnn_backward_first(layer, site.launch.stream);
}

constexpr Stages with_sweeps(void (*forward_sweep)(const Site&, const kernels::RnnLayer&),
                             void (*backward_sweep)(const Site&, const kernels::RnnLayer&)) {
  return {.product = &product,
          .product_scratch = &product_scratch,
          .forward = forward_sweep,
          .backward = backward_sweep,
          .pass = &pass,
          .gather = &gather,
          .scatter = &scatter,
          .upload = &upload,
          .previous = &previous,
          .transpose = &transpose,
          .column_sums = &column_sums,
          .gate_sum = &gate_sum,
          .clear = &clear};
}

}  // namespace

const Stages kStreamingStages = with_sweeps(&forward, &backward);
static const Stages kPersistentStages = with_sweeps(&forward_persistent, &backward_persistent);

Status streaming_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  GPUDNN_TRY(run_stages(kStreamingStages, site, problem, args));
  return cuda::launch_status("rnn_streaming");
}

Status persistent_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  GPUDNN_TRY(run_stages(kPersistentStages, site, problem, args));
  return cuda::launch_status("rnn_persistent");
}

Support supports_persistent(const Problem& problem, const Device& device) {
  const Network& n = problem.net;
  if (problem.pass == Pass::wgrad) return Support::no("gradients of weights have no sweep");
  if (device.major != 9) return Support::no("it needs compute capability 9.0");
  if (n.type != GPUDNN_DATA_HALF && n.type != GPUDNN_DATA_BFLOAT16) return Support::no("it takes f16 and bf16");
  if (n.math == GPUDNN_FMA_MATH) return Support::no("the math type rules out tensor cores");
  if (n.projects()) return Support::no("it has no projection");
  if (n.hidden % 16 != 0) return Support::no("hiddenSize must be a multiple of 16");
  const bool backward = problem.pass == Pass::dgrad;
  const kernels::RnnPersistentShape shape = kernels::rnn_persistent_shape(
      n.kind(), n.hidden, problem.sequences.batch, n.directions(), backward, device.multiprocessors);
  if (shape.block < 0) return Support::no("the recurrent weights or the batch do not fit on the chip");
  return Support::yes();
}

}  // namespace gpudnn::rnn
