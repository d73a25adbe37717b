// What the log says of a call: all of it, and why each engine was passed over. By a process of its own, as the
// environment is read once.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

#include "gpudnn/gpudnn.h"
#include "support/child.hpp"

namespace gpudnn {
namespace {

// A convolution with alpha 2, beta 1 and another algorithm than the first, and a plain one; a pooling setter.
TEST(CallLogChild, DISABLED_Convolves) {
  gpudnnHandle_t handle = nullptr;
  ASSERT_EQ(gpudnnCreate(&handle), GPUDNN_STATUS_SUCCESS);
  gpudnnTensorDescriptor_t x = nullptr;
  gpudnnTensorDescriptor_t y = nullptr;
  gpudnnFilterDescriptor_t w = nullptr;
  gpudnnConvolutionDescriptor_t conv = nullptr;
  gpudnnPoolingDescriptor_t pool = nullptr;
  (void)gpudnnCreateTensorDescriptor(&x);
  (void)gpudnnCreateTensorDescriptor(&y);
  (void)gpudnnCreateFilterDescriptor(&w);
  (void)gpudnnCreateConvolutionDescriptor(&conv);
  (void)gpudnnCreatePoolingDescriptor(&pool);
  (void)gpudnnSetTensor4dDescriptor(x, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 2, 5, 7);
  (void)gpudnnSetTensor4dDescriptor(y, GPUDNN_TENSOR_NCHW, GPUDNN_DATA_FLOAT, 1, 3, 5, 7);
  (void)gpudnnSetFilter4dDescriptor(w, GPUDNN_DATA_FLOAT, GPUDNN_TENSOR_NCHW, 3, 2, 3, 3);
  (void)gpudnnSetConvolution2dDescriptor(conv, 1, 1, 1, 1, 1, 1, GPUDNN_CROSS_CORRELATION, GPUDNN_DATA_FLOAT);
  (void)gpudnnSetPooling2dDescriptor(pool, GPUDNN_POOLING_MAX, GPUDNN_PROPAGATE_NAN, 2, 3, 0, 1, 2, 2);
  float image[70] = {};
  float filter[54] = {};
  float out[105] = {};
  char workspace[64] = {};
  const float one = 1;
  const float zero = 0;
  const float two = 2;
  (void)gpudnnConvolutionForward(handle, &one, x, image, w, filter, conv, GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM,
                                 nullptr, 0, &zero, y, out);
  (void)gpudnnConvolutionForward(handle, &two, x, image, w, filter, conv, GPUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD,
                                 workspace, sizeof workspace, &one, y, out);
  (void)gpudnnDestroyPoolingDescriptor(pool);
  (void)gpudnnDestroyConvolutionDescriptor(conv);
  (void)gpudnnDestroyFilterDescriptor(w);
  (void)gpudnnDestroyTensorDescriptor(y);
  (void)gpudnnDestroyTensorDescriptor(x);
  (void)gpudnnDestroy(handle);
}

std::string log_of(std::map<std::string, std::string> variables) {
  const std::string file = testing::TempDir() + "gpudnn_call_log" + std::to_string(getpid()) + ".log";
  std::remove(file.c_str());
  variables.insert({{"GPUDNN_BACKEND", "host"}, {"GPUDNN_LOGLEVEL", "3"}, {"GPUDNN_LOGDEST", file}});
  EXPECT_EQ(test::run_in_child("CallLogChild.*", variables), "");
  std::ifstream stream(file);
  std::stringstream text;
  text << stream.rdbuf();
  std::remove(file.c_str());
  return text.str();
}

bool has(const std::string& text, const char* words) { return text.find(words) != std::string::npos; }

TEST(CallLog, ALineHoldsTheWholeCall) {
  const std::string text = log_of({});
  EXPECT_TRUE(has(text, "| alpha=1 beta=0 algo=0 workspace=0 stream=(nil) | engine=host_")) << text;
  EXPECT_TRUE(has(text, "| alpha=2 beta=1 algo=6 workspace=64 stream=(nil) | engine=host_")) << text;
}

TEST(CallLog, SettersTellWhatTheySet) {
  const std::string text = log_of({});
  EXPECT_TRUE(has(text, "gpudnnSetTensor4dDescriptor | tensor f32 nchw n1c2h5w7 -> SUCCESS")) << text;
  EXPECT_TRUE(has(text, "gpudnnSetFilter4dDescriptor | filter f32 nchw n3c2h3w3 -> SUCCESS")) << text;
  EXPECT_TRUE(has(text, "gpudnnSetConvolution2dDescriptor | p1x1 t1x1 d1x1 mode=cross acc=f32")) << text;
  EXPECT_TRUE(has(text, "gpudnnSetPooling2dDescriptor | mode=0 w2x3 p0x1 t2x2 nan=propagate")) << text;
}

TEST(CallLog, CreateTellsBackendVersionAndCommit) {
  const std::string text = log_of({});
  EXPECT_TRUE(has(text, "gpudnnCreate | backend=host version=0.")) << text;
  EXPECT_TRUE(has(text, " commit=")) << text;
}

TEST(CallLog, PassedOverEnginesStandThereWithTheReason) {
  const std::string text = log_of({{"GPUDNN_ENGINES", "-host_gemm"}});
  EXPECT_TRUE(has(text, "| passed over: host_gemm: GPUDNN_ENGINES leaves it out")) << text;
  EXPECT_TRUE(has(text, "engine=host_direct")) << text;
  EXPECT_FALSE(has(text, "engine=host_gemm")) << text;
}

TEST(CallLog, APinnedEngineRunsAlone) {
  const std::string text = log_of({{"GPUDNN_ENGINES", "host_direct"}});
  EXPECT_TRUE(has(text, "engine=host_direct")) << text;
  EXPECT_TRUE(has(text, "choice 1 of 1: host_direct")) << text;
}

TEST(CallLog, LeavingOutAllIsARefusalThatSaysSo) {
  const std::string text = log_of({{"GPUDNN_ENGINES", "-host_gemm,-host_direct"}});
  EXPECT_TRUE(has(text, "none that GPUDNN_ENGINES leaves takes it")) << text;
}

TEST(CallLog, ANameThatNoEngineHasIsAWarning) {
  const std::string text = log_of({{"GPUDNN_ENGINES", "-host_gem,-host_direct"}});
  EXPECT_TRUE(has(text, "GPUDNN_ENGINES names 'host_gem', which no engine")) << text;
  EXPECT_FALSE(has(text, "GPUDNN_ENGINES names 'host_direct'")) << text;
  EXPECT_EQ(log_of({}).find("GPUDNN_ENGINES"), std::string::npos);
}

TEST(CallLog, AMistakenVariableIsAWarning) {
  const std::string text = log_of({{"GPUDNN_HOST_THREADS", "foo"}});
  EXPECT_TRUE(has(text, "gpudnn W")) << text;
  EXPECT_TRUE(has(text, "GPUDNN_HOST_THREADS is 'foo', which counts as 0")) << text;
}

// Without being asked for: a build with CUDA whose driver or device is missing.
TEST(CallLog, AFallbackToTheCpuIsAWarning) {
  const std::string text = log_of({{"GPUDNN_BACKEND", "auto"}});
  const bool falls_back = !has(text, "backend=cuda") && gpudnnGetCudartVersion() != 0;
  EXPECT_EQ(has(text, "no CUDA device can be used ("), falls_back) << text;
}

}  // namespace
}  // namespace gpudnn
