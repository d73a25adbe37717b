// Reading MNIST's files.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>

#include "common/digits.hpp"

// Reads train-* and t10k-* (images-idx3-ubyte and labels-idx1-ubyte, gzipped or not) from `directory`. Where only one
// of the two sets is there, its first four fifths train and the rest tests. Throws std::runtime_error with the file,
// what was expected and what was found.
TrainTestData read_mnist(const std::filesystem::path& directory);
