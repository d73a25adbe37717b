// Activation, softmax, pooling, local response and divisive normalization, dropout, spatial transformer.
// SPDX-License-Identifier: Apache-2.0
#include "sweep.hpp"

namespace sweep {
namespace {

const Dims kShapes[] = {{2, 4, 3, 5}, {2, 4, 3, 5, 2}, {2, 4, 6}, {2, 6}, {8}, {2, 3, 2, 2, 2, 2}};
const Dims kWhole = {2, 4, 3, 5};

void sweep_activation() {
  for (int mode = 0; mode <= 6; ++mode) {
    for (const cudnnDataType_t type : kTypes) {
      for (const Layout x_layout : kLayouts) {
        for (const Layout y_layout : kLayouts) {
          for (const Dims& dims : kShapes) {
            if (mode > 1 && (x_layout != y_layout || dims != kWhole)) continue;
            if (type != CUDNN_DATA_FLOAT && dims.size() != 4 && x_layout != Layout::nchw) continue;
            for (const bool in_place : {false, true}) {
              if (in_place && x_layout != y_layout) continue;
              const auto both = [&](bool backward) -> Result {
                const TensorDesc x, y;
                const ActivationDesc desc;
                Setters s;
                s.add(set(x, type, dims, x_layout));
                s.add(set(y, type, dims, y_layout));
                s.add(cudnnSetActivationDescriptor(desc, static_cast<cudnnActivationMode_t>(mode), CUDNN_PROPAGATE_NAN,
                                                   1));
                void* const out = arena(in_place ? 0 : 1);
                return s.then([&] {
                  return backward ? cudnnActivationBackward(handle(), desc, kOne.of(type), y, arena(2), y, arena(0), x,
                                                            arena(3), kZero.of(type), y, out)
                                  : cudnnActivationForward(handle(), desc, kOne.of(type), x, arena(0), kZero.of(type),
                                                           y, out);
                });
              };
              const std::string what = words("mode", mode, type, x_layout, y_layout, dims, in_place ? "in place" : "");
              run("ActivationForward", what, [&] { return both(false); });
              run("ActivationBackward", what, [&] { return both(true); });
            }
          }
        }
      }
    }
  }
}

void sweep_softmax() {
  for (int algorithm = 0; algorithm <= 2; ++algorithm) {
    for (int mode = 0; mode <= 1; ++mode) {
      for (const cudnnDataType_t type : kTypes) {
        for (const cudnnDataType_t out : kTypes) {
          for (const Layout x_layout : kLayouts) {
            for (const Layout y_layout : kLayouts) {
              for (const Dims& dims : kShapes) {
                if (type != out && (x_layout != Layout::nchw || y_layout != Layout::nchw || dims != kWhole)) continue;
                if (type != CUDNN_DATA_FLOAT && (dims != kWhole || algorithm == 1)) continue;
                const auto both = [&](bool backward) -> Result {
                  const TensorDesc x, y;
                  Setters s;
                  s.add(set(x, type, dims, x_layout));
                  s.add(set(y, out, dims, y_layout));
                  const auto algo = static_cast<cudnnSoftmaxAlgorithm_t>(algorithm);
                  const auto m = static_cast<cudnnSoftmaxMode_t>(mode);
                  return s.then([&] {
                    return backward ? cudnnSoftmaxBackward(handle(), algo, m, kOne.of(type), y, arena(0), y, arena(1),
                                                           kZero.of(type), x, arena(2))
                                    : cudnnSoftmaxForward(handle(), algo, m, kOne.of(type), x, arena(0), kZero.of(type),
                                                          y, arena(1));
                  });
                };
                const std::string what =
                    words("algo", algorithm, "mode", mode, type, "to", out, x_layout, y_layout, dims);
                run("SoftmaxForward", what, [&] { return both(false); });
                run("SoftmaxBackward", what, [&] { return both(true); });
              }
            }
          }
        }
      }
    }
  }
}

struct Window {
  int size, pad, stride, out;  // out: 0 is the floor formula's
};
constexpr Window kWindows[] = {{2, 0, 2, 0}, {3, 1, 2, 0}, {3, 1, 1, 0}, {3, 0, 2, 0}, {3, 0, 2, 4}, {2, 1, 2, 5},
                               {3, 1, 1, 1}, {7, 0, 1, 1}, {9, 0, 1, 1}, {2, 2, 1, 0}, {2, 3, 2, 0}, {1, 0, 3, 0}};

void sweep_pooling_of(int mode, cudnnDataType_t type, Layout x_layout, Layout y_layout, int spatial, const Window& w) {
  const int extent = 7;
  const int floor_extent = (extent + 2 * w.pad - w.size) / w.stride + 1;
  Dims x_dims(static_cast<std::size_t>(spatial) + 2, extent), y_dims(x_dims.size(), w.out != 0 ? w.out : floor_extent);
  x_dims[0] = y_dims[0] = 2;
  x_dims[1] = y_dims[1] = 4;
  if (spatial == 1) {  // the library wants four dimensions: a row
    x_dims.insert(x_dims.begin() + 2, 1);
    y_dims.insert(y_dims.begin() + 2, 1);
  }
  const int rank = spatial == 1 ? 2 : spatial;
  Dims size(static_cast<std::size_t>(rank), w.size), pad(size.size(), w.pad), stride(size.size(), w.stride);
  if (spatial == 1) size[0] = stride[0] = 1, pad[0] = 0;
  const auto both = [&](bool backward) -> Result {
    const TensorDesc x, y;
    const PoolDesc desc;
    Setters s;
    s.add(set(x, type, x_dims, x_layout));
    s.add(set(y, type, y_dims, y_layout));
    s.add(cudnnSetPoolingNdDescriptor(desc, static_cast<cudnnPoolingMode_t>(mode), CUDNN_NOT_PROPAGATE_NAN, rank,
                                      size.data(), pad.data(), stride.data()));
    return s.then([&] {
      return backward ? cudnnPoolingBackward(handle(), desc, kOne.of(type), y, arena(0), y, arena(1), x, arena(2),
                                             kZero.of(type), x, arena(3))
                      : cudnnPoolingForward(handle(), desc, kOne.of(type), x, arena(0), kZero.of(type), y, arena(1));
    });
  };
  const std::string what = words("mode", mode, type, x_layout, y_layout, "spatial", spatial, "window", w.size, "pad",
                                 w.pad, "stride", w.stride, "out", w.out);
  run("PoolingForward", what, [&] { return both(false); });
  run("PoolingBackward", what, [&] { return both(true); });
}

void sweep_pooling() {
  for (int mode = 0; mode <= 3; ++mode) {
    for (const cudnnDataType_t type : kTypes) {
      for (const Layout x_layout : kLayouts) {
        for (const Layout y_layout : {x_layout, Layout::nchw}) {
          for (int spatial = 1; spatial <= 4; ++spatial) {
            for (const Window& w : kWindows) {
              if (type != CUDNN_DATA_FLOAT && (spatial != 2 || x_layout == Layout::gaps)) continue;
              if (mode == 3 && type != CUDNN_DATA_FLOAT) continue;
              sweep_pooling_of(mode, type, x_layout, y_layout, spatial, w);
            }
          }
        }
      }
    }
  }
}

void sweep_local_response() {
  for (const unsigned n : {1u, 2u, 5u, 16u}) {
    for (const cudnnDataType_t type : kTypes) {
      for (const Layout x_layout : kLayouts) {
        for (const Layout y_layout : kLayouts) {
          for (const Dims& dims : kShapes) {
            if (dims != kWhole && (n != 5 || type != CUDNN_DATA_FLOAT)) continue;
            const auto calls = [&](int which) -> Result {
              const TensorDesc x, y;
              const LrnDesc desc;
              Setters s;
              s.add(set(x, type, dims, x_layout));
              s.add(set(y, type, dims, y_layout));
              s.add(cudnnSetLRNDescriptor(desc, n, 1e-4, 0.75, 2));
              return s.then([&] {
                switch (which) {
                  case 0:
                    return cudnnLRNCrossChannelForward(handle(), desc, CUDNN_LRN_CROSS_CHANNEL_DIM1, kOne.of(type), x,
                                                       arena(0), kZero.of(type), y, arena(1));
                  case 1:
                    return cudnnLRNCrossChannelBackward(handle(), desc, CUDNN_LRN_CROSS_CHANNEL_DIM1, kOne.of(type), y,
                                                        arena(0), y, arena(1), x, arena(2), kZero.of(type), x,
                                                        arena(3));
                  case 2:
                    return cudnnDivisiveNormalizationForward(handle(), desc, CUDNN_DIVNORM_PRECOMPUTED_MEANS,
                                                             kOne.of(type), x, arena(0), arena(1), arena(2), arena(3),
                                                             kZero.of(type), y, arena(4));
                  default:
                    return cudnnDivisiveNormalizationBackward(handle(), desc, CUDNN_DIVNORM_PRECOMPUTED_MEANS,
                                                              kOne.of(type), x, arena(0), arena(1), arena(2), arena(3),
                                                              arena(4), kZero.of(type), y, arena(5), arena(6));
                }
              });
            };
            const std::string what = words("n", static_cast<int>(n), type, x_layout, y_layout, dims);
            run("LRNForward", what, [&] { return calls(0); });
            run("LRNBackward", what, [&] { return calls(1); });
            run("DivisiveForward", what, [&] { return calls(2); });
            run("DivisiveBackward", what, [&] { return calls(3); });
          }
        }
      }
    }
  }
}

void sweep_dropout() {
  for (const int percent : {-10, 0, 50, 100, 110}) {
    for (const cudnnDataType_t type : kTypes) {
      for (const Layout x_layout : kLayouts) {
        for (const Layout y_layout : kLayouts) {
          for (const Dims& dims : kShapes) {
            if (percent != 50 && (dims != kWhole || x_layout != y_layout)) continue;
            const auto both = [&](bool backward) -> Result {
              const TensorDesc x, y;
              const DropoutDesc desc;
              Setters s;
              s.add(set(x, type, dims, x_layout));
              s.add(set(y, type, dims, y_layout));
              std::size_t bytes = 0;
              s.add(cudnnDropoutGetStatesSize(handle(), &bytes));
              s.add(
                  cudnnSetDropoutDescriptor(desc, handle(), static_cast<float>(percent) / 100, workspace(), bytes, 1));
              return s.then([&] {
                return backward ? cudnnDropoutBackward(handle(), desc, y, arena(0), x, arena(1), arena(2), kArenaBytes)
                                : cudnnDropoutForward(handle(), desc, x, arena(0), y, arena(1), arena(2), kArenaBytes);
              });
            };
            const std::string what = words("percent", percent, type, x_layout, y_layout, dims);
            run("DropoutForward", what, [&] { return both(false); });
            run("DropoutBackward", what, [&] { return both(true); });
          }
        }
      }
    }
  }
}

void sweep_spatial() {
  for (const cudnnDataType_t type : kTypes) {
    for (const Dims& dims : {kWhole, Dims{1, 1, 1, 1}, Dims{2, 4, 3}, Dims{2, 4, 3, 5, 2}}) {
      for (const Layout x_layout : kLayouts) {
        for (const cudnnDataType_t image : {type, CUDNN_DATA_HALF}) {
          const auto calls = [&](int which) -> Result {
            const TensorDesc x, y;
            const SpatialDesc desc;
            Setters s;
            s.add(set(x, image, Dims{2, 4, 6, 7}, x_layout));
            s.add(set(y, image, dims, x_layout));
            s.add(cudnnSetSpatialTransformerNdDescriptor(desc, CUDNN_SAMPLER_BILINEAR, type,
                                                         static_cast<int>(dims.size()), dims.data()));
            return s.then([&] {
              switch (which) {
                case 0:
                  return cudnnSpatialTfGridGeneratorForward(handle(), desc, arena(0), arena(1));
                case 1:
                  return cudnnSpatialTfGridGeneratorBackward(handle(), desc, arena(0), arena(1));
                case 2:
                  return cudnnSpatialTfSamplerForward(handle(), desc, kOne.of(image), x, arena(0), arena(1),
                                                      kZero.of(image), y, arena(2));
                default:
                  return cudnnSpatialTfSamplerBackward(handle(), desc, kOne.of(image), x, arena(0), kZero.of(image), x,
                                                       arena(1), kOne.of(image), y, arena(2), arena(3), kZero.of(image),
                                                       arena(4));
              }
            });
          };
          const std::string what = words(type, image, dims, x_layout);
          run("GridForward", what, [&] { return calls(0); });
          run("GridBackward", what, [&] { return calls(1); });
          run("SamplerForward", what, [&] { return calls(2); });
          run("SamplerBackward", what, [&] { return calls(3); });
        }
      }
    }
  }
}

}  // namespace

void sweep_layers() {
  sweep_activation();
  sweep_softmax();
  sweep_pooling();
  sweep_local_response();
  sweep_dropout();
  sweep_spatial();
}

}  // namespace sweep
