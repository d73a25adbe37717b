// Launcher of convolution by way of packed channels-last copies.
//
// Each output element is rounded once: the inner engine forms alpha * conv + beta * out (or the fused epilogue) on the
// packed output, which is of the output's type, and unpacking copies bits. So the old output is packed too where beta
// is not zero.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "ops/conv/engine.hpp"
#include "ops/conv/launch_workspace.hpp"
#include "ops/conv/select/heuristics.hpp"
#include "ops/conv/select/tuning_cache.hpp"
#include "ops/conv/transpose/nhwc_transpose_packing.hpp"

namespace gpudnn::conv {

extern const ConvEngine kFp32SplitSm90;
extern const ConvEngine kNhwcTranspose;

namespace {

namespace layout = kernels::channels_last;

Status launch(const LaunchSite& site, const void* prepared, const Args& args);

constexpr double kCopyShare = 0.75;  // of a copy's rate, that transpositions reach
constexpr double kCopyLaunch = 4.0e-6;

bool may_be_inner(const ConvEngine& engine) {
  const bool has_tensor_cores = engine.math == GPUDNN_TENSOR_OP_MATH || engine.launch == kFp32SplitSm90.launch;
  return engine.backend == GPUDNN_BACKEND_CUDA && has_tensor_cores && engine.launch != &launch;
}

struct NhwcTransposePlan {
  NhwcForm form;
  const ConvEngine* engine;
  std::shared_ptr<const void> prepared;
};

// Calls body(form, padded) for the padded form, and for the one as it is where that differs.
template <class Body>
const char* for_each_form(const Problem& problem, Body&& body) {
  NhwcForm form;
  const char* const reason = make_nhwc_form(problem, true, &form);
  if (reason == nullptr) body(form, true);
  const bool same = form.inner.w.dims[0] == problem.w.dims[0] && form.inner.w.dims[1] == problem.w.dims[1];
  if (same) return reason;
  const char* const other = make_nhwc_form(problem, false, &form);
  if (other == nullptr) body(form, false);
  return other == nullptr ? nullptr : reason;
}

// The copies of the pass before the inner kernel.
struct Before {
  int count = 0;
  layout::Copy of[layout::kMaxCopies];
};

// The caller's pointer, or the packed copy that the pass before the inner kernel will make.
const void* take(const PackedOperand& operand, const void* data, char* base, Before* before) {
  if (!operand.packed || data == nullptr) return data;
  // Packing only reads it.
  layout::Copy copy = {&operand.task, const_cast<void*>(data), base + operand.offset};  // NOLINT
  before->of[before->count++] = copy;
  return copy.packed;
}

// By name; what GPUDNN_ENGINES pins is the engine around it.
bool is_left_out(const ConvEngine& engine) {
  return std::ranges::find(engine_wishes().excluded, engine.name) != engine_wishes().excluded.end();
}

Support supports(const Problem& problem, const Device& device) {
  if (const char* const against = integer_unsupported_reason(problem)) return Support::no(against);
  bool taken = false;
  const char* const reason = for_each_form(problem, [&](const NhwcForm& form, bool) {
    for (const ConvEngine& engine : engines()) {
      taken = taken || (may_be_inner(engine) && !is_left_out(engine) && engine.supports(form.inner, device));
    }
  });
  if (taken) return Support::yes();
  return Support::no(reason != nullptr ? reason : "no tensor-core engine takes its channels-last form");
}

// The fastest few of all inner engines' candidates on both forms, the one with the least memory, and those that were
// measured, whatever their models say.
void candidates(const Problem& problem, const Device& device, std::vector<Candidate>* found) {
  constexpr std::size_t kFastest = 4;
  std::vector<Candidate> all;
  (void)for_each_form(problem, [&](const NhwcForm& form, bool padded) {
    for (const ConvEngine& engine : engines()) {
      if (!may_be_inner(engine) || is_left_out(engine) || !engine.supports(form.inner, device)) continue;
      const std::size_t first = all.size();
      engine.candidates(form.inner, device, &all);
      for (std::size_t i = first; i < all.size(); ++i) {
        all[i].config.inner = &engine;
        all[i].config.padded = padded;
        all[i].config.sums_workspace = nullptr;
        all[i].seconds += form.dram_bytes / (kCopyShare * device.rates.copy_bytes) + form.launches * kCopyLaunch;
        all[i].workspace += form.bytes + kPackingAlignment - 1;  // with room to align the caller's pointer
      }
    }
  });
  std::stable_sort(all.begin(), all.end(),
                   [](const Candidate& a, const Candidate& b) { return a.seconds < b.seconds; });
  const auto smallest = std::min_element(
      all.begin(), all.end(), [](const Candidate& a, const Candidate& b) { return a.workspace < b.workspace; });
  const auto first = static_cast<std::ptrdiff_t>(found->size());
  for (auto c = all.begin(); c != all.end(); ++c) {
    if (c < all.begin() + kFastest || c == smallest) found->push_back(*c);
  }
  for (const std::vector<TunedRow>& rows : {measured_rows(problem, device), tuning_cache().find(problem, device)}) {
    for (const TunedRow& row : rows) {
      if (!row.choice.starts_with(kNhwcTranspose.name)) continue;
      const auto is_named = [&row](const Candidate& c) { return names(row, {&kNhwcTranspose, c.config}); };
      if (std::any_of(found->begin() + first, found->end(), is_named)) continue;
      const auto named = std::ranges::find_if(all, is_named);
      if (named != all.end()) found->push_back(*named);
    }
  }
}

std::shared_ptr<const void> prepare(const Problem& problem, const Config& config, const Device& device) {
  auto plan = std::make_shared<NhwcTransposePlan>();
  (void)make_nhwc_form(problem, config.padded, &plan->form);  // the candidate exists, so it succeeds
  plan->engine = config.inner;
  Config inner = config;
  inner.inner = nullptr;
  plan->prepared = plan->engine->prepare(plan->form.inner, inner, device);
  return plan;
}

// The copies before, the inner kernel, the copy of its output.
Status launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& plan = *static_cast<const NhwcTransposePlan*>(prepared);
  const NhwcForm& form = plan.form;
  GPUDNN_TRY(require_workspace(site, form.bytes + kPackingAlignment - 1));
  char* const base = static_cast<char*>(align_up(site.workspace, kPackingAlignment));

  const PackedOperand& out = output(form);
  Before before;
  Args inner = args;
  if (&out != &form.x) inner.x = take(form.x, args.x, base, &before);
  if (&out != &form.w) inner.w = take(form.w, args.w, base, &before);
  if (&out != &form.y) inner.y = take(form.y, args.y, base, &before);
  inner.z = take(form.z, args.z, base, &before);
  inner.bias = take(form.bias, args.bias, base, &before);
  if (out.packed) {
    if (args.beta != 0) (void)take(out, args.out, base, &before);
    inner.out = base + out.offset;
  }
  if (before.count > 0) {
    layout::launch_pack(before.of, before.count, site.stream);
    GPUDNN_TRY(cuda::launch_status("channels_last pack"));
  }
  char* const rest = base + form.bytes;
  const char* const end = static_cast<char*>(site.workspace) + site.workspace_bytes;
  const LaunchSite inner_site = {site.device, site.stream, rest, static_cast<std::size_t>(end - rest)};
  GPUDNN_TRY(plan.engine->launch(inner_site, plan.prepared.get(), inner));
  if (!out.packed) return GPUDNN_STATUS_SUCCESS;
  layout::launch_unpack({&out.task, args.out, base + out.offset}, site.device.compute_capability() == 90, site.stream);
  return cuda::launch_status("channels_last unpack");
}

}  // namespace

extern const ConvEngine kNhwcTranspose = {.name = "nhwc_transpose",
                                          .math = GPUDNN_TENSOR_OP_MATH,
                                          .alignment = 16,
                                          .supports = &supports,
                                          .candidates = &candidates,
                                          .prepare = &prepare,
                                          .launch = &launch};

}  // namespace gpudnn::conv
