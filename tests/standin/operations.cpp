// Calls of every operation, and processes to make them in.
// SPDX-License-Identifier: Apache-2.0
#include "standin/operations.hpp"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string_view>

#include "graph/client.hpp"
#include "graph/composite.hpp"
#include "graph/kinds.hpp"
#include "standin/state.hpp"

namespace gpudnn::standin {
namespace {

using test::Backend;
using test::BackendDescriptor;

// Another library would bring its own runtime.
[[maybe_unused]] const int kWithoutCublas = setenv("GPUDNN_CUBLAS", "0", 1);

void write_all(int file, const std::string& text) {
  for (std::size_t done = 0; done < text.size();) {
    const ssize_t written = write(file, text.data() + done, text.size() - done);
    if (written <= 0) return;
    done += static_cast<std::size_t>(written);
  }
}

Status allocate_copy_and_free(gpudnnHandle_t handle) {
  void* memory = nullptr;
  char bytes[64] = {};
  Status status = gpudnnMalloc(handle, &memory, sizeof bytes);
  if (status != GPUDNN_STATUS_SUCCESS) return status;
  status = gpudnnMemcpy(handle, memory, bytes, sizeof bytes, GPUDNN_MEMCPY_HOST_TO_DEVICE);
  if (status == GPUDNN_STATUS_SUCCESS)
    status = gpudnnMemcpy(handle, bytes, memory, sizeof bytes, GPUDNN_MEMCPY_DEVICE_TO_HOST);
  const Status freed = gpudnnFree(handle, memory);
  return status == GPUDNN_STATUS_SUCCESS ? freed : status;
}

Status find_algorithms(gpudnnHandle_t handle) {
  const test::TensorDescriptor x(GPUDNN_DATA_HALF, 2, 64, 14, 14);
  const test::FilterDescriptor w(GPUDNN_DATA_HALF, 64, 64, 3, 3);
  const test::ConvolutionDescriptor convolution(1, 1, 1);
  gpudnnConvolutionFwdAlgoPerf_t rows[8];
  int count = 0;
  const Status status = gpudnnFindConvolutionForwardAlgorithm(handle, x, w, convolution, x, 8, &count, rows);
  if (status != GPUDNN_STATUS_SUCCESS) return status;
  for (int i = 0; i < count; ++i) {  // each algorithm fails for itself
    if (rows[i].status != GPUDNN_STATUS_SUCCESS && rows[i].status != GPUDNN_STATUS_NOT_SUPPORTED) return rows[i].status;
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status make_and_destroy_handle(gpudnnHandle_t) {
  gpudnnHandle_t handle = nullptr;
  const Status status = gpudnnCreate(&handle);
  return status == GPUDNN_STATUS_SUCCESS ? gpudnnDestroy(handle) : status;
}

// A recorded graph with memory of the device for its tensors.
class RecordedGraph {
 public:
  RecordedGraph(const std::string& text, bool is_attention) {
    std::string why;
    const auto read = graph::from_text(text, &why);
    if (!read) throw std::runtime_error(why);
    test::Random random(1);
    test::Memory values(*read, &random);
    if (is_attention) test::set_recorded_values(*read, &values, random);
    build(*read, memory_backend().handle(), &client_);
    for (const graph::Tensor& tensor : read->tensors) {
      if (tensor.is_virtual) continue;
      uids_.push_back(tensor.uid);
      const std::size_t bytes = values.bytes(tensor.uid);
      if (tensor.by_value) {
        const auto* const first = static_cast<const unsigned char*>(values.pointer(tensor.uid));
        host_.emplace_back(first, first + bytes);
        pointers_.push_back(host_.back().data());
      } else {
        device_.push_back(std::make_unique<test::GuardedBuffer>(memory_backend(), bytes));
        device_.back()->write(values.pointer(tensor.uid), bytes);
        pointers_.push_back(device_.back()->data());
      }
    }
    // Asked in another process, as this one is not to make plans.
    const std::string bytes = in_own_process([this]() -> std::string {
      BackendDescriptor plan;
      const Status status = make_plan(&plan);
      if (status == GPUDNN_STATUS_NOT_SUPPORTED) return "";
      test::require(status, "make_plan");
      return std::to_string(plan.integer(GPUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
    });
    if (bytes.empty()) return;
    if (bytes.find_first_not_of("0123456789") != std::string::npos) throw std::runtime_error(bytes);
    workspace_ = std::make_unique<test::GuardedBuffer>(memory_backend(), std::stoul(bytes));
  }

  // Whether an engine of the CUDA backend takes it; the interpreter of all graphs is the host backend's.
  [[nodiscard]] bool is_taken() const { return workspace_ != nullptr; }

  // By the heuristic's first choice.
  Status make_plan(BackendDescriptor* plan) const {
    BackendDescriptor heuristics(graph::kHeuristics);
    GPUDNN_TRY(heuristics.set_descriptor(GPUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, client_.graph_descriptor));
    GPUDNN_TRY(heuristics.set_enum(GPUDNN_ATTR_ENGINEHEUR_MODE, GPUDNN_TYPE_HEUR_MODE, GPUDNN_HEUR_MODE_A));
    GPUDNN_TRY(heuristics.finalize());
    const BackendDescriptor config(graph::kEngineConfig);
    gpudnnBackendDescriptor_t object = config.get();
    std::int64_t written = 0;
    GPUDNN_TRY(gpudnnBackendGetAttribute(heuristics.get(), GPUDNN_ATTR_ENGINEHEUR_RESULTS,
                                         GPUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &written, &object));
    if (written == 0) return GPUDNN_STATUS_NOT_SUPPORTED;  // with the heuristic's text
    *plan = BackendDescriptor(graph::kPlan);
    GPUDNN_TRY(plan->set_descriptor(GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config));
    return plan->finalize();
  }

  Status make_pack(BackendDescriptor* pack) const {
    *pack = BackendDescriptor(graph::kPack);
    const auto count = static_cast<std::int64_t>(uids_.size());
    void* const workspace = workspace_->data();
    GPUDNN_TRY(pack->set(GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, GPUDNN_TYPE_INT64, count, uids_.data()));
    GPUDNN_TRY(pack->set(GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, GPUDNN_TYPE_VOID_PTR, count, pointers_.data()));
    GPUDNN_TRY(pack->set(GPUDNN_ATTR_VARIANT_PACK_WORKSPACE, GPUDNN_TYPE_VOID_PTR, 1, &workspace));
    return pack->finalize();
  }

 private:
  test::ClientGraph client_;
  std::vector<std::int64_t> uids_;
  std::vector<void*> pointers_;
  std::vector<std::vector<unsigned char>> host_;
  std::vector<std::unique_ptr<test::GuardedBuffer>> device_;
  std::unique_ptr<test::GuardedBuffer> workspace_;
};

// The plan is made in the call, so that a fault may meet it.
enum class Use { execute, populate, update };
Operation graph_operation(const test::GraphCase& recorded, const std::shared_ptr<RecordedGraph>& prepared, Use use) {
  const auto plan_and_pack = [prepared](BackendDescriptor* plan, BackendDescriptor* pack) {
    GPUDNN_TRY(prepared->make_plan(plan));
    return prepared->make_pack(pack);
  };
  if (use == Use::execute) {
    return {recorded.name, [=](gpudnnHandle_t handle) {
              BackendDescriptor plan, pack;
              GPUDNN_TRY(plan_and_pack(&plan, &pack));
              return gpudnnBackendExecute(handle, plan.get(), pack.get());
            }};
  }
  cudaGraph_t target = nullptr;
  EXPECT_EQ(cudaGraphCreate(&target, 0), cudaSuccess);
  const bool updates = use == Use::update;
  return {recorded.name + (updates ? ", populate and update a CUDA graph" : ", populate a CUDA graph"),
          [=](gpudnnHandle_t handle) {
            BackendDescriptor plan, pack;
            GPUDNN_TRY(plan_and_pack(&plan, &pack));
            if (!updates || target->nodes.empty()) {
              const gpudnnStatus_t status = gpudnnBackendPopulateCudaGraph(handle, plan.get(), pack.get(), target);
              if (status != GPUDNN_STATUS_SUCCESS)
                target->nodes.clear();  // what a failure leaves is the caller's to drop
              GPUDNN_TRY(status);
            }
            return updates ? gpudnnBackendUpdateCudaGraph(handle, plan.get(), pack.get(), target)
                           : GPUDNN_STATUS_SUCCESS;
          },
          false};
}

}  // namespace

std::unique_ptr<Backend> make_backend() {
  EXPECT_EQ(cudaSetDevice(kDevice), cudaSuccess);
  auto backend = std::make_unique<Backend>();
  EXPECT_EQ(cudaSetDevice(kCallersDevice), cudaSuccess);
  return backend;
}

const Backend& memory_backend() {
  static const Backend* const backend = make_backend().release();
  return *backend;
}

std::vector<Operation> classic_operations() {
  std::vector<Operation> operations;
  for (const test::PreparedCall& call : test::every_operation(memory_backend()))
    operations.push_back({call.name, call.call});
  return operations;
}

std::vector<Operation> services() {
  return {{"a handle", make_and_destroy_handle, false},
          {"memory", allocate_copy_and_free, false},
          {"find algorithms", find_algorithms, false}};
}

std::vector<Operation> graph_operations() {
  std::vector<Operation> operations;
  int recorded_graphs = 0;
  for (const char* file : {"operations.txt", "further_operations.txt", "attention.txt", "attention_windows.txt"}) {
    for (const test::GraphCase& recorded : test::graph_cases(file)) {
      ++recorded_graphs;
      const auto prepared =
          std::make_shared<RecordedGraph>(recorded.text, recorded.name.find("sdpa") != std::string::npos ||
                                                             std::string_view(file).starts_with("attention"));
      if (!prepared->is_taken()) continue;
      operations.push_back(graph_operation(recorded, prepared, Use::execute));
      if (recorded.name != "matmul_bias_gelu" && recorded.name != "layernorm_bwd") continue;
      operations.push_back(graph_operation(recorded, prepared, Use::populate));
      operations.push_back(graph_operation(recorded, prepared, Use::update));
    }
  }
  std::printf("  %zu calls of %d recorded graphs\n", operations.size(), recorded_graphs);
  return operations;
}

std::string in_own_process(const std::function<std::string()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return "no pipe";
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) {
    close(ends[0]);
    std::string text;
    try {
      text = body();
    } catch (const std::exception& error) {
      text = std::string("an exception: ") + error.what();
    }
    write_all(ends[1], text);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  char part[4096];
  for (ssize_t bytes = 0; (bytes = read(ends[0], part, sizeof part)) > 0;)
    text.append(part, static_cast<std::size_t>(bytes));
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child) return "no process of its own";
  if (WIFSIGNALED(status)) return text + "the process was ended by signal " + std::to_string(WTERMSIG(status));
  return text;
}

std::string lines_of(const std::vector<std::string>& texts) {
  std::string lines;
  for (const std::string& text : texts) lines += text + "\n";
  return lines;
}

}  // namespace gpudnn::standin
