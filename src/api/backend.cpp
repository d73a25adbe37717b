// Entry points of the graph interface: backend descriptors.
// SPDX-License-Identifier: Apache-2.0
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "graph/cuda_graph.hpp"
#include "graph/plan.hpp"

using namespace gpudnn;
using graph::Bag;

namespace {

Status check_descriptor(gpudnnBackendDescriptor_t descriptor, const char* argument) {
  GPUDNN_REQUIRE(descriptor != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER, "%s is null; create it", argument);
  return check_object(descriptor, Kind::backend, argument);
}

gpudnnBackendStruct* object_of(gpudnnBackendDescriptor_t descriptor) {
  return static_cast<gpudnnBackendStruct*>(descriptor);
}

// A live, finalized descriptor of the kind.
Status check_finalized(gpudnnBackendDescriptor_t descriptor, int kind, const char* argument) {
  GPUDNN_TRY(check_descriptor(descriptor, argument));
  const Bag& bag = *object_of(descriptor)->bag;
  GPUDNN_REQUIRE(bag.kind == kind, GPUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE,
                 "%s is a descriptor of %s; it must be one of %s", argument, graph::kind_text(bag.kind),
                 graph::kind_text(kind));
  GPUDNN_REQUIRE(bag.finalized, GPUDNN_STATUS_BAD_PARAM_NOT_FINALIZED, "%s was not finalized", argument);
  return GPUDNN_STATUS_SUCCESS;
}

Status check_execution(gpudnnHandle_t handle, gpudnnBackendDescriptor_t executionPlan,
                       gpudnnBackendDescriptor_t variantPack, graph::PlanRef* plan, graph::Pack* pack) {
  GPUDNN_TRY(check_handle(handle));
  GPUDNN_TRY(check_finalized(executionPlan, graph::kPlan, "executionPlan"));
  GPUDNN_TRY(check_finalized(variantPack, graph::kPack, "variantPack"));
  *plan = object_of(executionPlan)->bag->made_as<graph::Plan>();
  return make_pack(*object_of(variantPack)->bag, pack);
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnBackendCreateDescriptor(gpudnnBackendDescriptorType_t descriptorType,
                                                        gpudnnBackendDescriptor_t* descriptor) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_REQUIRE(descriptor != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                   "descriptor is null; pass the address of a variable");
    *descriptor = nullptr;
    const int kind = static_cast<int>(descriptorType);
    GPUDNN_REQUIRE(kind >= 0 && kind < graph::kKinds && kind != graph::kIntermediateInfo, GPUDNN_STATUS_BAD_PARAM,
                   "descriptorType is %d; there are descriptors of types 0 to %d without %d", kind, graph::kKinds - 1,
                   static_cast<int>(graph::kIntermediateInfo));
    auto bag = std::make_shared<Bag>(kind);
    auto* const object = Pool<gpudnnBackendStruct>::create();
    object->bag = std::move(bag);
    *descriptor = object;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnBackendDestroyDescriptor(gpudnnBackendDescriptor_t descriptor) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_descriptor(descriptor, "descriptor"));
    Pool<gpudnnBackendStruct>::destroy(object_of(descriptor));
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnBackendInitialize(gpudnnBackendDescriptor_t descriptor) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_descriptor(descriptor, "descriptor"));
    // The old bag lives on where another descriptor has it.
    object_of(descriptor)->bag = std::make_shared<Bag>(object_of(descriptor)->bag->kind);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnBackendFinalize(gpudnnBackendDescriptor_t descriptor) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_descriptor(descriptor, "descriptor"));
    return graph::finalize(object_of(descriptor)->bag.get());
  });
}

extern "C" gpudnnStatus_t gpudnnBackendSetAttribute(gpudnnBackendDescriptor_t descriptor,
                                                    gpudnnBackendAttributeName_t attributeName,
                                                    gpudnnBackendAttributeType_t attributeType, int64_t elementCount,
                                                    const void* arrayOfElements) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_descriptor(descriptor, "descriptor"));
    return graph::set_attribute(object_of(descriptor)->bag.get(), attributeName, attributeType, elementCount,
                                arrayOfElements);
  });
}

extern "C" gpudnnStatus_t gpudnnBackendGetAttribute(gpudnnBackendDescriptor_t const descriptor,
                                                    gpudnnBackendAttributeName_t attributeName,
                                                    gpudnnBackendAttributeType_t attributeType,
                                                    int64_t requestedElementCount, int64_t* elementCount,
                                                    void* arrayOfElements) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_descriptor(descriptor, "descriptor"));
    return graph::answer(*object_of(descriptor)->bag, attributeName, attributeType, requestedElementCount, elementCount,
                         arrayOfElements);
  });
}

extern "C" gpudnnStatus_t gpudnnBackendExecute(gpudnnHandle_t handle, gpudnnBackendDescriptor_t executionPlan,
                                               gpudnnBackendDescriptor_t variantPack) {
  return guard(__func__, [&]() -> Status {
    graph::PlanRef plan;
    graph::Pack pack;
    GPUDNN_TRY(check_execution(handle, executionPlan, variantPack, &plan, &pack));
    return graph::execute(handle, plan, pack);
  });
}

extern "C" gpudnnStatus_t gpudnnBackendPopulateCudaGraph(gpudnnHandle_t handle, gpudnnBackendDescriptor_t executionPlan,
                                                         gpudnnBackendDescriptor_t variantPack, cudaGraph_t graph) {
  return guard(__func__, [&]() -> Status {
    graph::PlanRef plan;
    graph::Pack pack;
    GPUDNN_TRY(check_execution(handle, executionPlan, variantPack, &plan, &pack));
    GPUDNN_REQUIRE(graph != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                   "graph is null; create it with cudaGraphCreate");
    return graph::populate_cuda_graph(handle, plan, pack, graph);
  });
}

extern "C" gpudnnStatus_t gpudnnBackendUpdateCudaGraph(gpudnnHandle_t handle, gpudnnBackendDescriptor_t executionPlan,
                                                       gpudnnBackendDescriptor_t variantPack, cudaGraph_t graph) {
  return guard(__func__, [&]() -> Status {
    graph::PlanRef plan;
    graph::Pack pack;
    GPUDNN_TRY(check_execution(handle, executionPlan, variantPack, &plan, &pack));
    GPUDNN_REQUIRE(graph != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                   "graph is null; it must be one that gpudnnBackendPopulateCudaGraph filled");
    return graph::update_cuda_graph(handle, plan, pack, graph);
  });
}
