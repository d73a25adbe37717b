// The stand-in driver: tensor maps, whose arguments are checked against the limits that the driver's documentation
// gives, and against the memory that they are to read.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <string_view>

#include "standin/state.hpp"

namespace gpudnn::standin {
namespace {

constexpr cuuint32_t kMaxDimensions = 5;

// What the stand-in keeps of a map in the map itself.
struct Map {
  std::uint64_t mark = 0;
  std::uint64_t bytes = 0;  // from the first element to behind the last
};
constexpr std::uint64_t kMark = 0x70616d726f736e74;
static_assert(sizeof(Map) <= sizeof(CUtensorMap));

struct Shape {
  CUtensorMap* map = nullptr;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  cuuint32_t rank = 0;
  const void* address = nullptr;
  const cuuint64_t* dims = nullptr;
  const cuuint64_t* strides = nullptr;  // bytes; all but the first dimension's
  const cuuint32_t* element_strides = nullptr;
  cuuint64_t row = 0;  // elements of a box along the first dimension
  CUtensorMapInterleave interleave = CU_TENSOR_MAP_INTERLEAVE_NONE;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
};

std::uint64_t bytes_of(CUtensorMapDataType type) {
  switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
      return 1;
    case CU_TENSOR_MAP_DATA_TYPE_UINT16:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
      return 2;
    case CU_TENSOR_MAP_DATA_TYPE_UINT32:
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ:
      return 4;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64:
    case CU_TENSOR_MAP_DATA_TYPE_INT64:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64:
      return 8;
    default:
      return 0;
  }
}

std::uint64_t bytes_of(CUtensorMapSwizzle swizzle) {
  switch (swizzle) {
    case CU_TENSOR_MAP_SWIZZLE_32B:
      return 32;
    case CU_TENSOR_MAP_SWIZZLE_64B:
      return 64;
    case CU_TENSOR_MAP_SWIZZLE_128B:
      return 128;
    default:
      return 256 * 8;  // none: as much as a box may have
  }
}

std::string numbered(const char* what, cuuint32_t i, std::uint64_t value) {
  return std::string(what) + " " + std::to_string(i) + " is " + std::to_string(value);
}

// What is wrong with what both kinds of map have.
std::string wrong(const Shape& s, cuuint32_t least_rank) {
  if (reinterpret_cast<std::uintptr_t>(s.map) % 64 != 0) return "the map is not aligned to 64 bytes";
  const std::uint64_t element = bytes_of(s.type);
  if (element == 0) return "the stand-in has no data type " + std::to_string(s.type);
  if (s.rank < least_rank || s.rank > kMaxDimensions) return "the rank is " + std::to_string(s.rank);
  if (s.interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) return "the stand-in has no interleaved maps";
  if (reinterpret_cast<std::uintptr_t>(s.address) % 16 != 0) return "the address is not aligned to 16 bytes";
  for (cuuint32_t i = 0; i < s.rank; ++i) {
    if (s.dims[i] == 0 || s.dims[i] > (cuuint64_t{1} << 32)) return numbered("dimension", i, s.dims[i]);
    if (i > 0 && (s.strides[i - 1] % 16 != 0 || s.strides[i - 1] >= (cuuint64_t{1} << 40)))
      return numbered("the stride of dimension", i, s.strides[i - 1]);
    if (s.element_strides[i] == 0 || s.element_strides[i] > 8)
      return numbered("the element stride of dimension", i, s.element_strides[i]);
  }
  if (s.row * element % 16 != 0) return "a box's rows have " + std::to_string(s.row * element) + " bytes";
  if (s.row * element > bytes_of(s.swizzle))
    return "a box's rows have " + std::to_string(s.row * element) + " bytes, more than the swizzle";
  return "";
}

CUresult keep(const Shape& s, const char* function, const std::string& what) {
  if (!thread_state().has_context) return CUDA_ERROR_INVALID_CONTEXT;
  if (!what.empty()) {
    violation("%s: %s", function, what.c_str());
    return CUDA_ERROR_INVALID_VALUE;
  }
  Map map = {kMark, s.dims[0] * bytes_of(s.type)};
  for (cuuint32_t i = 1; i < s.rank; ++i) map.bytes += (s.dims[i] - 1) * s.strides[i - 1];
  std::memset(s.map, 0, sizeof *s.map);
  std::memcpy(s.map, &map, sizeof map);
  return CUDA_SUCCESS;
}

CUresult CUDAAPI encode_tiled(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                              const cuuint64_t* dims, const cuuint64_t* strides, const cuuint32_t* box,
                              const cuuint32_t* element_strides, CUtensorMapInterleave interleave,
                              CUtensorMapSwizzle swizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) {
  return driver_call("cuTensorMapEncodeTiled", [&] {
    const Shape shape = {map, type, rank, address, dims, strides, element_strides, box[0], interleave, swizzle};
    std::string what = wrong(shape, 1);
    for (cuuint32_t i = 0; i < rank && what.empty(); ++i) {
      if (box[i] == 0 || box[i] > 256) what = numbered("the box's dimension", i, box[i]);
    }
    return keep(shape, "cuTensorMapEncodeTiled", what);
  });
}

CUresult CUDAAPI encode_im2col(CUtensorMap* map, CUtensorMapDataType type, cuuint32_t rank, void* address,
                               const cuuint64_t* dims, const cuuint64_t* strides, const int* lower, const int* upper,
                               cuuint32_t channels, cuuint32_t pixels, const cuuint32_t* element_strides,
                               CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                               CUtensorMapFloatOOBfill) {
  return driver_call("cuTensorMapEncodeIm2col", [&] {
    const Shape shape = {map, type, rank, address, dims, strides, element_strides, channels, interleave, swizzle};
    std::string what = wrong(shape, 3);
    if (what.empty() && (channels == 0 || channels > 256)) what = "channels are " + std::to_string(channels);
    if (what.empty() && (pixels == 0 || pixels > 1024)) what = "pixels are " + std::to_string(pixels);
    for (cuuint32_t i = 0; i + 2 < rank && what.empty(); ++i) {
      const int corner = 1 << (rank == 3 ? 15 : rank == 4 ? 7 : 4);
      if (lower[i] < -corner || lower[i] >= corner || upper[i] < -corner || upper[i] >= corner)
        what = "corners " + std::to_string(lower[i]) + " and " + std::to_string(upper[i]) + " of a map of rank " +
               std::to_string(rank);
      if (static_cast<std::int64_t>(dims[i + 1]) + upper[i] - lower[i] <= 0)
        what = numbered("no place is left in dimension", i + 1, dims[i + 1]);
    }
    return keep(shape, "cuTensorMapEncodeIm2col", what);
  });
}

CUresult CUDAAPI replace_address(CUtensorMap* map, void* address) {
  return driver_call("cuTensorMapReplaceAddress", [&] {
    if (!thread_state().has_context) return CUDA_ERROR_INVALID_CONTEXT;
    Map kept;
    std::memcpy(static_cast<void*>(&kept), map, sizeof kept);
    const auto at = reinterpret_cast<std::uintptr_t>(address);
    std::string what;
    if (reinterpret_cast<std::uintptr_t>(map) % 64 != 0) what = "the map is not aligned to 64 bytes";
    if (kept.mark != kMark) what = "the map was never encoded";
    if (at % 16 != 0) what = "the address is not aligned to 16 bytes";
    // Ragged sequences, whose rows the device alone knows, get a map of as many as there can be.
    constexpr std::uint64_t kOfAnyLength = std::uint64_t{1} << 32;
    if (what.empty()) {
      what = outside_memory(at, kept.bytes < kOfAnyLength ? kept.bytes : 1);
      if (!what.empty()) what = "a map of " + std::to_string(kept.bytes) + " bytes, " + what;
    }
    if (what.empty()) return CUDA_SUCCESS;
    violation("cuTensorMapReplaceAddress: %s", what.c_str());
    return CUDA_ERROR_INVALID_VALUE;
  });
}

}  // namespace

void* driver_function(const char* name) {
  const std::string_view wanted = name;
  if (wanted == "cuTensorMapEncodeTiled") return reinterpret_cast<void*>(&encode_tiled);
  if (wanted == "cuTensorMapEncodeIm2col") return reinterpret_cast<void*>(&encode_im2col);
  if (wanted == "cuTensorMapReplaceAddress") return reinterpret_cast<void*>(&replace_address);
  return graph_driver_function(wanted);
}

}  // namespace gpudnn::standin
