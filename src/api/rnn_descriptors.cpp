// Descriptors of recurrent networks and of their sequences.
// SPDX-License-Identifier: Apache-2.0
#include "api/rnn_descriptors.hpp"

#include <algorithm>
#include <cstring>

#include "core/guard.hpp"

using namespace gpudnn;

namespace gpudnn::rnn {

Status check_network(gpudnnRNNDescriptor_t rnnDesc) {
  GPUDNN_CHECK_OBJECT(rnnDesc, kRnnKind);
  GPUDNN_REQUIRE(rnnDesc->set, GPUDNN_STATUS_BAD_PARAM,
                 "rnnDesc was created but never set; call gpudnnSetRNNDescriptor_v8");
  return GPUDNN_STATUS_SUCCESS;
}

Status check_data(gpudnnRNNDataDescriptor_t desc, const char* argument) {
  GPUDNN_TRY(check_object(desc, kRnnDataKind, argument));
  GPUDNN_REQUIRE(desc->set, GPUDNN_STATUS_BAD_PARAM, "%s was created but never set; call gpudnnSetRNNDataDescriptor",
                 argument);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::rnn

namespace {

// The network computes in float, double data in double; half may also be asked for, and gets float.
Status check_precision(gpudnnDataType_t type, gpudnnDataType_t precision) {
  GPUDNN_TRY(check_data_type(type, "dataType"));
  GPUDNN_TRY(check_data_type(precision, "mathPrec"));
  GPUDNN_REQUIRE(is_floating(type), GPUDNN_STATUS_NOT_SUPPORTED,
                 "dataType is %s; recurrent networks are built for f16, bf16, f32 and f64", data_type_name(type));
  const bool narrow = type == GPUDNN_DATA_HALF || type == GPUDNN_DATA_BFLOAT16;
  const bool legal = precision == type || (narrow && precision == GPUDNN_DATA_FLOAT);
  GPUDNN_REQUIRE(legal, GPUDNN_STATUS_NOT_SUPPORTED,
                 "mathPrec is %s and dataType %s; 16-bit data take f32 or their own type, others their own",
                 data_type_name(precision), data_type_name(type));
  return GPUDNN_STATUS_SUCCESS;
}

Status check_choices(gpudnnRNNAlgo_t algo, gpudnnRNNMode_t cellMode, gpudnnRNNBiasMode_t biasMode,
                     gpudnnDirectionMode_t dirMode, gpudnnRNNInputMode_t inputMode, gpudnnMathType_t mathType,
                     uint32_t auxFlags) {
  GPUDNN_TRY(check_enum(algo, GPUDNN_RNN_ALGO_STANDARD, GPUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H, "algo"));
  GPUDNN_TRY(check_enum(cellMode, GPUDNN_RNN_RELU, GPUDNN_GRU, "cellMode"));
  GPUDNN_TRY(check_enum(biasMode, GPUDNN_RNN_NO_BIAS, GPUDNN_RNN_SINGLE_REC_BIAS, "biasMode"));
  GPUDNN_TRY(check_enum(dirMode, GPUDNN_UNIDIRECTIONAL, GPUDNN_BIDIRECTIONAL, "dirMode"));
  GPUDNN_TRY(check_enum(inputMode, GPUDNN_LINEAR_INPUT, GPUDNN_SKIP_INPUT, "inputMode"));
  GPUDNN_TRY(check_enum(mathType, GPUDNN_DEFAULT_MATH, GPUDNN_FMA_MATH, "mathType"));
  GPUDNN_REQUIRE((auxFlags & ~GPUDNN_RNN_PADDED_IO_ENABLED) == 0, GPUDNN_STATUS_BAD_PARAM,
                 "auxFlags is %#x; it must be 0 or GPUDNN_RNN_PADDED_IO_ENABLED", auxFlags);
  return GPUDNN_STATUS_SUCCESS;
}

Status set_clip(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNClipMode_t clipMode, bool passes_nan, double lclip,
                double rclip) {
  GPUDNN_CHECK_OBJECT(rnnDesc, kRnnKind);
  GPUDNN_TRY(check_enum(clipMode, GPUDNN_RNN_CLIP_NONE, GPUDNN_RNN_CLIP_MINMAX, "clipMode"));
  rnn::Network& net = rnnDesc->net;
  if (clipMode == GPUDNN_RNN_CLIP_MINMAX) {
    GPUDNN_REQUIRE(lclip <= rclip, GPUDNN_STATUS_BAD_PARAM, "lclip is %g and rclip %g; lclip must not be above", lclip,
                   rclip);
  }
  net.clips = clipMode == GPUDNN_RNN_CLIP_MINMAX;
  net.clip_passes_nan = passes_nan;
  net.clip_low = lclip;
  net.clip_high = rclip;
  return GPUDNN_STATUS_SUCCESS;
}

Status get_clip(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNClipMode_t* clipMode, gpudnnNanPropagation_t* clipNanOpt,
                double* lclip, double* rclip) {
  GPUDNN_CHECK_OBJECT(rnnDesc, kRnnKind);
  const rnn::Network& net = rnnDesc->net;
  if (clipMode != nullptr) *clipMode = net.clips ? GPUDNN_RNN_CLIP_MINMAX : GPUDNN_RNN_CLIP_NONE;
  if (clipNanOpt != nullptr) *clipNanOpt = net.clip_passes_nan ? GPUDNN_PROPAGATE_NAN : GPUDNN_NOT_PROPAGATE_NAN;
  if (lclip != nullptr) *lclip = net.clip_low;
  if (rclip != nullptr) *rclip = net.clip_high;
  return GPUDNN_STATUS_SUCCESS;
}

template <class T>
void give(T* out, T value) {
  if (out != nullptr) *out = value;
}

Status check_lengths(gpudnnRNNDataLayout_t layout, int maxSeqLength, int batchSize, const int seqLengthArray[]) {
  for (int i = 0; i < batchSize; ++i) {
    GPUDNN_REQUIRE(seqLengthArray[i] >= 0 && seqLengthArray[i] <= maxSeqLength, GPUDNN_STATUS_BAD_PARAM,
                   "seqLengthArray[%d] is %d; it must be 0 to maxSeqLength, %d", i, seqLengthArray[i], maxSeqLength);
    GPUDNN_REQUIRE(
        layout != GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED || i == 0 || seqLengthArray[i] <= seqLengthArray[i - 1],
        GPUDNN_STATUS_BAD_PARAM,
        "seqLengthArray[%d] is %d and the one before %d; the packed layout takes sequences from longest to "
        "shortest",
        i, seqLengthArray[i], seqLengthArray[i - 1]);
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

extern "C" {

gpudnnStatus_t gpudnnCreateRNNDescriptor(gpudnnRNNDescriptor_t* rnnDesc) {
  return guard(__func__, [&]() -> Status { return create_object(rnnDesc, "rnnDesc"); });
}

gpudnnStatus_t gpudnnDestroyRNNDescriptor(gpudnnRNNDescriptor_t rnnDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(rnnDesc, kRnnKind, "rnnDesc"); });
}

gpudnnStatus_t gpudnnSetRNNDescriptor_v8(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNAlgo_t algo, gpudnnRNNMode_t cellMode,
                                         gpudnnRNNBiasMode_t biasMode, gpudnnDirectionMode_t dirMode,
                                         gpudnnRNNInputMode_t inputMode, gpudnnDataType_t dataType,
                                         gpudnnDataType_t mathPrec, gpudnnMathType_t mathType, int32_t inputSize,
                                         int32_t hiddenSize, int32_t projSize, int32_t numLayers,
                                         gpudnnDropoutDescriptor_t dropoutDesc, uint32_t auxFlags) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(rnnDesc, kRnnKind);
    GPUDNN_TRY(check_choices(algo, cellMode, biasMode, dirMode, inputMode, mathType, auxFlags));
    GPUDNN_TRY(check_precision(dataType, mathPrec));
    if (dropoutDesc != nullptr) GPUDNN_CHECK_OBJECT(dropoutDesc, Kind::dropout);
    rnn::Network net = rnnDesc->net;  // the clip stays
    net.cell = cellMode;
    net.bias = biasMode;
    net.bidirectional = dirMode == GPUDNN_BIDIRECTIONAL;
    net.skip = inputMode == GPUDNN_SKIP_INPUT;
    net.type = dataType;
    net.math = mathType;
    net.input = inputSize;
    net.hidden = hiddenSize;
    net.projected = projSize;
    net.layers = numLayers;
    GPUDNN_TRY(rnn::validate(net));
    rnnDesc->net = net;
    rnnDesc->algo = algo;
    rnnDesc->math_precision = mathPrec;
    rnnDesc->dropout = dropoutDesc;
    rnnDesc->flags = auxFlags;
    rnnDesc->set = true;
    return GPUDNN_STATUS_SUCCESS;
  });
}

gpudnnStatus_t gpudnnGetRNNDescriptor_v8(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNAlgo_t* algo,
                                         gpudnnRNNMode_t* cellMode, gpudnnRNNBiasMode_t* biasMode,
                                         gpudnnDirectionMode_t* dirMode, gpudnnRNNInputMode_t* inputMode,
                                         gpudnnDataType_t* dataType, gpudnnDataType_t* mathPrec,
                                         gpudnnMathType_t* mathType, int32_t* inputSize, int32_t* hiddenSize,
                                         int32_t* projSize, int32_t* numLayers, gpudnnDropoutDescriptor_t* dropoutDesc,
                                         uint32_t* auxFlags) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(rnn::check_network(rnnDesc));
    const rnn::Network& net = rnnDesc->net;
    give(algo, rnnDesc->algo);
    give(cellMode, net.cell);
    give(biasMode, net.bias);
    give(dirMode, net.bidirectional ? GPUDNN_BIDIRECTIONAL : GPUDNN_UNIDIRECTIONAL);
    give(inputMode, net.skip ? GPUDNN_SKIP_INPUT : GPUDNN_LINEAR_INPUT);
    give(dataType, net.type);
    give(mathPrec, rnnDesc->math_precision);
    give(mathType, net.math);
    give(inputSize, net.input);
    give(hiddenSize, net.hidden);
    give(projSize, net.projected);
    give(numLayers, net.layers);
    give(dropoutDesc, rnnDesc->dropout);
    give(auxFlags, rnnDesc->flags);
    return GPUDNN_STATUS_SUCCESS;
  });
}

gpudnnStatus_t gpudnnRNNSetClip_v8(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNClipMode_t clipMode,
                                   gpudnnNanPropagation_t clipNanOpt, double lclip, double rclip) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_enum(clipNanOpt, GPUDNN_NOT_PROPAGATE_NAN, GPUDNN_PROPAGATE_NAN, "clipNanOpt"));
    return set_clip(rnnDesc, clipMode, clipNanOpt == GPUDNN_PROPAGATE_NAN, lclip, rclip);
  });
}

gpudnnStatus_t gpudnnRNNSetClip_v9(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNClipMode_t clipMode, double lclip,
                                   double rclip) {
  return guard(__func__, [&]() -> Status { return set_clip(rnnDesc, clipMode, true, lclip, rclip); });
}

gpudnnStatus_t gpudnnRNNGetClip_v8(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNClipMode_t* clipMode,
                                   gpudnnNanPropagation_t* clipNanOpt, double* lclip, double* rclip) {
  return guard(__func__, [&]() -> Status { return get_clip(rnnDesc, clipMode, clipNanOpt, lclip, rclip); });
}

gpudnnStatus_t gpudnnRNNGetClip_v9(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNClipMode_t* clipMode, double* lclip,
                                   double* rclip) {
  return guard(__func__, [&]() -> Status { return get_clip(rnnDesc, clipMode, nullptr, lclip, rclip); });
}

gpudnnStatus_t gpudnnCreateRNNDataDescriptor(gpudnnRNNDataDescriptor_t* rnnDataDesc) {
  return guard(__func__, [&]() -> Status { return create_object(rnnDataDesc, "rnnDataDesc"); });
}

gpudnnStatus_t gpudnnDestroyRNNDataDescriptor(gpudnnRNNDataDescriptor_t rnnDataDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(rnnDataDesc, kRnnDataKind, "rnnDataDesc"); });
}

gpudnnStatus_t gpudnnSetRNNDataDescriptor(gpudnnRNNDataDescriptor_t rnnDataDesc, gpudnnDataType_t dataType,
                                          gpudnnRNNDataLayout_t layout, int maxSeqLength, int batchSize, int vectorSize,
                                          const int seqLengthArray[], void* paddingFill) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(rnnDataDesc, kRnnDataKind);
    GPUDNN_TRY(check_data_type(dataType, "dataType"));
    GPUDNN_REQUIRE(is_floating(dataType), GPUDNN_STATUS_NOT_SUPPORTED,
                   "dataType is %s; recurrent networks are built for f16, bf16, f32 and f64", data_type_name(dataType));
    GPUDNN_TRY(check_enum(layout, GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED,
                          GPUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED, "layout"));
    GPUDNN_REQUIRE(maxSeqLength > 0 && batchSize > 0 && vectorSize > 0, GPUDNN_STATUS_BAD_PARAM,
                   "maxSeqLength is %d, batchSize %d and vectorSize %d; all must be positive", maxSeqLength, batchSize,
                   vectorSize);
    GPUDNN_CHECK_POINTER(seqLengthArray);
    GPUDNN_TRY(check_lengths(layout, maxSeqLength, batchSize, seqLengthArray));
    rnnDataDesc->type = dataType;
    rnnDataDesc->vector = vectorSize;
    rnnDataDesc->sequences.layout = layout;
    rnnDataDesc->sequences.steps = maxSeqLength;
    rnnDataDesc->sequences.batch = batchSize;
    rnnDataDesc->sequences.lengths.assign(seqLengthArray, seqLengthArray + batchSize);
    rnnDataDesc->fills = paddingFill != nullptr;
    if (paddingFill != nullptr) {
      with_floating_type(dataType, [&]<class T>() {
        T value;
        std::memcpy(&value, paddingFill, sizeof value);
        rnnDataDesc->fill = to_double(value);
      });
    }
    rnnDataDesc->set = true;
    return GPUDNN_STATUS_SUCCESS;
  });
}

gpudnnStatus_t gpudnnGetRNNDataDescriptor(gpudnnRNNDataDescriptor_t rnnDataDesc, gpudnnDataType_t* dataType,
                                          gpudnnRNNDataLayout_t* layout, int* maxSeqLength, int* batchSize,
                                          int* vectorSize, int arrayLengthRequested, int seqLengthArray[],
                                          void* paddingFill) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(rnn::check_data(rnnDataDesc, "rnnDataDesc"));
    GPUDNN_REQUIRE(arrayLengthRequested >= 0, GPUDNN_STATUS_BAD_PARAM,
                   "arrayLengthRequested is %d; it must not be negative", arrayLengthRequested);
    const rnn::Sequences& s = rnnDataDesc->sequences;
    give(dataType, rnnDataDesc->type);
    give(layout, s.layout);
    give(maxSeqLength, int{s.steps});
    give(batchSize, int{s.batch});
    give(vectorSize, rnnDataDesc->vector);
    if (seqLengthArray != nullptr) {
      std::copy_n(s.lengths.begin(), std::min(arrayLengthRequested, int{s.batch}), seqLengthArray);
    }
    if (paddingFill != nullptr && rnnDataDesc->fills) {
      with_floating_type(rnnDataDesc->type, [&]<class T>() {
        const T value = round_to<T>(rnnDataDesc->fill);
        std::memcpy(paddingFill, &value, sizeof value);
      });
    }
    return GPUDNN_STATUS_SUCCESS;
  });
}

}  // extern "C"
