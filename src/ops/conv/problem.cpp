// The convolution problem and its text.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/problem.hpp"

#include <algorithm>
#include <iterator>
#include <type_traits>

#include "core/problem_text.hpp"
#include "ops/conv/activation_number.hpp"
#include "ops/conv/padding.hpp"

namespace gpudnn::conv {

static_assert(std::has_unique_object_representations_v<Problem>, "problems are hashed as bytes");

namespace {

constexpr const char* kDirections[] = {"fwd", "dgrad", "wgrad"};
constexpr const char* kActivations[] = {"sigmoid",  "relu",  "tanh", "clipped_relu", "elu",
                                        "identity", "swish", "gelu", "gelu_tanh",    "softplus"};
// What each number stands for.
using kernels::matmul::Activation;
constexpr Activation kFunctions[] = {Activation::sigmoid,   Activation::relu,     Activation::tanh,  Activation::relu,
                                     Activation::elu,       Activation::identity, Activation::swish, Activation::gelu,
                                     Activation::gelu_tanh, Activation::softplus};
static_assert(std::size(kFunctions) == std::size(kActivations));
static_assert(kFunctions[kGelu] == Activation::gelu && kFunctions[kGeluTanh] == Activation::gelu_tanh &&
              kFunctions[kSoftplus] == Activation::softplus);

constexpr const char* kMath[] = {"default", "tensor", "tensor_convert", "fma"};

// The letters of the filter's dims: k and the taps; the channels follow from x and the groups.
std::string_view filter_letters(int spatial) { return spatial == 1 ? "ks" : spatial == 2 ? "krs" : "ktrs"; }

template <std::size_t N>
int index_of(const char* const (&names)[N], std::string_view name) {
  for (std::size_t i = 0; i < N; ++i) {
    if (name == names[i]) return static_cast<int>(i);
  }
  return -1;
}

bool read_parameters(ProblemWords* words, Problem* problem, std::string* why) {
  struct Row {
    std::string_view prefix;
    std::int64_t* values;
  } const rows[] = {{"p", problem->pad}, {"t", problem->stride}, {"d", problem->dilation}};
  for (const Row& row : rows) {
    int count = 0;
    const std::string_view word = words->next();
    if (!word.starts_with(row.prefix) || !parse_extents(word.substr(1), row.values, &count, kMaxSpatial) ||
        count != problem->spatial) {
      *why = "expected '" + std::string(row.prefix) +
             "' and one number for each spatial dimension (such as p1x1), found '" + std::string(word) + "'";
      return false;
    }
  }
  std::int64_t groups = 0;
  const std::string_view word = words->next();
  if (!parse_lettered(word, "g", &groups) || groups < 1 || groups > INT32_MAX) {
    *why = "expected the groups (such as g1), found '" + std::string(word) + "'";
    return false;
  }
  problem->groups = static_cast<std::int32_t>(groups);
  return true;
}

// The filter's type beside x: integers are signed there.
DataType filter_type(DataType x) {
  return x == GPUDNN_DATA_UINT8 ? GPUDNN_DATA_INT8 : x == GPUDNN_DATA_UINT8x4 ? GPUDNN_DATA_INT8x4 : x;
}

bool is_whole(const TensorGeometry& tensor) { return tensor.dims[1] % data_type_lanes(tensor.type) == 0; }

// The other dims of w and y from x, the filter word and the parameters; all in the layout named first.
bool derive_tensors(Problem* problem, std::string_view layout, const std::int64_t* filter, std::string* why) {
  problem->w.type = filter_type(problem->x.type);
  problem->w.rank = problem->y.rank = problem->x.rank;
  problem->w.dims[0] = problem->y.dims[1] = filter[0];
  problem->w.dims[1] = problem->x.dims[1] / problem->groups;
  problem->y.dims[0] = problem->x.dims[0];
  for (int i = 0; i < problem->spatial; ++i) {
    problem->w.dims[2 + i] = filter[1 + i];
    if (problem->y.dims[2 + i] <= 0) {
      *why = "the filter does not fit into the padded image";
      return false;
    }
  }
  if (!is_whole(problem->x) || !is_whole(problem->w) || !is_whole(problem->y)) {
    *why = "the channels of a vector type are no multiple of its lanes";
    return false;
  }
  const std::string_view packed = layout == "nhwc" ? "nhwc" : "nchw";
  return parse_layout(packed, &problem->w) && parse_layout(packed, &problem->y);
}

bool read_options(ProblemWords* words, Problem* problem, std::string* why) {
  const auto layout = [&](std::string_view prefix, TensorGeometry* tensor) {
    const auto value = words->take(prefix);
    if (!value || parse_layout(*value, tensor)) return true;
    *why = "'" + std::string(prefix) + std::string(*value) + "' is no layout of that tensor";
    return false;
  };
  if (!layout("w:", &problem->w) || !layout("y:", &problem->y)) return false;
  if (const auto type = words->take("acc=")) {
    const auto parsed = parse_data_type(*type);
    if (!parsed) return *why = "'acc=" + std::string(*type) + "' names no data type", false;
    problem->compute = *parsed;
  } else {
    problem->compute = problem->x.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE
                       : is_integer(*problem)                ? GPUDNN_DATA_INT32
                                                             : GPUDNN_DATA_FLOAT;
  }
  if (const auto math = words->take("math=")) {
    const int index = index_of(kMath, *math);
    if (index < 0)
      return *why = "'math=" + std::string(*math) + "' is none of default, tensor, tensor_convert, fma", false;
    problem->math = static_cast<gpudnnMathType_t>(index);
  }
  if (words->take_word("flip")) problem->mode = GPUDNN_CONVOLUTION;
  if (const auto activation = words->take("act=")) {
    problem->activation = index_of(kActivations, *activation);
    if (problem->activation < 0) return *why = "'act=" + std::string(*activation) + "' names no activation", false;
  }
  if (words->take_word("scale")) {
    problem->has_scale = 1;
    problem->scale_stride = 1;
  }
  if (words->take_word("bias")) {
    problem->has_bias = 1;
    problem->bias_stride = 1;
  }
  if (words->take_word("vectors=f32")) {
    if (problem->has_scale + problem->has_bias == 0 || data_type_bits(problem->y.type) != 16)
      return *why = "'vectors=f32' is for the bias and scale of 16-bit tensors", false;
    problem->float_vectors = 1;
  }
  // Integers have no others.
  if (problem->has_scale + problem->has_bias != 0 && !is_floating(problem->y.type)) problem->float_vectors = 1;
  if (words->take_word("z")) {
    problem->has_z = 1;
    problem->z = problem->y;
  }
  return layout("z:", &problem->z);
}

}  // namespace

Activation activation_of(const Problem& problem) noexcept {
  return problem.activation < 0 ? Activation::identity : kFunctions[problem.activation];
}

std::int32_t activation_number(Activation function) noexcept {
  std::int32_t number = 0;
  while (kFunctions[number] != function) ++number;
  return number;
}

double flops(const Problem& problem) noexcept {
  double taps = 1;
  for (int i = 0; i < problem.spatial; ++i) taps *= static_cast<double>(problem.w.dims[2 + i]);
  return 2.0 * static_cast<double>(element_count(problem.y)) * static_cast<double>(problem.w.dims[1]) * taps;
}

TensorGeometry packed_by_output(const TensorGeometry& filter) noexcept {
  TensorGeometry packed = filter;
  std::swap(packed.dims[0], packed.dims[1]);
  set_packed_strides(&packed, GPUDNN_TENSOR_NHWC);
  std::swap(packed.dims[0], packed.dims[1]);
  std::swap(packed.strides[0], packed.strides[1]);
  return packed;
}

double bytes_of_tensors(const Problem& problem) noexcept {
  // Rows of x that windows step over are not read; nor pixels of a row that are more than a sector of memory.
  double read = static_cast<double>(size_in_bytes(problem.x));
  for (int i = 0; i < problem.spatial; ++i) {
    const bool apart = i + 1 < problem.spatial || problem.x.strides[2 + i] * data_type_bits(problem.x.type) >= 256;
    if (problem.direction == Direction::dgrad || !apart) continue;
    read *= std::min(1.0, static_cast<double>(problem.w.dims[2 + i]) / static_cast<double>(problem.stride[i]));
  }
  return read + static_cast<double>(size_in_bytes(problem.w)) + static_cast<double>(size_in_bytes(problem.y));
}

std::int64_t output_extent(const Problem& problem, int i) noexcept {
  const std::int64_t reach = problem.dilation[i] * (problem.w.dims[2 + i] - 1) + 1;
  const std::int64_t room = problem.x.dims[2 + i] + 2 * problem.pad[i] - reach;
  return room < 0 ? 0 : room / problem.stride[i] + 1;
}

bool has_even_padding(const Problem& problem) noexcept {
  for (int i = 0; i < problem.spatial; ++i) {
    if (output_extent(problem, i) != problem.y.dims[2 + i]) return false;
  }
  return true;
}

std::string to_text(const Problem& problem) {
  std::string text = "conv ";
  text += kDirections[static_cast<int>(problem.direction)];
  text += ' ' + tensor_text(problem.x) + " k" + std::to_string(problem.w.dims[0]);
  const std::string_view letters = filter_letters(problem.spatial);
  for (int i = 0; i < problem.spatial; ++i)
    text += letters[static_cast<std::size_t>(1 + i)] + std::to_string(problem.w.dims[2 + i]);
  text += " p" + extents_text(problem.pad, problem.spatial);
  text += " t" + extents_text(problem.stride, problem.spatial);
  text += " d" + extents_text(problem.dilation, problem.spatial);
  text += " g" + std::to_string(problem.groups);
  // The layouts of w and y are told only where they differ from what the layout of x implies.
  const auto implied =
      is_packed_nchw(problem.x) || !is_packed_nhwc(problem.x) ? GPUDNN_TENSOR_NCHW : GPUDNN_TENSOR_NHWC;
  const auto differing = [&](const char* prefix, const TensorGeometry& tensor) {
    if (!same_layout(tensor, packed_tensor(tensor.type, implied, tensor.rank, tensor.dims)))
      text += prefix + layout_text(tensor);
  };
  if (!has_even_padding(problem)) text += " y=" + extents_text(&problem.y.dims[2], problem.spatial);
  if (problem.y.type != problem.x.type) text += std::string(" out=") + data_type_name(problem.y.type);
  differing(" w:", problem.w);
  differing(" y:", problem.y);
  text += std::string(" acc=") + data_type_name(problem.compute);
  text += std::string(" math=") + kMath[problem.math];
  if (problem.mode == GPUDNN_CONVOLUTION) text += " flip";
  if (problem.activation >= 0) text += std::string(" act=") + kActivations[problem.activation];
  if (problem.has_scale != 0) text += " scale";
  if (problem.has_bias != 0) text += " bias";
  if (problem.float_vectors != 0 && !is_integer(problem)) text += " vectors=f32";
  if (problem.has_z != 0) {
    text += " z";
    if (!same_layout(problem.z, problem.y)) text += " z:" + layout_text(problem.z);
  }
  return text;
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem problem;
  if (words.next() != "conv") return *why = "the line does not start with 'conv'", std::nullopt;
  const std::string_view direction = words.next();
  const int index = index_of(kDirections, direction);
  if (index < 0) return *why = "'" + std::string(direction) + "' is none of fwd, dgrad, wgrad", std::nullopt;
  problem.direction = static_cast<Direction>(index);

  const std::string_view type = words.next();
  const std::string_view layout = words.next();
  const std::string_view dims = words.next();
  if (!parse_tensor(type, layout, dims, &problem.x) || problem.x.rank < 3 || problem.x.rank > 2 + kMaxSpatial) {
    return *why = "expected an image such as 'f16 nhwc n64c256h56w56', found '" + std::string(type) + ' ' +
                  std::string(layout) + ' ' + std::string(dims) + "'",
           std::nullopt;
  }
  problem.spatial = problem.x.rank - 2;
  std::int64_t filter[1 + kMaxSpatial] = {};
  const std::string_view filter_word = words.next();
  if (!parse_lettered(filter_word, filter_letters(problem.spatial), filter)) {
    return *why = "expected a filter such as k64r3s3, found '" + std::string(filter_word) + "'", std::nullopt;
  }
  if (!read_parameters(&words, &problem, why)) return std::nullopt;
  for (int i = 0; i < problem.spatial; ++i) {
    if (problem.stride[i] < 1 || problem.dilation[i] < 1)
      return *why = "strides and dilations start at 1", std::nullopt;
  }
  for (int i = 0; i < problem.spatial; ++i) problem.w.dims[2 + i] = filter[1 + i];
  problem.y.type = problem.x.type;
  if (const auto out = words.take("out=")) {
    const auto parsed = parse_data_type(*out);
    if (!parsed) return *why = "'out=" + std::string(*out) + "' names no data type", std::nullopt;
    problem.y.type = *parsed;
  }
  for (int i = 0; i < problem.spatial; ++i) problem.y.dims[2 + i] = output_extent(problem, i);
  if (const auto extents = words.take("y=")) {
    int count = 0;
    if (!parse_extents(*extents, &problem.y.dims[2], &count, problem.spatial) || count != problem.spatial)
      return *why = "'y=" + std::string(*extents) + "' is not an extent for each spatial dimension", std::nullopt;
  }
  if (!derive_tensors(&problem, layout, filter, why) || !read_options(&words, &problem, why)) return std::nullopt;
  if (const std::string rest = words.rest(); !rest.empty()) return *why = "cannot read '" + rest + "'", std::nullopt;
  return problem;
}

}  // namespace gpudnn::conv
