// Reading the problem language: one line of words, such as
// "conv fwd f16 nhwc n64c256h56w56 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor".
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/geometry.hpp"

namespace gpudnn {

// The words of a line, in order. A reader takes what it knows and at the end asks whether any is left.
class ProblemWords {
 public:
  explicit ProblemWords(std::string_view line);

  // The next word, or an empty one at the end.
  std::string_view next();
  // Takes the first word that starts with `prefix` (such as "acc=") and returns what follows it.
  std::optional<std::string_view> take(std::string_view prefix);
  // Takes the word if it is there.
  bool take_word(std::string_view word);
  // Words not taken, for an error text; empty when all were.
  [[nodiscard]] std::string rest() const;

 private:
  std::vector<std::string_view> words_;
};

// "3x3" or "3" -> values; false if it is no such list or has more than `most` entries.
[[nodiscard]] bool parse_extents(std::string_view text, std::int64_t* values, int* count, int most);
// "k64r3s3" -> values in the order of `letters`; false unless each letter is there in order with a number.
[[nodiscard]] bool parse_lettered(std::string_view text, std::string_view letters, std::int64_t* values);

// Type, layout ("nchw", "nhwc", "strides=...") and dims ("n64c256h56w56", "8x16") as tensor_text writes them.
[[nodiscard]] bool parse_tensor(std::string_view type, std::string_view layout, std::string_view dims,
                                TensorGeometry* tensor);
// Takes three words: a whole tensor.
[[nodiscard]] bool parse_tensor(ProblemWords* words, TensorGeometry* tensor);
// Gives `tensor` (dims known) the layout; false if it does not fit.
[[nodiscard]] bool parse_layout(std::string_view layout, TensorGeometry* tensor);

// "3x3" of `count` values.
[[nodiscard]] std::string extents_text(const std::int64_t* values, int count);

}  // namespace gpudnn
