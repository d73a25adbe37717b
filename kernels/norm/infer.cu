// Normalization with given statistics: y = alpha * f((x - mean) * slope + bias + z) + beta * y, element by element,
// with slope = scale / sqrt(variance + epsilon). It reads x and writes y.
//
// A set's three factors cost some forty instructions, more than the rest of eight elements. So a block makes them once
// for the sets that it meets, in shared memory, while its first packs of x are under way.
//
//   planes    (NCHW) a block takes a stretch of the tensor, and the sets of the planes that lie in it; a pack may reach
//             into the next plane
//   columns   (NHWC, per activation) a block takes up to 32 packs of neighbouring sets, and four lines for each thread
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/norm/infer.hpp"
#include "kernels/norm/launch_args.cuh"
#include "kernels/norm/pack.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kInferThreads = 256;
constexpr int kInferPacks = 4;                                 // in flight for each thread
constexpr int kInferPlanes = kInferThreads * kInferPacks + 1;  // of a block, none being shorter than a pack
constexpr int kInferLanes = 32;

// The factors of a set as one load.
struct InferFactors {
  float mean, slope, bias, unused;
};

template <class T>
__device__ __forceinline__ InferFactors infer_factors(const NormArgs<T>& args, const NormInfer& infer,
                                                      std::int64_t set) {
  const std::int64_t at = set * infer.params_step;
  const std::int64_t at_stats = set * infer.stats_step;
  const float slope = args.scale[at] * given_inverse(args, args.given_deviation[at_stats]);
  return {args.given_mean[at_stats], slope, args.bias[at], 0.0f};
}

// Whether y is the normalized value.
template <class T>
__device__ __forceinline__ bool infers_plainly(const NormArgs<T>& args) {
  return args.beta == 0.0f && args.alpha == 1.0f && args.side == nullptr && args.activation == NormActivation::none;
}
// What comes after the normalization where it is not, for N neighbouring elements.
template <class T, int N>
__device__ __forceinline__ void infer_more(const NormArgs<T>& args, std::int64_t at, float (&values)[N]) {
  float addend[N] = {}, old[N] = {};
  if (args.side != nullptr) tile::widen_pack<float>(tile::load_pack<T, N>(args.side + at), addend);
  if (args.beta != 0.0f) tile::widen_pack<float>(tile::load_pack<T, N>(args.out + at), old);
  if (args.side != nullptr) {
#pragma unroll
    for (int e = 0; e < N; ++e) values[e] += addend[e];
  }
  activate_all(args, values);
#pragma unroll
  for (int e = 0; e < N; ++e) {
    values[e] *= args.alpha;
    if (args.beta != 0.0f) values[e] += args.beta * old[e];
  }
}

template <class T>
__global__ void __launch_bounds__(kInferThreads)
    norm_infer_planes(const __grid_constant__ NormArgs<T> args, const __grid_constant__ NormInfer infer) {
  using P = NormPack<T>;
  constexpr int kWidth = P::kWidth;
  __shared__ InferFactors factors[kInferPlanes];
  const std::uint32_t begin = blockIdx.x * (kInferThreads * kInferPacks);
  const std::uint32_t end = min(begin + kInferThreads * kInferPacks, infer.packs);
  uint4 x[kInferPacks];
#pragma unroll
  for (int p = 0; p < kInferPacks; ++p) {
    const std::uint32_t pack = begin + p * kInferThreads + threadIdx.x;
    if (pack < end) x[p] = *reinterpret_cast<const uint4*>(args.x + static_cast<std::int64_t>(pack) * kWidth);
  }
  const std::uint32_t first_plane = infer.run.quotient(begin * kWidth);
  const std::uint32_t planes = infer.run.quotient(end * kWidth - 1) - first_plane + 1;
  for (std::uint32_t plane = threadIdx.x; plane < planes; plane += kInferThreads) {
    std::uint32_t set;
    (void)infer.sets.divmod(first_plane + plane, &set);
    factors[plane] = infer_factors(args, infer, set);
  }
  __syncthreads();
  const bool plain =
      args.beta == 0.0f && args.alpha == 1.0f && args.side == nullptr && args.activation == NormActivation::none;
#pragma unroll
  for (int p = 0; p < kInferPacks; ++p) {
    const std::uint32_t pack = begin + p * kInferThreads + threadIdx.x;
    if (pack >= end) break;
    std::uint32_t rest;
    const std::uint32_t plane = infer.run.divmod(pack * kWidth, &rest) - first_plane;
    const InferFactors its = factors[plane];
    float values[kWidth];
    P::widen(x[p], values);
    const auto left = static_cast<int>(infer.run.divisor - rest);  // of the plane
    if (left >= kWidth) {
#pragma unroll
      for (int e = 0; e < kWidth; ++e) values[e] = (values[e] - its.mean) * its.slope + its.bias;
    } else {
      const InferFactors next = factors[plane + 1];
#pragma unroll
      for (int e = 0; e < kWidth; ++e) {
        const bool mine = e < left;
        values[e] = (values[e] - (mine ? its.mean : next.mean)) * (mine ? its.slope : next.slope) +
                    (mine ? its.bias : next.bias);
      }
    }
    const std::int64_t at = static_cast<std::int64_t>(pack) * kWidth;
    if (!plain) infer_more(args, at, values);
    ptx::st_global(reinterpret_cast<uint4*>(args.out + at), P::narrow(values));
  }
}

template <class T>
__global__ void __launch_bounds__(kInferThreads, 4)
    norm_infer_columns(const __grid_constant__ NormArgs<T> args, const __grid_constant__ NormInfer infer) {
  constexpr int kWidth = NormPack<T>::kWidth;
  constexpr int kQuads = kWidth / 4;
  using Quad = tile::Pack<T, 4>;
  struct Words {
    Quad quads[kQuads];
  };
  static_assert(sizeof(Words) == 16);
  __shared__ float4 means[kQuads][kInferLanes], slopes[kQuads][kInferLanes], biases[kQuads][kInferLanes];
  const auto lanes = static_cast<std::uint32_t>(infer.lanes);
  const std::uint32_t tiles = (infer.line_packs + lanes - 1) / lanes;
  const std::uint32_t tile_number = blockIdx.x % tiles;
  const std::uint32_t rows = kInferThreads / lanes;
  const std::uint32_t lane = threadIdx.x % lanes;
  const std::uint32_t pack = tile_number * lanes + lane;
  const std::uint32_t line = blockIdx.x / tiles * (rows * kInferPacks) + threadIdx.x / lanes;
  const std::uint32_t lines = pack < infer.line_packs ? infer.lines : 0;
  const std::int64_t step = static_cast<std::int64_t>(rows) * infer.line_stride;
  const std::int64_t at =
      static_cast<std::int64_t>(line) * infer.line_stride + static_cast<std::int64_t>(pack) * kWidth;
  uint4 x[kInferPacks];
#pragma unroll
  for (int p = 0; p < kInferPacks; ++p) {
    if (line + p * rows < lines) x[p] = *reinterpret_cast<const uint4*>(args.x + at + p * step);
  }
  const std::uint32_t first_set = tile_number * lanes * kWidth;
  const std::uint32_t sets = min(lanes * kWidth, infer.line_packs * kWidth - first_set);
  for (std::uint32_t set = threadIdx.x; set < sets; set += kInferThreads) {
    const InferFactors its = infer_factors(args, infer, first_set + set);
    const std::uint32_t quad = set % kWidth / 4;
    const std::uint32_t element = set / kWidth * 4 + set % 4;
    reinterpret_cast<float*>(means[quad])[element] = its.mean;
    reinterpret_cast<float*>(slopes[quad])[element] = its.slope;
    reinterpret_cast<float*>(biases[quad])[element] = its.bias;
  }
  __syncthreads();
  const bool plain = infers_plainly(args);
  Words words[kInferPacks];
  memcpy(&words, &x, sizeof words);
#pragma unroll
  for (int quad = 0; quad < kQuads; ++quad) {
    const float4 mean = means[quad][lane], slope = slopes[quad][lane], bias = biases[quad][lane];
#pragma unroll
    for (int p = 0; p < kInferPacks; ++p) {
      if (line + p * rows >= lines) break;
      float values[4];
      tile::widen_pack<float>(words[p].quads[quad], values);
      values[0] = (values[0] - mean.x) * slope.x + bias.x;
      values[1] = (values[1] - mean.y) * slope.y + bias.y;
      values[2] = (values[2] - mean.z) * slope.z + bias.z;
      values[3] = (values[3] - mean.w) * slope.w + bias.w;
      if (!plain) infer_more<T, 4>(args, at + p * step + quad * 4, values);
      words[p].quads[quad] = tile::narrow_pack<T>(values);
    }
  }
  memcpy(&x, &words, sizeof words);
#pragma unroll
  for (int p = 0; p < kInferPacks; ++p) {
    if (line + p * rows < lines) ptx::st_global(reinterpret_cast<uint4*>(args.out + at + p * step), x[p]);
  }
}

}  // namespace

void launch_norm_infer(const NormParams& params, const NormInfer& infer, CUstream_st* stream) {
  tile::with_element_type(params.type, [&]<class T>() {
    if constexpr (sizeof(T) < 8) {
      const NormArgs<T> args = norm_args<T>(params);
      if (infer.columns != 0) {
        const auto lanes = static_cast<std::uint32_t>(infer.lanes);
        const std::uint32_t tiles = (infer.line_packs + lanes - 1) / lanes;
        const std::uint32_t of_block = kInferThreads / lanes * kInferPacks;
        const std::uint32_t blocks = tiles * ((infer.lines + of_block - 1) / of_block);
        cuda::launch_kernel(norm_infer_columns<T>, {blocks, kInferThreads}, stream, args, infer);
      } else {
        constexpr std::uint32_t kOfBlock = kInferThreads * kInferPacks;
        const std::uint32_t blocks = (infer.packs + kOfBlock - 1) / kOfBlock;
        cuda::launch_kernel(norm_infer_planes<T>, {blocks, kInferThreads}, stream, args, infer);
      }
    }
  });
}

}  // namespace gpudnn::kernels
