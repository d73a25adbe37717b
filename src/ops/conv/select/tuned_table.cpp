// The measured table that is built into the library.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/conv/select/tuned_file.hpp"

namespace gpudnn::conv {

extern const char kTunedSm90[];  // src/ops/conv/select/tuned_sm90.txt; the build makes a string of it

namespace {

// The lines of the device's section.
std::string_view section_of(std::string_view table, const Device& device) {
  const std::string head = "\ndevice " + table_section(device) + '\n';
  const std::size_t begin = table.find(head);
  if (begin == std::string_view::npos) return {};
  table.remove_prefix(begin + head.size() - 1);  // the next section may begin with the very next line
  table = table.substr(0, table.find("\ndevice "));
  return table.empty() ? table : table.substr(1);
}

std::size_t line_before(std::string_view text, std::size_t at) {
  const std::size_t end = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  return end == std::string_view::npos ? 0 : end + 1;
}

}  // namespace

// Rows are in the order of their problems' text, so that the text itself is searched.
std::vector<TunedRow> rows_in(std::string_view table, const Problem& problem, const Device& device) {
  const std::string_view lines = section_of(table, device);
  const std::string key = to_text(tuning_key(problem)) + " -> ";
  std::size_t low = 0;
  std::size_t high = lines.size();
  while (low < high) {  // the first line that is not before the key
    const std::size_t middle = line_before(lines, low + (high - low) / 2);
    if (lines.substr(middle, key.size()) < key) {
      low = std::min(lines.find('\n', middle), lines.size() - 1) + 1;
    } else {
      high = middle;
    }
  }
  std::vector<TunedRow> rows;
  for (std::string_view rest = lines.substr(low); rest.starts_with(key);) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    if (TunedRow row; parse_row(rest.substr(key.size(), end - key.size()), &row)) rows.push_back(std::move(row));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return rows;
}

std::vector<TunedRow> measured_rows(const Problem& problem, const Device& device) {
  if (device.backend == GPUDNN_BACKEND_HOST) return {};
  return rows_in(kTunedSm90, problem, device);
}

}  // namespace gpudnn::conv
