// Times the engines and configs of matrix products, next to cuBLASLt's proposals where it is installed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "ops/matmul/engine.hpp"
#include "tune_parts.hpp"

namespace gpudnn::bench {

struct MatmulTuneOptions {
  double min_time = 0.1;
  bool configs = false;  // print each
  bool grid = false;     // also configs that no engine offers for the problem
};

class MatmulTuner {
 public:
  MatmulTuner(Machine& machine, const Device& device, const MatmulTuneOptions& options)
      : machine_(machine), device_(device), options_(options), workspace_(machine, std::size_t{32} << 20) {}

  // False if nothing ran.
  bool tune(const std::string& name, const matmul::Problem& problem);
  void summarize() const;

 private:
  struct Trial {
    matmul::Choice choice;
    double seconds = kFailed;
  };

  [[nodiscard]] std::vector<Trial> trials_of(const matmul::Problem& problem) const;
  void time_trials(const matmul::Problem& problem, std::vector<Trial>* trials);
  [[nodiscard]] matmul::Args args_of(const matmul::Problem& problem);

  Machine& machine_;
  const Device& device_;
  MatmulTuneOptions options_;
  Buffer a_, b_, c_, bias_, d_, scale_, amax_;
  Buffer workspace_;
  Ratios first_;     // our first choice over our best one
  Ratios of_best_;   // our best one over cuBLASLt's
  Ratios of_first_;  // our first one over cuBLASLt's best
};

}  // namespace gpudnn::bench
