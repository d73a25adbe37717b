// What a matrix product must be to make sense, and what of it is built.
// SPDX-License-Identifier: Apache-2.0
#include "core/float8.hpp"
#include "core/validation.hpp"
#include "ops/matmul/problem.hpp"

namespace gpudnn::matmul {
namespace {

bool is_narrow(DataType type) { return type == GPUDNN_DATA_HALF || type == GPUDNN_DATA_BFLOAT16; }
bool is_one_of_floats(DataType type) { return type == GPUDNN_DATA_FLOAT || is_narrow(type) || is_float8(type); }

// Whether an extent of an operand repeats to that of d.
bool divides(std::int64_t part, std::int64_t whole) { return part > 0 ? whole % part == 0 : whole == 0; }

// Whether sums over operands of type `a` may leave as, or meet addends of, `type`.
bool fits_result(DataType a, DataType type) {
  if (a == GPUDNN_DATA_DOUBLE) return type == GPUDNN_DATA_DOUBLE || type == GPUDNN_DATA_FLOAT;
  if (a == GPUDNN_DATA_INT8) {
    return type == GPUDNN_DATA_INT32 || type == GPUDNN_DATA_INT8 || type == GPUDNN_DATA_FLOAT || is_narrow(type);
  }
  return is_one_of_floats(type);
}

Status check_types(const Problem& p) {
  const DataType a = p.a.type;
  const bool operands = a == GPUDNN_DATA_DOUBLE || a == GPUDNN_DATA_INT8 || is_one_of_floats(a);
  GPUDNN_REQUIRE(operands, GPUDNN_STATUS_NOT_SUPPORTED,
                 "a is %s; operands may be f32, f64, f16, bf16, i8, f8e4m3 or f8e5m2", data_type_name(a));
  GPUDNN_REQUIRE(p.b.type == a || (is_float8(a) && is_float8(p.b.type)), GPUDNN_STATUS_NOT_SUPPORTED,
                 "b is %s and a is %s; both must have one type, or be f8e4m3 and f8e5m2", data_type_name(p.b.type),
                 data_type_name(a));
  const char* const legal = a == GPUDNN_DATA_DOUBLE ? "f64 or f32"
                            : a == GPUDNN_DATA_INT8 ? "i32, i8, f32, f16 or bf16"
                                                    : "f32, f16, bf16, f8e4m3 or f8e5m2";
  GPUDNN_REQUIRE(fits_result(a, p.d.type), GPUDNN_STATUS_NOT_SUPPORTED, "d is %s; with operands of %s it may be %s",
                 data_type_name(p.d.type), data_type_name(a), legal);
  for (const auto& [tensor, name] : {std::pair{&p.c, "c"}, std::pair{&p.bias, "bias"}}) {
    GPUDNN_REQUIRE(tensor->rank == 0 || fits_result(a, tensor->type), GPUDNN_STATUS_NOT_SUPPORTED,
                   "%s is %s; with operands of %s it may be %s", name, data_type_name(tensor->type), data_type_name(a),
                   legal);
  }
  const DataType sums = a == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE
                        : a == GPUDNN_DATA_INT8 ? GPUDNN_DATA_INT32
                                                : GPUDNN_DATA_FLOAT;
  // A wider accumulator than was asked for is no harm: half products are always summed in float.
  const bool half = a == GPUDNN_DATA_HALF && p.compute == GPUDNN_DATA_HALF;
  const bool fast = is_float8(a) && p.compute == GPUDNN_DATA_FAST_FLOAT_FOR_FP8;
  GPUDNN_REQUIRE(half || fast || p.compute == sums, GPUDNN_STATUS_NOT_SUPPORTED,
                 "the compute type is %s; with operands of %s it must be %s", data_type_name(p.compute),
                 data_type_name(a), data_type_name(sums));
  return GPUDNN_STATUS_SUCCESS;
}

Status check_extents(const Problem& p) {
  const int rank = p.d.rank;
  GPUDNN_REQUIRE(rank >= 2 && rank <= kMaxBatchDims + 2 && p.a.rank == rank && p.b.rank == rank,
                 GPUDNN_STATUS_BAD_PARAM, "a has %d dimensions, b %d and d %d; all must have the same 2 to 4", p.a.rank,
                 p.b.rank, rank);
  for (const auto& [tensor, name] : {std::pair{&p.a, "a"}, std::pair{&p.b, "b"}, std::pair{&p.d, "d"}}) {
    GPUDNN_TRY(require_described(*tensor, name));
  }
  const auto extent = [](const TensorGeometry& tensor, int i) { return static_cast<long long>(tensor.dims[i]); };
  const int m = rank - 2;
  const int n = rank - 1;
  GPUDNN_REQUIRE(p.a.dims[m] == p.d.dims[m], GPUDNN_STATUS_BAD_PARAM, "a has %lld rows and d %lld; they must be equal",
                 extent(p.a, m), extent(p.d, m));
  GPUDNN_REQUIRE(p.b.dims[n] == p.d.dims[n], GPUDNN_STATUS_BAD_PARAM,
                 "b has %lld columns and d %lld; they must be equal", extent(p.b, n), extent(p.d, n));
  GPUDNN_REQUIRE(p.a.dims[n] == p.b.dims[m], GPUDNN_STATUS_BAD_PARAM,
                 "a has %lld columns and b %lld rows; they must be equal", extent(p.a, n), extent(p.b, m));
  for (int i = 0; i < m; ++i) {
    GPUDNN_REQUIRE(divides(p.a.dims[i], p.d.dims[i]) && divides(p.b.dims[i], p.d.dims[i]), GPUDNN_STATUS_BAD_PARAM,
                   "batch dimension %d is %lld in a, %lld in b and %lld in d; those of a and b must divide that of d",
                   i, extent(p.a, i), extent(p.b, i), extent(p.d, i));
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status check_epilogue(const Problem& p) {
  for (const auto& [tensor, name] : {std::pair{&p.c, "c"}, std::pair{&p.bias, "bias"}}) {
    GPUDNN_REQUIRE(tensor->rank == 0 || same_dims(*tensor, p.d), GPUDNN_STATUS_BAD_PARAM,
                   "%s has dims %s; it must have those of d, %s, with stride 0 where it is repeated", name,
                   dims_text(*tensor).c_str(), dims_text(p.d).c_str());
  }
  const int activation = static_cast<int>(p.activation);
  GPUDNN_TRY(require_enum(activation, 0, kernels::matmul::kActivations - 1, "activation", "matmul::Activation"));
  GPUDNN_REQUIRE((p.scales & ~(kDescaleA | kDescaleB | kScaleD | kAmax)) == 0, GPUDNN_STATUS_BAD_PARAM,
                 "scales is %d; it must be a sum of 1 (descale of a), 2 (of b), 4 (scale of d) and 8 (amax)", p.scales);
  GPUDNN_REQUIRE((p.overrides & ~(kOverrideM | kOverrideN | kOverrideK)) == 0, GPUDNN_STATUS_BAD_PARAM,
                 "overrides is %d; it must be a sum of 1 (m), 2 (n) and 4 (k)", p.overrides);
  GPUDNN_REQUIRE(p.override_type == GPUDNN_DATA_INT32 || p.override_type == GPUDNN_DATA_INT64,
                 GPUDNN_STATUS_NOT_SUPPORTED, "the overrides are %s; they may be i32 or i64",
                 data_type_name(p.override_type));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

Status validate(const Problem& problem) {
  GPUDNN_TRY(check_extents(problem));
  GPUDNN_TRY(check_types(problem));
  GPUDNN_TRY(check_epilogue(problem));
  return require_no_overlap(problem.d, "d");
}

}  // namespace gpudnn::matmul
