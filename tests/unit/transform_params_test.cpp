// The parameters of the convolutions through stored transforms: what they refuse, and where their workspace's parts
// lie.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include "ops/conv/fft/fft_simt_params.hpp"
#include "ops/conv/fft/fft_sm90_params.hpp"
#include "ops/conv/winograd/winograd_simt_params.hpp"
#include "ops/conv/winograd/winograd_sm90_params.hpp"

namespace gpudnn::conv {
namespace {

Problem problem_of(const char* line) {
  std::string why;
  return from_text(line, &why).value();
}

TEST(TransformParams, RefusalsSayWhy) {
  const auto winograd = [](const char* line) { return winograd_unsupported_reason(problem_of(line)); };
  EXPECT_EQ(winograd("conv fwd f32 nchw n1c4h8w8 k4r3s3 p1x1 t1x1 d1x1 g1"), nullptr);
  EXPECT_STREQ(winograd("conv fwd f32 nchw n1c4h8w8 k4r3s5 p1x1 t1x1 d1x1 g1"), "the filter is not 3x3");
  EXPECT_STREQ(winograd("conv fwd f32 nchw n1c4h8w8 k4r3s3 p1x1 t1x2 d1x1 g1"), "the stride or the dilation is not 1");
  EXPECT_STREQ(winograd("conv fwd f16 nchw n1c4h8w8 k4r3s3 p1x1 t1x1 d1x1 g1"), "it takes f32 only");
  const auto fourier = [](const char* line, Family family) {
    return fourier_unsupported_reason(problem_of(line), family);
  };
  EXPECT_EQ(fourier("conv fwd f32 nchw n1c4h8w8 k4r5s5 p2x2 t1x1 d1x1 g1", Family::fft), nullptr);
  EXPECT_STREQ(fourier("conv fwd f32 nchw n1c1h250w9 k1r5s5 p4x0 t1x1 d1x1 g1", Family::fft),
               "a padded image of more than 256 pixels along a side");
  EXPECT_STREQ(fourier("conv fwd f32 nchw n1c1h60w60 k1r33s3 p0x0 t1x1 d1x1 g1", Family::fft_tiling),
               "the filter is larger than 32x32");
  EXPECT_STREQ(fourier("conv fwd f32 nchw n1c1h80w80 k1r65s3 p0x0 t1x1 d1x1 g1", Family::fft),
               "a filter of more than 64 taps along a side");
}

// Every config's parts follow one another and hold what the product reads and writes.
template <class Launch>
void expect_parts_in_order(const Launch& l, std::size_t workspace, const char* line) {
  const auto& p = l.product;
  const auto last = [](std::int64_t batches, std::int64_t batch, std::int64_t rows, std::int64_t pitch) {
    return (batches - 1) * batch + rows * pitch;
  };
  const std::int64_t a = last(p.batches, p.a_batch, p.k, p.a_pitch);
  const std::int64_t b = last(p.batches, p.b_batch, p.k, p.b_pitch);
  const std::int64_t c = (p.splits - 1) * p.c_split + last(p.batches, p.c_batch, p.m, p.c_pitch);
  EXPECT_LE(p.m, p.a_pitch) << line;
  EXPECT_LE(p.n, p.b_pitch) << line;
  EXPECT_EQ(p.a_pitch % 4 + p.b_pitch % 4 + p.c_pitch % 4, 0) << line;
  const bool filter_first = l.direction == Direction::wgrad || !l.swapped;
  EXPECT_LE(l.filter_at + (filter_first ? a : b), l.data_at) << line;
  EXPECT_LE(l.data_at + (filter_first ? b : a), l.product_at) << line;
  EXPECT_LE(l.product_at + c, l.workspace_floats) << line;
  EXPECT_LE(static_cast<std::size_t>(l.workspace_floats) * sizeof(float), workspace) << line;
  EXPECT_GE(static_cast<std::int64_t>(p.k_per_split) * p.splits, p.k) << line;
}

TEST(TransformParams, PartsOfTheWorkspaceDoNotOverlap) {
  for (const char* line : {
           "conv fwd f32 nchw n5c7h19w23 k9r3s3 p1x1 t1x1 d1x1 g1",
           "conv fwd f32 nhwc n5c6h19w23 k9r3s3 p1x1 t1x1 d1x1 g3",
           "conv dgrad f32 nchw n5c6h19w23 k9r3s3 p0x4 t1x1 d1x1 g3",
           "conv dgrad f32 nhwc n5c7h19w23 k9r3s3 p1x1 t1x1 d1x1 g1",
           "conv wgrad f32 nchw n5c6h19w23 k9r3s3 p1x1 t1x1 d1x1 g3",
       }) {
    const Problem problem = problem_of(line);
    for (const int parts : {1, 2, 5}) {
      for (int tile = 0; tile < 8; ++tile) {
        Config config;
        config.tile = tile;
        config.split_k = parts;
        const WinogradLaunch winograd = winograd_launch(problem, config);
        expect_parts_in_order(winograd, winograd_workspace(winograd), line);
        const FourierLaunch fourier = fourier_launch(problem, config);
        expect_parts_in_order(fourier, fourier_workspace(fourier), line);
      }
    }
  }
}

// What the products read and write, on tensor cores: batches of rows, whose parts follow one another.
void expect_batches_fit(const WinogradSm90Launch& l, const char* line) {
  const auto rows = static_cast<std::size_t>(l.batches * l.padded_tiles);
  const auto bytes = [&](const kernels::winograd::Transformed& t) {
    return rows * static_cast<std::size_t>(t.tile) * sizeof(float);
  };
  const bool is_wgrad = l.direction == Direction::wgrad;
  EXPECT_GE(l.padded_tiles, l.chunk_tiles) << line;
  EXPECT_LE(l.filter_at +
                (is_wgrad ? bytes(l.grad.transformed) : static_cast<std::size_t>(l.terms.step[1] * l.terms.extent[2])),
            l.data_at)
      << line;
  EXPECT_LE(l.data_at + bytes(l.data.transformed), l.product_at) << line;
  if (is_wgrad) {
    const auto& o = l.filter_output;
    const auto products = static_cast<std::size_t>(l.batches * o.group) * sizeof(float);
    EXPECT_LE(l.product_at + products, l.partials_at > 0 ? l.partials_at : l.workspace) << line;
    EXPECT_EQ(l.padded_tiles, l.k_tiles_of_batch * 32) << line;
  } else {
    EXPECT_LE(l.product_at + bytes(l.output.transformed), l.workspace) << line;
    EXPECT_EQ(l.padded_tiles, l.m_tiles_of_batch * 128) << line;
    EXPECT_EQ(l.product.a[0].images, l.batches * l.padded_tiles) << line;
  }
  EXPECT_NE(l.product.a[0].row_step, 0) << line << ": TMA fetches rows of a matrix";
  EXPECT_EQ(l.product.a[0].row_step % 16, 0) << line;
}

TEST(TransformParams, BatchesOnTensorCoresFitTheWorkspace) {
  for (const char* line : {
           "conv fwd f32 nchw n5c7h19w23 k9r3s3 p1x1 t1x1 d1x1 g1",
           "conv fwd f32 nhwc n5c6h19w23 k9r3s3 p1x1 t1x1 d1x1 g3",
           "conv dgrad f32 nchw n5c6h19w23 k9r3s3 p0x4 t1x1 d1x1 g3",
           "conv wgrad f32 nchw n5c6h19w23 k9r3s3 p1x1 t1x1 d1x1 g3",
           "conv wgrad f32 nhwc n32c64h224w224 k64r3s3 p1x1 t1x1 d1x1 g1",
       }) {
    const Problem problem = problem_of(line);
    const int rows = problem.direction == Direction::wgrad ? 8 : 4;
    for (const int parts : {1, 2, 5}) {
      for (int tile = 0; tile < rows; ++tile) {
        Config config;
        config.tile = tile;
        config.split_k = parts;
        expect_batches_fit(winograd_sm90_launch(problem, config), line);
      }
    }
  }
}

// The same of complex products: rows of 16 real parts and 16 imaginary ones.
void expect_complex_batches_fit(const FourierSm90Launch& l, const Problem& p, const char* line) {
  const auto bytes = [&](const kernels::fft::SpectrumRows& rows) {
    return static_cast<std::size_t>(l.batches * l.padded_tiles * rows.tile) * sizeof(float);
  };
  const std::int64_t inputs = p.x.dims[1] / p.groups;
  const std::int64_t outputs = p.y.dims[1] / p.groups;
  const bool is_wgrad = l.direction == Direction::wgrad;
  EXPECT_EQ(l.batches % (l.size * l.size / 2 + 2), 0) << line;
  EXPECT_EQ(l.data.rows.tile % 32, 0) << line;
  EXPECT_GE(l.data.rows.tile, 2 * (l.direction == Direction::dgrad ? outputs : inputs)) << line;
  EXPECT_LE(l.data_at + bytes(l.data.rows), l.product_at) << line;
  if (is_wgrad) {
    EXPECT_LE(l.filter_at + bytes(l.grad.rows), l.data_at) << line;
    EXPECT_GE(l.result.rows.group, 2 * inputs * outputs) << line;
    const auto products = static_cast<std::size_t>(l.batches * l.result.rows.group) * sizeof(float);
    EXPECT_LE(l.product_at + products, l.workspace) << line;
    EXPECT_EQ(l.padded_tiles, l.k_tiles_of_batch * 32) << line;
  } else {
    EXPECT_LE(l.filter_at + static_cast<std::size_t>(l.terms.step[1] * l.terms.extent[2]), l.data_at) << line;
    EXPECT_GE(l.terms.extent[1], l.batches * (l.direction == Direction::dgrad ? inputs : outputs)) << line;
    EXPECT_LE(l.product_at + bytes(l.result.rows), l.workspace) << line;
    EXPECT_EQ(l.padded_tiles, l.m_tiles_of_batch * 128) << line;
    EXPECT_EQ(l.product.a[0].images, l.batches * l.padded_tiles) << line;
  }
  EXPECT_NE(l.product.a[0].row_step, 0) << line << ": TMA fetches rows of a matrix";
}

TEST(TransformParams, ComplexBatchesOnTensorCoresFitTheWorkspace) {
  for (const char* line : {
           "conv fwd f32 nchw n5c7h19w23 k9r5s5 p1x1 t1x1 d1x1 g1",
           "conv fwd f32 nhwc n5c6h19w23 k9r3s7 p1x1 t1x1 d1x1 g3",
           "conv dgrad f32 nchw n5c54h19w23 k9r3s3 p0x2 t1x1 d1x1 g3",
           "conv wgrad f32 nchw n5c6h19w23 k9r3s3 p1x1 t1x1 d1x1 g3",
           "conv wgrad f32 nhwc n32c64h224w224 k64r7s7 p1x1 t1x1 d1x1 g1",
       }) {
    const Problem problem = problem_of(line);
    const int rows = problem.direction == Direction::wgrad ? 4 : 2;
    for (const int parts : {1, 2, 5}) {
      for (int tile = 0; tile < rows; ++tile) {
        Config config;
        config.tile = tile;
        config.split_k = parts;
        expect_complex_batches_fit(fourier_sm90_launch(problem, config), problem, line);
      }
    }
  }
}

// A filter's terms hold every number of a chunk, and every row, once.
TEST(TransformParams, ComplexTermsHoldEveryNumberOnce) {
  namespace split = kernels::fp32_split;
  unsigned numbers = 0;
  for (int word = 0; word < split::kComplexBlock / 2; ++word) numbers |= 3u << split::complex_number_at(word);
  EXPECT_EQ(numbers, 0xffffu);
  unsigned rows = 0;
  for (int n = 0; n < 16; ++n) rows |= 1u << split::complex_row_of(n);
  EXPECT_EQ(rows, 0xffffu);
}

TEST(TransformParams, TensorCoresRefuseWhatMultiplyAddsDo) {
  const auto reason = [](const char* line) { return winograd_sm90_unsupported_reason(problem_of(line)); };
  for (const char* math : {"fma", "tensor", "default"}) {
    const std::string line = std::string("conv fwd f32 nchw n1c4h8w8 k4r3s3 p1x1 t1x1 d1x1 g1 math=") + math;
    EXPECT_EQ(reason(line.c_str()), nullptr) << math;
  }
  EXPECT_STREQ(reason("conv fwd f32 nchw n1c4h8w8 k4r3s5 p1x1 t1x1 d1x1 g1"), "the filter is not 3x3");
  EXPECT_STREQ(reason("conv fwd f32 nchw n1c50000h8w8 k50000r3s3 p1x1 t1x1 d1x1 g1"),
               "a filter of about 2^31 elements or more");
  const auto fourier = [](const char* line) { return fourier_sm90_unsupported_reason(problem_of(line), Family::fft); };
  EXPECT_EQ(fourier("conv fwd f32 nchw n1c4h8w8 k4r5s5 p2x2 t1x1 d1x1 g1 math=fma"), nullptr);
  EXPECT_STREQ(fourier("conv fwd f32 nchw n1c4h80w80 k4r33s3 p0x0 t1x1 d1x1 g1"),
               "a filter of more than 32 taps along a side");
  EXPECT_STREQ(fourier("conv fwd f16 nchw n1c4h8w8 k4r5s5 p2x2 t1x1 d1x1 g1"), "it takes f32 only");
}

TEST(TransformParams, ChunksNeedLessWorkspace) {
  const Problem problem = problem_of("conv fwd f32 nchw n32c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1");
  Config config;
  const std::size_t whole = winograd_workspace(winograd_launch(problem, config));
  config.split_k = 8;
  EXPECT_LT(winograd_workspace(winograd_launch(problem, config)), whole / 7);
}

TEST(AlgorithmFamilies, EachNumberHasItsFamily) {
  EXPECT_EQ(family_of(Direction::forward, GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM), Family::direct);
  EXPECT_EQ(family_of(Direction::forward, GPUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING), Family::fft_tiling);
  EXPECT_EQ(family_of(Direction::forward, GPUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD), Family::winograd);
  EXPECT_EQ(family_of(Direction::dgrad, GPUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT), Family::fft);
  EXPECT_EQ(family_of(Direction::dgrad, GPUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED), Family::winograd_nonfused);
  EXPECT_EQ(family_of(Direction::wgrad, GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_3), Family::direct);
  EXPECT_EQ(family_of(Direction::wgrad, GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING), Family::fft_tiling);
  EXPECT_EQ(family_of(Direction::wgrad, GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED),
            Family::winograd_nonfused);
}

}  // namespace
}  // namespace gpudnn::conv
