// The choice of load and store modes from the digits' steps.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm/implicit_gemm_simt_modes.hpp"

#include <algorithm>
#include <cstdlib>
#include <initializer_list>

namespace gpudnn::conv::mapping {

using kernels::simt::LoadMode;
using kernels::simt::Params;

namespace {

// How memory runs along an index, from its innermost digit that counts.
struct Run {
  int64_t step = 0;     // elements between neighbours
  int64_t length = 1;   // neighbours before the step changes
  unsigned digits = 0;  // the digits that it spans, as bits
};
// Within a run for vectors, neighbours must also be alike in position, and in every phase.
Run run_along(const Digits& digits, Step Digit::*side, bool for_vectors) {
  Run run;
  for (int i = kDigits - 1; i >= 0; --i) {
    const Digit& digit = digits[static_cast<std::size_t>(i)];
    if (digit.radix == 1) continue;
    const Step& step = digit.*side;
    const bool moves = step.position[0] != 0 || step.position[1] != 0 || step.position[2] != 0;
    if (for_vectors && (moves || digit.varies)) break;
    if (run.digits == 0) {
      run = {step.offset, digit.radix, 1U << i};
    } else if (step.offset == run.step * run.length) {
      run.length *= digit.radix;
      run.digits |= 1U << i;
    } else {
      break;
    }
  }
  return run;
}
double score(const Digits& digits, Step Digit::*side) {
  const Run run = run_along(digits, side, false);
  return static_cast<double>(std::min<int64_t>(run.length, 32)) /
         static_cast<double>(std::max<int64_t>(std::abs(run.step), 1));
}

bool all_multiples(const Digits& digits, Step Digit::*side, unsigned except, int64_t width) {
  for (int i = 0; i < kDigits; ++i) {
    const Digit& digit = digits[static_cast<std::size_t>(i)];
    if ((except >> i & 1U) == 0 && digit.radix > 1 && (digit.*side).offset % width != 0) return false;
  }
  return true;
}

// Vectors along `along`: neighbours in memory, alike in position, whole vectors only, and aligned ones.
bool vectors_along(const Digits& along, Step Digit::*along_side, const Digits& other, Step Digit::*other_side,
                   int64_t width) {
  const Run run = run_along(along, along_side, true);
  return run.step == 1 && run.length % width == 0 && all_multiples(along, along_side, run.digits, width) &&
         all_multiples(other, other_side, 0, width);
}

bool multiples(std::initializer_list<int64_t> values, int64_t width) {
  return std::all_of(values.begin(), values.end(), [&](int64_t v) { return v % width == 0; });
}

LoadMode load_mode(const Digits& outer, const Digits& inner, Step Digit::*inner_side, bool aligned, int64_t width) {
  if (aligned && vectors_along(outer, &Digit::first, inner, inner_side, width)) return LoadMode::outer_vector;
  if (aligned && vectors_along(inner, inner_side, outer, &Digit::first, width)) return LoadMode::k_vector;
  return score(outer, &Digit::first) >= score(inner, inner_side) ? LoadMode::outer_scalar : LoadMode::k_scalar;
}

// Positions that are not checked must not keep vectors from forming.
void drop_unchecked(Digits* digits, Step Digit::*side, const bool (&checked)[3]) {
  for (Digit& digit : *digits) {
    for (int i = 0; i < 3; ++i) {
      if (!checked[i]) (digit.*side).position[i] = 0;
    }
  }
}

// Bases of phases are aligned: multiples of the tensor's step in each dimension with more than one phase. With one
// phase only dy has a base, the padding.
bool class_bases_aligned(const Gemm& g, const Conv& conv, const Tensor& tensor, int64_t width, bool padded) {
  if (!g.has_phases) return true;
  for (int i = 0; i < 3; ++i) {
    const int64_t units = conv.stride[i] > 1 ? 1 : padded ? conv.pad[i] : 0;
    if (units * tensor.spatial[i] % width != 0) return false;
  }
  return true;
}

}  // namespace

void drop_all_unchecked(Gemm* g) {
  drop_unchecked(&g->m, &Digit::first, g->a_checked);
  drop_unchecked(&g->k, &Digit::first, g->a_checked);
  drop_unchecked(&g->n, &Digit::first, g->b_checked);
  drop_unchecked(&g->k, &Digit::second, g->b_checked);
  drop_unchecked(&g->m, &Digit::second, g->c_checked);
  drop_unchecked(&g->n, &Digit::second, g->c_checked);
}

SimtLoadModes load_modes(const Gemm& g, const Conv& conv, int64_t width, bool grouped) {
  const auto group = [&](int64_t step) { return grouped ? step : 0; };
  return {load_mode(g.m, g.k, &Digit::first,
                    multiples({g.a_base.offset, group(g.a_group)}, width) &&
                        class_bases_aligned(g, conv, conv.ys, width, true),
                    width),
          load_mode(g.n, g.k, &Digit::second,
                    multiples({g.b_base.offset, group(g.b_group)}, width) &&
                        class_bases_aligned(g, conv, conv.ws, width, false),
                    width)};
}

void set_modes(Gemm* g, const Conv& conv, int64_t width, bool grouped, Params* p) {
  drop_all_unchecked(g);
  const SimtLoadModes modes = load_modes(*g, conv, width, grouped);
  p->operand_a.mode = modes.a;
  p->operand_b.mode = modes.b;
  const StoreMode store = store_mode(*g, conv, width, grouped);
  p->output.m_is_fast = store.m_is_fast;
  p->output.vectors = store.vectors;
}

StoreMode store_mode(const Gemm& g, const Conv& conv, int64_t width, bool grouped) {
  StoreMode store = {};
  store.m_is_fast = score(g.m, &Digit::second) >= score(g.n, &Digit::second);
  const Digits& fast = store.m_is_fast ? g.m : g.n;
  const Digits& slow = store.m_is_fast ? g.n : g.m;
  store.vectors = multiples({g.c_base.offset, grouped ? g.c_group : 0}, width) &&
                  class_bases_aligned(g, conv, conv.xs, width, false) &&
                  vectors_along(fast, &Digit::second, slow, &Digit::second, width);
  return store;
}

// z is read like C is written, so it must run alike.
bool addend_vectors(const Gemm& g, bool m_is_fast, int64_t width, bool grouped) {
  const auto as_first = [](Digits digits) {
    for (Digit& digit : digits) digit.first = {digit.addend};
    return digits;
  };
  const Digits m = as_first(g.m);
  const Digits n = as_first(g.n);
  return (!grouped || g.z_group % width == 0) &&
         vectors_along(m_is_fast ? m : n, &Digit::first, m_is_fast ? n : m, &Digit::first, width);
}

}  // namespace gpudnn::conv::mapping
