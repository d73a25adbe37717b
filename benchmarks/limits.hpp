// Two tables that every reported share and verdict rests on: how fast the chip is, and how closely two libraries must
// agree.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cmath>

#include "core/numerics.hpp"
#include "problem_run.hpp"

namespace gpudnn::bench {

// What the device can do at most, measured; the defaults are those of an NVIDIA H200 with large matrix products and a
// 2 GiB copy. fp64 is the exception: no measurement stands behind it.
struct Ceilings {
  double copy_gbps = 4270;  // bytes read and written, in 1e9 per second
  double tflops_f64 = 60;
  double tflops_f32 = 51;  // fused multiply-adds, no tensor cores
  double tflops_tf32 = 415;
  double tflops_f16 = 767;
  double tflops_bf16 = 797;
  double tflops_f8 = 1500;  // and of 8-bit integers, whose instructions are as fast
};

// The bound on ||ours - theirs|| / ||theirs|| by the arithmetic of the problem. Both libraries round, in different
// orders, and ours may use a transform (Winograd, FFT) that loses some digits; theirs is computed without one. A wrong
// index or a dropped tap is far above any of these.
[[nodiscard]] constexpr double agreement_bound(Arithmetic arithmetic) {
  switch (arithmetic) {
    case Arithmetic::f64:
      return numerics::normwise_bound(GPUDNN_DATA_DOUBLE);
    case Arithmetic::f32:
      return numerics::normwise_bound(GPUDNN_DATA_FLOAT);
    case Arithmetic::tf32:
      return numerics::normwise_bound(GPUDNN_DATA_FLOAT, true);
    case Arithmetic::f16:
      return numerics::normwise_bound(GPUDNN_DATA_HALF);
    case Arithmetic::bf16:
      return numerics::normwise_bound(GPUDNN_DATA_BFLOAT16);
    case Arithmetic::f8:
      return numerics::normwise_bound(GPUDNN_DATA_FP8_E4M3);
    case Arithmetic::integer:
      break;
  }
  return 0;
}

// The CTC loss is compared with a library that keeps logarithms of probabilities in floats: each of T steps rounds a
// number of up to M = T log(alphabet) by u M, with random sign, and a gradient is the exponential of such a number
// (docs/numerics.md).
[[nodiscard]] inline double agreement_bound(const Task& task) {
  const auto* ctc = std::get_if<ctc::Problem>(&task.problem);
  if (ctc == nullptr || task.arithmetic != Arithmetic::f32) return agreement_bound(task.arithmetic);
  const auto steps = static_cast<double>(ctc->x.dims[0]);
  const double magnitude = steps * std::log(static_cast<double>(std::max<std::int64_t>(ctc->x.dims[2], 2)));
  return std::max(agreement_bound(task.arithmetic), std::sqrt(steps) * 0x1p-24 * magnitude);
}

// The least time that the problem can take: the larger of operations over the rate of its arithmetic and bytes over the
// copy rate.
[[nodiscard]] inline double floor_seconds(const Task& task, const Ceilings& ceilings) {
  const auto* conv = std::get_if<conv::Problem>(&task.problem);
  const bool fma = conv != nullptr && conv->math == GPUDNN_FMA_MATH;
  double tflops = ceilings.tflops_f32;
  switch (task.arithmetic) {
    case Arithmetic::f64:
      tflops = ceilings.tflops_f64;
      break;
    case Arithmetic::tf32:
      tflops = ceilings.tflops_tf32;
      break;
    case Arithmetic::f16:
      tflops = fma ? ceilings.tflops_f32 : ceilings.tflops_f16;
      break;
    case Arithmetic::bf16:
      tflops = fma ? ceilings.tflops_f32 : ceilings.tflops_bf16;
      break;
    case Arithmetic::f8:
    case Arithmetic::integer:
      tflops = ceilings.tflops_f8;
      break;
    case Arithmetic::f32:
      break;
  }
  const double compute = task.flops / (1e12 * tflops);
  const double memory = task.bytes / (1e9 * ceilings.copy_gbps);
  return compute > memory ? compute : memory;
}

}  // namespace gpudnn::bench
