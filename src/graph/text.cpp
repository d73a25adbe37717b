// The text of graphs.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

#include "core/problem_text.hpp"
#include "graph/check.hpp"
#include "graph/graph.hpp"

namespace gpudnn::graph {
namespace {

// --- writing --------------------------------------------------------------------------------------------------------

std::string number_text(double value) {
  char text[40];
  const auto end = std::to_chars(text, text + sizeof text, value);  // the shortest that reads back the same
  return {text, end.ptr};
}

std::string list_text(const std::int64_t* values, int count, char between) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    if (i > 0) text += between;
    text += std::to_string(values[i]);
  }
  return text;
}

std::string extents_text(const Extents& extents) {
  std::string text;
  for (int i = 0; i < extents.count; ++i) {
    const auto k = static_cast<std::size_t>(i);
    if (i > 0) text += 'x';
    text += std::to_string(extents.value[k]);
    if (extents.divisor[k] != 1) text += "/" + std::to_string(extents.divisor[k]);
  }
  return text;
}

std::string tensor_line(const Tensor& tensor) {
  std::string line = "tensor " + std::to_string(tensor.uid) + " " + data_type_name(tensor.geometry.type) + " " +
                     list_text(tensor.geometry.dims, tensor.geometry.rank, 'x');
  if (!is_packed_nchw(tensor.geometry))
    line += " strides=" + list_text(tensor.geometry.strides, tensor.geometry.rank, ',');
  if (tensor.is_virtual) line += " virtual";
  if (tensor.by_value) line += " by_value";
  if (tensor.alignment != 16) line += " align=" + std::to_string(tensor.alignment);
  if (tensor.vector_count != 1)
    line += " vectors=" + std::to_string(tensor.vector_count) + "@" + std::to_string(tensor.vector_dim);
  if (tensor.reordering != 0) line += " reordering=" + std::to_string(tensor.reordering);
  if (tensor.ragged != Tensor::kNone) line += " ragged=" + std::to_string(tensor.ragged);
  return line;
}

// " name=value" where the field is not at its default.
std::string field_text(const FieldRow& row, const Node& node, const Node& plain) {
  const std::string head = std::string(" ") + row.name + "=";
  if (const auto* field = std::get_if<IntField>(&row.field))
    return node.*(*field) == plain.*(*field) ? "" : head + std::to_string(node.*(*field));
  if (const auto* field = std::get_if<LongField>(&row.field))
    return node.*(*field) == plain.*(*field) ? "" : head + std::to_string(node.*(*field));
  if (const auto* field = std::get_if<RealField>(&row.field))
    return node.*(*field) == plain.*(*field) ? "" : head + number_text(node.*(*field));
  if (const auto* field = std::get_if<TypeField>(&row.field)) return head + data_type_name(node.*(*field));
  const auto field = std::get<ExtentsField>(row.field);
  return (node.*field).count == 0 ? "" : head + extents_text(node.*field);
}

// --- reading --------------------------------------------------------------------------------------------------------

template <class T>
bool parse_number(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc{} && end == text.data() + text.size();
}

bool parse_list(std::string_view text, char between, std::int64_t* values, int most, int* count) {
  *count = 0;
  while (true) {
    const std::size_t end = text.find(between);
    if (*count == most || !parse_number(text.substr(0, end), &values[*count])) return false;
    ++*count;
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

bool parse_extents_of(std::string_view text, Extents* extents) {
  *extents = Extents{};
  while (true) {
    const std::size_t end = text.find('x');
    const std::string_view one = text.substr(0, end);
    const std::size_t slash = one.find('/');
    if (extents->count == kMaxRank) return false;
    const auto k = static_cast<std::size_t>(extents->count++);
    if (!parse_number(one.substr(0, slash), &extents->value[k])) return false;
    if (slash != std::string_view::npos && !parse_number(one.substr(slash + 1), &extents->divisor[k])) return false;
    if (extents->value[k] < -kMaxPadding || extents->value[k] > kMaxPadding || extents->divisor[k] <= 0 ||
        extents->divisor[k] > kMaxPadding) {
      return false;
    }
    if (end == std::string_view::npos) return true;
    text.remove_prefix(end + 1);
  }
}

bool parse_field(const FieldRow& row, std::string_view text, Node* node) {
  if (const auto* field = std::get_if<IntField>(&row.field)) return parse_number(text, &(node->*(*field)));
  if (const auto* field = std::get_if<LongField>(&row.field)) return parse_number(text, &(node->*(*field)));
  if (const auto* field = std::get_if<RealField>(&row.field)) return parse_number(text, &(node->*(*field)));
  if (const auto* field = std::get_if<TypeField>(&row.field)) {
    const auto type = parse_data_type(text);
    if (!type) return false;
    node->*(*field) = *type;
    return true;
  }
  return parse_extents_of(text, &(node->*std::get<ExtentsField>(row.field)));
}

bool parse_tensor_line(ProblemWords* words, Tensor* tensor, std::string* why) {
  const std::string_view uid = words->next();
  const auto type = parse_data_type(words->next());
  const std::string_view dims = words->next();
  TensorGeometry& geometry = tensor->geometry;
  int rank = 0;
  if (!parse_number(uid, &tensor->uid) || !type || !parse_list(dims, 'x', geometry.dims, kMaxRank, &rank)) {
    *why = "a tensor's line is 'tensor <uid> <type> <dims>' and then its properties";
    return false;
  }
  geometry.type = *type;
  geometry.rank = rank;
  set_packed_strides(&geometry, GPUDNN_TENSOR_NCHW);
  int strides = rank;
  bool good = true;
  if (const auto text = words->take("strides=")) good = parse_list(*text, ',', geometry.strides, kMaxRank, &strides);
  if (const auto text = words->take("align=")) good = good && parse_number(*text, &tensor->alignment);
  if (const auto text = words->take("reordering=")) good = good && parse_number(*text, &tensor->reordering);
  if (const auto text = words->take("ragged=")) good = good && parse_number(*text, &tensor->ragged);
  if (const auto text = words->take("vectors=")) {
    const std::size_t at = text->find('@');
    good = good && at != std::string_view::npos && parse_number(text->substr(0, at), &tensor->vector_count) &&
           parse_number(text->substr(at + 1), &tensor->vector_dim);
  }
  tensor->is_virtual = words->take_word("virtual");
  tensor->by_value = words->take_word("by_value");
  if (!good || strides != rank || !words->rest().empty()) {
    *why = "the properties of tensor " + std::string(uid) + " cannot be read" +
           (words->rest().empty() ? "" : ": '" + words->rest() + "' is left over");
    return false;
  }
  if (check_tensor(*tensor) != GPUDNN_STATUS_SUCCESS) {
    *why = last_error_text();
    return false;
  }
  return true;
}

bool parse_operation_line(const OpRow& row, ProblemWords* words, const Graph& graph, Operation* operation,
                          std::string* why) {
  Node& node = operation->node;
  node.op = row.op;
  for (const FieldRow& field : row.fields) {
    if (const auto text = words->take(std::string(field.name) + "="); text && !parse_field(field, *text, &node)) {
      *why = std::string(row.name) + ": " + field.name + "=" + std::string(*text) + " cannot be read";
      return false;
    }
  }
  for (const PortRow& port : row.ports) {
    while (const auto text = words->take(std::string(port_name(port.port)) + "=")) {
      std::int64_t uid = 0;
      const int place = parse_number(*text, &uid) ? graph.find(uid) : -1;
      if (place < 0) {
        *why = std::string(row.name) + ": " + port_name(port.port) + "=" + std::string(*text) +
               " names no tensor of a line before";
        return false;
      }
      node.links.push_back({port.port, static_cast<std::int32_t>(operation->tensors.size())});
      operation->tensors.push_back(graph.tensors[static_cast<std::size_t>(place)]);
      if (port.port != Port::item) break;
    }
  }
  std::string rest = words->rest();
  if (const int mode = parse_mode(row.op, rest); mode >= 0) {
    node.mode = mode;
    rest.clear();
  }
  if (!rest.empty()) *why = std::string(row.name) + ": '" + rest + "' is not understood";
  return rest.empty();
}

const OpRow* row_of_name(std::string_view name) {
  for (int op = 0; op < kOps; ++op)
    if (name == op_name(static_cast<Op>(op))) return &row_of(static_cast<Op>(op));
  return nullptr;
}

}  // namespace

std::string to_text(const Node& node, const Graph& graph) {
  const OpRow& row = row_of(node.op);
  const Node plain;
  std::string line = row.name;
  const char* mode = mode_name(node.op, node.mode);
  if (mode != nullptr) line += std::string(" ") + mode;
  for (const Link& link : node.links) {
    line += std::string(" ") + port_name(link.port) + "=" +
            std::to_string(graph.tensors[static_cast<std::size_t>(link.tensor)].uid);
  }
  for (const FieldRow& field : row.fields) {
    if (mode != nullptr && std::strcmp(field.name, "mode") == 0) continue;
    line += field_text(field, node, plain);
  }
  return line;
}

std::string to_text(const Graph& graph, char separator) {
  std::string text;
  const auto add = [&](const std::string& line) {
    if (!text.empty()) text += separator == ';' ? std::string("; ") : std::string(1, separator);
    text += line;
  };
  if (graph.dynamic_shapes) add("dynamic_shapes");
  // In the order in which operations mention them, as a graph that is read has them.
  std::vector<bool> written(graph.tensors.size(), false);
  const auto add_once = [&](int place) {
    if (place < 0 || written[static_cast<std::size_t>(place)]) return;
    written[static_cast<std::size_t>(place)] = true;
    add(tensor_line(graph.tensors[static_cast<std::size_t>(place)]));
  };
  for (const Node& node : graph.nodes) {
    for (const Link& link : node.links) add_once(link.tensor);
    for (const Link& link : node.links)
      add_once(graph.find(graph.tensors[static_cast<std::size_t>(link.tensor)].ragged));
  }
  for (const Node& node : graph.nodes) add(to_text(node, graph));
  return text;
}

std::optional<Graph> from_text(std::string_view text, std::string* why) {
  Graph names;  // the tensors of the lines so far
  std::vector<std::shared_ptr<const Operation>> operations;
  bool dynamic = false;
  while (!text.empty()) {
    const std::size_t end = text.find_first_of(";\n");
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    line = line.substr(0, line.find('#'));
    ProblemWords words(line);
    const std::string_view first = words.next();
    if (first.empty()) continue;
    if (first == "dynamic_shapes") {
      dynamic = true;
    } else if (first == "tensor") {
      Tensor tensor;
      if (!parse_tensor_line(&words, &tensor, why)) return std::nullopt;
      if (names.find(tensor.uid) >= 0) {
        *why = "tensor " + std::to_string(tensor.uid) + " has two lines";
        return std::nullopt;
      }
      names.tensors.push_back(tensor);
    } else if (const OpRow* row = row_of_name(first)) {
      const auto operation = std::make_shared<Operation>();
      if (!parse_operation_line(*row, &words, names, operation.get(), why)) return std::nullopt;
      const std::size_t linked = operation->tensors.size();  // offsets have no offsets of their own
      for (std::size_t t = 0; t < linked; ++t) {
        if (const int offsets = names.find(operation->tensors[t].ragged); offsets >= 0)
          operation->tensors.push_back(names.tensors[static_cast<std::size_t>(offsets)]);
      }
      if (check_operation(operation->node, operation->tensors) != GPUDNN_STATUS_SUCCESS) {
        *why = last_error_text();
        return std::nullopt;
      }
      operations.push_back(operation);
    } else {
      *why = "'" + std::string(first) + "' is neither 'tensor' nor an operation";
      return std::nullopt;
    }
  }
  Graph graph;
  graph.dynamic_shapes = dynamic;
  if (join(operations, &graph) != GPUDNN_STATUS_SUCCESS) {
    *why = last_error_text();
    return std::nullopt;
  }
  return graph;
}

}  // namespace gpudnn::graph
