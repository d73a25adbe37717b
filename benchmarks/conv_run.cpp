// A convolution on one library: its descriptors, the choice of its algorithm, its call.
// SPDX-License-Identifier: Apache-2.0
#include "descriptors.hpp"
#include "problem_run.hpp"

namespace gpudnn::bench {
namespace {

constexpr int kMaxRows = 16;

constexpr const char* kForward[] = {"implicit_gemm", "implicit_precomp_gemm", "gemm", "direct", "fft", "fft_tiling",
                                    "winograd",      "winograd_nonfused"};
constexpr const char* kBackwardData[] = {"algo_0", "algo_1", "fft", "fft_tiling", "winograd", "winograd_nonfused"};
constexpr const char* kBackwardFilter[] = {"algo_0",    "algo_1", "fft", "algo_3", "winograd", "winograd_nonfused",
                                           "fft_tiling"};

template <std::size_t N>
std::string name_of(const char* const (&names)[N], int number) {
  return number >= 0 && number < static_cast<int>(N) ? names[number] : "algo " + std::to_string(number);
}

// The first row that can do it within the workspace.
template <std::size_t N, class Row>
gpudnnStatus_t first_usable(const Row* rows, int count, std::size_t limit, const char* const (&names)[N],
                            Choice* choice) {
  gpudnnStatus_t status = GPUDNN_STATUS_NOT_SUPPORTED;
  for (int i = 0; i < count; ++i) {
    if (rows[i].status != GPUDNN_STATUS_SUCCESS) {
      if (i == 0) status = rows[i].status;
      continue;
    }
    if (rows[i].memory > limit) continue;
    choice->number = static_cast<int>(rows[i].algo);
    choice->algorithm = name_of(names, choice->number);
    choice->math = rows[i].mathType;
    choice->workspace = rows[i].memory;
    return GPUDNN_STATUS_SUCCESS;
  }
  return status;
}

// Whether an algorithm works on transformed data, with an error of its own.
bool transforms(conv::Direction direction, int number) {
  switch (direction) {
    case conv::Direction::forward:
      return number == GPUDNN_CONVOLUTION_FWD_ALGO_FFT || number == GPUDNN_CONVOLUTION_FWD_ALGO_FFT_TILING ||
             number == GPUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD || number == GPUDNN_CONVOLUTION_FWD_ALGO_WINOGRAD_NONFUSED;
    case conv::Direction::dgrad:
      return number == GPUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT || number == GPUDNN_CONVOLUTION_BWD_DATA_ALGO_FFT_TILING ||
             number == GPUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD ||
             number == GPUDNN_CONVOLUTION_BWD_DATA_ALGO_WINOGRAD_NONFUSED;
    case conv::Direction::wgrad:
      return number == GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT ||
             number == GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_FFT_TILING ||
             number == GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD ||
             number == GPUDNN_CONVOLUTION_BWD_FILTER_ALGO_WINOGRAD_NONFUSED;
  }
  return false;
}

// The interface describes a filter by a format, not by strides. Where extents of 1 leave both open, the strides as they
// were written decide.
gpudnnTensorFormat_t filter_format(const TensorGeometry& filter, Descriptors* descriptors) {
  if (data_type_lanes(filter.type) > 1) return GPUDNN_TENSOR_NCHW_VECT_C;
  const bool channels_last = is_packed_nhwc(filter);
  if (!channels_last && !is_packed_nchw(filter)) descriptors->note(GPUDNN_STATUS_NOT_SUPPORTED_LAYOUT);
  const TensorGeometry exact = packed_tensor(filter.type, GPUDNN_TENSOR_NCHW, filter.rank, filter.dims);
  return channels_last && filter != exact ? GPUDNN_TENSOR_NHWC : GPUDNN_TENSOR_NCHW;
}

class ConvRun : public Run {
 public:
  ConvRun(const Library& library, gpudnnHandle_t handle, const Task& task, const Pointers& pointers)
      : api_(library.api),
        handle_(handle),
        problem_(std::get<conv::Problem>(task.problem)),
        in_(pointers.inputs),
        out_(pointers.output),
        alpha_(task.alpha, problem_.x.type),
        beta_(task.beta, problem_.x.type),
        one_(problem_.has_z != 0 ? 1 : 0, problem_.x.type),
        descriptors_(library.api) {
    x_ = descriptors_.tensor(problem_.x);
    y_ = descriptors_.tensor(problem_.y);
    w_ = descriptors_.filter(problem_.w, filter_format(problem_.w, &descriptors_));
    convolution_ = make_convolution(problem_.math);
    if (task.inputs.size() > 2) {
      bias_ = descriptors_.tensor(task.inputs[2].geometry);
      z_ = descriptors_.tensor(problem_.has_z != 0 ? problem_.z : problem_.y);
      const int mode = problem_.activation >= 0 ? problem_.activation : GPUDNN_ACTIVATION_IDENTITY;
      // The coefficient is not part of the problem: the ceiling of clipped ReLU, the factor of ELU, the beta of swish.
      activation_ = descriptors_.activation(static_cast<gpudnnActivationMode_t>(mode), GPUDNN_NOT_PROPAGATE_NAN, 1.0);
    }
  }

  [[nodiscard]] gpudnnStatus_t status() const { return descriptors_.status(); }
  [[nodiscard]] bool has_choice() const noexcept override { return true; }
  gpudnnStatus_t query(std::size_t workspace_limit, Choice* choice) override;
  gpudnnStatus_t find(void* workspace, std::size_t bytes, Choice* choice) override;
  gpudnnStatus_t bind(const Choice& choice, void* workspace, Call* call) override;
  std::vector<Choice> untransformed(const Choice& choice, std::size_t workspace_limit) override;

 private:
  // A row of an algorithm list names its math type, and is to be called with it: each has a descriptor of its own.
  gpudnnConvolutionDescriptor_t make_convolution(gpudnnMathType_t math) {
    const auto made = descriptors_.convolution();
    if (made == nullptr) return nullptr;
    const Ints pad(problem_.pad, problem_.spatial);
    const Ints stride(problem_.stride, problem_.spatial);
    const Ints dilation(problem_.dilation, problem_.spatial);
    descriptors_.note(api_.SetConvolutionNdDescriptor(made, problem_.spatial, pad.values, stride.values,
                                                      dilation.values, problem_.mode, problem_.compute));
    descriptors_.note(api_.SetConvolutionGroupCount(made, problem_.groups));
    descriptors_.note(api_.SetConvolutionMathType(made, math));
    return made;
  }
  [[nodiscard]] gpudnnStatus_t workspace_size(int number, gpudnnConvolutionDescriptor_t convolution,
                                              std::size_t* bytes) const;
  [[nodiscard]] Call fused_call(const Choice& choice, void* workspace, gpudnnConvolutionDescriptor_t convolution);

  const Api& api_;
  gpudnnHandle_t handle_;
  conv::Problem problem_;
  std::vector<void*> in_;
  void* out_;
  Scalar alpha_;
  Scalar beta_;
  Scalar one_;
  Descriptors descriptors_;
  gpudnnTensorDescriptor_t x_ = nullptr;
  gpudnnTensorDescriptor_t y_ = nullptr;
  gpudnnTensorDescriptor_t z_ = nullptr;
  gpudnnTensorDescriptor_t bias_ = nullptr;
  gpudnnFilterDescriptor_t w_ = nullptr;
  gpudnnActivationDescriptor_t activation_ = nullptr;
  gpudnnConvolutionDescriptor_t convolution_ = nullptr;
};

gpudnnStatus_t ConvRun::query(std::size_t limit, Choice* choice) {
  *choice = {};
  int count = 0;
  gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
  if (problem_.direction == conv::Direction::forward) {
    gpudnnConvolutionFwdAlgoPerf_t rows[kMaxRows];
    status = api_.GetConvolutionForwardAlgorithm_v7(handle_, x_, w_, convolution_, y_, kMaxRows, &count, rows);
    return status != GPUDNN_STATUS_SUCCESS ? status : first_usable(rows, count, limit, kForward, choice);
  }
  if (problem_.direction == conv::Direction::dgrad) {
    gpudnnConvolutionBwdDataAlgoPerf_t rows[kMaxRows];
    status = api_.GetConvolutionBackwardDataAlgorithm_v7(handle_, w_, y_, convolution_, x_, kMaxRows, &count, rows);
    return status != GPUDNN_STATUS_SUCCESS ? status : first_usable(rows, count, limit, kBackwardData, choice);
  }
  gpudnnConvolutionBwdFilterAlgoPerf_t rows[kMaxRows];
  status = api_.GetConvolutionBackwardFilterAlgorithm_v7(handle_, x_, y_, convolution_, w_, kMaxRows, &count, rows);
  return status != GPUDNN_STATUS_SUCCESS ? status : first_usable(rows, count, limit, kBackwardFilter, choice);
}

gpudnnStatus_t ConvRun::find(void* workspace, std::size_t bytes, Choice* choice) {
  *choice = {};
  choice->by_find = true;
  int count = 0;
  gpudnnStatus_t status = GPUDNN_STATUS_SUCCESS;
  if (problem_.direction == conv::Direction::forward) {
    gpudnnConvolutionFwdAlgoPerf_t rows[kMaxRows];
    status = api_.FindConvolutionForwardAlgorithmEx(handle_, x_, in_[0], w_, in_[1], convolution_, y_, out_, kMaxRows,
                                                    &count, rows, workspace, bytes);
    return status != GPUDNN_STATUS_SUCCESS ? status : first_usable(rows, count, bytes, kForward, choice);
  }
  if (problem_.direction == conv::Direction::dgrad) {
    gpudnnConvolutionBwdDataAlgoPerf_t rows[kMaxRows];
    status = api_.FindConvolutionBackwardDataAlgorithmEx(handle_, w_, in_[0], y_, in_[1], convolution_, x_, out_,
                                                         kMaxRows, &count, rows, workspace, bytes);
    return status != GPUDNN_STATUS_SUCCESS ? status : first_usable(rows, count, bytes, kBackwardData, choice);
  }
  gpudnnConvolutionBwdFilterAlgoPerf_t rows[kMaxRows];
  status = api_.FindConvolutionBackwardFilterAlgorithmEx(handle_, x_, in_[0], y_, in_[1], convolution_, w_, out_,
                                                         kMaxRows, &count, rows, workspace, bytes);
  return status != GPUDNN_STATUS_SUCCESS ? status : first_usable(rows, count, bytes, kBackwardFilter, choice);
}

Call ConvRun::fused_call(const Choice& choice, void* workspace, gpudnnConvolutionDescriptor_t convolution) {
  const auto algorithm = static_cast<gpudnnConvolutionFwdAlgo_t>(choice.number);
  const std::size_t bytes = choice.workspace;
  const void* z = problem_.has_z != 0 ? in_[3] : out_;  // not read when its factor is 0
  return [=, this] {
    return api_.ConvolutionBiasActivationForward(handle_, alpha_.get(), x_, in_[0], w_, in_[1], convolution, algorithm,
                                                 workspace, bytes, one_.get(), z_, z, bias_, in_[2], activation_, y_,
                                                 out_);
  };
}

gpudnnStatus_t ConvRun::bind(const Choice& choice, void* workspace, Call* call) {
  const gpudnnConvolutionDescriptor_t convolution =
      choice.math == problem_.math ? convolution_ : make_convolution(choice.math);
  if (status() != GPUDNN_STATUS_SUCCESS) return status();
  const std::size_t bytes = choice.workspace;
  const int number = choice.number;
  if (bias_ != nullptr) {
    *call = fused_call(choice, workspace, convolution);
  } else if (problem_.direction == conv::Direction::forward) {
    *call = [=, this] {
      return api_.ConvolutionForward(handle_, alpha_.get(), x_, in_[0], w_, in_[1], convolution,
                                     static_cast<gpudnnConvolutionFwdAlgo_t>(number), workspace, bytes, beta_.get(), y_,
                                     out_);
    };
  } else if (problem_.direction == conv::Direction::dgrad) {
    *call = [=, this] {
      return api_.ConvolutionBackwardData(handle_, alpha_.get(), w_, in_[0], y_, in_[1], convolution,
                                          static_cast<gpudnnConvolutionBwdDataAlgo_t>(number), workspace, bytes,
                                          beta_.get(), x_, out_);
    };
  } else {
    *call = [=, this] {
      return api_.ConvolutionBackwardFilter(handle_, alpha_.get(), x_, in_[0], y_, in_[1], convolution,
                                            static_cast<gpudnnConvolutionBwdFilterAlgo_t>(number), workspace, bytes,
                                            beta_.get(), w_, out_);
    };
  }
  return GPUDNN_STATUS_SUCCESS;
}

gpudnnStatus_t ConvRun::workspace_size(int number, gpudnnConvolutionDescriptor_t convolution,
                                       std::size_t* bytes) const {
  switch (problem_.direction) {
    case conv::Direction::forward:
      return api_.GetConvolutionForwardWorkspaceSize(handle_, x_, w_, convolution, y_,
                                                     static_cast<gpudnnConvolutionFwdAlgo_t>(number), bytes);
    case conv::Direction::dgrad:
      return api_.GetConvolutionBackwardDataWorkspaceSize(handle_, w_, y_, convolution, x_,
                                                          static_cast<gpudnnConvolutionBwdDataAlgo_t>(number), bytes);
    case conv::Direction::wgrad:
      return api_.GetConvolutionBackwardFilterWorkspaceSize(
          handle_, x_, y_, convolution, w_, static_cast<gpudnnConvolutionBwdFilterAlgo_t>(number), bytes);
  }
  return GPUDNN_STATUS_NOT_SUPPORTED;
}

std::vector<Choice> ConvRun::untransformed(const Choice& choice, std::size_t workspace_limit) {
  if (!transforms(problem_.direction, choice.number)) return {};
  const gpudnnConvolutionDescriptor_t convolution = make_convolution(choice.math);
  if (status() != GPUDNN_STATUS_SUCCESS) return {};
  // Algorithms 0 and 1 are the implicit products in all directions; backward, 0 may add in any order and comes second.
  const bool forward = problem_.direction == conv::Direction::forward;
  std::vector<Choice> choices;
  for (const int number : {forward ? 0 : 1, forward ? 1 : 0}) {
    Choice other;
    other.number = number;
    other.math = choice.math;
    other.algorithm = forward                                        ? name_of(kForward, number)
                      : problem_.direction == conv::Direction::dgrad ? name_of(kBackwardData, number)
                                                                     : name_of(kBackwardFilter, number);
    if (workspace_size(number, convolution, &other.workspace) != GPUDNN_STATUS_SUCCESS) continue;
    if (other.workspace <= workspace_limit) choices.push_back(other);
  }
  return choices;
}

}  // namespace

std::unique_ptr<Run> make_conv_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                   const Pointers& pointers, gpudnnStatus_t* status) {
  auto run = std::make_unique<ConvRun>(library, handle, task, pointers);
  *status = run->status();
  if (*status != GPUDNN_STATUS_SUCCESS) return nullptr;
  return run;
}

}  // namespace gpudnn::bench
