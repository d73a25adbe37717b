// The problem language: every problem prints and parses back, and what cannot be read is named.
// SPDX-License-Identifier: Apache-2.0
#include "core/problem_text.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "ops/activation/problem.hpp"
#include "ops/bias_grad/problem.hpp"
#include "ops/conv/problem.hpp"
#include "ops/fused_ops/text.hpp"
#include "ops/norm/problem.hpp"
#include "ops/pooling/problem.hpp"
#include "ops/softmax/problem.hpp"
#include "ops/tensor/problem.hpp"
#include "ops/transform/problem.hpp"

namespace gpudnn {
namespace {

template <class Problem>
using FromText = std::optional<Problem> (*)(std::string_view, std::string*);

// The line is in the form that printing gives.
template <class Problem>
void expect_canonical(FromText<Problem> from_text, std::string (*to_text)(const Problem&), const std::string& line) {
  std::string why;
  const auto problem = from_text(line, &why);
  ASSERT_TRUE(problem) << line << ": " << why;
  EXPECT_EQ(to_text(*problem), line);
}

// The line is refused, and the reason holds `part`.
template <class Problem>
void expect_refused(FromText<Problem> from_text, const std::string& line, const std::string& part) {
  std::string why;
  EXPECT_FALSE(from_text(line, &why)) << line;
  EXPECT_NE(why.find(part), std::string::npos) << line << ": " << why;
}

TEST(ProblemText, ConvolutionLines) {
  for (const char* line : {
           "conv fwd f16 nhwc n64c256h56w56 k64r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
           "conv dgrad f32 nchw n2c8h9w7 k4r3s1 p0x1 t2x1 d1x2 g4 acc=f32 math=default flip",
           "conv wgrad f64 nchw n1c1w9 k2s3 p1 t1 d1 g1 acc=f64 math=fma",
           "conv dgrad f16 nhwc n2c8h9w8 k8r3s3 p0x1 t2x2 d1x1 g1 y=5x4 acc=f32 math=default",
           "conv fwd bf16 nhwc n1c4d3h4w5 k2t1r2s3 p0x0x0 t1x1x1 d1x1x1 g2 acc=f32 math=default act=relu bias z",
           "conv fwd f32 nchw n1c4h5w5 k2r3s3 p1x1 t1x1 d1x1 g1 w:nhwc y:strides=99,40,7,1 acc=f32 math=tensor_convert",
           "conv fwd f32 strides=200,1,40,8 n1c4h5w5 k2r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=default bias z z:nhwc",
           "conv fwd f16 nhwc n1c8h5w5 k8r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor act=gelu_tanh scale bias "
           "vectors=f32 z",
       }) {
    expect_canonical(conv::from_text, conv::to_text, line);
  }
}

TEST(ProblemText, NormalizationLines) {
  for (const char* line : {
           "bn train spatial f16 nhwc n64c256h56w56",
           "bn train activation f32 nchw n2c3h4w5 eps=0.001 y:nhwc norunning unsaved",
           "bn infer spatial f32 nchw n2c3h4w5 act=identity add z:nhwc stats:strides=9,2,1,1",
           "bn bwd spatial bf16 nhwc n2c3d4h5w6 act=clipped_relu add coef=6 dy:nchw dx:nchw dz:nchw nan unsaved",
       }) {
    expect_canonical(norm::from_text, norm::to_text, line);
  }
  expect_refused(norm::from_text, "bn train spatial f32 nchw n2c3h4w5 add", "act=identity");
  expect_refused(norm::from_text, "bn train spatial f32 nchw n2c3h4w5 act=gelu", "no activation");
  expect_refused(norm::from_text, "bn infer spatial f32 nchw n2c3h4w5 unsaved", "unsaved");
}

TEST(ProblemText, OtherLines) {
  for (const char* line : {
           "pool fwd max f16 nhwc n64c256h56w56 r3s3 p1x1 t2x2",
           "pool fwd avg_pad f32 nchw n2c3w9 s3 p1 t2 y:strides=50,12,2 nan",
           "pool fwd max f32 nchw n2c3h6w6 r3s3 p0x0 t2x2 out=3x2 y:nhwc",
           "pool bwd avg f32 nhwc n2c3w2 s5 p0 t1 out=4 dy:nchw nan",
           "pool bwd avg f64 nchw n2c3d5h6w7 t3r2s1 p1x0x0 t1x2x3 y:nhwc dx:nhwc dy:nhwc",
           "pool bwd max_det bf16 nhwc n2c3h4w5 r2s2 p0x0 t1x1 dx:nchw dy:strides=900,1,31,5 nan",
       }) {
    expect_canonical(pooling::from_text, pooling::to_text, line);
  }
  for (const char* line : {
           "act fwd relu f16 nhwc n64c256h56w56",
           "act fwd clipped_relu f32 nchw n2c3h4w5 coef=1.5 y:nhwc nan",
           "act bwd elu f64 nchw 3x5 coef=0.1 dx:strides=1,3",
           "act bwd swish bf16 nhwc n2c3d4h5w6 coef=-1e-30 y:nchw dx:nchw dy:nchw",
       }) {
    expect_canonical(activation::from_text, activation::to_text, line);
  }
  for (const char* line : {
           "softmax fwd accurate channel f16 nchw n64c1000h1w1",
           "softmax fwd log instance f32 nhwc n2c3h4w5 y:nchw",
           "softmax bwd fast channel f64 nchw n2c3h4w5 dx:nhwc dy:strides=300,1,15,3",
       }) {
    expect_canonical(softmax::from_text, softmax::to_text, line);
  }
  for (const char* line : {
           "tensor set i32 nchw n2c3h4w5",
           "tensor scale f16 strides=100,1,20,5 n2c3h4w5",
           "tensor add f16 nchw n64c256h56w56 a:n1c256h1w1",
           "tensor add f32 nchw n2c3h4w5 a:n1c3h4w1 a:nhwc",
           "tensor add f32 nhwc 2x3x4x5x6x7 a:1x3x1x5x1x7",
           "tensor transform f32 nchw n8c3h5w7 a:nhwc",
           "tensor transform f32 nchw n8c3h5w7 a:strides=200,1,30,4 atype=f16",
       }) {
    expect_canonical(tensor::from_text, tensor::to_text, line);
  }
  expect_canonical(bias_grad::from_text, bias_grad::to_text, "biasgrad f16 nhwc n64c256h56w56");
  expect_canonical(bias_grad::from_text, bias_grad::to_text, "biasgrad f32 nchw n2c3w5 db:strides=9,3,1");
}

TEST(ProblemText, WhatALineMeans) {
  std::string why;
  const auto pool = pooling::from_text("pool bwd avg f16 nhwc n2c3h7w9 r3s2 p1x0 t2x3 dx:nchw", &why);
  ASSERT_TRUE(pool) << why;
  EXPECT_TRUE(pool->backward);
  EXPECT_EQ(pool->mode, GPUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING);
  EXPECT_EQ(pool->nan, GPUDNN_NOT_PROPAGATE_NAN);
  EXPECT_EQ(dims_text(pool->y), "n2c3h4w3");
  EXPECT_TRUE(is_packed_nhwc(pool->dy));
  EXPECT_TRUE(is_packed_nchw(pool->dx));
  EXPECT_EQ(pool->dx.type, GPUDNN_DATA_HALF);

  const auto add = tensor::from_text("tensor add f32 nchw n2c3h4w5 a:n1c3h1w1", &why);
  ASSERT_TRUE(add) << why;
  EXPECT_EQ(dims_text(add->a), "n1c3h1w1");
  EXPECT_EQ(dims_text(add->c), "n2c3h4w5");

  const auto soft = softmax::from_text("softmax bwd log instance f32 nchw n2c3h4w5", &why);
  ASSERT_TRUE(soft) << why;
  EXPECT_EQ(soft->x.rank, 0);
  EXPECT_EQ(dims_text(soft->y), "n2c3h4w5");

  const auto bias = bias_grad::from_text("biasgrad f32 nhwc n2c3h4w5", &why);
  ASSERT_TRUE(bias) << why;
  EXPECT_EQ(dims_text(bias->db), "n1c3h1w1");
}

TEST(ProblemText, RefusalsNameTheWord) {
  expect_refused(conv::from_text, "", "conv");
  expect_refused(conv::from_text, "conv sideways f16", "sideways");
  expect_refused(conv::from_text, "conv fwd f17 nchw n1c1h1w1 k1r1s1 p0x0 t1x1 d1x1 g1", "f17");
  expect_refused(conv::from_text, "conv fwd f16 nchw n1c1h2w2 k1r3s3 p0x0 t1x1 d1x1 g1", "does not fit");
  expect_refused(conv::from_text, "conv fwd f16 nchw n1c1h2w2 k1r1s1 p0x0 t0x1 d1x1 g1", "start at 1");
  expect_refused(conv::from_text, "conv fwd f16 nchw n1c1h2w2 k1r1s1 p0x0 t1x1 d1x1 g1 colour=red", "colour=red");
  expect_refused(conv::from_text, "conv fwd f16 nchw n1c1h2w2 k1r1s1 p0x0 t1x1 d1x1 g1 act=magic", "magic");

  expect_refused(pooling::from_text, "act fwd relu f32 nchw 3", "pool");
  expect_refused(pooling::from_text, "pool fwd median f16 nchw n1c1h2w2 r1s1 p0x0 t1x1",
                 "'median' is none of max, avg_pad");
  expect_refused(pooling::from_text, "pool fwd max f16 nchw 4x4 r1s1 p0x0 t1x1", "expected an image");
  expect_refused(pooling::from_text, "pool fwd max f16 nchw n1c1h2w2 s1 p0x0 t1x1", "found 's1'");
  expect_refused(pooling::from_text, "pool fwd max f16 nchw n1c1h2w2 r1s1 p0 t1x1", "found 'p0'");
  expect_refused(pooling::from_text, "pool fwd max f16 nchw n1c1h2w2 r1s1 p0x0 t0x1", "start at 1");
  expect_refused(pooling::from_text, "pool fwd max f16 nchw n1c1h2w2 r3s3 p0x0 t1x1", "does not fit");
  expect_refused(pooling::from_text, "pool fwd max f16 nchw n1c1h2w2 r1s1 p0x0 t1x1 out=3", "'out=3'");
  expect_refused(pooling::from_text, "pool fwd max f16 nchw n1c1h2w2 r1s1 p0x0 t1x1 out=1x2x3", "'out=1x2x3'");
  expect_refused(pooling::from_text, "pool fwd max f16 nchw n1c1h2w2 r1s1 p0x0 t1x1 y:nxyz",
                 "'y:nxyz' is no layout of y");
  expect_refused(pooling::from_text, "pool fwd max f16 nchw n1c1h2w2 r1s1 p0x0 t1x1 y:strides=1,2", "4 numbers");
  expect_refused(pooling::from_text, "pool fwd max f16 nchw n1c1h2w2 r1s1 p0x0 t1x1 dx:nhwc", "cannot read 'dx:nhwc'");

  expect_refused(activation::from_text, "act fwd gelu f16 nchw n1c1h2w2", "'gelu' is none of sigmoid");
  expect_refused(activation::from_text, "act fwd relu f16 nchw n1c1h2w2 coef=two", "coef=two");
  expect_refused(activation::from_text, "act fwd relu f16 nchw n1c1h2w2 coef=2x", "coef=2x");
  expect_refused(activation::from_text, "act relu fwd f16 nchw n1c1h2w2", "'relu' is none of fwd, bwd");

  expect_refused(softmax::from_text, "softmax fwd exact channel f16 nchw n1c1h2w2", "'exact' is none of fast");
  expect_refused(softmax::from_text, "softmax fwd fast pixel f16 nchw n1c1h2w2", "'pixel' is none of instance");
  expect_refused(softmax::from_text, "softmax fwd fast channel f16 nchw", "expected a tensor");

  expect_refused(tensor::from_text, "tensor square f32 nchw 3", "'square' is none of set");
  expect_refused(tensor::from_text, "tensor set f32 nchw 3 a:nhwc", "cannot read 'a:nhwc'");
  expect_refused(tensor::from_text, "tensor transform f32 nchw n1c1h2w2 a:n1c1h1w1", "is no layout");
  expect_refused(tensor::from_text, "tensor transform f32 nchw 3 atype=f3", "atype=f3");
  expect_refused(bias_grad::from_text, "biasgrad f32 nchw 3", "expected a tensor");
}

// --- random problems -----------------------------------------------------------------------------------------------

class Generator {
 public:
  explicit Generator(unsigned seed) : random_(seed) {}

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(most - least + 1));
  }
  bool coin() { return random_() % 2 == 0; }

  DataType type() {
    constexpr DataType kTypes[] = {GPUDNN_DATA_FLOAT, GPUDNN_DATA_DOUBLE, GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16};
    return kTypes[between(0, 3)];
  }
  // Packed either way, or any strides at all.
  void lay_out(TensorGeometry* tensor) {
    if (between(0, 2) == 0) {
      for (int i = 0; i < tensor->rank; ++i) tensor->strides[i] = between(0, 1000);
    } else {
      set_packed_strides(tensor, coin() ? GPUDNN_TENSOR_NCHW : GPUDNN_TENSOR_NHWC);
    }
  }
  TensorGeometry tensor(int least_rank, int most_rank) {
    TensorGeometry tensor;
    tensor.type = type();
    tensor.rank = static_cast<std::int32_t>(between(least_rank, most_rank));
    for (int i = 0; i < tensor.rank; ++i) tensor.dims[i] = between(1, 6);
    lay_out(&tensor);
    return tensor;
  }
  TensorGeometry like(TensorGeometry tensor) {
    lay_out(&tensor);
    return tensor;
  }

 private:
  std::mt19937_64 random_;
};

// Equal up to strides of extents of 1, which the text need not keep.
void expect_same(const TensorGeometry& a, const TensorGeometry& b, const std::string& line) {
  EXPECT_EQ(a.type, b.type) << line;
  EXPECT_TRUE((a.rank == 0 && b.rank == 0) || same_layout(a, b)) << line;
}

template <class Problem>
Problem there_and_back(FromText<Problem> from_text, std::string (*to_text)(const Problem&), const Problem& problem) {
  const std::string line = to_text(problem);
  std::string why;
  const auto back = from_text(line, &why);
  EXPECT_TRUE(back) << line << ": " << why;
  if (!back) return problem;
  EXPECT_EQ(to_text(*back), line);
  return *back;
}

TEST(ProblemText, RandomPoolings) {
  Generator random(1);
  for (int round = 0; round < 2000; ++round) {
    pooling::Problem problem;
    problem.backward = random.coin();
    problem.mode = static_cast<gpudnnPoolingMode_t>(random.between(0, 3));
    problem.nan = static_cast<gpudnnNanPropagation_t>(random.between(0, 1));
    problem.x = random.tensor(3, 5);
    problem.spatial = problem.x.rank - 2;
    problem.y = problem.x;
    for (int i = 0; i < problem.spatial; ++i) {
      problem.pad[i] = random.between(0, 2);
      problem.window[i] = random.between(1, problem.x.dims[2 + i] + 2 * problem.pad[i]);
      problem.stride[i] = random.between(1, 3);
      problem.y.dims[2 + i] =
          random.between(0, 4) > 0
              ? pooling::output_extent(problem.x.dims[2 + i], problem.window[i], problem.pad[i], problem.stride[i])
              : random.between(1, 9);
    }
    random.lay_out(&problem.y);
    if (problem.backward) {
      problem.dx = random.like(problem.x);
      problem.dy = random.like(problem.y);
    }
    const auto back = there_and_back(pooling::from_text, pooling::to_text, problem);
    const std::string line = pooling::to_text(problem);
    EXPECT_EQ(back.backward, problem.backward);
    EXPECT_EQ(back.mode, problem.mode);
    EXPECT_EQ(back.nan, problem.nan);
    EXPECT_TRUE(std::equal(back.window, back.window + 3, problem.window)) << line;
    EXPECT_TRUE(std::equal(back.pad, back.pad + 3, problem.pad)) << line;
    EXPECT_TRUE(std::equal(back.stride, back.stride + 3, problem.stride)) << line;
    expect_same(back.x, problem.x, line);
    expect_same(back.y, problem.y, line);
    expect_same(back.dx, problem.dx, line);
    expect_same(back.dy, problem.dy, line);
  }
}

TEST(ProblemText, RandomActivationsAndSoftmaxes) {
  Generator random(2);
  for (int round = 0; round < 2000; ++round) {
    activation::Problem act;
    act.backward = random.coin();
    act.mode = static_cast<gpudnnActivationMode_t>(random.between(0, 6));
    act.nan = static_cast<gpudnnNanPropagation_t>(random.between(0, 1));
    act.coef = random.coin() ? 0 : static_cast<double>(random.between(-1000000, 1000000)) / 7;
    act.x = random.tensor(1, 8);
    act.y = random.like(act.x);
    if (act.backward) {
      act.dx = random.like(act.x);
      act.dy = random.like(act.x);
    }
    const auto act_back = there_and_back(activation::from_text, activation::to_text, act);
    EXPECT_EQ(act_back.backward, act.backward);
    EXPECT_EQ(act_back.mode, act.mode);
    EXPECT_EQ(act_back.nan, act.nan);
    EXPECT_EQ(act_back.coef, act.coef);
    const std::string line = activation::to_text(act);
    expect_same(act_back.x, act.x, line);
    expect_same(act_back.y, act.y, line);
    expect_same(act_back.dx, act.dx, line);
    expect_same(act_back.dy, act.dy, line);

    softmax::Problem soft;
    soft.backward = random.coin();
    soft.algorithm = static_cast<gpudnnSoftmaxAlgorithm_t>(random.between(0, 2));
    soft.mode = static_cast<gpudnnSoftmaxMode_t>(random.between(0, 1));
    soft.y = random.tensor(2, 8);
    (soft.backward ? soft.dx : soft.x) = random.like(soft.y);
    if (soft.backward) soft.dy = random.like(soft.y);
    const auto soft_back = there_and_back(softmax::from_text, softmax::to_text, soft);
    EXPECT_EQ(soft_back.backward, soft.backward);
    EXPECT_EQ(soft_back.algorithm, soft.algorithm);
    EXPECT_EQ(soft_back.mode, soft.mode);
    expect_same(soft_back.x, soft.x, softmax::to_text(soft));
    expect_same(soft_back.y, soft.y, softmax::to_text(soft));
    expect_same(soft_back.dx, soft.dx, softmax::to_text(soft));
    expect_same(soft_back.dy, soft.dy, softmax::to_text(soft));
  }
}

TEST(ProblemText, RandomTensorOperationsAndBiasGradients) {
  Generator random(3);
  for (int round = 0; round < 2000; ++round) {
    tensor::Problem problem;
    problem.operation = static_cast<tensor::Operation>(random.between(0, 3));
    problem.c = random.tensor(1, 8);
    if (problem.operation == tensor::Operation::add) {
      problem.a = problem.c;
      for (int i = 0; i < problem.a.rank; ++i) {
        if (random.coin()) problem.a.dims[i] = 1;
      }
      random.lay_out(&problem.a);
    } else if (problem.operation == tensor::Operation::transform) {
      problem.a = random.like(problem.c);
      problem.a.type = random.type();
    }
    const auto back = there_and_back(tensor::from_text, tensor::to_text, problem);
    EXPECT_EQ(back.operation, problem.operation);
    expect_same(back.a, problem.a, tensor::to_text(problem));
    expect_same(back.c, problem.c, tensor::to_text(problem));

    bias_grad::Problem bias;
    bias.dy = random.tensor(2, 8);
    bias.db = bias.dy;
    for (int i = 0; i < bias.db.rank; ++i) bias.db.dims[i] = i == 1 ? bias.dy.dims[1] : 1;
    random.lay_out(&bias.db);
    const auto bias_back = there_and_back(bias_grad::from_text, bias_grad::to_text, bias);
    expect_same(bias_back.dy, bias.dy, bias_grad::to_text(bias));
    expect_same(bias_back.db, bias.db, bias_grad::to_text(bias));
  }
}

TEST(ProblemText, RandomConvolutions) {
  Generator random(4);
  for (int round = 0; round < 2000; ++round) {
    conv::Problem problem;
    problem.direction = static_cast<conv::Direction>(random.between(0, 2));
    problem.groups = static_cast<std::int32_t>(random.between(1, 3));
    problem.mode = static_cast<gpudnnConvolutionMode_t>(random.between(0, 1));
    problem.math = static_cast<gpudnnMathType_t>(random.between(0, 3));
    problem.x = random.tensor(3, 5);
    problem.compute = problem.x.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
    problem.x.dims[1] *= problem.groups;
    random.lay_out(&problem.x);
    problem.spatial = problem.x.rank - 2;
    problem.w = problem.y = problem.x;
    problem.w.dims[0] = problem.y.dims[1] = problem.groups * random.between(1, 3);
    problem.w.dims[1] = problem.x.dims[1] / problem.groups;
    for (int i = 0; i < problem.spatial; ++i) {
      problem.pad[i] = random.between(0, 3);
      problem.stride[i] = random.between(1, 3);
      problem.dilation[i] = random.between(1, 2);
      const std::int64_t room = problem.x.dims[2 + i] + 2 * problem.pad[i];
      problem.w.dims[2 + i] = random.between(1, (room - 1) / problem.dilation[i] + 1);
      problem.y.dims[2 + i] = conv::output_extent(problem, i);
    }
    random.lay_out(&problem.w);
    random.lay_out(&problem.y);
    if (problem.direction == conv::Direction::forward && random.coin()) {
      problem.activation = static_cast<std::int32_t>(random.between(0, 6));
      problem.has_bias = 1;
      problem.bias_stride = 1;
      problem.has_z = random.coin() ? 1 : 0;
      if (problem.has_z != 0) problem.z = random.like(problem.y);
    }
    const auto back = there_and_back(conv::from_text, conv::to_text, problem);
    const std::string line = conv::to_text(problem);
    expect_same(back.x, problem.x, line);
    expect_same(back.w, problem.w, line);
    expect_same(back.y, problem.y, line);
    expect_same(back.z, problem.z, line);
    EXPECT_EQ(back.groups, problem.groups);
    EXPECT_EQ(back.mode, problem.mode);
    EXPECT_EQ(back.math, problem.math);
    EXPECT_EQ(back.activation, problem.activation);
  }
}

// --- the reader's parts --------------------------------------------------------------------------------------------

TEST(ProblemText, Words) {
  ProblemWords words("  conv\tfwd  acc=f32 flip \r\n");
  EXPECT_EQ(words.next(), "conv");
  EXPECT_EQ(words.take("acc="), "f32");
  EXPECT_FALSE(words.take("acc="));
  EXPECT_TRUE(words.take_word("flip"));
  EXPECT_FALSE(words.take_word("flip"));
  EXPECT_EQ(words.rest(), "fwd");
  EXPECT_EQ(words.next(), "fwd");
  EXPECT_EQ(words.next(), "");
  EXPECT_EQ(words.rest(), "");
}

TEST(ProblemText, NumbersThatAreNone) {
  std::int64_t values[8];
  int count = 0;
  EXPECT_TRUE(parse_extents("3x4", values, &count, 8));
  EXPECT_EQ(count, 2);
  for (const char* text :
       {"", "x", "3x", "x3", "3xx3", "-3", "3x-3", "3 x3", "99999999999999999999", "1x1x1x1x1x1x1x1x1"}) {
    EXPECT_FALSE(parse_extents(text, values, &count, 8)) << text;
  }
  EXPECT_TRUE(parse_lettered("k64r3s5", "krs", values));
  EXPECT_EQ(values[2], 5);
  for (const char* text : {"", "k64", "k64r3s", "r3s5", "k64s5r3", "k64r3s5x", "k-1r3s5"}) {
    EXPECT_FALSE(parse_lettered(text, "krs", values)) << text;
  }
}

TEST(ProblemText, TransformLines) {
  for (const char* line : {
           "transform f32 nchw n2c3h8w8 out=f32 nchw n2c3h10w9 before=0,0,1,1 after=0,0,1,0 fold=1,1,1,1",
           "transform f16 nchw n2c3h8w8 out=bf16 strides=200,16,4,1 n2c12h4w4 before=0,0,0,0 after=0,0,0,0 "
           "fold=1,1,2,2",
           "transform i8 nhwc n1c8h2w2 out=i8 nchw n1c2h3w4 before=0,0,-1,0 after=0,0,0,0 fold=1,1,2,2 unfold",
           "transform f64 nchw n1c2d3h4w5 out=f64 nchw n1c2d3h4w5 before=0,0,0,0,0 after=0,0,0,0,0 fold=1,1,1,1,1",
       }) {
    expect_canonical(transform::from_text, transform::to_text, line);
  }
  const std::string start = "transform f32 nchw n2c3h8w8 out=f32 nchw n2c3h8w8 before=0,0,0,0";
  expect_refused(transform::from_text, start + " after=0,0,0 fold=1,1,1,1", "after=");
  expect_refused(transform::from_text, start + " after=0,0,0,0,0 fold=1,1,1,1", "after=");
  expect_refused(transform::from_text, start + " after=0,0,0,0 fold=1,2,1,1", "fold");
  expect_refused(transform::from_text, start + " after=0,0,0,0 fold=1,1,1,1 more", "more");
  expect_refused(transform::from_text, "transform f32 nchw n2c3h8w8", "out=");
}

TEST(ProblemText, ColumnBufferLines) {
  for (const char* line : {
           "im2col f32 nchw n2c3h8w9 taps=3x2 p1x0 t2x1 d1x3",
           "im2col f16 nhwc n1c3d5h4w6 taps=1x2x3 p0x1x0 t1x1x1 d1x1x2 flip",
           "im2col f64 nchw n1c2w7 taps=3 p1 t1 d1",
       }) {
    expect_canonical(transform::columns_from_text, transform::to_text, line);
  }
  std::string why;
  EXPECT_EQ(transform::columns_from_text("im2col f32 nchw n2c3h8w9 taps=3x2 p1x0 t2x1 d1x3", &why)->outputs[1], 6);
  expect_refused(transform::columns_from_text, "im2col f32 nchw n2c3h8w9 taps=3x2 p1x0 t2x1", "d");
  expect_refused(transform::columns_from_text, "im2col f32 nchw n2c3h2w9 taps=5x2 p1x0 t1x1 d1x1", "does not fit");
  expect_refused(transform::columns_from_text, "im2col f32 nchw n2c3h8w9 taps=3x2 p1x0 t0x1 d1x1", "start at 1");
}

TEST(ProblemText, FusedLines) {
  const std::string conv = "conv fwd f16 nhwc n2c8h9w9 k16r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor";
  for (const std::string& line : {
           "fused scale_bias_activation_conv_bnstats | " + conv,
           "fused scale_bias_activation_conv_bnstats | " + conv +
               " | affine fwd f16 nhwc n2c8h9w9 scale=f16 bias=f32 act=relu",
           "fused conv_scale_bias_add_activation | " + conv +
               " | affine fwd f16 nhwc n2c16h9w9 x:nchw add z:nchw scale=f32 bias=f32 zscale=f16 act=clipped_relu nan",
           std::string(
               "fused scale_bias_add_activation_gen_bitmask | affine fwd f32 nchw n2c16h9w9 bias=f32 act=relu bits"),
           std::string("fused dactivation_fork_dbatchnorm | affine gate f16 nhwc n2c16h9w9 | bn bwd spatial f16 nhwc "
                       "n2c16h9w9"),
           std::string("fused bn_finalize_statistics_training | finalize train c256"),
           std::string("fused bn_finalize_statistics_inference | finalize infer c256 eq=f16"),
       }) {
    expect_canonical(fused_ops::from_text, fused_ops::to_text, line);
  }
  expect_refused(fused_ops::from_text, "fused everything | " + conv, "everything");
  expect_refused(fused_ops::from_text, "fused scale_bias_activation_wgrad | finalize train c256", "missing");
  expect_refused(fused_ops::from_text, "fused bn_finalize_statistics_training | finish train c256", "finish");
  expect_refused(fused_ops::from_text, "fused bn_finalize_statistics_training | finalize train c256 | ", "is none of");
}

}  // namespace
}  // namespace gpudnn
