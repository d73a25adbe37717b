// What the six functions answer to right and wrong calls.
// SPDX-License-Identifier: Apache-2.0
#include "client.hpp"
#include "gpudnn/ops.h"
#include "graph/kinds.hpp"
#include "support/backend.hpp"

namespace gpudnn::test {
namespace {

constexpr std::int64_t kDims[] = {2, 3, 4, 5};
constexpr std::int64_t kStrides[] = {60, 20, 5, 1};

// A TENSOR with everything set but what is told to be left out.
BackendDescriptor tensor_without(int left_out) {
  BackendDescriptor t(graph::kTensor);
  const auto skip = [left_out](int name) { return name == left_out; };
  if (!skip(GPUDNN_ATTR_TENSOR_DATA_TYPE)) {
    EXPECT_EQ(t.set_enum(GPUDNN_ATTR_TENSOR_DATA_TYPE, GPUDNN_TYPE_DATA_TYPE, GPUDNN_DATA_FLOAT),
              GPUDNN_STATUS_SUCCESS);
  }
  if (!skip(GPUDNN_ATTR_TENSOR_DIMENSIONS)) {
    EXPECT_EQ(t.set(GPUDNN_ATTR_TENSOR_DIMENSIONS, GPUDNN_TYPE_INT64, 4, kDims), GPUDNN_STATUS_SUCCESS);
  }
  if (!skip(GPUDNN_ATTR_TENSOR_STRIDES)) {
    EXPECT_EQ(t.set(GPUDNN_ATTR_TENSOR_STRIDES, GPUDNN_TYPE_INT64, 4, kStrides), GPUDNN_STATUS_SUCCESS);
  }
  if (!skip(GPUDNN_ATTR_TENSOR_UNIQUE_ID)) {
    EXPECT_EQ(t.set_integer(GPUDNN_ATTR_TENSOR_UNIQUE_ID, 7), GPUDNN_STATUS_SUCCESS);
  }
  if (!skip(GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)) {
    EXPECT_EQ(t.set_integer(GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, 16), GPUDNN_STATUS_SUCCESS);
  }
  return t;
}

TEST(GraphStatuses, KindsThatExistCanBeCreated) {
  for (int kind = -2; kind < graph::kKinds + 3; ++kind) {
    gpudnnBackendDescriptor_t object = nullptr;
    const Status status = gpudnnBackendCreateDescriptor(static_cast<gpudnnBackendDescriptorType_t>(kind), &object);
    const bool exists = kind >= 0 && kind < graph::kKinds && kind != graph::kIntermediateInfo;
    EXPECT_EQ(status, exists ? GPUDNN_STATUS_SUCCESS : GPUDNN_STATUS_BAD_PARAM) << kind;
    EXPECT_EQ(object != nullptr, exists);
    if (exists) {
      EXPECT_EQ(gpudnnBackendDestroyDescriptor(object), GPUDNN_STATUS_SUCCESS);
    }
  }
  EXPECT_EQ(gpudnnBackendCreateDescriptor(GPUDNN_BACKEND_TENSOR_DESCRIPTOR, nullptr),
            GPUDNN_STATUS_BAD_PARAM_NULL_POINTER);
}

TEST(GraphStatuses, DescriptorsThatAreNone) {
  EXPECT_EQ(gpudnnBackendDestroyDescriptor(nullptr), GPUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  gpudnnBackendDescriptor_t gone = nullptr;
  ASSERT_EQ(gpudnnBackendCreateDescriptor(GPUDNN_BACKEND_TENSOR_DESCRIPTOR, &gone), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(gpudnnBackendDestroyDescriptor(gone), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(gpudnnBackendFinalize(gone), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(last_error().find("destroyed"), std::string::npos);
  gpudnnTensorDescriptor_t classic = nullptr;
  ASSERT_EQ(gpudnnCreateTensorDescriptor(&classic), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(gpudnnBackendFinalize(classic), GPUDNN_STATUS_BAD_PARAM);
  ASSERT_EQ(gpudnnDestroyTensorDescriptor(classic), GPUDNN_STATUS_SUCCESS);
}

TEST(GraphStatuses, SetRefusesByItsRules) {
  BackendDescriptor t(graph::kTensor);
  const int type = GPUDNN_DATA_FLOAT;
  EXPECT_EQ(t.set(GPUDNN_ATTR_POINTWISE_MODE, GPUDNN_TYPE_POINTWISE_MODE, 1, &type), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(t.set(GPUDNN_ATTR_TENSOR_DATA_TYPE, GPUDNN_TYPE_INT64, 1, &type), GPUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  EXPECT_EQ(t.set(GPUDNN_ATTR_TENSOR_DATA_TYPE, GPUDNN_TYPE_DATA_TYPE, 2, &type), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(t.set(GPUDNN_ATTR_TENSOR_DATA_TYPE, GPUDNN_TYPE_DATA_TYPE, 0, &type), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(t.set(GPUDNN_ATTR_TENSOR_DATA_TYPE, GPUDNN_TYPE_DATA_TYPE, 1, nullptr),
            GPUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  const int no_type = 99;
  EXPECT_EQ(t.set(GPUDNN_ATTR_TENSOR_DATA_TYPE, GPUDNN_TYPE_DATA_TYPE, 1, &no_type), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(t.set(GPUDNN_ATTR_TENSOR_DIMENSIONS, GPUDNN_TYPE_INT64, -1, kDims), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(t.set(GPUDNN_ATTR_TENSOR_DIMENSIONS, GPUDNN_TYPE_INT64, 65, kDims), GPUDNN_STATUS_BAD_PARAM_OUT_OF_BOUND);
  const BackendDescriptor bare(graph::kTensor);
  const BackendDescriptor other(graph::kMatmul);
  EXPECT_EQ(t.set_descriptor(GPUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, bare), GPUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  EXPECT_EQ(t.set_descriptor(GPUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, other), GPUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
  const gpudnnBackendDescriptor_t null = nullptr;
  EXPECT_EQ(t.set(GPUDNN_ATTR_TENSOR_RAGGED_OFFSET_DESC, GPUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &null),
            GPUDNN_STATUS_BAD_PARAM_NULL_POINTER);
  BackendDescriptor config(graph::kEngineConfig);
  const std::int64_t size = 1;
  EXPECT_EQ(config.set(GPUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE, GPUDNN_TYPE_INT64, 1, &size), GPUDNN_STATUS_BAD_PARAM);
}

TEST(GraphStatuses, FinalizeNeedsEveryRequiredAttribute) {
  for (const int name : {GPUDNN_ATTR_TENSOR_DATA_TYPE, GPUDNN_ATTR_TENSOR_DIMENSIONS, GPUDNN_ATTR_TENSOR_STRIDES,
                         GPUDNN_ATTR_TENSOR_UNIQUE_ID, GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT}) {
    BackendDescriptor t = tensor_without(name);
    EXPECT_EQ(t.finalize(), GPUDNN_STATUS_BAD_PARAM) << name;
    EXPECT_NE(last_error().find("was not set"), std::string::npos);
  }
}

TEST(GraphStatuses, AFailedFinalizeCanBeMended) {
  BackendDescriptor t = tensor_without(GPUDNN_ATTR_TENSOR_STRIDES);
  ASSERT_EQ(t.set(GPUDNN_ATTR_TENSOR_STRIDES, GPUDNN_TYPE_INT64, 3, kStrides), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(t.finalize(), GPUDNN_STATUS_BAD_PARAM);
  ASSERT_EQ(t.set(GPUDNN_ATTR_TENSOR_STRIDES, GPUDNN_TYPE_INT64, 4, kStrides), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(t.finalize(), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(t.finalize(), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(t.set(GPUDNN_ATTR_TENSOR_STRIDES, GPUDNN_TYPE_INT64, 4, kStrides), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(gpudnnBackendInitialize(t.get()), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(t.set(GPUDNN_ATTR_TENSOR_STRIDES, GPUDNN_TYPE_INT64, 4, kStrides), GPUDNN_STATUS_SUCCESS);
}

TEST(GraphStatuses, TensorsThatCannotBe) {
  const auto refused = [](std::vector<std::int64_t> dims, std::vector<std::int64_t> strides, std::int64_t alignment) {
    BackendDescriptor t = tensor_without(GPUDNN_ATTR_TENSOR_DIMENSIONS);
    EXPECT_EQ(
        t.set(GPUDNN_ATTR_TENSOR_DIMENSIONS, GPUDNN_TYPE_INT64, static_cast<std::int64_t>(dims.size()), dims.data()),
        GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(
        t.set(GPUDNN_ATTR_TENSOR_STRIDES, GPUDNN_TYPE_INT64, static_cast<std::int64_t>(strides.size()), strides.data()),
        GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(t.set_integer(GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, alignment), GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(t.finalize(), GPUDNN_STATUS_BAD_PARAM);
    EXPECT_GT(last_error().size(), 20U);
  };
  refused({0, 1}, {1, 1}, 16);
  refused({-4, 1}, {1, 1}, 16);
  refused({2, 2}, {-2, 1}, 16);
  refused({1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1}, 16);
  refused({INT64_MAX, INT64_MAX}, {1, 1}, 16);
  refused({1 << 20, 1 << 20}, {INT64_MAX, 1}, 16);
  refused({2, 2}, {2, 1}, 2);
  refused({2, 2}, {2, 1}, 0);
  refused({2, 2}, {2, 1}, -4);
}

TEST(GraphStatuses, GetCountsAndWrites) {
  BackendDescriptor t = tensor_without(-1);
  std::int64_t out[8] = {-9, -9, -9, -9, -9, -9, -9, -9};
  std::int64_t n = -1;
  const auto get = [&](int type, std::int64_t requested, std::int64_t* count, void* to) {
    return gpudnnBackendGetAttribute(t.get(), GPUDNN_ATTR_TENSOR_DIMENSIONS,
                                     static_cast<gpudnnBackendAttributeType_t>(type), requested, count, to);
  };
  EXPECT_EQ(get(GPUDNN_TYPE_INT64, 1, &n, out), GPUDNN_STATUS_BAD_PARAM_NOT_FINALIZED);
  ASSERT_EQ(t.finalize(), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(get(GPUDNN_TYPE_INT64, 0, &n, nullptr), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(n, 4);
  EXPECT_EQ(get(GPUDNN_TYPE_INT64, 8, &n, nullptr), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(n, 4);
  EXPECT_EQ(get(GPUDNN_TYPE_INT64, 2, &n, out), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(n, 2);
  EXPECT_EQ(out[1], 3);
  EXPECT_EQ(out[2], -9);
  EXPECT_EQ(get(GPUDNN_TYPE_INT64, 8, nullptr, out), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(out[3], 5);
  EXPECT_EQ(get(GPUDNN_TYPE_DOUBLE, 8, &n, out), GPUDNN_STATUS_BAD_PARAM_ATTRIBUTE_TYPE);
  EXPECT_EQ(get(GPUDNN_TYPE_INT64, -1, &n, out), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_EQ(t.integer(GPUDNN_ATTR_TENSOR_VECTOR_COUNT), 1);
  EXPECT_EQ(t.integer(GPUDNN_ATTR_TENSOR_VECTORIZED_DIMENSION), -1);
  EXPECT_EQ(t.integer(GPUDNN_ATTR_TENSOR_REORDERING_MODE), 0);
}

TEST(GraphStatuses, PointwiseAnswersItsDefaults) {
  BackendDescriptor p(graph::kPointwise);
  ASSERT_EQ(p.set_enum(GPUDNN_ATTR_POINTWISE_MODE, GPUDNN_TYPE_POINTWISE_MODE, GPUDNN_POINTWISE_RELU_FWD),
            GPUDNN_STATUS_SUCCESS);
  const float clip = 0.5F;
  ASSERT_EQ(p.set(GPUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, GPUDNN_TYPE_FLOAT, 1, &clip), GPUDNN_STATUS_SUCCESS);
  ASSERT_EQ(p.finalize(), GPUDNN_STATUS_SUCCESS);
  double value = 0;
  ASSERT_EQ(
      gpudnnBackendGetAttribute(p.get(), GPUDNN_ATTR_POINTWISE_RELU_LOWER_CLIP, GPUDNN_TYPE_DOUBLE, 1, nullptr, &value),
      GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(value, 0.5);
  ASSERT_EQ(gpudnnBackendGetAttribute(p.get(), GPUDNN_ATTR_POINTWISE_ELU_ALPHA, GPUDNN_TYPE_DOUBLE, 1, nullptr, &value),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(value, 1);
}

TEST(GraphStatuses, PacksNeedAsManyPointersAsIds) {
  BackendDescriptor pack(graph::kPack);
  const std::int64_t uids[] = {1, 2};
  void* pointers[] = {nullptr, nullptr};
  ASSERT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, GPUDNN_TYPE_INT64, 2, uids), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(pack.finalize(), GPUDNN_STATUS_BAD_PARAM);
  ASSERT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, GPUDNN_TYPE_VOID_PTR, 1, pointers), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(pack.finalize(), GPUDNN_STATUS_BAD_PARAM);
  ASSERT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, GPUDNN_TYPE_VOID_PTR, 2, pointers), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(pack.finalize(), GPUDNN_STATUS_SUCCESS);
}

TEST(GraphStatuses, TextsNameAttributesAndKinds) {
  BackendDescriptor t(graph::kTensor);
  const auto tells = [&t](int name, const char* part) {
    EXPECT_EQ(t.set_integer(name, 1), GPUDNN_STATUS_BAD_PARAM);
    const std::string text = last_error();
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  tells(GPUDNN_ATTR_MATMUL_COMP_TYPE, "GPUDNN_ATTR_MATMUL_COMP_TYPE (1500) is no attribute of TENSOR descriptors");
  tells(99999, "that (99999) is no attribute of TENSOR descriptors");
  BackendDescriptor part = tensor_without(GPUDNN_ATTR_TENSOR_BYTE_ALIGNMENT);
  ASSERT_EQ(part.finalize(), GPUDNN_STATUS_BAD_PARAM);
  EXPECT_NE(last_error().find("every TENSOR needs it"), std::string::npos);
  BackendDescriptor pack(graph::kPack);
  BackendDescriptor whole = tensor_without(0);
  ASSERT_EQ(whole.finalize(), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(gpudnnBackendExecute(Backend::host().handle(), whole.get(), pack.get()),
            GPUDNN_STATUS_BAD_PARAM_DESCRIPTOR_TYPE);
  EXPECT_NE(last_error().find("is a descriptor of TENSOR; it must be one of EXECUTION_PLAN"), std::string::npos);
}

// Every attribute of every kind, with every type and with counts and pointers that may be wrong: an answer, no crash.
TEST(GraphStatuses, HostileAttributes) {
  Random random(20240611);
  std::vector<BackendDescriptor> good;
  good.push_back(tensor_without(-1));
  ASSERT_EQ(good.back().finalize(), GPUDNN_STATUS_SUCCESS);
  for (int kind = 0; kind < graph::kKinds; ++kind)
    if (kind != graph::kIntermediateInfo) good.emplace_back(kind);
  for (int kind = 0; kind < graph::kKinds; ++kind) {
    if (kind == graph::kIntermediateInfo) continue;
    for (int attempt = 0; attempt < 6; ++attempt) {
      BackendDescriptor d(kind);
      for (const graph::Attribute& row : graph::attributes_of(kind)) {
        const bool vectors = row.name == GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_SHAPES ||
                             row.name == GPUDNN_ATTR_VARIANT_PACK_OVERRIDE_STRIDES;
        if (vectors || row.type == GPUDNN_TYPE_HANDLE) continue;  // addresses that only the program knows
        alignas(16) std::int64_t words[80];
        for (std::int64_t& word : words)
          word = random.pick<std::int64_t>(
              {0, 1, 2, 3, -1, INT64_MIN, INT64_MAX, 601, static_cast<std::int64_t>(random.bits())});
        if (row.type == GPUDNN_TYPE_BACKEND_DESCRIPTOR)
          for (std::int64_t& word : words) {
            const auto& pick =
                good[static_cast<std::size_t>(random.between(0, static_cast<std::int64_t>(good.size()) - 1))];
            word = random.chance(0.1)
                       ? 0
                       : reinterpret_cast<std::intptr_t>(random.chance(0.5) ? good[0].get() : pick.get());
          }
        const int type = random.chance(0.85) ? row.type : static_cast<int>(random.between(-1, 32));
        const bool descriptors = type == GPUDNN_TYPE_BACKEND_DESCRIPTOR && row.type != GPUDNN_TYPE_BACKEND_DESCRIPTOR;
        if (descriptors && row.other == GPUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
        const std::int64_t count =
            random.pick<std::int64_t>({1, 1, 1, 2, 4, 0, -1, INT64_MIN, row.most > 64 ? 64 : INT64_MAX});
        const void* data = random.chance(0.1) ? nullptr : words;
        static_cast<void>(d.set(row.name, type, count, data));
      }
      const Status status = d.finalize();
      if (status != GPUDNN_STATUS_SUCCESS) {
        EXPECT_GT(last_error().size(), 10U) << graph::kind_text(kind);
      }
      for (const graph::Attribute& row : graph::attributes_of(kind)) {
        alignas(16) char out[4096] = {};
        std::int64_t n = 0;
        const int type = row.type;
        if (type == GPUDNN_TYPE_BACKEND_DESCRIPTOR) continue;
        static_cast<void>(gpudnnBackendGetAttribute(d.get(), row.name, static_cast<gpudnnBackendAttributeType_t>(type),
                                                    random.between(-1, 64), &n, out));
      }
    }
  }
}

}  // namespace
}  // namespace gpudnn::test
