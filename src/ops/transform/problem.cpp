// Transforms of tensors and filters: their checks.
// SPDX-License-Identifier: Apache-2.0
#include "ops/transform/problem.hpp"

#include <algorithm>

#include "core/validation.hpp"

namespace gpudnn::transform {
namespace {

Status validate_type(const TensorGeometry& tensor, const char* name) {
  GPUDNN_TRY(require_described(tensor, name));
  const int lanes = data_type_lanes(tensor.type);
  const bool integer =
      tensor.type == GPUDNN_DATA_INT8 || tensor.type == GPUDNN_DATA_UINT8 || tensor.type == GPUDNN_DATA_INT32;
  GPUDNN_REQUIRE(is_floating(tensor.type) || integer || lanes > 1, GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "%s has data type %s; transforms are built for f32, f64, f16, bf16, i8, u8, i32 and vectors of i8 and "
                 "u8",
                 name, data_type_name(tensor.type));
  GPUDNN_REQUIRE(lanes == 1 || (tensor.rank >= 3 && tensor.dims[1] % lanes == 0), GPUDNN_STATUS_BAD_PARAM,
                 "%s dims %s do not suit data type %s; the second of at least three must be a multiple of %d", name,
                 shown_dims(tensor).c_str(), data_type_name(tensor.type), lanes);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

Transform identity(int rank) noexcept {
  Transform transform;
  transform.rank = rank;
  std::fill_n(transform.fold, rank, 1);
  return transform;
}

Status output_dims(const Transform& transform, const TensorGeometry& in, const char* in_name, TensorGeometry* out) {
  GPUDNN_REQUIRE(transform.rank == in.rank, GPUDNN_STATUS_BAD_PARAM,
                 "%s dims %s are %d dims, the transform has nbDims %d; they must be equal", in_name,
                 shown_dims(in).c_str(), in.rank, transform.rank);
  std::int64_t dims[kMaxRank] = {};
  std::copy_n(in.dims, in.rank, dims);
  std::int64_t block = 1;
  for (int i = 2; i < in.rank; ++i) block *= transform.fold[i];
  if (transform.unfold) {
    GPUDNN_REQUIRE(block == 1 || dims[1] % block == 0, GPUDNN_STATUS_BAD_PARAM,
                   "%s dims %s cannot be unfolded: its channels are no multiple of %lld, the product of foldA", in_name,
                   shown_dims(in).c_str(), static_cast<long long>(block));
    if (in.rank >= 2) dims[1] /= block;
    for (int i = 2; i < in.rank; ++i) dims[i] *= transform.fold[i];
  }
  for (int i = 0; i < in.rank; ++i) {
    dims[i] += transform.before[i] + transform.after[i];
    GPUDNN_REQUIRE(dims[i] >= 0, GPUDNN_STATUS_BAD_PARAM,
                   "%s dims %s: padBeforeA and padAfterA of dimension %d are %lld and %lld, which crop more than there "
                   "is",
                   in_name, shown_dims(in).c_str(), i, static_cast<long long>(transform.before[i]),
                   static_cast<long long>(transform.after[i]));
    if (transform.unfold) continue;
    GPUDNN_REQUIRE(dims[i] % transform.fold[i] == 0, GPUDNN_STATUS_BAD_PARAM,
                   "%s dims %s: dimension %d is %lld after padding, no multiple of its foldA %lld; pad it to one",
                   in_name, shown_dims(in).c_str(), i, static_cast<long long>(dims[i]),
                   static_cast<long long>(transform.fold[i]));
    dims[i] /= transform.fold[i];
  }
  if (!transform.unfold && in.rank >= 2) dims[1] *= block;
  out->rank = in.rank;
  std::copy_n(dims, kMaxRank, out->dims);
  return GPUDNN_STATUS_SUCCESS;
}

Status validate(const Problem& problem, const char* in_name, const char* out_name) {
  GPUDNN_TRY(validate_type(problem.in, in_name));
  GPUDNN_TRY(validate_type(problem.out, out_name));
  TensorGeometry expected;
  GPUDNN_TRY(output_dims(problem.transform, problem.in, in_name, &expected));
  GPUDNN_REQUIRE(same_dims(expected, problem.out), GPUDNN_STATUS_BAD_PARAM,
                 "%s dims %s must be %s, what the transform makes of %s dims %s", out_name,
                 shown_dims(problem.out).c_str(), shown_dims(expected).c_str(), in_name,
                 shown_dims(problem.in).c_str());
  for (int i = 0; i < problem.out.rank; ++i) {
    GPUDNN_REQUIRE(problem.out.dims[i] < INT32_MAX && problem.in.dims[i] * problem.transform.fold[i] < INT32_MAX,
                   GPUDNN_STATUS_NOT_SUPPORTED, "dimension %d of %s or %s is longer than 31 bits can count", i, in_name,
                   out_name);
  }
  return require_no_overlap(problem.out, out_name);
}

}  // namespace gpudnn::transform
