// Labelled pictures of digits, 28x28 gray bytes as MNIST has them, and a way to draw them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

constexpr int kImageSize = 28;
constexpr int kImagePixels = kImageSize * kImageSize;
constexpr int kClasses = 10;

struct DigitSet {
  std::vector<uint8_t> pixels;  // 28x28 bytes an image, 0 = background
  std::vector<uint8_t> labels;  // 0 to 9
  size_t size() const { return labels.size(); }
  std::span<const uint8_t> image(size_t index) const {
    return std::span(pixels).subspan(index * kImagePixels, kImagePixels);
  }
};

// Some digits as a network takes them.
struct DigitBatch {
  std::vector<uint8_t> pixels, labels;
};
// The digits order[first], order[first + 1], ...; past the end of `order` it is background.
inline DigitBatch gather(const DigitSet& digits, const std::vector<int>& order, size_t first, size_t size) {
  DigitBatch batch;
  for (size_t i = first; i < std::min(first + size, order.size()); ++i) {
    const std::span<const uint8_t> image = digits.image(static_cast<size_t>(order[i]));
    batch.pixels.insert(batch.pixels.end(), image.begin(), image.end());
    batch.labels.push_back(digits.labels[static_cast<size_t>(order[i])]);
  }
  batch.pixels.resize(size * kImagePixels, 0);
  return batch;
}

// The class that has the greatest of some numbers.
inline int argmax(std::span<const float> values) {
  return static_cast<int>(std::max_element(values.begin(), values.end()) - values.begin());
}

// The sum of the cross-entropies of rows of kClasses probabilities against the right classes.
inline double cross_entropy(std::span<const float> probabilities, std::span<const uint8_t> labels) {
  double sum = 0;
  for (size_t i = 0; i < labels.size(); ++i) sum -= std::log(std::max(probabilities[i * kClasses + labels[i]], 1e-30f));
  if (!std::isfinite(sum)) {
    throw std::runtime_error("the training diverged (the loss is not a number): try a smaller --lr");
  }
  return sum;
}

struct TrainTestData {
  DigitSet train;
  DigitSet test;
};

// Draws strokes with random slant, size, thickness, wobble, blur and noise. The same seed gives the same digits.
TrainTestData draw_digits(size_t train_count, size_t test_count, uint64_t seed);
