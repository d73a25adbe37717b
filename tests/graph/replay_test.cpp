// Graphs that clients send, through the entry points: heuristics, plans, execution on the host.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <limits>

#include "client.hpp"
#include "composite.hpp"
#include "core/float8.hpp"
#include "graph/interpret/element.hpp"
#include "support/backend.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr std::int64_t kInterpreter = 100;

// Every recorded graph finalizes, has an engine in both modes, and leaves no output as it was.
TEST(GraphReplay, EveryRecordedGraphRuns) {
  const HostHandle handle;
  for (const char* file : {"operations.txt", "further_operations.txt", "attention.txt", "attention_windows.txt",
                           "float8_convolution.txt"}) {
    for (const GraphCase& one : graph_cases(file)) {
      SCOPED_TRACE(std::string(file) + ": " + one.name);
      const graph::Graph graph = read(one.text);
      ClientGraph client;
      build(graph, handle, &client);
      for (const int mode :
           {GPUDNN_HEUR_MODE_A, GPUDNN_HEUR_MODE_FALLBACK, GPUDNN_HEUR_MODE_B, GPUDNN_HEUR_MODE_INSTANT})
        ASSERT_FALSE(configs_of(client.graph_descriptor, mode).empty()) << last_error();
      const BackendDescriptor plan = make_plan(configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A).front());
      Random random = case_random(session_seed(), one.text.size());
      Memory memory(graph, &random);
      set_places(graph, &memory);
      ASSERT_EQ(execute(handle, plan, &memory), GPUDNN_STATUS_SUCCESS) << last_error();
      EXPECT_TRUE(memory.guards_intact());
    }
  }
}

void expect_near(const std::vector<double>& a, const std::vector<double>& b, double bound) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // infinities
    ASSERT_NEAR(a[i], b[i], bound * (1 + std::fabs(b[i]))) << "element " << i;
  }
}

// The norm of the difference over that of b, of what is finite in both.
double distance(const std::vector<double>& a, const std::vector<double>& b) {
  double apart = 0, whole = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) continue;
    apart += (a[i] - b[i]) * (a[i] - b[i]);
    whole += b[i] * b[i];
  }
  return apart == 0 ? 0 : std::sqrt(apart / whole);
}

TEST(GraphReplay, EveryRecordedGraphGivesOnTheDeviceWhatItGivesOnTheHost) {
  GPUDNN_NEEDS_GPU();
  int compared = 0;
  for (const char* file : {"operations.txt", "further_operations.txt", "attention.txt", "attention_windows.txt",
                           "float8_convolution.txt"}) {
    for (const GraphCase& one : graph_cases(file)) {
      SCOPED_TRACE(std::string(file) + ": " + one.name);
      const graph::Graph graph = read(one.text);
      Random random = case_random(session_seed(), one.text.size());
      Memory memory = recorded_inputs(file, one, graph, &random);
      Memory expected = memory;
      for (const bool on_host : {false, true}) {
        const gpudnnHandle_t handle = on_host ? Backend::host().handle() : Backend::at_hand().handle();
        ClientGraph client;
        build(graph, handle, &client);
        const BackendDescriptor plan = make_plan(configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A).front());
        ASSERT_EQ(execute(handle, plan, on_host ? &expected : &memory), GPUDNN_STATUS_SUCCESS) << last_error();
      }
      EXPECT_TRUE(memory.guards_intact());
      const bool has_float8 = std::any_of(graph.tensors.begin(), graph.tensors.end(),
                                          [](const graph::Tensor& t) { return is_float8(t.geometry.type); });
      for (const graph::Tensor& t : graph.tensors) {
        if (t.is_virtual) continue;
        // As if every element of 8-bit floats was rounded elsewhere by half a unit of three bits; else half as much.
        const double bound = has_float8 ? 0x1p-4 : 0x1p-5;
        EXPECT_LE(distance(memory.values(t.uid), expected.values(t.uid)), bound) << "tensor " << t.uid;
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 300);
}

// Cut into segments that existing operations take, a graph gives what it gives operation by operation.
TEST(GraphReplay, SegmentsAgreeWithTheInterpreter) {
  const HostHandle handle;
  int compared = 0;
  for (const char* text :
       {"tensor 1 f32 2x5x7; tensor 2 f32 2x7x6; tensor 3 f32 2x5x6 virtual; tensor 4 f32 1x1x6; tensor 5 f32 2x5x6 "
        "virtual; tensor 6 f32 2x5x6\n"
        "matmul x=1 b=2 y=3 compute=f32; pointwise add x=3 b=4 y=5 compute=f32; pointwise gelu_fwd x=5 y=6 compute=f32",
        "tensor 1 f32 2x5x7; tensor 2 f32 2x7x6; tensor 3 f32 2x5x6 virtual; tensor 4 f32 2x5x1; tensor 5 f32 2x5x6\n"
        "matmul x=1 b=2 y=3 compute=f32; reduction max x=3 y=4 compute=f32; pointwise sub x=3 b=4 y=5 compute=f32",
        "tensor 1 f32 4x6x8; tensor 2 f32 1x6x1; tensor 3 f32 4x6x8 virtual; tensor 4 i32 4x6x8 virtual; tensor 5 bool "
        "4x6x8 virtual\n"
        "tensor 6 f32 4x6x8; tensor 7 f32 1x1x1 by_value; tensor 8 f32 4x6x1\n"
        "pointwise mul x=1 b=2 y=3 compute=f32; pointwise gen_index x=3 y=4 axis=2 compute=i32; pointwise cmp_gt x=3 "
        "b=7 y=5 compute=f32\n"
        "pointwise binary_select x=3 b=4 t=5 y=6 compute=f32; reduction add x=6 y=8 compute=f32",
        "tensor 1 f32 2x3x6x6; tensor 2 f32 4x3x3x3; tensor 3 f32 2x4x6x6 virtual; tensor 4 f32 2x4x6x6; tensor 5 f32 "
        "1x1x1x1\n"
        "conv_fwd cross x=1 w=2 y=3 compute=f32 pre=1x1 post=1x1 stride=1x1 dilation=1x1; pointwise exp x=3 y=4 "
        "compute=f32\n"
        "reduction amax x=3 y=5 compute=f32",
        "tensor 1 bf16 2x4x6x8 strides=192,8,32,1; tensor 2 bf16 2x4x8x6; tensor 3 f32 2x4x6x6 virtual; tensor 4 f32 "
        "2x4x6x6 virtual\n"
        "tensor 5 bf16 2x4x6x6\n"
        "matmul x=1 b=2 y=3 compute=f32; reshape x=3 y=4; pointwise tanh_fwd x=4 y=5 compute=f32",
        // An input overlaps itself, and the client says so of its conversion too.
        "tensor 1 bf16 2x5x7; tensor 2 f32 2x5x7 virtual; tensor 3 bf16 2x7x4 strides=28,1,4; tensor 4 f32 2x7x4 "
        "strides=28,1,4 virtual; tensor 5 f32 2x5x4\n"
        "pointwise identity x=1 y=2 compute=f32; pointwise identity x=3 y=4 compute=f32; matmul x=2 b=4 y=5 "
        "compute=f32"}) {
    SCOPED_TRACE(text);
    const graph::Graph graph = read(text);
    ClientGraph client;
    build(graph, handle, &client);
    Random random(session_seed());
    Memory a(graph, &random);
    Memory b = a;
    ASSERT_EQ(execute(handle, make_plan(client.graph_descriptor, 101), &a), GPUDNN_STATUS_SUCCESS) << last_error();
    ASSERT_EQ(execute(handle, make_plan(client.graph_descriptor, kInterpreter), &b), GPUDNN_STATUS_SUCCESS)
        << last_error();
    EXPECT_TRUE(a.guards_intact());
    for (const graph::Tensor& t : graph.tensors) {
      if (t.is_virtual) continue;
      expect_near(a.values(t.uid), b.values(t.uid), t.geometry.type == GPUDNN_DATA_BFLOAT16 ? 0.01 : 4e-6);
      ++compared;
    }
  }
  EXPECT_GT(compared, 12);
}

// A random chain of pointwise operations is one program, with the interpreter's values.
TEST(GraphReplay, RandomPointwiseGraphs) {
  const HostHandle handle;
  constexpr const char* kOne[] = {"abs",        "ceil",         "cos",         "floor",
                                  "neg",        "sin",          "erf",         "identity",
                                  "relu_fwd",   "tanh_fwd",     "sigmoid_fwd", "elu_fwd",
                                  "gelu_fwd",   "softplus_fwd", "swish_fwd",   "gelu_approx_tanh_fwd",
                                  "logical_not"};
  constexpr const char* kTwo[] = {"add",        "mul",    "min",    "max",         "sub",
                                  "add_square", "cmp_gt", "cmp_le", "logical_and", "logical_or"};
  for (int i = 0; i < session_cases(200); ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    std::string text = "tensor 1 f32 3x4x5; tensor 2 f32 1x4x1; tensor 3 bf16 3x1x5\n";
    std::string operations;
    const std::int64_t count = random.between(1, 8);
    for (std::int64_t n = 0; n < count; ++n) {
      const std::int64_t uid = 4 + n;
      text += "tensor " + std::to_string(uid) + (random.chance(0.2) ? " bf16" : " f32") + " 3x4x5" +
              (n + 1 < count && random.chance(0.8) ? " virtual" : "") + "\n";
      const std::int64_t x = n == 0 ? 1 : random.between(std::max<std::int64_t>(4, uid - 2), uid - 1);
      const bool two = random.chance(0.5);
      operations += std::string("pointwise ") +
                    (two ? kTwo[random.bits() % std::size(kTwo)] : kOne[random.bits() % std::size(kOne)]) +
                    " x=" + std::to_string(x) + (two ? " b=" + std::to_string(random.between(1, 3)) : "") +
                    " y=" + std::to_string(uid) + " compute=f32\n";
    }
    SCOPED_TRACE(text + operations);
    const graph::Graph graph = read(text + operations);
    ClientGraph client;
    build(graph, handle, &client);
    const std::vector<BackendDescriptor> configs = configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A);
    ASSERT_FALSE(configs.empty()) << last_error();
    Memory a(graph, &random);
    Memory b = a;
    ASSERT_EQ(execute(handle, make_plan(configs.front()), &a), GPUDNN_STATUS_SUCCESS) << last_error();
    ASSERT_EQ(execute(handle, make_plan(client.graph_descriptor, kInterpreter), &b), GPUDNN_STATUS_SUCCESS)
        << last_error();
    for (const graph::Tensor& t : graph.tensors) {
      // A rounding to bf16 on the way moves a value by a part of 2^-8, a step of floor or a comparison by one.
      if (t.is_virtual) continue;
      const std::vector<double> x = a.values(t.uid);
      const std::vector<double> y = b.values(t.uid);
      int apart = 0;
      for (std::size_t k = 0; k < x.size(); ++k)
        apart += !(std::fabs(x[k] - y[k]) <= 0.02 * (1 + std::fabs(y[k])) || x[k] == y[k]);
      EXPECT_LE(apart, 1) << t.uid;
    }
  }
}

// The interpreter and the convolution engine of the host agree on a convolution with everything behind it.
TEST(GraphReplay, ConvolutionChainsAgreeBetweenEngines) {
  const HostHandle handle;
  const std::string tensors =
      "tensor 1 f32 2x6x9x8; tensor 2 f32 4x3x3x2; tensor 3 f32 2x4x5x8 virtual; tensor 4 f32 2x4x5x8; tensor 5 f32 "
      "2x4x5x8 virtual\n"
      "tensor 6 f32 1x4x1x1; tensor 7 f32 2x4x5x8 virtual; tensor 8 f32 2x4x5x8\n"
      "conv_fwd cross x=1 w=2 y=3 compute=f32 pre=1x1 post=1x1 stride=2x1 dilation=1x2\n"
      "pointwise add x=3 b=4 y=5 compute=f32 alpha2=0.5\n"
      "pointwise add x=5 b=6 y=7 compute=f32\n";
  for (const char* activation :
       {"relu_fwd x=7 y=8", "relu_fwd x=7 y=8 upper_clip=0.75", "elu_fwd x=7 y=8 elu_alpha=0.5", "tanh_fwd x=7 y=8",
        "sigmoid_fwd x=7 y=8", "swish_fwd x=7 y=8 swish_beta=1.5", "identity x=7 y=8"}) {
    SCOPED_TRACE(activation);
    const graph::Graph graph = read(tensors + "pointwise " + activation + " compute=f32");
    ClientGraph client;
    build(graph, handle, &client);
    const std::vector<BackendDescriptor> configs = configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A);
    ASSERT_EQ(configs.size(), 2U);
    EXPECT_EQ(engine_index(configs.front()), 218);
    EXPECT_EQ(engine_index(configs.back()), 213);
    Random random(session_seed());
    Memory a(graph, &random);
    Memory b = a;
    ASSERT_EQ(execute(handle, make_plan(configs.front()), &a), GPUDNN_STATUS_SUCCESS) << last_error();
    ASSERT_EQ(execute(handle, make_plan(client.graph_descriptor, kInterpreter), &b), GPUDNN_STATUS_SUCCESS)
        << last_error();
    expect_near(a.values(8), b.values(8), 4e-6);
  }
}

TEST(GraphReplay, GradientsOfConvolutionsAgreeBetweenEngines) {
  const HostHandle handle;
  for (const char* text : {"tensor 1 f32 2x4x7x6; tensor 2 f32 8x2x3x3; tensor 3 f32 2x8x4x3\nconv_dgrad cross dy=3 "
                           "w=2 dx=1 compute=f32 pre=1x1 post=1x1 "
                           "stride=2x2 dilation=1x1 alpha=0.5",
                           "tensor 1 f32 2x4x7x6; tensor 2 f32 8x2x3x3; tensor 3 f32 2x8x4x3\nconv_wgrad convolution "
                           "dy=3 x=1 dw=2 compute=f32 pre=1x1 "
                           "post=1x1 stride=2x2 dilation=1x1",
                           "tensor 1 f32 2x4x7x6; tensor 2 f32 8x2x3x3; tensor 3 f32 2x8x3x3\nconv_fwd cross x=1 "
                           "w=2 y=3 compute=f32 pre=0x2 post=1x0 stride=2x2 dilation=1x1",
                           "tensor 1 f32 2x4x7x6; tensor 2 f32 8x2x3x3; tensor 3 f32 2x8x3x3\nconv_dgrad cross dy=3 "
                           "w=2 dx=1 compute=f32 pre=0x2 post=1x0 stride=2x2 dilation=1x1",
                           "tensor 1 f32 2x4x7x6; tensor 2 f32 8x2x3x3; tensor 3 f32 2x8x3x3\nconv_wgrad cross dy=3 "
                           "x=1 dw=2 compute=f32 pre=0x2 post=1x0 stride=2x2 dilation=1x1",
                           "tensor 1 f64 2x3x5x6x4; tensor 2 f64 4x3x2x3x1; tensor 3 f64 2x4x4x4x4\nconv_fwd cross x=1 "
                           "w=2 y=3 compute=f64 pre=0x0x0 "
                           "post=0x0x0 stride=1x1x1 dilation=1x1x1"}) {
    const graph::Graph graph = read(text);
    ClientGraph client;
    build(graph, handle, &client);
    Random random(session_seed());
    Memory a(graph, &random);
    Memory b = a;
    ASSERT_EQ(execute(handle, make_plan(client.graph_descriptor, 213), &a), GPUDNN_STATUS_SUCCESS) << last_error();
    ASSERT_EQ(execute(handle, make_plan(client.graph_descriptor, kInterpreter), &b), GPUDNN_STATUS_SUCCESS)
        << last_error();
    for (std::int64_t uid = 1; uid <= 3; ++uid) expect_near(a.values(uid), b.values(uid), 4e-6);
  }
}

// z may hold NaN, and its pointer null, where it counts 0 times.
TEST(GraphReplay, AnAddendThatCountsNothingIsNotRead) {
  const HostHandle handle;
  const graph::Graph graph = read(
      "tensor 1 f32 1x2x4x4; tensor 2 f32 2x2x1x1; tensor 3 f32 1x2x4x4 virtual; tensor 4 f32 1x2x4x4; tensor 5 f32 "
      "1x2x4x4\n"
      "conv_fwd cross x=1 w=2 y=3 compute=f32 pre=0x0 post=0x0 stride=1x1 dilation=1x1\n"
      "pointwise add x=3 b=4 y=5 compute=f32 alpha2=0");
  ClientGraph client;
  build(graph, handle, &client);
  Random random(session_seed());
  for (const std::int64_t index : {std::int64_t{213}, kInterpreter}) {
    Memory memory(graph, &random);
    memory.set_all(4, std::nan(""));
    ASSERT_EQ(execute(handle, make_plan(client.graph_descriptor, index), &memory), GPUDNN_STATUS_SUCCESS)
        << last_error();
    for (const double value : memory.values(5)) EXPECT_TRUE(std::isfinite(value));
  }
}

// softmax(scale q k^T, masked) v by its definition, against the composite that clients send and the single operation.
struct DefinedAttention {
  std::vector<double> o, stats;
};
DefinedAttention attention(const Memory& m, std::int64_t q_uid, std::int64_t k_uid, std::int64_t v_uid, double scale,
                           bool causal, bool k_transposed) {
  const auto dims = [&m](std::int64_t uid) {
    return m.graph().tensors[static_cast<std::size_t>(m.graph().find(uid))].geometry.dims;
  };
  const std::int64_t b = dims(q_uid)[0], h = dims(q_uid)[1], rows = dims(q_uid)[2], d = dims(q_uid)[3];
  const std::int64_t hk = dims(k_uid)[1], keys = dims(v_uid)[2], hv = dims(v_uid)[1], w = dims(v_uid)[3];
  const std::vector<double> q = m.values(q_uid), k = m.values(k_uid), v = m.values(v_uid);
  DefinedAttention e;
  for (std::int64_t n = 0; n < b * h * rows; ++n) {
    const std::int64_t i = n % rows, head = n / rows % h, batch = n / rows / h;
    const std::int64_t kh = batch * hk + head / (h / hk), vh = batch * hv + head / (h / hv);
    std::vector<double> s(static_cast<std::size_t>(keys), -kInfinity);
    double most = -kInfinity;
    for (std::int64_t j = 0; j < (causal ? std::min(keys, i + 1) : keys); ++j) {
      double sum = 0;
      for (std::int64_t c = 0; c < d; ++c)
        sum += q[static_cast<std::size_t>(n * d + c)] *
               k[static_cast<std::size_t>(k_transposed ? (kh * d + c) * keys + j : (kh * keys + j) * d + c)];
      s[static_cast<std::size_t>(j)] = scale * sum;
      most = std::max(most, scale * sum);
    }
    double total = 0;
    for (double& value : s) total += value = std::exp(value - most);
    for (std::int64_t c = 0; c < w; ++c) {
      double sum = 0;
      for (std::int64_t j = 0; j < keys; ++j)
        sum += s[static_cast<std::size_t>(j)] / total * v[static_cast<std::size_t>((vh * keys + j) * w + c)];
      e.o.push_back(sum);
    }
    e.stats.push_back(most + std::log(total));
  }
  return e;
}

TEST(GraphReplay, AttentionByItsDefinition) {
  const HostHandle handle;
  const graph::Graph single = read(
      "tensor 1 f32 2x4x5x3; tensor 2 f32 2x2x7x3; tensor 3 f32 2x1x7x2; tensor 4 f32 2x4x5x2; tensor 5 f32 2x4x5x1; "
      "tensor 6 f32 1 by_value\n"
      "sdpa_fwd q=1 k=2 v=3 scale=6 o=4 stats=5");
  ClientGraph client;
  build(single, handle, &client);
  Random random(session_seed());
  Memory memory(single, &random);
  memory.set_all(6, 0.5);
  ASSERT_EQ(execute(handle, make_plan(client.graph_descriptor, kInterpreter), &memory), GPUDNN_STATUS_SUCCESS)
      << last_error();
  const DefinedAttention e = attention(memory, 1, 2, 3, 0.5, false, false);
  expect_near(memory.values(4), e.o, 1e-6);
  expect_near(memory.values(5), e.stats, 1e-6);
}

TEST(GraphReplay, CompositeCausalAttentionByItsDefinition) {
  const HostHandle handle;
  const graph::Graph composite = read(
      "tensor 1 f32 2x4x5x3; tensor 2 f32 2x2x3x7; tensor 3 f32 2x2x7x2; tensor 4 f32 2x4x5x2; tensor 5 f32 2x4x5x1; "
      "tensor 6 f32 1x1x1x1 by_value\n"
      "tensor 7 f32 1x1x1x1 by_value; tensor 10 f32 2x4x5x7 virtual; tensor 11 f32 2x4x5x7 virtual; tensor 12 i32 "
      "2x4x5x7 virtual\n"
      "tensor 13 i32 2x4x5x7 virtual; tensor 14 bool 2x4x5x7 virtual; tensor 15 f32 2x4x5x7 virtual; tensor 16 f32 "
      "2x4x5x1 virtual\n"
      "tensor 17 f32 2x4x5x7 virtual; tensor 18 f32 2x4x5x7 virtual; tensor 19 f32 2x4x5x1 virtual; tensor 20 f32 "
      "2x4x5x1 virtual\n"
      "tensor 21 f32 2x4x5x7 virtual\n"
      "matmul x=1 b=2 y=10 compute=f32; pointwise mul x=10 b=6 y=11 compute=f32; pointwise gen_index x=11 y=12 axis=2 "
      "compute=f32\n"
      "pointwise gen_index x=11 y=13 axis=3 compute=f32; pointwise cmp_ge x=12 b=13 y=14 compute=bool\n"
      "pointwise binary_select x=11 b=7 t=14 y=15 compute=f32; reduction max x=15 y=16 compute=f32; pointwise sub x=15 "
      "b=16 y=17 compute=f32\n"
      "pointwise exp x=17 y=18 compute=f32; reduction add x=18 y=19 compute=f32; pointwise log x=19 y=20 compute=f32\n"
      "pointwise add x=16 b=20 y=5 compute=f32; pointwise div x=18 b=19 y=21 compute=f32; matmul x=21 b=3 y=4 "
      "compute=f32");
  ClientGraph client;
  build(composite, handle, &client);
  Random random(session_seed());
  Memory memory(composite, &random);
  memory.set_all(6, 0.5);
  memory.set_all(7, -kInfinity);
  ASSERT_EQ(execute(handle, make_plan(client.graph_descriptor, kInterpreter), &memory), GPUDNN_STATUS_SUCCESS)
      << last_error();
  const DefinedAttention e = attention(memory, 1, 2, 3, 0.5, true, true);
  expect_near(memory.values(4), e.o, 1e-5);
  expect_near(memory.values(5), e.stats, 1e-5);
}

}  // namespace
}  // namespace gpudnn::test
