// The measured table that is built into the library.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/tuned_file.hpp"

namespace gpudnn::conv {

extern const char kTunedSm90[];  // src/ops/conv/tuned_sm90.txt; the build makes a string of it

const TunedRows* tuned_table(const Device& device) {
  if (device.backend == GPUDNN_BACKEND_HOST) return nullptr;
  // By class of device. A few microseconds a row, so it is read where time does not count: see warm_up_queries().
  static const auto* const tables = [] {
    const TunedFile file{std::string_view(kTunedSm90)};
    auto* const made = new std::map<std::string, TunedRows>;
    for (const std::string& name : file.devices()) made->emplace(name, file.rows_of(name));
    return made;
  }();
  const auto found = tables->find(device_class(device));
  return found == tables->end() ? nullptr : &found->second;
}

}  // namespace gpudnn::conv
