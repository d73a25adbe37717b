// Learns to read handwritten digits: a LeNet-5-style network trained from scratch through the gpudnn C API alone, the
// same program on a GPU and on a CPU. This file is the flow: options, training, test, and classifying one picture.
// SPDX-License-Identifier: Apache-2.0
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <gpudnn/gpudnn.hpp>
#include <numeric>
#include <optional>
#include <string>

#include "common/command_line.hpp"
#include "common/curve.hpp"
#include "common/progress.hpp"
#include "common/random.hpp"
#include "image_io.hpp"
#include "mnist_data.hpp"
#include "network.hpp"
#include "weights_file.hpp"

namespace {

constexpr const char* kDefaultWeights = "mnist.weights";
constexpr float kLearningRateDecay = 0.8f;  // after each epoch
constexpr size_t kSheetLimit = 480;         // digits on a contact sheet

struct Options {
  std::string data, save, load, classify, errors, curve;
  std::string device = "auto";
  std::string math = "default";
  std::optional<int> epochs;
  int batch = 32;
  float learning_rate = 0.02f;
  float momentum = 0.9f;
  float loss_scale = 65536;
  uint64_t seed = 1;
  std::optional<int> train_count, test_count;
  std::optional<double> min_accuracy;
};

void declare_options(CLI::App& app, Options& options) {
  app.add_option("--data", options.data, "directory with MNIST's files (default: digits that the program draws)")
      ->type_name("DIR");
  app.add_option("--device", options.device, "auto: the GPU if there is one, else the CPU")
      ->check(CLI::IsMember({"auto", "gpu", "host"}))
      ->capture_default_str();
  app.add_option("--epochs", options.epochs, "passes over the training digits (default: 8, or 0 with --load)")
      ->check(CLI::Range(0, 10000));
  app.add_option("--batch", options.batch, "images a step")->check(CLI::Range(1, 4096))->capture_default_str();
  app.add_option("--lr", options.learning_rate, "learning rate of the first epoch")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
  app.add_option("--momentum", options.momentum, "how much of the last step goes into the next")
      ->check(CLI::Range(0.0, 1.0))
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of the first weights, the order and the drawn digits")->capture_default_str();
  app.add_option("--train", options.train_count, "training digits to use or draw (default: all, or 8000 drawn)")
      ->check(CLI::Range(1, 10000000));
  app.add_option("--test", options.test_count, "test digits to use or draw (default: all, or 2000 drawn)")
      ->check(CLI::Range(1, 10000000));
  app.add_option("--math", options.math,
                 "tensor: float data on the tensor cores (TF32); half: half-precision data on the tensor cores, and "
                 "float parameters")
      ->check(CLI::IsMember({"default", "tensor", "half"}))
      ->capture_default_str();
  app.add_option("--loss-scale", options.loss_scale, "first factor of the gradients of --math half; it adapts")
      ->check(CLI::Range(1.0, 1e30))
      ->capture_default_str();
  app.add_option("--save", options.save, "write the trained weights to this file")->type_name("FILE");
  app.add_option("--load", options.load, "begin with the weights of this file")->type_name("FILE");
  app.add_option("--classify", options.classify,
                 std::string("read the digit in this PNG or PGM with the weights of --load (default: ") +
                     kDefaultWeights + "), and do nothing else")
      ->type_name("FILE");
  app.add_option("--errors", options.errors, "write a PNG of the wrongly read test digits to this file")
      ->type_name("FILE");
  app.add_option("--curve", options.curve, "write the loss of each step to this table")->type_name("FILE");
  app.add_option("--min-accuracy", options.min_accuracy, "exit with 1 where the test gives less, in percent (1 to 100)")
      ->check(CLI::Range(1.0, 100.0));
}

void train(Network& network, const DigitSet& digits, int epochs, const Options& options, Curve* curve) {
  const size_t batch_size = static_cast<size_t>(network.batch());
  if (epochs > 0 && digits.size() < batch_size) {
    throw std::runtime_error("--batch " + std::to_string(batch_size) + " is more than the " +
                             std::to_string(digits.size()) + " training digits");
  }
  // Every step has a full batch; what is left over at an epoch's end differs from epoch to epoch.
  const size_t used = digits.size() / batch_size * batch_size;
  std::vector<int> order(digits.size());
  std::iota(order.begin(), order.end(), 0);
  Random random(options.seed);
  float learning_rate = options.learning_rate;
  for (int epoch = 1; epoch <= epochs; ++epoch, learning_rate *= kLearningRateDecay) {
    shuffle(order, random);
    Progress progress("epoch " + std::to_string(epoch) + "/" + std::to_string(epochs), "images");
    double loss_sum = 0;
    for (size_t done = 0; done < used;) {
      const DigitBatch batch = gather(digits, order, done, batch_size);
      const std::span<const float> probabilities = network.forward(batch.pixels);
      const double loss = cross_entropy(probabilities, batch.labels);
      network.learn(batch.labels, learning_rate, options.momentum);
      done += batch_size;
      loss_sum += loss;
      curve->add(static_cast<size_t>(epoch - 1) * used + done, loss / static_cast<double>(batch_size));
      progress.show(done, used, loss_sum / static_cast<double>(done));
    }
  }
}

std::vector<WrongDigit> test(Network& network, const DigitSet& digits) {
  const size_t batch_size = static_cast<size_t>(network.batch());
  std::vector<int> order(digits.size());
  std::iota(order.begin(), order.end(), 0);
  std::vector<WrongDigit> wrong;
  for (size_t first = 0; first < digits.size(); first += batch_size) {
    const DigitBatch batch = gather(digits, order, first, batch_size);
    const std::span<const float> probabilities = network.forward(batch.pixels);
    for (size_t i = 0; i < batch.labels.size(); ++i) {
      const int guess = argmax(probabilities.subspan(i * kClasses, kClasses));
      if (guess == batch.labels[i]) continue;
      const std::span<const uint8_t> image = digits.image(first + i);
      wrong.push_back({{image.begin(), image.end()}, batch.labels[i], guess});
    }
  }
  return wrong;
}

void classify(const gpudnn::Handle& handle, Precision precision, const Options& options) {
  const std::string weights = options.load.empty() ? kDefaultWeights : options.load;
  if (options.load.empty() && !std::filesystem::exists(weights)) {
    throw std::runtime_error(std::string("there are no weights to classify with: train first with --save ") +
                             kDefaultWeights + ", or name a weights file by --load");
  }
  std::vector<std::string> notes;
  const std::vector<uint8_t> digit = normalize_digit(read_gray_image(options.classify), notes);
  for (const std::string& note : notes) std::printf("%s: %s\n", options.classify.c_str(), note.c_str());

  Network network(handle, 1, precision);
  network.set_parameters(read_weights(weights));
  const std::span<const float> probabilities = network.forward(digit);
  for (size_t i = 0; i < kClasses; ++i) {
    const int length = static_cast<int>(std::lround(40 * probabilities[i]));
    std::printf("  %zu %6.2f%% %s\n", i, 100 * probabilities[i], std::string(static_cast<size_t>(length), '#').c_str());
  }
  std::printf("%s shows a %d\n", options.classify.c_str(), argmax(probabilities));
}

TrainTestData load_data(const Options& options) {
  if (options.data.empty()) {
    const int train_count = options.train_count.value_or(8000), test_count = options.test_count.value_or(2000);
    std::printf("no --data: drawing %d + %d digits\n", train_count, test_count);
    return draw_digits(static_cast<size_t>(train_count), static_cast<size_t>(test_count), options.seed);
  }
  TrainTestData data = read_mnist(options.data);
  const auto limit = [](DigitSet& digits, std::optional<int> count) {
    if (!count || static_cast<size_t>(*count) >= digits.size()) return;
    digits.labels.resize(static_cast<size_t>(*count));
    digits.pixels.resize(static_cast<size_t>(*count) * kImagePixels);
  };
  limit(data.train, options.train_count);
  limit(data.test, options.test_count);
  return data;
}

// Better before the training than after it.
void check_writable(const std::string& file) {
  if (file.empty()) return;
  const std::filesystem::path directory = std::filesystem::absolute(file).parent_path();
  if (!std::filesystem::is_directory(directory)) {
    throw std::runtime_error(file + ": cannot be written, there is no directory " + directory.string());
  }
  if (std::filesystem::is_directory(file) || access(directory.c_str(), W_OK) != 0) {
    throw std::runtime_error(file + ": cannot be written, it is a directory or its directory is not writable");
  }
}

int run(const Options& options) {
  if (options.device == "host") setenv("GPUDNN_BACKEND", "host", 1);
  const gpudnn::Handle handle;
  const bool on_host = handle.is_host();
  if (on_host && options.device == "gpu") {
    throw std::runtime_error(
        "--device gpu: the library found no GPU to work on (or GPUDNN_BACKEND=host is set); "
        "--device auto would use the CPU");
  }
  Precision precision = precision_of(options.math);
  precision.first_loss_scale = options.loss_scale;
  std::printf("computing on the %s\n", on_host ? "CPU (host backend)" : "GPU (CUDA backend)");
  if (!options.classify.empty()) {
    classify(handle, precision, options);
    return 0;
  }

  check_writable(options.save);
  check_writable(options.errors);
  Network network(handle, options.batch, precision);
  if (options.load.empty()) {
    network.randomize(options.seed);
  } else {
    network.set_parameters(read_weights(options.load));
  }
  const TrainTestData data = load_data(options);
  const int epochs = options.epochs.value_or(options.load.empty() ? 8 : 0);
  std::printf("%zu digits to train, %zu to test, %zu parameters\n", data.train.size(), data.test.size(),
              parameter_count());
  Curve curve(options.curve, "images");
  train(network, data.train, epochs, options, &curve);
  if (options.math == "half" && epochs > 0) {
    std::printf("loss scale %.0f at the end, %d steps skipped on the way\n", network.loss_scale().value(),
                network.loss_scale().skipped());
  }

  std::vector<WrongDigit> wrong = test(network, data.test);
  const size_t total = data.test.size();
  const double accuracy = 100.0 * static_cast<double>(total - wrong.size()) / static_cast<double>(total);
  char result[80];
  std::snprintf(result, sizeof result, "test accuracy %.2f%% (%zu of %zu wrong)", accuracy, wrong.size(), total);
  std::printf("%s\n", result);
  curve.close(result);

  if (!options.save.empty()) {
    write_weights(options.save, network.parameters());
    std::printf("weights written to %s\n", options.save.c_str());
  }
  if (!options.errors.empty()) {
    const size_t wrong_count = wrong.size();
    wrong.resize(std::min(wrong_count, kSheetLimit));
    write_contact_sheet(options.errors, wrong);
    std::printf("%zu of %zu wrong digits drawn in %s\n", wrong.size(), wrong_count, options.errors.c_str());
  }
  if (options.min_accuracy && accuracy < *options.min_accuracy) {
    std::fprintf(stderr, "the accuracy of %.2f%% is below the wanted %.2f%%\n", accuracy, *options.min_accuracy);
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_with_options<Options>(
      argc, argv, "Trains a LeNet-5-style network on handwritten digits, tests it, and reads digits with it.",
      declare_options, run);
}
