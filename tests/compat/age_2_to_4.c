/* A program as one wrote it for cuDNN 2 to 4: scales, a forward algorithm by preference, filters without a format.
 * SPDX-License-Identifier: Apache-2.0 */
#include "age_net.h"

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t image_desc, bias_desc, conv_desc, pool_desc, logit_desc;
static cudnnFilterDescriptor_t filter1_desc, filter2_desc;
static cudnnConvolutionDescriptor_t first, second;
static cudnnPoolingDescriptor_t pooling;
static cudnnConvolutionFwdAlgo_t algorithm1, algorithm2;
static void* workspace;
static size_t workspace_size, size2;
static const float one = 1, zero = 0;

static void tensor(cudnnTensorDescriptor_t* desc, int n, int c, int h, int w) {
  CHECK(cudnnCreateTensorDescriptor(desc));
  CHECK(cudnnSetTensor4dDescriptor(*desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w));
}

static void convolution(cudnnConvolutionDescriptor_t* desc) {
  cudnnConvolutionMode_t mode;
  int pad_h, pad_w, u, v, upscale_x, upscale_y;
  CHECK(cudnnCreateConvolutionDescriptor(desc));
  REQUIRE(cudnnSetConvolution2dDescriptor(*desc, 0, 0, 1, 1, 2, 1, CUDNN_CROSS_CORRELATION) ==
          CUDNN_STATUS_NOT_SUPPORTED);
  CHECK(cudnnSetConvolution2dDescriptor(*desc, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION));
  CHECK(cudnnGetConvolution2dDescriptor(*desc, &pad_h, &pad_w, &u, &v, &upscale_x, &upscale_y, &mode));
  REQUIRE(pad_h == 0 && pad_w == 0 && u == 1 && v == 1 && upscale_x == 1 && upscale_y == 1);
  REQUIRE(mode == CUDNN_CROSS_CORRELATION);
}

static void set_up(void) {
  int n, c, h, w;
  cudnnDataType_t type;
  REQUIRE(cudnnGetVersion() == CUDNN_VERSION);
  CHECK(cudnnCreate(&handle));
  tensor(&image_desc, kImages, 1, kSide, kSide);
  tensor(&bias_desc, 1, kMaps, 1, 1);
  CHECK(cudnnCreateFilterDescriptor(&filter1_desc));
  CHECK(cudnnSetFilter4dDescriptor(filter1_desc, CUDNN_DATA_FLOAT, kMaps, 1, 3, 3));
  CHECK(cudnnGetFilter4dDescriptor(filter1_desc, &type, &n, &c, &h, &w));
  REQUIRE(type == CUDNN_DATA_FLOAT && n == kMaps && c == 1 && h == 3 && w == 3);
  convolution(&first);
  CHECK(cudnnGetConvolution2dForwardOutputDim(first, image_desc, filter1_desc, &n, &c, &h, &w));
  REQUIRE(n == kImages && c == kMaps && h == kConv && w == kConv);
  tensor(&conv_desc, n, c, h, w);

  CHECK(cudnnCreatePoolingDescriptor(&pooling));
  CHECK(cudnnSetPooling2dDescriptor(pooling, CUDNN_POOLING_MAX, 2, 2, 0, 0, 2, 2));
  tensor(&pool_desc, kImages, kMaps, kPool, kPool);
  CHECK(cudnnCreateFilterDescriptor(&filter2_desc));
  CHECK(cudnnSetFilter4dDescriptor(filter2_desc, CUDNN_DATA_FLOAT, kClasses, kMaps, 3, 3));
  convolution(&second);
  tensor(&logit_desc, kImages, kClasses, 1, 1);

  CHECK(cudnnGetConvolutionForwardAlgorithm(handle, image_desc, filter1_desc, first, conv_desc,
                                            CUDNN_CONVOLUTION_FWD_PREFER_FASTEST, 0, &algorithm1));
  CHECK(cudnnGetConvolutionForwardAlgorithm(handle, pool_desc, filter2_desc, second, logit_desc,
                                            CUDNN_CONVOLUTION_FWD_SPECIFY_WORKSPACE_LIMIT, 1 << 20, &algorithm2));
  CHECK(cudnnGetConvolutionForwardWorkspaceSize(handle, image_desc, filter1_desc, first, conv_desc, algorithm1,
                                                &workspace_size));
  CHECK(
      cudnnGetConvolutionForwardWorkspaceSize(handle, pool_desc, filter2_desc, second, logit_desc, algorithm2, &size2));
  REQUIRE(size2 <= 1 << 20);
  if (size2 > workspace_size) workspace_size = size2;
  if (workspace_size > 0) workspace = both_memory(workspace_size);
}

static void add_bias(void) {
#if CUDNN_VERSION < 4000
  CHECK(cudnnAddTensor(handle, CUDNN_ADD_SAME_C, &one, bias_desc, bias1, &one, conv_desc, conv1));
#else
  CHECK(cudnnAddTensor(handle, &one, bias_desc, bias1, &one, conv_desc, conv1));
#endif
}

static void forward(void) {
  CHECK(cudnnConvolutionForward(handle, &one, image_desc, image, filter1_desc, filter1, first, algorithm1, workspace,
                                workspace_size, &zero, conv_desc, conv1));
  add_bias();
  CHECK(cudnnActivationForward(handle, CUDNN_ACTIVATION_RELU, &one, conv_desc, conv1, &zero, conv_desc, active1));
  CHECK(cudnnPoolingForward(handle, pooling, &one, conv_desc, active1, &zero, pool_desc, pool1));
  CHECK(cudnnConvolutionForward(handle, &one, pool_desc, pool1, filter2_desc, filter2, second, algorithm2, workspace,
                                workspace_size, &zero, logit_desc, logits));
  CHECK(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_CHANNEL, &one, logit_desc, logits, &zero,
                            logit_desc, probability));
}

static void convolution_gradients(void) {
#if CUDNN_VERSION < 4000
  CHECK(cudnnConvolutionBackwardFilter(handle, &one, pool_desc, pool1, logit_desc, d_logits, second, &zero,
                                       filter2_desc, d_filter2));
  CHECK(cudnnConvolutionBackwardData(handle, &one, filter2_desc, filter2, logit_desc, d_logits, second, &zero,
                                     pool_desc, d_pool1));
#else
  cudnnConvolutionBwdFilterAlgo_t filter_algorithm;
  cudnnConvolutionBwdDataAlgo_t data_algorithm;
  CHECK(cudnnGetConvolutionBackwardFilterAlgorithm(handle, pool_desc, logit_desc, second, filter2_desc,
                                                   CUDNN_CONVOLUTION_BWD_FILTER_NO_WORKSPACE, 0, &filter_algorithm));
  CHECK(cudnnGetConvolutionBackwardDataAlgorithm(handle, filter2_desc, logit_desc, second, pool_desc,
                                                 CUDNN_CONVOLUTION_BWD_DATA_NO_WORKSPACE, 0, &data_algorithm));
  CHECK(cudnnConvolutionBackwardFilter(handle, &one, pool_desc, pool1, logit_desc, d_logits, second, filter_algorithm,
                                       NULL, 0, &zero, filter2_desc, d_filter2));
  CHECK(cudnnConvolutionBackwardData(handle, &one, filter2_desc, filter2, logit_desc, d_logits, second, data_algorithm,
                                     NULL, 0, &zero, pool_desc, d_pool1));
#endif
}

static void backward(void) {
  convolution_gradients();
  CHECK(cudnnPoolingBackward(handle, pooling, &one, pool_desc, pool1, pool_desc, d_pool1, conv_desc, active1, &zero,
                             conv_desc, d_active1));
  CHECK(cudnnActivationBackward(handle, CUDNN_ACTIVATION_RELU, &one, conv_desc, active1, conv_desc, d_active1,
                                conv_desc, conv1, &zero, conv_desc, d_conv1));
  CHECK(cudnnConvolutionBackwardBias(handle, &one, conv_desc, d_conv1, &zero, bias_desc, d_bias1));
  /* The spelling that version 3 had for what version 4 took over. */
  CHECK(cudnnConvolutionBackwardFilter_v3(handle, &one, image_desc, image, conv_desc, d_conv1, first,
                                          CUDNN_CONVOLUTION_BWD_FILTER_ALGO_0, NULL, 0, &zero, filter1_desc,
                                          d_filter1));
}

static void tear_down(void) {
  /* In no particular order: no object depends on another. */
  CHECK(cudnnDestroy(handle));
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
  both_free(workspace);
}
