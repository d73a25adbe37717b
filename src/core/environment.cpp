// Every environment variable that the library reads, in one place. docs/environment.md is their manual.
// SPDX-License-Identifier: Apache-2.0
#include "core/environment.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <string_view>

namespace gpudnn {
namespace {

const char* variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

const char* first_of(const char* ours, const char* theirs) {
  const char* value = variable(ours);
  return value != nullptr ? value : variable(theirs);
}

// A whole number from 0 to `most` and nothing else.
bool parse_count(const char* text, int most, int* value) {
  char* end = nullptr;
  const long number = std::strtol(text, &end, 10);
  if (end == text || *end != '\0' || number < 0) return false;
  *value = static_cast<int>(std::min<long>(number, most));
  return true;
}

// "256M": digits and at most one suffix.
bool parse_bytes(const char* text, std::size_t* bytes) {
  constexpr auto kMost = std::numeric_limits<std::size_t>::max();
  constexpr std::string_view kSuffixes = "KMGT";
  if (*text < '0' || *text > '9') return false;
  char* end = nullptr;
  const unsigned long long number = std::strtoull(text, &end, 10);
  int shift = 0;
  if (*end != '\0') {
    const auto suffix = kSuffixes.find(static_cast<char>(*end & ~0x20));  // small letters too
    if (suffix == std::string_view::npos || end[1] != '\0') return false;
    shift = 10 * (static_cast<int>(suffix) + 1);
  }
  *bytes = number > (kMost >> shift) ? kMost : static_cast<std::size_t>(number) << shift;
  return true;
}

// "0.01", "abort" or "0.01,abort": a share from 0 to 1, which is 1 where it is left out, and what a difference does.
bool parse_verify(std::string_view text, VerifySettings* settings) {
  settings->share = 1;
  const std::string_view first = text.substr(0, text.find(','));
  if (first != "abort") {
    const auto [end, error] = std::from_chars(first.data(), first.data() + first.size(), settings->share);
    if (error != std::errc{} || end != first.data() + first.size()) return false;
    if (!(settings->share >= 0 && settings->share <= 1)) return false;
    if (first.size() == text.size()) return true;
    text.remove_prefix(first.size() + 1);
  }
  settings->abort = text == "abort";
  return settings->abort;
}

constexpr int kMaxLogLevel = 3;
constexpr int kMaxHostThreads = 1024;

}  // namespace

bool environment_backend(BackendChoice* choice, std::string* unknown) {
  const char* value = variable("GPUDNN_BACKEND");
  const std::string_view text = value != nullptr ? value : "auto";
  if (text == "auto") {
    *choice = BackendChoice::automatic;
  } else if (text == "host") {
    *choice = BackendChoice::host;
  } else if (text == "cuda") {
    *choice = BackendChoice::cuda;
  } else {
    *unknown = text;
    return false;
  }
  return true;
}

LogSettings environment_log() {
  LogSettings settings;
  if (const char* level = first_of("GPUDNN_LOGLEVEL", "CUDNN_LOGLEVEL_DBG")) {
    if (!parse_count(level, kMaxLogLevel, &settings.level)) settings.level = 2;
  } else if (environment_verify().any()) {
    settings.level = 2;  // what is found is meant to be seen
  }
  const char* destination = first_of("GPUDNN_LOGDEST", "CUDNN_LOGDEST_DBG");
  settings.destination = destination != nullptr ? destination : "stderr";
  return settings;
}

std::size_t environment_workspace_limit() {
  constexpr auto kNoLimit = std::numeric_limits<std::size_t>::max();
  const char* value = variable("GPUDNN_WORKSPACE_LIMIT");
  std::size_t bytes = kNoLimit;
  return value != nullptr && parse_bytes(value, &bytes) ? bytes : kNoLimit;
}

std::string environment_tuning_cache() {
  const char* value = variable("GPUDNN_TUNING_CACHE");
  return value != nullptr ? value : "";
}

bool environment_cublas() {
  const char* value = variable("GPUDNN_CUBLAS");
  int on = 1;
  return value == nullptr || !parse_count(value, 1, &on) || on != 0;
}

bool environment_fp32_split() {
  const char* value = variable("GPUDNN_FP32_SPLIT");
  int on = 1;
  return value == nullptr || !parse_count(value, 1, &on) || on != 0;
}

int environment_host_threads() {
  const char* value = variable("GPUDNN_HOST_THREADS");
  int threads = 0;
  return value != nullptr && parse_count(value, kMaxHostThreads, &threads) ? threads : 0;
}

std::string environment_engines() {
  const char* value = variable("GPUDNN_ENGINES");
  return value != nullptr ? value : "";
}

VerifySettings environment_verify() {
  VerifySettings settings;
  int watch = 0;
  if (const char* value = variable("GPUDNN_VERIFY"); value != nullptr && !parse_verify(value, &settings)) settings = {};
  const char* value = variable("GPUDNN_CHECK_NAN");
  settings.check_nan = value != nullptr && parse_count(value, 1, &watch) && watch != 0;
  return settings;
}

std::vector<std::string> environment_mistakes() {
  std::vector<std::string> mistakes;
  const auto check = [&](const char* name, bool understood, const char* legal) {
    if (!understood) mistakes.push_back(std::string(name) + " is '" + variable(name) + "', which " + legal);
  };
  int number = 0;
  std::size_t bytes = 0;
  for (const char* name : {"GPUDNN_LOGLEVEL", "CUDNN_LOGLEVEL_DBG"}) {
    const char* value = variable(name);
    check(name, value == nullptr || parse_count(value, kMaxLogLevel, &number),
          "counts as 2; it must be a number from 0 to 3");
  }
  const char* value = variable("GPUDNN_WORKSPACE_LIMIT");
  check("GPUDNN_WORKSPACE_LIMIT", value == nullptr || parse_bytes(value, &bytes),
        "sets no limit; it must be a number of bytes, with K, M, G or T behind it or nothing");
  value = variable("GPUDNN_HOST_THREADS");
  check("GPUDNN_HOST_THREADS", value == nullptr || parse_count(value, kMaxHostThreads, &number),
        "counts as 0; it must be a number of threads, or 0 for one on each core");
  value = variable("GPUDNN_CUBLAS");
  check("GPUDNN_CUBLAS", value == nullptr || parse_count(value, 1, &number), "counts as 1; it must be 0 or 1");
  value = variable("GPUDNN_FP32_SPLIT");
  check("GPUDNN_FP32_SPLIT", value == nullptr || parse_count(value, 1, &number), "counts as 1; it must be 0 or 1");
  VerifySettings verify;
  value = variable("GPUDNN_VERIFY");
  check("GPUDNN_VERIFY", value == nullptr || parse_verify(value, &verify),
        "verifies nothing; it must be a share from 0 to 1, abort, or both as in 0.01,abort");
  value = variable("GPUDNN_CHECK_NAN");
  check("GPUDNN_CHECK_NAN", value == nullptr || parse_count(value, 1, &number), "counts as 0; it must be 0 or 1");
  return mistakes;
}

}  // namespace gpudnn
