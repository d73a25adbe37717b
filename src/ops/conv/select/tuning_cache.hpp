// The tuning cache: what Find measured, kept for the process and, if GPUDNN_TUNING_CACHE names a file, beyond it.
//
// The file is text in sections, one for each pair of device and library version (tuned_file.hpp). It is a cache in
// every sense: it may be shared by processes, copied to another machine, cut short or deleted at any time. Whatever is
// wrong with it costs a log line and nothing else.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>
#include <string>
#include <vector>

#include "ops/conv/select/tuned_file.hpp"

namespace gpudnn::conv {

// Safe from many threads.
class TuningCache {
 public:
  // Reads the file. An empty name: memory alone.
  explicit TuningCache(std::string file);
  TuningCache(const TuningCache&) = delete;
  TuningCache& operator=(const TuningCache&) = delete;

  // The problem's rows on the device, the fastest first; none if it was never measured.
  [[nodiscard]] std::vector<TunedRow> find(const Problem& problem, const Device& device) const;

  // Keeps `rows` (the fastest first) in place of what the problem had. The file is written if they choose otherwise
  // than those before: another time for the same choice is no news.
  void record(const Problem& problem, const Device& device, std::vector<TunedRow> rows);

 private:
  void write(const Problem& problem, const std::string& section);

  const std::string path_;
  std::atomic<bool> empty_{true};  // spares a program that never calls Find the lock
  mutable std::shared_mutex mutex_;
  std::map<std::string, TunedRows> rows_;  // by section
  bool writable_ = true;                   // false: the file is none of ours and stays as it is
  std::mutex file_mutex_;
  std::map<std::string, std::vector<Problem>> measured_here_;  // under file_mutex_
};

// The process's own.
[[nodiscard]] TuningCache& tuning_cache();

// "NVIDIA H200, sm_90 132, libgpudnn 0.2.0": the section of the file. Another library version may have
// faster engines, and another device with the same number of processors may have other memory.
[[nodiscard]] std::string tuning_section(const Device& device);

}  // namespace gpudnn::conv
