// The stages of recurrent networks on CUDA.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <algorithm>

#include "kernels/rnn/persistent.hpp"
#include "kernels/rnn/resident.hpp"
#include "kernels/rnn/split.hpp"
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

// In front of a matrix the layers and directions; of one that is the same for both directions one.
TensorGeometry several(const Product& p, const TensorGeometry& matrix, const std::int64_t (&steps)[2]) {
  if (p.counts[0] * p.counts[1] == 1) return matrix;
  TensorGeometry m = matrix;
  m.rank = 4;
  for (int i = 0; i < 2; ++i) {
    m.dims[i] = steps[i] == 0 ? 1 : p.counts[i];
    m.strides[i] = m.dims[i] == 1 ? 0 : steps[i];
    m.dims[i + 2] = matrix.dims[i], m.strides[i + 2] = matrix.strides[i];
  }
  return m;
}

matmul::Problem matmul_of(const Product& p) {
  matmul::Problem problem;
  problem.compute = p.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  problem.math = p.math;
  problem.a = several(p, matrix(p.type, p.m, p.k, p.a_strides[0], p.a_strides[1]), p.a_steps);
  problem.b = several(p, matrix(p.type, p.k, p.n, p.b_strides[0], p.b_strides[1]), p.b_steps);
  problem.d = several(p, matrix(p.type, p.m, p.n, p.d_row, 1), p.d_steps);
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
void previous(const Site& site, const kernels::RnnPrevious& previous, void* to) {
  kernels::launch_rnn_previous(previous, to, site.launch.stream);
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

Status copy(const Site& site, const void* from, void* to, std::size_t bytes) {
  return cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, site.launch.stream) == cudaSuccess
             ? GPUDNN_STATUS_SUCCESS
             : cuda::launch_status("a copy of inputs");
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

// Layers of one direction, or the directions of one layer, with their weights in registers.
kernels::RnnResident resident_of(const Site& site, std::span<const kernels::RnnLayer> layers, bool backward) {
  const kernels::RnnLayer& l = layers[0];
  const bool across = layers.size() > 1;
  kernels::RnnResident r;
  r.cell = l.cell;
  r.backward = backward;
  r.layer = l;
  r.whole = !l.cuts_to_tf32;
  r.vectors = l.units % 8 == 0;
  r.lanes = across ? static_cast<std::int32_t>(layers.size()) : l.directions;
  r.lane_bytes = site.exchange_bytes;
  r.exchange = site.exchange;
  r.shape = kernels::rnn_resident_shape(l.cell, l.units, l.rows.batch, r.lanes, across, backward,
                                        tile::element_bytes(l.type), site.launch.device.multiprocessors);
  for (int i = 0; i < r.lanes; ++i) {
    kernels::RnnDirection& d = r.lane[i].d;
    d = across ? layers[static_cast<std::size_t>(i)].direction[0] : l.direction[i];
    if (across) {
      r.lane[i].neighbour = backward ? (i + 1 < r.lanes ? i + 1 : -1) : i - 1;
      r.lane[i].feeds = backward ? i > 0 : i + 1 < r.lanes;
    }
    for (const void* pointer : {backward ? d.recurrent_t : d.recurrent, d.across, backward ? nullptr : d.hx}) {
      r.vectors = r.vectors && reinterpret_cast<std::uintptr_t>(pointer) % 16 == 0;
    }
  }
  return r;
}
bool run_resident(const Site& site, std::span<const kernels::RnnLayer> layers, bool backward) {
  if (site.exchange == nullptr) return false;
  kernels::RnnResident r = resident_of(site, layers, backward);
  if (r.shape.units == 0) return false;
  const auto bytes = static_cast<std::size_t>(r.lanes * r.lane_bytes);
  const auto launch = layers[0].type == tile::ElementType::f16    ? kernels::launch_rnn_resident_f16
                      : layers[0].type == tile::ElementType::bf16 ? kernels::launch_rnn_resident_bf16
                                                                  : kernels::launch_rnn_resident_f32;
  const auto empty_exchange = [&] {
    return cuda::fill(site.launch.device, site.launch.stream, site.exchange, 0xff, bytes) == GPUDNN_STATUS_SUCCESS;
  };
  const bool empties = layers.size() > 1;
  if (empties && !empty_exchange()) return false;
  r.in_clusters = true;
  bool runs = launch(r, site.launch.stream);
  if (!runs) {
    if (!empties && !empty_exchange()) return false;
    r.in_clusters = false;
    runs = launch(r, site.launch.stream);
  }
  if (runs && backward) {
    for (const kernels::RnnLayer& l : layers) kernels::launch_rnn_backward_first(l, site.launch.stream);
  }
  return runs;
}
// Backward, a block reads the gradients of all gates of its places at every step, where forward it reads h. From this
// row on, weights in shared memory and places that blocks share take half the time: LSTM of 512 units 7.5 us a step for
// 15, GRU of 1024 units 13.4 for 24.5 (H200, 64 sequences).
constexpr std::int64_t kWideGradients = 2048;
bool has_wide_gradients(const kernels::RnnLayer& layer) {
  return kernels::rnn_exchange_row(layer.cell, layer.units, true) >= kWideGradients;
}

// The recurrent matrix divided over the grid. False where it does not fit.
kernels::RnnSplitShape split_shape(const kernels::RnnLayer& l, bool backward) {
  int clusters[kernels::kRnnSplitClusterSizes];
  kernels::rnn_split_resident(clusters);
  return kernels::rnn_split_shape(l.cell, l.units, l.rows.batch, l.directions, backward, clusters);
}
bool sweep_split(const Site& site, const kernels::RnnLayer& layer, bool backward) {
  if (!layer.tensor_cores || site.exchange == nullptr || layer.rows.steps == 0) return false;
  kernels::RnnSplit split;
  split.shape = split_shape(layer, backward);
  if (split.shape.parts == 0) return false;
  const std::int64_t states = kernels::rnn_split_state_bytes(split.shape, layer.directions, layer.rows.steps);
  const std::int64_t bytes = states + kernels::rnn_split_sum_bytes(split.shape, layer.directions, layer.rows.steps);
  if (bytes > site.exchange_room || cuda::fill(site.launch.device, site.launch.stream, site.exchange, 0xff,
                                               static_cast<std::size_t>(bytes)) != GPUDNN_STATUS_SUCCESS) {
    return false;
  }
  split.sums = static_cast<char*>(site.exchange) + states;
  split.layer = layer;
  split.exchange = site.exchange;
  split.vectors = layer.units % 8 == 0;
  for (int k = 0; k < layer.directions; ++k) {
    const void* const weights = backward ? layer.direction[k].recurrent_t : layer.direction[k].recurrent;
    split.vectors = split.vectors && reinterpret_cast<std::uintptr_t>(weights) % 16 == 0;
  }
  const bool runs = layer.type == tile::ElementType::f16
                        ? kernels::launch_rnn_split_f16(split, backward, site.launch.stream)
                        : kernels::launch_rnn_split_bf16(split, backward, site.launch.stream);
  if (runs && backward) kernels::launch_rnn_backward_first(layer, site.launch.stream);
  return runs;
}

bool pipelines(const Site& site, const kernels::RnnLayer& layer, int layers, bool backward) {
  if (backward && has_wide_gradients(layer)) return false;
  const int multiprocessors = site.launch.device.multiprocessors;
  const int bytes = tile::element_bytes(layer.type);
  const auto shape = kernels::rnn_resident_shape(layer.cell, layer.units, layer.rows.batch, layers, true, backward,
                                                 bytes, multiprocessors);
  if (shape.units == 0) return false;
  // A round of places costs some 0.6 of what a step costs beside them.
  const auto alone = kernels::rnn_resident_shape(layer.cell, layer.units, layer.rows.batch, 1, false, backward, bytes,
                                                 multiprocessors);
  const double together_cost = (layer.rows.steps + layers - 1) * (1 + 0.6 * (shape.rounds - 1));
  return alone.units == 0 || together_cost < 0.9 * layers * layer.rows.steps * (1 + 0.6 * (alone.rounds - 1));
}
void forward_persistent(const Site& site, const kernels::RnnLayer& layer) {
  if (sweep_clusters(site, layer)) return;
  if (!sweep_persistent(site, layer, false)) forward(site, layer);
}
void backward_persistent(const Site& site, const kernels::RnnLayer& layer) {
  if (!sweep_persistent(site, layer, true)) return backward(site, layer);
  kernels::launch_rnn_backward_first(layer, site.launch.stream);
}

void forward_split(const Site& site, const kernels::RnnLayer& layer) {
  if (!sweep_split(site, layer, false)) forward(site, layer);
}
void backward_split(const Site& site, const kernels::RnnLayer& layer) {
  if (!sweep_split(site, layer, true)) backward(site, layer);
}

void forward_resident(const Site& site, const kernels::RnnLayer& layer) {
  if (!run_resident(site, {&layer, 1}, false)) forward_persistent(site, layer);
}
void backward_resident(const Site& site, const kernels::RnnLayer& layer) {
  if (has_wide_gradients(layer) && sweep_persistent(site, layer, true)) {
    return kernels::launch_rnn_backward_first(layer, site.launch.stream);
  }
  if (!run_resident(site, {&layer, 1}, true)) backward_persistent(site, layer);
}

constexpr Stages with_sweeps(void (*forward_sweep)(const Site&, const kernels::RnnLayer&),
                             void (*backward_sweep)(const Site&, const kernels::RnnLayer&)) {
  return {.product = &product,
          .product_scratch = &product_scratch,
          .forward = forward_sweep,
          .backward = backward_sweep,
          .pipelines = forward_sweep == &forward_resident ? &pipelines : nullptr,
          .pipeline = &run_resident,
          .pass = &pass,
          .gather = &gather,
          .scatter = &scatter,
          .upload = &upload,
          .previous = &previous,
          .transpose = &transpose,
          .column_sums = &column_sums,
          .gate_sum = &gate_sum,
          .clear = &clear,
          .merges_products = true,
          .copy = &copy};
}

}  // namespace

const Stages kStreamingStages = with_sweeps(&forward, &backward);
static const Stages kResidentStages = with_sweeps(&forward_resident, &backward_resident);
static const Stages kSplitStages = with_sweeps(&forward_split, &backward_split);
static const Stages kPersistentStages = with_sweeps(&forward_persistent, &backward_persistent);

// A single step is a launch.
static const Stages& sweeping(const Problem& problem, const Stages& stages) {
  return problem.sequences.steps == 1 ? kStreamingStages : stages;
}

Status streaming_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  GPUDNN_TRY(run_stages(kStreamingStages, site, problem, args));
  return cuda::launch_status("rnn_streaming");
}

Status resident_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  GPUDNN_TRY(run_stages(sweeping(problem, kResidentStages), site, problem, args));
  return cuda::launch_status("rnn_resident");
}

Status split_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  GPUDNN_TRY(run_stages(sweeping(problem, kSplitStages), site, problem, args));
  return cuda::launch_status("rnn_split");
}

Status persistent_cuda(const LaunchSite& site, const Problem& problem, const Args& args) {
  GPUDNN_TRY(run_stages(sweeping(problem, kPersistentStages), site, problem, args));
  return cuda::launch_status("rnn_persistent");
}

Support supports_resident(const Problem& problem, const Device& device) {
  const Network& n = problem.net;
  if (problem.pass == Pass::wgrad) return Support::no("gradients of weights have no sweep");
  if (device.major != 9) return Support::no("it needs compute capability 9.0");
  if (n.type == GPUDNN_DATA_DOUBLE) return Support::no("it takes f16, bf16 and f32");
  if (n.type != GPUDNN_DATA_FLOAT && n.math == GPUDNN_FMA_MATH) {
    return Support::no("the math type rules out tensor cores");
  }
  if (n.projects()) return Support::no("it has no projection");
  const kernels::RnnResidentShape shape =
      kernels::rnn_resident_shape(n.kind(), n.hidden, problem.sequences.batch, n.directions(), false,
                                  problem.pass == Pass::dgrad, data_type_bits(n.type) / 8, device.multiprocessors);
  if (shape.units == 0) return Support::no("the recurrent weights do not fit into the registers of the device");
  return Support::yes();
}

Support supports_split(const Problem& problem, const Device& device) {
  const Network& n = problem.net;
  if (problem.pass == Pass::wgrad) return Support::no("gradients of weights have no sweep");
  if (device.major != 9) return Support::no("it needs compute capability 9.0");
  if (n.type != GPUDNN_DATA_HALF && n.type != GPUDNN_DATA_BFLOAT16) return Support::no("it takes f16 and bf16");
  if (n.math == GPUDNN_FMA_MATH) return Support::no("the math type rules out tensor cores");
  if (n.projects()) return Support::no("it has no projection");
  int clusters[kernels::kRnnSplitClusterSizes];
  kernels::rnn_split_resident(clusters);
  const kernels::RnnSplitShape shape = kernels::rnn_split_shape(n.kind(), n.hidden, problem.sequences.batch,
                                                                n.directions(), problem.pass == Pass::dgrad, clusters);
  if (shape.parts == 0) return Support::no("the recurrent weights or the batch do not fit on the chip");
  return Support::yes();
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
