// Matrix products on the host: as the definition has them, and through the blocked product.
// SPDX-License-Identifier: Apache-2.0
#include "host/matmul.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <vector>

#include "core/float8.hpp"
#include "core/parallel.hpp"
#include "host/any_element.hpp"
#include "host/element.hpp"
#include "host/gemm.hpp"
#include "kernels/gemm/epilogue/activation.hpp"

namespace gpudnn::host {
namespace {

using matmul::Args;
using matmul::batched;
using matmul::Batched;
using matmul::Problem;

// Steps above which one product keeps all threads busy.
constexpr std::int64_t kShared = 1 << 20;

// One element of any type that a product has, by address: 8 types in 5 places would be 32768 functions.
LoadAny load_element(DataType type) {
  switch (type) {
    case GPUDNN_DATA_FP8_E4M3:
      return [](const void* data, std::int64_t at) { return to_double(static_cast<const Float8E4M3*>(data)[at]); };
    case GPUDNN_DATA_FP8_E5M2:
      return [](const void* data, std::int64_t at) { return to_double(static_cast<const Float8E5M2*>(data)[at]); };
    default:
      return load_of(type);
  }
}

// Calls f.template operator()<T>() with the storage type of d.
template <class F>
void with_result_type(DataType type, F&& f) {
  switch (type) {
    case GPUDNN_DATA_FP8_E4M3:
      return f.template operator()<Float8E4M3>();
    case GPUDNN_DATA_FP8_E5M2:
      return f.template operator()<Float8E5M2>();
    default:
      return with_any_type(type, std::forward<F>(f));
  }
}
// Calls f.template operator()<T>() with the storage type of an operand.
template <class F>
void with_operand_type(DataType type, F&& f) {
  switch (type) {
    case GPUDNN_DATA_FP8_E4M3:
      return f.template operator()<Float8E4M3>();
    case GPUDNN_DATA_FP8_E5M2:
      return f.template operator()<Float8E5M2>();
    case GPUDNN_DATA_INT8:
      return f.template operator()<std::int8_t>();
    default:
      return with_floating_type(type, std::forward<F>(f));
  }
}

std::int64_t overridden(const Problem& problem, int bit, const void* values, std::int64_t index,
                        std::int64_t extent) noexcept {
  if ((problem.overrides & bit) == 0) return extent;
  const std::int64_t value = problem.override_type == GPUDNN_DATA_INT64
                                 ? static_cast<const std::int64_t*>(values)[index]
                                 : static_cast<const std::int32_t*>(values)[index];
  return std::clamp<std::int64_t>(value, 0, extent);
}

// Where batch (i, j) of d starts in the tensor, which repeats each of its own batches for several of d's.
std::int64_t batch_offset(const TensorGeometry& tensor, const Batched& d, std::int64_t i, std::int64_t j) noexcept {
  if (tensor.rank == 0) return 0;
  const Batched t = batched(tensor);
  return i / (d.dims[0] / t.dims[0]) * t.strides[0] + j / (d.dims[1] / t.dims[1]) * t.strides[1];
}

// What one batch of d is made of: where its operands start, in elements, and the extents that count.
struct MatmulBatch {
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::int64_t c = 0;
  std::int64_t d = 0;
  std::int64_t bias = 0;
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
};

// The sums of one row of d.
template <class TA, class TB>
void sum_row(const Problem& problem, const Args& args, const MatmulBatch& batch, std::int64_t row, double* sums) {
  const int last = problem.a.rank - 1;
  const TA* const a = static_cast<const TA*>(args.a) + batch.a + row * problem.a.strides[last - 1];
  const TB* const b = static_cast<const TB*>(args.b) + batch.b;
  std::fill_n(sums, batch.n, 0.0);
  for (std::int64_t k = 0; k < batch.k; ++k) {
    const double factor = to_double(a[k * problem.a.strides[last]]);
    const TB* const row_of_b = b + k * problem.b.strides[last - 1];
    for (std::int64_t n = 0; n < batch.n; ++n) sums[n] += factor * to_double(row_of_b[n * problem.b.strides[last]]);
  }
}

// Calls f.template operator()<TA, TB>() with the storage types of a and b, which differ among the 8-bit formats alone.
template <class F>
void with_operand_types(const Problem& problem, F&& f) {
  with_operand_type(problem.a.type, [&]<class TA>() {
    with_operand_type(problem.b.type, [&]<class TB>() {
      if constexpr (std::is_same_v<TA, TB> || (sizeof(TA) == 1 && sizeof(TB) == 1)) f.template operator()<TA, TB>();
    });
  });
}

// The greater magnitude; a NaN stays.
double greater_magnitude(double a, double b) noexcept {
  const double magnitude = std::abs(b);
  return std::isnan(a) || a >= magnitude ? a : magnitude;
}

// `index` counts the batches of d in row-major order.
MatmulBatch matmul_batch(const Problem& problem, const Args& args, std::int64_t index) {
  const Batched d = batched(problem.d);
  const std::int64_t i = index / d.dims[1];
  const std::int64_t j = index % d.dims[1];
  // Rank 3 has its batches in the second place, and overrides go by the first dimension that there is.
  const std::int64_t first = problem.d.rank == matmul::kMaxBatchDims + 2 ? i : index;
  MatmulBatch batch;
  batch.a = batch_offset(problem.a, d, i, j);
  batch.b = batch_offset(problem.b, d, i, j);
  batch.c = batch_offset(problem.c, d, i, j);
  batch.d = batch_offset(problem.d, d, i, j);
  batch.bias = batch_offset(problem.bias, d, i, j);
  batch.m = overridden(problem, matmul::kOverrideM, args.m_override, first, rows(problem));
  batch.n = overridden(problem, matmul::kOverrideN, args.n_override, first, columns(problem));
  batch.k = overridden(problem, matmul::kOverrideK, args.k_override, first, depth(problem));
  return batch;
}

// Turns the sums of row `row`, columns [column, column + count), into elements of d and returns the greatest magnitude
// before the scale of d (NaN if there is one).
double finish(const Problem& problem, const Args& args, const MatmulBatch& batch, std::int64_t row, std::int64_t column,
              std::int64_t count, const double* sums) {
  const int m = problem.d.rank - 2;
  const int n = problem.d.rank - 1;
  const bool reads_c = problem.c.rank > 0 && args.beta != 0;
  const LoadAny load_c = reads_c ? load_element(problem.c.type) : nullptr;
  const LoadAny load_bias = problem.bias.rank > 0 ? load_element(problem.bias.type) : nullptr;
  double alpha = args.alpha;
  if ((problem.scales & matmul::kDescaleA) != 0) alpha *= static_cast<double>(*args.descale_a);
  if ((problem.scales & matmul::kDescaleB) != 0) alpha *= static_cast<double>(*args.descale_b);
  const bool scales_d = (problem.scales & matmul::kScaleD) != 0;
  const double scale = scales_d ? static_cast<double>(*args.scale_d) : 1;
  const auto activation = kernels::gemm::activation_args<double>(problem.activation, args.activation);
  double greatest = 0;
  with_result_type(problem.d.type, [&]<class T>() {
    T* const d = static_cast<T*>(args.d) + batch.d + row * problem.d.strides[m];
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = column + i;
      double value = alpha * sums[i];
      if (reads_c) {
        value += args.beta * load_c(args.c, batch.c + row * problem.c.strides[m] + at * problem.c.strides[n]);
      }
      if (load_bias != nullptr) {
        value += load_bias(args.bias, batch.bias + row * problem.bias.strides[m] + at * problem.bias.strides[n]);
      }
      value = kernels::gemm::activate(activation, value);
      greatest = greater_magnitude(greatest, value);
      d[at * problem.d.strides[n]] = round_any<T>(scales_d ? scale * value : value);
    }
  });
  return greatest;
}

// Writes what the overrides leave of a row to the padding.
void pad_row(const Problem& problem, const Args& args, const MatmulBatch& batch, std::int64_t row) {
  if (problem.has_padding == 0) return;
  const int m = problem.d.rank - 2;
  with_result_type(problem.d.type, [&]<class T>() {
    T* const d = static_cast<T*>(args.d) + batch.d + row * problem.d.strides[m];
    for (std::int64_t column = row < batch.m ? batch.n : 0; column < columns(problem); ++column) {
      d[column * problem.d.strides[m + 1]] = round_any<T>(args.padding);
    }
  });
}

// The greatest of what several threads found.
class Amax {
 public:
  void add(double magnitude) {
    const std::lock_guard lock(mutex_);
    value_ = greater_magnitude(value_, magnitude);
  }
  [[nodiscard]] float value() const noexcept { return static_cast<float>(value_); }

 private:
  std::mutex mutex_;
  double value_ = 0;
};

}  // namespace

void matmul(const Problem& problem, const Args& args) {
  const std::int64_t m = rows(problem);
  Amax amax;
  with_operand_types(problem, [&]<class TA, class TB>() {
    parallel_for(batches(problem) * m, grain_for(columns(problem) * (depth(problem) + 8)),
                 [&](std::int64_t begin, std::int64_t end) {
                   std::vector<double> sums(static_cast<std::size_t>(columns(problem)));
                   double greatest = 0;
                   for (std::int64_t i = begin; i < end; ++i) {
                     const MatmulBatch batch = matmul_batch(problem, args, i / m);
                     pad_row(problem, args, batch, i % m);
                     if (i % m >= batch.m) continue;
                     sum_row<TA, TB>(problem, args, batch, i % m, sums.data());
                     greatest =
                         greater_magnitude(greatest, finish(problem, args, batch, i % m, 0, batch.n, sums.data()));
                   }
                   amax.add(greatest);
                 });
  });
  if ((problem.scales & matmul::kAmax) != 0) *args.amax = amax.value();
}

void matmul_gemm(const Problem& problem, const Args& args) {
  const int m = problem.d.rank - 2;
  const int n = problem.d.rank - 1;
  Amax amax;
  with_operand_types(problem, [&]<class TA, class TB>() {
    // Few large products share the threads of each; of many small ones each is a thread's.
    const std::int64_t cost = rows(problem) * columns(problem) * (depth(problem) + 8) / 16;
    parallel_for(
        batches(problem), cost > kShared ? batches(problem) : grain_for(cost),
        [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const MatmulBatch batch = matmul_batch(problem, args, i);
            for (std::int64_t row = 0; row < rows(problem); ++row) pad_row(problem, args, batch, row);
            gemm<FactorOf<TA>>(
                batch.m, batch.n, batch.k,
                gemm_matrix(static_cast<const TA*>(args.a) + batch.a, problem.a.strides[m], problem.a.strides[n]),
                gemm_matrix(static_cast<const TB*>(args.b) + batch.b, problem.b.strides[m], problem.b.strides[n]),
                [&](std::int64_t row, std::int64_t column, std::int64_t count, const double* sums) {
                  amax.add(finish(problem, args, batch, row, column, count, sums));
                });
          }
        });
  });
  if ((problem.scales & matmul::kAmax) != 0) *args.amax = amax.value();
}

}  // namespace gpudnn::host
