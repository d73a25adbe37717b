// Every reader of the problem language: what it accepts prints to a line that it reads again, and that prints the same.
// SPDX-License-Identifier: Apache-2.0
#include "check.hpp"
#include "ops/activation/problem.hpp"
#include "ops/attention/problem.hpp"
#include "ops/bias_grad/problem.hpp"
#include "ops/conv/problem.hpp"
#include "ops/ctc/problem.hpp"
#include "ops/dropout/problem.hpp"
#include "ops/fused_ops/text.hpp"
#include "ops/lrn/problem.hpp"
#include "ops/matmul/problem.hpp"
#include "ops/norm/problem.hpp"
#include "ops/op_tensor/problem.hpp"
#include "ops/pointwise/problem.hpp"
#include "ops/pooling/problem.hpp"
#include "ops/reduce/problem.hpp"
#include "ops/softmax/problem.hpp"
#include "ops/spatial_transformer/problem.hpp"
#include "ops/tensor/problem.hpp"
#include "ops/transform/problem.hpp"

namespace {

using namespace gpudnn;

template <class Parse>
void round_trip(Parse parse, std::string_view line) {
  std::string why;
  const auto problem = parse(line, &why);
  if (!problem) return fuzz::expect(!why.empty(), "a refusal without a reason", line);
  const std::string text = to_text(*problem);
  const auto again = parse(text, &why);
  fuzz::expect(again.has_value(), ("what was printed is not read: " + text + ": " + why).c_str(), line);
  fuzz::expect(to_text(*again) == text, ("printed otherwise the second time: " + text).c_str(), line);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view line = fuzz::text_of(data, size);
  round_trip(activation::from_text, line);
  round_trip(attention::from_text, line);
  round_trip(bias_grad::from_text, line);
  round_trip(conv::from_text, line);
  round_trip(ctc::from_text, line);
  round_trip(dropout::from_text, line);
  round_trip(lrn::from_text, line);
  round_trip(matmul::from_text, line);
  round_trip(norm::from_text, line);
  round_trip(op_tensor::from_text, line);
  round_trip(pointwise::from_text, line);
  round_trip(pooling::from_text, line);
  round_trip(reduce::from_text, line);
  round_trip(softmax::from_text, line);
  round_trip(spatial_transformer::from_text, line);
  round_trip(tensor::from_text, line);
  round_trip(transform::from_text, line);
  std::string why;
  (void)fused_ops::from_text(line, &why);
  (void)transform::columns_from_text(line, &why);
  return 0;
}
