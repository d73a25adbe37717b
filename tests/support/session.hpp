// What a test binary is told by its environment, and its main function.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gpudnn::test {

// GPUDNN_TEST_SEED: the seed of the random problems. Fixed by default, so that a run can be repeated.
[[nodiscard]] std::uint64_t session_seed();
// GPUDNN_TEST_CASES: how many random problems a sweep runs, in place of `usual`.
[[nodiscard]] int session_cases(int usual);

// Whether the tests are built with ThreadSanitizer, which makes them ten times slower and more.
#if defined(__SANITIZE_THREAD__)
constexpr bool kUnderThreadSanitizer = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool kUnderThreadSanitizer = true;
#else
constexpr bool kUnderThreadSanitizer = false;
#endif
#else
constexpr bool kUnderThreadSanitizer = false;
#endif

}  // namespace gpudnn::test

// Skips a test that needs a GPU where the backend at hand is the host; skips are counted at the end of the run.
#define GPUDNN_NEEDS_GPU()                            \
  if (::gpudnn::test::Backend::at_hand().is_cuda()) { \
  } else /* NOLINT: GTEST_SKIP returns */             \
    GTEST_SKIP() << "needs a GPU; the backend at hand is the host"
