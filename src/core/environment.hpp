// Every environment variable that the library reads, in one place. docs/environment.md is their manual.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace gpudnn {

enum class BackendChoice { automatic, host, cuda };

// GPUDNN_BACKEND = auto | host | cuda. Read at each gpudnnCreate, so that a program can set it for itself.
// False, with *unknown set, for any other value.
[[nodiscard]] bool environment_backend(BackendChoice* choice, std::string* unknown);

struct LogSettings {
  // GPUDNN_LOGLEVEL, else CUDNN_LOGLEVEL_DBG: 0 off, 1 errors, 2 warnings, 3 everything. What is no number counts as 2,
  // so that the warning about it is seen.
  int level = 0;
  std::string destination;  // GPUDNN_LOGDEST, else CUDNN_LOGDEST_DBG: stdout, stderr or a file name; %i is the process
};
[[nodiscard]] LogSettings environment_log();

// GPUDNN_WORKSPACE_LIMIT in bytes, with an optional suffix K, M, G or T: no engine asks for more. Default: no limit.
[[nodiscard]] std::size_t environment_workspace_limit();

// GPUDNN_TUNING_CACHE: the file in which measured choices outlive the process. Empty (default): none.
[[nodiscard]] std::string environment_tuning_cache();

// GPUDNN_HOST_THREADS: threads of the host backend, the caller's included. 0 (default): one for each available core.
[[nodiscard]] int environment_host_threads();

// GPUDNN_CUBLAS: whether matrix products may run by cuBLASLt, where it is installed. Default: yes. Read once.
[[nodiscard]] bool environment_cublas();

// GPUDNN_FP32_SPLIT: whether float problems that forbid TF32 may run on tensor cores, each factor split into bfloat16
// terms, with the accuracy of float. Default: yes. Read once.
[[nodiscard]] bool environment_fp32_split();

// GPUDNN_ENGINES: engines that are left out ("-name") or kept to ("name"), by commas. Read once.
[[nodiscard]] std::string environment_engines();

struct VerifySettings {
  double share = 0;        // of the operations that are verified; 0: none
  bool abort = false;      // a difference fails the call
  bool check_nan = false;  // GPUDNN_CHECK_NAN: the NaN watch
  [[nodiscard]] bool any() const noexcept { return share > 0 || check_nan; }
};
// GPUDNN_VERIFY ("1", "0.01", "abort", "0.01,abort") and GPUDNN_CHECK_NAN. Default: off.
[[nodiscard]] VerifySettings environment_verify();

// A sentence for each variable whose value is not understood: which, its value, what counts instead, what is legal.
[[nodiscard]] std::vector<std::string> environment_mistakes();

}  // namespace gpudnn
