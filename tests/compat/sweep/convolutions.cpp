// Convolution in all directions, with bias and activation, its bias gradient and its columns.
// SPDX-License-Identifier: Apache-2.0
#include "sweep.hpp"

namespace sweep {
namespace {

struct Conv {
  cudnnDataType_t x = CUDNN_DATA_FLOAT, w = CUDNN_DATA_FLOAT, y = CUDNN_DATA_FLOAT, compute = CUDNN_DATA_FLOAT;
  Layout x_layout = Layout::nchw, y_layout = Layout::nchw;
  cudnnTensorFormat_t w_format = CUDNN_TENSOR_NCHW;
  int spatial = 2, channels = 8, filters = 8, window = 3, pad = 1, stride = 1, dilation = 1, groups = 1, algorithm = 0;
  cudnnConvolutionMode_t mode = CUDNN_CROSS_CORRELATION;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
  double beta = 0;
  int activation = -1;  // with bias: the mode
  int y_extra = 0;      // added to each extent of y
};

std::string text_of(const Conv& c) {
  return words(c.x, c.w, c.y, "compute", c.compute, c.x_layout, c.y_layout, "filter", static_cast<int>(c.w_format),
               "spatial", c.spatial, "c", c.channels, "k", c.filters, "r", c.window, "p", c.pad, "t", c.stride, "d",
               c.dilation, "g", c.groups, "mode", static_cast<int>(c.mode), "math", static_cast<int>(c.math), "algo",
               c.algorithm, "beta", static_cast<int>(c.beta), c.activation >= 0 ? "act" : "",
               c.activation >= 0 ? text(c.activation).c_str() : "", c.y_extra != 0 ? "other y" : "");
}

Result call(const Conv& c, int which) {
  const int extent = 9;
  const int out = (extent + 2 * c.pad - c.dilation * (c.window - 1) - 1) / c.stride + 1 + c.y_extra;
  const auto rank = static_cast<std::size_t>(c.spatial) + 2;
  Dims x_dims(rank, extent), w_dims(rank, c.window), y_dims(rank, out), bias_dims(rank, 1);
  x_dims[0] = y_dims[0] = 2;
  x_dims[1] = c.channels;
  w_dims[0] = y_dims[1] = bias_dims[1] = c.filters;
  w_dims[1] = c.channels / c.groups;
  const Dims pad(rank, c.pad), stride(rank, c.stride), dilation(rank, c.dilation);
  const TensorDesc x, y, bias;
  const FilterDesc w;
  const ConvDesc conv;
  const ActivationDesc act;
  Setters s;
  s.add(set(x, c.x, x_dims, c.x_layout));
  s.add(set(y, c.y, y_dims, c.y_layout));
  s.add(set(bias, c.y == CUDNN_DATA_INT8 ? CUDNN_DATA_FLOAT : c.y, bias_dims, Layout::nchw));
  s.add(cudnnSetFilterNdDescriptor(w, c.w, c.w_format, static_cast<int>(rank), w_dims.data()));
  s.add(
      cudnnSetConvolutionNdDescriptor(conv, c.spatial, pad.data(), stride.data(), dilation.data(), c.mode, c.compute));
  s.add(cudnnSetConvolutionGroupCount(conv, c.groups));
  s.add(cudnnSetConvolutionMathType(conv, c.math));
  if (c.activation >= 0) {
    s.add(cudnnSetActivationDescriptor(act, static_cast<cudnnActivationMode_t>(c.activation), CUDNN_NOT_PROPAGATE_NAN,
                                       1));
  }
  const Scalar b(c.beta);
  const void* const one = kOne.of(c.compute);
  const void* const beta = b.of(c.compute);
  return s.then([&] {
    switch (which) {
      case 0:
        return cudnnConvolutionForward(handle(), one, x, arena(0), w, arena(1), conv,
                                       static_cast<cudnnConvolutionFwdAlgo_t>(c.algorithm), workspace(),
                                       kWorkspaceBytes, beta, y, arena(2));
      case 1:
        return cudnnConvolutionBackwardData(handle(), one, w, arena(1), y, arena(2), conv,
                                            static_cast<cudnnConvolutionBwdDataAlgo_t>(c.algorithm), workspace(),
                                            kWorkspaceBytes, beta, x, arena(0));
      case 2:
        return cudnnConvolutionBackwardFilter(handle(), one, x, arena(0), y, arena(2), conv,
                                              static_cast<cudnnConvolutionBwdFilterAlgo_t>(c.algorithm), workspace(),
                                              kWorkspaceBytes, beta, w, arena(1));
      case 3:
        return cudnnConvolutionBackwardBias(handle(), one, y, arena(2), beta, bias, arena(3));
      case 4:
        return cudnnIm2Col(handle(), x, arena(0), w, conv, workspace());
      default:
        return cudnnConvolutionBiasActivationForward(
            handle(), one, x, arena(0), w, arena(1), conv, static_cast<cudnnConvolutionFwdAlgo_t>(c.algorithm),
            workspace(), kWorkspaceBytes, beta, y, arena(4), bias, arena(3), act, y, arena(2));
    }
  });
}

void sweep_one(const Conv& c) {
  constexpr const char* kNames[] = {"ConvForward", "ConvBackwardData", "ConvBackwardFilter", "ConvBackwardBias",
                                    "Im2Col"};
  if (c.activation >= 0) {
    run("ConvBiasActivation", text_of(c), [&] { return call(c, 5); });
    return;
  }
  for (int which = 0; which < 5; ++which) {
    if (which >= 3 && c.algorithm != 0) continue;
    run(kNames[which], text_of(c), [&] { return call(c, which); });
  }
}

void sweep_types() {
  for (const cudnnDataType_t in : kTypes) {
    for (const cudnnDataType_t out : kTypes) {
      for (const cudnnDataType_t compute : {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_INT32}) {
        for (const int algorithm : {0, 1}) {
          for (const bool nhwc : {false, true}) {
            Conv c;
            c.x = c.w = in;
            c.y = out;
            c.compute = compute;
            c.algorithm = algorithm;
            if (nhwc) c.x_layout = c.y_layout = Layout::nhwc, c.w_format = CUDNN_TENSOR_NHWC;
            sweep_one(c);
            c.activation = 1;
            if (algorithm == 1) sweep_one(c);
          }
        }
      }
    }
  }
}

void sweep_shapes() {
  for (const cudnnDataType_t type : kFloats) {
    Conv base;
    base.x = base.w = base.y = type;
    base.compute = type == CUDNN_DATA_DOUBLE ? type : CUDNN_DATA_FLOAT;
    for (const int algorithm : {0, 1, 2, 3}) {
      base.algorithm = algorithm;
      for (const Layout x : kLayouts) {
        for (const Layout y : kLayouts) {
          for (const auto format : {CUDNN_TENSOR_NCHW, CUDNN_TENSOR_NHWC}) {
            Conv c = base;
            c.x_layout = x;
            c.y_layout = y;
            c.w_format = format;
            if (algorithm < 2) sweep_one(c);
          }
        }
      }
      for (const int spatial : {1, 2, 3, 4}) {
        for (const int groups : {1, 2, 4, 8}) {
          for (const int stride : {1, 2}) {
            for (const int dilation : {1, 2}) {
              Conv c = base;
              c.spatial = spatial;
              c.groups = groups;
              c.stride = stride;
              c.dilation = dilation;
              c.mode = groups == 2 ? CUDNN_CONVOLUTION : CUDNN_CROSS_CORRELATION;
              if (type == CUDNN_DATA_FLOAT || spatial == 2) sweep_one(c);
            }
          }
        }
      }
      for (int math = 0; math <= 3; ++math) {
        for (const int channels : {1, 3, 8}) {
          Conv c = base;
          c.math = static_cast<cudnnMathType_t>(math);
          c.channels = channels;
          c.beta = math == 1 ? 1 : 0;
          sweep_one(c);
        }
      }
      for (const int extra : {-1, 1}) {
        Conv c = base;
        c.y_extra = extra;
        sweep_one(c);
      }
      for (const int pad : {3, 5}) {
        Conv c = base;
        c.pad = pad;
        sweep_one(c);
      }
    }
    for (int algorithm = 4; algorithm <= 7; ++algorithm) {
      base.algorithm = algorithm;
      sweep_one(base);
    }
    base.algorithm = 1;
    for (int activation = 0; activation <= 6; ++activation) {
      for (const double beta : {0.0, 1.0}) {
        Conv c = base;
        c.activation = activation;
        c.beta = beta;
        sweep_one(c);
        c.algorithm = 0;
        sweep_one(c);
      }
    }
  }
}

}  // namespace

void sweep_convolutions() {
  sweep_types();
  sweep_shapes();
}

}  // namespace sweep
