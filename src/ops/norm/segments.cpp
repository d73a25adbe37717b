// The choice of groups, parts and blocks for a normalization over segments.
//
// A group is kept on chip where its parts hold it. Clusters need no scratch memory and meet in half a microsecond, but
// have at most 8 parts; a grid has as many as there are multiprocessors, and takes some 3 microseconds to meet.
// SPDX-License-Identifier: Apache-2.0
#include "ops/norm/segments.hpp"

#include <algorithm>

#include "core/integer.hpp"
#include "kernels/tile/loop_nest.hpp"
#include "ops/loop_nest.hpp"

namespace gpudnn::norm {
namespace {

using kernels::kSegmentSets;
using kernels::kSegmentThreads;
using kernels::NormSegments;
using kernels::NormWalk;

constexpr int kLargestCluster = 8;             // that every device with clusters must take
constexpr double kMemoryShare = 0.9;           // of a large copy's rate
constexpr double kMultiprocessorBytes = 23.5;  // in a cycle
constexpr double kLaunch = 4e-6;
constexpr double kBlockTurn = 1e-6;  // what joining a group takes: in a block, a cluster, the grid
constexpr double kClusterTurn = 2e-6;
constexpr double kGridTurn = 3e-6;
constexpr double kShareOfL2 = 0.6;  // that still holds what was read last

int element_bytes(const Problem& problem) { return data_type_bits(problem.x.type) / 8; }
int pack_width(const Problem& problem) { return 16 / element_bytes(problem); }

constexpr kernels::NormSlot kData[] = {kernels::kSlotX, kernels::kSlotOut, kernels::kSlotSide, kernels::kSlotDz};

// Whether all data tensors take the same steps, with the run contiguous.
bool in_step(const NormWalk& walk) {
  if (walk.lines.rank > 1 || walk.cross.rank > 1 || walk.access == 0) return false;
  for (const auto slot : kData) {
    if (walk.run > 1 && walk.step[slot] != 1) return false;
    if (walk.lines.strides[slot][0] != walk.lines.strides[kernels::kSlotX][0]) return false;
    if (walk.cross.strides[slot][0] != walk.cross.strides[kernels::kSlotX][0]) return false;
  }
  return true;
}

constexpr const char* kTooFar = "the tensor has more than 2^31 packs of 16 bytes from first to last";

// Steps in packs; false where an offset would need more than 32 bits.
bool set_steps(const NormWalk& walk, std::int64_t line, std::int64_t group, NormSegments* segments) {
  const int width = 8;
  const std::int64_t lines = walk.columns != 0 ? walk.cross.count : walk.lines.count;
  const std::int64_t others = walk.columns != 0 ? walk.run : walk.cross.count * std::max<std::int64_t>(group, 1);
  if (line > tile::kMaxIterations || group > tile::kMaxIterations || walk.run / width > tile::kMaxIterations ||
      line * lines > tile::kMaxIterations || others > tile::kMaxIterations ||
      line * lines + others + walk.run > tile::kMaxIterations) {
    return false;
  }
  segments->line_packs = static_cast<std::uint32_t>(line);
  segments->group_packs = static_cast<std::uint32_t>(group);
  return true;
}

const char* describe_rows(const Problem& problem, const NormWalk& walk, NormSegments* segments) {
  const int width = pack_width(problem);
  const std::int64_t line = walk.lines.strides[kernels::kSlotX][0];
  const std::int64_t cross = walk.cross.strides[kernels::kSlotX][0];
  int sets = 1;
  while (sets * walk.run % width != 0) sets *= 2;
  const std::int64_t units = sets * walk.run / width;
  if (walk.lines.count > 1 && line % width != 0) return "images do not begin at multiples of 16 bytes";
  if (sets > 1) {
    if (cross != walk.run || walk.cross.count % static_cast<unsigned>(sets) != 0) {
      return "channels do not come in packs of 16 bytes";
    }
    if (walk.run < width || units > kSegmentThreads) return "too few or too many elements in a channel's pixels";
    if (has_mask(problem)) return "a channel's pixels are no whole bytes of the mask";
  } else if (walk.cross.count > 1 && cross % width != 0) {
    return "channels do not begin at multiples of 16 bytes";
  }
  if (!set_steps(walk, walk.lines.count > 1 ? line / width : 0, cross * sets / width, segments)) return kTooFar;
  segments->units = tile::FastDivmod(static_cast<std::uint32_t>(units));
  segments->per_set = tile::FastDivmod(static_cast<std::uint32_t>(walk.run));
  segments->lines = walk.lines.count;
  segments->sets = sets;
  segments->groups = walk.cross.count / static_cast<unsigned>(sets);
  segments->last_units = static_cast<int>(units);
  segments->params_step = walk.cross.strides[kernels::kSlotParams][0];
  segments->stats_step = walk.cross.strides[kernels::kSlotStats][0];
  segments->mask_line = static_cast<std::int64_t>(walk.cross.count) * units;
  return nullptr;
}

const char* describe_columns(const Problem& problem, const NormWalk& walk, int lanes, NormSegments* segments) {
  const int width = pack_width(problem);
  const std::int64_t cross = walk.cross.strides[kernels::kSlotX][0];
  if (walk.lines.count != 1) return "the sets are not contiguous";
  if (walk.run % width != 0 || (walk.cross.count > 1 && cross % width != 0))
    return "pixels are no whole packs of 16 bytes";
  const std::int64_t units = walk.run / width;
  if (!set_steps(walk, walk.cross.count > 1 ? cross / width : 0, lanes, segments)) return kTooFar;
  segments->units = tile::FastDivmod(static_cast<std::uint32_t>(lanes));
  segments->per_set = tile::FastDivmod(1);
  segments->lines = walk.cross.count;
  segments->sets = lanes * width;
  segments->groups = static_cast<std::uint32_t>(ceil_div(units, lanes));
  segments->last_units = static_cast<int>(units - (ceil_div(units, lanes) - 1) * lanes);
  segments->params_step = walk.step[kernels::kSlotParams];
  segments->stats_step = walk.step[kernels::kSlotStats];
  segments->mask_line = units;
  return nullptr;
}

// Threads for a group in that many parts: its units fill the slots, or a chunk of each thread where they are few.
void set_threads(const Problem& problem, SegmentPlan* plan) {
  NormSegments& segments = plan->segments;
  const int unit = static_cast<int>(segments.units.divisor);
  const bool several = segments.sets > 1;
  const int chunk = kernels::segment_chunk(problem.pass == Pass::backward);
  const std::int64_t units = ceil_div(static_cast<std::int64_t>(segments.lines) * unit, plan->parts);
  const std::int64_t fill = ceil_div(units, static_cast<std::int64_t>(kernels::kSegmentSlots) * chunk);
  // A grid has one block on a multiprocessor. Of clusters its registers hold two blocks with so many threads.
  const int enough = segments.grid != 0 ? kSegmentThreads : kSegmentThreads / 2;
  int threads = i32(round_up(std::max<std::int64_t>(fill, std::min<std::int64_t>(ceil_div(units, chunk), enough)), 32));
  threads = std::clamp(threads, std::max(64, i32(round_up(segments.sets, 32))), kSegmentThreads);
  if (several && unit > threads) threads = i32(round_up(unit, 32));
  plan->threads = threads;
  segments.active = several ? threads / unit * unit : threads;
}

// Of the memory's rate, where the blocks of a grid at one time read pieces of that many bytes of each line.
double rate_of_pieces(std::int64_t bytes, std::int64_t line_bytes) {
  if (bytes >= std::min<std::int64_t>(line_bytes, 512)) return 1.0;
  return bytes >= 256 ? 0.8 : 0.65;  // measured on an H200: 128 of 512 bytes at 2.5 TB/s, all of them at 3.8
}

// What the model says of a plan whose parts and threads are set.
void set_seconds(const Device& device, const Problem& problem, const NormWalk& walk, SegmentPlan* plan) {
  const bool backward = problem.pass == Pass::backward;
  const NormSegments& segments = plan->segments;
  const int shared = kernels::segment_shared_bytes(segments, plan->parts, plan->threads, backward);
  if (shared > static_cast<int>(device.shared_memory_per_block)) {
    plan->reason_against = "a block's share does not fit its shared memory";
    return;
  }
  const int chunks = kernels::segment_chunks(segments, plan->parts, backward);
  const double kept = std::min(1.0, static_cast<double>(kernels::kSegmentSlots) / chunks);
  const double tensor = static_cast<double>(element_count(problem.x)) * element_bytes(problem);
  const auto turns = static_cast<double>(ceil_div(segments.groups, segments.groups_at_once));
  const double again = (backward ? 2 : 1) * tensor * (1 - kept);
  const double in_l2 = kShareOfL2 * static_cast<double>(device.l2_bytes) * turns;
  const double bytes = (backward ? 3 : 2) * tensor + std::max(0.0, again - in_l2);
  const double blocks = static_cast<double>(segments.groups_at_once) * plan->parts;
  const double at_work = std::min<double>(blocks, device.multiprocessors) / (plan->shares ? 2 : 1);
  double rate = std::min(kMemoryShare * device.rates.copy_bytes, at_work * kMultiprocessorBytes * device.rates.clock);
  if (walk.columns != 0) {
    const std::int64_t piece = static_cast<std::int64_t>(segments.groups_at_once) * segments.units.divisor * 16;
    rate *= rate_of_pieces(piece, walk.run * element_bytes(problem));
  }
  const double turn = segments.grid != 0 ? kGridTurn : plan->parts > 1 ? kClusterTurn : kBlockTurn;
  plan->seconds = kLaunch + bytes / rate + turns * turn;
}

void keep_better(const SegmentPlan& candidate, SegmentPlan* best) {
  if (candidate.reason_against != nullptr) {
    if (best->seconds == 0) best->reason_against = candidate.reason_against;
    return;
  }
  if (best->seconds == 0 || candidate.seconds < best->seconds) *best = candidate;
}

int resident_clusters(const Device& device, [[maybe_unused]] const Problem& problem, const SegmentPlan& plan) {
  if (!device.is_present()) return device.multiprocessors / plan.parts;  // as if each took one block
#ifdef GPUDNN_WITH_CUDA
  const bool backward = problem.pass == Pass::backward;
  const int shared = kernels::segment_shared_bytes(plan.segments, plan.parts, plan.threads, backward);
  return kernels::resident_segment_clusters(element_type(problem.x.type), backward, plan.parts, plan.threads, shared);
#else
  return 0;
#endif
}

// Whether blocks of the plan's clusters share a multiprocessor where there are enough for each to have its own: the
// groups of multiprocessors that clusters stay in are no multiples of their sizes. All wait for those blocks.
bool share_multiprocessors(const Device& device, const Problem& problem, const SegmentPlan& plan) {
  const int blocks = plan.segments.groups_at_once * plan.parts;
  if (plan.parts < 4 || blocks > device.multiprocessors || blocks * 4 < device.multiprocessors * 3) return false;
  SegmentPlan alone = plan;
  alone.threads = kSegmentThreads;  // of which no two fit
  const int clusters = resident_clusters(device, problem, alone);
  return clusters > 0 && clusters < plan.segments.groups_at_once;
}

// Clusters, as many as run side by side, each on one group after the other.
void try_clusters(const Device& device, const Problem& problem, const NormWalk& walk, const NormSegments& segments,
                  SegmentPlan* best) {
  for (int parts = 1; parts <= kLargestCluster; parts *= 2) {
    SegmentPlan plan;
    plan.segments = segments;
    plan.parts = parts;
    set_threads(problem, &plan);
    const int resident = resident_clusters(device, problem, plan);
    if (resident == 0) continue;
    const std::uint32_t turns =
        (segments.groups + static_cast<unsigned>(resident) - 1) / static_cast<unsigned>(resident);
    plan.segments.groups_at_once = static_cast<int>((segments.groups + turns - 1) / turns);
    plan.shares = turns == 1 && share_multiprocessors(device, problem, plan);
    set_seconds(device, problem, walk, &plan);
    keep_better(plan, best);
  }
}

// The whole grid, on as many groups at once as it keeps on chip, or as make whole lines.
void try_grid(const Device& device, const Problem& problem, const NormWalk& walk, const NormSegments& segments,
              SegmentPlan* best) {
  const int blocks = device.multiprocessors;
  for (int at_once = 1; at_once <= blocks && at_once <= static_cast<int>(segments.groups); ++at_once) {
    if (static_cast<int>(segments.groups) % at_once != 0) continue;
    SegmentPlan plan;
    plan.segments = segments;
    plan.segments.grid = 1;
    plan.segments.groups_at_once = at_once;
    plan.parts = blocks / at_once;
    plan.scratch = static_cast<std::size_t>(segments.groups) * static_cast<std::size_t>(plan.parts) *
                   static_cast<std::size_t>(segments.sets) * 8;
    if (plan.scratch > problem.scratch) continue;
    set_threads(problem, &plan);
    set_seconds(device, problem, walk, &plan);
    keep_better(plan, best);
  }
}

const char* reason_against(const Device& device, const Problem& problem, const NormWalk& walk) {
  if (!device.has_clusters()) return "it is built for compute capability 9.0";
  if (problem.alignment < 16) return "a pointer is no multiple of 16 bytes";
  if (problem.pass == Pass::infer) return "inference needs one pass";
  if (problem.x.type == GPUDNN_DATA_DOUBLE) return "double goes element by element";
  if (problem.pass == Pass::backward && !problem.saved) return "backward without saved statistics has three passes";
  if (has_mask(problem) && pack_width(problem) != kernels::kUnit) return "a byte of the mask is two packs";
  return in_step(walk) ? nullptr : "the tensors differ in their strides, or have more than one loop";
}

}  // namespace

SegmentPlan plan_segments(const Device& device, const Problem& problem, const NormWalk& walk) {
  SegmentPlan best;
  best.reason_against = reason_against(device, problem, walk);
  if (best.reason_against != nullptr) return best;
  const auto consider = [&](const NormSegments& segments) {
    if (static_cast<std::int64_t>(segments.lines) * segments.units.divisor > tile::kMaxIterations / 2) return;
    try_clusters(device, problem, walk, segments, &best);
    try_grid(device, problem, walk, segments, &best);
  };
  NormSegments segments;
  if (walk.columns == 0) {
    best.reason_against = describe_rows(problem, walk, &segments);
    if (best.reason_against == nullptr) consider(segments);
  } else {
    // Pieces of 128 bytes and more, or all there is.
    const std::int64_t packs = walk.run / pack_width(problem);
    for (int lanes = 1; lanes * pack_width(problem) <= kSegmentSets && lanes < 2 * packs; lanes *= 2) {
      if (lanes < 8 && lanes < packs) continue;
      best.reason_against = describe_columns(problem, walk, lanes, &segments);
      if (best.reason_against != nullptr) return best;
      consider(segments);
    }
  }
  if (best.seconds != 0) {
    best.reason_against = nullptr;
  } else if (best.reason_against == nullptr) {
    best.reason_against = "a group has more than 2^30 packs";
  }
  return best;
}

bool describe_infer(const Problem& problem, const NormWalk& walk, kernels::NormInfer* infer) {
  if (problem.alignment < 16 || problem.x.type == GPUDNN_DATA_DOUBLE || !in_step(walk)) return false;
  const int width = pack_width(problem);
  const std::int64_t cross = walk.cross.strides[kernels::kSlotX][0];
  infer->columns = walk.columns;
  infer->params_step =
      walk.columns != 0 ? walk.step[kernels::kSlotParams] : walk.cross.strides[kernels::kSlotParams][0];
  infer->stats_step = walk.columns != 0 ? walk.step[kernels::kSlotStats] : walk.cross.strides[kernels::kSlotStats][0];
  if (walk.columns != 0) {
    if (walk.lines.count != 1 || walk.run % width != 0 || (walk.cross.count > 1 && cross % width != 0)) return false;
    infer->lines = walk.cross.count;
    infer->line_stride = walk.cross.count > 1 ? cross : 0;
    if (walk.run / width > tile::kMaxIterations / width) return false;
    infer->line_packs = static_cast<std::uint32_t>(walk.run / width);
    infer->lanes = 1;
    while (infer->lanes < 32 && infer->lanes < static_cast<int>(infer->line_packs)) infer->lanes *= 2;
    return true;
  }
  const std::int64_t elements = element_count(problem.x);
  const std::int64_t sets = walk.cross.count;
  const bool gapless = (sets == 1 || cross == walk.run) &&
                       (walk.lines.count == 1 || walk.lines.strides[kernels::kSlotX][0] == sets * walk.run);
  if (!gapless || walk.run < width || elements % width != 0 || elements > tile::kMaxIterations) return false;
  infer->packs = static_cast<std::uint32_t>(elements / width);
  infer->run = tile::FastDivmod(static_cast<std::uint32_t>(walk.run));
  infer->sets = tile::FastDivmod(static_cast<std::uint32_t>(sets));
  return true;
}

}  // namespace gpudnn::norm
