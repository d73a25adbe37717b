// Rules that clients of the graph interface rely on: counts, lifetimes, pointers, notes, caches, threads.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <thread>

#include "client.hpp"
#include "gpudnn/ops.h"
#include "graph/engine.hpp"
#include "graph/kinds.hpp"
#include "ops/conv/engine.hpp"
#include "support/backend.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

constexpr std::int64_t kInterpreter = 100;
constexpr const char* kConvolution =
    "tensor 1 f32 2x3x6x6; tensor 2 f32 4x3x3x3; tensor 3 f32 2x4x6x6\n"
    "conv_fwd cross x=1 w=2 y=3 compute=f32 pre=1x1 post=1x1 stride=1x1 dilation=1x1";

// A graph for each engine of the host backend.
struct EngineGraph {
  std::int64_t index;
  const char* text;
};
constexpr EngineGraph kGraphs[] = {
    {213, kConvolution},
    {100, "tensor 1 f32 4x6; tensor 2 f32 4x6\npointwise exp x=1 y=2 compute=f32"},
    {101,
     "tensor 1 f32 2x5x7; tensor 2 f32 2x7x6; tensor 3 f32 2x5x6 virtual; tensor 4 f32 2x5x1\n"
     "matmul x=1 b=2 y=3 compute=f32; reduction max x=3 y=4 compute=f32"},
    {110, "tensor 1 f32 4x6; tensor 2 f32 1x6; tensor 3 f32 4x6\npointwise add x=1 b=2 y=3 compute=f32"},
    {121, "tensor 1 f32 2x5x7; tensor 2 f32 2x7x6; tensor 3 f32 2x5x6\nmatmul x=1 b=2 y=3 compute=f32"},
    {130,
     "tensor 1 f32 4x8x1x1; tensor 2 f32 4x8x1x1; tensor 3 f32 1x8x1x1; tensor 4 f32 1x8x1x1; tensor 5 f32 1x1x1x1 "
     "by_value\nnorm_fwd layer x=1 scale=3 bias=4 epsilon=5 y=2"},
    {140,
     "tensor 1 f32 2x4x5x3; tensor 2 f32 2x2x7x3; tensor 3 f32 2x2x7x2; tensor 4 f32 2x4x5x2; tensor 5 f32 2x4x5x1\n"
     "sdpa_fwd q=1 k=2 v=3 o=4 stats=5"},
    {300, "tensor 1 f32 4x6; tensor 2 f32 4x1\nreduction add x=1 y=2 compute=f32"},
    {310,
     "tensor 1 f32 2x3x6x6; tensor 2 f32 2x3x3x3\nresample_fwd avg_include x=1 y=2 compute=f32 pre=0x0 "
     "post=0x0 stride=2x2 window=2x2 padding_mode=0"},
    {320, "tensor 1 f32 4x6; tensor 2 f32 24\nreshape x=1 y=2"},
};

// A pack of the memory's pointers, one of which may be another.
struct Pack {
  std::vector<std::int64_t> uids;
  std::vector<void*> pointers;
  std::vector<char> workspace;

  Pack(const graph::Graph& graph, Memory* memory, std::int64_t bytes)
      : workspace(static_cast<std::size_t>(bytes + 64)) {
    for (const graph::Tensor& t : graph.tensors) {
      if (t.is_virtual) continue;
      uids.push_back(t.uid);
      pointers.push_back(memory->pointer(t.uid));
    }
  }
  Status run(gpudnnHandle_t handle, const BackendDescriptor& plan) {
    BackendDescriptor pack(graph::kPack);
    void* room = reinterpret_cast<void*>((reinterpret_cast<std::uintptr_t>(workspace.data()) + 15) / 16 * 16);
    const auto count = static_cast<std::int64_t>(uids.size());
    EXPECT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, GPUDNN_TYPE_INT64, count, uids.data()),
              GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, GPUDNN_TYPE_VOID_PTR, count, pointers.data()),
              GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_WORKSPACE, GPUDNN_TYPE_VOID_PTR, 1, &room), GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(pack.finalize(), GPUDNN_STATUS_SUCCESS);
    return gpudnnBackendExecute(handle, plan.get(), pack.get());
  }
};

std::int64_t workspace_of(const BackendDescriptor& plan) {
  return plan.integer(GPUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
}

TEST(GraphRules, MissingNullAndMisalignedPointers) {
  const gpudnnHandle_t handle = Backend::host().handle();
  Random random(session_seed());
  for (const EngineGraph& one : kGraphs) {
    SCOPED_TRACE(one.text);
    const graph::Graph graph = read(one.text);
    ClientGraph client;
    build(graph, handle, &client);
    const BackendDescriptor plan = make_plan(client.graph_descriptor, one.index);
    Memory memory(graph, &random);
    Pack good(graph, &memory, workspace_of(plan));
    good.uids.push_back(12345);  // nobody asks for it
    good.pointers.push_back(nullptr);
    EXPECT_EQ(good.run(handle, plan), GPUDNN_STATUS_SUCCESS) << last_error();
    for (std::size_t i = 0; i + 1 < good.uids.size(); ++i) {
      Pack spoilt = good;
      spoilt.pointers[i] = nullptr;
      EXPECT_EQ(spoilt.run(handle, plan), GPUDNN_STATUS_BAD_PARAM_NULL_POINTER) << good.uids[i] << last_error();
      EXPECT_NE(last_error().find("null"), std::string::npos) << last_error();
      spoilt = good;
      if (graph.tensors[static_cast<std::size_t>(graph.find(good.uids[i]))].by_value) continue;
      spoilt.pointers[i] = static_cast<char*>(good.pointers[i]) + 1;
      EXPECT_EQ(spoilt.run(handle, plan), GPUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER) << good.uids[i] << last_error();
      spoilt = good;
      spoilt.uids[i] = 777;
      EXPECT_EQ(spoilt.run(handle, plan), GPUDNN_STATUS_BAD_PARAM) << last_error();
    }
  }
}

TEST(GraphRules, ManyThreadsExecuteOnePlan) {
  const gpudnnHandle_t handle = Backend::host().handle();
  for (const EngineGraph& one : kGraphs) {
    SCOPED_TRACE(one.text);
    const graph::Graph graph = read(one.text);
    ClientGraph client;
    build(graph, handle, &client);
    const BackendDescriptor plan = make_plan(client.graph_descriptor, one.index);
    const std::int64_t bytes = workspace_of(plan);
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        Random random = case_random(session_seed(), static_cast<std::uint64_t>(t));
        Memory first(graph, &random);
        Memory memory = first;
        Pack pack(graph, &memory, bytes);
        if (t % 2 == 1) {  // another order of unique ids
          std::reverse(pack.uids.begin(), pack.uids.end());
          std::reverse(pack.pointers.begin(), pack.pointers.end());
        }
        Pack alone(graph, &first, bytes);
        if (alone.run(handle, plan) != GPUDNN_STATUS_SUCCESS) ++wrong;
        for (int i = 0; i < 20; ++i)
          if (pack.run(handle, plan) != GPUDNN_STATUS_SUCCESS) ++wrong;
        const auto is_same = [](double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); };
        for (const graph::Tensor& tensor : graph.tensors) {
          if (tensor.is_virtual) continue;
          const auto values = memory.values(tensor.uid);
          const auto expected = first.values(tensor.uid);
          if (!std::equal(values.begin(), values.end(), expected.begin(), expected.end(), is_same)) ++wrong;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

// Results that are asked for with fewer places than there are; with none; again with none.
TEST(GraphRules, CountsOfResultsNotesAndKnobs) {
  const gpudnnHandle_t handle = Backend::host().handle();
  ClientGraph client;
  build(read(kConvolution), handle, &client);
  BackendDescriptor heuristics(graph::kHeuristics);
  ASSERT_EQ(heuristics.set_descriptor(GPUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, client.graph_descriptor),
            GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(heuristics.set_enum(GPUDNN_ATTR_ENGINEHEUR_MODE, GPUDNN_TYPE_HEUR_MODE, GPUDNN_HEUR_MODE_FALLBACK),
            GPUDNN_STATUS_SUCCESS);
  const int multiprocessors = 8;
  ASSERT_EQ(heuristics.set(GPUDNN_ATTR_ENGINEHEUR_SM_COUNT_TARGET, GPUDNN_TYPE_INT32, 1, &multiprocessors),
            GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(heuristics.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  const std::int64_t available = heuristics.count(GPUDNN_ATTR_ENGINEHEUR_RESULTS, GPUDNN_TYPE_BACKEND_DESCRIPTOR);
  ASSERT_GE(available, 2);
  ASSERT_LE(available, 8);
  std::vector<BackendDescriptor> configs;
  std::vector<gpudnnBackendDescriptor_t> objects;
  for (std::int64_t i = 0; i <= available; ++i) objects.push_back(configs.emplace_back(graph::kEngineConfig).get());
  std::int64_t written = -1;
  const auto get = [&](std::int64_t requested, void* to) {
    return gpudnnBackendGetAttribute(heuristics.get(), GPUDNN_ATTR_ENGINEHEUR_RESULTS, GPUDNN_TYPE_BACKEND_DESCRIPTOR,
                                     requested, &written, to);
  };
  EXPECT_EQ(get(1, objects.data()), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(written, 1);
  EXPECT_EQ(get(available + 1, objects.data()), GPUDNN_STATUS_SUCCESS) << last_error();
  EXPECT_EQ(written, available);  // never more than there are
  EXPECT_EQ(get(0, nullptr), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(written, available);
  BackendDescriptor tensor(graph::kTensor);
  gpudnnBackendDescriptor_t wrong = tensor.get();
  EXPECT_EQ(get(1, &wrong), GPUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);

  const BackendDescriptor& config = configs.front();
  EXPECT_EQ(config.count(GPUDNN_ATTR_ENGINECFG_KNOB_CHOICES, GPUDNN_TYPE_BACKEND_DESCRIPTOR), 3);
  EXPECT_GE(config.integer(GPUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE), 0);
  EXPECT_EQ(config.integer(GPUDNN_ATTR_ENGINECFG_SHARED_MEMORY_USED, GPUDNN_TYPE_INT32), 0);
  BackendDescriptor engine(graph::kEngine);
  gpudnnBackendDescriptor_t object = engine.get();
  ASSERT_EQ(gpudnnBackendGetAttribute(config.get(), GPUDNN_ATTR_ENGINECFG_ENGINE, GPUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      nullptr, &object),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(engine.count(GPUDNN_ATTR_ENGINE_NUMERICAL_NOTE, GPUDNN_TYPE_NUMERICAL_NOTE), 1);
  EXPECT_EQ(engine.count(GPUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, GPUDNN_TYPE_BEHAVIOR_NOTE), 0);
  EXPECT_EQ(engine.finalize(), GPUDNN_STATUS_BAD_PARAM);  // what a Get filled is finalized
}

// A graph without an engine: two Gets that find nothing, and the reason behind them.
TEST(GraphRules, AReasonOutlivesSuccessfulCalls) {
  const gpudnnHandle_t handle = Backend::host().handle();
  ClientGraph client;
  build(read("tensor 1 i32 1; tensor 2 f32 4x4; tensor 3 f32 4x4\nsignal flag=1 x=2 y=3 value=1"), handle, &client);
  for (const int mode : {GPUDNN_HEUR_MODE_A, GPUDNN_HEUR_MODE_B, GPUDNN_HEUR_MODE_FALLBACK, GPUDNN_HEUR_MODE_INSTANT}) {
    BackendDescriptor heuristics(graph::kHeuristics);
    ASSERT_EQ(heuristics.set_descriptor(GPUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, client.graph_descriptor),
              GPUDNN_STATUS_SUCCESS);
    ASSERT_EQ(heuristics.set_enum(GPUDNN_ATTR_ENGINEHEUR_MODE, GPUDNN_TYPE_HEUR_MODE, mode), GPUDNN_STATUS_SUCCESS);
    ASSERT_EQ(heuristics.finalize(), GPUDNN_STATUS_SUCCESS);
    for (int i = 0; i < 2; ++i) {
      std::int64_t count = -1;
      EXPECT_EQ(gpudnnBackendGetAttribute(heuristics.get(), GPUDNN_ATTR_ENGINEHEUR_RESULTS,
                                          GPUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &count, nullptr),
                GPUDNN_STATUS_SUCCESS);
      EXPECT_EQ(count, 0);
    }
    EXPECT_NE(last_error().find("signal is not built"), std::string::npos) << last_error();
  }
}

// Notes by which clients choose: no engine is nondeterministic or compiles, and one without tensor cores is in the
// list.
TEST(GraphRules, NotesOfEveryEngine) {
  const gpudnnHandle_t handle = Backend::host().handle();
  for (const EngineGraph& one : kGraphs) {
    SCOPED_TRACE(one.text);
    ClientGraph client;
    build(read(one.text), handle, &client);
    for (const int mode : {GPUDNN_HEUR_MODE_A, GPUDNN_HEUR_MODE_FALLBACK}) {
      bool plain = false;
      for (const BackendDescriptor& config : configs_of(client.graph_descriptor, mode)) {
        BackendDescriptor engine(graph::kEngine);
        gpudnnBackendDescriptor_t object = engine.get();
        ASSERT_EQ(gpudnnBackendGetAttribute(config.get(), GPUDNN_ATTR_ENGINECFG_ENGINE, GPUDNN_TYPE_BACKEND_DESCRIPTOR,
                                            1, nullptr, &object),
                  GPUDNN_STATUS_SUCCESS);
        gpudnnBackendNumericalNote_t notes[10];
        std::int64_t count = 0;
        ASSERT_EQ(gpudnnBackendGetAttribute(engine.get(), GPUDNN_ATTR_ENGINE_NUMERICAL_NOTE, GPUDNN_TYPE_NUMERICAL_NOTE,
                                            10, &count, notes),
                  GPUDNN_STATUS_SUCCESS);
        bool tensor_cores = false;
        for (std::int64_t i = 0; i < count; ++i) {
          EXPECT_NE(notes[i], GPUDNN_NUMERICAL_NOTE_NONDETERMINISTIC);
          EXPECT_NE(notes[i], GPUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS);
          tensor_cores = tensor_cores || notes[i] == GPUDNN_NUMERICAL_NOTE_TENSOR_CORE;
        }
        plain = plain || !tensor_cores;
      }
      EXPECT_TRUE(plain || one.index == 140) << mode;  // attention's engines are one row of the list
    }
  }
}

// One cache, many graphs; a plan found there is the plan that was kept.
TEST(GraphRules, AKernelCacheServesManyGraphs) {
  const gpudnnHandle_t handle = Backend::host().handle();
  ClientGraph first;
  build(read(kConvolution), handle, &first);
  BackendDescriptor cache(graph::kKernelCache);
  ASSERT_EQ(cache.set_descriptor(GPUDNN_ATTR_KERNEL_CACHE_OPERATION_GRAPH, first.graph_descriptor),
            GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(cache.finalize(), GPUDNN_STATUS_SUCCESS);
  std::size_t size = cache.text(GPUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION).size();
  for (const EngineGraph& one : kGraphs) {
    ClientGraph client;
    build(read(one.text), handle, &client);
    const std::vector<BackendDescriptor> configs = configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A);
    ASSERT_FALSE(configs.empty()) << last_error();
    std::size_t after = 0;
    for (int i = 0; i < 2; ++i) {
      BackendDescriptor plan(graph::kPlan);
      ASSERT_EQ(plan.set_descriptor(GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, configs.front()), GPUDNN_STATUS_SUCCESS);
      ASSERT_EQ(plan.set_descriptor(GPUDNN_ATTR_EXECUTION_PLAN_KERNEL_CACHE, cache), GPUDNN_STATUS_SUCCESS);
      ASSERT_EQ(plan.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
      const std::size_t now = cache.text(GPUDNN_ATTR_KERNEL_CACHE_JSON_REPRESENTATION).size();
      if (i == 0) {
        EXPECT_GT(now, size) << one.text;
        after = now;
      } else {
        EXPECT_EQ(now, after);
      }
    }
    size = after;
  }
}

// A plan of another device loads nowhere but there.
TEST(GraphRules, ASavedPlanOfAnotherDevice) {
  const gpudnnHandle_t handle = Backend::host().handle();
  ClientGraph client;
  build(read(kConvolution), handle, &client);
  std::string json =
      make_plan(client.graph_descriptor, kInterpreter).text(GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION);
  const std::size_t at = json.find("\"backend\":");
  ASSERT_NE(at, std::string::npos) << json;
  const std::size_t end = json.find_first_of(",}", at);
  json.replace(at, end - at, "\"backend\":\"cuda\"");
  const std::size_t count = json.find("\"multiprocessors\":");
  json.replace(count, json.find_first_of(",}", count) - count, "\"multiprocessors\":132");
  BackendDescriptor loaded(graph::kPlan);
  const gpudnnHandle_t object = handle;
  ASSERT_EQ(loaded.set(GPUDNN_ATTR_EXECUTION_PLAN_HANDLE, GPUDNN_TYPE_HANDLE, 1, &object), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(loaded.set(GPUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, GPUDNN_TYPE_CHAR,
                       static_cast<std::int64_t>(json.size()), json.data()),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(loaded.finalize(), GPUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH) << last_error();
}

TEST(GraphRules, DynamicShapesAreAccepted) {
  const gpudnnHandle_t handle = Backend::host().handle();
  const bool yes = true;
  ClientGraph one;
  build(read(kConvolution), handle, &one);
  BackendDescriptor dynamic(graph::kGraph);
  std::vector<gpudnnBackendDescriptor_t> operations;
  for (const BackendDescriptor& operation : one.operations) operations.push_back(operation.get());
  ASSERT_EQ(dynamic.set(GPUDNN_ATTR_OPERATIONGRAPH_OPS, GPUDNN_TYPE_BACKEND_DESCRIPTOR,
                        static_cast<std::int64_t>(operations.size()), operations.data()),
            GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(dynamic.set(GPUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, GPUDNN_TYPE_BOOLEAN, 1, &yes),
            GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(dynamic.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  bool told = false;
  EXPECT_EQ(gpudnnBackendGetAttribute(dynamic.get(), GPUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED,
                                      GPUDNN_TYPE_BOOLEAN, 1, nullptr, &told),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_TRUE(told);
  EXPECT_FALSE(configs_of(dynamic, GPUDNN_HEUR_MODE_A).empty()) << last_error();
}

TEST(GraphRules, CudaGraphsAreForCuda) {
  const gpudnnHandle_t handle = Backend::host().handle();
  const graph::Graph graph = read(kConvolution);
  ClientGraph client;
  build(graph, handle, &client);
  const BackendDescriptor plan = make_plan(client.graph_descriptor, kInterpreter);
  BackendDescriptor pack(graph::kPack);
  ASSERT_EQ(pack.finalize(), GPUDNN_STATUS_SUCCESS);
  int anything = 0;
  auto* const cuda_graph = reinterpret_cast<cudaGraph_t>(&anything);
  EXPECT_NE(gpudnnBackendPopulateCudaGraph(handle, plan.get(), pack.get(), cuda_graph), GPUDNN_STATUS_SUCCESS);
  EXPECT_GT(last_error().size(), 20U);
  EXPECT_NE(gpudnnBackendUpdateCudaGraph(handle, plan.get(), pack.get(), cuda_graph), GPUDNN_STATUS_SUCCESS);
  EXPECT_GT(last_error().size(), 20U);
}

// Those of families that a caller must ask for by an algorithm number have no row.
TEST(GraphRules, EveryEngineOfConvolutionHasARow) {
  for (const conv::ConvEngine& engine : conv::engines()) {
    if (engine.family != conv::Family::direct) continue;
    const auto rows = graph::engines();
    EXPECT_TRUE(std::any_of(rows.begin(), rows.end(), [&](const graph::Engine& row) {
      return row.inner != nullptr && std::strcmp(row.inner, engine.name) == 0 && row.backend == engine.backend;
    })) << engine.name;
  }
}

}  // namespace
}  // namespace gpudnn::test
