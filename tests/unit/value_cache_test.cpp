// The cache of small values: what is kept is found again, under its key alone, by many threads and past a chunk's end.
// SPDX-License-Identifier: Apache-2.0
#include "core/value_cache.hpp"

#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <vector>

namespace gpudnn {
namespace {

struct Key {
  std::int64_t number;
  std::int64_t rest[80];
};
Key key_of(std::int64_t number) {
  Key key = {};
  key.number = number;
  key.rest[79] = -number;
  return key;
}
// Few hashes, so that many keys share one.
std::uint64_t hash_of(std::int64_t number) { return static_cast<std::uint64_t>(number % 7); }

double value_of(const ValueCache& cache, std::int64_t number) {
  double value = -1;
  return cache.find(hash_of(number), key_of(number), &value) ? value : -1;
}

TEST(ValueCache, FindsWhatWasKept) {
  ValueCache cache;
  EXPECT_EQ(value_of(cache, 1), -1);
  cache.keep(hash_of(1), key_of(1), 1.5);
  EXPECT_EQ(value_of(cache, 1), 1.5);
  EXPECT_EQ(value_of(cache, 8), -1) << "another key of the same hash";
  EXPECT_EQ(value_of(cache, 2), -1);
}

TEST(ValueCache, GrowsPastItsFirstRoom) {
  ValueCache cache;
  cache.reserve();
  cache.reserve();
  for (int i = 0; i < 1000; ++i) cache.keep(hash_of(i), key_of(i), 2.0 * i);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(value_of(cache, i), 2.0 * i);
  EXPECT_EQ(value_of(cache, 1000), -1);
}

TEST(ValueCache, KeepsNoMoreThanItsRoom) {
  ValueCache cache;
  constexpr int kMany = 64 * 256 + 500;
  for (int i = 0; i < kMany; ++i) {
    Key key = key_of(i);
    cache.keep(static_cast<std::uint64_t>(i), key, i);
  }
  int found = 0;
  for (int i = 0; i < kMany; ++i) {
    int value = -1;
    if (!cache.find(static_cast<std::uint64_t>(i), key_of(i), &value)) continue;
    ++found;
    EXPECT_EQ(value, i);
  }
  EXPECT_EQ(found, 64 * 256);
}

TEST(ValueCache, ServesThreads) {
  ValueCache cache;
  constexpr int kThreads = 8;
  constexpr int kEach = 300;
  std::vector<std::thread> threads;
  std::vector<int> lost(kThreads);
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        const std::int64_t number = std::int64_t{i} * kThreads + t;
        cache.keep(hash_of(number), key_of(number), 3.0 * static_cast<double>(number));
        if (value_of(cache, number) != 3.0 * static_cast<double>(number)) ++lost[static_cast<std::size_t>(t)];
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const int count : lost) EXPECT_EQ(count, 0);
  for (std::int64_t i = 0; i < kThreads * kEach; ++i) EXPECT_EQ(value_of(cache, i), 3.0 * static_cast<double>(i));
}

}  // namespace
}  // namespace gpudnn
