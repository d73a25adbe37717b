// What the calls around a recurrent network's kernels cost a framework that makes them anew for each module.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api_table.hpp"

namespace gpudnn::bench {

// Prints one line; false, with the reason on stderr, where a call fails. The library has its handle.
[[nodiscard]] bool print_module_cost(const Library& library);

}  // namespace gpudnn::bench
