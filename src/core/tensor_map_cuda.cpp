// Tensor maps by the driver's functions, which the runtime knows: libcuda is not linked.
// SPDX-License-Identifier: Apache-2.0
#include "core/tensor_map_cuda.hpp"

#include <cuda_runtime_api.h>

#include "core/driver_function_cuda.hpp"
#include "core/relaxed_capture_cuda.hpp"

namespace gpudnn::cuda {
namespace {

template <class Function>
void find(const char* name, Function* function) {
  *function = driver_function<Function>(name);
}

CUtensorMapDataType map_type(const TiledMap& tensor) {
  switch (tensor.type) {
    case tile::ElementType::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case tile::ElementType::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case tile::ElementType::f64:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT64;
    case tile::ElementType::f32:
      break;
  }
  return tensor.rounds_to_tf32 ? CU_TENSOR_MAP_DATA_TYPE_TFLOAT32 : CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
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

bool encode_tiled(const TiledMap& tensor, void* map) noexcept {
  const cuuint64_t dims[3] = {static_cast<cuuint64_t>(tensor.dims[0]), static_cast<cuuint64_t>(tensor.dims[1]),
                              static_cast<cuuint64_t>(tensor.dims[2])};
  const cuuint64_t steps[2] = {static_cast<cuuint64_t>(tensor.steps[0]), static_cast<cuuint64_t>(tensor.steps[1])};
  const cuuint32_t box[3] = {static_cast<cuuint32_t>(tensor.box_columns), static_cast<cuuint32_t>(tensor.box_rows), 1};
  const cuuint32_t ones[3] = {1, 1, 1};
  return tensor_map_driver().encode_tiled(static_cast<CUtensorMap*>(map), map_type(tensor), 3, placeholder_address(),
                                          dims, steps, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                          CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                                          CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

bool replace_address(void* map, const void* address) noexcept {
  return tensor_map_driver().replace_address(static_cast<CUtensorMap*>(map), const_cast<void*>(address)) ==
         CUDA_SUCCESS;
}

bool make_context(int device) noexcept {
  const RelaxedCapture relaxed;
  if (cudaSetDevice(device) == cudaSuccess && cudaFree(nullptr) == cudaSuccess) return true;
  (void)cudaGetLastError();
  return false;
}

}  // namespace gpudnn::cuda
