// Which forward convolutions are products of two matrices of rows, for the kernel whose warps share a tile's reduction.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/sliced_k/sliced_k_sm80_params.hpp"

#include <gtest/gtest.h>

#include <string>

namespace gpudnn::conv {
namespace {

Problem problem_of(const std::string& sizes) {
  std::string why;
  const auto problem = from_text("conv fwd f16 " + sizes + " acc=f32 math=tensor", &why);
  EXPECT_TRUE(problem.has_value()) << why;
  return *problem;
}

TEST(SlicedKParams, PackedPixelsOfOneTapAreRows) {
  const auto p = sliced_k_params(problem_of("nhwc n3c72h5w7 k40r1s1 p0x0 t1x1 d1x1 g1"), {});
  ASSERT_TRUE(p.rows);
  EXPECT_EQ(p.x_row, 144u);
  EXPECT_EQ(p.w_row, 144u);
  EXPECT_EQ(p.y_at.axis[0], 40);
  EXPECT_EQ(p.addend_at.axis[0], 40);
  EXPECT_EQ(p.chunks, 3u);
}

TEST(SlicedKParams, RowsAreWholeVectorsOrHalvesOfThem) {
  EXPECT_FALSE(sliced_k_params(problem_of("nhwc n2c64h5w5 k64r1s1 p0x0 t1x1 d1x1 g1"), {}).row_halves);
  for (const char* sizes : {"nhwc n2c60h5w5 k64r1s1 p0x0 t1x1 d1x1 g1", "nhwc n2c64h5w5 k36r1s1 p0x0 t1x1 d1x1 g1"}) {
    const auto p = sliced_k_params(problem_of(sizes), {});
    EXPECT_TRUE(p.rows && p.row_halves) << sizes;
  }
}

TEST(SlicedKParams, ImagesOfOnePixelAreRowsWhateverTheLayout) {
  const auto p = sliced_k_params(problem_of("nchw n5c48h1w1 k200r1s1 p0x0 t2x2 d1x1 g1"), {});
  ASSERT_TRUE(p.rows);
  EXPECT_EQ(p.x_row, 96u);
  EXPECT_EQ(p.y_at.axis[0], 200);
}

TEST(SlicedKParams, OthersAreNot) {
  for (const char* sizes : {
           "nhwc n2c64h9w9 k64r1s1 p0x0 t2x2 d1x1 g1",  // every second pixel
           "nhwc n2c64h5w5 k64r1s1 p1x1 t1x1 d1x1 g1",  // padding
           "nhwc n2c64h5w5 k64r3s3 p1x1 t1x1 d1x1 g1",  // nine taps
           "nhwc n2c64h5w5 k30r1s1 p0x0 t1x1 d1x1 g1",  // y in no vectors
           "nhwc n2c62h5w5 k64r1s1 p0x0 t1x1 d1x1 g1",  // x in no halves of vectors
           "nchw n2c64h5w5 k64r1s1 p0x0 t1x1 d1x1 g1",  // channels apart
       }) {
    EXPECT_FALSE(sliced_k_params(problem_of(sizes), {}).rows) << sizes;
  }
}

TEST(SlicedKParams, WholeVectorsOfNeighbouringPixelsArePlanes) {
  const auto p = sliced_k_params(problem_of("nchw n2c64h4w10 k30r1s1 p0x0 t1x1 d1x1 g1"), {});
  ASSERT_TRUE(p.planes);
  EXPECT_EQ(p.plane_pixels, 40u);
  EXPECT_EQ(p.plane_tiles.divisor, 2u);
  EXPECT_FALSE(sliced_k_params(problem_of("nchw n2c64h4w10 k30r1s1 p0x0 t1x1 d1x1 g1"), {.tile = 1}).planes);
  for (const char* sizes : {
           "nhwc n2c64h4w10 k64r1s1 p0x0 t1x1 d1x1 g1",  // rows
           "nchw n2c64h7w7 k64r1s1 p0x0 t1x1 d1x1 g1",   // pixels that are no whole vectors
           "nchw n2c60h4w10 k64r1s1 p0x0 t1x1 d1x1 g1",  // a filter's channels that are none
           "nchw n2c64h8w8 k64r1s1 p0x0 t2x2 d1x1 g1",   // every second pixel
           "nchw n2c64h8w8 k64r3s3 p1x1 t1x1 d1x1 g1",   // nine taps
       }) {
    EXPECT_FALSE(sliced_k_params(problem_of(sizes), {}).planes) << sizes;
  }
}

// Gaps between pixels are of no matter if all are as wide; one behind each row or image is.
TEST(SlicedKParams, RowsMayHaveGapsThatAreAllTheSame) {
  Problem problem = problem_of("nhwc n2c64h3w4 k64r1s1 p0x0 t1x1 d1x1 g1");
  const auto set_strides = [&](std::int64_t n, std::int64_t h, std::int64_t w) {
    problem.x.strides[0] = n;
    problem.x.strides[2] = h;
    problem.x.strides[3] = w;
    return sliced_k_params(problem, {}).rows;
  };
  EXPECT_TRUE(set_strides(12 * 72, 4 * 72, 72));
  EXPECT_EQ(sliced_k_params(problem, {}).x_row, 144u);
  EXPECT_FALSE(set_strides(3 * 264, 264, 64));     // behind each row
  EXPECT_FALSE(set_strides(800, 256, 64));         // behind each image
  EXPECT_FALSE(set_strides(0, 256, 64));           // an image that is read twice
  EXPECT_FALSE(set_strides(12 * 32, 4 * 32, 32));  // pixels that overlap
}

}  // namespace
}  // namespace gpudnn::conv
