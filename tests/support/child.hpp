// Tests that run in a process of their own, as the library reads its environment once.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>

namespace gpudnn::test {

// Runs this program's tests that the filter names, disabled ones too, in another process with the variables set. Empty,
// or what it printed where a test failed, was skipped or none ran. A test that only runs so is named DISABLED_.
[[nodiscard]] std::string run_in_child(const std::string& filter, const std::map<std::string, std::string>& variables);

}  // namespace gpudnn::test
