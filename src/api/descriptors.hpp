// What stands behind the opaque descriptor pointers of the interface.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "core/descriptor.hpp"
#include "core/geometry.hpp"
#include "gpudnn/adv.h"
#include "gpudnn/cnn.h"
#include "ops/multi_head_attn/problem.hpp"

struct gpudnnTensorStruct : gpudnn::Object {
  gpudnnTensorStruct() : Object{gpudnn::Kind::tensor} {}
  gpudnn::TensorGeometry geometry;  // rank 0 until it is set
};

struct gpudnnFilterStruct : gpudnn::Object {
  gpudnnFilterStruct() : Object{gpudnn::Kind::filter} {}
  gpudnn::TensorGeometry geometry;  // k, c, taps...; strides as the format packs them
  gpudnnTensorFormat_t format = GPUDNN_TENSOR_NCHW;
};

struct gpudnnConvolutionStruct : gpudnn::Object {
  gpudnnConvolutionStruct() : Object{gpudnn::Kind::convolution} {}
  int spatial = 0;  // 0 until it is set
  int pad[gpudnn::kMaxRank] = {};
  int stride[gpudnn::kMaxRank] = {};
  int dilation[gpudnn::kMaxRank] = {};
  gpudnnConvolutionMode_t mode = GPUDNN_CONVOLUTION;
  gpudnnDataType_t compute = GPUDNN_DATA_FLOAT;
  gpudnnMathType_t math = GPUDNN_DEFAULT_MATH;
  gpudnnReorderType_t reorder = GPUDNN_DEFAULT_REORDER;
  int groups = 1;
};

struct gpudnnPoolingStruct : gpudnn::Object {
  gpudnnPoolingStruct() : Object{gpudnn::Kind::pooling} {}
  int spatial = 0;  // 0 until it is set
  gpudnnPoolingMode_t mode = GPUDNN_POOLING_MAX;
  gpudnnNanPropagation_t nan = GPUDNN_NOT_PROPAGATE_NAN;
  int window[gpudnn::kMaxRank] = {};
  int pad[gpudnn::kMaxRank] = {};
  int stride[gpudnn::kMaxRank] = {};
};

struct gpudnnActivationStruct : gpudnn::Object {
  gpudnnActivationStruct() : Object{gpudnn::Kind::activation} {}
  bool set = false;
  gpudnnActivationMode_t mode = GPUDNN_ACTIVATION_RELU;
  gpudnnNanPropagation_t nan = GPUDNN_NOT_PROPAGATE_NAN;
  double coef = 0;
  double swish_beta = 1;
};

struct gpudnnOpTensorStruct : gpudnn::Object {
  gpudnnOpTensorStruct() : Object{gpudnn::Kind::op_tensor} {}
  bool set = false;
  gpudnnOpTensorOp_t op = GPUDNN_OP_TENSOR_ADD;
  gpudnnDataType_t compute = GPUDNN_DATA_FLOAT;
  gpudnnNanPropagation_t nan = GPUDNN_NOT_PROPAGATE_NAN;
};

struct gpudnnDropoutStruct : gpudnn::Object {
  gpudnnDropoutStruct() : Object{gpudnn::Kind::dropout} {}
  bool set = false;
  float probability = 0;
  void* states = nullptr;  // a dropout::States on the handle's device; null: only probability 0 can run
  unsigned long long seed = 0;
};

struct gpudnnSpatialTransformerStruct : gpudnn::Object {
  gpudnnSpatialTransformerStruct() : Object{gpudnn::Kind::spatial_transformer} {}
  bool set = false;
  gpudnnSamplerType_t sampler = GPUDNN_SAMPLER_BILINEAR;
  gpudnnDataType_t type = GPUDNN_DATA_FLOAT;
  int dims[4] = {};  // of the output: N, C, H, W
};

struct gpudnnCTCLossStruct : gpudnn::Object {
  gpudnnCTCLossStruct() : Object{gpudnn::Kind::ctc_loss} {}
  bool set = false;
  gpudnnDataType_t compute = GPUDNN_DATA_FLOAT;
  gpudnnLossNormalizationMode_t normalization = GPUDNN_LOSS_NORMALIZATION_NONE;
  gpudnnCTCGradMode_t gradients = GPUDNN_CTC_ZERO_OOB_GRADIENTS;  // v8's NaN mode has the same two values
  int max_label_length = -1;                                      // -1: the setter had no such parameter
};

struct gpudnnSeqDataStruct : gpudnn::Object {
  gpudnnSeqDataStruct() : Object{gpudnn::Kind::seq_data} {}
  bool set = false;
  gpudnnDataType_t type = GPUDNN_DATA_FLOAT;
  int dims[GPUDNN_SEQDATA_DIM_COUNT] = {};  // by gpudnnSeqDataAxis_t
  gpudnnSeqDataAxis_t axes[GPUDNN_SEQDATA_DIM_COUNT] = {};
  std::vector<int> lengths;  // of (batch, beam)
  bool has_fill = false;     // what padding of an output becomes; else 0
  double fill = 0;
};

struct gpudnnAttnStruct : gpudnn::Object {
  gpudnnAttnStruct() : Object{gpudnn::Kind::attn} {}
  bool set = false;
  gpudnn::mha::Layer layer;  // its dropout probabilities are read from the descriptors at each call
  gpudnnDropoutDescriptor_t attn_dropout = nullptr;
  gpudnnDropoutDescriptor_t post_dropout = nullptr;
};

struct gpudnnLRNStruct : gpudnn::Object {
  gpudnnLRNStruct() : Object{gpudnn::Kind::lrn} {}
  unsigned n = 5;
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 2;
};

struct gpudnnReduceTensorStruct : gpudnn::Object {
  gpudnnReduceTensorStruct() : Object{gpudnn::Kind::reduce_tensor} {}
  bool set = false;
  gpudnnReduceTensorOp_t op = GPUDNN_REDUCE_TENSOR_ADD;
  gpudnnDataType_t compute = GPUDNN_DATA_FLOAT;
  gpudnnNanPropagation_t nan = GPUDNN_NOT_PROPAGATE_NAN;
  gpudnnReduceTensorIndices_t indices = GPUDNN_REDUCE_TENSOR_NO_INDICES;
  gpudnnIndicesType_t index_type = GPUDNN_32BIT_INDICES;
};

struct gpudnnTensorTransformStruct : gpudnn::Object {
  gpudnnTensorTransformStruct() : Object{gpudnn::Kind::tensor_transform} {}
  int rank = 0;  // 0 until it is set
  gpudnnTensorFormat_t format = GPUDNN_TENSOR_NCHW;
  gpudnnFoldingDirection_t direction = GPUDNN_TRANSFORM_FOLD;
  int pad_before[gpudnn::kMaxRank] = {};
  int pad_after[gpudnn::kMaxRank] = {};
  unsigned fold[gpudnn::kMaxRank] = {};  // of the spatial dimensions
};

namespace gpudnn {

// Ends a live object of the kind; null is no object, and no error. `argument` names it in the text.
template <class T>
[[nodiscard]] Status destroy_object(T* object, Kind kind, const char* argument) {
  if (object == nullptr) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_TRY(check_object(object, kind, argument));
  Pool<T>::destroy(object);
  return GPUDNN_STATUS_SUCCESS;
}

// Live, of the kind, and set.
[[nodiscard]] Status check_tensor(gpudnnTensorDescriptor_t desc, const char* argument) noexcept;
[[nodiscard]] Status check_filter(gpudnnFilterDescriptor_t desc, const char* argument) noexcept;

// Takes the dims [0, rank) into int outputs; refuses what does not fit into an int. Null outputs are skipped.
[[nodiscard]] Status copy_to_int(const std::int64_t* values, int count, int* out, const char* what);

// Takes the four dims of an image into outputs, none of which may be null.
[[nodiscard]] Status copy_image_dims(const std::int64_t* dims, int* n, int* c, int* h, int* w);

// Sets the strides of a geometry packed in `format`, which must suit its type: the vector format stores groups of 4 or
// 32 channels as one element of a vector type.
[[nodiscard]] Status pack_as(gpudnnTensorFormat_t format, TensorGeometry* geometry);

// What a number of dimensions is refused with, as in cuDNN: more than the library has are no mistake of the caller.
[[nodiscard]] constexpr Status refused_rank(int rank, int most) noexcept {
  return rank > most ? GPUDNN_STATUS_NOT_SUPPORTED : GPUDNN_STATUS_BAD_PARAM;
}

// Checks an enum value given as a number.
[[nodiscard]] Status check_enum(int value, int first, int last, const char* argument) noexcept;
[[nodiscard]] Status check_data_type(DataType type, const char* argument) noexcept;

// "3x3", for the log line of a setter.
[[nodiscard]] std::string list_text(const int* values, int count);

// alpha and beta are host pointers to float, or to double for double tensors.
[[nodiscard]] double scalar(const void* value, DataType tensor_type) noexcept;

}  // namespace gpudnn

#define GPUDNN_CHECK_TENSOR(desc) GPUDNN_TRY(::gpudnn::check_tensor((desc), #desc))
#define GPUDNN_CHECK_FILTER(desc) GPUDNN_TRY(::gpudnn::check_filter((desc), #desc))
// The data of an empty tensor may be null; other data may not.
#define GPUDNN_CHECK_DATA(pointer, desc)                                                                          \
  GPUDNN_REQUIRE((pointer) != nullptr || ::gpudnn::element_count((desc)->geometry) == 0, GPUDNN_STATUS_BAD_PARAM, \
                 "%s is null; it must point to the data that %s describes", #pointer, #desc)
