// Random legal problems of every operation, small enough for the nested loops of the oracle.
// SPDX-License-Identifier: Apache-2.0
#include "support/random_problems.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ops/conv/padding.hpp"

namespace gpudnn::test {
namespace {

constexpr double kMaxMultiplyAdds = 150e3;

gpudnnDataType_t random_type(Random& random) {
  return random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_FLOAT, GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_HALF,
                      GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_DOUBLE});
}

void packed(TensorGeometry* tensor, bool channels_last) {
  std::int64_t stride = 1;
  const auto place = [&](int i) {
    tensor->strides[i] = stride;
    stride *= std::max<std::int64_t>(tensor->dims[i], 1);
  };
  const bool last = channels_last && tensor->rank >= 3;
  if (last) place(1);
  for (int i = tensor->rank - 1; i >= 0; --i) {
    if (!(last && i == 1)) place(i);
  }
}

void permuted_with_gaps(Random& random, TensorGeometry* tensor) {
  int order[kMaxRank];
  for (int i = 0; i < tensor->rank; ++i) order[i] = i;
  for (int i = tensor->rank - 1; i > 0; --i) std::swap(order[i], order[random.between(0, i)]);
  std::int64_t stride = random.pick({1, 1, 1, 2, 3});
  for (int i = 0; i < tensor->rank; ++i) {
    tensor->strides[order[i]] = stride;
    stride = stride * tensor->dims[order[i]] + (random.chance(0.4) ? random.between(1, 5) : 0);
  }
}

template <class Problem>
void random_scalars(Random& random, Case<Problem>* c) {
  const auto scalars = random.pick<std::pair<double, double>>({{1, 0}, {1, 0}, {0.5, 0}, {1, 1}, {-2, 0.25}});
  c->alpha = scalars.first;
  c->beta = scalars.second;
  c->integers = random.chance(0.7);
  c->seed = random.bits() >> 16;
}

TensorGeometry tensor_of(gpudnnDataType_t type, std::initializer_list<std::int64_t> dims) {
  TensorGeometry tensor;
  tensor.type = type;
  for (const std::int64_t extent : dims) tensor.dims[tensor.rank++] = extent;
  return tensor;
}

// An image of one to three spatial dimensions and about `most` elements at most.
TensorGeometry random_image(Random& random, gpudnnDataType_t type, std::int64_t most) {
  while (true) {
    TensorGeometry tensor = tensor_of(type, {random.between(1, 4), random.pick<std::int64_t>({1, 2, 3, 5, 8, 16, 33})});
    const int spatial = static_cast<int>(random.pick({1, 2, 2, 2, 3}));
    std::int64_t count = tensor.dims[0] * tensor.dims[1];
    for (int i = 0; i < spatial; ++i) {
      tensor.dims[tensor.rank++] = random.chance(0.1) ? random.between(1, 70) : random.between(1, 17);
      count *= tensor.dims[tensor.rank - 1];
    }
    if (count <= most) return tensor;
  }
}

void random_conv_geometry(Random& random, conv::Problem* p) {
  p->spatial = static_cast<std::int32_t>(random.pick({1, 2, 2, 2, 2, 3}));
  const bool pointwise = random.chance(0.2);
  const int largest = p->spatial == 3 ? 6 : p->spatial == 2 ? 13 : 40;
  for (int i = 0; i < p->spatial; ++i) {
    p->x.dims[2 + i] = random.between(1, largest);
    p->w.dims[2 + i] = random.pick<std::int64_t>({1, 1, 2, 3, 3, 3, 4, 5});
    p->stride[i] = random.pick<std::int64_t>({1, 1, 1, 2, 3});
    p->dilation[i] = random.pick<std::int64_t>({1, 1, 1, 2, 3});
    if (pointwise) p->w.dims[2 + i] = p->stride[i] = 1;
    // Sometimes more padding than image.
    p->pad[i] = random.chance(0.05) ? p->x.dims[2 + i] + random.between(1, 3) : random.between(0, p->w.dims[2 + i] - 1);
  }
}

bool is_pointwise(const conv::Problem& p) {
  for (int i = 0; i < p.spatial; ++i) {
    if (p.w.dims[2 + i] != 1) return false;
  }
  return true;
}

// What kernels that keep a patch of the image ask for: types of the matrix units, steps of 1, larger filters than one
// tap.
void windows_of_step_one(Random& random, conv::Problem* p) {
  p->x.type = random.pick({GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_FLOAT});
  const bool filter = random.chance(0.35);
  p->direction = filter ? conv::Direction::wgrad : random.pick({conv::Direction::forward, conv::Direction::dgrad});
  for (int i = 0; i < p->spatial; ++i) {
    p->stride[i] = 1;
    p->dilation[i] = filter && random.chance(0.3) ? random.between(2, 3) : 1;
    p->w.dims[2 + i] = random.between(2, 3);
    p->pad[i] = random.between(0, p->w.dims[2 + i] - 1);
  }
}

// What minimal filtering and Fourier transforms ask for: floats, two dimensions, steps of 1.
void transformable_windows(Random& random, conv::Problem* p) {
  p->spatial = 2;
  p->x.type = GPUDNN_DATA_FLOAT;
  const bool is_small = random.chance(0.6);
  for (int i = 0; i < 2; ++i) {
    p->w.dims[2 + i] = is_small ? 3 : random.between(1, 11);
    p->x.dims[2 + i] = random.between(1, is_small ? 19 : 40);
    p->stride[i] = p->dilation[i] = 1;
    p->pad[i] = random.between(0, p->w.dims[2 + i] + 1);
  }
}

// The first layer of a network, as kernels that fetch rows of pixels ask for it: rows of whole vectors, dilation 1.
void first_layer(Random& random, conv::Problem* p) {
  p->spatial = random.chance(0.15) ? 1 : 2;
  p->x.type = random.pick({GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_FLOAT});
  for (int i = 0; i < p->spatial; ++i) {
    p->x.dims[2 + i] = random.between(1, 13);
    p->w.dims[2 + i] = random.pick<std::int64_t>({1, 2, 3, 3, 3, 3, 5, 7});
    p->stride[i] = random.pick<std::int64_t>({1, 1, 2, 2, 3});
    p->dilation[i] = 1;
    p->pad[i] = random.between(0, p->w.dims[2 + i] - 1);
  }
  p->x.dims[1 + p->spatial] = 8 * random.between(1, p->spatial == 1 ? 12 : 3);
}

// Pointwise convolutions on planes of whole vectors: what kernels that fetch planes by TMA ask for.
void planes_of_vectors(Random& random, conv::Problem* p) {
  p->x.type = random.pick({GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_FLOAT});
  for (int i = 0; i < p->spatial; ++i) {
    p->x.dims[2 + i] = random.between(1, p->spatial == 3 ? 4 : 9);
    p->w.dims[2 + i] = p->stride[i] = p->dilation[i] = 1;
    p->pad[i] = 0;
  }
  p->x.dims[1 + p->spatial] = 4 * random.between(1, p->spatial == 1 ? 40 : 5);
}

// Groups of up to 16 channels that fill blocks of 8, square filters: what kernels for depthwise and small groups ask
// for.
void small_groups(Random& random, conv::Problem* p, std::int64_t* channels) {
  p->spatial = 2;
  p->x.type = random.pick({GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_HALF, GPUDNN_DATA_FLOAT});
  const auto taps = random.pick<std::int64_t>({3, 3, 3, 5, 7});
  const auto stride = random.pick<std::int64_t>({1, 1, 1, 2});
  for (int i = 0; i < 2; ++i) {
    p->x.dims[2 + i] = random.between(1, taps == 3 ? 19 : 13);
    p->w.dims[2 + i] = taps;
    p->stride[i] = stride;
    p->dilation[i] = 1;
    p->pad[i] = random.between(0, taps - 1);
  }
  *channels = random.pick<std::int64_t>({1, 1, 1, 1, 2, 4, 8, 16});
  p->groups = static_cast<std::int32_t>(std::max<std::int64_t>(1, 8 / *channels) * random.between(1, 3));
}

// Whole vectors of channels: what kernels for tensor cores ask for, channels last or pointwise.
void vector_friendly_channels(Random& random, std::int64_t* channels, std::int64_t* filters) {
  *channels = 8 * random.between(1, 8);
  *filters = 8 * random.between(1, 8);
}

void random_channels(Random& random, std::int64_t* channels, std::int64_t* filters) {
  const auto one = [&] {
    return random.chance(0.3) ? random.pick<std::int64_t>({32, 40, 64, 65}) : random.between(1, 20);
  };
  *channels = one();
  *filters = one();
}

bool derive_output(conv::Problem* p) {
  p->y.type = p->w.type = p->x.type;
  p->y.rank = p->w.rank = p->x.rank = 2 + p->spatial;
  p->y.dims[0] = p->x.dims[0];
  p->y.dims[1] = p->w.dims[0];
  for (int i = 0; i < p->spatial; ++i) {
    const std::int64_t reach = p->dilation[i] * (p->w.dims[2 + i] - 1) + 1;
    const std::int64_t room = p->x.dims[2 + i] + 2 * p->pad[i] - reach;
    if (room < 0) return false;
    p->y.dims[2 + i] = room / p->stride[i] + 1;
  }
  return multiply_adds(*p) <= kMaxMultiplyAdds;
}

void random_conv_layouts(Random& random, bool channels_last, conv::Problem* p) {
  packed(&p->w, channels_last);
  if (random.chance(channels_last ? 0.85 : 0.5)) {
    packed(&p->x, channels_last);
    packed(&p->y, channels_last);
    return;
  }
  set_random_layout(random, &p->x);
  set_random_layout(random, &p->y);
  packed(&p->w, random.chance(0.5));
}

void random_epilogue(Random& random, ConvCase* c) {
  conv::Problem& p = c->problem;
  c->beta = 0;
  p.has_bias = 1;
  p.bias_stride = 1;
  p.activation = static_cast<std::int32_t>(random.pick(
      {GPUDNN_ACTIVATION_RELU, GPUDNN_ACTIVATION_RELU, GPUDNN_ACTIVATION_IDENTITY, GPUDNN_ACTIVATION_SIGMOID,
       GPUDNN_ACTIVATION_TANH, GPUDNN_ACTIVATION_CLIPPED_RELU, GPUDNN_ACTIVATION_ELU, GPUDNN_ACTIVATION_SWISH}));
  if (p.activation == GPUDNN_ACTIVATION_CLIPPED_RELU) c->coef = 5.5;
  if (p.activation == GPUDNN_ACTIVATION_ELU) c->coef = 0.75;
  if (p.activation == GPUDNN_ACTIVATION_SWISH) c->coef = 1;
  if (random.chance(0.5)) {
    p.has_z = 1;
    p.z = p.y;
    if (random.chance(0.3)) set_random_layout(random, &p.z);
    c->alpha2 = random.pick({1.0, 0.5, -2.0});
  }
}

}  // namespace

void set_random_layout(Random& random, TensorGeometry* tensor) {
  switch (random.between(0, 2)) {
    case 0:
      return packed(tensor, false);
    case 1:
      return packed(tensor, true);
    default:
      permuted_with_gaps(random, tensor);
  }
}

ConvCase random_conv(Random& random) {
  while (true) {
    ConvCase c{};
    conv::Problem& p = c.problem;
    p.direction = random.pick({conv::Direction::forward, conv::Direction::dgrad, conv::Direction::wgrad});
    p.x.type = random_type(random);
    random_conv_geometry(random, &p);
    const bool patch = random.chance(0.2);
    if (patch) windows_of_step_one(random, &p);
    const bool transformable = !patch && random.chance(0.1);
    if (transformable) transformable_windows(random, &p);
    const bool first = !patch && !transformable && random.chance(0.2);
    if (first) first_layer(random, &p);
    const bool planes = !patch && !transformable && !first && random.chance(0.1);
    if (planes) planes_of_vectors(random, &p);
    std::int64_t channels = 0;
    std::int64_t filters = 0;
    const bool grouped = !patch && !first && !transformable && !planes && random.chance(0.3);
    if (grouped) small_groups(random, &p, &channels);
    const bool channels_last = patch || first || (!planes && random.chance(grouped ? 0.8 : 0.5));
    if (grouped) {
      filters = channels;
    } else if (patch) {
      channels = random.pick<std::int64_t>({16, 32, 48, 64});
      filters = random.pick<std::int64_t>({16, 32, 48, 64});
      if (random.chance(0.3)) {
        p.groups = static_cast<std::int32_t>(random.pick({2, 3}));
        channels = random.pick<std::int64_t>({16, 16, 32});
        filters = random.pick<std::int64_t>({16, 16, 32});
      }
    } else if (first) {
      channels = random.pick<std::int64_t>({1, 2, 3, 3, 3, 4, 5, 6, 7, 8});
      filters = 8 * random.between(1, 9);
    } else if ((channels_last || is_pointwise(p)) && random.chance(0.7)) {
      vector_friendly_channels(random, &channels, &filters);
    } else {
      random_channels(random, &channels, &filters);
      if (!planes && random.chance(0.3)) p.groups = static_cast<std::int32_t>(random.pick({2, 3, 4, 7}));
      if (p.groups > 1 && random.chance(0.4)) channels = filters = 1;  // depthwise
      if (p.groups > 1 && channels == 1 && random.chance(0.3)) filters = 2;
    }
    p.x.dims[0] = random.between(1, 4);
    p.x.dims[1] = channels * p.groups;
    p.w.dims[0] = filters * p.groups;
    p.w.dims[1] = channels;
    if (!derive_output(&p)) continue;
    random_conv_layouts(random, channels_last, &p);
    p.mode = random.chance(0.25) ? GPUDNN_CONVOLUTION : GPUDNN_CROSS_CORRELATION;
    p.compute = p.x.type == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE : GPUDNN_DATA_FLOAT;
    p.math = random.pick({GPUDNN_DEFAULT_MATH, GPUDNN_DEFAULT_MATH, GPUDNN_TENSOR_OP_MATH,
                          GPUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION, GPUDNN_FMA_MATH});
    const bool is_float = p.x.type == GPUDNN_DATA_FLOAT;
    if (first || ((patch || planes) && is_float)) p.math = GPUDNN_TENSOR_OP_MATH;
    random_scalars(random, &c);
    if (p.direction == conv::Direction::forward && random.chance(0.35)) random_epilogue(random, &c);
    return c;
  }
}

ConvCase random_conv_of_uneven_padding(Random& random) {
  while (true) {
    ConvCase c = random_conv(random);
    conv::Problem& p = c.problem;
    for (int i = 0; i < p.spatial; ++i) {
      const std::int64_t reach = p.dilation[i] * (p.w.dims[2 + i] - 1) + 1;
      const std::int64_t room = p.x.dims[2 + i] + p.pad[i] + random.between(0, p.w.dims[2 + i] + 1) - reach;
      p.y.dims[2 + i] = room < 0 ? 0 : room / p.stride[i] + 1;
    }
    if (*std::min_element(&p.y.dims[2], &p.y.dims[2 + p.spatial]) < 1) continue;
    packed(&p.y, is_packed_nhwc(p.x));
    if (p.has_z != 0) p.z = p.y;
    if (!conv::has_even_padding(p)) return c;
  }
}

ConvCase random_conv_with_epilogue(Random& random) {
  ConvCase c = random_conv(random);
  while (c.problem.direction != conv::Direction::forward) c = random_conv(random);
  conv::Problem& p = c.problem;
  if (p.activation < 0) random_epilogue(random, &c);
  p.activation = static_cast<std::int32_t>(random.between(GPUDNN_ACTIVATION_SIGMOID, conv::kSoftplus));
  c.coef = p.activation == GPUDNN_ACTIVATION_CLIPPED_RELU ? 5.5 : random.pick({0.75, 1.0, 1.5});
  const bool is_relu = p.activation == GPUDNN_ACTIVATION_CLIPPED_RELU || p.activation == GPUDNN_ACTIVATION_RELU;
  if (is_relu && random.chance(0.3)) c.slope = 0.25;
  if (random.chance(0.2)) p.has_bias = 0, p.bias_stride = 0;
  if (random.chance(0.4)) p.has_scale = 1, p.scale_stride = 1;
  const bool has_vectors = p.has_bias + p.has_scale > 0;
  if (has_vectors && data_type_bits(p.y.type) == 16 && random.chance(0.5)) p.float_vectors = 1;
  return c;
}

PoolingCase random_pooling(Random& random) {
  while (true) {
    PoolingCase c{};
    pooling::Problem& p = c.problem;
    p.backward = random.chance(0.5);
    p.mode = random.pick({GPUDNN_POOLING_MAX, GPUDNN_POOLING_MAX, GPUDNN_POOLING_MAX_DETERMINISTIC,
                          GPUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING, GPUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING});
    p.nan = random.pick({GPUDNN_NOT_PROPAGATE_NAN, GPUDNN_PROPAGATE_NAN});
    p.x = random_image(random, random_type(random), 4000);
    p.spatial = p.x.rank - 2;
    p.y = p.x;
    bool fits = true;
    for (int i = 0; i < p.spatial; ++i) {
      p.window[i] = random.between(1, 5);
      p.pad[i] = random.chance(0.05) ? p.window[i] + random.between(0, 2) : random.between(0, p.window[i] - 1);
      p.stride[i] = random.between(1, 4);
      const std::int64_t room = p.x.dims[2 + i] + 2 * p.pad[i] - p.window[i];
      // Mostly the floor formula; else rounded up, or any size.
      const std::int64_t floor_extent = room < 0 ? 0 : room / p.stride[i] + 1;
      p.y.dims[2 + i] = random.chance(0.8)   ? floor_extent
                        : random.chance(0.6) ? (std::max<std::int64_t>(room, 0) + p.stride[i] - 1) / p.stride[i] + 1
                                             : random.between(1, floor_extent + 3);
      fits = fits && p.y.dims[2 + i] >= 1;
    }
    if (!fits) continue;
    set_random_layout(random, &p.x);
    if (random.chance(0.7) && p.x.strides[1] == 1) {
      packed(&p.y, true);
    } else {
      set_random_layout(random, &p.y);
    }
    if (p.backward) {
      p.dx = p.x;
      p.dy = p.y;
      if (random.chance(0.4)) set_random_layout(random, &p.dx);
      if (random.chance(0.4)) set_random_layout(random, &p.dy);
    }
    random_scalars(random, &c);
    return c;
  }
}

// Any rank from 1 to 8.
static TensorGeometry random_elements(Random& random, gpudnnDataType_t type) {
  if (random.chance(0.5)) return random_image(random, type, 5000);
  while (true) {
    TensorGeometry tensor = tensor_of(type, {});
    tensor.rank = static_cast<std::int32_t>(random.between(1, kMaxRank));
    std::int64_t count = 1;
    for (int i = 0; i < tensor.rank; ++i) {
      tensor.dims[i] = random.between(1, tensor.rank == 1 ? 3000 : tensor.rank < 4 ? 40 : 5);
      count *= tensor.dims[i];
    }
    if (count <= 5000) return tensor;
  }
}

ActivationCase random_activation(Random& random) {
  ActivationCase c{};
  activation::Problem& p = c.problem;
  p.backward = random.chance(0.5);
  p.mode = random.pick({GPUDNN_ACTIVATION_SIGMOID, GPUDNN_ACTIVATION_RELU, GPUDNN_ACTIVATION_TANH,
                        GPUDNN_ACTIVATION_CLIPPED_RELU, GPUDNN_ACTIVATION_ELU, GPUDNN_ACTIVATION_SWISH});
  p.nan = random.pick({GPUDNN_NOT_PROPAGATE_NAN, GPUDNN_PROPAGATE_NAN});
  if (p.mode == GPUDNN_ACTIVATION_CLIPPED_RELU) p.coef = 2.5;
  if (p.mode == GPUDNN_ACTIVATION_ELU) p.coef = random.pick({1.0, 0.5});
  if (p.mode == GPUDNN_ACTIVATION_SWISH) p.coef = random.pick({1.0, 1.5});
  p.x = random_elements(random, random_type(random));
  set_random_layout(random, &p.x);
  p.y = p.x;
  if (random.chance(0.4)) set_random_layout(random, &p.y);
  if (p.backward) {
    p.dx = p.x;
    p.dy = p.y;
    if (random.chance(0.3)) set_random_layout(random, &p.dx);
    if (random.chance(0.3)) set_random_layout(random, &p.dy);
  }
  random_scalars(random, &c);
  return c;
}

SoftmaxCase random_softmax(Random& random) {
  SoftmaxCase c{};
  softmax::Problem& p = c.problem;
  p.backward = random.chance(0.5);
  p.algorithm = random.pick({GPUDNN_SOFTMAX_FAST, GPUDNN_SOFTMAX_ACCURATE, GPUDNN_SOFTMAX_LOG});
  p.mode = random.pick({GPUDNN_SOFTMAX_MODE_INSTANCE, GPUDNN_SOFTMAX_MODE_CHANNEL});
  p.y = random_image(random, random_type(random), 4000);
  if (random.chance(0.3)) {  // classes of a plain classifier
    p.y = tensor_of(p.y.type, {random.between(1, 5), random.pick<std::int64_t>({1, 10, 31, 128, 1000, 1025}), 1, 1});
  }
  set_random_layout(random, &p.y);
  if (p.backward) {
    p.dx = p.dy = p.y;
    if (random.chance(0.3)) set_random_layout(random, &p.dx);
    if (random.chance(0.3)) set_random_layout(random, &p.dy);
  } else {
    p.x = p.y;
    if (random.chance(0.4)) set_random_layout(random, &p.x);
  }
  random_scalars(random, &c);
  return c;
}

TensorCase random_tensor(Random& random) {
  TensorCase c{};
  tensor::Problem& p = c.problem;
  p.operation = random.pick({tensor::Operation::set, tensor::Operation::scale, tensor::Operation::add,
                             tensor::Operation::add, tensor::Operation::transform, tensor::Operation::transform});
  p.c = random_elements(random, random_type(random));
  set_random_layout(random, &p.c);
  random_scalars(random, &c);
  if (p.operation == tensor::Operation::set) {
    c.value = random.normal();
    c.alpha = 1;
    c.beta = 0;
    return c;
  }
  if (p.operation == tensor::Operation::scale) {
    c.beta = 0;
    return c;
  }
  p.a = p.c;
  if (p.operation == tensor::Operation::add && random.chance(0.7)) {
    for (int i = 0; i < p.a.rank; ++i) {
      if (random.chance(0.5)) p.a.dims[i] = 1;
    }
  }
  set_random_layout(random, &p.a);
  return c;
}

BiasGradCase random_bias_grad(Random& random) {
  BiasGradCase c{};
  c.problem.dy = random_image(random, random_type(random), 6000);
  set_random_layout(random, &c.problem.dy);
  TensorGeometry& db = c.problem.db;
  db = tensor_of(c.problem.dy.type, {1, c.problem.dy.dims[1]});
  while (db.rank < c.problem.dy.rank) db.dims[db.rank++] = 1;
  packed(&db, false);
  random_scalars(random, &c);
  return c;
}

}  // namespace gpudnn::test
