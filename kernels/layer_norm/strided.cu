// Layer normalization with any strides and types, forward and backward: a block for each set, an element at a time, in
// double throughout. What no other kernel takes runs here, so support comes before speed.
//
//   forward   mean, then the sum of squared deviations, then y: x is read three times
//   backward  the two sums of a set, then dx: x and dy are read twice; dscale and dbias in a kernel of their own
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/layer_norm/layer_norm.hpp"
#include "kernels/tile/any_pack.cuh"
#include "kernels/tile/reduce.cuh"

namespace gpudnn::kernels {
namespace {

constexpr int kMinThreads = 256;  // of a block, and of one whose set is long
constexpr int kMaxThreads = 512;
constexpr std::int64_t kLongSet = 4096;
constexpr int kSumThreads = 1024;

struct StridedArgs {
  bool rms;
  bool given;
  double epsilon;
  std::int64_t length;
  LayerNormTensor x, out, mean, inverse, scale, other;
};

__device__ __forceinline__ double read_or(const LayerNormTensor& tensor, std::int64_t at, double otherwise) {
  if (tensor.data == nullptr) return otherwise;
  return tile::read_any<double>(tensor.type,
                                static_cast<const char*>(tensor.data) + at * tile::any_type_bytes(tensor.type));
}
__device__ __forceinline__ void write_at(const LayerNormTensor& tensor, std::int64_t at, double value) {
  if (tensor.data == nullptr) return;
  tile::write_any<double>(tensor.type, static_cast<char*>(tensor.data) + at * tile::any_type_bytes(tensor.type), value);
}

// body(offsets of an element of the block's set in each tensor) for this thread's elements.
template <class Body>
__device__ __forceinline__ void for_elements(const tile::LoopNest<kLnSlots>& within, std::int64_t length,
                                             const std::int64_t (&start)[kLnSlots], const Body& body) {
  const bool wide = length > tile::kMaxIterations;
#pragma unroll 4
  for (std::int64_t element = threadIdx.x; element < length; element += blockDim.x) {
    std::int64_t at[kLnSlots];
    if (within.rank == 1) {
#pragma unroll
      for (int t = 0; t < kLnSlots; ++t) at[t] = element * within.strides[t][0];
    } else if (wide) {
      within.offsets_wide(static_cast<std::uint64_t>(element), at);
    } else {
      within.offsets(static_cast<std::uint32_t>(element), at);
    }
#pragma unroll
    for (int t = 0; t < kLnSlots; ++t) at[t] += start[t];
    body(at);
  }
}

__global__ void __launch_bounds__(kMaxThreads)
    layer_norm_strided(const __grid_constant__ StridedArgs args,
                       const __grid_constant__ tile::LoopNest<kLnSlots> within,
                       const __grid_constant__ tile::LoopNest<kLnSlots> between) {
  __shared__ double scratch[2][32];
  std::int64_t start[kLnSlots];
  between.offsets(blockIdx.x, start);
  const auto length = static_cast<double>(args.length);
  double mean = 0;
  double inverse = 0;
  if (args.given) {
    mean = read_or(args.mean, start[kLnMean], 0);
    inverse = read_or(args.inverse, start[kLnInverse], 1);
  } else {
    if (!args.rms) {
      double sum = 0;
      for_elements(within, args.length, start,
                   [&](const std::int64_t(&at)[kLnSlots]) { sum += read_or(args.x, at[kLnX], 0); });
      mean = tile::block_reduce(sum, 0.0, tile::Sum{}, scratch[0]) / length;
    }
    double squares = 0;
    for_elements(within, args.length, start, [&](const std::int64_t(&at)[kLnSlots]) {
      const double distance = read_or(args.x, at[kLnX], 0) - mean;
      squares += distance * distance;
    });
    squares = tile::block_reduce(squares, 0.0, tile::Sum{}, scratch[1]);
    inverse = 1 / sqrt(squares / length + args.epsilon);
    if (threadIdx.x == 0) {
      write_at(args.mean, start[kLnMean], mean);
      write_at(args.inverse, start[kLnInverse], inverse);
    }
  }
  for_elements(within, args.length, start, [&](const std::int64_t(&at)[kLnSlots]) {
    const double xhat = (read_or(args.x, at[kLnX], 0) - mean) * inverse;
    write_at(args.out, at[kLnOut], read_or(args.scale, at[kLnScale], 1) * xhat + read_or(args.other, at[kLnOther], 0));
  });
}

// Here args.other is dy and args.out dx.
__global__ void __launch_bounds__(kMaxThreads)
    layer_norm_strided_dx(const __grid_constant__ StridedArgs args,
                          const __grid_constant__ tile::LoopNest<kLnSlots> within,
                          const __grid_constant__ tile::LoopNest<kLnSlots> between) {
  __shared__ double scratch[2][32];
  std::int64_t start[kLnSlots];
  between.offsets(blockIdx.x, start);
  const double mean = args.rms ? 0 : read_or(args.mean, start[kLnMean], 0);
  const double inverse = read_or(args.inverse, start[kLnInverse], 1);
  double sum = 0;
  double product = 0;
  for_elements(within, args.length, start, [&](const std::int64_t(&at)[kLnSlots]) {
    const double xhat = (read_or(args.x, at[kLnX], 0) - mean) * inverse;
    const double gradient = read_or(args.other, at[kLnOther], 0) * read_or(args.scale, at[kLnScale], 1);
    sum += gradient;
    product += gradient * xhat;
  });
  sum = tile::block_reduce(sum, 0.0, tile::Sum{}, scratch[0]) / static_cast<double>(args.length);
  product = tile::block_reduce(product, 0.0, tile::Sum{}, scratch[1]) / static_cast<double>(args.length);
  if (args.rms) sum = 0;
  for_elements(within, args.length, start, [&](const std::int64_t(&at)[kLnSlots]) {
    const double xhat = (read_or(args.x, at[kLnX], 0) - mean) * inverse;
    const double gradient = read_or(args.other, at[kLnOther], 0) * read_or(args.scale, at[kLnScale], 1);
    write_at(args.out, at[kLnOut], inverse * (gradient - sum - xhat * product));
  });
}

struct SumArgs {
  bool rms;
  int neighbours;  // parameters of a block: threads side by side have neighbouring ones
  std::int64_t length;
  LayerNormTensor x, dy, mean, inverse, dscale, dbias;
};

__global__ void __launch_bounds__(kSumThreads)
    layer_norm_strided_params(const __grid_constant__ SumArgs args, const __grid_constant__ tile::LoopNest<6> params,
                              const __grid_constant__ tile::LoopNest<6> summed) {
  __shared__ double scratch[2][kSumThreads];
  const auto neighbours = static_cast<unsigned>(args.neighbours);
  const unsigned parameter = blockIdx.x * neighbours + threadIdx.x % neighbours;
  double sum = 0;
  double product = 0;
  std::int64_t start[6] = {};
  if (parameter < params.count) {
    params.offsets(parameter, start);
    const bool wide = args.length > tile::kMaxIterations;
#pragma unroll 4
    for (std::int64_t i = threadIdx.x / neighbours; i < args.length; i += kSumThreads / args.neighbours) {
      std::int64_t at[6];
      if (wide) {
        summed.offsets_wide(static_cast<std::uint64_t>(i), at);
      } else {
        summed.offsets(static_cast<std::uint32_t>(i), at);
      }
      const double dy = read_or(args.dy, start[kLnSumDy] + at[kLnSumDy], 0);
      const double mean = args.rms ? 0 : read_or(args.mean, start[kLnSumMean] + at[kLnSumMean], 0);
      const double inverse = read_or(args.inverse, start[kLnSumInverse] + at[kLnSumInverse], 1);
      sum += dy;
      product += dy * (read_or(args.x, start[kLnSumX] + at[kLnSumX], 0) - mean) * inverse;
    }
  }
  scratch[0][threadIdx.x] = sum;
  scratch[1][threadIdx.x] = product;
  for (unsigned half = kSumThreads / 2; half >= neighbours; half /= 2) {
    __syncthreads();
    if (threadIdx.x < half) {
      scratch[0][threadIdx.x] += scratch[0][threadIdx.x + half];
      scratch[1][threadIdx.x] += scratch[1][threadIdx.x + half];
    }
  }
  __syncthreads();
  if (threadIdx.x >= neighbours || parameter >= params.count) return;
  write_at(args.dbias, start[kLnSumDbias], scratch[0][threadIdx.x]);
  write_at(args.dscale, start[kLnSumDscale], scratch[1][threadIdx.x]);
}

void advance(LayerNormTensor* tensor, std::int64_t elements) {
  if (tensor->data != nullptr)
    tensor->data = static_cast<char*>(tensor->data) + elements * tile::any_type_bytes(tensor->type);
}

void launch_sums(const LayerNormParams& params, cudaStream_t stream) {
  const tile::HostNest& summed = params.summed;
  // Threads side by side read memory side by side: along the sum, or along the parameters.
  const bool along_sum = summed.strides[kLnSumX][summed.rank - 1] == 1 && summed.count() > 1;
  const int neighbours = along_sum ? 1 : 32;
  tile::for_each_piece(params.params, tile::kMaxIterations, {},
                       [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
                         SumArgs args = {params.rms,  neighbours,     summed.count(), params.x,    params.dy,
                                         params.mean, params.inverse, params.dscale,  params.dbias};
                         advance(&args.x, offsets[kLnSumX]);
                         advance(&args.dy, offsets[kLnSumDy]);
                         advance(&args.mean, offsets[kLnSumMean]);
                         advance(&args.inverse, offsets[kLnSumInverse]);
                         advance(&args.dscale, offsets[kLnSumDscale]);
                         advance(&args.dbias, offsets[kLnSumDbias]);
                         const tile::LoopNest<6> loops(piece);
                         const auto blocks = static_cast<unsigned>((piece.count() + neighbours - 1) / neighbours);
                         cuda::launch_kernel(layer_norm_strided_params, {blocks, kSumThreads}, stream, args, loops,
                                             tile::LoopNest<6>(summed));
                       });
}

}  // namespace

void launch_layer_norm_strided(const LayerNormParams& params, CUstream_st* stream) {
  tile::for_each_piece(
      params.between, tile::kMaxIterations, {},
      [&](const tile::HostNest& piece, const std::int64_t(&offsets)[tile::kMaxTensors]) {
        StridedArgs args = {
            params.rms, params.given, params.epsilon, params.within.count(), params.x,
            params.out, params.mean,  params.inverse, params.scale,          params.backward ? params.dy : params.bias};
        advance(&args.x, offsets[kLnX]);
        advance(&args.out, offsets[kLnOut]);
        advance(&args.mean, offsets[kLnMean]);
        advance(&args.inverse, offsets[kLnInverse]);
        advance(&args.scale, offsets[kLnScale]);
        advance(&args.other, offsets[kLnOther]);
        const unsigned threads = args.length >= kLongSet ? kMaxThreads : kMinThreads;
        const tile::LoopNest<kLnSlots> within(params.within);
        const tile::LoopNest<kLnSlots> between(piece);
        if (params.backward) {
          cuda::launch_kernel(layer_norm_strided_dx, {between.count, threads}, stream, args, within, between);
        } else {
          cuda::launch_kernel(layer_norm_strided, {between.count, threads}, stream, args, within, between);
        }
      });
  if (params.backward && (params.dscale.data != nullptr || params.dbias.data != nullptr)) launch_sums(params, stream);
}

}  // namespace gpudnn::kernels
