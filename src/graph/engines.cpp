// The engines of the graph interface, and how a heuristic query ranks them.
// SPDX-License-Identifier: Apache-2.0
#include "graph/engines.hpp"

#include <algorithm>
#include <limits>

#include "core/environment.hpp"
#include "graph/plan.hpp"

namespace gpudnn::graph {
namespace {

// `inner`: the engine of convolution, where its name is another.
constexpr Engine convolution(std::int64_t index, const char* name, gpudnnBackend_t backend, bool tensor_cores,
                             bool general = false, const char* inner = nullptr) {
  return {.index = index,
          .name = name,
          .backend = backend,
          .tensor_cores = tensor_cores,
          .general = general,
          .inner = inner != nullptr ? inner : name,
          .configs = &conv_configs,
          .prepare = &conv_prepare};
}

constexpr Engine winograd(std::int64_t index, const char* name) {
  Engine engine = convolution(index, name, GPUDNN_BACKEND_CUDA, false);
  engine.is_winograd = true;
  return engine;
}

constexpr gpudnnBackend_t kHost = GPUDNN_BACKEND_HOST;
constexpr gpudnnBackend_t kCuda = GPUDNN_BACKEND_CUDA;

// Append only: an index never changes its meaning. 5 and 17 stay free, which clients ask for by number.
constexpr Engine kEngines[] = {
    convolution(200, "implicit_gemm_sm90", kCuda, true),
    convolution(201, "small_c_sm80", kCuda, true),
    convolution(202, "implicit_gemm_sm80", kCuda, true, true),
    convolution(203, "nhwc_transpose", kCuda, true),
    convolution(204, "direct_sm90", kCuda, true),
    convolution(205, "conv1x1_nchw_sm90", kCuda, true),
    convolution(206, "small_c_fwd_sm90", kCuda, true),
    convolution(207, "small_c_dgrad_sm90", kCuda, true),
    convolution(208, "small_c_wgrad_sm90", kCuda, true),
    convolution(209, "direct_wgrad_sm90", kCuda, true),
    convolution(210, "conv1x1_small_c_sm80", kCuda, true),
    convolution(211, "implicit_gemm_simt", kCuda, false, true),
    convolution(212, "smem_im2col_wgrad_sm90", kCuda, true),
    convolution(213, "host_direct", kHost, false),
    convolution(214, "depthwise_simt", kCuda, false),
    convolution(215, "small_group_sm80", kCuda, true),
    convolution(216, "fp32_split_sm90", kCuda, false),  // float's accuracy, whatever computes it
    convolution(217, "nhwc_transpose_float", kCuda, false, false, "nhwc_transpose"),
    convolution(218, "host_gemm", kHost, false),
    convolution(220, "integer_sm90", kCuda, true),
    convolution(221, "integer_sm80", kCuda, true),
    convolution(222, "integer_simt", kCuda, false, true),
    winograd(223, "winograd_sm90"),
    convolution(225, "sliced_k_sm80", kCuda, true),
    convolution(226, "few_terms_simt", kCuda, false),
    convolution(227, "fft_sm90", kCuda, false),
    convolution(228, "fft_tiling_sm90", kCuda, false),
    convolution(229, "depthwise_toeplitz_sm90", kCuda, true),
    convolution(230, "depthwise_toeplitz_wgrad_sm90", kCuda, true),
    {.index = 224,
     .name = "float8_sm90",
     .backend = kCuda,
     .tensor_cores = true,
     .configs = &float8_configs,
     .prepare = &float8_prepare},
    {.index = 140,
     .name = "attention",
     .backend = kCuda,
     .any_backend = true,
     .tensor_cores = true,
     .general = true,
     .configs = &attention_configs,
     .prepare = &attention_prepare},
    {.index = 120,
     .name = "matmul_tensor_cores",
     .backend = kCuda,
     .any_backend = true,
     .tensor_cores = true,
     .general = true,
     .configs = &matmul_configs,
     .prepare = &matmul_prepare},
    {.index = 121,
     .name = "matmul",
     .backend = kCuda,
     .any_backend = true,
     .general = true,
     .configs = &matmul_configs,
     .prepare = &matmul_prepare},
    {.index = 130,
     .name = "norm",
     .backend = kCuda,
     .any_backend = true,
     .general = true,
     .configs = &norm_configs,
     .prepare = &norm_prepare},
    {.index = 131,
     .name = "batch_norm",
     .backend = kCuda,
     .any_backend = true,
     .general = true,
     .configs = &batch_norm_configs,
     .prepare = &batch_norm_prepare},
    {.index = 300,
     .name = "reduction",
     .backend = kCuda,
     .any_backend = true,
     .general = true,
     .configs = &reduction_configs,
     .prepare = &reduction_prepare},
    {.index = 310,
     .name = "pooling",
     .backend = kCuda,
     .any_backend = true,
     .general = true,
     .configs = &pooling_configs,
     .prepare = &pooling_prepare},
    {.index = 320,
     .name = "copy",
     .backend = kCuda,
     .any_backend = true,
     .general = true,
     .configs = &copy_configs,
     .prepare = &copy_prepare},
    {.index = 340,
     .name = "statistics",
     .backend = kCuda,
     .configs = &statistics_configs,
     .prepare = &statistics_prepare},
    {.index = 330,
     .name = "node",
     .backend = kCuda,
     .general = true,
     .configs = &node_configs,
     .prepare = &node_prepare},
    {.index = 110,
     .name = "pointwise_program",
     .backend = kCuda,
     .any_backend = true,
     .general = true,
     .configs = &program_configs,
     .prepare = &program_prepare},
    {.index = 100,
     .name = "host_interpreter",
     .backend = kHost,
     .general = true,
     .last_resort = true,
     .configs = &interpreter_configs,
     .prepare = &interpreter_prepare},
    {.index = 102,
     .name = "segments_tensor_cores",
     .backend = kCuda,
     .tensor_cores = true,
     .last_resort = true,
     .configs = &segment_configs,
     .prepare = &segment_prepare},
    {.index = 101,
     .name = "segments",
     .backend = kCuda,
     .any_backend = true,
     .general = true,
     .last_resort = true,
     .configs = &segment_configs,
     .prepare = &segment_prepare},
};

constexpr std::size_t kMaxResults = 8;

void add_reason(const Engine& engine, const std::string& why, std::string* all) {
  if (why.empty()) return;
  if (!all->empty()) *all += "; ";
  *all += std::string(engine.name) + ": " + why;
}

}  // namespace

const Node* only_reader(const Graph& graph, int tensor) {
  const Node* reader = nullptr;
  for (const Node& node : graph.nodes)
    for (const Link& link : node.links) {
      if (link.tensor != tensor || is_output(node, link.port)) continue;
      if (reader != nullptr) return nullptr;
      reader = &node;
    }
  return reader;
}

std::span<const Engine> engines() { return kEngines; }

const Engine* engine_of_index(std::int64_t index) {
  const auto* const found =
      std::find_if(std::begin(kEngines), std::end(kEngines), [index](const Engine& e) { return e.index == index; });
  return found == std::end(kEngines) ? nullptr : found;
}

std::int64_t engine_count() {
  std::int64_t highest = 0;
  for (const Engine& engine : kEngines) highest = std::max(highest, engine.index);
  return highest + 1;
}

std::vector<Choice> rank(const Graph& graph, const Device& device, int mode, std::string* why) {
  const bool fallback = mode == GPUDNN_HEUR_MODE_FALLBACK;
  std::vector<Choice> choices;
  const bool convolution_found = rank_convolution(graph, device, &choices, why);
  if (fallback)
    std::erase_if(choices, [](const Choice& c) { return !c.engine->general && c.engine->backend == kCuda; });
  std::string reason;
  for (const Engine& engine : kEngines) {
    // Those of convolution have been asked together, and are the only ones that take such graphs but for the last.
    if (!runs_on(engine, device) || engine.inner != nullptr || (convolution_found && !engine.last_resort)) continue;
    if (engine.last_resort && !fallback && !choices.empty()) continue;
    reason.clear();
    std::vector<Config> configs = engine.configs(engine, graph, device, &reason);
    if (!configs.empty()) {
      choices.push_back({&engine, std::move(configs.front())});
    } else if (choices.empty()) {
      add_reason(engine, reason, why);
    }
  }
  const std::size_t limit = environment_workspace_limit();
  std::erase_if(choices, [limit](const Choice& c) { return c.config.workspace > limit; });
  if (choices.size() > kMaxResults) {
    // An engine without tensor cores stays in the list: clients that want none look for it.
    const auto plain = std::find_if(choices.begin() + kMaxResults - 1, choices.end(),
                                    [](const Choice& c) { return !c.engine->tensor_cores; });
    const bool has_plain = std::any_of(choices.begin(), choices.begin() + kMaxResults - 1,
                                       [](const Choice& c) { return !c.engine->tensor_cores; });
    if (!has_plain && plain != choices.end()) std::swap(choices[kMaxResults - 1], *plain);
    choices.resize(kMaxResults);
  }
  return choices;
}

std::vector<KnobRange> knob_ranges(std::span<const Config> configs) {
  std::vector<KnobRange> ranges;
  for (const Config& config : configs) {
    for (const Knob& knob : config.knobs) {
      const auto known =
          std::find_if(ranges.begin(), ranges.end(), [&](const KnobRange& range) { return range.type == knob.type; });
      if (known == ranges.end()) {
        ranges.push_back({knob.type, knob.value, knob.value});
      } else {
        known->least = std::min(known->least, knob.value);
        known->most = std::max(known->most, knob.value);
      }
    }
  }
  return ranges;
}

const Config* find_config(std::span<const Config> configs, const Knobs& wanted) {
  for (const Config& config : configs) {
    const bool fits = std::all_of(wanted.begin(), wanted.end(), [&](const Knob& knob) {
      return knob.value == -1 || std::find(config.knobs.begin(), config.knobs.end(), knob) != config.knobs.end();
    });
    if (fits) return &config;
  }
  return nullptr;
}

Status default_device(DeviceRef* device) {
  BackendChoice choice = BackendChoice::automatic;
  std::string text;
  const Device* found = &host_device();
  if (environment_backend(&choice, &text) && choice != BackendChoice::host && cuda::available(&text))
    GPUDNN_TRY(cuda::current_device(&found));
  *device = DeviceRef(DeviceRef{}, found);  // devices live for ever
  return GPUDNN_STATUS_SUCCESS;
}

// --- answers --------------------------------------------------------------------------------------------------------

void put_engine_answers(const BoundEngine& bound, Bag* bag) {
  std::vector<std::int64_t> notes;
  if (bound.engine->tensor_cores) notes.push_back(GPUDNN_NUMERICAL_NOTE_TENSOR_CORE);
  if (bound.engine->is_winograd) {
    // Its tiles have 6 x 6 points where 4 x 4 outputs a tile pay, else 4 x 4.
    notes.insert(notes.end(), {GPUDNN_NUMERICAL_NOTE_WINOGRAD, GPUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4,
                               GPUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6});
  } else {
    notes.push_back(GPUDNN_NUMERICAL_NOTE_STRICT_NAN_PROP);
  }
  bag->put_integers(GPUDNN_ATTR_ENGINE_NUMERICAL_NOTE, notes);
  if (bound.device->backend == kCuda) {
    bag->put_integers(GPUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, {GPUDNN_BEHAVIOR_NOTE_SUPPORTS_CUDA_GRAPH_NATIVE_API});
  } else {
    bag->put_integers(GPUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, {});
  }
  std::vector<BagRef> infos;
  for (const KnobRange& range : knob_ranges(bound.configs)) {
    const auto info = std::make_shared<Bag>(kKnobInfo);
    info->finalized = true;
    info->put_integers(GPUDNN_ATTR_KNOB_INFO_TYPE, {range.type});
    info->put_integers(GPUDNN_ATTR_KNOB_INFO_MINIMUM_VALUE, {range.least});
    info->put_integers(GPUDNN_ATTR_KNOB_INFO_MAXIMUM_VALUE, {range.most});
    info->put_integers(GPUDNN_ATTR_KNOB_INFO_STRIDE, {1});
    infos.push_back(info);
  }
  bag->put_bags(GPUDNN_ATTR_ENGINE_KNOB_INFO, infos);
  bag->put_bags(GPUDNN_ATTR_ENGINE_LAYOUT_INFO, {});
}

BagRef engine_bag(const std::shared_ptr<const BoundEngine>& bound, const BagRef& graph) {
  const auto bag = std::make_shared<Bag>(kEngine);
  bag->finalized = true;
  bag->made = bound;
  bag->put_bag(GPUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph);
  bag->put_integers(GPUDNN_ATTR_ENGINE_GLOBAL_INDEX, {bound->engine->index});
  put_engine_answers(*bound, bag.get());
  return bag;
}

void fill_config(const std::shared_ptr<const BoundConfig>& bound, const BagRef& engine, Bag* bag) {
  bag->put_bag(GPUDNN_ATTR_ENGINECFG_ENGINE, engine);
  std::vector<BagRef> choices;
  choices.reserve(bound->config.knobs.size());
  for (const Knob& knob : bound->config.knobs) {
    const auto choice = std::make_shared<Bag>(kKnobChoice);
    choice->finalized = true;
    choice->put_integers(GPUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, {knob.type});
    choice->put_integers(GPUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, {knob.value});
    choices.push_back(choice);
  }
  bag->put_bags(GPUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices);
  bag->put_bags(GPUDNN_ATTR_ENGINECFG_INTERMEDIATE_INFO, {});
  bag->put_integers(GPUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE,
                    {static_cast<std::int64_t>(told_workspace(bound->config.workspace))});
  bag->put_integers(GPUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, {0});
  bag->made = bound;
  bag->finalized = true;
}

BagRef config_bag(const std::shared_ptr<const BoundConfig>& bound, const BagRef& engine) {
  const auto bag = std::make_shared<Bag>(kEngineConfig);
  fill_config(bound, engine, bag.get());
  return bag;
}

Status answer(const Bag& bag, AttributeName name, AttributeType type, std::int64_t requested, std::int64_t* count,
              void* elements) {
  std::string text;
  if (bag.finalized && name == GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION && bag.kind == kPlan) {
    text = plan_json(*bag.made_as<Plan>());
  } else if (bag.finalized && name == GPUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION && bag.kind == kKernelCache) {
    text = store_json(*bag.made_as<PlanStore>());
  } else if (bag.finalized && name == GPUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION && bag.kind == kDeviceProp) {
    text = device_json(*bag.made_as<Device>());
  } else {
    return get_attribute(bag, name, type, requested, count, elements);
  }
  Bag telling(bag.kind);
  telling.finalized = true;
  telling.put_text(name, text);
  return get_attribute(telling, name, type, requested, count, elements);
}

}  // namespace gpudnn::graph
