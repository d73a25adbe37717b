// Convolution graphs of 8-bit floats: the engine of its own in every config, and what other graphs run by, against the
// interpreter. With small integers and factors that are powers of two every sum is exact, so every bit must agree.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "client.hpp"
#include "core/float8.hpp"
#include "core/handle.hpp"
#include "graph/engine.hpp"
#include "support/backend.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

constexpr std::int64_t kInterpreter = 100;
constexpr std::int64_t kSegments = 101;
constexpr std::int64_t kFloat8 = 224;
using Dims = std::vector<std::int64_t>;

std::string joined(const Dims& dims, char with) {
  std::string text;
  for (const std::int64_t dim : dims) text += (text.empty() ? "" : std::string(1, with)) + std::to_string(dim);
  return text;
}

// Channels last, with `gap` further elements behind each pixel; or row-major.
Dims strides_of(const Dims& dims, bool channels_last, std::int64_t gap) {
  Dims strides(dims.size());
  std::int64_t step = 1;
  const auto take = [&](std::size_t i) {
    strides[i] = step;
    step *= dims[i];
  };
  if (channels_last) {
    take(1);
    step += gap;
  }
  for (std::size_t i = dims.size(); i-- > 2;) take(i);
  if (!channels_last) take(1);
  take(0);
  return strides;
}

// Writes a graph as text.
class GraphText {
 public:
  std::string tensor(const std::string& type, const Dims& dims, const Dims& strides, const std::string& rest = "") {
    tensors_ += "tensor " + std::to_string(next_) + ' ' + type + ' ' + joined(dims, 'x') +
                (strides.empty() ? "" : " strides=" + joined(strides, ',')) + rest + '\n';
    return std::to_string(next_++);
  }
  void operation(const std::string& words) { operations_ += words + '\n'; }
  [[nodiscard]] std::string text() const { return tensors_ + operations_; }

 private:
  std::int64_t next_ = 1;
  std::string tensors_, operations_;
};

// A convolution with what may follow it. `fits`: the engine of 8-bit floats takes it.
std::string random_graph(Random& random, bool fits) {
  GraphText g;
  const auto spatial = static_cast<std::size_t>(random.pick({1, 2, 2, 2, 2, 3}));
  const char* const form = random.pick({"fwd", "fwd", "dgrad", "wgrad"});
  const bool forward = form[0] == 'f';
  const bool wgrad = form[0] == 'w';
  const std::int64_t groups = random.chance(0.1) ? 2 : 1;
  const std::int64_t vector = fits ? 16 : 1;
  const auto channels = [&] { return random.between(1, fits ? 9 : 20) * vector; };
  // What is summed over comes in whole vectors; of groups in whole rows of 128.
  std::int64_t c = groups * (groups > 1 && fits ? 128 : channels());
  std::int64_t k = groups * (groups > 1 && fits ? 128 : channels());
  if (forward && random.chance(0.3)) k = groups * random.between(1, 150);
  if (form[0] == 'd' && random.chance(0.3)) c = groups * random.between(1, 150);
  if (wgrad && groups == 1) c = 16 * random.between(1, 9), k = 8 * random.between(1, 17);
  Dims x = {random.between(1, wgrad ? 40 : 3), c}, w = {k, c / groups}, y = {x[0], k};
  Dims pre, post, stride, dilation;
  for (std::size_t i = 0; i < spatial; ++i) {
    w.push_back(random.pick({1, 1, 2, 3, 3, 5}));
    stride.push_back(random.pick({1, 1, 1, 2, 3}));
    dilation.push_back(random.pick({1, 1, 1, 2}));
    pre.push_back(random.between(0, w.back()));
    post.push_back(random.between(0, w.back()));
    const std::int64_t reach = (w.back() - 1) * dilation.back() + 1;
    x.push_back(std::max<std::int64_t>(random.between(1, spatial == 3 ? 6 : 12), reach - pre.back() - post.back()));
    y.push_back((x.back() + pre.back() + post.back() - reach) / stride.back() + 1);
  }
  const auto type8 = [&] { return std::string(random.pick({"f8e4m3", "f8e5m2"})); };
  const std::string out_type = random.pick({"f32", "f16", "bf16", "f8e4m3", "f8e5m2"});
  const bool packed = fits && wgrad;
  const auto read = [&](const Dims& dims, bool filter) {
    const bool last = fits || random.chance(0.5);
    return g.tensor(type8(), dims, strides_of(dims, last, !filter && !packed && random.chance(0.2) ? vector : 0));
  };
  const std::string ix = form[0] == 'd' ? "" : read(x, false);
  const std::string iw = wgrad ? "" : read(w, true);
  const std::string iy = forward ? "" : read(y, false);
  const Dims& out = forward ? y : form[0] == 'd' ? x : w;
  const Dims out_strides = strides_of(out, random.chance(0.8), random.pick({0, 0, 8, 3}));

  struct Step {
    std::string mode, other, rest;
  };
  std::vector<Step> steps;
  const Dims ones(x.size(), 1);
  const auto factor = [&] {
    steps.push_back({"mul", g.tensor("f32", ones, {}, random.chance(0.3) ? " by_value" : ""), ""});
  };
  for (std::int64_t i = random.between(0, 2); i > 0; --i) factor();
  if (forward && random.chance(0.3)) {
    Dims bias = ones;
    bias[1] = k;
    steps.push_back({"add", g.tensor(random.pick({"f32", "f16", "bf16"}), bias, {}), ""});
  }
  if (random.chance(0.3)) steps.push_back({"relu_fwd", "", random.chance(0.5) ? " slope=0.5" : ""});
  const std::size_t amax_at = random.chance(0.5) ? steps.size() : SIZE_MAX;
  if (random.chance(0.5)) factor();

  const bool ends = steps.empty();
  std::string at = ends ? g.tensor(amax_at == 0 ? "f32" : out_type, out, out_strides)
                        : g.tensor("f32", out, out_strides, " virtual");
  g.operation("conv_" + std::string(form) + (random.chance(0.8) ? " cross " : " ") +
              (forward          ? "x=" + ix + " w=" + iw + " y=" + at
               : form[0] == 'd' ? "w=" + iw + " dx=" + at + " dy=" + iy
                                : "x=" + ix + " dw=" + at + " dy=" + iy) +
              " compute=" + random.pick({"f32", "f32", "f32fp8"}) + " pre=" + joined(pre, 'x') +
              " post=" + joined(post, 'x') + " stride=" + joined(stride, 'x') + " dilation=" + joined(dilation, 'x'));
  const auto amax = [&](std::size_t step) {
    if (step == amax_at) g.operation("reduction amax x=" + at + " y=" + g.tensor("f32", ones, {}) + " compute=f32");
  };
  for (std::size_t i = 0; i < steps.size(); ++i) {
    amax(i);
    const bool last = i + 1 == steps.size();
    const std::string to = last ? g.tensor(amax_at == steps.size() ? "f32" : out_type, out, out_strides)
                                : g.tensor("f32", out, out_strides, " virtual");
    g.operation("pointwise " + steps[i].mode + " x=" + at + (steps[i].other.empty() ? "" : " b=" + steps[i].other) +
                " y=" + to + " compute=f32" + steps[i].rest);
    at = to;
  }
  amax(steps.size());
  return g.text();
}

// Integers for tensors that are summed and added, powers of two for numbers.
void set_exact(const graph::Graph& graph, Random& random, Memory* memory) {
  for (const graph::Tensor& t : graph.tensors) {
    if (t.is_virtual) continue;
    std::vector<double> values;
    const std::int64_t count = element_count(t.geometry);
    const bool is_factor = count == 1 && t.geometry.type == GPUDNN_DATA_FLOAT;
    for (std::int64_t i = 0; i < count; ++i)
      values.push_back(is_factor ? random.pick({0.25, 0.5, 1.0, 2.0}) : static_cast<double>(random.between(-2, 2)));
    bool written = false;
    for (const graph::Node& node : graph.nodes)
      for (const graph::Link& link : node.links)
        written = written ||
                  (graph.tensors[static_cast<std::size_t>(link.tensor)].uid == t.uid && is_output(node, link.port));
    if (!written) memory->set(t.uid, values);
  }
}

// Empty where all outputs have the same values.
std::string difference(const graph::Graph& graph, const Memory& a, const Memory& b) {
  for (const graph::Tensor& t : graph.tensors) {
    if (t.is_virtual) continue;
    const std::vector<double> x = a.values(t.uid);
    const std::vector<double> y = b.values(t.uid);
    for (std::size_t i = 0; i < x.size(); ++i)
      if (x[i] != y[i])
        return "tensor " + std::to_string(t.uid) + ", element " + std::to_string(i) + ": " + std::to_string(x[i]) +
               " instead of " + std::to_string(y[i]);
  }
  return {};
}

// A config's work on memory between guards, with a workspace of exactly its size.
std::string run(const Backend& backend, const graph::Engine& engine, const graph::GraphRef& graph,
                const graph::Config& config, Memory* memory) {
  graph::WorkRef work;
  if (engine.prepare(engine, graph, *backend.handle()->device, config.knobs, &work) != GPUDNN_STATUS_SUCCESS)
    return last_error();
  if (work->workspace() != config.workspace) return "the workspace differs from what the config says";
  std::vector<std::unique_ptr<GuardedBuffer>> buffers;
  std::vector<void*> pointers;
  for (const graph::Tensor& t : graph->tensors) {
    buffers.push_back(nullptr);
    pointers.push_back(t.is_virtual ? nullptr : memory->pointer(t.uid));
    if (t.is_virtual || t.by_value) continue;
    buffers.back() = std::make_unique<GuardedBuffer>(backend, size_in_bytes(t.geometry));
    buffers.back()->write(pointers.back(), size_in_bytes(t.geometry));
    pointers.back() = buffers.back()->data();
  }
  const GuardedBuffer workspace(backend, work->workspace());
  if (work->run(backend.handle(), pointers.data(), workspace.data()) != GPUDNN_STATUS_SUCCESS) return last_error();
  if (!workspace.damage().empty()) return "workspace: " + workspace.damage();
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i] == nullptr) continue;
    const graph::Tensor& t = graph->tensors[i];
    if (!buffers[i]->damage().empty()) return "tensor " + std::to_string(t.uid) + ": " + buffers[i]->damage();
    buffers[i]->read(memory->pointer(t.uid), size_in_bytes(t.geometry));
  }
  return {};
}

struct Case {
  graph::GraphRef graph;
  Memory start, expected;
};
Case make_case(const std::string& text, Random& random) {
  std::string why;
  const auto graph = graph::from_text(text, &why);
  EXPECT_TRUE(graph.has_value()) << why;
  Memory start(*graph, &random);
  set_exact(*graph, random, &start);
  ClientGraph client;
  build(*graph, Backend::host().handle(), &client);
  Memory expected = start;
  EXPECT_EQ(execute(Backend::host().handle(), make_plan(client.graph_descriptor, kInterpreter), &expected),
            GPUDNN_STATUS_SUCCESS)
      << last_error();
  return {std::make_shared<const graph::Graph>(*graph), std::move(start), std::move(expected)};
}

// All configs of the engine with that index on the backend; how many there were.
int check_engine(const Backend& backend, const Case& c, std::int64_t index) {
  const graph::Engine& engine = *graph::engine_of_index(index);
  std::string why;
  const std::vector<graph::Config> configs = engine.configs(engine, *c.graph, *backend.handle()->device, &why);
  for (const graph::Config& config : configs) {
    Memory memory = c.start;
    std::string knobs;
    for (const graph::Knob& knob : config.knobs) knobs += ' ' + std::to_string(knob.value);
    const std::string found = run(backend, engine, c.graph, config, &memory);
    EXPECT_EQ(found, "") << engine.name << knobs;
    if (!found.empty()) return -1;
    const std::string wrong = difference(*c.graph, memory, c.expected);
    EXPECT_EQ(wrong, "") << engine.name << knobs;
    if (!wrong.empty()) return -1;
  }
  return static_cast<int>(configs.size());
}

// On the host and on the device: as products of floats, between conversions.
TEST(Float8Convolution, OtherEnginesTakeAllOfThem) {
  for (int i = 0; i < session_cases(Backend::at_hand().is_cuda() ? 300 : 200); ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    const std::string text = random_graph(random, random.chance(0.3));
    SCOPED_TRACE(text);
    const Case c = make_case(text, random);
    ASSERT_GT(check_engine(Backend::at_hand(), c, kSegments), 0);
  }
}

TEST(Float8Convolution, EveryConfigOfTheEngineIsExact) {
  GPUDNN_NEEDS_GPU();
  const Backend& backend = Backend::at_hand();
  if (backend.handle()->device->compute_capability() != 90) GTEST_SKIP() << "needs Hopper";
  int taken = 0, configs = 0;
  const int cases = session_cases(1000);
  for (int i = 0; i < cases; ++i) {
    Random random = case_random(session_seed() + 1, static_cast<std::uint64_t>(i));
    const std::string text = random_graph(random, true);
    SCOPED_TRACE(text);
    const Case c = make_case(text, random);
    const int count = check_engine(backend, c, kFloat8);
    ASSERT_GE(count, 0);
    taken += count > 0 ? 1 : 0;
    configs += count;
  }
  std::printf("%d configs of %d of %d graphs\n", configs, taken, cases);
  EXPECT_GT(taken, cases * 2 / 3);
}

TEST(Float8Convolution, GraphsOfClientsRunByTheEngine) {
  const Backend& backend = Backend::at_hand();
  for (const GraphCase& one : graph_cases("float8_convolution.txt")) {
    SCOPED_TRACE(one.name);
    Random random(session_seed());
    const Case c = make_case(one.text, random);
    EXPECT_GT(check_engine(backend, c, kSegments), 0);
    if (!backend.is_cuda() || backend.handle()->device->compute_capability() != 90) continue;
    const bool elsewhere = one.name.ends_with("by other engines");
    EXPECT_EQ(check_engine(backend, c, kFloat8) > 0, !elsewhere);
  }
}

// The same bits in 20 runs, of every config.
TEST(Float8Convolution, RunsAreIdentical) {
  GPUDNN_NEEDS_GPU();
  const Backend& backend = Backend::at_hand();
  if (backend.handle()->device->compute_capability() != 90) GTEST_SKIP() << "needs Hopper";
  const graph::Engine& engine = *graph::engine_of_index(kFloat8);
  for (const GraphCase& one : graph_cases("float8_convolution.txt")) {
    SCOPED_TRACE(one.name);
    std::string why;
    const auto graph = std::make_shared<const graph::Graph>(*graph::from_text(one.text, &why));
    Random random(session_seed());
    const Memory start(*graph, &random);
    for (const graph::Config& config : engine.configs(engine, *graph, *backend.handle()->device, &why)) {
      Memory first = start;
      ASSERT_EQ(run(backend, engine, graph, config, &first), "");
      for (int i = 0; i < 19; ++i) {
        Memory again = start;
        ASSERT_EQ(run(backend, engine, graph, config, &again), "");
        ASSERT_EQ(difference(*graph, again, first), "") << "run " << i + 2;
      }
    }
  }
}

// Of normal data: the error over the sum of absolute terms, against docs/numerics.md.
TEST(Float8Convolution, ErrorsStayBelowTheirBound) {
  GPUDNN_NEEDS_GPU();
  const Backend& backend = Backend::at_hand();
  if (backend.handle()->device->compute_capability() != 90) GTEST_SKIP() << "needs Hopper";
  const graph::Engine& engine = *graph::engine_of_index(kFloat8);
  for (const std::int64_t channels : {128, 512, 2048}) {
    for (const char* compute : {"f32", "f32fp8"}) {
      const std::string c = std::to_string(channels), row = std::to_string(8 * channels);
      const std::string image = "1x" + c + "x8x8 strides=" + std::to_string(64 * channels) + ",1," + row + "," + c;
      const std::string filter =
          "16x" + c + "x3x3 strides=" + std::to_string(9 * channels) + ",1," + std::to_string(3 * channels) + "," + c;
      std::string why;
      const auto graph = std::make_shared<const graph::Graph>(*graph::from_text(
          "tensor 1 f8e4m3 " + image + "\ntensor 2 f8e4m3 " + filter +
              "\ntensor 3 f32 1x16x8x8 strides=1024,1,128,16\nconv_fwd cross x=1 w=2 y=3 compute=" + compute +
              " pre=1x1 post=1x1 stride=1x1 dilation=1x1",
          &why));
      Random random(session_seed());
      const Memory start(*graph, &random);
      Memory magnitudes = start;
      for (const std::int64_t uid : {1, 2}) {
        std::vector<double> values = magnitudes.values(uid);
        for (double& value : values) value = std::fabs(value);
        magnitudes.set(uid, values);
      }
      ClientGraph client;
      build(*graph, Backend::host().handle(), &client);
      const BackendDescriptor oracle = make_plan(client.graph_descriptor, kInterpreter);
      Memory expected = start;
      ASSERT_EQ(execute(Backend::host().handle(), oracle, &expected), GPUDNN_STATUS_SUCCESS);
      ASSERT_EQ(execute(Backend::host().handle(), oracle, &magnitudes), GPUDNN_STATUS_SUCCESS);
      const std::vector<double> value = expected.values(3), magnitude = magnitudes.values(3);
      for (const graph::Config& config : engine.configs(engine, *graph, *backend.handle()->device, &why)) {
        if (config.workspace != 0) continue;  // one block adds all terms
        Memory memory = start;
        ASSERT_EQ(run(backend, engine, graph, config, &memory), "");
        const std::vector<double> got = memory.values(3);
        double largest = 0, square = 0, norm = 0;
        for (std::size_t i = 0; i < got.size(); ++i) {
          largest = std::max(largest, std::fabs(got[i] - value[i]) / magnitude[i]);
          square += (got[i] - value[i]) * (got[i] - value[i]);
          norm += value[i] * value[i];
        }
        const double terms = 9.0 * static_cast<double>(channels);
        const bool promotes = std::string(compute) == "f32";
        const double bound = 0x1p-13 * (promotes ? 4 : terms / 32) / 1 + (4 + 4 * std::sqrt(terms)) * 0x1p-24;
        std::printf("%s, %.0f terms: largest error %.2g of the absolute terms (bound %.2g), of the norm %.2g\n",
                    compute, terms, largest, bound, std::sqrt(square / norm));
        EXPECT_LE(largest, bound);
      }
    }
  }
}

}  // namespace
}  // namespace gpudnn::test
