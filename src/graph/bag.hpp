// What stands behind a backend descriptor: its kind, and the values of its attributes.
//
// A descriptor that is given to another is shared, not borrowed: a finalized bag never changes, so whoever holds it
// keeps what it needs when the program destroys, resets or fills the descriptor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <memory>
#include <string>
#include <vector>

#include "core/descriptor.hpp"
#include "graph/attributes.hpp"
#include "graph/kinds.hpp"

namespace gpudnn::graph {

struct Bag;
using BagRef = std::shared_ptr<const Bag>;

// The elements of an attribute. Numbers, enumerators, pointers and handles are a word each, a real number its bits as
// double, a fraction two words; descriptors are bags, characters a text.
struct Value {
  bool set = false;
  AttributeType type = GPUDNN_TYPE_INT64;  // which of the two that the attribute takes
  std::vector<std::int64_t> words;
  std::vector<BagRef> bags;
  std::string text;

  [[nodiscard]] std::int64_t count() const noexcept;
};

struct Bag {
  int kind = 0;
  bool finalized = false;
  std::vector<Value> values;  // in the order of attributes_of(kind)
  // What Finalize made of them: the kind's own struct (a Tensor, a Node, a Graph, a plan ...), or null.
  std::shared_ptr<const void> made;

  explicit Bag(int of);

  // Null if the attribute was not set.
  [[nodiscard]] const Value* find(AttributeName name) const noexcept;
  [[nodiscard]] std::int64_t integer(AttributeName name, std::int64_t otherwise) const noexcept;
  [[nodiscard]] double real(AttributeName name, double otherwise) const noexcept;
  [[nodiscard]] BagRef child(AttributeName name) const noexcept;
  template <class T>
  [[nodiscard]] std::shared_ptr<const T> made_as() const noexcept {
    return std::static_pointer_cast<const T>(made);
  }

  // For answers that the library gives: finalized at once by the caller.
  void put_integers(AttributeName name, std::vector<std::int64_t> words);
  void put_bags(AttributeName name, std::vector<BagRef> bags);
  void put_text(AttributeName name, std::string text);

 private:
  Value& slot(AttributeName name);
};

// Set and Get of a descriptor, with the statuses that docs/graph.md lists.
[[nodiscard]] Status set_attribute(Bag* bag, AttributeName name, AttributeType type, std::int64_t count,
                                   const void* elements);
[[nodiscard]] Status get_attribute(const Bag& bag, AttributeName name, AttributeType type, std::int64_t requested,
                                   std::int64_t* count, void* elements);

// Checks that every required attribute was set, then what the kind asks for, and makes what it stands for.
[[nodiscard]] Status finalize(Bag* bag);

}  // namespace gpudnn::graph

// Behind a gpudnnBackendDescriptor_t.
struct gpudnnBackendStruct : gpudnn::Object {
  gpudnnBackendStruct() : Object{gpudnn::Kind::backend} {}
  std::shared_ptr<gpudnn::graph::Bag> bag;
};
