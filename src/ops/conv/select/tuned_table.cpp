// The measured table that is built into the library.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>

#include "ops/conv/select/tuned_file.hpp"

namespace gpudnn::conv {

extern const char kTunedSm90[];  // src/ops/conv/select/tuned_sm90.txt; the build makes a string of it

namespace {

// The lines of each device's section, by the name in its heading.
using Sections = std::map<std::string, std::string_view, std::less<>>;

Sections sections_of(std::string_view table) {
  constexpr std::string_view kHead = "\ndevice ";
  Sections sections;
  for (std::size_t at = table.find(kHead); at != std::string_view::npos;) {
    const std::size_t name = at + kHead.size();
    const std::size_t lines = std::min(table.find('\n', name), table.size() - 1);
    at = table.find(kHead, lines);
    sections.try_emplace(std::string(table.substr(name, lines - name)),
                         table.substr(lines + 1, at > lines ? at - lines - 1 : 0));
  }
  return sections;
}

std::size_t line_before(std::string_view text, std::size_t at) {
  const std::size_t end = at == 0 ? std::string_view::npos : text.rfind('\n', at - 1);
  return end == std::string_view::npos ? 0 : end + 1;
}

// Rows are in the order of their problems' text, so that the text itself is searched.
std::vector<TunedRow> rows_of_key(const Sections& sections, const Problem& problem, const Device& device) {
  const auto section = sections.find(table_section(device));
  if (section == sections.end()) return {};
  const std::string_view lines = section->second;
  const std::string key = to_text(problem) + " -> ";
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

std::vector<TunedRow> rows_of(const Sections& sections, const Problem& problem, const Device& device) {
  const Problem key = tuning_key(problem);
  Problem plain = tuning_key_without_epilogue(problem);
  std::vector<TunedRow> rows = rows_of_key(sections, key, device);
  if (rows.empty() && key != plain) rows = rows_of_key(sections, plain, device);
  // What is best in half precision, if it needs no tensor cores, is so where the call does not allow them.
  if (rows.empty() && key.math == GPUDNN_FMA_MATH && data_type_bits(key.x.type) == 16) {
    plain.math = GPUDNN_TENSOR_OP_MATH;
    rows = rows_of_key(sections, plain, device);
    if (rows.size() > 1) rows.resize(1);
  }
  return rows;
}

}  // namespace

std::vector<TunedRow> rows_in(std::string_view table, const Problem& problem, const Device& device) {
  return rows_of(sections_of(table), problem, device);
}

std::vector<TunedRow> measured_rows(const Problem& problem, const Device& device) {
  if (device.backend == GPUDNN_BACKEND_HOST) return {};
  static const Sections sections = sections_of(kTunedSm90);  // a query must not read the whole table
  return rows_of(sections, problem, device);
}

}  // namespace gpudnn::conv
