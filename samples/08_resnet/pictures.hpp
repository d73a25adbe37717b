// Colour pictures: reading and writing files, and bringing them to one size. PNG needs libpng and JPEG libjpeg when the
// sample is built (GPUDNN_SAMPLE_PNG, GPUDNN_SAMPLE_JPEG); PPM and PGM are always there.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

struct Picture {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;  // red, green, blue; row by row
};

// Whether a file is of a kind that can be read here, by the ending of its name.
bool is_picture(const std::filesystem::path& file);

// Throws std::runtime_error with the file and what is wrong.
Picture read_picture(const std::filesystem::path& file);

// A PNG where the name ends in .png and libpng is there, else a PPM.
void write_picture(const std::filesystem::path& file, const Picture& picture);

// The middle square of a picture, scaled to size x size by the mean of what each pixel covers.
std::vector<uint8_t> square_of(const Picture& picture, int size);
