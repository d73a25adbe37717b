// What docs/problem-language.md says of one operation, for --help.
// SPDX-License-Identifier: Apache-2.0
#include "problem_help.hpp"

#include <sstream>
#include <vector>

namespace gpudnn::bench {

extern const char kProblemLanguage[];  // the page

namespace {

// The cells of "| a | b |", without the marks of code.
std::vector<std::string> cells_of(const std::string& row) {
  std::vector<std::string> cells;
  std::istringstream stream(row.substr(1));
  for (std::string cell; std::getline(stream, cell, '|');) {
    std::erase(cell, '`');
    const auto first = cell.find_first_not_of(' ');
    cells.push_back(first == std::string::npos ? "" : cell.substr(first, cell.find_last_not_of(' ') - first + 1));
  }
  return cells;
}

}  // namespace

std::string problem_help(const std::string& operation) {
  std::istringstream page(kProblemLanguage);
  std::string known;
  bool in_table = false;
  for (std::string line; std::getline(page, line);) {
    in_table = in_table || line.starts_with("## Operations");
    if (!in_table || !line.starts_with("| `")) continue;
    const std::vector<std::string> cells = cells_of(line);
    known += (known.empty() ? "" : ", ") + cells.at(0);
    if ((", " + cells[0] + ", ").find(", " + operation + ", ") == std::string::npos) continue;
    return cells.at(0) + ": " + cells.at(1) + "\n  optional: " + (cells.at(2).empty() ? "nothing" : cells[2]) +
           "\n  example:  gpudnn-bench '" + cells.at(3) + "'\n";
  }
  return "no operation is called '" + operation + "'; there are " + known + "\n";
}

}  // namespace gpudnn::bench
