// Matrix products, by the engines that are linked into this program.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/matmul/engine.hpp"
#include "problem_run.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/matmul/cublaslt.hpp"
#endif

namespace gpudnn::bench {
namespace {

const matmul::MatmulEngine* engine_named(std::string_view name) {
  for (const matmul::MatmulEngine& engine : matmul::engines()) {
    if (engine.name == name) return &engine;
  }
  return nullptr;
}

// cuBLASLt alone: its algorithms, whatever our ranking says.
std::vector<matmul::Choice> cublaslt_choices(const matmul::Problem& problem, const Device& device) {
  std::vector<matmul::Choice> choices;
  const matmul::MatmulEngine* const engine = engine_named("cublaslt");
  if (engine == nullptr || !engine->supports(problem, device)) return choices;
  for (int i = 0; i < 8; ++i) choices.push_back({engine, "algo" + std::to_string(i), 0});
  return choices;
}

class MatmulRun : public Run {
 public:
  MatmulRun(const Library& library, gpudnnHandle_t handle, const Task& task, const Pointers& pointers)
      : handle_(handle), problem_(std::get<matmul::Problem>(task.problem)) {
    const Device& device = *handle->device;
    choices_ = library.prefix == "cublaslt" ? cublaslt_choices(problem_, device) : matmul::rank(problem_, device);
    std::size_t next = 0;
    const auto take = [&](bool wanted) { return wanted ? pointers.inputs.at(next++) : nullptr; };
    const auto scale = [&](int bit) { return static_cast<const float*>(take((problem_.scales & bit) != 0)); };
    args_.a = take(true);
    args_.b = take(true);
    args_.c = take(problem_.c.rank > 0);
    args_.bias = take(problem_.bias.rank > 0);
    args_.descale_a = scale(matmul::kDescaleA);
    args_.descale_b = scale(matmul::kDescaleB);
    args_.scale_d = scale(matmul::kScaleD);
    if (!pointers.more_outputs.empty()) args_.amax = static_cast<float*>(pointers.more_outputs[0]);
    args_.d = pointers.output;
    args_.alpha = task.alpha;
    args_.beta = problem_.c.rank > 0 ? 1 : 0;
  }

  [[nodiscard]] bool empty() const { return choices_.empty(); }
  [[nodiscard]] bool has_choice() const noexcept override { return true; }

  gpudnnStatus_t query(std::size_t workspace_limit, Choice* choice) override {
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      std::shared_ptr<const matmul::Plan> plan;
      if (matmul::make_plan(choices_[i], problem_, *handle_->device, &plan) != GPUDNN_STATUS_SUCCESS) continue;
      if (plan->workspace > workspace_limit) continue;
      *choice = described(i, plan->workspace);
      return GPUDNN_STATUS_SUCCESS;
    }
    return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED, "no choice runs %s", matmul::to_text(problem_).c_str());
  }

  // All choices in turn on the machine's stream.
  gpudnnStatus_t find(void* workspace, std::size_t bytes, Choice* choice) override {
    float best = 0;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      std::shared_ptr<const matmul::Plan> plan;
      if (matmul::make_plan(choices_[i], problem_, *handle_->device, &plan) != GPUDNN_STATUS_SUCCESS) continue;
      if (plan->workspace > bytes) continue;
      Timed timed{this, plan.get(), launch_site(handle_, workspace, bytes)};
      float milliseconds = 0;
      if (measure(&timed, &milliseconds) != GPUDNN_STATUS_SUCCESS) continue;
      if (best > 0 && milliseconds >= best) continue;
      best = milliseconds;
      *choice = described(i, plan->workspace);
      choice->by_find = true;
    }
    return best > 0 ? GPUDNN_STATUS_SUCCESS : GPUDNN_STATUS_NOT_SUPPORTED;
  }

  gpudnnStatus_t bind(const Choice& choice, void* workspace, Call* call) override {
    std::shared_ptr<const matmul::Plan> plan;
    const auto index = static_cast<std::size_t>(choice.number);
    GPUDNN_TRY(matmul::make_plan(choices_.at(index), problem_, *handle_->device, &plan));
    if (index == 0 && choices_[0].engine != engine_named("cublaslt")) {
      // The usual way of a call, plan cache included.
      *call = [this, workspace, bytes = plan->workspace] {
        return matmul::run(handle_, problem_, args_, workspace, bytes);
      };
      return GPUDNN_STATUS_SUCCESS;
    }
    *call = [this, plan, workspace] {
      return matmul::launch_plan(launch_site(handle_, workspace, plan->workspace), *plan, args_);
    };
    return GPUDNN_STATUS_SUCCESS;
  }

 private:
  struct Timed {
    const MatmulRun* run;
    const matmul::Plan* plan;
    LaunchSite site;
  };

  // Milliseconds of a call, the L2 warm: only to choose by.
  gpudnnStatus_t measure(Timed* timed, float* milliseconds) const {
    const auto work = [](void* context) {
      const auto& t = *static_cast<Timed*>(context);
      return matmul::launch_plan(t.site, *t.plan, t.run->args_);
    };
    if (handle_->device->backend == GPUDNN_BACKEND_HOST) return *milliseconds = 1, work(timed);
    return cuda::time_on_stream(*handle_->device, timed->site.stream, 5, work, timed, milliseconds);
  }

  [[nodiscard]] Choice described(std::size_t index, std::size_t workspace) const {
    Choice choice;
    choice.algorithm = std::string(choices_[index].engine->name) + ' ' + choices_[index].config;
    choice.number = static_cast<int>(index);
    choice.workspace = workspace;
    return choice;
  }

  gpudnnHandle_t handle_;
  matmul::Problem problem_;
  matmul::Args args_;
  std::vector<matmul::Choice> choices_;
};

}  // namespace

std::unique_ptr<Run> make_matmul_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                     const Pointers& pointers, gpudnnStatus_t* status) {
  *status = matmul::validate(std::get<matmul::Problem>(task.problem));
  if (*status != GPUDNN_STATUS_SUCCESS) return nullptr;
  auto run = std::make_unique<MatmulRun>(library, handle, task, pointers);
  if (!run->empty()) return run;
  *status = GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED, "%s does not take it", library.path.c_str());
  return nullptr;
}

std::unique_ptr<Library> linked_library(const std::string& prefix, std::string* why) {
  if (prefix == "cublaslt") {
#ifdef GPUDNN_WITH_CUDA
    const char* const missing = matmul::cublaslt_missing();
#else
    const char* const missing = "this build has no CUDA";
#endif
    if (missing != nullptr) return *why = missing, nullptr;
  }
  auto library = std::make_unique<Library>();
  library->prefix = prefix;
  library->path = prefix == "cublaslt" ? "cuBLASLt" : "linked into gpudnn-bench";
  Api& api = library->api;
#define GPUDNN_BENCH_TAKE(name) api.name = &::gpudnn##name;
  GPUDNN_BENCH_FUNCTIONS(GPUDNN_BENCH_TAKE)
#undef GPUDNN_BENCH_TAKE
  api.SetCallback = &::gpudnnSetCallback;
  api.GetLastErrorString = &::gpudnnGetLastErrorString;
  api.GetBackend = &::gpudnnGetBackend;
  api.GetLibraryVersion = &::gpudnnGetLibraryVersion;
  if (api.Create(&library->handle) == GPUDNN_STATUS_SUCCESS) return library;
  library->handle = nullptr;
  return *why = "no handle: " + failure_text(*library, GPUDNN_STATUS_NOT_INITIALIZED), nullptr;
}

}  // namespace gpudnn::bench
