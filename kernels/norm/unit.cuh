// Units of 8 elements: how a thread loads, keeps and stores one, and what normalization makes of an element.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/norm/norm.hpp"
#include "kernels/ptx/max_nan.cuh"
#include "kernels/tile/channel_reduce.cuh"
#include "kernels/tile/numeric.cuh"

namespace gpudnn::kernels {

template <class T>
struct NormArgs {
  using C = tile::Compute<T>;
  const T* x;
  const T* side;
  T* out;
  T* dz;
  unsigned char* mask;
  const C* scale;
  const C* bias;
  const C* given_mean;
  const C* given_deviation;
  C* running_mean;
  C* running_variance;
  const C* old_mean;
  const C* old_variance;
  C* saved_mean;
  C* saved_inverse;
  C* dscale;
  C* dbias;
  C* partials;
  C* results;
  C alpha, beta, alpha_param, beta_param, factor, epsilon, ceiling, count, inverse_count;
  tile::ElementType type;  // of the data; T but where T = float stands for any type but double
  std::int32_t bytes;      // of an element
  NormStage stage;
  NormActivation activation;
  bool propagate_nan;
  bool inverse_given;  // forward: given_deviation is 1 / sqrt(variance + epsilon)
  std::int32_t parts;
  std::int32_t lanes;
  std::int32_t cached;
};

// The bits of 8 elements as words, so that 16-bit ones share registers.
template <class T>
struct Unit {
  static constexpr int kWords = kUnit * static_cast<int>(sizeof(T)) / 4;
  std::uint32_t words[kWords];

  __device__ __forceinline__ T get(int i) const {
    if constexpr (sizeof(T) == 2) {
      return tile::half_of<T>(words[i / 2], i % 2);
    } else {
      T value;
      memcpy(&value, words + i * (sizeof(T) / 4), sizeof value);
      return value;
    }
  }
  __device__ __forceinline__ void set(int i, T value) {
    if constexpr (sizeof(T) == 2) {
      const T other = tile::half_of<T>(words[i / 2], 1 - i % 2);
      words[i / 2] = i % 2 == 0 ? tile::word_of(value, other) : tile::word_of(other, value);
    } else {
      memcpy(words + i * (sizeof(T) / 4), &value, sizeof value);
    }
  }
  __device__ __forceinline__ void clear() {
#pragma unroll
    for (int w = 0; w < kWords; ++w) words[w] = 0;
  }
};

// Loads of kBytes each, as far as the unit has elements; zeros beyond.
template <int kBytes, class T>
__device__ __forceinline__ void load_pieces(const T* from, int valid, Unit<T>* unit) {
  using Piece = typename tile::VectorOf<kBytes>::type;
  constexpr int kElements = kBytes / static_cast<int>(sizeof(T));
#pragma unroll
  for (int p = 0; p < kUnit / kElements; ++p) {
    Piece piece{};
    if (p * kElements < valid) piece = *reinterpret_cast<const Piece*>(from + p * kElements);
    memcpy(unit->words + p * (kBytes / 4), &piece, sizeof piece);
  }
}
template <int kBytes, class T>
__device__ __forceinline__ void store_pieces(T* to, int valid, const Unit<T>& unit) {
  using Piece = typename tile::VectorOf<kBytes>::type;
  constexpr int kElements = kBytes / static_cast<int>(sizeof(T));
#pragma unroll
  for (int p = 0; p < kUnit / kElements; ++p) {
    Piece piece;
    memcpy(&piece, unit.words + p * (kBytes / 4), sizeof piece);
    if (p * kElements < valid) *reinterpret_cast<Piece*>(to + p * kElements) = piece;
  }
}

// Where element i of a slot's tensor lies. The kernels that go element by element take all types but double in one
// instance, with T = float: there `bytes` tells the size of what really lies there.
template <class T>
__device__ __forceinline__ T* advance(T* base, std::int64_t elements, int bytes) {
  using Byte = std::conditional_t<std::is_const_v<T>, const char, char>;
  return reinterpret_cast<T*>(reinterpret_cast<Byte*>(base) + elements * bytes);
}

__device__ __forceinline__ double load_element(const double* from, tile::ElementType) { return *from; }
__device__ __forceinline__ float load_element(const float* from, tile::ElementType type) {
  if (type == tile::ElementType::f16) return tile::widen<float>(*reinterpret_cast<const tile::Half*>(from));
  if (type == tile::ElementType::bf16) return tile::widen<float>(*reinterpret_cast<const tile::BFloat16*>(from));
  return *from;
}
__device__ __forceinline__ void store_element(double* to, double value, tile::ElementType) { *to = value; }
__device__ __forceinline__ void store_element(float* to, float value, tile::ElementType type) {
  if (type == tile::ElementType::f16) {
    *reinterpret_cast<tile::Half*>(to) = tile::narrow<tile::Half>(value);
  } else if (type == tile::ElementType::bf16) {
    *reinterpret_cast<tile::BFloat16*>(to) = tile::narrow<tile::BFloat16>(value);
  } else {
    *to = value;
  }
}

// Out of line: it is long, and a thread that goes element by element has one unit in flight anyhow.
template <class T>
__device__ __noinline__ Unit<T> load_elements(const T* line, const NormWalk& walk, int slot, NormUnit unit,
                                              tile::ElementType type, int bytes) {
  Unit<T> loaded;
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    T value = T(0);
    if (i < unit.valid) value = load_element(advance(line, element_in_line(walk, slot, unit, i), bytes), type);
    loaded.set(i, value);
  }
  return loaded;
}
template <class T>
__device__ __noinline__ void store_elements(T* line, const NormWalk& walk, int slot, NormUnit unit, Unit<T> values,
                                            tile::ElementType type, int bytes) {
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    if (i < unit.valid) {
      store_element(advance(line, element_in_line(walk, slot, unit, i), bytes), values.get(i), type);
    }
  }
}

// `line` is where the unit's line begins. Runs are contiguous in pieces of 16 bytes, or of 4 for 16-bit types.
template <class T>
__device__ __forceinline__ Unit<T> load_run(const T* line, const NormWalk& walk, const NormUnit& unit) {
  Unit<T> loaded;
  const T* const from = line + static_cast<std::int64_t>(unit.within) * kUnit;
  if (sizeof(T) == 4 || walk.access == 16) {
    load_pieces<16>(from, unit.valid, &loaded);
  } else {
    load_pieces<4>(from, unit.valid, &loaded);
  }
  return loaded;
}
template <class T>
__device__ __forceinline__ void store_run(T* line, const NormWalk& walk, const NormUnit& unit, const Unit<T>& values) {
  T* const to = line + static_cast<std::int64_t>(unit.within) * kUnit;
  if (sizeof(T) == 4 || walk.access == 16) {
    store_pieces<16>(to, unit.valid, values);
  } else {
    store_pieces<4>(to, unit.valid, values);
  }
}

// kElements: one element at a time, and any loops.
template <bool kElements, class T>
__device__ __forceinline__ Unit<T> load_unit(const NormArgs<T>& args, const T* line, const NormWalk& walk, int slot,
                                             const NormUnit& unit) {
  if constexpr (kElements) {
    return load_elements(line, walk, slot, unit, args.type, args.bytes);
  } else {
    return load_run(line, walk, unit);
  }
}
template <bool kElements, class T>
__device__ __forceinline__ void store_unit(const NormArgs<T>& args, T* line, const NormWalk& walk, int slot,
                                           const NormUnit& unit, const Unit<T>& values) {
  if constexpr (kElements) {
    store_elements(line, walk, slot, unit, values, args.type, args.bytes);
  } else {
    store_run(line, walk, unit, values);
  }
}
template <bool kElements, class T>
__device__ __forceinline__ T* moved(T* base, std::int64_t elements, int bytes) {
  if constexpr (kElements) return advance(base, elements, bytes);
  return base + elements;
}

template <class C, class T>
__device__ __forceinline__ void widen_unit(const Unit<T>& unit, C (&values)[kUnit]) {
#pragma unroll
  for (int i = 0; i < kUnit; ++i) values[i] = tile::widen<C>(unit.get(i));
}
template <class T, class C>
__device__ __forceinline__ Unit<T> narrow_unit(const C (&values)[kUnit]) {
  Unit<T> unit;
  const tile::Pack<T, kUnit> pack = tile::narrow_pack<T>(values);
  static_assert(sizeof pack == sizeof unit);
  memcpy(&unit, &pack, sizeof unit);
  return unit;
}

// A thread's units in shared memory, in planes of 16 bytes for each thread so that no two lanes meet in a bank.
template <class T>
struct UnitCache {
  static constexpr int kPlanes = Unit<T>::kWords / 4;
  uint4* memory;
  int tensors;  // in the cache

  __device__ __forceinline__ int plane(int round, int tensor, int p) const {
    return ((round * tensors + tensor) * kPlanes + p) * static_cast<int>(blockDim.x) + static_cast<int>(threadIdx.x);
  }
  __device__ __forceinline__ void put(int round, int tensor, const Unit<T>& unit) {
#pragma unroll
    for (int p = 0; p < kPlanes; ++p) {
      uint4 words;
      memcpy(&words, unit.words + 4 * p, sizeof words);
      memory[plane(round, tensor, p)] = words;
    }
  }
  __device__ __forceinline__ Unit<T> get(int round, int tensor) const {
    Unit<T> unit;
#pragma unroll
    for (int p = 0; p < kPlanes; ++p) {
      const uint4 words = memory[plane(round, tensor, p)];
      memcpy(unit.words + 4 * p, &words, sizeof words);
    }
    return unit;
  }
};

// The activation, and whether its slope is 1.
template <class T, class C>
__device__ __forceinline__ C activate_normalized(const NormArgs<T>& args, C value, bool* passes) {
  if (args.activation == NormActivation::none) return value;
  if (value != value) {
    *passes = args.propagate_nan;
    return args.propagate_nan ? value : C(0);
  }
  const bool clipped = args.activation == NormActivation::clipped_relu;
  *passes = value > C(0) && (!clipped || value < args.ceiling);
  const C positive = value > C(0) ? value : C(0);
  return clipped && positive > args.ceiling ? args.ceiling : positive;
}

// The activation of values whose slopes nobody asks for: no branch for each.
template <class T, int N>
__device__ __forceinline__ void activate_all(const NormArgs<T>& args, float (&values)[N]) {
  if (args.activation == NormActivation::none) return;
  if (args.propagate_nan) {
#pragma unroll
    for (float& value : values) value = ptx::max_nan(value, 0.0f);
  } else {
#pragma unroll
    for (float& value : values) value = fmaxf(value, 0.0f);
  }
  if (args.activation == NormActivation::relu) return;
#pragma unroll
  for (float& value : values) value = value > args.ceiling ? args.ceiling : value;
}

// dy where the mask has a bit, 0 elsewhere.
template <class T>
__device__ __forceinline__ void apply_mask(unsigned bits, Unit<T>* unit) {
#pragma unroll
  for (int i = 0; i < kUnit; ++i) {
    if ((bits >> i & 1u) == 0) unit->set(i, tile::narrow<T>(tile::Compute<T>(0)));
  }
}

template <class C>
struct Statistics {
  C mean, variance, inverse;
};
// What a set's statistics are to the caller: the running pair moves towards them, the saved pair takes them. The old
// running pair plays no part where the factor is 1, and may be anything then.
template <class T, class C = typename NormArgs<T>::C>
__device__ __forceinline__ void keep_statistics(const NormArgs<T>& args, std::int64_t at, const Statistics<C>& its,
                                                C old_mean, C old_variance) {
  if (args.running_mean != nullptr) {
    const C unbiased = args.count > C(1) ? its.variance * (args.count / (args.count - C(1))) : its.variance;
    const C old = C(1) - args.factor;
    C running_mean = args.factor * its.mean;
    C running_variance = args.factor * unbiased;
    if (old != C(0)) {
      running_mean += old * old_mean;
      running_variance += old * old_variance;
    }
    args.running_mean[at] = running_mean;
    args.running_variance[at] = running_variance;
  }
  if (args.saved_mean != nullptr) {
    args.saved_mean[at] = its.mean;
    args.saved_inverse[at] = its.inverse;
  }
}
template <class T, class C = typename NormArgs<T>::C>
__device__ __forceinline__ void keep_statistics(const NormArgs<T>& args, std::int64_t at, C mean, C variance,
                                                C inverse) {
  const bool reads = args.running_mean != nullptr && args.factor != C(1);
  keep_statistics(args, at, Statistics<C>{mean, variance, inverse}, reads ? args.old_mean[at] : C(0),
                  reads ? args.old_variance[at] : C(0));
}

template <class C>
__device__ __forceinline__ C inverse_deviation(C variance, C epsilon) {
  return C(1) / sqrt(variance + epsilon);
}

// Of what is given to forward.
template <class T, class C = typename NormArgs<T>::C>
__device__ __forceinline__ C given_inverse(const NormArgs<T>& args, C deviation) {
  return args.inverse_given ? deviation : inverse_deviation(deviation, args.epsilon);
}

// The gradients of scale and bias: `product` is the sum of dy * (x - mean).
template <class T, class C = typename NormArgs<T>::C>
__device__ __forceinline__ void keep_gradients(const NormArgs<T>& args, std::int64_t at, C sum, C product, C inverse) {
  C dscale = args.alpha_param * (product * inverse);
  C dbias = args.alpha_param * sum;
  if (args.beta_param != C(0)) {
    dscale += args.beta_param * args.dscale[at];
    dbias += args.beta_param * args.dbias[at];
  }
  args.dscale[at] = dscale;
  args.dbias[at] = dbias;
}

// y of one element, forward: before alpha and beta.
template <class C>
struct ForwardFactors {
  C mean, slope, bias;
  __device__ __forceinline__ void set(C its_mean, C inverse, C scale, C its_bias) {
    mean = its_mean;
    slope = scale * inverse;
    bias = its_bias;
  }
  __device__ __forceinline__ C operator()(C x) const { return (x - mean) * slope + bias; }
};

// dx of one element: factor * (g - offset - (x - mean) * slope).
template <class C>
struct BackwardFactors {
  C mean, factor, offset, slope;
  __device__ __forceinline__ void set(C its_mean, C inverse, C scale, C sum, C product, C inverse_count) {
    mean = its_mean;
    factor = scale * inverse;
    offset = sum * inverse_count;
    slope = (product * inverse) * inverse * inverse_count;
  }
  __device__ __forceinline__ C operator()(C x, C g) const { return factor * (g - offset - (x - mean) * slope); }
};

// Units in flight for each thread: `kBytes`, or one where elements go one by one.
template <class T, int kBytes, bool kBackward, bool kElements>
inline constexpr int kUnitsInFlight = [] {
  if (kElements) return 1;
  const int units = kBytes / (kUnit * static_cast<int>(sizeof(T)) * (kBackward ? 2 : 1));
  return units > 0 ? units : 1;
}();

}  // namespace gpudnn::kernels
