// The CUDA engines of softmax. Rows of the engine list, best first:
//   {"rows", GPUDNN_BACKEND_CUDA, &supports_rows_cuda, &rows_cuda}            (groups that are contiguous)
//   {"columns", GPUDNN_BACKEND_CUDA, &supports_columns_cuda, &columns_cuda}   (groups side by side: channel mode of
//   NCHW)
//   {"strided", GPUDNN_BACKEND_CUDA, &supports_strided_cuda, &strided_cuda}   (supports everything)
// Whether packs of a row line up in all tensors depends on the pointers too: rows hands a call where they do not to
// strided.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/softmax/problem.hpp"

namespace gpudnn::softmax {

[[nodiscard]] Support supports_rows_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status rows_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_columns_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status columns_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

[[nodiscard]] Support supports_strided_cuda(const Problem& problem, const Device& device);
[[nodiscard]] Status strided_cuda(const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::softmax
