// The progress of a training: one line that is redrawn on a terminal, elsewhere a few plain lines.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <string>

class Progress {
 public:
  // `title` stands first in the line, `unit` is what show() counts; `lines` how many plain lines there shall be.
  Progress(std::string title, std::string unit, size_t lines = 1)
      : title_(std::move(title)), unit_(std::move(unit)), lines_(lines) {}

  void show(size_t done, size_t total, double loss) {
    const auto now = std::chrono::steady_clock::now();
    const bool finished = done == total;
    if (terminal_ ? !finished && now - drawn_ < std::chrono::milliseconds(50) : done * lines_ / total == printed_) {
      return;
    }
    drawn_ = now;
    printed_ = done * lines_ / total;
    const double rate = static_cast<double>(done) / std::chrono::duration<double>(now - begin_).count();
    if (terminal_) {
      constexpr size_t kWidth = 30;
      std::string bar(kWidth * done / total, '#');
      bar.resize(kWidth, '.');
      std::printf("\r%s [%s] %3zu%%  loss %.4f  %.0f %s/s  %s", title_.c_str(), bar.c_str(), 100 * done / total, loss,
                  rate, unit_.c_str(), finished ? "\n" : "");
    } else if (lines_ == 1) {
      std::printf("%s  loss %.4f  %.0f %s/s\n", title_.c_str(), loss, rate, unit_.c_str());
    } else {
      std::printf("%s %3zu%%  loss %.4f  %.0f %s/s\n", title_.c_str(), 100 * done / total, loss, rate, unit_.c_str());
    }
    std::fflush(stdout);
  }

 private:
  std::string title_, unit_;
  size_t lines_;
  size_t printed_ = 0;
  bool terminal_ = isatty(STDOUT_FILENO) != 0;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point drawn_ = begin_;
};
