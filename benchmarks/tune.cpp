// Times every engine and config of convolution problems, next to what the engine's model expects: what the models are
// fitted to, and how good their first choice is.
//
//   gpudnn-tune CASES.txt...      prints a line for each config: name, engine, tile, split, workspace, measured and
//   expected ms
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "core/handle.hpp"
#include "gpudnn/gpudnn.h"
#include "ops/conv/engine.hpp"

namespace {

using namespace gpudnn;

constexpr std::size_t kMostWorkspace = std::size_t{1} << 30;
constexpr int kRepeats = 4;

struct Work {
  const conv::ConvEngine* engine;
  const void* prepared;
  LaunchSite site;
  conv::Args args;
};

Status launch(void* context) {
  const Work& work = *static_cast<const Work*>(context);
  return work.engine->launch(work.site, work.prepared, work.args);
}

// The model's candidates, and around each tile's a grid of splits, so that what the model leaves out is seen too.
std::vector<conv::Candidate> grid_of(const conv::ConvEngine& engine, const conv::Problem& problem,
                                     const Device& device) {
  std::vector<conv::Candidate> candidates;
  engine.candidates(problem, device, &candidates);
  std::vector<conv::Candidate> grid = candidates;
  for (const conv::Candidate& candidate : candidates) {
    if (candidate.config.split_k != 1) continue;
    for (const int split : {2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512}) {
      const conv::Config config{candidate.config.tile, split};
      const bool known = std::any_of(grid.begin(), grid.end(), [&](const auto& c) { return c.config == config; });
      if (!known && engine.workspace(problem, config) <= kMostWorkspace / 4) grid.push_back({config, -1});
    }
  }
  return grid;
}

Status tune(gpudnnHandle_t handle, const std::string& name, const conv::Problem& problem) {
  const Device& device = *handle->device;
  void* memory[4] = {};
  const std::size_t bytes[4] = {size_in_bytes(problem.x), size_in_bytes(problem.w), size_in_bytes(problem.y),
                                kMostWorkspace};
  for (int i = 0; i < 4; ++i) {
    GPUDNN_TRY(cuda::allocate(device, &memory[i], bytes[i]));
    GPUDNN_TRY(cuda::fill(device, nullptr, memory[i], 0x3c, bytes[i]));  // small numbers in every type, not zeros
  }
  conv::Args args;
  args.x = memory[0];
  args.w = memory[1];
  args.y = memory[2];
  args.out = problem.direction == conv::Direction::forward         ? memory[2]
             : problem.direction == conv::Direction::backward_data ? memory[0]
                                                                   : memory[1];
  for (const conv::ConvEngine& engine : conv::engines()) {
    if (engine.backend != device.backend || !engine.supports(problem, device)) continue;
    for (const conv::Candidate& candidate : grid_of(engine, problem, device)) {
      const std::size_t workspace = engine.workspace(problem, candidate.config);
      if (workspace > kMostWorkspace) continue;
      const auto prepared = engine.prepare(problem, candidate.config, device);
      Work work{&engine, prepared.get(), {device, nullptr, memory[3], workspace}, args};
      float milliseconds = 0;
      GPUDNN_TRY(cuda::time_on_stream(device, nullptr, kRepeats, &launch, &work, &milliseconds));
      std::printf("%-24s %s tile=%d split_k=%d workspace=%zu measured=%.4f expected=%.4f\n", name.c_str(), engine.name,
                  candidate.config.tile, candidate.config.split_k, workspace, milliseconds, candidate.seconds * 1e3);
    }
  }
  for (void* pointer : memory) GPUDNN_TRY(cuda::release(device, pointer));
  return GPUDNN_STATUS_SUCCESS;
}

bool tune_file(gpudnnHandle_t handle, const char* path) {
  std::ifstream file(path);
  if (!file) return std::fprintf(stderr, "cannot read %s\n", path), false;
  for (std::string line; std::getline(file, line);) {
    line = line.substr(0, line.find('#'));
    const auto equals = line.find(" = ");
    const std::string name =
        equals == std::string::npos ? line : line.substr(0, line.find_last_not_of(' ', equals) + 1);
    if (equals != std::string::npos) line = line.substr(equals + 3);
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    std::string why;
    const auto problem = conv::from_text(line, &why);
    if (!problem) {
      std::fprintf(stderr, "%s: %s\n", line.c_str(), why.c_str());
      continue;
    }
    if (tune(handle, name, *problem) != GPUDNN_STATUS_SUCCESS) {
      return std::fprintf(stderr, "%s: %s\n", name.c_str(), last_error_text()), false;
    }
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  gpudnnHandle_t handle = nullptr;
  if (argc < 2) return std::fprintf(stderr, "usage: gpudnn-tune CASES.txt...\n"), 2;
  if (gpudnnCreate(&handle) != GPUDNN_STATUS_SUCCESS || handle->device->backend != GPUDNN_BACKEND_CUDA) {
    return std::fprintf(stderr, "gpudnn-tune needs a CUDA device\n"), 2;
  }
  bool fine = true;
  for (int i = 1; i < argc; ++i) fine = tune_file(handle, argv[i]) && fine;
  (void)gpudnnDestroy(handle);
  return fine ? 0 : 1;
}
