// Launches that are put on the thread's list in place of being made.
// SPDX-License-Identifier: Apache-2.0
#ifdef GPUDNN_WITH_CUDA
#include "kernels/tile/launch_list.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>

namespace gpudnn::tile {
namespace {

struct Large {
  std::array<unsigned char, 3000> bytes;
};
struct alignas(16) Aligned {
  double value;
};

// Stand for kernels; nothing here is launched where there is a device, but for what does not fit.
void first_kernel(Aligned, int, double) {}
void second_kernel(char) {}
void large_kernel(Large) {}

const cudaStream_t kStream = cudaStreamPerThread;

// The thread's list while it lives.
struct Listed {
  Listed() { set_thread_launches(&list); }
  ~Listed() {
    set_thread_launches(nullptr);
    (void)cudaGetLastError();
  }
  Listed(const Listed&) = delete;
  Listed& operator=(const Listed&) = delete;
  LaunchList list{kStream};
};

template <class T>
T argument(const LaunchList& list, std::size_t launch, std::size_t index) {
  T value;
  std::memcpy(&value, list.data + list.offset[list.of[launch].first + index], sizeof value);
  return value;
}

TEST(LaunchList, KeepsLaunchesInOrderWithCopiesOfTheirArguments) {
  Listed listed;
  const LaunchList& list = listed.list;
  std::memset(listed.list.data, 0xff, sizeof list.data);
  int changing = 7;
  launch_kernel(&first_kernel, {dim3(5, 6), 128, 1000, 2, true}, kStream, Aligned{1.5}, changing, 3);
  changing = 8;
  launch_kernel(&second_kernel, {9, 32}, kStream, 'x');
  ASSERT_EQ(list.launches, 2u);
  EXPECT_EQ(list.of[0].kernel, reinterpret_cast<const void*>(&first_kernel));
  EXPECT_EQ(list.of[0].config.blocks.x, 5u);
  EXPECT_EQ(list.of[0].config.blocks.y, 6u);
  EXPECT_EQ(list.of[0].config.threads.x, 128u);
  EXPECT_EQ(list.of[0].config.shared_bytes, 1000u);
  EXPECT_EQ(list.of[0].config.cluster, 2u);
  EXPECT_TRUE(list.of[0].config.overlaps);
  EXPECT_EQ(list.of[0].count, 3u);
  EXPECT_EQ(argument<Aligned>(list, 0, 0).value, 1.5);
  EXPECT_EQ(argument<int>(list, 0, 1), 7);
  EXPECT_EQ(argument<double>(list, 0, 2), 3) << "converted to the parameter's type";
  EXPECT_EQ(list.of[1].kernel, reinterpret_cast<const void*>(&second_kernel));
  EXPECT_EQ(list.of[1].config.blocks.y, 1u);
  EXPECT_FALSE(list.of[1].config.overlaps);
  EXPECT_EQ(argument<char>(list, 1, 0), 'x');
  for (std::size_t a = 0; a < list.arguments; ++a) EXPECT_EQ(list.offset[a] % LaunchList::kAlignment, 0u);
  EXPECT_EQ(list.data[list.offset[1] + sizeof(int)], 0) << "bytes between arguments are compared, too";
  EXPECT_EQ(list.data[list.offset[3] - 1], 0);
  EXPECT_FALSE(list.given_up);
}

TEST(LaunchList, GivesUpWhatHasNoRoomAndWhatGoesElsewhere) {
  {
    Listed listed;
    for (std::size_t i = 0; i < LaunchList::kMaxBytes / sizeof(Large); ++i) {
      launch_kernel(&large_kernel, {1, 32}, kStream, Large{});
    }
    EXPECT_EQ(listed.list.launches, LaunchList::kMaxBytes / sizeof(Large));
    EXPECT_EQ(thread_launches(), &listed.list);
  }
  for (const bool other_stream : {false, true}) {
    Listed listed;
    for (std::size_t i = 0; i < (other_stream ? 1 : LaunchList::kMaxLaunches); ++i) {
      launch_kernel(&second_kernel, {1, 32}, kStream, 'a');
    }
    EXPECT_FALSE(listed.list.given_up);
    // These fail at once: a device knows no such kernels.
    launch_kernel(&second_kernel, {1, 32}, other_stream ? nullptr : kStream, 'b');
    EXPECT_TRUE(listed.list.given_up);
    EXPECT_EQ(listed.list.launches, 0u);
    EXPECT_EQ(thread_launches(), nullptr) << "later launches are made at once";
  }
}

TEST(LaunchList, BelongsToItsThread) {
  const Listed listed;
  LaunchList* elsewhere = nullptr;
  std::thread([&] { elsewhere = thread_launches(); }).join();
  EXPECT_EQ(elsewhere, nullptr);
  EXPECT_EQ(thread_launches(), &listed.list);
}

}  // namespace
}  // namespace gpudnn::tile
#endif
