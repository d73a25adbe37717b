// The layer-normalization problem: its checks and its text.
//   layer_norm layer train bf16 nchw 8192x4096 [params=bf16] [stats=f32] [out=f8e4m3] [eps=1e-06] [noscale] [nobias]
//   layer_norm rms bwd bf16 nchw 8192x4096 [dy=f32] [grads=f32] [nodscale] [nodbias]
//   layer_norm group infer f16 nhwc n8c320h64w64 groups=32
//   layer_norm rms infer bf16 nchw 64x8192 params=bf16 nobias out=f8e4m3 [residual [sum]] [act=gelu] [factor] [amax]
// Scale, bias and statistics are f32 (f64 for f64 data) unless told, the other tensors as x. `axes=123` and `by=1` name
// dimensions where they differ from those of the mode; of groups, channels count as two dimensions there.
// SPDX-License-Identifier: Apache-2.0
#include "ops/layer_norm/problem.hpp"

#include <charconv>
#include <cmath>

#include "core/float8.hpp"
#include "core/layout_words.hpp"
#include "core/validation.hpp"

namespace gpudnn::layer_norm {
namespace {

constexpr const char* kModes[] = {"layer", "rms", "instance", "group", "ada"};
constexpr const char* kPasses[] = {"infer", "train", "bwd"};
constexpr const char* kFunctions[kernels::matmul::kActivations] = {"identity", "relu",    "gelu", "gelu_tanh", "swish",
                                                                   "tanh",     "sigmoid", "elu",  "softplus"};
constexpr double kUsualEpsilon = 1e-5;

std::uint32_t bit(int dim) noexcept { return 1u << dim; }

DataType wide_type(const TensorGeometry& x) noexcept {
  return x.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
}

// The tensor of the user's words: groups and their channels as one dimension.
TensorGeometry without_groups(const TensorGeometry& x) noexcept {
  TensorGeometry result = x;
  --result.rank;
  result.dims[1] = x.dims[1] * x.dims[2];
  result.strides[1] = x.strides[2];
  for (int i = 2; i < x.rank; ++i) {
    result.dims[i] = i + 1 < x.rank ? x.dims[i + 1] : 0;
    result.strides[i] = i + 1 < x.rank ? x.strides[i + 1] : 0;
  }
  return result;
}

TensorGeometry worded(const Problem& problem, const TensorGeometry& tensor) noexcept {
  return problem.mode == Mode::group && tensor.rank > 2 ? without_groups(tensor) : tensor;
}

Status validate_data(const Problem& p, const TensorGeometry& tensor, const char* name, bool output) {
  if (!(output && !p.backward() && is_float8(tensor.type))) GPUDNN_TRY(require_floating(tensor, name));
  GPUDNN_TRY(require_same_dims(p.x, "x", tensor, name));
  return output ? require_no_overlap(tensor, name) : GPUDNN_STATUS_SUCCESS;
}

// A tensor with x's extents along `dims`, 1 elsewhere.
Status validate_part(const Problem& p, const TensorGeometry& tensor, const char* name, std::uint32_t dims,
                     bool output) {
  if (tensor.rank == 0) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_TRY(require_floating(tensor, name));
  const TensorGeometry expected = along(p.x, dims, tensor.type);
  GPUDNN_REQUIRE(same_dims(tensor, expected), GPUDNN_STATUS_BAD_PARAM, "%s dims %s do not fit x's, %s; they must be %s",
                 name, shown_dims(tensor).c_str(), shown_dims(p.x).c_str(), shown_dims(expected).c_str());
  return output ? require_no_overlap(tensor, name) : GPUDNN_STATUS_SUCCESS;
}

Status require_there(const TensorGeometry& tensor, const char* name) {
  GPUDNN_REQUIRE(tensor.rank > 0, GPUDNN_STATUS_BAD_PARAM, "%s is missing; the backward pass reads it", name);
  return GPUDNN_STATUS_SUCCESS;
}

std::string number_text(double value) {
  char digits[32];
  const auto [end, error] = std::to_chars(digits, digits + sizeof digits, value);
  return {digits, end};
}

bool take_epsilon(ProblemWords* words, double* value, std::string* why) {
  const auto text = words->take("eps=");
  if (!text) return true;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), *value);
  if (error == std::errc{} && end == text->data() + text->size()) return true;
  return *why = "'eps=" + std::string(*text) + "' is no number", false;
}

std::string dims_word(const char* name, std::uint32_t dims) {
  std::string text = std::string(" ") + name + '=';
  for (int i = 0; i < kMaxRank; ++i)
    if ((dims & bit(i)) != 0) text += static_cast<char>('0' + i);
  return text;
}

bool take_dims(ProblemWords* words, const char* prefix, int rank, std::uint32_t* dims, std::string* why) {
  const auto text = words->take(prefix);
  if (!text) return true;
  *dims = 0;
  for (const char c : *text) {
    if (c < '0' || c >= '0' + rank)
      return *why = "'" + std::string(prefix) + std::string(*text) + "' must be digits below the rank", false;
    *dims |= bit(c - '0');
  }
  return true;
}

bool take_type(ProblemWords* words, const char* prefix, DataType* type, std::string* why) {
  const auto text = words->take(prefix);
  if (!text) return true;
  const auto parsed = parse_data_type(*text);
  if (!parsed) return *why = "'" + std::string(prefix) + std::string(*text) + "' is no data type", false;
  *type = *parsed;
  return true;
}

std::string type_word(const char* name, DataType type, DataType usual) {
  return type == usual ? std::string{} : std::string(" ") + name + '=' + data_type_name(type);
}

std::string around_words(const Around& around) {
  std::string text;
  if (around.residual) text += " residual";
  if (around.sum) text += " sum";
  if (around.activation != kernels::matmul::Activation::identity)
    text += " act=" + name_of(static_cast<int>(around.activation), kFunctions);
  if (around.factor) text += " factor";
  if (around.amax) text += " amax";
  return text;
}

bool take_around(ProblemWords* words, Around* around, std::string* why) {
  around->residual = words->take_word("residual");
  around->sum = words->take_word("sum");
  around->factor = words->take_word("factor");
  around->amax = words->take_word("amax");
  const auto text = words->take("act=");
  if (!text) return true;
  for (int i = 0; i < kernels::matmul::kActivations; ++i) {
    if (*text == kFunctions[i]) return around->activation = static_cast<kernels::matmul::Activation>(i), true;
  }
  return *why = "'act=" + std::string(*text) + "' is no activation", false;
}

// The types of the line.
struct Types {
  DataType out, dy, params, bias, stats, grads;
};

bool take_types(ProblemWords* words, const Problem& p, Types* types, std::string* why) {
  const DataType wide = wide_type(p.x);
  *types = {p.x.type, p.x.type, wide, wide, wide, wide};
  if (!take_type(words, "out=", &types->out, why) || !take_type(words, "dy=", &types->dy, why) ||
      !take_type(words, "params=", &types->params, why)) {
    return false;
  }
  types->bias = types->grads = types->params;
  return take_type(words, "bias=", &types->bias, why) && take_type(words, "stats=", &types->stats, why) &&
         take_type(words, "grads=", &types->grads, why);
}

// Gives x's layout word for word to a tensor of x's extents.
bool take_data_layout(ProblemWords* words, const char* name, const TensorGeometry& first, Problem* p,
                      TensorGeometry* tensor, std::string* why) {
  TensorGeometry told = first;
  told.type = tensor->type;
  if (!take_layout(words, name, implied_format(first), &told, why)) return false;
  *tensor = p->mode == Mode::group ? with_groups(told, p->x.dims[1]) : told;
  return true;
}

bool take_tensors(ProblemWords* words, const TensorGeometry& first, const Types& types, Problem* p, std::string* why) {
  p->out.type = types.out;
  if (!take_data_layout(words, "out", first, p, &p->out, why)) return false;
  const bool has_scale = !words->take_word("noscale");
  if (has_scale) p->scale = along(p->x, p->by, types.params);
  const std::uint32_t kept = ~p->axes;
  if (p->pass != Pass::infer) {
    p->inverse = along(p->x, kept, types.stats);
    if (p->mode != Mode::rms) p->mean = p->inverse;
  }
  if (!p->backward()) {
    if (!words->take_word("nobias")) p->bias = along(p->x, p->by, types.bias);
  } else {
    p->dy.type = types.dy;
    if (!take_data_layout(words, "dy", first, p, &p->dy, why)) return false;
    if (!words->take_word("nodscale")) p->dscale = along(p->x, p->by, types.grads);
    if (!words->take_word("nodbias")) p->dbias = along(p->x, p->by, types.grads);
  }
  struct Named {
    const char* name;
    TensorGeometry* tensor;
  };
  for (const Named& n : {Named{"scale", &p->scale}, Named{"bias", &p->bias}, Named{"mean", &p->mean},
                         Named{"inverse", &p->inverse}, Named{"dscale", &p->dscale}, Named{"dbias", &p->dbias}}) {
    if (n.tensor->rank > 0 && !take_layout(words, n.name, GPUDNN_TENSOR_NCHW, n.tensor, why)) return false;
  }
  return true;
}

}  // namespace

TensorGeometry with_groups(const TensorGeometry& x, std::int64_t groups) noexcept {
  TensorGeometry result = x;
  ++result.rank;
  for (int i = x.rank; i > 2; --i) {
    result.dims[i] = x.dims[i - 1];
    result.strides[i] = x.strides[i - 1];
  }
  result.dims[1] = groups;
  result.dims[2] = x.dims[1] / groups;
  result.strides[1] = x.strides[1] * result.dims[2];
  result.strides[2] = x.strides[1];
  return result;
}

TensorGeometry along(const TensorGeometry& x, std::uint32_t dims, DataType type) noexcept {
  TensorGeometry result = x;
  result.type = type;
  for (int i = 0; i < x.rank; ++i)
    if ((dims & bit(i)) == 0) result.dims[i] = 1;
  set_packed_strides(&result, GPUDNN_TENSOR_NCHW);
  return result;
}

std::uint32_t usual_axes(Mode mode, int rank) noexcept {
  const std::uint32_t all = bit(rank) - 1;
  return mode == Mode::layer || mode == Mode::rms ? all & ~1u : all & ~3u;
}

std::uint32_t usual_by(Mode mode, std::uint32_t axes) noexcept {
  switch (mode) {
    case Mode::instance:
      return bit(1);
    case Mode::group:
      return bit(1) | bit(2);
    case Mode::ada:
      return bit(0) | axes;
    default:
      return axes;
  }
}

Status validate(const Problem& p) {
  GPUDNN_TRY(require_floating(p.x, "x"));
  GPUDNN_REQUIRE(p.axes != 0 && p.axes < bit(p.x.rank), GPUDNN_STATUS_BAD_PARAM,
                 "the normalised dimensions are bits %#x; x has %d dimensions, and one at least must be normalised",
                 p.axes, p.x.rank);
  GPUDNN_TRY(validate_data(p, p.out, p.backward() ? "dx" : "y", true));
  GPUDNN_TRY(validate_part(p, p.scale, "scale", p.by, false));
  GPUDNN_TRY(validate_part(p, p.bias, "bias", p.by, false));
  GPUDNN_TRY(validate_part(p, p.mean, "mean", ~p.axes, p.pass == Pass::train));
  GPUDNN_TRY(validate_part(p, p.inverse, "inverse", ~p.axes, p.pass == Pass::train));
  if (!p.backward()) {
    GPUDNN_REQUIRE(p.epsilon >= 0 && std::isfinite(p.epsilon), GPUDNN_STATUS_BAD_PARAM,
                   "epsilon is %g; it must be finite and not negative", p.epsilon);
    GPUDNN_REQUIRE(!p.around.sum || p.around.residual, GPUDNN_STATUS_BAD_PARAM,
                   "a sum is to be written, and nothing is added to x");
    return GPUDNN_STATUS_SUCCESS;
  }
  GPUDNN_REQUIRE(!p.around.is_there(), GPUDNN_STATUS_BAD_PARAM,
                 "residual, activation and factor are of a forward pass");
  GPUDNN_TRY(validate_data(p, p.dy, "dy", false));
  GPUDNN_TRY(require_there(p.inverse, "inverse"));
  if (p.mode != Mode::rms) GPUDNN_TRY(require_there(p.mean, "mean"));
  GPUDNN_TRY(validate_part(p, p.dscale, "dscale", p.by, true));
  return validate_part(p, p.dbias, "dbias", p.by, true);
}

std::string to_text(const Problem& p) {
  const TensorGeometry first = worded(p, p.x);
  const DataType wide = wide_type(p.x);
  std::string text = std::string("layer_norm ") + name_of(static_cast<int>(p.mode), kModes) + ' ' +
                     name_of(static_cast<int>(p.pass), kPasses) + ' ' + tensor_text(first);
  if (p.mode == Mode::group) text += " groups=" + std::to_string(p.x.dims[1]);
  if (p.axes != usual_axes(p.mode, p.x.rank)) text += dims_word("axes", p.axes);
  if (p.by != usual_by(p.mode, p.axes)) text += dims_word("by", p.by);
  const DataType params = p.scale.rank > 0 ? p.scale.type : wide;
  text += type_word("out", p.out.type, p.x.type);
  if (p.backward()) text += type_word("dy", p.dy.type, p.x.type);
  text += type_word("params", params, wide);
  if (p.bias.rank > 0) text += type_word("bias", p.bias.type, params);
  if (p.inverse.rank > 0) text += type_word("stats", p.inverse.type, wide);
  const TensorGeometry& gradient = p.dscale.rank > 0 ? p.dscale : p.dbias;
  if (gradient.rank > 0) text += type_word("grads", gradient.type, params);
  if (p.epsilon != kUsualEpsilon) text += " eps=" + number_text(p.epsilon);
  text += layout_word("out", worded(p, p.out), implied_format(first));
  if (p.backward()) text += layout_word("dy", worded(p, p.dy), implied_format(first));
  if (p.scale.rank == 0) text += " noscale";
  if (!p.backward() && p.bias.rank == 0) text += " nobias";
  if (p.backward() && p.dscale.rank == 0) text += " nodscale";
  if (p.backward() && p.dbias.rank == 0) text += " nodbias";
  struct Named {
    const char* name;
    const TensorGeometry* tensor;
  };
  for (const Named& n : {Named{"scale", &p.scale}, Named{"bias", &p.bias}, Named{"mean", &p.mean},
                         Named{"inverse", &p.inverse}, Named{"dscale", &p.dscale}, Named{"dbias", &p.dbias}}) {
    if (n.tensor->rank > 0) text += layout_word(n.name, *n.tensor, GPUDNN_TENSOR_NCHW);
  }
  text += around_words(p.around);
  return text;
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem p;
  if (words.next() != "layer_norm") return *why = "the line does not start with 'layer_norm'", std::nullopt;
  const int mode = take_choice(&words, kModes, why);
  if (mode < 0) return std::nullopt;
  p.mode = static_cast<Mode>(mode);
  const int pass = take_choice(&words, kPasses, why);
  if (pass < 0) return std::nullopt;
  p.pass = static_cast<Pass>(pass);
  TensorGeometry first;
  if (!parse_tensor(&words, &first) || first.rank < 1)
    return *why = "expected a tensor such as 'bf16 nchw 8192x4096'", std::nullopt;
  p.x = first;
  if (p.mode == Mode::group) {
    std::int64_t groups = 0;
    int count = 0;
    const auto text = words.take("groups=");
    if (!text || !parse_extents(*text, &groups, &count, 1) || first.rank < 2 || first.rank >= kMaxRank || groups < 1 ||
        first.dims[1] % groups != 0) {
      return *why = "'groups=' must be there and divide the channels", std::nullopt;
    }
    p.x = with_groups(first, groups);
  }
  p.axes = usual_axes(p.mode, p.x.rank);
  if (!take_dims(&words, "axes=", p.x.rank, &p.axes, why)) return std::nullopt;
  p.by = usual_by(p.mode, p.axes);
  Types types;
  if (!take_dims(&words, "by=", p.x.rank, &p.by, why) || !take_types(&words, p, &types, why) ||
      !take_epsilon(&words, &p.epsilon, why) || !take_tensors(&words, first, types, &p, why) ||
      !take_around(&words, &p.around, why)) {
    return std::nullopt;
  }
  if (!nothing_left(words, why)) return std::nullopt;
  return p;
}

}  // namespace gpudnn::layer_norm
