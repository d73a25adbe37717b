// Set and Get of attributes.
// SPDX-License-Identifier: Apache-2.0
#include "graph/bag.hpp"

#include <algorithm>
#include <cstring>

#include "graph/graph.hpp"

namespace gpudnn::graph {

std::int64_t Elements::count() const noexcept {
  if (type == GPUDNN_TYPE_BACKEND_DESCRIPTOR) return static_cast<std::int64_t>(bags.size());
  if (type == GPUDNN_TYPE_CHAR) return static_cast<std::int64_t>(text.size());
  return static_cast<std::int64_t>(words.size()) / (type == GPUDNN_TYPE_FRACTION ? 2 : 1);
}

Bag::Bag(int of) : kind(of), values_(attributes_of(of).size(), &memory_) {}

Elements Bag::at(int place) const noexcept {
  const Value& value = values_[static_cast<std::size_t>(place)];
  Elements elements;
  elements.type = value.type;
  if (value.type == GPUDNN_TYPE_BACKEND_DESCRIPTOR) {
    elements.bags = {bags_.data() + value.first, value.size};
  } else if (value.type == GPUDNN_TYPE_CHAR) {
    elements.text = {text_.data() + value.first, value.size};
  } else {
    elements.words = {words_.data() + value.first, value.size};
  }
  return elements;
}

std::optional<Elements> Bag::find(AttributeName name) const noexcept {
  const int place = place_of(kind, name);
  if (place < 0 || !is_set(static_cast<std::size_t>(place))) return std::nullopt;
  return at(place);
}

std::int64_t Bag::integer(AttributeName name, std::int64_t otherwise) const noexcept {
  const auto elements = find(name);
  return !elements || elements->words.empty() ? otherwise : elements->words.front();
}

double Bag::real(AttributeName name, double otherwise) const noexcept {
  const auto elements = find(name);
  return !elements || elements->words.empty() ? otherwise : std::bit_cast<double>(elements->words.front());
}

BagRef Bag::child(AttributeName name) const noexcept {
  const auto elements = find(name);
  return !elements || elements->bags.empty() ? nullptr : elements->bags.front();
}

template <class T>
void Bag::replace(int place, AttributeType type, std::span<const T> elements, std::pmr::vector<T> Bag::*store) {
  Value& value = values_[static_cast<std::size_t>(place)];
  std::pmr::vector<T>& all = this->*store;
  constexpr std::size_t kMore = 128 / sizeof(T);  // the words of a tensor come to as many, and those of a small pack
  if (all.size() + elements.size() > all.capacity()) all.reserve(all.size() + elements.size() + kMore);
  if (value.set) erase(&value);  // after what can fail: the old elements stay if there is no memory for the new ones
  value = {true, type, static_cast<std::uint32_t>(all.size()), static_cast<std::uint32_t>(elements.size())};
  all.insert(all.end(), elements.begin(), elements.end());
}

// Where an attribute is set again, the elements that come after its old ones move down.
void Bag::erase(Value* value) {
  const auto cut = [value](auto& store) {
    store.erase(store.begin() + value->first, store.begin() + value->first + value->size);
  };
  const auto is_bag = [](const Value& one) { return one.type == GPUDNN_TYPE_BACKEND_DESCRIPTOR; };
  const auto is_text = [](const Value& one) { return one.type == GPUDNN_TYPE_CHAR; };
  if (is_bag(*value)) {
    cut(bags_);
  } else if (is_text(*value)) {
    cut(text_);
  } else {
    cut(words_);
  }
  for (Value& other : values_)
    if (other.set && is_bag(other) == is_bag(*value) && is_text(other) == is_text(*value) && other.first > value->first)
      other.first -= value->size;
  value->set = false;
}

void Bag::put(int place, AttributeType type, std::span<const std::int64_t> words) {
  replace(place, type, words, &Bag::words_);
}

void Bag::put(int place, std::span<const BagRef> bags) {
  replace(place, GPUDNN_TYPE_BACKEND_DESCRIPTOR, bags, &Bag::bags_);
}

void Bag::put(int place, std::string_view text) { replace(place, GPUDNN_TYPE_CHAR, std::span(text), &Bag::text_); }

void Bag::put_integers(AttributeName name, std::initializer_list<std::int64_t> words) {
  put_integers(name, std::span(words.begin(), words.size()));
}

void Bag::put_integers(AttributeName name, std::span<const std::int64_t> words) {
  const int place = place_of(kind, name);
  put(place, attributes_of(kind)[static_cast<std::size_t>(place)].type, words);
}

void Bag::put_bags(AttributeName name, std::span<const BagRef> bags) { put(place_of(kind, name), bags); }

void Bag::put_text(AttributeName name, std::string_view text) { put(place_of(kind, name), text); }

namespace {

struct Default {
  AttributeName name;
  double value;
};
// What Get answers where nothing was set; Node and Tensor have the same. Zero for enumerators, flags and clips.
constexpr Default kDefaults[] = {
    {GPUDNN_ATTR_TENSOR_VECTOR_COUNT, 1},
    {GPUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION, -1},
    {GPUDNN_ATTR_TENSOR_IS_VIRTUAL, 0},
    {GPUDNN_ATTR_TENSOR_IS_BY_VALUE, 0},
    {GPUDNN_ATTR_TENSOR_REORDERING_MODE, 0},
    {GPUDNN_ATTR_POINTWISE_MATH_PREC, GPUDNN_DATA_FLOAT},
    {GPUDNN_ATTR_POINTWISE_NAN_PROPAGATION, GPUDNN_PROPAGATE_NAN},
    {GPUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, 0},
    {GPUDNN_ATTR_POINTWISE_RELU_UPPER_CLIP, Node::kNoClip},
    {GPUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP_SLOPE, 0},
    {GPUDNN_ATTR_POINTWISE_ELU_ALPHA, 1},
    {GPUDNN_ATTR_POINTWISE_SOFTPLUS_BETA, 1},
    {GPUDNN_ATTR_POINTWISE_SWISH_BETA, 1},
    {GPUDNN_ATTR_POINTWISE_AXIS, -1},
    {GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA, 1},
    {GPUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA, 0},
    {GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_ALPHA, 1},
    {GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_BETA, 0},
    {GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_ALPHA, 1},
    {GPUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_BETA, 0},
    {GPUDNN_ATTR_OPERATION_POINTWISE_ALPHA1, 1},
    {GPUDNN_ATTR_OPERATION_POINTWISE_ALPHA2, 1},
    {GPUDNN_ATTR_MATMUL_PADDING_VALUE, 0},
    {GPUDNN_ATTR_REDUCTION_COMP_TYPE, GPUDNN_DATA_FLOAT},
    {GPUDNN_ATTR_REDUCTION_IS_DETERMINISTIC, 0},
    {GPUDNN_ATTR_RESAMPLE_COMP_TYPE, GPUDNN_DATA_FLOAT},
    {GPUDNN_ATTR_RESAMPLE_NAN_PROPAGATION, GPUDNN_PROPAGATE_NAN},
    {GPUDNN_ATTR_RESAMPLE_PADDING_MODE, GPUDNN_ZERO_PAD},
    {GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_ALPHA, 1},
    {GPUDNN_ATTR_OPERATION_RESAMPLE_FWD_BETA, 0},
    {GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_ALPHA, 1},
    {GPUDNN_ATTR_OPERATION_RESAMPLE_BWD_BETA, 0},
    {GPUDNN_ATTR_OPERATION_CONCAT_INPLACE_INDEX, -1},
    {GPUDNN_ATTR_OPERATION_BLOCK_SCALE_DEQUANTIZE_NEG_SCALE, 0},
    {GPUDNN_ATTR_OPERATIONGRAPH_IS_DYNAMIC_SHAPE_ENABLED, 0},
};

std::optional<std::int64_t> default_of(const Attribute& row) {
  for (const Default& known : kDefaults) {
    if (known.name != row.name) continue;
    return row.type == GPUDNN_TYPE_DOUBLE ? std::bit_cast<std::int64_t>(known.value)
                                          : static_cast<std::int64_t>(known.value);
  }
  return std::nullopt;
}

template <class T>
T element(const void* elements, std::int64_t i) {
  T value;
  std::memcpy(&value, static_cast<const char*>(elements) + static_cast<std::size_t>(i) * sizeof(T), sizeof(T));
  return value;
}

// Writes the words of element i, of which a fraction has two.
void read_words(AttributeType type, const void* elements, std::int64_t i, std::int64_t* words) {
  switch (type) {
    case GPUDNN_TYPE_FLOAT:
      *words = std::bit_cast<std::int64_t>(static_cast<double>(element<float>(elements, i)));
      return;
    case GPUDNN_TYPE_BOOLEAN:
      *words = element<unsigned char>(elements, i) != 0 ? 1 : 0;
      return;
    case GPUDNN_TYPE_FRACTION: {
      const auto fraction = element<gpudnnFraction_t>(elements, i);
      words[0] = fraction.numerator;
      words[1] = fraction.denominator;
      return;
    }
    default:
      *words =
          type_size(type) == 8 ? element<std::int64_t>(elements, i) : std::int64_t{element<std::int32_t>(elements, i)};
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

// What is taken before all of it was checked lies here: as many elements as most attributes have, or memory of its own.
template <class T>
class Taken {
 public:
  explicit Taken(std::size_t size) : size_(size) {
    if (size > kFew) many_.resize(size);
  }
  [[nodiscard]] T* data() noexcept { return size_ > kFew ? many_.data() : few_; }
  [[nodiscard]] std::span<const T> all() noexcept { return {data(), size_}; }

 private:
  static constexpr std::size_t kFew = 8;
  T few_[kFew];
  std::vector<T> many_;
  std::size_t size_;
};

Status take_numbers(const Attribute& row, int place, AttributeType type, std::int64_t count, const void* elements,
                    Bag* bag) {
  const std::int64_t step = type == GPUDNN_TYPE_FRACTION ? 2 : 1;
  Taken<std::int64_t> words(static_cast<std::size_t>(step * count));
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t* const word = words.data() + step * i;
    read_words(type, elements, i, word);
    GPUDNN_REQUIRE(type != row.type || is_enumerator(type, *word), GPUDNN_STATUS_BAD_PARAM,
                   "%s is %lld, which is no %s", row.text, static_cast<long long>(*word), type_text(row.type));
  }
  bag->put(place, type, words.all());
  return GPUDNN_STATUS_SUCCESS;
}

Status take_elements(const Attribute& row, int place, AttributeType type, std::int64_t count, const void* elements,
                     Bag* bag) {
  if (type == GPUDNN_TYPE_CHAR) {
    bag->put(place, std::string_view(static_cast<const char*>(elements), static_cast<std::size_t>(count)));
    return GPUDNN_STATUS_SUCCESS;
  }
  if (row.name == GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES || row.name == GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES) {
    std::vector<std::int64_t> words;
    GPUDNN_TRY(take_vectors(row, elements, &words));
    bag->put(place, type, words);
    return GPUDNN_STATUS_SUCCESS;
  }
  if (type != GPUDNN_TYPE_BACKEND_DESCRIPTOR) return take_numbers(row, place, type, count, elements, bag);
  Taken<BagRef> bags(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < count; ++i) GPUDNN_TRY(take_child(row, element<void*>(elements, i), bags.data() + i));
  bag->put(place, bags.all());
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
  return take_elements(*row, place, type, count, elements, bag);
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
  const std::optional<std::int64_t> otherwise =
      bag.is_set(static_cast<std::size_t>(place)) ? std::nullopt : default_of(*row);
  Elements value;
  if (bag.is_set(static_cast<std::size_t>(place))) value = bag.at(place);
  if (otherwise) {
    value.type = row->type;
    value.words = {&*otherwise, 1};
  }
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
