/* A network of two convolutions that the programs of each age train by one step: what has nothing to do with cuDNN. The
 * step must lower the loss by what the gradients promise, so a wrong gradient fails.
 *
 *   image (1x8x8) -> conv1 (4 of 3x3), bias -> ReLU -> max pool 2x2 -> conv2 (3 of 3x3) -> softmax -> cross entropy
 *
 * SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_COMPAT_AGE_NET_H_
#define TESTS_COMPAT_AGE_NET_H_

#include <cudnn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory.h"

enum { kImages = 6, kSide = 8, kMaps = 4, kConv = 6, kPool = 3, kClasses = 3 };

/* The network's data, and the gradients of the loss. */
#define NET_ARRAYS(X)                        \
  X(image, kImages* kSide* kSide)            \
  X(filter1, kMaps * 9)                      \
  X(bias1, kMaps)                            \
  X(conv1, kImages* kMaps* kConv* kConv)     \
  X(active1, kImages* kMaps* kConv* kConv)   \
  X(pool1, kImages* kMaps* kPool* kPool)     \
  X(filter2, kClasses* kMaps * 9)            \
  X(logits, kImages* kClasses)               \
  X(probability, kImages* kClasses)          \
  X(d_filter1, kMaps * 9)                    \
  X(d_bias1, kMaps)                          \
  X(d_conv1, kImages* kMaps* kConv* kConv)   \
  X(d_active1, kImages* kMaps* kConv* kConv) \
  X(d_pool1, kImages* kMaps* kPool* kPool)   \
  X(d_filter2, kClasses* kMaps * 9)          \
  X(d_logits, kImages* kClasses)
#define DECLARE(name, count)       \
  enum { name##_count = (count) }; \
  static float* name;
NET_ARRAYS(DECLARE)
#define COUNT(array) ((size_t)(array##_count))
#define ALLOCATE(name, count) name = both_memory((count) * sizeof(float));

#define CHECK(call)                                                                                \
  do {                                                                                             \
    cudnnStatus_t status_ = (call);                                                                \
    if (status_ != CUDNN_STATUS_SUCCESS) {                                                         \
      char text_[1024] = "";                                                                       \
      cudnnGetLastErrorString(text_, sizeof text_);                                                \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, cudnnGetErrorString(status_), text_); \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)
#define REQUIRE(condition)                                                    \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)

/* Each program has these four in the calls of its age. forward() goes from image to probability, backward() from
 * d_logits to the gradients of the filters and the bias. */
static void set_up(void);
static void forward(void);
static void backward(void);
static void tear_down(void);

static unsigned random_state = 12345;
static float random_number(float scale) {
  random_state = random_state * 1664525u + 1013904223u;
  return scale * ((float)(random_state >> 8) / 8388608.0f - 1.0f);
}
static void randomize(float* data, size_t count, float scale) {
  size_t i;
  for (i = 0; i < count; ++i) data[i] = random_number(scale);
}

static int label(int n) { return n % kClasses; }

/* The mean cross entropy, and its gradient with respect to the logits. */
static double loss(void) {
  double sum = 0;
  int n, k;
  wait_for_device();
  for (n = 0; n < kImages; ++n) {
    sum -= log((double)probability[n * kClasses + label(n)]);
    for (k = 0; k < kClasses; ++k) {
      d_logits[n * kClasses + k] = (probability[n * kClasses + k] - (k == label(n) ? 1.0f : 0.0f)) / kImages;
    }
  }
  return sum / kImages;
}

/* Goes down the gradient; returns the square of its length. */
static double step(float* weights, const float* gradient, size_t count, float rate) {
  double square = 0;
  size_t i;
  for (i = 0; i < count; ++i) {
    square += (double)gradient[i] * gradient[i];
    weights[i] -= rate * gradient[i];
  }
  return square;
}

int main(void) {
  const float rate = 0.01f;
  double before, after, promised;
  NET_ARRAYS(ALLOCATE)
  randomize(image, COUNT(image), 1.0f);
  randomize(filter1, COUNT(filter1), 0.5f);
  randomize(bias1, COUNT(bias1), 0.1f);
  randomize(filter2, COUNT(filter2), 0.3f);
  set_up();
  forward();
  before = loss();
  backward();
  wait_for_device();
  promised = step(filter1, d_filter1, COUNT(filter1), rate) + step(bias1, d_bias1, COUNT(bias1), rate) +
             step(filter2, d_filter2, COUNT(filter2), rate);
  promised *= rate;
  forward();
  after = loss();
  tear_down();
  printf("loss %.6f -> %.6f, a step of %.6f was promised\n", before, after, promised);
  REQUIRE(before > 0 && before < 10);
  REQUIRE(promised > 1e-4);
  /* The loss is not linear: the step may miss the promise by a tenth. */
  REQUIRE(fabs((before - after) - promised) < 0.1 * promised);
  return 0;
}

#endif
