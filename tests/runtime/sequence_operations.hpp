// Recurrent networks and multi-head attention, for every_operation.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "runtime/every_operation.hpp"

namespace gpudnn::test {

void add_sequence_operations(const Backend& backend, std::vector<PreparedCall>* calls);

}  // namespace gpudnn::test
