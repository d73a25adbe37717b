// Backend descriptors for hostile_arguments_test.
// SPDX-License-Identifier: Apache-2.0
#include "hostile_backend.hpp"

#include <gtest/gtest.h>

#include <cstdint>

namespace {

using Object = gpudnnBackendDescriptor_t;

Object make(gpudnnBackendDescriptorType_t kind) {
  Object object = nullptr;
  EXPECT_EQ(gpudnnBackendCreateDescriptor(kind, &object), 0);
  return object;
}

void put(Object object, gpudnnBackendAttributeName_t name, gpudnnBackendAttributeType_t type, const void* value,
         std::int64_t count = 1) {
  EXPECT_EQ(gpudnnBackendSetAttribute(object, name, type, count, value), 0);
}

void set_tensor(Object tensor, std::int64_t uid) {
  const int type = GPUDNN_DATA_FLOAT;
  const std::int64_t dims[] = {2, 4};
  const std::int64_t strides[] = {4, 1};
  const std::int64_t alignment = 4;
  put(tensor, GPUDNN_ATTR_TENSOR_DATA_TYPE, GPUDNN_TYPE_DATA_TYPE, &type);
  put(tensor, GPUDNN_ATTR_TENSOR_DIMENSIONS, GPUDNN_TYPE_INT64, dims, 2);
  put(tensor, GPUDNN_ATTR_TENSOR_STRIDES, GPUDNN_TYPE_INT64, strides, 2);
  put(tensor, GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, GPUDNN_TYPE_INT64, &alignment);
  put(tensor, GPUDNN_ATTR_TENSOR_UNIQUE_ID, GPUDNN_TYPE_INT64, &uid);
}

// y = exp(x), up to a config of the first engine that the heuristic names.
void set_plan(Object plan) {
  Object x = make(GPUDNN_BACKEND_TENSOR_DESCRIPTOR);
  Object y = make(GPUDNN_BACKEND_TENSOR_DESCRIPTOR);
  set_tensor(x, 1);
  set_tensor(y, 2);
  Object mode = make(GPUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  Object operation = make(GPUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  Object graph = make(GPUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  Object heuristics = make(GPUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  Object config = make(GPUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
  const int exp = GPUDNN_POINTWISE_EXP;
  const int instant = GPUDNN_HEUR_MODE_INSTANT;
  put(mode, GPUDNN_ATTR_POINTWISE_MODE, GPUDNN_TYPE_POINTWISE_MODE, &exp);
  for (Object object : {x, y, mode}) EXPECT_EQ(gpudnnBackendFinalize(object), 0);
  put(operation, GPUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, GPUDNN_TYPE_BACKEND_DESCRIPTOR, &mode);
  put(operation, GPUDNN_ATTR_OPERATION_POINTWISE_XDESC, GPUDNN_TYPE_BACKEND_DESCRIPTOR, &x);
  put(operation, GPUDNN_ATTR_OPERATION_POINTWISE_YDESC, GPUDNN_TYPE_BACKEND_DESCRIPTOR, &y);
  EXPECT_EQ(gpudnnBackendFinalize(operation), 0);
  put(graph, GPUDNN_ATTR_OPERATIONGRAPH_OPS, GPUDNN_TYPE_BACKEND_DESCRIPTOR, &operation);
  EXPECT_EQ(gpudnnBackendFinalize(graph), 0);
  put(heuristics, GPUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, GPUDNN_TYPE_BACKEND_DESCRIPTOR, &graph);
  put(heuristics, GPUDNN_ATTR_ENGINEHEUR_MODE, GPUDNN_TYPE_HEUR_MODE, &instant);
  EXPECT_EQ(gpudnnBackendFinalize(heuristics), 0);
  EXPECT_EQ(gpudnnBackendGetAttribute(heuristics, GPUDNN_ATTR_ENGINEHEUR_RESULTS, GPUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      nullptr, &config),
            0);
  put(plan, GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, GPUDNN_TYPE_BACKEND_DESCRIPTOR, &config);
  for (Object object : {x, y, mode, operation, graph, heuristics, config})
    EXPECT_EQ(gpudnnBackendDestroyDescriptor(object), 0);
}

void set_pack(Object pack) {
  // Whatever backend runs, the call that they belong to is over before the next one.
  static void* pointers[2] = {};
  if (pointers[0] == nullptr) {
    gpudnnHandle_t handle = nullptr;
    EXPECT_EQ(gpudnnCreate(&handle), 0);
    for (void*& pointer : pointers) EXPECT_EQ(gpudnnMalloc(handle, &pointer, 64), 0);
    EXPECT_EQ(gpudnnDestroy(handle), 0);
  }
  const std::int64_t uids[] = {1, 2};
  put(pack, GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, GPUDNN_TYPE_INT64, uids, 2);
  put(pack, GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, GPUDNN_TYPE_VOID_PTR, pointers, 2);
}

}  // namespace

bool is_backend(Role role) {
  return role == Role::backend_tensor || role == Role::backend_finalized || role == Role::backend_plan ||
         role == Role::backend_pack;
}

void* create_backend(Role role) {
  return make(role == Role::backend_plan   ? GPUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR
              : role == Role::backend_pack ? GPUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR
                                           : GPUDNN_BACKEND_TENSOR_DESCRIPTOR);
}

int set_backend(Role role, void* object) {
  if (role == Role::backend_plan) set_plan(object);
  if (role == Role::backend_pack) set_pack(object);
  if (role == Role::backend_tensor || role == Role::backend_finalized) set_tensor(object, 1);
  return role == Role::backend_tensor ? 0 : static_cast<int>(gpudnnBackendFinalize(object));
}
