// Set and Get of attributes.
// SPDX-License-Identifier: Apache-2.0
#include "graph/bag.hpp"

#include <algorithm>
#include <cstring>

namespace gpudnn::graph {

std::int64_t Value::count() const noexcept {
  if (!set) return 0;
  if (type == GPUDNN_TYPE_BACKEND_DESCRIPTOR) return static_cast<std::int64_t>(bags.size());
  if (type == GPUDNN_TYPE_CHAR) return static_cast<std::int64_t>(text.size());
  return static_cast<std::int64_t>(words.size()) / (type == GPUDNN_TYPE_FRACTION ? 2 : 1);
}

Bag::Bag(int of) : kind(of), values(attributes_of(of).size()) {}

Value& Bag::slot(AttributeName name) { return values[static_cast<std::size_t>(place_of(kind, name))]; }

const Value* Bag::find(AttributeName name) const noexcept {
  const int place = place_of(kind, name);
  if (place < 0) return nullptr;
  const Value& value = values[static_cast<std::size_t>(place)];
  return value.set ? &value : nullptr;
}

std::int64_t Bag::integer(AttributeName name, std::int64_t otherwise) const noexcept {
  const Value* value = find(name);
  return value == nullptr || value->words.empty() ? otherwise : value->words.front();
}

double Bag::real(AttributeName name, double otherwise) const noexcept {
  const Value* value = find(name);
  return value == nullptr || value->words.empty() ? otherwise : std::bit_cast<double>(value->words.front());
}

BagRef Bag::child(AttributeName name) const noexcept {
  const Value* value = find(name);
  return value == nullptr || value->bags.empty() ? nullptr : value->bags.front();
}

void Bag::put_integers(AttributeName name, std::vector<std::int64_t> words) {
  Value& value = slot(name);
  value.set = true;
  value.type = attributes_of(kind)[static_cast<std::size_t>(place_of(kind, name))].type;
  value.words = std::move(words);
}

void Bag::put_bags(AttributeName name, std::vector<BagRef> bags) {
  Value& value = slot(name);
  value.set = true;
  value.type = GPUDNN_TYPE_BACKEND_DESCRIPTOR;
  value.bags = std::move(bags);
}

void Bag::put_text(AttributeName name, std::string text) {
  Value& value = slot(name);
  value.set = true;
  value.type = GPUDNN_TYPE_CHAR;
  value.text = std::move(text);
}

namespace {

template <class T>
T element(const void* elements, std::int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(elements) + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

// The words of element i; a fraction has two.
void append_words(AttributeType type, const void* elements, std::int64_t i, std::vector<std::int64_t>* words) {
  switch (type) {
    case GPUDNN_TYPE_FLOAT:
      words->push_back(std::bit_cast<std::int64_t>(static_cast<double>(element<float>(elements, i))));
      return;
    case GPUDNN_TYPE_BOOLEAN:
      words->push_back(element<unsigned char>(elements, i) != 0 ? 1 : 0);
      return;
    case GPUDNN_TYPE_FRACTION: {
      const auto fraction = element<gpudnnFraction_t>(elements, i);
      words->push_back(fraction.numerator);
      words->push_back(fraction.denominator);
      return;
    }
    default:
      words->push_back(type_size(type) == 8 ? element<std::int64_t>(elements, i)
                                            : std::int64_t{element<std::int32_t>(elements, i)});
  }
}

void write_word(AttributeType stored, AttributeType type, const std::int64_t* words, std::int64_t i, void* elements) {
  const std::int64_t word = words[i * (stored == GPUDNN_TYPE_FRACTION ? 2 : 1)];
  char* const at =
      static_cast<char*>(elements) + static_cast<std::size_t>(i) * static_cast<std::size_t>(type_size(type));
  const auto put = [at](const auto& value) { std::memcpy(at, &value, sizeof value); };
  if (type == GPUDNN_TYPE_FLOAT) return put(static_cast<float>(std::bit_cast<double>(word)));
  if (type == GPUDNN_TYPE_BOOLEAN) return put(static_cast<unsigned char>(word));
  if (type == GPUDNN_TYPE_FRACTION)
    return put(gpudnnFraction_t{word, stored == GPUDNN_TYPE_FRACTION ? words[2 * i + 1] : 1});
  if (type_size(type) == 8) return put(word);
  return put(static_cast<std::int32_t>(word));
}

Status find_row(const Bag& bag, AttributeName name, AttributeType type, const Attribute** row, int* place) {
  *place = place_of(bag.kind, name);
  if (*place < 0) {
    const char* const text = attribute_text(name);
    return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM, "%s (%d) is no attribute of %s descriptors",
                         text == nullptr ? "that" : text, static_cast<int>(name), kind_text(bag.kind));
  }
  *row = &attributes_of(bag.kind)[static_cast<std::size_t>(*place)];
  const bool also_integers = (*row)->type == GPUDNN_TYPE_FRACTION || (*row)->type == GPUDNN_TYPE_INT32;
  const bool fits = type == (*row)->type || type == (*row)->other || (also_integers && type == GPUDNN_TYPE_INT64);
  GPUDNN_REQUIRE(fits, GPUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "%s takes %s, not %s", (*row)->text,
                 type_text((*row)->type), type_text(type));
  return GPUDNN_STATUS_SUCCESS;
}

Status take_child(const Attribute& row, void* pointer, BagRef* out) {
  const auto* object = static_cast<const gpudnnBackendStruct*>(pointer);
  GPUDNN_REQUIRE(object != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER, "a descriptor given as %s is null", row.text);
  GPUDNN_TRY(check_object(object, Kind::backend, row.text));
  const int kind = object->bag->kind;
  if (row.child >= 0) {
    GPUDNN_REQUIRE(kind == row.child, GPUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                   "%s takes %s descriptors, this is one of %s", row.text, kind_text(row.child), kind_text(kind));
  } else {
    GPUDNN_REQUIRE(std::strncmp(kind_text(kind), "OPERATION_", 10) == 0, GPUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                   "%s takes descriptors of operations, this is one of %s", row.text, kind_text(kind));
  }
  GPUDNN_REQUIRE(object->bag->finalized, GPUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                 "the %s descriptor given as %s was not finalized", kind_text(kind), row.text);
  *out = object->bag;
  return GPUDNN_STATUS_SUCCESS;
}

// std::vector<std::vector<int64_t>> of the caller, as libstdc++ and libc++ lay it out: begin, end and end of the room.
struct CallersVector {
  const void* begin;
  const void* end;
  const void* room;
};

// The shapes of an override come as the address of a vector of vectors. Words: for each its length, then its numbers.
Status take_vectors(const Attribute& row, const void* address, std::vector<std::int64_t>* words) {
  CallersVector outer;
  std::memcpy(&outer, address, sizeof outer);
  const auto bytes = reinterpret_cast<std::uintptr_t>(outer.end) - reinterpret_cast<std::uintptr_t>(outer.begin);
  GPUDNN_REQUIRE(reinterpret_cast<std::uintptr_t>(outer.end) >= reinterpret_cast<std::uintptr_t>(outer.begin) &&
                     bytes % sizeof(CallersVector) == 0 && bytes / sizeof(CallersVector) <= 4096,
                 GPUDNN_STATUS_BAD_PARAM, "%s must be the address of a std::vector<std::vector<int64_t>>", row.text);
  for (std::size_t i = 0; i < bytes / sizeof(CallersVector); ++i) {
    CallersVector inner;
    std::memcpy(&inner, static_cast<const char*>(outer.begin) + i * sizeof inner, sizeof inner);
    const auto length =
        (reinterpret_cast<std::uintptr_t>(inner.end) - reinterpret_cast<std::uintptr_t>(inner.begin)) / 8;
    GPUDNN_REQUIRE(length <= 64, GPUDNN_STATUS_BAD_PARAM,
                   "%s: vector %zu has %zu numbers; a tensor has at most %d dims", row.text, i, length, GPUDNN_DIM_MAX);
    words->push_back(static_cast<std::int64_t>(length));
    for (std::size_t k = 0; k < length; ++k)
      words->push_back(element<std::int64_t>(inner.begin, static_cast<std::int64_t>(k)));
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status check_count(const Attribute& row, std::int64_t count) {
  if (row.least == 1 && row.most == 1) {
    GPUDNN_REQUIRE(count == 1, GPUDNN_STATUS_BAD_PARAM, "%s takes 1 element, not %lld", row.text,
                   static_cast<long long>(count));
  }
  GPUDNN_REQUIRE(count >= row.least, GPUDNN_STATUS_BAD_PARAM, "%s takes at least %lld elements, not %lld", row.text,
                 static_cast<long long>(row.least), static_cast<long long>(count));
  GPUDNN_REQUIRE(count <= row.most, GPUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND, "%s takes at most %lld elements, not %lld",
                 row.text, static_cast<long long>(row.most), static_cast<long long>(count));
  return GPUDNN_STATUS_SUCCESS;
}

Status take_elements(const Attribute& row, std::int64_t count, const void* elements, Value* value) {
  if (value->type == GPUDNN_TYPE_CHAR) {
    value->text.assign(static_cast<const char*>(elements), static_cast<std::size_t>(count));
    return GPUDNN_STATUS_SUCCESS;
  }
  if (row.name == GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES || row.name == GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES)
    return take_vectors(row, elements, &value->words);
  if (value->type == GPUDNN_TYPE_BACKEND_DESCRIPTOR) {
    value->bags.resize(static_cast<std::size_t>(count));
    for (std::int64_t i = 0; i < count; ++i)
      GPUDNN_TRY(take_child(row, element<void*>(elements, i), &value->bags[static_cast<std::size_t>(i)]));
    return GPUDNN_STATUS_SUCCESS;
  }
  value->words.reserve(static_cast<std::size_t>(count) * (value->type == GPUDNN_TYPE_FRACTION ? 2 : 1));
  for (std::int64_t i = 0; i < count; ++i) {
    append_words(value->type, elements, i, &value->words);
    const std::int64_t word = value->words[static_cast<std::size_t>(i * (value->type == GPUDNN_TYPE_FRACTION ? 2 : 1))];
    GPUDNN_REQUIRE(value->type != row.type || is_enumerator(row.type, word), GPUDNN_STATUS_BAD_PARAM,
                   "%s is %lld, which is no %s", row.text, static_cast<long long>(word), type_text(row.type));
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

Status set_attribute(Bag* bag, AttributeName name, AttributeType type, std::int64_t count, const void* elements) {
  GPUDNN_REQUIRE(!bag->finalized, GPUDNN_STATUS_BAD_PARAM,
                 "the %s descriptor was finalized, and its attributes are fixed; create another one",
                 kind_text(bag->kind));
  const Attribute* row = nullptr;
  int place = 0;
  GPUDNN_TRY(find_row(*bag, name, type, &row, &place));
  GPUDNN_REQUIRE(!row->answer, GPUDNN_STATUS_BAD_PARAM, "%s is what the library answers; it cannot be set", row->text);
  GPUDNN_TRY(check_count(*row, count));
  GPUDNN_REQUIRE(elements != nullptr || count == 0, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                 "arrayOfElements is null; it must point to %lld elements of %s", static_cast<long long>(count),
                 row->text);
  Value value;
  value.set = true;
  value.type = type;
  GPUDNN_TRY(take_elements(*row, count, elements, &value));
  bag->values[static_cast<std::size_t>(place)] = std::move(value);
  return GPUDNN_STATUS_SUCCESS;
}

Status get_attribute(const Bag& bag, AttributeName name, AttributeType type, std::int64_t requested,
                     std::int64_t* count, void* elements) {
  GPUDNN_REQUIRE(bag.finalized, GPUDNN_STATUS_BAD_PARAM_NOT_FINALIZED,
                 "the %s descriptor was not finalized; only then it can be read", kind_text(bag.kind));
  const Attribute* row = nullptr;
  int place = 0;
  GPUDNN_TRY(find_row(bag, name, type, &row, &place));
  GPUDNN_REQUIRE(requested >= 0, GPUDNN_STATUS_BAD_PARAM, "requestedElementCount is %lld; it must not be negative",
                 static_cast<long long>(requested));
  const Value& value = bag.values[static_cast<std::size_t>(place)];
  const std::int64_t available = value.count();
  if (requested == 0 || elements == nullptr) {
    if (count != nullptr) *count = available;
    return GPUDNN_STATUS_SUCCESS;
  }
  const std::int64_t written = std::min(available, requested);
  if (written > 0) {
    const bool integers_for_descriptor =
        (value.type == GPUDNN_TYPE_BACKEND_DESCRIPTOR) != (type == GPUDNN_TYPE_BACKEND_DESCRIPTOR);
    GPUDNN_REQUIRE(!integers_for_descriptor, GPUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE, "%s was set as %s; ask for that",
                   row->text, type_text(value.type));
  }
  if (value.type == GPUDNN_TYPE_CHAR) {
    std::memcpy(elements, value.text.data(), static_cast<std::size_t>(written));
  } else if (value.type == GPUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::int64_t i = 0; i < written; ++i) {
      auto* const object = static_cast<gpudnnBackendStruct*>(element<void*>(elements, i));
      const BagRef& from = value.bags[static_cast<std::size_t>(i)];
      GPUDNN_REQUIRE(object != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                     "descriptor %lld of %s is null; create it", static_cast<long long>(i), row->text);
      GPUDNN_TRY(check_object(object, Kind::backend, row->text));
      GPUDNN_REQUIRE(object->bag->kind == from->kind, GPUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                     "%s fills descriptors of %s; descriptor %lld is a %s", row->text, kind_text(from->kind),
                     static_cast<long long>(i), kind_text(object->bag->kind));
    }
    for (std::int64_t i = 0; i < written; ++i) {
      // A finalized bag never changes, so it can stand behind several descriptors.
      static_cast<gpudnnBackendStruct*>(element<void*>(elements, i))->bag =
          std::const_pointer_cast<Bag>(value.bags[static_cast<std::size_t>(i)]);
    }
  } else {
    for (std::int64_t i = 0; i < written; ++i) write_word(value.type, type, value.words.data(), i, elements);
  }
  if (count != nullptr) *count = written;
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
