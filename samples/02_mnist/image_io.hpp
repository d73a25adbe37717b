// Pictures of digits: reading one to classify, and the contact sheet of the wrongly classified.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

struct GrayImage {
  int width = 0, height = 0;
  std::vector<uint8_t> pixels;  // row by row, 0 = black
};

// Reads a PNG (any colour type) or a PGM (P2 or P5). Throws std::runtime_error with the file and what is wrong.
GrayImage read_gray_image(const std::filesystem::path& file);

// Makes a picture look like MNIST's: 28x28 bytes, light ink on a dark ground. A dark-on-light picture is inverted; one
// of another size is cut to its ink, scaled into 20x20 and centred by its mass. `notes` receives a line for each of
// these.
std::vector<uint8_t> normalize_digit(const GrayImage& image, std::vector<std::string>& notes);

struct WrongDigit {
  std::vector<uint8_t> pixels;  // 28x28
  int label = 0;
  int guess = 0;
};

// Writes a PNG of all the digits in rows, under each "label->guess".
void write_contact_sheet(const std::filesystem::path& file, const std::vector<WrongDigit>& digits);
