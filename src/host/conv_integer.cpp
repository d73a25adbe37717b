// Forward convolution of 8-bit integers on the host.
//
// A plane of sums, one output channel of one image, stays in the cache while the channels of x and the taps pass by:
// for each, a row of x is multiplied by one weight and added to a row of sums.
// SPDX-License-Identifier: Apache-2.0
#include "host/conv_integer.hpp"

#include <algorithm>
#include <vector>

#include "core/parallel.hpp"
#include "host/element.hpp"
#include "ops/conv/integer/integer_params.hpp"

namespace gpudnn::host {
namespace {

namespace integer = kernels::integer;

// Axes are w, h, d.
struct Plane {
  const integer::Params& p;
  std::int64_t y_dims[3];
  std::int64_t taps[3];

  [[nodiscard]] std::int64_t pixels() const { return y_dims[0] * y_dims[1] * y_dims[2]; }
};

// The first and one past the last position of y along an axis whose pixel under the tap lies in the image.
void positions_inside(const Plane& plane, int axis, std::int64_t tap, std::int64_t* first, std::int64_t* end) {
  const integer::Params& p = plane.p;
  const std::int64_t shift = tap * p.dilation[axis] - p.pad[axis];
  const std::int64_t stride = p.stride[axis];
  *first = shift >= 0 ? 0 : (-shift + stride - 1) / stride;
  const std::int64_t room = p.x_extent[axis] - 1 - shift;
  *end = room < 0 ? 0 : std::min(plane.y_dims[axis], room / stride + 1);
}

// Sums wrap around, as the device's do: unsigned arithmetic.
template <class X>
void add_row(const X* x, std::int64_t step, std::uint32_t weight, std::int64_t count, std::uint32_t* sums) {
  if (step == 1) {
    for (std::int64_t i = 0; i < count; ++i) sums[i] += weight * static_cast<std::uint32_t>(std::int32_t{x[i]});
  } else {
    for (std::int64_t i = 0; i < count; ++i) sums[i] += weight * static_cast<std::uint32_t>(std::int32_t{x[i * step]});
  }
}

// One channel under one filter.
template <class X>
void add_channel(const Plane& plane, const X* x, const std::int8_t* w, std::uint32_t* sums) {
  const integer::Params& p = plane.p;
  std::int64_t first[3];
  std::int64_t end[3];
  for (std::int64_t t = 0; t < plane.taps[2]; ++t) {
    positions_inside(plane, 2, t, &first[2], &end[2]);
    for (std::int64_t r = 0; r < plane.taps[1]; ++r) {
      positions_inside(plane, 1, r, &first[1], &end[1]);
      for (std::int64_t s = 0; s < plane.taps[0]; ++s) {
        positions_inside(plane, 0, s, &first[0], &end[0]);
        if (first[0] >= end[0]) continue;
        const std::int8_t weight =
            w[p.w_offset + t * p.w_at.spatial[2] + r * p.w_at.spatial[1] + s * p.w_at.spatial[0]];
        if (weight == 0) continue;
        const std::int64_t column = first[0] * p.stride[0] + s * p.dilation[0] - p.pad[0];
        for (std::int64_t d = first[2]; d < end[2]; ++d) {
          for (std::int64_t h = first[1]; h < end[1]; ++h) {
            const X* const row = x + (d * p.stride[2] + t * p.dilation[2] - p.pad[2]) * p.x_at.spatial[2] +
                                 (h * p.stride[1] + r * p.dilation[1] - p.pad[1]) * p.x_at.spatial[1] +
                                 column * p.x_at.spatial[0];
            add_row(row, p.stride[0] * p.x_at.spatial[0], static_cast<std::uint32_t>(std::int32_t{weight}),
                    end[0] - first[0], sums + (d * plane.y_dims[1] + h) * plane.y_dims[0] + first[0]);
          }
        }
      }
    }
  }
}

float element_at(const void* data, integer::OutType type, std::int64_t offset) {
  switch (type) {
    case integer::OutType::i8:
      return static_cast<float>(static_cast<const std::int8_t*>(data)[offset]);
    case integer::OutType::u8:
      return static_cast<float>(static_cast<const std::uint8_t*>(data)[offset]);
    case integer::OutType::i32:
      return static_cast<float>(static_cast<const std::int32_t*>(data)[offset]);
    default:
      return static_cast<const float*>(data)[offset];
  }
}

void store_element(const integer::Epilogue& e, std::int32_t sum, float value, void* data, std::int64_t offset) {
  switch (e.out) {
    case integer::OutType::i32:
      static_cast<std::int32_t*>(data)[offset] = e.is_sum ? sum : integer::rounded_32(value);
      return;
    case integer::OutType::f32:
      static_cast<float*>(data)[offset] = value;
      return;
    default:
      static_cast<std::uint8_t*>(data)[offset] =
          static_cast<std::uint8_t>(integer::low_byte_of(integer::clamped(e.out, value)));
  }
}

void store_plane(const Plane& plane, std::int64_t image, std::int64_t k, const std::vector<std::uint32_t>& sums) {
  const integer::Params& p = plane.p;
  const integer::Epilogue& e = p.epilogue;
  const float scale = e.has_scale ? p.scale[k * e.scale_stride] : 1.0f;
  const float bias = e.has_bias ? p.bias[k * e.bias_stride] : 0.0f;
  std::size_t index = 0;
  for (std::int64_t d = 0; d < plane.y_dims[2]; ++d) {
    for (std::int64_t h = 0; h < plane.y_dims[1]; ++h) {
      for (std::int64_t w = 0; w < plane.y_dims[0]; ++w) {
        const auto offset = [&](const integer::Tensor& at) {
          return image * at.image + at.channel(k) + d * at.spatial[2] + h * at.spatial[1] + w * at.spatial[0];
        };
        const float addend = e.adds ? element_at(p.addend, e.out, offset(p.addend_at)) : 0.0f;
        const auto sum = static_cast<std::int32_t>(sums[index++]);
        store_element(e, sum, integer::finished(e, sum, scale, addend, bias), p.y, offset(p.y_at));
      }
    }
  }
}

template <class X>
void convolve(const conv::Problem& problem, const integer::Params& p) {
  Plane plane{p, {1, 1, 1}, {1, 1, 1}};
  for (int i = 0; i < problem.spatial; ++i) {
    plane.y_dims[problem.spatial - 1 - i] = problem.y.dims[2 + i];
    plane.taps[problem.spatial - 1 - i] = problem.w.dims[2 + i];
  }
  const std::int64_t filters = problem.w.dims[0];
  const std::int64_t channels = problem.w.dims[1];
  const std::int64_t filters_of_group = filters / problem.groups;
  const std::int64_t cost = plane.pixels() * channels * p.tap_count;
  parallel_for(problem.y.dims[0] * filters, grain_for(cost), [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::uint32_t> sums(static_cast<std::size_t>(plane.pixels()));
    for (std::int64_t index = begin; index < end; ++index) {
      const std::int64_t image = index / filters;
      const std::int64_t k = index % filters;
      const std::int64_t first_channel = k / filters_of_group * channels;
      std::fill(sums.begin(), sums.end(), 0u);
      for (std::int64_t c = 0; c < channels; ++c) {
        add_channel(plane, reinterpret_cast<const X*>(p.x) + image * p.x_at.image + p.x_at.channel(first_channel + c),
                    p.w + k * p.w_at.image + p.w_at.channel(c), sums.data());
      }
      store_plane(plane, image, k, sums);
    }
  });
}

}  // namespace

void convolution_of_integers(const conv::Problem& problem, const conv::Args& args) {
  integer::Params p = conv::integer_params(problem);
  p.x = static_cast<const std::int8_t*>(args.x);
  p.w = static_cast<const std::int8_t*>(args.w);
  p.y = args.out;
  conv::set_integer_epilogue(problem, args, &p);
  if (p.x_is_unsigned) {
    convolve<std::uint8_t>(problem, p);
  } else {
    convolve<std::int8_t>(problem, p);
  }
}

}  // namespace gpudnn::host
