// The column buffer of a convolution input.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "core/validation.hpp"
#include "ops/transform/problem.hpp"

using namespace gpudnn;

namespace {

Status make_problem(gpudnnTensorDescriptor_t xDesc, gpudnnFilterDescriptor_t wDesc,
                    gpudnnConvolutionDescriptor_t convDesc, transform::ColumnProblem* problem) {
  const TensorGeometry& x = xDesc->geometry;
  const TensorGeometry& w = wDesc->geometry;
  const bool integer = x.type == GPUDNN_DATA_INT8 || x.type == GPUDNN_DATA_UINT8 || x.type == GPUDNN_DATA_INT32;
  if (!integer) GPUDNN_TRY(require_floating(x, "xDesc"));
  GPUDNN_REQUIRE(convDesc->spatial > 0, GPUDNN_STATUS_BAD_PARAM,
                 "convDesc was created but never set; call gpudnnSetConvolution2dDescriptor or its sibling");
  GPUDNN_REQUIRE(x.rank == convDesc->spatial + 2 && w.rank == x.rank, GPUDNN_STATUS_BAD_PARAM,
                 "xDesc has %d dims and wDesc %d; convDesc with %d spatial dimensions wants %d of both", x.rank, w.rank,
                 convDesc->spatial, convDesc->spatial + 2);
  GPUDNN_REQUIRE(convDesc->spatial <= 3, GPUDNN_STATUS_NOT_SUPPORTED,
                 "convDesc has %d spatial dimensions; column buffers are built for 1 to 3", convDesc->spatial);
  GPUDNN_REQUIRE(x.dims[1] == w.dims[1] * convDesc->groups, GPUDNN_STATUS_BAD_PARAM,
                 "xDesc has %lld channels; wDesc with %lld and %d groups wants %lld", static_cast<long long>(x.dims[1]),
                 static_cast<long long>(w.dims[1]), convDesc->groups,
                 static_cast<long long>(w.dims[1] * convDesc->groups));
  problem->x = x;
  problem->spatial = convDesc->spatial;
  problem->flip = convDesc->mode == GPUDNN_CONVOLUTION;
  for (int i = 0; i < convDesc->spatial; ++i) {
    problem->taps[i] = w.dims[2 + i];
    problem->pad[i] = convDesc->pad[i];
    problem->stride[i] = convDesc->stride[i];
    problem->dilation[i] = convDesc->dilation[i];
  }
  int where = 0;
  GPUDNN_REQUIRE(transform::set_outputs(problem, &where), GPUDNN_STATUS_BAD_PARAM,
                 "the filter does not fit into the padded input along spatial dimension %d: xDesc dims %s, wDesc dims "
                 "%s",
                 where, shown_dims(x).c_str(), shown_dims(w).c_str());
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnIm2Col(gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const void* x,
                                       const gpudnnFilterDescriptor_t wDesc,
                                       const gpudnnConvolutionDescriptor_t convDesc, void* colBuffer) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_FILTER(wDesc);
    GPUDNN_CHECK_OBJECT(convDesc, Kind::convolution);
    GPUDNN_CHECK_DATA(colBuffer, xDesc);
    transform::ColumnProblem problem;
    GPUDNN_TRY(make_problem(xDesc, wDesc, convDesc, &problem));
    return transform::run_columns(handle, problem, x, colBuffer);
  });
}
