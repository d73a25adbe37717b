// Running a test case through the public C interface, on guarded memory.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "support/backend.hpp"
#include "support/cases.hpp"
#include "support/naive.hpp"
#include "support/transform_slack.hpp"

namespace gpudnn::test {

// A descriptor of the public interface with its lifetime.
template <class Handle, gpudnnStatus_t (*create)(Handle*), gpudnnStatus_t (*destroy)(Handle)>
class Descriptor {
 public:
  Descriptor() { GPUDNN_TEST_REQUIRE(create(&handle_)); }
  ~Descriptor() { (void)destroy(handle_); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  operator Handle() const { return handle_; }  // NOLINT: stands for the handle in calls

 private:
  Handle handle_ = nullptr;
};

struct TensorDescriptor
    : Descriptor<gpudnnTensorDescriptor_t, gpudnnCreateTensorDescriptor, gpudnnDestroyTensorDescriptor> {
  TensorDescriptor() = default;
  explicit TensorDescriptor(const TensorGeometry& geometry);
  TensorDescriptor(gpudnnDataType_t type, int n, int c, int h, int w, gpudnnTensorFormat_t format = GPUDNN_TENSOR_NCHW);
};
struct FilterDescriptor
    : Descriptor<gpudnnFilterDescriptor_t, gpudnnCreateFilterDescriptor, gpudnnDestroyFilterDescriptor> {
  FilterDescriptor() = default;
  explicit FilterDescriptor(const TensorGeometry& geometry);  // packed as NCHW or NHWC
  FilterDescriptor(gpudnnDataType_t type, int k, int c, int h, int w, gpudnnTensorFormat_t format = GPUDNN_TENSOR_NCHW);
};
struct ConvolutionDescriptor
    : Descriptor<gpudnnConvolutionDescriptor_t, gpudnnCreateConvolutionDescriptor, gpudnnDestroyConvolutionDescriptor> {
  ConvolutionDescriptor() = default;
  explicit ConvolutionDescriptor(const conv::Problem& problem);
  ConvolutionDescriptor(int pad, int stride, int dilation, gpudnnDataType_t compute = GPUDNN_DATA_FLOAT);
};
struct PoolingDescriptor
    : Descriptor<gpudnnPoolingDescriptor_t, gpudnnCreatePoolingDescriptor, gpudnnDestroyPoolingDescriptor> {
  PoolingDescriptor() = default;
  explicit PoolingDescriptor(const pooling::Problem& problem);
};
struct ActivationDescriptor
    : Descriptor<gpudnnActivationDescriptor_t, gpudnnCreateActivationDescriptor, gpudnnDestroyActivationDescriptor> {
  ActivationDescriptor() = default;
  ActivationDescriptor(gpudnnActivationMode_t mode, gpudnnNanPropagation_t nan, double coef);
};

// A scalar in the type that calls on `type` read: double for double, else float.
class Scalar {
 public:
  Scalar(double value, gpudnnDataType_t type);
  operator const void*() const { return &storage_; }  // NOLINT: stands for the pointer in calls

 private:
  union {
    float single;
    double wide;
  } storage_;
};

struct RunOptions {
  int algorithm = 0;
  bool without_workspace = false;  // else exactly what the query says
  bool misaligned = false;         // every tensor one element off
};

// What a call did. `damage` is empty unless it wrote where it must not.
struct Outcome {
  gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
  std::string text;  // the library's, for a refusal
  std::vector<double> values;
  std::string damage;
};

[[nodiscard]] Outcome run(const Backend& backend, const ConvCase& c, const Values& values,
                          const RunOptions& options = {});
[[nodiscard]] Outcome run(const Backend& backend, const PoolingCase& c, const Values& values, const RunOptions& = {});
[[nodiscard]] Outcome run(const Backend& backend, const ActivationCase& c, const Values& values,
                          const RunOptions& = {});
[[nodiscard]] Outcome run(const Backend& backend, const SoftmaxCase& c, const Values& values, const RunOptions& = {});
[[nodiscard]] Outcome run(const Backend& backend, const TensorCase& c, const Values& values, const RunOptions& = {});
[[nodiscard]] Outcome run(const Backend& backend, const BiasGradCase& c, const Values& values, const RunOptions& = {});

// The public workspace query for the direction.
[[nodiscard]] gpudnnStatus_t workspace_size(const Backend& backend, const conv::Problem& problem, int algorithm,
                                            std::size_t* bytes);
[[nodiscard]] int algorithm_count_of(conv::Direction direction);

// Runs the case and compares it with `naive`, computed once for all options. Empty if all is well.
template <class Problem>
[[nodiscard]] std::string check_all_options(const Backend& backend, const Case<Problem>& c,
                                            std::span<const RunOptions> options);
template <class Problem>
[[nodiscard]] std::string check(const Backend& backend, const Case<Problem>& c, const RunOptions& options = {}) {
  return check_all_options(backend, c, std::span(&options, 1));
}

// The same with a second backend as the oracle, for problems that are too large for loops: normwise.
[[nodiscard]] std::string check_against(const Backend& backend, const Backend& oracle, const ConvCase& c, double bound,
                                        const RunOptions& options = {});

// Outcome and expectation as one verdict; empty if all is well.
[[nodiscard]] std::string judge(const TensorGeometry& output, const Outcome& outcome, const Expected& expected);
// The same without a look at the values: what the call said, and what was written that must not be.
[[nodiscard]] std::string failure_of(const Outcome& outcome);

template <class Problem>
std::string check_all_options(const Backend& backend, const Case<Problem>& c, std::span<const RunOptions> options) {
  const Values values = make_values(c);
  const Expected exact = naive(c, values);
  for (const RunOptions& one : options) {
    Expected expected = exact;
    if constexpr (std::is_same_v<Problem, conv::Problem>) {
      widen_for_family(c, values, conv::family_of(c.problem.direction, one.algorithm), &expected);
    }
    const std::string wrong = judge(output_of(c.problem), run(backend, c, values, one), expected);
    if (!wrong.empty()) return (one.misaligned ? "misaligned: " : "") + wrong;
  }
  return {};
}

}  // namespace gpudnn::test
