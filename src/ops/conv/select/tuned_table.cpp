// The measured table that is built into the library, and the choices that tuning caches named before it had its form.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

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

// Tiles by number, as the lists had them; nhwc_transpose's with the inner engine's number in the list of that time.
std::string old_choice_text(const Choice& choice) {
  struct Engine {
    std::string_view now, then;
  };
  constexpr Engine kThen[] = {
      {"implicit_gemm_sm90", "implicit_gemm_sm90"},
      {"small_c_sm80", "few_channels_sm80"},
      {"implicit_gemm_sm80", "implicit_gemm_sm80"},
      {"nhwc_transpose", "via_nhwc"},
      {"direct_sm90", "halo_sm90"},
      {"conv1x1_nchw_sm90", "pointwise_planes_sm90"},
      {"small_c_fwd_sm90", "few_channels_forward_sm90"},
      {"small_c_dgrad_sm90", "few_channels_data_sm90"},
      {"small_c_wgrad_sm90", "few_channels_filter_sm90"},
      {"direct_wgrad_sm90", "halo_filter_sm90"},
      {"conv1x1_small_c_sm80", "pointwise_few_channels_sm80"},
      {"smem_im2col_wgrad_sm90", "patch_rows_filter_sm90"},
  };
  const auto number_of = [&](std::string_view name) {
    return std::find_if(std::begin(kThen), std::end(kThen), [&](const Engine& e) { return e.now == name; }) - kThen;
  };
  const auto number = number_of(choice.engine->name);
  std::string text(number < std::ssize(kThen) ? kThen[number].then : choice.engine->name);
  std::int64_t tile = choice.config.tile;
  if (const ConvEngine* const inner = choice.config.inner) {
    tile |= number_of(inner->name) << 12 | std::int64_t{choice.config.padded} << 20;
  }
  return text + " tile=" + std::to_string(tile) + " split_k=" + std::to_string(choice.config.split_k);
}

}  // namespace gpudnn::conv
