// Attention, as one operation or as the composite that clients send, as an attention problem.
// SPDX-License-Identifier: Apache-2.0
#include "graph/attention_match.hpp"
#include "graph/engines.hpp"
#include "graph/interpret/element.hpp"
#include "graph/page_tables.hpp"

namespace gpudnn::graph {
namespace {

// Bytes in front of the engine's workspace: rows of the page tables that have ragged offsets.
std::size_t page_rows_bytes(const Graph& graph, const AttentionMatch& match) {
  std::size_t bytes = 0;
  for (const int place : {match.at.page_table_k, match.at.page_table_v}) {
    if (place < 0) continue;
    const Tensor& table = graph.tensors[static_cast<std::size_t>(place)];
    if (table.ragged != Tensor::kNone) bytes += page_rows_bytes(table);
  }
  return bytes;
}

class AttentionWork final : public Work {
 public:
  AttentionWork(GraphRef graph, AttentionMatch match, std::size_t bytes, WorkRef otherwise)
      : graph_(std::move(graph)), match_(std::move(match)), bytes_(bytes), otherwise_(std::move(otherwise)) {}
  [[nodiscard]] std::size_t workspace() const noexcept override { return bytes_; }
  [[nodiscard]] Status run(gpudnnHandle_t handle, void* const* data, void* workspace) const override {
    attention::Problem problem = match_.problem;
    std::string why;
    if (!bind_values(*graph_, match_, data, &problem, &why)) {
      GPUDNN_REQUIRE(otherwise_ != nullptr, GPUDNN_STATUS_NOT_SUPPORTED,
                     "the graph is attention but for a number that is known only now: %s", why.c_str());
      return otherwise_->run(handle, data, workspace);
    }
    attention::Args args = tensors(data);
    random_numbers(data, &args);
    auto* free = static_cast<unsigned char*>(workspace);
    GPUDNN_TRY(take_page_rows(handle, data, match_.at.page_table_k, &args.page_table_k, &free));
    GPUDNN_TRY(take_page_rows(handle, data, match_.at.page_table_v, &args.page_table_v, &free));
    return attention::run(handle, problem, args, free,
                          bytes_ - static_cast<std::size_t>(free - static_cast<unsigned char*>(workspace)));
  }

 private:
  // A page table with ragged offsets as rows of equal length, in the workspace from *free on.
  [[nodiscard]] Status take_page_rows(gpudnnHandle_t handle, void* const* data, int place, const std::int32_t** pages,
                                      unsigned char** free) const {
    if (place < 0) return GPUDNN_STATUS_SUCCESS;
    const Tensor& table = graph_->tensors[static_cast<std::size_t>(place)];
    if (table.ragged == Tensor::kNone) return GPUDNN_STATUS_SUCCESS;
    auto* const rows = reinterpret_cast<std::int32_t*>(*free);
    GPUDNN_TRY(make_page_rows(handle, *graph_, table, data[place], data[graph_->find(table.ragged)], rows));
    *pages = rows;
    *free += page_rows_bytes(table);
    return GPUDNN_STATUS_SUCCESS;
  }

  [[nodiscard]] attention::Args tensors(void* const* data) const {
    const AttentionPlaces& at = match_.at;
    const auto pointer = [&](int place) { return place < 0 ? nullptr : data[place]; };
    const auto with_offsets = [&](int place) {
      const int offsets = place < 0 ? -1 : graph_->find(graph_->tensors[static_cast<std::size_t>(place)].ragged);
      return attention::Data<void*>{pointer(place), pointer(offsets)};
    };
    const auto input = [&](int place) {
      const attention::Data<void*> both = with_offsets(place);
      return attention::Data<const void*>{both.data, both.offsets};
    };
    attention::Args args;
    args.q = input(at.q), args.k = input(at.k), args.v = input(at.v), args.d_o = input(at.d_o);
    args.o = with_offsets(at.o), args.stats = with_offsets(at.stats);
    args.max = with_offsets(at.max), args.sum_exp = with_offsets(at.sum_exp);
    args.dq = with_offsets(at.dq), args.dk = with_offsets(at.dk), args.dv = with_offsets(at.dv);
    args.bias = pointer(at.bias);
    args.dbias = pointer(at.dbias);
    args.block_mask = static_cast<const std::uint8_t*>(pointer(at.block_mask));
    args.page_table_k = static_cast<const std::int32_t*>(pointer(at.page_table_k));
    args.page_table_v = static_cast<const std::int32_t*>(pointer(at.page_table_v));
    args.length_q = static_cast<const std::int32_t*>(pointer(at.length_q));
    args.length_kv = static_cast<const std::int32_t*>(pointer(at.length_kv));
    args.alibi_slopes = static_cast<const float*>(pointer(at.slopes));
    args.sink = static_cast<const float*>(pointer(at.sink));
    args.dsink = static_cast<float*>(pointer(at.dsink));
    args.dropout_mask = pointer(at.dropout_mask);
    if (match_.is_8_bit) bind_float8(data, &args.float8);
    return args;
  }

  void bind_float8(void* const* data, kernels::AttentionFloat8* numbers) const {
    const Float8Places& at = match_.float8;
    const auto number = [&](int place) { return place < 0 ? nullptr : static_cast<float*>(data[place]); };
    const auto pair = [&](const std::vector<int>& places, const float*(&both)[2]) {
      for (std::size_t i = 0; i < places.size(); ++i) both[i] = number(places[i]);
    };
    pair(at.scores, numbers->scores), pair(at.output, numbers->output), pair(at.delta, numbers->delta);
    pair(at.dp, numbers->dp), pair(at.dq, numbers->dq), pair(at.dk, numbers->dk), pair(at.dv, numbers->dv);
    numbers->scale_s = number(at.scale_s), numbers->scale_o = number(at.scale_o);
    numbers->scale_ds = number(at.scale_ds), numbers->scale_dq = number(at.scale_dq);
    numbers->scale_dk = number(at.scale_dk), numbers->scale_dv = number(at.scale_dv);
    numbers->amax_s = number(at.amax_s), numbers->amax_o = number(at.amax_o), numbers->amax_ds = number(at.amax_ds);
    numbers->amax_dq = number(at.amax_dq), numbers->amax_dk = number(at.amax_dk);
    numbers->amax_dv = number(at.amax_dv);
  }

  // Seed and offset: by value, or in the backend's memory.
  void random_numbers(void* const* data, attention::Args* args) const {
    args->seed_value = static_cast<std::uint64_t>(match_.seed_value);
    const auto take = [&](int place, const void** memory, std::uint64_t* value) {
      if (place < 0 || data[place] == nullptr) return;
      const Tensor& t = graph_->tensors[static_cast<std::size_t>(place)];
      if (!t.by_value) {
        *memory = data[place];
      } else {
        *value =
            t.geometry.type == GPUDNN_DATA_INT64
                ? *static_cast<const std::uint64_t*>(data[place])
                : static_cast<std::uint64_t>(static_cast<std::int64_t>(loader_of(t.geometry.type)(data[place], 0)));
      }
    };
    take(match_.at.seed, &args->seed, &args->seed_value);
    take(match_.at.offset, &args->offset, &args->offset_value);
  }

  GraphRef graph_;
  AttentionMatch match_;
  std::size_t bytes_;
  WorkRef otherwise_;  // where a number by value is not what a composite must have; host backend
};

}  // namespace

std::vector<Config> attention_configs(const Engine&, const Graph& graph, const Device& device, std::string* why) {
  AttentionMatch match;
  if (!match_attention(graph, &match, why)) return {};
  if (attention::choose(device, match.problem, 256) == nullptr) {
    *why = "no attention engine of this device takes " + to_text(match.problem);
    return {};
  }
  Config config;
  config.workspace = page_rows_bytes(graph, match) + attention::workspace_bytes(device, match.problem);
  return {config};
}

Status attention_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs& knobs,
                         WorkRef* work) {
  AttentionMatch match;
  std::string why;
  GPUDNN_REQUIRE(match_attention(*graph, &match, &why), GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN, "%s: %s",
                 engine.name, why.c_str());
  WorkRef otherwise;
  if (match.composite && device.backend == GPUDNN_BACKEND_HOST)
    GPUDNN_TRY(interpreter_prepare(engine, graph, device, knobs, &otherwise));
  const std::size_t bytes = page_rows_bytes(*graph, match) + attention::workspace_bytes(device, match.problem);
  *work = std::make_shared<AttentionWork>(graph, std::move(match), bytes, std::move(otherwise));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
