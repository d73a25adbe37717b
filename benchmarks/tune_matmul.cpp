// Times the engines and configs of matrix products.
// SPDX-License-Identifier: Apache-2.0
#include "tune_matmul.hpp"

#include <string_view>

#ifdef GPUDNN_WITH_CUDA
#include "kernels/matmul/gemm_sm90.hpp"
#include "ops/matmul/cublaslt.hpp"
#endif

namespace gpudnn::bench {
namespace {

bool is_theirs(const matmul::Choice& choice) { return std::string_view(choice.engine->name) == "cublaslt"; }

bool same(const matmul::Choice& a, const matmul::Choice& b) { return a.engine == b.engine && a.config == b.config; }

// What the ranking leaves out: all that cuBLASLt proposes, and with `grid` every tile, multicast and split of
// gemm_sm90.
std::vector<matmul::Config> further_configs(std::string_view engine, bool grid) {
  std::vector<matmul::Config> configs;
#ifdef GPUDNN_WITH_CUDA
  if (engine == "cublaslt") {
    for (int i = 0; i < matmul::kCublasltAlgorithms; ++i) configs.push_back("algo" + std::to_string(i));
  }
  if (engine == "gemm_sm90" && grid) {
    for (const auto& tile : kernels::matmul::sm90::kTiles) {
      for (const char* const multicast : {"none", "a", "b"}) {
        for (const char* const splits : {"1", "2", "4", "8"}) {
          configs.push_back(std::string(tile.name) + " multicast=" + multicast + " splits=" + splits + " raster=8");
        }
      }
    }
  }
#else
  (void)engine, (void)grid;
#endif
  return configs;
}

void print(const char* label, const matmul::Choice& choice, double seconds) {
  std::printf("  %-8s %10.2f us  %s %s", label, 1e6 * seconds, choice.engine->name, choice.config.c_str());
  if (choice.seconds > 0) std::printf(" expected=%.2f us", 1e6 * choice.seconds);
}

}  // namespace

std::vector<MatmulTuner::Trial> MatmulTuner::trials_of(const matmul::Problem& problem) const {
  std::vector<Trial> trials;
  constexpr double kBeyondHope = 12;  // times what the first is expected to take: not worth the device's time
  for (matmul::Choice& choice : matmul::rank(problem, device_)) {
    const bool hopeful = trials.empty() || choice.seconds < kBeyondHope * trials.front().choice.seconds;
    if (hopeful) trials.push_back({std::move(choice)});
  }
  for (const matmul::MatmulEngine& engine : matmul::engines()) {
    if (engine.backend != device_.backend || !engine.supports(problem, device_)) continue;
    for (matmul::Config& config : further_configs(engine.name, options_.grid)) {
      Trial trial{{&engine, std::move(config), -1}};
      const bool known = std::ranges::any_of(trials, [&](const Trial& t) { return same(t.choice, trial.choice); });
      if (!known) trials.push_back(std::move(trial));
    }
  }
  return trials;
}

matmul::Args MatmulTuner::args_of(const matmul::Problem& problem) {
  matmul::Args args;
  args.a = grown(machine_, &a_, size_in_bytes(problem.a));
  args.b = grown(machine_, &b_, size_in_bytes(problem.b));
  args.d = grown(machine_, &d_, size_in_bytes(problem.d));
  if (problem.c.rank > 0) args.c = grown(machine_, &c_, size_in_bytes(problem.c));
  if (problem.bias.rank > 0) args.bias = grown(machine_, &bias_, size_in_bytes(problem.bias));
  args.beta = problem.c.rank > 0 ? 1 : 0;
  const auto* const scale = static_cast<const float*>(grown(machine_, &scale_, 16));
  args.descale_a = args.descale_b = args.scale_d = scale;
  args.amax = static_cast<float*>(grown(machine_, &amax_, 16));
  return args;
}

// One impression of each, then the repeats of those that are not far from the best. The first stays in, as its ratio is
// asked.
void MatmulTuner::time_trials(const matmul::Problem& problem, std::vector<Trial>* trials) {
  constexpr double kHopeless = 1.6;
  const matmul::Args args = args_of(problem);
  const auto time_some = [&](const std::vector<Trial*>& some, const Repeats& repeats) {
    std::vector<Call> calls;
    std::vector<Trial*> called;
    for (Trial* const trial : some) {
      std::shared_ptr<const matmul::Plan> plan;
      trial->seconds = kFailed;
      if (matmul::make_plan(trial->choice, problem, device_, &plan) != GPUDNN_STATUS_SUCCESS) continue;
      if (plan->workspace > workspace_.bytes()) continue;
      called.push_back(trial);
      calls.push_back([this, plan = std::move(plan), &args] {
        return matmul::launch_plan({device_, machine_.stream(), workspace_.get(), plan->workspace}, *plan, args);
      });
    }
    const std::vector<Timing> timings = machine_.time_interleaved(calls, repeats);
    for (std::size_t i = 0; i < called.size(); ++i) {
      if (timings[i].repeats > 0) called[i]->seconds = timings[i].seconds;
    }
  };
  std::vector<Trial*> all;
  for (Trial& trial : *trials) all.push_back(&trial);
  time_some(all, {.min_seconds = 0, .least = 1, .most = 1});
  double best = kFailed;
  for (const Trial& trial : *trials) best = std::min(best, trial.seconds);
  std::vector<Trial*> promising;
  for (Trial* const trial : all) {
    if (trial == all.front() || trial->seconds < kHopeless * best) promising.push_back(trial);
  }
  time_some(promising, {.min_seconds = options_.min_time, .least = 5, .most = 100});
}

bool MatmulTuner::tune(const std::string& name, const matmul::Problem& problem) {
  std::vector<Trial> trials = trials_of(problem);
  if (trials.empty()) return std::fprintf(stderr, "%s: no engine\n", name.c_str()), false;
  time_trials(problem, &trials);
  const Trial* ours = nullptr;
  const Trial* theirs = nullptr;
  const Trial* first = nullptr;  // of ours, by the model
  for (const Trial& trial : trials) {
    const Trial** const best = is_theirs(trial.choice) ? &theirs : &ours;
    if (*best == nullptr || trial.seconds < (*best)->seconds) *best = &trial;
    if (first == nullptr && !is_theirs(trial.choice) && trial.choice.seconds > 0) first = &trial;
  }
  if (ours == nullptr || first == nullptr || std::isinf(ours->seconds)) return false;
  std::printf("%s = %s\n", name.c_str(), matmul::to_text(problem).c_str());
  for (const Trial& trial : trials) {
    if (options_.configs && !std::isinf(trial.seconds)) {
      print("config", trial.choice, trial.seconds);
      std::printf("\n");
    }
  }
  print("best", ours->choice, ours->seconds);
  std::printf("\n");
  print("first", first->choice, first->seconds);
  std::printf(" ratio=%.3f\n", first->seconds / ours->seconds);
  first_.values.push_back(first->seconds / ours->seconds);
  if (theirs != nullptr && !std::isinf(theirs->seconds)) {
    print("theirs", theirs->choice, theirs->seconds);
    std::printf(" best=%.3f first=%.3f\n", ours->seconds / theirs->seconds, first->seconds / theirs->seconds);
    of_best_.values.push_back(ours->seconds / theirs->seconds);
    of_first_.values.push_back(first->seconds / theirs->seconds);
  }
  std::fflush(stdout);
  return true;
}

void MatmulTuner::summarize() const {
  first_.summarize("matmul: model's first choice");
  of_best_.summarize("matmul: best config over cuBLASLt's best");
  of_first_.summarize("matmul: first choice over cuBLASLt's best");
}

}  // namespace gpudnn::bench
