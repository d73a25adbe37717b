/* libgpudnn: convolution and fused operations.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Errors common to all functions, pointers, units and "Since" are explained at the top of graph.h; alpha, beta and
 * shapes at the top of ops.h. */
#ifndef GPUDNN_CNN_H_
#define GPUDNN_CNN_H_

#include "gpudnn/ops.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Succeeds if the library was built with this header's version; see gpudnnGraphVersionCheck. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCnnVersionCheck(void);

/* ------------------------------------------------------------------------------------------ convolution descriptor
 *
 * With input x (n, c, h, w), filter w (k, c / groups, r, s), output y (n, k, p, q), padding, stride u by v, dilation,
 *
 *   y[n, k, p, q] = sum over c, r, s of  x[n, c, u * p + dilation_h * r - pad_h, v * q + dilation_w * s - pad_w]
 *                                        * w[k, c, r, s]
 *
 * where x is zero outside its bounds. That is CROSS_CORRELATION; CONVOLUTION takes w[k, c, R - 1 - r, S - 1 - s]. With
 * g groups, output channels fall into g equal parts of which each sees its own c / g input channels. One and three
 * spatial dimensions are alike. Sums are formed in the compute type. */

typedef struct gpudnnConvolutionStruct* gpudnnConvolutionDescriptor_t;

/* Makes and ends a convolution descriptor: one group, DEFAULT_MATH, and no geometry yet. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateConvolutionDescriptor(gpudnnConvolutionDescriptor_t* convDesc);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyConvolutionDescriptor(gpudnnConvolutionDescriptor_t convDesc);

/* Sets and reads which arithmetic may be used. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetConvolutionMathType(gpudnnConvolutionDescriptor_t convDesc,
                                                          gpudnnMathType_t mathType);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionMathType(gpudnnConvolutionDescriptor_t convDesc,
                                                          gpudnnMathType_t* mathType);

/* Sets and reads the number of groups; BAD_PARAM if it is not positive. Whether it divides the channels is checked by
 * the operations. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetConvolutionGroupCount(gpudnnConvolutionDescriptor_t convDesc, int groupCount);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionGroupCount(gpudnnConvolutionDescriptor_t convDesc, int* groupCount);

/* Sets and reads whether INT8x32 filters are rearranged by the call. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetConvolutionReorderType(gpudnnConvolutionDescriptor_t convDesc,
                                                             gpudnnReorderType_t reorderType);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionReorderType(gpudnnConvolutionDescriptor_t convDesc,
                                                             gpudnnReorderType_t* reorderType);

/* Describe the geometry: padding (the same before and behind), stride (u vertical, v horizontal) and dilation for each
 * spatial dimension. Nd takes arrays of `arrayLength` values, the number of spatial dimensions. BAD_PARAM if a padding
 * is negative, or a stride or dilation not positive. `computeType`: float, double for double tensors, INT32 for
 * integers; half is taken for half tensors, computed in float. Operations refuse others: NOT_SUPPORTED. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetConvolution2dDescriptor(gpudnnConvolutionDescriptor_t convDesc, int pad_h,
                                                              int pad_w, int u, int v, int dilation_h, int dilation_w,
                                                              gpudnnConvolutionMode_t mode,
                                                              gpudnnDataType_t computeType);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetConvolutionNdDescriptor(gpudnnConvolutionDescriptor_t convDesc, int arrayLength,
                                                              const int padA[], const int filterStrideA[],
                                                              const int dilationA[], gpudnnConvolutionMode_t mode,
                                                              gpudnnDataType_t computeType);

/* Read the geometry. 2d: BAD_PARAM unless there are two spatial dimensions. Nd: the first `arrayLengthRequested` values
 * of each array; `*arrayLength` is how many there are. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolution2dDescriptor(const gpudnnConvolutionDescriptor_t convDesc, int* pad_h,
                                                              int* pad_w, int* u, int* v, int* dilation_h,
                                                              int* dilation_w, gpudnnConvolutionMode_t* mode,
                                                              gpudnnDataType_t* computeType);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionNdDescriptor(const gpudnnConvolutionDescriptor_t convDesc,
                                                              int arrayLengthRequested, int* arrayLength, int padA[],
                                                              int strideA[], int dilationA[],
                                                              gpudnnConvolutionMode_t* mode,
                                                              gpudnnDataType_t* computeType);

/* The dimensions of the output: the input's batch, the filter's k, and for each spatial dimension
 *   1 + floor((input + 2 * padding - ((filter - 1) * dilation + 1)) / stride).
 * Nd writes `nbDims` of them, counted with batch and channels. BAD_PARAM if that is not positive, if channels and
 * groups do not match the filter, or the numbers of dimensions differ. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolution2dForwardOutputDim(const gpudnnConvolutionDescriptor_t convDesc,
                                                                    const gpudnnTensorDescriptor_t inputTensorDesc,
                                                                    const gpudnnFilterDescriptor_t filterDesc, int* n,
                                                                    int* c, int* h, int* w);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionNdForwardOutputDim(const gpudnnConvolutionDescriptor_t convDesc,
                                                                    const gpudnnTensorDescriptor_t inputTensorDesc,
                                                                    const gpudnnFilterDescriptor_t filterDesc,
                                                                    int nbDims, int tensorOuputDimA[]);

/* --------------------------------------------------------------------------------------------- choosing an algorithm
 *
 * For each direction there are two ways to get a list, fastest first:
 *   Get..._v7   asks the heuristic: cheap, runs nothing, `time` is -1
 *   Find...     also measures, on buffers of its own (Find) or on the caller's (FindEx): it overwrites their output and
 *               stays within their workspace. It waits for the device, so it cannot be captured
 * They write at most `requestedAlgoCount` rows and set `*returnedAlgoCount`. Rows whose `status` is NOT_SUPPORTED come
 * last: numbers without an engine of their own (they still run, as an equivalent), and in FindEx those that need more
 * workspace. BAD_PARAM if `requestedAlgoCount` is not positive. MaxCount is the longest list there can be. */

/* One row of the forward lists. */
typedef struct gpudnnConvolutionFwdAlgoPerfStruct {
  gpudnnConvolutionFwdAlgo_t algo; /* the request that the row is of */
  gpudnnStatus_t status;           /* SUCCESS, or why it cannot */
  float time;                      /* milliseconds, -1 if not measured */
  size_t memory;                   /* workspace in bytes */
  gpudnnDeterminism_t determinism; /* whether runs give the same bits */
  gpudnnMathType_t mathType;       /* what it computes with, or (Get..., a second row) may */
  int reserved[3];                 /* zero */
} gpudnnConvolutionFwdAlgoPerf_t;

/* Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionForwardAlgorithmMaxCount(gpudnnHandle_t handle, int* count);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionForwardAlgorithm_v7(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const gpudnnFilterDescriptor_t wDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t yDesc, const int requestedAlgoCount,
    int* returnedAlgoCount, gpudnnConvolutionFwdAlgoPerf_t* perfResults);
GPUDNN_EXPORT gpudnnStatus_t gpudnnFindConvolutionForwardAlgorithm(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const gpudnnFilterDescriptor_t wDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t yDesc, const int requestedAlgoCount,
    int* returnedAlgoCount, gpudnnConvolutionFwdAlgoPerf_t* perfResults);
GPUDNN_EXPORT gpudnnStatus_t gpudnnFindConvolutionForwardAlgorithmEx(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const void* x, const gpudnnFilterDescriptor_t wDesc,
    const void* w, const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t yDesc, void* y,
    const int requestedAlgoCount, int* returnedAlgoCount, gpudnnConvolutionFwdAlgoPerf_t* perfResults, void* workSpace,
    size_t workSpaceSizeInBytes);

/* One row of the lists for the gradient of the input. */
typedef struct gpudnnConvolutionBwdDataAlgoPerfStruct {
  gpudnnConvolutionBwdDataAlgo_t algo; /* the request that the row is of */
  gpudnnStatus_t status;               /* SUCCESS, or why it cannot */
  float time;                          /* milliseconds, -1 if not measured */
  size_t memory;                       /* workspace in bytes */
  gpudnnDeterminism_t determinism;     /* whether runs give the same bits */
  gpudnnMathType_t mathType;           /* as in the forward lists */
  int reserved[3];                     /* zero */
} gpudnnConvolutionBwdDataAlgoPerf_t;

/* Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionBackwardDataAlgorithmMaxCount(gpudnnHandle_t handle, int* count);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionBackwardDataAlgorithm_v7(
    gpudnnHandle_t handle, const gpudnnFilterDescriptor_t wDesc, const gpudnnTensorDescriptor_t dyDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t dxDesc, const int requestedAlgoCount,
    int* returnedAlgoCount, gpudnnConvolutionBwdDataAlgoPerf_t* perfResults);
GPUDNN_EXPORT gpudnnStatus_t gpudnnFindConvolutionBackwardDataAlgorithm(
    gpudnnHandle_t handle, const gpudnnFilterDescriptor_t wDesc, const gpudnnTensorDescriptor_t dyDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t dxDesc, const int requestedAlgoCount,
    int* returnedAlgoCount, gpudnnConvolutionBwdDataAlgoPerf_t* perfResults);
GPUDNN_EXPORT gpudnnStatus_t gpudnnFindConvolutionBackwardDataAlgorithmEx(
    gpudnnHandle_t handle, const gpudnnFilterDescriptor_t wDesc, const void* w, const gpudnnTensorDescriptor_t dyDesc,
    const void* dy, const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t dxDesc, void* dx,
    const int requestedAlgoCount, int* returnedAlgoCount, gpudnnConvolutionBwdDataAlgoPerf_t* perfResults,
    void* workSpace, size_t workSpaceSizeInBytes);

/* One row of the lists for the gradient of the filter. */
typedef struct gpudnnConvolutionBwdFilterAlgoPerfStruct {
  gpudnnConvolutionBwdFilterAlgo_t algo; /* the request that the row is of */
  gpudnnStatus_t status;                 /* SUCCESS, or why it cannot */
  float time;                            /* milliseconds, -1 if not measured */
  size_t memory;                         /* workspace in bytes */
  gpudnnDeterminism_t determinism;       /* whether runs give the same bits */
  gpudnnMathType_t mathType;             /* as in the forward lists */
  int reserved[3];                       /* zero */
} gpudnnConvolutionBwdFilterAlgoPerf_t;

/* Since 0.1. In FindEx, `y` is the gradient that `dyDesc` describes. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionBackwardFilterAlgorithmMaxCount(gpudnnHandle_t handle, int* count);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionBackwardFilterAlgorithm_v7(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const gpudnnTensorDescriptor_t dyDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnFilterDescriptor_t dwDesc, const int requestedAlgoCount,
    int* returnedAlgoCount, gpudnnConvolutionBwdFilterAlgoPerf_t* perfResults);
GPUDNN_EXPORT gpudnnStatus_t gpudnnFindConvolutionBackwardFilterAlgorithm(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const gpudnnTensorDescriptor_t dyDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnFilterDescriptor_t dwDesc, const int requestedAlgoCount,
    int* returnedAlgoCount, gpudnnConvolutionBwdFilterAlgoPerf_t* perfResults);
GPUDNN_EXPORT gpudnnStatus_t gpudnnFindConvolutionBackwardFilterAlgorithmEx(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const void* x, const gpudnnTensorDescriptor_t dyDesc,
    const void* y, const gpudnnConvolutionDescriptor_t convDesc, const gpudnnFilterDescriptor_t dwDesc, void* dw,
    const int requestedAlgoCount, int* returnedAlgoCount, gpudnnConvolutionBwdFilterAlgoPerf_t* perfResults,
    void* workSpace, size_t workSpaceSizeInBytes);

/* Write to `*sizeInBytes` the workspace with which the algorithm runs at its best on this problem; often 0. Since
 * 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionForwardWorkspaceSize(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const gpudnnFilterDescriptor_t wDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t yDesc, gpudnnConvolutionFwdAlgo_t algo,
    size_t* sizeInBytes);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionBackwardDataWorkspaceSize(
    gpudnnHandle_t handle, const gpudnnFilterDescriptor_t wDesc, const gpudnnTensorDescriptor_t dyDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t dxDesc,
    gpudnnConvolutionBwdDataAlgo_t algo, size_t* sizeInBytes);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetConvolutionBackwardFilterWorkspaceSize(
    gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const gpudnnTensorDescriptor_t dyDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnFilterDescriptor_t dwDesc,
    gpudnnConvolutionBwdFilterAlgo_t algo, size_t* sizeInBytes);

/* ----------------------------------------------------------------------------------------------------- convolution
 *
 * Common to all: 1 to 3 spatial dimensions. `workSpace` is a data pointer, null only with a size of 0, and of use only
 * if it is aligned to 16 bytes. With the bytes that the query names, the algorithm runs at its best; with fewer, or
 * none, the call takes the best engine that fits, and there always is one. BAD_PARAM if the dimensions do not belong
 * together; NOT_SUPPORTED unless all are float, double, half or bfloat16, or, forward, integers of 8 bits. */

/* y = alpha * conv(x, w) + beta * y. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnConvolutionForward(gpudnnHandle_t handle, const void* alpha,
                                                      const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                      const gpudnnFilterDescriptor_t wDesc, const void* w,
                                                      const gpudnnConvolutionDescriptor_t convDesc,
                                                      gpudnnConvolutionFwdAlgo_t algo, void* workSpace,
                                                      size_t workSpaceSizeInBytes, const void* beta,
                                                      const gpudnnTensorDescriptor_t yDesc, void* y);

/* y = f(alpha1 * conv(x, w) + alpha2 * z + bias). z has y's dimensions and may be y; with alpha2 == 0 it is not read
 * and may be null, zDesc may not. bias is (1, k, 1, 1). f is the activation, IDENTITY among them. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnConvolutionBiasActivationForward(
    gpudnnHandle_t handle, const void* alpha1, const gpudnnTensorDescriptor_t xDesc, const void* x,
    const gpudnnFilterDescriptor_t wDesc, const void* w, const gpudnnConvolutionDescriptor_t convDesc,
    gpudnnConvolutionFwdAlgo_t algo, void* workSpace, size_t workSpaceSizeInBytes, const void* alpha2,
    const gpudnnTensorDescriptor_t zDesc, const void* z, const gpudnnTensorDescriptor_t biasDesc, const void* bias,
    const gpudnnActivationDescriptor_t activationDesc, const gpudnnTensorDescriptor_t yDesc, void* y);

/* dx = alpha * (gradient of the input) + beta * dx: the sum over k, p, q with dy in the place of y. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnConvolutionBackwardData(gpudnnHandle_t handle, const void* alpha,
                                                           const gpudnnFilterDescriptor_t wDesc, const void* w,
                                                           const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                           const gpudnnConvolutionDescriptor_t convDesc,
                                                           gpudnnConvolutionBwdDataAlgo_t algo, void* workSpace,
                                                           size_t workSpaceSizeInBytes, const void* beta,
                                                           const gpudnnTensorDescriptor_t dxDesc, void* dx);

/* dw = alpha * (gradient of the filter) + beta * dw: the sum over n, p, q. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnConvolutionBackwardFilter(gpudnnHandle_t handle, const void* alpha,
                                                             const gpudnnTensorDescriptor_t xDesc, const void* x,
                                                             const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                             const gpudnnConvolutionDescriptor_t convDesc,
                                                             gpudnnConvolutionBwdFilterAlgo_t algo, void* workSpace,
                                                             size_t workSpaceSizeInBytes, const void* beta,
                                                             const gpudnnFilterDescriptor_t dwDesc, void* dw);

/* db = alpha * (sum of dy over batch and space) + beta * db. db is (1, k, 1, 1), with as many dimensions as dy, 2 to 8,
 * and of its type: float, double, half or bfloat16 (NOT_SUPPORTED otherwise). Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnConvolutionBackwardBias(gpudnnHandle_t handle, const void* alpha,
                                                           const gpudnnTensorDescriptor_t dyDesc, const void* dy,
                                                           const void* beta, const gpudnnTensorDescriptor_t dbDesc,
                                                           void* db);

/* ------------------------------------------------------------------------------------------- parts of convolutions */

/* Stores the matrix that a convolution multiplies with its filter (Chellapilla et al. 2006): packed
 * (c * r * s, n * p * q) elements of x's type, float, double, half or bfloat16, zero where a tap lies in the padding;
 * one to three spatial dimensions. In GPUDNN_CONVOLUTION mode the taps run backwards. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnIm2Col(gpudnnHandle_t handle, const gpudnnTensorDescriptor_t xDesc, const void* x,
                                          const gpudnnFilterDescriptor_t wDesc,
                                          const gpudnnConvolutionDescriptor_t convDesc, void* colBuffer);

/* Rearranges an INT8x32 filter, and its k floats of bias if `reorderBias` is not 0, into the order that this library's
 * kernels read. That is the order of NCHW_VECT_C itself, (k, c / 32, r, s, 32), so both reorder types copy the bytes as
 * they are; source and destination may be the same. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnReorderFilterAndBias(gpudnnHandle_t handle,
                                                        const gpudnnFilterDescriptor_t filterDesc,
                                                        gpudnnReorderType_t reorderType, const void* filterData,
                                                        void* reorderedFilterData, int reorderBias,
                                                        const void* biasData, void* reorderedBiasData);

/* Derives from a strided data gradient the equivalent one of stride 1 without padding on folded tensors: sets the
 * folded descriptors and the transforms that lead there and back (fold the filter, copy diff, run the folded
 * convolution, unfold its gradient). NOT_SUPPORTED for groups, dilation, GPUDNN_CONVOLUTION mode and NCHW_VECT_C;
 * BAD_PARAM if the dimensions do not belong together. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetFoldedConvBackwardDataDescriptors(
    const gpudnnHandle_t handle, const gpudnnFilterDescriptor_t filterDesc, const gpudnnTensorDescriptor_t diffDesc,
    const gpudnnConvolutionDescriptor_t convDesc, const gpudnnTensorDescriptor_t gradDesc,
    const gpudnnTensorFormat_t transformFormat, gpudnnFilterDescriptor_t foldedFilterDesc,
    gpudnnTensorDescriptor_t paddedDiffDesc, gpudnnConvolutionDescriptor_t foldedConvDesc,
    gpudnnTensorDescriptor_t foldedGradDesc, gpudnnTensorTransformDescriptor_t filterFoldTransDesc,
    gpudnnTensorTransformDescriptor_t diffPadTransDesc, gpudnnTensorTransformDescriptor_t gradFoldTransDesc,
    gpudnnTensorTransformDescriptor_t gradUnfoldTransDesc);

/* ----------------------------------------------------------------------------------------- fused operation plans
 *
 * A fixed set of patterns: put descriptors and placeholders into a const pack, make a plan from it, put pointers into a
 * variant pack, execute. Vectors (scale, bias, sums ...) have one value for each channel, tensors (1, c, 1, 1...):
 * float, half or bfloat16, or double with double data; a scale whose placeholder is GPUDNN_PTR_NULL stands for 1, a
 * bias for 0, no activation descriptor for the identity. f is RELU, CLIPPED_RELU or IDENTITY. The mode is SPATIAL (also
 * when not set) or SPATIAL_PERSISTENT. Data are float, double, half or bfloat16, any strides; a pattern looks at its
 * own entries alone.
 *
 *   SCALE_BIAS_ACTIVATION_CONV_BNSTATS     y = conv(f(eqscale * x + eqbias), w), zeros in the padding;
 *                                          ysum and ysqsum: sums of y and y^2, as y is stored, over each channel
 *     XDESC XDATA [BN_EQSCALEBIAS_DESC BN_EQSCALE BN_EQBIAS ACTIVATION_DESC] CONV_DESC WDESC WDATA YDESC YDATA
 *     [YSTATS_DESC YSUM YSQSUM], the sums float (double for double data)
 *   SCALE_BIAS_ACTIVATION_WGRAD            dw of the same convolution
 *     XDESC XDATA [BN_EQSCALEBIAS_DESC BN_EQSCALE BN_EQBIAS ACTIVATION_DESC] CONV_DESC DWDESC DWDATA DYDESC DYDATA
 *   BN_FINALIZE_STATISTICS_TRAINING        mean = ysum / m, var = ysqsum / m - mean^2, m the accumulation count;
 *                                          eqscale = scale / sqrt(var + epsilon), eqbias = bias - mean * eqscale
 *     YSTATS_DESC YSUM YSQSUM BN_SCALEBIAS_MEANVAR_DESC [BN_SCALE BN_BIAS] [BN_SAVED_MEAN BN_SAVED_INVSTD]
 *     [BN_RUNNING_MEAN BN_RUNNING_VAR] [BN_EQSCALEBIAS_DESC BN_EQSCALE BN_EQBIAS]; the running pair moves as in
 *     gpudnnBatchNormalizationForwardTraining. A mean far above the deviation costs digits of the variance
 *   BN_FINALIZE_STATISTICS_INFERENCE       the same from the running mean and variance
 *     BN_SCALEBIAS_MEANVAR_DESC [BN_SCALE BN_BIAS] BN_RUNNING_MEAN BN_RUNNING_VAR BN_EQSCALEBIAS_DESC
 *     [BN_EQSCALE BN_EQBIAS]
 *   CONV_SCALE_BIAS_ADD_ACTIVATION         y = f(eqscale * conv(x, w) + eqbias + z_eqscale * z + z_eqbias)
 *     XDESC XDATA CONV_DESC WDESC WDATA [BN_EQSCALEBIAS_DESC BN_EQSCALE BN_EQBIAS] [ZDESC ZDATA]
 *     [BN_Z_EQSCALEBIAS_DESC BN_Z_EQSCALE BN_Z_EQBIAS] [ACTIVATION_DESC] YDESC YDATA; y may be z. With a
 *     z_eqscale or z_eqbias, and where eqscale and eqbias are of a type that is neither y's nor, beside 16-bit data,
 *     float, or of two types, the convolution's result is rounded to y's type once before what follows it
 *   SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK  y = f(eqscale * x + eqbias + z_eqscale * z + z_eqbias), and a bit for each
 *                                          element: whether f has slope 1 there
 *     XDESC XDATA [BN_EQSCALEBIAS_DESC BN_EQSCALE BN_EQBIAS] [ZDESC ZDATA] [BN_Z_EQSCALEBIAS_DESC BN_Z_EQSCALE
 *     BN_Z_EQBIAS] [ACTIVATION_DESC] YDESC YDATA [ACTIVATION_BITMASK_DESC ACTIVATION_BITMASK]; y may be x or z
 *   DACTIVATION_FORK_DBATCHNORM            g = dy where the bit is set, else 0; dz = g; dx, dscale and dbias from g
 *                                          and x as in gpudnnBatchNormalizationBackward
 *     XDESC XDATA DYDESC DYDATA [ACTIVATION_BITMASK_DESC ACTIVATION_BITMASK ACTIVATION_DESC] DXDESC DXDATA
 *     [DZDESC DZDATA] BN_SCALEBIAS_MEANVAR_DESC BN_SCALE [BN_SAVED_MEAN BN_SAVED_INVSTD] [BN_DSCALE BN_DBIAS]; its
 *     vectors are float (double for double data). Without the saved pair the statistics are computed again, with
 *     BN_EPSILON
 *
 * The bits are words of INT32 in a gapless tensor of any dimensions: rows of ceil(c / 32) words, one row for each place
 * (n, then the spatial dimensions, in row-major order), channel c at bit c % 32 of word c / 32 of its row.
 *
 * BAD_PARAM for what makes no sense: an entry that the pattern needs and that was not set, half of a pair, dimensions
 * that do not fit; NOT_SUPPORTED for other activations, modes and types. Everything is deterministic, and an execution
 * neither allocates nor waits. Since 0.1. */

struct gpudnnFusedOpsConstParamStruct;
typedef struct gpudnnFusedOpsConstParamStruct* gpudnnFusedOpsConstParamPack_t;
struct gpudnnFusedOpsVariantParamStruct;
typedef struct gpudnnFusedOpsVariantParamStruct* gpudnnFusedOpsVariantParamPack_t;
struct gpudnnFusedOpsPlanStruct;
typedef struct gpudnnFusedOpsPlanStruct* gpudnnFusedOpsPlan_t;

/* The patterns; f is an activation. */
typedef enum {
  GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_CONV_BNSTATS =
      0,                                            /* conv(f(scale * x + bias), w), and sum and sum of squares of it */
  GPUDNN_FUSED_SCALE_BIAS_ACTIVATION_WGRAD = 1,     /* filter gradient with f(scale * x + bias) as the input */
  GPUDNN_FUSED_BN_FINALIZE_STATISTICS_TRAINING = 2, /* statistics to scale and bias, moving the running ones */
  GPUDNN_FUSED_BN_FINALIZE_STATISTICS_INFERENCE = 3, /* running statistics to scale and bias */
  GPUDNN_FUSED_CONV_SCALE_BIAS_ADD_ACTIVATION = 4,   /* f(scale * conv(x, w) + bias + z) */
  GPUDNN_FUSED_SCALE_BIAS_ADD_ACTIVATION_GEN_BITMASK =
      5,                                        /* f(scale * x + bias + z), and where f was positive, as bits */
  GPUDNN_FUSED_DACTIVATION_FORK_DBATCHNORM = 6, /* backward of the line above and of its batch normalization */
} gpudnnFusedOps_t;

/* What a const pack holds: descriptors (..DESC), modes, and how a pointer will be (..PLACEHOLDER). */
typedef enum {
  GPUDNN_PARAM_XDESC = 0,
  GPUDNN_PARAM_XDATA_PLACEHOLDER = 1,
  GPUDNN_PARAM_BN_MODE = 2,
  GPUDNN_PARAM_BN_EQSCALEBIAS_DESC = 3,
  GPUDNN_PARAM_BN_EQSCALE_PLACEHOLDER = 4,
  GPUDNN_PARAM_BN_EQBIAS_PLACEHOLDER = 5,
  GPUDNN_PARAM_ACTIVATION_DESC = 6,
  GPUDNN_PARAM_CONV_DESC = 7,
  GPUDNN_PARAM_WDESC = 8,
  GPUDNN_PARAM_WDATA_PLACEHOLDER = 9,
  GPUDNN_PARAM_DWDESC = 10,
  GPUDNN_PARAM_DWDATA_PLACEHOLDER = 11,
  GPUDNN_PARAM_YDESC = 12,
  GPUDNN_PARAM_YDATA_PLACEHOLDER = 13,
  GPUDNN_PARAM_DYDESC = 14,
  GPUDNN_PARAM_DYDATA_PLACEHOLDER = 15,
  GPUDNN_PARAM_YSTATS_DESC = 16,
  GPUDNN_PARAM_YSUM_PLACEHOLDER = 17,
  GPUDNN_PARAM_YSQSUM_PLACEHOLDER = 18,
  GPUDNN_PARAM_BN_SCALEBIAS_MEANVAR_DESC = 19,
  GPUDNN_PARAM_BN_SCALE_PLACEHOLDER = 20,
  GPUDNN_PARAM_BN_BIAS_PLACEHOLDER = 21,
  GPUDNN_PARAM_BN_SAVED_MEAN_PLACEHOLDER = 22,
  GPUDNN_PARAM_BN_SAVED_INVSTD_PLACEHOLDER = 23,
  GPUDNN_PARAM_BN_RUNNING_MEAN_PLACEHOLDER = 24,
  GPUDNN_PARAM_BN_RUNNING_VAR_PLACEHOLDER = 25,
  GPUDNN_PARAM_ZDESC = 26,
  GPUDNN_PARAM_ZDATA_PLACEHOLDER = 27,
  GPUDNN_PARAM_BN_Z_EQSCALEBIAS_DESC = 28,
  GPUDNN_PARAM_BN_Z_EQSCALE_PLACEHOLDER = 29,
  GPUDNN_PARAM_BN_Z_EQBIAS_PLACEHOLDER = 30,
  GPUDNN_PARAM_ACTIVATION_BITMASK_DESC = 31,
  GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER = 32,
  GPUDNN_PARAM_DXDESC = 33,
  GPUDNN_PARAM_DXDATA_PLACEHOLDER = 34,
  GPUDNN_PARAM_DZDESC = 35,
  GPUDNN_PARAM_DZDATA_PLACEHOLDER = 36,
  GPUDNN_PARAM_BN_DSCALE_PLACEHOLDER = 37,
  GPUDNN_PARAM_BN_DBIAS_PLACEHOLDER = 38,
} gpudnnFusedOpsConstParamLabel_t;

/* What is promised of a pointer. */
typedef enum {
  GPUDNN_PTR_NULL = 0,         /* it will be null */
  GPUDNN_PTR_ELEM_ALIGNED = 1, /* aligned to its element */
  GPUDNN_PTR_16B_ALIGNED = 2,  /* aligned to 16 bytes */
} gpudnnFusedOpsPointerPlaceHolder_t;

/* What a variant pack holds: data pointers, and host pointers to scalars of the type that the name says. */
typedef enum {
  GPUDNN_PTR_XDATA = 0,
  GPUDNN_PTR_BN_EQSCALE = 1,
  GPUDNN_PTR_BN_EQBIAS = 2,
  GPUDNN_PTR_WDATA = 3,
  GPUDNN_PTR_DWDATA = 4,
  GPUDNN_PTR_YDATA = 5,
  GPUDNN_PTR_DYDATA = 6,
  GPUDNN_PTR_YSUM = 7,
  GPUDNN_PTR_YSQSUM = 8,
  GPUDNN_PTR_WORKSPACE = 9,
  GPUDNN_PTR_BN_SCALE = 10,
  GPUDNN_PTR_BN_BIAS = 11,
  GPUDNN_PTR_BN_SAVED_MEAN = 12,
  GPUDNN_PTR_BN_SAVED_INVSTD = 13,
  GPUDNN_PTR_BN_RUNNING_MEAN = 14,
  GPUDNN_PTR_BN_RUNNING_VAR = 15,
  GPUDNN_PTR_ZDATA = 16,
  GPUDNN_PTR_BN_Z_EQSCALE = 17,
  GPUDNN_PTR_BN_Z_EQBIAS = 18,
  GPUDNN_PTR_ACTIVATION_BITMASK = 19,
  GPUDNN_PTR_DXDATA = 20,
  GPUDNN_PTR_DZDATA = 21,
  GPUDNN_PTR_BN_DSCALE = 22,
  GPUDNN_PTR_BN_DBIAS = 23,
  GPUDNN_SCALAR_SIZE_T_WORKSPACE_SIZE_IN_BYTES = 100,
  GPUDNN_SCALAR_INT64_T_BN_ACCUMULATION_COUNT = 101,
  GPUDNN_SCALAR_DOUBLE_BN_EXP_AVG_FACTOR = 102,
  GPUDNN_SCALAR_DOUBLE_BN_EPSILON = 103,
} gpudnnFusedOpsVariantParamLabel_t;

/* Make and end a const pack, set and read one entry. `param` is a descriptor for the labels that end in DESC, which is
 * copied, else the address of a gpudnnBatchNormMode_t or gpudnnFusedOpsPointerPlaceHolder_t; null takes the entry back.
 * Reading writes into `param`, a descriptor that was created or the address of such a variable; *isNULL is 1 and
 * `param` is left alone if the entry was not set. Ending null does nothing. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateFusedOpsConstParamPack(gpudnnFusedOpsConstParamPack_t* constPack,
                                                                gpudnnFusedOps_t ops);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyFusedOpsConstParamPack(gpudnnFusedOpsConstParamPack_t constPack);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetFusedOpsConstParamPackAttribute(gpudnnFusedOpsConstParamPack_t constPack,
                                                                      gpudnnFusedOpsConstParamLabel_t paramLabel,
                                                                      const void* param);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetFusedOpsConstParamPackAttribute(const gpudnnFusedOpsConstParamPack_t constPack,
                                                                      gpudnnFusedOpsConstParamLabel_t paramLabel,
                                                                      void* param, int* isNULL);

/* Make and end a variant pack, set and read one entry. Setting takes a data pointer itself, or the address of a scalar,
 * which is copied; reading takes the address of a pointer or of a scalar. The accumulation count must be set for
 * BN_FINALIZE_STATISTICS_TRAINING; the averaging factor is 1 and epsilon 1e-5 until they are set. Ending null does
 * nothing. Since 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateFusedOpsVariantParamPack(gpudnnFusedOpsVariantParamPack_t* varPack,
                                                                  gpudnnFusedOps_t ops);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyFusedOpsVariantParamPack(gpudnnFusedOpsVariantParamPack_t varPack);
GPUDNN_EXPORT gpudnnStatus_t gpudnnSetFusedOpsVariantParamPackAttribute(gpudnnFusedOpsVariantParamPack_t varPack,
                                                                        gpudnnFusedOpsVariantParamLabel_t paramLabel,
                                                                        void* ptr);
GPUDNN_EXPORT gpudnnStatus_t gpudnnGetFusedOpsVariantParamPackAttribute(const gpudnnFusedOpsVariantParamPack_t varPack,
                                                                        gpudnnFusedOpsVariantParamLabel_t paramLabel,
                                                                        void* ptr);

/* Make and end a plan, prepare it for a const pack, execute it. Preparing says how many bytes of workspace the plan
 * needs; their address, at a multiple of 16, and their number go into the variant pack. An execution refuses with
 * BAD_PARAM a pointer that is null or not aligned as its placeholder promised, and does not look at one that was
 * promised to be null. Plan and packs must be of one pattern, the handle on the device of the one that made the plan. A
 * plan may be executed from many threads, each with its own variant pack and workspace. Ending null does nothing. Since
 * 0.1. */
GPUDNN_EXPORT gpudnnStatus_t gpudnnCreateFusedOpsPlan(gpudnnFusedOpsPlan_t* plan, gpudnnFusedOps_t ops);
GPUDNN_EXPORT gpudnnStatus_t gpudnnDestroyFusedOpsPlan(gpudnnFusedOpsPlan_t plan);
GPUDNN_EXPORT gpudnnStatus_t gpudnnMakeFusedOpsPlan(gpudnnHandle_t handle, gpudnnFusedOpsPlan_t plan,
                                                    const gpudnnFusedOpsConstParamPack_t constPack,
                                                    size_t* workspaceSizeInBytes);
GPUDNN_EXPORT gpudnnStatus_t gpudnnFusedOpsExecute(gpudnnHandle_t handle, const gpudnnFusedOpsPlan_t plan,
                                                   gpudnnFusedOpsVariantParamPack_t varPack);

#ifdef __cplusplus
}
#endif

#endif
