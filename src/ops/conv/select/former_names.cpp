// What tuning caches called a choice before configs had texts: engines by their former names, tiles by number. This
// file and its test alone know the former names.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "ops/conv/select/tuned_file.hpp"

namespace gpudnn::conv {

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
