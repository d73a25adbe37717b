// Convolutions of 8-bit integers: random cases and the oracle.
// SPDX-License-Identifier: Apache-2.0
#include "support/integer_conv.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace gpudnn::test {
namespace {

using conv::Problem;

// Where scalar (n, c, spatial...) lies, in scalars: of a vector type, strides count vectors.
std::int64_t offset_in(const TensorGeometry& tensor, std::int64_t n, std::int64_t c, const std::int64_t* at) {
  const std::int64_t lanes = data_type_lanes(tensor.type);
  std::int64_t vectors = n * tensor.strides[0] + c / lanes * tensor.strides[1];
  for (int i = 2; i < tensor.rank; ++i) vectors += at[i - 2] * tensor.strides[i];
  return vectors * lanes + c % lanes;
}

bool is_wide(DataType type) { return type == GPUDNN_DATA_FLOAT || type == GPUDNN_DATA_INT32; }
bool is_unsigned(DataType type) { return type == GPUDNN_DATA_UINT8 || type == GPUDNN_DATA_UINT8x4; }

double element(const std::vector<unsigned char>& data, DataType type, std::int64_t offset) {
  if (is_wide(type)) {
    std::int32_t bits;
    std::memcpy(&bits, data.data() + 4 * offset, 4);
    float value;
    std::memcpy(&value, &bits, 4);
    return type == GPUDNN_DATA_FLOAT ? static_cast<double>(value) : bits;
  }
  const unsigned char byte = data[static_cast<std::size_t>(offset)];
  return is_unsigned(type) ? byte : static_cast<signed char>(byte);
}

// Rounded to nearest even, halfway cases told by what is left.
double rounded(double value) {
  const double below = std::floor(value);
  const double rest = value - below;
  if (rest != 0.5) return rest < 0.5 ? below : below + 1;
  return std::fmod(below, 2) == 0 ? below : below + 1;
}

void put(std::vector<unsigned char>* data, DataType type, std::int64_t offset, float value, std::int32_t sum,
         bool is_sum) {
  if (type == GPUDNN_DATA_FLOAT) {
    std::memcpy(data->data() + 4 * offset, &value, 4);
  } else if (type == GPUDNN_DATA_INT32) {
    const double limited = std::clamp(rounded(static_cast<double>(value)), -2147483648.0, 2147483647.0);
    const std::int32_t stored = is_sum ? sum : static_cast<std::int32_t>(limited);
    std::memcpy(data->data() + 4 * offset, &stored, 4);
  } else {
    const double least = is_unsigned(type) ? 0 : -128;
    const double greatest = is_unsigned(type) ? 255 : 127;
    const double limited = std::clamp(rounded(static_cast<double>(value)), least, greatest);
    (*data)[static_cast<std::size_t>(offset)] = static_cast<unsigned char>(static_cast<int>(limited) & 255);
  }
}

// Where each channel lies behind the first one.
std::vector<std::int64_t> channel_offsets(const TensorGeometry& tensor) {
  const std::int64_t origin[3] = {};
  std::vector<std::int64_t> offsets;
  for (std::int64_t c = 0; c < tensor.dims[1]; ++c) offsets.push_back(offset_in(tensor, 0, c, origin));
  return offsets;
}

int byte_at(const std::vector<unsigned char>& data, bool has_no_sign, std::int64_t offset) {
  const unsigned char byte = data[static_cast<std::size_t>(offset)];
  return has_no_sign ? byte : static_cast<signed char>(byte);
}

std::int64_t sum_at(const Problem& p, const IntegerData& data, const std::vector<std::int64_t>& x_channels,
                    const std::vector<std::int64_t>& w_channels, std::int64_t n, std::int64_t k,
                    const std::int64_t* at) {
  const bool x_unsigned = is_unsigned(p.x.type), w_unsigned = is_unsigned(p.w.type);
  const std::int64_t channels = p.w.dims[1];
  const std::int64_t group = k / (p.w.dims[0] / p.groups);
  std::int64_t taps = 1;
  for (int i = 0; i < p.spatial; ++i) taps *= p.w.dims[2 + i];
  std::int64_t sum = 0;
  for (std::int64_t tap = 0; tap < taps; ++tap) {
    std::int64_t rest = tap;
    std::int64_t of_x[3] = {};
    std::int64_t of_w[3] = {};
    bool inside = true;
    for (int i = p.spatial; i-- > 0;) {
      const std::int64_t t = rest % p.w.dims[2 + i];
      rest /= p.w.dims[2 + i];
      of_w[i] = p.mode == GPUDNN_CONVOLUTION ? p.w.dims[2 + i] - 1 - t : t;
      of_x[i] = at[i] * p.stride[i] - p.pad[i] + t * p.dilation[i];
      inside = inside && of_x[i] >= 0 && of_x[i] < p.x.dims[2 + i];
    }
    if (!inside) continue;
    const std::int64_t in_x = offset_in(p.x, n, 0, of_x), in_w = offset_in(p.w, k, 0, of_w);
    for (std::int64_t c = 0; c < channels; ++c) {
      sum +=
          std::int64_t{byte_at(data.x, x_unsigned, in_x + x_channels[static_cast<std::size_t>(group * channels + c)])} *
          byte_at(data.w, w_unsigned, in_w + w_channels[static_cast<std::size_t>(c)]);
    }
  }
  return sum;
}

float epilogue(const IntegerCase& c, const IntegerData& data, std::int32_t sum, std::int64_t n, std::int64_t k,
               const std::int64_t* at) {
  const Problem& p = c.problem;
  float factor = c.alpha;
  if (p.has_scale != 0) factor = factor * data.scale[static_cast<std::size_t>(k * p.scale_stride)];
  const float bias = p.has_bias != 0 ? data.bias[static_cast<std::size_t>(k * p.bias_stride)] : 0.0f;
  float value = std::fma(factor, static_cast<float>(sum), bias);
  const bool adds = c.beta != 0;
  if (adds) {
    const TensorGeometry& tensor = p.has_z != 0 ? p.z : p.y;
    const double addend = element(p.has_z != 0 ? data.z : data.y, tensor.type, offset_in(tensor, n, k, at));
    value = std::fma(c.beta, static_cast<float>(addend), value);
  }
  if (p.activation == GPUDNN_ACTIVATION_RELU && value < 0) value = 0;
  if (p.activation == GPUDNN_ACTIVATION_CLIPPED_RELU) value = std::clamp(value, 0.0f, static_cast<float>(c.coef));
  return value;
}

bool is_sum_alone(const IntegerCase& c) {
  const Problem& p = c.problem;
  const bool linear = p.activation < 0 || p.activation == GPUDNN_ACTIVATION_IDENTITY;
  return c.alpha == 1 && c.beta == 0 && p.has_bias == 0 && p.has_scale == 0 && linear;
}

// Packed, or with room between neighbours.
void set_layout(Random& random, bool channels_last, TensorGeometry* tensor) {
  set_packed_strides(tensor, channels_last ? GPUDNN_TENSOR_NHWC : GPUDNN_TENSOR_NCHW);
  if (below(random, 4) != 0) return;
  const std::int64_t step = channels_last ? (below(random, 2) == 0 ? 16 : 3) : 1;
  if (channels_last) {
    const std::int64_t channels = tensor->dims[1] / data_type_lanes(tensor->type);
    const std::int64_t wider = (channels + step - 1) / step * step + step;
    for (int i = 0; i < tensor->rank; ++i) {
      if (i != 1) tensor->strides[i] = tensor->strides[i] / std::max<std::int64_t>(channels, 1) * wider;
    }
  } else {
    tensor->strides[0] += below(random, 3) * 5;
  }
}

}  // namespace

IntegerCase random_integer_case(Random& random) {
  IntegerCase c;
  Problem& p = c.problem;
  p.compute = GPUDNN_DATA_INT32;
  p.spatial = below(random, 8) == 0 ? 3 : below(random, 6) == 0 ? 1 : 2;
  const DataType x =
      random.pick<DataType>({GPUDNN_DATA_INT8, GPUDNN_DATA_INT8, GPUDNN_DATA_INT8, GPUDNN_DATA_INT8, GPUDNN_DATA_INT8x4,
                             GPUDNN_DATA_INT8x32, GPUDNN_DATA_UINT8, GPUDNN_DATA_UINT8x4});
  const std::int64_t lanes = data_type_lanes(x);
  const DataType w = lanes == 4 ? GPUDNN_DATA_INT8x4 : lanes == 32 ? GPUDNN_DATA_INT8x32 : GPUDNN_DATA_INT8;
  DataType y = below(random, 2) == 0
                   ? x
                   : random.pick<DataType>({GPUDNN_DATA_INT8, GPUDNN_DATA_FLOAT, GPUDNN_DATA_INT32, GPUDNN_DATA_UINT8,
                                            GPUDNN_DATA_INT8x4, GPUDNN_DATA_INT8x32});
  p.groups = below(random, 4) == 0 ? 1 + below(random, 4) : 1;
  constexpr std::int64_t kChannels[] = {1, 3, 4, 8, 16, 20, 32, 48, 64, 96, 128, 160};
  const auto channels_of = [&](std::int64_t vector) {
    const std::int64_t some = below(random, 5) == 0 ? 1 + below(random, 70) : kChannels[below(random, 12)];
    return (some + vector - 1) / vector * vector;
  };
  const std::int64_t channels = channels_of(lanes);
  std::int64_t filters = channels_of(1);
  while (filters * p.groups % data_type_lanes(y) != 0) ++filters;
  p.x.type = x;
  p.w.type = w;
  p.y.type = y;
  p.x.rank = p.w.rank = p.y.rank = p.spatial + 2;
  p.x.dims[0] = p.y.dims[0] = 1 + below(random, 3);
  p.x.dims[1] = channels * p.groups;
  p.w.dims[0] = p.y.dims[1] = filters * p.groups;
  p.w.dims[1] = channels;
  p.mode = below(random, 4) == 0 ? GPUDNN_CONVOLUTION : GPUDNN_CROSS_CORRELATION;
  const bool pointwise = below(random, 3) == 0;
  for (int i = 0; i < p.spatial; ++i) {
    p.w.dims[2 + i] = pointwise ? 1 : 1 + below(random, p.spatial == 3 ? 3 : 5);
    p.pad[i] = pointwise ? 0 : below(random, static_cast<int>(p.w.dims[2 + i]) + 1);
    p.stride[i] = below(random, 3) == 0 ? 1 + below(random, 3) : 1;
    p.dilation[i] = below(random, 4) == 0 ? 1 + below(random, 3) : 1;
    const std::int64_t reach = (p.w.dims[2 + i] - 1) * p.dilation[i] + 1;
    const std::int64_t least = std::max<std::int64_t>(1, reach - 2 * p.pad[i]);
    p.x.dims[2 + i] = least + below(random, p.spatial == 3 ? 6 : 20);
    p.y.dims[2 + i] = conv::output_extent(p, i);
  }
  const bool channels_last = below(random, 3) != 0;
  set_layout(random, channels_last, &p.x);
  set_layout(random, below(random, 5) == 0 ? !channels_last : channels_last, &p.y);
  set_packed_strides(&p.w, channels_last ? GPUDNN_TENSOR_NHWC : GPUDNN_TENSOR_NCHW);
  if (below(random, 2) == 0) {
    p.has_bias = 1;
    p.bias_stride = 1;
    constexpr std::int32_t kModes[] = {-1, GPUDNN_ACTIVATION_IDENTITY, GPUDNN_ACTIVATION_RELU,
                                       GPUDNN_ACTIVATION_CLIPPED_RELU};
    p.activation = kModes[below(random, 4)];
    c.coef = 0.5 + below(random, 100);
    if (below(random, 2) == 0) {
      p.has_z = 1;
      p.z = p.y;
      set_layout(random, below(random, 5) == 0 ? !channels_last : channels_last, &p.z);
    }
  }
  if (below(random, 6) == 0) {
    p.has_scale = 1;
    p.scale_stride = 1;
  }
  p.float_vectors = p.has_bias + p.has_scale > 0 && y != GPUDNN_DATA_FLOAT ? 1 : 0;
  constexpr float kAlphas[] = {1, 0.25f, 0.013f, -0.5f, 0.001f};
  c.alpha = kAlphas[below(random, 5)];
  c.beta = p.has_z != 0 ? 0.75f : p.has_bias == 0 && below(random, 4) == 0 ? -1.5f : 0.0f;
  return c;
}

IntegerData random_integer_data(const IntegerCase& c, Random& random) {
  const Problem& p = c.problem;
  IntegerData data;
  const bool small = below(random, 2) == 0;
  const auto fill = [&](const TensorGeometry& tensor, bool is_small, std::vector<unsigned char>* bytes) {
    bytes->resize(size_in_bytes(tensor));
    for (unsigned char& byte : *bytes) {
      byte = static_cast<unsigned char>(is_small ? below(random, 7) - 3 : below(random, 256));
    }
    if (!is_wide(tensor.type)) return;
    for (std::size_t i = 0; i + 4 <= bytes->size(); i += 4) {
      const int value = below(random, 2001) - 1000;
      const auto as_float = static_cast<float>(value) * 0.5f;
      std::memcpy(bytes->data() + i, tensor.type == GPUDNN_DATA_FLOAT ? static_cast<const void*>(&as_float) : &value,
                  4);
    }
  };
  fill(p.x, small && !is_unsigned(p.x.type), &data.x);
  fill(p.w, small, &data.w);
  fill(p.y, false, &data.y);
  if (p.has_z != 0) fill(p.z, false, &data.z);
  const auto filters = static_cast<std::size_t>(p.w.dims[0]);
  for (std::size_t k = 0; p.has_bias != 0 && k < filters; ++k)
    data.bias.push_back(static_cast<float>(below(random, 401) - 200) * 0.25f);
  for (std::size_t k = 0; p.has_scale != 0 && k < filters; ++k)
    data.scale.push_back(static_cast<float>(below(random, 17) - 8) * 0.125f);
  return data;
}

std::vector<unsigned char> naive_integer_conv(const IntegerCase& c, const IntegerData& data) {
  const Problem& p = c.problem;
  std::vector<unsigned char> out = data.y;
  const std::vector<std::int64_t> x_channels = channel_offsets(p.x), w_channels = channel_offsets(p.w);
  std::int64_t positions = 1;
  for (int i = 0; i < p.spatial; ++i) positions *= p.y.dims[2 + i];
  for (std::int64_t n = 0; n < p.y.dims[0]; ++n) {
    for (std::int64_t position = 0; position < positions; ++position) {
      std::int64_t at[3] = {};
      std::int64_t rest = position;
      for (int i = p.spatial; i-- > 0;) {
        at[i] = rest % p.y.dims[2 + i];
        rest /= p.y.dims[2 + i];
      }
      for (std::int64_t k = 0; k < p.w.dims[0]; ++k) {
        const auto sum =
            static_cast<std::int32_t>(static_cast<std::uint32_t>(sum_at(p, data, x_channels, w_channels, n, k, at)));
        put(&out, p.y.type, offset_in(p.y, n, k, at), epilogue(c, data, sum, n, k, at), sum, is_sum_alone(c));
      }
    }
  }
  return out;
}

std::string case_text(const IntegerCase& c) {
  return conv::to_text(c.problem) + " | alpha=" + std::to_string(c.alpha) + " beta=" + std::to_string(c.beta) +
         " coef=" + std::to_string(c.coef);
}

}  // namespace gpudnn::test
