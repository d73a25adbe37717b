// What a convolution must be to make sense, and what of it is built.
// SPDX-License-Identifier: Apache-2.0
#include "core/validation.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::conv {
namespace {

bool is_signed_8_bit(DataType type) {
  return type == GPUDNN_DATA_INT8 || type == GPUDNN_DATA_INT8x4 || type == GPUDNN_DATA_INT8x32;
}
bool is_8_bit_integer(DataType type) {
  return is_signed_8_bit(type) || type == GPUDNN_DATA_UINT8 || type == GPUDNN_DATA_UINT8x4;
}

Status check_lanes(const TensorGeometry& tensor, const char* name) {
  const int lanes = data_type_lanes(tensor.type);
  GPUDNN_REQUIRE(tensor.dims[1] % lanes == 0, GPUDNN_STATUS_BAD_PARAM,
                 "%s has %lld channels; with %s they must be a multiple of %d", name,
                 static_cast<long long>(tensor.dims[1]), data_type_name(tensor.type), lanes);
  return GPUDNN_STATUS_SUCCESS;
}

Status check_integer_types(const Problem& problem, const Names& names) {
  const DataType x = problem.x.type;
  const DataType w = problem.w.type;
  const DataType y = problem.y.type;
  GPUDNN_REQUIRE(problem.direction == Direction::forward, GPUDNN_STATUS_NOT_SUPPORTED,
                 "%s is %s; gradients are of f32, f64, f16 and bf16, integers go forward alone", names.x,
                 data_type_name(x));
  GPUDNN_REQUIRE(is_signed_8_bit(w) && data_type_lanes(w) == data_type_lanes(x), GPUDNN_STATUS_NOT_SUPPORTED,
                 "wDesc is %s beside xDesc of %s; it must be signed and of as many lanes: i8 beside i8 and u8, i8x4 "
                 "beside i8x4 and u8x4, i8x32 beside i8x32",
                 data_type_name(w), data_type_name(x));
  GPUDNN_REQUIRE(is_8_bit_integer(y) || y == GPUDNN_DATA_INT32 || y == GPUDNN_DATA_FLOAT, GPUDNN_STATUS_NOT_SUPPORTED,
                 "yDesc is %s; of integers it is i8, u8, i8x4, u8x4, i8x32, i32 or f32", data_type_name(y));
  GPUDNN_REQUIRE(problem.compute == GPUDNN_DATA_INT32, GPUDNN_STATUS_NOT_SUPPORTED,
                 "the computeType of convDesc is %s; with %s tensors it must be i32", data_type_name(problem.compute),
                 data_type_name(x));
  const auto function = activation_of(problem);
  GPUDNN_REQUIRE(function == kernels::matmul::Activation::identity || function == kernels::matmul::Activation::relu,
                 GPUDNN_STATUS_NOT_SUPPORTED,
                 "the mode of activationDesc is %d; of integers it is IDENTITY, RELU or CLIPPED_RELU",
                 static_cast<int>(problem.activation));
  GPUDNN_TRY(check_lanes(problem.x, names.x));
  GPUDNN_TRY(check_lanes(problem.w, names.w));
  return check_lanes(problem.y, names.y);
}

Status check_types(const Problem& problem, const Names& names) {
  const DataType type = problem.x.type;
  if (is_8_bit_integer(type)) return check_integer_types(problem, names);
  GPUDNN_REQUIRE(is_floating(type) && problem.w.type == type && problem.y.type == type, GPUDNN_STATUS_NOT_SUPPORTED,
                 "%s is %s, %s %s and %s %s; convolution is built for tensors of one type: f32, f64, f16 or "
                 "bf16, and forward for i8, u8, i8x4, u8x4 and i8x32",
                 names.x, data_type_name(type), names.w, data_type_name(problem.w.type), names.y,
                 data_type_name(problem.y.type));
  // A wider accumulator than was asked for is no harm: half problems are always summed in float.
  const bool half = type == GPUDNN_DATA_HALF && problem.compute == GPUDNN_DATA_HALF;
  const DataType accumulator = type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
  GPUDNN_REQUIRE(half || problem.compute == accumulator, GPUDNN_STATUS_NOT_SUPPORTED,
                 "the computeType of convDesc is %s; with %s tensors it must be %s", data_type_name(problem.compute),
                 data_type_name(type), data_type_name(accumulator));
  return GPUDNN_STATUS_SUCCESS;
}

Status check_channels(const Problem& problem, const Names& names) {
  const auto c = static_cast<long long>(problem.x.dims[1]);
  const auto k = static_cast<long long>(problem.w.dims[0]);
  const auto filter_c = static_cast<long long>(problem.w.dims[1]);
  GPUDNN_REQUIRE(c == filter_c * problem.groups, GPUDNN_STATUS_BAD_PARAM,
                 "%s has %lld channels; with %s of %lld channels and %d groups it must have %lld", names.x, c, names.w,
                 filter_c, problem.groups, filter_c * problem.groups);
  GPUDNN_REQUIRE(k % problem.groups == 0, GPUDNN_STATUS_BAD_PARAM,
                 "%s has %lld output channels; %d groups must divide them", names.w, k, problem.groups);
  return GPUDNN_STATUS_SUCCESS;
}

Status check_output_dims(const Problem& problem, const Names& names, PaddingBehind behind) {
  TensorGeometry expected = problem.y;
  expected.dims[0] = problem.x.dims[0];
  expected.dims[1] = problem.w.dims[0];
  for (int i = 0; i < problem.spatial; ++i) {
    expected.dims[2 + i] = behind == PaddingBehind::any ? problem.y.dims[2 + i] : output_extent(problem, i);
    GPUDNN_REQUIRE(expected.dims[2 + i] >= 1, GPUDNN_STATUS_BAD_PARAM,
                   "the filter of %s, %lld wide with its dilation, does not fit into spatial dimension %d of %s: "
                   "extent %lld, padding %lld on each side",
                   names.w, static_cast<long long>(problem.dilation[i] * (problem.w.dims[2 + i] - 1) + 1), i, names.x,
                   static_cast<long long>(problem.x.dims[2 + i]), static_cast<long long>(problem.pad[i]));
  }
  GPUDNN_REQUIRE(same_dims(expected, problem.y), GPUDNN_STATUS_BAD_PARAM, "%s has dims %s; this convolution gives %s",
                 names.y, dims_text(problem.y).c_str(), dims_text(expected).c_str());
  return GPUDNN_STATUS_SUCCESS;
}

Status check_epilogue(const Problem& problem) {
  if (problem.has_z != 0) {
    GPUDNN_REQUIRE(same_dims(problem.z, problem.y), GPUDNN_STATUS_BAD_PARAM,
                   "zDesc has dims %s; they must be those of yDesc, %s", dims_text(problem.z).c_str(),
                   dims_text(problem.y).c_str());
    GPUDNN_REQUIRE(problem.z.type == problem.y.type, GPUDNN_STATUS_NOT_SUPPORTED,
                   "zDesc is %s; it must be of yDesc's type, %s", data_type_name(problem.z.type),
                   data_type_name(problem.y.type));
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

const Names& names_of(Direction direction) noexcept {
  static constexpr Names kNames[] = {
      {"xDesc", "wDesc", "yDesc"}, {"dxDesc", "wDesc", "dyDesc"}, {"xDesc", "dwDesc", "dyDesc"}};
  return kNames[static_cast<int>(direction)];
}

Status set_bias(Problem* problem, const TensorGeometry& bias) {
  bool one_per_channel = bias.rank == problem->y.rank && bias.dims[1] == problem->y.dims[1];
  for (int i = 0; i < bias.rank; ++i) one_per_channel = one_per_channel && (i == 1 || bias.dims[i] == 1);
  GPUDNN_REQUIRE(one_per_channel, GPUDNN_STATUS_BAD_PARAM,
                 "biasDesc has dims %s; it must have one value for each of the %lld output channels: 1 x k x 1...",
                 dims_text(bias).c_str(), static_cast<long long>(problem->y.dims[1]));
  const bool is_wider =
      bias.type == GPUDNN_DATA_FLOAT && (data_type_bits(problem->y.type) == 16 || !is_floating(problem->y.type));
  GPUDNN_REQUIRE((bias.type == problem->y.type && is_floating(bias.type)) || is_wider, GPUDNN_STATUS_NOT_SUPPORTED,
                 "biasDesc is %s; it must be of yDesc's type, %s, or f32 beside 16-bit tensors and integers",
                 data_type_name(bias.type), data_type_name(problem->y.type));
  problem->has_bias = 1;
  problem->float_vectors = is_wider ? 1 : 0;
  problem->bias_stride = bias.strides[1];
  return GPUDNN_STATUS_SUCCESS;
}

Status validate(const Problem& problem, PaddingBehind behind) {
  const Names& names = names_of(problem.direction);
  const int rank = problem.spatial + 2;
  GPUDNN_REQUIRE(problem.x.rank == rank && problem.w.rank == rank && problem.y.rank == rank, GPUDNN_STATUS_BAD_PARAM,
                 "%s has %d dimensions, %s %d and %s %d; with a convDesc of %d spatial ones each must have %d", names.x,
                 problem.x.rank, names.w, problem.w.rank, names.y, problem.y.rank, problem.spatial, rank);
  GPUDNN_TRY(check_types(problem, names));
  GPUDNN_TRY(check_channels(problem, names));
  GPUDNN_TRY(check_output_dims(problem, names, behind));
  GPUDNN_TRY(check_epilogue(problem));
  const char* const written = problem.direction == Direction::forward ? names.y
                              : problem.direction == Direction::dgrad ? names.x
                                                                      : names.w;
  return require_no_overlap(output(problem), written);
}

}  // namespace gpudnn::conv
