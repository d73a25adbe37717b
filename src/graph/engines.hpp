// The functions behind the rows of engines.cpp.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "graph/engine.hpp"

namespace gpudnn::graph {

// The operation that alone reads what a tensor holds, and once; null if there is none.
[[nodiscard]] const Node* only_reader(const Graph& graph, int tensor);

// One convolution, or a forward one with the addition of an image, of a bias and an activation: conv_engine.cpp.
[[nodiscard]] std::vector<Config> conv_configs(const Engine& engine, const Graph& graph, const Device& device,
                                               std::string* why);
[[nodiscard]] Status conv_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs& knobs,
                                  WorkRef* work);
// All engines of convolution at once, each with its best config; false if the graph is no convolution.
[[nodiscard]] bool rank_convolution(const Graph& graph, const Device& device, std::vector<Choice>* choices,
                                    std::string* why);

// One convolution of 8-bit floats with descales, a bias, an activation, AMAX and scales: float8_engine_cuda.cpp.
[[nodiscard]] std::vector<Config> float8_configs(const Engine& engine, const Graph& graph, const Device& device,
                                                 std::string* why);
[[nodiscard]] Status float8_prepare(const Engine& engine, const GraphRef& graph, const Device& device,
                                    const Knobs& knobs, WorkRef* work);

// One operation of the classic interface: single_engine.cpp.
[[nodiscard]] std::vector<Config> reduction_configs(const Engine& engine, const Graph& graph, const Device& device,
                                                    std::string* why);
[[nodiscard]] Status reduction_prepare(const Engine& engine, const GraphRef& graph, const Device& device,
                                       const Knobs& knobs, WorkRef* work);
[[nodiscard]] std::vector<Config> pooling_configs(const Engine& engine, const Graph& graph, const Device& device,
                                                  std::string* why);
[[nodiscard]] Status pooling_prepare(const Engine& engine, const GraphRef& graph, const Device& device,
                                     const Knobs& knobs, WorkRef* work);
[[nodiscard]] std::vector<Config> copy_configs(const Engine& engine, const Graph& graph, const Device& device,
                                               std::string* why);
[[nodiscard]] Status copy_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs& knobs,
                                  WorkRef* work);

// The sums of channels and of their squares: statistics_engine.cpp.
[[nodiscard]] std::vector<Config> statistics_configs(const Engine& engine, const Graph& graph, const Device& device,
                                                     std::string* why);
[[nodiscard]] Status statistics_prepare(const Engine& engine, const GraphRef& graph, const Device& device,
                                        const Knobs& knobs, WorkRef* work);

// Pointwise operations and reductions of their results, as one program: pointwise_engine.cpp.
[[nodiscard]] std::vector<Config> program_configs(const Engine& engine, const Graph& graph, const Device& device,
                                                  std::string* why);
[[nodiscard]] Status program_prepare(const Engine& engine, const GraphRef& graph, const Device& device,
                                     const Knobs& knobs, WorkRef* work);

// A matrix product with an addition and an activation: matmul_engine.cpp.
[[nodiscard]] std::vector<Config> matmul_configs(const Engine& engine, const Graph& graph, const Device& device,
                                                 std::string* why);
[[nodiscard]] Status matmul_prepare(const Engine& engine, const GraphRef& graph, const Device& device,
                                    const Knobs& knobs, WorkRef* work);

// One layer, RMS, instance or adaptive layer normalization: norm_engine.cpp.
[[nodiscard]] std::vector<Config> norm_configs(const Engine& engine, const Graph& graph, const Device& device,
                                               std::string* why);
[[nodiscard]] Status norm_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs& knobs,
                                  WorkRef* work);

// Batch normalization, of training with an addition and a ReLU behind it, and backward: batch_norm_engine.cpp.
[[nodiscard]] std::vector<Config> batch_norm_configs(const Engine& engine, const Graph& graph, const Device& device,
                                                     std::string* why);
[[nodiscard]] Status batch_norm_prepare(const Engine& engine, const GraphRef& graph, const Device& device,
                                        const Knobs& knobs, WorkRef* work);

// One attention operation: attention_engine.cpp.
[[nodiscard]] std::vector<Config> attention_configs(const Engine& engine, const Graph& graph, const Device& device,
                                                    std::string* why);
[[nodiscard]] Status attention_prepare(const Engine& engine, const GraphRef& graph, const Device& device,
                                       const Knobs& knobs, WorkRef* work);

// One operation that has no faster engine on the device: node_engine_cuda.cpp.
[[nodiscard]] std::vector<Config> node_configs(const Engine& engine, const Graph& graph, const Device& device,
                                               std::string* why);
[[nodiscard]] Status node_prepare(const Engine& engine, const GraphRef& graph, const Device& device, const Knobs& knobs,
                                  WorkRef* work);

// Segments that other engines take, one after the other, with what passes between them in the workspace: segments.cpp.
[[nodiscard]] std::vector<Config> segment_configs(const Engine& engine, const Graph& graph, const Device& device,
                                                  std::string* why);
[[nodiscard]] Status segment_prepare(const Engine& engine, const GraphRef& graph, const Device& device,
                                     const Knobs& knobs, WorkRef* work);

// Operation by operation on the CPU, in double: interpret/interpreter.cpp.
[[nodiscard]] std::vector<Config> interpreter_configs(const Engine& engine, const Graph& graph, const Device& device,
                                                      std::string* why);
[[nodiscard]] Status interpreter_prepare(const Engine& engine, const GraphRef& graph, const Device& device,
                                         const Knobs& knobs, WorkRef* work);

}  // namespace gpudnn::graph
