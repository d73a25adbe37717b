// Random problems of every operation's generator on the stand-in runtime: every engine in every configuration that it
// claims, so that launches and tensor maps are ones that a GPU takes. What the kernels would compute is judged
// elsewhere.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <functional>

#include "ops/attention/problem.hpp"
#include "ops/conv/engine.hpp"
#include "standin/operations.hpp"
#include "support/attention.hpp"
#include "support/layer_norm.hpp"
#include "support/lrn.hpp"
#include "support/matmul.hpp"
#include "support/norm.hpp"
#include "support/pointwise.hpp"
#include "support/sweep.hpp"

namespace gpudnn::standin {
namespace {

using namespace test;  // NOLINT: the generators and what runs their problems

int launches_in_all = 0;

// What is wrong with what `call` sent to the device; `call` returns what the library said against it.
std::string wrong_with(const std::function<std::string()>& call) {
  (void)take_launches();
  (void)take_calls();
  (void)take_violations();
  std::string wrong = call() + lines_of(take_violations());
  const std::size_t launches = take_launches().size();
  launches_in_all += static_cast<int>(launches);
  if (launches == 0) wrong += "nothing was launched";
  if (cudaGetLastError() != cudaSuccess) wrong += "an error was left with the runtime";
  return wrong;
}

template <class Problem>
std::string wrong_with_run(const Case<Problem>& c, int i) {
  return wrong_with([&]() -> std::string {
    const Outcome outcome = run(Backend::at_hand(), c, make_values(c), {.misaligned = i % 4 == 3});
    return outcome.status == GPUDNN_STATUS_SUCCESS ? outcome.damage : outcome.text;
  });
}

// --- convolution and matrix products: each engine and config ---------------------------------------------------------

// Memory of exactly so many bytes that nothing touches, so that its size costs nothing and a tensor map must keep to
// it.
class Untouched {
 public:
  explicit Untouched(std::size_t bytes) : bytes_(bytes) {
    GPUDNN_TEST_REQUIRE(gpudnnMalloc(Backend::at_hand().handle(), &data_, bytes));
  }
  ~Untouched() { (void)gpudnnFree(Backend::at_hand().handle(), data_); }
  Untouched(const Untouched&) = delete;
  Untouched& operator=(const Untouched&) = delete;
  [[nodiscard]] char* data() const { return static_cast<char*>(data_); }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_;
};

struct ConvMemory {
  std::vector<std::unique_ptr<Untouched>> tensors;
  conv::Args args;

  ConvMemory(const ConvCase& c, bool misaligned) {
    const conv::Problem& p = c.problem;
    const auto place = [&](const TensorGeometry& geometry) {
      const std::size_t skipped = misaligned ? static_cast<std::size_t>(data_type_bits(geometry.type) / 8) : 0;
      tensors.push_back(std::make_unique<Untouched>(size_in_bytes(geometry) + skipped));
      return tensors.back()->data() + skipped;
    };
    TensorGeometry vector;
    vector.type = p.float_vectors != 0 ? GPUDNN_DATA_FLOAT : p.y.type;
    vector.rank = 1;
    vector.dims[0] = p.w.dims[0];
    vector.strides[0] = p.bias_stride;
    args.alpha = c.alpha;
    args.beta = c.beta;
    args.alpha2 = c.alpha2;
    args.activation_coef = c.coef;
    args.relu_slope = c.slope;
    args.x = place(p.x);
    args.w = place(p.w);
    args.y = place(p.y);
    args.out = place(output_of(p));
    if (p.has_z != 0) args.z = place(p.z);
    if (p.has_bias != 0) args.bias = place(vector);
    vector.strides[0] = p.scale_stride;
    if (p.scale_stride > 0) args.scale = place(vector);
  }
};

std::string wrong_with_convolution(const ConvCase& c, int i) {
  const Backend& backend = Backend::at_hand();
  const Device& device = *backend.handle()->device;
  const bool misaligned = i % 4 == 3;
  const ConvMemory memory(c, misaligned);
  std::string wrong;
  int engines = 0;
  for (const conv::ConvEngine& engine : conv::engines()) {
    if (engine.backend != backend.kind() || !engine.supports(c.problem, device)) continue;
    if (misaligned && engine.alignment > 1) continue;
    ++engines;
    std::vector<conv::Candidate> candidates;
    engine.candidates(c.problem, device, &candidates);
    for (const conv::Candidate& candidate : candidates) {
      const Untouched workspace(candidate.workspace);
      const std::string found = wrong_with([&]() -> std::string {
        const auto prepared = engine.prepare(c.problem, candidate.config, device);
        const LaunchSite site = launch_site(backend.handle(), workspace.data(), workspace.bytes());
        const Status status = engine.launch(site, prepared.get(), memory.args);
        return status == GPUDNN_STATUS_SUCCESS ? "" : take_error_text();
      });
      if (!found.empty()) wrong += choice_text(engine, candidate.config) + ": " + found + "\n";
    }
  }
  return engines > 0 ? wrong : "no engine takes it";
}

TEST(StandInRandom, Convolutions) { sweep(250, random_conv, wrong_with_convolution); }
TEST(StandInRandom, ConvolutionsWithEpilogues) { sweep(150, random_conv_with_epilogue, wrong_with_convolution); }
TEST(StandInRandom, ConvolutionsOfCaseFiles) {
  for (const char* file :
       {"conv/edges.txt", "conv/conv1x1_nchw.txt", "conv/conv1x1_small_c.txt", "conv/depthwise.txt", "conv/direct.txt",
        "conv/direct_wgrad.txt", "conv/epilogues.txt", "conv/small_c.txt", "conv/small_c_dgrad.txt",
        "conv/small_c_fwd.txt", "conv/small_c_wgrad.txt", "conv/small_group.txt", "conv/smem_im2col_wgrad.txt",
        "conv/stream_k_wgrad.txt", "conv/swap_ab.txt"}) {
    for (const std::string& line : case_lines(file)) {
      std::string why;
      const auto problem = conv::from_text(line, &why);
      ASSERT_TRUE(problem) << line << ": " << why;
      ConvCase c{};
      c.problem = *problem;
      EXPECT_EQ(wrong_with_convolution(c, 0), "") << line;
    }
  }
}

std::string wrong_with_product(const MatmulCase& c, int i) {
  const Backend& backend = Backend::at_hand();
  const bool misaligned = i % 4 == 3;
  const MatmulRun memory(backend, c, make_values(c), misaligned);
  std::string wrong;
  for (const matmul::Choice& choice : matmul::rank(c.problem, *backend.handle()->device)) {
    if (misaligned && !matmul::takes_addresses(choice, c.problem, {.a = 1, .b = 1, .d = 1})) continue;
    const std::string found = wrong_with([&]() -> std::string {
      std::shared_ptr<const matmul::Plan> plan;
      Status status = matmul::make_plan(choice, c.problem, *backend.handle()->device, &plan);
      if (status != GPUDNN_STATUS_SUCCESS) return take_error_text();
      const GuardedBuffer workspace(backend, plan->workspace);
      status =
          matmul::launch_plan(launch_site(backend.handle(), workspace.data(), workspace.bytes()), *plan, memory.args());
      return status == GPUDNN_STATUS_SUCCESS ? "" : take_error_text();
    });
    if (!found.empty()) wrong += std::string(choice.engine->name) + " " + choice.config + ": " + found + "\n";
  }
  return wrong;
}

TEST(StandInRandom, MatrixProducts) { sweep(250, random_matmul, wrong_with_product); }

// Sums outside of the tensor core need registers that the largest tiles have not: the others take the product.
TEST(StandInRandom, ProductsWhoseSumsLeaveTheTensorCoreRunByGemmSm90) {
  for (const char* line : {"matmul f8e4m3 f8e4m3->bf16 m512n512k512 ta=n tb=t acc=f32 math=default",
                           "matmul f8e5m2 f8e4m3->f8e5m2 m7n640k1040 ta=n tb=t acc=f32 epi=descale_a,amax math=default",
                           "matmul f8e4m3 f8e5m2->f32 b3m40n72k64 ta=n tb=t acc=f32 epi=bias,gelu math=default"}) {
    const MatmulCase c = matmul_case(line, true, 1);
    int configs = 0;
    for (const matmul::Choice& choice : matmul::rank(c.problem, *Backend::at_hand().handle()->device))
      configs += std::string(choice.engine->name) == "gemm_sm90" ? 1 : 0;
    EXPECT_GT(configs, 0) << line;
    EXPECT_EQ(wrong_with_product(c, 0), "") << line;
  }
}

// --- the others ------------------------------------------------------------------------------------------------------

TEST(StandInRandom, Poolings) { sweep(300, random_pooling, wrong_with_run<pooling::Problem>); }
TEST(StandInRandom, Activations) { sweep(200, random_activation, wrong_with_run<activation::Problem>); }
TEST(StandInRandom, Softmaxes) { sweep(300, random_softmax, wrong_with_run<softmax::Problem>); }
TEST(StandInRandom, Tensors) { sweep(300, random_tensor, wrong_with_run<tensor::Problem>); }
TEST(StandInRandom, BiasGradients) { sweep(200, random_bias_grad, wrong_with_run<bias_grad::Problem>); }
TEST(StandInRandom, LocalResponses) { sweep(200, random_lrn, wrong_with_run<lrn::Problem>); }

// These run and compare at once. The comparison fails, since nothing was computed, and is not asked about.
TEST(StandInRandom, BatchNormalizations) {
  sweep(200, random_norm,
        [](const NormCase& c, int) { return wrong_with([&] { return (void)check(Backend::at_hand(), c), ""; }); });
}

TEST(StandInRandom, Attentions) {
  const auto draw = [](Random& random) { return random_attention(random, random.chance(0.1)); };
  sweep(60, draw, [](const AttentionCase& c, int) {
    std::string wrong;
    const Device& device = *Backend::at_hand().handle()->device;
    const std::shared_ptr<const PreparedAttention> prepared = prepare(c);
    for (const attention::AttentionEngine& engine : attention::engines()) {
      if (engine.backend != GPUDNN_BACKEND_CUDA || !engine.supports(c.problem, device)) continue;
      const std::string found = wrong_with([&] { return (void)check(Backend::at_hand(), engine, *prepared), ""; });
      if (!found.empty()) wrong += std::string(engine.name) + ": " + found + "\n";
    }
    return wrong;
  });
}

TEST(StandInRandom, LayerNormalizations) {
  sweep(200, random_layer_norm, [](const LayerNormCase& c, int i) {
    std::string wrong;
    const Device& device = *Backend::at_hand().handle()->device;
    const LayerNormValues values = make_values(c);
    const LayerNormExpected expected = naive(c, values);
    for (const LayerNormEngine& engine : layer_norm::engines()) {
      if (engine.backend != GPUDNN_BACKEND_CUDA || !engine.supports(c.problem, device)) continue;
      const std::string found = wrong_with(
          [&] { return (void)check(Backend::at_hand(), engine, c, values, expected, {.misaligned = i % 4 == 3}), ""; });
      if (!found.empty()) wrong += std::string(engine.name) + ": " + found + "\n";
    }
    return wrong;
  });
}

std::string wrong_with_program(const PointwiseCase& c, int i) {
  return wrong_with([&]() -> std::string {
    const PointwiseOutcome outcome = run_at_hand(c.problem, make_data(c), i % 4 == 3);
    return outcome.status == GPUDNN_STATUS_SUCCESS ? "" : outcome.damage;
  });
}

TEST(StandInRandom, PointwisePrograms) {
  sweep(
      200, [](Random& random) { return random_pointwise(random, false); }, wrong_with_program);
}
TEST(StandInRandom, PointwiseReductions) { sweep(200, random_reduction, wrong_with_program); }

class CountOfLaunches : public testing::Environment {
  void TearDown() override { std::printf("  random problems: %d launches\n", launches_in_all); }
};
[[maybe_unused]] const auto* const kCount = testing::AddGlobalTestEnvironment(new CountOfLaunches);

}  // namespace
}  // namespace gpudnn::standin
