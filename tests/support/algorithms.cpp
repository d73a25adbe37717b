// The algorithm queries of the three directions as one.
// SPDX-License-Identifier: Apache-2.0
#include "support/algorithms.hpp"

#include <algorithm>

namespace gpudnn::test {
namespace {

// Calls call(requested, &returned, rows) with rows of the direction's own type.
template <class Row, class Call>
AlgorithmList collect(int requested, Call call) {
  std::vector<Row> rows(static_cast<std::size_t>(std::max(requested, 1)));
  AlgorithmList list;
  list.status = call(requested, &list.returned, rows.data());
  if (list.status != GPUDNN_STATUS_SUCCESS) return list;
  for (int i = 0; i < list.returned; ++i) {
    const Row& row = rows[static_cast<std::size_t>(i)];
    list.rows.push_back({static_cast<int>(row.algo), row.status, row.time, row.memory, row.determinism, row.mathType});
  }
  return list;
}

struct Descriptors {
  TensorDescriptor x;
  TensorDescriptor y;
  FilterDescriptor w;
  ConvolutionDescriptor convolution;
  explicit Descriptors(const conv::Problem& p) : x(p.x), y(p.y), w(p.w), convolution(p) {}
};

// The tensors of a FindEx: the one that is written is poison.
struct Data {
  DeviceTensor x;
  DeviceTensor w;
  DeviceTensor y;
  GuardedBuffer workspace;
  Data(const Backend& backend, const ConvCase& c, const Values& v, std::size_t bytes)
      : x(backend, c.problem.x, v.x.empty() ? nullptr : &v.x),
        w(backend, c.problem.w, v.w.empty() ? nullptr : &v.w),
        y(backend, c.problem.y, v.y.empty() ? nullptr : &v.y),
        workspace(backend, bytes) {}
};

AlgorithmList forward(const Backend& backend, const ConvCase& c, Search search, int requested, Data* data) {
  const Descriptors d(c.problem);
  const gpudnnHandle_t h = backend.handle();
  using Row = gpudnnConvolutionFwdAlgoPerf_t;
  return collect<Row>(requested, [&](int n, int* returned, Row* rows) {
    if (search == Search::heuristic) {
      return gpudnnGetConvolutionForwardAlgorithm_v7(h, d.x, d.w, d.convolution, d.y, n, returned, rows);
    }
    if (search == Search::find) {
      return gpudnnFindConvolutionForwardAlgorithm(h, d.x, d.w, d.convolution, d.y, n, returned, rows);
    }
    return gpudnnFindConvolutionForwardAlgorithmEx(h, d.x, data->x.data(), d.w, data->w.data(), d.convolution, d.y,
                                                   data->y.data(), n, returned, rows, data->workspace.data(),
                                                   data->workspace.bytes());
  });
}

AlgorithmList dgrad(const Backend& backend, const ConvCase& c, Search search, int requested, Data* data) {
  const Descriptors d(c.problem);
  const gpudnnHandle_t h = backend.handle();
  using Row = gpudnnConvolutionBwdDataAlgoPerf_t;
  return collect<Row>(requested, [&](int n, int* returned, Row* rows) {
    if (search == Search::heuristic) {
      return gpudnnGetConvolutionBackwardDataAlgorithm_v7(h, d.w, d.y, d.convolution, d.x, n, returned, rows);
    }
    if (search == Search::find) {
      return gpudnnFindConvolutionBackwardDataAlgorithm(h, d.w, d.y, d.convolution, d.x, n, returned, rows);
    }
    return gpudnnFindConvolutionBackwardDataAlgorithmEx(h, d.w, data->w.data(), d.y, data->y.data(), d.convolution, d.x,
                                                        data->x.data(), n, returned, rows, data->workspace.data(),
                                                        data->workspace.bytes());
  });
}

AlgorithmList wgrad(const Backend& backend, const ConvCase& c, Search search, int requested, Data* data) {
  const Descriptors d(c.problem);
  const gpudnnHandle_t h = backend.handle();
  using Row = gpudnnConvolutionBwdFilterAlgoPerf_t;
  return collect<Row>(requested, [&](int n, int* returned, Row* rows) {
    if (search == Search::heuristic) {
      return gpudnnGetConvolutionBackwardFilterAlgorithm_v7(h, d.x, d.y, d.convolution, d.w, n, returned, rows);
    }
    if (search == Search::find) {
      return gpudnnFindConvolutionBackwardFilterAlgorithm(h, d.x, d.y, d.convolution, d.w, n, returned, rows);
    }
    return gpudnnFindConvolutionBackwardFilterAlgorithmEx(h, d.x, data->x.data(), d.y, data->y.data(), d.convolution,
                                                          d.w, data->w.data(), n, returned, rows,
                                                          data->workspace.data(), data->workspace.bytes());
  });
}

}  // namespace

AlgorithmList list_algorithms(const Backend& backend, const ConvCase& c, Search search, int requested,
                              std::size_t workspace_bytes) {
  std::unique_ptr<Data> data;
  if (search == Search::find_ex) data = std::make_unique<Data>(backend, c, make_values(c), workspace_bytes);
  switch (c.problem.direction) {
    case conv::Direction::forward:
      return forward(backend, c, search, requested, data.get());
    case conv::Direction::dgrad:
      return dgrad(backend, c, search, requested, data.get());
    default:
      return wgrad(backend, c, search, requested, data.get());
  }
}

int max_algorithm_count(const Backend& backend, conv::Direction direction) {
  int count = -1;
  switch (direction) {
    case conv::Direction::forward:
      GPUDNN_TEST_REQUIRE(gpudnnGetConvolutionForwardAlgorithmMaxCount(backend.handle(), &count));
      break;
    case conv::Direction::dgrad:
      GPUDNN_TEST_REQUIRE(gpudnnGetConvolutionBackwardDataAlgorithmMaxCount(backend.handle(), &count));
      break;
    default:
      GPUDNN_TEST_REQUIRE(gpudnnGetConvolutionBackwardFilterAlgorithmMaxCount(backend.handle(), &count));
  }
  return count;
}

}  // namespace gpudnn::test
