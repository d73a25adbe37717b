// Loops over the elements of one tensor as lines: the fastest loop apart from the others, so that an index costs one
// division, or none where there is one line. A line of neighbouring elements may go in packs even where it begins or
// ends in the middle of one (`ragged`): then the packs are those that lie whole in the line, and the elements before
// and after them, fewer than a pack each, are the line's edges, which go one by one.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/tile/loop_nest.hpp"

namespace gpudnn::tile {

// What a kernel touches first lies together at the front: each further 64 bytes of parameters that it waits for before
// its first load cost a start-up that shows in a kernel of 25 microseconds.
struct LineNest {
  FastDivmod steps;            // of a line: packs of `width` elements, as many as fit into the best placed line
  std::uint32_t lines = 1;     // of a window
  std::int64_t step = 1;       // elements from one pack to the next
  std::int64_t line_step = 0;  // from one line to the next, where one loop runs over them
  std::uint32_t length = 1;    // elements of a line
  bool ragged = false;
  bool nested = false;      // more than one loop over the lines
  std::int64_t window = 1;  // steps of a window: what 31 bits cannot count is cut into windows; almost always one
  std::int64_t count = 1;   // steps of all; at most `window` in the last one too
  LoopNest<1> outer;        // over the lines of a window
  LoopNest<1> windows;

  [[nodiscard]] bool is_simple() const { return !ragged && !nested && windows.count <= 1; }
};

// The nest's elements in packs of `width`. `ragged` where a pack may begin anywhere; else everything is a multiple of
// the width.
[[nodiscard]] inline LineNest make_line_nest(const HostNest& nest, int width, bool ragged) {
  LineNest result;
  const int last = nest.rank - 1;
  result.length = static_cast<std::uint32_t>(nest.dims[last]);
  const auto steps = nest.dims[last] / width;
  result.steps = FastDivmod(static_cast<std::uint32_t>(steps));
  result.step = nest.strides[0][last] * width;
  result.ragged = ragged;
  // A window is a run of the slowest loop, and the loops under it; or, where those are too long, the loops under the
  // first one that leaves them short enough.
  HostNest outer;
  HostNest windows;
  outer.rank = windows.rank = outer.tensors = windows.tensors = 1;
  outer.dims[0] = windows.dims[0] = 1;
  std::int64_t lines = 1;  // of all
  for (int i = 0; i < last; ++i) lines *= nest.dims[i];
  result.count = lines * steps;
  if (last > 0) {
    const std::int64_t most = steps < kMaxIterations ? kMaxIterations / steps : 1;  // lines of a window
    int split = 0;
    std::int64_t under = lines / nest.dims[0];
    while (under > most) under /= nest.dims[++split];
    const std::int64_t run = split > 0 ? 1 : most / under < nest.dims[0] ? most / under : nest.dims[0];
    windows.rank = split + 1;
    outer.rank = last - split;
    for (int i = 0; i <= split; ++i) {
      windows.dims[i] = nest.dims[i];
      windows.strides[0][i] = nest.strides[0][i];
    }
    if (split == 0) {
      windows.dims[0] = (nest.dims[0] + run - 1) / run;
      windows.strides[0][0] *= run;
    }
    for (int i = 0; i < outer.rank; ++i) {
      outer.dims[i] = nest.dims[split + i];
      outer.strides[0][i] = nest.strides[0][split + i];
    }
    outer.dims[0] = run;
    result.lines = static_cast<std::uint32_t>(under * run);
  }
  result.nested = outer.rank > 1;
  result.line_step = outer.strides[0][0];
  result.outer = LoopNest<1>(outer);
  result.windows = LoopNest<1>(windows);
  result.window = static_cast<std::int64_t>(result.lines) * steps;
  return result;
}

}  // namespace gpudnn::tile
