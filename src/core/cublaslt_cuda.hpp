// The few functions of cuBLASLt that the library calls, loaded at run time: neither its header nor its library is
// needed to build or to run. Names and values are those of its interface, versions 12 and 13.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace gpudnn::cuda::cublaslt {

using Handle = struct HandleObject*;
using Desc = struct DescObject*;
using Layout = struct LayoutObject*;
using Preference = struct PreferenceObject*;

struct Algorithm {
  std::uint64_t data[8];
};
struct HeuristicResult {
  Algorithm algorithm;
  std::size_t workspace_bytes;
  int state;  // 0: it may be used
  float waves;
  int reserved[4];
};

enum Compute : std::int32_t { kF32 = 68, kF64 = 70, kF32AsTf32 = 77 };
enum DescAttribute : std::int32_t {
  kTransposeA = 3,
  kTransposeB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kScalePointerA = 17,
  kScalePointerB = 18,
  kScalePointerD = 20,
  kAmaxPointerD = 21,
  kFastAccumulation = 25,
  kBiasType = 26,
};
enum LayoutAttribute : std::int32_t { kBatchCount = 5, kBatchStride = 6 };
enum PreferenceAttribute : std::int32_t { kMaxWorkspace = 1 };
enum Epilogue : std::int32_t { kPlain = 1, kBias = 4 };

struct Library {
  int (*create)(Handle*) = nullptr;
  int (*desc_create)(Desc*, std::int32_t compute, std::int32_t scale_type) = nullptr;
  int (*desc_destroy)(Desc) = nullptr;
  int (*desc_set)(Desc, std::int32_t, const void*, std::size_t) = nullptr;
  int (*layout_create)(Layout*, std::int32_t type, std::uint64_t rows, std::uint64_t columns,
                       std::int64_t step) = nullptr;
  int (*layout_destroy)(Layout) = nullptr;
  int (*layout_set)(Layout, std::int32_t, const void*, std::size_t) = nullptr;
  int (*preference_create)(Preference*) = nullptr;
  int (*preference_destroy)(Preference) = nullptr;
  int (*preference_set)(Preference, std::int32_t, const void*, std::size_t) = nullptr;
  int (*heuristic)(Handle, Desc, Layout, Layout, Layout, Layout, Preference, int, HeuristicResult*, int*) = nullptr;
  int (*matmul)(Handle, Desc, const void* alpha, const void* a, Layout, const void* b, Layout, const void* beta,
                const void* c, Layout, void* d, Layout, const Algorithm*, void* workspace, std::size_t,
                cudaStream_t) = nullptr;
};

// Null where it is not installed or turned off (*why, which may be null, says it). Loaded by the first call.
[[nodiscard]] const Library* library(const char** why) noexcept;
// The handle for the device, which is current; null if it cannot be made. Kept for ever.
[[nodiscard]] Handle handle_of(int device) noexcept;

}  // namespace gpudnn::cuda::cublaslt
