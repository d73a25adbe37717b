// Statuses, refusals and the thread's last-error text.
// SPDX-License-Identifier: Apache-2.0
#include "core/error.hpp"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>

#include "core/guard.hpp"

namespace gpudnn {
namespace {

// A plain array: setting it cannot fail, and a thread's end has nothing to destroy.
thread_local char last_error[1024];
thread_local Status last_status = GPUDNN_STATUS_SUCCESS;

constexpr std::size_t kMaxDescriptions = 1024;

// A text that stays where it is for ever, the same for the same words; null once there are too many of them.
const char* kept_for_ever(std::string text) {
  static std::mutex mutex;
  static auto* const kept = new std::unordered_set<std::string>;
  const std::lock_guard lock(mutex);
  const auto found = kept->find(text);
  if (found != kept->end()) return found->c_str();
  if (kept->size() >= kMaxDescriptions) return nullptr;
  return kept->insert(std::move(text)).first->c_str();
}

}  // namespace

Status refuse(Status status, const char* format, ...) noexcept {
  call_context().refused = true;
  last_status = status;
  const char* function = current_function();
  int used = 0;
  if (function != nullptr) used = std::snprintf(last_error, sizeof last_error, "%s: ", function);
  used = std::clamp(used, 0, static_cast<int>(sizeof last_error) - 1);
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(last_error + used, sizeof last_error - static_cast<std::size_t>(used), format, arguments);
  va_end(arguments);
  return status;
}

const char* last_error_text() noexcept { return last_error; }
void clear_last_error() noexcept { last_error[0] = '\0'; }
void set_last_error(Status status, const char* text) noexcept {
  last_status = status;
  std::snprintf(last_error, sizeof last_error, "%s", text);
}

const char* describe_error(Status status, const char* name) noexcept {
  if (name == nullptr || status == GPUDNN_STATUS_SUCCESS) return name;
  if (!call_context().failed || status != last_status || last_error[0] == '\0') return name;
  try {
    const char* const described = kept_for_ever(std::string(name) + ": " + last_error);
    return described != nullptr ? described : name;
  } catch (...) {
    return name;  // no memory left for more than the name
  }
}

void take_last_error(char* message, std::size_t size) noexcept {
  if (message == nullptr || size == 0) return;
  const std::size_t length = std::min(std::strlen(last_error), size - 1);
  std::memcpy(message, last_error, length);
  message[length] = '\0';
  clear_last_error();
}

#define GPUDNN_STATUS_ROW(name) \
  case name:                    \
    return #name
const char* status_name(Status status) noexcept {
  switch (static_cast<int>(status)) {
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_SUCCESS);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_INITIALIZED);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_SERIALIZATION_VERSION_MISMATCH);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_DEPRECATED);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_LICENSE_ERROR);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_RUNTIME_IN_PROGRESS);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_RUNTIME_FP_OVERFLOW);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_SUBLIBRARY_LOADING_FAILED);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_BAD_PARAM);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_INVALID_VALUE);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_BAD_PARAM_NULL_POINTER);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_BAD_PARAM_MISALIGNED_POINTER);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_BAD_PARAM_SIZE_INSUFFICIENT);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_BAD_PARAM_STREAM_MISMATCH);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_BAD_PARAM_SHAPE_MISMATCH);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_BAD_PARAM_DUPLICATED_ENTRIES);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_BAD_PARAM_CUDA_GRAPH_MISMATCH);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_GRAPH_PATTERN);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_SHAPE);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDA_DRIVER);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_INCOMPATIBLE_CUDART);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_ARCH_MISMATCH);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_RUNTIME_PREREQUISITE_MISSING);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_SUBLIBRARY_UNAVAILABLE);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_SHARED_MEMORY_INSUFFICIENT);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_PADDING);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_BAD_LAUNCH_PARAM);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_CUDA_GRAPH_NATIVE_API);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_NOT_SUPPORTED_INVALID_DYNAMIC_SHAPE);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_INTERNAL_ERROR);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_INTERNAL_ERROR_COMPILATION_FAILED);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_INTERNAL_ERROR_UNEXPECTED_VALUE);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_INTERNAL_ERROR_BAD_LAUNCH_PARAM);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_INTERNAL_ERROR_TEXTURE_CREATION_FAILED);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_EXECUTION_FAILED);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_EXECUTION_FAILED_CUDA_DRIVER);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_EXECUTION_FAILED_CUBLAS);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_EXECUTION_FAILED_CUDART);
    GPUDNN_STATUS_ROW(GPUDNN_STATUS_EXECUTION_FAILED_CURAND);
    default:
      return "GPUDNN_STATUS_UNKNOWN";
  }
}
#undef GPUDNN_STATUS_ROW

}  // namespace gpudnn
