/* A program as one writes it for cuDNN 8 and 9: N-D descriptors, lists of algorithms, convolution and bias and
 * activation in one call. The same source is also compiled with NVIDIA's own headers and run with libgpudnn.
 * SPDX-License-Identifier: Apache-2.0 */
#include "age_net.h"

#if CUDNN_MAJOR == 8
#include <cudnn_adv_infer.h>
#include <cudnn_cnn_train.h>
#include <cudnn_ops_infer.h>
#endif

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t image_desc, bias_desc, conv_desc, pool_desc, logit_desc;
static cudnnFilterDescriptor_t filter1_desc, filter2_desc;
static cudnnConvolutionDescriptor_t first, second;
static cudnnPoolingDescriptor_t pooling;
static cudnnActivationDescriptor_t relu;
static cudnnConvolutionFwdAlgo_t forward2;
static cudnnConvolutionBwdDataAlgo_t data2;
static cudnnConvolutionBwdFilterAlgo_t filter_algorithm1, filter_algorithm2;
static void* workspace;
static size_t workspace_size;
static const float one = 1, zero = 0;

static void tensor(cudnnTensorDescriptor_t* desc, int n, int c, int h, int w) {
  const int dims[4] = {n, c, h, w}, strides[4] = {c * h * w, h * w, w, 1};
  CHECK(cudnnCreateTensorDescriptor(desc));
  CHECK(cudnnSetTensorNdDescriptor(*desc, CUDNN_DATA_FLOAT, 4, dims, strides));
}

static void filter(cudnnFilterDescriptor_t* desc, int k, int c) {
  const int dims[4] = {k, c, 3, 3};
  CHECK(cudnnCreateFilterDescriptor(desc));
  CHECK(cudnnSetFilterNdDescriptor(*desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, dims));
}

static void convolution(cudnnConvolutionDescriptor_t* desc, cudnnMathType_t math) {
  const int pad[2] = {0, 0}, ones[2] = {1, 1};
  CHECK(cudnnCreateConvolutionDescriptor(desc));
  CHECK(cudnnSetConvolutionNdDescriptor(*desc, 2, pad, ones, ones, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  CHECK(cudnnSetConvolutionMathType(*desc, math));
}

static void need(size_t bytes) {
  if (bytes > workspace_size) workspace_size = bytes;
}

static void choose(void) {
  cudnnConvolutionFwdAlgoPerf_t forward_list[CUDNN_CONVOLUTION_FWD_ALGO_COUNT];
  cudnnConvolutionBwdDataAlgoPerf_t data_list[CUDNN_CONVOLUTION_BWD_DATA_ALGO_COUNT];
  cudnnConvolutionBwdFilterAlgoPerf_t filter_list[CUDNN_CONVOLUTION_BWD_FILTER_ALGO_COUNT];
  int most = 0, count = 0;
  CHECK(cudnnGetConvolutionForwardAlgorithmMaxCount(handle, &most));
  REQUIRE(most == CUDNN_CONVOLUTION_FWD_ALGO_COUNT);
  CHECK(cudnnGetConvolutionForwardAlgorithm_v7(handle, pool_desc, filter2_desc, second, logit_desc, most, &count,
                                               forward_list));
  REQUIRE(count >= 1 && count <= most && forward_list[0].status == CUDNN_STATUS_SUCCESS);
  forward2 = forward_list[0].algo;
  need(forward_list[0].memory);
  CHECK(cudnnGetConvolutionBackwardDataAlgorithm_v7(handle, filter2_desc, logit_desc, second, pool_desc, 1, &count,
                                                    data_list));
  REQUIRE(count == 1);
  data2 = data_list[0].algo;
  need(data_list[0].memory);
  CHECK(cudnnFindConvolutionBackwardFilterAlgorithm(handle, pool_desc, logit_desc, second, filter2_desc, 1, &count,
                                                    filter_list));
  REQUIRE(count == 1);
  filter_algorithm2 = filter_list[0].algo;
  need(filter_list[0].memory);
  CHECK(cudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, image_desc, conv_desc, first, filter1_desc, 1, &count,
                                                      filter_list));
  REQUIRE(count == 1);
  filter_algorithm1 = filter_list[0].algo;
  need(filter_list[0].memory);
}

static void set_up(void) {
  const int two[2] = {2, 2}, none[2] = {0, 0};
  int dims[4];
  (void)conv1; /* the fused call never stores it */
#if CUDNN_MAJOR == 8
  CHECK(cudnnOpsInferVersionCheck());
  CHECK(cudnnCnnTrainVersionCheck());
  CHECK(cudnnAdvInferVersionCheck());
#else
  CHECK(cudnnGraphVersionCheck());
  CHECK(cudnnOpsVersionCheck());
  CHECK(cudnnCnnVersionCheck());
  CHECK(cudnnAdvVersionCheck());
  REQUIRE(cudnnGetVersion() / 10000 == CUDNN_MAJOR);
#endif
  CHECK(cudnnCreate(&handle));
  tensor(&image_desc, kImages, 1, kSide, kSide);
  tensor(&bias_desc, 1, kMaps, 1, 1);
  tensor(&pool_desc, kImages, kMaps, kPool, kPool);
  tensor(&logit_desc, kImages, kClasses, 1, 1);
  filter(&filter1_desc, kMaps, 1);
  filter(&filter2_desc, kClasses, kMaps);
  convolution(&first, CUDNN_DEFAULT_MATH);
  convolution(&second, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION);
  CHECK(cudnnGetConvolutionNdForwardOutputDim(first, image_desc, filter1_desc, 4, dims));
  REQUIRE(dims[0] == kImages && dims[1] == kMaps && dims[2] == kConv && dims[3] == kConv);
  tensor(&conv_desc, dims[0], dims[1], dims[2], dims[3]);
  CHECK(cudnnCreatePoolingDescriptor(&pooling));
  CHECK(cudnnSetPoolingNdDescriptor(pooling, CUDNN_POOLING_MAX_DETERMINISTIC, CUDNN_PROPAGATE_NAN, 2, two, none, two));
  CHECK(cudnnCreateActivationDescriptor(&relu));
  CHECK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0.0));
  choose();
  workspace = workspace_size > 0 ? both_memory(workspace_size) : NULL;
}

static void forward(void) {
  /* IMPLICIT_PRECOMP_GEMM is the one algorithm that every cuDNN fuses. Its workspace may be less than what was asked
   * for. */
  size_t bytes = 0;
  CHECK(cudnnGetConvolutionForwardWorkspaceSize(handle, image_desc, filter1_desc, first, conv_desc,
                                                CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, &bytes));
  if (bytes > workspace_size) {
    workspace = realloc(workspace, bytes);
    workspace_size = bytes;
  }
  CHECK(cudnnConvolutionBiasActivationForward(
      handle, &one, image_desc, image, filter1_desc, filter1, first, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
      workspace, workspace_size, &zero, conv_desc, active1, bias_desc, bias1, relu, conv_desc, active1));
  CHECK(cudnnPoolingForward(handle, pooling, &one, conv_desc, active1, &zero, pool_desc, pool1));
  CHECK(cudnnConvolutionForward(handle, &one, pool_desc, pool1, filter2_desc, filter2, second, forward2, workspace,
                                workspace_size, &zero, logit_desc, logits));
  CHECK(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, logit_desc, logits, &zero,
                            logit_desc, probability));
}

static void backward(void) {
  CHECK(cudnnConvolutionBackwardFilter(handle, &one, pool_desc, pool1, logit_desc, d_logits, second, filter_algorithm2,
                                       workspace, workspace_size, &zero, filter2_desc, d_filter2));
  CHECK(cudnnConvolutionBackwardData(handle, &one, filter2_desc, filter2, logit_desc, d_logits, second, data2,
                                     workspace, workspace_size, &zero, pool_desc, d_pool1));
  CHECK(cudnnPoolingBackward(handle, pooling, &one, pool_desc, pool1, pool_desc, d_pool1, conv_desc, active1, &zero,
                             conv_desc, d_active1));
  /* The gradient of ReLU needs the output alone; the input that was never stored is stood in for by it. */
  CHECK(cudnnActivationBackward(handle, relu, &one, conv_desc, active1, conv_desc, d_active1, conv_desc, active1, &zero,
                                conv_desc, d_conv1));
  CHECK(cudnnConvolutionBackwardBias(handle, &one, conv_desc, d_conv1, &zero, bias_desc, d_bias1));
  CHECK(cudnnConvolutionBackwardFilter(handle, &one, image_desc, image, conv_desc, d_conv1, first, filter_algorithm1,
                                       workspace, workspace_size, &zero, filter1_desc, d_filter1));
}

static void tear_down(void) {
  CHECK(cudnnDestroyActivationDescriptor(relu));
  CHECK(cudnnDestroyPoolingDescriptor(pooling));
  CHECK(cudnnDestroyConvolutionDescriptor(first));
  CHECK(cudnnDestroyConvolutionDescriptor(second));
  CHECK(cudnnDestroyFilterDescriptor(filter1_desc));
  CHECK(cudnnDestroyFilterDescriptor(filter2_desc));
  CHECK(cudnnDestroyTensorDescriptor(image_desc));
  CHECK(cudnnDestroyTensorDescriptor(bias_desc));
  CHECK(cudnnDestroyTensorDescriptor(conv_desc));
  CHECK(cudnnDestroyTensorDescriptor(pool_desc));
  CHECK(cudnnDestroyTensorDescriptor(logit_desc));
  CHECK(cudnnDestroy(handle));
  both_free(workspace);
}
