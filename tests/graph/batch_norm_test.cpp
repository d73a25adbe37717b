// Batch normalization and its parts as graphs: what runs by the engine of batch normalization, or as
// pointwise operations and reductions, against the interpreter.
// SPDX-License-Identifier: Apache-2.0
#include <cmath>

#include "client.hpp"
#include "support/backend.hpp"
#include "support/number.hpp"
#include "support/session.hpp"

namespace gpudnn::test {
namespace {

constexpr std::int64_t kInterpreter = 100;
constexpr std::int64_t kSegments = 101;
constexpr std::int64_t kBatchNorm = 131;

// A graph of one such operation, and what its tensors hold where random numbers are no legal values.
struct Case {
  std::string text;
  std::vector<std::pair<std::int64_t, double>> values;
  std::int64_t addend = 0;  // of the norm's result; 0: there is none
};

struct Maker {
  Random& random;
  std::string x;         // extents of the images
  std::string channels;  // of what there is one of for each channel
  std::string strides;   // of the images
  std::string type = random.pick({"f32", "bf16", "f16"});
  Case made;
  int uid = 0;

  // `packs`: contiguous channels in packs of 8, which have a kernel of their own.
  explicit Maker(Random* of, bool packs = false) : random(*of) {
    const std::int64_t n = random.between(1, 5), c = packs ? 8 * random.between(1, 30) : random.between(1, 9),
                       h = random.between(1, packs ? 30 : 7), w = random.between(2, packs ? 30 : 7);
    const auto text = [](std::int64_t a, std::int64_t b, std::int64_t d, std::int64_t e, char by) {
      return std::to_string(a) + by + std::to_string(b) + by + std::to_string(d) + by + std::to_string(e);
    };
    x = text(n, c, h, w, 'x');
    channels = text(1, c, 1, 1, 'x');
    if (packs || random.chance(0.5)) strides = " strides=" + text(c * h * w, 1, w * c, c, ',');
  }

  std::string tensor(const std::string& words) {
    made.text += "tensor " + std::to_string(++uid) + ' ' + words + '\n';
    return std::to_string(uid);
  }
  std::string image(bool is_virtual = false) {
    return tensor(type + ' ' + x + strides + (is_virtual ? " virtual" : ""));
  }
  std::string vector() { return tensor("f32 " + channels); }
  std::string positive(double value) {
    const std::string name = vector();
    made.values.emplace_back(uid, value);
    return name;
  }
  std::string number(double value) {
    const std::string name = tensor("f32 1x1x1x1 by_value");
    made.values.emplace_back(uid, value);
    return name;
  }
  void operation(const std::string& text) { made.text += text + '\n'; }
};

Case forward(Random* random) {
  Maker m(random);
  const bool activated = random->chance(0.5);
  const std::string parameters = " x=" + m.image() + " scale=" + m.vector() + " bias=" + m.vector();
  const std::string y = m.image(activated);
  if (random->chance(0.3)) {
    m.operation("norm_fwd batch" + parameters + " mean=" + m.vector() + " inverse=" + m.positive(0.7) + " y=" + y);
  } else {
    const std::string saved = " mean=" + m.vector() + " inverse=" + m.vector();
    const std::string epsilon = " epsilon=" + m.number(0.01);
    std::string running;
    if (random->chance(0.7)) {
      running = " factor=" + m.number(0.2) + " running_mean_in=" + m.vector() + " running_var_in=" + m.positive(0.6) +
                " running_mean_out=" + m.vector() + " running_var_out=" + m.vector();
    }
    m.operation("norm_fwd batch" + parameters + saved + epsilon + running + " y=" + y + " phase=1");
  }
  if (activated) m.operation("pointwise relu_fwd x=" + y + " y=" + m.image() + " compute=f32");
  return m.made;
}

Case backward(Random* random) {
  Maker m(random);
  m.operation("norm_bwd batch x=" + m.image() + " mean=" + m.vector() + " inverse=" + m.positive(0.8) +
              " dy=" + m.image() + " scale=" + m.vector() + " dscale=" + m.vector() + " dbias=" + m.vector() +
              " dx=" + m.image());
  return m.made;
}

// What the engine of batch normalization takes, with an addition and a ReLU behind it.
Case trained(Random* random) {
  Maker m(random, random->chance(0.5));
  const bool adds = random->chance(0.5), activates = random->chance(0.6);
  const std::string parameters = " x=" + m.image() + " scale=" + m.vector() + " bias=" + m.vector();
  const bool trains = random->chance(0.7);
  std::string saved, running;
  if (!trains) {
    saved = " mean=" + m.vector() + " inverse=" + m.positive(0.7);
  } else if (random->chance(0.8)) {
    saved = " mean=" + m.vector() + " inverse=" + m.vector();
  }
  const std::string epsilon = trains ? " epsilon=" + m.number(0.01) + " phase=1" : "";
  if (trains && random->chance(0.7)) {
    running = " factor=" + m.number(random->pick({0.2, 1.0})) + " running_mean_in=" + m.vector() +
              " running_var_in=" + m.positive(0.6) + " running_mean_out=" + m.vector() +
              " running_var_out=" + m.vector();
  }
  std::string y = m.image(adds || activates);
  m.operation("norm_fwd batch" + parameters + saved + running + " y=" + y + epsilon);
  if (adds) {
    const std::string addend = m.image(), sum = m.image(activates);
    m.made.addend = m.uid - 1;
    m.operation("pointwise add x=" + (random->chance(0.5) ? y + " b=" + addend : addend + " b=" + y) + " y=" + sum +
                " compute=f32");
    y = sum;
  }
  if (activates) {
    const std::string clip = random->chance(0.3) ? " upper_clip=1.5" : "";
    m.operation("pointwise relu_fwd x=" + y + " y=" + m.image() + " compute=f32" + clip);
  }
  return m.made;
}

Case statistics(Random* random) {
  Maker m(random, random->chance(0.5));
  const std::string x = m.image(), sum = m.vector(), squares = m.vector();
  if (random->chance(0.5)) {  // of a result that stays in the workspace
    const std::string twice = m.image(true);
    m.operation("pointwise add x=" + x + " b=" + x + " y=" + twice + " compute=f32");
    m.operation("gen_stats x=" + twice + " sum=" + sum + " sqsum=" + squares);
  } else {
    m.operation("gen_stats x=" + x + " sum=" + sum + " sqsum=" + squares);
  }
  return m.made;
}

Case finalize(Random* random) {
  Maker m(random);
  const std::string before = " scale=" + m.vector() + " bias=" + m.vector() + " running_mean_in=" + m.vector() +
                             " running_var_in=" + m.positive(0.6);
  const std::string equivalent = " eq_scale=" + m.vector() + " eq_bias=" + m.vector();
  const std::string epsilon = " epsilon=" + m.number(0.01);
  if (random->chance(0.3)) {
    m.operation("bn_finalize mode=1" + before + equivalent + epsilon + " compute=f32");
  } else {
    m.operation("bn_finalize sum=" + m.vector() + " sqsum=" + m.positive(3) + before +
                " running_mean_out=" + m.vector() + " running_var_out=" + m.vector() + " mean=" + m.vector() +
                " inverse=" + m.vector() + equivalent + epsilon + " factor=" + m.number(0.1) +
                " count=" + m.number(static_cast<double>(random->between(1, 4))) + " compute=f32");
  }
  return m.made;
}

Case weights(Random* random) {
  Maker m(random);
  const std::string given = " mean=" + m.vector() + " inverse=" + m.positive(0.8) + " scale=" + m.vector() +
                            " x=" + m.image() + " dy=" + m.image();
  const std::string sums = " dscale=" + m.vector() + " dbias=" + m.vector();
  m.operation("bn_weights" + given + sums + " eq_dy_scale=" + m.vector() + " eq_x_scale=" + m.vector() +
              " eq_bias=" + m.vector() + " compute=f32");
  return m.made;
}

// The engine on `handle`, the interpreter on the host.
void compare(gpudnnHandle_t handle, std::int64_t engine, const std::vector<Case (*)(Random*)>& make) {
  const gpudnnHandle_t host = Backend::host().handle();
  int compared = 0;
  for (int i = 0; i < session_cases(150); ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    const Case made = make[static_cast<std::size_t>(i) % make.size()](&random);
    SCOPED_TRACE(made.text);
    std::string why;
    const auto graph = graph::from_text(made.text, &why);
    ASSERT_TRUE(graph.has_value()) << why;
    ClientGraph client, on_host;
    build(*graph, handle, &client);
    build(*graph, host, &on_host);
    Memory a(*graph, &random);
    for (const auto& [uid, value] : made.values) a.set_all(uid, value);
    Memory b = a;
    ASSERT_EQ(execute(handle, make_plan(client.graph_descriptor, engine), &a), GPUDNN_STATUS_SUCCESS) << last_error();
    ASSERT_EQ(execute(host, make_plan(on_host.graph_descriptor, kInterpreter), &b), GPUDNN_STATUS_SUCCESS)
        << last_error();
    EXPECT_TRUE(a.guards_intact());
    for (const graph::Tensor& t : graph->tensors) {
      if (t.is_virtual) continue;
      const std::vector<double> actual = a.values(t.uid);
      const std::vector<double> expected = b.values(t.uid);
      const bool is_float = t.geometry.type == GPUDNN_DATA_FLOAT;
      const double u = is_float ? 0 : unit_roundoff(t.geometry.type);
      // Tensors behind the addend are sums with it.
      const std::vector<double> addends =
          made.addend != 0 && t.uid > made.addend ? b.values(made.addend) : std::vector<double>(expected.size());
      ASSERT_EQ(addends.size(), expected.size());
      for (std::size_t k = 0; k < actual.size(); ++k, ++compared) {
        // What stays in the graph is rounded by the interpreter alone: the norm's result, which the addend may cancel,
        // and the sum. The engine rounds what it stores. Besides, there are sums of at most 4500 terms in float.
        const double result = std::fabs(expected[k]), of_norm = result + std::fabs(addends[k]);
        ASSERT_NEAR(actual[k], expected[k], 3e-5 * (1 + of_norm) + u * (of_norm + 2 * result))
            << "tensor " << t.uid << ", " << k;
      }
    }
  }
  EXPECT_GT(compared, 1000);
}

void compare_engines(gpudnnHandle_t handle) {
  compare(handle, kSegments, {forward, backward, statistics, finalize, weights});
  compare(handle, kBatchNorm, {trained, backward});
}

TEST(GraphBatchNorm, AgreesWithTheInterpreter) { compare_engines(Backend::host().handle()); }

TEST(GraphBatchNorm, AgreesWithTheInterpreterOnTheDevice) {
  GPUDNN_NEEDS_GPU();
  compare_engines(Backend::at_hand().handle());
}

}  // namespace
}  // namespace gpudnn::test
