// The plan cache.
// SPDX-License-Identifier: Apache-2.0
#include "core/plan_cache.hpp"

#include <gtest/gtest.h>

#include <set>
#include <thread>
#include <vector>

namespace gpudnn {
namespace {

struct Key {
  int tag;
  int number;
};

TEST(PlanCache, FindsWhatWasKept) {
  PlanCache cache;
  EXPECT_EQ(cache.find<int>(Key{1, 2}), nullptr);
  const auto kept = cache.keep(Key{1, 2}, std::make_shared<const int>(7));
  EXPECT_EQ(cache.find<int>(Key{1, 2}), kept);
  EXPECT_EQ(*cache.find<int>(Key{1, 2}), 7);
  EXPECT_EQ(cache.find<int>(Key{1, 3}), nullptr);
  EXPECT_EQ(cache.find<int>(Key{2, 2}), nullptr);
}

TEST(PlanCache, TheFirstOfTwoStays) {
  PlanCache cache;
  const auto first = cache.keep(Key{1, 1}, std::make_shared<const int>(1));
  const auto second = cache.keep(Key{1, 1}, std::make_shared<const int>(2));
  EXPECT_EQ(first, second);
  EXPECT_EQ(*second, 1);
}

TEST(PlanCache, DoesNotGrowWithoutBoundAndPlansInUseSurvive) {
  PlanCache cache;
  const auto plan = cache.keep(Key{0, -1}, std::make_shared<const int>(5));
  std::weak_ptr<const int> early = cache.keep(Key{0, 0}, std::make_shared<const int>(0));
  for (int i = 1; i < 40000; ++i) (void)cache.keep(Key{0, i}, std::make_shared<const int>(i));
  EXPECT_TRUE(early.expired()) << "nothing is ever let go";
  EXPECT_EQ(*plan, 5);
}

// Each byte of a key counts, wherever it stands.
TEST(PlanCache, HashesOfNeighboursDiffer) {
  for (const std::size_t size : {1u, 7u, 8u, 31u, 32u, 33u, 40u, 744u}) {
    std::string key(size, '\0');
    std::set<std::uint64_t> hashes = {hash_bytes(key)};
    for (char& byte : key) {
      for (const char value : {'\1', '\x40', '\x80'}) {
        byte = value;
        hashes.insert(hash_bytes(key));
      }
      byte = '\0';
    }
    EXPECT_EQ(hashes.size(), 1 + 3 * size) << size << " bytes";
    EXPECT_NE(hash_bytes(key), hash_bytes(key + '\0'));
  }
}

TEST(PlanCache, ManyThreadsAgree) {
  PlanCache cache;
  std::vector<std::thread> threads;
  std::vector<std::vector<const int*>> seen(8, std::vector<const int*>(100));
  for (std::size_t t = 0; t < seen.size(); ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        auto plan = cache.find<int>(Key{3, i});
        if (plan == nullptr) plan = cache.keep(Key{3, i}, std::make_shared<const int>(i));
        seen[t][static_cast<std::size_t>(i)] = plan.get();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& list : seen) EXPECT_EQ(list, seen[0]);
}

}  // namespace
}  // namespace gpudnn
