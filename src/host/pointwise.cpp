// Pointwise programs on the host: each element by itself, each instruction in the program's compute type, rounded to
// its own type.
// SPDX-License-Identifier: Apache-2.0
#include "host/pointwise.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "core/parallel.hpp"
#include "host/any_element.hpp"
#include "host/element.hpp"
#include "kernels/tile/fp8.hpp"
#include "kernels/tile/program_series.cuh"

namespace gpudnn::host {
namespace {

using pointwise::Args;
using pointwise::kNoReduction;
using pointwise::LoadKind;
using pointwise::Operand;
using pointwise::OperandKind;
using pointwise::Problem;
using pointwise::Program;

// The lowest number above all 64-bit integers.
constexpr double kBeyondLong = 9223372036854775808.0;

std::int64_t nearest_long(double value) noexcept {
  if (std::isnan(value)) return 0;
  if (value >= kBeyondLong) return std::numeric_limits<std::int64_t>::max();
  if (value < -kBeyondLong) return std::numeric_limits<std::int64_t>::min();
  return static_cast<std::int64_t>(std::nearbyint(value));
}

// The strides of a tensor along the dims of the whole: 0 where it is repeated.
struct Strides {
  std::int64_t along[kMaxRank] = {};
};
Strides strides_of(const Problem& problem, const TensorGeometry& tensor) {
  Strides strides;
  for (int i = 0; i < problem.rank; ++i) strides.along[i] = tensor.dims[i] == 1 ? 0 : tensor.strides[i];
  return strides;
}

// The values of one element: the program's loads, then its results.
template <class C>
class Element {
 public:
  Element(const Problem& problem, const Args& args) : problem_(problem), program_(problem.program), args_(args) {
    for (int i = 0; i < program_.loads; ++i) {
      if (program_.load_kind[i] == LoadKind::tensor) strides_[i] = strides_of(problem, problem.loads[i]);
    }
  }

  void evaluate(std::int64_t index) {
    for (int i = 0; i < program_.loads; ++i) loaded_[i] = static_cast<C>(load_value(i, index));
    for (int i = 0; i < program_.instructions; ++i) {
      const pointwise::Instruction& from = program_.code[i];
      tile::PointwiseParams<C> params;
      for (int j = 0; j < 3; ++j) params.p[j] = static_cast<C>(from.params.p[j]);
      params.drops_nan = from.params.drops_nan;
      const C result = tile::series::evaluate_any(from.op, value(from.x), value(from.b), value(from.t), params);
      results_[i] = static_cast<C>(as_type(from.type, static_cast<double>(result)));
    }
  }

  [[nodiscard]] C value(const Operand& operand) const {
    switch (operand.kind) {
      case OperandKind::load:
        return loaded_[operand.index];
      case OperandKind::result:
        return results_[operand.index];
      default:
        return static_cast<C>(operand.value);
    }
  }

 private:
  double load_value(int load_index, std::int64_t index) const {
    if (program_.load_kind[load_index] == LoadKind::scalar) return args_.scalars[load_index];
    if (program_.load_kind[load_index] == LoadKind::index) {
      for (int i = problem_.rank - 1; i > program_.load_axis[load_index]; --i) index /= problem_.dims[i];
      return static_cast<double>(index % problem_.dims[program_.load_axis[load_index]]);
    }
    const std::int64_t offset = offset_of(index, problem_.rank, problem_.dims, strides_[load_index].along);
    return load_element(problem_.loads[load_index].type, args_.loads[load_index], offset);
  }

  const Problem& problem_;
  const Program& program_;
  const Args& args_;
  Strides strides_[pointwise::kMaxLoads];
  C loaded_[pointwise::kMaxLoads] = {};
  C results_[pointwise::kMaxInstructions] = {};
};

// Folds values into one number; the total comes at the end.
class Fold {
 public:
  explicit Fold(int reduction) : reduction_(reduction), total_(start(reduction)) {}

  void add(double value) {
    ++count_;
    switch (reduction_) {
      case GPUDNN_REDUCE_TENSOR_MUL:
        total_ *= value;
        break;
      case GPUDNN_REDUCE_TENSOR_MIN:
        total_ = tile::pointwise::smaller(total_, value);
        break;
      case GPUDNN_REDUCE_TENSOR_MAX:
        total_ = tile::pointwise::larger(total_, value);
        break;
      case GPUDNN_REDUCE_TENSOR_AMAX:
        total_ = tile::pointwise::larger(total_, std::fabs(value));
        break;
      case GPUDNN_REDUCE_TENSOR_NORM1:
        total_ += std::fabs(value);
        break;
      case GPUDNN_REDUCE_TENSOR_NORM2:
        total_ += value * value;
        break;
      default:
        total_ += value;
        break;
    }
  }

  [[nodiscard]] double total() const {
    if (reduction_ == GPUDNN_REDUCE_TENSOR_AVG) return total_ / static_cast<double>(count_);
    return reduction_ == GPUDNN_REDUCE_TENSOR_NORM2 ? std::sqrt(total_) : total_;
  }

 private:
  static double start(int reduction) {
    switch (reduction) {
      case GPUDNN_REDUCE_TENSOR_MUL:
        return 1;
      case GPUDNN_REDUCE_TENSOR_MIN:
        return std::numeric_limits<double>::infinity();
      case GPUDNN_REDUCE_TENSOR_MAX:
        return -std::numeric_limits<double>::infinity();
      default:
        return 0;
    }
  }

  int reduction_;
  double total_;
  std::int64_t count_ = 0;
};

std::int64_t count_of(const Problem& problem) {
  std::int64_t count = 1;
  for (int i = 0; i < problem.rank; ++i) count *= problem.dims[i];
  return count;
}

template <class C>
void store_elements(const Problem& problem, const Args& args) {
  const Program& program = problem.program;
  parallel_for(count_of(problem), grain_for(40 + 20 * std::int64_t{program.instructions}),
               [&](std::int64_t begin, std::int64_t end) {
                 Element<C> element(problem, args);
                 for (std::int64_t index = begin; index < end; ++index) {
                   element.evaluate(index);
                   for (int o = 0; o < program.stores; ++o) {
                     if (problem.reductions[o] != kNoReduction) continue;
                     const TensorGeometry& tensor = problem.stores[o];
                     const auto offset = offset_of(index, problem.rank, problem.dims, tensor.strides);
                     store_element(tensor.type, args.stores[o], offset,
                                   static_cast<double>(element.value(program.stored[o])));
                   }
                 }
               });
}

// Each output element walks over the elements that are folded into it.
template <class C>
void store_reduction(const Problem& problem, const Args& args, int output) {
  const TensorGeometry& tensor = problem.stores[output];
  std::int64_t kept = 1;
  std::int64_t folded = 1;
  std::int64_t inner[kMaxRank] = {};  // dims that are folded
  for (int i = 0; i < problem.rank; ++i) {
    inner[i] = tensor.dims[i] == 1 ? problem.dims[i] : 1;
    kept *= tensor.dims[i];
    folded *= inner[i];
  }
  std::int64_t places[kMaxRank] = {};  // row-major steps of the whole
  std::int64_t place = 1;
  for (int i = problem.rank - 1; i >= 0; --i) {
    places[i] = place;
    place *= problem.dims[i];
  }
  parallel_for(kept, grain_for(folded * (40 + 20 * std::int64_t{problem.program.instructions})),
               [&](std::int64_t begin, std::int64_t end) {
                 Element<C> element(problem, args);
                 for (std::int64_t out = begin; out < end; ++out) {
                   const std::int64_t first = offset_of(out, problem.rank, tensor.dims, places);
                   Fold fold(problem.reductions[output]);
                   for (std::int64_t i = 0; i < folded; ++i) {
                     element.evaluate(first + offset_of(i, problem.rank, inner, places));
                     fold.add(static_cast<double>(element.value(problem.program.stored[output])));
                   }
                   const auto offset = offset_of(out, problem.rank, tensor.dims, tensor.strides);
                   store_element(tensor.type, args.stores[output], offset, fold.total());
                 }
               });
}

template <class C>
void run(const Problem& problem, const Args& args) {
  bool any = false;
  for (int o = 0; o < problem.program.stores; ++o) any = any || problem.reductions[o] == kNoReduction;
  // Reductions first: an output may be an input.
  for (int o = 0; o < problem.program.stores; ++o) {
    if (problem.reductions[o] != kNoReduction) store_reduction<C>(problem, args, o);
  }
  if (any) store_elements<C>(problem, args);
}

}  // namespace

double as_type(DataType type, double value) noexcept {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return value;
    case GPUDNN_DATA_INT64:
      return static_cast<double>(nearest_long(value));
    case GPUDNN_DATA_BOOLEAN:
      return value != 0 ? 1 : 0;
    case GPUDNN_DATA_FP8_E4M3:
      return static_cast<double>(tile::float_of_e4m3(tile::e4m3_of_float(tile::odd_float(value))));
    case GPUDNN_DATA_FP8_E5M2:
      return static_cast<double>(tile::float_of_e5m2(tile::e5m2_of_float(tile::odd_float(value))));
    default:
      return with_any_type(type, [&]<class T>() { return to_double(round_any<T>(value)); });
  }
}

void pointwise(const Problem& problem, const Args& args) {
  if (count_of(problem) == 0) return;
  problem.program.compute == GPUDNN_DATA_DOUBLE ? run<double>(problem, args) : run<float>(problem, args);
}

double load_element(DataType type, const void* data, std::int64_t offset) {
  switch (type) {
    case GPUDNN_DATA_INT64:
      return static_cast<double>(static_cast<const std::int64_t*>(data)[offset]);
    case GPUDNN_DATA_BOOLEAN:
      return static_cast<const std::uint8_t*>(data)[offset] != 0 ? 1 : 0;
    case GPUDNN_DATA_FP8_E4M3:
      return static_cast<double>(tile::float_of_e4m3(static_cast<const std::uint8_t*>(data)[offset]));
    case GPUDNN_DATA_FP8_E5M2:
      return static_cast<double>(tile::float_of_e5m2(static_cast<const std::uint8_t*>(data)[offset]));
    default:
      return load_of(type)(data, offset);
  }
}

void store_element(DataType type, void* data, std::int64_t offset, double value) {
  switch (type) {
    case GPUDNN_DATA_INT64:
      static_cast<std::int64_t*>(data)[offset] = nearest_long(value);
      break;
    case GPUDNN_DATA_BOOLEAN:
      static_cast<std::uint8_t*>(data)[offset] = value != 0 ? 1 : 0;
      break;
    case GPUDNN_DATA_FP8_E4M3:
      static_cast<std::uint8_t*>(data)[offset] = tile::e4m3_of_float(tile::odd_float(value));
      break;
    case GPUDNN_DATA_FP8_E5M2:
      static_cast<std::uint8_t*>(data)[offset] = tile::e5m2_of_float(tile::odd_float(value));
      break;
    default:
      store_of(type)(data, offset, value, 0);
      break;
  }
}

}  // namespace gpudnn::host
