// What the launch function of the plain copy takes. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

struct CUstream_st;

namespace gpudnn::kernels {

struct CopyPart {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t bytes = 0;
};
constexpr int kCopyParts = 2;
// Bytes as they are, of both parts in one launch.
void launch_copy(const CopyPart (&parts)[kCopyParts], CUstream_st* stream);

}  // namespace gpudnn::kernels
