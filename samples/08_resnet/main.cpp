// Trains a ResNet-18 on folders of images, a folder for each class, or on shapes that it draws; through the C
// interface, on a GPU or a CPU. This file is the flow: options, training, validation, checkpoints.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>

#include "checkpoint.hpp"
#include "common/command_line.hpp"
#include "common/curve.hpp"
#include "common/progress.hpp"
#include "common/random.hpp"
#include "image_set.hpp"
#include "pictures.hpp"
#include "resnet.hpp"

namespace {

struct Options {
  std::string data, checkpoint, picture, curve;
  std::string device = "auto";
  std::string math = "default";
  bool resume = false;
  int epochs = 6;
  std::optional<int> stop;
  int batch = 16;
  int size = 24;
  int width = 16;
  double rate = 0.1;
  int train_count = 800, validate_count = 200;
  uint64_t seed = 1;
  std::optional<double> min_accuracy;
};

void declare_options(CLI::App& app, Options& o) {
  const auto number = [&](const char* name, auto& value, double low, double high, const char* meaning) {
    app.add_option(name, value, meaning)->check(CLI::Range(low, high))->capture_default_str();
  };
  app.add_option("--data", o.data, "folder with a folder of pictures for each class (default: drawn shapes)")
      ->type_name("DIR");
  app.add_option("--device", o.device, "auto: the GPU if there is one, else the CPU")
      ->check(CLI::IsMember({"auto", "gpu", "host"}))
      ->capture_default_str();
  app.add_option("--math", o.math,
                 "tensor: float data on the tensor cores (TF32); half: half-precision data on the tensor cores, with "
                 "float parameters and a loss scale")
      ->check(CLI::IsMember({"default", "tensor", "half"}))
      ->capture_default_str();
  number("--epochs", o.epochs, 1, 100000, "passes over the training images");
  app.add_option("--stop", o.stop, "end after this epoch, to go on with --resume another day")
      ->check(CLI::Range(1, 100000));
  number("--batch", o.batch, 2, 4096, "images a step");
  number("--size", o.size, 8, 1024, "height and width that images are brought to; from 96 on halved twice at once");
  number("--width", o.width, 1, 512, "channels of the first stage; 64 is ResNet-18 as published");
  number("--rate", o.rate, 0, 10, "learning rate of the first step; it falls along a cosine to 0");
  number("--train", o.train_count, 2, 1e7, "shapes to draw for the training");
  number("--validate", o.validate_count, 1, 1e7, "shapes to draw for the validation");
  app.add_option("--seed", o.seed, "of the first weights, the order and the shapes")->capture_default_str();
  app.add_option("--checkpoint", o.checkpoint, "file that takes the training's state after each epoch")
      ->type_name("FILE");
  app.add_flag("--resume", o.resume, "go on from the file of --checkpoint");
  app.add_option("--picture", o.picture, "write a picture of the validation: images by class, framed green if right")
      ->type_name("FILE");
  app.add_option("--curve", o.curve, "write the loss of each step to this table")->type_name("FILE");
  app.add_option("--min-accuracy", o.min_accuracy, "exit with 1 where the validation ends with less, in percent")
      ->check(CLI::Range(1.0, 100.0));
}

struct Batch {
  std::vector<uint8_t> pixels;
  std::vector<int> labels;
};

// Image `index` of a set: as it is, or moved by up to an eighth and mirrored by chance (`random` given).
void add_image(const ImageSet& set, size_t index, Random* random, Batch* batch) {
  const int size = set.size, reach = random == nullptr ? 0 : size / 8;
  const auto shift = [&] {
    return reach == 0 ? 0 : static_cast<int>((*random)() % static_cast<uint64_t>(2 * reach + 1)) - reach;
  };
  const int dx = shift(), dy = shift();
  const bool mirrored = random != nullptr && chance(*random, 0.5);
  const uint8_t* const image = set.pixels.data() + index * set.bytes_each();
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      const int u = std::clamp((mirrored ? size - 1 - x : x) + dx, 0, size - 1), v = std::clamp(y + dy, 0, size - 1);
      const uint8_t* const pixel = image + (v * size + u) * 3;
      batch->pixels.insert(batch->pixels.end(), pixel, pixel + 3);
    }
  }
  batch->labels.push_back(set.labels[index]);
}

// One pass over the training images, in an order of the epoch's own.
void train_epoch(ResNet& network, const Images& images, int epoch, const Options& options, Curve* curve) {
  const auto batch_size = static_cast<size_t>(options.batch), classes = images.classes.size();
  const size_t steps = images.train.count() / batch_size;
  std::vector<int> order(images.train.count());
  std::iota(order.begin(), order.end(), 0);
  Random random(options.seed + 1000003 * static_cast<uint64_t>(epoch));
  shuffle(order, random);
  Progress progress("epoch " + std::to_string(epoch) + "/" + std::to_string(options.epochs), "images");
  double loss = 0;
  for (size_t step = 0; step < steps; ++step) {
    Batch batch;
    for (size_t i = 0; i < batch_size; ++i) {
      add_image(images.train, static_cast<size_t>(order[step * batch_size + i]), &random, &batch);
    }
    const std::vector<float> probabilities = network.forward(batch.pixels, true);
    const double loss_before = loss;
    for (size_t i = 0; i < batch_size; ++i) {
      loss -= std::log(std::max(probabilities[i * classes + static_cast<size_t>(batch.labels[i])], 1e-30f));
    }
    if (!std::isfinite(loss)) throw std::runtime_error("the training diverged: try a smaller --rate");
    const double along = (epoch - 1 + static_cast<double>(step) / static_cast<double>(steps)) / options.epochs;
    network.learn(batch.labels, options.rate * (0.5 + 0.5 * std::cos(3.14159265 * along)));
    curve->add((static_cast<size_t>(epoch - 1) * steps + step + 1) * batch_size,
               (loss - loss_before) / static_cast<double>(batch_size));
    progress.show((step + 1) * batch_size, steps * batch_size, loss / static_cast<double>((step + 1) * batch_size));
  }
}

// The class that the network sees in each image. The last batch is filled up with the first image.
std::vector<int> classify(ResNet& network, const ImageSet& set, size_t classes, int batch_size) {
  std::vector<int> guesses;
  while (guesses.size() < set.count()) {
    Batch batch;
    for (size_t i = 0; i < static_cast<size_t>(batch_size); ++i) {
      add_image(set, guesses.size() + i < set.count() ? guesses.size() + i : 0, nullptr, &batch);
    }
    const std::vector<float> probabilities = network.forward(batch.pixels, false);
    for (size_t i = 0; i < static_cast<size_t>(batch_size) && guesses.size() < set.count(); ++i) {
      const auto row = probabilities.begin() + static_cast<std::ptrdiff_t>(i * classes);
      guesses.push_back(static_cast<int>(std::max_element(row, row + static_cast<std::ptrdiff_t>(classes)) - row));
    }
  }
  return guesses;
}

double accuracy(const std::vector<int>& guesses, const ImageSet& set) {
  size_t right = 0;
  for (size_t i = 0; i < guesses.size(); ++i) right += guesses[i] == set.labels[i] ? 1 : 0;
  return 100.0 * static_cast<double>(right) / static_cast<double>(guesses.size());
}

// A row for each class, with its first images side by side: those that were seen as what they are in a green frame.
Picture contact_sheet(const Images& images, const std::vector<int>& guesses) {
  constexpr int kColumns = 16, kFrame = 2, kGap = 2;
  const ImageSet& set = images.validate;
  const int cell = set.size + 2 * kFrame + kGap;
  Picture sheet{kColumns * cell + kGap, static_cast<int>(images.classes.size()) * cell + kGap, {}};
  sheet.pixels.assign(static_cast<size_t>(sheet.width * sheet.height) * 3, 32);
  std::vector<int> used(images.classes.size());
  for (size_t i = 0; i < set.count(); ++i) {
    const int column = used[static_cast<size_t>(set.labels[i])]++;
    if (column >= kColumns) continue;
    const bool right = guesses[i] == set.labels[i];
    const uint8_t frame[3] = {static_cast<uint8_t>(right ? 40 : 230), static_cast<uint8_t>(right ? 200 : 40), 40};
    for (int y = 0; y < set.size + 2 * kFrame; ++y) {
      for (int x = 0; x < set.size + 2 * kFrame; ++x) {
        const int u = x - kFrame, v = y - kFrame;
        const bool inside = u >= 0 && u < set.size && v >= 0 && v < set.size;
        const uint8_t* from = inside ? set.pixels.data() + i * set.bytes_each() + (v * set.size + u) * 3 : frame;
        const int at = ((kGap + set.labels[i] * cell + y) * sheet.width + kGap + column * cell + x) * 3;
        std::copy_n(from, 3, sheet.pixels.begin() + at);
      }
    }
  }
  return sheet;
}

// Sets the network to where a checkpoint left it; returns the epochs that are done.
int resume(ResNet& network, const Images& images, const Options& options) {
  const Checkpoint c = read_checkpoint(options.checkpoint);
  if (c.size != static_cast<uint32_t>(options.size) || c.width != static_cast<uint32_t>(options.width) ||
      c.classes != images.classes) {
    throw std::runtime_error(options.checkpoint + ": is of another network: --size " + std::to_string(c.size) +
                             ", --width " + std::to_string(c.width) + " and " + std::to_string(c.classes.size()) +
                             " classes");
  }
  network.set_state(c.state);
  network.loss_scale().set_state({c.loss_scale, static_cast<int>(c.loss_scale_steps)});
  return static_cast<int>(c.epochs_done);
}

int run(const Options& options) {
  if (options.resume && options.checkpoint.empty()) throw std::runtime_error("--resume needs --checkpoint FILE");
  if (options.device == "host") setenv("GPUDNN_BACKEND", "host", 1);
  const gpudnn::Handle handle;
  if (handle.is_host() && options.device == "gpu") {
    throw std::runtime_error("--device gpu: the library found no GPU to work on (or GPUDNN_BACKEND=host is set)");
  }
  std::printf("computing on the %s\n", handle.is_host() ? "CPU (host backend)" : "GPU (CUDA backend)");
  const Images images = options.data.empty()
                            ? draw_shapes(options.train_count, options.validate_count, options.size, options.seed)
                            : read_folder(options.data, options.size);
  if (images.train.count() < static_cast<size_t>(options.batch)) {
    throw std::runtime_error("--batch " + std::to_string(options.batch) + " is more than the " +
                             std::to_string(images.train.count()) + " images to train");
  }
  std::printf("%zu images to train, %zu to validate, of %zu classes\n", images.train.count(), images.validate.count(),
              images.classes.size());

  ResNetSpec spec{options.size, options.width, static_cast<int>(images.classes.size())};
  if (options.math != "default") spec.math = GPUDNN_TENSOR_OP_MATH;
  if (options.math == "half") spec.type = GPUDNN_DATA_HALF;
  ResNet network(handle, spec, options.batch);
  network.randomize(options.seed);
  int epoch = options.resume ? resume(network, images, options) : 0;
  if (epoch > 0) std::printf("going on after epoch %d\n", epoch);

  const int last = std::min(options.epochs, options.stop.value_or(options.epochs));
  Curve curve(options.curve, "images");
  while (epoch < last) {
    train_epoch(network, images, ++epoch, options, &curve);
    if (!options.checkpoint.empty()) {
      const LossScale::State scale = network.loss_scale().state();
      write_checkpoint(options.checkpoint, {static_cast<uint32_t>(options.size), static_cast<uint32_t>(options.width),
                                            static_cast<uint32_t>(epoch), scale.value,
                                            static_cast<uint32_t>(scale.steps), images.classes, network.state()});
    }
  }
  if (options.math == "half") {
    std::printf("loss scale %.0f at the end, %d steps skipped\n", static_cast<double>(network.loss_scale().value()),
                network.loss_scale().skipped());
  }

  const std::vector<int> guesses = classify(network, images.validate, images.classes.size(), options.batch);
  const double percent = accuracy(guesses, images.validate);
  char result[80];
  std::snprintf(result, sizeof result, "validation accuracy %.2f%%", percent);
  std::printf("%s\n", result);
  curve.close(result);
  if (!options.picture.empty()) {
    write_picture(options.picture, contact_sheet(images, guesses));
    std::printf("validation images drawn in %s, a row each for:", options.picture.c_str());
    for (const std::string& name : images.classes) std::printf(" %s", name.c_str());
    std::printf("\n");
  }
  return options.min_accuracy && percent < *options.min_accuracy ? 1 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  return run_with_options<Options>(argc, argv, "Trains a ResNet-18 on folders of images, or on drawn shapes.",
                                   declare_options, run);
}
