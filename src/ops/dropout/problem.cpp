// The dropout problem: its checks and its text.
//   dropout fwd f16 nhwc n64c256h56w56 p=0.5 [y:LAYOUT]
//   dropout bwd f32 nchw n8c16h9w9 p=0.1 [dx:LAYOUT]      (the tensor written out is dy)
// SPDX-License-Identifier: Apache-2.0
#include "ops/dropout/problem.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::dropout {
namespace {

constexpr const char* kPasses[] = {"fwd", "bwd"};

const char* out_name(const Problem& problem) { return problem.backward ? "dx" : "y"; }

}  // namespace

std::size_t reserve_size(const TensorGeometry& tensor) noexcept {
  const auto count = static_cast<std::size_t>(element_count(tensor));
  return kernels::kMaskHeader + (count + 7) / 8;
}

std::uint32_t threshold_of(float probability) noexcept {
  return static_cast<std::uint32_t>(std::lround(static_cast<double>(probability) * 65536));
}

double scale_of(float probability) noexcept {
  return threshold_of(probability) >= 65536 ? 0 : 1 / (1 - static_cast<double>(probability));
}

kernels::MaskOrder mask_order(const TensorGeometry& out) noexcept {
  kernels::MaskOrder order;
  int dims[kMaxRank];
  int count = 0;
  for (int i = 0; i < out.rank; ++i) {
    order.dims[i] = static_cast<std::uint64_t>(out.dims[i]);
    if (out.dims[i] > 1) dims[count++] = i;
  }
  std::stable_sort(dims, dims + count, [&](int a, int b) { return out.strides[a] > out.strides[b]; });
  for (int i = 0; i < count; ++i) order.code = order.code << 4 | static_cast<std::uint32_t>(dims[i] + 1);
  return order;
}

Status validate(const Problem& problem) {
  const char* const in = problem.backward ? "dydesc" : "xdesc";
  const char* const out = problem.backward ? "dxdesc" : "ydesc";
  GPUDNN_TRY(require_floating(problem.in, in));
  GPUDNN_TRY(require_floating(problem.out, out));
  GPUDNN_TRY(require_same_type(problem.in, in, problem.out, out));
  GPUDNN_TRY(require_same_dims(problem.in, in, problem.out, out));
  return require_no_overlap(problem.out, out);
}

Status validate(const Problem& problem, const Args& args) {
  GPUDNN_TRY(validate(problem));
  const std::size_t needed = reserve_size(problem.in);
  GPUDNN_REQUIRE(args.reserve_bytes >= needed, GPUDNN_STATUS_BAD_PARAM,
                 "reserveSpaceSizeInBytes is %zu; gpudnnDropoutGetReserveSpaceSize says %zu for this tensor",
                 args.reserve_bytes, needed);
  GPUDNN_REQUIRE(problem.backward || args.states != nullptr || problem.probability == 0, GPUDNN_STATUS_BAD_PARAM,
                 "dropoutDesc drops with probability %g but has no states; give gpudnnSetDropoutDescriptor some memory "
                 "of gpudnnDropoutGetStatesSize bytes",
                 static_cast<double>(problem.probability));
  return GPUDNN_STATUS_SUCCESS;
}

std::string to_text(const Problem& problem) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, problem.probability);
  return std::string("dropout ") + kPasses[problem.backward] + ' ' + tensor_text(problem.in) +
         " p=" + std::string(digits, end) + layout_word(out_name(problem), problem.out, implied_format(problem.in));
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "dropout") return *why = "the line does not start with 'dropout'", std::nullopt;
  const int pass = take_choice(&words, kPasses, why);
  if (pass < 0) return std::nullopt;
  problem.backward = pass == 1;
  if (!parse_tensor(&words, &problem.in)) {
    return *why = "expected a tensor such as 'f16 nhwc n64c256h56w56'", std::nullopt;
  }
  const auto text = words.take("p=");
  if (!text) return *why = "the probability is missing: write p=0.5", std::nullopt;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), problem.probability);
  if (error != std::errc{} || end != text->data() + text->size() ||
      !(problem.probability >= 0 && problem.probability <= 1)) {
    return *why = "'p=" + std::string(*text) + "' is no probability", std::nullopt;
  }
  problem.out = problem.in;
  if (!take_layout(&words, out_name(problem), implied_format(problem.in), &problem.out, why)) return std::nullopt;
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

}  // namespace gpudnn::dropout
