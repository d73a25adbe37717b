// Launcher of convolution by way of packed channels-last copies.
//
// Each output element is rounded once: the inner engine forms alpha * conv + beta * out (or the fused epilogue) on the
// packed output, which is of the output's type, and unpacking copies bits. So the old output is packed too where beta
// is not zero.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/transpose/nhwc_transpose_cuda.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "ops/conv/select/heuristics.hpp"
#include "ops/conv/tensor_math.hpp"
#include "ops/conv/transpose/nhwc_transpose_packing.hpp"

namespace gpudnn::conv {
namespace {

namespace layout = kernels::channels_last;

// Config.tile: the inner engine's tile, its index in engines(), and whether channels are padded.
constexpr int kTileBits = 12;
constexpr int kEngineBits = 8;

struct Inner {
  const ConvEngine* engine;
  Config config;
  bool padded;
};
std::int32_t encode(std::size_t engine, std::int32_t tile, bool padded) {
  return static_cast<std::int32_t>((static_cast<std::size_t>(padded) << (kTileBits + kEngineBits)) |
                                   (engine << kTileBits)) |
         tile;
}
Inner decode(const Config& config) {
  const auto index = static_cast<std::size_t>(config.tile >> kTileBits & ((1 << kEngineBits) - 1));
  return {&engines()[index],
          {config.tile & ((1 << kTileBits) - 1), config.split_k},
          (config.tile >> (kTileBits + kEngineBits) & 1) != 0};
}

bool may_be_inner(const ConvEngine& engine) {
  return engine.backend == GPUDNN_BACKEND_CUDA && engine.math == GPUDNN_TENSOR_OP_MATH && !engine.copies;
}

constexpr Limits kNoLimits = {std::numeric_limits<std::size_t>::max(), kMaxAlignment};

// The candidates that are offered: the fastest few in order, and the one with the least memory.
struct Offer {
  static constexpr std::size_t kFastest = 4;
  std::array<Candidate, kFastest> fastest;
  std::size_t count = 0;
  Candidate leanest;

  Offer() {
    leanest.workspace = std::numeric_limits<std::size_t>::max();
    for (Candidate& c : fastest) c.seconds = std::numeric_limits<double>::infinity();
  }
  // Of a candidate that takes these seconds and bytes or more.
  [[nodiscard]] bool has_no_use_for(double seconds, std::size_t workspace) const {
    return seconds > fastest.back().seconds &&
           (workspace > leanest.workspace || (workspace == leanest.workspace && seconds > leanest.seconds));
  }
  void show(const Candidate& c) {
    if (c.workspace < leanest.workspace || (c.workspace == leanest.workspace && c.seconds < leanest.seconds)) {
      leanest = c;
    }
    if (c.seconds >= fastest.back().seconds) return;
    fastest.back() = c;
    count = std::min(count + 1, kFastest);
    for (std::size_t i = kFastest - 1; i > 0 && fastest[i].seconds < fastest[i - 1].seconds; --i) {
      std::swap(fastest[i], fastest[i - 1]);
    }
  }
  void append_to(std::vector<Candidate>* candidates) const {
    bool has_leanest = count == 0;
    for (std::size_t i = 0; i < count; ++i) {
      candidates->push_back(fastest[i]);
      has_leanest = has_leanest || fastest[i].config == leanest.config;
    }
    if (!has_leanest) candidates->push_back(leanest);
  }
};

struct NhwcTransposePlan {
  NhwcForm form;
  const ConvEngine* engine;
  std::shared_ptr<const void> prepared;
  std::size_t inner_workspace;
  std::size_t workspace;
};

// Calls body(form, padded) for the outline of the padded form, and of the one as it is where that differs.
template <class Body>
const char* for_each_form(const Problem& problem, Body&& body) {
  NhwcOutline form;
  const char* const reason = outline_nhwc_form(problem, true, &form);
  if (reason == nullptr) body(form, true);
  const bool same = form.inner.w.dims[0] == problem.w.dims[0] && form.inner.w.dims[1] == problem.w.dims[1];
  if (same) return reason;
  const char* const other = outline_nhwc_form(problem, false, &form);
  if (other == nullptr) body(form, false);
  return other == nullptr ? nullptr : reason;
}

template <class Operand>
std::size_t total_workspace(const NhwcFormOf<Operand>& form, std::size_t inner) {
  return form.bytes + inner + kPackingAlignment - 1;  // with room to align the caller's pointer
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

// The copies before, the inner kernel, the copy of its output.
Status launch_copies_and_kernel(const LaunchSite& site, const NhwcTransposePlan& plan, const Args& args) {
  const NhwcForm& form = plan.form;
  GPUDNN_REQUIRE(site.workspace != nullptr && site.workspace_bytes >= plan.workspace, GPUDNN_STATUS_BAD_PARAM,
                 "the workspace has %zu bytes; this plan needs %zu", site.workspace_bytes, plan.workspace);
  const auto address = reinterpret_cast<std::uintptr_t>(site.workspace);
  char* const base =
      static_cast<char*>(site.workspace) + (kPackingAlignment - address % kPackingAlignment) % kPackingAlignment;

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
  const LaunchSite inner_site = {site.device, site.stream, plan.inner_workspace > 0 ? base + form.bytes : nullptr,
                                 plan.inner_workspace};
  GPUDNN_TRY(plan.engine->launch(inner_site, plan.prepared.get(), inner));
  if (!out.packed) return GPUDNN_STATUS_SUCCESS;
  layout::launch_unpack({&out.task, args.out, base + out.offset}, site.device.compute_capability() == 90, site.stream);
  return cuda::launch_status("channels_last unpack");
}

}  // namespace

Support nhwc_transpose_supports(const Problem& problem, const Device& device) {
  bool taken = false;
  const char* const reason = for_each_form(problem, [&](const NhwcOutline& form, bool) {
    // From the end: the most general ones say yes the soonest.
    const std::span<const ConvEngine> list = engines();
    for (std::size_t i = list.size(); i-- > 0 && !taken;) {
      taken = may_be_inner(list[i]) && static_cast<bool>(list[i].supports(form.inner, device));
    }
  });
  if (taken) return Support::yes();
  return Support::no(reason != nullptr ? reason : "no tensor-core engine takes its channels-last form");
}

void nhwc_transpose_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  Offer offer;
  const CandidateList list_of_candidates;
  std::vector<Candidate>& inner = list_of_candidates.get();
  (void)for_each_form(problem, [&](const NhwcOutline& form, bool padded) {
    const std::span<const ConvEngine> list = engines();
    for (std::size_t i = 0; i < list.size(); ++i) {
      const ConvEngine& engine = list[i];
      if (!may_be_inner(engine)) continue;
      const auto least = engine.closer_seconds != nullptr ? engine.closer_seconds : engine.least_seconds;
      const bool hopeless =
          least != nullptr && offer.has_no_use_for(least(form.inner, device) + form.seconds, total_workspace(form, 0));
      if (hopeless || !engine.supports(form.inner, device)) continue;
      inner.clear();
      engine.candidates(form.inner, device, &inner);
      for (const Candidate& c : inner) {
        offer.show({{encode(i, c.config.tile, padded), c.config.split_k},
                    c.seconds + form.seconds,
                    total_workspace(form, c.workspace)});
      }
    }
  });
  offer.append_to(candidates);
}

// candidates() shows its fastest in the order of forms, engines and their candidates, and of equals the first.
[[gnu::hot]] bool nhwc_transpose_fastest(const Problem& problem, const Device& device, double bound,
                                         Candidate* fastest) {
  bool found = false;
  (void)for_each_form(problem, [&](const NhwcOutline& form, bool padded) {
    Choice best;
    best.seconds = bound;
    if (!find_best(engines(), form.inner, device, kNoLimits, true, form.seconds, &best)) return;
    if (found && best.seconds == bound) return;
    found = true;
    bound = best.seconds;
    const auto index = static_cast<std::size_t>(best.engine - engines().data());
    *fastest = {{encode(index, best.config.tile, padded), best.config.split_k},
                best.seconds,
                total_workspace(form, best.workspace)};
  });
  return found;
}

// The copies always need one.
void nhwc_transpose_lean_candidates(const Problem&, const Device&, std::vector<Candidate>*) {}

[[gnu::hot]] double nhwc_transpose_least_seconds(const Problem& problem, const Device& device) {
  if (tensor_math_unsupported_reason(problem) != nullptr) return 0;  // supports() says so as quickly
  // An inner kernel is launched once at least, and not faster than memory or the matrix units, by any engine's model.
  constexpr double kLaunch = 2.5e-6;
  constexpr double kBytes = 4.27e12 / 132;  // of a multiprocessor, in a second
  constexpr double kHalfFlops = 990e12 / 132;
  constexpr double kTf32Flops = 495e12 / 132;
  constexpr double kRoundedDown = 1 - 1e-9;  // keeps a bound below what it bounds
  const LeastForm least = least_form(problem);
  const double flops =
      2 * least_reached(problem) * static_cast<double>(problem.y.dims[1] * problem.w.dims[1]) * least.wider;
  const double products = flops / (problem.x.type != GPUDNN_DATA_FLOAT ? kHalfFlops : kTf32Flops);
  const double busy = std::max(products, least.bytes / kBytes);
  return least.seconds + kRoundedDown * (kLaunch + busy / std::max(device.multiprocessors, 1));
}

std::size_t nhwc_transpose_workspace(const Problem& problem, const Config& config) {
  const Inner inner = decode(config);
  NhwcOutline form;
  if (outline_nhwc_form(problem, inner.padded, &form) != nullptr) return 0;
  return total_workspace(form, inner.engine->workspace(form.inner, inner.config));
}

std::shared_ptr<const void> nhwc_transpose_prepare(const Problem& problem, const Config& config, const Device& device) {
  const Inner inner = decode(config);
  auto plan = std::make_shared<NhwcTransposePlan>();
  (void)make_nhwc_form(problem, inner.padded, &plan->form);  // the candidate exists, so it succeeds
  plan->engine = inner.engine;
  plan->prepared = inner.engine->prepare(plan->form.inner, inner.config, device);
  plan->inner_workspace = inner.engine->workspace(plan->form.inner, inner.config);
  plan->workspace = total_workspace(plan->form, plan->inner_workspace);
  return plan;
}

Status nhwc_transpose_launch(const LaunchSite& site, const void* prepared, const Args& args) {
  const auto& plan = *static_cast<const NhwcTransposePlan*>(prepared);
  return cuda::launch_together(site, [&] { return launch_copies_and_kernel(site, plan, args); });
}

}  // namespace gpudnn::conv
