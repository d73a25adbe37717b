// The launcher of float products by bfloat16 terms: a kernel that writes both operands in terms, then gemm_sm90 on a
// product of six times the depth.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/gemm_split_sm90.hpp"

#include "core/environment.hpp"
#include "core/integer.hpp"
#include "core/math_type.hpp"
#include "kernels/matmul/split_operands_sm90.hpp"
#include "ops/matmul/gemm_sm90.hpp"

namespace gpudnn::matmul {
namespace {

namespace k = kernels::matmul;

constexpr std::int64_t kVector = 8;  // elements of k that 16 bytes hold
constexpr std::int64_t kMatrixAlignment = 256;
constexpr double kCopyShare = 0.8;  // of a copy's rate, that the split reaches
constexpr double kSplitLaunch = 4e-6;

struct Prepared {
  k::SplitOperands operands;
  std::size_t b_at = 0;  // in the workspace
  std::size_t workspace = 0;
  std::shared_ptr<const void> inner;
};

// [batch..., rows, 6 k], packed; of b its transpose: [batch..., 6 k, columns] with k innermost.
TensorGeometry split_matrix(const TensorGeometry& tensor, int row, int depth) {
  TensorGeometry t = tensor;
  t.type = GPUDNN_DATA_BFLOAT16;
  t.dims[depth] = k::kSegments * round_up(tensor.dims[depth], kVector);
  t.strides[depth] = 1;
  t.strides[row] = t.dims[depth];
  std::int64_t step = t.dims[depth] * t.dims[row];
  for (int i = t.rank - 3; i >= 0; --i) {
    t.strides[i] = step;
    step *= t.dims[i];
  }
  return t;
}

std::int64_t bytes_of(const TensorGeometry& matrix) { return round_up(2 * element_count(matrix), kMatrixAlignment); }

Problem inner_problem(const Problem& problem) {
  const int last = problem.d.rank - 1;
  Problem inner = problem;
  inner.math = GPUDNN_FMA_MATH;  // its sums are promoted
  inner.a = split_matrix(problem.a, last - 1, last);
  inner.b = split_matrix(problem.b, last, last - 1);
  return inner;
}

k::SplitOperand operand_of(const TensorGeometry& tensor, int row, int depth) {
  const Batched t = batched(tensor);
  k::SplitOperand o;
  o.row_stride = tensor.strides[row];
  o.depth_stride = tensor.strides[depth];
  o.batch_stride[0] = t.strides[0];
  o.batch_stride[1] = t.strides[1];
  o.rows = static_cast<std::uint32_t>(tensor.dims[row]);
  o.depth = static_cast<std::uint32_t>(tensor.dims[depth]);
  o.padded_depth = static_cast<std::uint32_t>(round_up(tensor.dims[depth], kVector));
  const auto row_tiles = static_cast<std::uint32_t>(ceil_div(tensor.dims[row], k::kSplitRows));
  const auto depth_tiles = static_cast<std::uint32_t>(ceil_div(tensor.dims[depth], k::kSplitDepth));
  o.inner_batches = tile::FastDivmod(static_cast<std::uint32_t>(t.dims[1]));
  o.row_tiles = tile::FastDivmod(row_tiles);
  o.depth_tiles = tile::FastDivmod(depth_tiles);
  o.blocks = row_tiles * depth_tiles * static_cast<std::uint32_t>(t.dims[0] * t.dims[1]);
  return o;
}

}  // namespace

Support gemm_split_sm90_supports(const Problem& problem, const Device& device) {
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;
  static const bool is_on = environment_fp32_split();
  if (problem.a.type != GPUDNN_DATA_FLOAT || problem.b.type != GPUDNN_DATA_FLOAT) {
    return Support::no("it splits floats only");
  }
  if (allows_tf32(problem.math)) return Support::no("the math type allows TF32, which is faster");
  if (!is_on) return Support::no("GPUDNN_FP32_SPLIT is 0");
  if (depth(problem) < 1) return Support::no("there is nothing to sum");
  if (element_count(problem.a) >= kMaxElements || element_count(problem.b) >= kMaxElements) {
    return Support::no("an operand has 2^31 elements or more");
  }
  return gemm_sm90_takes(inner_problem(problem), device);
}

bool gemm_split_sm90_takes_addresses(const Problem& problem, const Config& config, const Alignment& alignment) {
  return gemm_sm90_takes_addresses(problem, config, {.d = alignment.d});  // the operands are copies
}

void gemm_split_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const std::size_t first = candidates->size();
  gemm_sm90_candidates(inner_problem(problem), device, candidates);
  // Each float is read and becomes six terms.
  const auto elements = static_cast<double>(element_count(problem.a) + element_count(problem.b));
  const double split = kSplitLaunch + elements * (4 + 2 * k::kSegments) / (kCopyShare * device.rates.copy_bytes);
  for (std::size_t i = first; i < candidates->size(); ++i) (*candidates)[i].seconds += split;
}

std::size_t gemm_split_sm90_workspace(const Problem& problem, const Config&, const Device&) {
  const Problem inner = inner_problem(problem);
  return static_cast<std::size_t>(bytes_of(inner.a) + bytes_of(inner.b));
}

std::shared_ptr<const void> gemm_split_sm90_prepare(const Problem& problem, const Config& config,
                                                    const Device& device) {
  const int last = problem.d.rank - 1;
  const Problem inner = inner_problem(problem);
  auto prepared = std::make_shared<Prepared>();
  prepared->operands.of[0] = operand_of(problem.a, last - 1, last);
  prepared->operands.of[1] = operand_of(problem.b, last, last - 1);
  prepared->b_at = static_cast<std::size_t>(bytes_of(inner.a));
  prepared->workspace = gemm_split_sm90_workspace(problem, config, device);
  prepared->inner = gemm_sm90_prepare(inner, config, device);
  return prepared->inner != nullptr ? prepared : nullptr;
}

Status gemm_split_sm90_launch(const LaunchSite& site, const void* prepared_plan, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(prepared_plan);
  GPUDNN_REQUIRE(site.workspace_bytes >= prepared.workspace && site.workspace != nullptr, GPUDNN_STATUS_BAD_PARAM,
                 "the workspace has %zu bytes; this plan needs %zu", site.workspace_bytes, prepared.workspace);
  k::SplitOperands operands = prepared.operands;
  operands.of[0].from = static_cast<const float*>(args.a);
  operands.of[1].from = static_cast<const float*>(args.b);
  operands.of[0].to = site.workspace;
  operands.of[1].to = static_cast<char*>(site.workspace) + prepared.b_at;
  k::launch_split_operands(operands, site.stream);
  GPUDNN_TRY(cuda::launch_status("split_operands"));
  Args inner = args;
  inner.a = operands.of[0].to;
  inner.b = operands.of[1].to;
  return gemm_sm90_launch(site, prepared.inner.get(), inner);
}

}  // namespace gpudnn::matmul
