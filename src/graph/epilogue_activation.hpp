// The activation behind a convolution or a matrix product, as their epilogues take it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "graph/graph.hpp"
#include "kernels/matmul/epilogue.hpp"
#include "ops/conv/problem.hpp"

namespace gpudnn::graph {

struct EpilogueActivation {
  kernels::matmul::Activation function = kernels::matmul::Activation::identity;
  kernels::matmul::ActivationParams params;
  bool propagates_nan = true;  // of ReLU
};

// False, with the reason in *why, where the node is no such function.
bool read_activation(const Node& node, EpilogueActivation* activation, std::string* why);

// As a convolution has it.
void set_activation(const EpilogueActivation& activation, conv::Problem* problem, conv::Args* args);

}  // namespace gpudnn::graph
