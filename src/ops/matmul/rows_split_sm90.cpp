// Products of floats as 1x1 convolutions by fp32_split_sm90.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/rows_split_sm90.hpp"

#include <cuda_runtime_api.h>

#include "core/integer.hpp"
#include "ops/conv/engine.hpp"

namespace gpudnn::conv {
extern const ConvEngine kFp32SplitSm90;
}  // namespace gpudnn::conv

namespace gpudnn::matmul {
namespace {

const conv::ConvEngine& engine() { return conv::kFp32SplitSm90; }

constexpr std::int64_t kVector = 4;  // floats of 16 bytes
constexpr std::int64_t kCopyAlignment = 256;
constexpr double kCopyShare = 0.5;  // of a copy's rate, that a copy of rows reaches
constexpr double kCopyLaunch = 3e-6;

// Rows of floats, in bytes, and where their copy lies in the workspace. Of a sum over rows a, b or d may need one: a
// copy's rows are whole vectors, and what they have more only makes more of d that nobody reads.
struct Rows {
  std::int64_t width = 0;
  std::int64_t count = 0;
  std::int64_t pitch = 0;
  std::int64_t to_pitch = 0;  // 0: they are not copied
  std::int64_t to_count = 0;
  std::size_t at = 0;
};
struct Prepared {
  bool is_wgrad = false;
  Rows a, b, d;
  std::size_t inner_at = 0;
  std::size_t workspace = 0;
  std::shared_ptr<const void> inner;
};

// Rows of channels; what is beyond two dimensions is 1.
TensorGeometry pixels(std::int64_t rows, std::int64_t channels, std::int64_t row_stride, std::int64_t channel_stride) {
  TensorGeometry t;
  t.type = GPUDNN_DATA_FLOAT;
  t.rank = 4;
  const std::int64_t step = row_stride > 0 ? row_stride : channels;
  t.dims[0] = rows, t.dims[1] = channels, t.dims[2] = t.dims[3] = 1;
  t.strides[0] = step, t.strides[1] = channel_stride, t.strides[2] = t.strides[3] = step;
  return t;
}

std::int64_t row_stride_of(const TensorGeometry& t) { return t.strides[t.rank - 2]; }
std::int64_t column_stride_of(const TensorGeometry& t) { return t.strides[t.rank - 1]; }

// d[m, n] is the gradient of a filter by pixels whose channels are m and n, where both operands lie along these.
bool sums_over_rows(const Problem& problem) {
  return row_stride_of(problem.a) == 1 && column_stride_of(problem.b) == 1 && depth(problem) > 1;
}

// `width` columns of `count` rows; a d has its copy's rows in whole vectors, too, and without gaps.
Rows rows_of(std::int64_t width, std::int64_t count, std::int64_t stride, bool is_d, std::int64_t count_of_copy) {
  constexpr auto kBytes = static_cast<std::int64_t>(sizeof(float));
  Rows r = {width * kBytes, count, (count > 1 ? stride : width) * kBytes};
  const bool fits =
      width % kVector == 0 && (is_d ? stride == width || count == 1 : stride % kVector == 0) && count == count_of_copy;
  if (fits) return r;
  r.to_pitch = round_up(width, kVector) * kBytes;
  r.to_count = count_of_copy;
  return r;
}
struct Copies {
  Rows a, b, d;
  [[nodiscard]] std::int64_t bytes() const { return size_of(a) + size_of(b) + size_of(d); }
  [[nodiscard]] static std::int64_t size_of(const Rows& r) { return round_up(r.to_pitch * r.to_count, kCopyAlignment); }
};
Copies copies_of(const Problem& problem) {
  if (!sums_over_rows(problem)) return {};
  const std::int64_t m = rows(problem);
  const std::int64_t n = columns(problem);
  const std::int64_t k = depth(problem);
  return {rows_of(m, k, column_stride_of(problem.a), false, k), rows_of(n, k, row_stride_of(problem.b), false, k),
          rows_of(n, m, row_stride_of(problem.d), true, round_up(m, kVector))};
}

conv::Problem convolution_of(const Problem& problem) {
  conv::Problem c;
  c.math = problem.math;
  for (int i = 0; i < 2; ++i) c.stride[i] = c.dilation[i] = 1;
  const std::int64_t m = rows(problem);
  const std::int64_t n = columns(problem);
  const std::int64_t k = depth(problem);
  if (sums_over_rows(problem)) {
    const Copies copies = copies_of(problem);
    const std::int64_t m4 = round_up(m, kVector);
    const std::int64_t n4 = round_up(n, kVector);
    c.direction = conv::Direction::wgrad;
    c.y = pixels(k, m4, copies.a.to_pitch > 0 ? m4 : column_stride_of(problem.a), 1);
    c.x = pixels(k, n4, copies.b.to_pitch > 0 ? n4 : row_stride_of(problem.b), 1);
    c.w = pixels(m4, n4, n4, 1);
  } else {
    c.direction = conv::Direction::forward;
    c.x = pixels(m, k, row_stride_of(problem.a), column_stride_of(problem.a));
    c.w = pixels(n, k, column_stride_of(problem.b), row_stride_of(problem.b));
    c.y = pixels(m, n, row_stride_of(problem.d), 1);
    if (problem.c.rank > 0) {
      c.has_z = 1;
      c.z = c.y;
    }
  }
  return c;
}

std::string text_of(const conv::Config& config) {
  return std::string(config.tile_name) + " splits=" + std::to_string(config.split_k);
}

// The convolution's candidate of this text. False: there is none.
bool candidate_of(const Problem& problem, const Config& config, const Device& device, conv::Candidate* found) {
  std::vector<conv::Candidate> all;
  engine().candidates(convolution_of(problem), device, &all);
  for (const conv::Candidate& candidate : all) {
    if (text_of(candidate.config) != config) continue;
    *found = candidate;
    return true;
  }
  return false;
}

}  // namespace

Support rows_split_sm90_supports(const Problem& problem, const Device& device) {
  if (problem.a.type != GPUDNN_DATA_FLOAT || problem.b.type != GPUDNN_DATA_FLOAT ||
      problem.d.type != GPUDNN_DATA_FLOAT) {
    return Support::no("it splits floats only");
  }
  if (batches(problem) != 1) return Support::no("it makes one product, not a batch");
  if (depth(problem) < 1) return Support::no("there is nothing to sum");
  if (problem.bias.rank > 0 || problem.scales != 0 || problem.overrides != 0 ||
      problem.activation != Activation::identity) {
    return Support::no("it has no epilogue but an addend");
  }
  if (problem.d.dims[problem.d.rank - 1] > 1 && column_stride_of(problem.d) != 1) {
    return Support::no("d is not contiguous along n");
  }
  if (problem.c.rank > 0 &&
      (problem.c.type != GPUDNN_DATA_FLOAT || row_stride_of(problem.c) != row_stride_of(problem.d) ||
       column_stride_of(problem.c) != column_stride_of(problem.d))) {
    return Support::no("c does not lie as d does");
  }
  return engine().supports(convolution_of(problem), device);
}

bool rows_split_sm90_takes_addresses(const Problem& problem, const Config&, const Alignment& alignment) {
  const Copies copies = copies_of(problem);
  const auto fits = [](const Rows& r, std::uint32_t alignment_of) {
    return r.to_pitch > 0 || alignment_of >= kMaxAlignment;
  };
  return fits(copies.a, alignment.a) && fits(copies.d, alignment.d) &&
         (!sums_over_rows(problem) || fits(copies.b, alignment.b));
}

void rows_split_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  std::vector<conv::Candidate> all;
  engine().candidates(convolution_of(problem), device, &all);
  const Copies copies = copies_of(problem);
  double seconds = 2 * static_cast<double>(copies.bytes()) / (kCopyShare * device.rates.copy_bytes);
  for (const Rows& r : {copies.a, copies.b, copies.d}) seconds += r.to_pitch > 0 ? kCopyLaunch : 0;
  for (const conv::Candidate& candidate : all) {
    candidates->push_back({text_of(candidate.config), candidate.seconds + seconds});
  }
}

std::size_t rows_split_sm90_workspace(const Problem& problem, const Config& config, const Device& device) {
  conv::Candidate candidate;
  if (!candidate_of(problem, config, device, &candidate)) return 0;
  return candidate.workspace + static_cast<std::size_t>(copies_of(problem).bytes());
}

std::shared_ptr<const void> rows_split_sm90_prepare(const Problem& problem, const Config& config,
                                                    const Device& device) {
  conv::Candidate candidate;
  if (!candidate_of(problem, config, device, &candidate)) return nullptr;
  const conv::Problem c = convolution_of(problem);
  const Copies copies = copies_of(problem);
  auto prepared = std::make_shared<Prepared>();
  prepared->is_wgrad = c.direction == conv::Direction::wgrad;
  for (const auto& [to, from] :
       {std::pair(&prepared->a, copies.a), std::pair(&prepared->b, copies.b), std::pair(&prepared->d, copies.d)}) {
    *to = from;
    to->at = prepared->inner_at;
    prepared->inner_at += static_cast<std::size_t>(Copies::size_of(from));
  }
  prepared->workspace = prepared->inner_at + candidate.workspace;
  prepared->inner = engine().prepare(c, candidate.config, device);
  return prepared->inner != nullptr ? prepared : nullptr;
}

namespace {

cudaError_t copy_rows(void* to, std::int64_t to_pitch, const void* from, std::int64_t pitch, const Rows& r,
                      cudaStream_t stream) {
  const auto size = [](std::int64_t x) { return static_cast<std::size_t>(x); };
  return cudaMemcpy2DAsync(to, size(to_pitch), from, size(pitch), size(r.width), size(r.count),
                           cudaMemcpyDeviceToDevice, stream);
}

Status launch_sum_over_rows(const LaunchSite& site, const Prepared& prepared, const Args& args) {
  GPUDNN_REQUIRE(site.workspace_bytes >= prepared.workspace, GPUDNN_STATUS_BAD_PARAM,
                 "the workspace has %zu bytes; this plan needs %zu", site.workspace_bytes, prepared.workspace);
  auto* const workspace = static_cast<char*>(site.workspace);
  const auto copied = [&](const void* from, const Rows& r) -> const void* {
    if (r.to_pitch == 0) return from;
    (void)copy_rows(workspace + r.at, r.to_pitch, from, r.pitch, r, site.stream);
    return workspace + r.at;
  };
  const Rows& d = prepared.d;
  const bool copies_d = d.to_pitch > 0;
  conv::Args c;
  c.alpha = args.alpha;
  c.y = copied(args.a, prepared.a);
  c.x = copied(args.b, prepared.b);
  c.out = copies_d ? workspace + d.at : args.d;
  if (args.c != nullptr && args.beta != 0) {  // it adds to what is there
    c.beta = args.beta;
    if (copies_d || args.c != args.d) {
      (void)copy_rows(c.out, copies_d ? d.to_pitch : d.pitch, args.c, d.pitch, d, site.stream);
    }
  }
  LaunchSite inner = site;
  inner.workspace = workspace + prepared.inner_at;
  inner.workspace_bytes = site.workspace_bytes - prepared.inner_at;
  GPUDNN_TRY(engine().launch(inner, prepared.inner.get(), c));
  if (copies_d) (void)copy_rows(args.d, d.pitch, c.out, d.to_pitch, d, site.stream);
  return cuda::launch_status("copies of rows");
}

}  // namespace

Status rows_split_sm90_launch(const LaunchSite& site, const void* prepared_plan, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(prepared_plan);
  if (prepared.is_wgrad) return launch_sum_over_rows(site, prepared, args);
  conv::Args c;
  c.alpha = args.alpha;
  c.out = args.d;
  c.x = args.a, c.w = args.b;
  c.z = args.c, c.alpha2 = args.c != nullptr ? args.beta : 0;
  return engine().launch(site, prepared.inner.get(), c);
}

}  // namespace gpudnn::matmul
