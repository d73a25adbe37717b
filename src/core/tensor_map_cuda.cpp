// Tensor maps by the driver's functions, which the runtime knows: libcuda is not linked.
// SPDX-License-Identifier: Apache-2.0
#include "core/tensor_map_cuda.hpp"

#include <cuda_runtime_api.h>

#include "core/driver_function_cuda.hpp"
#include "core/relaxed_capture_cuda.hpp"
#include "kernels/tile/tensor_map.hpp"

namespace gpudnn::cuda {
namespace {

static_assert(sizeof(CUtensorMap) == sizeof(tile::TensorMap) && alignof(CUtensorMap) <= alignof(tile::TensorMap),
              "the driver's tensor map");

constexpr std::size_t kMaxMapDimensions = 5;

template <class Function>
void find(const char* name, Function* function) {
  *function = driver_function<Function>(name);
}

}  // namespace

const TensorMapDriver& tensor_map_driver() noexcept {
  static const TensorMapDriver known = [] {
    TensorMapDriver driver;
    find("cuTensorMapEncodeTiled", &driver.encode_tiled);
    find("cuTensorMapEncodeIm2col", &driver.encode_im2col);
    find("cuTensorMapReplaceAddress", &driver.replace_address);
    return driver;
  }();
  return known;
}

bool makes_tensor_maps() noexcept {
  const TensorMapDriver& driver = tensor_map_driver();
  return driver.encode_tiled != nullptr && driver.encode_im2col != nullptr && driver.replace_address != nullptr;
}

CUtensorMapDataType map_type(tile::ElementType type, bool rounds_to_tf32) noexcept {
  switch (type) {
    case tile::ElementType::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case tile::ElementType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case tile::ElementType::f64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case tile::ElementType::f32:
      break;
  }
  return rounds_to_tf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
}

CUtensorMapSwizzle swizzle_of_rows(std::int64_t bytes) noexcept {
  return bytes == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
         : bytes == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
         : bytes == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                       : CU_TENSOR_MAP_SWIZZLE_NONE;
}

bool encode_boxes(const TmaBoxes& boxes, const MapFormat& format, void* map) noexcept {
  cuuint64_t dims[kMaxMapDimensions] = {};
  cuuint64_t steps[kMaxMapDimensions - 1] = {};
  cuuint32_t box[kMaxMapDimensions] = {};
  constexpr cuuint32_t kOnes[kMaxMapDimensions] = {1, 1, 1, 1, 1};
  for (int i = 0; i < boxes.rank; ++i) {
    dims[i] = static_cast<cuuint64_t>(boxes.extent[i]);
    box[i] = static_cast<cuuint32_t>(boxes.box[i]);
    if (i > 0) steps[i - 1] = static_cast<cuuint64_t>(boxes.step[i - 1]);
  }
  const TensorMapDriver& driver = tensor_map_driver();
  if (driver.encode_tiled == nullptr) return false;  // a plan for a device that is only described
  return driver.encode_tiled(static_cast<CUtensorMap*>(map), format.type, static_cast<cuuint32_t>(boxes.rank),
                             placeholder_address(), dims, steps, box, kOnes, CU_TENSOR_MAP_INTERLEAVE_NONE,
                             format.swizzle, format.promotion, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

bool replace_address(void* map, const void* address) noexcept {
  const TensorMapDriver& driver = tensor_map_driver();
  return driver.replace_address != nullptr &&
         driver.replace_address(static_cast<CUtensorMap*>(map), const_cast<void*>(address)) == CUDA_SUCCESS;
}

bool make_context() noexcept {
  const RelaxedCapture relaxed;
  if (cudaFree(nullptr) == cudaSuccess) return true;  // frees nothing
  (void)cudaGetLastError();
  return false;
}

}  // namespace gpudnn::cuda
