// Devices known by name alone: plans are made for them on any machine, and never launched.
// SPDX-License-Identifier: Apache-2.0
#include "core/described_device.hpp"

namespace gpudnn {
namespace {

struct Row {
  const char* key;
  Device device;
};

// What the driver says of Hopper's large parts, which differ in their memory. No ordinal: there is none behind it.
Device hopper(const char* name, double memory_clock, double bus_bits) {
  Device device;
  device.backend = GPUDNN_BACKEND_CUDA;
  device.major = 9;
  device.multiprocessors = 132;
  device.shared_memory_per_block = 232448;
  device.shared_memory_per_multiprocessor = 233472;
  device.l2_bytes = std::size_t{50} << 20;
  device.name = name;
  device.rates = device_rates({device.name, 9, 0, device.multiprocessors, 1.98e9, memory_clock, bus_bits});
  return device;
}

const std::vector<Row>& rows() {
  static const std::vector<Row>* const table = new std::vector<Row>{
      {"h200", hopper("NVIDIA H200", 3.2e9, 6144)},
      {"h100", hopper("NVIDIA H100 80GB HBM3", 2.619e9, 5120)},
      {"host", host_device()},
  };
  return *table;
}

}  // namespace

const Device* described_device(std::string_view name) {
  for (const Row& row : rows()) {
    if (row.key == name) return &row.device;
  }
  return nullptr;
}

std::vector<std::string> described_device_names() {
  std::vector<std::string> names;
  for (const Row& row : rows()) names.emplace_back(row.key);
  return names;
}

}  // namespace gpudnn
