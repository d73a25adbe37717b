// Dropout on the host: the masks are the CUDA backend's, bit for bit.
// SPDX-License-Identifier: Apache-2.0
#include "host/dropout.hpp"

#include <algorithm>
#include <array>

#include "core/parallel.hpp"
#include "host/element.hpp"
#include "ops/loop_nest.hpp"

namespace gpudnn::host {
namespace {

using dropout::Args;
using dropout::Problem;
using kernels::kMaskGroup;
using kernels::kMaskHeader;

// The byte of a group of 8 elements from a mask in the order `code`.
unsigned stored_mask(const unsigned char* mask, std::uint32_t code, const kernels::MaskOrder& order,
                     std::uint64_t begin, std::uint64_t end) {
  unsigned bits = 0;
  for (std::uint64_t i = begin; i < end; ++i) {
    const std::uint64_t place = code == order.code ? i : kernels::position_in(code, order, i);
    bits |= (mask[place / 8] >> (place % 8) & 1u) << (i - begin);
  }
  return bits;
}

template <class T>
void run(const Problem& problem, const Args& args) {
  const tile::HostNest nest = make_loop_nest(std::array{problem.in, problem.out});
  const kernels::MaskOrder order = dropout::mask_order(problem.out);
  const std::uint32_t threshold = dropout::threshold_of(problem.probability);
  const double scale = dropout::scale_of(problem.probability);
  const auto* const in = static_cast<const T*>(args.in);
  auto* const out = static_cast<T*>(args.out);
  auto* const header = static_cast<unsigned char*>(args.reserve);
  unsigned char* const mask = header + kMaskHeader;
  auto* const states = problem.backward ? nullptr : static_cast<dropout::States*>(args.states);

  std::uint32_t code = 0;
  for (int i = 0; i < 4; ++i) {
    if (!problem.backward) header[i] = static_cast<unsigned char>(order.code >> (8 * i));
    code |= static_cast<std::uint32_t>(header[i]) << (8 * i);
  }
  const std::uint64_t seed = states == nullptr ? 0 : states->seed;
  const std::uint64_t calls = states == nullptr ? 0 : states->calls;

  const std::int64_t count = nest.count();
  parallel_for((count + kMaskGroup - 1) / kMaskGroup, grain_for(200), [&](std::int64_t first, std::int64_t last) {
    for (std::int64_t group = first; group < last; ++group) {
      const std::int64_t begin = group * kMaskGroup;
      const std::int64_t end = std::min<std::int64_t>(begin + kMaskGroup, count);
      unsigned bits = 0;
      if (problem.backward) {
        bits = stored_mask(mask, code, order, static_cast<std::uint64_t>(begin), static_cast<std::uint64_t>(end));
      } else {
        bits = kernels::mask_of_group(static_cast<std::uint64_t>(group), seed, calls, threshold) &
               ((1u << (end - begin)) - 1u);
        mask[group] = static_cast<unsigned char>(bits);
      }
      for (std::int64_t i = begin; i < end; ++i) {
        const T value = in[offset_of(i, nest.rank, nest.dims, nest.strides[0])];
        out[offset_of(i, nest.rank, nest.dims, nest.strides[1])] =
            round_to<T>((bits >> (i - begin) & 1u) != 0 ? to_double(value) * scale : 0);
      }
    }
  });
  if (states != nullptr) ++states->calls;
}

}  // namespace

void dropout(const Problem& problem, const Args& args) {
  with_floating_type(problem.out.type, [&]<class T>() { run<T>(problem, args); });
}

}  // namespace gpudnn::host
