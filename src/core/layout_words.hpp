// The parts that the problem texts share: layouts of further tensors, and words from a list.
//
// The first tensor of a line is written out. The others have dims that follow from it and the parameters; their layout
// is packed as the first one's (NHWC if that is packed NHWC, else NCHW) unless a word such as "y:nhwc" or
// "dx:strides=36,9,3,1" tells another.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "core/problem_text.hpp"

namespace gpudnn {

// The format that tensors without a layout word have, given the first tensor of the line.
[[nodiscard]] gpudnnTensorFormat_t implied_format(const TensorGeometry& first) noexcept;

// " y:nhwc" for the name "y", or nothing where the layout is the implied one.
[[nodiscard]] std::string layout_word(std::string_view name, const TensorGeometry& tensor,
                                      gpudnnTensorFormat_t implied);

// Gives `tensor`, whose dims are known, the layout that the line tells for `name`, else the implied one.
[[nodiscard]] bool take_layout(ProblemWords* words, std::string_view name, gpudnnTensorFormat_t implied,
                               TensorGeometry* tensor, std::string* why);

// The next word's number in the list; -1, and *why names the choices, if it is not there.
[[nodiscard]] int take_choice(ProblemWords* words, std::span<const char* const> names, std::string* why);

// A name of the list, or "?" for a number beyond it (texts of problems that validation refuses).
[[nodiscard]] std::string name_of(int number, std::span<const char* const> names);

// True if all words were taken; else *why names those left.
[[nodiscard]] bool nothing_left(const ProblemWords& words, std::string* why);

}  // namespace gpudnn
