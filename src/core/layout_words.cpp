// The parts that the problem texts share.
// SPDX-License-Identifier: Apache-2.0
#include "core/layout_words.hpp"

#include <utility>

namespace gpudnn {

gpudnnTensorFormat_t implied_format(const TensorGeometry& first) noexcept {
  return is_packed_nhwc(first) && !is_packed_nchw(first) ? GPUDNN_TENSOR_NHWC : GPUDNN_TENSOR_NCHW;
}

std::string layout_word(std::string_view name, const TensorGeometry& tensor, gpudnnTensorFormat_t implied) {
  TensorGeometry packed = tensor;
  set_packed_strides(&packed, implied);
  if (same_layout(tensor, packed)) return {};
  return ' ' + std::string(name) + ':' + layout_text(tensor);
}

bool take_layout(ProblemWords* words, std::string_view name, gpudnnTensorFormat_t implied, TensorGeometry* tensor,
                 std::string* why) {
  const std::string prefix = std::string(name) + ':';
  const auto layout = words->take(prefix);
  if (!layout) {
    set_packed_strides(tensor, implied);
    return true;
  }
  if (parse_layout(*layout, tensor)) return true;
  *why = "'" + prefix + std::string(*layout) + "' is no layout of " + std::string(name) +
         "; expected nchw, nhwc or strides= and " + std::to_string(tensor->rank) + " numbers";
  return false;
}

int take_choice(ProblemWords* words, std::span<const char* const> names, std::string* why) {
  const std::string_view word = words->next();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (word == names[i]) return static_cast<int>(i);
  }
  std::string text("'");
  text.append(word).append("' is none of ");
  for (std::size_t i = 0; i < names.size(); ++i) text.append(i > 0 ? ", " : "").append(names[i]);
  *why = std::move(text);
  return -1;
}

std::string name_of(int number, std::span<const char* const> names) {
  const auto index = static_cast<std::size_t>(number);
  return number >= 0 && index < names.size() ? names[index] : "?";
}

bool nothing_left(const ProblemWords& words, std::string* why) {
  const std::string rest = words.rest();
  if (!rest.empty()) *why = "cannot read '" + rest + "'";
  return rest.empty();
}

}  // namespace gpudnn
