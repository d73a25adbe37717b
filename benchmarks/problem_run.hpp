// One problem, in two steps: what is to be done (Task, from a line of the problem language) and how one library does it
// (Run: descriptors made through its interface, an algorithm chosen, a call with everything bound).
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api_table.hpp"
#include "data.hpp"
#include "machine.hpp"
#include "ops/activation/problem.hpp"
#include "ops/attention/problem.hpp"
#include "ops/bias_grad/problem.hpp"
#include "ops/conv/problem.hpp"
#include "ops/ctc/problem.hpp"
#include "ops/dropout/problem.hpp"
#include "ops/fused_ops/text.hpp"
#include "ops/layer_norm/problem.hpp"
#include "ops/lrn/problem.hpp"
#include "ops/matmul/problem.hpp"
#include "ops/norm/problem.hpp"
#include "ops/op_tensor/problem.hpp"
#include "ops/pooling/problem.hpp"
#include "ops/reduce/problem.hpp"
#include "ops/rnn/problem.hpp"
#include "ops/softmax/problem.hpp"
#include "ops/spatial_transformer/problem.hpp"
#include "ops/tensor/problem.hpp"
#include "ops/transform/problem.hpp"

namespace gpudnn::bench {

// gpudnnReorderFilterAndBias: reorder i8x32 nchw n64c64h3w3 [bias], the filter's k, c, r, s as n, c, h, w.
struct ReorderProblem {
  TensorGeometry w;  // in the words of the interface: dims count channels
  bool has_bias = false;
};
[[nodiscard]] std::string to_text(const ReorderProblem& problem);

using AnyProblem = std::variant<conv::Problem, pooling::Problem, activation::Problem, softmax::Problem, tensor::Problem,
                                bias_grad::Problem, norm::Problem, dropout::Problem, spatial_transformer::Problem,
                                ctc::Problem, lrn::Problem, reduce::Problem, op_tensor::Problem, fused_ops::Stages,
                                transform::Problem, transform::ColumnProblem, ReorderProblem, matmul::Problem,
                                layer_norm::Problem, attention::Problem, rnn::Problem>;

// The arithmetic that decides which rate bounds a problem, and how closely two results must agree.
enum class Arithmetic { f64, f32, tf32, f16, bf16, integer, f8 };
[[nodiscard]] const char* arithmetic_name(Arithmetic arithmetic) noexcept;

struct Operand {
  TensorGeometry geometry;
  Fill fill = Fill::normal;
  std::vector<std::int32_t> integers = {};  // if not empty, the contents themselves, of an INT32 tensor
};

// An output besides the first.
struct MoreOutput {
  TensorGeometry geometry;
  bool is_read = false;  // and written
  Fill fill = Fill::normal;
};

// y = alpha * op + beta * y; an unset scalar takes the operation's own default (1 and 0; tensor add has beta 1 and
// tensor scale alpha -1, which no library can skip and which neither grows nor shrinks the data over many runs).
struct ScalarOptions {
  std::optional<double> alpha;
  std::optional<double> beta;
};

struct Task {
  std::string name;   // of the case file, or the text
  std::string text;   // the problem in the library's own words
  std::string group;  // such as "conv fwd f16": what the geometric means are over
  AnyProblem problem;
  Arithmetic arithmetic = Arithmetic::f32;
  double flops = 0;  // of a convolution or a matrix product; 0: only bytes count
  double bytes = 0;  // each input once and the output once, and once more if it is read
  double alpha = 1;
  double beta = 0;
  std::vector<Operand> inputs;  // in the order that make_run expects
  TensorGeometry output;
  bool output_is_read = false;
  bool output_is_random = false;  // no two libraries give the same
  std::vector<MoreOutput> more_outputs;
  bool by_norm_calls = false;  // normalization by the calls that are named Normalization, not BatchNormalization
  // Backward operations take an output of forward: it is made by this task, from inputs[forward_input] (or from
  // random data if that is negative), into inputs[forward_output].
  std::shared_ptr<const Task> forward;
  int forward_input = -1;
  int forward_output = -1;
};

// Nothing if the line is no problem; *why says what was wrong.
[[nodiscard]] std::optional<Task> parse_task(std::string_view line, const ScalarOptions& scalars, std::string* why);
// What no call of the classic interface does runs by the engines that are linked in.
[[nodiscard]] bool is_linked(const Task& task) noexcept;

// An algorithm of a convolution; the other operations have one nameless choice.
struct Choice {
  std::string algorithm;
  int number = 0;
  gpudnnMathType_t math = GPUDNN_DEFAULT_MATH;
  std::size_t workspace = 0;
  bool by_find = false;  // measured by Find, not predicted by the heuristic
};

struct Pointers {
  std::vector<void*> inputs;
  void* output = nullptr;
  std::vector<void*> more_outputs;
};

class Run {
 public:
  virtual ~Run() = default;
  // The heuristic's first choice within the limit of workspace.
  [[nodiscard]] virtual gpudnnStatus_t query(std::size_t workspace_limit, Choice* choice) = 0;
  // The fastest that Find measures within the workspace. It overwrites the output.
  [[nodiscard]] virtual gpudnnStatus_t find(void* workspace, std::size_t bytes, Choice* choice) = 0;
  // The call itself. It is valid as long as the run is.
  [[nodiscard]] virtual gpudnnStatus_t bind(const Choice& choice, void* workspace, Call* call) = 0;
  [[nodiscard]] virtual bool has_choice() const noexcept { return false; }
  // For a choice that transforms its data (Winograd, FFT) and so loses digits: those that sum the products as defined
  // (implicit GEMM), within the limit of workspace. None for any other choice.
  [[nodiscard]] virtual std::vector<Choice> untransformed(const Choice& choice, std::size_t workspace_limit) {
    (void)choice, (void)workspace_limit;
    return {};
  }
};

// Makes the descriptors; null, with *status, if the library refuses one.
[[nodiscard]] std::unique_ptr<Run> make_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                            const Pointers& pointers, gpudnnStatus_t* status);

// The integers of a CTC problem: every sequence as long as it may be, labels that differ from their neighbours.
struct CtcIntegers {
  std::vector<std::int32_t> labels, label_lengths, input_lengths;
};
[[nodiscard]] CtcIntegers ctc_integers(const ctc::Problem& problem);

// Of conv_run.cpp, for make_run.
[[nodiscard]] std::unique_ptr<Run> make_conv_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                                 const Pointers& pointers, gpudnnStatus_t* status);

// Of fused_run.cpp, for make_run: fused operation plans.
[[nodiscard]] std::unique_ptr<Run> make_fused_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                                  const Pointers& pointers, gpudnnStatus_t* status);

// Of rearrange_run.cpp, for make_run: transforms with a descriptor, column buffers, reordered filters.
[[nodiscard]] std::unique_ptr<Run> make_rearrange_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                                      const Pointers& pointers, gpudnnStatus_t* status);

// Of matmul_run.cpp, for make_run. Matrix products have no call of their own in the interface: they run by the engines
// that are linked into this program.
[[nodiscard]] std::unique_ptr<Run> make_matmul_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                                   const Pointers& pointers, gpudnnStatus_t* status);
// The library that is linked into this program. With the prefix
// "cublaslt" it runs them by that engine alone, by the fastest of the 8 algorithms that cuBLASLt's heuristic proposes.
// Null, with *why, where that is not there.
[[nodiscard]] std::unique_ptr<Library> linked_library(const std::string& prefix, std::string* why);

// Of layer_norm_run.cpp, for make_run: by the engines that are linked into this program.
[[nodiscard]] std::unique_ptr<Run> make_layer_norm_run(gpudnnHandle_t handle, const Task& task,
                                                       const Pointers& pointers, gpudnnStatus_t* status);
// Of attention_run.cpp, for make_run: by the engines that are linked into this program.
[[nodiscard]] std::unique_ptr<Run> make_attention_run(gpudnnHandle_t handle, const Task& task, const Pointers& pointers,
                                                      gpudnnStatus_t* status);

// Of rnn_run.cpp, for make_run.
[[nodiscard]] std::unique_ptr<Run> make_rnn_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                                const Pointers& pointers, gpudnnStatus_t* status);

// Of norm_run.cpp, for make_run.
[[nodiscard]] std::unique_ptr<Run> make_norm_run(const Library& library, gpudnnHandle_t handle, const Task& task,
                                                 const Pointers& pointers, gpudnnStatus_t* status);

}  // namespace gpudnn::bench
