// The attributes of every kind of backend descriptor, in one table: what each takes, how many, and whether it must be
// set. Set, Get and the checks of Finalize read it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "core/error.hpp"

namespace gpudnn::graph {

using AttributeName = gpudnnBackendAttributeName_t;
using AttributeType = gpudnnBackendAttributeType_t;

constexpr int kKinds = GPUDNN_BACKEND_OPERATION_SDPA_BWD_DESCRIPTOR + 1;

// The most elements of a list that has no bound of its own.
constexpr std::int32_t kMaxElements = 1 << 20;

// Two to a line of the cache: making a plan reads most rows of a few kinds.
struct Attribute {
  const char* text;  // the name as the header spells it
  AttributeName name;
  AttributeType type;   // of an element
  AttributeType other;  // a second type that is taken as well, or the same one
  std::int32_t least = 1;
  std::int32_t most = 1;
  std::int8_t kind;
  std::int8_t child = -1;  // the kind of the descriptors that it takes, or -1 for any operation
  bool required = false;
  bool answer = false;  // the library sets it; a program only reads it
};
static_assert(sizeof(Attribute) == 32);

// The attributes of a kind, in the table's order; none for a kind that does not exist.
[[nodiscard]] std::span<const Attribute> attributes_of(int kind) noexcept;
// The place of an attribute among those of the kind, or -1.
[[nodiscard]] int place_of(int kind, AttributeName name) noexcept;

// The attribute's name as the header spells it; null for one that does not exist.
[[nodiscard]] const char* attribute_text(AttributeName name) noexcept;

// "OPERATION_MATMUL" and so on; null for a kind that does not exist.
[[nodiscard]] const char* kind_text(int kind) noexcept;
[[nodiscard]] const char* type_text(AttributeType type) noexcept;

// Whether `value` is one of the type's enumerators; true for types that are no enums.
[[nodiscard]] bool is_enumerator(AttributeType type, std::int64_t value) noexcept;

// Bytes of one element of the type; 0 for an unknown type.
[[nodiscard]] int type_size(AttributeType type) noexcept;

}  // namespace gpudnn::graph
