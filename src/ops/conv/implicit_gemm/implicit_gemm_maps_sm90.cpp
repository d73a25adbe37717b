// The tensor maps of the Hopper implicit GEMM, made by the driver.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm/implicit_gemm_maps.hpp"
#include "ops/conv/sm90_launch.hpp"

namespace gpudnn::conv {
namespace {

std::int64_t bytes_of(const MapElement& element) { return element.is_byte ? 1 : tile::element_bytes(element.type); }

CUtensorMapDataType type_of(const MapElement& element) {
  return element.is_byte ? CU_TENSOR_MAP_DATA_TYPE_UINT8 : cuda::map_type(element.type, element.rounds_to_tf32);
}

}  // namespace

bool encode_filter(const FilterMap& filter, const MapElement& element, kernels::sm90::TensorMap* map) {
  const std::int64_t tap_step = filter.columns * bytes_of(element);
  const std::int64_t row_step = filter.row_step != 0 ? filter.row_step : filter.taps * tap_step;
  // The distance to the next tap of a single one says nothing, but has to be a multiple of 16 bytes.
  const std::int64_t second_step = filter.taps > 1 ? tap_step : row_step;
  const std::int64_t row_bytes = filter.box_columns * bytes_of(element);
  return cuda::encode_boxes({3,
                             {filter.columns, filter.taps, filter.rows},
                             {second_step, row_step},
                             {filter.box_columns, 1, filter.box_rows}},
                            {type_of(element), cuda::swizzle_of_rows(row_bytes), CU_TENSOR_MAP_L2_PROMOTION_L2_128B},
                            map);
}

bool encode_pixels(const PixelMap& pixels, bool deep, const MapElement& element, kernels::sm90::TensorMap* map) {
  if (pixels.row_step != 0) {
    std::int64_t rows = pixels.images;
    for (const std::int64_t extent : pixels.extent) rows *= extent;
    return encode_filter(
        FilterMap{pixels.channels, 1, rows, pixels.row_step, pixels.box_channels, pixels.pixels_per_box}, element, map);
  }
  cuuint64_t dims[5] = {static_cast<cuuint64_t>(pixels.channels)};
  cuuint64_t steps[4] = {};
  cuuint32_t traversal[5] = {1, 1, 1, 1, 1};
  const int axes = deep ? 3 : 2;
  for (int a = 0; a < axes; ++a) {
    dims[1 + a] = static_cast<cuuint64_t>(pixels.extent[a]);
    steps[a] = static_cast<cuuint64_t>(pixels.step[a]);
    traversal[1 + a] = static_cast<cuuint32_t>(pixels.stride[a]);
  }
  dims[1 + axes] = static_cast<cuuint64_t>(pixels.images);
  steps[axes] = static_cast<cuuint64_t>(pixels.step[3]);
  const auto encode_im2col = cuda::tensor_map_driver().encode_im2col;
  if (encode_im2col == nullptr) return false;  // a plan for a device that is only described
  return encode_im2col(reinterpret_cast<CUtensorMap*>(map), type_of(element), static_cast<cuuint32_t>(2 + axes),
                       cuda::placeholder_address(), dims, steps, pixels.lower, pixels.upper,
                       static_cast<cuuint32_t>(pixels.box_channels), static_cast<cuuint32_t>(pixels.pixels_per_box),
                       traversal, CU_TENSOR_MAP_INTERLEAVE_NONE,
                       cuda::swizzle_of_rows(pixels.box_channels * bytes_of(element)),
                       CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE) == CUDA_SUCCESS;
}

bool encode_phases(const Sm90Plan& plan, const MapElement& element, kernels::sm90::Params* params) {
  bool encoded = true;
  for (std::uint32_t i = 0; i < params->phases; ++i) {
    if (params->problem[i].k_blocks == 0) continue;
    encoded = encode_pixels(plan.a[i], params->three_dimensional, element, &params->a[i]) && encoded;
  }
  return encoded;
}

bool replace_operands(const void* a, const void* b, const void* c, kernels::sm90::Params* params) {
  bool replaced = cuda::replace_address(&params->b, b);
  for (std::uint32_t i = 0; i < params->phases; ++i) {
    if (params->problem[i].k_blocks > 0) replaced = cuda::replace_address(&params->a[i], a) && replaced;
  }
  if (params->stores_boxes) replaced = cuda::replace_address(&params->c_map, c) && replaced;
  return replaced;
}

}  // namespace gpudnn::conv
