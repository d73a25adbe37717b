// The memory of handles and descriptors.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <new>
#include <set>

#include "core/descriptor.hpp"

namespace gpudnn {
namespace {

std::set<const void*> slots;

struct NeverMade : Object {
  NeverMade() : Object{Kind::tensor} {
    slots.insert(this);
    throw std::bad_alloc();
  }
  void* link = nullptr;  // the pool keeps one in free slots
};

TEST(DescriptorPool, AnObjectThatCannotBeMadeCostsNoSlot) {
  for (int i = 0; i < 5000; ++i) EXPECT_THROW((void)Pool<NeverMade>::create(), std::bad_alloc);
  EXPECT_LE(slots.size(), 128u) << "each failure takes a slot for ever";
}

}  // namespace
}  // namespace gpudnn
