// What float holds of scores and of their statistics, which a bias may carry far from 0.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/fast_divmod.cuh"

namespace gpudnn::kernels {

// Scores times log2(e) are floats up to here.
constexpr float kGreatestScore = 2.35e38F;

// Whether a row's statistics hold its sum. Those of a row that sees nothing do not, nor those of a row that sees
// nothing but a great bias, beside which the sum's logarithm is rounded away (beyond these bounds by 1/64 or more).
// Such rows have gradients of 0.
template <class C>
GPUDNN_HOST_DEVICE bool holds_sum(C stats) {
  constexpr C kGreatest = static_cast<C>(sizeof(C) == 8 ? 0x1p47 : 0x1p18);
  return !(stats > kGreatest || stats < -kGreatest);  // a NaN goes on
}

}  // namespace gpudnn::kernels
