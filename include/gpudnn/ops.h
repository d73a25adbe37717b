/* libgpudnn: tensors, filters and the operations on them.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Longer than most files: programs include one header for each part of the interface, and expect its names there.
 *
 * Errors common to all functions, pointers, units and "Since" are explained at the top of graph.h.
 *
 * alpha and beta
 *
 *   Most operations end with   y = alpha * op(x) + beta * y   for every element of y. The scalars are read from host
 *   memory during the call, as float for every data type but double, which takes double (that is the type of y; where
 *   y is integer it is float). With beta == 0, y is not read at all: it may hold anything, NaN included. y may be x
 *   itself (in place) only where the comment says so; other overlaps of an output with anything else give undefined
 *   data. The sum is formed in float, or in double for double data, or wider, and rounded to the type of y to nearest
 *   even.
 *
 * Outputs
 *
 *   Different elements of an output tensor must have different addresses: BAD_PARAM otherwise.
 *
 * Shapes
 *
 *   A tensor has dimensions (N, C, spatial...): batch, channels, then depth, height and width as far as there are. Its
 *   strides say in elements how far apart two neighbours of a dimension are in memory; layouts are nothing but strides.
 *   "Packed" means that strides leave no gaps. Tensors that an operation pairs element by element must agree in their
 *   dimensions, not in their strides. */
#ifndef GPUDNN_OPS_H_
#define GPUDNN_OPS_H_

#include "gpudnn/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Succeeds if the library was built with this header's version; see gpudnnGraphVersionCheck. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnOpsVersionCheck(void);

/* ---------------------------------------------------------------------------------------------------- descriptors */

typedef struct gpudnnTensorStruct* gpudnnTensorDescriptor_t;
typedef struct gpudnnPoolingStruct* gpudnnPoolingDescriptor_t;
typedef struct gpudnnFilterStruct* gpudnnFilterDescriptor_t;
typedef struct gpudnnLRNStruct* gpudnnLRNDescriptor_t;
typedef struct gpudnnActivationStruct* gpudnnActivationDescriptor_t;
typedef struct gpudnnSpatialTransformerStruct* gpudnnSpatialTransformerDescriptor_t;
typedef struct gpudnnOpTensorStruct* gpudnnOpTensorDescriptor_t;
typedef struct gpudnnReduceTensorStruct* gpudnnReduceTensorDescriptor_t;
typedef struct gpudnnCTCLossStruct* gpudnnCTCLossDescriptor_t;
typedef struct gpudnnTensorTransformStruct* gpudnnTensorTransformDescriptor_t;
typedef struct gpudnnDropoutStruct* gpudnnDropoutDescriptor_t;

/* Whether two runs on the same data give the same bits. */
typedef enum {
  GPUDNN_NON_DETERMINISTIC = 0,
  GPUDNN_DETERMINISTIC = 1,
} gpudnnDeterminism_t;

/* ----------------------------------------------------------------------------------------------- tensor descriptor */

/* Makes and ends a tensor descriptor. A new one describes nothing: an operation that is given it returns BAD_PARAM.
 * Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateTensorDescriptor(gpudnnTensorDescriptor_t* tensorDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyTensorDescriptor(gpudnnTensorDescriptor_t tensorDesc);

/* Describes a packed (n, c, h, w) tensor. Strides of NCHW: (c*h*w, h*w, w, 1); of NHWC: (h*w*c, 1, w*c, c).
 * NCHW_VECT_C needs a vector type; c counts channels, not vectors, and must be a multiple of the vector's length, and
 * memory is (n, c / length, h, w) vectors. A dimension of 0 makes an empty tensor, on which operations do nothing.
 * BAD_PARAM if a dimension is negative or the vector types and the format do not go together; NOT_SUPPORTED if 64 bits
 * cannot count the elements. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetTensor4dDescriptor(gpudnnTensorDescriptor_t tensorDesc,
                                                         gpudnnTensorFormat_t format, gpudnnDataType_t dataType, int n,
                                                         int c, int h, int w);

/* Describes an (n, c, h, w) tensor with any strides; a stride of 0 repeats, and is for inputs only. BAD_PARAM if a
 * dimension or a stride is negative. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetTensor4dDescriptorEx(gpudnnTensorDescriptor_t tensorDesc,
                                                           gpudnnDataType_t dataType, int n, int c, int h, int w,
                                                           int nStride, int cStride, int hStride, int wStride);

/* Reads a descriptor of four dimensions; BAD_PARAM if it has another number of them. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetTensor4dDescriptor(const gpudnnTensorDescriptor_t tensorDesc,
                                                         gpudnnDataType_t* dataType, int* n, int* c, int* h, int* w,
                                                         int* nStride, int* cStride, int* hStride, int* wStride);

/* Describes a tensor of `nbDims` dimensions, 1 to GPUDNN_DIM_MAX, with any strides (Nd) or packed in a format (NdEx).
 * NHWC stands for "channels last" in any number of dimensions. Errors as for four dimensions. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetTensorNdDescriptor(gpudnnTensorDescriptor_t tensorDesc, gpudnnDataType_t dataType,
                                                         int nbDims, const int dimA[], const int strideA[]);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetTensorNdDescriptorEx(gpudnnTensorDescriptor_t tensorDesc,
                                                           gpudnnTensorFormat_t format, gpudnnDataType_t dataType,
                                                           int nbDims, const int dimA[]);

/* Reads a descriptor: the type, the number of dimensions, and at most `nbDimsRequested` of the dimensions and strides.
 * Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetTensorNdDescriptor(const gpudnnTensorDescriptor_t tensorDesc, int nbDimsRequested,
                                                         gpudnnDataType_t* dataType, int* nbDims, int dimA[],
                                                         int strideA[]);

/* Writes to `*size` the bytes from the tensor's first element to the end of its last, gaps included. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetTensorSizeInBytes(const gpudnnTensorDescriptor_t tensorDesc, size_t* size);

/* ----------------------------------------------------------------------------------------------- filter descriptor */

/* Makes and ends a filter descriptor. A new one describes nothing. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateFilterDescriptor(gpudnnFilterDescriptor_t* filterDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyFilterDescriptor(gpudnnFilterDescriptor_t filterDesc);

/* Describes a packed filter (k, c, h, w): k output channels, c input channels of one group, window h by w. Memory is
 * (k, c, h, w) in NCHW, (k, h, w, c) in NHWC, (k, c / length, h, w) vectors in NCHW_VECT_C. BAD_PARAM if a dimension is
 * not positive or the vector types and the format do not go together. Nd takes `nbDims`
 * dimensions, 1 to GPUDNN_DIM_MAX, in the order (k, c, spatial...). Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetFilter4dDescriptor(gpudnnFilterDescriptor_t filterDesc, gpudnnDataType_t dataType,
                                                         gpudnnTensorFormat_t format, int k, int c, int h, int w);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetFilterNdDescriptor(gpudnnFilterDescriptor_t filterDesc, gpudnnDataType_t dataType,
                                                         gpudnnTensorFormat_t format, int nbDims,
                                                         const int filterDimA[]);

/* Read a filter descriptor. 4d: BAD_PARAM unless it has four dimensions. Nd: at most `nbDimsRequested` of the
 * dimensions go to `filterDimA`. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetFilter4dDescriptor(const gpudnnFilterDescriptor_t filterDesc,
                                                         gpudnnDataType_t* dataType, gpudnnTensorFormat_t* format,
                                                         int* k, int* c, int* h, int* w);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetFilterNdDescriptor(const gpudnnFilterDescriptor_t filterDesc, int nbDimsRequested,
                                                         gpudnnDataType_t* dataType, gpudnnTensorFormat_t* format,
                                                         int* nbDims, int filterDimA[]);

/* Writes to `*size` the bytes of the filter. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetFilterSizeInBytes(const gpudnnFilterDescriptor_t filterDesc, size_t* size);

/* ------------------------------------------------------------------------------------------ copies and broadcasts */

/* y = alpha * x + beta * y with equal dimensions: a copy between layouts, and between the types that
 * gpudnnTransformTensorEx takes. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnTransformTensor(gpudnnHandle_t handle, const void* alpha,
                                                   const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                   const void* beta, const gpudnnTensorDescriptor_t yDesc, void* y);

/* C = alpha * A + beta * C. Each dimension of A equals C's or is 1, and then A is repeated along it; so (1, C, 1, 1)
 * adds a bias for each channel. BAD_PARAM if a dimension of A is neither. One type of float, double, half and bfloat16.
 * Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnAddTensor(gpudnnHandle_t handle, const void* alpha,
                                             const gpudnnTensorDescriptor_t aDesc, const void* A, const void* beta,
                                             const gpudnnTensorDescriptor_t cDesc, void* C);

/* Sets every element of y to the value at `valuePtr`, a host pointer to one element of y's type; for half and bfloat16
 * to a float, which is rounded. Gaps between elements stay as they are. NOT_SUPPORTED for types of less than a byte.
 * Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetTensor(gpudnnHandle_t handle, const gpudnnTensorDescriptor_t yDesc, void* y,
                                             const void* valuePtr);

/* y = alpha * y for every element of float, double, half or bfloat16. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnScaleTensor(gpudnnHandle_t handle, const gpudnnTensorDescriptor_t yDesc, void* y,
                                               const void* alpha);

/* ------------------------------------------------------------------------------------------------ tensor transform */

/* FOLD moves spatial elements into channels by the factors of the transform, UNFOLD moves them back. */
typedef enum {
  GPUDNN_TRANSFORM_FOLD = 0U,
  GPUDNN_TRANSFORM_UNFOLD = 1U,
} gpudnnFoldingDirection_t;

/* Make, end, set and read a transform of `nbDims` dimensions, 3 to GPUDNN_DIM_MAX: `padBeforeA` and `padAfterA`
 * elements are added before and after each dimension (negative numbers crop), each spatial dimension is folded by its
 * number in `foldA` (nbDims - 2 of them; 0 and 1 fold nothing), and InitTransformDest packs the result in `destFormat`.
 * Null pads are zeros, null folds ones. FOLD pads first and then takes blocks of pixels into the channels: pixel h = H
 * * f + b of channel c becomes pixel H of channel b * C + c (of two folded dimensions, (bh * fw + bw) * C + c). UNFOLD
 * undoes that first and then pads. BAD_PARAM if nbDims is out of range. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateTensorTransformDescriptor(gpudnnTensorTransformDescriptor_t* transformDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetTensorTransformDescriptor(gpudnnTensorTransformDescriptor_t transformDesc,
                                                                const uint32_t nbDims,
                                                                const gpudnnTensorFormat_t destFormat,
                                                                const int32_t padBeforeA[], const int32_t padAfterA[],
                                                                const uint32_t foldA[],
                                                                const gpudnnFoldingDirection_t direction);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetTensorTransformDescriptor(gpudnnTensorTransformDescriptor_t transformDesc,
                                                                uint32_t nbDimsRequested,
                                                                gpudnnTensorFormat_t* destFormat, int32_t padBeforeA[],
                                                                int32_t padAfterA[], uint32_t foldA[],
                                                                gpudnnFoldingDirection_t* direction);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyTensorTransformDescriptor(gpudnnTensorTransformDescriptor_t transformDesc);

/* Sets `destDesc` to what the transform makes of `srcDesc`, and `*destSizeInBytes` to its size. BAD_PARAM if the number
 * of dimensions differs, a fold does not divide its padded dimension (or the channels, unfolding), or the format does
 * not suit the type. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnInitTransformDest(const gpudnnTensorTransformDescriptor_t transformDesc,
                                                     const gpudnnTensorDescriptor_t srcDesc,
                                                     gpudnnTensorDescriptor_t destDesc, size_t* destSizeInBytes);

/* dest = alpha * transform(src) + beta * dest, for tensors and for filters; elements that padding adds are zero. dest
 * must have the dimensions that InitTransformDest derives; its layout and type are its own: float, double, half,
 * bfloat16, int8, uint8, int32 and the vector types of the last two, in any pair. Integers are rounded to nearest even
 * and held at the ends of their range. alpha and beta are double for a double dest, else float. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnTransformTensorEx(gpudnnHandle_t handle,
                                                     const gpudnnTensorTransformDescriptor_t transDesc,
                                                     const void* alpha, const gpudnnTensorDescriptor_t srcDesc,
                                                     const void* srcData, const void* beta,
                                                     const gpudnnTensorDescriptor_t destDesc, void* destData);
GPUDNN_EXPORT gpudnnStatus_t gpudnnTransformFilter(gpudnnHandle_t handle,
                                                   const gpudnnTensorTransformDescriptor_t transDesc, const void* alpha,
                                                   const gpudnnFilterDescriptor_t srcDesc, const void* srcData,
                                                   const void* beta, const gpudnnFilterDescriptor_t destDesc,
                                                   void* destData);

/* ---------------------------------------------------------------------------------------------- binary operations */

typedef enum {
  GPUDNN_OP_TENSOR_ADD = 0,  /* alpha1 * A + alpha2 * B */
  GPUDNN_OP_TENSOR_MUL = 1,  /* (alpha1 * A) * (alpha2 * B) */
  GPUDNN_OP_TENSOR_MIN = 2,  /* the smaller of alpha1 * A and alpha2 * B */
  GPUDNN_OP_TENSOR_MAX = 3,  /* the larger */
  GPUDNN_OP_TENSOR_SQRT = 4, /* square root of alpha1 * A; B is not used */
  GPUDNN_OP_TENSOR_NOT = 5,  /* 1 - alpha1 * A; B is not used */
} gpudnnOpTensorOp_t;

/* Make, set, read and end the description of a binary operation: which one, in which type it is computed (float, or
 * double for double data), and what MIN and MAX do with a NaN. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateOpTensorDescriptor(gpudnnOpTensorDescriptor_t* opTensorDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetOpTensorDescriptor(gpudnnOpTensorDescriptor_t opTensorDesc,
                                                         gpudnnOpTensorOp_t opTensorOp,
                                                         gpudnnDataType_t opTensorCompType,
                                                         gpudnnNanPropagation_t opTensorNanOpt);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetOpTensorDescriptor(const gpudnnOpTensorDescriptor_t opTensorDesc,
                                                         gpudnnOpTensorOp_t* opTensorOp,
                                                         gpudnnDataType_t* opTensorCompType,
                                                         gpudnnNanPropagation_t* opTensorNanOpt);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyOpTensorDescriptor(gpudnnOpTensorDescriptor_t opTensorDesc);

/* C = op(alpha1 * A, alpha2 * B) + beta * C. A has C's dimensions; each of B's equals C's or is 1, and then B is
 * repeated along it. C may be A or, where the dimensions are equal, B, in the same layout and type. SQRT and NOT ignore
 * B, which may be null. Types: float, half, bfloat16, int8, uint8 and int32 in any mixture, computed in float (int32 in
 * double); double with double alone. Integers are rounded to nearest even and held at the ends of their range. The
 * scalars are double for a double C, else float. BAD_PARAM if dimensions do not fit, NOT_SUPPORTED for other types or
 * compute types. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnOpTensor(gpudnnHandle_t handle, const gpudnnOpTensorDescriptor_t opTensorDesc,
                                            const void* alpha1, const gpudnnTensorDescriptor_t aDesc, const void* A,
                                            const void* alpha2, const gpudnnTensorDescriptor_t bDesc, const void* B,
                                            const void* beta, const gpudnnTensorDescriptor_t cDesc, void* C);

/* ------------------------------------------------------------------------------------------------------ reductions */

/* Whether MIN, MAX and AMAX also say where they found it. */
typedef enum {
  GPUDNN_REDUCE_TENSOR_NO_INDICES = 0,
  GPUDNN_REDUCE_TENSOR_FLATTENED_INDICES = 1, /* as one number, row by row over the reduced dimensions */
} gpudnnReduceTensorIndices_t;

typedef enum {
  GPUDNN_32BIT_INDICES = 0,
  GPUDNN_64BIT_INDICES = 1,
  GPUDNN_16BIT_INDICES = 2,
  GPUDNN_8BIT_INDICES = 3,
} gpudnnIndicesType_t;

/* Make, set, read and end the description of a reduction: the operation, the compute type (float, or double for double
 * data; half is accepted and computed in float), what MIN, MAX and AMAX do with a NaN (it is the result, or is passed
 * over; nothing but NaN gives NaN), and indices, which the other operations ignore. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateReduceTensorDescriptor(gpudnnReduceTensorDescriptor_t* reduceTensorDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetReduceTensorDescriptor(gpudnnReduceTensorDescriptor_t reduceTensorDesc,
                                                             gpudnnReduceTensorOp_t reduceTensorOp,
                                                             gpudnnDataType_t reduceTensorCompType,
                                                             gpudnnNanPropagation_t reduceTensorNanOpt,
                                                             gpudnnReduceTensorIndices_t reduceTensorIndices,
                                                             gpudnnIndicesType_t reduceTensorIndicesType);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetReduceTensorDescriptor(const gpudnnReduceTensorDescriptor_t reduceTensorDesc,
                                                             gpudnnReduceTensorOp_t* reduceTensorOp,
                                                             gpudnnDataType_t* reduceTensorCompType,
                                                             gpudnnNanPropagation_t* reduceTensorNanOpt,
                                                             gpudnnReduceTensorIndices_t* reduceTensorIndices,
                                                             gpudnnIndicesType_t* reduceTensorIndicesType);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyReduceTensorDescriptor(gpudnnReduceTensorDescriptor_t reduceTensorDesc);

/* Bytes that gpudnnReduceTensor needs for indices, and the workspace with which it is fastest. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetReductionIndicesSize(gpudnnHandle_t handle,
                                                           const gpudnnReduceTensorDescriptor_t reduceTensorDesc,
                                                           const gpudnnTensorDescriptor_t aDesc,
                                                           const gpudnnTensorDescriptor_t cDesc, size_t* sizeInBytes);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetReductionWorkspaceSize(gpudnnHandle_t handle,
                                                             const gpudnnReduceTensorDescriptor_t reduceTensorDesc,
                                                             const gpudnnTensorDescriptor_t aDesc,
                                                             const gpudnnTensorDescriptor_t cDesc, size_t* sizeInBytes);

/* C = alpha * reduce(A) + beta * C. Each dimension of C equals A's or is 1; the latter are reduced. Any strides, 1 to 8
 * dimensions. A and C are float, half, bfloat16, int8, uint8 or int32 (integers are summed in double, so exactly), in
 * any pair, or both double. `indices` (data pointer, may be null if none were asked for) takes one unsigned index for
 * each element of C, packed row by row: the position of the first of the best elements, counted row by row over the
 * reduced dimensions; NOT_SUPPORTED if its type cannot count them. With less workspace than the query tells, down to
 * none, the call is slower and may sum in another order. BAD_PARAM if indicesSizeInBytes is too small or dimensions do
 * not fit. Nothing is done if A is empty. Deterministic. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnReduceTensor(gpudnnHandle_t handle,
                                                const gpudnnReduceTensorDescriptor_t reduceTensorDesc, void* indices,
                                                size_t indicesSizeInBytes, void* workspace, size_t workspaceSizeInBytes,
                                                const void* alpha, const gpudnnTensorDescriptor_t aDesc, const void* A,
                                                const void* beta, const gpudnnTensorDescriptor_t cDesc, void* C);

/* --------------------------------------------------------------------------------------------------------- softmax */

typedef enum {
  GPUDNN_SOFTMAX_FAST = 0,     /* exp(x) / sum(exp(x)); the maximum is subtracted here too, so nothing overflows */
  GPUDNN_SOFTMAX_ACCURATE = 1, /* exp(x - max) / sum(exp(x - max)) */
  GPUDNN_SOFTMAX_LOG = 2,      /* x - max - log(sum(exp(x - max))) */
} gpudnnSoftmaxAlgorithm_t;

typedef enum {
  GPUDNN_SOFTMAX_MODE_INSTANCE = 0, /* over all of C, H, W of each sample */
  GPUDNN_SOFTMAX_MODE_CHANNEL = 1,  /* over C, for each sample and position */
} gpudnnSoftmaxMode_t;

/* y = alpha * softmax(x) + beta * y. x and y have the same dimensions, 2 to 8, and one type of float, double, half and
 * bfloat16; any strides. y may be x. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSoftmaxForward(gpudnnHandle_t handle, gpudnnSoftmaxAlgorithm_t algo,
                                                  gpudnnSoftmaxMode_t mode, const void* alpha,
                                                  const gpudnnTensorDescriptor_t xDesc, const void* x, const void* beta,
                                                  const gpudnnTensorDescriptor_t yDesc, void* y);

/* The gradient from the output y of the forward call, dx = alpha * g + beta * dx with
 *   FAST, ACCURATE:  g = y * (dy - sum(dy * y))        LOG:  g = dy - exp(y) * sum(dy)
 * where the sum is over what the softmax ran over. dx may be dy. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSoftmaxBackward(gpudnnHandle_t handle, gpudnnSoftmaxAlgorithm_t algo,
                                                   gpudnnSoftmaxMode_t mode, const void* alpha,
                                                   const gpudnnTensorDescriptor_t yDesc, const void* y,
                                                   const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                   const void* beta, const gpudnnTensorDescriptor_t dxDesc, void* dx);

/* --------------------------------------------------------------------------------------------------------- pooling */

typedef enum {
  GPUDNN_POOLING_MAX = 0, /* the largest element of the window; padding is never chosen */
  GPUDNN_POOLING_AVERAGE_COUNT_INCLUDE_PADDING =
      1, /* sum over the window divided by the size of its part inside the padded image; padding is zero */
  GPUDNN_POOLING_AVERAGE_COUNT_EXCLUDE_PADDING =
      2,                                /* divided by the number of elements inside the image; 0 if there are none */
  GPUDNN_POOLING_MAX_DETERMINISTIC = 3, /* the same as MAX, which is deterministic here as well */
} gpudnnPoolingMode_t;

/* Makes and ends a pooling descriptor. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreatePoolingDescriptor(gpudnnPoolingDescriptor_t* poolingDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyPoolingDescriptor(gpudnnPoolingDescriptor_t poolingDesc);

/* Describe a pooling window over the spatial dimensions: its size, the padding (the same before and behind) and the
 * step from window to window. Nd takes arrays of `nbDims` values, the number of spatial dimensions. BAD_PARAM if a
 * size or stride is not positive or a padding negative. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetPooling2dDescriptor(gpudnnPoolingDescriptor_t poolingDesc,
                                                          gpudnnPoolingMode_t mode,
                                                          gpudnnNanPropagation_t maxpoolingNanOpt, int windowHeight,
                                                          int windowWidth, int verticalPadding, int horizontalPadding,
                                                          int verticalStride, int horizontalStride);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetPoolingNdDescriptor(gpudnnPoolingDescriptor_t poolingDesc,
                                                          const gpudnnPoolingMode_t mode,
                                                          const gpudnnNanPropagation_t maxpoolingNanOpt, int nbDims,
                                                          const int windowDimA[], const int paddingA[],
                                                          const int strideA[]);

/* Read a pooling descriptor. 2d: BAD_PARAM unless it has two spatial dimensions. Nd: the first `nbDimsRequested` values
 * of each array. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetPooling2dDescriptor(const gpudnnPoolingDescriptor_t poolingDesc,
                                                          gpudnnPoolingMode_t* mode,
                                                          gpudnnNanPropagation_t* maxpoolingNanOpt, int* windowHeight,
                                                          int* windowWidth, int* verticalPadding,
                                                          int* horizontalPadding, int* verticalStride,
                                                          int* horizontalStride);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetPoolingNdDescriptor(const gpudnnPoolingDescriptor_t poolingDesc,
                                                          int nbDimsRequested, gpudnnPoolingMode_t* mode,
                                                          gpudnnNanPropagation_t* maxpoolingNanOpt, int* nbDims,
                                                          int windowDimA[], int paddingA[], int strideA[]);

/* The dimensions of the output for an input: batch and channels stay, each spatial one becomes
 *   1 + floor((input + 2 * padding - window) / stride).
 * Nd writes `nbDims` of them, counted with batch and channels. BAD_PARAM if that is not positive or the numbers of
 * dimensions do not match. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetPooling2dForwardOutputDim(const gpudnnPoolingDescriptor_t poolingDesc,
                                                                const gpudnnTensorDescriptor_t inputTensorDesc, int* n,
                                                                int* c, int* h, int* w);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetPoolingNdForwardOutputDim(const gpudnnPoolingDescriptor_t poolingDesc,
                                                                const gpudnnTensorDescriptor_t inputTensorDesc,
                                                                int nbDims, int outputTensorDimA[]);

/* y = alpha * pool(x) + beta * y. Batch and channels of y are those of x; its spatial extents are free: those of the
 * query above, more (a program that rounds up, in "ceil mode", say) or fewer. Window i begins at i * stride - padding,
 * and takes the part of it that lies inside the image. An average that includes padding divides by the size of the part
 * inside the padded image, which reaches from -padding to input + padding. A window that has no element to take the
 * maximum of gives the lowest finite value of the type; an average over nothing is 0. Operations take 1 to 3 spatial
 * dimensions and one type of float, double, half and bfloat16; NOT_SUPPORTED for others. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnPoolingForward(gpudnnHandle_t handle, const gpudnnPoolingDescriptor_t poolingDesc,
                                                  const void* alpha, const gpudnnTensorDescriptor_t xDesc,
                                                  const void* x, const void* beta, const gpudnnTensorDescriptor_t yDesc,
                                                  void* y);

/* dx = alpha * g + beta * dx. Average: each element of dy is spread evenly over the elements that its forward value was
 * the mean of. Maximum: it goes to the first largest element of x in its window, in row order; overlapping windows add
 * up. x is the forward input and y its output. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnPoolingBackward(gpudnnHandle_t handle, const gpudnnPoolingDescriptor_t poolingDesc,
                                                   const void* alpha, const gpudnnTensorDescriptor_t yDesc,
                                                   const void* y, const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                   const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                   const void* beta, const gpudnnTensorDescriptor_t dxDesc, void* dx);

/* ------------------------------------------------------------------------------------------------------ activation */

/* Makes and ends an activation descriptor. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateActivationDescriptor(gpudnnActivationDescriptor_t* activationDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyActivationDescriptor(gpudnnActivationDescriptor_t activationDesc);

/* Sets and reads the function, whether ReLU passes a NaN on, and `coef`: the ceiling of CLIPPED_RELU, the factor of
 * ELU; the other functions ignore it. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetActivationDescriptor(gpudnnActivationDescriptor_t activationDesc,
                                                           gpudnnActivationMode_t mode,
                                                           gpudnnNanPropagation_t reluNanOpt, double coef);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetActivationDescriptor(const gpudnnActivationDescriptor_t activationDesc,
                                                           gpudnnActivationMode_t* mode,
                                                           gpudnnNanPropagation_t* reluNanOpt, double* coef);

/* Sets and reads the beta of SWISH, 1 in a new descriptor. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetActivationDescriptorSwishBeta(gpudnnActivationDescriptor_t activationDesc,
                                                                    double swish_beta);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetActivationDescriptorSwishBeta(gpudnnActivationDescriptor_t activationDesc,
                                                                    double* swish_beta);

/* y = alpha * f(x) + beta * y, element by element; y may be x. Tensors have equal dimensions, any strides, and one type
 * of float, double, half and bfloat16. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnActivationForward(gpudnnHandle_t handle, gpudnnActivationDescriptor_t activationDesc,
                                                     const void* alpha, const gpudnnTensorDescriptor_t xDesc,
                                                     const void* x, const void* beta,
                                                     const gpudnnTensorDescriptor_t yDesc, void* y);

/* dx = alpha * dy * f'(x) + beta * dx. x is the forward input and y its output. Neither may be null, but only what the
 * formula needs is read: x for RELU, CLIPPED_RELU and SWISH, y for SIGMOID and TANH, both for ELU. dx may be dy.
 * Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnActivationBackward(gpudnnHandle_t handle,
                                                      gpudnnActivationDescriptor_t activationDesc, const void* alpha,
                                                      const gpudnnTensorDescriptor_t yDesc, const void* y,
                                                      const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                      const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                      const void* beta, const gpudnnTensorDescriptor_t dxDesc,
                                                      void* dx);

/* ----------------------------------------------------------------------- local response and divisive normalization */

/* Bounds of the parameters below. */
#define GPUDNN_LRN_MIN_N 1
#define GPUDNN_LRN_MAX_N 16
#define GPUDNN_LRN_MIN_K 1e-5
#define GPUDNN_LRN_MIN_BETA 0.01

typedef enum {
  GPUDNN_LRN_CROSS_CHANNEL_DIM1 = 0, /* the window runs over channels */
} gpudnnLRNMode_t;

/* Make, set, read and end the parameters n (window), alpha, beta and k. A new descriptor has n = 5, alpha = 1e-4,
 * beta = 0.75 and k = 2. BAD_PARAM: n outside 1 to 16, beta below 0.01, k below 1e-5. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateLRNDescriptor(gpudnnLRNDescriptor_t* normDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetLRNDescriptor(gpudnnLRNDescriptor_t normDesc, unsigned lrnN, double lrnAlpha,
                                                    double lrnBeta, double lrnK);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetLRNDescriptor(gpudnnLRNDescriptor_t normDesc, unsigned* lrnN, double* lrnAlpha,
                                                    double* lrnBeta, double* lrnK);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyLRNDescriptor(gpudnnLRNDescriptor_t lrnDesc);

/* Local response normalization across channels (Krizhevsky et al. 2012, section 3.3), with alpha divided by n:
 *   y_c = x_c * (k + alpha / n * sum of x_j^2 for j in the window of n channels around c, cut at the ends)^(-beta)
 * The window has floor((n - 1) / 2) channels before c. Backward, with s the base of the power:
 *   dx_c = dy_c s_c^(-beta) - 2 alpha beta / n * x_c * sum of dy_j x_j s_j^(-beta - 1) for all j whose window holds c
 * Both blend as usual: y = alpha * result + beta * y. Tensors have 2 to 8 dims, channels second, any strides, one of
 * the four floating types, and the same dims and type. Backward computes from x and dy; the numbers in y are not read,
 * but yDesc is checked. An output must not share memory with another tensor of the call. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnLRNCrossChannelForward(gpudnnHandle_t handle, gpudnnLRNDescriptor_t normDesc,
                                                          gpudnnLRNMode_t lrnMode, const void* alpha,
                                                          const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                          const void* beta, const gpudnnTensorDescriptor_t yDesc,
                                                          void* y);
GPUDNN_EXPORT gpudnnStatus_t gpudnnLRNCrossChannelBackward(gpudnnHandle_t handle, gpudnnLRNDescriptor_t normDesc,
                                                           gpudnnLRNMode_t lrnMode, const void* alpha,
                                                           const gpudnnTensorDescriptor_t yDesc, const void* y,
                                                           const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                           const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                           const void* beta, const gpudnnTensorDescriptor_t dxDesc,
                                                           void* dx);

typedef enum {
  GPUDNN_DIVNORM_PRECOMPUTED_MEANS = 0, /* the caller gives the local means */
} gpudnnDivNormMode_t;

/* Divisive normalization over a spatial window of n in each direction (Jarrett et al. 2009, section 2.1, without the
 * centering, which the caller's `means` does; null is zero):
 *   y = (x - m) * (k + alpha / n^dims * sum of (x - m)^2 in the window)^(-beta)
 * The window has floor((n - 1) / 2) elements before its own in each direction and is cut at the image's edge. The
 * gradient with respect to m is that to x, negated; dMeans may be null. Both outputs of backward blend as usual. x,
 * means, dy, temp and temp2 are laid out as xDesc says, dx and dMeans as dXdMeansDesc. `temp` and `temp2` are scratch,
 * which need not be kept from forward to backward; they are required (BAD_PARAM if null) and must not share memory with
 * the others. 3 to 5 dims; NOT_SUPPORTED for others. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnDivisiveNormalizationForward(gpudnnHandle_t handle, gpudnnLRNDescriptor_t normDesc,
                                                                gpudnnDivNormMode_t mode, const void* alpha,
                                                                const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                                const void* means, void* temp, void* temp2,
                                                                const void* beta, const gpudnnTensorDescriptor_t yDesc,
                                                                void* y);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDivisiveNormalizationBackward(
    gpudnnHandle_t handle, gpudnnLRNDescriptor_t normDesc, gpudnnDivNormMode_t mode, const void* alpha,
    const gpudnnTensorDescriptor_t xDesc, const void* x, const void* means, const void* dy, void* temp, void* temp2,
    const void* beta, const gpudnnTensorDescriptor_t dXdMeansDesc, void* dx, void* dMeans);

/* --------------------------------------------------------------------------------------------- batch normalization
 *
 * Ioffe & Szegedy 2015. With m the number of elements that share statistics and xhat = (x - mean) / sqrt(var +
 * epsilon),
 *
 *   training   mean and var (the mean of squared deviations) are of this batch;    y = scale * xhat + bias
 *              running <- (1 - f) * running + f * batch   with f = exponentialAverageFactor; the running variance takes
 *              the unbiased one, var * m / (m - 1); saved: mean and 1 / sqrt(var + epsilon)
 *   inference  mean and var are the estimated ones
 *   backward   dbias = sum(dy);  dscale = sum(dy * xhat);
 *              dx = scale / sqrt(var + epsilon) * (dy - dbias / m - xhat * dscale / m)
 *
 * y and dx blend with alpha and beta (DataDiff), dscale and dbias with the ParamDiff pair. The ...Ex forms add an
 * addend z and an activation: y = alpha * f(BN(x) + z) + beta * y; g = dy * f' takes the place of dy in backward, and
 * dz = g, not blended. f is RELU, CLIPPED_RELU or IDENTITY; any other gives NOT_SUPPORTED.
 *
 * x, z, y, dy, dx, dz: float, double, half or bfloat16, all of one type, 2 to 8 dimensions, equal ones, any strides.
 * Parameters and statistics share one descriptor, as gpudnnDeriveBNTensorDescriptor sets it (any strides): float, or
 * double for double data. alpha and the like are host pointers to float, or to double for double data. epsilon is at
 * least GPUDNN_BN_MIN_EPSILON. With f = 1 the running pair is not read; with m = 1 its variance takes the batch's.
 *
 * In place, with equal strides: y may be x or z, dx may be x or dy, dz may be dy. An empty x is no error and writes
 * nothing. Sums are formed in float (double for double data) without a difference of large squares, in a fixed order.
 * BAD_PARAM for what makes no sense, such as dimensions that do not fit, one pointer of a pair, or a reserve space that
 * is too small. All of it since 0.1. */

typedef enum {
  GPUDNN_BATCHNORM_PER_ACTIVATION = 0,     /* statistics over N; parameters (1, C, spatial...) */
  GPUDNN_BATCHNORM_SPATIAL = 1,            /* statistics over N and space; parameters (1, C, 1...) */
  GPUDNN_BATCHNORM_SPATIAL_PERSISTENT = 2, /* the same as SPATIAL; may use kernels that keep the data on chip */
} gpudnnBatchNormMode_t;

/* The least epsilon. With 0, a set of equal elements gives NaN. */
#define GPUDNN_BN_MIN_EPSILON 0.0

typedef enum {
  GPUDNN_BATCHNORM_OPS_BN = 0,                /* BN(x) */
  GPUDNN_BATCHNORM_OPS_BN_ACTIVATION = 1,     /* f(BN(x)) */
  GPUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION = 2, /* f(BN(x) + z) */
} gpudnnBatchNormOps_t;

/* Sets `derivedBnDesc` to the dimensions and type of the parameters for x, packed row-major. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnDeriveBNTensorDescriptor(gpudnnTensorDescriptor_t derivedBnDesc,
                                                            const gpudnnTensorDescriptor_t xDesc,
                                                            gpudnnBatchNormMode_t mode);

/* Normalizes with estimated statistics; none of the four vectors may be null. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBatchNormalizationForwardInference(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const gpudnnTensorDescriptor_t xDesc, const void* x, const gpudnnTensorDescriptor_t yDesc, void* y,
    const gpudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void* bnScale, const void* bnBias,
    const void* estimatedMean, const void* estimatedVariance, double epsilon);

/* Normalizes with the batch's statistics. The running pair may be null together, and so may the saved pair. It has no
 * workspace; the Ex form with one may be several times faster, above all in NHWC. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBatchNormalizationForwardTraining(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, const void* alpha, const void* beta,
    const gpudnnTensorDescriptor_t xDesc, const void* x, const gpudnnTensorDescriptor_t yDesc, void* y,
    const gpudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const void* bnScale, const void* bnBias,
    double exponentialAverageFactor, void* resultRunningMean, void* resultRunningVariance, double epsilon,
    void* resultSaveMean, void* resultSaveInvVariance);

/* The gradient. The saved pair may be null together, and is then computed again. Workspace as above. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBatchNormalizationBackward(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, const void* alphaDataDiff, const void* betaDataDiff,
    const void* alphaParamDiff, const void* betaParamDiff, const gpudnnTensorDescriptor_t xDesc, const void* x,
    const gpudnnTensorDescriptor_t dyDesc, const void* dy, const gpudnnTensorDescriptor_t dxDesc, void* dx,
    const gpudnnTensorDescriptor_t dBnScaleBiasDesc, const void* bnScale, void* dBnScaleResult, void* dBnBiasResult,
    double epsilon, const void* savedMean, const void* savedInvVariance);

/* Bytes of workspace, and of the reserve space that carries the forward call's knowledge to the backward call and must
 * not change in between: a bit for each element where f has slope 1, rows rounded up to bytes; none without such an
 * f. The calls run with a smaller workspace too, or none, but slower. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, gpudnnBatchNormOps_t bnOps, const gpudnnTensorDescriptor_t xDesc,
    const gpudnnTensorDescriptor_t zDesc, const gpudnnTensorDescriptor_t yDesc,
    const gpudnnTensorDescriptor_t bnScaleBiasMeanVarDesc, const gpudnnActivationDescriptor_t activationDesc,
    size_t* sizeInBytes);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetBatchNormalizationBackwardExWorkspaceSize(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, gpudnnBatchNormOps_t bnOps, const gpudnnTensorDescriptor_t xDesc,
    const gpudnnTensorDescriptor_t yDesc, const gpudnnTensorDescriptor_t dyDesc, const gpudnnTensorDescriptor_t dzDesc,
    const gpudnnTensorDescriptor_t dxDesc, const gpudnnTensorDescriptor_t dBnScaleBiasDesc,
    const gpudnnActivationDescriptor_t activationDesc, size_t* sizeInBytes);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetBatchNormalizationTrainingExReserveSpaceSize(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, gpudnnBatchNormOps_t bnOps,
    const gpudnnActivationDescriptor_t activationDesc, const gpudnnTensorDescriptor_t xDesc, size_t* sizeInBytes);

/* As above with addend and activation; what `bnOps` does not use may be null. Backward reads neither yData nor
 * bnBiasData: the reserve space has what it needs of them. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnBatchNormalizationForwardTrainingEx(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, gpudnnBatchNormOps_t bnOps, const void* alpha, const void* beta,
    const gpudnnTensorDescriptor_t xDesc, const void* xData, const gpudnnTensorDescriptor_t zDesc, const void* zData,
    const gpudnnTensorDescriptor_t yDesc, void* yData, const gpudnnTensorDescriptor_t bnScaleBiasMeanVarDesc,
    const void* bnScale, const void* bnBias, double exponentialAverageFactor, void* resultRunningMean,
    void* resultRunningVariance, double epsilon, void* resultSaveMean, void* resultSaveInvVariance,
    gpudnnActivationDescriptor_t activationDesc, void* workspace, size_t workSpaceSizeInBytes, void* reserveSpace,
    size_t reserveSpaceSizeInBytes);
GPUDNN_EXPORT gpudnnStatus_t gpudnnBatchNormalizationBackwardEx(
    gpudnnHandle_t handle, gpudnnBatchNormMode_t mode, gpudnnBatchNormOps_t bnOps, const void* alphaDataDiff,
    const void* betaDataDiff, const void* alphaParamDiff, const void* betaParamDiff,
    const gpudnnTensorDescriptor_t xDesc, const void* xData, const gpudnnTensorDescriptor_t yDesc, const void* yData,
    const gpudnnTensorDescriptor_t dyDesc, const void* dyData, const gpudnnTensorDescriptor_t dzDesc, void* dzData,
    const gpudnnTensorDescriptor_t dxDesc, void* dxData, const gpudnnTensorDescriptor_t dBnScaleBiasDesc,
    const void* bnScaleData, const void* bnBiasData, void* dBnScaleData, void* dBnBiasData, double epsilon,
    const void* savedMean, const void* savedInvVariance, gpudnnActivationDescriptor_t activationDesc, void* workSpace,
    size_t workSpaceSizeInBytes, void* reserveSpace, size_t reserveSpaceSizeInBytes);

/* --------------------------------------------------------------------------- normalization with separate descriptors
 *
 * The mathematics, types, layouts and errors of batch normalization (above), with one descriptor for scale and bias and
 * one for the statistics. groupCnt must be 1. `algo` makes no difference: the fastest way is taken. All of it since
 * 0.1. */

typedef enum {
  GPUDNN_NORM_PER_ACTIVATION = 0, /* statistics over N */
  GPUDNN_NORM_PER_CHANNEL = 1,    /* statistics over N and space */
} gpudnnNormMode_t;

typedef enum {
  GPUDNN_NORM_ALGO_STANDARD = 0,
  GPUDNN_NORM_ALGO_PERSIST = 1, /* may use kernels that keep the data on chip */
} gpudnnNormAlgo_t;

typedef enum {
  GPUDNN_NORM_OPS_NORM = 0,                /* norm(x) */
  GPUDNN_NORM_OPS_NORM_ACTIVATION = 1,     /* f(norm(x)) */
  GPUDNN_NORM_OPS_NORM_ADD_ACTIVATION = 2, /* f(norm(x) + z) */
} gpudnnNormOps_t;

/* Sets the two derived descriptors for x, packed row-major. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnDeriveNormTensorDescriptor(gpudnnTensorDescriptor_t derivedNormScaleBiasDesc,
                                                              gpudnnTensorDescriptor_t derivedNormMeanVarDesc,
                                                              const gpudnnTensorDescriptor_t xDesc,
                                                              gpudnnNormMode_t mode, int groupCnt);

/* Normalizes with estimated statistics, with addend and activation as `normOps` says. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnNormalizationForwardInference(
    gpudnnHandle_t handle, gpudnnNormMode_t mode, gpudnnNormOps_t normOps, gpudnnNormAlgo_t algo, const void* alpha,
    const void* beta, const gpudnnTensorDescriptor_t xDesc, const void* x,
    const gpudnnTensorDescriptor_t normScaleBiasDesc, const void* normScale, const void* normBias,
    const gpudnnTensorDescriptor_t normMeanVarDesc, const void* estimatedMean, const void* estimatedVariance,
    const gpudnnTensorDescriptor_t zDesc, const void* z, gpudnnActivationDescriptor_t activationDesc,
    const gpudnnTensorDescriptor_t yDesc, void* y, double epsilon, int groupCnt);

/* Bytes of workspace and of the reserve space between forward and backward, as for batch normalization. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetNormalizationForwardTrainingWorkspaceSize(
    gpudnnHandle_t handle, gpudnnNormMode_t mode, gpudnnNormOps_t normOps, gpudnnNormAlgo_t algo,
    const gpudnnTensorDescriptor_t xDesc, const gpudnnTensorDescriptor_t zDesc, const gpudnnTensorDescriptor_t yDesc,
    const gpudnnTensorDescriptor_t normScaleBiasDesc, const gpudnnActivationDescriptor_t activationDesc,
    const gpudnnTensorDescriptor_t normMeanVarDesc, size_t* sizeInBytes, int groupCnt);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetNormalizationBackwardWorkspaceSize(
    gpudnnHandle_t handle, gpudnnNormMode_t mode, gpudnnNormOps_t normOps, gpudnnNormAlgo_t algo,
    const gpudnnTensorDescriptor_t xDesc, const gpudnnTensorDescriptor_t yDesc, const gpudnnTensorDescriptor_t dyDesc,
    const gpudnnTensorDescriptor_t dzDesc, const gpudnnTensorDescriptor_t dxDesc,
    const gpudnnTensorDescriptor_t dNormScaleBiasDesc, const gpudnnActivationDescriptor_t activationDesc,
    const gpudnnTensorDescriptor_t normMeanVarDesc, size_t* sizeInBytes, int groupCnt);
GPUDNN_EXPORT gpudnnStatus_t
gpudnnGetNormalizationTrainingReserveSpaceSize(gpudnnHandle_t handle, gpudnnNormMode_t mode, gpudnnNormOps_t normOps,
                                               gpudnnNormAlgo_t algo, const gpudnnActivationDescriptor_t activationDesc,
                                               const gpudnnTensorDescriptor_t xDesc, size_t* sizeInBytes, int groupCnt);

/* Normalizes with the batch's statistics, and the gradient. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnNormalizationForwardTraining(
    gpudnnHandle_t handle, gpudnnNormMode_t mode, gpudnnNormOps_t normOps, gpudnnNormAlgo_t algo, const void* alpha,
    const void* beta, const gpudnnTensorDescriptor_t xDesc, const void* xData,
    const gpudnnTensorDescriptor_t normScaleBiasDesc, const void* normScale, const void* normBias,
    double exponentialAverageFactor, const gpudnnTensorDescriptor_t normMeanVarDesc, void* resultRunningMean,
    void* resultRunningVariance, double epsilon, void* resultSaveMean, void* resultSaveInvVariance,
    gpudnnActivationDescriptor_t activationDesc, const gpudnnTensorDescriptor_t zDesc, const void* zData,
    const gpudnnTensorDescriptor_t yDesc, void* yData, void* workspace, size_t workSpaceSizeInBytes, void* reserveSpace,
    size_t reserveSpaceSizeInBytes, int groupCnt);
GPUDNN_EXPORT gpudnnStatus_t gpudnnNormalizationBackward(
    gpudnnHandle_t handle, gpudnnNormMode_t mode, gpudnnNormOps_t normOps, gpudnnNormAlgo_t algo,
    const void* alphaDataDiff, const void* betaDataDiff, const void* alphaParamDiff, const void* betaParamDiff,
    const gpudnnTensorDescriptor_t xDesc, const void* xData, const gpudnnTensorDescriptor_t yDesc, const void* yData,
    const gpudnnTensorDescriptor_t dyDesc, const void* dyData, const gpudnnTensorDescriptor_t dzDesc, void* dzData,
    const gpudnnTensorDescriptor_t dxDesc, void* dxData, const gpudnnTensorDescriptor_t dNormScaleBiasDesc,
    const void* normScaleData, const void* normBiasData, void* dNormScaleData, void* dNormBiasData, double epsilon,
    const gpudnnTensorDescriptor_t normMeanVarDesc, const void* savedMean, const void* savedInvVariance,
    gpudnnActivationDescriptor_t activationDesc, void* workSpace, size_t workSpaceSizeInBytes, void* reserveSpace,
    size_t reserveSpaceSizeInBytes, int groupCnt);

/* --------------------------------------------------------------------------------------------- spatial transformer
 *
 * Jaderberg et al. 2015, section 3: an affine map turns each output position into an input position, and the input is
 * sampled there. Coordinates run from -1 to 1 over each dimension of the image, from the centre of its first pixel to
 * that of its last: a grid value g is the column (g + 1) (W - 1) / 2. Tensors are of 4 dimensions (N, C, H, W) and any
 * layout, of float, double, half or bfloat16 (which cuDNN lacks here); the grid and theta are packed. Half and bfloat16
 * are computed in float. All results are deterministic, and no workspace is used. */

typedef enum {
  GPUDNN_SAMPLER_BILINEAR = 0,
} gpudnnSamplerType_t;

/* Make, set and end the description: the sampler, the data type, and the output's dimensions (N, C, H, W). Set gives
 * BAD_PARAM for a number of dimensions or an extent that makes no sense, NOT_SUPPORTED for 5 dimensions and for types
 * other than the four. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateSpatialTransformerDescriptor(gpudnnSpatialTransformerDescriptor_t* stDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetSpatialTransformerNdDescriptor(gpudnnSpatialTransformerDescriptor_t stDesc,
                                                                     gpudnnSamplerType_t samplerType,
                                                                     gpudnnDataType_t dataType, const int nbDims,
                                                                     const int dimA[]);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroySpatialTransformerDescriptor(gpudnnSpatialTransformerDescriptor_t stDesc);

/* grid[n, h, w] = theta[n] * (x, y, 1): theta is packed (N, 2, 3), grid packed (N, H, W, 2), x = (2 w - (W - 1)) /
 * (W - 1) and y likewise (0 where the extent is 1). Backward sums dgrid to dtheta. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSpatialTfGridGeneratorForward(gpudnnHandle_t handle,
                                                                 const gpudnnSpatialTransformerDescriptor_t stDesc,
                                                                 const void* theta, void* grid);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSpatialTfGridGeneratorBackward(gpudnnHandle_t handle,
                                                                  const gpudnnSpatialTransformerDescriptor_t stDesc,
                                                                  const void* dgrid, void* dtheta);

/* y = alpha * sample(x, grid) + beta * y: the bilinear mean of the four pixels around each point, those outside the
 * image counting as 0; a NaN in the grid lies outside. yDesc has the descriptor's dimensions, xDesc the same N and C.
 * Backward gives dx and dgrid, each with its own pair of scalars; at a coordinate that is a whole pixel, dgrid is the
 * slope towards the larger one. At most 2^31 - 1 pixels an image (NOT_SUPPORTED beyond). Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSpatialTfSamplerForward(gpudnnHandle_t handle,
                                                           gpudnnSpatialTransformerDescriptor_t stDesc,
                                                           const void* alpha, const gpudnnTensorDescriptor_t xDesc,
                                                           const void* x, const void* grid, const void* beta,
                                                           gpudnnTensorDescriptor_t yDesc, void* y);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSpatialTfSamplerBackward(
    gpudnnHandle_t handle, gpudnnSpatialTransformerDescriptor_t stDesc, const void* alpha,
    const gpudnnTensorDescriptor_t xDesc, const void* x, const void* beta, const gpudnnTensorDescriptor_t dxDesc,
    void* dx, const void* alphaDgrid, const gpudnnTensorDescriptor_t dyDesc, const void* dy, const void* grid,
    const void* betaDgrid, void* dgrid);

/* --------------------------------------------------------------------------------------------------------- dropout
 *
 * Srivastava et al. 2014, in its "inverted" form: each element is dropped with probability p = `dropout`,
 *   y = mask * x / (1 - p),   dx = mask * dy / (1 - p).
 * A dropped element gives 0 whatever it holds, a NaN too. The mask is a bit an element in the reserve space. It comes
 * from Philox4x32-10 (Salmon et al. 2011) with 16 bits an element, so p is taken as the nearest multiple of 2^-16; it
 * depends on the seed, the number of forward calls on the states before, and the element's place in the output's
 * memory order, and is the same on every backend and device. */

/* Make and end a dropout descriptor. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateDropoutDescriptor(gpudnnDropoutDescriptor_t* dropoutDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyDropoutDescriptor(gpudnnDropoutDescriptor_t dropoutDesc);

/* Bytes of the generator's state on the handle's device, and of the reserve space for a tensor: 16 and a bit for each
 * element. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnDropoutGetStatesSize(gpudnnHandle_t handle, size_t* sizeInBytes);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDropoutGetReserveSpaceSize(gpudnnTensorDescriptor_t xdesc, size_t* sizeInBytes);

/* Set gives the descriptor a probability in [0, 1] and a state memory (data pointer, aligned to 8 bytes) that it starts
 * from `seed`, on the handle's stream; null states are for inference, with probability 0. Restore takes a state memory
 * as it is, and starts nothing. Get reads them; null outputs are skipped. BAD_PARAM for another probability and if
 * `stateSizeInBytes` is too small. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetDropoutDescriptor(gpudnnDropoutDescriptor_t dropoutDesc, gpudnnHandle_t handle,
                                                        float dropout, void* states, size_t stateSizeInBytes,
                                                        unsigned long long seed);
GPUDNN_EXPORT gpudnnStatus_t gpudnnRestoreDropoutDescriptor(gpudnnDropoutDescriptor_t dropoutDesc,
                                                            gpudnnHandle_t handle, float dropout, void* states,
                                                            size_t stateSizeInBytes, unsigned long long seed);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetDropoutDescriptor(gpudnnDropoutDescriptor_t dropoutDesc, gpudnnHandle_t handle,
                                                        float* dropout, void** states, unsigned long long* seed);

/* Forward and backward. The descriptors of the two tensors have equal dimensions and types (float, double, half,
 * bfloat16), any layouts; x may be y, and dy dx. Forward writes the reserve space and advances the states, on the
 * device: a captured call draws a new mask at each replay. Calls on the same states must not overlap. Backward reads
 * the reserve space alone. BAD_PARAM if that is too small, and for a probability above 0 without states. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnDropoutForward(gpudnnHandle_t handle, const gpudnnDropoutDescriptor_t dropoutDesc,
                                                  const gpudnnTensorDescriptor_t xdesc, const void* x,
                                                  const gpudnnTensorDescriptor_t ydesc, void* y, void* reserveSpace,
                                                  size_t reserveSpaceSizeInBytes);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDropoutBackward(gpudnnHandle_t handle, const gpudnnDropoutDescriptor_t dropoutDesc,
                                                   const gpudnnTensorDescriptor_t dydesc, const void* dy,
                                                   const gpudnnTensorDescriptor_t dxdesc, void* dx, void* reserveSpace,
                                                   size_t reserveSpaceSizeInBytes);

/* ------------------------------------------------------------- names of algorithms (functions are in cnn.h and adv.h)
 *
 * A program that names an algorithm of a convolution gets an engine that computes the same function; no number is
 * refused. IMPLICIT_GEMM, DIRECT and the backward ALGO_0 promise to need no workspace; every other number means "the
 * best that fits the workspace". The comments say what the names stand for. */

typedef enum {
  GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM =
      0, /* a matrix product whose input matrix is never stored (Chetlur et al. 2014) */
  GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM = 1, /* the same with offsets prepared before, for tensor cores */
  GPUDNN_CONVOLUTION_FWD_ALGO_GEMM = 2,   /* the input matrix is stored in the workspace (Chellapilla et al. 2006) */
  GPUDNN_CONVOLUTION_FWD_ALGO_DIRECT = 3, /* the defining sum */
  GPUDNN_CONVOLUTION_FWD_ALGO_FFT = 4,    /* by Fourier transforms (Mathieu et al. 2013) */
  GPUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING = 5,        /* the same in tiles */
  GPUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD = 6,          /* minimal filtering (Lavin & Gray 2015), in one kernel */
  GPUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED = 7, /* the same with transforms stored in the workspace */
  GPUDNN_CONVOLUTION_FWD_ALGO_COUNT = 8,             /* not an algorithm */
} gpudnnConvolutionFwdAlgo_t;

typedef enum {
  GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_0 = 0, /* implicit matrix product; in cuDNN not deterministic, here it is */
  GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_1 = 1, /* implicit matrix product */
  GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT = 2,
  GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_3 = 3, /* as ALGO_0, in parts that are summed in the workspace */
  GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD = 4,
  GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED = 5,
  GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING = 6,
  GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT = 7, /* not an algorithm */
} gpudnnConvolutionBwdFilterAlgo_t;

typedef enum {
  GPUDNN_CONVOLUTION_BWD_DATA_ALGO_0 = 0, /* implicit matrix product; in cuDNN not deterministic, here it is */
  GPUDNN_CONVOLUTION_BWD_DATA_ALGO_1 = 1, /* implicit matrix product */
  GPUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT = 2,
  GPUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING = 3,
  GPUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD = 4,
  GPUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED = 5,
  GPUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT = 6, /* not an algorithm */
} gpudnnConvolutionBwdDataAlgo_t;

typedef enum { GPUDNN_CTC_LOSS_ALGO_DETERMINISTIC = 0, GPUDNN_CTC_LOSS_ALGO_NON_DETERMINISTIC = 1 } gpudnnCTCLossAlgo_t;

#ifdef __cplusplus
}
#endif

#endif
