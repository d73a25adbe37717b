/* One convolution through the public API, from the handle to a checked result: 96-channel images of 221x221 under 256
 * filters of 7x7 with stride 2, in plain C99.
 * SPDX-License-Identifier: Apache-2.0
 *
 * The same program runs on a GPU and on the host backend. A full batch of 128 images is 3.6 TFLOP, too
 * much to wait for on a CPU, so on the host backend the defaults are one image and 16 filters. */
#define _POSIX_C_SOURCE 199309L /* clock_gettime */

#include <gpudnn/gpudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(call)                                                                                                \
  do {                                                                                                             \
    gpudnnStatus_t status_ = (call);                                                                               \
    if (status_ != GPUDNN_STATUS_SUCCESS) {                                                                        \
      char reason_[1024] = "";                                                                                     \
      gpudnnGetLastErrorString(reason_, sizeof reason_);                                                           \
      fprintf(stderr, "%s:%d: %s\n  %s: %s\n", __FILE__, __LINE__, #call, gpudnnGetErrorString(status_), reason_); \
      exit(1);                                                                                                     \
    }                                                                                                              \
  } while (0)

enum { CHANNELS = 96, IMAGE = 221, KERNEL = 7, STRIDE = 2, PAD = 0 };

static const char* const kAlgorithmNames[GPUDNN_CONVOLUTION_FWD_ALGO_COUNT] = {
    "IMPLICIT_GEMM", "IMPLICIT_PRECOMP_GEMM", "GEMM", "DIRECT", "FFT", "FFT_TILING", "WINOGRAD", "WINOGRAD_NONFUSED"};

/* Deterministic data: small integers, which every data type holds exactly and whose sums here stay exact in float. */
static float pattern(size_t index, unsigned salt) {
  unsigned long long mixed = ((unsigned long long)index + 1) * 0x9E3779B97F4A7C15ull + salt * 0x632BE5ABull;
  mixed ^= mixed >> 29;
  return (float)(int)(mixed % 5) - 2.0f;
}

enum { IMAGE_SALT = 1, FILTER_SALT = 2 };

/* What --math asks for. */
typedef struct {
  gpudnnDataType_t type; /* of all three tensors: float or half */
  size_t size;           /* bytes of one element */
  gpudnnMathType_t math;
  double precision; /* relative error of the sums, and of storing one */
} Numbers;

static const Numbers kDefault = {GPUDNN_DATA_FLOAT, 4, GPUDNN_DEFAULT_MATH, 1e-5};
static const Numbers kTensor = {GPUDNN_DATA_FLOAT, 4, GPUDNN_TENSOR_OP_MATH, 1e-5}; /* the pattern is exact in TF32 */
static const Numbers kHalf = {GPUDNN_DATA_HALF, 2, GPUDNN_TENSOR_OP_MATH, 0x1p-11};

/* An IEEE 754 half as a double. */
static double from_half(unsigned short bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double magnitude = exponent == 0    ? ldexp(fraction, -24)
                           : exponent == 31 ? (fraction != 0 ? NAN : INFINITY)
                                            : ldexp(1024 + fraction, exponent - 25);
  return (bits & 0x8000) != 0 ? -magnitude : magnitude;
}

/* Fills a device buffer with the pattern in pieces, so that no second copy of a large tensor lies in host memory. */
static void fill(gpudnnHandle_t handle, void* destination, size_t count, const Numbers* numbers, unsigned salt) {
  enum { PIECE = 1 << 22 };
  static const unsigned short kHalves[5] = {0xC000, 0xBC00, 0x0000, 0x3C00, 0x4000}; /* -2 to 2 */
  void* piece = malloc(PIECE * numbers->size);
  if (piece == NULL) {
    fprintf(stderr, "no host memory for a staging buffer of %zu bytes\n", PIECE * numbers->size);
    exit(1);
  }
  for (size_t begin = 0; begin < count; begin += PIECE) {
    const size_t length = count - begin < PIECE ? count - begin : PIECE;
    for (size_t i = 0; i < length; ++i) {
      const float value = pattern(begin + i, salt);
      if (numbers->type == GPUDNN_DATA_HALF) {
        ((unsigned short*)piece)[i] = kHalves[(int)value + 2];
      } else {
        ((float*)piece)[i] = value;
      }
    }
    CHECK(gpudnnMemcpy(handle, (char*)destination + begin * numbers->size, piece, length * numbers->size,
                       GPUDNN_MEMCPY_HOST_TO_DEVICE));
  }
  free(piece);
}

/* One output value by the definition. `magnitude` is the sum of the absolute products, the scale of rounding errors. */
static double direct_value(int n, int k, int p, int q, double* magnitude) {
  double sum = 0;
  *magnitude = 0;
  for (int c = 0; c < CHANNELS; ++c)
    for (int r = 0; r < KERNEL; ++r)
      for (int s = 0; s < KERNEL; ++s) {
        const int y = p * STRIDE - PAD + r;
        const int x = q * STRIDE - PAD + s;
        if (y < 0 || y >= IMAGE || x < 0 || x >= IMAGE) continue;
        const double product = (double)pattern((((size_t)n * CHANNELS + c) * IMAGE + y) * IMAGE + x, IMAGE_SALT) *
                               (double)pattern((((size_t)k * CHANNELS + c) * KERNEL + r) * KERNEL + s, FILTER_SALT);
        sum += product;
        *magnitude += fabs(product);
      }
  return sum;
}

/* Compares the corners and some values between with the direct computation; returns the number of wrong ones. */
static int count_wrong(gpudnnHandle_t handle, const void* output, const Numbers* numbers, int n, int k, int h, int w) {
  enum { SAMPLES = 12 };
  int wrong = 0;
  for (int i = 0; i < SAMPLES; ++i) {
    /* i = 0 is the first value of all, i = SAMPLES - 1 the last. */
    const int in = (n - 1) * i / (SAMPLES - 1), ik = (k - 1) * i / (SAMPLES - 1);
    const int ih = i % 2 ? h - 1 : (h - 1) * i / (SAMPLES - 1), iw = (w - 1) * i / (SAMPLES - 1);
    const size_t index = (((size_t)in * k + ik) * h + ih) * w + iw;
    union {
      float single;
      unsigned short half;
    } stored;
    CHECK(gpudnnMemcpy(handle, &stored, (const char*)output + index * numbers->size, numbers->size,
                       GPUDNN_MEMCPY_DEVICE_TO_HOST));
    const double computed = numbers->type == GPUDNN_DATA_HALF ? from_half(stored.half) : stored.single;
    double magnitude;
    const double expected = direct_value(in, ik, ih, iw, &magnitude);
    /* Written so that a NaN counts as wrong. */
    const double scale = numbers->type == GPUDNN_DATA_HALF ? fabs(expected) : magnitude; /* half: sums are exact */
    const int right = fabs(computed - expected) <= numbers->precision * scale;
    printf("  y[%d][%d][%d][%d] = %g, directly %g%s\n", in, ik, ih, iw, computed, expected, right ? "" : "  WRONG");
    wrong += !right;
  }
  return wrong;
}

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void usage(const char* program) {
  printf(
      "usage: %s [--batch N] [--math default|tensor|half]\n"
      "  --batch N      images, 1 to 1024 (default: 128 on a GPU, 1 on the host backend)\n"
      "  --math tensor  float data on the tensor cores, in their reduced precision (TF32)\n"
      "  --math half    half-precision data on the tensor cores\n",
      program);
}

/* Exits with 1 on a wrong option, with 0 after --help. */
static void parse_options(int argc, char** argv, int* batch, Numbers* numbers) {
  for (int i = 1; i < argc; ++i) {
    char* end = NULL;
    if (strcmp(argv[i], "--help") == 0) {
      usage(argv[0]);
      exit(0);
    } else if (strcmp(argv[i], "--batch") == 0 && i + 1 < argc) {
      const long value = strtol(argv[++i], &end, 10);
      if (end == argv[i] || *end != '\0' || value < 1 || value > 1024) {
        fprintf(stderr, "--batch wants a number from 1 to 1024, not '%s'\n", argv[i]);
        exit(1);
      }
      *batch = (int)value;
    } else if (strcmp(argv[i], "--math") == 0 && i + 1 < argc) {
      const char* value = argv[++i];
      if (strcmp(value, "default") != 0 && strcmp(value, "tensor") != 0 && strcmp(value, "half") != 0) {
        fprintf(stderr, "--math wants 'default', 'tensor' or 'half', not '%s'\n", value);
        exit(1);
      }
      *numbers = value[0] == 'd' ? kDefault : value[0] == 't' ? kTensor : kHalf;
    } else {
      fprintf(stderr, "unknown or incomplete option '%s'\n", argv[i]);
      usage(argv[0]);
      exit(1);
    }
  }
}

/* Longer than a function of the library would be: it is the sample, to be read in one go. */
int main(int argc, char** argv) {
  int batch = 0; /* 0 = what suits the backend */
  Numbers numbers = kDefault;
  parse_options(argc, argv, &batch, &numbers);

  /* 1. The handle: it works on the current GPU, or on the CPU where there is none (or GPUDNN_BACKEND=host). */
  gpudnnHandle_t handle;
  gpudnnBackend_t backend;
  CHECK(gpudnnCreate(&handle));
  CHECK(gpudnnGetBackend(handle, &backend));
  const int on_host = backend == GPUDNN_BACKEND_HOST;
  const int filters = on_host ? 16 : 256;
  if (batch == 0) batch = on_host ? 1 : 128;
  printf("backend    %s\n", on_host ? "host (CPU), so only 16 of the 256 filters and by default 1 image" : "CUDA");

  /* 2. Descriptors say what the data look like. */
  gpudnnTensorDescriptor_t x_desc, y_desc;
  gpudnnFilterDescriptor_t w_desc;
  gpudnnConvolutionDescriptor_t conv_desc;
  CHECK(gpudnnCreateTensorDescriptor(&x_desc));
  CHECK(gpudnnCreateTensorDescriptor(&y_desc));
  CHECK(gpudnnCreateFilterDescriptor(&w_desc));
  CHECK(gpudnnCreateConvolutionDescriptor(&conv_desc));
  CHECK(gpudnnSetTensor4dDescriptor(x_desc, GPUDNN_TENSOR_NCHW, numbers.type, batch, CHANNELS, IMAGE, IMAGE));
  CHECK(gpudnnSetFilter4dDescriptor(w_desc, numbers.type, GPUDNN_TENSOR_NCHW, filters, CHANNELS, KERNEL, KERNEL));
  CHECK(gpudnnSetConvolution2dDescriptor(conv_desc, PAD, PAD, STRIDE, STRIDE, 1, 1, GPUDNN_CROSS_CORRELATION,
                                         GPUDNN_DATA_FLOAT));
  CHECK(gpudnnSetConvolutionMathType(conv_desc, numbers.math));
  int n, k, h, w;
  CHECK(gpudnnGetConvolution2dForwardOutputDim(conv_desc, x_desc, w_desc, &n, &k, &h, &w));
  CHECK(gpudnnSetTensor4dDescriptor(y_desc, GPUDNN_TENSOR_NCHW, numbers.type, n, k, h, w));
  printf("input      %d x %d x %d x %d\n", batch, CHANNELS, IMAGE, IMAGE);
  printf("filters    %d x %d x %d x %d, stride %d\n", filters, CHANNELS, KERNEL, KERNEL, STRIDE);
  printf("output     %d x %d x %d x %d\n", n, k, h, w);

  /* 3. The algorithm that the library ranks first, and the workspace that it needs. */
  gpudnnConvolutionFwdAlgoPerf_t best;
  int found = 0;
  size_t workspace_bytes = 0;
  CHECK(gpudnnGetConvolutionForwardAlgorithm_v7(handle, x_desc, w_desc, conv_desc, y_desc, 1, &found, &best));
  if (found < 1) {
    fprintf(stderr, "the library offers no algorithm for this convolution\n");
    return 1;
  }
  CHECK(best.status);
  CHECK(
      gpudnnGetConvolutionForwardWorkspaceSize(handle, x_desc, w_desc, conv_desc, y_desc, best.algo, &workspace_bytes));
  printf("algorithm  %s, workspace %zu bytes\n", kAlgorithmNames[best.algo], workspace_bytes);

  /* 4. Memory where the handle computes, filled with the pattern. */
  const size_t x_count = (size_t)batch * CHANNELS * IMAGE * IMAGE;
  const size_t w_count = (size_t)filters * CHANNELS * KERNEL * KERNEL;
  const size_t y_count = (size_t)n * k * h * w;
  void *x, *weights, *y, *workspace;
  CHECK(gpudnnMalloc(handle, &x, x_count * numbers.size));
  CHECK(gpudnnMalloc(handle, &weights, w_count * numbers.size));
  CHECK(gpudnnMalloc(handle, &y, y_count * numbers.size));
  CHECK(gpudnnMalloc(handle, &workspace, workspace_bytes));
  fill(handle, x, x_count, &numbers, IMAGE_SALT);
  fill(handle, weights, w_count, &numbers, FILTER_SALT);

  /* 5. y = 1 * conv(x, weights) + 0 * y. The first run also pays for loading the kernel; the second is timed. A call
   * returns before a GPU is done; gpudnnMemcpy waits for it. */
  const float one = 1.0f, zero = 0.0f;
  double elapsed = 0;
  for (int run = 0; run < 2; ++run) {
    float last;
    const double begin = seconds();
    CHECK(gpudnnConvolutionForward(handle, &one, x_desc, x, w_desc, weights, conv_desc, best.algo, workspace,
                                   workspace_bytes, &zero, y_desc, y));
    CHECK(gpudnnMemcpy(handle, &last, (char*)y + (y_count - 1) * numbers.size, numbers.size,
                       GPUDNN_MEMCPY_DEVICE_TO_HOST));
    elapsed = seconds() - begin;
  }
  const double operations = 2.0 * (double)y_count * CHANNELS * KERNEL * KERNEL;
  printf("time       %.3f ms, %.1f GFLOP/s\n", elapsed * 1e3, operations / elapsed * 1e-9);

  /* 6. Is it right? */
  const int wrong = count_wrong(handle, y, &numbers, n, k, h, w);
  printf("%s\n", wrong == 0 ? "all checked values are right" : "WRONG VALUES");

  CHECK(gpudnnFree(handle, workspace));
  CHECK(gpudnnFree(handle, y));
  CHECK(gpudnnFree(handle, weights));
  CHECK(gpudnnFree(handle, x));
  CHECK(gpudnnDestroyConvolutionDescriptor(conv_desc));
  CHECK(gpudnnDestroyFilterDescriptor(w_desc));
  CHECK(gpudnnDestroyTensorDescriptor(y_desc));
  CHECK(gpudnnDestroyTensorDescriptor(x_desc));
  CHECK(gpudnnDestroy(handle));
  return wrong == 0 ? 0 : 1;
}
