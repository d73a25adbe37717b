// gpudnn-bench, gpudnn-explain and gpudnn-tune in one binary, chosen by the name that it is called by: each looks
// inside the library, so each has all kernels linked in.
// SPDX-License-Identifier: Apache-2.0
#include <string_view>

#include "programs.hpp"

int main(int argc, char** argv) {
  const std::string_view path = argc > 0 ? argv[0] : "";
  const std::string_view name = path.substr(path.rfind('/') + 1);
  if (name == "gpudnn-explain") return gpudnn::bench::run_explain(argc, argv);
  if (name == "gpudnn-tune") return gpudnn::bench::run_tune(argc, argv);
  return gpudnn::bench::run_bench(argc, argv);
}
