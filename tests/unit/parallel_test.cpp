// parallel_for: every index once, from many threads at once, nested, with exceptions, and in a fork's child.
// SPDX-License-Identifier: Apache-2.0
#include "core/parallel.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "support/child.hpp"

namespace gpudnn {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr bool kThreadSanitizer = true;
#else
constexpr bool kThreadSanitizer = false;
#endif

// How often each index was visited.
std::vector<int> visits(std::int64_t count, std::int64_t grain) {
  std::vector<int> times(static_cast<std::size_t>(count));
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) ++times[static_cast<std::size_t>(i)];
  });
  return times;
}

TEST(Parallel, VisitsEachIndexOnce) {
  for (const std::int64_t count : {1, 2, 3, 7, 64, 1000, 12345}) {
    for (const std::int64_t grain : {-1, 0, 1, 5, 100, 100000}) {
      EXPECT_EQ(visits(count, grain), std::vector<int>(static_cast<std::size_t>(count), 1)) << count << ' ' << grain;
    }
  }
}

TEST(Parallel, NothingToDoCallsNobody) {
  parallel_for(0, 1, [](std::int64_t, std::int64_t) { FAIL(); });
  parallel_for(-5, 1, [](std::int64_t, std::int64_t) { FAIL(); });
}

TEST(Parallel, RangesRespectTheGrain) {
  std::mutex mutex;
  std::vector<std::int64_t> sizes;
  parallel_for(1000, 300, [&](std::int64_t begin, std::int64_t end) {
    const std::lock_guard lock(mutex);
    sizes.push_back(end - begin);
  });
  EXPECT_LE(sizes.size(), 4u);
}

// Where the environment or the machine gives one thread, a test of several runs in a process that has two.
bool ran_on_two_threads(const std::string& test) {
  if (host_threads() > 1) return false;
  EXPECT_EQ(test::run_in_child(test, {{"GPUDNN_HOST_THREADS", "2"}}), "");
  return true;
}

TEST(Parallel, WorkRunsOnSeveralThreads) {
  if (ran_on_two_threads("Parallel.WorkRunsOnSeveralThreads")) return;
  std::mutex mutex;
  std::set<std::thread::id> threads;
  std::atomic<int> arrived{0};
  // Each body waits until a second one runs at the same time, which a lone thread cannot reach.
  parallel_for(2, 1, [&](std::int64_t, std::int64_t) {
    ++arrived;
    while (arrived.load() < 2) std::this_thread::yield();
    const std::lock_guard lock(mutex);
    threads.insert(std::this_thread::get_id());
  });
  EXPECT_EQ(threads.size(), 2u);
}

TEST(Parallel, NestedCallsRunInline) {
  if (ran_on_two_threads("Parallel.NestedCallsRunInline")) return;
  std::atomic<int> wrong{0};
  std::atomic<std::int64_t> total{0};
  parallel_for(64, 1, [&](std::int64_t begin, std::int64_t end) {
    const auto outer = std::this_thread::get_id();
    for (std::int64_t i = begin; i < end; ++i) {
      parallel_for(100, 1, [&](std::int64_t from, std::int64_t to) {
        if (std::this_thread::get_id() != outer) ++wrong;
        total += to - from;
      });
    }
  });
  EXPECT_EQ(wrong.load(), 0);
  EXPECT_EQ(total.load(), 6400);
}

TEST(Parallel, ExceptionsReachTheCaller) {
  for (const std::int64_t bad : {0, 17, 999}) {
    EXPECT_THROW(parallel_for(1000, 1,
                              [&](std::int64_t begin, std::int64_t end) {
                                if (begin <= bad && bad < end) throw std::runtime_error("stop");
                              }),
                 std::runtime_error);
    EXPECT_EQ(visits(1000, 1), std::vector<int>(1000, 1)) << "the pool works on after an exception";
  }
}

TEST(Parallel, ManyCallersAtOnce) {
  std::atomic<int> wrong{0};
  std::vector<std::thread> callers;
  for (int caller = 0; caller < 6; ++caller) {
    callers.emplace_back([&, caller] {
      for (int round = 0; round < 100; ++round) {
        const auto count = static_cast<std::size_t>(50 + 13 * caller + round);
        if (visits(static_cast<std::int64_t>(count), 1) != std::vector<int>(count, 1)) ++wrong;
      }
    });
  }
  for (std::thread& caller : callers) caller.join();
  EXPECT_EQ(wrong.load(), 0);
}

TEST(Parallel, WorksInTheChildOfAFork) {
  if (kThreadSanitizer) GTEST_SKIP() << "ThreadSanitizer starts no threads after a fork";
  (void)visits(1000, 1);  // the parent's pool exists
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // a hang becomes a signal
    _exit(visits(1000, 1) == std::vector<int>(1000, 1) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "status " << status;
}

}  // namespace
}  // namespace gpudnn
