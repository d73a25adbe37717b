// Transforms of tensors and filters: pad or crop, fold or unfold, and store in another layout or type.
//   out = alpha * transform(in) + beta * out
// FOLD pads first, then moves the position within blocks of `fold` pixels into the channel; UNFOLD moves it back first,
// then pads. Folded channel: (within_0 * fold_1 + within_1) * channels + channel.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "gpudnn/cnn.h"
#include "kernels/gather/copy.hpp"
#include "kernels/gather/gather.hpp"

namespace gpudnn::transform {

// Plain numbers of a transform descriptor. Entries from `rank` on are zero.
struct Transform {
  int rank = 0;
  std::int64_t before[kMaxRank] = {};  // negative: cropped
  std::int64_t after[kMaxRank] = {};
  std::int64_t fold[kMaxRank] = {};  // of dimension i; 1 for the first two
  bool unfold = false;
};
[[nodiscard]] Transform identity(int rank) noexcept;

struct Problem {
  Transform transform;
  TensorGeometry in;  // of a vector type: dims count channels, strides count vectors
  TensorGeometry out;
};

struct Args {
  double alpha = 1;
  double beta = 0;
  const void* in = nullptr;
  void* out = nullptr;
};

// The dims that the transform makes of `in`, into out->dims and out->rank.
[[nodiscard]] Status output_dims(const Transform& transform, const TensorGeometry& in, const char* in_name,
                                 TensorGeometry* out);
[[nodiscard]] Status validate(const Problem& problem, const char* in_name, const char* out_name);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

// The column buffer of a convolution input: (c * taps, n * outputs), packed.
struct ColumnProblem {
  TensorGeometry x;
  int spatial = 2;
  bool flip = false;  // a true convolution: taps in reverse
  std::int64_t taps[kMaxRank] = {};
  std::int64_t outputs[kMaxRank] = {};
  std::int64_t pad[kMaxRank] = {};
  std::int64_t stride[kMaxRank] = {};
  std::int64_t dilation[kMaxRank] = {};
};
// Sets `outputs`; false where the window does not fit into the padded input along dimension *where.
[[nodiscard]] bool set_outputs(ColumnProblem* problem, int* where) noexcept;
[[nodiscard]] std::string to_text(const ColumnProblem& problem);
[[nodiscard]] std::optional<ColumnProblem> columns_from_text(std::string_view line, std::string* why);
[[nodiscard]] Status run_columns(gpudnnHandle_t handle, const ColumnProblem& problem, const void* x, void* columns);

// Bytes as they are, one launch for all parts.
[[nodiscard]] Status run_copies(gpudnnHandle_t handle, const kernels::CopyPart (&parts)[kernels::kCopyParts]);

// Of the two problems.
[[nodiscard]] kernels::GatherMap make_map(const Problem& problem);
[[nodiscard]] kernels::GatherMap make_map(const ColumnProblem& problem);

}  // namespace gpudnn::transform
