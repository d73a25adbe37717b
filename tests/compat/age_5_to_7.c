/* A program as one wrote it for cuDNN 5 to 7: descriptors of activations and formats of filters, all three convolutions
 * by preference or by search; from 7 on, groups and tensor cores.
 * SPDX-License-Identifier: Apache-2.0 */
#include "age_net.h"

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t image_desc, bias_desc, conv_desc, pool_desc, logit_desc;
static cudnnFilterDescriptor_t filter1_desc, filter2_desc;
static cudnnConvolutionDescriptor_t first, second;
static cudnnPoolingDescriptor_t pooling;
static cudnnActivationDescriptor_t relu;
static cudnnConvolutionFwdAlgo_t forward1, forward2;
static cudnnConvolutionBwdDataAlgo_t data2;
static cudnnConvolutionBwdFilterAlgo_t filter_algorithm1, filter_algorithm2;
static void* workspace;
static size_t workspace_size;
static const float one = 1, zero = 0;

static void tensor(cudnnTensorDescriptor_t* desc, int n, int c, int h, int w) {
  CHECK(cudnnCreateTensorDescriptor(desc));
  CHECK(cudnnSetTensor4dDescriptorEx(*desc, CUDNN_DATA_FLOAT, n, c, h, w, c * h * w, h * w, w, 1));
}

static void filter(cudnnFilterDescriptor_t* desc, int k, int c) {
  CHECK(cudnnCreateFilterDescriptor(desc));
  CHECK(cudnnSetFilter4dDescriptor(*desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, k, c, 3, 3));
}

static void convolution(cudnnConvolutionDescriptor_t* desc) {
  CHECK(cudnnCreateConvolutionDescriptor(desc));
#if CUDNN_MAJOR >= 6
  CHECK(cudnnSetConvolution2dDescriptor(*desc, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
#else
  CHECK(cudnnSetConvolution2dDescriptor(*desc, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION));
#endif
#if CUDNN_MAJOR >= 7
  CHECK(cudnnSetConvolutionGroupCount(*desc, 1));
  CHECK(cudnnSetConvolutionMathType(*desc, CUDNN_TENSOR_OP_MATH));
#endif
}

/* The spellings that bridged releases are still there. */
static void bridges(void) {
  cudnnConvolutionDescriptor_t desc;
  cudnnFilterDescriptor_t filter_desc;
  cudnnPoolingDescriptor_t pooling_desc;
  const int three[3] = {3, 3, 3}, ones[3] = {1, 1, 1}, dims[5] = {2, 2, 3, 3, 3};
  CHECK(cudnnCreateConvolutionDescriptor(&desc));
  CHECK(cudnnSetConvolution2dDescriptor_v4(desc, 1, 1, 1, 1, 1, 1, CUDNN_CONVOLUTION));
  CHECK(cudnnSetConvolution2dDescriptor_v5(desc, 1, 1, 1, 1, 2, 2, CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT));
  CHECK(cudnnSetConvolutionNdDescriptor_v3(desc, 3, ones, ones, ones, CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT));
  CHECK(cudnnSetConvolutionNdDescriptor_v2(desc, 3, ones, ones, ones, CUDNN_CONVOLUTION));
  CHECK(cudnnCreateFilterDescriptor(&filter_desc));
  CHECK(cudnnSetFilter4dDescriptor_v3(filter_desc, CUDNN_DATA_FLOAT, 1, 1, 3, 3));
  CHECK(cudnnSetFilter4dDescriptor_v4(filter_desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NHWC, 1, 1, 3, 3));
  CHECK(cudnnSetFilterNdDescriptor_v3(filter_desc, CUDNN_DATA_FLOAT, 5, dims));
  CHECK(cudnnCreatePoolingDescriptor(&pooling_desc));
  CHECK(cudnnSetPooling2dDescriptor_v3(pooling_desc, CUDNN_POOLING_MAX, 3, 3, 0, 0, 1, 1));
  CHECK(cudnnSetPooling2dDescriptor_v4(pooling_desc, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 3, 3, 0, 0, 1, 1));
  CHECK(cudnnSetPoolingNdDescriptor_v3(pooling_desc, CUDNN_POOLING_MAX, 3, three, ones, ones));
  CHECK(cudnnDestroyPoolingDescriptor(pooling_desc));
  CHECK(cudnnDestroyFilterDescriptor(filter_desc));
  CHECK(cudnnDestroyConvolutionDescriptor(desc));
}

/* One unit of a ReLU network with weights and biases of 1, over three steps of input 1, 0, 1: h is 3, 5, 8. With dy of
 * 1 at the last step alone, dx is 1 at each. */
static void recurrent(void) {
  cudnnRNNDescriptor_t rnn;
  cudnnDropoutDescriptor_t dropout;
  cudnnTensorDescriptor_t steps[3], state;
  cudnnFilterDescriptor_t weight_desc, part;
  const int dims[3] = {1, 1, 1}, strides[3] = {1, 1, 1};
  cudnnDataType_t type;
  cudnnTensorFormat_t format;
  int t, rank, got[3];
  size_t work, reserve, weights;
  float *x = both_memory(12), *y = both_memory(12), *w = both_memory(16), *dx = both_memory(12), *dw = both_memory(16);
  float *dy = both_memory(12), *last = both_memory(4);
  void *space, *kept, *at;
  CHECK(cudnnCreateDropoutDescriptor(&dropout));
  CHECK(cudnnSetDropoutDescriptor(dropout, handle, 0, NULL, 0, 1));
  CHECK(cudnnCreateRNNDescriptor(&rnn));
#if CUDNN_MAJOR >= 6
  CHECK(cudnnSetRNNDescriptor(handle, rnn, 1, 1, dropout, CUDNN_LINEAR_INPUT, CUDNN_UNIDIRECTIONAL, CUDNN_RNN_RELU,
                              CUDNN_RNN_ALGO_STANDARD, CUDNN_DATA_FLOAT));
#else
  CHECK(cudnnSetRNNDescriptor(rnn, 1, 1, dropout, CUDNN_LINEAR_INPUT, CUDNN_UNIDIRECTIONAL, CUDNN_RNN_RELU,
                              CUDNN_DATA_FLOAT));
#endif
  CHECK(cudnnCreateTensorDescriptor(&state));
  CHECK(cudnnSetTensorNdDescriptor(state, CUDNN_DATA_FLOAT, 3, dims, strides));
  for (t = 0; t < 3; ++t) steps[t] = state;
  CHECK(cudnnCreateFilterDescriptor(&weight_desc));
  CHECK(cudnnCreateFilterDescriptor(&part));
  CHECK(cudnnGetRNNParamsSize(handle, rnn, state, &weights, CUDNN_DATA_FLOAT));
  REQUIRE(weights == 16);
  CHECK(cudnnGetRNNLinLayerBiasParams(handle, rnn, 0, state, weight_desc, w, 1, part, &at));
  REQUIRE(at == (void*)(w + 3));
  CHECK(cudnnGetFilterNdDescriptor(part, 3, &type, &format, &rank, got));
  REQUIRE(rank == 3 && got[0] * got[1] * got[2] == 1);
  for (t = 0; t < 4; ++t) w[t] = 1;
  x[0] = x[2] = 1;
  dy[2] = 1;
  CHECK(cudnnGetRNNWorkspaceSize(handle, rnn, 3, steps, &work));
  CHECK(cudnnGetRNNTrainingReserveSize(handle, rnn, 3, steps, &reserve));
  space = both_memory(work);
  kept = both_memory(reserve);
  CHECK(cudnnRNNForwardTraining(handle, rnn, 3, steps, x, state, NULL, state, NULL, weight_desc, w, steps, y, state,
                                last, state, NULL, space, work, kept, reserve));
  wait_for_device();
  REQUIRE(y[0] == 3 && y[1] == 5 && y[2] == 8 && last[0] == 8);
  CHECK(cudnnRNNBackwardData(handle, rnn, 3, steps, y, steps, dy, state, NULL, state, NULL, weight_desc, w, state, NULL,
                             state, NULL, steps, dx, state, NULL, state, NULL, space, work, kept, reserve));
  CHECK(cudnnRNNBackwardWeights(handle, rnn, 3, steps, x, state, NULL, steps, y, space, work, weight_desc, dw, kept,
                                reserve));
  wait_for_device();
  REQUIRE(dx[0] == 1 && dx[1] == 1 && dx[2] == 1);
  REQUIRE(dw[0] == 2 && dw[1] == 8 && dw[2] == 3 && dw[3] == 3);
  y[0] = 0;
  CHECK(cudnnRNNForwardInference(handle, rnn, 3, steps, x, state, NULL, state, NULL, weight_desc, w, steps, y, state,
                                 last, state, NULL, space, work));
  wait_for_device();
  REQUIRE(y[0] == 3);
  both_free(x), both_free(y), both_free(w), both_free(dx), both_free(dw), both_free(dy), both_free(last);
  both_free(space), both_free(kept);
  CHECK(cudnnDestroyFilterDescriptor(part));
  CHECK(cudnnDestroyFilterDescriptor(weight_desc));
  CHECK(cudnnDestroyTensorDescriptor(state));
  CHECK(cudnnDestroyRNNDescriptor(rnn));
  CHECK(cudnnDestroyDropoutDescriptor(dropout));
}

static void need(size_t bytes) {
  if (bytes > workspace_size) workspace_size = bytes;
}

static void choose(void) {
  cudnnConvolutionFwdAlgoPerf_t found[4];
  size_t bytes;
  int count = 0;
  /* The first layer by a search, as programs with a "benchmark" switch did; the second by preference. */
  CHECK(cudnnFindConvolutionForwardAlgorithm(handle, image_desc, filter1_desc, first, conv_desc, 4, &count, found));
  REQUIRE(count >= 1 && found[0].status == CUDNN_STATUS_SUCCESS);
  forward1 = found[0].algo;
  need(found[0].memory);
  CHECK(cudnnGetConvolutionForwardAlgorithm(handle, pool_desc, filter2_desc, second, logit_desc,
                                            CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT, 1 << 24, &forward2));
  CHECK(cudnnGetConvolutionForwardWorkspaceSize(handle, pool_desc, filter2_desc, second, logit_desc, forward2, &bytes));
  need(bytes);
  CHECK(cudnnGetConvolutionBackwardDataAlgorithm(handle, filter2_desc, logit_desc, second, pool_desc,
                                                 CUDNN_CONVOLUTION_BWD_DATA_PREFER_FASTEST, 0, &data2));
  CHECK(
      cudnnGetConvolutionBackwardDataWorkspaceSize(handle, filter2_desc, logit_desc, second, pool_desc, data2, &bytes));
  need(bytes);
  CHECK(cudnnGetConvolutionBackwardFilterAlgorithm(handle, image_desc, conv_desc, first, filter1_desc,
                                                   CUDNN_CONVOLUTION_BWD_FILTER_SPECIFY_WORKSPACE_LIMIT, 1 << 24,
                                                   &filter_algorithm1));
  CHECK(cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, image_desc, conv_desc, first, filter1_desc,
                                                       filter_algorithm1, &bytes));
  need(bytes);
  CHECK(cudnnGetConvolutionBackwardFilterAlgorithm(handle, pool_desc, logit_desc, second, filter2_desc,
                                                   CUDNN_CONVOLUTION_BWD_FILTER_NO_WORKSPACE, 0, &filter_algorithm2));
  CHECK(cudnnGetConvolutionBackwardFilterWorkspaceSize(handle, pool_desc, logit_desc, second, filter2_desc,
                                                       filter_algorithm2, &bytes));
  REQUIRE(bytes == 0);
}

static void set_up(void) {
  REQUIRE(cudnnGetVersion() == CUDNN_VERSION);
  CHECK(cudnnCreate(&handle));
  tensor(&image_desc, kImages, 1, kSide, kSide);
  tensor(&bias_desc, 1, kMaps, 1, 1);
  tensor(&conv_desc, kImages, kMaps, kConv, kConv);
  tensor(&pool_desc, kImages, kMaps, kPool, kPool);
  tensor(&logit_desc, kImages, kClasses, 1, 1);
  filter(&filter1_desc, kMaps, 1);
  filter(&filter2_desc, kClasses, kMaps);
  convolution(&first);
  convolution(&second);
  CHECK(cudnnCreatePoolingDescriptor(&pooling));
  CHECK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, 2, 2, 0, 0, 2, 2));
  CHECK(cudnnCreateActivationDescriptor(&relu));
  CHECK(cudnnSetActivationDescriptor(relu, CUDNN_ACTIVATION_RELU, CUDNN_PROPAGATE_NAN, 0.0));
  bridges();
  recurrent();
  choose();
  workspace = workspace_size > 0 ? both_memory(workspace_size) : NULL;
}

static void forward(void) {
  CHECK(cudnnConvolutionForward(handle, &one, image_desc, image, filter1_desc, filter1, first, forward1, workspace,
                                workspace_size, &zero, conv_desc, conv1));
  CHECK(cudnnAddTensor(handle, &one, bias_desc, bias1, &one, conv_desc, conv1));
  CHECK(cudnnActivationForward(handle, relu, &one, conv_desc, conv1, &zero, conv_desc, active1));
  CHECK(cudnnPoolingForward(handle, pooling, &one, conv_desc, active1, &zero, pool_desc, pool1));
  CHECK(cudnnConvolutionForward(handle, &one, pool_desc, pool1, filter2_desc, filter2, second, forward2, workspace,
                                workspace_size, &zero, logit_desc, logits));
  CHECK(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, logit_desc, logits, &zero,
                            logit_desc, probability));
}

static void backward(void) {
  CHECK(cudnnConvolutionBackwardFilter(handle, &one, pool_desc, pool1, logit_desc, d_logits, second, filter_algorithm2,
                                       NULL, 0, &zero, filter2_desc, d_filter2));
  CHECK(cudnnConvolutionBackwardData(handle, &one, filter2_desc, filter2, logit_desc, d_logits, second, data2,
                                     workspace, workspace_size, &zero, pool_desc, d_pool1));
  CHECK(cudnnPoolingBackward(handle, pooling, &one, pool_desc, pool1, pool_desc, d_pool1, conv_desc, active1, &zero,
                             conv_desc, d_active1));
  CHECK(cudnnActivationBackward(handle, relu, &one, conv_desc, active1, conv_desc, d_active1, conv_desc, conv1, &zero,
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
