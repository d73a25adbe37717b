// Division of 32-bit indices by a divisor known at launch: a multiply and a shift in place of the divide.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define GPUDNN_HOST_DEVICE __host__ __device__ __forceinline__
#else
#define GPUDNN_HOST_DEVICE inline
#endif

namespace gpudnn::tile {

// Plain data, made on the host. Exact for dividends and divisors below 2^31 (the divisor at least 1).
//
// With 2^(shift-1) < d <= 2^shift and m = floor(2^32 * (2^shift - d) / d) + 1, the quotient is (hi(n * m) + n) >>
// shift: (m + 2^32) / 2^(32 + shift) exceeds 1 / d by at most 1 / 2^(32 + shift), too little to carry any n < 2^32 into
// the next quotient, and the sum cannot overflow for n < 2^31 because hi(n * m) is below n.
struct FastDivmod {
  std::uint32_t divisor = 1;
  std::uint32_t multiplier = 1;
  std::uint32_t shift = 0;

  FastDivmod() = default;
  explicit FastDivmod(std::uint32_t d) : divisor(d) {
    while ((std::uint64_t{1} << shift) < d) ++shift;
    multiplier = static_cast<std::uint32_t>(((std::uint64_t{1} << 32) * ((std::uint64_t{1} << shift) - d)) / d + 1);
  }

  GPUDNN_HOST_DEVICE std::uint32_t quotient(std::uint32_t n) const {
#ifdef __CUDA_ARCH__
    const std::uint32_t high = __umulhi(n, multiplier);
#else
    const auto high = static_cast<std::uint32_t>((static_cast<std::uint64_t>(n) * multiplier) >> 32);
#endif
    return (high + n) >> shift;
  }

  // Returns the quotient and leaves the remainder.
  GPUDNN_HOST_DEVICE std::uint32_t divmod(std::uint32_t n, std::uint32_t* remainder) const {
    const std::uint32_t q = quotient(n);
    *remainder = n - q * divisor;
    return q;
  }
};

}  // namespace gpudnn::tile
