// Every environment variable that the library reads, in one place. docs/environment.md is their manual.
// SPDX-License-Identifier: Apache-2.0
#include "core/environment.hpp"

#include <algorithm>
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
    settings.level = std::clamp(std::atoi(level), 0, 3);
  }
  const char* destination = first_of("GPUDNN_LOGDEST", "CUDNN_LOGDEST_DBG");
  settings.destination = destination != nullptr ? destination : "stderr";
  return settings;
}

std::size_t environment_workspace_limit() {
  constexpr auto kNoLimit = std::numeric_limits<std::size_t>::max();
  const char* value = variable("GPUDNN_WORKSPACE_LIMIT");
  if (value == nullptr) return kNoLimit;
  char* end = nullptr;
  const unsigned long long number = std::strtoull(value, &end, 10);
  if (end == value) return kNoLimit;
  const int shift = *end == 'K' || *end == 'k'   ? 10
                    : *end == 'M' || *end == 'm' ? 20
                    : *end == 'G' || *end == 'g' ? 30
                                                 : 0;
  return number > (kNoLimit >> shift) ? kNoLimit : static_cast<std::size_t>(number) << shift;
}

std::string environment_tuning_cache() {
  const char* value = variable("GPUDNN_TUNING_CACHE");
  return value != nullptr ? value : "";
}

bool environment_cublas() {
  const char* value = variable("GPUDNN_CUBLAS");
  return value == nullptr || std::atoi(value) != 0;
}

int environment_host_threads() {
  const char* value = variable("GPUDNN_HOST_THREADS");
  return value != nullptr ? std::clamp(std::atoi(value), 0, 1024) : 0;
}

}  // namespace gpudnn
