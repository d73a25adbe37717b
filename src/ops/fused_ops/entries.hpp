// Taking the entries of a const pack, each with its checks, while a plan is made.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/fused_ops/plan.hpp"

namespace gpudnn::fused_ops {

struct Maker {
  gpudnnHandle_t handle;
  const ConstPack& pack;
  Plan* plan;

  [[nodiscard]] bool is_promised(int placeholder) const { return pack.placeholders[placeholder] != GPUDNN_PTR_NULL; }
};

// The entry was set.
[[nodiscard]] Status require_desc(const Maker& m, int label, const TensorGeometry** tensor);
// The pointer will be there; both or neither will.
[[nodiscard]] Status require_promised(const Maker& m, int placeholder);
[[nodiscard]] Status check_pair(const Maker& m, int first, int second);
[[nodiscard]] Status check_mode(const Maker& m);

// Notes a pointer that the pattern uses if there is one.
void note_pointer(Maker* m, int placeholder, gpudnnFusedOpsVariantParamLabel_t label, DataType type);
// A tensor (or filter) that the pattern cannot do without: its descriptor and its pointer.
[[nodiscard]] Status take_tensor(Maker* m, int desc, int placeholder, gpudnnFusedOpsVariantParamLabel_t label,
                                 TensorGeometry* out);
// A vector of one value for each of `channels` channels; absent where its placeholder says so.
[[nodiscard]] Status take_vector(Maker* m, int desc, int placeholder, gpudnnFusedOpsVariantParamLabel_t label,
                                 std::int64_t channels, bool data_is_double, ChannelVector* out);
// The bits of an activation on y, if they are promised.
[[nodiscard]] Status take_bits(Maker* m, const TensorGeometry& y);

// Room in the workspace.
void reserve(Plan* plan, std::size_t bytes, Room* room);

}  // namespace gpudnn::fused_ops
