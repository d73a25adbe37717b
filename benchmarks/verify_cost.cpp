// The path of an operation with an engine that does nothing, with the verify mode's test and without, in turns. The
// least time of each counts, since what else runs on the machine only adds.
// SPDX-License-Identifier: Apache-2.0
#include "verify_cost.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <optional>
#include <span>
#include <string>

#include "core/verify.hpp"
#include "gpudnn/gpudnn.h"
#include "ops/activation/problem.hpp"

namespace gpudnn::bench {
namespace {

constexpr int kRounds = 500;
constexpr int kCalls = 2000;  // of a round

using Nothing = Engine<activation::Problem, activation::Args>;
constexpr Nothing kEngines[] = {
    {"nothing", GPUDNN_BACKEND_HOST, supports_all<activation::Problem>,
     [](const LaunchSite&, const activation::Problem&, const activation::Args&) -> Status {
       return GPUDNN_STATUS_SUCCESS;
     }},
    {"nothing", GPUDNN_BACKEND_CUDA, supports_all<activation::Problem>,
     [](const LaunchSite&, const activation::Problem&, const activation::Args&) -> Status {
       return GPUDNN_STATUS_SUCCESS;
     }},
};

// Nanoseconds of a call; 0 where one failed.
template <class Call>
double nanoseconds(const Call& call) {
  bool good = true;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < kCalls; ++i) good &= call() == GPUDNN_STATUS_SUCCESS;
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  return good ? time.count() / kCalls : 0;
}

}  // namespace

bool print_verify_cost() {
  std::string why;
  const std::optional<activation::Problem> problem = activation::from_text("act fwd relu f32 nchw n1c1h2w4", &why);
  gpudnnHandle_t handle = nullptr;
  if (!problem || gpudnnCreate(&handle) != GPUDNN_STATUS_SUCCESS) {
    return std::fprintf(stderr, "gpudnn-bench: no handle %s\n", why.c_str()), false;
  }
  verify::configure({});
  const std::span<const Nothing> engines = kEngines;
  const activation::Args args;
  double with = std::numeric_limits<double>::max();
  double without = with;
  for (int round = 0; round < kRounds; ++round) {
    with = std::min(with, nanoseconds([&] {
                      return verify::run_first_engine(
                          engines, handle, *problem, args,
                          +[](activation::Problem&, activation::Args&, verify::Check*) {});
                    }));
    without = std::min(without, nanoseconds([&] { return run_first_engine(engines, handle, *problem, args); }));
  }
  const bool good = gpudnnDestroy(handle) == GPUDNN_STATUS_SUCCESS && with > 0 && without > 0;
  if (!good) return std::fprintf(stderr, "gpudnn-bench: a call failed\n"), false;
  std::printf(
      "the path of a call with the verify mode and the NaN watch off: %.1f ns, without them %.1f ns, %.1f ns more\n",
      with, without, with - without);
  return true;
}

}  // namespace gpudnn::bench
