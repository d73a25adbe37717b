// Dropout, the spatial transformer and the CTC loss, for every_operation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/every_operation.hpp"

namespace gpudnn::test {

void add_more_operations(const Backend& backend, std::vector<PreparedCall>* calls);

// Forward or backward of a dropout problem. Forward without starting the states draws another mask at each call; the
// first one is what is expected.
[[nodiscard]] PreparedCall dropout_call(const Backend& backend, const std::string& line, bool starts_states);

}  // namespace gpudnn::test
