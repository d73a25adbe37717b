// What the entry points around tensor transforms share.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "api/descriptors.hpp"
#include "ops/transform/problem.hpp"

namespace gpudnn {

// Live and set.
[[nodiscard]] Status check_transform(gpudnnTensorTransformDescriptor_t transformDesc, const char* argument);

[[nodiscard]] transform::Transform transform_of(const gpudnnTensorTransformStruct& desc);

// Gives the descriptor the geometry's type and dims, packed in the format.
[[nodiscard]] Status set_packed_descriptor(TensorGeometry geometry, gpudnnTensorFormat_t format,
                                           gpudnnTensorDescriptor_t desc);

}  // namespace gpudnn
