// The layout of reserve space and workspace, and the attention core's problem.
// SPDX-License-Identifier: Apache-2.0
#include "ops/multi_head_attn/buffers.hpp"

#include <algorithm>

#include "core/integer.hpp"

namespace gpudnn::mha {
namespace {

constexpr std::int64_t kAlignment = 256;

// Hands out memory from a start on; without a start it only counts.
class Arena {
 public:
  explicit Arena(void* start) : start_(static_cast<char*>(start)) {}

  template <class T = void>
  T* take(std::int64_t bytes) {
    char* const mine = start_ == nullptr ? nullptr : start_ + used_;
    used_ += round_up(bytes, kAlignment);
    return reinterpret_cast<T*>(mine);
  }
  [[nodiscard]] std::size_t used() const { return static_cast<std::size_t>(used_); }

 private:
  char* start_;
  std::int64_t used_ = 0;
};

std::int64_t element_bytes(const Problem& problem) { return data_type_bits(problem.layer.type) / 8; }

std::int64_t rows_of(const Problem& problem, int part) {
  return part == kQ || part == kO ? problem.rows_q() : problem.rows_kv();
}

// The gradient of an operand: where there is no projection of q, of each head's own.
std::int64_t gradient_size(const Layer& layer, int part) {
  return part == kQ ? layer.heads * layer.head_size(kQ) : layer.row_size(part);
}

void place_kept(const Problem& problem, bool on_device, Arena* arena, Buffers* b) {
  const Layer& layer = problem.layer;
  const std::int64_t element = element_bytes(problem);
  b->dropout = arena->take<kernels::MhaDropout>(sizeof(kernels::MhaDropout));
  b->length_q = arena->take<std::int32_t>(4 * std::int64_t{problem.q.batch} * problem.q.beam);
  b->length_kv = arena->take<std::int32_t>(4 * std::int64_t{problem.k.batch} * problem.k.beam);
  b->windows = arena->take<std::int32_t>(8 * core_rows(problem));
  if (!on_device) return;
  for (int part = kQ; part <= kV; ++part) {
    b->operand[part] = arena->take(element * rows_of(problem, part) * layer.row_size(part));
  }
  b->context = arena->take(element * problem.rows_q() * layer.heads * layer.head_size(kV));
  if (problem.training == 0) return;
  b->stats = arena->take((element == 8 ? 8 : 4) * problem.rows_q() * layer.heads);
  for (int part = kQ; part <= kV; ++part) {
    b->gradient[part] = arena->take(element * rows_of(problem, part) * gradient_size(layer, part));
  }
}

// Partial sums of products and of biases: 16 times the largest result in float, and no more than this.
constexpr std::int64_t kMaxProductBytes = std::int64_t{4} << 20;

std::int64_t product_bytes(const Problem& problem) {
  const Layer& layer = problem.layer;
  std::int64_t largest = 0;
  for (int part = 0; part < kParts; ++part) {
    if (layer.proj[part] == 0) continue;
    const std::int64_t in = part == kO ? layer.heads * layer.head_size(kV) : layer.size[part];
    const std::int64_t out = part == kO ? layer.proj[kO] : layer.row_size(part);
    largest = std::max({largest, rows_of(problem, part) * std::max(in, out), in * out});
  }
  return std::min(kMaxProductBytes, 64 * largest);
}

void place_scratch(const Problem& problem, const Device& device, Arena* arena, Buffers* b) {
  const Layer& layer = problem.layer;
  const std::int64_t element = element_bytes(problem);
  for (int part = kQ; part <= kV; ++part) {
    if (layer.proj[part] > 0) b->gathered[part] = arena->take(element * rows_of(problem, part) * layer.size[part]);
  }
  if (layer.proj[kO] > 0 || problem.pass != Pass::forward) {
    b->out_rows = arena->take(element * problem.rows_q() * layer.out_size());
  }
  b->context_rows = b->out_rows;
  if (problem.pass == Pass::dgrad && layer.proj[kO] > 0) {
    b->context_rows = arena->take(element * problem.rows_q() * layer.heads * layer.head_size(kV));
  }
  if (problem.pass != Pass::wgrad) {
    const auto bytes = attention::workspace_bytes(device, core_problem(problem, problem.pass != Pass::forward));
    b->core_bytes = bytes;
    b->core = arena->take(static_cast<std::int64_t>(bytes));
  }
  b->product_bytes = static_cast<std::size_t>(product_bytes(problem));
  b->product = arena->take(product_bytes(problem));
}

// Heads of `size` elements in rows of `columns`, or one vector for all of them.
attention::Tensor heads_of(DataType type, std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t size,
                           std::int64_t columns) {
  attention::Tensor tensor;
  tensor.geometry.type = type;
  tensor.geometry.rank = 4;
  const std::int64_t dims[] = {batch, heads, rows, size};
  const std::int64_t strides[] = {rows * columns, columns > size ? size : 0, columns, 1};
  std::copy_n(dims, 4, tensor.geometry.dims);
  std::copy_n(strides, 4, tensor.geometry.strides);
  if (heads == 1) tensor.geometry.strides[1] = columns;
  return tensor;
}

}  // namespace

bool folds_beams(const Problem& problem) noexcept { return problem.layer.one_to_one == 0 && problem.q.beam > 1; }

std::int64_t core_batch(const Problem& problem) noexcept {
  return std::int64_t{problem.q.batch} * (folds_beams(problem) ? 1 : problem.q.beam);
}

std::int64_t core_rows(const Problem& problem) noexcept {
  return problem.steps() * (folds_beams(problem) ? problem.q.beam : 1);
}

attention::Problem core_problem(const Problem& problem, bool backward) {
  const Layer& layer = problem.layer;
  const std::int64_t batch = core_batch(problem);
  const std::int64_t rows = core_rows(problem);
  const std::int64_t heads = layer.heads;
  const std::int64_t time = problem.k.time;
  const std::int64_t qk = layer.head_size(kQ);
  const std::int64_t v = layer.head_size(kV);
  const auto heads_in = [&](int part) { return layer.proj[part] > 0 ? heads : 1; };
  attention::Problem core;
  core.backward = backward ? 1 : 0;
  core.length_kv = time;
  core.scale = layer.scale;
  core.has_length_kv = 1;
  core.has_dropout = problem.training != 0 && layer.attn_dropout > 0 ? 1 : 0;
  core.dropout = static_cast<double>(layer.attn_dropout);
  core.q = heads_of(layer.type, batch, heads, rows, qk, layer.row_size(kQ));
  core.k = heads_of(layer.type, batch, heads_in(kK), time, qk, layer.row_size(kK));
  core.v = heads_of(layer.type, batch, heads_in(kV), time, v, layer.row_size(kV));
  core.o = heads_of(layer.type, batch, heads, rows, v, heads * v);
  if (problem.training != 0) {
    core.stats =
        heads_of(layer.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT, batch, heads, rows, 1, 1);
    core.stats.geometry.strides[0] = heads * rows;
    core.stats.geometry.strides[1] = rows;
  }
  if (!backward) return core;
  core.d_o = core.o;
  core.dq = heads_of(layer.type, batch, heads, rows, qk, heads * qk);
  core.dk = core.k;
  core.dv = core.v;
  return core;
}

BufferBytes place(const Problem& problem, const Device& device, void* workspace, void* reserve, Buffers* buffers) {
  Arena work(workspace);
  Arena kept(reserve);
  const bool on_device = device.backend == GPUDNN_BACKEND_CUDA;
  place_kept(problem, on_device, problem.training != 0 ? &kept : &work, buffers);
  if (on_device) place_scratch(problem, device, &work, buffers);
  return {work.used(), kept.used()};
}

Status buffer_bytes(gpudnnHandle_t handle, const Layer& layer, bool training, BufferBytes* bytes) {
  Problem most;
  most.layer = layer;
  most.training = training ? 1 : 0;
  const std::int32_t beams = layer.one_to_one != 0 ? layer.max_beam : 1;
  most.q = {layer.max_time_q, layer.max_batch, layer.max_beam, layer.size[kQ]};
  most.k = {layer.max_time_kv, layer.max_batch, beams, layer.size[kK]};
  most.v = {layer.max_time_kv, layer.max_batch, beams, layer.size[kV]};
  most.o = {layer.max_time_q, layer.max_batch, layer.max_beam, static_cast<std::int32_t>(layer.out_size())};
  GPUDNN_TRY(validate(most));
  *bytes = {};
  for (const Pass pass : {Pass::forward, Pass::dgrad, Pass::wgrad}) {
    most.pass = pass;
    Buffers buffers;
    const BufferBytes of_pass = place(most, *handle->device, nullptr, nullptr, &buffers);
    bytes->workspace = std::max(bytes->workspace, of_pass.workspace);
    bytes->reserve = std::max(bytes->reserve, of_pass.reserve);
    if (!training) break;
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::mha
