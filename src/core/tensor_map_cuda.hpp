// Tensor maps of TMA (TMA), made by the driver without linking it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cuda.h>

#include <cstdint>

#include "core/device.hpp"
#include "core/tma_boxes.hpp"
#include "kernels/tile/element_type.hpp"

namespace gpudnn::cuda {

// How TMA reads a tensor's elements, and writes them to shared memory.
struct MapFormat {
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  CUtensorMapSwizzle swizzle = CU_TENSOR_MAP_SWIZZLE_NONE;
  CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B;
};
// f32 is rounded to TF32 on its way in, if `rounds_to_tf32`.
[[nodiscard]] CUtensorMapDataType map_type(tile::ElementType type, bool rounds_to_tf32 = true) noexcept;
// The swizzle over boxes' rows of that many bytes; none where there is none as wide.
[[nodiscard]] CUtensorMapSwizzle swizzle_of_rows(std::int64_t bytes) noexcept;

// The driver's functions, which the runtime knows: libcuda is not linked. Null where the driver has none.
struct TensorMapDriver {
  decltype(&cuTensorMapEncodeTiled) encode_tiled = nullptr;
  decltype(&cuTensorMapEncodeIm2col) encode_im2col = nullptr;
  decltype(&cuTensorMapReplaceAddress) replace_address = nullptr;
};
[[nodiscard]] const TensorMapDriver& tensor_map_driver() noexcept;
// What a map is encoded with until a launch replaces it; the driver wants it aligned.
[[nodiscard]] inline void* placeholder_address() noexcept { return reinterpret_cast<void*>(std::uintptr_t{1} << 20); }

[[nodiscard]] bool makes_tensor_maps() noexcept;
// `map` has the size and alignment of the driver's tensor map. Its address is to be replaced before use.
[[nodiscard]] bool encode_boxes(const TmaBoxes& boxes, const MapFormat& format, void* map) noexcept;
// False where the driver refuses the address, which is a multiple of 16 bytes.
[[nodiscard]] bool replace_address(void* map, const void* address) noexcept;

// Makes the current device's context, as the functions above want; a thread that never called the runtime has none.
[[nodiscard]] bool make_context() noexcept;

// Tries once more in a context of the device where the first attempt fails. The caller's device stays current.
template <class Attempt>
[[nodiscard]] bool with_context(int device, Attempt attempt) {
  if (attempt()) return true;
  const DeviceScope scope(device);
  return make_context() && attempt();
}

}  // namespace gpudnn::cuda
