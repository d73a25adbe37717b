// Fused operation plans: what a const pack describes, the plan made of it, and its execution with a variant pack. A
// plan is a short list of stages, each an operation that exists elsewhere or an element-wise one of this folder.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <vector>

#include "gpudnn/cnn.h"
#include "ops/conv/engine.hpp"
#include "ops/conv/problem.hpp"
#include "ops/fused_ops/channel_sums.hpp"
#include "ops/fused_ops/finalize.hpp"
#include "ops/norm/problem.hpp"
#include "ops/op_tensor/problem.hpp"
#include "ops/reduce/problem.hpp"

namespace gpudnn::fused_ops {

constexpr int kConstLabels = GPUDNN_PARAM_BN_DBIAS_PLACEHOLDER + 1;
constexpr int kPointerLabels = GPUDNN_PTR_BN_DBIAS + 1;

// "GPUDNN_PARAM_XDESC" and so on; "GPUDNN_PTR_XDATA" and so on.
[[nodiscard]] const char* const_label_name(int label) noexcept;
[[nodiscard]] const char* pointer_label_name(int label) noexcept;
[[nodiscard]] const char* pattern_name(gpudnnFusedOps_t ops) noexcept;

// The entries of a const pack. Descriptors are copied when they are set.
struct ConstPack {
  gpudnnFusedOps_t ops = GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS;
  bool set[kConstLabels] = {};
  TensorGeometry tensors[kConstLabels];  // of tensors and filters
  gpudnnFusedOpsPointerPlaceHolder_t placeholders[kConstLabels] = {};
  gpudnnBatchNormMode_t mode = GPUDNN_BATCHNORM_SPATIAL;
  conv::Problem conv;  // what a convolution descriptor says of it
  gpudnnActivationMode_t activation = GPUDNN_ACTIVATION_IDENTITY;
  gpudnnNanPropagation_t nan = GPUDNN_NOT_PROPAGATE_NAN;
  double coef = 0;
};

struct VariantPack {
  gpudnnFusedOps_t ops = GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS;
  void* pointers[kPointerLabels] = {};
  std::size_t workspace_bytes = 0;
  std::int64_t count = 0;  // elements behind each sum; 0: not set
  double factor = 1;
  double epsilon = 1e-5;
};

// What was promised of a pointer.
struct Promise {
  gpudnnFusedOpsVariantParamLabel_t label;
  std::size_t alignment;
};

struct Room {
  std::size_t offset = 0;
  std::size_t bytes = 0;
};

// Immutable once made.
struct Plan {
  gpudnnFusedOps_t ops = GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS;
  const Device* device = nullptr;
  std::size_t workspace = 0;
  std::vector<Promise> promises;
  bool promised[kPointerLabels] = {};
  std::string text;  // for the log

  bool has_affine = false;    // before or after the convolution, or alone
  bool has_epilogue = false;  // the convolution does all of it
  bool has_conv = false;
  AffineProblem affine;
  conv::Problem conv;
  int conv_algorithm = 0;
  std::size_t conv_bytes = 0;                // of scratch
  std::shared_ptr<const conv::Plan> chosen;  // for pointers at multiples of 16 bytes
  SumsProblem sums;
  bool sums_together = false;  // by one kernel where y is at a multiple of 16 bytes; else by these:
  reduce::Problem sum;
  reduce::Problem squares;      // leaves the root of the sum of squares,
  op_tensor::Problem squaring;  // which this takes back
  bool bits_in_norm = false;    // normalization takes the bits itself; `affine` is for the text
  norm::Problem norm;
  FinalizeProblem finalize;
  double coef = 0;
  bool propagate_nan = false;

  Room between;  // the tensor between the stages
  Room dscale;   // what the caller does not want to have
  Room dbias;
  Room scratch;  // of the stages, one after the other
};

// Refuses a pack that makes no sense or a pattern that is not built for it, with a reason.
[[nodiscard]] Status make_plan(gpudnnHandle_t handle, const ConstPack& pack, std::shared_ptr<const Plan>* plan);
[[nodiscard]] Status execute(gpudnnHandle_t handle, const Plan& plan, const VariantPack& pack);

}  // namespace gpudnn::fused_ops
