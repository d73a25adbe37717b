// Transforms of tensors and filters, column buffers and folded gradients through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cmath>

#include "support/naive.hpp"
#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

struct TransformDescriptor : Descriptor<gpudnnTensorTransformDescriptor_t, gpudnnCreateTensorTransformDescriptor,
                                        gpudnnDestroyTensorTransformDescriptor> {};

TensorGeometry flat(gpudnnDataType_t type, std::int64_t count) {
  TensorGeometry tensor;
  tensor.type = type;
  tensor.rank = 1;
  tensor.dims[0] = count;
  tensor.strides[0] = 1;
  return tensor;
}

// A packed image in memory order of its format: position of (n, c, h, w) in elements, lanes of vectors included.
struct Image {
  int n, c, h, w;
  gpudnnTensorFormat_t format;
  int lanes = 1;

  [[nodiscard]] std::int64_t count() const { return std::int64_t{n} * c * h * w; }
  [[nodiscard]] std::size_t at(int in, int ic, int ih, int iw) const {
    if (format == GPUDNN_TENSOR_NHWC) return static_cast<std::size_t>(((in * h + ih) * w + iw) * c + ic);
    return static_cast<std::size_t>((((in * (c / lanes) + ic / lanes) * h + ih) * w + iw) * lanes + ic % lanes);
  }
};

gpudnnDataType_t vector_type(const Image& image, gpudnnDataType_t type) {
  return image.lanes == 1           ? type
         : image.lanes == 32        ? GPUDNN_DATA_INT8x32
         : type == GPUDNN_DATA_INT8 ? GPUDNN_DATA_INT8x4
                                    : GPUDNN_DATA_UINT8x4;
}

struct TransformCase {
  Image in;
  int before[4], after[4];
  unsigned fold[2];
  bool unfold;
  gpudnnTensorFormat_t format;
  int lanes;
  gpudnnDataType_t in_type, out_type;
  double alpha, beta;
};

// What stands at (n, c, h, w) of the output, by the definition: 0 outside.
double wanted(const TransformCase& t, const Image& in, const std::vector<double>& x, int n, int c, int h, int w) {
  const int fh = static_cast<int>(t.fold[0]);
  const int fw = static_cast<int>(t.fold[1]);
  int at[4] = {n, c, h, w};
  if (!t.unfold) {  // to the padded tensor
    const int channels = in.c + t.before[1] + t.after[1];
    const int block = c / channels;
    at[1] = c % channels;
    at[2] = h * fh + block / fw;
    at[3] = w * fw + block % fw;
  }
  for (int i = 0; i < 4; ++i) at[i] -= t.before[i];
  Image whole = in;
  if (t.unfold) whole = {in.n, in.c / (fh * fw), in.h * fh, in.w * fw, in.format};
  if (at[0] < 0 || at[0] >= whole.n || at[1] < 0 || at[1] >= whole.c || at[2] < 0 || at[2] >= whole.h || at[3] < 0 ||
      at[3] >= whole.w) {
    return 0;
  }
  if (!t.unfold) return x[in.at(at[0], at[1], at[2], at[3])];
  const int block = at[2] % fh * fw + at[3] % fw;
  return x[in.at(at[0], block * whole.c + at[1], at[2] / fh, at[3] / fw)];
}

std::string check_transform(const TransformCase& t, std::uint64_t seed) {
  const Backend& backend = Backend::at_hand();
  Random random(seed);
  const TransformDescriptor transform;
  GPUDNN_TEST_REQUIRE(gpudnnSetTensorTransformDescriptor(transform, 4, t.format, t.before, t.after, t.fold,
                                                         t.unfold ? GPUDNN_TRANSFORM_UNFOLD : GPUDNN_TRANSFORM_FOLD));
  const TensorDescriptor in_desc(vector_type(t.in, t.in_type), t.in.n, t.in.c, t.in.h, t.in.w, t.in.format);
  // The destination as the library derives it, but in the type that the case wants.
  Image out = {0, 0, 0, 0, t.format, t.lanes};
  const int f = static_cast<int>(t.fold[0] * t.fold[1]);
  const int fold[2] = {static_cast<int>(t.fold[0]), static_cast<int>(t.fold[1])};
  out.n = t.in.n + t.before[0] + t.after[0];
  out.c = t.unfold ? t.in.c / f + t.before[1] + t.after[1] : (t.in.c + t.before[1] + t.after[1]) * f;
  out.h = t.unfold ? t.in.h * fold[0] + t.before[2] + t.after[2] : (t.in.h + t.before[2] + t.after[2]) / fold[0];
  out.w = t.unfold ? t.in.w * fold[1] + t.before[3] + t.after[3] : (t.in.w + t.before[3] + t.after[3]) / fold[1];
  const TensorDescriptor out_desc(vector_type(out, t.out_type), out.n, out.c, out.h, out.w, out.format);
  if (t.in_type == t.out_type && t.in.lanes == t.lanes) {
    const TensorDescriptor derived;
    std::size_t bytes = 0;
    GPUDNN_TEST_REQUIRE(gpudnnInitTransformDest(transform, in_desc, derived, &bytes));
    gpudnnDataType_t type;
    int got[8];
    GPUDNN_TEST_REQUIRE(gpudnnGetTensor4dDescriptor(derived, &type, &got[0], &got[1], &got[2], &got[3], &got[4],
                                                    &got[5], &got[6], &got[7]));
    if (got[0] != out.n || got[1] != out.c || got[2] != out.h || got[3] != out.w) return "derived dims are wrong";
    if (bytes != static_cast<std::size_t>(out.count()) * element_size(t.out_type)) return "derived size is wrong";
  }
  std::vector<double> x(static_cast<std::size_t>(t.in.count()));
  std::vector<double> old(static_cast<std::size_t>(out.count()));
  for (double& value : x) value = static_cast<double>(random.between(0, 9));
  for (double& value : old) value = static_cast<double>(random.between(0, 9));
  const DeviceTensor source(backend, flat(t.in_type, t.in.count()), &x);
  const DeviceTensor target(backend, flat(t.out_type, out.count()), t.beta != 0 ? &old : nullptr);
  Outcome outcome;
  outcome.status = gpudnnTransformTensorEx(backend.handle(), transform, Scalar(t.alpha, t.out_type), in_desc,
                                           source.data(), Scalar(t.beta, t.out_type), out_desc, target.data());
  if (outcome.status != GPUDNN_STATUS_SUCCESS) outcome.text = take_error_text();
  outcome.values = target.values();
  outcome.damage = target.damage_outside_elements() + source.damage_anywhere();
  Expected expected{std::vector<double>(old.size()), std::vector<double>(old.size())};
  for (int n = 0; n < out.n; ++n) {
    for (int c = 0; c < out.c; ++c) {
      for (int h = 0; h < out.h; ++h) {
        for (int w = 0; w < out.w; ++w) {
          const std::size_t place = out.at(n, c, h, w);
          expected.value[place] = t.alpha * wanted(t, t.in, x, n, c, h, w) + (t.beta != 0 ? t.beta * old[place] : 0);
        }
      }
    }
  }
  return judge(flat(t.out_type, out.count()), outcome, expected);
}

// A fold by two along contiguous rows of whole packs, of 8 or of 16 bytes, or its inverse, which changes no element.
void fold_whole_packs(Random& random, TransformCase* t) {
  t->in_type = t->out_type =
      random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_INT32});
  t->format = t->in.format = GPUDNN_TENSOR_NCHW;
  t->lanes = t->in.lanes = 1;
  t->fold[0] = static_cast<unsigned>(random.pick({1, 2, 2, 3}));
  t->fold[1] = 2;
  const int fold = static_cast<int>(t->fold[0]);
  t->in.c = static_cast<int>(random.between(1, 3)) * (t->unfold ? 2 * fold : 1);
  t->in.h = static_cast<int>(random.between(1, 3)) * (t->unfold ? 1 : fold);
  t->in.w = random.pick({4, 8}) * static_cast<int>(random.between(1, 5)) * (t->unfold ? 1 : 2);
  for (int i = 0; i < 4; ++i) t->before[i] = t->after[i] = 0;
  t->alpha = 1;
  t->beta = 0;
}

TransformCase random_transform(Random& random) {
  TransformCase t{};
  const auto type = [&] {
    return random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_DOUBLE, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_INT8,
                        GPUDNN_DATA_UINT8, GPUDNN_DATA_INT32});
  };
  const auto format = [&] { return random.pick({GPUDNN_TENSOR_NCHW, GPUDNN_TENSOR_NHWC}); };
  t.in_type = type();
  t.out_type = random.chance(0.5) ? t.in_type : type();
  t.format = format();
  t.lanes = 1;
  t.fold[0] = static_cast<unsigned>(random.pick({1, 1, 2, 3}));
  t.fold[1] = static_cast<unsigned>(random.pick({1, 1, 2, 4}));
  t.unfold = random.chance(0.4);
  const int f = static_cast<int>(t.fold[0] * t.fold[1]);
  t.in = {static_cast<int>(random.between(1, 3)), 0, 0, 0, format(), 1};
  t.in.c = static_cast<int>(random.between(1, 5)) * (t.unfold ? f : 1);
  const bool from_vectors = random.chance(0.25);
  const bool to_vectors = random.chance(0.25);
  if (from_vectors) {
    t.in_type = random.pick({GPUDNN_DATA_INT8, GPUDNN_DATA_UINT8});
    t.in.format = GPUDNN_TENSOR_NCHW_VECT_C;
    t.in.lanes = t.in_type == GPUDNN_DATA_INT8 ? random.pick({4, 32}) : 4;
    t.in.c = t.in.lanes * (t.unfold ? f : 1) * static_cast<int>(random.between(1, 2));
  }
  for (int i = 0; i < 4; ++i) {
    t.before[i] = random.chance(0.4) ? static_cast<int>(random.between(0, 3)) : 0;
    t.after[i] = random.chance(0.4) ? static_cast<int>(random.between(0, 3)) : 0;
  }
  for (int i = 0; i < 2; ++i) {
    const int fold = static_cast<int>(t.fold[i]);
    int extent = static_cast<int>(random.between(1, 9));
    if (random.chance(0.3)) t.before[2 + i] = -static_cast<int>(random.between(0, extent - 1));
    if (!t.unfold) {  // what the folds divide
      while (extent + t.before[2 + i] + t.after[2 + i] <= 0 ||
             (extent + t.before[2 + i] + t.after[2 + i]) % fold != 0) {
        ++t.after[2 + i];
      }
    }
    (i == 0 ? t.in.h : t.in.w) = extent;
  }
  if (to_vectors) {
    t.out_type = random.pick({GPUDNN_DATA_INT8, GPUDNN_DATA_UINT8});
    t.format = GPUDNN_TENSOR_NCHW_VECT_C;
    t.lanes = t.out_type == GPUDNN_DATA_INT8 ? random.pick({4, 32}) : 4;
    const int channels = t.unfold ? t.in.c / f : t.in.c;
    while ((channels + t.before[1] + t.after[1]) * (t.unfold ? 1 : f) % t.lanes != 0) ++t.after[1];
  }
  t.alpha = random.pick({1.0, 1.0, 2.0});
  t.beta = random.pick({0.0, 0.0, 1.0});
  if (random.chance(0.2)) fold_whole_packs(random, &t);
  return t;
}

TEST(Transform, FoldsByHand) {
  // One channel of 2 x 4, folded by 2 x 2: the four places of each block become channels.
  TransformCase t{};
  t.in = {1, 1, 2, 4, GPUDNN_TENSOR_NCHW};
  t.fold[0] = t.fold[1] = 2;
  const std::vector<double> x = {0, 1, 2, 3, 4, 5, 6, 7};
  EXPECT_EQ(wanted(t, t.in, x, 0, 0, 0, 1), 2);
  EXPECT_EQ(wanted(t, t.in, x, 0, 1, 0, 1), 3);
  EXPECT_EQ(wanted(t, t.in, x, 0, 2, 0, 1), 6);
  const Backend& backend = Backend::at_hand();
  const TransformDescriptor fold;
  const unsigned folds[] = {2, 2};
  GPUDNN_TEST_REQUIRE(
      gpudnnSetTensorTransformDescriptor(fold, 4, GPUDNN_TENSOR_NCHW, nullptr, nullptr, folds, GPUDNN_TRANSFORM_FOLD));
  const TensorDescriptor in_desc(GPUDNN_DATA_FLOAT, 1, 1, 2, 4);
  const TensorDescriptor out_desc(GPUDNN_DATA_FLOAT, 1, 4, 1, 2);
  const DeviceTensor in(backend, flat(GPUDNN_DATA_FLOAT, 8), &x);
  const DeviceTensor out(backend, flat(GPUDNN_DATA_FLOAT, 8), nullptr);
  GPUDNN_TEST_REQUIRE(gpudnnTransformTensorEx(backend.handle(), fold, Scalar(1, GPUDNN_DATA_FLOAT), in_desc, in.data(),
                                              Scalar(0, GPUDNN_DATA_FLOAT), out_desc, out.data()));
  EXPECT_EQ(out.values(), (std::vector<double>{0, 2, 1, 3, 4, 6, 5, 7}));
}

TEST(Transform, RandomTransforms) {
  for (int i = 0; i < session_cases(500); ++i) {
    Random random = case_random(session_seed(), static_cast<std::uint64_t>(i));
    const TransformCase t = random_transform(random);
    ASSERT_EQ(check_transform(t, random.bits()), "")
        << "case " << i << ": in " << t.in.n << ',' << t.in.c << ',' << t.in.h << ',' << t.in.w << " lanes "
        << t.in.lanes << " fold " << t.fold[0] << ',' << t.fold[1] << (t.unfold ? " unfold" : "") << " types "
        << t.in_type << ',' << t.out_type << " lanes out " << t.lanes;
  }
}

// The gradient of the data, once as it is and once by way of the folded convolution.
TEST(Transform, FoldedDataGradientIsTheDataGradient) {
  const Backend& backend = Backend::at_hand();
  const gpudnnHandle_t handle = backend.handle();
  const auto type = GPUDNN_DATA_FLOAT;
  const Scalar one(1, type);
  const Scalar zero(0, type);
  for (const auto format : {GPUDNN_TENSOR_NCHW, GPUDNN_TENSOR_NHWC}) {
    for (const int stride : {1, 2, 3}) {
      for (const int pad : {0, 1, 2}) {
        const int size = 11, taps = 5, outputs = (size + 2 * pad - taps) / stride + 1;
        const ConvolutionDescriptor conv(pad, stride, 1);
        const FilterDescriptor w_desc(type, 3, 2, taps, taps, format);
        const TensorDescriptor dy_desc(type, 2, 3, outputs, outputs, format);
        const TensorDescriptor dx_desc(type, 2, 2, size, size, format);
        const FilterDescriptor folded_w;
        const TensorDescriptor padded_dy, folded_dx;
        const ConvolutionDescriptor folded_conv;
        const TransformDescriptor fold_w, pad_dy, fold_dx, unfold_dx;
        ASSERT_EQ(gpudnnGetFoldedConvBackwardDataDescriptors(handle, w_desc, dy_desc, conv, dx_desc, format, folded_w,
                                                             padded_dy, folded_conv, folded_dx, fold_w, pad_dy, fold_dx,
                                                             unfold_dx),
                  GPUDNN_STATUS_SUCCESS)
            << take_error_text();
        Random random(7);
        std::vector<double> w(3 * 2 * taps * taps), dy(static_cast<std::size_t>(2 * 3 * outputs * outputs));
        for (double& value : w) value = static_cast<double>(random.between(-3, 3));
        for (double& value : dy) value = static_cast<double>(random.between(-3, 3));
        const auto memory = [&](std::size_t bytes) {
          return DeviceTensor(backend, flat(type, static_cast<std::int64_t>(bytes / 4)), nullptr);
        };
        std::size_t w_bytes = 0, dy_bytes = 0, dx_bytes = 0;
        GPUDNN_TEST_REQUIRE(gpudnnGetFilterSizeInBytes(folded_w, &w_bytes));
        GPUDNN_TEST_REQUIRE(gpudnnGetTensorSizeInBytes(padded_dy, &dy_bytes));
        GPUDNN_TEST_REQUIRE(gpudnnGetTensorSizeInBytes(folded_dx, &dx_bytes));
        const DeviceTensor w_at(backend, flat(type, static_cast<std::int64_t>(w.size())), &w);
        const DeviceTensor dy_at(backend, flat(type, static_cast<std::int64_t>(dy.size())), &dy);
        const DeviceTensor direct = memory(4 * 2 * 2 * size * size), by_folding = memory(4 * 2 * 2 * size * size);
        const DeviceTensor w_folded = memory(w_bytes), dy_padded = memory(dy_bytes), dx_folded = memory(dx_bytes);
        GPUDNN_TEST_REQUIRE(gpudnnConvolutionBackwardData(handle, one, w_desc, w_at.data(), dy_desc, dy_at.data(), conv,
                                                          GPUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0, zero, dx_desc,
                                                          direct.data()));
        GPUDNN_TEST_REQUIRE(
            gpudnnTransformFilter(handle, fold_w, one, w_desc, w_at.data(), zero, folded_w, w_folded.data()));
        GPUDNN_TEST_REQUIRE(
            gpudnnTransformTensorEx(handle, pad_dy, one, dy_desc, dy_at.data(), zero, padded_dy, dy_padded.data()));
        GPUDNN_TEST_REQUIRE(gpudnnConvolutionBackwardData(
            handle, one, folded_w, w_folded.data(), padded_dy, dy_padded.data(), folded_conv,
            GPUDNN_CONVOLUTION_BWD_DATA_ALGO_0, nullptr, 0, zero, folded_dx, dx_folded.data()));
        GPUDNN_TEST_REQUIRE(gpudnnTransformTensorEx(handle, unfold_dx, one, folded_dx, dx_folded.data(), zero, dx_desc,
                                                    by_folding.data()));
        EXPECT_EQ(by_folding.values(), direct.values()) << "stride " << stride << " pad " << pad;
      }
    }
  }
}

struct ColumnShape {
  int dims[5];  // n, c, depth, height, width
  int taps[3];
  int pads[3];
  int strides[3];
  int dilations[3];
};
// Words of one output and of several, one block of a row and more, dilated and strided taps, depth.
constexpr ColumnShape kColumnShapes[] = {
    {{2, 3, 1, 6, 7}, {1, 3, 2}, {0, 1, 2}, {1, 1, 2}, {1, 2, 1}},
    {{2, 2, 1, 8, 8}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {{3, 2, 1, 40, 52}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {{3, 2, 1, 79, 45}, {1, 7, 7}, {0, 3, 3}, {1, 2, 2}, {1, 1, 1}},
    {{1, 40, 1, 5, 9}, {1, 1, 5}, {0, 0, 4}, {1, 3, 1}, {1, 1, 2}},
    {{2, 3, 5, 6, 8}, {2, 3, 3}, {1, 0, 1}, {2, 1, 1}, {1, 1, 1}},
    // rows of whole packs, at each place within a piece of four; up to eight taps
    {{2, 2, 1, 12, 32}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {{2, 3, 1, 20, 48}, {1, 7, 7}, {0, 3, 3}, {1, 2, 2}, {1, 1, 1}},
    {{3, 1, 1, 9, 24}, {1, 2, 5}, {0, 0, 2}, {1, 1, 1}, {1, 2, 1}},
    {{3, 2, 1, 7, 36}, {1, 2, 8}, {0, 0, 1}, {1, 2, 2}, {1, 1, 1}},
    {{2, 2, 1, 7, 32}, {1, 1, 1}, {0, 0, 0}, {1, 2, 2}, {1, 1, 1}},
    {{2, 2, 1, 5, 12}, {1, 3, 3}, {0, 1, 1}, {1, 1, 1}, {1, 1, 1}},
    {{2, 2, 4, 5, 16}, {2, 3, 7}, {1, 1, 3}, {2, 1, 1}, {1, 1, 1}},
    {{1, 20, 1, 30, 64}, {1, 3, 2}, {0, 1, 0}, {1, 1, 2}, {1, 1, 1}},
};

std::vector<double> expected_columns(const ColumnShape& shape, bool flip, bool channels_last,
                                     const std::vector<double>& x) {
  const auto& [n, c, d, h, w] = shape.dims;
  const int extents[] = {d, h, w};
  int outputs[3];
  int taps = 1;
  int places = 1;
  for (int i = 0; i < 3; ++i) {
    outputs[i] =
        (extents[i] + 2 * shape.pads[i] - (shape.dilations[i] * (shape.taps[i] - 1) + 1)) / shape.strides[i] + 1;
    taps *= shape.taps[i];
    places *= outputs[i];
  }
  std::vector<double> columns;
  for (int row = 0; row < c * taps; ++row) {
    for (int column = 0; column < n * places; ++column) {
      int at[3];
      bool inside = true;
      for (int i = 2, tap = row, place = column; i >= 0; tap /= shape.taps[i], place /= outputs[i], --i) {
        const int t = flip ? shape.taps[i] - 1 - tap % shape.taps[i] : tap % shape.taps[i];
        at[i] = place % outputs[i] * shape.strides[i] - shape.pads[i] + t * shape.dilations[i];
        inside = inside && at[i] >= 0 && at[i] < extents[i];
      }
      const int image = column / places;
      const int channel = row / taps;
      const int pixel = (at[0] * h + at[1]) * w + at[2];
      const int index =
          channels_last ? (image * d * h * w + pixel) * c + channel : (image * c + channel) * d * h * w + pixel;
      columns.push_back(inside ? x[static_cast<std::size_t>(index)] : 0);
    }
  }
  return columns;
}

TEST(Im2Col, PutsEachTapInARow) {
  const Backend& backend = Backend::at_hand();
  int number = 0;
  for (const ColumnShape& shape : kColumnShapes) {
    SCOPED_TRACE("shape " + std::to_string(number++));
    const bool deep = shape.dims[2] > 1;
    const int first = deep ? 0 : 1;
    const auto& [n, c, d, h, w] = shape.dims;
    const int count = n * c * d * h * w;
    for (const auto type : {GPUDNN_DATA_HALF, GPUDNN_DATA_FLOAT, GPUDNN_DATA_DOUBLE}) {
      for (const bool flip : {false, true}) {
        for (const bool channels_last : {false, true}) {
          const ConvolutionDescriptor conv;
          const auto compute = type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
          GPUDNN_TEST_REQUIRE(gpudnnSetConvolutionNdDescriptor(
              conv, 3 - first, shape.pads + first, shape.strides + first, shape.dilations + first,
              flip ? GPUDNN_CONVOLUTION : GPUDNN_CROSS_CORRELATION, compute));
          std::vector<int> dims = {n, c, h, w};
          std::vector<int> window = {4, c, shape.taps[1], shape.taps[2]};
          if (deep) {
            dims.insert(dims.begin() + 2, d);
            window.insert(window.begin() + 2, shape.taps[0]);
          }
          const auto format = channels_last ? GPUDNN_TENSOR_NHWC : GPUDNN_TENSOR_NCHW;
          const TensorDescriptor x_desc(type, 1, 1, 1, 1);
          GPUDNN_TEST_REQUIRE(
              gpudnnSetTensorNdDescriptorEx(x_desc, format, type, static_cast<int>(dims.size()), dims.data()));
          const FilterDescriptor w_desc(type, 1, 1, 1, 1);
          GPUDNN_TEST_REQUIRE(gpudnnSetFilterNdDescriptor(w_desc, type, GPUDNN_TENSOR_NCHW,
                                                          static_cast<int>(window.size()), window.data()));
          std::vector<double> x(static_cast<std::size_t>(count));
          for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<double>(i % 1000) + 1;
          const std::vector<double> expected = expected_columns(shape, flip, channels_last, x);
          const DeviceTensor x_at(backend, flat(type, count), &x);
          const DeviceTensor columns(backend, flat(type, static_cast<std::int64_t>(expected.size())), nullptr);
          ASSERT_EQ(gpudnnIm2Col(backend.handle(), x_desc, x_at.data(), w_desc, conv, columns.data()),
                    GPUDNN_STATUS_SUCCESS)
              << take_error_text();
          EXPECT_EQ(columns.values(), expected);
          EXPECT_EQ(columns.damage_outside_elements(), "");
        }
      }
    }
  }
}

TEST(ReorderFilterAndBias, KeepsTheOrderOfTheVectors) {
  const Backend& backend = Backend::at_hand();
  const FilterDescriptor desc(GPUDNN_DATA_INT8x32, 32, 64, 3, 3, GPUDNN_TENSOR_NCHW_VECT_C);
  std::vector<double> w(32 * 64 * 9), bias(32);
  for (std::size_t i = 0; i < w.size(); ++i) w[i] = static_cast<double>(i * 7 % 251) - 125;
  for (std::size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<double>(i) / 3 > 5 ? -0.25 : 1.5;
  const DeviceTensor w_at(backend, flat(GPUDNN_DATA_INT8, static_cast<std::int64_t>(w.size())), &w);
  const DeviceTensor bias_at(backend, flat(GPUDNN_DATA_FLOAT, 32), &bias);
  for (const auto type : {GPUDNN_DEFAULT_REORDER, GPUDNN_NO_REORDER}) {
    const DeviceTensor w_to(backend, flat(GPUDNN_DATA_INT8, static_cast<std::int64_t>(w.size())), nullptr);
    const DeviceTensor bias_to(backend, flat(GPUDNN_DATA_FLOAT, 32), nullptr);
    ASSERT_EQ(gpudnnReorderFilterAndBias(backend.handle(), desc, type, w_at.data(), w_to.data(), 1, bias_at.data(),
                                         bias_to.data()),
              GPUDNN_STATUS_SUCCESS)
        << take_error_text();
    EXPECT_EQ(w_to.values(), w);
    EXPECT_EQ(bias_to.values(), bias);
  }
}

TEST(Transform, DescriptorsKeepWhatWasSet) {
  const TransformDescriptor desc;
  const int before[] = {0, 1, -2, 3}, after[] = {4, 5, 6, -7};
  const unsigned fold[] = {2, 3};
  ASSERT_EQ(
      gpudnnSetTensorTransformDescriptor(desc, 4, GPUDNN_TENSOR_NHWC, before, after, fold, GPUDNN_TRANSFORM_UNFOLD),
      GPUDNN_STATUS_SUCCESS);
  gpudnnTensorFormat_t format;
  gpudnnFoldingDirection_t direction;
  int b[4], a[4];
  unsigned f[2];
  ASSERT_EQ(gpudnnGetTensorTransformDescriptor(desc, 4, &format, b, a, f, &direction), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(format, GPUDNN_TENSOR_NHWC);
  EXPECT_EQ(direction, GPUDNN_TRANSFORM_UNFOLD);
  EXPECT_EQ(std::vector<int>(b, b + 4), std::vector<int>(before, before + 4));
  EXPECT_EQ(std::vector<int>(a, a + 4), std::vector<int>(after, after + 4));
  EXPECT_EQ(std::vector<unsigned>(f, f + 2), std::vector<unsigned>(fold, fold + 2));
  EXPECT_EQ(
      gpudnnSetTensorTransformDescriptor(desc, 2, GPUDNN_TENSOR_NCHW, nullptr, nullptr, nullptr, GPUDNN_TRANSFORM_FOLD),
      GPUDNN_STATUS_BAD_PARAM);
  (void)take_error_text();
}

}  // namespace
}  // namespace gpudnn::test
