// Random legal problems of every operation, small enough for the nested loops of the oracle.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/cases.hpp"
#include "support/random.hpp"

namespace gpudnn::test {

[[nodiscard]] ConvCase random_conv(Random& random);
// A forward convolution with an epilogue that the classic interface may not be able to ask for.
// As random_conv, with other padding behind than before.
[[nodiscard]] ConvCase random_conv_of_uneven_padding(Random& random);
[[nodiscard]] ConvCase random_conv_with_epilogue(Random& random);
[[nodiscard]] PoolingCase random_pooling(Random& random);
[[nodiscard]] ActivationCase random_activation(Random& random);
[[nodiscard]] SoftmaxCase random_softmax(Random& random);
[[nodiscard]] TensorCase random_tensor(Random& random);
[[nodiscard]] BiasGradCase random_bias_grad(Random& random);

// Packed as NCHW or NHWC, or any order of the dimensions with gaps between them.
void set_random_layout(Random& random, TensorGeometry* tensor);

}  // namespace gpudnn::test
