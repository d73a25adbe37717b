// Labelled 28x28 digits: read from MNIST's files, or drawn by the program itself.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

struct DigitSet {
  std::vector<uint8_t> pixels;  // 28x28 bytes an image, 0 = background
  std::vector<uint8_t> labels;  // 0 to 9
  size_t size() const { return labels.size(); }
  std::span<const uint8_t> image(size_t index) const;
};

struct TrainTestData {
  DigitSet train;
  DigitSet test;
};

// Reads train-* and t10k-* (images-idx3-ubyte and labels-idx1-ubyte, gzipped or not) from `directory`. Where only one
// of the two sets is there, its first four fifths train and the rest tests. Throws std::runtime_error with the file,
// what was expected and what was found.
TrainTestData read_mnist(const std::filesystem::path& directory);

// Draws strokes with random slant, size, thickness, wobble, blur and noise. The same seed gives the same digits.
TrainTestData draw_digits(size_t train_count, size_t test_count, uint64_t seed);
