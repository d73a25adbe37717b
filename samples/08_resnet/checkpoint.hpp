// A training's state in a file, to go on from later. Numbers are little-endian.
//
//   8 bytes   "GDNNRESN"
//   u32       version of the format, 1; size, width; epochs that are done
//   f32, u32  loss scale, and the steps since it changed
//   u32       number of classes; for each the length of its name, and its bytes
//   u64       count of floats; the floats of ResNet::state()
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

struct Checkpoint {
  uint32_t size = 0, width = 0, epochs_done = 0;
  float loss_scale = 1;
  uint32_t loss_scale_steps = 0;
  std::vector<std::string> classes;
  std::vector<float> state;
};

// Both throw std::runtime_error with the file and what is wrong. An older file is replaced only by a whole one.
void write_checkpoint(const std::filesystem::path& file, const Checkpoint& checkpoint);
Checkpoint read_checkpoint(const std::filesystem::path& file);
