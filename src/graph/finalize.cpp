// Finalize of each kind of descriptor: what must be set, what it must be, and what it becomes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include "core/guard.hpp"
#include "graph/check.hpp"
#include "graph/plan.hpp"

namespace gpudnn::graph {
namespace {

Status require_set(const Bag& bag) {
  const std::span<const Attribute> rows = attributes_of(bag.kind);
  for (std::size_t i = 0; i < rows.size(); ++i)
    GPUDNN_REQUIRE(!rows[i].required || bag.is_set(i), GPUDNN_STATUS_BAD_PARAM, "%s was not set; every %s needs it",
                   rows[i].text, kind_text(bag.kind));
  return GPUDNN_STATUS_SUCCESS;
}

// --- tensors --------------------------------------------------------------------------------------------------------

Status finalize_tensor(Bag* bag) {
  const Elements dims = *bag->find(GPUDNN_ATTR_TENSOR_DIMENSIONS);
  const Elements strides = *bag->find(GPUDNN_ATTR_TENSOR_STRIDES);
  const auto rank = static_cast<int>(dims.count());
  GPUDNN_REQUIRE(rank <= kMaxRank, GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_ATTR_TENSOR_DIMENSIONS has %d numbers; a tensor has at most %d", rank, kMaxRank);
  GPUDNN_REQUIRE(
      strides.count() == rank, GPUDNN_STATUS_BAD_PARAM,
      "GPUDNN_ATTR_TENSOR_STRIDES has %lld numbers and GPUDNN_ATTR_TENSOR_DIMENSIONS %d; they must be as many",
      static_cast<long long>(strides.count()), rank);
  auto tensor = std::make_shared<Tensor>();
  tensor->geometry.type = static_cast<DataType>(bag->integer(GPUDNN_ATTR_TENSOR_DATA_TYPE, 0));
  tensor->geometry.rank = rank;
  std::copy_n(dims.words.begin(), rank, tensor->geometry.dims);
  std::copy_n(strides.words.begin(), rank, tensor->geometry.strides);
  tensor->uid = bag->integer(GPUDNN_ATTR_TENSOR_UNIQUE_ID, 0);
  tensor->alignment = bag->integer(GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 0);
  const std::int64_t element = std::max(1, data_type_bits(tensor->geometry.type) / 8);
  GPUDNN_REQUIRE(tensor->alignment > 0 && tensor->alignment % element == 0, GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT is %lld; it must be a multiple of an element's size, %lld",
                 static_cast<long long>(tensor->alignment), static_cast<long long>(element));
  tensor->is_virtual = bag->integer(GPUDNN_ATTR_TENSOR_IS_VIRTUAL, 0) != 0;
  tensor->by_value = bag->integer(GPUDNN_ATTR_TENSOR_IS_BY_VALUE, 0) != 0;
  tensor->vector_count = bag->integer(GPUDNN_ATTR_TENSOR_VECTOR_COUNT, 1);
  tensor->vector_dim = bag->integer(GPUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, -1);
  GPUDNN_TRY(check_tensor(*tensor));
  if (tensor->vector_count == 1) tensor->vector_dim = -1;
  tensor->reordering = static_cast<int>(bag->integer(GPUDNN_ATTR_TENSOR_REORDERING_MODE, 0));
  GPUDNN_REQUIRE(is_enumerator(GPUDNN_TYPE_TENSOR_REORDERING_MODE, tensor->reordering), GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_ATTR_TENSOR_REORDERING_MODE is %d, which is no gpudnnBackendTensorReordering_t",
                 tensor->reordering);
  if (const BagRef offsets = bag->child(GPUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC)) {
    const auto of = offsets->made_as<Tensor>();
    GPUDNN_REQUIRE(of->geometry.type == GPUDNN_DATA_INT32 || of->geometry.type == GPUDNN_DATA_INT64,
                   GPUDNN_STATUS_BAD_PARAM, "the ragged offsets are %s; they must be i32 or i64",
                   data_type_name(of->geometry.type));
    GPUDNN_REQUIRE(of->ragged == Tensor::kNone, GPUDNN_STATUS_BAD_PARAM, "the ragged offsets are ragged themselves");
    GPUDNN_REQUIRE(element_count(of->geometry) >= tensor->geometry.dims[0] + 1, GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH,
                   "there are %lld ragged offsets; %lld batches need one more than there are batches",
                   static_cast<long long>(element_count(of->geometry)),
                   static_cast<long long>(tensor->geometry.dims[0]));
    tensor->ragged = of->uid;
  }
  bag->made = std::move(tensor);
  return GPUDNN_STATUS_SUCCESS;
}

// --- parameters of operations ---------------------------------------------------------------------------------------

Status check_extents(const Bag& bag, AttributeName name, std::int64_t spatial, std::int64_t least) {
  const auto value = bag.find(name);
  if (!value) return GPUDNN_STATUS_SUCCESS;
  const char* text = attributes_of(bag.kind)[static_cast<std::size_t>(place_of(bag.kind, name))].text;
  GPUDNN_REQUIRE(value->count() == spatial, GPUDNN_STATUS_BAD_PARAM,
                 "%s has %lld numbers; there are %lld spatial dimensions", text, static_cast<long long>(value->count()),
                 static_cast<long long>(spatial));
  const std::size_t step = value->type == GPUDNN_TYPE_FRACTION ? 2 : 1;
  for (std::size_t i = 0; i < value->words.size(); i += step) {
    const auto number = static_cast<long long>(value->words[i]);
    GPUDNN_REQUIRE(number >= least && number <= kMaxPadding, GPUDNN_STATUS_BAD_PARAM,
                   "%s: %lld lies outside [%lld, 2^31]", text, number, static_cast<long long>(least));
    GPUDNN_REQUIRE(step == 1 || (value->words[i + 1] > 0 && value->words[i + 1] <= kMaxPadding),
                   GPUDNN_STATUS_BAD_PARAM, "%s: the denominator of a fraction must be positive, and at most 2^31",
                   text);
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status finalize_convolution(const Bag& bag) {
  const std::int64_t spatial = bag.integer(GPUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS, 0);
  GPUDNN_REQUIRE(spatial >= 1 && spatial <= kMaxRank - 2, GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS is %lld; it must be 1 to %d", static_cast<long long>(spatial),
                 kMaxRank - 2);
  GPUDNN_TRY(check_extents(bag, GPUDNN_ATTR_CONVOLUTION_DILATIONS, spatial, 1));
  GPUDNN_TRY(check_extents(bag, GPUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, spatial, 1));
  GPUDNN_TRY(check_extents(bag, GPUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, spatial, -kMaxPadding));
  return check_extents(bag, GPUDNN_ATTR_CONVOLUTION_POST_PADDINGS, spatial, -kMaxPadding);
}

Status finalize_resample(const Bag& bag) {
  const std::int64_t spatial = bag.integer(GPUDNN_ATTR_RESAMPLE_SPATIAL_DIMS, 0);
  GPUDNN_REQUIRE(spatial >= 1 && spatial <= kMaxRank - 2, GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_ATTR_RESAMPLE_SPATIAL_DIMS is %lld; it must be 1 to %d", static_cast<long long>(spatial),
                 kMaxRank - 2);
  GPUDNN_TRY(check_extents(bag, GPUDNN_ATTR_RESAMPLE_WINDOW_DIMS, spatial, 1));
  GPUDNN_TRY(check_extents(bag, GPUDNN_ATTR_RESAMPLE_STRIDES, spatial, 1));
  GPUDNN_TRY(check_extents(bag, GPUDNN_ATTR_RESAMPLE_PRE_PADDINGS, spatial, 0));
  return check_extents(bag, GPUDNN_ATTR_RESAMPLE_POST_PADDINGS, spatial, 0);
}

Status finalize_rng(const Bag& bag) {
  const double p = bag.real(GPUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY, 0.5);
  GPUDNN_REQUIRE(p >= 0 && p <= 1, GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_ATTR_RNG_BERNOULLI_DIST_PROBABILITY is %g; it must lie in [0, 1]", p);
  return GPUDNN_STATUS_SUCCESS;
}

// --- operations -----------------------------------------------------------------------------------------------------

void set_field(const FieldRow& row, const Elements& value, Node* node) {
  if (value.words.empty()) return;
  const std::int64_t word = value.words.front();
  if (const auto* field = std::get_if<IntField>(&row.field)) {
    node->*(*field) = static_cast<int>(word);
  } else if (const auto* long_field = std::get_if<LongField>(&row.field)) {
    node->*(*long_field) = word;
  } else if (const auto* real = std::get_if<RealField>(&row.field)) {
    node->*(*real) = std::bit_cast<double>(word);
  } else if (const auto* type = std::get_if<TypeField>(&row.field)) {
    node->*(*type) = static_cast<DataType>(word);
  } else {
    Extents& extents = node->*std::get<ExtentsField>(row.field);
    const std::size_t step = value.type == GPUDNN_TYPE_FRACTION ? 2 : 1;
    extents.count = static_cast<int>(std::min<std::size_t>(value.words.size() / step, kMaxRank));
    for (std::size_t i = 0; i < static_cast<std::size_t>(extents.count); ++i) {
      extents.value[i] = value.words[step * i];
      if (step == 2) extents.divisor[i] = value.words[2 * i + 1];
    }
  }
}

void add_tensor(const BagRef& bag, Port port, Operation* operation, std::vector<BagRef>* offsets) {
  operation->node.links.push_back({port, static_cast<std::int32_t>(operation->tensors.size())});
  operation->tensors.push_back(*bag->made_as<Tensor>());
  if (const BagRef ragged = bag->child(GPUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC)) offsets->push_back(ragged);
}

Status finalize_operation(Bag* bag, const OpRow& row) {
  auto operation = std::make_shared<Operation>();
  operation->node.op = row.op;
  const BagRef companion = row.companion < 0 ? nullptr : bag->child(row.companion_attribute);
  for (const FieldRow& field : row.fields) {
    auto value = bag->find(field.attribute);
    if (!value && companion != nullptr) value = companion->find(field.attribute);
    if (value) set_field(field, *value, &operation->node);
  }
  std::vector<BagRef> offsets;
  operation->tensors.reserve(row.ports.size());
  operation->node.links.reserve(row.ports.size());
  for (const PortRow& port : row.ports) {
    const auto value = bag->find(port.attribute);
    if (!value) continue;
    for (const BagRef& tensor : value->bags) add_tensor(tensor, port.port, operation.get(), &offsets);
  }
  for (const BagRef& tensor : offsets) operation->tensors.push_back(*tensor->made_as<Tensor>());
  GPUDNN_TRY(check_operation(operation->node, operation->tensors));
  bag->made = std::move(operation);
  return GPUDNN_STATUS_SUCCESS;
}

Status device_of_handle(const Bag& bag, AttributeName name, DeviceRef* device) {
  const auto value = bag.find(name);
  if (!value || value->words.front() == 0) return GPUDNN_STATUS_SUCCESS;
  auto* const handle = reinterpret_cast<gpudnnHandle_t>(static_cast<std::uintptr_t>(value->words.front()));
  GPUDNN_TRY(check_handle(handle));
  *device = DeviceRef(DeviceRef{}, handle->device);  // devices live for ever
  return GPUDNN_STATUS_SUCCESS;
}

Status finalize_graph(Bag* bag) {
  auto bound = std::make_shared<BoundGraph>();
  GPUDNN_TRY(device_of_handle(*bag, GPUDNN_ATTR_OPERATIONGRAPH_HANDLE, &bound->device));
  std::vector<std::shared_ptr<const Operation>> operations;
  const Elements given = *bag->find(GPUDNN_ATTR_OPERATIONGRAPH_OPS);
  operations.reserve(given.bags.size());
  for (const BagRef& of : given.bags) operations.push_back(of->made_as<Operation>());
  auto graph = std::make_shared<Graph>();
  graph->dynamic_shapes = bag->integer(GPUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, 0) != 0;
  GPUDNN_TRY(join(operations, graph.get()));
  bound->working = has_dead_operations(*graph) ? std::make_shared<Graph>(without_dead_operations(*graph)) : graph;
  bound->graph = std::move(graph);
  note_problem_lazily([&] { return to_text(*bound->graph, ';'); });
  bag->put_integers(GPUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, {engine_count()});
  bag->made = std::move(bound);
  return GPUDNN_STATUS_SUCCESS;
}

// --- engines and plans ----------------------------------------------------------------------------------------------

// The device asked for by a DEVICEPROP, else the graph's handle's, else the one at hand; with a target number of
// multiprocessors, if there is one.
Status device_for(const Bag& bag, AttributeName device_prop, AttributeName target, const BoundGraph& graph,
                  DeviceRef* device) {
  if (const BagRef prop = bag.child(device_prop)) {
    *device = prop->made_as<Device>();
  } else if (graph.device != nullptr) {
    *device = graph.device;
  } else {
    GPUDNN_TRY(default_device(device));
  }
  const std::int64_t most = bag.integer(target, 0);
  GPUDNN_REQUIRE(most >= 0, GPUDNN_STATUS_BAD_PARAM,
                 "the target number of multiprocessors is %lld; it must not be negative", static_cast<long long>(most));
  if (most > 0 && most < (*device)->multiprocessors) {
    auto fewer = std::make_shared<Device>(**device);
    fewer->multiprocessors = static_cast<int>(most);
    *device = std::move(fewer);
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status finalize_heuristics(Bag* bag) {
  const BagRef graph_bag = bag->child(GPUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH);
  const auto graph = graph_bag->made_as<BoundGraph>();
  DeviceRef device;
  GPUDNN_TRY(
      device_for(*bag, GPUDNN_ATTR_ENGINEHEUR_DEVICEPROP, GPUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, *graph, &device));
  std::string why;
  const auto mode = static_cast<int>(bag->integer(GPUDNN_ATTR_ENGINEHEUR_MODE, 0));
  std::vector<BagRef> results;
  for (const Choice& choice : rank(*graph->working, *device, mode, &why)) {
    auto engine = std::make_shared<BoundEngine>();
    engine->graph = graph;
    engine->engine = choice.engine;
    engine->device = device;
    auto config = std::make_shared<BoundConfig>();
    config->engine = engine;
    config->config = choice.config;
    results.push_back(config_bag(config, engine_bag(engine, graph_bag)));
  }
  // No result is an answer, not a failure: clients go on to the next mode, and then show this text.
  if (results.empty())
    static_cast<void>(GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED, "no engine takes the graph: %s", why.c_str()));
  bag->put_bags(GPUDNN_ATTR_ENGINEHEUR_RESULTS, results);
  return GPUDNN_STATUS_SUCCESS;
}

Status finalize_engine(Bag* bag) {
  const BagRef graph_bag = bag->child(GPUDNN_ATTR_ENGINE_OPERATION_GRAPH);
  auto bound = std::make_shared<BoundEngine>();
  bound->graph = graph_bag->made_as<BoundGraph>();
  GPUDNN_TRY(device_for(*bag, GPUDNN_ATTR_ENGINE_DEVICEPROP, GPUDNN_ATTR_ENGINE_SM_COUNT_TARGET, *bound->graph,
                        &bound->device));
  const std::int64_t index = bag->integer(GPUDNN_ATTR_ENGINE_GLOBAL_INDEX, 0);
  GPUDNN_REQUIRE(index >= 0 && index < engine_count(), GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_ATTR_ENGINE_GLOBAL_INDEX is %lld; it must lie in [0, %lld)", static_cast<long long>(index),
                 static_cast<long long>(engine_count()));
  bound->engine = engine_of_index(index);
  GPUDNN_REQUIRE(bound->engine != nullptr, GPUDNN_STATUS_NOT_SUPPORTED,
                 "there is no engine with index %lld; a heuristic (ENGINEHEUR) lists those that take the graph",
                 static_cast<long long>(index));
  GPUDNN_REQUIRE(runs_on(*bound->engine, *bound->device), GPUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH,
                 "engine %lld (%s) does not run on %s", static_cast<long long>(index), bound->engine->name,
                 bound->device->name.c_str());
  std::string why;
  bound->configs = bound->engine->configs(*bound->engine, *bound->graph->working, *bound->device, &why);
  GPUDNN_REQUIRE(!bound->configs.empty(), GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN,
                 "engine %lld (%s) does not take the graph: %s", static_cast<long long>(index), bound->engine->name,
                 why.c_str());
  put_engine_answers(*bound, bag);
  bag->made = bound;
  return GPUDNN_STATUS_SUCCESS;
}

Status finalize_config(Bag* bag) {
  const BagRef engine_of = bag->child(GPUDNN_ATTR_ENGINECFG_ENGINE);
  const auto engine = engine_of->made_as<BoundEngine>();
  Knobs wanted;
  if (const auto choices = bag->find(GPUDNN_ATTR_ENGINECFG_KNOB_CHOICES)) {
    for (const BagRef& choice : choices->bags) {
      const Knob knob{static_cast<int>(choice->integer(GPUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, 0)),
                      choice->integer(GPUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, 0)};
      for (const Knob& other : wanted)
        GPUDNN_REQUIRE(other.type != knob.type, GPUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES, "knob %d is chosen twice",
                       knob.type);
      wanted.push_back(knob);
    }
  }
  std::vector<Config> configs = engine->configs;
  std::string why;
  if (configs.empty())
    configs = engine->engine->configs(*engine->engine, *engine->graph->working, *engine->device, &why);
  const Config* found = find_config(configs, wanted);
  GPUDNN_REQUIRE(found != nullptr, GPUDNN_STATUS_NOT_SUPPORTED,
                 "engine %lld (%s) has no config with these knob values for this graph; KNOB_INFO tells their ranges",
                 static_cast<long long>(engine->engine->index), engine->engine->name);
  auto bound = std::make_shared<BoundConfig>();
  bound->engine = engine;
  bound->config = *found;
  fill_config(bound, engine_of, bag);
  return GPUDNN_STATUS_SUCCESS;
}

Status load_plan(Bag* bag, std::string_view json, PlanRef* plan) {
  DeviceRef device;
  GPUDNN_TRY(device_of_handle(*bag, GPUDNN_ATTR_EXECUTION_PLAN_HANDLE, &device));
  if (const BagRef prop = bag->child(GPUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP); prop != nullptr && device == nullptr)
    device = prop->made_as<Device>();
  GPUDNN_TRY(plan_from_json(json, device, plan));
  auto graph = std::make_shared<BoundGraph>();
  graph->graph = (*plan)->graph;
  graph->working = (*plan)->graph;
  graph->device = (*plan)->device;
  const auto graph_bag = std::make_shared<Bag>(kGraph);
  graph_bag->finalized = true;
  graph_bag->made = graph;
  graph_bag->put_integers(GPUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT, {engine_count()});
  auto engine = std::make_shared<BoundEngine>();
  engine->graph = graph;
  engine->engine = (*plan)->engine;
  engine->device = (*plan)->device;
  auto config = std::make_shared<BoundConfig>();
  config->engine = engine;
  config->config = {(*plan)->knobs, (*plan)->work->workspace(), 0};
  bag->put_bag(GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config_bag(config, engine_bag(engine, graph_bag)));
  return GPUDNN_STATUS_SUCCESS;
}

Status finalize_plan(Bag* bag) {
  const BagRef config_of = bag->child(GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  const auto json = bag->find(GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  GPUDNN_REQUIRE(config_of != nullptr || json.has_value(), GPUDNN_STATUS_BAD_PARAM,
                 "GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG was not set; a plan needs it, or a JSON_REPRESENTATION");
  PlanRef plan;
  if (config_of != nullptr) {
    const auto config = config_of->made_as<BoundConfig>();
    const BoundEngine& engine = *config->engine;
    const BagRef cache = bag->child(GPUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE);
    const auto store = cache == nullptr ? nullptr : std::const_pointer_cast<PlanStore>(cache->made_as<PlanStore>());
    const std::string key =
        store == nullptr ? "" : plan_key(*engine.graph->working, *engine.engine, config->config.knobs);
    if (store != nullptr) plan = store->find(key);
    if (plan == nullptr) {
      GPUDNN_TRY(make_plan(engine.graph->working, *engine.engine, engine.device, config->config.knobs, &plan));
      if (store != nullptr) store->keep(key, plan);
    }
  } else {
    GPUDNN_TRY(load_plan(bag, json->text, &plan));
  }
  bag->put_integers(GPUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                    {static_cast<std::int64_t>(told_workspace(plan->work->workspace()))});
  bag->made = plan;
  return GPUDNN_STATUS_SUCCESS;
}

Status finalize_pack(const Bag& bag) {
  Pack pack;
  return make_pack(bag, &pack);
}

Status finalize_cache(Bag* bag) {
  const auto json = bag->find(GPUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION);
  GPUDNN_REQUIRE(json.has_value() || bag->child(GPUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH) != nullptr,
                 GPUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                 "GPUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH was not set; a cache needs it");
  auto store = std::make_shared<PlanStore>();
  if (json) GPUDNN_TRY(store_from_json(json->text, store.get()));
  bag->put_integers(GPUDNN_ATTR_KERNEL_CACHE_IS_ENGINECFG_KERNEL_CACHED, {1});  // every kernel is in the library
  bag->made = std::move(store);
  return GPUDNN_STATUS_SUCCESS;
}

Status finalize_device(Bag* bag) {
  DeviceRef device;
  if (const auto json = bag->find(GPUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)) {
    GPUDNN_TRY(device_from_json(json->text, &device));
  } else {
    GPUDNN_TRY(device_of_handle(*bag, GPUDNN_ATTR_DEVICEPROP_HANDLE, &device));
    if (device == nullptr) {
      const std::int64_t ordinal = bag->integer(GPUDNN_ATTR_DEVICEPROP_DEVICE_ID, 0);
      GPUDNN_REQUIRE(ordinal >= 0, GPUDNN_STATUS_BAD_PARAM,
                     "GPUDNN_ATTR_DEVICEPROP_DEVICE_ID is %lld; it must not be negative",
                     static_cast<long long>(ordinal));
      Device wanted;
      wanted.ordinal = static_cast<int>(ordinal);
      const cuda::DeviceScope scope(wanted);
      GPUDNN_TRY(default_device(&device));
      GPUDNN_REQUIRE(device->backend == GPUDNN_BACKEND_HOST || device->ordinal == ordinal, GPUDNN_STATUS_BAD_PARAM,
                     "GPUDNN_ATTR_DEVICEPROP_DEVICE_ID is %lld; there is no such device",
                     static_cast<long long>(ordinal));
    }
  }
  bag->made = device;
  return GPUDNN_STATUS_SUCCESS;
}

Status finalize_by_kind(Bag* bag) {
  if (const OpRow* row = row_of_kind(bag->kind)) return finalize_operation(bag, *row);
  switch (bag->kind) {
    case kTensor:
      return finalize_tensor(bag);
    case kConvolution:
      return finalize_convolution(*bag);
    case kResample:
      return finalize_resample(*bag);
    case kRng:
      return finalize_rng(*bag);
    case kGraph:
      return finalize_graph(bag);
    case kHeuristics:
      return finalize_heuristics(bag);
    case kEngine:
      return finalize_engine(bag);
    case kEngineConfig:
      return finalize_config(bag);
    case kPlan:
      return finalize_plan(bag);
    case kKernelCache:
      return finalize_cache(bag);
    case kDeviceProp:
      return finalize_device(bag);
    case kKnobInfo:
    case kLayoutInfo:
      return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM,
                           "a %s descriptor is filled by Get; it cannot be finalized by a program",
                           kind_text(bag->kind));
    default:
      return GPUDNN_STATUS_SUCCESS;
  }
}

}  // namespace

Status finalize(Bag* bag) {
  GPUDNN_REQUIRE(!bag->finalized, GPUDNN_STATUS_BAD_PARAM, "the %s descriptor was finalized before",
                 kind_text(bag->kind));
  if (bag->kind == kPack) {  // made anew for every execution
    GPUDNN_TRY(require_set(*bag));
    GPUDNN_TRY(finalize_pack(*bag));
    bag->finalized = true;
    return GPUDNN_STATUS_SUCCESS;
  }
  GPUDNN_TRY(require_set(*bag));
  // A failed attempt leaves the program's own settings as they were: answers are put last.
  GPUDNN_TRY(finalize_by_kind(bag));
  bag->finalized = true;
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
