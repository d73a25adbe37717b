// The launcher of products from copies of operands: one kernel that copies what TMA does not take, then gemm_sm90.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/gemm_padded_sm90.hpp"

#include "core/integer.hpp"
#include "kernels/matmul/pad_operands_sm90.hpp"
#include "ops/matmul/gemm_sm90.hpp"

namespace gpudnn::matmul {
namespace {

namespace k = kernels::matmul;

constexpr std::int64_t kCopyAlignment = 256;
constexpr double kCopyShare = 0.6;  // of a copy's rate, that this one reaches
constexpr double kCopyLaunch = 3e-6;

// The dimensions of an operand: with its rows (m or n) and with k.
struct Dimensions {
  int row, depth;
};
struct Copies {
  bool of[2] = {};  // a, b
};
struct Prepared {
  k::PadOperands operands;
  Copies copies;
  std::size_t at[2] = {};  // of the copies in the workspace
  std::size_t workspace = 0;
  std::shared_ptr<const void> inner;
};

Dimensions dimensions_of(const Problem& problem, int operand) {
  const int last = problem.d.rank - 1;
  return operand == 0 ? Dimensions{last - 1, last} : Dimensions{last, last - 1};
}
const TensorGeometry& operand_of(const Problem& problem, int operand) { return operand == 0 ? problem.a : problem.b; }

// The dimension along which neighbours lie side by side, and the other one.
Dimensions along(const TensorGeometry& t, Dimensions d) {
  const bool along_depth = t.strides[d.depth] == 1 || t.dims[d.depth] == 1;
  return along_depth ? Dimensions{d.row, d.depth} : Dimensions{d.depth, d.row};
}

bool is_whole_rows(const TensorGeometry& t, Dimensions d) {
  const Dimensions lies = along(t, d);
  for (int i = 0; i < t.rank; ++i) {
    if (i != lies.depth && t.dims[i] > 1 && t.strides[i] % k::kPadVector != 0) return false;
  }
  return true;
}
Copies copies_of(const Problem& problem) {
  Copies copies;
  for (int i = 0; i < 2; ++i) copies.of[i] = !is_whole_rows(operand_of(problem, i), dimensions_of(problem, i));
  return copies;
}

TensorGeometry copied(const TensorGeometry& tensor, Dimensions d) {
  const Dimensions lies = along(tensor, d);
  TensorGeometry t = tensor;
  t.strides[lies.depth] = 1;
  t.strides[lies.row] = round_up(t.dims[lies.depth], k::kPadVector);
  std::int64_t step = t.strides[lies.row] * t.dims[lies.row];
  for (int i = t.rank - 3; i >= 0; --i) {
    t.strides[i] = step;
    step *= t.dims[i];
  }
  return t;
}
// Elements of the copy.
std::int64_t size_of(const TensorGeometry& copy, Dimensions d) {
  const Dimensions lies = along(copy, d);
  return element_count(copy) / copy.dims[lies.depth] * copy.strides[lies.row];
}

Problem inner_problem(const Problem& problem) {
  const Copies copies = copies_of(problem);
  Problem inner = problem;
  if (copies.of[0]) inner.a = copied(problem.a, dimensions_of(problem, 0));
  if (copies.of[1]) inner.b = copied(problem.b, dimensions_of(problem, 1));
  return inner;
}

std::int64_t copied_elements(const Problem& problem, int operand) {
  if (!copies_of(problem).of[operand]) return 0;
  const Dimensions d = dimensions_of(problem, operand);
  return size_of(copied(operand_of(problem, operand), d), d);
}
std::int64_t bytes_of_copy(const Problem& problem, int operand) {
  return round_up(2 * copied_elements(problem, operand), kCopyAlignment);
}

k::PadOperand copy_of(const TensorGeometry& tensor, Dimensions d) {
  const Dimensions lies = along(tensor, d);
  const Batched t = batched(tensor);
  const auto number = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
  k::PadOperand o;
  o.row_stride = tensor.strides[lies.row];
  for (int i = 0; i < kMaxBatchDims; ++i) o.batch_stride[i] = t.strides[i];
  o.width = number(tensor.dims[lies.depth]);
  const std::int64_t vectors = ceil_div(tensor.dims[lies.depth], std::int64_t{k::kPadVector});
  o.vectors = tile::FastDivmod(number(vectors));
  o.rows = tile::FastDivmod(number(tensor.dims[lies.row]));
  o.inner_batches = tile::FastDivmod(number(t.dims[1]));
  o.count = number(vectors * tensor.dims[lies.row] * t.dims[0] * t.dims[1]);
  return o;
}

}  // namespace

bool has_odd_rows(const Problem& problem) {
  const Copies copies = copies_of(problem);
  return data_type_bits(problem.a.type) == 16 && (copies.of[0] || copies.of[1]);
}

Support gemm_padded_sm90_supports(const Problem& problem, const Device& device) {
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 31;
  if (problem.a.type != GPUDNN_DATA_HALF && problem.a.type != GPUDNN_DATA_BFLOAT16) {
    return Support::no("it copies operands of 16 bits only");
  }
  if (depth(problem) < 1) return Support::no("there is nothing to sum");
  const Copies copies = copies_of(problem);
  if (!copies.of[0] && !copies.of[1]) return Support::no("the operands lie in rows that need no copy");
  for (int i = 0; i < 2; ++i) {
    const TensorGeometry& t = operand_of(problem, i);
    const Dimensions lies = along(t, dimensions_of(problem, i));
    if (t.dims[lies.depth] > 1 && t.strides[lies.depth] != 1) {
      return Support::no("an operand has neither contiguous rows nor columns");
    }
    if (copied_elements(problem, i) >= kMaxElements) return Support::no("a copy has 2^31 elements or more");
  }
  return gemm_sm90_supports(inner_problem(problem), device);
}

bool gemm_padded_sm90_takes_addresses(const Problem& problem, const Config& config, const Alignment& alignment) {
  const Copies copies = copies_of(problem);
  Alignment inner = alignment;
  if (copies.of[0]) inner.a = kMaxAlignment;
  if (copies.of[1]) inner.b = kMaxAlignment;
  return gemm_sm90_takes_addresses(problem, config, inner);
}

void gemm_padded_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const std::size_t first = candidates->size();
  gemm_sm90_candidates(inner_problem(problem), device, candidates);
  const auto bytes = static_cast<double>(4 * (copied_elements(problem, 0) + copied_elements(problem, 1)));
  const double copy = kCopyLaunch + bytes / (kCopyShare * device.rates.copy_bytes);
  for (std::size_t i = first; i < candidates->size(); ++i) (*candidates)[i].seconds += copy;
}

std::size_t gemm_padded_sm90_workspace(const Problem& problem, const Config&, const Device&) {
  return static_cast<std::size_t>(bytes_of_copy(problem, 0) + bytes_of_copy(problem, 1));
}

std::shared_ptr<const void> gemm_padded_sm90_prepare(const Problem& problem, const Config& config,
                                                     const Device& device) {
  auto prepared = std::make_shared<Prepared>();
  prepared->copies = copies_of(problem);
  prepared->at[1] = static_cast<std::size_t>(bytes_of_copy(problem, 0));
  prepared->workspace = gemm_padded_sm90_workspace(problem, config, device);
  for (int i = 0; i < 2; ++i) {
    if (prepared->copies.of[i]) prepared->operands.of[i] = copy_of(operand_of(problem, i), dimensions_of(problem, i));
  }
  prepared->inner = gemm_sm90_prepare(inner_problem(problem), config, device);
  return prepared->inner != nullptr ? prepared : nullptr;
}

Status gemm_padded_sm90_launch(const LaunchSite& site, const void* prepared_plan, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(prepared_plan);
  GPUDNN_REQUIRE(site.workspace_bytes >= prepared.workspace && site.workspace != nullptr, GPUDNN_STATUS_BAD_PARAM,
                 "the workspace has %zu bytes; this plan needs %zu", site.workspace_bytes, prepared.workspace);
  k::PadOperands operands = prepared.operands;
  Args inner = args;
  const void** const addresses[] = {&inner.a, &inner.b};
  for (int i = 0; i < 2; ++i) {
    if (!prepared.copies.of[i]) continue;
    operands.of[i].from = *addresses[i];
    operands.of[i].to = static_cast<char*>(site.workspace) + prepared.at[i];
    *addresses[i] = operands.of[i].to;
  }
  k::launch_pad_operands(operands, site.stream);
  GPUDNN_TRY(cuda::launch_status("pad_operands"));
  return gemm_sm90_launch(site, prepared.inner.get(), inner);
}

}  // namespace gpudnn::matmul
