// The environment variables.
// SPDX-License-Identifier: Apache-2.0
#include "core/environment.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>

#include "core/engine_filter.hpp"
#include "gpudnn/gpudnn.h"
#include "support/backend.hpp"

namespace gpudnn {
namespace {

// Sets a variable for a scope; null unsets it.
class Variable {
 public:
  Variable(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old, had_ = true;
    set(value);
  }
  ~Variable() { set(had_ ? old_.c_str() : nullptr); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  void set(const char* value) {
    if (value != nullptr) {
      setenv(name_, value, 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  std::string old_;
  bool had_ = false;
};

TEST(Environment, WorkspaceLimit) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  const std::map<const char*, std::size_t> cases = {{"0", 0},
                                                    {"100", 100},
                                                    {"2K", 2048},
                                                    {"3k", 3072},
                                                    {"5M", 5u << 20},
                                                    {"1G", 1u << 30},
                                                    {"1T", std::size_t{1} << 40},
                                                    {"", kNone},
                                                    {"much", kNone},
                                                    {"99999999999G", kNone},
                                                    {"1X", kNone},
                                                    {"1GB", kNone},
                                                    {"-1", kNone}};
  for (const auto& [text, bytes] : cases) {
    const Variable limit("GPUDNN_WORKSPACE_LIMIT", text);
    EXPECT_EQ(environment_workspace_limit(), bytes) << "'" << text << "'";
  }
  const Variable unset("GPUDNN_WORKSPACE_LIMIT", nullptr);
  EXPECT_EQ(environment_workspace_limit(), kNone);
}

TEST(Environment, Verify) {
  struct Case {
    const char* text;
    double share;
    bool abort;
  };
  for (const Case& c : {Case{"1", 1, false},
                        {"0.01", 0.01, false},
                        {"1e-3", 1e-3, false},
                        {"abort", 1, true},
                        {"0.25,abort", 0.25, true},
                        {"0", 0, false},
                        {"", 0, false},
                        {nullptr, 0, false}}) {
    const Variable verify("GPUDNN_VERIFY", c.text);
    const VerifySettings settings = environment_verify();
    EXPECT_EQ(settings.share, c.share) << c.text;
    EXPECT_EQ(settings.abort, c.abort) << c.text;
    EXPECT_FALSE(settings.check_nan);
    EXPECT_TRUE(environment_mistakes().empty()) << environment_mistakes().front();
  }
  for (const char* const text : {"yes", "2", "-0.5", "nan", "1,", "abort,1", "1,stop", "0.5,abort,", "50%", "abort "}) {
    const Variable verify("GPUDNN_VERIFY", text);
    EXPECT_EQ(environment_verify().any(), false) << text;
    ASSERT_EQ(environment_mistakes().size(), 1u) << text;
    EXPECT_EQ(environment_mistakes().front(),
              std::string("GPUDNN_VERIFY is '") + text +
                  "', which verifies nothing; it must be a share from 0 to 1, abort, or both as in 0.01,abort");
  }
  const Variable on("GPUDNN_CHECK_NAN", "1");
  EXPECT_TRUE(environment_verify().check_nan);
  const Variable off("GPUDNN_CHECK_NAN", "0");
  EXPECT_FALSE(environment_verify().any());
}

// What they find is a warning, which shows unless the level says otherwise.
TEST(Environment, VerifyingShowsWarnings) {
  const Variable level("GPUDNN_LOGLEVEL", nullptr);
  const Variable other("CUDNN_LOGLEVEL_DBG", nullptr);
  EXPECT_EQ(environment_log().level, 0);
  {
    const Variable verify("GPUDNN_VERIFY", "0.01");
    EXPECT_EQ(environment_log().level, 2);
  }
  const Variable watch("GPUDNN_CHECK_NAN", "1");
  EXPECT_EQ(environment_log().level, 2);
  const Variable silent("GPUDNN_LOGLEVEL", "0");
  EXPECT_EQ(environment_log().level, 0);
}

TEST(Environment, Backend) {
  BackendChoice choice{};
  std::string unknown;
  const auto read = [&](const char* text) {
    const Variable backend("GPUDNN_BACKEND", text);
    return environment_backend(&choice, &unknown);
  };
  EXPECT_TRUE(read(nullptr));
  EXPECT_EQ(choice, BackendChoice::automatic);
  EXPECT_TRUE(read("host"));
  EXPECT_EQ(choice, BackendChoice::host);
  EXPECT_TRUE(read("cuda"));
  EXPECT_EQ(choice, BackendChoice::cuda);
  EXPECT_FALSE(read("gpu"));
  EXPECT_EQ(unknown, "gpu");
}

TEST(Environment, AnUnknownBackendIsRefusedWithTheChoices) {
  const Variable backend("GPUDNN_BACKEND", "tpu");
  gpudnnHandle_t handle = nullptr;
  EXPECT_EQ(gpudnnCreate(&handle), GPUDNN_STATUS_NOT_INITIALIZED);
  const std::string text = test::take_error_text();
  for (const char* word : {"tpu", "auto", "host", "cuda"}) EXPECT_NE(text.find(word), std::string::npos) << text;
  EXPECT_EQ(handle, nullptr);
}

TEST(Environment, LogSettingsAndTheirForeignNames) {
  const Variable ours("GPUDNN_LOGLEVEL", nullptr);
  const Variable our_file("GPUDNN_LOGDEST", nullptr);
  {
    const Variable theirs("CUDNN_LOGLEVEL_DBG", "2");
    const Variable their_file("CUDNN_LOGDEST_DBG", "there.txt");
    EXPECT_EQ(environment_log().level, 2);
    EXPECT_EQ(environment_log().destination, "there.txt");
    const Variable first("GPUDNN_LOGLEVEL", "1");
    EXPECT_EQ(environment_log().level, 1) << "our name comes first";
  }
  const Variable none("CUDNN_LOGLEVEL_DBG", nullptr);
  EXPECT_EQ(environment_log().level, 0);
  const Variable unreadable("GPUDNN_LOGLEVEL", "x");
  EXPECT_EQ(environment_log().level, 2) << "so that the warning about it is seen";
  const Variable high("GPUDNN_LOGLEVEL", "9");
  EXPECT_EQ(environment_log().level, 3);
}

TEST(Environment, CublasMayBeTurnedOff) {
  const Variable unset("GPUDNN_CUBLAS", nullptr);
  EXPECT_TRUE(environment_cublas());
  const Variable off("GPUDNN_CUBLAS", "0");
  EXPECT_FALSE(environment_cublas());
}

TEST(Environment, SplitFloatsMayBeTurnedOff) {
  const Variable unset("GPUDNN_FP32_SPLIT", nullptr);
  EXPECT_TRUE(environment_fp32_split());
  const Variable off("GPUDNN_FP32_SPLIT", "0");
  EXPECT_FALSE(environment_fp32_split());
}

TEST(Environment, ValuesThatAreNotUnderstoodAreTold) {
  EXPECT_TRUE(environment_mistakes().empty());
  const Variable level("GPUDNN_LOGLEVEL", "x");
  const Variable threads("GPUDNN_HOST_THREADS", "foo");
  const Variable limit("GPUDNN_WORKSPACE_LIMIT", "1TB");
  const Variable cublas("GPUDNN_CUBLAS", "off");
  const Variable split("GPUDNN_FP32_SPLIT", "no");
  const std::vector<std::string> mistakes = environment_mistakes();
  ASSERT_EQ(mistakes.size(), 5u);
  for (const char* said : {"GPUDNN_LOGLEVEL is 'x'", "GPUDNN_HOST_THREADS is 'foo'", "GPUDNN_WORKSPACE_LIMIT is '1TB'",
                           "GPUDNN_CUBLAS is 'off'", "GPUDNN_FP32_SPLIT is 'no'"}) {
    EXPECT_TRUE(std::ranges::any_of(mistakes, [&](const std::string& m) { return m.starts_with(said); })) << said;
  }
}

TEST(Environment, EnginesAreLeftOutOrPinnedByName) {
  const EngineWishes wishes = parse_engine_wishes("-direct_sm90, host_gemm,,-x ");
  EXPECT_EQ(wishes.excluded, (std::vector<std::string>{"direct_sm90", "x"}));
  EXPECT_EQ(wishes.pinned, (std::vector<std::string>{"host_gemm"}));
  struct Row {
    const char* name;
    int backend;
  };
  const Row rows[] = {{"direct_sm90", 0}, {"host_gemm", 0}, {"host_direct", 0}};
  const EngineFilter with_pin(rows, 0, wishes);
  EXPECT_EQ(with_pin.reason_against("host_gemm"), nullptr);
  EXPECT_STREQ(with_pin.reason_against("host_direct"), "GPUDNN_ENGINES pins another one");
  EXPECT_STREQ(with_pin.reason_against("direct_sm90"), "GPUDNN_ENGINES leaves it out");
  // An operation, or a backend, without the pinned engine keeps its others.
  const EngineFilter elsewhere(rows, 1, wishes);
  EXPECT_EQ(elsewhere.reason_against("host_direct"), nullptr);
  const EngineWishes none;
  EXPECT_EQ(EngineFilter(rows, 0, none).reason_against("direct_sm90"), nullptr);
}

TEST(Environment, HostThreads) {
  const Variable some("GPUDNN_HOST_THREADS", "3");
  EXPECT_EQ(environment_host_threads(), 3);
  const Variable negative("GPUDNN_HOST_THREADS", "-4");
  EXPECT_EQ(environment_host_threads(), 0);
}

}  // namespace
}  // namespace gpudnn
