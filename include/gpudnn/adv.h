/* libgpudnn: recurrent networks, attention and CTC loss.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Errors common to all functions, pointers, units and "Since" are explained at the top of graph.h. */
#ifndef GPUDNN_ADV_H_
#define GPUDNN_ADV_H_

#include "gpudnn/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Succeeds if the library was built with this header's version; see gpudnnGraphVersionCheck. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnAdvVersionCheck(void);

/* Whether the gradients of weights are added to what is there or overwrite it. */
typedef enum {
  GPUDNN_WGRAD_MODE_ADD = 0,
  GPUDNN_WGRAD_MODE_SET = 1,
} gpudnnWgradMode_t;

/* ----------------------------------------------------------------------------------------------- recurrent networks
 *
 * A stack of recurrent layers, in one or both directions of time. W are matrices on the layer's input x_t, R on its
 * previous state h_(t-1), b_W and b_R their biases; s is the logistic function, * between vectors is elementwise:
 *
 *   RNN_RELU, RNN_TANH   h_t = f(W x_t + R h_(t-1) + b_W + b_R)                                   (Elman 1990)
 *   LSTM                 i, f, o = s(W_. x_t + R_. h_(t-1) + b_W. + b_R.)           (Hochreiter & Schmidhuber 1997,
 *                        g = tanh(W_g x_t + R_g h_(t-1) + b_Wg + b_Rg)               forget gate of Gers et al. 2000)
 *                        c_t = f * c_(t-1) + i * g;   h_t = P (o * tanh(c_t))
 *                        with the projection P of Sak et al. 2014 if projSize < hiddenSize, without it otherwise
 *   GRU                  r, z = s(W_. x_t + R_. h_(t-1) + b_W. + b_R.)                             (Cho et al. 2014)
 *                        g = tanh(W_g x_t + r * (R_g h_(t-1) + b_Rg) + b_Wg);  h_t = (1 - z) * g + z * h_(t-1)
 *
 * Layer l > 0 takes the output of layer l - 1 (of both directions, one after the other), through dropout if there is,
 * in training. half, bfloat16, float and double; sums and the cell state are in float, of double data in double. All
 * results are deterministic. docs/rnn.md tells the layout of the weights and what lies in the reserve space. */

/* How the work is arranged; the result is the same, and the library chooses by itself whatever is asked for. */
typedef enum {
  GPUDNN_RNN_ALGO_STANDARD = 0,               /* one step after the other */
  GPUDNN_RNN_ALGO_PERSIST_STATIC = 1,         /* weights stay on chip over the steps (Diamos et al. 2016) */
  GPUDNN_RNN_ALGO_PERSIST_DYNAMIC = 2,        /* the same, compiled for the shape at run time */
  GPUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H = 3, /* the same, for small hidden sizes */
  GPUDNN_RNN_ALGO_COUNT = 4,                  /* not an algorithm */
} gpudnnRNNAlgo_t;

/* TRAINING also fills the reserve space for the backward calls. */
typedef enum {
  GPUDNN_FWD_MODE_INFERENCE = 0,
  GPUDNN_FWD_MODE_TRAINING = 1,
} gpudnnForwardMode_t;

typedef enum {
  GPUDNN_RNN_RELU = 0,
  GPUDNN_RNN_TANH = 1,
  GPUDNN_LSTM = 2,
  GPUDNN_GRU = 3,
} gpudnnRNNMode_t;

/* Which of b_W and b_R exist. */
typedef enum {
  GPUDNN_RNN_NO_BIAS = 0,
  GPUDNN_RNN_SINGLE_INP_BIAS = 1, /* b_W */
  GPUDNN_RNN_DOUBLE_BIAS = 2,     /* both */
  GPUDNN_RNN_SINGLE_REC_BIAS = 3, /* b_R */
} gpudnnRNNBiasMode_t;

typedef enum {
  GPUDNN_UNIDIRECTIONAL = 0,
  GPUDNN_BIDIRECTIONAL = 1,
} gpudnnDirectionMode_t;

typedef enum {
  GPUDNN_LINEAR_INPUT = 0,
  GPUDNN_SKIP_INPUT = 1, /* the first layer has no W: its input is as wide as its state and is added as it is */
} gpudnnRNNInputMode_t;

/* Whether the cell state of an LSTM is clipped to [lclip, rclip]. */
typedef enum {
  GPUDNN_RNN_CLIP_NONE = 0,
  GPUDNN_RNN_CLIP_MINMAX = 1,
} gpudnnRNNClipMode_t;

/* Dimensions outermost first: T steps, B sequences, V elements of a vector. */
typedef enum {
  GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED = 0, /* (T, B, V), each sequence padded to the longest */
  GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED = 1,   /* step by step without padding, sequences from longest to shortest */
  GPUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED = 2, /* (B, T, V), padded */
} gpudnnRNNDataLayout_t;

/* For `auxFlags`: whether sequences may be of unequal length in an unpacked layout. */
#define GPUDNN_RNN_PADDED_IO_DISABLED 0
#define GPUDNN_RNN_PADDED_IO_ENABLED (1U << 0)

struct gpudnnRNNStruct;
typedef struct gpudnnRNNStruct* gpudnnRNNDescriptor_t;
struct gpudnnRNNDataStruct;
typedef struct gpudnnRNNDataStruct* gpudnnRNNDataDescriptor_t;

/* Make, end, set and read the description of a network. hiddenSize is the width of h (and c), projSize that of the
 * projected h (equal to hiddenSize: none). mathPrec is float (of double data double; 16-bit data may ask for their own
 * type and get float). mathType matters for float data: TENSOR_OP and its sibling let products with the input use TF32.
 * dropoutDesc may be null, and has to live as long as calls use it. auxFlags is not needed: sequences of any lengths
 * are taken. Getters skip outputs that are null. BAD_PARAM if a size is not positive, if projSize is above hiddenSize,
 * or if SKIP_INPUT meets inputSize other than hiddenSize; NOT_SUPPORTED for other types, and projections of other cells
 * than LSTM. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateRNNDescriptor(gpudnnRNNDescriptor_t* rnnDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyRNNDescriptor(gpudnnRNNDescriptor_t rnnDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetRNNDescriptor_v8(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNAlgo_t algo,
                                                       gpudnnRNNMode_t cellMode, gpudnnRNNBiasMode_t biasMode,
                                                       gpudnnDirectionMode_t dirMode, gpudnnRNNInputMode_t inputMode,
                                                       gpudnnDataType_t dataType, gpudnnDataType_t mathPrec,
                                                       gpudnnMathType_t mathType, int32_t inputSize, int32_t hiddenSize,
                                                       int32_t projSize, int32_t numLayers,
                                                       gpudnnDropoutDescriptor_t dropoutDesc, uint32_t auxFlags);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetRNNDescriptor_v8(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNAlgo_t* algo,
                                                       gpudnnRNNMode_t* cellMode, gpudnnRNNBiasMode_t* biasMode,
                                                       gpudnnDirectionMode_t* dirMode, gpudnnRNNInputMode_t* inputMode,
                                                       gpudnnDataType_t* dataType, gpudnnDataType_t* mathPrec,
                                                       gpudnnMathType_t* mathType, int32_t* inputSize,
                                                       int32_t* hiddenSize, int32_t* projSize, int32_t* numLayers,
                                                       gpudnnDropoutDescriptor_t* dropoutDesc, uint32_t* auxFlags);

/* Set and read the clipping of the LSTM cell state; v9 has no NaN option and always passes a NaN on; v8's
 * NOT_PROPAGATE_NAN makes it lclip. A state is clipped where a step uses it, cx too; cy is not clipped. A gradient
 * does not pass the clip of a state that lies on or beyond a bound. Getters skip outputs that are null. BAD_PARAM if
 * lclip > rclip. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnRNNSetClip_v8(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNClipMode_t clipMode,
                                                 gpudnnNanPropagation_t clipNanOpt, double lclip, double rclip);
GPUDNN_EXPORT gpudnnStatus_t gpudnnRNNSetClip_v9(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNClipMode_t clipMode,
                                                 double lclip, double rclip);
GPUDNN_EXPORT gpudnnStatus_t gpudnnRNNGetClip_v8(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNClipMode_t* clipMode,
                                                 gpudnnNanPropagation_t* clipNanOpt, double* lclip, double* rclip);
GPUDNN_EXPORT gpudnnStatus_t gpudnnRNNGetClip_v9(gpudnnRNNDescriptor_t rnnDesc, gpudnnRNNClipMode_t* clipMode,
                                                 double* lclip, double* rclip);

/* Would prepare PERSIST_DYNAMIC for a batch size; there is nothing to prepare here, as no compiler runs. BAD_PARAM if
 * miniBatch is not positive. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBuildRNNDynamic(gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc, int miniBatch);

/* Bytes of workspace, and of the reserve space that a training step carries from forward to both backward calls: for
 * xDesc's batch at its maxSeqLength, whatever the lengths are. Inference has no reserve space. One output may be null.
 * Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetRNNTempSpaceSizes(gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc,
                                                        gpudnnForwardMode_t fwdMode, gpudnnRNNDataDescriptor_t xDesc,
                                                        size_t* workSpaceSize, size_t* reserveSpaceSize);

/* Bytes of all weights and biases. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetRNNWeightSpaceSize(gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc,
                                                         size_t* weightSpaceSize);

/* Where one matrix and its bias lie in the weight space, as descriptors and addresses; a null address if there is none.
 * `pseudoLayer` counts layers, times two in a bidirectional network (forward, then backward). `linLayerID`:
 *   RNN   0 W, 1 R      GRU   0 to 2 W of r, z, g; 3 to 5 R
 *   LSTM  0 to 3 W of i, f, g, o; 4 to 7 R; 8 P
 * mDesc becomes a packed (1, rows, columns), bDesc (1, rows, 1); of no dimension where there is no such weight. Each of
 * the four outputs may be null, where it is not wanted. A null weightSpace gives offsets in bytes. BAD_PARAM if
 * weightSpaceSize is too small or a number is out of range. Since 0.2.
 */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetRNNWeightParams(gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc,
                                                      int32_t pseudoLayer, size_t weightSpaceSize,
                                                      const void* weightSpace, int32_t linLayerID,
                                                      gpudnnTensorDescriptor_t mDesc, void** mAddr,
                                                      gpudnnTensorDescriptor_t bDesc, void** bAddr);

/* Make, end, set and read the description of a batch of sequences. `seqLengthArray` has one length for each of
 * `batchSize` sequences, at most `maxSeqLength`; `paddingFill`, if not null, is a host pointer to the value that an
 * output's padding is filled with; else padding is not written. What an input has as padding is not looked at. Both
 * arrays are copied. BAD_PARAM if a length is out of range, or the packed layout's are not from longest to shortest.
 * Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateRNNDataDescriptor(gpudnnRNNDataDescriptor_t* rnnDataDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyRNNDataDescriptor(gpudnnRNNDataDescriptor_t rnnDataDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetRNNDataDescriptor(gpudnnRNNDataDescriptor_t rnnDataDesc,
                                                        gpudnnDataType_t dataType, gpudnnRNNDataLayout_t layout,
                                                        int maxSeqLength, int batchSize, int vectorSize,
                                                        const int seqLengthArray[], void* paddingFill);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetRNNDataDescriptor(gpudnnRNNDataDescriptor_t rnnDataDesc,
                                                        gpudnnDataType_t* dataType, gpudnnRNNDataLayout_t* layout,
                                                        int* maxSeqLength, int* batchSize, int* vectorSize,
                                                        int arrayLengthRequested, int seqLengthArray[],
                                                        void* paddingFill);

/* Runs the network over x to y. hx, cx are the first states (null: zero), hy, cy take the last ones (null: not wanted);
 * all are packed (layers * directions, B, width), in the order of the caller's sequences; a sequence's last state is
 * that of its own last step, and of one without steps its first. hDesc (cDesc, of LSTM) may be null where no state is
 * given. `devSeqLengths` is not looked at: xDesc and yDesc tell the lengths, and must agree. BAD_PARAM if descriptors
 * do not fit the network, or a space is smaller than gpudnnGetRNNTempSpaceSizes says. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnRNNForward(gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc,
                                              gpudnnForwardMode_t fwdMode, const int32_t devSeqLengths[],
                                              gpudnnRNNDataDescriptor_t xDesc, const void* x,
                                              gpudnnRNNDataDescriptor_t yDesc, void* y, gpudnnTensorDescriptor_t hDesc,
                                              const void* hx, void* hy, gpudnnTensorDescriptor_t cDesc, const void* cx,
                                              void* cy, size_t weightSpaceSize, const void* weightSpace,
                                              size_t workSpaceSize, void* workSpace, size_t reserveSpaceSize,
                                              void* reserveSpace);

/* Gradients of x and the first states, by backpropagation through time (Werbos 1990). dhy and dcy may be null (zero),
 * dhx and dcx too (not wanted). y is forward's; the reserve space is changed. Once for each forward call. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnRNNBackwardData_v8(
    gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc, const int32_t devSeqLengths[],
    gpudnnRNNDataDescriptor_t yDesc, const void* y, const void* dy, gpudnnRNNDataDescriptor_t xDesc, void* dx,
    gpudnnTensorDescriptor_t hDesc, const void* hx, const void* dhy, void* dhx, gpudnnTensorDescriptor_t cDesc,
    const void* cx, const void* dcy, void* dcx, size_t weightSpaceSize, const void* weightSpace, size_t workSpaceSize,
    void* workSpace, size_t reserveSpaceSize, void* reserveSpace);

/* Gradients of the weights; after BackwardData, with the same reserve space, x, hx and y as forward's. ADD
 * adds to dweightSpace, SET (which cuDNN lacks) overwrites it. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnRNNBackwardWeights_v8(
    gpudnnHandle_t handle, gpudnnRNNDescriptor_t rnnDesc, gpudnnWgradMode_t addGrad, const int32_t devSeqLengths[],
    gpudnnRNNDataDescriptor_t xDesc, const void* x, gpudnnTensorDescriptor_t hDesc, const void* hx,
    gpudnnRNNDataDescriptor_t yDesc, const void* y, size_t weightSpaceSize, void* dweightSpace, size_t workSpaceSize,
    void* workSpace, size_t reserveSpaceSize, void* reserveSpace);

/* ----------------------------------------------------------------------------------------------------- attention
 *
 * Multi-head attention (Vaswani et al. 2017, section 3.2): for each head i, with projections of queries q, keys K and
 * values V by its weights and, if enabled, biases,
 *   h_i = dropout(softmax(smScaler * (W_K,i K)^T (W_Q,i q))) (W_V,i V),   out = dropout(sum of W_O,i h_i) + residual
 * A projection of size 0 is none: each head sees the whole vector, and without W_O `out` has the heads side by side.
 * Dropout works in training alone, which is where a reserve space is given. float, double, half and bfloat16 (which
 * cuDNN lacks here), summed in float, double data in double. All results are deterministic.
 *
 * A query sees no key beyond its sequence's length or outside its window; one that sees none has h_i = 0 and no
 * gradients. Vectors beyond a length are never read, whatever they hold. docs/attention.md says more. */

/* The four dimensions of sequence data; `axes` of the setter lists them outermost first, VECT_DIM last. */
typedef enum {
  GPUDNN_SEQDATA_TIME_DIM = 0,
  GPUDNN_SEQDATA_BATCH_DIM = 1,
  GPUDNN_SEQDATA_BEAM_DIM = 2,
  GPUDNN_SEQDATA_VECT_DIM = 3
} gpudnnSeqDataAxis_t;
#define GPUDNN_SEQDATA_DIM_COUNT 4

struct gpudnnSeqDataStruct;
typedef struct gpudnnSeqDataStruct* gpudnnSeqDataDescriptor_t;

/* Make, end, set and read the description of a batch of beams of sequences. dimA is indexed by gpudnnSeqDataAxis_t and
 * positive; the three outer axes may lie in any order, packed. `seqLengthArray` (host) has batch * beam lengths, 0 to
 * dimA[TIME], beam the faster index. `paddingFill`, if not null, points to an element (host) that `out` gets in the
 * vectors beyond its lengths, which otherwise become 0; cuDNN takes null alone. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateSeqDataDescriptor(gpudnnSeqDataDescriptor_t* seqDataDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroySeqDataDescriptor(gpudnnSeqDataDescriptor_t seqDataDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetSeqDataDescriptor(gpudnnSeqDataDescriptor_t seqDataDesc,
                                                        gpudnnDataType_t dataType, int nbDims, const int dimA[],
                                                        const gpudnnSeqDataAxis_t axes[], size_t seqLengthArraySize,
                                                        const int seqLengthArray[], void* paddingFill);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetSeqDataDescriptor(const gpudnnSeqDataDescriptor_t seqDataDesc,
                                                        gpudnnDataType_t* dataType, int* nbDims, int nbDimsRequested,
                                                        int dimA[], gpudnnSeqDataAxis_t axes[],
                                                        size_t* seqLengthArraySize, size_t seqLengthSizeRequested,
                                                        int seqLengthArray[], void* paddingFill);

/* Bits of `attnMode`: whether all beams of a query see one set of keys and values or each its own, and whether
 * projections have biases. */
#define GPUDNN_ATTN_QUERYMAP_ALL_TO_ONE 0
#define GPUDNN_ATTN_QUERYMAP_ONE_TO_ONE (1U << 0)
#define GPUDNN_ATTN_DISABLE_PROJ_BIASES 0
#define GPUDNN_ATTN_ENABLE_PROJ_BIASES (1U << 1)

struct gpudnnAttnStruct;
typedef struct gpudnnAttnStruct* gpudnnAttnDescriptor_t;

/* Make, end, set and read the description of an attention layer. `computePrec` is FLOAT, or DOUBLE with double data
 * (HALF with half data is taken and summed in float); float products use TF32 only as `mathType` allows it. The dropout
 * descriptors may be null and must live as long as calls use this one. A head's query and key must have the same
 * length: qProjSize and kProjSize, or the vectors' own where those are 0. The last four are what buffers are sized for.
 * Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateAttnDescriptor(gpudnnAttnDescriptor_t* attnDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyAttnDescriptor(gpudnnAttnDescriptor_t attnDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetAttnDescriptor(
    gpudnnAttnDescriptor_t attnDesc, unsigned attnMode, int nHeads, double smScaler, gpudnnDataType_t dataType,
    gpudnnDataType_t computePrec, gpudnnMathType_t mathType, gpudnnDropoutDescriptor_t attnDropoutDesc,
    gpudnnDropoutDescriptor_t postDropoutDesc, int qSize, int kSize, int vSize, int qProjSize, int kProjSize,
    int vProjSize, int oProjSize, int qoMaxSeqLength, int kvMaxSeqLength, int maxBatchSize, int maxBeamSize);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetAttnDescriptor(
    gpudnnAttnDescriptor_t attnDesc, unsigned* attnMode, int* nHeads, double* smScaler, gpudnnDataType_t* dataType,
    gpudnnDataType_t* computePrec, gpudnnMathType_t* mathType, gpudnnDropoutDescriptor_t* attnDropoutDesc,
    gpudnnDropoutDescriptor_t* postDropoutDesc, int* qSize, int* kSize, int* vSize, int* qProjSize, int* kProjSize,
    int* vProjSize, int* oProjSize, int* qoMaxSeqLength, int* kvMaxSeqLength, int* maxBatchSize, int* maxBeamSize);

/* Bytes of weights (0 where nothing is projected), workspace and reserve space for calls of any extents up to the
 * layer's greatest, all passes; a null reserve pointer asks for inference. Both spaces must be aligned to 16 bytes.
 * Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetMultiHeadAttnBuffers(gpudnnHandle_t handle, const gpudnnAttnDescriptor_t attnDesc,
                                                           size_t* weightSizeInBytes, size_t* workSpaceSizeInBytes,
                                                           size_t* reserveSpaceSizeInBytes);

typedef enum {
  GPUDNN_MH_ATTN_Q_WEIGHTS = 0,
  GPUDNN_MH_ATTN_K_WEIGHTS = 1,
  GPUDNN_MH_ATTN_V_WEIGHTS = 2,
  GPUDNN_MH_ATTN_O_WEIGHTS = 3,
  GPUDNN_MH_ATTN_Q_BIASES = 4,
  GPUDNN_MH_ATTN_K_BIASES = 5,
  GPUDNN_MH_ATTN_V_BIASES = 6,
  GPUDNN_MH_ATTN_O_BIASES = 7,
} gpudnnMultiHeadAttnWeightKind_t;
#define GPUDNN_ATTN_WKIND_COUNT 8

/* Where the weights or biases of one kind lie, as a descriptor and an address: (nHeads, projection, vector) for
 * weights, (nHeads, projection, 1) for biases, (1, oProjSize, 1) for those of O; read the strides from the descriptor.
 * A kind that the layer has not gives a null address. `weights` may be null: the address is then the offset. Since 0.2.
 */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetMultiHeadAttnWeights(gpudnnHandle_t handle, const gpudnnAttnDescriptor_t attnDesc,
                                                           gpudnnMultiHeadAttnWeightKind_t wKind,
                                                           size_t weightSizeInBytes, const void* weights,
                                                           gpudnnTensorDescriptor_t wDesc, void** wAddr);

/* Attends from every query step (currIdx < 0) or, in inference, from one, whose step of `out` alone is written. Query
 * step t sees key steps loWinIdx[t] to hiWinIdx[t] - 1: host arrays of one entry a query step, cut to what there is.
 * The lengths are read from `devSeqLengths...`, data pointers, or, where those are null, from the descriptors; host
 * arrays are copied in the call, also into a captured graph. `residuals` may be null; qDesc describes them. A null
 * reserve space, or one of 0 bytes, means inference; otherwise it holds what backward needs. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnMultiHeadAttnForward(
    gpudnnHandle_t handle, const gpudnnAttnDescriptor_t attnDesc, int currIdx, const int loWinIdx[],
    const int hiWinIdx[], const int devSeqLengthsQO[], const int devSeqLengthsKV[],
    const gpudnnSeqDataDescriptor_t qDesc, const void* queries, const void* residuals,
    const gpudnnSeqDataDescriptor_t kDesc, const void* keys, const gpudnnSeqDataDescriptor_t vDesc, const void* values,
    const gpudnnSeqDataDescriptor_t oDesc, void* out, size_t weightSizeInBytes, const void* weights,
    size_t workSpaceSizeInBytes, void* workSpace, size_t reserveSpaceSizeInBytes, void* reserveSpace);

/* Gradients of queries, keys and values, which are overwritten, with 0 beyond the lengths; and, after that call and
 * with the same reserve space, of the weights and biases, which are overwritten or added to. A residual's gradient is
 * dout and is not added to dqueries. Since 0.2. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnMultiHeadAttnBackwardData(
    gpudnnHandle_t handle, const gpudnnAttnDescriptor_t attnDesc, const int loWinIdx[], const int hiWinIdx[],
    const int devSeqLengthsDQDO[], const int devSeqLengthsDKDV[], const gpudnnSeqDataDescriptor_t doDesc,
    const void* dout, const gpudnnSeqDataDescriptor_t dqDesc, void* dqueries, const void* queries,
    const gpudnnSeqDataDescriptor_t dkDesc, void* dkeys, const void* keys, const gpudnnSeqDataDescriptor_t dvDesc,
    void* dvalues, const void* values, size_t weightSizeInBytes, const void* weights, size_t workSpaceSizeInBytes,
    void* workSpace, size_t reserveSpaceSizeInBytes, void* reserveSpace);
GPUDNN_EXPORT gpudnnStatus_t gpudnnMultiHeadAttnBackwardWeights(
    gpudnnHandle_t handle, const gpudnnAttnDescriptor_t attnDesc, gpudnnWgradMode_t addGrad,
    const gpudnnSeqDataDescriptor_t qDesc, const void* queries, const gpudnnSeqDataDescriptor_t kDesc, const void* keys,
    const gpudnnSeqDataDescriptor_t vDesc, const void* values, const gpudnnSeqDataDescriptor_t doDesc, const void* dout,
    size_t weightSizeInBytes, const void* weights, void* dweights, size_t workSpaceSizeInBytes, void* workSpace,
    size_t reserveSpaceSizeInBytes, void* reserveSpace);

/* -------------------------------------------------------------------------------------------------------- CTC loss
 *
 * Connectionist temporal classification (Graves et al. 2006): cost[n] = -log of the probability that the network's
 * labels over time, with repetitions and blanks (label 0) removed, are sequence n's labels; and its gradient. Input and
 * gradients are (T, N, A): steps, sequences, labels with the blank; 3 dimensions, any strides, float (or double, which
 * cuDNN lacks here). The costs are packed, of the same type.
 *
 * The gradient is y - (the share of each label), with respect to the input of the softmax that made the probabilities
 * y, whether that is applied here or the caller has done it. Steps from a sequence's length on get 0. A sequence with
 * no alignment (labels and repetitions are more than its steps) or none of positive probability costs infinity; its
 * gradients are 0 or, if so chosen, left as they are. All results are deterministic, in logarithms throughout. */

/* Whether the input holds probabilities (NONE) or is put through a softmax first. */
typedef enum {
  GPUDNN_LOSS_NORMALIZATION_NONE = 0,
  GPUDNN_LOSS_NORMALIZATION_SOFTMAX = 1,
} gpudnnLossNormalizationMode_t;

/* Make and end a description of the loss. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateCTCLossDescriptor(gpudnnCTCLossDescriptor_t* ctcLossDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyCTCLossDescriptor(gpudnnCTCLossDescriptor_t ctcLossDesc);

/* Set it: the compute type, which the data have too (float or double; others NOT_SUPPORTED); the normalization (NONE if
 * not given); the gradients of sequences without alignment: NOT_PROPAGATE_NAN or ZERO_OOB make them 0 (0 if not given),
 * PROPAGATE_NAN or SKIP_OOB leave them; and the longest label sequence (v8 and v9, for the calls that read labels on
 * the device; any length). Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetCTCLossDescriptor(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                        gpudnnDataType_t compType);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetCTCLossDescriptorEx(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                          gpudnnDataType_t compType,
                                                          gpudnnLossNormalizationMode_t normMode,
                                                          gpudnnNanPropagation_t gradMode);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetCTCLossDescriptor_v8(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                           gpudnnDataType_t compType,
                                                           gpudnnLossNormalizationMode_t normMode,
                                                           gpudnnNanPropagation_t gradMode, int maxLabelLength);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetCTCLossDescriptor_v9(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                           gpudnnDataType_t compType,
                                                           gpudnnLossNormalizationMode_t normMode,
                                                           gpudnnCTCGradMode_t ctcGradMode, int maxLabelLength);

/* Read it; null outputs are skipped. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetCTCLossDescriptor(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                        gpudnnDataType_t* compType);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetCTCLossDescriptorEx(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                          gpudnnDataType_t* compType,
                                                          gpudnnLossNormalizationMode_t* normMode,
                                                          gpudnnNanPropagation_t* gradMode);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetCTCLossDescriptor_v8(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                           gpudnnDataType_t* compType,
                                                           gpudnnLossNormalizationMode_t* normMode,
                                                           gpudnnNanPropagation_t* gradMode, int* maxLabelLength);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetCTCLossDescriptor_v9(gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                           gpudnnDataType_t* compType,
                                                           gpudnnLossNormalizationMode_t* normMode,
                                                           gpudnnCTCGradMode_t* ctcGradMode, int* maxLabelLength);

/* Bytes of workspace, from the lengths on the host, or (v8) from the shapes and the descriptor's longest label
 * sequence. Null gradientsDesc: for costs only, which takes less. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetCTCLossWorkspaceSize(gpudnnHandle_t handle,
                                                           const gpudnnTensorDescriptor_t probsDesc,
                                                           const gpudnnTensorDescriptor_t gradientsDesc,
                                                           const int* labels, const int* labelLengths,
                                                           const int* inputLengths, gpudnnCTCLossAlgo_t algo,
                                                           gpudnnCTCLossDescriptor_t ctcLossDesc, size_t* sizeInBytes);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetCTCLossWorkspaceSize_v8(gpudnnHandle_t handle, gpudnnCTCLossAlgo_t algo,
                                                              gpudnnCTCLossDescriptor_t ctcLossDesc,
                                                              const gpudnnTensorDescriptor_t probsDesc,
                                                              const gpudnnTensorDescriptor_t gradientsDesc,
                                                              size_t* sizeInBytes);

/* Costs (N) and gradients. `labels` holds the sequences one after the other, `labelLengths` and `inputLengths` their N
 * lengths: host arrays, or (v8) data pointers. Null gradients are not computed; both algorithms are the same one. Both
 * calls can be captured: host arrays are taken in before the call returns, a graph replays what they held. The
 * workspace is aligned to 16 bytes. Host labels and lengths out of range give BAD_PARAM; on the device, they make the
 * sequence cost NaN and its gradients those of one without alignment. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCTCLoss(gpudnnHandle_t handle, const gpudnnTensorDescriptor_t probsDesc,
                                           const void* probs, const int hostLabels[], const int hostLabelLengths[],
                                           const int hostInputLengths[], void* costs,
                                           const gpudnnTensorDescriptor_t gradientsDesc, void* gradients,
                                           gpudnnCTCLossAlgo_t algo, gpudnnCTCLossDescriptor_t ctcLossDesc,
                                           void* workspace, size_t workSpaceSizeInBytes);
GPUDNN_EXPORT gpudnnStatus_t gpudnnCTCLoss_v8(gpudnnHandle_t handle, gpudnnCTCLossAlgo_t algo,
                                              gpudnnCTCLossDescriptor_t ctcLossDesc,
                                              const gpudnnTensorDescriptor_t probsDesc, const void* probs,
                                              const int labels[], const int labelLengths[], const int inputLengths[],
                                              void* costs, const gpudnnTensorDescriptor_t gradientsDesc,
                                              void* gradients, size_t workSpaceSizeInBytes, void* workspace);

#ifdef __cplusplus
}
#endif

#endif
