// The parts of 07_data_parallel that need no GPU: which digits a process takes, processes that fail, and the network on
// several processes, which threads stand for, against the network on one.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <barrier>
#include <cmath>
#include <numeric>
#include <set>
#include <thread>

#include "02_mnist/network.hpp"
#include "07_data_parallel/ranks.hpp"

namespace {

TEST(DataParallel, EveryDigitOfAStepHasOneProcess) {
  constexpr size_t kDigits = 1000, kBatch = 48;
  std::set<size_t> taken;
  Rank rank;
  rank.count = 4;
  const size_t steps = steps_of_epoch(kDigits, kBatch, rank);
  EXPECT_EQ(steps, 5u);
  for (size_t step = 0; step < steps; ++step) {
    for (rank.number = 0; rank.number < rank.count; ++rank.number) {
      const size_t first = share_of_step(step, kBatch, rank);
      EXPECT_GE(first, step * kBatch * 4);  // the step's own, as one process would take them
      for (size_t i = first; i < first + kBatch; ++i) EXPECT_TRUE(taken.insert(i).second) << i;
    }
  }
  EXPECT_EQ(taken.size(), steps * kBatch * 4);
  EXPECT_EQ(*taken.rbegin(), steps * kBatch * 4 - 1);
}

TEST(DataParallel, AProcessThatFailsEndsTheOthers) {
  EXPECT_EQ(run_ranks(1, [](const Rank& rank) { return rank.number; }), 0);
  EXPECT_EQ(run_ranks(3, [](const Rank& rank) { return rank.count == 3 ? 0 : 1; }), 0);
  EXPECT_EQ(run_ranks(3,
                      [](const Rank& rank) {
                        if (rank.number == 1) return 1;
                        std::this_thread::sleep_for(std::chrono::hours(1));
                        return 0;
                      }),
            1);
}

// Threads add up in host memory.
class Threads {
 public:
  explicit Threads(int count) : count_(count), parts_(static_cast<size_t>(count)), meet_(count) {}

  class Place final : public Exchange {
   public:
    Place(Threads* all, int number) : all_(*all), number_(static_cast<size_t>(number)) {}
    int count() const override { return all_.count_; }
    void sum(void* values, size_t count, gpudnnDataType_t type) override {
      ASSERT_EQ(type, GPUDNN_DATA_FLOAT);
      auto* const mine = static_cast<float*>(values);
      all_.parts_[number_].assign(mine, mine + count);
      all_.meet_.arrive_and_wait();
      for (size_t i = 0; i < count; ++i) {
        mine[i] = 0;
        for (const std::vector<float>& part : all_.parts_) mine[i] += part[i];
      }
      all_.meet_.arrive_and_wait();
    }

   private:
    Threads& all_;
    size_t number_;
  };

 private:
  int count_;
  std::vector<std::vector<float>> parts_;
  std::barrier<> meet_;
};

constexpr int kSteps = 4;
constexpr size_t kWhole = 24;  // digits a step

struct Trained {
  std::vector<float> parameters;
  std::vector<float> probabilities;  // of digits that were not trained on, by the running statistics
};

Trained train(const DigitSet& digits, Exchange& exchange, int number) {
  const gpudnn::Handle handle;
  Rank rank;
  rank.number = number;
  rank.count = exchange.count();
  const size_t batch_size = kWhole / static_cast<size_t>(rank.count);
  Network network(handle, static_cast<int>(batch_size), {}, &exchange);
  network.randomize(3);
  std::vector<int> order(digits.size());
  std::iota(order.begin(), order.end(), 0);
  for (size_t step = 0; step < kSteps; ++step) {
    const DigitBatch batch = gather(digits, order, share_of_step(step, batch_size, rank), batch_size);
    network.forward(batch.pixels);
    network.learn(batch.labels, 0.1f, 0.9f);
  }
  network.set_training(false);
  const DigitBatch test = gather(digits, order, kSteps * kWhole, batch_size);
  const std::span<const float> probabilities = network.forward(test.pixels);
  return {network.parameters(), {probabilities.begin(), probabilities.begin() + 4 * kClasses}};
}

void expect_near(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], 2e-4) << i;
}

TEST(DataParallel, ProcessesTrainTheNetworkOfOne) {
  const DigitSet digits = draw_digits(kSteps * kWhole + kWhole, 1, 5).train;
  Exchange alone;
  const Trained one = train(digits, alone, 0);
  for (const int count : {2, 3}) {
    Threads all(count);
    std::vector<Trained> trained(static_cast<size_t>(count));
    std::vector<std::thread> threads;
    for (int number = 0; number < count; ++number) {
      threads.emplace_back([&, number] {
        Threads::Place place(&all, number);
        trained[static_cast<size_t>(number)] = train(digits, place, number);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (const Trained& its : trained) {
      expect_near(its.parameters, one.parameters);
      expect_near(its.probabilities, one.probabilities);
      EXPECT_EQ(its.parameters, trained[0].parameters);
    }
  }
}

// Without the exchange the parts are trained on their own statistics, which must be seen: the test can fail.
TEST(DataParallel, ProcessesThatDoNotExchangeTrainAnotherNetwork) {
  const DigitSet digits = draw_digits(kSteps * kWhole + kWhole, 1, 5).train;
  struct Deaf final : Exchange {
    int count() const override { return 2; }
  };
  Exchange alone;
  Deaf deaf;
  const Trained one = train(digits, alone, 0);
  const Trained other = train(digits, deaf, 0);
  double greatest = 0;
  for (size_t i = 0; i < one.parameters.size(); ++i)
    greatest = std::max(greatest, static_cast<double>(std::fabs(one.parameters[i] - other.parameters[i])));
  EXPECT_GT(greatest, 1e-2);
}

}  // namespace
