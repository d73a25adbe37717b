// Plans: their saved forms, engines by number, shapes and devices that are told to them.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <regex>

#include "client.hpp"
#include "composite.hpp"
#include "core/device.hpp"
#include "graph/engine.hpp"
#include "graph/kinds.hpp"
#include "ops/conv/select/heuristics.hpp"
#include "ops/conv/select/tuning_cache.hpp"
#include "support/backend.hpp"
#include "support/child.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

constexpr std::int64_t kInterpreter = 100;

constexpr const char* kSmall =
    "tensor 1 f32 2x3x4x4; tensor 2 f32 4x3x3x3; tensor 3 f32 2x4x4x4\n"
    "conv_fwd cross x=1 w=2 y=3 compute=f32 pre=1x1 post=1x1 stride=1x1 dilation=1x1";

// A device's description, from its text.
BackendDescriptor described_device(const std::string& json) {
  BackendDescriptor device(graph::kDeviceProp);
  EXPECT_EQ(device.set(GPUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, GPUDNN_TYPE_CHAR,
                       static_cast<std::int64_t>(json.size()), json.data()),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(device.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  return device;
}

// The heuristic's choices for a graph on that device.
BackendDescriptor heuristics_for(const BackendDescriptor& graph, const BackendDescriptor& device) {
  BackendDescriptor heuristics(graph::kHeuristics);
  EXPECT_EQ(heuristics.set_descriptor(GPUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(heuristics.set_enum(GPUDNN_ATTR_ENGINEHEUR_MODE, GPUDNN_TYPE_HEUR_MODE, GPUDNN_HEUR_MODE_A),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(heuristics.set_descriptor(GPUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(heuristics.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  return heuristics;
}

TEST(GraphPlans, ASavedPlanGivesTheSameBits) {
  const HostHandle handle;
  const graph::Graph graph = read(kSmall);
  for (const std::int64_t index : {std::int64_t{213}, kInterpreter}) {
    std::string json;
    Random random(session_seed());
    Memory a(graph, &random);
    Memory b = a;
    {
      ClientGraph client;
      build(graph, handle, &client);
      const BackendDescriptor plan = make_plan(client.graph_descriptor, index);
      json = plan.text(GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
      ASSERT_EQ(execute(handle, plan, &a), GPUDNN_STATUS_SUCCESS) << last_error();
    }
    BackendDescriptor loaded(graph::kPlan);
    const gpudnnHandle_t object = handle;
    ASSERT_EQ(loaded.set(GPUDNN_ATTR_EXECUTION_PLAN_HANDLE, GPUDNN_TYPE_HANDLE, 1, &object), GPUDNN_STATUS_SUCCESS);
    ASSERT_EQ(loaded.set(GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, GPUDNN_TYPE_CHAR,
                         static_cast<std::int64_t>(json.size()), json.data()),
              GPUDNN_STATUS_SUCCESS);
    ASSERT_EQ(loaded.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
    ASSERT_EQ(execute(handle, loaded, &b), GPUDNN_STATUS_SUCCESS) << last_error();
    EXPECT_EQ(a.values(3), b.values(3));
    EXPECT_EQ(loaded.text(GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION), json);
  }
}

// A plan's text, and the bytes that it gives, as one process tells them another.
void write_text(std::ostream& out, const std::string& text) { out << text.size() << ' ' << text; }
std::string read_text(std::istream& in) {
  std::size_t size = 0;
  in >> size;
  std::string text(size, '\0');
  in.ignore(1).read(text.data(), static_cast<std::streamsize>(size));
  return text;
}

std::string bytes_of(const graph::Graph& graph, Memory* memory) {
  std::string bytes;
  for (const graph::Tensor& t : graph.tensors)
    if (!t.is_virtual) bytes.append(static_cast<const char*>(memory->pointer(t.uid)), memory->bytes(t.uid));
  return bytes;
}

Memory inputs_of(const GraphCase& one, const graph::Graph& graph) {
  Random random = case_random(session_seed(), one.text.size());
  return recorded_inputs("operations.txt", one, graph, &random);
}

constexpr const char* kPlansOfParent = "GPUDNN_TEST_PLANS_OF_PARENT";

TEST(GraphPlansChild, DISABLED_GiveTheBitsThatTheyGaveTheParent) {
  const char* const path = std::getenv(kPlansOfParent);
  ASSERT_NE(path, nullptr) << "run by the test below, in a process of its own";
  const gpudnnHandle_t handle = Backend::at_hand().handle();
  std::ifstream in(path, std::ios::binary);
  for (const GraphCase& one : graph_cases("operations.txt")) {
    SCOPED_TRACE(one.name);
    const graph::Graph graph = read(one.text);
    const std::string json = read_text(in);
    BackendDescriptor plan(graph::kPlan);
    ASSERT_EQ(plan.set(GPUDNN_ATTR_EXECUTION_PLAN_HANDLE, GPUDNN_TYPE_HANDLE, 1, &handle), GPUDNN_STATUS_SUCCESS);
    ASSERT_EQ(plan.set(GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, GPUDNN_TYPE_CHAR,
                       static_cast<std::int64_t>(json.size()), json.data()),
              GPUDNN_STATUS_SUCCESS);
    ASSERT_EQ(plan.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
    Memory memory = inputs_of(one, graph);
    ASSERT_EQ(execute(handle, plan, &memory), GPUDNN_STATUS_SUCCESS) << last_error();
    ASSERT_TRUE(bytes_of(graph, &memory) == read_text(in));
  }
}

TEST(GraphPlans, GiveTheSameBitsInAnotherProcess) {
  const std::string path = testing::TempDir() + "gpudnn_plans." + std::to_string(getpid());
  const gpudnnHandle_t handle = Backend::at_hand().handle();
  {
    std::ofstream out(path, std::ios::binary);
    for (const GraphCase& one : graph_cases("operations.txt")) {
      SCOPED_TRACE(one.name);
      const graph::Graph graph = read(one.text);
      ClientGraph client;
      build(graph, handle, &client);
      const BackendDescriptor plan = make_plan(configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A).front());
      Memory memory = inputs_of(one, graph);
      ASSERT_EQ(execute(handle, plan, &memory), GPUDNN_STATUS_SUCCESS) << last_error();
      write_text(out, plan.text(GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION));
      write_text(out, bytes_of(graph, &memory));
    }
  }
  const char* const backend = Backend::at_hand().is_cuda() ? "cuda" : "host";
  EXPECT_EQ(run_in_child("GraphPlansChild.*", {{kPlansOfParent, path}, {"GPUDNN_BACKEND", backend}}), "");
  std::filesystem::remove(path);
}

TEST(GraphPlans, SpoiltJsonIsRefused) {
  const HostHandle handle;
  ClientGraph client;
  build(read(kSmall), handle, &client);
  const std::string json = make_plan(client.graph_descriptor, 213).text(GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  const auto load = [](const std::string& text) {
    BackendDescriptor plan(graph::kPlan);
    EXPECT_EQ(plan.set(GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, GPUDNN_TYPE_CHAR,
                       static_cast<std::int64_t>(text.size()), text.data()),
              GPUDNN_STATUS_SUCCESS);
    return plan.finalize();
  };
  EXPECT_EQ(load(json), GPUDNN_STATUS_SUCCESS);
  std::string other = json;
  other.replace(other.find("\"format\":1"), 10, "\"format\":9");
  EXPECT_EQ(load(other), GPUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH);
  EXPECT_EQ(load("x"), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(load("{}"), GPUDNN_STATUS_BAD_PARAM);
  Random random(session_seed());
  for (int i = 0; i < session_cases(3000); ++i) {
    std::string spoilt = json;
    for (std::int64_t k = random.between(1, 4); k > 0; --k) {
      const auto at = static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(spoilt.size()) - 1));
      if (random.chance(0.3)) {
        spoilt.resize(at + 1);
      } else {
        spoilt[at] = static_cast<char>(random.between(32, 126));
      }
    }
    const Status status = load(spoilt);
    if (status != GPUDNN_STATUS_SUCCESS) {
      EXPECT_GT(last_error().size(), 10U);
    }
  }
}

TEST(GraphPlans, DescriptorsMayGoBeforeThePlan) {
  const HostHandle handle;
  const graph::Graph graph = read(kSmall);
  BackendDescriptor plan;
  {
    ClientGraph client;
    build(graph, nullptr, &client);
    plan = make_plan(configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A).front());
  }
  Random random(session_seed());
  Memory memory(graph, &random);
  EXPECT_EQ(execute(handle, plan, &memory), GPUDNN_STATUS_SUCCESS) << last_error();
}

TEST(GraphPlans, KnobsRebuildAnEngine) {
  const HostHandle handle;
  ClientGraph client;
  build(read(kSmall), handle, &client);
  BackendDescriptor engine(graph::kEngine);
  ASSERT_EQ(engine.set_descriptor(GPUDNN_ATTR_ENGINE_OPERATION_GRAPH, client.graph_descriptor), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(engine.set_integer(GPUDNN_ATTR_ENGINE_GLOBAL_INDEX, 213), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(engine.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  const std::int64_t knobs = engine.count(GPUDNN_ATTR_ENGINE_KNOB_INFO, GPUDNN_TYPE_BACKEND_DESCRIPTOR);
  EXPECT_EQ(knobs, 3);
  for (const int value : {-1, 12345}) {
    BackendDescriptor choice(graph::kKnobChoice);
    ASSERT_EQ(choice.set_enum(GPUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, GPUDNN_TYPE_KNOB_TYPE, GPUDNN_KNOB_TYPE_TILE_SIZE),
              GPUDNN_STATUS_SUCCESS);
    ASSERT_EQ(choice.set_integer(GPUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value), GPUDNN_STATUS_SUCCESS);
    ASSERT_EQ(choice.finalize(), GPUDNN_STATUS_SUCCESS);
    BackendDescriptor config(graph::kEngineConfig);
    ASSERT_EQ(config.set_descriptor(GPUDNN_ATTR_ENGINECFG_ENGINE, engine), GPUDNN_STATUS_SUCCESS);
    ASSERT_EQ(config.set_descriptor(GPUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choice), GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(config.finalize(), value == -1 ? GPUDNN_STATUS_SUCCESS : GPUDNN_STATUS_NOT_SUPPORTED);
  }
}

// What Find measured puts an engine first for graphs, too.
TEST(GraphPlans, GoByTheTuningCache) {
  const HostHandle handle;
  ClientGraph client;
  build(read("tensor 1 f32 2x5x7x7; tensor 2 f32 6x5x3x3; tensor 3 f32 2x6x7x7\n"
             "conv_fwd cross x=1 w=2 y=3 compute=f32 pre=1x1 post=1x1 stride=1x1 dilation=1x1"),
        handle, &client);
  const auto first = [&] { return engine_index(configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A).front()); };
  std::string why;
  const auto problem = conv::from_text("conv fwd f32 nchw n2c5h7w7 k6r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=fma", &why);
  ASSERT_TRUE(problem) << why;
  const std::int64_t before = first();
  for (const conv::Choice& choice : conv::rank(*problem, host_device())) {
    conv::tuning_cache().record(*problem, host_device(), {conv::row_of(choice)});
    EXPECT_STREQ(graph::engine_of_index(first())->inner, choice.engine->name);
  }
  conv::tuning_cache().record(*problem, host_device(), {});
  EXPECT_EQ(first(), before);
}

TEST(GraphPlans, IndicesWithoutAnEngine) {
  const HostHandle handle;
  ClientGraph client;
  build(read(kSmall), handle, &client);
  const std::int64_t count = client.graph_descriptor.integer(GPUDNN_ATTR_OPERATIONGRAPH_ENGINE_GLOBAL_COUNT);
  EXPECT_GT(count, 213);
  const auto finalized = [&](std::int64_t index) {
    BackendDescriptor engine(graph::kEngine);
    EXPECT_EQ(engine.set_descriptor(GPUDNN_ATTR_ENGINE_OPERATION_GRAPH, client.graph_descriptor),
              GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(engine.set_integer(GPUDNN_ATTR_ENGINE_GLOBAL_INDEX, index), GPUDNN_STATUS_SUCCESS);
    return engine.finalize();
  };
  for (const std::int64_t index : {std::int64_t{-1}, count, INT64_MAX})
    EXPECT_EQ(finalized(index), GPUDNN_STATUS_BAD_PARAM);
  for (const std::int64_t index : {0, 5, 17, 99}) EXPECT_EQ(finalized(index), GPUDNN_STATUS_NOT_SUPPORTED);
  EXPECT_EQ(finalized(200), GPUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH);
}

TEST(GraphPlans, NoEngineIsAnAnswerWithAReason) {
  const HostHandle handle;
  ClientGraph client;
  build(read("tensor 1 i32 1; tensor 2 f32 4x4; tensor 3 f32 4x4\nsignal flag=1 x=2 y=3 value=1"), handle, &client);
  static_cast<void>(last_error());
  EXPECT_TRUE(configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A).empty());
  EXPECT_NE(last_error().find("signal is not built"), std::string::npos);
}

TEST(GraphPlans, OverriddenShapes) {
  const HostHandle handle;
  const graph::Graph planned = read("tensor 1 f32 2x3; tensor 2 f32 2x3\npointwise exp x=1 y=2 compute=f32");
  ClientGraph client;
  build(planned, handle, &client);
  const BackendDescriptor plan = make_plan(client.graph_descriptor, kInterpreter);
  float x[20], y[20];
  for (int i = 0; i < 20; ++i) x[i] = static_cast<float>(i) / 10, y[i] = -1;
  const std::int64_t uids[] = {1, 2};
  void* pointers[] = {x, y};
  std::vector<std::vector<std::int64_t>> shapes = {{4, 5}, {4, 5}};
  std::vector<std::vector<std::int64_t>> strides = {{5, 1}, {5, 1}};
  BackendDescriptor pack(graph::kPack);
  ASSERT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, GPUDNN_TYPE_INT64, 2, uids), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, GPUDNN_TYPE_VOID_PTR, 2, pointers), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_UNIQUE_IDS, GPUDNN_TYPE_INT64, 2, uids), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES, GPUDNN_TYPE_VOID_PTR, 1, &shapes),
            GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES, GPUDNN_TYPE_VOID_PTR, 1, &strides),
            GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(pack.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  ASSERT_EQ(gpudnnBackendExecute(handle, plan.get(), pack.get()), GPUDNN_STATUS_SUCCESS) << last_error();
  for (int i = 0; i < 20; ++i) EXPECT_NEAR(y[i], std::exp(x[i]), 1e-6);
}

TEST(GraphPlans, DevicesAreSavedAndLoaded) {
  BackendDescriptor device(graph::kDeviceProp);
  ASSERT_EQ(device.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  const std::string json = device.text(GPUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  const BackendDescriptor loaded = described_device(json);
  EXPECT_EQ(loaded.text(GPUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION), json);
  // Plans for it need no handle.
  ClientGraph client;
  build(read(kSmall), nullptr, &client);
  const BackendDescriptor heuristics = heuristics_for(client.graph_descriptor, loaded);
  EXPECT_GT(heuristics.count(GPUDNN_ATTR_ENGINEHEUR_RESULTS, GPUDNN_TYPE_BACKEND_DESCRIPTOR), 0);
}

// Plans for a GPU are made where there is none, nor its driver; they say so when they are to run.
TEST(GraphPlans, AreMadeForADeviceThatIsNotThere) {
  BackendDescriptor here(graph::kDeviceProp);
  ASSERT_EQ(here.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  std::string json = here.text(GPUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION);
  const std::pair<const char*, const char*> described[] = {
      {R"("backend":"[a-z]*")", R"("backend":"cuda")"},
      {R"("name":"[^"]*")", R"("name":"described")"},
      {R"("major":[0-9]*)", R"("major":9)"},
      {R"("minor":[0-9]*)", R"("minor":0)"},
      {R"("multiprocessors":[0-9]*)", R"("multiprocessors":132)"},
      {R"("shared_memory_per_block":[0-9]*)", R"("shared_memory_per_block":232448)"},
      {R"("shared_memory_per_multiprocessor":[0-9]*)", R"("shared_memory_per_multiprocessor":233472)"},
      {R"("l2_bytes":[0-9]*)", R"("l2_bytes":62914560)"}};
  for (const auto& [field, value] : described) json = std::regex_replace(json, std::regex(field), value);
  const BackendDescriptor device = described_device(json);
  const char* const graphs[] = {
      "tensor 1 f32 2x64x16x16 strides=16384,1,1024,64; tensor 2 f32 64x64x3x3 strides=576,1,192,64; "
      "tensor 3 f32 2x64x16x16 strides=16384,1,1024,64\nconv_fwd cross x=1 w=2 y=3 pre=1x1 post=1x1 stride=1x1 "
      "dilation=1x1 compute=f32",
      "tensor 1 f16 1x32x64; tensor 2 f16 1x64x16; tensor 3 f16 1x32x16\nmatmul x=1 b=2 y=3 compute=f32",
      "tensor 1 bf16 1x16x4096; tensor 2 bf16 1x4096x4096 strides=16777216,1,4096; tensor 3 bf16 1x16x4096\n"
      "matmul x=1 b=2 y=3 compute=f32"};
  for (const char* const text : graphs) {
    ClientGraph client;
    build(read(text), nullptr, &client);
    const BackendDescriptor heuristics = heuristics_for(client.graph_descriptor, device);
    const std::int64_t count = heuristics.count(GPUDNN_ATTR_ENGINEHEUR_RESULTS, GPUDNN_TYPE_BACKEND_DESCRIPTOR);
#ifdef GPUDNN_WITH_CUDA
    EXPECT_GT(count, 0) << text << "\n" << last_error();
#endif
    std::vector<BackendDescriptor> configs;
    std::vector<gpudnnBackendDescriptor_t> objects;
    for (std::int64_t i = 0; i < count; ++i) objects.push_back(configs.emplace_back(graph::kEngineConfig).get());
    std::int64_t written = 0;
    ASSERT_EQ(gpudnnBackendGetAttribute(heuristics.get(), GPUDNN_ATTR_ENGINEHEUR_RESULTS,
                                        GPUDNN_TYPE_BACKEND_DESCRIPTOR, count, &written, objects.data()),
              GPUDNN_STATUS_SUCCESS);
    for (const BackendDescriptor& config : configs) {
      BackendDescriptor plan(graph::kPlan);
      ASSERT_EQ(plan.set_descriptor(GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config), GPUDNN_STATUS_SUCCESS);
      EXPECT_EQ(plan.finalize(), GPUDNN_STATUS_SUCCESS) << text << "\n" << last_error();
    }
  }
}

TEST(GraphPlans, AKernelCacheKeepsPlans) {
  const HostHandle handle;
  ClientGraph client;
  build(read(kSmall), handle, &client);
  BackendDescriptor empty(graph::kKernelCache);
  EXPECT_EQ(empty.finalize(), GPUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  BackendDescriptor cache(graph::kKernelCache);
  ASSERT_EQ(cache.set_descriptor(GPUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH, client.graph_descriptor),
            GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cache.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  const std::size_t before = cache.text(GPUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION).size();
  const std::vector<BackendDescriptor> configs = configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A);
  BackendDescriptor plan(graph::kPlan);
  ASSERT_EQ(plan.set_descriptor(GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs.front()), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(plan.set_descriptor(GPUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE, cache), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(plan.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  const std::string json = cache.text(GPUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION);
  EXPECT_GT(json.size(), before);
  BackendDescriptor loaded(graph::kKernelCache);
  ASSERT_EQ(loaded.set(GPUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION, GPUDNN_TYPE_CHAR,
                       static_cast<std::int64_t>(json.size()), json.data()),
            GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(loaded.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  EXPECT_EQ(loaded.text(GPUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION), json);
}

}  // namespace
}  // namespace gpudnn::test
