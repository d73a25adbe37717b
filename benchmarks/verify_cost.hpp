// What the verify mode and the NaN watch cost a call while they are off.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpudnn::bench {

// Prints one line; false, with the reason on stderr, where no call can be made.
[[nodiscard]] bool print_verify_cost();

}  // namespace gpudnn::bench
