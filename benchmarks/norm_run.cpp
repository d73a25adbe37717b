// Batch normalization on one library: the Ex calls, which have a workspace, as frameworks make them, or the calls that
// are named Normalization. Channels last goes by the persistent mode or algorithm, which is where a library has kernels
// for it.
//
// Inputs, in order:  train     x, scale, bias, running mean, running variance, saved mean, saved 1 / deviation
//                    infer     x, scale, bias, mean, variance
//                    backward  x, dy, scale, saved mean, saved 1 / deviation, dscale, dbias
// SPDX-License-Identifier: Apache-2.0
#include "descriptors.hpp"
#include "problem_run.hpp"

namespace gpudnn::bench {
namespace {

constexpr auto kOps = GPUDNN_BATCHNORM_OPS_BN;
constexpr auto kNormOps = GPUDNN_NORM_OPS_NORM;
constexpr double kFactor = 0.1;

class NormRun : public Run {
 public:
  NormRun(const Library& library, gpudnnHandle_t handle, const Task& task, const Pointers& pointers)
      : api_(library.api),
        handle_(handle),
        problem_(std::get<norm::Problem>(task.problem)),
        alpha_(task.alpha, task.output.type),
        beta_(task.beta, task.output.type),
        one_(1, task.output.type),
        zero_(0, task.output.type),
        in_(pointers.inputs),
        out_(pointers.output),
        descriptors_(library.api),
        by_norm_calls_(task.by_norm_calls) {
    const bool backward = problem_.pass == norm::Pass::backward;
    x_ = descriptors_.tensor(problem_.x);
    y_ = descriptors_.tensor(backward ? problem_.dy : problem_.y);
    if (backward) dx_ = descriptors_.tensor(problem_.dx);
    params_ = descriptors_.tensor(problem_.params);
    const bool channels_last = is_packed_nhwc(problem_.x) && !is_packed_nchw(problem_.x);
    mode_ = problem_.per_activation ? GPUDNN_BATCHNORM_PER_ACTIVATION
            : channels_last         ? GPUDNN_BATCHNORM_SPATIAL_PERSISTENT
                                    : GPUDNN_BATCHNORM_SPATIAL;
    norm_mode_ = problem_.per_activation ? GPUDNN_NORM_PER_ACTIVATION : GPUDNN_NORM_PER_CHANNEL;
    norm_algo_ = channels_last ? GPUDNN_NORM_ALGO_PERSIST : GPUDNN_NORM_ALGO_STANDARD;
  }
  NormRun(const NormRun&) = delete;
  NormRun& operator=(const NormRun&) = delete;

  [[nodiscard]] gpudnnStatus_t status() const { return descriptors_.status(); }

  gpudnnStatus_t query(std::size_t, Choice* choice) override {
    *choice = {};
    if (problem_.pass == norm::Pass::infer) return GPUDNN_STATUS_SUCCESS;
    if (by_norm_calls_) return query_norm(choice);
    gpudnnStatus_t status =
        problem_.pass == norm::Pass::train
            ? api_.GetBatchNormalizationForwardTrainingExWorkspaceSize(handle_, mode_, kOps, x_, nullptr, y_, params_,
                                                                       nullptr, &workspace_)
            : api_.GetBatchNormalizationBackwardExWorkspaceSize(handle_, mode_, kOps, x_, nullptr, y_, nullptr, dx_,
                                                                params_, nullptr, &workspace_);
    if (status != GPUDNN_STATUS_SUCCESS) return status;
    status = api_.GetBatchNormalizationTrainingExReserveSpaceSize(handle_, mode_, kOps, nullptr, x_, &reserve_);
    // One block of memory for both, the reserve space at the next multiple of 256.
    choice->workspace = reserve_at() + reserve_;
    return status;
  }
  gpudnnStatus_t find(void*, std::size_t, Choice* choice) override { return query(0, choice); }

  gpudnnStatus_t bind(const Choice&, void* workspace, Call* call) override {
    void* const reserve = reserve_ > 0 ? static_cast<char*>(workspace) + reserve_at() : nullptr;
    void* const work = workspace_ > 0 ? workspace : nullptr;
    if (by_norm_calls_) {
      *call = [this, work, reserve] { return run_norm(work, reserve); };
      return GPUDNN_STATUS_SUCCESS;
    }
    switch (problem_.pass) {
      case norm::Pass::train:
        *call = [this, work, reserve] {
          return api_.BatchNormalizationForwardTrainingEx(
              handle_, mode_, kOps, alpha_.get(), beta_.get(), x_, in_[0], nullptr, nullptr, y_, out_, params_, in_[1],
              in_[2], kFactor, problem_.running ? in_[3] : nullptr, problem_.running ? in_[4] : nullptr,
              problem_.epsilon, problem_.saved ? in_[5] : nullptr, problem_.saved ? in_[6] : nullptr, nullptr, work,
              workspace_, reserve, reserve_);
        };
        break;
      case norm::Pass::infer:
        *call = [this] {
          return api_.BatchNormalizationForwardInference(handle_, mode_, alpha_.get(), beta_.get(), x_, in_[0], y_,
                                                         out_, params_, in_[1], in_[2], in_[3], in_[4],
                                                         problem_.epsilon);
        };
        break;
      default:
        *call = [this, work, reserve] {
          return api_.BatchNormalizationBackwardEx(
              handle_, mode_, kOps, alpha_.get(), beta_.get(), one_.get(), zero_.get(), x_, in_[0], nullptr, nullptr,
              y_, in_[1], nullptr, nullptr, dx_, out_, params_, in_[2], nullptr, in_[5], in_[6], problem_.epsilon,
              problem_.saved ? in_[3] : nullptr, problem_.saved ? in_[4] : nullptr, nullptr, work, workspace_, reserve,
              reserve_);
        };
    }
    return GPUDNN_STATUS_SUCCESS;
  }

 private:
  [[nodiscard]] std::size_t reserve_at() const noexcept { return (workspace_ + 255) / 256 * 256; }

  gpudnnStatus_t query_norm(Choice* choice) {
    gpudnnStatus_t status =
        problem_.pass == norm::Pass::train
            ? api_.GetNormalizationForwardTrainingWorkspaceSize(handle_, norm_mode_, kNormOps, norm_algo_, x_, nullptr,
                                                                y_, params_, nullptr, params_, &workspace_, 1)
            : api_.GetNormalizationBackwardWorkspaceSize(handle_, norm_mode_, kNormOps, norm_algo_, x_, nullptr, y_,
                                                         nullptr, dx_, params_, nullptr, params_, &workspace_, 1);
    if (status != GPUDNN_STATUS_SUCCESS) return status;
    status = api_.GetNormalizationTrainingReserveSpaceSize(handle_, norm_mode_, kNormOps, norm_algo_, nullptr, x_,
                                                           &reserve_, 1);
    choice->workspace = reserve_at() + reserve_;
    return status;
  }
  gpudnnStatus_t run_norm(void* work, void* reserve) const {
    switch (problem_.pass) {
      case norm::Pass::train:
        return api_.NormalizationForwardTraining(
            handle_, norm_mode_, kNormOps, norm_algo_, alpha_.get(), beta_.get(), x_, in_[0], params_, in_[1], in_[2],
            kFactor, params_, problem_.running ? in_[3] : nullptr, problem_.running ? in_[4] : nullptr,
            problem_.epsilon, problem_.saved ? in_[5] : nullptr, problem_.saved ? in_[6] : nullptr, nullptr, nullptr,
            nullptr, y_, out_, work, workspace_, reserve, reserve_, 1);
      case norm::Pass::infer:
        return api_.NormalizationForwardInference(handle_, norm_mode_, kNormOps, norm_algo_, alpha_.get(), beta_.get(),
                                                  x_, in_[0], params_, in_[1], in_[2], params_, in_[3], in_[4], nullptr,
                                                  nullptr, nullptr, y_, out_, problem_.epsilon, 1);
      default:
        return api_.NormalizationBackward(
            handle_, norm_mode_, kNormOps, norm_algo_, alpha_.get(), beta_.get(), one_.get(), zero_.get(), x_, in_[0],
            nullptr, nullptr, y_, in_[1], nullptr, nullptr, dx_, out_, params_, in_[2], nullptr, in_[5], in_[6],
            problem_.epsilon, params_, problem_.saved ? in_[3] : nullptr, problem_.saved ? in_[4] : nullptr, nullptr,
            work, workspace_, reserve, reserve_, 1);
    }
  }

  const Api& api_;
  gpudnnHandle_t handle_;
  norm::Problem problem_;
  Scalar alpha_, beta_, one_, zero_;
  std::vector<void*> in_;
  void* out_;
  Descriptors descriptors_;
  gpudnnTensorDescriptor_t x_ = nullptr, y_ = nullptr, dx_ = nullptr, params_ = nullptr;
  bool by_norm_calls_;
  gpudnnBatchNormMode_t mode_ = GPUDNN_BATCHNORM_SPATIAL;
  gpudnnNormMode_t norm_mode_ = GPUDNN_NORM_PER_CHANNEL;
  gpudnnNormAlgo_t norm_algo_ = GPUDNN_NORM_ALGO_STANDARD;
  std::size_t workspace_ = 0;
  std::size_t reserve_ = 0;
};

}  // namespace

std::unique_ptr<Run> make_norm_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                   const Pointers& pointers, gpudnnStatus_t* status) {
  auto run = std::make_unique<NormRun>(library, handle, task, pointers);
  *status = run->status();
  if (*status != GPUDNN_STATUS_SUCCESS) return nullptr;
  return run;
}

}  // namespace gpudnn::bench
