// Multi-head attention, its descriptors and those of its sequences.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <utility>
#include <vector>

#include "api/descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"
#include "core/validation.hpp"
#include "ops/multi_head_attn/problem.hpp"

using namespace gpudnn;

namespace {

Status check_seq_data(gpudnnSeqDataDescriptor_t desc, const char* argument) {
  GPUDNN_TRY(check_object(desc, Kind::seq_data, argument));
  GPUDNN_REQUIRE(desc->set, GPUDNN_STATUS_BAD_PARAM, "%s was created but never set; call gpudnnSetSeqDataDescriptor",
                 argument);
  return GPUDNN_STATUS_SUCCESS;
}
#define GPUDNN_CHECK_SEQ_DATA(desc) GPUDNN_TRY(check_seq_data((desc), #desc))

Status check_attn(gpudnnAttnDescriptor_t attnDesc) {
  GPUDNN_CHECK_OBJECT(attnDesc, Kind::attn);
  GPUDNN_REQUIRE(attnDesc->set, GPUDNN_STATUS_BAD_PARAM,
                 "attnDesc was created but never set; call gpudnnSetAttnDescriptor");
  return GPUDNN_STATUS_SUCCESS;
}

constexpr const char* kDimNames[] = {"TIME", "BATCH", "BEAM", "VECT"};

Status check_axes(const gpudnnSeqDataAxis_t axes[]) {
  unsigned seen = 0;
  for (int i = 0; i < GPUDNN_SEQDATA_DIM_COUNT; ++i) {
    GPUDNN_TRY(check_enum(axes[i], GPUDNN_SEQDATA_TIME_DIM, GPUDNN_SEQDATA_VECT_DIM, "an element of axes"));
    seen |= 1U << static_cast<unsigned>(axes[i]);
  }
  GPUDNN_REQUIRE(seen == 15, GPUDNN_STATUS_BAD_PARAM,
                 "axes name a dimension twice; each of the four must be there once");
  GPUDNN_REQUIRE(axes[3] == GPUDNN_SEQDATA_VECT_DIM, GPUDNN_STATUS_BAD_PARAM,
                 "axes[3] is %s_DIM; it must be VECT_DIM, as vectors lie together", kDimNames[axes[3]]);
  return GPUDNN_STATUS_SUCCESS;
}

Status check_dims(const int dimA[]) {
  for (int i = 0; i < GPUDNN_SEQDATA_DIM_COUNT; ++i) {
    GPUDNN_REQUIRE(dimA[i] > 0, GPUDNN_STATUS_BAD_PARAM, "dimA[%s_DIM] is %d; it must be positive", kDimNames[i],
                   dimA[i]);
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status check_lengths(const int dimA[], std::size_t count, const int lengths[]) {
  const auto sequences = static_cast<std::size_t>(dimA[GPUDNN_SEQDATA_BATCH_DIM]) *
                         static_cast<std::size_t>(dimA[GPUDNN_SEQDATA_BEAM_DIM]);
  GPUDNN_REQUIRE(count == sequences, GPUDNN_STATUS_BAD_PARAM,
                 "seqLengthArraySize is %zu; there are %zu sequences, batch times beam", count, sequences);
  for (std::size_t i = 0; i < count; ++i) {
    GPUDNN_REQUIRE(lengths[i] >= 0 && lengths[i] <= dimA[GPUDNN_SEQDATA_TIME_DIM], GPUDNN_STATUS_BAD_PARAM,
                   "seqLengthArray[%zu] is %d; it must be 0 to dimA[TIME_DIM], %d", i, lengths[i],
                   dimA[GPUDNN_SEQDATA_TIME_DIM]);
  }
  return GPUDNN_STATUS_SUCCESS;
}

mha::Sequences sequences_of(gpudnnSeqDataDescriptor_t desc) {
  mha::Sequences s;
  s.time = desc->dims[GPUDNN_SEQDATA_TIME_DIM];
  s.batch = desc->dims[GPUDNN_SEQDATA_BATCH_DIM];
  s.beam = desc->dims[GPUDNN_SEQDATA_BEAM_DIM];
  s.size = desc->dims[GPUDNN_SEQDATA_VECT_DIM];
  std::copy_n(desc->axes, 3, s.axes);
  return s;
}

Status require_type(gpudnnSeqDataDescriptor_t desc, const mha::Layer& layer, const char* argument) {
  GPUDNN_REQUIRE(desc->type == layer.type, GPUDNN_STATUS_BAD_PARAM, "%s has data type %s, attnDesc %s; both must agree",
                 argument, data_type_name(desc->type), data_type_name(layer.type));
  return GPUDNN_STATUS_SUCCESS;
}

// The probability of an optional dropout descriptor, as it is now.
Status take_dropout(gpudnnDropoutDescriptor_t desc, const char* argument, float* probability,
                    kernels::DropoutStates** states) {
  *probability = 0;
  *states = nullptr;
  if (desc == nullptr) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_TRY(check_object(desc, Kind::dropout, argument));
  GPUDNN_REQUIRE(desc->set, GPUDNN_STATUS_BAD_PARAM, "%s was created but never set; call gpudnnSetDropoutDescriptor",
                 argument);
  *probability = desc->probability;
  *states = static_cast<kernels::DropoutStates*>(desc->states);
  return GPUDNN_STATUS_SUCCESS;
}

Status take_layer(gpudnnAttnDescriptor_t attnDesc, mha::Layer* layer, mha::Args* args) {
  GPUDNN_TRY(check_attn(attnDesc));
  *layer = attnDesc->layer;
  GPUDNN_TRY(take_dropout(attnDesc->attn_dropout, "attnDropoutDesc", &layer->attn_dropout, &args->attn_states));
  return take_dropout(attnDesc->post_dropout, "postDropoutDesc", &layer->post_dropout, &args->post_states);
}

struct Descriptors {
  gpudnnSeqDataDescriptor_t q, k, v, o;
  const char* names[4];
};

// What all passes have in common.
Status take_call(gpudnnHandle_t handle, gpudnnAttnDescriptor_t attnDesc, const Descriptors& d, mha::Problem* problem,
                 mha::Args* args) {
  GPUDNN_TRY(check_handle(handle));
  GPUDNN_TRY(take_layer(attnDesc, &problem->layer, args));
  const gpudnnSeqDataDescriptor_t all[] = {d.q, d.k, d.v, d.o};
  for (int i = 0; i < 4; ++i) {
    GPUDNN_TRY(check_seq_data(all[i], d.names[i]));
    GPUDNN_TRY(require_type(all[i], problem->layer, d.names[i]));
  }
  problem->q = sequences_of(d.q);
  problem->k = sequences_of(d.k);
  problem->v = sequences_of(d.v);
  problem->o = sequences_of(d.o);
  args->host_length_q = d.q->lengths.data();
  args->host_length_kv = d.k->lengths.data();
  return GPUDNN_STATUS_SUCCESS;
}

struct Spaces {
  std::size_t weight_bytes;
  const void* weights;
  std::size_t workspace_bytes;
  void* workspace;
  std::size_t reserve_bytes;
  void* reserve;
};

Status take_spaces(const Spaces& spaces, mha::Problem* problem, mha::Args* args) {
  const std::size_t needed = mha::weight_bytes(problem->layer);
  GPUDNN_REQUIRE(spaces.weight_bytes >= needed, GPUDNN_STATUS_BAD_PARAM,
                 "weightSizeInBytes is %zu; gpudnnGetMultiHeadAttnBuffers says %zu", spaces.weight_bytes, needed);
  args->weights = spaces.weights;
  args->workspace = spaces.workspace;
  args->workspace_bytes = spaces.workspace_bytes;
  args->reserve = spaces.reserve;
  args->reserve_bytes = spaces.reserve_bytes;
  problem->training = spaces.reserve != nullptr && spaces.reserve_bytes > 0 ? 1 : 0;
  return GPUDNN_STATUS_SUCCESS;
}

void keep(gpudnnSeqDataDescriptor_t desc, DataType type, const int dimA[], const gpudnnSeqDataAxis_t axes[],
          std::size_t count, const int lengths[], const void* fill) {
  std::vector<int> kept(lengths, lengths + count);
  desc->set = true;
  desc->type = type;
  std::copy_n(dimA, GPUDNN_SEQDATA_DIM_COUNT, desc->dims);
  std::copy_n(axes, GPUDNN_SEQDATA_DIM_COUNT, desc->axes);
  desc->lengths = std::move(kept);
  desc->has_fill = fill != nullptr;
  desc->fill = 0;
  if (fill == nullptr) return;
  with_floating_type(type, [&]<class T>() {
    T value;
    std::memcpy(&value, fill, sizeof value);
    desc->fill = to_double(value);
  });
}

}  // namespace

extern "C" gpudnnStatus_t gpudnnCreateSeqDataDescriptor(gpudnnSeqDataDescriptor_t* seqDataDesc) {
  return guard(__func__, [&]() -> Status { return create_object(seqDataDesc, "seqDataDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroySeqDataDescriptor(gpudnnSeqDataDescriptor_t seqDataDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(seqDataDesc, Kind::seq_data, "seqDataDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetSeqDataDescriptor(gpudnnSeqDataDescriptor_t seqDataDesc, gpudnnDataType_t dataType,
                                                     int nbDims, const int dimA[], const gpudnnSeqDataAxis_t axes[],
                                                     size_t seqLengthArraySize, const int seqLengthArray[],
                                                     void* paddingFill) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(seqDataDesc, Kind::seq_data);
    GPUDNN_TRY(check_data_type(dataType, "dataType"));
    GPUDNN_REQUIRE(is_floating(dataType), GPUDNN_STATUS_NOT_SUPPORTED,
                   "dataType is %s; sequence data is built for f32, f64, f16 and bf16", data_type_name(dataType));
    GPUDNN_REQUIRE(nbDims == GPUDNN_SEQDATA_DIM_COUNT, GPUDNN_STATUS_NOT_SUPPORTED,
                   "nbDims is %d; sequence data has GPUDNN_SEQDATA_DIM_COUNT, 4", nbDims);
    GPUDNN_CHECK_POINTER(dimA);
    GPUDNN_CHECK_POINTER(axes);
    GPUDNN_CHECK_POINTER(seqLengthArray);
    GPUDNN_TRY(check_axes(axes));
    GPUDNN_TRY(check_dims(dimA));
    GPUDNN_TRY(check_lengths(dimA, seqLengthArraySize, seqLengthArray));
    keep(seqDataDesc, dataType, dimA, axes, seqLengthArraySize, seqLengthArray, paddingFill);
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetSeqDataDescriptor(const gpudnnSeqDataDescriptor_t seqDataDesc,
                                                     gpudnnDataType_t* dataType, int* nbDims, int nbDimsRequested,
                                                     int dimA[], gpudnnSeqDataAxis_t axes[], size_t* seqLengthArraySize,
                                                     size_t seqLengthSizeRequested, int seqLengthArray[],
                                                     void* paddingFill) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_SEQ_DATA(seqDataDesc);
    GPUDNN_REQUIRE(nbDimsRequested >= 0, GPUDNN_STATUS_BAD_PARAM, "nbDimsRequested is %d; it must not be negative",
                   nbDimsRequested);
    const int dims = std::min(nbDimsRequested, GPUDNN_SEQDATA_DIM_COUNT);
    const std::size_t lengths = std::min(seqLengthSizeRequested, seqDataDesc->lengths.size());
    if (dataType != nullptr) *dataType = seqDataDesc->type;
    if (nbDims != nullptr) *nbDims = GPUDNN_SEQDATA_DIM_COUNT;
    if (dimA != nullptr) std::copy_n(seqDataDesc->dims, dims, dimA);
    if (axes != nullptr) std::copy_n(seqDataDesc->axes, dims, axes);
    if (seqLengthArraySize != nullptr) *seqLengthArraySize = seqDataDesc->lengths.size();
    if (seqLengthArray != nullptr) std::copy_n(seqDataDesc->lengths.data(), lengths, seqLengthArray);
    if (paddingFill != nullptr && seqDataDesc->has_fill) {
      with_floating_type(seqDataDesc->type, [&]<class T>() {
        const T value = round_to<T>(seqDataDesc->fill);
        std::memcpy(paddingFill, &value, sizeof value);
      });
    }
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnCreateAttnDescriptor(gpudnnAttnDescriptor_t* attnDesc) {
  return guard(__func__, [&]() -> Status { return create_object(attnDesc, "attnDesc"); });
}

extern "C" gpudnnStatus_t gpudnnDestroyAttnDescriptor(gpudnnAttnDescriptor_t attnDesc) {
  return guard(__func__, [&]() -> Status { return destroy_object(attnDesc, Kind::attn, "attnDesc"); });
}

extern "C" gpudnnStatus_t gpudnnSetAttnDescriptor(
    gpudnnAttnDescriptor_t attnDesc, unsigned attnMode, int nHeads, double smScaler, gpudnnDataType_t dataType,
    gpudnnDataType_t computePrec, gpudnnMathType_t mathType, gpudnnDropoutDescriptor_t attnDropoutDesc,
    gpudnnDropoutDescriptor_t postDropoutDesc, int qSize, int kSize, int vSize, int qProjSize, int kProjSize,
    int vProjSize, int oProjSize, int qoMaxSeqLength, int kvMaxSeqLength, int maxBatchSize, int maxBeamSize) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_CHECK_OBJECT(attnDesc, Kind::attn);
    constexpr unsigned kKnown = GPUDNN_ATTN_QUERYMAP_ONE_TO_ONE | GPUDNN_ATTN_ENABLE_PROJ_BIASES;
    GPUDNN_REQUIRE((attnMode & ~kKnown) == 0, GPUDNN_STATUS_BAD_PARAM,
                   "attnMode is %u; it may have the bits GPUDNN_ATTN_QUERYMAP_ONE_TO_ONE and "
                   "GPUDNN_ATTN_ENABLE_PROJ_BIASES",
                   attnMode);
    GPUDNN_TRY(check_data_type(dataType, "dataType"));
    GPUDNN_TRY(check_data_type(computePrec, "computePrec"));
    GPUDNN_TRY(check_enum(mathType, GPUDNN_DEFAULT_MATH, GPUDNN_FMA_MATH, "mathType"));
    mha::Layer layer;
    float probability = 0;
    kernels::DropoutStates* states = nullptr;
    GPUDNN_TRY(take_dropout(attnDropoutDesc, "attnDropoutDesc", &probability, &states));
    GPUDNN_TRY(take_dropout(postDropoutDesc, "postDropoutDesc", &probability, &states));
    layer.type = dataType;
    layer.compute = computePrec;
    layer.math = mathType;
    layer.one_to_one = (attnMode & GPUDNN_ATTN_QUERYMAP_ONE_TO_ONE) != 0 ? 1 : 0;
    layer.biases = (attnMode & GPUDNN_ATTN_ENABLE_PROJ_BIASES) != 0 ? 1 : 0;
    layer.heads = nHeads;
    layer.scale = smScaler;
    const int sizes[] = {qSize, kSize, vSize};
    const int projections[] = {qProjSize, kProjSize, vProjSize, oProjSize};
    std::copy_n(sizes, 3, layer.size);
    std::copy_n(projections, 4, layer.proj);
    layer.max_time_q = qoMaxSeqLength;
    layer.max_time_kv = kvMaxSeqLength;
    layer.max_batch = maxBatchSize;
    layer.max_beam = maxBeamSize;
    GPUDNN_TRY(mha::validate(layer));
    attnDesc->set = true;
    attnDesc->layer = layer;
    attnDesc->attn_dropout = attnDropoutDesc;
    attnDesc->post_dropout = postDropoutDesc;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetAttnDescriptor(
    gpudnnAttnDescriptor_t attnDesc, unsigned* attnMode, int* nHeads, double* smScaler, gpudnnDataType_t* dataType,
    gpudnnDataType_t* computePrec, gpudnnMathType_t* mathType, gpudnnDropoutDescriptor_t* attnDropoutDesc,
    gpudnnDropoutDescriptor_t* postDropoutDesc, int* qSize, int* kSize, int* vSize, int* qProjSize, int* kProjSize,
    int* vProjSize, int* oProjSize, int* qoMaxSeqLength, int* kvMaxSeqLength, int* maxBatchSize, int* maxBeamSize) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_attn(attnDesc));
    const mha::Layer& layer = attnDesc->layer;
    const unsigned mode = (layer.one_to_one != 0 ? GPUDNN_ATTN_QUERYMAP_ONE_TO_ONE : 0U) |
                          (layer.biases != 0 ? GPUDNN_ATTN_ENABLE_PROJ_BIASES : 0U);
    if (attnMode != nullptr) *attnMode = mode;
    if (smScaler != nullptr) *smScaler = layer.scale;
    if (dataType != nullptr) *dataType = layer.type;
    if (computePrec != nullptr) *computePrec = layer.compute;
    if (mathType != nullptr) *mathType = layer.math;
    if (attnDropoutDesc != nullptr) *attnDropoutDesc = attnDesc->attn_dropout;
    if (postDropoutDesc != nullptr) *postDropoutDesc = attnDesc->post_dropout;
    const struct {
      int* out;
      int value;
    } numbers[] = {{nHeads, layer.heads},
                   {qSize, layer.size[mha::kQ]},
                   {kSize, layer.size[mha::kK]},
                   {vSize, layer.size[mha::kV]},
                   {qProjSize, layer.proj[mha::kQ]},
                   {kProjSize, layer.proj[mha::kK]},
                   {vProjSize, layer.proj[mha::kV]},
                   {oProjSize, layer.proj[mha::kO]},
                   {qoMaxSeqLength, layer.max_time_q},
                   {kvMaxSeqLength, layer.max_time_kv},
                   {maxBatchSize, layer.max_batch},
                   {maxBeamSize, layer.max_beam}};
    for (const auto& [out, value] : numbers) {
      if (out != nullptr) *out = value;
    }
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetMultiHeadAttnBuffers(gpudnnHandle_t handle, const gpudnnAttnDescriptor_t attnDesc,
                                                        size_t* weightSizeInBytes, size_t* workSpaceSizeInBytes,
                                                        size_t* reserveSpaceSizeInBytes) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    mha::Layer layer;
    mha::Args args;
    GPUDNN_TRY(take_layer(attnDesc, &layer, &args));
    GPUDNN_CHECK_POINTER(weightSizeInBytes);
    GPUDNN_CHECK_POINTER(workSpaceSizeInBytes);
    mha::BufferBytes bytes;
    GPUDNN_TRY(mha::buffer_bytes(handle, layer, reserveSpaceSizeInBytes != nullptr, &bytes));
    *weightSizeInBytes = mha::weight_bytes(layer);
    *workSpaceSizeInBytes = bytes.workspace;
    if (reserveSpaceSizeInBytes != nullptr) *reserveSpaceSizeInBytes = bytes.reserve;
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnGetMultiHeadAttnWeights(gpudnnHandle_t handle, const gpudnnAttnDescriptor_t attnDesc,
                                                        gpudnnMultiHeadAttnWeightKind_t wKind, size_t weightSizeInBytes,
                                                        const void* weights, gpudnnTensorDescriptor_t wDesc,
                                                        void** wAddr) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_attn(attnDesc));
    GPUDNN_TRY(check_enum(wKind, GPUDNN_MH_ATTN_Q_WEIGHTS, GPUDNN_MH_ATTN_O_BIASES, "wKind"));
    GPUDNN_CHECK_OBJECT(wDesc, Kind::tensor);
    GPUDNN_CHECK_POINTER(wAddr);
    const mha::Layer& layer = attnDesc->layer;
    GPUDNN_REQUIRE(weightSizeInBytes >= mha::weight_bytes(layer), GPUDNN_STATUS_BAD_PARAM,
                   "weightSizeInBytes is %zu; gpudnnGetMultiHeadAttnBuffers says %zu", weightSizeInBytes,
                   mha::weight_bytes(layer));
    const mha::WeightPart part = mha::weight_part(layer, wKind);
    const std::int64_t offset = part.offset * (data_type_bits(layer.type) / 8);
    wDesc->geometry = {};
    wDesc->geometry.type = layer.type;
    wDesc->geometry.rank = 3;
    std::copy_n(part.dims, 3, wDesc->geometry.dims);
    std::copy_n(part.strides, 3, wDesc->geometry.strides);
    *wAddr = part.exists ? const_cast<char*>(static_cast<const char*>(weights)) + offset : nullptr;  // NOLINT
    return GPUDNN_STATUS_SUCCESS;
  });
}

extern "C" gpudnnStatus_t gpudnnMultiHeadAttnForward(
    gpudnnHandle_t handle, const gpudnnAttnDescriptor_t attnDesc, int currIdx, const int loWinIdx[],
    const int hiWinIdx[], const int devSeqLengthsQO[], const int devSeqLengthsKV[],
    const gpudnnSeqDataDescriptor_t qDesc, const void* queries, const void* residuals,
    const gpudnnSeqDataDescriptor_t kDesc, const void* keys, const gpudnnSeqDataDescriptor_t vDesc, const void* values,
    const gpudnnSeqDataDescriptor_t oDesc, void* out, size_t weightSizeInBytes, const void* weights,
    size_t workSpaceSizeInBytes, void* workSpace, size_t reserveSpaceSizeInBytes, void* reserveSpace) {
  return guard(__func__, [&]() -> Status {
    mha::Problem problem;
    mha::Args args;
    GPUDNN_TRY(take_call(handle, attnDesc, {qDesc, kDesc, vDesc, oDesc, {"qDesc", "kDesc", "vDesc", "oDesc"}}, &problem,
                         &args));
    GPUDNN_TRY(take_spaces(
        {weightSizeInBytes, weights, workSpaceSizeInBytes, workSpace, reserveSpaceSizeInBytes, reserveSpace}, &problem,
        &args));
    problem.pass = mha::Pass::forward;
    problem.current = std::max(currIdx, -1);
    problem.has_residual = residuals != nullptr ? 1 : 0;
    problem.has_fill = oDesc->has_fill ? 1 : 0;
    args.fill = oDesc->fill;
    args.q = queries;
    args.k = keys;
    args.v = values;
    args.residual = residuals;
    args.out = out;
    args.first = loWinIdx;
    args.end = hiWinIdx;
    args.length_q = devSeqLengthsQO;
    args.length_kv = devSeqLengthsKV;
    return mha::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnMultiHeadAttnBackwardData(
    gpudnnHandle_t handle, const gpudnnAttnDescriptor_t attnDesc, const int loWinIdx[], const int hiWinIdx[],
    const int devSeqLengthsDQDO[], const int devSeqLengthsDKDV[], const gpudnnSeqDataDescriptor_t doDesc,
    const void* dout, const gpudnnSeqDataDescriptor_t dqDesc, void* dqueries, const void* queries,
    const gpudnnSeqDataDescriptor_t dkDesc, void* dkeys, const void* keys, const gpudnnSeqDataDescriptor_t dvDesc,
    void* dvalues, const void* values, size_t weightSizeInBytes, const void* weights, size_t workSpaceSizeInBytes,
    void* workSpace, size_t reserveSpaceSizeInBytes, void* reserveSpace) {
  return guard(__func__, [&]() -> Status {
    mha::Problem problem;
    mha::Args args;
    GPUDNN_TRY(take_call(handle, attnDesc, {dqDesc, dkDesc, dvDesc, doDesc, {"dqDesc", "dkDesc", "dvDesc", "doDesc"}},
                         &problem, &args));
    GPUDNN_TRY(take_spaces(
        {weightSizeInBytes, weights, workSpaceSizeInBytes, workSpace, reserveSpaceSizeInBytes, reserveSpace}, &problem,
        &args));
    problem.pass = mha::Pass::dgrad;
    args.q = queries;
    args.k = keys;
    args.v = values;
    args.dout = dout;
    args.dq = dqueries;
    args.dk = dkeys;
    args.dv = dvalues;
    args.first = loWinIdx;
    args.end = hiWinIdx;
    args.length_q = devSeqLengthsDQDO;
    args.length_kv = devSeqLengthsDKDV;
    return mha::run(handle, problem, args);
  });
}

extern "C" gpudnnStatus_t gpudnnMultiHeadAttnBackwardWeights(
    gpudnnHandle_t handle, const gpudnnAttnDescriptor_t attnDesc, gpudnnWgradMode_t addGrad,
    const gpudnnSeqDataDescriptor_t qDesc, const void* queries, const gpudnnSeqDataDescriptor_t kDesc, const void* keys,
    const gpudnnSeqDataDescriptor_t vDesc, const void* values, const gpudnnSeqDataDescriptor_t doDesc, const void* dout,
    size_t weightSizeInBytes, const void* weights, void* dweights, size_t workSpaceSizeInBytes, void* workSpace,
    size_t reserveSpaceSizeInBytes, void* reserveSpace) {
  return guard(__func__, [&]() -> Status {
    mha::Problem problem;
    mha::Args args;
    GPUDNN_TRY(take_call(handle, attnDesc, {qDesc, kDesc, vDesc, doDesc, {"qDesc", "kDesc", "vDesc", "doDesc"}},
                         &problem, &args));
    GPUDNN_TRY(check_enum(addGrad, GPUDNN_WGRAD_MODE_ADD, GPUDNN_WGRAD_MODE_SET, "addGrad"));
    GPUDNN_TRY(take_spaces(
        {weightSizeInBytes, weights, workSpaceSizeInBytes, workSpace, reserveSpaceSizeInBytes, reserveSpace}, &problem,
        &args));
    problem.pass = mha::Pass::wgrad;
    problem.add = addGrad == GPUDNN_WGRAD_MODE_ADD ? 1 : 0;
    args.q = queries;
    args.k = keys;
    args.v = values;
    args.dout = dout;
    args.dweights = dweights;
    return mha::run(handle, problem, args);
  });
}
