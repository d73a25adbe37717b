// The file that keeps a trained network.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <span>
#include <vector>

// Both throw std::runtime_error with the file, what was expected and what was found.
void write_weights(const std::filesystem::path& file, std::span<const float> parameters);
std::vector<float> read_weights(const std::filesystem::path& file);
