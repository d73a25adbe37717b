// The measured table that is built into the library.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "ops/conv/tuned_file.hpp"

namespace gpudnn::conv {

extern const char kTunedSm90[];  // src/ops/conv/tuned_sm90.txt; the build makes a string of it

const TunedRows* tuned_table(const Device& device) {
  if (device.backend == GPUDNN_BACKEND_HOST) return nullptr;
  struct Table {
    int compute_capability = 0;
    int multiprocessors = 0;
    TunedRows rows;
  };
  // By class of device. A few microseconds a row, so it is read where time does not count: see warm_up_queries().
  static const auto* const tables = [] {
    const TunedFile file{std::string_view(kTunedSm90)};
    auto* const made = new std::vector<Table>;
    for (const std::string& name : file.devices()) {
      Table table;
      if (std::sscanf(name.c_str(), "sm_%d %d", &table.compute_capability, &table.multiprocessors) != 2) continue;
      table.rows = file.rows_of(name);
      made->push_back(std::move(table));
    }
    return made;
  }();
  for (const Table& table : *tables) {
    if (table.compute_capability == device.compute_capability() && table.multiprocessors == device.multiprocessors) {
      return &table.rows;
    }
  }
  return nullptr;
}

}  // namespace gpudnn::conv
