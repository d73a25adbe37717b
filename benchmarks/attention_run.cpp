// Attention, by the engines that are linked into this program.
// SPDX-License-Identifier: Apache-2.0
#include "attention_operands.hpp"

namespace gpudnn::bench {
namespace {

class AttentionRun : public Run {
 public:
  AttentionRun(gpudnnHandle_t handle, const Task& task, const Pointers& pointers)
      : handle_(handle), problem_(std::get<attention::Problem>(task.problem)) {
    std::size_t next = 0;
    for (const AttentionOperand& operand : attention_inputs(problem_)) operand.bind(&args_, pointers.inputs.at(next++));
    next = 0;
    for (const AttentionOperand& operand : attention_outputs(problem_)) {
      operand.bind(&args_, next == 0 ? pointers.output : pointers.more_outputs.at(next - 1));
      ++next;
    }
    args_.seed_value = 7;
  }

  [[nodiscard]] bool has_choice() const noexcept override { return true; }

  gpudnnStatus_t query(std::size_t workspace_limit, Choice* choice) override {
    const Device& device = *handle_->device;
    const attention::AttentionEngine* const engine = attention::choose(device, problem_, 256);
    if (engine == nullptr) return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED, "no engine takes the problem");
    choice->algorithm = engine->name;
    choice->workspace = attention::workspace_bytes(device, problem_);
    if (choice->workspace <= workspace_limit) return GPUDNN_STATUS_SUCCESS;
    return GPUDNN_REFUSE(GPUDNN_STATUS_NOT_SUPPORTED, "%s needs %zu bytes of workspace", engine->name,
                         choice->workspace);
  }
  gpudnnStatus_t find(void*, std::size_t bytes, Choice* choice) override { return query(bytes, choice); }
  gpudnnStatus_t bind(const Choice& choice, void* workspace, Call* call) override {
    *call = [this, workspace, bytes = choice.workspace] {
      return attention::run(handle_, problem_, args_, workspace, bytes);
    };
    return GPUDNN_STATUS_SUCCESS;
  }

 private:
  gpudnnHandle_t handle_;
  attention::Problem problem_;
  attention::Args args_;
};

}  // namespace

std::unique_ptr<Run> make_attention_run(gpudnnHandle_t handle, const Task& task, const Pointers& pointers,
                                        gpudnnStatus_t* status) {
  *status = attention::validate(std::get<attention::Problem>(task.problem));
  if (*status != GPUDNN_STATUS_SUCCESS) return nullptr;
  return std::make_unique<AttentionRun>(handle, task, pointers);
}

}  // namespace gpudnn::bench
