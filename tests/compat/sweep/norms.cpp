// Batch normalization and the loss of connectionist temporal classification.
// SPDX-License-Identifier: Apache-2.0
#include "sweep.hpp"

namespace sweep {
namespace {

struct Norm {
  cudnnBatchNormMode_t mode;
  cudnnDataType_t type, params;
  Layout x_layout, y_layout;
  Dims dims;
  double epsilon;
  bool running, saved;
};

Dims params_of(const Norm& n) {
  Dims dims = n.dims;
  dims[0] = 1;
  for (std::size_t i = 2; i < dims.size() && n.mode != CUDNN_BATCHNORM_PER_ACTIVATION; ++i) dims[i] = 1;
  return dims;
}

Result call(const Norm& n, int which) {
  const TensorDesc x, y, p;
  Setters s;
  s.add(set(x, n.type, n.dims, n.x_layout));
  s.add(set(y, n.type, n.dims, n.y_layout));
  s.add(set(p, n.params, params_of(n), Layout::nchw));
  const void* const one = kOne.of(n.type);
  const void* const zero = kZero.of(n.type);
  void* const mean = n.running ? arena(5) : nullptr;
  void* const variance = n.running ? arena(6) : nullptr;
  void* const saved_mean = n.saved ? arena(7) : nullptr;
  void* const saved_inverse = n.saved ? arena(8) : nullptr;
  return s.then([&] {
    switch (which) {
      case 0:
        return cudnnBatchNormalizationForwardTraining(handle(), n.mode, one, zero, x, arena(0), y, arena(1), p,
                                                      arena(3), arena(4), 1, mean, variance, n.epsilon, saved_mean,
                                                      saved_inverse);
      case 1:
        return cudnnBatchNormalizationForwardInference(handle(), n.mode, one, zero, x, arena(0), y, arena(1), p,
                                                       arena(3), arena(4), arena(5), arena(6), n.epsilon);
      default:
        return cudnnBatchNormalizationBackward(handle(), n.mode, one, zero, one, zero, x, arena(0), y, arena(1), x,
                                               arena(2), p, arena(3), arena(4), arena(9), n.epsilon, saved_mean,
                                               saved_inverse);
    }
  });
}

void sweep_norm(const Norm& n) {
  const std::string what =
      words("mode", static_cast<int>(n.mode), n.type, "params", n.params, n.x_layout, n.y_layout, n.dims, "epsilon",
            std::to_string(n.epsilon).c_str(), n.running ? "running" : "", n.saved ? "saved" : "");
  run("BatchNormForward", what, [&] { return call(n, 0); });
  run("BatchNormInference", what, [&] { return call(n, 1); });
  run("BatchNormBackward", what, [&] { return call(n, 2); });
}

void sweep_batch_norm() {
  const Dims whole = {2, 4, 3, 5};
  for (const auto mode :
       {CUDNN_BATCHNORM_PER_ACTIVATION, CUDNN_BATCHNORM_SPATIAL, CUDNN_BATCHNORM_SPATIAL_PERSISTENT}) {
    for (const cudnnDataType_t type : kTypes) {
      for (const cudnnDataType_t params : kTypes) {
        sweep_norm({mode, type, params, Layout::nchw, Layout::nchw, whole, 1e-5, true, true});
      }
    }
    for (const cudnnDataType_t type : kFloats) {
      const cudnnDataType_t params = type == CUDNN_DATA_DOUBLE ? CUDNN_DATA_DOUBLE : CUDNN_DATA_FLOAT;
      for (const Layout x_layout : kLayouts) {
        for (const Layout y_layout : kLayouts) {
          for (const Dims& dims :
               {whole, Dims{2, 4, 3, 5, 2}, Dims{2, 4, 6}, Dims{2, 6}, Dims{1, 4, 1, 1}, Dims{2, 3, 2, 2, 2, 2}}) {
            sweep_norm({mode, type, params, x_layout, y_layout, dims, 1e-5, false, false});
          }
        }
      }
    }
    for (const double epsilon : {-1.0, 0.0, 1e-6, 1e-5}) {
      for (const bool running : {false, true}) {
        for (const bool saved : {false, true}) {
          sweep_norm(
              {mode, CUDNN_DATA_FLOAT, CUDNN_DATA_FLOAT, Layout::nchw, Layout::nchw, whole, epsilon, running, saved});
        }
      }
    }
  }
  for (int mode = 0; mode <= 2; ++mode) {
    for (const Dims& dims : {Dims{8}, whole, Dims{2, 4, 6}, Dims{2, 6}, Dims{2, 4, 3, 5, 2}}) {
      run("DeriveBNTensor", words("mode", mode, dims), [&]() -> Result {
        const TensorDesc x, p;
        Setters s;
        s.add(set(x, CUDNN_DATA_HALF, dims, Layout::nchw));
        return s.then([&] { return cudnnDeriveBNTensorDescriptor(p, x, static_cast<cudnnBatchNormMode_t>(mode)); });
      });
    }
  }
}

void sweep_ctc() {
  static int labels[16], label_lengths[4], input_lengths[4];
  for (int& label : labels) label = 1;
  for (int algorithm = 0; algorithm <= 1; ++algorithm) {
    for (int norm = 0; norm <= 1; ++norm) {
      for (const cudnnDataType_t type : {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF}) {
        for (const cudnnDataType_t compute : {CUDNN_DATA_FLOAT, CUDNN_DATA_DOUBLE, CUDNN_DATA_HALF}) {
          for (const Layout layout : kLayouts) {
            for (const int length : {0, 1, 4}) {
              for (const int input : {1, 6, 7}) {
                run("CTCLoss",
                    words("algo", algorithm, "norm", norm, type, "compute", compute, layout, "labels", length, "input",
                          input),
                    [&]() -> Result {
                      for (int i = 0; i < 2; ++i) label_lengths[i] = length, input_lengths[i] = input;
                      const TensorDesc p, g;
                      const CtcDesc desc;
                      Setters s;
                      s.add(set(p, type, Dims{6, 2, 5}, layout));
                      s.add(set(g, type, Dims{6, 2, 5}, layout));
                      s.add(cudnnSetCTCLossDescriptorEx(desc, compute, static_cast<cudnnLossNormalizationMode_t>(norm),
                                                        CUDNN_NOT_PROPAGATE_NAN));
                      return s.then([&] {
                        return cudnnCTCLoss(handle(), p, arena(0), labels, label_lengths, input_lengths, arena(1), g,
                                            arena(2), static_cast<cudnnCTCLossAlgo_t>(algorithm), desc, workspace(),
                                            kWorkspaceBytes);
                      });
                    });
              }
            }
          }
        }
      }
    }
  }
}

}  // namespace

void sweep_norms() {
  sweep_batch_norm();
  sweep_ctc();
}

}  // namespace sweep
