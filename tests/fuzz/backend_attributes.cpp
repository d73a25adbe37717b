// Backend descriptors: random kinds, attributes, types and counts, given bytes of the input and other descriptors, are
// statuses and no crashes.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <vector>

#include "bytes.hpp"
#include "check.hpp"
#include "gpudnn/gpudnn.h"

namespace {

using gpudnn::fuzz::Bytes;

// Elements for an attribute: 64 of the largest type, from the input.
void fill(Bytes* bytes, std::vector<std::int64_t>* words) {
  for (std::int64_t& word : *words)
    word = static_cast<std::int64_t>(bytes->next(0)) - (bytes->next(4) == 0 ? 32768 : 0);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t kKinds = 48;
  constexpr std::uint32_t kNames = 3000;
  constexpr std::uint32_t kTypes = 40;
  Bytes bytes(data, size);
  std::vector<gpudnnBackendDescriptor_t> made;
  std::vector<std::int64_t> words(64);
  for (int step = 0; step < 64 && !bytes.empty(); ++step) {
    switch (bytes.next(4)) {
      case 0: {
        gpudnnBackendDescriptor_t descriptor = nullptr;
        if (gpudnnBackendCreateDescriptor(static_cast<gpudnnBackendDescriptorType_t>(bytes.next(kKinds)),
                                          &descriptor) == GPUDNN_STATUS_SUCCESS) {
          made.push_back(descriptor);
        }
        break;
      }
      case 1:
        if (!made.empty()) (void)gpudnnBackendFinalize(made[bytes.next(static_cast<std::uint32_t>(made.size()))]);
        break;
      default: {
        if (made.empty()) break;
        const auto of = made[bytes.next(static_cast<std::uint32_t>(made.size()))];
        const auto name = static_cast<gpudnnBackendAttributeName_t>(bytes.next(kNames));
        const auto type = static_cast<gpudnnBackendAttributeType_t>(bytes.next(kTypes));
        // At most what the words hold of the largest element; sometimes fewer than none.
        const auto count = static_cast<std::int64_t>(bytes.next(32)) - 2;
        fill(&bytes, &words);
        // Words that the library follows as pointers must be descriptors, or null; other pointers are kept, not
        // followed.
        if (type == GPUDNN_TYPE_BACKEND_DESCRIPTOR) {
          for (std::int64_t& word : words) {
            gpudnnBackendDescriptor_t child =
                word % 5 == 0 ? nullptr : made[static_cast<std::size_t>(word & 0xffff) % made.size()];
            std::memcpy(&word, &child, sizeof word);
          }
        } else if (type == GPUDNN_TYPE_HANDLE) {
          std::fill(words.begin(), words.end(), 0);
        }
        if (name == GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES || name == GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES) {
          // Read as the address of such vectors, whatever the type and count say.
          const std::vector<std::vector<std::int64_t>> shapes(bytes.next(5), {words.begin(), words.begin() + 8});
          (void)gpudnnBackendSetAttribute(of, name, type, count, &shapes);
          break;
        }
        if (bytes.next(2) == 0) {
          (void)gpudnnBackendSetAttribute(of, name, type, count, words.data());
        } else {
          std::int64_t answered = 0;
          (void)gpudnnBackendGetAttribute(of, name, type, count, &answered, words.data());
        }
      }
    }
  }
  for (const auto descriptor : made) (void)gpudnnBackendDestroyDescriptor(descriptor);
  return 0;
}
