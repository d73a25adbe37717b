// Names in GPUDNN_ENGINES that were met in no list of engines so far: most likely misspelt.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace gpudnn {

[[nodiscard]] std::vector<std::string> engine_names_not_met();

}  // namespace gpudnn
