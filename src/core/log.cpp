// The log: one line for each call, to a file or stream by environment variable, and to the user's callback.
// SPDX-License-Identifier: Apache-2.0
#include "core/log.hpp"

#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <mutex>
#include <string>
#include <thread>

#include "core/environment.hpp"
#include "core/handle.hpp"
#include "core/trace.hpp"

namespace gpudnn {
namespace {

// Bit s is set when severity s goes somewhere; kUnread until the environment was read and a profiler looked for.
constexpr unsigned kUnread = 1u << 31;
constexpr unsigned kTraced = 1u << 30;  // a profiler listens
std::atomic<unsigned> listening{kUnread};

struct Sinks {
  std::mutex mutex;
  unsigned file_mask = 0;
  std::FILE* file = nullptr;
  unsigned callback_mask = 0;
  void* user_data = nullptr;
  gpudnnCallback_t callback = nullptr;
  double start = 0;
  unsigned traced = 0;  // kTraced or nothing
};

Sinks& sinks() {
  static Sinks* const instance = new Sinks;  // never destroyed: a destructor of the program may still log
  return *instance;
}

double now(timeval* time) {
  gettimeofday(time, nullptr);
  return static_cast<double>(time->tv_sec) + 1e-6 * static_cast<double>(time->tv_usec);
}

std::FILE* open_destination(std::string name) {
  if (name == "stdout") return stdout;
  if (name == "stderr") return stderr;
  if (const auto at = name.find("%i"); at != std::string::npos) name.replace(at, 2, std::to_string(getpid()));
  std::FILE* file = std::fopen(name.c_str(), "a");
  return file != nullptr ? file : stderr;
}

unsigned read_environment() {
  Sinks& s = sinks();
  const std::lock_guard lock(s.mutex);
  if (const unsigned mask = listening.load(std::memory_order_relaxed); (mask & kUnread) == 0) return mask;
  const LogSettings settings = environment_log();
  // Level 1 brings errors (and what is fatal), 2 warnings too, 3 everything.
  const unsigned file_mask = settings.level == 0 ? 0u : (1u << (settings.level + 1)) - 1u;
  if (file_mask != 0) s.file = open_destination(settings.destination);
  s.file_mask = file_mask;
  timeval time;
  s.start = now(&time);
  s.traced = trace::attached() ? kTraced : 0;
  const unsigned mask = s.file_mask | s.callback_mask | s.traced;
  listening.store(mask, std::memory_order_relaxed);
  return mask;
}

unsigned listeners() noexcept {
  const unsigned mask = listening.load(std::memory_order_relaxed);
  if ((mask & kUnread) == 0) return mask;
  try {
    return read_environment();
  } catch (...) {
    return 0;  // out of memory: nobody listens yet, and the next call asks again
  }
}

gpudnnDebug_t describe(gpudnnHandle_t handle, Status status, const timeval& time, double since_start) {
  gpudnnDebug_t debug = {};
  debug.gpudnn_version = GPUDNN_VERSION;
  debug.gpudnnStatus = status;
  debug.time_sec = static_cast<unsigned>(time.tv_sec);
  debug.time_usec = static_cast<unsigned>(time.tv_usec);
  debug.time_delta = static_cast<unsigned>(since_start);
  debug.handle = handle;
  debug.stream = handle != nullptr ? handle->stream.load(std::memory_order_relaxed) : nullptr;
  debug.pid = static_cast<unsigned long long>(getpid());
  debug.tid = static_cast<unsigned long long>(gettid());
  debug.cudaDeviceId = handle != nullptr ? handle->device->ordinal : -1;
  return debug;
}

}  // namespace

bool log_enabled(gpudnnSeverity_t severity) noexcept { return ((listeners() >> severity) & 1u) != 0; }

bool problems_wanted() noexcept { return (listeners() & (kTraced | 1u << GPUDNN_SEV_INFO)) != 0; }
bool is_traced() noexcept { return (listeners() & kTraced) != 0; }

void log_line(gpudnnSeverity_t severity, gpudnnHandle_t handle, Status status, const char* format, ...) noexcept {
  if (!log_enabled(severity)) return;
  char text[4352];
  std::va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);

  Sinks& s = sinks();
  timeval time;
  const double stamp = now(&time);
  gpudnnCallback_t callback = nullptr;
  void* user_data = nullptr;
  double since_start = 0;
  {
    const std::lock_guard lock(s.mutex);
    since_start = stamp - s.start;
    if (((s.file_mask >> severity) & 1u) != 0) {
      std::fprintf(s.file, "gpudnn %c %10.6f pid=%d tid=%d %s\n", "FEWI"[severity], since_start, getpid(), gettid(),
                   text);
      std::fflush(s.file);
    }
    if (((s.callback_mask >> severity) & 1u) != 0) {
      callback = s.callback;
      user_data = s.user_data;
    }
  }
  // Outside the lock: the callback may call the library.
  if (callback != nullptr) {
    const gpudnnDebug_t debug = describe(handle, status, time, since_start);
    callback(severity, user_data, &debug, text);
  }
}

void set_log_callback(unsigned mask, void* user_data, gpudnnCallback_t callback) noexcept {
  (void)log_enabled(GPUDNN_SEV_ERROR);  // reads the environment first
  Sinks& s = sinks();
  const std::lock_guard lock(s.mutex);
  s.callback_mask = callback != nullptr ? mask : 0u;
  s.user_data = user_data;
  s.callback = callback;
  // A fatal event reaches every callback, whatever its mask.
  if (callback != nullptr) s.callback_mask |= 1u << GPUDNN_SEV_FATAL;
  listening.store(s.file_mask | s.callback_mask | s.traced, std::memory_order_relaxed);
}

void get_log_callback(unsigned* mask, void** user_data, gpudnnCallback_t* callback) noexcept {
  Sinks& s = sinks();
  const std::lock_guard lock(s.mutex);
  *mask = s.callback_mask & ~(1u << GPUDNN_SEV_FATAL);
  *user_data = s.user_data;
  *callback = s.callback;
}

}  // namespace gpudnn
