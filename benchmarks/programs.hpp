// The programs of one binary. Each takes main's arguments and gives the exit code.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpudnn::bench {

int run_bench(int argc, char** argv);
int run_explain(int argc, char** argv);
int run_tune(int argc, char** argv);

}  // namespace gpudnn::bench
