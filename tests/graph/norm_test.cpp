// Normalizations as graphs: the engine that maps them to one operation against the interpreter.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "client.hpp"
#include "support/backend.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

constexpr std::int64_t kInterpreter = 100;
constexpr std::int64_t kNorm = 130;

std::string extents(const std::vector<std::int64_t>& dims) {
  std::string text;
  for (const std::int64_t dim : dims) text += (text.empty() ? "" : "x") + std::to_string(dim);
  return text;
}

// A norm of random shape: its statistics' and parameters' extents follow from the mode.
std::string random_norm(Random& random) {
  const std::string mode = random.pick({"layer", "rms", "instance", "ada_layer"});
  const bool backward = random.chance(0.5);
  const std::string type = random.pick({"f32", "bf16", "f16"});
  std::vector<std::int64_t> x = {random.between(1, 5), random.between(2, 9), random.between(1, 6), 8};
  if (mode == "ada_layer") x.resize(3);
  std::vector<std::int64_t> statistics = x;
  std::vector<std::int64_t> parameters(x.size(), 1);
  const std::size_t first = mode == "ada_layer" ? x.size() - 1 : mode == "instance" ? 2 : random.chance(0.3) ? 3 : 1;
  for (std::size_t i = 0; i < x.size(); ++i) {
    if (i >= first) statistics[i] = 1;
    const bool varies = mode == "instance" ? i == 1 : i >= first || (mode == "ada_layer" && i == 0);
    if (varies) parameters[i] = x[i];
  }
  const bool mean = mode != "rms";
  const bool train = backward || random.chance(0.5);
  std::string text = "tensor 1 " + type + ' ' + extents(x) + "; tensor 2 " + type + ' ' + extents(x) +
                     "; tensor 3 f32 " + extents(parameters) + "; tensor 4 f32 " + extents(parameters) + '\n';
  if (train && mean) text += "tensor 5 f32 " + extents(statistics) + '\n';
  if (train) text += "tensor 6 f32 " + extents(statistics) + '\n';
  std::string ports = train && mean ? " mean=5" : "";
  if (train) ports += " inverse=6";
  if (backward) {
    return text + "tensor 7 f32 " + extents(parameters) + "; tensor 8 " + type + ' ' + extents(x) + '\n' + "norm_bwd " +
           mode + " x=1 dy=2 scale=3" + ports + " dscale=4 dbias=7 dx=8";
  }
  return text + "tensor 9 f32 " + extents(std::vector<std::int64_t>(x.size(), 1)) + " by_value\n" + "norm_fwd " + mode +
         " x=1 scale=3 bias=4 epsilon=9" + ports + " y=2" + (train ? " phase=1" : "");
}

// A norm with what stands around it in a transformer: a residual before, an activation, a factor and an amax behind.
std::string random_surrounded(Random& random) {
  const std::string mode = random.pick({"layer", "rms"});
  const std::string type = random.pick({"bf16", "f16"});
  // Few rows, and more than a GPU has places for.
  const bool many = random.chance(0.15);
  const std::string rows = std::to_string(many ? random.between(400, 430) : random.between(1, 7));
  const std::string columns =
      std::to_string(8 * (many ? random.pick({40L, 100L, 190L, 200L, 300L, 600L, 1100L})
                               : random.pick({1L, 40L, 65L, 100L, 150L, 190L, 300L, 1024L, 1100L, 5000L})));
  const std::string full = ' ' + rows + 'x' + columns + "x1x1", column = " 1x" + columns + "x1x1";
  const bool residual = random.chance(0.6), train = random.chance(0.3), bias = mode == "layer" || random.chance(0.3);
  const bool quantizes = random.chance(0.5);
  const std::string activation =
      random.pick({"", "relu_fwd", "gelu_fwd", "gelu_approx_tanh_fwd", "swish_fwd", "tanh_fwd"});
  const bool inner = quantizes || !activation.empty() || !residual;  // something stands around it
  std::string text = "tensor 1 " + type + full + "; tensor 3 f32" + column + "; tensor 9 f32 1x1x1x1 by_value\n";
  std::string operations, x = "1";
  if (residual) {
    text += "tensor 20 " + type + full + "; tensor 21 " + type + full + (random.chance(0.3) ? " virtual" : "") + '\n';
    operations +=
        random.chance(0.5) ? "pointwise add x=1 b=20 y=21 compute=f32\n" : "pointwise add x=20 b=1 y=21 compute=f32\n";
    x = "21";
  }
  std::string ports = " x=" + x + " scale=3 epsilon=9";
  if (bias) text += "tensor 4 " + type + column + '\n', ports += " bias=4";
  if (train && mode == "layer") text += "tensor 5 f32 " + rows + "x1x1x1\n", ports += " mean=5";
  if (train) text += "tensor 6 f32 " + rows + "x1x1x1\n", ports += " inverse=6";
  text += "tensor 7 " + (inner ? "f32" + full + " virtual" : type + full) + '\n';
  operations += "norm_fwd " + mode + ports + " y=7" + (train ? " phase=1\n" : "\n");
  std::string y = "7";
  if (!activation.empty() || (inner && !quantizes)) {
    text += "tensor 8 " + (quantizes ? "f32" + full + " virtual" : type + full) + '\n';
    operations += "pointwise " + (activation.empty() ? "identity" : activation) + " x=7 y=8 compute=f32\n";
    y = "8";
  }
  if (quantizes) {
    const std::string narrow = random.pick({"f8e4m3", "f8e5m2", "bf16"});
    const std::string kind = random.chance(0.3) ? " by_value" : "";
    text += "tensor 10 f32 1x1x1x1" + kind + "; tensor 11 " + narrow + full + '\n';
    operations += "pointwise mul x=" + y + " b=10 y=11 compute=f32\n";
    if (random.chance(0.6)) {
      text += "tensor 12 f32 1x1x1x1\n";
      operations += "reduction amax x=" + y + " y=12 compute=f32\n";
    }
  }
  return text + operations;
}

double bound_of(DataType type) {
  switch (type) {
    case GPUDNN_DATA_FLOAT:
      return 4e-6;
    case GPUDNN_DATA_FP8_E4M3:
      return 0.13;  // a unit in the last place
    case GPUDNN_DATA_FP8_E5M2:
      return 0.26;
    default:
      return 0.008;
  }
}

// The engine on `handle`, the interpreter on the host.
void compare(gpudnnHandle_t handle, std::string (*make)(Random&)) {
  const gpudnnHandle_t host = Backend::host().handle();
  int compared = 0;
  for (int i = 0; i < session_cases(100); ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    const std::string text = make(random);
    SCOPED_TRACE(text);
    std::string why;
    const auto graph = graph::from_text(text, &why);
    ASSERT_TRUE(graph.has_value()) << why;
    ClientGraph client, on_host;
    build(*graph, handle, &client);
    build(*graph, host, &on_host);
    ASSERT_EQ(engine_index(configs_of(client.graph_descriptor, GPUDNN_HEUR_MODE_A).front()), kNorm);
    Memory a(*graph, &random);
    if (graph->find(9) >= 0) a.set_all(9, 0.01);
    if (graph->find(10) >= 0) a.set_all(10, 0.75);
    Memory b = a;
    ASSERT_EQ(execute(handle, make_plan(client.graph_descriptor, kNorm), &a), GPUDNN_STATUS_SUCCESS) << last_error();
    ASSERT_EQ(execute(host, make_plan(on_host.graph_descriptor, kInterpreter), &b), GPUDNN_STATUS_SUCCESS)
        << last_error();
    EXPECT_TRUE(a.guards_intact());
    for (const graph::Tensor& t : graph->tensors) {
      if (t.is_virtual) continue;
      const std::vector<double> actual = a.values(t.uid);
      const std::vector<double> expected = b.values(t.uid);
      // Activations of results that are rounded are computed to that.
      const double bound = t.uid == 12 ? 0.004 : bound_of(t.geometry.type);
      for (std::size_t k = 0; k < actual.size(); ++k, ++compared)
        ASSERT_NEAR(actual[k], expected[k], bound * (1 + std::fabs(expected[k]))) << "tensor " << t.uid << ", " << k;
    }
  }
  EXPECT_GT(compared, 1000);
}

TEST(GraphNorm, AgreesWithTheInterpreter) { compare(Backend::host().handle(), random_norm); }
TEST(GraphNorm, WithWhatStandsAroundItAgrees) { compare(Backend::host().handle(), random_surrounded); }

TEST(GraphNorm, AgreesWithTheInterpreterOnTheDevice) {
  GPUDNN_NEEDS_GPU();
  compare(Backend::at_hand().handle(), random_norm);
  compare(Backend::at_hand().handle(), random_surrounded);
}

}  // namespace
}  // namespace gpudnn::test
