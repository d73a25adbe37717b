// Which build this is, for the log. src/CMakeLists.txt gives the commit to this file alone.
// SPDX-License-Identifier: Apache-2.0
#include "core/build_info.hpp"

namespace gpudnn {

const char* build_commit() noexcept {
#ifdef GPUDNN_COMMIT
  return GPUDNN_COMMIT;
#else
  return "unknown";
#endif
}

}  // namespace gpudnn
