// The text of the attention problem:
//   attention fwd bf16 b2h32/8/8s4096/4096d128/128 [WORD ...]
// `h` tells the heads of q, k, v, `s` the lengths of q and kv, `d` the dims of qk and v; equal ones may be told once.
//   bshd | bhsd                  layout of all tensors of that form (bhsd if neither)
//   q:strides=A,B,C,D            of one tensor: q k v o stats max sum_exp dO dQ dK dV; q:none leaves a gradient out
//   q:offsets=i32 | i64[x4]      ragged offsets, and what they are multiplied by
//   scale=0.125 softcap=50 alibi sink dsink stats max sum_exp
//   bias=f16:1x8x64x64[:strides=A,B,C,D]  dbias=...   dropout=0.1[:i32] dropout_mask=f32
//   causal = right=0; right=R left=L bottom_right; length_q length_kv; pages=COUNT/LENGTH; block_mask
//   of 8-bit problems: o:type=bf16 of one tensor; p=f8e5m2 ds=f32 (that of q if not told)
// SPDX-License-Identifier: Apache-2.0
#include "ops/attention/problem.hpp"

#include <array>
#include <charconv>
#include <cstdio>

#include "core/layout_words.hpp"
#include "core/plan_cache.hpp"

namespace gpudnn::attention {
namespace {

constexpr const char* kPasses[] = {"fwd", "bwd"};

struct Named {
  const char* name;
  Tensor Problem::*tensor;
};
constexpr Named kTensors[] = {{"q", &Problem::q},
                              {"k", &Problem::k},
                              {"v", &Problem::v},
                              {"o", &Problem::o},
                              {"stats", &Problem::stats},
                              {"max", &Problem::max},
                              {"sum_exp", &Problem::sum_exp},
                              {"dO", &Problem::d_o},
                              {"dQ", &Problem::dq},
                              {"dK", &Problem::dk},
                              {"dV", &Problem::dv}};

struct Flag {
  const char* word;
  std::int32_t Problem::*flag;
};
constexpr Flag kFlags[] = {{"alibi", &Problem::has_alibi},       {"sink", &Problem::has_sink},
                           {"dsink", &Problem::has_dsink},       {"bottom_right", &Problem::bottom_right},
                           {"length_q", &Problem::has_length_q}, {"length_kv", &Problem::has_length_kv}};

TensorGeometry packed(DataType type, const std::array<std::int64_t, 4>& dims, bool bshd) {
  TensorGeometry tensor = packed_tensor(type, GPUDNN_TENSOR_NCHW, 4, dims.data());
  if (bshd) {
    tensor.strides[2] = dims[1] * dims[3];
    tensor.strides[1] = dims[3];
  }
  return tensor;
}

std::string number_text(double value) {
  char text[40];
  const auto result = std::to_chars(text, text + sizeof text, value);
  return {text, result.ptr};
}

bool parse_number(std::string_view text, double* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_number(std::string_view text, std::int64_t* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc{} && end == text.data() + text.size();
}

// The front of `text` up to `separator`, which is dropped with it; all of it if there is none.
std::string_view take_part(std::string_view* text, char separator) {
  const auto end = text->find(separator);
  const std::string_view part = text->substr(0, end);
  text->remove_prefix(end == std::string_view::npos ? text->size() : end + 1);
  return part;
}

// "32/8/8", "32/8" or "32"; the last number stands for those that are missing.
bool parse_shared(std::string_view text, std::int64_t* values, int count) {
  for (int i = 0; i < count; ++i) {
    if (i > 0 && text.empty()) {
      values[i] = values[i - 1];
    } else if (!parse_number(take_part(&text, '/'), &values[i])) {
      return false;
    }
  }
  return text.empty();
}

struct Shape {
  std::int64_t batch = 0;
  std::int64_t heads[3] = {};
  std::int64_t lengths[2] = {};
  std::int64_t dims[2] = {};
};

bool parse_shape(std::string_view word, Shape* shape) {
  if (!word.starts_with('b')) return false;
  word.remove_prefix(1);
  return parse_number(take_part(&word, 'h'), &shape->batch) && parse_shared(take_part(&word, 's'), shape->heads, 3) &&
         parse_shared(take_part(&word, 'd'), shape->lengths, 2) && parse_shared(word, shape->dims, 2);
}

Shape shape_of(const Problem& problem) {
  return {problem.batch(),
          {problem.heads_q(), problem.heads_k(), problem.heads_v()},
          {problem.length_q(), problem.length_kv},
          {problem.dim_qk(), problem.dim_v()}};
}

std::string shape_text(const Shape& s) {
  char text[200];
  std::snprintf(text, sizeof text, "b%lldh%lld/%lld/%llds%lld/%lldd%lld/%lld", static_cast<long long>(s.batch),
                static_cast<long long>(s.heads[0]), static_cast<long long>(s.heads[1]),
                static_cast<long long>(s.heads[2]), static_cast<long long>(s.lengths[0]),
                static_cast<long long>(s.lengths[1]), static_cast<long long>(s.dims[0]),
                static_cast<long long>(s.dims[1]));
  return text;
}

// All tensors that such a problem usually has, packed. `pages`: their number and length; 0 for none.
void lay_out(Problem* problem, DataType type, const Shape& s, bool bshd, const std::int64_t (&pages)[2]) {
  const DataType row_type = type == GPUDNN_DATA_DOUBLE ? type : GPUDNN_DATA_FLOAT;
  const bool is_paged = pages[1] != 0;
  const std::int64_t k_batch = is_paged ? pages[0] : s.batch;
  const std::int64_t k_length = is_paged ? pages[1] : s.lengths[1];
  problem->length_kv = s.lengths[1];
  problem->q.geometry = packed(type, {s.batch, s.heads[0], s.lengths[0], s.dims[0]}, bshd);
  problem->k.geometry = packed(type, {k_batch, s.heads[1], k_length, s.dims[0]}, bshd);
  problem->v.geometry = packed(type, {k_batch, s.heads[2], k_length, s.dims[1]}, bshd);
  problem->o.geometry = packed(type, {s.batch, s.heads[0], s.lengths[0], s.dims[1]}, bshd);
  problem->stats.geometry = packed(row_type, {s.batch, s.heads[0], s.lengths[0], 1}, false);
  problem->max.geometry = problem->sum_exp.geometry = problem->stats.geometry;
  if (is_paged) {
    const std::array<std::int64_t, 4> table = {s.batch, 1, (s.lengths[1] + pages[1] - 1) / pages[1], 1};
    problem->page_table_k = problem->page_table_v = packed(GPUDNN_DATA_INT32, table, false);
  }
  if (problem->backward == 0) return;
  problem->d_o.geometry = problem->o.geometry;
  problem->dq.geometry = problem->q.geometry;
  problem->dk.geometry = problem->k.geometry;
  problem->dv.geometry = problem->v.geometry;
}

bool is_optional_output(const Problem& problem, const Tensor& tensor) {
  return &tensor == &problem.dq || &tensor == &problem.dk || &tensor == &problem.dv;
}

std::string strides_text(const TensorGeometry& tensor) {
  std::string text = "strides=";
  for (int i = 0; i < tensor.rank; ++i) text += (i > 0 ? "," : "") + std::to_string(tensor.strides[i]);
  return text;
}

bool parse_strides(std::string_view text, TensorGeometry* tensor) {
  for (int i = 0; i < tensor->rank; ++i) {
    if (!parse_number(take_part(&text, ','), &tensor->strides[i])) return false;
  }
  return text.empty();
}

bool take_tensor_words(ProblemWords* words, const char* name, Tensor* tensor) {
  const std::string prefix = std::string(name) + ':';
  while (auto word = words->take(prefix)) {
    if (*word == "none") {
      *tensor = {};
    } else if (word->starts_with("strides=")) {
      word->remove_prefix(8);
      if (!parse_strides(*word, &tensor->geometry)) return false;
    } else if (word->starts_with("type=")) {
      const auto type = parse_data_type(word->substr(5));
      if (!type) return false;
      tensor->geometry.type = *type;
    } else if (word->starts_with("offsets=i32") || word->starts_with("offsets=i64")) {
      tensor->offset_bits = word->substr(9, 2) == "32" ? 32 : 64;
      word->remove_prefix(11);
      if (!word->empty() && (word->front() != 'x' || !parse_number(word->substr(1), &tensor->offset_scale))) {
        return false;
      }
    } else {
      return false;
    }
  }
  return true;
}

std::string tensor_words(const char* name, const Tensor& tensor, const Tensor& usual) {
  std::string text;
  if (tensor.geometry.rank == 4 && !same_layout(tensor.geometry, usual.geometry)) {
    text += std::string(" ") + name + ':' + strides_text(tensor.geometry);
  }
  if (tensor.geometry.rank == 4 && tensor.geometry.type != usual.geometry.type) {
    text += std::string(" ") + name + ":type=" + data_type_name(tensor.geometry.type);
  }
  if (tensor.is_ragged()) {
    text += std::string(" ") + name + ":offsets=i" + std::to_string(tensor.offset_bits);
    if (tensor.offset_scale != 1) text += 'x' + std::to_string(tensor.offset_scale);
  }
  return text;
}

// "f16:1x8x64x64[:strides=...]".
std::string plain_text(const char* name, const TensorGeometry& tensor) {
  if (tensor.rank == 0) return {};
  std::string text =
      std::string(" ") + name + '=' + data_type_name(tensor.type) + ':' + extents_text(tensor.dims, tensor.rank);
  const TensorGeometry usual = packed_tensor(tensor.type, GPUDNN_TENSOR_NCHW, tensor.rank, tensor.dims);
  if (!same_layout(tensor, usual)) text += ':' + strides_text(tensor);
  return text;
}

bool take_plain(ProblemWords* words, const char* name, TensorGeometry* tensor) {
  auto word = words->take(std::string(name) + '=');
  if (!word) return true;
  const auto type = parse_data_type(take_part(&*word, ':'));
  std::int64_t dims[kMaxRank] = {};
  int rank = 0;
  if (!type || !parse_extents(take_part(&*word, ':'), dims, &rank, kMaxRank)) return false;
  *tensor = packed_tensor(*type, GPUDNN_TENSOR_NCHW, rank, dims);
  if (word->empty()) return true;
  if (!word->starts_with("strides=")) return false;
  word->remove_prefix(8);
  return parse_strides(*word, tensor);
}

bool take_numbers(ProblemWords* words, Problem* problem) {
  if (const auto text = words->take("scale="); text && !parse_number(*text, &problem->scale)) return false;
  if (const auto text = words->take("softcap=")) {
    problem->has_soft_cap = 1;
    if (!parse_number(*text, &problem->soft_cap)) return false;
  }
  if (words->take_word("causal")) problem->has_right = 1;
  if (const auto text = words->take("right=")) {
    problem->has_right = 1;
    if (!parse_number(*text, &problem->right)) return false;
  }
  if (const auto text = words->take("left=")) {
    problem->has_left = 1;
    if (!parse_number(*text, &problem->left)) return false;
  }
  auto dropout = words->take("dropout=");
  if (!dropout) return true;
  problem->has_dropout = 1;
  if (dropout->ends_with(":i32")) {
    problem->seed_bits = 32;
    dropout->remove_suffix(4);
  }
  return parse_number(*dropout, &problem->dropout);
}

std::string number_words(const Problem& problem) {
  std::string text = " scale=" + number_text(problem.scale);
  if (problem.has_soft_cap != 0) text += " softcap=" + number_text(problem.soft_cap);
  if (problem.has_right != 0) text += " right=" + std::to_string(problem.right);
  if (problem.has_left != 0) text += " left=" + std::to_string(problem.left);
  if (problem.has_dropout != 0) {
    text += " dropout=" + number_text(problem.dropout) + (problem.seed_bits == 32 ? ":i32" : "");
  }
  return text;
}

// What p and the scores' gradient of an 8-bit problem are rounded to where no word tells.
struct RoundedType {
  const char* name;
  DataType Problem::*type;
};
constexpr RoundedType kRounded[] = {{"p", &Problem::p_type}, {"ds", &Problem::ds_type}};
DataType usual_type(const Problem& problem, const RoundedType& rounded) {
  const bool made = problem.backward != 0 || rounded.type == &Problem::p_type;
  return problem.is_8_bit() && made ? problem.type() : GPUDNN_DATA_FLOAT;
}

bool take_rounded_types(ProblemWords* words, Problem* problem) {
  for (const RoundedType& rounded : kRounded) {
    problem->*rounded.type = usual_type(*problem, rounded);
    const auto word = words->take(std::string(rounded.name) + '=');
    if (!word) continue;
    const auto type = parse_data_type(*word);
    if (!type) return false;
    problem->*rounded.type = *type;
  }
  return true;
}

std::string rounded_types_text(const Problem& problem) {
  std::string text;
  for (const RoundedType& rounded : kRounded) {
    if (problem.*rounded.type == usual_type(problem, rounded)) continue;
    text += std::string(" ") + rounded.name + '=' + data_type_name(problem.*rounded.type);
  }
  return text;
}

// The optional outputs of rows are there where a word asks for them; backward has stats always.
void keep_row_outputs(ProblemWords* words, Problem* problem) {
  if (problem->backward == 0 && !words->take_word("stats")) problem->stats = {};
  if (!words->take_word("max")) problem->max = {};
  if (!words->take_word("sum_exp")) problem->sum_exp = {};
}

}  // namespace

std::string to_text(const Problem& problem) {
  const Shape shape = shape_of(problem);
  std::string text = std::string("attention ") + kPasses[problem.backward != 0] + ' ' + data_type_name(problem.type()) +
                     ' ' + shape_text(shape);
  std::int64_t pages[2] = {};
  if (problem.is_paged()) {
    pages[0] = problem.k.geometry.dims[0];
    pages[1] = problem.k.geometry.dims[2];
    text += " pages=" + std::to_string(pages[0]) + '/' + std::to_string(pages[1]);
  }
  const bool bshd = problem.q.geometry.rank == 4 && problem.length_q() > 1 && problem.heads_q() > 1 &&
                    problem.q.geometry.strides[1] < problem.q.geometry.strides[2];
  if (bshd) text += " bshd";
  Problem usual;
  usual.backward = problem.backward;
  lay_out(&usual, problem.type(), shape, bshd, pages);
  if (problem.backward == 0 && problem.stats.exists()) text += " stats";
  if (problem.max.exists()) text += " max";
  if (problem.sum_exp.exists()) text += " sum_exp";
  for (const Named& named : kTensors) {
    const Tensor& tensor = problem.*named.tensor;
    text += tensor_words(named.name, tensor, usual.*named.tensor);
    if (problem.backward != 0 && is_optional_output(problem, tensor) && !tensor.exists()) {
      text += std::string(" ") + named.name + ":none";
    }
  }
  text += rounded_types_text(problem) + number_words(problem);
  for (const Flag& flag : kFlags) {
    if (problem.*flag.flag != 0) text += std::string(" ") + flag.word;
  }
  text += plain_text("bias", problem.bias) + plain_text("dbias", problem.dbias) +
          plain_text("block_mask", problem.block_mask) + plain_text("dropout_mask", problem.dropout_mask);
  if (problem.is_paged() && !same_layout(problem.page_table_k, usual.page_table_k)) {
    text += plain_text("page_table_k", problem.page_table_k);
  }
  if (problem.is_paged() && !same_layout(problem.page_table_v, usual.page_table_v)) {
    text += plain_text("page_table_v", problem.page_table_v);
  }
  return text;
}

std::optional<Problem> from_text(std::string_view line, std::string* why) {
  ProblemWords words(line);
  if (words.next() != "attention") return *why = "the line does not start with 'attention'", std::nullopt;
  const int pass = take_choice(&words, kPasses, why);
  if (pass < 0) return std::nullopt;
  Problem problem;
  problem.backward = pass;
  const auto type = parse_data_type(words.next());
  if (!type) return *why = "expected a type such as 'bf16' after the pass", std::nullopt;
  Shape shape;
  if (!parse_shape(words.next(), &shape)) {
    return *why = "expected a shape such as 'b2h32/8/8s4096/4096d128/128'", std::nullopt;
  }
  std::int64_t pages[2] = {};
  if (const auto text = words.take("pages="); text && !parse_shared(*text, pages, 2)) {
    return *why = "expected the number of pages and their length, such as 'pages=64/16'", std::nullopt;
  }
  const bool bshd = words.take_word("bshd");
  if (!bshd) (void)words.take_word("bhsd");
  lay_out(&problem, *type, shape, bshd, pages);
  keep_row_outputs(&words, &problem);
  for (const Named& named : kTensors) {
    if (!take_tensor_words(&words, named.name, &(problem.*named.tensor))) {
      *why = std::string("a word of ") + named.name +
             " is none of strides=A,B,C,D, type=f16, offsets=i32, offsets=i64, none";
      return std::nullopt;
    }
  }
  if (!take_rounded_types(&words, &problem)) return *why = "expected a type such as 'p=f8e4m3'", std::nullopt;
  if (!take_numbers(&words, &problem)) {
    return *why = "a value of scale=, softcap=, right=, left= or dropout= is no number", std::nullopt;
  }
  for (const Flag& flag : kFlags) problem.*flag.flag = words.take_word(flag.word) ? 1 : 0;
  if (!take_plain(&words, "bias", &problem.bias) || !take_plain(&words, "dbias", &problem.dbias) ||
      !take_plain(&words, "block_mask", &problem.block_mask) ||
      !take_plain(&words, "dropout_mask", &problem.dropout_mask) ||
      !take_plain(&words, "page_table_k", &problem.page_table_k) ||
      !take_plain(&words, "page_table_v", &problem.page_table_v)) {
    return *why = "expected a tensor such as 'bias=f16:1x8x64x64'", std::nullopt;
  }
  if (!nothing_left(words, why)) return std::nullopt;
  return problem;
}

std::uint64_t hash(const Problem& problem) {
  return hash_bytes({reinterpret_cast<const char*>(&problem), sizeof problem});
}

}  // namespace gpudnn::attention
