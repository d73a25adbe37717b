// SPDX-License-Identifier: Apache-2.0
#include "support/child.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace gpudnn::test {

std::string run_in_child(const std::string& filter, const std::map<std::string, std::string>& variables) {
  const std::string output = testing::TempDir() + "gpudnn_child." + std::to_string(getpid());
  const std::string argument = "--gtest_filter=" + filter;
  std::fflush(nullptr);  // else the child would write what is buffered once more
  const pid_t child = fork();
  if (child == 0) {
    for (const char* const name : {"GTEST_TOTAL_SHARDS", "GTEST_SHARD_INDEX", "GTEST_OUTPUT"}) unsetenv(name);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    if (std::freopen(output.c_str(), "w", stdout) == nullptr || dup2(fileno(stdout), STDERR_FILENO) < 0) _exit(126);
    execl("/proc/self/exe", "test", argument.c_str(), "--gtest_also_run_disabled_tests", static_cast<char*>(nullptr));
    _exit(127);
  }
  int status = -1;
  if (child < 0 || waitpid(child, &status, 0) != child) return "there is no other process";
  std::stringstream text;
  text << std::ifstream(output).rdbuf();
  std::filesystem::remove(output);
  const std::string printed = text.str();
  const bool passed = printed.find("[  PASSED  ] 0 ") == std::string::npos &&
                      printed.find("[  PASSED  ] ") != std::string::npos &&
                      printed.find("[  SKIPPED ]") == std::string::npos;
  return status == 0 && passed ? "" : "status " + std::to_string(status) + "\n" + printed;
}

}  // namespace gpudnn::test
