// The losses of a training, a line a step: a table for a spreadsheet, or for scripts/plots.py.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <fstream>
#include <stdexcept>
#include <string>

class Curve {
 public:
  // `unit` is what add() counts. Without a file nothing is written.
  Curve(const std::string& file, const std::string& unit) {
    if (file.empty()) return;
    table_.open(file);
    if (!table_) throw std::runtime_error(file + ": cannot be written");
    table_ << unit << ",loss\n";
  }
  void add(size_t seen, double loss) {
    if (table_.is_open()) table_ << seen << ',' << loss << '\n';
  }
  // What came of it, such as "test accuracy 99 %".
  void close(const std::string& result) {
    if (table_.is_open()) table_ << "# " << result << '\n';
    table_.close();
  }

 private:
  std::ofstream table_;
};
