// Descriptors of the folded data gradient.
//
// A convolution of stride u reads y[p] = sum over r of x[p * u + r - pad] * w[r]. With r = a * u + b,
//   y[p] = sum over a and b of X[p + a, b] * W[a, b],    X[q, b] = x[q * u + b - pad],    W[a, b] = w[a * u + b],
// which is a convolution of stride 1 without padding over the folded tensors: b goes into the channels. W has
// A = ceil(R / u) taps, zeros behind the last; X has P + A - 1 pixels, zeros where x has none. The gradient of x is the
// folded one unfolded and cropped.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/transform.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "core/validation.hpp"

using namespace gpudnn;

namespace {

struct Source {
  const TensorGeometry& w;
  const TensorGeometry& dy;
  const TensorGeometry& dx;
  const gpudnnConvolutionStruct& conv;
};

Status validate(const Source& s) {
  GPUDNN_REQUIRE(s.conv.spatial > 0, GPUDNN_STATUS_BAD_PARAM,
                 "convDesc was created but never set; call gpudnnSetConvolution2dDescriptor or its sibling");
  const int rank = s.conv.spatial + 2;
  GPUDNN_REQUIRE(s.w.rank == rank && s.dy.rank == rank && s.dx.rank == rank, GPUDNN_STATUS_BAD_PARAM,
                 "filterDesc, diffDesc and gradDesc have %d, %d and %d dims; convDesc with %d spatial dimensions wants "
                 "%d of each",
                 s.w.rank, s.dy.rank, s.dx.rank, s.conv.spatial, rank);
  GPUDNN_REQUIRE(s.conv.groups == 1, GPUDNN_STATUS_NOT_SUPPORTED,
                 "convDesc has %d groups; folding mixes the channels, so it takes 1", s.conv.groups);
  GPUDNN_REQUIRE(s.conv.mode == GPUDNN_CROSS_CORRELATION, GPUDNN_STATUS_NOT_SUPPORTED,
                 "convDesc has mode GPUDNN_CONVOLUTION, whose mirrored taps do not fold; use "
                 "GPUDNN_CROSS_CORRELATION with a mirrored filter");
  GPUDNN_REQUIRE(s.dy.dims[0] == s.dx.dims[0] && s.dy.dims[1] == s.w.dims[0] && s.dx.dims[1] == s.w.dims[1],
                 GPUDNN_STATUS_BAD_PARAM,
                 "diffDesc dims %s, gradDesc dims %s and filterDesc dims %s do not belong "
                 "together",
                 shown_dims(s.dy).c_str(), shown_dims(s.dx).c_str(), shown_dims(s.w).c_str());
  for (int i = 0; i < s.conv.spatial; ++i) {
    GPUDNN_REQUIRE(s.conv.dilation[i] == 1, GPUDNN_STATUS_NOT_SUPPORTED,
                   "convDesc has dilation %d along spatial dimension %d; only 1 folds", s.conv.dilation[i], i);
    const std::int64_t room = s.dx.dims[2 + i] + 2 * std::int64_t{s.conv.pad[i]} - s.w.dims[2 + i];
    GPUDNN_REQUIRE(
        room >= 0 && room / s.conv.stride[i] + 1 == s.dy.dims[2 + i], GPUDNN_STATUS_BAD_PARAM,
        "diffDesc has %lld pixels along spatial dimension %d; gradDesc, filterDesc and convDesc give another "
        "number",
        static_cast<long long>(s.dy.dims[2 + i]), i);
  }
  return GPUDNN_STATUS_SUCCESS;
}

void set_transform(gpudnnTensorTransformStruct* desc, int rank, gpudnnTensorFormat_t format,
                   gpudnnFoldingDirection_t direction) {
  desc->rank = rank;
  desc->format = format;
  desc->direction = direction;
  std::fill_n(desc->pad_before, kMaxRank, 0);
  std::fill_n(desc->pad_after, kMaxRank, 0);
  std::fill_n(desc->fold, kMaxRank, 0u);
  std::fill_n(desc->fold, rank - 2, 1u);
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnGetFoldedConvBackwardDataDescriptors(
    const gpudnnHandle_t handle, const gpudnnFilterDescriptor_t filterDesc, const gpudnnTensorDescriptor_t diffDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t gradDesc,
    const gpudnnTensorFormat_t transformFormat, gpudnnFilterDescriptor_t foldedFilterDesc,
    gpudnnTensorDescriptor_t paddedDiffDesc, gpudnnConvolutionDescriptor_t foldedConvDesc,
    gpudnnTensorDescriptor_t foldedGradDesc, gpudnnTensorTransformDescriptor_t filterFoldTransDesc,
    gpudnnTensorTransformDescriptor_t diffPadTransDesc, gpudnnTensorTransformDescriptor_t gradFoldTransDesc,
    gpudnnTensorTransformDescriptor_t gradUnfoldTransDesc) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_FILTER(filterDesc);
    GPUDNN_CHECK_TENSOR(diffDesc);
    GPUDNN_CHECK_OBJECT(convDesc, Kind::convolution);
    GPUDNN_CHECK_TENSOR(gradDesc);
    GPUDNN_TRY(check_enum(transformFormat, GPUDNN_TENSOR_NCHW, GPUDNN_TENSOR_NCHW_VECT_C, "transformFormat"));
    GPUDNN_REQUIRE(transformFormat != GPUDNN_TENSOR_NCHW_VECT_C, GPUDNN_STATUS_NOT_SUPPORTED,
                   "transformFormat is NCHW_VECT_C; gradients are in NCHW or NHWC");
    GPUDNN_CHECK_OBJECT(foldedFilterDesc, Kind::filter);
    GPUDNN_CHECK_OBJECT(paddedDiffDesc, Kind::tensor);
    GPUDNN_CHECK_OBJECT(foldedConvDesc, Kind::convolution);
    GPUDNN_CHECK_OBJECT(foldedGradDesc, Kind::tensor);
    GPUDNN_CHECK_OBJECT(filterFoldTransDesc, Kind::tensor_transform);
    GPUDNN_CHECK_OBJECT(diffPadTransDesc, Kind::tensor_transform);
    GPUDNN_CHECK_OBJECT(gradFoldTransDesc, Kind::tensor_transform);
    GPUDNN_CHECK_OBJECT(gradUnfoldTransDesc, Kind::tensor_transform);
    const Source source{filterDesc->geometry, diffDesc->geometry, gradDesc->geometry, *convDesc};
    GPUDNN_TRY(validate(source));
    const int rank = source.w.rank;
    set_transform(filterFoldTransDesc, rank, transformFormat, GPUDNN_TRANSFORM_FOLD);
    set_transform(diffPadTransDesc, rank, transformFormat, GPUDNN_TRANSFORM_FOLD);
    set_transform(gradFoldTransDesc, rank, transformFormat, GPUDNN_TRANSFORM_FOLD);
    set_transform(gradUnfoldTransDesc, rank, transformFormat, GPUDNN_TRANSFORM_UNFOLD);
    gpudnnConvolutionStruct conv = *convDesc;
    for (int i = 0; i < conv.spatial; ++i) {
      const int d = 2 + i;
      const std::int64_t u = convDesc->stride[i];
      const std::int64_t taps = (source.w.dims[d] + u - 1) / u;
      const std::int64_t pixels = (source.dy.dims[d] + taps - 1) * u;
      const auto behind = static_cast<int>(pixels - convDesc->pad[i] - source.dx.dims[d]);
      filterFoldTransDesc->pad_after[d] = static_cast<int>(taps * u - source.w.dims[d]);
      gradFoldTransDesc->pad_before[d] = convDesc->pad[i];
      gradFoldTransDesc->pad_after[d] = behind;
      gradUnfoldTransDesc->pad_before[d] = -convDesc->pad[i];
      gradUnfoldTransDesc->pad_after[d] = -behind;
      for (auto* desc : {filterFoldTransDesc, gradFoldTransDesc, gradUnfoldTransDesc}) {
        desc->fold[i] = static_cast<unsigned>(u);
      }
      conv.pad[i] = 0;
      conv.stride[i] = 1;
    }
    TensorGeometry filter;
    TensorGeometry diff;
    TensorGeometry grad;
    filter.type = source.w.type;
    diff.type = source.dy.type;
    grad.type = source.dx.type;
    GPUDNN_TRY(transform::output_dims(transform_of(*filterFoldTransDesc), source.w, "filterDesc", &filter));
    GPUDNN_TRY(transform::output_dims(transform_of(*diffPadTransDesc), source.dy, "diffDesc", &diff));
    GPUDNN_TRY(transform::output_dims(transform_of(*gradFoldTransDesc), source.dx, "gradDesc", &grad));
    set_packed_strides(&filter, transformFormat);
    foldedFilterDesc->geometry = filter;
    foldedFilterDesc->format = transformFormat;
    *foldedConvDesc = conv;
    GPUDNN_TRY(set_packed_descriptor(diff, transformFormat, paddedDiffDesc));
    return set_packed_descriptor(grad, transformFormat, foldedGradDesc);
  });
}
