/* What callers lean on beyond the numbers: statuses they branch on, lists they sort by, descriptors set again, order of
 * destruction. Checked under cuDNN's names on the host backend.
 * SPDX-License-Identifier: Apache-2.0 */
#include "program.h"

static cudnnHandle_t handle;
static cudnnTensorDescriptor_t x_desc, y_desc, b_desc;
static cudnnFilterDescriptor_t w_desc;
static cudnnConvolutionDescriptor_t conv;
static float x[2 * 3 * 6 * 6], w[4 * 3 * 3 * 3], y[2 * 4 * 4 * 4];
static const float one = 1, zero = 0;

static void set_up(void) {
  size_t i;
  CHECK(cudnnCreate(&handle));
  CHECK(cudnnCreateTensorDescriptor(&x_desc));
  CHECK(cudnnCreateTensorDescriptor(&y_desc));
  CHECK(cudnnCreateTensorDescriptor(&b_desc));
  CHECK(cudnnCreateFilterDescriptor(&w_desc));
  CHECK(cudnnCreateConvolutionDescriptor(&conv));
  CHECK(cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 3, 6, 6));
  CHECK(cudnnSetTensor4dDescriptor(y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 2, 4, 4, 4));
  CHECK(cudnnSetTensor4dDescriptor(b_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 1, 4, 1, 1));
  CHECK(cudnnSetFilter4dDescriptor(w_desc, CUDNN_DATA_FLOAT, CUDNN_TENSOR_NCHW, 4, 3, 3, 3));
  CHECK(cudnnSetConvolution2dDescriptor(conv, 0, 0, 1, 1, 1, 1, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT));
  for (i = 0; i < sizeof x / sizeof *x; ++i) x[i] = 1;
  for (i = 0; i < sizeof w / sizeof *w; ++i) w[i] = 1;
}

/* Every sum of 3 * 3 * 3 ones. */
static void require_y(float expected) {
  size_t i;
  for (i = 0; i < sizeof y / sizeof *y; ++i) REQUIRE(y[i] == expected);
}

static void forward(cudnnConvolutionFwdAlgo_t algorithm, void* workspace, size_t bytes, const float* beta) {
  CHECK(
      cudnnConvolutionForward(handle, &one, x_desc, x, w_desc, w, conv, algorithm, workspace, bytes, beta, y_desc, y));
}

/* Usable rows first, by time; failed ones behind them with a status and no time. */
static void lists(void) {
  cudnnConvolutionFwdAlgoPerf_t rows[CUDNN_CONVOLUTION_FWD_ALGO_COUNT];
  int count = 0, i, failed = 0;
  CHECK(cudnnFindConvolutionForwardAlgorithm(handle, x_desc, w_desc, conv, y_desc, CUDNN_CONVOLUTION_FWD_ALGO_COUNT,
                                             &count, rows));
  REQUIRE(count >= 1 && rows[0].status == CUDNN_STATUS_SUCCESS && rows[0].time > 0);
  for (i = 0; i < count; ++i) {
    size_t bytes = 0;
    if (rows[i].status != CUDNN_STATUS_SUCCESS) {
      failed = 1;
      REQUIRE(rows[i].time == -1.0f);
      continue;
    }
    REQUIRE(!failed);
    if (i > 0) REQUIRE(rows[i].time >= rows[i - 1].time);
    CHECK(cudnnGetConvolutionForwardWorkspaceSize(handle, x_desc, w_desc, conv, y_desc, rows[i].algo, &bytes));
    REQUIRE(bytes == rows[i].memory);
  }
}

/* Every algorithm number runs within the workspace that it asked for, in every math type. */
static void algorithms(void) {
  const cudnnMathType_t maths[] = {CUDNN_DEFAULT_MATH, CUDNN_TENSOR_OP_MATH, CUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION,
                                   CUDNN_FMA_MATH};
  size_t m;
  int algorithm;
  for (m = 0; m < sizeof maths / sizeof *maths; ++m) {
    CHECK(cudnnSetConvolutionMathType(conv, maths[m]));
    for (algorithm = 0; algorithm < CUDNN_CONVOLUTION_FWD_ALGO_COUNT; ++algorithm) {
      size_t bytes = 0;
      void* workspace;
      CHECK(cudnnGetConvolutionForwardWorkspaceSize(handle, x_desc, w_desc, conv, y_desc,
                                                    (cudnnConvolutionFwdAlgo_t)algorithm, &bytes));
      workspace = bytes > 0 ? malloc(bytes) : NULL;
      forward((cudnnConvolutionFwdAlgo_t)algorithm, workspace, bytes, &zero);
      require_y(27);
      forward((cudnnConvolutionFwdAlgo_t)algorithm, workspace, bytes, &one);
      require_y(54);
      free(workspace);
    }
  }
  CHECK(cudnnSetConvolutionMathType(conv, CUDNN_DEFAULT_MATH));
}

static void refusals(void) {
  cudnnActivationDescriptor_t identity;
  int groups = 0;
  CHECK(cudnnCreateActivationDescriptor(&identity));
  CHECK(cudnnSetActivationDescriptor(identity, CUDNN_ACTIVATION_IDENTITY, CUDNN_PROPAGATE_NAN, 0));
  REQUIRE(cudnnConvolutionBiasActivationForward(
              handle, &one, x_desc, x, w_desc, w, conv, CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM, NULL, 0,
              &zero, y_desc, y, b_desc, NULL, identity, y_desc, y) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnDestroyActivationDescriptor(identity));
  REQUIRE(cudnnSetConvolutionGroupCount(conv, 0) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnGetConvolutionGroupCount(conv, &groups));
  REQUIRE(groups == 1);
  REQUIRE(cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, -1, 3, 6, 6) ==
          CUDNN_STATUS_BAD_PARAM);
  /* A refused call has left the descriptor as it was. */
  forward(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0, &zero);
  require_y(27);
}

/* An empty batch does nothing and succeeds; cuDNN has no such descriptor. */
static void empty(void) {
  y[0] = 5;
  CHECK(cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 0, 3, 6, 6));
  CHECK(cudnnSetTensor4dDescriptor(y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, 0, 4, 4, 4));
  forward(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0, &zero);
  REQUIRE(y[0] == 5);
}

/* The same descriptors with other shapes, on several handles at once. */
static void set_again(void) {
  cudnnHandle_t first = handle, others[3];
  int i;
  for (i = 0; i < 3; ++i) CHECK(cudnnCreate(&others[i]));
  for (i = 0; i < 6; ++i) {
    const int n = i % 2 + 1;
    CHECK(cudnnSetTensor4dDescriptor(x_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, 3, 6, 6));
    CHECK(cudnnSetTensor4dDescriptor(y_desc, CUDNN_TENSOR_NCHW, CUDNN_DATA_FLOAT, n, 4, 4, 4));
    memset(y, 0, sizeof y);
    handle = others[i % 3];
    forward(CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM, NULL, 0, &zero);
    REQUIRE(y[0] == 27 && y[64 * n - 1] == 27 && (n == 2 || y[64] == 0));
  }
  handle = first;
  for (i = 0; i < 3; ++i) CHECK(cudnnDestroy(others[(i + 1) % 3]));
}

/* In any order, and null does nothing; what was destroyed is refused and not used. */
static void tear_down(void) {
  cudnnTensorDescriptor_t gone;
  CHECK(cudnnCreateTensorDescriptor(&gone));
  CHECK(cudnnDestroyTensorDescriptor(gone));
  REQUIRE(cudnnDestroyTensorDescriptor(gone) == CUDNN_STATUS_BAD_PARAM);
  CHECK(cudnnDestroy(handle));
  CHECK(cudnnDestroyConvolutionDescriptor(conv));
  CHECK(cudnnDestroyTensorDescriptor(y_desc));
  CHECK(cudnnDestroyFilterDescriptor(w_desc));
  CHECK(cudnnDestroyTensorDescriptor(b_desc));
  CHECK(cudnnDestroyTensorDescriptor(x_desc));
  CHECK(cudnnDestroy(NULL));
  CHECK(cudnnDestroyTensorDescriptor(NULL));
  CHECK(cudnnDestroyFilterDescriptor(NULL));
  CHECK(cudnnDestroyConvolutionDescriptor(NULL));
  CHECK(cudnnDestroyPoolingDescriptor(NULL));
  CHECK(cudnnDestroyActivationDescriptor(NULL));
  CHECK(cudnnDestroyOpTensorDescriptor(NULL));
}

int main(void) {
  /* 0 where the library has no CUDA backend; the headers then speak of the one that it would have. */
  REQUIRE(cudnnGetMaxDeviceVersion() == 0 || cudnnGetMaxDeviceVersion() == CUDNN_MAX_DEVICE_VERSION);
  require_libgpudnn();
  REQUIRE(cudnnGetVersion() == 91900);
  set_up();
  lists();
  algorithms();
  refusals();
  empty();
  set_again();
  tear_down();
  puts("done");
  return 0;
}
