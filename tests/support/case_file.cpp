// Reading the case files.
// SPDX-License-Identifier: Apache-2.0
#include <cstdlib>
#include <fstream>

#include "support/sweep.hpp"

namespace gpudnn::test {

std::string case_folder() {
  // Elsewhere than in the source tree when the tests run on another machine than they were built on.
  const char* folder = std::getenv("GPUDNN_TEST_CASES_DIR");
  return folder != nullptr ? folder : GPUDNN_TEST_CASES_FOLDER;
}

std::vector<std::string> case_lines(const std::string& name) {
  std::ifstream file(case_folder() + "/" + name);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    const auto start = line.find_first_not_of(" \t");
    if (start != std::string::npos && line[start] != '#') lines.push_back(line.substr(start));
  }
  return lines;
}

}  // namespace gpudnn::test
