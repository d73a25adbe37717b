// The answer of an entry point whose operation this version of the library does not have.
// SPDX-License-Identifier: Apache-2.0
#include "core/not_built.hpp"

#include "core/error.hpp"
#include "core/guard.hpp"
#include "gpudnn/version.h"

namespace gpudnn {

gpudnnStatus_t not_built(const char* function, const char* what) noexcept {
  return guard(function, [&]() -> Status {
    return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED, "%s are not built in this version of libgpudnn (%d.%d)", what,
                         GPUDNN_LIBRARY_MAJOR, GPUDNN_LIBRARY_MINOR);
  });
}

}  // namespace gpudnn
