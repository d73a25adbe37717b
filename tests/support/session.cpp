// The main function of the test binaries: says which backend runs and counts what was skipped for want of a GPU.
// SPDX-License-Identifier: Apache-2.0
#include "support/session.hpp"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "support/backend.hpp"

namespace gpudnn::test {
namespace {

constexpr std::uint64_t kUsualSeed = 20250806;

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

int skipped_for_want_of_gpu() {
  int count = 0;
  const testing::UnitTest& unit = *testing::UnitTest::GetInstance();
  for (int i = 0; i < unit.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *unit.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestResult& result = *suite.GetTestInfo(j)->result();
      if (!result.Skipped()) continue;
      for (int k = 0; k < result.total_part_count(); ++k) {
        const char* message = result.GetTestPartResult(k).message();
        if (result.GetTestPartResult(k).skipped() && std::strstr(message, "needs a GPU") != nullptr) ++count;
      }
    }
  }
  return count;
}

}  // namespace

std::uint64_t session_seed() {
  const char* value = variable("GPUDNN_TEST_SEED");
  return value != nullptr ? std::strtoull(value, nullptr, 0) : kUsualSeed;
}

int session_cases(int usual) {
  const char* value = variable("GPUDNN_TEST_CASES");
  return value != nullptr ? std::atoi(value) : usual;
}

}  // namespace gpudnn::test

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  using gpudnn::test::Backend;
  if (!testing::GTEST_FLAG(list_tests)) {
    try {
      std::printf("backend: %s\n", Backend::at_hand().name());
      (void)Backend::host();
    } catch (const std::exception& error) {
      std::fprintf(stderr, "no backend: %s\n", error.what());
      return 1;
    }
    std::printf("random problems: GPUDNN_TEST_SEED=%llu\n",
                static_cast<unsigned long long>(gpudnn::test::session_seed()));
  }
  const int result = RUN_ALL_TESTS();
  if (!testing::GTEST_FLAG(list_tests)) {
    std::printf("%d cases skipped for want of a GPU\n", gpudnn::test::skipped_for_want_of_gpu());
  }
  return result;
}
