// A fused call on streams and in a CUDA graph: convolution, bias and ReLU in one call, for two batches on two streams
// at once; then captured into a CUDA graph, which is replayed on new data. On the CPU there are no streams: the calls
// run one after the other, and nothing is captured.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>
#include <gpudnn/gpudnn.hpp>
#include <stdexcept>
#include <string>
#include <vector>
#ifdef GPUDNN_SAMPLE_CUDA
#include <cuda_runtime_api.h>
#endif

namespace {

constexpr int kBatch = 8, kChannels = 32, kImage = 28, kFilters = 64;

// Small whole numbers, others for each salt: sums of their products are exact.
std::vector<float> numbers(size_t count, unsigned salt) {
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    values[i] = static_cast<float>((static_cast<unsigned>(i) * 2654435761u + salt * 40503u) >> 9 & 15) - 7.0f;
  }
  return values;
}

// y = relu(conv(x, w) + bias), on the stream that the handle has when it is called.
class Layer {
 public:
  explicit Layer(const gpudnn::Handle& handle)
      : filters_(handle, numbers(size_t{kFilters} * kChannels * 9, 1)), bias_(handle, numbers(kFilters, 2)) {
    gpudnnConvolutionFwdAlgoPerf_t best;
    int found = 0;
    gpudnn::check(gpudnnGetConvolutionForwardAlgorithm_v7(handle, x_, w_, convolution_, y_, 1, &found, &best));
    algorithm_ = best.algo;
    workspace_bytes_ = best.memory;
  }
  void run(const gpudnn::Handle& handle, const gpudnn::Buffer& x, const gpudnn::Buffer& workspace,
           const gpudnn::Buffer& y) const {
    const float one = 1, zero = 0;
    gpudnn::check(gpudnnConvolutionBiasActivationForward(handle, &one, x_, x.get(), w_, filters_.get(), convolution_,
                                                         algorithm_, workspace.get(), workspace.bytes(), &zero, y_,
                                                         y.get(), bias_layout_, bias_.get(), relu_, y_, y.get()));
  }
  // What a stream needs of its own.
  struct Memory {
    gpudnn::Buffer x, y, workspace;
  };
  [[nodiscard]] Memory memory(const gpudnn::Handle& handle, unsigned salt) const {
    return {gpudnn::Buffer(handle, numbers(x_.bytes() / sizeof(float), salt)), gpudnn::Buffer(handle, y_.bytes()),
            gpudnn::Buffer(handle, workspace_bytes_)};
  }

 private:
  gpudnn::TensorDescriptor x_{GPUDNN_DATA_FLOAT, {kBatch, kChannels, kImage, kImage}};
  gpudnn::TensorDescriptor y_{GPUDNN_DATA_FLOAT, {kBatch, kFilters, kImage, kImage}};
  gpudnn::TensorDescriptor bias_layout_{GPUDNN_DATA_FLOAT, {1, kFilters, 1, 1}};
  gpudnn::FilterDescriptor w_{GPUDNN_DATA_FLOAT, {kFilters, kChannels, 3, 3}};
  gpudnn::ConvolutionDescriptor convolution_{2, gpudnn::ConvolutionOptions{{1, 1}}};
  gpudnn::ActivationDescriptor relu_{GPUDNN_ACTIVATION_RELU};
  gpudnn::Buffer filters_, bias_;
  gpudnnConvolutionFwdAlgo_t algorithm_ = GPUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM;
  size_t workspace_bytes_ = 0;
};

double sum(const gpudnn::Buffer& buffer) {
  double total = 0;
  for (const float value : buffer.download<float>()) total += static_cast<double>(value);
  return total;
}

void expect_same(const gpudnn::Buffer& found, const gpudnn::Buffer& wanted, const char* what) {
  if (found.download<float>() != wanted.download<float>()) throw std::runtime_error(std::string(what) + ": differs");
  std::printf("%s: the same, sum %.0f\n", what, sum(found));
}

#ifdef GPUDNN_SAMPLE_CUDA
void check_cuda(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

void run_on_streams(const gpudnn::Handle& handle, const Layer& layer) {
  cudaStream_t streams[2];
  const Layer::Memory plain[] = {layer.memory(handle, 3), layer.memory(handle, 4)};
  const Layer::Memory apart[] = {layer.memory(handle, 3), layer.memory(handle, 4)};
  for (const Layer::Memory& m : plain) layer.run(handle, m.x, m.workspace, m.y);
  for (int i = 0; i < 2; ++i) {
    check_cuda(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
    handle.set_stream(streams[i]);
    layer.run(handle, apart[i].x, apart[i].workspace, apart[i].y);  // returns at once: the GPU works on both
  }
  for (const cudaStream_t stream : streams) check_cuda(cudaStreamSynchronize(stream));
  expect_same(apart[0].y, plain[0].y, "first stream");
  expect_same(apart[1].y, plain[1].y, "second stream");

  // What is called in a capture is not run but kept. The graph works on the same memory at each launch.
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t executable = nullptr;
  handle.set_stream(streams[0]);
  check_cuda(cudaStreamBeginCapture(streams[0], cudaStreamCaptureModeThreadLocal));
  layer.run(handle, apart[0].x, apart[0].workspace, apart[0].y);
  check_cuda(cudaStreamEndCapture(streams[0], &graph));
  check_cuda(cudaGraphInstantiate(&executable, graph, 0));
  check_cuda(cudaMemcpy(apart[0].x.get(), plain[1].x.get(), plain[1].x.bytes(), cudaMemcpyDeviceToDevice));
  check_cuda(cudaGraphLaunch(executable, streams[0]));
  check_cuda(cudaStreamSynchronize(streams[0]));
  expect_same(apart[0].y, plain[1].y, "replayed on the second batch");
  check_cuda(cudaGraphExecDestroy(executable));
  check_cuda(cudaGraphDestroy(graph));
  handle.set_stream(nullptr);
  for (const cudaStream_t stream : streams) check_cuda(cudaStreamDestroy(stream));
}
#endif

void run_in_order(const gpudnn::Handle& handle, const Layer& layer) {
  std::printf("no streams here: one call after the other\n");
  const Layer::Memory first = layer.memory(handle, 3), again = layer.memory(handle, 3);
  layer.run(handle, first.x, first.workspace, first.y);
  layer.run(handle, again.x, again.workspace, again.y);
  expect_same(again.y, first.y, "second call");
}

}  // namespace

int main() {
  try {
    const gpudnn::Handle handle;
    const Layer layer(handle);
#ifdef GPUDNN_SAMPLE_CUDA
    if (!handle.is_host()) {
      run_on_streams(handle, layer);
      return 0;
    }
#endif
    run_in_order(handle, layer);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
  return 0;
}
