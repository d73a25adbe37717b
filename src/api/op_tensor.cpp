// Op-tensor descriptors.
// SPDX-License-Identifier: Apache-2.0
#include "api/descriptors.hpp"
#include "core/guard.hpp"

using namespace gpudnn;

extern "C" gpudnnStatus_t gpudnnCreateOpTensorDescriptor(gpudnnOpTensorDescriptor_t* opTensorDesc) {
  return guard(__func__, [&]() -> Status { return create_object(opTensorDesc, "opTensorDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroyOpTensorDescriptor(gpudnnOpTensorDescriptor_t opTensorDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(opTensorDesc, Kind::op_tensor, "opTensorDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetOpTensorDescriptor(gpudnnOpTensorDescriptor_t opTensorDesc,
                                                      gpudnnOpTensorOp_t opTensorOp, gpudnnDataType_t opTensorCompType,
                                                      gpudnnNanPropagation_t opTensorNanOpt) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(opTensorDesc, Kind::op_tensor);
    GPUDNN_TRY(check_enum(opTensorOp, GPUDNN_OP_TENSOR_ADD, GPUDNN_OP_TENSOR_NOT, "opTensorOp"));
    GPUDNN_TRY(check_data_type(opTensorCompType, "opTensorCompType"));
    GPUDNN_TRY(check_enum(opTensorNanOpt, GPUDNN_NOT_PROPAGATE_NAN, GPUDNN_PROPAGATE_NAN, "opTensorNanOpt"));
    opTensorDesc->set = true;
    opTensorDesc->op = opTensorOp;
    opTensorDesc->compute = opTensorCompType;
    opTensorDesc->nan = opTensorNanOpt;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetOpTensorDescriptor(const gpudnnOpTensorDescriptor_t opTensorDesc,
                                                      gpudnnOpTensorOp_t* opTensorOp,
                                                      gpudnnDataType_t* opTensorCompType,
                                                      gpudnnNanPropagation_t* opTensorNanOpt) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(opTensorDesc, Kind::op_tensor);
    GPUDNN_REQUIRE(opTensorDesc->set, GPUDNN_STATUS_BAD_PARAM,
                   "opTensorDesc was created but never set; call gpudnnSetOpTensorDescriptor");
    if (opTensorOp != nullptr) *opTensorOp = opTensorDesc->op;
    if (opTensorCompType != nullptr) *opTensorCompType = opTensorDesc->compute;
    if (opTensorNanOpt != nullptr) *opTensorNanOpt = opTensorDesc->nan;
    return GPUDNN_STATUS_SUCCESS;
  });
}
