// What the tuners of convolutions and matrix products share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <random>
#include <vector>

#include "machine.hpp"

namespace gpudnn::bench {

constexpr double kFailed = std::numeric_limits<double>::infinity();
constexpr double kGoodEnough = 1.15;

// Grows the buffer where a problem needs more. Random signs and mantissas under a small exponent, whatever the type: a
// device draws less power on equal numbers, and is then faster than it will be.
inline void* grown(Machine& machine, Buffer* buffer, std::size_t bytes) {
  if (buffer->bytes() >= bytes) return buffer->get();
  *buffer = {};
  *buffer = Buffer(machine, bytes);
  static const std::vector<std::uint16_t> pattern = [] {
    std::vector<std::uint16_t> words(std::size_t{8} << 20);
    std::mt19937 random(1);
    for (std::uint16_t& word : words) word = static_cast<std::uint16_t>(0x3c00u | (random() & 0x83ffu));
    return words;
  }();
  const std::size_t chunk = pattern.size() * sizeof pattern[0];
  for (std::size_t at = 0; at < bytes; at += chunk) {
    machine.upload(static_cast<char*>(buffer->get()) + at, pattern.data(), std::min(chunk, bytes - at));
  }
  return buffer->get();
}

// The ratios of one kind of first choice to the best, over all problems.
struct Ratios {
  std::vector<double> values;

  void summarize(const char* label) const {
    if (values.empty()) return;
    double logs = 0;
    for (const double value : values) logs += std::log(value);
    const auto good = std::count_if(values.begin(), values.end(), [](double value) { return value <= kGoodEnough; });
    std::printf("%s: %td of %zu problems within %.2fx of the best (%.1f %%), geometric mean %.3f, worst %.2f\n", label,
                good, values.size(), kGoodEnough,
                100.0 * static_cast<double>(good) / static_cast<double>(values.size()),
                std::exp(logs / static_cast<double>(values.size())), *std::max_element(values.begin(), values.end()));
  }
};

}  // namespace gpudnn::bench
