// The element-wise stage of fused operation plans: its checks, its text and its engines.
// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_ops/channel_affine.hpp"

#include <algorithm>
#include <cmath>

#include "core/layout_words.hpp"
#include "core/numerics.hpp"
#include "core/problem_text.hpp"
#include "core/validation.hpp"
#include "core/verify.hpp"
#include "host/fused_ops.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "ops/fused_ops/cuda_engines.hpp"
#endif

namespace gpudnn::fused_ops {
namespace {

constexpr const char* kModes[] = {"sigmoid", "relu", "tanh", "clipped_relu", "elu", "identity", "swish"};

constexpr Engine<AffineProblem, AffineArgs> kEngines[] = {
#ifdef GPUDNN_WITH_CUDA
    {"channel_affine", GPUDNN_BACKEND_CUDA, supports_channel_affine_cuda, channel_affine_cuda},
#endif
    host_reference<host::channel_affine, AffineProblem, AffineArgs>(),
};

void describe(AffineProblem& problem, AffineArgs& args, verify::Check* check) {
  const double u = numerics::unit_roundoff(numerics::compute_type(problem.y.type));
  check->read("x", args.x, &problem.x);
  if (problem.z.rank != 0) check->read("z", args.z, &problem.z);
  for (int v = 0; v < kVectors; ++v) {
    ChannelVector& vector = problem.vectors[v];
    if (!vector.present) continue;
    check->read("a vector", args.vectors[v], verify::vector_of(vector.type, problem.y.dims[1], vector.stride));
    vector.type = GPUDNN_DATA_DOUBLE;
  }
  const std::int64_t bytes = 4 * bit_words(problem.y);
  if (problem.bits == Bits::read) {
    check->read_as_is("the bits", args.bits, verify::vector_of(GPUDNN_DATA_UINT8, bytes));
  } else if (problem.bits == Bits::write) {
    // Where the sum is 0 but for its rounding, either bit is right.
    check->scratch(args.bits, static_cast<std::size_t>(bytes));
  }
  check->write("y", args.y, &problem.y, false, problem.bits == Bits::read ? verify::exact() : verify::relative(8 * u));
  check->on_magnitudes([&problem] { problem.mode = GPUDNN_ACTIVATION_IDENTITY; });
}

Status validate_input(const AffineProblem& problem, const TensorGeometry& input, const char* name) {
  GPUDNN_TRY(require_floating(input, name));
  GPUDNN_TRY(require_same_type(problem.y, "the output", input, name));
  return require_same_dims(problem.y, "the output", input, name);
}

}  // namespace

TensorGeometry without_channels(const TensorGeometry& tensor) noexcept {
  TensorGeometry places;
  places.type = tensor.type;
  places.rank = tensor.rank - 1;
  for (int i = 0, at = 0; i < tensor.rank; ++i) {
    if (i == 1) continue;
    places.dims[at] = tensor.dims[i];
    places.strides[at++] = tensor.strides[i];
  }
  return places;
}

std::int64_t bit_words(const TensorGeometry& y) noexcept {
  return element_count(without_channels(y)) * (bit_row_bytes(y) / 4);
}

Status validate(const AffineProblem& problem) {
  GPUDNN_TRY(require_floating(problem.y, "the output"));
  GPUDNN_TRY(require_rank(problem.y, "the output", 2, kMaxRank));
  GPUDNN_TRY(validate_input(problem, problem.x, "the input"));
  if (problem.z.rank != 0) GPUDNN_TRY(validate_input(problem, problem.z, "the addend"));
  GPUDNN_TRY(require_enum(problem.mode, GPUDNN_ACTIVATION_SIGMOID, GPUDNN_ACTIVATION_SWISH, "activationDesc mode",
                          "gpudnnActivationMode_t"));
  GPUDNN_REQUIRE(problem.mode == GPUDNN_ACTIVATION_RELU || problem.mode == GPUDNN_ACTIVATION_CLIPPED_RELU ||
                     problem.mode == GPUDNN_ACTIVATION_IDENTITY,
                 GPUDNN_STATUS_NOT_SUPPORTED,
                 "activationDesc mode is %s; fused operations take relu, clipped_relu or identity: run others with "
                 "gpudnnActivationForward",
                 name_of(problem.mode, kModes).c_str());
  return require_no_overlap(problem.y, "the output");
}

std::string to_text(const AffineProblem& problem) {
  const auto implied = implied_format(problem.y);
  std::string text = std::string("affine ") + (problem.bits == Bits::read ? "gate " : "fwd ") + tensor_text(problem.y) +
                     layout_word("x", problem.x, implied);
  if (problem.z.rank != 0) text += " add" + layout_word("z", problem.z, implied);
  constexpr const char* kNames[kVectors] = {"scale", "bias", "zscale", "zbias"};
  for (int v = 0; v < kVectors; ++v) {
    if (problem.vectors[v].present)
      text += std::string(" ") + kNames[v] + '=' + data_type_name(problem.vectors[v].type);
  }
  if (problem.mode != GPUDNN_ACTIVATION_IDENTITY) text += " act=" + name_of(problem.mode, kModes);
  if (problem.nan == GPUDNN_PROPAGATE_NAN) text += " nan";
  if (problem.bits == Bits::write) text += " bits";
  return text;
}

std::span<const Engine<AffineProblem, AffineArgs>> affine_engines() noexcept { return kEngines; }

Status run(gpudnnHandle_t handle, const AffineProblem& problem, const AffineArgs& args) {
  if (element_count(problem.y) == 0) return GPUDNN_STATUS_SUCCESS;
  return verify::run_first_engine(affine_engines(), handle, problem, args, describe);
}

}  // namespace gpudnn::fused_ops
