// The mapping of convolutions to the Hopper implicit GEMM, evaluated on the host: what TMA brings by the tensor maps,
// and what the kernel makes of it, is compared with the definition of convolution.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/conv_emulation.hpp"
#include "support/implicit_gemm_sm90_emulation.hpp"
#include "support/naive.hpp"
#include "support/random.hpp"

namespace gpudnn::conv {
namespace {

namespace sm90 = kernels::sm90;
using emulated::Emulation;
using test::ConvCase;
using test::Random;

// --- invariants ----------------------------------------------------------------------------------------------------

// What the driver and the instruction take, and that the map walks the pixel grid.
void expect_map(const Sm90Plan& plan, const PixelMap& map, const sm90::DenseProblem& dense, bool starts_at_corner) {
  const bool deep = plan.params.three_dimensional;
  EXPECT_LE(map.pixels_per_box, 1024);
  EXPECT_LE(map.box_channels * tile::element_bytes(plan.type), sm90::kRowBytes);
  EXPECT_EQ(map.step[3] % 16, 0);
  for (int a = 0; a < 3; ++a) {
    SCOPED_TRACE("axis " + std::to_string(a));
    EXPECT_EQ((map.extent[a] - 1 + map.upper[a] - map.lower[a]) / map.stride[a] + 1, dense.extent[a].divisor);
    EXPECT_EQ(map.lower[a], starts_at_corner ? dense.corner[a] : 0);
    EXPECT_GE(std::min(map.lower[a], map.upper[a]), deep ? -16 : -128);
    EXPECT_LE(std::max(map.lower[a], map.upper[a]), deep ? 15 : 127);
    EXPECT_TRUE(map.stride[a] >= 1 && map.stride[a] <= 8);
    EXPECT_EQ(map.step[a] % 16, 0);
  }
  // The third axis is not in a map of rank 4.
  EXPECT_TRUE(deep || (map.extent[2] == 1 && map.lower[2] == 0 && map.upper[2] == 0));
}

void expect_taps_in_reach(const sm90::Params& p, const std::int64_t (&taps)[3]) {
  for (int a = 0; a < 3; ++a) {
    const std::int64_t farthest = (taps[a] - 1) * p.tap_offset[a];
    EXPECT_LE(farthest, p.three_dimensional ? 31 : 255);
    EXPECT_TRUE(a < 2 || p.three_dimensional || farthest == 0);
  }
}

// Whether the rows of a dense problem lie step[0] apart, by walking them all.
bool rows_are_even(const sm90::DenseProblem& dense, const std::int64_t (&step)[4]) {
  for (std::uint32_t m = 0; m < dense.pixels; ++m) {
    std::uint32_t rest = m;
    std::int64_t bytes = 0;
    for (int a = 0; a < 3; ++a) {
      bytes += rest % dense.extent[a].divisor * step[a];
      rest /= dense.extent[a].divisor;
    }
    if (bytes + rest * step[3] != m * step[0]) return false;
  }
  return true;
}

// A map of a matrix: whichever window is fetched is one pixel, and they lie the row's step apart.
void expect_matrix(const PixelMap& map, const sm90::DenseProblem& dense, bool expected) {
  ASSERT_EQ(map.row_step != 0, expected);
  if (!expected) return;
  for (int a = 0; a < 3; ++a) {
    EXPECT_EQ(map.extent[a], dense.extent[a].divisor);
    EXPECT_TRUE(map.lower[a] == 0 && map.upper[a] == 0 && map.stride[a] == 1);
  }
  EXPECT_EQ(map.row_step % 16, 0);
  EXPECT_LE(map.pixels_per_box, 256);
  for (std::uint32_t m = 0; m < dense.pixels; ++m) {
    std::uint32_t rest = m;
    std::int64_t bytes = 0;
    for (int a = 0; a < 3; ++a) {
      bytes += rest % dense.extent[a].divisor * map.step[a];
      rest /= dense.extent[a].divisor;
    }
    ASSERT_EQ(bytes + rest * map.step[3], m * map.row_step) << "row " << m;
  }
}

void expect_invariants(const Problem& problem, const Config& config, const Sm90Plan& plan) {
  const sm90::Params& p = plan.params;
  const sm90::TileShape& shape = sm90::kShapes[config.tile];
  const bool by_taps = plan.direction == sm90::Direction::filter_gradient;
  ASSERT_LE(p.phases, static_cast<std::uint32_t>(sm90::kMaxPhases));
  std::int64_t pixels = 0;
  for (std::uint32_t i = 0; i < p.phases; ++i) {
    SCOPED_TRACE("class " + std::to_string(i));
    const sm90::DenseProblem& dense = p.problem[i];
    pixels += dense.pixels;
    EXPECT_EQ(dense.c_base % 16, 0);
    EXPECT_GE(std::uint64_t{dense.k_blocks_per_split} * p.splits, dense.k_blocks);
    if (dense.k_blocks == 0) continue;
    expect_map(plan, plan.a[i], dense, !by_taps);
    if (!by_taps) {
      EXPECT_EQ(plan.a[i].pixels_per_box, shape.rows_of_c());
      EXPECT_EQ(plan.a[i].box_channels * tile::element_bytes(plan.type), shape.k_bytes);
      expect_taps_in_reach(p, {dense.taps[0], dense.taps[1], dense.taps[2]});
    }
  }
  if (by_taps) {
    expect_map(plan, plan.b, p.problem[0], true);
    EXPECT_EQ(p.b_channels_all, problem.x.dims[1]) << "a channel that is out of bounds";
    for (const PixelMap* map : {&plan.a[0], &plan.b}) {
      EXPECT_EQ(map->pixels_per_box, sm90::kRowBytes / tile::element_bytes(plan.type));
      EXPECT_EQ(map->box_channels, sm90::kRowBytes / tile::element_bytes(plan.type));
    }
    std::int64_t taps[3] = {1, 1, 1};
    for (int i = 0; i < problem.spatial; ++i) taps[i] = problem.w.dims[1 + problem.spatial - i];
    expect_taps_in_reach(p, taps);
  } else {
    EXPECT_LE(std::max(plan.filter.box_rows, plan.filter.box_columns), 256);
  }
  expect_matrix(plan.a[0], p.problem[0], p.a_is_matrix);
  expect_matrix(plan.b, p.problem[0], p.b_is_matrix);
  const TensorGeometry& grid = problem.direction == Direction::dgrad ? problem.x : problem.y;
  EXPECT_EQ(pixels, element_count(grid) / grid.dims[1]) << "each pixel is of one class";
  EXPECT_TRUE(!p.stores_boxes || by_taps || p.c_is_even);
  EXPECT_TRUE(!p.stores_boxes || (p.phases == 1 && p.problem[0].c_base == 0));
  EXPECT_TRUE(!p.c_is_even || (p.phases == 1 && rows_are_even(p.problem[0], p.c_step)));
  EXPECT_TRUE(!p.addend_is_even || (p.phases == 1 && rows_are_even(p.problem[0], p.addend_step)));
  EXPECT_EQ(plan.tiles, p.works.divisor);
  const std::size_t sums = (p.fixup_ctas > 0                         ? std::size_t{plan.tiles} * 2
                            : p.splits > 1 && !shape.cluster_split_k ? std::size_t{plan.tiles} * p.splits
                                                                     : 0) *
                           std::size_t(shape.bm * shape.bn) * 4;
  EXPECT_GE(plan.workspace, sums + plan.filter_bytes);
}

// --- problems --------------------------------------------------------------------------------------------------------

// Channels last; the other dimensions one inside the other, perhaps in another order, perhaps with gaps of vectors.
void set_layout(Random& random, std::int64_t vector, TensorGeometry* t) {
  set_packed_strides(t, GPUDNN_TENSOR_NHWC);
  if (random.chance(0.6)) return;
  std::vector<int> order;
  for (int dim = t->rank - 1; dim >= 2; --dim) order.push_back(dim);
  order.push_back(0);
  if (random.chance(0.5)) std::swap(order[0], order[static_cast<std::size_t>(random.between(0, t->rank - 2))]);
  std::int64_t step = t->dims[1] + vector * random.between(0, 2);
  for (const int dim : order) {
    t->strides[dim] = step;
    step = step * t->dims[dim] + vector * random.pick<std::int64_t>({0, 0, 1, 3});
  }
}

void set_epilogue(Random& random, std::int64_t vector, ConvCase* c) {
  Problem& p = c->problem;
  c->beta = 0;
  p.activation = random.pick<std::int32_t>({GPUDNN_ACTIVATION_IDENTITY, GPUDNN_ACTIVATION_RELU,
                                            GPUDNN_ACTIVATION_CLIPPED_RELU, GPUDNN_ACTIVATION_SWISH, kGelu});
  if (p.activation == GPUDNN_ACTIVATION_CLIPPED_RELU) c->coef = 5.5;
  p.has_bias = 1;
  p.bias_stride = random.between(1, 2);
  if (random.chance(0.3)) return;
  p.has_z = 1;
  p.z = p.y;
  c->alpha2 = 0.5;
  set_layout(random, vector, &p.z);
}

void set_windows(Random& random, Problem* p) {
  p->spatial = random.pick<std::int32_t>({1, 2, 2, 2, 3});
  const int largest = p->spatial == 3 ? 5 : p->spatial == 2 ? 11 : 70;
  for (int i = 0; i < p->spatial; ++i) {
    p->x.dims[2 + i] = random.between(1, largest);
    p->w.dims[2 + i] = random.pick<std::int64_t>({1, 1, 2, 3, 3, 5});
    p->stride[i] = random.pick<std::int64_t>({1, 1, 2, 3});
    p->dilation[i] = random.pick<std::int64_t>({1, 1, 2, 3});
    p->pad[i] = random.chance(0.1) ? p->x.dims[2 + i] + 1 : random.between(0, 3);
  }
}

// A problem that the engine takes and that the nested loops can bear.
ConvCase random_case(Random& random) {
  while (true) {
    ConvCase c;
    Problem& p = c.problem;
    p.direction = random.pick({Direction::forward, Direction::dgrad, Direction::wgrad});
    const bool single = random.chance(0.3);
    const std::int64_t vector = single ? 4 : 8;
    p.x.type = single ? GPUDNN_DATA_FLOAT : random.pick({GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16});
    if (single) p.math = GPUDNN_TENSOR_OP_MATH;
    p.w.type = p.y.type = p.x.type;
    p.mode = random.chance(0.3) ? GPUDNN_CONVOLUTION : GPUDNN_CROSS_CORRELATION;
    p.groups = random.pick<std::int32_t>({1, 1, 1, 2, 3});
    set_windows(random, &p);
    const auto share = [&] { return p.groups > 1 && random.chance(0.7) ? 8 * vector : vector * random.between(1, 18); };
    p.x.rank = p.w.rank = p.y.rank = 2 + p.spatial;
    p.x.dims[0] = p.y.dims[0] = random.between(1, 3);
    p.w.dims[1] = share();
    p.x.dims[1] = p.w.dims[1] * p.groups;
    p.w.dims[0] = p.y.dims[1] = share() * p.groups;
    bool fits = true;
    for (int i = 0; i < p.spatial; ++i) {
      p.y.dims[2 + i] = output_extent(p, i);
      fits = fits && p.y.dims[2 + i] > 0;
    }
    if (!fits || test::multiply_adds(p) > 3e6) continue;
    set_packed_strides(&p.w, GPUDNN_TENSOR_NHWC);
    set_layout(random, vector, &p.x);
    set_layout(random, vector, &p.y);
    c.alpha = random.pick({1.0, 1.0, 0.5, -2.0});
    c.beta = random.pick({0.0, 0.0, 1.0, 0.25});
    if (p.direction == Direction::forward && random.chance(0.5)) set_epilogue(random, vector, &c);
    c.seed = random.bits() >> 16;
    if (sm90_unsupported_reason(p) == nullptr) return c;
  }
}

Problem parse(const std::string& line) {
  std::string why;
  const auto problem = from_text(line, &why);
  EXPECT_TRUE(problem) << line << ": " << why;
  return problem.value_or(Problem{});
}

Sm90Plan check(const ConvCase& c, const test::Values& values, const Config& config, std::uint32_t turn = 3) {
  SCOPED_TRACE(test::describe(c) + " tile " + std::to_string(config.tile) + " split " + std::to_string(config.split_k));
  Sm90Plan plan = sm90_plan(c.problem, config);
  sm90_take_turns(turn, &plan.params);
  expect_invariants(c.problem, config, plan);
  if (testing::Test::HasFailure()) return plan;
  Emulation emulation(c, values, plan);
  emulation.run();
  if (!testing::Test::HasFatalFailure()) emulation.expect_convolution();
  return plan;
}

// Every shape that fits, without splits and with some.
void check_all_shapes(const std::string& line) {
  ConvCase c;
  c.problem = parse(line);
  ASSERT_STREQ(sm90_unsupported_reason(c.problem), nullptr) << line;
  const test::Values values = test::make_values(c);
  for (int tile = 0; tile < sm90::kShapeCount; ++tile) {
    if (!sm90_shape_fits(c.problem, sm90::kShapes[tile])) continue;
    for (const int split : {1, 3}) {
      check(c, values, {tile, split});
      if (testing::Test::HasFailure()) return;
    }
  }
}

// --- tests -----------------------------------------------------------------------------------------------------------

TEST(ImplicitGemmSm90Params, TilesThatAreHelpedEvaluateToTheConvolution) {
  int stream_k = 0;
  int shared = 0;
  for (const char* line : {"conv wgrad f16 nhwc n9c8h24w24 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
                           "conv wgrad bf16 nhwc n11c40h16w17 k40r1s1 p0x0 t1x1 d1x1 g5 acc=f32 math=tensor",
                           "conv wgrad f16 nhwc n12c16h30w31 k16r3s3 p1x1 t2x2 d1x1 g2 acc=f32 math=tensor"}) {
    ConvCase c;
    c.problem = parse(line);
    const test::Values values = test::make_values(c);
    for (int tile = 0; tile < sm90::kShapeCount; ++tile) {
      if (!sm90::kShapes[tile].stream_k) continue;
      for (const int fixup_ctas : {1, 2, 3, 5, 100}) {
        const Sm90Plan plan = check(c, values, {tile, fixup_ctas});
        if (testing::Test::HasFailure()) return;
        stream_k += plan.params.fixup_ctas > 0 ? 1 : 0;
        shared += plan.params.fixup_ctas > 0 && plan.params.fixup_quantum % plan.params.fixup.divisor != 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(stream_k, 10);
  EXPECT_GT(shared, 2);
}

TEST(ImplicitGemmSm90Params, EvaluatesToTheConvolution) {
  int boxes = 0;
  int rows = 0;
  int phases = 0;
  int empty = 0;
  int splits = 0;
  int groups = 0;
  int transposes = 0;
  for (std::uint64_t i = 0; i < 160; ++i) {
    Random random = test::case_random(20260807, i);
    const ConvCase c = random_case(random);
    const test::Values values = test::make_values(c);
    for (int run = 0; run < 2;) {
      const Config config = {static_cast<std::int32_t>(random.between(0, sm90::kShapeCount - 1)),
                             random.pick<std::int32_t>({1, 1, 2, 5})};
      if (!sm90_shape_fits(c.problem, sm90::kShapes[config.tile])) continue;
      ++run;
      const Sm90Plan plan = check(c, values, config);
      if (testing::Test::HasFailure()) return;
      const sm90::Params& p = plan.params;
      ++(p.stores_boxes ? boxes : rows);
      phases += p.phases > 1 ? 1 : 0;
      empty += std::any_of(p.problem, p.problem + p.phases, [](const auto& dense) { return dense.k_blocks == 0; });
      splits += p.splits > 1 ? 1 : 0;
      groups += c.problem.groups > 1 ? 1 : 0;
      transposes += plan.transposes_filter ? 1 : 0;
    }
  }
  // The problems reached what they are for.
  EXPECT_GT(boxes, 60);
  EXPECT_GT(rows, 60);
  EXPECT_GT(phases, 30);
  EXPECT_GT(empty, 10);
  EXPECT_GT(splits, 80);
  EXPECT_GT(groups, 60);
  EXPECT_GT(transposes, 10);
}

TEST(ImplicitGemmSm90Params, StridedGradientsWithEmptyPhases) {
  const Problem pointwise = parse("conv dgrad f16 nhwc n2c24h9w7 k72r1s1 p0x0 t2x2 d1x1 g1");
  const Sm90Plan plan = sm90_plan(pointwise, {});
  ASSERT_EQ(plan.params.phases, 4u);
  int without_taps = 0;
  for (int i = 0; i < 4; ++i) without_taps += plan.params.problem[i].k_blocks == 0 ? 1 : 0;
  EXPECT_EQ(without_taps, 3);
  check_all_shapes("conv dgrad f16 nhwc n2c24h9w7 k72r1s1 p0x0 t2x2 d1x1 g1");
  check_all_shapes("conv dgrad f16 nhwc n2c16h9w10 k40r3s3 p1x1 t3x3 d1x1 g1 flip");
  check_all_shapes("conv dgrad f16 nhwc n1c16h11w10 k40r3s2 p2x1 t2x2 d2x2 g1");
  check_all_shapes("conv dgrad f16 nhwc n2c8h1w8 k8r3s3 p1x1 t2x1 d1x1 g1");
}

// Images of even extents have phases of equally many tiles.
TEST(ImplicitGemmSm90Params, PhasesTakeTurns) {
  for (const char* line : {"conv dgrad f16 nhwc n7c16h16w14 k24r3s3 p1x1 t2x2 d1x1 g1",
                           "conv dgrad f32 nhwc n5c132h12w18 k36r4s3 p1x1 t2x3 d1x1 g1 math=tensor"}) {
    ConvCase c;
    c.problem = parse(line);
    const test::Values values = test::make_values(c);
    for (const std::uint32_t turn : {1u, 2u, 3u, 1000u}) {
      for (const int tile : {1, 2, 5}) EXPECT_EQ(check(c, values, {tile, 1}, turn).params.turn, turn) << line;
    }
  }
  Sm90Plan plan = sm90_plan(parse("conv dgrad f16 nhwc n64c16h15w16 k24r3s3 p1x1 t2x2 d1x1 g1"), {1, 1});
  sm90_take_turns(4, &plan.params);
  EXPECT_EQ(plan.params.turn, 0u) << "phases of more and of fewer tiles";
}

TEST(ImplicitGemmSm90Params, PaddingLargerThanTheImage) {
  for (const char* direction : {"fwd", "dgrad", "wgrad"}) {
    check_all_shapes(std::string("conv ") + direction + " f16 nhwc n2c16h2w3 k24r3s3 p5x4 t1x1 d1x1 g1");
    check_all_shapes(std::string("conv ") + direction + " f16 nhwc n2c16h3w2 k24r3s2 p5x6 t2x3 d1x1 g1");
  }
}

TEST(ImplicitGemmSm90Params, Tf32) {
  for (const char* direction : {"fwd", "dgrad", "wgrad"}) {
    check_all_shapes(std::string("conv ") + direction + " f32 nhwc n2c36h7w6 k44r3s3 p1x1 t1x1 d1x1 g1 math=tensor");
    check_all_shapes(std::string("conv ") + direction + " f32 nhwc n2c64h7w6 k64r3s2 p1x1 t2x2 d1x1 g2 math=tensor");
  }
}

// A group's last tile sticks out into the rows and columns of the next group.
TEST(ImplicitGemmSm90Params, Groups) {
  check_all_shapes("conv fwd f16 nhwc n1c192h5w5 k72r3s3 p1x1 t1x1 d1x1 g3");
  check_all_shapes("conv dgrad f16 nhwc n1c48h5w5 k192r3s3 p1x1 t1x1 d1x1 g3");
  check_all_shapes("conv wgrad f16 nhwc n2c48h5w5 k72r3s3 p1x1 t1x1 d1x1 g3");
  check_all_shapes("conv wgrad f16 nhwc n2c128h5w5 k128r3s3 p1x1 t1x1 d1x1 g2");
  // The second tile of a cluster lies in the next group altogether.
  check_all_shapes("conv wgrad f16 nhwc n1c128h3w3 k256r1s1 p0x0 t1x1 d1x1 g2");
  check_all_shapes("conv wgrad f32 nhwc n2c120h5w5 k132r3s2 p1x1 t1x1 d1x1 g3 math=tensor");
  check_all_shapes("conv wgrad f32 nhwc n2c64h5w5 k256r3s3 p1x1 t1x1 d1x1 g2 math=tensor");
}

TEST(ImplicitGemmSm90Params, ThreeAndOneDimensions) {
  for (const char* direction : {"fwd", "dgrad", "wgrad"}) {
    check_all_shapes(std::string("conv ") + direction +
                     " bf16 nhwc n2c16d3h4w5 k24t2r3s3 p1x0x2 t2x1x2 d1x1x2 g1 flip");
    check_all_shapes(std::string("conv ") + direction + " f16 nhwc n2c72w67 k80s5 p3 t2 d3 g1");
    check_all_shapes(std::string("conv ") + direction +
                     " f32 nhwc n2c36d3h4w5 k24t2r3s3 p1x0x2 t2x1x2 d1x1x2 g1 flip math=tensor");
    check_all_shapes(std::string("conv ") + direction + " f32 nhwc n2c36w67 k44s5 p3 t2 d3 g1 math=tensor");
  }
}

TEST(ImplicitGemmSm90Params, OneImageOfEvenRowsGoesOutInBoxes) {
  const Sm90Plan packed = sm90_plan(parse("conv fwd f16 nhwc n2c64h7w7 k64r3s3 p1x1 t1x1 d1x1 g1"), {});
  EXPECT_TRUE(packed.params.stores_boxes);
  Problem gaps = parse("conv fwd f16 nhwc n2c64h7w7 k64r3s3 p1x1 t1x1 d1x1 g1");
  gaps.y.strides[0] += 64;
  EXPECT_FALSE(sm90_plan(gaps, {}).params.stores_boxes) << "the second image lies further";
  gaps.x.dims[0] = gaps.y.dims[0] = 1;
  EXPECT_TRUE(sm90_plan(gaps, {}).params.stores_boxes) << "there is no second image";
}

TEST(ImplicitGemmSm90Params, PointwiseOperandsAreMatrices) {
  const auto plan = [](const char* line) { return sm90_plan(parse(line), {1, 1}); };
  EXPECT_TRUE(plan("conv fwd f16 nhwc n2c64h7w7 k64r1s1 p0x0 t1x1 d1x1 g1").params.a_is_matrix);
  EXPECT_TRUE(plan("conv fwd f16 nhwc n2c64h7w7 k64r1s1 p0x0 t1x1 d1x1 g2").params.a_is_matrix);
  EXPECT_TRUE(plan("conv dgrad f16 nhwc n2c64h7w7 k64r1s1 p0x0 t1x1 d1x1 g1").params.a_is_matrix);
  EXPECT_FALSE(plan("conv fwd f16 nhwc n2c64h7w7 k64r1s1 p0x0 t2x2 d1x1 g1").params.a_is_matrix);
  EXPECT_FALSE(plan("conv fwd f16 nhwc n2c64h7w7 k64r1s1 p1x1 t1x1 d1x1 g1").params.a_is_matrix);
  EXPECT_FALSE(plan("conv fwd f16 nhwc n2c64h7w7 k64r3s3 p1x1 t1x1 d1x1 g1").params.a_is_matrix);
  EXPECT_FALSE(plan("conv dgrad f16 nhwc n2c64h7w7 k64r1s1 p0x0 t2x2 d1x1 g1").params.a_is_matrix);
  const Sm90Plan pointwise = plan("conv wgrad f16 nhwc n2c64h7w7 k64r1s1 p0x0 t1x1 d1x1 g1");
  EXPECT_TRUE(pointwise.params.a_is_matrix && pointwise.params.b_is_matrix);
  const Sm90Plan window = plan("conv wgrad f16 nhwc n2c64h7w7 k64r3s3 p1x1 t2x2 d1x1 g1");
  EXPECT_FALSE(window.params.a_is_matrix || window.params.b_is_matrix);
  Problem gaps = parse("conv fwd f16 nhwc n2c64h7w7 k64r1s1 p0x0 t1x1 d1x1 g1");
  gaps.x.strides[0] += 64;
  EXPECT_FALSE(sm90_plan(gaps, {}).params.a_is_matrix) << "the second image lies further";
}

// K tiles end where a group does.
TEST(ImplicitGemmSm90Params, SomeShapeFitsWhateverTheEngineTakes) {
  for (int vectors = 1; vectors <= 80; ++vectors) {
    for (const int groups : {1, 2}) {
      const std::string channels = std::to_string(8 * vectors * groups);
      const Problem p =
          parse("conv fwd f16 nhwc n1c" + channels + "h5w5 k16r1s1 p0x0 t1x1 d1x1 g" + std::to_string(groups));
      if (sm90_unsupported_reason(p) != nullptr) continue;
      int fitting = 0;
      for (const sm90::TileShape& shape : sm90::kShapes) {
        if (!sm90_shape_fits(p, shape)) continue;
        EXPECT_FALSE(shape.transposes);
        ++fitting;
        EXPECT_TRUE(groups == 1 || 16 * vectors % shape.k_bytes == 0) << channels;
      }
      EXPECT_GT(fitting, 0) << channels << " channels in " << groups << " groups";
    }
  }
}

TEST(ImplicitGemmSm90Params, Obstacles) {
  const std::pair<const char*, const char*> rows[] = {
      {"conv fwd f32 nhwc n1c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1", "the math type does not allow TF32 (math=tensor does)"},
      {"conv fwd f16 nhwc n1c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 math=fma", "math=fma forbids the matrix units"},
      {"conv fwd f16 nchw n1c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1", "a tensor is not contiguous along channels"},
      {"conv fwd f16 nhwc n1c12h5w5 k8r1s1 p0x0 t1x1 d1x1 g1", "pixels do not begin at multiples of 16 bytes"},
      {"conv fwd f16 nhwc n1c8h5w5 k8r3s3 p0x0 t1x1 d1x1 g1 w:nchw",
       "the filter is not packed in the order k, taps, channels"},
      {"conv wgrad f16 nhwc n1c24h5w5 k16r1s1 p0x0 t1x1 d1x1 g2",
       "channels or filters of a group do not fill whole 16-byte vectors"},
      {"conv fwd f16 nhwc n1c32h5w5 k128r3s3 p1x1 t1x1 d1x1 g2",
       "a group's share of the reduction does not fill whole rows of 64 bytes"},
      {"conv fwd f16 nhwc n1c8h65536w65536 k8r1s1 p0x0 t1x1 d1x1 g1", "about 2^31 pixels or more"},
      {"conv fwd f16 nhwc n1c8h5w500 k8r1s257 p0x0 t1x1 d1x1 g1", "the dilated filter is larger than TMA's offsets"},
      {"conv fwd f16 nhwc n1c8h5w5 k8r1s1 p0x129 t1x1 d1x1 g1",
       "padding or the dilated filter reaches further than TMA's windows"},
      {"conv wgrad f16 nhwc n1c8d5h5w5 k8t1r1s1 p0x0x17 t1x1x1 d1x1x1 g1",
       "padding or the dilated filter reaches further than TMA's windows"},
      {"conv fwd f16 nhwc n1c8h5w50 k8r1s1 p0x0 t1x9 d1x1 g1", "strides over 8"},
      {"conv dgrad f16 nhwc n1c8h15w15 k8r3s3 p0x0 t4x3 d1x1 g1",
       "too many stride phases (strides multiply to over 9)"},
  };
  for (const auto& [line, text] : rows) EXPECT_STREQ(sm90_unsupported_reason(parse(line)), text) << line;
  // Of the groups' channels only those of the reduction have to fill rows.
  EXPECT_STREQ(sm90_unsupported_reason(parse("conv dgrad f16 nhwc n1c32h5w5 k128r3s3 p1x1 t1x1 d1x1 g2")), nullptr);
  // The limits themselves.
  for (const char* line : {"conv fwd f16 nhwc n1c8h5w5 k8r1s1 p0x127 t1x1 d1x1 g1",
                           "conv fwd f16 nhwc n1c8d5h5w5 k8t1r1s1 p0x0x15 t1x1x1 d1x1x1 g1",
                           "conv fwd f16 nhwc n1c8h5w50 k8r1s1 p0x0 t1x8 d1x1 g1",
                           "conv dgrad f16 nhwc n1c8h15w15 k8r3s3 p0x0 t3x3 d1x1 g1"}) {
    EXPECT_STREQ(sm90_unsupported_reason(parse(line)), nullptr) << line;
  }
}

}  // namespace
}  // namespace gpudnn::conv
