// What stands behind a backend descriptor: its kind, and the values of its attributes.
//
// A descriptor that is given to another is shared, not borrowed: a finalized bag never changes, so whoever holds it
// keeps what it needs when the program destroys, resets or fills the descriptor.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/descriptor.hpp"
#include "graph/attributes.hpp"
#include "graph/kinds.hpp"

namespace gpudnn::graph {

struct Bag;
using BagRef = std::shared_ptr<const Bag>;

// Which elements of its bag an attribute has. A default value is not set.
struct Value {
  bool set = false;
  AttributeType type = GPUDNN_TYPE_INT64;  // which of the two that the attribute takes
  std::uint32_t first = 0;
  std::uint32_t size = 0;
};

// The elements of an attribute. Numbers, enumerators, pointers and handles are a word each, a real number its bits as
// double, a fraction two words; descriptors are bags, characters a text.
struct Elements {
  AttributeType type = GPUDNN_TYPE_INT64;
  std::span<const std::int64_t> words;
  std::span<const BagRef> bags;
  std::string_view text;

  [[nodiscard]] std::int64_t count() const noexcept;
};

struct Bag {
  int kind = 0;
  bool finalized = false;
  // What Finalize made of them: the kind's own struct (a Tensor, a Node, a Graph, a plan ...), or null.
  std::shared_ptr<const void> made;

  explicit Bag(int of);

  // Nothing if the attribute was not set.
  [[nodiscard]] std::optional<Elements> find(AttributeName name) const noexcept;
  [[nodiscard]] Elements at(int place) const noexcept;
  [[nodiscard]] bool is_set(std::size_t place) const noexcept { return values_[place].set; }
  [[nodiscard]] std::int64_t integer(AttributeName name, std::int64_t otherwise) const noexcept;
  [[nodiscard]] double real(AttributeName name, double otherwise) const noexcept;
  [[nodiscard]] BagRef child(AttributeName name) const noexcept;
  template <class T>
  [[nodiscard]] std::shared_ptr<const T> made_as() const noexcept {
    return std::static_pointer_cast<const T>(made);
  }

  // Elements of an attribute, in place of those that it has.
  void put(int place, AttributeType type, std::span<const std::int64_t> words);
  void put(int place, std::span<const BagRef> bags);
  void put(int place, std::string_view text);
  // For answers that the library gives: finalized at once by the caller.
  void put_integers(AttributeName name, std::initializer_list<std::int64_t> words);
  void put_integers(AttributeName name, std::span<const std::int64_t> words);
  void put_bags(AttributeName name, std::span<const BagRef> bags);
  void put_bag(AttributeName name, const BagRef& bag) { put_bags(name, {&bag, 1}); }
  void put_text(AttributeName name, std::string_view text);

 private:
  // All elements of one sort lie one after the other, and those of most descriptors in the bag itself: a graph has
  // dozens of bags, and their allocations would cost as much as all else that a plan is made of.
  alignas(std::max_align_t) std::byte room_[480];
  std::pmr::monotonic_buffer_resource memory_{room_, sizeof room_};
  std::pmr::vector<Value> values_;  // in the order of attributes_of(kind)
  std::pmr::vector<std::int64_t> words_{&memory_};
  std::pmr::vector<BagRef> bags_{&memory_};
  std::pmr::vector<char> text_{&memory_};

  template <class T>
  void replace(int place, AttributeType type, std::span<const T> elements, std::pmr::vector<T> Bag::*store);
  void erase(Value* value);
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
