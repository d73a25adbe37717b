// Devices known by name alone: plans are made for them on any machine, and never launched.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/device.hpp"

namespace gpudnn {

// "h200", "h100" or "host"; null for any other name. Stays valid for ever.
[[nodiscard]] const Device* described_device(std::string_view name);
[[nodiscard]] std::vector<std::string> described_device_names();

}  // namespace gpudnn
