// The frame of the sweep: memory, the handle, and a child process that a new one follows where it dies.
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../memory.h"
#include "sweep.hpp"

namespace sweep {
namespace {

constexpr int kArenas = 10;
constexpr int kSecondsOfACase = 20;

struct Progress {
  long begin;  // the combination to begin with
  long at;     // the one that runs
  long failures;
};
Progress* progress = nullptr;
const char* only = nullptr;
bool failures_alone = false;  // print what is a failure of the library itself, and fail for it
long counted = 0;

// Whether the device's work has ended well.
bool device_is_well() {
  const char* backend = getenv("GPUDNN_BACKEND");
  if (backend == nullptr || strcmp(backend, "cuda") != 0) return true;
  static const auto wait = reinterpret_cast<int (*)()>(dlsym(dlopen("libcuda.so.1", RTLD_NOW), "cuCtxSynchronize"));
  return wait != nullptr && wait() == 0;
}

}  // namespace

void* arena(int number) {
  static void* memory[kArenas] = {};
  if (memory[number] == nullptr) memory[number] = both_memory(kArenaBytes);
  return memory[number];
}
void* workspace() {
  static void* const memory = both_memory(kWorkspaceBytes);
  return memory;
}

cudnnHandle_t handle() {
  static const cudnnHandle_t made = [] {
    cudnnHandle_t handle = nullptr;
    (void)arena(0);  // makes the context
    if (cudnnCreate(&handle) != CUDNN_STATUS_SUCCESS) {
      std::fprintf(stderr, "cudnnCreate failed\n");
      std::exit(2);
    }
    return handle;
  }();
  return made;
}

void run(const std::string& operation, const std::string& parameters, const std::function<Result()>& body) {
  if (only != nullptr && operation != only) return;
  const long number = counted++;
  if (number < progress->begin) return;
  progress->at = number;
  alarm(kSecondsOfACase);
  const Result result = body();
  const bool well = device_is_well();
  char why[512] = "";
  if (result.status != CUDNN_STATUS_SUCCESS) cudnnGetLastErrorString(why, sizeof why);
  for (char* c = why; *c != '\0'; ++c) {
    if (*c == '\n' || *c == '|') *c = ' ';
  }
  const bool own_failure = result.status >= CUDNN_STATUS_INTERNAL_ERROR || !well;
  if (own_failure) progress->failures += 1;
  if (failures_alone && !own_failure) return;
  std::printf("%s | %s | %s%d%s | %s\n", operation.c_str(), parameters.c_str(), result.set ? "set " : "",
              static_cast<int>(result.status), well ? "" : " device error", why);
  std::fflush(stdout);
  if (!well) _exit(3);
}

}  // namespace sweep

int main(int count, char** arguments) {
  using namespace sweep;
  failures_alone = count > 1 && strcmp(arguments[1], "--failures") == 0;
  if (count > 1 && !failures_alone) only = arguments[1];
  progress = static_cast<Progress*>(
      mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0));
  for (int children = 0; children < 200; ++children) {
    const pid_t child = fork();
    if (child == 0) {
      (void)handle();
      sweep_descriptors();
      sweep_tensors();
      sweep_layers();
      sweep_norms();
      sweep_convolutions();
      _exit(0);
    }
    int status = 0;
    (void)waitpid(child, &status, 0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return failures_alone && progress->failures > 0 ? 1 : 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 2) return 2;
    progress->failures += 1;
    if (WIFSIGNALED(status)) std::printf("died | combination %ld | signal %d |\n", progress->at, WTERMSIG(status));
    std::fflush(stdout);
    progress->begin = progress->at + 1;
  }
  std::printf("too many children died\n");
  return 1;
}
