/* A program as one wrote it for the first cuDNN: 4-D descriptors, results that overwrite, no algorithms, no scales.
 * SPDX-License-Identifier: Apache-2.0 */
#include "age_net.h"

static cudnnHandle_t handle;
static cudnnTensor4dDescriptor_t image_desc, bias_desc, conv_desc, pool_desc, logit_desc;
static cudnnFilterDescriptor_t filter1_desc, filter2_desc;
static cudnnConvolutionDescriptor_t first, second;
static cudnnPoolingDescriptor_t pooling;

static void tensor(cudnnTensor4dDescriptor_t* desc, int n, int c, int h, int w) {
  CHECK(cudnnCreateTensor4dDescriptor(desc));
  CHECK(cudnnSetTensor4dDescriptor(*desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, c, h, w));
}

static void set_up(void) {
  int n, c, h, w;
  CHECK(cudnnCreate(&handle));
  tensor(&image_desc, kImages, 1, kSide, kSide);
  tensor(&bias_desc, 1, kMaps, 1, 1);
  CHECK(cudnnCreateFilterDescriptor(&filter1_desc));
  CHECK(cudnnSetFilterDescriptor(filter1_desc, CUDNN_DATA_FLOAT, kMaps, 1, 3, 3));
  CHECK(cudnnCreateConvolutionDescriptor(&first));
  CHECK(cudnnSetConvolutionDescriptor(first, image_desc, filter1_desc, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION));
  CHECK(cudnnGetOutputTensor4dDim(first, CUDNN_CONVOLUTION_FWD, &n, &c, &h, &w));
  REQUIRE(n == kImages && c == kMaps && h == kConv && w == kConv);
  tensor(&conv_desc, n, c, h, w);
  CHECK(cudnnGetOutputTensor4dDim(first, CUDNN_CONVOLUTION_DATA_GRAD, &n, &c, &h, &w));
  REQUIRE(n == kImages && c == 1 && h == kSide && w == kSide);
  CHECK(cudnnGetOutputTensor4dDim(first, CUDNN_CONVOLUTION_WEIGHT_GRAD, &n, &c, &h, &w));
  REQUIRE(n == kMaps && c == 1 && h == 3 && w == 3);

  CHECK(cudnnCreatePoolingDescriptor(&pooling));
  CHECK(cudnnSetPoolingDescriptor(pooling, CUDNN_POOLING_MAX, 2, 2, 2, 2));
  tensor(&pool_desc, kImages, kMaps, kPool, kPool);
  CHECK(cudnnCreateFilterDescriptor(&filter2_desc));
  CHECK(cudnnSetFilterDescriptor(filter2_desc, CUDNN_DATA_FLOAT, kClasses, kMaps, 3, 3));
  CHECK(cudnnCreateConvolutionDescriptor(&second));
  CHECK(cudnnSetConvolutionDescriptorEx(second, kImages, kMaps, kPool, kPool, kClasses, 3, 3, 0, 0, 1, 1, 1, 1,
                                        CUDNN_CROSS_CORRELATION));
  tensor(&logit_desc, kImages, kClasses, 1, 1);
}

static void forward(void) {
  const float one = 1;
  CHECK(cudnnConvolutionForward(handle, image_desc, image, filter1_desc, filter1, first, conv_desc, conv1,
                                CUDNN_RESULT_NO_ACCUMULATE));
  CHECK(cudnnAddTensor4d(handle, CUDNN_ADD_SAME_C, &one, bias_desc, bias1, conv_desc, conv1));
  CHECK(cudnnActivationForward(handle, CUDNN_ACTIVATION_RELU, conv_desc, conv1, conv_desc, active1));
  CHECK(cudnnPoolingForward(handle, pooling, conv_desc, active1, pool_desc, pool1));
  CHECK(cudnnConvolutionForward(handle, pool_desc, pool1, filter2_desc, filter2, second, logit_desc, logits,
                                CUDNN_RESULT_NO_ACCUMULATE));
  CHECK(cudnnSoftmaxForward(handle, CUDNN_SOFTMAX_ACCURATE, CUDNN_SOFTMAX_MODE_INSTANCE, logit_desc, logits, logit_desc,
                            probability));
}

static void backward(void) {
  const float zero = 0;
  CHECK(cudnnConvolutionBackwardFilter(handle, pool_desc, pool1, logit_desc, d_logits, second, filter2_desc, d_filter2,
                                       CUDNN_RESULT_NO_ACCUMULATE));
  CHECK(cudnnConvolutionBackwardData(handle, filter2_desc, filter2, logit_desc, d_logits, second, pool_desc, d_pool1,
                                     CUDNN_RESULT_NO_ACCUMULATE));
  CHECK(cudnnPoolingBackward(handle, pooling, pool_desc, pool1, pool_desc, d_pool1, conv_desc, active1, conv_desc,
                             d_active1));
  CHECK(cudnnActivationBackward(handle, CUDNN_ACTIVATION_RELU, conv_desc, active1, conv_desc, d_active1, conv_desc,
                                conv1, conv_desc, d_conv1));
  /* Programs of the time set a gradient to zero and accumulated into it. */
  CHECK(cudnnSetTensor4d(handle, bias_desc, d_bias1, &zero));
  CHECK(cudnnConvolutionBackwardBias(handle, conv_desc, d_conv1, bias_desc, d_bias1, CUDNN_RESULT_ACCUMULATE));
  CHECK(cudnnConvolutionBackwardFilter(handle, image_desc, image, conv_desc, d_conv1, first, filter1_desc, d_filter1,
                                       CUDNN_RESULT_ACCUMULATE));
}

static void tear_down(void) {
  CHECK(cudnnDestroyTensor4dDescriptor(image_desc));
  CHECK(cudnnDestroyTensor4dDescriptor(bias_desc));
  CHECK(cudnnDestroyTensor4dDescriptor(conv_desc));
  CHECK(cudnnDestroyTensor4dDescriptor(pool_desc));
  CHECK(cudnnDestroyTensor4dDescriptor(logit_desc));
  CHECK(cudnnDestroyFilterDescriptor(filter1_desc));
  CHECK(cudnnDestroyFilterDescriptor(filter2_desc));
  CHECK(cudnnDestroyConvolutionDescriptor(first));
  CHECK(cudnnDestroyConvolutionDescriptor(second));
  CHECK(cudnnDestroyPoolingDescriptor(pooling));
  CHECK(cudnnDestroy(handle));
}
