// The algorithm queries (by the heuristic) and searches (by measurement).
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <limits>

#include "gpudnn/ext.h"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {
namespace {

// Two classic numbers stand for all that the engines can do: 0 promises no workspace, 1 takes what pays.
constexpr int kNoWorkspace = 0;
constexpr int kBest = 1;

// Numbers without an engine of their own; they still run, as an equivalent, when a program asks for them by number.
void add_unserved(Direction direction, std::vector<Performance>* rows) {
  for (int algorithm = kBest + 1; algorithm < algorithm_count(direction); ++algorithm) {
    Performance row;
    row.algorithm = algorithm;
    row.status = GPUDNN_STATUS_NOT_SUPPORTED;
    row.math = GPUDNN_DEFAULT_MATH;
    rows->push_back(row);
  }
}

Performance describe(int algorithm, const Choice& choice) {
  Performance row;
  row.algorithm = algorithm;
  row.milliseconds = static_cast<float>(choice.seconds * 1e3);
  row.memory = choice.workspace;
  row.deterministic = choice.engine->deterministic;
  row.math = choice.engine->math;
  return row;
}

// Best first; of equals the one with less memory, then the lower number.
void sort_rows(std::vector<Performance>* rows) {
  std::stable_sort(rows->begin(), rows->end(), [](const Performance& a, const Performance& b) {
    const bool a_failed = a.status != GPUDNN_STATUS_SUCCESS;
    const bool b_failed = b.status != GPUDNN_STATUS_SUCCESS;
    if (a_failed != b_failed) return b_failed;
    if (a_failed) return false;
    if (a.milliseconds != b.milliseconds) return a.milliseconds < b.milliseconds;
    return a.memory < b.memory;
  });
}

Status time_on_host(gpudnnHandle_t handle, const Problem& problem, int algorithm, const Args& args,
                    float* milliseconds) {
  const auto start = std::chrono::steady_clock::now();
  GPUDNN_TRY(run(handle, problem, algorithm, nullptr, 0, args));
  *milliseconds = std::chrono::duration<float, std::milli>(std::chrono::steady_clock::now() - start).count();
  return GPUDNN_STATUS_SUCCESS;
}

struct Work {
  gpudnnHandle_t handle;
  const Problem& problem;
  int algorithm;
  void* workspace;
  std::size_t workspace_bytes;
  const Args& args;
};

Status measure(const Work& work, float* milliseconds) {
  if (work.handle->device->backend == GPUDNN_BACKEND_HOST) {
    return time_on_host(work.handle, work.problem, work.algorithm, work.args, milliseconds);
  }
  constexpr int kRepeats = 5;
  const LaunchSite site = launch_site(work.handle);
  return cuda::time_on_stream(
      site.device, site.stream, kRepeats,
      [](void* context) {
        const Work& w = *static_cast<const Work*>(context);
        return run(w.handle, w.problem, w.algorithm, w.workspace, w.workspace_bytes, w.args);
      },
      const_cast<Work*>(&work), milliseconds);
}

// Memory of the handle's backend, freed at the scope's end.
class Scratch {
 public:
  explicit Scratch(gpudnnHandle_t handle) : device_(*handle->device), stream_(launch_site(handle).stream) {}
  ~Scratch() {
    for (void* pointer : pointers_) {
      if (device_.backend == GPUDNN_BACKEND_CUDA) {
        (void)cuda::release(device_, pointer);
      } else {
        std::free(pointer);
      }
    }
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  // Zeroed, so that a measurement sees no NaN; null for no bytes.
  [[nodiscard]] Status allocate(std::size_t bytes, void** pointer) {
    *pointer = nullptr;
    if (bytes == 0) return GPUDNN_STATUS_SUCCESS;
    pointers_.reserve(pointers_.size() + 1);
    if (device_.backend == GPUDNN_BACKEND_CUDA) {
      GPUDNN_TRY(cuda::allocate(device_, pointer, bytes));
      pointers_.push_back(*pointer);
      return cuda::fill(device_, stream_, *pointer, 0, bytes);
    }
    *pointer = std::calloc(1, bytes);
    GPUDNN_REQUIRE(*pointer != nullptr, GPUDNN_STATUS_ALLOC_FAILED, "the host is out of memory: %zu bytes needed",
                   bytes);
    pointers_.push_back(*pointer);
    return GPUDNN_STATUS_SUCCESS;
  }

 private:
  const Device& device_;
  cudaStream_t stream_;
  std::vector<void*> pointers_;
};

}  // namespace

Status query_algorithms(gpudnnHandle_t handle, const Problem& problem, std::vector<Performance>* rows) {
  note_problem_lazily([&] { return to_text(problem); });
  const std::vector<Choice> choices = rank(problem, *handle->device);
  GPUDNN_REQUIRE(!choices.empty(), GPUDNN_STATUS_NOT_SUPPORTED, "no convolution engine takes %s",
                 to_text(problem).c_str());
  const auto lean = std::find_if(choices.begin(), choices.end(), [](const Choice& c) { return c.workspace == 0; });
  if (lean != choices.end()) rows->push_back(describe(kNoWorkspace, *lean));
  rows->push_back(describe(kBest, choices.front()));
  sort_rows(rows);
  for (Performance& row : *rows) row.milliseconds = -1;  // the model ranks; it is no measurement
  add_unserved(problem.direction, rows);
  return GPUDNN_STATUS_SUCCESS;
}

Status measure_algorithms(gpudnnHandle_t handle, const Problem& problem, const Args& args, void* workspace,
                          std::size_t workspace_bytes, std::vector<Performance>* rows) {
  GPUDNN_TRY(query_algorithms(handle, problem, rows));
  for (Performance& row : *rows) {
    if (row.status != GPUDNN_STATUS_SUCCESS) continue;
    if (row.memory > workspace_bytes) {
      row.status = GPUDNN_STATUS_NOT_SUPPORTED;  // it runs in less, but not as it was ranked
      row.milliseconds = -1;
      continue;
    }
    const Status status =
        measure({handle, problem, row.algorithm, workspace, workspace_bytes, args}, &row.milliseconds);
    if (status != GPUDNN_STATUS_SUCCESS) {
      row.status = status;
      row.milliseconds = -1;
    }
  }
  sort_rows(rows);
  return GPUDNN_STATUS_SUCCESS;
}

Status measure_algorithms_on_own_memory(gpudnnHandle_t handle, const Problem& problem, std::vector<Performance>* rows) {
  std::size_t workspace_bytes = 0;
  GPUDNN_TRY(workspace_size(handle, problem, kBest, &workspace_bytes));
  Scratch scratch(handle);
  void* x = nullptr;
  void* w = nullptr;
  void* y = nullptr;
  void* workspace = nullptr;
  GPUDNN_TRY(scratch.allocate(size_in_bytes(problem.x), &x));
  GPUDNN_TRY(scratch.allocate(size_in_bytes(problem.w), &w));
  GPUDNN_TRY(scratch.allocate(size_in_bytes(problem.y), &y));
  GPUDNN_TRY(scratch.allocate(workspace_bytes, &workspace));
  Args args;
  args.x = x;
  args.w = w;
  args.y = y;
  args.out = problem.direction == Direction::forward ? y : problem.direction == Direction::backward_data ? x : w;
  return measure_algorithms(handle, problem, args, workspace, workspace_bytes, rows);
}

}  // namespace gpudnn::conv
