// The lists of benchmarks/cases: every convolution, matrix product and layer norm in them can be read and is legal, and
// no name stands twice.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "core/error.hpp"
#include "ops/conv/problem.hpp"
#include "ops/layer_norm/problem.hpp"
#include "ops/matmul/problem.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

// "name = problem", or the problem alone.
void check_line(const std::string& line, const std::string& where, std::set<std::string>* names, int* convolutions,
                int* products, int* norms) {
  const auto equals = line.find(" = ");
  std::string problem = line;
  if (equals != std::string::npos) {
    const std::string name = line.substr(0, line.find_first_of(" \t"));
    EXPECT_TRUE(names->insert(name).second) << where << ": the name stands twice";
    problem = line.substr(line.find_first_not_of(" \t", equals + 3));
  }
  std::string why;
  if (problem.starts_with("matmul ")) {
    ++*products;
    const auto product = matmul::from_text(problem, &why);
    ASSERT_TRUE(product) << where << ": " << why;
    EXPECT_EQ(matmul::validate(*product), GPUDNN_STATUS_SUCCESS) << where << ": " << take_error_text();
  }
  if (problem.starts_with("layer_norm ")) {
    ++*norms;
    const auto norm = layer_norm::from_text(problem, &why);
    ASSERT_TRUE(norm) << where << ": " << why;
    EXPECT_EQ(layer_norm::validate(*norm), GPUDNN_STATUS_SUCCESS) << where << ": " << take_error_text();
  }
  if (!problem.starts_with("conv ")) return;
  ++*convolutions;
  const auto parsed = conv::from_text(problem, &why);
  ASSERT_TRUE(parsed) << where << ": " << why;
  EXPECT_EQ(conv::validate(*parsed), GPUDNN_STATUS_SUCCESS) << where << ": " << take_error_text();
}

TEST(BenchmarkCases, ConvolutionsProductsAndNormsAreLegal) {
  int convolutions = 0;
  int products = 0;
  int norms = 0;
  for (const auto& entry : std::filesystem::directory_iterator(case_folder() + "/../../benchmarks/cases")) {
    if (entry.path().extension() != ".txt") continue;
    std::ifstream file(entry.path());
    std::set<std::string> names;
    int number = 0;
    for (std::string line; std::getline(file, line);) {
      ++number;
      if (line.empty() || line[0] == '#') continue;
      check_line(line, entry.path().filename().string() + ":" + std::to_string(number), &names, &convolutions,
                 &products, &norms);
    }
  }
  EXPECT_GT(convolutions, 500);
  EXPECT_GE(products, 40);
  EXPECT_GE(norms, 50);
}

}  // namespace
}  // namespace gpudnn::test
