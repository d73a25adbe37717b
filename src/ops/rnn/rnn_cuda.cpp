// The stages of recurrent networks on CUDA.
// Longer than most files: the three engines fill their stages from the same view of a layer.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <algorithm>

#include "core/math_type.hpp"
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
  if (p.c != nullptr) problem.c = matrix(p.type, p.m, p.n, p.c_row, 1);
  return problem;
}

// Floats that keep out of TF32 are multiplied one product at a time where each is enough for the device: the fastest
// engine takes no batches.
bool goes_one_by_one(const Product& p) {
  constexpr std::int64_t kEnough = std::int64_t{1} << 24;
  return p.type == GPUDNN_DATA_FLOAT && !allows_tf32(p.math) && p.counts[0] * p.counts[1] > 1 &&
         p.m * p.n * p.k >= kEnough;
}

Status product(const Site& site, const Product& p) {
  if (goes_one_by_one(p)) {
    const auto bytes = static_cast<std::int64_t>(sizeof(float));
    for (std::int64_t i = 0; i < p.counts[0] * p.counts[1]; ++i) {
      const std::int64_t at[] = {i / p.counts[1], i % p.counts[1]};
      const auto step = [&](const std::int64_t(&steps)[2]) { return (at[0] * steps[0] + at[1] * steps[1]) * bytes; };
      Product one = p;
      one.counts[0] = one.counts[1] = 1;
      one.a = static_cast<const char*>(p.a) + step(p.a_steps);
      one.b = static_cast<const char*>(p.b) + step(p.b_steps);
      one.d = static_cast<char*>(p.d) + step(p.d_steps);
      GPUDNN_TRY(product(site, one));
    }
    return GPUDNN_STATUS_SUCCESS;
  }
  matmul::Args args;
  args.a = p.a;
  args.b = p.b;
  args.d = p.d;
  if (p.adds) args.c = p.d, args.beta = 1;
  if (p.c != nullptr) args.c = p.c, args.beta = 1;
  return matmul::run(site.handle, matmul_of(p), args, site.scratch, site.scratch_bytes);
}

Status product_scratch(gpudnnHandle_t handle, const Product& p, std::size_t* bytes) {
  Product one = p;
  if (goes_one_by_one(p)) one.counts[0] = one.counts[1] = 1;
  return matmul::workspace_size(handle, matmul_of(one), bytes);
}

void transpose(const Site& site, tile::ElementType type, const void* from, std::int64_t rows, std::int64_t columns,
               void* to) {
  kernels::launch_rnn_transpose(type, from, rows, columns, to, site.launch.stream);
}

// The end of a backward sweep, the gradient of hx: of wide layers by the matrix product's engines.
void backward_first(const Site& site, const kernels::RnnLayer& layer) {
  constexpr std::int64_t kWide = std::int64_t{1} << 26;  // multiplications
  const std::int64_t units = layer.units;
  const std::int64_t batch = layer.rows.batch;
  const std::int64_t gates = kernels::rnn_gates(layer.cell) * units;
  if (layer.cell == kernels::RnnCell::gru || !layer.tensor_cores || layer.width != units ||
      layer.rows.offsets != nullptr || layer.rows.steps == 0 || batch * gates * units < kWide) {
    if (layer.direction[0].dhx != nullptr) make_transposes(site, layer, &transpose);
    kernels::launch_rnn_backward_first(layer, site.launch.stream);
    return;
  }
  const std::int64_t row = kernels::rnn_gates_row(layer.cell, units, tile::element_bytes(layer.type));
  for (int k = 0; k < layer.directions; ++k) {
    const kernels::RnnDirection& d = layer.direction[k];
    if (d.dhx == nullptr) continue;
    const std::int64_t first = d.downwards ? (layer.rows.steps - 1) * batch : 0;
    const Product p{.type = site.type,
                    .math = site.math,
                    .m = batch,
                    .n = units,
                    .k = gates,
                    .a = static_cast<const char*>(d.gates) + first * row * tile::element_bytes(layer.type),
                    .a_strides = {row, 1},
                    .b = d.recurrent,
                    .b_strides = {units, 1},
                    .d = d.dhx,
                    .d_row = units};
    if (const Status status = product(site, p); status != GPUDNN_STATUS_SUCCESS) *site.failure = status;
  }
}

kernels::RnnLayer one_direction(const kernels::RnnLayer& layer, int k) {
  kernels::RnnLayer one = layer;
  one.directions = 1, one.direction[0] = layer.direction[k];
  return one;
}
// Wide layers of sequences of equal length: the product of each step by the matrix product's own engines, and a launch
// for the units. The sums that units take in are rounded to the data's type. False: the layer is none of these.
bool goes_by_products(const Site& site, const kernels::RnnLayer& layer, bool backward) {
  constexpr std::int64_t kWide = std::int64_t{1} << 26;  // multiplications of a step
  const std::int64_t units = layer.units;
  const std::int64_t batch = layer.rows.batch;
  if (layer.cell == kernels::RnnCell::gru || layer.width != layer.units || layer.rows.offsets != nullptr) return false;
  if (batch * units * units * kernels::rnn_gates(layer.cell) < kWide) return false;
  return layer.direction[0].projection == nullptr &&
         (backward
              ? site.exchange != nullptr && site.exchange_room >= batch * layer.y_row * tile::element_bytes(layer.type)
              : layer.pre_gate != 0 && layer.direction[0].y != nullptr);
}
bool sweep_by_products(const Site& site, const kernels::RnnLayer& layer, bool backward) {
  if (!goes_by_products(site, layer, backward)) return false;
  if (!backward && layer.directions > 1) {  // one by one: the L2 keeps more of one matrix than of two
    for (int k = 0; k < layer.directions; ++k) {
      if (!sweep_by_products(site, one_direction(layer, k), backward)) return false;
    }
    return true;
  }
  const std::int64_t units = layer.units;
  const std::int64_t gates = kernels::rnn_gates(layer.cell) * units;
  const std::int64_t batch = layer.rows.batch;
  const std::int64_t bytes = tile::element_bytes(layer.type);
  const auto moved = [&](const void* from, std::int64_t elements) {
    return const_cast<char*>(static_cast<const char*>(from)) + elements * bytes;  // NOLINT: the call's own memory
  };
  for (std::int32_t i = 0; i < layer.rows.steps; ++i) {
    kernels::RnnLayer l = layer;
    for (int k = 0; k < l.directions; ++k) {
      kernels::RnnDirection& d = l.direction[k];
      const bool downwards = d.downwards != backward;
      const kernels::RnnStep s = kernels::rnn_step(l.rows, downwards, downwards ? l.rows.steps - 1 - i : i);
      Product p{.type = site.type, .math = site.math, .m = batch};
      if (backward) {
        if (i == 0) continue;
        char* const dh = moved(site.exchange, k * units);
        p.n = units, p.k = gates;
        p.a_strides[0] = kernels::rnn_gates_row(l.cell, units, static_cast<int>(bytes)), p.a_strides[1] = 1;
        p.a = moved(d.gates, s.previous_first * p.a_strides[0]);
        p.b = d.recurrent, p.b_strides[0] = units, p.b_strides[1] = 1;
        p.c = d.dy == nullptr ? nullptr : moved(d.dy, s.first * l.y_row);
        p.d = dh, p.c_row = p.d_row = l.y_row;
        d.dy = moved(dh, -s.first * l.y_row);
      } else {
        if (i == 0 && d.hx == nullptr) continue;
        p.n = gates, p.k = units;
        p.a = i == 0 ? d.hx : moved(d.y, s.previous_first * l.y_row);
        p.a_strides[0] = i == 0 ? units : l.y_row, p.a_strides[1] = 1;
        p.b = d.recurrent, p.b_strides[0] = 1, p.b_strides[1] = units;
        p.d = moved(d.pre, s.first * l.pre_row), p.d_row = l.pre_row, p.adds = true;
      }
      if (*site.failure = product(site, p); *site.failure != GPUDNN_STATUS_SUCCESS) return true;
    }
    kernels::launch_rnn_units(l, i, backward, site.launch.stream);
  }
  if (backward) backward_first(site, layer);
  return true;
}

void forward(const Site& site, const kernels::RnnLayer& layer) {
  if (!sweep_by_products(site, layer, false)) kernels::launch_rnn_forward(layer, site.launch.stream);
}
void backward(const Site& site, const kernels::RnnLayer& layer) {
  if (sweep_by_products(site, layer, true)) return;
  make_transposes(site, layer, &transpose);
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
void previous(const Site& site, const kernels::RnnPrevious& previous, void* to, std::int64_t to_row) {
  kernels::launch_rnn_previous(previous, to, to_row, site.launch.stream);
}
void slices(const Site& site, const kernels::RnnSlices& slices) {
  kernels::launch_rnn_slices(slices, site.launch.stream);
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

void pad_rows(const Site& site, const kernels::RnnPads& pads) { kernels::launch_rnn_pads(pads, site.launch.stream); }
Status copy_rows(const Site& site, const kernels::RnnPad& rows) {
  if (rows.from_row != rows.to_row) {
    kernels::launch_rnn_pad(rows, site.launch.stream);
    return GPUDNN_STATUS_SUCCESS;
  }
  const auto bytes = static_cast<std::size_t>(rows.rows * rows.to_row * tile::element_bytes(rows.type));
  return cudaMemcpyAsync(rows.to, rows.from, bytes, cudaMemcpyDeviceToDevice, site.launch.stream) == cudaSuccess
             ? GPUDNN_STATUS_SUCCESS
             : cuda::launch_status("a copy of inputs");
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
// The same with a lane for products between any two layers.
kernels::RnnResident piped(const kernels::RnnResident& layers) {
  kernels::RnnResident r = layers;
  r.pipes = true;
  r.lanes = 2 * layers.lanes - 1;
  for (int i = 0; i < layers.lanes; ++i) {
    kernels::RnnResidentLane& lane = r.lane[2 * i];
    lane = layers.lane[i];
    lane.neighbour = -1;
    if (i == 0) continue;
    lane.d.pre = lane.d.products;
    lane.awaits = true;
    kernels::RnnResidentLane& between = r.lane[2 * i - 1];
    between = {.d = {.across = lane.d.across, .products = lane.d.products}, .neighbour = 2 * i - 2};
    between.multiplies = true;
  }
  return r;
}
bool run_resident(const Site& site, std::span<const kernels::RnnLayer> layers, bool backward) {
  if (site.exchange == nullptr) return false;
  kernels::RnnResident r = resident_of(site, layers, backward);
  if (r.shape.units == 0) return false;
  if (backward) {
    for (const kernels::RnnLayer& l : layers) make_transposes(site, l, &transpose);
  }
  auto bytes = static_cast<std::size_t>(r.lanes * r.lane_bytes);
  const auto launch = layers[0].type == tile::ElementType::f16    ? kernels::launch_rnn_resident_f16
                      : layers[0].type == tile::ElementType::bf16 ? kernels::launch_rnn_resident_bf16
                                                                  : kernels::launch_rnn_resident_f32;
  const auto empty_exchange = [&] {
    return cuda::fill(site.launch.device, site.launch.stream, site.exchange, 0xff, bytes) == GPUDNN_STATUS_SUCCESS;
  };
  // Clusters need the exchange only between layers.
  bool is_empty = false;
  const auto empties = [&] { return is_empty || (is_empty = empty_exchange()); };
  const bool across = layers.size() > 1;
  const bool pipes = kernels::rnn_gemv_pipes(layers[0], static_cast<int>(layers.size()), backward);
  if (pipes && layers[1].direction[0].products == nullptr) return false;
  if (across && !empties()) return false;
  bool runs = false;
  const auto gemv = layers[0].type == tile::ElementType::f16    ? kernels::launch_rnn_gemv_f16
                    : layers[0].type == tile::ElementType::bf16 ? kernels::launch_rnn_gemv_bf16
                                                                : kernels::launch_rnn_gemv_f32;
  if (pipes) {
    for (const kernels::RnnLayer& l : layers.subspan(1)) {
      const std::int64_t products = std::int64_t{l.rows.steps} * l.rows.batch * l.pre_row;
      if (cuda::fill(site.launch.device, site.launch.stream, l.direction[0].products, 0xff,
                     static_cast<std::size_t>(products * tile::element_bytes(l.type))) != GPUDNN_STATUS_SUCCESS) {
        return false;
      }
    }
    r.in_clusters = true;
    runs = gemv(piped(r), site.launch.stream);
  } else if (kernels::rnn_gemv_takes(layers[0], across)) {
    r.in_clusters = layers[0].units <= kernels::kRnnGemvClusterUnits;
    if (!r.in_clusters) {
      const int copies = kernels::rnn_gemv_copies(backward);
      if (!across && bytes * static_cast<std::size_t>(copies) <= static_cast<std::size_t>(site.exchange_room)) {
        r.copies = copies;
        r.lane_bytes *= copies, bytes *= static_cast<std::size_t>(copies);
      }
      if (!empties()) return false;
    }
    runs = gemv(r, site.launch.stream);
  }
  if (!runs) {
    r.in_clusters = true;
    runs = launch(r, site.launch.stream);
  }
  if (!runs) {
    if (!empties()) return false;
    r.in_clusters = false;
    runs = launch(r, site.launch.stream);
  }
  if (runs && backward) {
    for (const kernels::RnnLayer& l : layers) backward_first(site, l);
  }
  return runs;
}
// The recurrent matrix divided over the grid. False where it does not fit.
kernels::RnnSplitShape split_shape(const kernels::RnnLayer& l, bool backward) {
  int clusters[kernels::kRnnSplitClusterSizes];
  kernels::rnn_split_resident(clusters);
  return kernels::rnn_split_shape(l.cell, l.units, l.rows.batch, l.directions, backward, tile::element_bytes(l.type),
                                  clusters);
}
bool may_split(const kernels::RnnLayer& l) {
  return l.direction[0].projection == nullptr && (l.tensor_cores || l.type == tile::ElementType::f32);
}
bool sweep_split(const Site& site, const kernels::RnnLayer& layer, bool backward) {
  if (!may_split(layer) || site.exchange == nullptr || layer.rows.steps == 0) return false;
  kernels::RnnSplit split;
  split.shape = split_shape(layer, backward);
  if (split.shape.parts == 0) {  // the weights of one direction may fit
    if (layer.directions == 1 || !sweep_split(site, one_direction(layer, 0), backward)) return false;
    if (!sweep_split(site, one_direction(layer, 1), backward)) *site.failure = GPUDNN_STATUS_EXECUTION_FAILED;
    return true;
  }
  split.period = kernels::kRnnSplitPeriod;
  const std::int64_t sums = kernels::rnn_split_sum_bytes(split.shape, layer.directions, layer.rows.steps);
  const auto states_of = [&](std::int32_t period) {
    return kernels::rnn_split_state_bytes(split.shape, layer.directions, layer.rows.steps, period);
  };
  // Memory for all steps, where it is less to set at once than to make ready again step by step.
  constexpr std::int64_t kBytesOfStep = 100000;
  std::int64_t states = states_of(layer.rows.steps);
  if (split.shape.direct && states <= kBytesOfStep * layer.rows.steps && states + sums <= site.exchange_room) {
    split.period = layer.rows.steps;
  } else {
    states = states_of(split.period);
  }
  const std::int64_t bytes = states + sums;
  if (bytes > site.exchange_room || cuda::fill(site.launch.device, site.launch.stream, site.exchange,
                                               kernels::rnn_split_counts(split.shape) ? 0 : 0xff,
                                               static_cast<std::size_t>(bytes)) != GPUDNN_STATUS_SUCCESS) {
    return false;
  }
  split.sums = static_cast<char*>(site.exchange) + states;
  split.layer = layer;
  split.exchange = site.exchange;
  split.vectors = layer.units % (16 / tile::element_bytes(layer.type)) == 0;
  for (int k = 0; k < layer.directions; ++k) {
    const kernels::RnnDirection& d = layer.direction[k];
    const void* const weights = backward && !split.shape.direct ? d.recurrent_t : d.recurrent;
    split.vectors = split.vectors && reinterpret_cast<std::uintptr_t>(weights) % 16 == 0;
  }
  if (backward && !split.shape.direct) make_transposes(site, layer, &transpose);
  const bool half = layer.type == tile::ElementType::f16;
  const auto direct = half                                    ? kernels::launch_rnn_direct_f16
                      : layer.type == tile::ElementType::bf16 ? kernels::launch_rnn_direct_bf16
                                                              : kernels::launch_rnn_direct_f32;
  const auto wide = half ? kernels::launch_rnn_wide_f16 : kernels::launch_rnn_wide_bf16;
  const auto others = half ? kernels::launch_rnn_split_f16 : kernels::launch_rnn_split_bf16;
  const bool runs = rnn_split_is_wide(split.shape) ? wide(split, backward, site.launch.stream)
                    : split.shape.direct           ? direct(split, backward, site.launch.stream)
                                                   : others(split, site.launch.stream);
  if (runs && backward) backward_first(site, layer);
  return runs;
}

// How many clusters of `blocks` blocks are resident at once; what is asked are the kernels of the split sweeps, which
// take all of a multiprocessor's shared memory.
std::int64_t resident_clusters(std::int32_t blocks) {
  int clusters[kernels::kRnnSplitClusterSizes];
  kernels::rnn_split_resident(clusters);
  int size = 0;
  while (size < kernels::kRnnSplitClusterSizes && 1 << size < blocks) ++size;
  return size < kernels::kRnnSplitClusterSizes ? clusters[size] : 0;
}

// Microseconds of a step, fitted to what an H200 took; very many where a sweep does not fit.
constexpr double kNever = 1e9;
// Blocks of 16 units take in 16 places at a time, those of 32 units 8. L2 is busy with the states of all blocks.
double resident_step(const kernels::RnnLayer& l, int lanes, bool across, bool backward, int multiprocessors) {
  constexpr std::int32_t kNarrow = 16;
  constexpr std::int32_t kWide = 32;
  constexpr std::int64_t kPlacesOfCluster = kernels::kRnnResidentThreads / kWide;
  const kernels::RnnResidentShape shape = kernels::rnn_resident_shape(
      l.cell, l.units, l.rows.batch, lanes, across, backward, tile::element_bytes(l.type), multiprocessors);
  if (shape.units == 0) return kNever;
  if (kernels::rnn_gemv_takes(l, across)) {
    return l.units <= kernels::kRnnGemvClusterUnits ? (backward ? 1.0 : 0.8) : backward ? 2.2 : 1.6;
  }
  const auto places = std::min<std::int64_t>(kernels::kRnnResidentThreads / shape.units, l.rows.batch);
  // What a block takes in, and what all of them do.
  const double bytes = static_cast<double>(places * (across ? 2 : 1) * tile::element_bytes(l.type) *
                                           kernels::rnn_exchange_row(l.cell, l.units, backward));
  const double of_all = bytes * shape.groups * shape.tiles * lanes;
  // Sixteen places: neither the units nor the batch changed what a round took.
  const bool floats = l.type == tile::ElementType::f32;
  if (shape.units == kNarrow && places > kPlacesOfCluster) {
    const double of_floats = l.cuts_to_tf32 ? 6.2 : 8.8;
    return shape.rounds * (floats ? of_floats + (backward ? 1.6 : 0) : backward ? 12.0 : 4.2);
  }
  const std::int64_t clusters = (l.rows.batch + kPlacesOfCluster - 1) / kPlacesOfCluster * std::int64_t{lanes};
  if (shape.units == kWide && clusters <= resident_clusters(shape.groups)) {
    // Clusters exchange states among themselves: latency, and the bytes of a block, forward of all as they go to L2
    // too.
    const double of_floats = !floats ? 0 : l.cell == kernels::RnnCell::gru ? 0.5 : 0.9;
    return of_floats + (backward ? 2.4 + bytes * 1e-5 : 1.4 + of_all * 6e-7);
  }
  return shape.rounds * (backward ? 1.8 + bytes * 3e-5 + of_all * 8e-7 : 1.9 + of_all * 2.3e-6);
}
double split_step(const kernels::RnnLayer& l, bool backward) {
  if (!may_split(l)) return kNever;
  const kernels::RnnSplitShape shape = split_shape(l, backward);
  if (shape.parts == 0 && l.directions > 1) return 2 * split_step(one_direction(l, 0), backward);
  return shape.parts == 0 ? kNever : shape.microseconds;
}
// Two launches, and the weights from L2.
double products_step(const Site& site, const kernels::RnnLayer& l, bool backward) {
  if (!l.tensor_cores || !goes_by_products(site, l, backward)) return kNever;
  const double weights = static_cast<double>(kernels::rnn_gates(l.cell)) * l.units * l.units * 2;
  return 4 + l.directions * (10 + weights / 2.5e6);
}

// Microseconds of two layers in parts of the steps, and in how many; of one by one: 0.
constexpr double kLaunchOfPart = 10;
constexpr double kProductOfPart = 10;
double time_of_pair(const Site& site, const kernels::RnnLayer& layer, bool backward, int* best) {
  *best = 0;
  const int multiprocessors = site.launch.device.multiprocessors;
  const double alone = std::min({split_step(layer, backward), resident_step(layer, 1, false, backward, multiprocessors),
                                 products_step(site, layer, backward)});
  const double one_by_one = 2 * (layer.rows.steps * alone + kLaunchOfPart) + kProductOfPart;
  if (!layer.tensor_cores || site.exchange == nullptr || layer.rows.offsets != nullptr) return one_by_one;
  kernels::RnnLayer both = layer;
  both.directions = 2;
  const double split = split_step(layer, backward);
  const double together = split_step(both, backward);
  double least = one_by_one;
  const double launch = kLaunchOfPart + (backward ? 8 : 0);
  for (int parts = 2; parts <= 10; ++parts) {
    const double steps = (layer.rows.steps + parts - 1) / parts;  // NOLINT(bugprone-integer-division)
    const double time =
        2 * (steps * split + launch) + (parts - 1) * (steps * together + launch) + parts * kProductOfPart;
    if (time < least) least = time, *best = parts;
  }
  return least;
}
int parts_of_pair(const Site& site, const kernels::RnnLayer& layer, bool backward) {
  int parts = 0;
  (void)time_of_pair(site, layer, backward, &parts);
  return parts;
}

bool pipelines(const Site& site, const kernels::RnnLayer& layer, int layers, bool backward) {
  const int multiprocessors = site.launch.device.multiprocessors;
  const int bytes = tile::element_bytes(layer.type);
  const auto shape = kernels::rnn_resident_shape(layer.cell, layer.units, layer.rows.batch, layers, true, backward,
                                                 bytes, multiprocessors);
  if (shape.units == 0) return false;
  if (kernels::rnn_gemv_pipes(layer, layers, backward)) return true;
  if (layer.tensor_cores) {
    constexpr double kProduct = 15;  // us, with W of a layer: within the launch there is none
    const double together =
        (layer.rows.steps + layers - 1) * resident_step(layer, layers, true, backward, multiprocessors);
    const double step =
        std::min(split_step(layer, backward), resident_step(layer, 1, false, backward, multiprocessors));
    int parts = 0;
    const double pairs =
        layers / 2 * time_of_pair(site, layer, backward, &parts) + layers % 2 * (layer.rows.steps * step + kProduct);
    return together < layers * (layer.rows.steps * step + kProduct) && (parts == 0 || together < pairs);
  }
  if (kernels::rnn_gemv_takes(layer, false)) return kernels::rnn_gemv_takes(layer, true);
  // A round of places costs some 0.6 of what a step costs beside them.
  const auto alone = kernels::rnn_resident_shape(layer.cell, layer.units, layer.rows.batch, 1, false, backward, bytes,
                                                 multiprocessors);
  const double together_cost = (layer.rows.steps + layers - 1) * (1 + 0.6 * (shape.rounds - 1));
  return alone.units == 0 || together_cost < 0.9 * layers * layer.rows.steps * (1 + 0.6 * (alone.rounds - 1));
}
// By products where they are faster.
bool splits(const Site& site, const kernels::RnnLayer& layer, bool backward) {
  return split_step(layer, backward) < products_step(site, layer, backward) && sweep_split(site, layer, backward);
}
void forward_split(const Site& site, const kernels::RnnLayer& layer) {
  if (!splits(site, layer, false)) forward(site, layer);
}
void backward_split(const Site& site, const kernels::RnnLayer& layer) {
  if (!splits(site, layer, true)) backward(site, layer);
}

// Whichever sweep has the shortest step.
bool sweep_otherwise(const Site& site, const kernels::RnnLayer& layer, bool backward) {
  const double resident = resident_step(layer, layer.directions, false, backward, site.launch.device.multiprocessors);
  const double split = split_step(layer, backward);
  const double products = products_step(site, layer, backward);
  if (products < std::min(split, resident)) return sweep_by_products(site, layer, backward);
  return split < resident && sweep_split(site, layer, backward);
}
void forward_resident(const Site& site, const kernels::RnnLayer& layer) {
  if (sweep_otherwise(site, layer, false)) return;
  if (!run_resident(site, {&layer, 1}, false)) forward_split(site, layer);
}
void backward_resident(const Site& site, const kernels::RnnLayer& layer) {
  if (sweep_otherwise(site, layer, true)) return;
  if (!run_resident(site, {&layer, 1}, true)) backward_split(site, layer);
}

constexpr Stages with_sweeps(void (*forward_sweep)(const Site&, const kernels::RnnLayer&),
                             void (*backward_sweep)(const Site&, const kernels::RnnLayer&)) {
  return {.product = &product,
          .weights = &weights_sm90,
          .takes_weights = &takes_weights_sm90,
          .product_scratch = &product_scratch,
          .forward = forward_sweep,
          .backward = backward_sweep,
          .pipelines = forward_sweep == &forward_resident ? &pipelines : nullptr,
          .pipeline = &run_resident,
          .parts_of_pair = forward_sweep == &forward_resident ? &parts_of_pair : nullptr,
          .part = &sweep_split,
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
          .copy_rows = &copy_rows,
          .pad_rows = &pad_rows,
          .slices = &slices};
}

}  // namespace

const Stages kStreamingStages = with_sweeps(&forward, &backward);
static const Stages kResidentStages = with_sweeps(&forward_resident, &backward_resident);
static const Stages kSplitStages = with_sweeps(&forward_split, &backward_split);

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
  if (n.type == GPUDNN_DATA_DOUBLE) return Support::no("it takes f16, bf16 and f32");
  if (n.type != GPUDNN_DATA_FLOAT && n.math == GPUDNN_FMA_MATH) {
    return Support::no("the math type rules out tensor cores");
  }
  if (n.projects()) return Support::no("it has no projection");
  int clusters[kernels::kRnnSplitClusterSizes];
  kernels::rnn_split_resident(clusters);
  // One direction: of weights that do not fit together they go one after the other.
  const kernels::RnnSplitShape shape =
      kernels::rnn_split_shape(n.kind(), n.hidden, problem.sequences.batch, 1, problem.pass == Pass::dgrad,
                               data_type_bits(n.type) / 8, clusters);
  if (shape.parts == 0) return Support::no("the recurrent weights or the batch do not fit on the chip");
  return Support::yes();
}

}  // namespace gpudnn::rnn
