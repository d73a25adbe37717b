// Divisive normalization: windows of n elements in each of up to three spatial directions; any strides.
//
// A thread takes kStrip elements one below the other. The sum along each row of their windows goes into all the windows
// that the row belongs to: with n = 5 it reads 7.5 elements for each of its own in place of 25, mostly from the L1, and
// every window's sum is still formed anew. Backward takes two launches: the first leaves t (lrn_math.cuh) of each
// element in the caller's scratch, the second sums t over the windows that hold the element and finds its own s anew. t
// is kept in the compute type: a 16-bit type's two scratch tensors hold the upper and the lower half of a float each.
// Bytes: forward x, means and y; backward twice x, means and dy, twice the scratch, and the outputs.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/lrn/lrn_math.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kThreads = 256;
constexpr int kStrip = 8;

template <class T>
struct SpatialArgs {
  using C = tile::Compute<T>;
  const T* x;
  const T* means;
  const T* dy;
  T* temp;
  T* temp2;
  T* out;
  T* means_gradient;
  C alpha, beta, weight, exponent, k;
  std::int32_t before, after;
  bool wide;                 // the count does not fit 31 bits
  std::int64_t count;        // strips
  std::int32_t extents[3];   // depth, height, width
  tile::FastDivmod dims[5];  // image, channel, depth, strips of the height, width
  std::int64_t x_strides[5];
  std::int64_t out_strides[5];
};

// Where a strip's first element stands.
struct Place {
  std::int64_t x;  // offset of it
  std::int64_t out;
  std::int32_t at[3];  // depth, height, width
};
template <class T>
__device__ __forceinline__ Place locate(const SpatialArgs<T>& args, std::uint64_t index) {
  Place place = {0, 0, {}};
#pragma unroll
  for (int i = 4; i >= 0; --i) {
    std::uint32_t rest;
    if (i == 0) {
      rest = static_cast<std::uint32_t>(index);
    } else if (args.wide) {
      rest = static_cast<std::uint32_t>(index % args.dims[i].divisor);
      index /= args.dims[i].divisor;
    } else {
      index = args.dims[i].divmod(static_cast<std::uint32_t>(index), &rest);
    }
    if (i == 3) rest *= kStrip;
    place.x += rest * args.x_strides[i];
    place.out += rest * args.out_strides[i];
    if (i >= 2) place.at[i - 2] = static_cast<std::int32_t>(rest);
  }
  return place;
}

template <class T>
__device__ __forceinline__ tile::Compute<T> centred(const SpatialArgs<T>& args, std::int64_t offset) {
  using C = tile::Compute<T>;
  const C value = tile::widen<C>(args.x[offset]);
  return args.means != nullptr ? value - tile::widen<C>(args.means[offset]) : value;
}

template <class T>
__device__ __forceinline__ void put_term(const SpatialArgs<T>& args, std::int64_t offset, tile::Compute<T> value) {
  if constexpr (sizeof(T) == 2) {
    const std::uint32_t bits = __float_as_uint(value);
    args.temp[offset] = tile::half_of<T>(bits, 0);
    args.temp2[offset] = tile::half_of<T>(bits, 1);
  } else {
    args.temp[offset] = value;
  }
}
template <class T>
__device__ __forceinline__ tile::Compute<T> get_term(const SpatialArgs<T>& args, std::int64_t offset) {
  if constexpr (sizeof(T) == 2) {
    return __uint_as_float(tile::word_of(args.temp[offset], args.temp2[offset]));
  } else {
    return args.temp[offset];
  }
}

// For each element of the strip, the sum of value(offset) over the elements from `before` before it to `after` after
// it, in each direction.
template <class T, class Value>
__device__ __forceinline__ void window_sums(const SpatialArgs<T>& args, const Place& place, std::int32_t before,
                                            std::int32_t after, const Value& value, tile::Compute<T> (&sums)[kStrip]) {
  const auto low = [&](int i) { return -min(before, place.at[i]); };
  const auto high = [&](int i, std::int32_t reach) { return min(reach, args.extents[i] - 1 - place.at[i]); };
  const std::int32_t last_d = high(0, after), last_h = high(1, kStrip - 1 + after), last_w = high(2, after);
#pragma unroll
  for (auto& sum : sums) sum = tile::Compute<T>(0);
  for (std::int32_t d = low(0); d <= last_d; ++d) {
    for (std::int32_t h = low(1); h <= last_h; ++h) {
      std::int64_t at = place.x + d * args.x_strides[2] + h * args.x_strides[3] + low(2) * args.x_strides[4];
      tile::Compute<T> across(0);
      for (std::int32_t w = low(2); w <= last_w; ++w) {
        across += value(at);
        at += args.x_strides[4];
      }
#pragma unroll
      for (int r = 0; r < kStrip; ++r) {
        if (h >= r - before && h <= r + after) sums[r] += across;
      }
    }
  }
}

template <class T>
__device__ __forceinline__ void store(const SpatialArgs<T>& args, tile::Compute<T> value, T* out) {
  tile::Compute<T> one[1] = {value};
  lrn_store<T, 1>(one, args.alpha, args.beta, out);
}

enum class Pass { forward, terms, gradient };

template <class T, Pass kPass>
__global__ void __launch_bounds__(kThreads) lrn_spatial(SpatialArgs<T> args) {
  using C = tile::Compute<T>;
  const std::uint64_t index = static_cast<std::uint64_t>(blockIdx.x) * kThreads + threadIdx.x;
  if (index >= static_cast<std::uint64_t>(args.count)) return;
  const Place place = locate(args, index);
  C squares[kStrip], around[kStrip];
  const auto square = [&](std::int64_t offset) {
    const C value = centred(args, offset);
    return value * value;
  };
  window_sums(args, place, args.before, args.after, square, squares);
  if constexpr (kPass == Pass::gradient) {
    // The windows that hold the element are those of the elements from `after` before it to `before` after it.
    const auto term = [&](std::int64_t offset) { return get_term(args, offset); };
    window_sums(args, place, args.after, args.before, term, around);
  }
#pragma unroll
  for (int r = 0; r < kStrip; ++r) {
    if (place.at[1] + r >= args.extents[1]) return;
    const std::int64_t x = place.x + r * args.x_strides[3], out = place.out + r * args.out_strides[3];
    const C logarithm = log2_of(args.k + args.weight * squares[r]);
    const C own = centred(args, x);
    if constexpr (kPass == Pass::forward) {
      store(args, own * exp2_of(-args.exponent * logarithm), args.out + out);
    } else if constexpr (kPass == Pass::terms) {
      put_term(args, x, tile::widen<C>(args.dy[x]) * (own * exp2_of(-(args.exponent + C(1)) * logarithm)));
    } else {
      const C gradient = tile::widen<C>(args.dy[x]) * exp2_of(-args.exponent * logarithm) -
                         C(2) * args.exponent * args.weight * own * around[r];
      store(args, gradient, args.out + out);
      if (args.means_gradient != nullptr) store(args, -gradient, args.means_gradient + out);
    }
  }
}

template <class T>
SpatialArgs<T> spatial_args(const LrnParams& params) {
  using C = tile::Compute<T>;
  SpatialArgs<T> args = {};
  args.x = static_cast<const T*>(params.x);
  args.means = static_cast<const T*>(params.means);
  args.dy = static_cast<const T*>(params.dy);
  args.temp = static_cast<T*>(params.temp);
  args.temp2 = static_cast<T*>(params.temp2);
  args.out = static_cast<T*>(params.out);
  args.means_gradient = static_cast<T*>(params.means_gradient);
  args.alpha = static_cast<C>(params.alpha);
  args.beta = static_cast<C>(params.beta);
  args.weight = static_cast<C>(params.weight);
  args.exponent = static_cast<C>(params.exponent);
  args.k = static_cast<C>(params.k);
  args.before = params.before;
  args.after = params.n - 1 - params.before;
  args.count = 1;
  for (int i = 0; i < 3; ++i) args.extents[i] = static_cast<std::int32_t>(params.dims[2 + i]);
  for (int i = 0; i < 5; ++i) {
    const std::int64_t parts = i == 3 ? (params.dims[i] + kStrip - 1) / kStrip : params.dims[i];
    args.count *= parts;
    args.dims[i] = tile::FastDivmod(static_cast<std::uint32_t>(parts));
    args.x_strides[i] = params.x_strides[i];
    args.out_strides[i] = params.out_strides[i];
  }
  args.wide = args.count > tile::kMaxIterations;
  return args;
}

}  // namespace

void launch_lrn_spatial(const LrnParams& params, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    const SpatialArgs<T> args = spatial_args<T>(params);
    const auto blocks = static_cast<unsigned>((args.count + kThreads - 1) / kThreads);
    if (!params.backward) {
      lrn_spatial<T, Pass::forward><<<blocks, kThreads, 0, stream>>>(args);
      return;
    }
    lrn_spatial<T, Pass::terms><<<blocks, kThreads, 0, stream>>>(args);
    lrn_spatial<T, Pass::gradient><<<blocks, kThreads, 0, stream>>>(args);
  });
}

}  // namespace gpudnn::kernels
