// The tuning cache.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/select/tuning_cache.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <thread>

#include "core/environment.hpp"
#include "core/guard.hpp"

namespace gpudnn::conv {
namespace {

// The first line of the file; another number is another format, which this version leaves alone.
constexpr std::string_view kHeader = "gpudnn tuning cache, format 1";
constexpr std::string_view kAdvice =
    "\n# What gpudnnFindConvolution... measured, by device and library version. It may be deleted at any time.\n";

bool is_ours(std::string_view preamble) {
  return preamble.starts_with(kHeader) && preamble.substr(kHeader.size()).starts_with('\n');
}

template <class... Values>
void warn(const char* format, Values... values) {
  log_line(GPUDNN_SEV_WARNING, call_context().handle, GPUDNN_STATUS_SUCCESS, format, values...);
}

// Keeps other processes from writing the same file, so that none overwrites another's rows. It waits a second at most:
// what is lost without it is a row that will be measured again.
class FileLock {
 public:
  explicit FileLock(const std::string& path)
      : file_(open((path + ".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    for (int tries = 0; file_ >= 0 && flock(file_, LOCK_EX | LOCK_NB) != 0 && tries < 100; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
  ~FileLock() {
    if (file_ >= 0) close(file_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int file_;
};

bool same_choices(const std::vector<TunedRow>& a, const std::vector<TunedRow>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const TunedRow& one, const TunedRow& other) {
    return one.engine == other.engine && one.config == other.config;
  });
}

}  // namespace

TuningCache::TuningCache(std::string file) : path_(std::move(file)) {
  if (path_.empty()) return;
  std::string text;
  if (!read_text_file(path_, &text)) {
    warn("the tuning cache %s cannot be read; it is ignored", path_.c_str());
    writable_ = false;
    return;
  }
  if (text.empty()) return;
  const TunedFile content(text);
  if (!is_ours(content.preamble)) {
    warn("the tuning cache %s does not start with '%s'; it is ignored and not written", path_.c_str(), kHeader.data());
    writable_ = false;
    return;
  }
  for (const std::string& section : content.devices()) {
    TunedRows rows = content.rows_of(section);
    if (rows.size() == 0) continue;
    rows_.emplace(section, std::move(rows));
    empty_.store(false, std::memory_order_relaxed);
  }
}

[[gnu::hot]] std::vector<TunedRow> TuningCache::find(const Problem& problem, const Device& device) const {
  if (empty_.load(std::memory_order_acquire)) return {};
  const std::string section = tuning_section(device);
  const std::shared_lock lock(mutex_);
  const auto found = rows_.find(section);
  if (found == rows_.end()) return {};
  const std::vector<TunedRow>* const rows = found->second.find(problem);
  return rows != nullptr ? *rows : std::vector<TunedRow>{};
}

void TuningCache::record(const Problem& problem, const Device& device, std::vector<TunedRow> rows) {
  constexpr std::size_t kMaxProblems = 65536;  // a program with ever new shapes must not grow without bound
  const std::string section = tuning_section(device);
  bool news = true;
  {
    const std::unique_lock lock(mutex_);
    TunedRows& known = rows_[section];
    const std::vector<TunedRow>* const before = known.find(problem);
    news = before == nullptr || !same_choices(*before, rows);
    if (known.size() >= kMaxProblems) known.clear();
    known.set(problem, std::move(rows));
    empty_.store(false, std::memory_order_release);
  }
  if (news && !path_.empty() && writable_) write(problem, section);
}

// Merges into what the file holds now, since other processes write it too. The problems measured by this process that
// are missing there (somebody deleted the file) come along.
void TuningCache::write(const Problem& problem, const std::string& section) {
  const std::lock_guard files(file_mutex_);
  const FileLock processes(path_);
  std::string text;
  const bool readable = read_text_file(path_, &text);
  TunedFile content(text);
  if (!readable || (!text.empty() && !is_ours(content.preamble))) {
    warn("the tuning cache %s is no longer a tuning cache that can be read; it is left alone", path_.c_str());
    return;
  }
  if (text.empty()) content.preamble = std::string(kHeader) + std::string(kAdvice);
  std::vector<Problem>& mine = measured_here_[section];
  {
    const std::shared_lock lock(mutex_);
    const TunedRows& known = rows_[section];
    const auto add = [&](const Problem& p) {
      if (const auto* rows = known.find(p)) content.set(section, p, *rows);
    };
    for (const Problem& p : mine) {
      if (!content.has(section, p)) add(p);
    }
    add(problem);
  }
  const Problem key = tuning_key(problem);
  if (std::find(mine.begin(), mine.end(), key) == mine.end()) mine.push_back(key);
  if (!replace_text_file(path_, content.text())) {
    warn("the tuning cache %s cannot be written; what was measured lasts as long as this process", path_.c_str());
  }
}

[[gnu::hot]] TuningCache& tuning_cache() {
  static auto* const cache = new TuningCache(environment_tuning_cache());  // a thread may use it until the very end
  return *cache;
}

std::string tuning_section(const Device& device) {
  return device.name + ", " + device_class(device) + ", libgpudnn " + std::to_string(GPUDNN_LIBRARY_MAJOR) + '.' +
         std::to_string(GPUDNN_LIBRARY_MINOR) + '.' + std::to_string(GPUDNN_LIBRARY_PATCH);
}

}  // namespace gpudnn::conv
