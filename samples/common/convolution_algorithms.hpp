// The algorithms that the library ranks first for the three directions of a convolution.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <gpudnn/gpudnn.hpp>
#include <stdexcept>

struct ConvolutionAlgorithms {
  gpudnnConvolutionFwdAlgo_t forward;
  gpudnnConvolutionBwdDataAlgo_t backward_data;
  gpudnnConvolutionBwdFilterAlgo_t backward_filter;
  size_t workspace_bytes;  // the most that one of them takes
};

inline ConvolutionAlgorithms first_algorithms(gpudnnHandle_t handle, gpudnnTensorDescriptor_t x,
                                              gpudnnFilterDescriptor_t w, gpudnnConvolutionDescriptor_t convolution,
                                              gpudnnTensorDescriptor_t y) {
  int found = 0;
  size_t bytes[3] = {};
  const auto check_found = [&](const char* direction) {
    if (found < 1) throw std::runtime_error(std::string("the library offers no algorithm for ") + direction);
  };
  gpudnnConvolutionFwdAlgoPerf_t forward;
  gpudnn::check(gpudnnGetConvolutionForwardAlgorithm_v7(handle, x, w, convolution, y, 1, &found, &forward));
  check_found("a forward convolution");
  gpudnn::check(gpudnnGetConvolutionForwardWorkspaceSize(handle, x, w, convolution, y, forward.algo, &bytes[0]));

  gpudnnConvolutionBwdDataAlgoPerf_t data;
  gpudnn::check(gpudnnGetConvolutionBackwardDataAlgorithm_v7(handle, w, y, convolution, x, 1, &found, &data));
  check_found("a convolution's data gradient");
  gpudnn::check(gpudnnGetConvolutionBackwardDataWorkspaceSize(handle, w, y, convolution, x, data.algo, &bytes[1]));

  gpudnnConvolutionBwdFilterAlgoPerf_t filter;
  gpudnn::check(gpudnnGetConvolutionBackwardFilterAlgorithm_v7(handle, x, y, convolution, w, 1, &found, &filter));
  check_found("a convolution's filter gradient");
  gpudnn::check(gpudnnGetConvolutionBackwardFilterWorkspaceSize(handle, x, y, convolution, w, filter.algo, &bytes[2]));
  return {forward.algo, data.algo, filter.algo, *std::max_element(bytes, bytes + 3)};
}
