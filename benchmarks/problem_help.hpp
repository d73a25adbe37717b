// What docs/problem-language.md says of one operation, for --help.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gpudnn::bench {

// The operation's words and an example; for an operation that is not there, which ones are.
[[nodiscard]] std::string problem_help(const std::string& operation);

}  // namespace gpudnn::bench
