// Tensor geometry: packing, sizes, layouts, overlap, merging, and its texts.
// SPDX-License-Identifier: Apache-2.0
#include "core/geometry.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace gpudnn {
namespace {

TensorGeometry packed(std::vector<std::int64_t> dims, gpudnnTensorFormat_t format = GPUDNN_TENSOR_NCHW,
                      DataType type = GPUDNN_DATA_FLOAT) {
  return packed_tensor(type, format, static_cast<int>(dims.size()), dims.data());
}

TensorGeometry strided(std::vector<std::int64_t> dims, std::vector<std::int64_t> strides) {
  TensorGeometry tensor = packed(dims);
  std::copy(strides.begin(), strides.end(), tensor.strides);
  return tensor;
}

std::vector<std::int64_t> strides_of(const TensorGeometry& tensor) {
  return {tensor.strides, tensor.strides + tensor.rank};
}

// The offset of every element, in row-major order.
std::vector<std::int64_t> all_offsets(const TensorGeometry& tensor) {
  std::vector<std::int64_t> offsets{0};
  for (int i = 0; i < tensor.rank; ++i) {
    std::vector<std::int64_t> longer;
    for (const std::int64_t offset : offsets) {
      for (std::int64_t j = 0; j < tensor.dims[i]; ++j) longer.push_back(offset + j * tensor.strides[i]);
    }
    offsets = longer;
  }
  return offsets;
}

TEST(Geometry, PackedStridesOfEveryRank) {
  using V = std::vector<std::int64_t>;
  EXPECT_EQ(strides_of(packed({2, 3, 4, 5})), (V{60, 20, 5, 1}));
  EXPECT_EQ(strides_of(packed({2, 3, 4, 5}, GPUDNN_TENSOR_NHWC)), (V{60, 1, 15, 3}));
  EXPECT_EQ(strides_of(packed({2, 3, 4}, GPUDNN_TENSOR_NHWC)), (V{12, 1, 3}));
  EXPECT_EQ(strides_of(packed({2, 3, 4, 5, 6}, GPUDNN_TENSOR_NHWC)), (V{360, 1, 90, 18, 3}));
  EXPECT_EQ(strides_of(packed({2, 3}, GPUDNN_TENSOR_NHWC)), (V{3, 1}));
  EXPECT_EQ(strides_of(packed({7})), (V{1}));
  EXPECT_EQ(strides_of(packed({1, 2, 3, 4, 5, 6, 7, 8})), (V{40320, 20160, 6720, 1680, 336, 56, 8, 1}));
}

TEST(Geometry, CountsAndSizes) {
  EXPECT_EQ(element_count(packed({2, 3, 4, 5})), 120);
  EXPECT_EQ(element_span(packed({2, 3, 4, 5})), 120);
  EXPECT_EQ(element_span(strided({2, 3}, {10, 2})), 15);
  EXPECT_EQ(element_span(strided({2, 3}, {0, 0})), 1);
  EXPECT_EQ(element_count(TensorGeometry{}), 0);
  EXPECT_EQ(element_span(packed({2, 0, 4})), 0);
  EXPECT_EQ(size_in_bytes(packed({2, 3}, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_HALF)), 12u);
  EXPECT_EQ(size_in_bytes(packed({3}, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_INT4)), 2u);
  EXPECT_EQ(size_in_bytes(packed({3}, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_INT8x32)), 96u);
  EXPECT_EQ(element_count(packed({65536, 65536, 4})), std::int64_t{1} << 34);
}

TEST(Geometry, LayoutsIgnoreStridesOfSingleElements) {
  EXPECT_TRUE(is_packed_nchw(strided({2, 1, 3, 3}, {9, 77, 3, 1})));
  EXPECT_TRUE(is_packed_nhwc(strided({2, 1, 3, 3}, {9, 77, 3, 1})));
  EXPECT_FALSE(is_packed_nhwc(packed({2, 4, 3, 3})));
  EXPECT_FALSE(is_packed_nchw(packed({2, 4, 3, 3}, GPUDNN_TENSOR_NHWC)));
  EXPECT_TRUE(same_layout(strided({1, 5}, {5, 1}), strided({1, 5}, {99, 1})));
  EXPECT_FALSE(same_layout(packed({5, 1}), packed({1, 5})));
  EXPECT_TRUE(is_dense(strided({2, 3, 4}, {1, 2, 6})));
  EXPECT_FALSE(is_dense(strided({2, 3}, {4, 1})));
  EXPECT_FALSE(is_dense(strided({3, 3}, {3, 2}))) << "nine elements in a span of eleven";
}

TEST(Geometry, OverlapIsExact) {
  EXPECT_FALSE(overlaps_itself(packed({2, 3, 4, 5})));
  EXPECT_FALSE(overlaps_itself(packed({2, 3, 4, 5}, GPUDNN_TENSOR_NHWC)));
  EXPECT_TRUE(overlaps_itself(strided({2, 3}, {0, 1})));
  EXPECT_TRUE(overlaps_itself(strided({4, 3}, {1, 1})));   // sliding windows
  EXPECT_FALSE(overlaps_itself(strided({1, 3}, {0, 1})));  // a stride of one element says nothing
  EXPECT_FALSE(overlaps_itself(strided({2, 2}, {3, 2})));  // interleaved: 0 2 3 5
  EXPECT_TRUE(overlaps_itself(strided({3, 4}, {3, 2})));   // 0 2 4 6, 3 5 7 9, 6: again
  EXPECT_FALSE(overlaps_itself(strided({2, 0}, {0, 0})));
}

TEST(Geometry, OverlapAgreesWithEnumeration) {
  std::mt19937 random(1);
  for (int round = 0; round < 3000; ++round) {
    const int rank = 1 + static_cast<int>(random() % 4);
    std::vector<std::int64_t> dims;
    std::vector<std::int64_t> strides;
    for (int i = 0; i < rank; ++i) {
      dims.push_back(1 + random() % 4);
      strides.push_back(random() % 14);
    }
    const TensorGeometry tensor = strided(dims, strides);
    std::vector<std::int64_t> offsets = all_offsets(tensor);
    std::sort(offsets.begin(), offsets.end());
    const bool repeats = std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end();
    EXPECT_EQ(overlaps_itself(tensor), repeats) << tensor_text(tensor);
  }
}

TEST(Geometry, MergingKeepsElementsAndOrder) {
  TensorGeometry one = packed({2, 3, 4, 5});
  EXPECT_EQ(merge_dimensions(&one, 1), 1);
  EXPECT_EQ(one.dims[0], 120);

  TensorGeometry pair[2] = {packed({2, 3, 4, 5}), packed({2, 3, 4, 5}, GPUDNN_TENSOR_NHWC)};
  EXPECT_EQ(merge_dimensions(pair, 2), 3);  // n, c, h and w together
  EXPECT_EQ(pair[0].dims[2], 20);

  TensorGeometry single = strided({1, 1, 1}, {7, 8, 9});
  EXPECT_EQ(merge_dimensions(&single, 1), 1);
  EXPECT_EQ(single.dims[0], 1);

  std::mt19937 random(2);
  for (int round = 0; round < 2000; ++round) {
    const int rank = 1 + static_cast<int>(random() % 5);
    std::vector<std::int64_t> dims;
    for (int i = 0; i < rank; ++i) dims.push_back(1 + random() % 3);
    TensorGeometry tensors[2];
    for (TensorGeometry& tensor : tensors) {
      tensor = packed(dims, random() % 2 == 0 ? GPUDNN_TENSOR_NCHW : GPUDNN_TENSOR_NHWC);
      if (random() % 3 == 0) tensor.strides[random() % static_cast<unsigned>(rank)] = random() % 30;
    }
    const std::vector<std::int64_t> before[2] = {all_offsets(tensors[0]), all_offsets(tensors[1])};
    const int merged = merge_dimensions(tensors, 2);
    for (int t = 0; t < 2; ++t) {
      EXPECT_EQ(tensors[t].rank, merged);
      EXPECT_EQ(all_offsets(tensors[t]), before[t]);
      for (int i = merged; i < kMaxRank; ++i) EXPECT_EQ(tensors[t].dims[i], 0);
    }
  }
}

TEST(Geometry, Texts) {
  EXPECT_EQ(tensor_text(packed({64, 256, 56, 56}, GPUDNN_TENSOR_NHWC, GPUDNN_DATA_HALF)), "f16 nhwc n64c256h56w56");
  EXPECT_EQ(tensor_text(packed({2, 3, 4})), "f32 nchw n2c3w4");
  EXPECT_EQ(tensor_text(packed({2, 3, 4, 5, 6})), "f32 nchw n2c3d4h5w6");
  EXPECT_EQ(tensor_text(packed({8, 16})), "f32 nchw 8x16");
  EXPECT_EQ(layout_text(strided({2, 3, 4, 5}, {100, 30, 6, 1})), "strides=100,30,6,1");
}

}  // namespace
}  // namespace gpudnn
