// What tests share that emulate a convolution kernel's addressing on the host: problems from lines and at random,
// tensors as they lie in memory, and the comparison with the definition of convolution.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <numeric>
#include <string>
#include <vector>

#include "core/geometry.hpp"
#include "core/tma_boxes.hpp"
#include "support/naive.hpp"
#include "support/random.hpp"
#include "support/random_problems.hpp"
#include "support/session.hpp"

namespace gpudnn::test {

// --- problems --------------------------------------------------------------------------------------------------------

// The problem of a line without its first word, with whole numbers for data.
inline ConvCase conv_case(const std::string& line) {
  std::string why;
  const auto problem = conv::from_text("conv " + line, &why);
  EXPECT_TRUE(problem) << line << ": " << why;
  ConvCase c{};
  c.problem = problem.value_or(conv::Problem{});
  c.integers = true;
  c.alpha = 1;
  c.coef = 6;
  c.alpha2 = 2;
  return c;
}

// Calls check(case) for `count` random problems that are supported, until one fails. There have to be so many.
template <class Check>
void check_random_convs(int count, const char* (*reason)(const conv::Problem&), Check check) {
  Random random(session_seed());
  int taken = 0;
  for (int i = 0; i < 100000 && taken < count; ++i) {
    ConvCase c = random_conv(random);
    c.integers = true;
    if (reason(c.problem) != nullptr) continue;
    ++taken;
    check(c);
    if (testing::Test::HasFailure()) break;
  }
  EXPECT_EQ(taken, count);
}

// --- tensors ---------------------------------------------------------------------------------------------------------

using Memory = std::vector<double>;  // elements by their offset
constexpr double kGap = 1e30;        // between a tensor's elements

// Calls f(row-major index, offset in elements) for each element.
template <class F>
void for_each_element(const TensorGeometry& t, F f) {
  const std::int64_t count = element_count(t);
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    std::int64_t offset = 0;
    for (int dim = t.rank - 1; dim >= 0; --dim) {
      offset += rest % t.dims[dim] * t.strides[dim];
      rest /= t.dims[dim];
    }
    f(static_cast<std::size_t>(i), static_cast<std::size_t>(offset));
  }
}

// The values, given in row-major order, where the tensor has them; without values, gaps alone.
inline Memory in_memory(const TensorGeometry& t, const std::vector<double>& values) {
  Memory memory(static_cast<std::size_t>(element_span(t)), kGap);
  if (values.empty()) return memory;
  for_each_element(t, [&](std::size_t i, std::size_t offset) { memory[offset] = values[i]; });
  return memory;
}

// What TMA brings: a box, zeros outside. `wide` elements of so many bytes are one of the boxes' own.
inline Memory box_of(const TmaBoxes& boxes, const Memory& memory, std::initializer_list<std::int64_t> at,
                     std::int64_t bytes, std::int64_t wide = 1) {
  const std::vector<std::int64_t> corner(at);
  EXPECT_EQ(corner.size(), static_cast<std::size_t>(boxes.rank));
  std::int64_t count = 1;
  for (int a = 0; a < boxes.rank; ++a) count *= boxes.box[a];
  Memory box;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t left = i;
    std::int64_t offset = 0;
    bool inside = true;
    for (int a = 0; a < boxes.rank; ++a) {
      const std::int64_t position = corner[static_cast<std::size_t>(a)] + left % boxes.box[a];
      left /= boxes.box[a];
      inside = inside && position >= 0 && position < boxes.extent[a];
      offset += a > 0 ? position * boxes.step[a - 1] / bytes : position * wide;
    }
    for (std::int64_t e = 0; e < wide; ++e) {
      box.push_back(inside ? memory.at(static_cast<std::size_t>(offset + e)) : 0);
    }
  }
  return box;
}

// Every element of the result is the convolution's and was written once; nothing else was written.
inline void expect_convolution(const ConvCase& c, const Values& values, const Memory& result,
                               const std::vector<int>& writes) {
  const Expected expected = naive(c, values);
  const TensorGeometry& out = output(c.problem);
  ASSERT_EQ(std::accumulate(writes.begin(), writes.end(), std::int64_t{0}), element_count(out)) << "writes";
  std::int64_t wrong = 0;
  std::string first;
  for_each_element(out, [&](std::size_t i, std::size_t offset) {
    if (result[offset] == expected.value[i] && writes[offset] == 1) return;
    if (wrong++ == 0) {
      first = "element " + std::to_string(i) + " is " + std::to_string(result[offset]) + ", not " +
              std::to_string(expected.value[i]) + ", written " + std::to_string(writes[offset]) + " times";
    }
  });
  EXPECT_EQ(wrong, 0) << first;
}

}  // namespace gpudnn::test
