// Labelled pictures of digits, 28x28 gray bytes as MNIST has them, and a way to draw them.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
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

struct TrainTestData {
  DigitSet train;
  DigitSet test;
};

// Draws strokes with random slant, size, thickness, wobble, blur and noise. The same seed gives the same digits.
TrainTestData draw_digits(size_t train_count, size_t test_count, uint64_t seed);
