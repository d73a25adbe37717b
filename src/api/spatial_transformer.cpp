// Spatial-transformer descriptors, the affine grid and the sampler.
// SPDX-License-Identifier: Apache-2.0
#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "ops/spatial_transformer/problem.hpp"

using namespace gpudnn;
using spatial_transformer::Operation;

namespace {

Status check_transformer(gpudnnSpatialTransformerDescriptor_t stDesc) {
  GPUDNN_CHECK_OBJECT(stDesc, Kind::spatial_transformer);
  GPUDNN_REQUIRE(stDesc->set, GPUDNN_STATUS_BAD_PARAM,
                 "stDesc was created but never set; call gpudnnSetSpatialTransformerNdDescriptor");
  return GPUDNN_STATUS_SUCCESS;
}

// The descriptor's output as a packed tensor.
TensorGeometry described(gpudnnSpatialTransformerDescriptor_t stDesc) {
  const std::int64_t dims[] = {stDesc->dims[0], stDesc->dims[1], stDesc->dims[2], stDesc->dims[3]};
  return packed_tensor(stDesc->type, GPUDNN_TENSOR_NCHW, 4, dims);
}

// The sampled tensor must be what the descriptor describes.
Status check_sample(gpudnnSpatialTransformerDescriptor_t stDesc, const TensorGeometry& tensor, const char* name) {
  const TensorGeometry wanted = described(stDesc);
  GPUDNN_REQUIRE(tensor.type == wanted.type, GPUDNN_STATUS_BAD_PARAM, "%s data type %s differs from stDesc's %s", name,
                 data_type_name(tensor.type), data_type_name(wanted.type));
  GPUDNN_REQUIRE(same_dims(tensor, wanted), GPUDNN_STATUS_BAD_PARAM,
                 "%s dims %s differ from the dims %s that stDesc was set to", name, dims_text(tensor).c_str(),
                 dims_text(wanted).c_str());
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnCreateSpatialTransformerDescriptor(gpudnnSpatialTransformerDescriptor_t* stDesc) {
  return guard(__func__, [&]() -> Status { return create_object(stDesc, "stDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroySpatialTransformerDescriptor(gpudnnSpatialTransformerDescriptor_t stDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(stDesc, Kind::spatial_transformer, "stDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetSpatialTransformerNdDescriptor(gpudnnSpatialTransformerDescriptor_t stDesc,
                                                                  gpudnnSamplerType_t samplerType,
                                                                  gpudnnDataType_t dataType, const int nbDims,
                                                                  const int dimA[]) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(stDesc, Kind::spatial_transformer);
    GPUDNN_TRY(check_enum(samplerType, GPUDNN_SAMPLER_BILINEAR, GPUDNN_SAMPLER_BILINEAR, "samplerType"));
    GPUDNN_TRY(check_data_type(dataType, "dataType"));
    GPUDNN_CHECK_POINTER(dimA);
    GPUDNN_REQUIRE(is_floating(dataType), GPUDNN_STATUS_NOT_SUPPORTED,
                   "dataType is %s; spatial transformers are built for f32, f64, f16 and bf16",
                   data_type_name(dataType));
    GPUDNN_REQUIRE(nbDims == 4, nbDims == 5 ? GPUDNN_STATUS_NOT_SUPPORTED : GPUDNN_STATUS_BAD_PARAM,
                   "nbDims is %d; the output has 4 dims: N, C, H, W", nbDims);
    for (int i = 0; i < 4; ++i) {
      GPUDNN_REQUIRE(dimA[i] > 0, GPUDNN_STATUS_BAD_PARAM, "dimA[%d] is %d; it must be positive", i, dimA[i]);
    }
    stDesc->set = true;
    stDesc->sampler = samplerType;
    stDesc->type = dataType;
    for (int i = 0; i < 4; ++i) stDesc->dims[i] = dimA[i];
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnSpatialTfGridGeneratorForward(gpudnnHandle_t handle,
                                                              const gpudnnSpatialTransformerDescriptor_t stDesc,
                                                              const void* theta, void* grid) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_transformer(stDesc));
    GPUDNN_CHECK_POINTER(theta);
    GPUDNN_CHECK_POINTER(grid);
    spatial_transformer::Problem problem;
    problem.operation = Operation::grid_forward;
    problem.y = described(stDesc);
    GPUDNN_TRY(spatial_transformer::validate(problem));
    spatial_transformer::Args args;
    args.theta = theta;
    args.out = grid;
    return spatial_transformer::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnSpatialTfGridGeneratorBackward(gpudnnHandle_t handle,
                                                               const gpudnnSpatialTransformerDescriptor_t stDesc,
                                                               const void* dgrid, void* dtheta) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_transformer(stDesc));
    GPUDNN_CHECK_POINTER(dgrid);
    GPUDNN_CHECK_POINTER(dtheta);
    spatial_transformer::Problem problem;
    problem.operation = Operation::grid_backward;
    problem.y = described(stDesc);
    GPUDNN_TRY(spatial_transformer::validate(problem));
    spatial_transformer::Args args;
    args.grid = dgrid;
    args.out = dtheta;
    return spatial_transformer::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnSpatialTfSamplerForward(gpudnnHandle_t handle,
                                                        gpudnnSpatialTransformerDescriptor_t stDesc, const void* alpha,
                                                        const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                        const void* grid, const void* beta,
                                                        gpudnnTensorDescriptor_t yDesc, void* y) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_transformer(stDesc));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_POINTER(grid);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(yDesc);
    GPUDNN_CHECK_DATA(y, yDesc);
    GPUDNN_TRY(check_sample(stDesc, yDesc->geometry, "yDesc"));
    spatial_transformer::Problem problem;
    problem.operation = Operation::sample_forward;
    problem.x = xDesc->geometry;
    problem.y = yDesc->geometry;
    GPUDNN_TRY(spatial_transformer::validate(problem));
    spatial_transformer::Args args;
    args.alpha = scalar(alpha, problem.y.type);
    args.beta = scalar(beta, problem.y.type);
    args.x = x;
    args.grid = grid;
    args.out = y;
    return spatial_transformer::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnSpatialTfSamplerBackward(gpudnnHandle_t handle,
                                                         gpudnnSpatialTransformerDescriptor_t stDesc, const void* alpha,
                                                         const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                         const void* beta, const gpudnnTensorDescriptor_t dxDesc,
                                                         void* dx, const void* alphaDgrid,
                                                         const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                         const void* grid, const void* betaDgrid, void* dgrid) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_transformer(stDesc));
    GPUDNN_CHECK_POINTER(alpha);
    GPUDNN_CHECK_TENSOR(xDesc);
    GPUDNN_CHECK_DATA(x, xDesc);
    GPUDNN_CHECK_POINTER(beta);
    GPUDNN_CHECK_TENSOR(dxDesc);
    GPUDNN_CHECK_DATA(dx, dxDesc);
    GPUDNN_CHECK_POINTER(alphaDgrid);
    GPUDNN_CHECK_TENSOR(dyDesc);
    GPUDNN_CHECK_DATA(dy, dyDesc);
    GPUDNN_CHECK_POINTER(grid);
    GPUDNN_CHECK_POINTER(betaDgrid);
    GPUDNN_CHECK_POINTER(dgrid);
    GPUDNN_TRY(check_sample(stDesc, dyDesc->geometry, "dyDesc"));
    spatial_transformer::Problem problem;
    problem.operation = Operation::sample_backward;
    problem.x = xDesc->geometry;
    problem.dx = dxDesc->geometry;
    problem.y = dyDesc->geometry;
    GPUDNN_TRY(spatial_transformer::validate(problem));
    spatial_transformer::Args args;
    args.alpha = scalar(alpha, problem.y.type);
    args.beta = scalar(beta, problem.y.type);
    args.grid_alpha = scalar(alphaDgrid, problem.y.type);
    args.grid_beta = scalar(betaDgrid, problem.y.type);
    args.x = x;
    args.dy = dy;
    args.grid = grid;
    args.out = dx;
    args.dgrid = dgrid;
    return spatial_transformer::run(handle, problem, args);
  });
}
