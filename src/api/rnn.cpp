// Entry points of recurrent networks.
// SPDX-License-Identifier: Apache-2.0
#include "api/rnn_descriptors.hpp"
#include "core/guard.hpp"
#include "core/handle.hpp"

using namespace gpudnn;

namespace {

// `drops`: the pass applies dropout, or needs what it left.
Status make_problem(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNDataDescriptor_t xDesc, rnn::Pass pass,
                    rnn::Problem* problem) {
  GPUDNN_TRY(rnn::check_network(rnnDesc));
  GPUDNN_TRY(rnn::check_data(xDesc, "xDesc"));
  problem->pass = pass;
  problem->net = rnnDesc->net;
  problem->sequences = xDesc->sequences;
  if (rnnDesc->dropout != nullptr && rnnDesc->net.layers > 1 && pass != rnn::Pass::infer) {
    GPUDNN_TRY(check_object(rnnDesc->dropout, Kind::dropout, "the dropoutDesc of rnnDesc"));
    problem->net.dropout = rnnDesc->dropout->probability;
  }
  GPUDNN_REQUIRE(xDesc->type == rnnDesc->net.type, GPUDNN_STATUS_BAD_PARAM,
                 "xDesc has data type %s and rnnDesc %s; they must be equal", data_type_name(xDesc->type),
                 data_type_name(rnnDesc->net.type));
  GPUDNN_REQUIRE(xDesc->vector == rnnDesc->net.input, GPUDNN_STATUS_BAD_PARAM,
                 "xDesc has vectorSize %d and rnnDesc inputSize %d; they must be equal", xDesc->vector,
                 rnnDesc->net.input);
  return rnn::validate(*problem);
}

Status check_output(const rnn::Problem& problem, gpudnnRNNDataDescriptor_t yDesc) {
  GPUDNN_TRY(rnn::check_data(yDesc, "yDesc"));
  const rnn::Sequences& x = problem.sequences;
  const rnn::Sequences& y = yDesc->sequences;
  GPUDNN_REQUIRE(yDesc->type == problem.net.type, GPUDNN_STATUS_BAD_PARAM,
                 "yDesc has data type %s and rnnDesc %s; they must be equal", data_type_name(yDesc->type),
                 data_type_name(problem.net.type));
  GPUDNN_REQUIRE(yDesc->vector == problem.net.output_width(), GPUDNN_STATUS_BAD_PARAM,
                 "yDesc has vectorSize %d; it must be %lld, projSize for each direction", yDesc->vector,
                 static_cast<long long>(problem.net.output_width()));
  GPUDNN_REQUIRE(x.layout == y.layout && x.steps == y.steps && x.batch == y.batch && x.lengths == y.lengths,
                 GPUDNN_STATUS_BAD_PARAM, "xDesc and yDesc differ in layout, maxSeqLength, batchSize or lengths");
  return GPUDNN_STATUS_SUCCESS;
}

// A descriptor of states, needed where one of them is given.
Status check_state(const rnn::Problem& problem, gpudnnTensorDescriptor_t desc, const char* name, std::int64_t width,
                   bool given) {
  if (!given && desc == nullptr) return GPUDNN_STATUS_SUCCESS;
  GPUDNN_TRY(check_tensor(desc, name));
  // PyTorch gives five dimensions, the last two of extent 1.
  const std::int64_t dims[kMaxRank] = {problem.net.pseudo_layers(), problem.sequences.batch, width, 1, 1, 1, 1, 1};
  const TensorGeometry& g = desc->geometry;
  const TensorGeometry wanted = packed_tensor(problem.net.type, GPUDNN_TENSOR_NCHW, g.rank, dims);
  GPUDNN_REQUIRE(g.rank >= 3 && same_dims(g, wanted) && is_packed_nchw(g) && g.type == wanted.type,
                 GPUDNN_STATUS_BAD_PARAM,
                 "%s describes %s; it must be packed %lldx%lldx%lld of %s: layers and directions, sequences, width",
                 name, tensor_text(g).c_str(), static_cast<long long>(dims[0]), static_cast<long long>(dims[1]),
                 static_cast<long long>(dims[2]), data_type_name(wanted.type));
  return GPUDNN_STATUS_SUCCESS;
}
Status check_states(const rnn::Problem& problem, gpudnnTensorDescriptor_t hDesc, bool h, gpudnnTensorDescriptor_t cDesc,
                    bool c) {
  GPUDNN_TRY(check_state(problem, hDesc, "hDesc", problem.net.projected, h));
  if (problem.net.cell != GPUDNN_LSTM) return GPUDNN_STATUS_SUCCESS;
  return check_state(problem, cDesc, "cDesc", problem.net.hidden, c);
}

Status check_weights(const rnn::Network& net, std::size_t size, const void* weights, const char* name) {
  const auto needed = static_cast<std::size_t>(rnn::weight_count(net) * (data_type_bits(net.type) / 8));
  GPUDNN_REQUIRE(size >= needed, GPUDNN_STATUS_BAD_PARAM,
                 "weightSpaceSize is %zu; this network has %zu bytes of weights (gpudnnGetRNNWeightSpaceSize)", size,
                 needed);
  GPUDNN_REQUIRE(weights != nullptr, GPUDNN_STATUS_BAD_PARAM, "%s is null; it must point to the weights", name);
  return GPUDNN_STATUS_SUCCESS;
}

Status check_memory(gpudnnHandle_t handle, const rnn::Problem& problem, const rnn::Args& args) {
  std::size_t workspace = 0;
  GPUDNN_TRY(rnn::workspace_size(handle, problem, problem.pass == rnn::Pass::infer, &workspace));
  GPUDNN_REQUIRE(args.workspace != nullptr && args.workspace_bytes >= workspace, GPUDNN_STATUS_BAD_PARAM,
                 "workSpace is %p with %zu bytes; this call needs %zu (gpudnnGetRNNTempSpaceSizes)", args.workspace,
                 args.workspace_bytes, workspace);
  if (problem.pass == rnn::Pass::infer) return GPUDNN_STATUS_SUCCESS;
  const std::size_t reserve = rnn::reserve_size(problem);
  GPUDNN_REQUIRE(args.reserve != nullptr && args.reserve_bytes >= reserve, GPUDNN_STATUS_BAD_PARAM,
                 "reserveSpace is %p with %zu bytes; this call needs %zu (gpudnnGetRNNTempSpaceSizes)", args.reserve,
                 args.reserve_bytes, reserve);
  return GPUDNN_STATUS_SUCCESS;
}

Status take_dropout(gpudnnRNNDescriptor_t rnnDesc, const rnn::Problem& problem, rnn::Args* args) {
  if (problem.pass != rnn::Pass::train || !problem.net.drops()) return GPUDNN_STATUS_SUCCESS;
  args->dropout_states = rnnDesc->dropout->states;
  GPUDNN_REQUIRE(args->dropout_states != nullptr, GPUDNN_STATUS_BAD_PARAM,
                 "the dropoutDesc of rnnDesc drops with probability %g but has no states; give "
                 "gpudnnSetDropoutDescriptor some memory of gpudnnDropoutGetStatesSize bytes",
                 static_cast<double>(problem.net.dropout));
  return GPUDNN_STATUS_SUCCESS;
}

// Where a matrix of rows x columns elements lies, or that there is none; callers that want none of it give null.
void place(const rnn::Network& net, const void* space, std::int64_t offset, std::int64_t rows, std::int64_t columns,
           gpudnnTensorDescriptor_t desc, void** address) {
  if (address != nullptr) *address = nullptr;
  if (desc != nullptr) {
    TensorGeometry& matrix = desc->geometry;
    matrix = {};
    if (offset >= 0) {  // packed; frameworks ask for each matrix of each module anew
      matrix.type = net.type;
      matrix.rank = 3;
      matrix.dims[0] = 1, matrix.dims[1] = rows, matrix.dims[2] = columns;
      matrix.strides[0] = rows * columns, matrix.strides[1] = columns, matrix.strides[2] = 1;
    }
  }
  if (offset < 0) return;
  if (address == nullptr) return;
  const auto at =
      reinterpret_cast<std::uintptr_t>(space) + static_cast<std::uintptr_t>(offset) * (data_type_bits(net.type) / 8);
  *address = reinterpret_cast<void*>(at);  // NOLINT(performance-no-int-to-ptr): `space` may be null, for offsets
}

}  // namespace

extern "C" {

gpudnnStatus_t gpudnnBuildRNNDynamic(gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc, int miniBatch) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(rnn::check_network(rnnDesc));
    GPUDNN_REQUIRE(miniBatch > 0, GPUDNN_STATUS_BAD_PARAM, "miniBatch is %d; it must be positive", miniBatch);
    return GPUDNN_STATUS_SUCCESS;
  });
}

gpudnnStatus_t gpudnnGetRNNTempSpaceSizes(gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc,
                                          gpudnnForwardMode_t fwdMode, gpudnnRNNDataDescriptor_t xDesc,
                                          size_t* workSpaceSize, size_t* reserveSpaceSize) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_enum(fwdMode, GPUDNN_FWD_MODE_INFERENCE, GPUDNN_FWD_MODE_TRAINING, "fwdMode"));
    const bool infer = fwdMode == GPUDNN_FWD_MODE_INFERENCE;
    rnn::Problem problem;
    GPUDNN_TRY(make_problem(rnnDesc, xDesc, infer ? rnn::Pass::infer : rnn::Pass::train, &problem));
    GPUDNN_REQUIRE(workSpaceSize != nullptr || reserveSpaceSize != nullptr, GPUDNN_STATUS_BAD_PARAM,
                   "workSpaceSize and reserveSpaceSize are null; one of them must point to memory");
    if (workSpaceSize != nullptr) GPUDNN_TRY(rnn::workspace_size(handle, problem, infer, workSpaceSize));
    if (reserveSpaceSize != nullptr) *reserveSpaceSize = infer ? 0 : rnn::reserve_size(problem);
    return GPUDNN_STATUS_SUCCESS;
  });
}

gpudnnStatus_t gpudnnGetRNNWeightSpaceSize(gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc,
                                           size_t* weightSpaceSize) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(rnn::check_network(rnnDesc));
    GPUDNN_CHECK_POINTER(weightSpaceSize);
    const rnn::Network& net = rnnDesc->net;
    *weightSpaceSize = static_cast<std::size_t>(rnn::weight_count(net) * (data_type_bits(net.type) / 8));
    return GPUDNN_STATUS_SUCCESS;
  });
}

gpudnnStatus_t gpudnnGetRNNWeightParams(gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc, int32_t pseudoLayer,
                                        size_t weightSpaceSize, const void* weightSpace, int32_t linLayerID,
                                        gpudnnTensorDescriptor_t mDesc, void** mAddr, gpudnnTensorDescriptor_t bDesc,
                                        void** bAddr) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(rnn::check_network(rnnDesc));
    const rnn::Network& net = rnnDesc->net;
    const std::int32_t gates = net.gates();
    const std::int32_t ids = 2 * gates + (net.cell == GPUDNN_LSTM ? 1 : 0);
    GPUDNN_REQUIRE(pseudoLayer >= 0 && pseudoLayer < net.pseudo_layers(), GPUDNN_STATUS_BAD_PARAM,
                   "pseudoLayer is %d; this network has 0 to %d", pseudoLayer, net.pseudo_layers() - 1);
    GPUDNN_REQUIRE(linLayerID >= 0 && linLayerID < ids, GPUDNN_STATUS_BAD_PARAM,
                   "linLayerID is %d; this network has 0 to %d", linLayerID, ids - 1);
    const auto needed = static_cast<std::size_t>(rnn::weight_count(net) * (data_type_bits(net.type) / 8));
    GPUDNN_REQUIRE(weightSpaceSize >= needed, GPUDNN_STATUS_BAD_PARAM,
                   "weightSpaceSize is %zu; this network has %zu bytes of weights (gpudnnGetRNNWeightSpaceSize)",
                   weightSpaceSize, needed);
    if (mDesc != nullptr) GPUDNN_CHECK_OBJECT(mDesc, Kind::tensor);
    if (bDesc != nullptr) GPUDNN_CHECK_OBJECT(bDesc, Kind::tensor);
    const rnn::WeightBlock block = rnn::weight_block(net, pseudoLayer);
    if (linLayerID == 2 * gates) {
      place(net, weightSpace, block.projection, net.projected, net.hidden, mDesc, mAddr);
      place(net, weightSpace, -1, 0, 0, bDesc, bAddr);
      return GPUDNN_STATUS_SUCCESS;
    }
    const bool hidden = linLayerID >= gates;
    const std::int64_t gate = linLayerID % gates;
    const std::int64_t columns = hidden ? net.projected : net.input_width(pseudoLayer / net.directions());
    const std::int64_t matrix = hidden ? block.recurrent : block.input;
    const std::int64_t bias = hidden ? block.hidden_bias : block.input_bias;
    place(net, weightSpace, matrix < 0 ? -1 : matrix + gate * net.hidden * columns, net.hidden, columns, mDesc, mAddr);
    place(net, weightSpace, bias < 0 ? -1 : bias + gate * net.hidden, net.hidden, 1, bDesc, bAddr);
    return GPUDNN_STATUS_SUCCESS;
  });
}

gpudnnStatus_t gpudnnRNNForward(gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc, gpudnnForwardMode_t fwdMode,
                                const int32_t[], gpudnnRNNDataDescriptor_t xDesc, const void* x,
                                gpudnnRNNDataDescriptor_t yDesc, void* y, gpudnnTensorDescriptor_t hDesc,
                                const void* hx, void* hy, gpudnnTensorDescriptor_t cDesc, const void* cx, void* cy,
                                size_t weightSpaceSize, const void* weightSpace, size_t workSpaceSize, void* workSpace,
                                size_t reserveSpaceSize, void* reserveSpace) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_enum(fwdMode, GPUDNN_FWD_MODE_INFERENCE, GPUDNN_FWD_MODE_TRAINING, "fwdMode"));
    rnn::Problem problem;
    const bool infer = fwdMode == GPUDNN_FWD_MODE_INFERENCE;
    GPUDNN_TRY(make_problem(rnnDesc, xDesc, infer ? rnn::Pass::infer : rnn::Pass::train, &problem));
    GPUDNN_TRY(check_output(problem, yDesc));
    problem.fills = yDesc->fills, problem.fill = yDesc->fill;
    GPUDNN_TRY(check_states(problem, hDesc, hx != nullptr || hy != nullptr, cDesc, cx != nullptr || cy != nullptr));
    GPUDNN_TRY(check_weights(problem.net, weightSpaceSize, weightSpace, "weightSpace"));
    GPUDNN_CHECK_POINTER(x);
    GPUDNN_CHECK_POINTER(y);
    rnn::Args args;
    args.handle = handle;
    args.x = x, args.y = y, args.hx = hx, args.hy = hy, args.cx = cx, args.cy = cy;
    args.weights = weightSpace;
    args.workspace = workSpace, args.workspace_bytes = workSpaceSize;
    args.reserve = reserveSpace, args.reserve_bytes = reserveSpaceSize;
    GPUDNN_TRY(take_dropout(rnnDesc, problem, &args));
    GPUDNN_TRY(check_memory(handle, problem, args));
    return rnn::run(handle, problem, args);
  });
}

gpudnnStatus_t gpudnnRNNBackwardData_v8(gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc, const int32_t[],
                                        gpudnnRNNDataDescriptor_t yDesc, const void* y, const void* dy,
                                        gpudnnRNNDataDescriptor_t xDesc, void* dx, gpudnnTensorDescriptor_t hDesc,
                                        const void* hx, const void* dhy, void* dhx, gpudnnTensorDescriptor_t cDesc,
                                        const void* cx, const void* dcy, void* dcx, size_t weightSpaceSize,
                                        const void* weightSpace, size_t workSpaceSize, void* workSpace,
                                        size_t reserveSpaceSize, void* reserveSpace) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    rnn::Problem problem;
    GPUDNN_TRY(make_problem(rnnDesc, xDesc, rnn::Pass::dgrad, &problem));
    GPUDNN_TRY(check_output(problem, yDesc));
    problem.fills = xDesc->fills, problem.fill = xDesc->fill;
    GPUDNN_TRY(check_states(problem, hDesc, hx != nullptr || dhy != nullptr || dhx != nullptr, cDesc,
                            cx != nullptr || dcy != nullptr || dcx != nullptr));
    GPUDNN_TRY(check_weights(problem.net, weightSpaceSize, weightSpace, "weightSpace"));
    GPUDNN_CHECK_POINTER(y);
    GPUDNN_CHECK_POINTER(dy);
    GPUDNN_CHECK_POINTER(dx);
    rnn::Args args;
    args.handle = handle;
    args.y = const_cast<void*>(y);  // NOLINT: a forward call writes what this one reads
    args.dy = dy, args.dx = dx, args.hx = hx, args.dhy = dhy, args.dhx = dhx;
    args.cx = cx, args.dcy = dcy, args.dcx = dcx;
    args.weights = weightSpace;
    args.workspace = workSpace, args.workspace_bytes = workSpaceSize;
    args.reserve = reserveSpace, args.reserve_bytes = reserveSpaceSize;
    GPUDNN_TRY(check_memory(handle, problem, args));
    return rnn::run(handle, problem, args);
  });
}

gpudnnStatus_t gpudnnRNNBackwardWeights_v8(gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc,
                                           gpudnnWgradMode_t addGrad, const int32_t[], gpudnnRNNDataDescriptor_t xDesc,
                                           const void* x, gpudnnTensorDescriptor_t hDesc, const void* hx,
                                           gpudnnRNNDataDescriptor_t yDesc, const void* y, size_t weightSpaceSize,
                                           void* dweightSpace, size_t workSpaceSize, void* workSpace,
                                           size_t reserveSpaceSize, void* reserveSpace) {
  return guard(__func__, [&]() -> Status {
    GPUDNN_TRY(check_handle(handle));
    GPUDNN_TRY(check_enum(addGrad, GPUDNN_WGRAD_MODE_ADD, GPUDNN_WGRAD_MODE_SET, "addGrad"));
    rnn::Problem problem;
    GPUDNN_TRY(make_problem(rnnDesc, xDesc, rnn::Pass::wgrad, &problem));
    problem.adds = addGrad == GPUDNN_WGRAD_MODE_ADD;
    GPUDNN_TRY(check_output(problem, yDesc));
    GPUDNN_TRY(check_states(problem, hDesc, hx != nullptr, nullptr, false));
    GPUDNN_TRY(check_weights(problem.net, weightSpaceSize, dweightSpace, "dweightSpace"));
    GPUDNN_CHECK_POINTER(x);
    GPUDNN_CHECK_POINTER(y);
    rnn::Args args;
    args.handle = handle;
    args.x = x;
    args.y = const_cast<void*>(y);  // NOLINT: a forward call writes what this one reads
    args.hx = hx;
    args.dweights = dweightSpace;
    args.workspace = workSpace, args.workspace_bytes = workSpaceSize;
    args.reserve = reserveSpace, args.reserve_bytes = reserveSpaceSize;
    GPUDNN_TRY(check_memory(handle, problem, args));
    return rnn::run(handle, problem, args);
  });
}

}  // extern "C"
