// Descriptors and the operations on whole tensors.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "sweep.hpp"

namespace sweep {

std::string text(cudnnDataType_t type) {
  switch (type) {
    case CUDNN_DATA_FLOAT:
      return "f32";
    case CUDNN_DATA_DOUBLE:
      return "f64";
    case CUDNN_DATA_HALF:
      return "f16";
    case CUDNN_DATA_BFLOAT16:
      return "bf16";
    default:
      return "type" + std::to_string(static_cast<int>(type));
  }
}
std::string text(Layout layout) {
  constexpr const char* kNames[] = {"nchw", "nhwc", "gaps", "reversed"};
  return kNames[static_cast<int>(layout)];
}
std::string text(const Dims& dims) {
  std::string line;
  for (const int dim : dims) line += (line.empty() ? "" : "x") + std::to_string(dim);
  return line;
}

cudnnStatus_t set(cudnnTensorDescriptor_t desc, cudnnDataType_t type, const Dims& dims, Layout layout) {
  const int rank = static_cast<int>(dims.size());
  std::vector<int> order;  // the dimensions, the innermost first
  for (int i = rank - 1; i >= 0; --i) order.push_back(i);
  if (layout == Layout::nhwc && rank > 2) {
    order.erase(std::find(order.begin(), order.end(), 1));
    order.insert(order.begin(), 1);
  }
  if (layout == Layout::reversed) std::reverse(order.begin(), order.end());
  Dims strides(dims.size());
  int stride = layout == Layout::gaps ? 2 : 1;
  for (const int i : order) {
    strides[static_cast<std::size_t>(i)] = stride;
    stride = stride * std::max(dims[static_cast<std::size_t>(i)], 1) + (layout == Layout::gaps ? 3 : 0);
  }
  return cudnnSetTensorNdDescriptor(desc, type, rank, dims.data(), strides.data());
}

void sweep_descriptors() {
  const Dims shapes[] = {{2, 4, 3, 5}, {2, 32, 3, 3}, {1, 1, 1, 1}, {2, 0, 3, 3},
                         {0, 4, 3, 3}, {2, -1, 3, 3}, {2, 6, 3, 3}};
  for (int type = -1; type <= 15; ++type) {
    for (int format = -1; format <= 3; ++format) {
      for (const Dims& d : shapes) {
        run("SetTensor4d", words("type", type, "format", format, d), [&]() -> Result {
          const TensorDesc t;
          return {cudnnSetTensor4dDescriptor(t, static_cast<cudnnTensorFormat_t>(format),
                                             static_cast<cudnnDataType_t>(type), d[0], d[1], d[2], d[3])};
        });
        run("SetFilter4d", words("type", type, "format", format, d), [&]() -> Result {
          const FilterDesc t;
          return {cudnnSetFilter4dDescriptor(t, static_cast<cudnnDataType_t>(type),
                                             static_cast<cudnnTensorFormat_t>(format), d[0], d[1], d[2], d[3])};
        });
      }
    }
  }
  for (int rank = 0; rank <= 9; ++rank) {
    for (const int extent : {1, 2}) {
      const Dims dims(10, extent), ones(10, 1), zeros(10, 0), strides = {64, 32, 16, 8, 4, 2, 1, 1, 1, 1};
      for (const Dims& s : {strides, ones, zeros}) {
        run("SetTensorNd", words("rank", rank, "extent", extent, "strides", s), [&]() -> Result {
          const TensorDesc t;
          return {cudnnSetTensorNdDescriptor(t, CUDNN_DATA_FLOAT, rank, dims.data(), s.data())};
        });
      }
      for (int format = 0; format <= 2; ++format) {
        run("SetTensorNdEx", words("rank", rank, "extent", extent, "format", format), [&]() -> Result {
          const TensorDesc t;
          return {cudnnSetTensorNdDescriptorEx(t, static_cast<cudnnTensorFormat_t>(format), CUDNN_DATA_FLOAT, rank,
                                               dims.data())};
        });
        run("SetFilterNd", words("rank", rank, "extent", extent, "format", format), [&]() -> Result {
          const FilterDesc t;
          return {cudnnSetFilterNdDescriptor(t, CUDNN_DATA_FLOAT, static_cast<cudnnTensorFormat_t>(format), rank,
                                             dims.data())};
        });
      }
    }
  }
  for (const int pad : {-1, 0, 1, 100}) {
    for (const int stride : {-1, 0, 1, 3}) {
      for (const int third : {-1, 0, 1, 2}) {
        run("SetConvolution2d", words("pad", pad, "stride", stride, "dilation", third), [&]() -> Result {
          const ConvDesc c;
          return {cudnnSetConvolution2dDescriptor(c, pad, 0, stride, 1, third, 1, CUDNN_CONVOLUTION, CUDNN_DATA_FLOAT)};
        });
        for (int mode = -1; mode <= 4; ++mode) {
          run("SetPooling2d", words("pad", pad, "stride", stride, "window", third, "mode", mode), [&]() -> Result {
            const PoolDesc p;
            return {cudnnSetPooling2dDescriptor(p, static_cast<cudnnPoolingMode_t>(mode), CUDNN_PROPAGATE_NAN, third, 2,
                                                pad, 0, stride, 1)};
          });
        }
      }
    }
  }
  for (int rank = 0; rank <= 7; ++rank) {
    const int ones[] = {1, 1, 1, 1, 1, 1, 1, 1};
    run("SetConvolutionNd", words("spatial", rank), [&]() -> Result {
      const ConvDesc c;
      return {cudnnSetConvolutionNdDescriptor(c, rank, ones, ones, ones, CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT)};
    });
    run("SetPoolingNd", words("spatial", rank), [&]() -> Result {
      const PoolDesc p;
      return {cudnnSetPoolingNdDescriptor(p, CUDNN_POOLING_MAX, CUDNN_PROPAGATE_NAN, rank, ones, ones, ones)};
    });
  }
  for (int mode = -1; mode <= 8; ++mode) {
    for (int nan = -1; nan <= 2; ++nan) {
      for (const int coef : {-1, 0, 6}) {
        run("SetActivation", words("mode", mode, "nan", nan, "coef", coef), [&]() -> Result {
          const ActivationDesc a;
          return {cudnnSetActivationDescriptor(a, static_cast<cudnnActivationMode_t>(mode),
                                               static_cast<cudnnNanPropagation_t>(nan), coef)};
        });
      }
    }
  }
  for (const unsigned n : {0u, 1u, 2u, 5u, 16u, 17u, 100u}) {
    for (const double k : {1e-6, 1e-5, 0.0, 2.0}) {
      for (const double beta : {-1.0, 0.0, 0.001, 0.01, 0.75}) {
        run("SetLRN",
            words("n", static_cast<int>(n), "k", std::to_string(k).c_str(), "beta", std::to_string(beta).c_str()),
            [&]() -> Result {
              const LrnDesc l;
              return {cudnnSetLRNDescriptor(l, n, 1e-4, beta, k)};
            });
      }
    }
  }
}

namespace {

// Shapes of a second operand against 2x4x3x5.
const Dims kBroadcasts[] = {{2, 4, 3, 5}, {1, 4, 1, 1}, {1, 1, 1, 1}, {1, 4, 3, 5}, {1, 1, 3, 5},
                            {2, 1, 1, 1}, {2, 4, 1, 1}, {1, 1, 1, 5}, {1, 1, 3, 1}, {2, 1, 3, 5},
                            {2, 4, 3, 1}, {1, 2, 1, 1}, {3, 4, 3, 5}};
const Dims kWhole = {2, 4, 3, 5};

void sweep_add() {
  for (const cudnnDataType_t type : kTypes) {
    for (const cudnnDataType_t other : kTypes) {
      for (const Layout layout : kLayouts) {
        for (const Dims& shape : kBroadcasts) {
          if (type != other && (layout != Layout::nchw || shape != kBroadcasts[1])) continue;
          run("AddTensor", words(type, "plus", other, layout, shape), [&]() -> Result {
            const TensorDesc a, c;
            Setters s;
            s.add(set(a, other, shape, Layout::nchw));
            s.add(set(c, type, kWhole, layout));
            return s.then(
                [&] { return cudnnAddTensor(handle(), kOne.of(type), a, arena(0), kOne.of(type), c, arena(1)); });
          });
        }
      }
    }
  }
  for (const Dims& dims : {Dims{6}, Dims{2, 6}, Dims{2, 4, 6}, Dims{2, 4, 3, 5, 2}, Dims{2, 4, 3, 2, 2, 2}}) {
    Dims bias(dims.size(), 1);
    if (dims.size() > 1) bias[1] = dims[1];
    run("AddTensor", words("rank of", dims, bias), [&]() -> Result {
      const TensorDesc a, c;
      Setters s;
      s.add(set(a, CUDNN_DATA_FLOAT, bias, Layout::nchw));
      s.add(set(c, CUDNN_DATA_FLOAT, dims, Layout::nchw));
      return s.then([&] { return cudnnAddTensor(handle(), &kOne.narrow, a, arena(0), &kOne.narrow, c, arena(1)); });
    });
  }
}

void sweep_transform() {
  for (const cudnnDataType_t from : kTypes) {
    for (const cudnnDataType_t to : kTypes) {
      for (const Layout layout : kLayouts) {
        for (const Dims& dims : {kWhole, Dims{2, 4, 3, 5, 2}, Dims{2, 4, 6}, Dims{2, 6}, Dims{8}}) {
          if (from != to && (layout != Layout::nhwc || dims.size() != 4)) continue;
          run("TransformTensor", words(from, "to", to, layout, dims), [&]() -> Result {
            const TensorDesc x, y;
            Setters s;
            s.add(set(x, from, dims, Layout::nchw));
            s.add(set(y, to, dims, layout));
            return s.then([&] {
              return cudnnTransformTensor(handle(), kOne.of(from), x, arena(0), kZero.of(from), y, arena(1));
            });
          });
        }
      }
    }
  }
  for (const Dims& other : kBroadcasts) {
    run("TransformTensor", words("to another shape", other), [&]() -> Result {
      const TensorDesc x, y;
      Setters s;
      s.add(set(x, CUDNN_DATA_FLOAT, kWhole, Layout::nchw));
      s.add(set(y, CUDNN_DATA_FLOAT, other, Layout::nchw));
      return s.then(
          [&] { return cudnnTransformTensor(handle(), &kOne.narrow, x, arena(0), &kZero.narrow, y, arena(1)); });
    });
  }
  for (const cudnnDataType_t type : kTypes) {
    for (const Layout layout : kLayouts) {
      for (const Dims& dims : {kWhole, Dims{2, 4, 3, 5, 2}, Dims{2, 4, 6}, Dims{2, 6}, Dims{8}}) {
        for (const bool scales : {false, true}) {
          run(scales ? "ScaleTensor" : "SetTensor", words(type, layout, dims), [&]() -> Result {
            const TensorDesc y;
            Setters s;
            s.add(set(y, type, dims, layout));
            return s.then([&] {
              return scales ? cudnnScaleTensor(handle(), y, arena(0), kOne.of(type))
                            : cudnnSetTensor(handle(), y, arena(0), kOne.of(type));
            });
          });
        }
      }
    }
  }
}

void sweep_op_tensor() {
  for (int op = -1; op <= 6; ++op) {
    for (const cudnnDataType_t compute : {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_INT32}) {
      for (const cudnnDataType_t type : kTypes) {
        for (const cudnnDataType_t out : kTypes) {
          for (const Dims& shape : kBroadcasts) {
            if (type != out && shape != kWhole) continue;
            if ((op < 0 || op > 1 || compute == CUDNN_DATA_HALF) && (type != out || shape != kWhole)) continue;
            run("OpTensor", words("op", op, compute, type, "to", out, shape), [&]() -> Result {
              const TensorDesc a, b, c;
              const OpDesc desc;
              Setters s;
              s.add(set(a, type, kWhole, Layout::nchw));
              s.add(set(b, type, shape, Layout::nchw));
              s.add(set(c, out, kWhole, Layout::nchw));
              s.add(cudnnSetOpTensorDescriptor(desc, static_cast<cudnnOpTensorOp_t>(op), compute, CUDNN_PROPAGATE_NAN));
              return s.then([&] {
                return cudnnOpTensor(handle(), desc, kOne.of(compute), a, arena(0), kOne.of(compute), b, arena(1),
                                     kZero.of(compute), c, arena(2));
              });
            });
          }
        }
      }
    }
  }
  for (const Layout layout : kLayouts) {
    for (const Layout other : kLayouts) {
      for (const Dims& dims : {kWhole, Dims{2, 4, 3, 5, 2}, Dims{2, 4, 6}, Dims{2, 6}, Dims{8}}) {
        run("OpTensor", words("layouts", layout, other, dims), [&]() -> Result {
          const TensorDesc a, b, c;
          const OpDesc desc;
          Setters s;
          s.add(set(a, CUDNN_DATA_FLOAT, dims, layout));
          s.add(set(b, CUDNN_DATA_FLOAT, dims, other));
          s.add(set(c, CUDNN_DATA_FLOAT, dims, layout));
          s.add(cudnnSetOpTensorDescriptor(desc, CUDNN_OP_TENSOR_ADD, CUDNN_DATA_FLOAT, CUDNN_PROPAGATE_NAN));
          return s.then([&] {
            return cudnnOpTensor(handle(), desc, &kOne.narrow, a, arena(0), &kOne.narrow, b, arena(1), &kZero.narrow, c,
                                 arena(2));
          });
        });
      }
    }
  }
}

void sweep_reduce() {
  for (int op = -1; op <= 9; ++op) {
    for (const cudnnDataType_t compute : {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF, CUDNN_DATA_INT32}) {
      for (const cudnnDataType_t type : kTypes) {
        for (const cudnnDataType_t out : kTypes) {
          for (int indices = 0; indices <= 1; ++indices) {
            for (const Dims& shape : kBroadcasts) {
              if (type != out && shape != kBroadcasts[1]) continue;
              if ((compute != CUDNN_DATA_FLOAT || type != CUDNN_DATA_FLOAT) && shape != kBroadcasts[1]) continue;
              run("ReduceTensor", words("op", op, compute, type, "to", out, "indices", indices, shape),
                  [&]() -> Result {
                    const TensorDesc a, c;
                    const ReduceDesc desc;
                    Setters s;
                    s.add(set(a, type, kWhole, Layout::nchw));
                    s.add(set(c, out, shape, Layout::nchw));
                    s.add(cudnnSetReduceTensorDescriptor(
                        desc, static_cast<cudnnReduceTensorOp_t>(op), compute, CUDNN_PROPAGATE_NAN,
                        static_cast<cudnnReduceTensorIndices_t>(indices), CUDNN_32BIT_INDICES));
                    return s.then([&] {
                      return cudnnReduceTensor(handle(), desc, arena(2), kArenaBytes, workspace(), kWorkspaceBytes,
                                               kOne.of(compute), a, arena(0), kZero.of(compute), c, arena(1));
                    });
                  });
            }
          }
        }
      }
    }
  }
}

}  // namespace

void sweep_tensors() {
  sweep_add();
  sweep_transform();
  sweep_op_tensor();
  sweep_reduce();
}

}  // namespace sweep
