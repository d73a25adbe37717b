// What a backend does of a recurrent network's calls: each stage queues its work. The order of the stages, and what
// lies where, is the same for all backends (layers.cpp).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "kernels/rnn/pads.hpp"
#include "ops/rnn/problem.hpp"

namespace gpudnn::rnn {

// d[m, n] (+)= the sum over k of a[m, k] b[k, n]; strides in elements. Of layers and directions, where there are
// several.
struct Product {
  DataType type = GPUDNN_DATA_FLOAT;
  gpudnnMathType_t math = GPUDNN_DEFAULT_MATH;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  const void* a = nullptr;
  std::int64_t a_strides[2] = {};
  const void* b = nullptr;
  std::int64_t b_strides[2] = {};
  void* d = nullptr;
  std::int64_t d_row = 0;
  std::int64_t counts[2] = {1, 1};
  std::int64_t a_steps[2] = {};
  std::int64_t b_steps[2] = {};  // of directions 0: the same for both
  std::int64_t d_steps[2] = {};
  bool adds = false;
  const void* c = nullptr;  // [m, n], added
  std::int64_t c_row = 0;
};

// Rows of a matrix, whose columns lie side by side. Of an operand that lies in two parts: for the rows of the other
// operand from `row_of_a` on. Null: zeros.
struct WeightRows {
  const void* at = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t width = 0;
  std::int64_t rows = 0;
  std::int64_t row_of_a = 0;
};
// d[m, n], packed, is the sum over the rows of a[row, m] b[row, n]. Of n = 0 there is none.
struct WeightProduct {
  WeightRows b[2];
  void* d = nullptr;
  std::int64_t n = 0;
};
// Up to two with the same a, columns [column, column + m) of a matrix, whose sums over the rows are gradients of
// biases: all of them, and of the second one the first `bias2_m`.
struct WeightProducts {
  WeightRows a;
  std::int64_t column = 0;
  std::int64_t m = 0;
  WeightProduct product[2];
  void* bias = nullptr;
  void* bias2 = nullptr;
  std::int64_t bias2_m = 0;
};

// Memory for the transpose of an R, and whose is in it.
struct Transpose {
  const void* at = nullptr;
  const void* of = nullptr;
};

struct Site {
  LaunchSite launch;
  gpudnnHandle_t handle;
  void* scratch;  // of products
  std::size_t scratch_bytes;
  void* exchange;
  std::int64_t exchange_bytes;  // of a lane
  std::int64_t exchange_room;   // of all
  DataType type;
  gpudnnMathType_t math;
  Status* failure;  // of a product within a sweep
  std::span<Transpose> transposes;
};

struct Stages {
  Status (*product)(const Site&, const Product&);
  // All gradients of weights at once. Null: the backend has none; `takes_weights` tells whether those of so many
  // multiplications are made like this, `in_slices` that there is room for sums of slices of the rows, which lie in
  // `partials`. Rows of 16 bits are then a multiple of 16 bytes apart.
  Status (*weights)(const Site&, std::span<const WeightProducts> list, std::int64_t rows, std::span<float> partials,
                    bool adds);
  bool (*takes_weights)(const Site&, double multiplications, bool in_slices);
  // Bytes with which a product runs at its best.
  Status (*product_scratch)(gpudnnHandle_t, const Product&, std::size_t* bytes);
  void (*forward)(const Site&, const kernels::RnnLayer&);
  void (*backward)(const Site&, const kernels::RnnLayer&);
  // Several layers in one launch, each a step behind its neighbour. False: they are to run one by one.
  bool (*pipelines)(const Site&, const kernels::RnnLayer& layer, int layers, bool backward);
  bool (*pipeline)(const Site&, std::span<const kernels::RnnLayer> layers, bool backward);
  // Two layers in parts of the steps, the upper one a part behind the lower one, both in one launch: how many parts; 0:
  // they are to run one by one. What runs a part says whether it did.
  int (*parts_of_pair)(const Site&, const kernels::RnnLayer& layer, bool backward);
  bool (*part)(const Site&, const kernels::RnnLayer& layers, bool backward);
  void (*pass)(const Site&, const kernels::RnnLayer&, bool backward);
  void (*gather)(const Site&, const kernels::RnnCopy&, const void* from, void* rows);
  void (*scatter)(const Site&, const kernels::RnnCopy&, const void* rows, void* to);
  void (*upload)(const Site&, const std::int32_t* from, std::int64_t count, std::int32_t* to);
  void (*previous)(const Site&, const kernels::RnnPrevious&, void* to, std::int64_t to_row);
  void (*transpose)(const Site&, tile::ElementType, const void* from, std::int64_t rows, std::int64_t columns,
                    void* to);
  void (*column_sums)(const Site&, const kernels::RnnColumnSums&);
  void (*gate_sum)(const Site&, const kernels::RnnGateSum&);
  Status (*clear)(const Site&, void* to, std::size_t bytes);
  // Products are launches, and the fewer the better: those of all layers are made at once where they can be, and stand
  // for the sweep where there is one step.
  bool merges_products;
  Status (*copy_rows)(const Site&, const kernels::RnnPad&);
  void (*pad_rows)(const Site&, const kernels::RnnPads&);
  // Null: a product keeps the device busy however small it is.
  void (*slices)(const Site&, const kernels::RnnSlices&);
};

// The transposes of R of a layer that a sweep against the steps is about to read, where they have not been made.
void make_transposes(const Site& site, const kernels::RnnLayer& layer, decltype(Stages::transpose) transpose);

extern const Stages kHostStages;
#ifdef GPUDNN_WITH_CUDA
extern const Stages kStreamingStages;
#endif

// The whole call with the stages of one engine.
[[nodiscard]] Status run_stages(const Stages& stages, const LaunchSite& site, const Problem& problem, const Args& args);

}  // namespace gpudnn::rnn
