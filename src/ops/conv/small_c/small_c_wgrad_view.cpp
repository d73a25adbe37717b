// What the filter gradients of images with few channels have in common.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/small_c/small_c_wgrad_view.hpp"

#include "core/data_type.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/conv/tma_layout.hpp"

namespace gpudnn::conv {
namespace {

constexpr std::int64_t kMaxChannels = 8;
constexpr std::int64_t kMaxCount = kMaxSmallCCount;
constexpr std::int64_t kMaxTaps = 4096;  // of a filter row, and rows of a filter

std::int64_t bytes_of(DataType type) { return data_type_bits(type) / 8; }

const char* layout_unsupported_reason(const Problem& problem) {
  const TensorGeometry& x = problem.x;
  const TensorGeometry& y = problem.y;
  const int last = 1 + problem.spatial;
  if (x.dims[1] > 1 && x.strides[1] != 1) return "x is not contiguous along channels";
  if (x.dims[last] * x.dims[1] * bytes_of(x.type) % kCopyVector != 0)
    return "image rows of x do not fill whole 16-byte vectors";
  if (x.dims[last] > 1 && x.strides[last] != x.dims[1]) return "the pixels of a row of x do not follow one another";
  if (y.dims[1] > 1 && y.strides[1] != 1) return "dy is not contiguous along filters";
  for (const TensorGeometry* tensor : {&x, &y}) {
    for (int dim = 0; dim < tensor->rank; ++dim) {
      if (dim == 1 || (tensor == &x && dim == last) || tensor->dims[dim] == 1) continue;
      const std::int64_t step = tensor->strides[dim] * bytes_of(tensor->type);
      if (step % kCopyVector != 0) return "image rows of x or pixels of dy do not begin at multiples of 16 bytes";
      if (step >= std::int64_t{1} << 40) return "a stride of 2^40 bytes or more";
    }
  }
  return nullptr;
}

const char* geometry_unsupported_reason(const Problem& problem) {
  for (int i = 0; i < problem.spatial; ++i) {
    const std::int64_t taps = problem.w.dims[2 + i];
    if (problem.dilation[i] != 1 && taps > 1) return "a dilated filter";
    if (taps > kMaxTaps) return "more than 4096 taps along a dimension";
    if (problem.pad[i] > kMaxCount / 16 || problem.stride[i] > kMaxCount / 16) {
      return "padding or a stride of 2^26 or more";
    }
    if (problem.x.dims[2 + i] > kMaxCount / 16 || problem.y.dims[2 + i] > kMaxCount / 16) {
      return "an image of 2^26 pixels or more along a dimension";
    }
  }
  return nullptr;
}

}  // namespace

SmallCWgradView small_c_wgrad_view(const Problem& problem) {
  const TensorGeometry& x = problem.x;
  const TensorGeometry& y = problem.y;
  const int w = problem.spatial - 1;
  const std::int64_t bytes = bytes_of(x.type);
  SmallCWgradView view;
  view.images = x.dims[0];
  view.channels = x.dims[1];
  view.filters = y.dims[1];
  view.image_w = x.dims[2 + w];
  view.out_w = y.dims[2 + w];
  view.taps_w = problem.w.dims[2 + w];
  view.pad_w = problem.pad[w];
  view.stride_w = problem.stride[w];
  view.x_image = copy_step(x, 0, bytes);
  view.dy_image = copy_step(y, 0, bytes);
  view.dy_pixel = copy_step(y, 2 + w, bytes);
  if (problem.spatial == 2) {
    view.image_h = x.dims[2];
    view.out_h = y.dims[2];
    view.taps_h = problem.w.dims[2];
    view.pad_h = problem.pad[0];
    view.stride_h = problem.stride[0];
    view.x_row = copy_step(x, 2, bytes);
    view.dy_row = copy_step(y, 2, bytes);
  }
  return view;
}

kernels::FilterTaps small_c_wgrad_taps(const Problem& problem, const SmallCWgradView& view) {
  const TensorGeometry& w = problem.w;
  kernels::FilterTaps taps;
  taps.row_octets = tile::FastDivmod(static_cast<std::uint32_t>(view.row_octets()));
  taps.row_taps = static_cast<std::uint32_t>(view.taps_w * view.channels);
  taps.channels = tile::FastDivmod(static_cast<std::uint32_t>(view.channels));
  taps.height = static_cast<std::uint32_t>(view.taps_h);
  taps.width = static_cast<std::uint32_t>(view.taps_w);
  taps.filters = static_cast<std::uint32_t>(view.filters);
  taps.mirrored = problem.mode == GPUDNN_CONVOLUTION;
  taps.step_k = w.strides[0];
  taps.step_c = w.strides[1];
  taps.step_r = problem.spatial == 2 ? w.strides[2] : 0;
  taps.step_s = w.strides[1 + problem.spatial];
  return taps;
}

const char* small_c_wgrad_view_unsupported_reason(const Problem& problem) {
  if (problem.direction != Direction::wgrad) return "it does the filter gradient only";
  if (const char* reason = tensor_math_unsupported_reason(problem)) return reason;
  if (problem.groups != 1) return "groups";
  if (problem.spatial > 2) return "volumes";
  if (problem.x.dims[1] > kMaxChannels) return "more than 8 channels";
  if (problem.y.dims[1] * bytes_of(problem.y.type) % kCopyVector != 0)
    return "filters do not fill whole 16-byte vectors";
  if (const char* reason = geometry_unsupported_reason(problem)) return reason;
  if (const char* reason = layout_unsupported_reason(problem)) return reason;
  return nullptr;
}

}  // namespace gpudnn::conv
