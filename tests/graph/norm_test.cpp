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

// The engine on `handle`, the interpreter on the host.
void compare(gpudnnHandle_t handle) {
  const gpudnnHandle_t host = Backend::host().handle();
  int compared = 0;
  for (int i = 0; i < session_cases(100); ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    const std::string text = random_norm(random);
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
    Memory b = a;
    ASSERT_EQ(execute(handle, make_plan(client.graph_descriptor, kNorm), &a), GPUDNN_STATUS_SUCCESS) << last_error();
    ASSERT_EQ(execute(host, make_plan(on_host.graph_descriptor, kInterpreter), &b), GPUDNN_STATUS_SUCCESS)
        << last_error();
    EXPECT_TRUE(a.guards_intact());
    for (const graph::Tensor& t : graph->tensors) {
      const std::vector<double> actual = a.values(t.uid);
      const std::vector<double> expected = b.values(t.uid);
      const double bound = t.geometry.type == GPUDNN_DATA_FLOAT ? 4e-6 : 0.008;
      for (std::size_t k = 0; k < actual.size(); ++k, ++compared)
        ASSERT_NEAR(actual[k], expected[k], bound * (1 + std::fabs(expected[k]))) << "tensor " << t.uid << ", " << k;
    }
  }
  EXPECT_GT(compared, 1000);
}

TEST(GraphNorm, AgreesWithTheInterpreter) { compare(Backend::host().handle()); }

TEST(GraphNorm, AgreesWithTheInterpreterOnTheDevice) {
  GPUDNN_NEEDS_GPU();
  compare(Backend::at_hand().handle());
}

}  // namespace
}  // namespace gpudnn::test
