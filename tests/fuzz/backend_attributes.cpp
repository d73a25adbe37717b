// Backend descriptors: attributes of random kinds, mostly with the types and counts that their kind takes, given
// numbers of the input and other descriptors, are statuses and no crashes.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <vector>

#include "bytes.hpp"
#include "check.hpp"
#include "gpudnn/gpudnn.h"
#include "graph/attributes.hpp"

namespace {

using gpudnn::fuzz::Bytes;

struct Made {
  int kind;
  gpudnnBackendDescriptor_t descriptor;
};

struct Setting {
  gpudnnBackendAttributeName_t name;
  gpudnnBackendAttributeType_t type;
  std::int64_t count;
  int child;  // the kind of the descriptors that it takes; below 0: any
};

// An attribute of the kind as it is meant, or any name, type and count: at most what the words hold of the largest
// element, at times fewer than none.
Setting setting_of(int kind, Bytes* bytes) {
  constexpr std::uint32_t kNames = 3000;
  constexpr std::uint32_t kTypes = 40;
  const auto attributes = gpudnn::graph::attributes_of(kind);
  Setting setting{};
  setting.child = -1;
  const bool meant = !attributes.empty() && bytes->next(8) != 0;
  if (meant) {
    const gpudnn::graph::Attribute& a = attributes[bytes->next(static_cast<std::uint32_t>(attributes.size()))];
    const auto span = static_cast<std::uint32_t>(std::min<std::int64_t>(a.most, 8) - a.least + 1);
    setting = {a.name, bytes->next(4) == 0 ? a.other : a.type, a.least + bytes->next(span > 0 ? span : 1), a.child};
  } else {
    setting.name = static_cast<gpudnnBackendAttributeName_t>(bytes->next(kNames));
  }
  if (!meant || bytes->next(16) == 0) setting.type = static_cast<gpudnnBackendAttributeType_t>(bytes->next(kTypes));
  if (!meant || bytes->next(16) == 0) setting.count = static_cast<std::int64_t>(bytes->next(32)) - 2;
  return setting;
}

// Elements for an attribute, small numbers as a rule, in the width of its type; zeros behind them.
void fill(const Setting& setting, Bytes* bytes, std::vector<std::int64_t>* words) {
  const gpudnnBackendAttributeType_t type = setting.type;
  const bool wide = type == GPUDNN_TYPE_INT64 || type == GPUDNN_TYPE_FRACTION || bytes->next(16) == 0;
  const std::int64_t wanted = type == GPUDNN_TYPE_FRACTION ? 2 * setting.count : setting.count;
  for (std::int64_t i = 0; i < std::min<std::int64_t>(wanted, static_cast<std::int64_t>(words->size())); ++i) {
    std::int64_t& word = (*words)[static_cast<std::size_t>(i)];
    const std::uint32_t kind = bytes->next(16);
    if (type == GPUDNN_TYPE_DOUBLE) {
      const double real = bytes->next(64) / 8.0 - 1;
      std::memcpy(&word, &real, sizeof word);
      continue;
    }
    word = kind < 13 ? 1 + bytes->next(12) : static_cast<std::int64_t>(bytes->next(0)) - (kind == 15 ? 32768 : 0);
    if (!wide) word |= static_cast<std::int64_t>(1 + bytes->next(12)) << 32;  // two elements of 32 bits
  }
}

// A descriptor of the kind, or any.
gpudnnBackendDescriptor_t child_of(int kind, std::int64_t word, const std::vector<Made>& made) {
  const std::size_t first = static_cast<std::size_t>(word & 0xffff) % made.size();
  for (std::size_t i = 0; i < made.size() && kind >= 0; ++i) {
    const Made& candidate = made[(first + i) % made.size()];
    if (candidate.kind == kind) return candidate.descriptor;
  }
  return word % 5 == 0 ? nullptr : made[first].descriptor;
}

void set_or_get(const Made& of, const std::vector<Made>& made, Bytes* bytes) {
  std::vector<std::int64_t> words(64);
  const Setting s = setting_of(of.kind, bytes);
  fill(s, bytes, &words);
  // Words that the library follows as pointers must be descriptors, or null; other pointers are kept, not followed.
  if (s.type == GPUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::int64_t& word : words) {
      const gpudnnBackendDescriptor_t child = child_of(word % 16 == 0 ? -1 : s.child, word, made);
      std::memcpy(&word, &child, sizeof word);
    }
  } else if (s.type == GPUDNN_TYPE_HANDLE) {
    std::fill(words.begin(), words.end(), 0);
  }
  if (s.name == GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES || s.name == GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES) {
    // Read as the address of such vectors, whatever the type and count say.
    const std::vector<std::vector<std::int64_t>> shapes(bytes->next(5), {words.begin(), words.begin() + 8});
    (void)gpudnnBackendSetAttribute(of.descriptor, s.name, s.type, s.count, &shapes);
  } else if (bytes->next(4) != 0) {
    (void)gpudnnBackendSetAttribute(of.descriptor, s.name, s.type, s.count, words.data());
  } else {
    std::int64_t answered = 0;
    (void)gpudnnBackendGetAttribute(of.descriptor, s.name, s.type, s.count, &answered, words.data());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t kKinds = 48;
  Bytes bytes(data, size);
  std::vector<Made> made;
  for (int step = 0; step < 256 && !bytes.empty(); ++step) {
    const std::uint32_t what = bytes.next(8);
    if (what == 0 || made.empty()) {
      // Tensors are what all else is made of.
      const int kind = bytes.next(3) == 0 ? GPUDNN_BACKEND_TENSOR_DESCRIPTOR : static_cast<int>(bytes.next(kKinds));
      gpudnnBackendDescriptor_t descriptor = nullptr;
      if (gpudnnBackendCreateDescriptor(static_cast<gpudnnBackendDescriptorType_t>(kind), &descriptor) ==
          GPUDNN_STATUS_SUCCESS) {
        made.push_back({kind, descriptor});
      }
      continue;
    }
    // The latest one as a rule: its attributes are set, then it is finalized.
    const Made& of = bytes.next(4) != 0 ? made.back() : made[bytes.next(static_cast<std::uint32_t>(made.size()))];
    if (what == 1) {
      (void)gpudnnBackendFinalize(of.descriptor);
    } else {
      set_or_get(of, made, &bytes);
    }
  }
  for (const Made& one : made) (void)gpudnnBackendDestroyDescriptor(one.descriptor);
  return 0;
}
