// Images with their classes, for training and for validation: read from folders, or drawn.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

struct ImageSet {
  int size = 0;                 // of each image: size x size
  std::vector<uint8_t> pixels;  // red, green, blue; image by image, row by row
  std::vector<int> labels;      // each an index into the classes
  size_t count() const { return labels.size(); }
  size_t bytes_each() const { return static_cast<size_t>(size) * static_cast<size_t>(size) * 3; }
};

struct Images {
  std::vector<std::string> classes;
  ImageSet train, validate;
};

// A folder with a folder for each class, which holds its pictures; or one with such folders in `train` and `val`. In
// the former case every fifth picture of a class validates. Throws std::runtime_error where there is too little.
Images read_folder(const std::filesystem::path& folder, int size);

// Discs, rings, squares, triangles, crosses and stripes of random light colour, size, place and turn, on a dark, noisy
// ground.
Images draw_shapes(int train_count, int validate_count, int size, uint64_t seed);
