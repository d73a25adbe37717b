// What the launch functions of the normalization kernels take. Plain data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm/walk.hpp"
#include "kernels/tile/element_type.hpp"

struct CUstream_st;

namespace gpudnn::kernels {

enum class NormActivation : std::int32_t { none, relu, clipped_relu };

// What a launch does of the work.
enum class NormStage : std::int32_t {
  whole,    // everything; the `parts` blocks that share a set or a tile of sets are a cluster
  partial,  // statistics (forward) or sums (backward) of each part, into `partials`
  apply,    // the outputs, from `results` or the given statistics
};

// C stands for float, or double for double data: the type of parameters, statistics and scratch.
struct NormParams {
  tile::ElementType type = tile::ElementType::f32;
  NormStage stage = NormStage::whole;
  bool backward = false;
  NormActivation activation = NormActivation::none;
  bool propagate_nan = false;
  double ceiling = 0;  // of the clipped ReLU
  double alpha = 1, beta = 0, alpha_param = 1, beta_param = 0;
  double factor = 1;
  double epsilon = 0;
  double count = 1;  // elements of a set
  const void* x = nullptr;
  const void* side = nullptr;  // z (or null) forward, dy backward
  void* out = nullptr;
  void* dz = nullptr;
  unsigned char* mask = nullptr;
  const void* scale = nullptr;
  const void* bias = nullptr;
  const void* given_mean = nullptr;       // null: those of the batch
  const void* given_deviation = nullptr;  // forward the variance, backward 1 / sqrt(variance + epsilon)
  bool inverse_given = false;             // forward: it is as backward's
  void* running_mean = nullptr;
  void* running_variance = nullptr;
  const void* old_mean = nullptr;  // what the running pair was before
  const void* old_variance = nullptr;
  void* saved_mean = nullptr;
  void* saved_inverse = nullptr;
  void* dscale = nullptr;
  void* dbias = nullptr;
  // Scratch of C: partials [part][value][set], with values count, mean, squares or the two sums; results [value][set]
  // with mean, 1 / sqrt(variance + epsilon) and, of backward, the two sums.
  void* partials = nullptr;
  void* results = nullptr;
  NormWalk walk;
  int parts = 1;    // blocks for each set (rows) or tile of sets (columns)
  int threads = 0;  // of a block
  int lanes = 1;    // columns: units side by side in a block
  int cached = 0;   // whole: rounds of units that stay in shared memory between the passes
};

void launch_norm_rows(const NormParams& params, CUstream_st* stream);
void launch_norm_columns(const NormParams& params, CUstream_st* stream);
// Joins the partials of a forward (statistics) or backward (sums) pass: results, and what the caller gets of them.
void launch_norm_finish(const NormParams& params, CUstream_st* stream);

// Buffers of statistics that GPUs share: [sender][set] with four words each, what is posted (mean and sum of squared
// deviations, or the two sums), each behind it 1 while the receiver has not taken it. In buffer `r` the row of GPU `s`
// is (s - r) mod count; that of itself is not used.
constexpr int kMaxNormPeers = 64;
struct NormPeers {
  int count = 0;
  int own = 0;
  void* buffers[kMaxNormPeers] = {};
};
// The same for statistics of several GPUs, joined in the order of `buffers`; floats. `params.count` is that of all.
void launch_norm_finish_with_peers(const NormParams& params, const NormPeers& peers, CUstream_st* stream);

// The most threads of a block, which is what large problems get.
constexpr int kNormRowsThreads = 384;
constexpr int kNormColumnsThreads = 256;

}  // namespace gpudnn::kernels
