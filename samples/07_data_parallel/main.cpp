// The network of 02_mnist on several GPUs, a process for each: every process has the whole network and a part of each
// step's digits. The statistics of batch normalization are those of all parts, and the gradients are averaged, both by
// NCCL, so that n GPUs with a batch of b take the steps that one takes with n * b. This file is the flow: options,
// processes, training, test.
// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdio>
#include <gpudnn/gpudnn.hpp>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>

#include "02_mnist/mnist_data.hpp"
#include "02_mnist/network.hpp"
#include "common/command_line.hpp"
#include "common/progress.hpp"
#include "common/random.hpp"
#include "nccl_exchange.hpp"
#include "ranks.hpp"

namespace {

constexpr float kLearningRateDecay = 0.8f;  // after each epoch

struct Options {
  std::string data;
  std::string math = "default";
  int gpus = 1;
  int batch = 512;
  int epochs = 8;
  float learning_rate = 0.05f;
  float momentum = 0.9f;
  uint64_t seed = 1;
  int train_count = 60000, test_count = 10000;
  std::optional<double> min_accuracy;
};

void declare_options(CLI::App& app, Options& options) {
  app.add_option("--gpus", options.gpus, "GPUs to train on, each by a process of its own")
      ->check(CLI::Range(1, 64))
      ->capture_default_str();
  app.add_option("--batch", options.batch, "images a step on each GPU")
      ->check(CLI::Range(1, 65536))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the training digits")
      ->check(CLI::Range(1, 10000))
      ->capture_default_str();
  app.add_option("--lr", options.learning_rate, "learning rate of the first epoch")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--momentum", options.momentum, "how much of the last step goes into the next")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--data", options.data, "directory with MNIST's files (default: digits that the program draws)")
      ->type_name("DIR");
  app.add_option("--train", options.train_count, "training digits to draw")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  app.add_option("--test", options.test_count, "test digits to draw")
      ->check(CLI::Range(1, 10000000))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the first weights, the order and the drawn digits")->capture_default_str();
  app.add_option("--math", options.math, "tensor: float data by TF32; half: half-precision data, and float parameters")
      ->check(CLI::IsMember({"default", "tensor", "half"}))
      ->capture_default_str();
  app.add_option("--min-accuracy", options.min_accuracy, "exit with 1 where the test gives less, in percent (1 to 100)")
      ->check(CLI::Range(1.0, 100.0));
}

// What every process finds wrong, and the first one tells.
class Refusal : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// The process's own GPU becomes the current one.
void choose_gpu(const Rank& rank) {
  int there = 0;
  if (cudaGetDeviceCount(&there) != cudaSuccess || there == 0)
    throw Refusal("this sample trains on GPUs, and CUDA finds none here; 02_mnist trains on the CPU too");
  if (rank.count > there) {
    throw Refusal("--gpus " + std::to_string(rank.count) + " is more than the " + std::to_string(there) +
                  (there == 1 ? " GPU" : " GPUs") + " of this machine");
  }
  if (const cudaError_t error = cudaSetDevice(rank.number); error != cudaSuccess)
    throw std::runtime_error("GPU " + std::to_string(rank.number) + ": " + cudaGetErrorString(error));
}

// Every process shuffles alike and takes its share of each step. The rate is that of all GPUs together.
void train(Network& network, const DigitSet& digits, const Options& options, const Rank& rank) {
  const auto batch_size = static_cast<size_t>(options.batch);
  const size_t steps = steps_of_epoch(digits.size(), batch_size, rank);
  if (steps == 0) {
    throw Refusal("a step takes " + std::to_string(batch_size) + " digits on each of " + std::to_string(rank.count) +
                  " GPUs, more than the " + std::to_string(digits.size()) +
                  " training digits: --batch must be smaller");
  }
  const size_t step_size = batch_size * static_cast<size_t>(rank.count);
  std::vector<int> order(digits.size());
  std::iota(order.begin(), order.end(), 0);
  Random random(options.seed);
  float learning_rate = options.learning_rate;
  using Clock = std::chrono::steady_clock;
  Clock::time_point second_epoch;
  network.set_training(true);
  for (int epoch = 1; epoch <= options.epochs; ++epoch, learning_rate *= kLearningRateDecay) {
    if (epoch == 2) second_epoch = Clock::now();
    shuffle(order, random);
    Progress progress("epoch " + std::to_string(epoch) + "/" + std::to_string(options.epochs), "images");
    double loss_sum = 0;
    for (size_t step = 0; step < steps; ++step) {
      const DigitBatch batch = gather(digits, order, share_of_step(step, batch_size, rank), batch_size);
      const std::span<const float> probabilities = network.forward(batch.pixels);
      loss_sum += cross_entropy(probabilities, batch.labels);
      network.learn(batch.labels, learning_rate, options.momentum);
      if (rank.number == 0) {
        progress.show((step + 1) * step_size, steps * step_size,
                      loss_sum / static_cast<double>((step + 1) * batch_size));
      }
    }
  }
  if (rank.number == 0 && options.epochs > 1) {
    const double seconds = std::chrono::duration<double>(Clock::now() - second_epoch).count();
    const double images = static_cast<double>(steps * step_size) * (options.epochs - 1);
    std::printf("%.0f images/s on %d GPU%s, %d a step on each, without the first epoch\n", images / seconds, rank.count,
                rank.count == 1 ? "" : "s", options.batch);
  }
}

// Each process reads a part of the digits; the sum of what they read wrongly.
size_t count_wrong(Network& network, const DigitSet& digits, const gpudnn::Handle& handle, Exchange& exchange,
                   const Rank& rank) {
  network.set_training(false);
  std::vector<int> mine;
  for (size_t i = static_cast<size_t>(rank.number); i < digits.size(); i += static_cast<size_t>(rank.count))
    mine.push_back(static_cast<int>(i));
  const auto batch_size = static_cast<size_t>(network.batch());
  float wrong = 0;
  for (size_t first = 0; first < mine.size(); first += batch_size) {
    const DigitBatch batch = gather(digits, mine, first, batch_size);
    const std::span<const float> probabilities = network.forward(batch.pixels);
    for (size_t i = 0; i < batch.labels.size(); ++i)
      if (argmax(probabilities.subspan(i * kClasses, kClasses)) != batch.labels[i]) ++wrong;
  }
  const gpudnn::Buffer sum(handle, std::vector<float>{wrong});
  exchange.sum(sum.get(), 1, GPUDNN_DATA_FLOAT);
  return static_cast<size_t>(sum.download<float>()[0]);
}

int run(const Options& options, const Rank& rank) {
  choose_gpu(rank);
  const gpudnn::Handle handle;
  if (handle.is_host()) throw Refusal("libgpudnn works on the CPU here (GPUDNN_BACKEND=host, or a build without CUDA)");
  const std::unique_ptr<Exchange> exchange =
      rank.count == 1 ? std::make_unique<Exchange>() : std::make_unique<NcclExchange>(handle, rank);
  const auto train_count = static_cast<size_t>(options.train_count),
             test_count = static_cast<size_t>(options.test_count);
  const TrainTestData data =
      options.data.empty() ? draw_digits(train_count, test_count, options.seed) : read_mnist(options.data);
  if (rank.number == 0) {
    std::printf("%zu digits to train, %zu to test, on %d GPU%s\n", data.train.size(), data.test.size(), rank.count,
                rank.count == 1 ? "" : "s");
  }
  Network network(handle, options.batch, precision_of(options.math), exchange.get());
  network.randomize(options.seed);
  train(network, data.train, options, rank);
  const size_t wrong = count_wrong(network, data.test, handle, *exchange, rank);
  const size_t total = data.test.size();
  const double accuracy = 100.0 * static_cast<double>(total - wrong) / static_cast<double>(total);
  if (rank.number == 0) std::printf("test accuracy %.2f%% (%zu of %zu wrong)\n", accuracy, wrong, total);
  if (options.min_accuracy && accuracy < *options.min_accuracy) {
    if (rank.number == 0)
      std::fprintf(stderr, "the accuracy of %.2f%% is below the wanted %.2f%%\n", accuracy, *options.min_accuracy);
    return 1;
  }
  return 0;
}

int run_and_tell(const Options& options, const Rank& rank) {
  try {
    return run(options, rank);
  } catch (const Refusal& refusal) {
    std::fflush(stdout);
    if (rank.number == 0) std::fprintf(stderr, "error: %s\n", refusal.what());
  } catch (const std::exception& error) {
    std::fflush(stdout);
    std::fprintf(stderr, "error in process %d: %s\n", rank.number, error.what());
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  return run_with_options<Options>(
      argc, argv, "Trains a LeNet-5-style network on handwritten digits, on several GPUs at once.", declare_options,
      [](const Options& options) {
        return run_ranks(options.gpus, [&options](const Rank& rank) { return run_and_tell(options, rank); });
      });
}
