// The answer of an entry point whose operation this version of the library does not have.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "gpudnn/graph.h"

namespace gpudnn {

// Refuses a call of `function` with NOT_SUPPORTED and the text
// "<function>: <what> are not built in this version of libgpudnn (<major>.<minor>)"; `what` is a plural noun.
// Arguments are not looked at: a caller learns that the operation is missing before anything about the call itself.
[[nodiscard]] gpudnnStatus_t not_built(const char* function, const char* what) noexcept;

}  // namespace gpudnn
