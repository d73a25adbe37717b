// The digit reader: lines of digits, the CTC loss, and reading.
// SPDX-License-Identifier: Apache-2.0
#include "digit_reader.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>
#include <vector>

#include "common/curve.hpp"
#include "common/digits.hpp"
#include "common/progress.hpp"
#include "common/random.hpp"
#include "sequence_network.hpp"

namespace {

constexpr int kMostDigits = 4;
// The network looks through a window of 28x28 pixels, in which 2x2 pixels are one, and moves it on by 7 pixels a step.
constexpr int kStride = 7;
constexpr int kInputs = kImagePixels / 4;
constexpr int kFrames = (kMostDigits - 1) * kImageSize / kStride + 1;
// What it tells at each step: nothing (the blank, 0 for the library), or digit + 1.
constexpr int kLabels = kClasses + 1;

// Lines side by side, as the network and the loss take them.
struct Lines {
  std::vector<float> frames;  // kFrames x lines x kInputs
  std::vector<int> lengths;   // frames of each line
  std::vector<int> labels;    // of all lines, one after the other
  std::vector<int> label_counts;
};

// Writes one to four of the digits on a line, 20 to 28 pixels from one to the next, and cuts it into frames.
void write_line(const DigitSet& digits, Random& random, size_t line, Lines* lines) {
  constexpr int kWidth = kMostDigits * kImageSize;
  std::vector<uint8_t> picture(size_t{kImageSize} * kWidth);
  const int count = 1 + static_cast<int>(random() % kMostDigits);
  int left = 0;
  for (int i = 0; i < count; ++i) {
    const size_t index = random() % digits.size();
    const std::span<const uint8_t> image = digits.image(index);
    for (int y = 0; y < kImageSize; ++y) {
      for (int x = 0; x < kImageSize; ++x) {
        uint8_t& pixel = picture[static_cast<size_t>(y * kWidth + left + x)];
        pixel = std::max(pixel, image[static_cast<size_t>(y * kImageSize + x)]);
      }
    }
    lines->labels.push_back(digits.labels[index] + 1);
    if (i + 1 < count) left += 20 + static_cast<int>(random() % 9);
  }
  lines->label_counts.push_back(count);
  const int frames = (left + kStride - 1) / kStride + 1;
  lines->lengths.push_back(frames);
  const size_t batch = lines->frames.size() / (size_t{kFrames} * kInputs);
  for (int t = 0; t < frames; ++t) {
    float* frame = lines->frames.data() + (static_cast<size_t>(t) * batch + line) * kInputs;
    for (int y = 0; y < kImageSize; ++y) {
      for (int x = 0; x < kImageSize && t * kStride + x < kWidth; ++x) {
        frame[y / 2 * (kImageSize / 2) + x / 2] += picture[static_cast<size_t>(y * kWidth + t * kStride + x)] / 1020.0f;
      }
    }
  }
}

Lines write_lines(const DigitSet& digits, int count, Random& random) {
  Lines lines;
  lines.frames.resize(size_t{kFrames} * static_cast<size_t>(count) * kInputs);
  for (int i = 0; i < count; ++i) write_line(digits, random, static_cast<size_t>(i), &lines);
  return lines;
}

// The CTC loss: -log of the probability of all ways to say the line's digits in its frames, with each digit told for
// any number of frames and blanks between. The library puts the scores through a softmax itself.
class CtcLoss {
 public:
  CtcLoss(const gpudnn::Handle& handle, int batch)
      : handle_(handle),
        layout_(GPUDNN_DATA_FLOAT, {kFrames, batch, kLabels}),
        costs_(handle, sizeof(float) * static_cast<size_t>(batch)) {
    gpudnn::check(gpudnnSetCTCLossDescriptor_v9(loss_, GPUDNN_DATA_FLOAT, GPUDNN_LOSS_NORMALIZATION_SOFTMAX,
                                                GPUDNN_CTC_ZERO_OOB_GRADIENTS, kMostDigits));
  }

  // Returns the mean of the batch, and fills in the gradient of the mean by the scores.
  double operator()(const gpudnn::Buffer& logits, const Lines& lines, const gpudnn::Buffer& gradient) {
    size_t bytes = 0;
    gpudnn::check(gpudnnGetCTCLossWorkspaceSize(handle_, layout_, layout_, lines.labels.data(),
                                                lines.label_counts.data(), lines.lengths.data(),
                                                GPUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss_, &bytes));
    if (bytes > workspace_.bytes()) workspace_ = gpudnn::Buffer(handle_, bytes);
    gpudnn::check(gpudnnCTCLoss(handle_, layout_, logits.get(), lines.labels.data(), lines.label_counts.data(),
                                lines.lengths.data(), costs_.get(), layout_, gradient.get(),
                                GPUDNN_CTC_LOSS_ALGO_DETERMINISTIC, loss_, workspace_.get(), workspace_.bytes()));
    const std::vector<float> costs = costs_.download<float>();
    const float share = 1 / static_cast<float>(costs.size());
    gpudnn::check(gpudnnScaleTensor(handle_, layout_, gradient.get(), &share));
    return std::accumulate(costs.begin(), costs.end(), 0.0) * share;
  }

 private:
  const gpudnn::Handle& handle_;
  gpudnn::CtcLossDescriptor loss_;
  gpudnn::TensorDescriptor layout_;
  gpudnn::Buffer costs_, workspace_;
};

// What the scores say of one line: the best label of each frame, told once however long it lasts, without the blanks.
std::string best_reading(const std::vector<float>& logits, const Lines& lines, size_t line) {
  std::string read;
  int before = 0;
  for (int t = 0; t < lines.lengths[line]; ++t) {
    const float* scores = logits.data() + (static_cast<size_t>(t) * lines.lengths.size() + line) * kLabels;
    const int label = static_cast<int>(std::max_element(scores, scores + kLabels) - scores);
    if (label != before && label != 0) read += static_cast<char>('0' + label - 1);
    before = label;
  }
  return read;
}

// Reads `options.test` lines and returns how many without a mistake; shows the first few.
int test(SequenceNetwork& network, const DigitSet& digits, const DigitOptions& options) {
  Random random(options.seed + 1);
  int right = 0, done = 0;
  while (done < options.test) {
    const Lines lines = write_lines(digits, options.batch, random);
    network.forget();
    network.forward(lines.frames, lines.lengths);
    const std::vector<float> logits = network.logits().download<float>();
    size_t label = 0;
    for (size_t line = 0; line < lines.lengths.size() && done < options.test; ++line, ++done) {
      std::string written;
      for (int i = 0; i < lines.label_counts[line]; ++i) written += static_cast<char>('0' + lines.labels[label++] - 1);
      const std::string read = best_reading(logits, lines, line);
      right += read == written ? 1 : 0;
      if (done < 5) std::printf("  written %-4s  read %s\n", written.c_str(), read.c_str());
    }
  }
  return right;
}

}  // namespace

double read_digits(const gpudnn::Handle& handle, const DigitOptions& options) {
  const TrainTestData data = draw_digits(4000, 1000, options.seed);
  SequenceNetwork network(handle, {kInputs, options.hidden, 1, kLabels, true}, kFrames, options.batch);
  network.randomize(options.seed);
  CtcLoss loss(handle, options.batch);
  Random random(options.seed);

  Progress progress("training", "lines", 10);
  Curve curve(options.curve, "lines");
  double recent = 0;
  for (int i = 0; i < options.iterations; ++i) {
    const Lines lines = write_lines(data.train, options.batch, random);
    network.forget();
    network.forward(lines.frames, lines.lengths);
    const double now = loss(network.logits(), lines, network.logit_gradient());
    if (!std::isfinite(now)) throw std::runtime_error("the training diverged: try a smaller --rate");
    network.learn(options.rate * (1 - 0.9 * i / options.iterations));
    recent = i == 0 ? now : 0.95 * recent + 0.05 * now;
    curve.add(static_cast<size_t>(i + 1) * options.batch, now);
    progress.show(static_cast<size_t>(i + 1) * options.batch, static_cast<size_t>(options.iterations) * options.batch,
                  recent);
  }

  const int right = test(network, data.test, options);
  const double accuracy = 100.0 * right / options.test;
  char result[80];
  std::snprintf(result, sizeof result, "%d of %d lines read without a mistake: %.1f%%", right, options.test, accuracy);
  std::printf("%s\n", result);
  curve.close(result);
  return accuracy;
}
