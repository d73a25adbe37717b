// The Hopper implicit GEMM on the host: what TMA brings by the tensor maps, and what the kernel makes of it, box by box
// and chunk by chunk.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"
#include "support/conv_emulation.hpp"
#include "support/naive.hpp"

namespace gpudnn::conv::emulated {

namespace sm90 = kernels::sm90;
using test::ConvCase;
using test::in_memory;
using test::kGap;
using test::Memory;

// to[group][channel][tap][filter] = from[group][filter][tap][channel].
inline Memory transposed(const Problem& p, const Memory& from) {
  const auto channels = static_cast<std::size_t>(p.w.dims[1]);
  const auto groups = static_cast<std::size_t>(p.groups);
  const std::size_t filters = static_cast<std::size_t>(p.w.dims[0]) / groups;
  const std::size_t taps = from.size() / (channels * filters * groups);
  Memory to(from.size());
  for (std::size_t g = 0; g < groups; ++g)
    for (std::size_t k = 0; k < filters; ++k)
      for (std::size_t tap = 0; tap < taps; ++tap)
        for (std::size_t c = 0; c < channels; ++c)
          to[((g * channels + c) * taps + tap) * filters + k] = from[((g * filters + k) * taps + tap) * channels + c];
  return to;
}

// --- TMA -----------------------------------------------------------------------------------------------

struct Position {
  std::int64_t axis[3] = {};  // w, h, d
  std::int64_t image = 0;
};

// An im2col load: rows of channels, one for each pixel that the window's corner visits from `at` on.
inline void load_pixels(const PixelMap& map, std::int64_t element, const Memory& memory, std::int64_t channel,
                        Position at, const std::int64_t (&tap)[3], double* to) {
  for (int pixel = 0; pixel < map.pixels_per_box; ++pixel, to += map.box_channels) {
    bool inside = at.image < map.images;
    std::int64_t bytes = at.image * map.step[3];
    for (int a = 0; a < 3; ++a) {
      const std::int64_t position = at.axis[a] + tap[a];
      inside = inside && position >= 0 && position < map.extent[a];
      bytes += position * map.step[a];
    }
    for (int j = 0; j < map.box_channels; ++j) {
      const bool exists = inside && channel + j < map.channels;
      to[j] = exists ? memory.at(static_cast<std::size_t>(bytes / element + channel + j)) : 0;
    }
    int a = 0;
    for (; a < 3; ++a) {
      at.axis[a] += map.stride[a];
      if (at.axis[a] <= map.extent[a] - 1 + map.upper[a]) break;
      at.axis[a] = map.lower[a];
    }
    if (a == 3) ++at.image;
  }
}

inline std::int64_t row_step(const FilterMap& map, std::int64_t element) {
  return map.row_step != 0 ? map.row_step / element : map.columns * map.taps;
}

inline bool exists(const FilterMap& map, std::int64_t column, std::int64_t tap, std::int64_t row) {
  return column >= 0 && column < map.columns && tap >= 0 && tap < map.taps && row >= 0 && row < map.rows;
}

inline void load_filters(const FilterMap& map, const Memory& memory, std::int64_t column, std::int64_t tap,
                         std::int64_t row, double* to) {
  for (int r = 0; r < map.box_rows; ++r, to += map.box_columns) {
    for (int c = 0; c < map.box_columns; ++c) {
      const std::int64_t offset = (row + r) * map.columns * map.taps + tap * map.columns + column + c;
      to[c] = exists(map, column + c, tap, row + r) ? memory.at(static_cast<std::size_t>(offset)) : 0;
    }
  }
}

// --- the kernel ------------------------------------------------------------------------------------------------------

struct Work {
  std::uint32_t stride_phase = 0, group = 0, m = 0, n = 0, split = 0, tile = 0, k_begin = 0, k_end = 0;
};

// Columns of C that leave together.
struct Chunk {
  std::int64_t bytes = 0;  // from the row's start
  int first = 0, valid = 0;
  std::int64_t x = 0, y = 0;  // in C's map
};

class Emulation {
 public:
  Emulation(const ConvCase& c, const test::Values& values, const Sm90Plan& plan)
      : case_(c),
        values_(values),
        plan_(plan),
        p_(plan.params),
        shape_(sm90::kShapes[plan.shape]),
        element_(tile::element_bytes(plan.type)),
        row_elements_(static_cast<int>(sm90::kRowBytes / element_)),
        chunk_elements_(static_cast<int>(sm90::chunk_bytes(shape_) / element_)),
        by_taps_(plan.direction == sm90::Direction::filter_gradient),
        bk_(by_taps_ ? row_elements_ : static_cast<int>(shape_.k_bytes / element_)) {
    const Problem& problem = c.problem;
    const Memory x = in_memory(problem.x, values.x);
    const Memory y = in_memory(problem.y, values.y);
    a_ = plan.direction == sm90::Direction::forward ? x : y;
    b_ = by_taps_ ? x : in_memory(problem.w, values.w);
    if (plan.transposes_filter) b_ = transposed(problem, b_);
    const Memory out = in_memory(output(problem), values.out);
    addend_ = problem.has_z != 0 ? in_memory(problem.z, values.z) : out;
    addend_scale_ = problem.has_z != 0 ? c.alpha2 : c.beta;
    bias_.assign(values.bias.size() * static_cast<std::size_t>(problem.bias_stride), kGap);
    for (std::size_t k = 0; k < values.bias.size(); ++k) {
      bias_[k * static_cast<std::size_t>(problem.bias_stride)] = values.bias[k];
    }
    result_ = out;
    writes_.assign(out.size(), 0);
  }

  void run() {
    if (p_.fixup_ctas > 0) return run_with_fixup();
    const std::uint32_t works = p_.works.divisor * p_.splits;
    std::vector<Memory> partials(p_.splits > 1 ? std::size_t{plan_.tiles} * p_.splits : 0);
    for (std::uint32_t index = 0; index < works; ++index) {
      const Work work = work_item(index);
      Memory sum = multiply(work);
      if (p_.splits == 1) {
        store(work, sum, p_.stores_boxes);
      } else {
        Memory& place = partials.at(std::size_t{work.split} * plan_.tiles + work.tile);
        ASSERT_TRUE(place.empty()) << "two works of a tile and split";
        place = std::move(sum);
      }
    }
    if (p_.splits == 1) return;
    for (std::uint32_t tile = 0; tile < plan_.tiles; ++tile) {
      Memory sum(partials[tile].size(), 0.0);
      for (std::size_t split = 0; split < p_.splits; ++split) {
        const Memory& part = partials[split * plan_.tiles + tile];
        ASSERT_EQ(part.size(), sum.size());
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += part[i];
      }
      store(work_item(tile), sum, false);
    }
  }

  // Each block's share, and what a tile's own block fetches.
  void run_with_fixup() {
    const std::uint32_t tiles = p_.works.divisor;
    ASSERT_EQ(p_.splits, 1u);
    ASSERT_EQ(p_.phases, 1u);
    std::vector<Memory> partials(std::size_t{2} * tiles);
    for (std::uint32_t block = 0; block < p_.fixup_ctas; ++block) {
      const std::uint32_t begin = block * p_.fixup_quantum;
      const std::uint32_t end = std::min(begin + p_.fixup_quantum, tiles * p_.fixup.divisor);
      for (std::uint32_t tile = begin / p_.fixup.divisor; tile < (end + p_.fixup.divisor - 1) / p_.fixup.divisor;
           ++tile) {
        Work work = work_item(tile);
        const std::uint32_t base = tile * p_.fixup.divisor;
        const std::uint32_t first = std::max(begin, base) - base;
        work.k_begin = work.k_end - p_.fixup.divisor + first;
        work.k_end += std::min((block + 1) * p_.fixup_quantum - base, p_.fixup.divisor) - p_.fixup.divisor;
        ASSERT_LT(work.k_begin, work.k_end);
        Memory& place = partials.at(std::size_t{first > 0 ? tiles : 0} + tile);
        ASSERT_TRUE(place.empty()) << "two pieces in one place";
        place = multiply(work);
      }
    }
    for (std::uint32_t tile = 0; tile < tiles; ++tile) {
      Work work = work_item(tile);
      work.k_end -= p_.fixup.divisor;
      Memory sum = multiply(work);
      const std::uint32_t first = tile * p_.fixup.divisor;
      const std::uint32_t pieces = (first + p_.fixup.divisor - 1) / p_.fixup_quantum - first / p_.fixup_quantum + 1;
      for (std::uint32_t piece = 0; piece < 2; ++piece) {
        const Memory& part = partials[std::size_t{piece} * tiles + tile];
        ASSERT_EQ(part.empty(), piece >= pieces) << "the pieces that the tile's block waits for are those that come";
        for (std::size_t i = 0; i < part.size(); ++i) sum[i] += part[i];
      }
      store(work, sum, p_.stores_boxes);
    }
  }

  void expect_convolution() const { test::expect_convolution(case_, values_, result_, writes_); }

 private:
  [[nodiscard]] Work work_item(std::uint32_t index) const {
    Work work;
    work.split = p_.works.divmod(index, &work.tile);
    std::uint32_t inside = work.tile;
    if (p_.turn > 0) {
      inside = tile_by_turns(work.tile, &work.stride_phase);
    } else {
      for (std::uint32_t i = 1; i < p_.phases; ++i) {
        if (work.tile >= p_.problem[i].first_work) work.stride_phase = i;
      }
      inside -= p_.problem[work.stride_phase].first_work;
    }
    const sm90::DenseProblem& dense = p_.problem[work.stride_phase];
    if (p_.m_is_fastest) {
      EXPECT_TRUE(by_taps_);
      work.group = p_.n_tiles.divmod(dense.m_tiles.divmod(inside, &work.m), &work.n);
    } else {
      work.group = dense.m_tiles.divmod(p_.n_tiles.divmod(inside, &work.n), &work.m);
    }
    work.k_begin = std::min(work.split * dense.k_blocks_per_split, dense.k_blocks);
    work.k_end = std::min(work.k_begin + dense.k_blocks_per_split, dense.k_blocks);
    EXPECT_LT(work.group, static_cast<std::uint32_t>(case_.problem.groups));
    return work;
  }

  // The phases' tiles as they come, up to the one that is asked for.
  [[nodiscard]] std::uint32_t tile_by_turns(std::uint32_t number, std::uint32_t* stride_phase) const {
    EXPECT_EQ(p_.works_of_raster_group.divisor, p_.turn * p_.phases);
    for (std::uint32_t first = 0;; first += p_.turn) {
      for (std::uint32_t i = 0; i < p_.phases; ++i) {
        for (std::uint32_t tile = first; tile < std::min(first + p_.turn, p_.tiles_of_class); ++tile) {
          *stride_phase = i;
          if (number-- == 0) return tile;
        }
      }
      if (first >= p_.tiles_of_class) return ADD_FAILURE() << "no such tile", 0;
    }
  }

  [[nodiscard]] static Position pixel_at(const sm90::DenseProblem& dense, std::uint32_t index) {
    Position at;
    for (int a = 0; a < 3; ++a) {
      std::uint32_t position = 0;
      index = dense.extent[a].divmod(index, &position);
      at.axis[a] = position;
    }
    at.image = index;
    return at;
  }
  [[nodiscard]] Position window_at(const sm90::DenseProblem& dense, std::uint32_t pixel) const {
    Position at = pixel_at(dense, pixel);
    for (int a = 0; a < 3; ++a) at.axis[a] = at.axis[a] * p_.stride[a] + dense.corner[a];
    return at;
  }

  // A box of rows of `columns` of an operand whose rows are k: it lies at column `to` of a tile of `width`.
  static void place(const Memory& box, int columns, int to, int width, Memory* tile) {
    const int rows = static_cast<int>(box.size()) / columns;
    for (int row = 0; row < rows; ++row) {
      for (int column = 0; column < columns; ++column) {
        tile->at(static_cast<std::size_t>(row * width + to + column)) =
            box[static_cast<std::size_t>(row * columns + column)];
      }
    }
  }

  // One k tile: a[m][k] and b[k][n].
  void load_pixels_and_filters(const Work& work, std::uint32_t k, Memory* a, Memory* b) const {
    const sm90::DenseProblem& dense = p_.problem[work.stride_phase];
    std::uint32_t rest = k;
    std::int64_t number = dense.first_tap;
    std::int64_t offset[3] = {};
    for (int i = 0; i < 3; ++i) {
      const std::int64_t tap = rest % dense.taps[i];
      rest /= dense.taps[i];
      offset[i] = tap * p_.tap_offset[i];
      number += tap * dense.tap_step[i];
    }
    const std::int64_t channel = std::int64_t{rest} * bk_;
    load_pixels(plan_.a[work.stride_phase], element_, a_, std::int64_t{work.group} * p_.a_channels + channel,
                window_at(dense, work.m * static_cast<std::uint32_t>(shape_.rows_of_c())), offset, a->data());
    const FilterMap& map = plan_.filter;
    ASSERT_TRUE(number >= 0 && number < map.taps);
    const std::int64_t first = std::int64_t{work.group} * p_.b_channels;
    const std::int64_t n = std::int64_t{work.n} * shape_.columns_of_c();
    Memory box(static_cast<std::size_t>(map.box_rows * map.box_columns));
    if (plan_.direction == sm90::Direction::data_gradient && element_ == 2) {
      ASSERT_TRUE(map.box_rows == bk_ && map.box_columns == 64);
      for (int i = 0; i < shape_.columns_of_c() / 64; ++i) {
        load_filters(map, b_, n + std::int64_t{i} * 64, number, first + channel, box.data());
        place(box, 64, i * 64, shape_.columns_of_c(), b);
      }
      return;
    }
    // As many rows as the kernel waits for.
    ASSERT_EQ(map.box_rows, std::min(shape_.columns_of_c(), static_cast<int>(p_.n_count)));
    ASSERT_EQ(map.box_columns, bk_);
    load_filters(map, b_, channel, number, first + n, box.data());
    // What no box reaches stays as it is in shared memory, and must not matter.
    std::ranges::fill(*b, std::numeric_limits<double>::quiet_NaN());
    for (int i = 0; i < map.box_rows; ++i) {
      for (int j = 0; j < bk_; ++j) {
        (*b)[static_cast<std::size_t>(j * shape_.columns_of_c() + i)] = box[static_cast<std::size_t>(i * bk_ + j)];
      }
    }
  }

  // The filter gradient's: a[k][m] and b[k][n].
  void load_filters_and_taps(const Work& work, std::uint32_t k, Memory* a, Memory* b) const {
    const sm90::DenseProblem& dense = p_.problem[0];
    const std::uint32_t pixel = k * static_cast<std::uint32_t>(bk_);
    const int width = row_elements_;
    Memory box(static_cast<std::size_t>(bk_ * width));
    for (int i = 0; i < shape_.rows_of_c() / width; ++i) {
      const std::int64_t filter =
          std::int64_t{work.group} * p_.a_channels + std::int64_t{work.m} * shape_.rows_of_c() + i * width;
      load_pixels(plan_.a[0], element_, a_, filter, pixel_at(dense, pixel), {0, 0, 0}, box.data());
      place(box, width, i * width, shape_.rows_of_c(), a);
    }
    for (int i = 0; i < shape_.columns_of_c() / width; ++i) {
      const std::uint32_t index =
          work.n * static_cast<std::uint32_t>(shape_.columns_of_c() / width) + static_cast<std::uint32_t>(i);
      std::uint32_t chunk = 0;
      std::uint32_t at[3] = {};
      const std::uint32_t tap = p_.chunks_of_n.divmod(index, &chunk);
      at[2] = p_.taps_of_n[1].divmod(p_.taps_of_n[0].divmod(tap, &at[0]), &at[1]);
      std::int64_t channel = p_.b_channels_all;
      std::int64_t offset[3] = {};
      if (index < p_.n_chunks) {
        channel = std::int64_t{work.group} * p_.b_channels + std::int64_t{chunk} * width;
        for (int j = 0; j < 3; ++j) offset[j] = std::int64_t{at[j]} * p_.tap_offset[j];
      }
      load_pixels(plan_.b, element_, b_, channel, window_at(dense, pixel), offset, box.data());
      place(box, width, i * width, shape_.columns_of_c(), b);
    }
  }

  [[nodiscard]] Memory multiply(const Work& work) const {
    Memory sum(static_cast<std::size_t>(shape_.rows_of_c() * shape_.columns_of_c()), 0.0);
    Memory a(static_cast<std::size_t>(shape_.rows_of_c() * bk_));
    Memory b(static_cast<std::size_t>(shape_.columns_of_c() * bk_));
    for (std::uint32_t k = work.k_begin; k < work.k_end; ++k) {
      if (by_taps_)
        load_filters_and_taps(work, k, &a, &b);
      else
        load_pixels_and_filters(work, k, &a, &b);
      multiply_block(a, b, &sum);
    }
    return sum;
  }

  // Most of a small problem's tile is zero: it is passed over.
  void multiply_block(const Memory& a, const Memory& b, Memory* sum) const {
    for (int k = 0; k < bk_; ++k) {
      const double* const row = b.data() + k * shape_.columns_of_c();
      int last = shape_.columns_of_c();
      while (last > 0 && row[last - 1] == 0) --last;
      for (int m = 0; last > 0 && m < shape_.rows_of_c(); ++m) {
        const double factor = a[static_cast<std::size_t>(by_taps_ ? k * shape_.rows_of_c() + m : m * bk_ + k)];
        if (factor == 0) continue;
        double* const to = sum->data() + m * shape_.columns_of_c();
        for (int n = 0; n < last; ++n) to[n] += factor * row[n];
      }
    }
  }

  [[nodiscard]] Chunk chunk_at(const Work& work, int number) const {
    Chunk chunk;
    if (by_taps_) {
      const std::uint32_t index = work.n * static_cast<std::uint32_t>(shape_.columns_of_c() / row_elements_) +
                                  static_cast<std::uint32_t>(number);
      std::uint32_t channel = 0;
      std::uint32_t at[3] = {};
      const std::uint32_t tap = p_.chunks_of_n.divmod(index, &channel);
      at[2] = p_.taps_of_n[1].divmod(p_.taps_of_n[0].divmod(tap, &at[0]), &at[1]);
      chunk.y = p_.problem[0].first_tap;
      for (int i = 0; i < 3; ++i) chunk.y += std::int64_t{at[i]} * p_.problem[0].tap_step[i];
      chunk.first = static_cast<int>(channel) * row_elements_;
      chunk.valid = index < p_.n_chunks ? static_cast<int>(p_.n_count) - chunk.first : 0;
      chunk.x = chunk.first;
      chunk.bytes = (chunk.y * p_.n_count + chunk.first) * element_;
    } else {
      chunk.first = static_cast<int>(work.n) * shape_.columns_of_c() + number * chunk_elements_;
      chunk.valid = static_cast<int>(p_.n_count) - chunk.first;
      chunk.x = std::int64_t{work.group} * p_.group_columns + chunk.first;
      chunk.bytes = chunk.x * element_;
    }
    return chunk;
  }

  [[nodiscard]] std::int64_t row_offset(const Work& work, std::uint32_t m, const std::int64_t (&step)[4],
                                        bool even) const {
    if (by_taps_) return m < p_.m_count ? (std::int64_t{work.group} * p_.group_columns + m) * step[0] : -1;
    const sm90::DenseProblem& dense = p_.problem[work.stride_phase];
    if (m >= dense.pixels) return -1;
    if (even) return dense.c_base + m * step[0];
    const Position at = pixel_at(dense, m);
    return dense.c_base + at.axis[0] * step[0] + at.axis[1] * step[1] + at.axis[2] * step[2] + at.image * step[3];
  }

  // alpha * sum + scale * addend + bias, and the activation.
  [[nodiscard]] double finish(const Work& work, const Chunk& chunk, int column, std::int64_t addend_row,
                              double sum) const {
    double value = case_.alpha * sum;
    if (addend_scale_ != 0 && addend_row >= 0) {
      const std::int64_t bytes = addend_row + chunk.bytes + column * element_;
      value += addend_scale_ * addend_.at(static_cast<std::size_t>(bytes / element_));
    }
    if (p_.has_bias) {
      const std::int64_t bytes = (std::int64_t{work.group} * p_.group_columns + chunk.first + column) * p_.bias_step;
      value += bias_.at(static_cast<std::size_t>(bytes / element_));
    }
    if (p_.activation.mode != kernels::gemm::Activation::identity) {
      value = test::activation_at(case_.problem.activation, case_.coef, value).f;
    }
    return value;
  }

  void write(std::int64_t offset, double value) {
    result_.at(static_cast<std::size_t>(offset)) = value;
    ++writes_[static_cast<std::size_t>(offset)];
  }

  void store(const Work& work, const Memory& sum, bool boxes) {
    for (int row = 0; row < shape_.rows_of_c(); ++row) {
      const std::uint32_t m = work.m * static_cast<std::uint32_t>(shape_.rows_of_c()) + static_cast<std::uint32_t>(row);
      const std::int64_t c_row = row_offset(work, m, p_.c_step, p_.c_is_even);
      const std::int64_t addend_row = row_offset(work, m, p_.addend_step, p_.addend_is_even);
      const std::int64_t box_row = by_taps_ ? std::int64_t{work.group} * p_.group_columns + m : m;
      for (int number = 0; number < shape_.columns_of_c() / chunk_elements_; ++number) {
        const Chunk chunk = chunk_at(work, number);
        if (chunk.valid <= 0) break;
        for (int column = 0; column < chunk_elements_; ++column) {
          const double value =
              sum[static_cast<std::size_t>(row * shape_.columns_of_c() + number * chunk_elements_ + column)];
          if (boxes) {
            if (!exists(plan_.c, chunk.x + column, chunk.y, box_row)) continue;
            write(box_row * row_step(plan_.c, element_) + chunk.y * plan_.c.columns + chunk.x + column,
                  finish(work, chunk, column, addend_row, value));
          } else if (c_row >= 0 && column < chunk.valid) {
            write((c_row + chunk.bytes) / element_ + column, finish(work, chunk, column, addend_row, value));
          }
        }
      }
    }
  }

  const ConvCase& case_;
  const test::Values& values_;
  const Sm90Plan& plan_;
  const sm90::Params& p_;
  const sm90::TileShape& shape_;
  std::int64_t element_;
  int row_elements_;
  int chunk_elements_;  // of C
  bool by_taps_;
  int bk_;
  Memory a_, b_, addend_, bias_, result_;
  double addend_scale_ = 0;
  std::vector<int> writes_;
};

}  // namespace gpudnn::conv::emulated
