// The matrix product's line of text.
//
//   matmul TA TB->TD DIMS [ba=..] [bb=..] ta=.. tb=.. [td=..] acc=.. [epi=..] [bias:..] [c:..] [over=..] [pad] math=..
//
// DIMS are "b4x16m512n512k64", without b for rank 2; ba and bb tell the batch extents of a and b where they are not
// d's. ta, tb and td are n (rows packed one after the other), t (columns) or strides=.... epi lists, in this order:
// descale_a, descale_b, c, bias or rowbias, the activation, amax, scale_d. "bias:f32" and "c:f16" tell a type that is
// not d's, "bias:strides=..." and "c:strides=..." strides that are not those of a vector along n (rowbias: along m) and
// those of d. over=mnk:i32 lists the overridden extents and their type.
// SPDX-License-Identifier: Apache-2.0
#include <iterator>

#include "core/layout_words.hpp"
#include "ops/matmul/problem.hpp"

namespace gpudnn::matmul {
namespace {

constexpr const char* kMath[] = {"default", "tensor", "tensor_convert", "fma"};
constexpr const char* kActivationNames[] = {"identity", "relu",    "gelu", "gelu_tanh", "swish",
                                            "tanh",     "sigmoid", "elu",  "softplus"};
static_assert(std::size(kActivationNames) == kernels::matmul::kActivations);

struct ScaleName {
  Scale scale;
  const char* name;
};
constexpr ScaleName kScales[] = {
    {kDescaleA, "descale_a"}, {kDescaleB, "descale_b"}, {kAmax, "amax"}, {kScaleD, "scale_d"}};

// Packed, as rows one after the other or as columns.
void pack(TensorGeometry* tensor, bool transposed) {
  const int last = tensor->rank - 1;
  if (transposed) std::swap(tensor->dims[last], tensor->dims[last - 1]);
  set_packed_strides(tensor, GPUDNN_TENSOR_NCHW);
  if (!transposed) return;
  std::swap(tensor->dims[last], tensor->dims[last - 1]);
  std::swap(tensor->strides[last], tensor->strides[last - 1]);
}

// One value for each column (or row) of d.
void make_vector(TensorGeometry* bias, bool along_rows) {
  for (std::int64_t& stride : bias->strides) stride = 0;
  bias->strides[bias->rank - (along_rows ? 2 : 1)] = 1;
}

std::string strides_text(const TensorGeometry& tensor) {
  std::string text = "strides=";
  for (int i = 0; i < tensor.rank; ++i) text += (i > 0 ? "," : "") + std::to_string(tensor.strides[i]);
  return text;
}

std::string layout_of(const TensorGeometry& tensor) {
  for (const bool transposed : {false, true}) {
    TensorGeometry packed = tensor;
    pack(&packed, transposed);
    if (same_layout(packed, tensor)) return transposed ? "t" : "n";
  }
  return strides_text(tensor);
}

std::string batch_text(const TensorGeometry& tensor) { return extents_text(tensor.dims, tensor.rank - 2); }

bool same_strides(const TensorGeometry& a, const TensorGeometry& b) { return same_layout(a, b); }

// The words of c or bias after epi.
std::string addend_words(const char* name, const TensorGeometry& tensor, const TensorGeometry& usual, DataType type) {
  std::string text;
  if (tensor.type != type) text += ' ' + std::string(name) + ':' + data_type_name(tensor.type);
  if (!same_strides(tensor, usual)) text += ' ' + std::string(name) + ':' + strides_text(tensor);
  return text;
}

bool is_row_vector(const TensorGeometry& bias) {
  TensorGeometry vector = bias;
  make_vector(&vector, true);
  TensorGeometry other = bias;
  make_vector(&other, false);
  return same_strides(bias, vector) && !same_strides(bias, other);
}

std::string epilogue_text(const Problem& p) {
  std::string list;
  const auto add = [&](const std::string& word) { list += (list.empty() ? " epi=" : ",") + word; };
  for (const ScaleName& row : {kScales[0], kScales[1]}) {
    if ((p.scales & row.scale) != 0) add(row.name);
  }
  if (p.c.rank > 0) add("c");
  const bool along_rows = p.bias.rank > 0 && is_row_vector(p.bias);
  if (p.bias.rank > 0) add(along_rows ? "rowbias" : "bias");
  if (p.activation != Activation::identity) add(activation_name(p.activation));
  for (const ScaleName& row : {kScales[2], kScales[3]}) {
    if ((p.scales & row.scale) != 0) add(row.name);
  }
  if (p.c.rank > 0) list += addend_words("c", p.c, p.d, p.d.type);
  if (p.bias.rank > 0) {
    TensorGeometry usual = p.bias;
    make_vector(&usual, along_rows);
    list += addend_words("bias", p.bias, usual, p.d.type);
  }
  return list;
}

// --- reading --------------------------------------------------------------------------------------------------------

bool refuse_word(std::string* why, const std::string& text) {
  *why = text;
  return false;
}

bool take_type(std::string_view word, DataType* type, std::string* why) {
  const auto parsed = parse_data_type(word);
  if (!parsed) return refuse_word(why, "'" + std::string(word) + "' names no data type");
  *type = *parsed;
  return true;
}

bool take_types(ProblemWords* words, Problem* p, std::string* why) {
  if (!take_type(words->next(), &p->a.type, why)) return false;
  const std::string_view pair = words->next();
  const auto arrow = pair.find("->");
  if (arrow == std::string_view::npos) {
    return refuse_word(why, "expected the types of b and d, such as bf16->bf16, found '" + std::string(pair) + "'");
  }
  return take_type(pair.substr(0, arrow), &p->b.type, why) && take_type(pair.substr(arrow + 2), &p->d.type, why);
}

bool take_dims(ProblemWords* words, Problem* p, std::string* why) {
  const std::string_view word = words->next();
  const auto at = word.find('m');
  std::int64_t mnk[3] = {};
  std::int64_t batch[kMaxBatchDims] = {};
  int count = 0;
  const bool has_batch = word.starts_with('b');
  if (at == std::string_view::npos || !parse_lettered(word.substr(at), "mnk", mnk) ||
      (has_batch ? !parse_extents(word.substr(1, at - 1), batch, &count, kMaxBatchDims) : at != 0)) {
    return refuse_word(why, "expected extents such as b16m512n512k64, found '" + std::string(word) + "'");
  }
  const std::pair<TensorGeometry*, std::pair<std::int64_t, std::int64_t>> tensors[] = {
      {&p->a, {mnk[0], mnk[2]}}, {&p->b, {mnk[2], mnk[1]}}, {&p->d, {mnk[0], mnk[1]}}};
  for (const auto& [tensor, last] : tensors) {
    tensor->rank = count + 2;
    for (int i = 0; i < count; ++i) tensor->dims[i] = batch[i];
    tensor->dims[count] = last.first;
    tensor->dims[count + 1] = last.second;
  }
  return true;
}

bool take_batch(ProblemWords* words, const char* prefix, TensorGeometry* tensor, std::string* why) {
  const auto text = words->take(prefix);
  if (!text) return true;
  int count = 0;
  std::int64_t extents[kMaxBatchDims] = {};
  if (!parse_extents(*text, extents, &count, kMaxBatchDims) || count != tensor->rank - 2) {
    return refuse_word(why, "'" + std::string(prefix) + std::string(*text) + "' needs " +
                                std::to_string(tensor->rank - 2) + " batch extents");
  }
  for (int i = 0; i < count; ++i) tensor->dims[i] = extents[i];
  return true;
}

bool take_strides(ProblemWords* words, const char* prefix, TensorGeometry* tensor, std::string* why) {
  const auto text = words->take(prefix);
  if (!text || *text == "n" || *text == "t") {
    pack(tensor, text && *text == "t");
    return true;
  }
  if (parse_layout(*text, tensor)) return true;
  return refuse_word(why, "'" + std::string(prefix) + std::string(*text) + "' is none of n, t and strides= with " +
                              std::to_string(tensor->rank) + " numbers");
}

// "c:f16" and "c:strides=...", in any order.
bool take_addend(ProblemWords* words, const std::string& name, TensorGeometry* tensor, std::string* why) {
  const std::string prefix = name + ':';
  while (const auto text = words->take(prefix)) {
    if (tensor->rank == 0) {
      return refuse_word(why, std::string("'").append(prefix).append("' needs ").append(name).append(" in epi="));
    }
    if (text->starts_with("strides=") ? parse_layout(*text, tensor) : take_type(*text, &tensor->type, why)) continue;
    return refuse_word(why, "'" + prefix + std::string(*text) + "' is neither a type nor strides");
  }
  return true;
}

bool apply_epilogue_word(std::string_view word, Problem* p) {
  for (const ScaleName& row : kScales) {
    if (word != row.name) continue;
    p->scales |= row.scale;
    return true;
  }
  if (word == "c") return p->c = p->d, true;
  if (word == "bias" || word == "rowbias") {
    p->bias = p->d;
    make_vector(&p->bias, word == "rowbias");
    return true;
  }
  for (int i = 0; i < kernels::matmul::kActivations; ++i) {
    if (word != kActivationNames[i]) continue;
    p->activation = static_cast<Activation>(i);
    return true;
  }
  return false;
}

bool take_epilogue(ProblemWords* words, Problem* p, std::string* why) {
  auto list = words->take("epi=");
  while (list && !list->empty()) {
    const auto comma = list->find(',');
    const std::string_view word = list->substr(0, comma);
    if (!apply_epilogue_word(word, p)) {
      return refuse_word(why, "'" + std::string(word) +
                                  "' is no part of an epilogue: descale_a, descale_b, c, bias, "
                                  "rowbias, an activation, amax, scale_d");
    }
    list = comma == std::string_view::npos ? std::string_view{} : list->substr(comma + 1);
  }
  return take_addend(words, "c", &p->c, why) && take_addend(words, "bias", &p->bias, why);
}

bool take_overrides(ProblemWords* words, Problem* p, std::string* why) {
  p->has_padding = words->take_word("pad") ? 1 : 0;
  const auto text = words->take("over=");
  if (!text) return true;
  constexpr std::pair<char, Override> kLetters[] = {{'m', kOverrideM}, {'n', kOverrideN}, {'k', kOverrideK}};
  std::string_view rest = *text;
  for (const auto& [letter, bit] : kLetters) {
    if (!rest.starts_with(letter)) continue;
    p->overrides |= bit;
    rest.remove_prefix(1);
  }
  if (p->overrides == 0 || !rest.starts_with(':')) {
    return refuse_word(why, "'over=" + std::string(*text) + "' is not like over=mnk:i32");
  }
  return take_type(rest.substr(1), &p->override_type, why);
}

DataType usual_sums(DataType operand) {
  return operand == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE
         : operand == GPUDNN_DATA_INT8 ? GPUDNN_DATA_INT32
                                       : GPUDNN_DATA_FLOAT;
}

bool take_options(ProblemWords* words, Problem* p, std::string* why) {
  p->compute = usual_sums(p->a.type);
  if (const auto type = words->take("acc="); type && !take_type(*type, &p->compute, why)) return false;
  const auto math = words->take("math=");
  if (!math) return true;
  for (std::size_t i = 0; i < std::size(kMath); ++i) {
    if (*math != kMath[i]) continue;
    p->math = static_cast<gpudnnMathType_t>(i);
    return true;
  }
  return refuse_word(why, "'math=" + std::string(*math) + "' is none of default, tensor, tensor_convert, fma");
}

}  // namespace

const char* activation_name(Activation activation) noexcept {
  const auto index = static_cast<std::size_t>(activation);
  return index < std::size(kActivationNames) ? kActivationNames[index] : "?";
}

std::string to_text(const Problem& p) {
  std::string text = std::string("matmul ") + data_type_name(p.a.type) + ' ' + data_type_name(p.b.type) + "->" +
                     data_type_name(p.d.type) + ' ';
  if (p.d.rank > 2) text += 'b' + batch_text(p.d);
  text += 'm' + std::to_string(rows(p)) + 'n' + std::to_string(columns(p)) + 'k' + std::to_string(depth(p));
  if (batch_text(p.a) != batch_text(p.d)) text += " ba=" + batch_text(p.a);
  if (batch_text(p.b) != batch_text(p.d)) text += " bb=" + batch_text(p.b);
  text += " ta=" + layout_of(p.a) + " tb=" + layout_of(p.b);
  if (const std::string layout = layout_of(p.d); layout != "n") text += " td=" + layout;
  text += std::string(" acc=") + data_type_name(p.compute) + epilogue_text(p);
  if (p.overrides != 0) {
    text += " over=";
    if ((p.overrides & kOverrideM) != 0) text += 'm';
    if ((p.overrides & kOverrideN) != 0) text += 'n';
    if ((p.overrides & kOverrideK) != 0) text += 'k';
    text += std::string(":") + data_type_name(p.override_type);
  }
  if (p.has_padding != 0) text += " pad";
  return text + " math=" + name_of(p.math, kMath);
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  Problem p;
  if (words.next() != "matmul") return *why = "the line does not start with 'matmul'", std::nullopt;
  if (!take_types(&words, &p, why) || !take_dims(&words, &p, why)) return std::nullopt;
  if (!take_batch(&words, "ba=", &p.a, why) || !take_batch(&words, "bb=", &p.b, why)) return std::nullopt;
  if (!take_strides(&words, "ta=", &p.a, why) || !take_strides(&words, "tb=", &p.b, why) ||
      !take_strides(&words, "td=", &p.d, why)) {
    return std::nullopt;
  }
  if (!take_epilogue(&words, &p, why) || !take_overrides(&words, &p, why) || !take_options(&words, &p, why)) {
    return std::nullopt;
  }
  if (!nothing_left(words, why)) return std::nullopt;
  return p;
}

}  // namespace gpudnn::matmul
