// The sample's random numbers. The standard fixes what std::mt19937_64 gives but not its distributions, so these few
// lines make a seed mean the same on every machine.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

using Random = std::mt19937_64;

inline double uniform(Random& random, double low, double high) {
  return low + (high - low) * static_cast<double>(random() >> 11) * 0x1p-53;
}

inline bool chance(Random& random, double probability) { return uniform(random, 0, 1) < probability; }

inline void shuffle(std::vector<int>& values, Random& random) {
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}
