// Soak: threads that make mixed calls on shared handles for minutes, while handles, descriptors and graphs come and go,
// workspaces are short and memory runs out at random. Every result must have the bits of a run by one thread, every
// failure must be one of memory, and what lives after a round must not grow.
//   soak --minutes 30 --seed 7 --threads 16
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "runtime/every_operation.hpp"
#include "soak/failing_memory.hpp"
#include "soak/graphs.hpp"
#include "soak/streams.hpp"

namespace gpudnn::test {
namespace {

using Values = std::vector<float>;
using Clock = std::chrono::steady_clock;
using Random64 = std::mt19937_64;

struct Options {
  double minutes = 1;
  std::uint64_t seed = 1;
  int threads = 16;
};

struct Counts {
  std::atomic<long> calls{0}, replays{0}, graphs{0}, handles{0}, descriptors{0}, refusals{0}, out_of_memory{0},
      failures{0};
};
Counts counts;

void report_failure(const std::string& what, const std::string& text) {
  constexpr long kMaxTold = 50;
  if (counts.failures++ < kMaxTold) std::fprintf(stderr, "FAILURE: %s: %s\n", what.c_str(), text.c_str());
}

std::uint64_t below(Random64& random, std::uint64_t end) { return random() % end; }

// A call that one thread at a time may make, as its output is one piece of memory.
struct SharedCall {
  PreparedCall call;
  std::vector<unsigned char> before, after;  // the output's bytes as it was made, and as the call leaves it
  std::mutex in_use;
};

// Twice each, so that two threads meet in one problem.
std::vector<std::unique_ptr<SharedCall>> prepare_calls(const Backend& backend) {
  std::vector<std::unique_ptr<SharedCall>> shared;
  for (int copy = 0; copy < 2; ++copy) {
    for (PreparedCall& call : every_operation(backend)) {
      shared.push_back(std::make_unique<SharedCall>());
      SharedCall& s = *shared.back();
      s.call = std::move(call);
      s.before = s.call.output->image();
      GPUDNN_TEST_REQUIRE(s.call.call(backend.handle()));
      s.after = s.call.output->image();
      Outcome outcome;
      outcome.values = s.call.output->values();
      outcome.damage = s.call.output->damage_outside_elements();
      const std::string verdict = judge(s.call.output->geometry(), outcome, s.call.expected);
      if (!verdict.empty()) report_failure(s.call.name + ", by one thread", verdict);
    }
  }
  return shared;
}

// --- what threads share

// Ends with its last user.
using SharedHandle = std::shared_ptr<gpudnnContext>;
SharedHandle shared(gpudnnHandle_t handle) {
  return {handle, [](gpudnnHandle_t ended) {
            if (destroy_with_stream(ended) != GPUDNN_STATUS_SUCCESS) {
              report_failure("gpudnnDestroy", take_error_text());
            }
          }};
}

class Handles {
 public:
  explicit Handles(std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      gpudnnHandle_t handle = nullptr;
      GPUDNN_TEST_REQUIRE(gpudnnCreate(&handle));
      GPUDNN_TEST_REQUIRE(give_stream(handle));
      handles_.push_back(shared(handle));
    }
  }
  SharedHandle any(Random64& random) {
    const std::lock_guard lock(mutex_);
    return handles_[below(random, handles_.size())];
  }
  void replace(Random64& random, SharedHandle made) {
    const std::lock_guard lock(mutex_);
    handles_[below(random, handles_.size())].swap(made);
  }

 private:
  std::mutex mutex_;
  std::vector<SharedHandle> handles_;
};

struct Round {
  std::vector<std::unique_ptr<SharedCall>>& calls;
  const std::vector<Values>& graphs;  // what each gives by one thread
  Handles& handles;
  bool short_of_memory;
  bool captures;  // there are streams to capture
  Clock::time_point end;
};

// The odds of this call's allocations to fail; 0: none does.
std::uint32_t odds(const Round& round, Random64& random) {
  constexpr std::uint32_t kOdds[] = {3, 20, 200};
  return round.short_of_memory && below(random, 3) == 0 ? kOdds[below(random, 3)] : 0;
}

// Whether a failure is one that the soak asked for.
bool is_expected(gpudnnStatus_t status, std::int64_t failed_before) {
  return status == GPUDNN_STATUS_ALLOC_FAILED && memory_counts().failed > failed_before;
}

// Runs `attempt`, which returns a status, first as the round wants it and, after a failure of memory, until it works.
template <class Attempt>
bool run_until_done(const Round& round, Random64& random, const std::string& name, const Attempt& attempt) {
  constexpr int kMaxAttempts = 100;  // helper threads may be out of memory again
  for (int i = 0; i < kMaxAttempts; ++i) {
    const std::int64_t failed = memory_counts().failed;
    gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
    try {
      const FailingScope scope(i == 0 ? odds(round, random) : 0);
      status = attempt();
    } catch (const std::bad_alloc&) {
      continue;  // of the attempt's own code: an entry point would end the program before it let one through
    }
    if (status == GPUDNN_STATUS_SUCCESS) return true;
    const std::string text = take_error_text();
    if (!is_expected(status, failed)) {
      report_failure(name, gpudnnGetErrorString(status) + (": " + text));
      return false;
    }
    if (text.empty()) report_failure(name, "a failure of memory without a text");
    ++counts.out_of_memory;
  }
  report_failure(name, "still fails after 100 attempts");
  return false;
}

// --- actions

// What the output holds before a call.
void set_output(gpudnnHandle_t handle, const SharedCall& shared) {
  GPUDNN_TEST_REQUIRE(gpudnnMemcpy(handle, shared.call.output->data(), shared.before.data(), shared.before.size(),
                                   GPUDNN_MEMCPY_HOST_TO_DEVICE));
}

void check_output(const SharedCall& shared, const char* when) {
  if (shared.call.output->image() != shared.after) {
    report_failure(shared.call.name + when, "other bits than by one thread");
  }
  const std::string damage = shared.call.output->damage_outside_elements();
  if (!damage.empty()) report_failure(shared.call.name + when, damage);
}

void make_call(Round& round, Random64& random) {
  SharedCall& shared = *round.calls[below(random, round.calls.size())];
  const std::unique_lock lock(shared.in_use, std::try_to_lock);
  if (!lock) return;
  const SharedHandle handle = round.handles.any(random);
  set_output(handle.get(), shared);
  if (!run_until_done(round, random, shared.call.name, [&] { return shared.call.call(handle.get()); })) return;
  GPUDNN_TEST_REQUIRE(synchronize(handle.get()));
  check_output(shared, "");
  ++counts.calls;
}

// On a handle of its own, as nothing else may go to a stream whose calls are captured.
void replay_call(Round& round, Random64& random) {
  SharedCall& shared = *round.calls[below(random, round.calls.size())];
  const std::unique_lock lock(shared.in_use, std::try_to_lock);
  if (!lock) return;
  gpudnnHandle_t made = nullptr;
  GPUDNN_TEST_REQUIRE(gpudnnCreate(&made));
  const SharedHandle handle = test::shared(made);
  GPUDNN_TEST_REQUIRE(give_stream(made));
  const bool done = run_until_done(round, random, shared.call.name + ", captured", [&] {
    return capture_and_replay(made, shared.call.call, 2, [&] { set_output(made, shared); });
  });
  if (!done) return;
  check_output(shared, ", replayed");
  ++counts.replays;
}

void make_graph(Round& round, Random64& random) {
  const int which = static_cast<int>(below(random, kGraphs));
  const SharedHandle handle = round.handles.any(random);
  Values found;
  const bool done = run_until_done(round, random, "graph " + std::to_string(which),
                                   [&] { return run_graph(handle.get(), which, &found); });
  if (!done) return;
  if (!agree(found, round.graphs[static_cast<std::size_t>(which)])) {
    report_failure("graph " + std::to_string(which), "other values than by one thread");
  }
  ++counts.graphs;
}

void replace_handle(Round& round, Random64& random) {
  gpudnnHandle_t handle = nullptr;
  if (!run_until_done(round, random, "gpudnnCreate", [&] { return gpudnnCreate(&handle); })) return;
  GPUDNN_TEST_REQUIRE(give_stream(handle));
  round.handles.replace(random, shared(handle));
  ++counts.handles;
}

// Descriptors of several kinds, ended in any order, some of them twice.
void churn_descriptors(Round& round, Random64& random) {
  struct Ending {
    void* object;
    gpudnnStatus_t (*end)(void*);
  };
  std::vector<Ending> endings;
  const auto make = [&]<class T>(gpudnnStatus_t (*create)(T*), gpudnnStatus_t (*end)(void*)) -> T {
    T made = nullptr;
    (void)run_until_done(round, random, "a descriptor", [&] { return create(&made); });
    endings.push_back({made, end});
    return made;
  };
  for (std::uint64_t i = 0, count = 1 + below(random, 8); i < count; ++i) {
    const int width = 1 + static_cast<int>(below(random, 50));
    switch (below(random, 4)) {
      case 0: {
        const auto tensor = make(gpudnnCreateTensorDescriptor, [](void* object) {
          return gpudnnDestroyTensorDescriptor(static_cast<gpudnnTensorDescriptor_t>(object));
        });
        std::size_t bytes = 0;
        if (gpudnnSetTensor4dDescriptor(tensor, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 2, 3, width) !=
                GPUDNN_STATUS_SUCCESS ||
            gpudnnGetTensorSizeInBytes(tensor, &bytes) != GPUDNN_STATUS_SUCCESS ||
            bytes != 24 * static_cast<std::size_t>(width)) {
          report_failure("a tensor descriptor", "it has another size than was set");
        }
        break;
      }
      case 1:
        (void)make(gpudnnCreateFilterDescriptor, [](void* object) {
          return gpudnnDestroyFilterDescriptor(static_cast<gpudnnFilterDescriptor_t>(object));
        });
        break;
      case 2:
        (void)make(gpudnnCreateConvolutionDescriptor, [](void* object) {
          return gpudnnDestroyConvolutionDescriptor(static_cast<gpudnnConvolutionDescriptor_t>(object));
        });
        break;
      default:
        (void)make(gpudnnCreateRNNDescriptor,
                   [](void* object) { return gpudnnDestroyRNNDescriptor(static_cast<gpudnnRNNDescriptor_t>(object)); });
        break;
    }
  }
  std::shuffle(endings.begin(), endings.end(), random);
  for (const Ending& ending : endings) {
    if (ending.end(ending.object) != GPUDNN_STATUS_SUCCESS) report_failure("a descriptor", "it does not end");
    ++counts.descriptors;
  }
}

// What makes no sense is refused, with a text, whatever else goes on.
void be_refused(Round& round, Random64& random) {
  const SharedHandle handle = round.handles.any(random);
  (void)take_error_text();
  const gpudnnStatus_t status = gpudnnSoftmaxForward(handle.get(), GPUDNN_SOFTMAX_ACCURATE, GPUDNN_SOFTMAX_MODE_CHANNEL,
                                                     nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
  if (status != GPUDNN_STATUS_BAD_PARAM || take_error_text().find("gpudnnSoftmaxForward") == std::string::npos) {
    report_failure("gpudnnSoftmaxForward on null pointers", "it is not refused as BAD_PARAM with a text of its own");
  }
  ++counts.refusals;
}

void work(Round round, std::uint64_t seed) {
  protect_this_thread(seed);
  Random64 random(seed);
  try {
    while (Clock::now() < round.end) {
      const std::uint64_t dice = below(random, 100);
      if (dice < 60 || (dice < 70 && !round.captures)) {
        make_call(round, random);
      } else if (dice < 70) {
        replay_call(round, random);
      } else if (dice < 82) {
        make_graph(round, random);
      } else if (dice < 88) {
        replace_handle(round, random);
      } else if (dice < 96) {
        churn_descriptors(round, random);
      } else {
        be_refused(round, random);
      }
    }
  } catch (const std::exception& error) {
    report_failure("a thread", error.what());
  }
}

long resident_kib() {
  std::ifstream statm("/proc/self/statm");
  long size = 0, resident = 0;
  statm >> size >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

int soak(const Options& options) {
  constexpr int kWarmUpRounds = 2;
  constexpr std::int64_t kMaxGrowth = 256 << 10;  // bytes: slots for as many descriptors as threads have at once
  protect_this_thread(options.seed);
  const Backend backend;
  std::vector<std::unique_ptr<SharedCall>> calls = prepare_calls(backend);
  std::vector<Values> graphs;
  for (int i = 0; i < kGraphs; ++i) GPUDNN_TEST_REQUIRE(run_graph(backend.handle(), i, &graphs.emplace_back()));
  std::printf("backend: %s, %d threads, seed %llu, %zu calls and %d graphs\n", backend.name(), options.threads,
              static_cast<unsigned long long>(options.seed), calls.size(), kGraphs);

  const double seconds = 60 * options.minutes;
  const auto length =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(std::clamp(seconds / 6, 0.3, 30.0)));
  const auto end = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  MemoryCounts warm;
  MemoryCounts now;
  std::uint64_t next_seed = options.seed;
  for (int number = 1; number <= kWarmUpRounds + 1 || Clock::now() < end; ++number) {
    const bool short_of_memory = number % 2 == 0;
    {
      Handles handles(4);
      const Round round{calls, graphs, handles, short_of_memory, has_streams(backend.handle()), Clock::now() + length};
      set_memory_pressure(short_of_memory);
      std::vector<std::thread> threads;
      for (int t = 0; t < options.threads; ++t) threads.emplace_back(work, round, ++next_seed);
      for (std::thread& thread : threads) thread.join();
      set_memory_pressure(false);
    }
    now = memory_counts();
    if (number == kWarmUpRounds) warm = now;
    std::printf(
        "round %d%s: calls %ld replays %ld graphs %ld handles %ld descriptors %ld refusals %ld; allocations failed "
        "%lld, calls out of memory %ld; alive: %lld blocks, %lld bytes; resident %ld KiB; device %zu MiB; failures "
        "%ld\n",
        number, short_of_memory ? " (short of memory)" : "", counts.calls.load(), counts.replays.load(),
        counts.graphs.load(), counts.handles.load(), counts.descriptors.load(), counts.refusals.load(),
        static_cast<long long>(now.failed), counts.out_of_memory.load(), static_cast<long long>(now.blocks),
        static_cast<long long>(now.bytes), resident_kib(), device_bytes_in_use(backend.handle()) >> 20,
        counts.failures.load());
    std::fflush(stdout);
  }
  const std::int64_t growth = now.bytes - warm.bytes;
  std::printf("memory alive grew by %lld bytes after round %d\n", static_cast<long long>(growth), kWarmUpRounds);
  if (growth > kMaxGrowth) report_failure("memory", "what lives after a round grows");
  if (counts.out_of_memory == 0) report_failure("memory", "no call was out of memory: the soak did not test it");
  std::printf("%s: %ld results compared, %ld failures\n", counts.failures == 0 ? "ok" : "FAILED",
              counts.calls + counts.replays + counts.graphs, counts.failures.load());
  return counts.failures == 0 ? 0 : 1;
}

}  // namespace
}  // namespace gpudnn::test

int main(int argc, char** argv) {
  gpudnn::test::Options options;
  for (int i = 1; i < argc; i += 2) {
    const std::string name = argv[i];
    const char* const value = i + 1 < argc ? argv[i + 1] : nullptr;
    if (value == nullptr || (name != "--minutes" && name != "--seed" && name != "--threads")) {
      std::fprintf(stderr, "usage: soak [--minutes N] [--seed S] [--threads T]\n");
      return 2;
    }
    if (name == "--minutes") options.minutes = std::atof(value);
    if (name == "--seed") options.seed = std::strtoull(value, nullptr, 0);
    if (name == "--threads") options.threads = std::atoi(value);
  }
  setenv("GPUDNN_WORKSPACE_LIMIT", "64K", 0);
  try {
    return gpudnn::test::soak(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "soak: %s\n", error.what());
    return 1;
  }
}
