// The mapping of convolutions to the Hopper implicit GEMM, evaluated on the host: what TMA brings by the tensor maps,
// and what the kernel makes of it, is compared with the definition of convolution.
//
// Longer than most files: the tensor maps' emulation, the kernel's and the problems that go through both are one
// argument.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm/implicit_gemm_sm90_params.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "support/conv_emulation.hpp"
#include "support/naive.hpp"
#include "support/random.hpp"

namespace gpudnn::conv {
namespace {

namespace sm90 = kernels::sm90;
using test::ConvCase;
using test::in_memory;
using test::kGap;
using test::Memory;
using test::Random;

// to[group][channel][tap][filter] = from[group][filter][tap][channel].
Memory transposed(const Problem& p, const Memory& from) {
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
void load_pixels(const PixelMap& map, std::int64_t element, const Memory& memory, std::int64_t channel, Position at,
                 const std::int64_t (&tap)[3], double* to) {
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

std::int64_t row_step(const FilterMap& map, std::int64_t element) {
  return map.row_step != 0 ? map.row_step / element : map.columns * map.taps;
}

bool exists(const FilterMap& map, std::int64_t column, std::int64_t tap, std::int64_t row) {
  return column >= 0 && column < map.columns && tap >= 0 && tap < map.taps && row >= 0 && row < map.rows;
}

void load_filters(const FilterMap& map, const Memory& memory, std::int64_t column, std::int64_t tap, std::int64_t row,
                  double* to) {
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
    ASSERT_TRUE(map.box_rows == shape_.columns_of_c() && map.box_columns == bk_);
    load_filters(map, b_, channel, number, first + n, box.data());
    for (int i = 0; i < map.box_rows; ++i) {
      for (int j = 0; j < bk_; ++j) {
        (*b)[static_cast<std::size_t>(j * map.box_rows + i)] = box[static_cast<std::size_t>(i * bk_ + j)];
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

// --- invariants ----------------------------------------------------------------------------------------------------

// What the driver and the instruction take, and that the map walks the pixel grid.
void expect_map(const Sm90Plan& plan, const PixelMap& map, const sm90::DenseProblem& dense, bool starts_at_corner) {
  const bool deep = plan.params.three_dimensional;
  EXPECT_LE(map.pixels_per_box, 1024);
  EXPECT_LE(map.box_channels * tile::element_bytes(plan.type), sm90::kRowBytes);
  EXPECT_EQ(map.step[3] % 16, 0);
  for (int a = 0; a < 3; ++a) {
    SCOPED_TRACE("axis " + std::to_string(a));
    EXPECT_EQ((map.extent[a] - 1 + map.upper[a] - map.lower[a]) / map.stride[a] + 1, dense.extent[a].divisor);
    EXPECT_EQ(map.lower[a], starts_at_corner ? dense.corner[a] : 0);
    EXPECT_GE(std::min(map.lower[a], map.upper[a]), deep ? -16 : -128);
    EXPECT_LE(std::max(map.lower[a], map.upper[a]), deep ? 15 : 127);
    EXPECT_TRUE(map.stride[a] >= 1 && map.stride[a] <= 8);
    EXPECT_EQ(map.step[a] % 16, 0);
  }
  // The third axis is not in a map of rank 4.
  EXPECT_TRUE(deep || (map.extent[2] == 1 && map.lower[2] == 0 && map.upper[2] == 0));
}

void expect_taps_in_reach(const sm90::Params& p, const std::int64_t (&taps)[3]) {
  for (int a = 0; a < 3; ++a) {
    const std::int64_t farthest = (taps[a] - 1) * p.tap_offset[a];
    EXPECT_LE(farthest, p.three_dimensional ? 31 : 255);
    EXPECT_TRUE(a < 2 || p.three_dimensional || farthest == 0);
  }
}

// Whether the rows of a dense problem lie step[0] apart, by walking them all.
bool rows_are_even(const sm90::DenseProblem& dense, const std::int64_t (&step)[4]) {
  for (std::uint32_t m = 0; m < dense.pixels; ++m) {
    std::uint32_t rest = m;
    std::int64_t bytes = 0;
    for (int a = 0; a < 3; ++a) {
      bytes += rest % dense.extent[a].divisor * step[a];
      rest /= dense.extent[a].divisor;
    }
    if (bytes + rest * step[3] != m * step[0]) return false;
  }
  return true;
}

// A map of a matrix: whichever window is fetched is one pixel, and they lie the row's step apart.
void expect_matrix(const PixelMap& map, const sm90::DenseProblem& dense, bool expected) {
  ASSERT_EQ(map.row_step != 0, expected);
  if (!expected) return;
  for (int a = 0; a < 3; ++a) {
    EXPECT_EQ(map.extent[a], dense.extent[a].divisor);
    EXPECT_TRUE(map.lower[a] == 0 && map.upper[a] == 0 && map.stride[a] == 1);
  }
  EXPECT_EQ(map.row_step % 16, 0);
  EXPECT_LE(map.pixels_per_box, 256);
  for (std::uint32_t m = 0; m < dense.pixels; ++m) {
    std::uint32_t rest = m;
    std::int64_t bytes = 0;
    for (int a = 0; a < 3; ++a) {
      bytes += rest % dense.extent[a].divisor * map.step[a];
      rest /= dense.extent[a].divisor;
    }
    ASSERT_EQ(bytes + rest * map.step[3], m * map.row_step) << "row " << m;
  }
}

void expect_invariants(const Problem& problem, const Config& config, const Sm90Plan& plan) {
  const sm90::Params& p = plan.params;
  const sm90::TileShape& shape = sm90::kShapes[config.tile];
  const bool by_taps = plan.direction == sm90::Direction::filter_gradient;
  ASSERT_LE(p.phases, static_cast<std::uint32_t>(sm90::kMaxPhases));
  std::int64_t pixels = 0;
  for (std::uint32_t i = 0; i < p.phases; ++i) {
    SCOPED_TRACE("class " + std::to_string(i));
    const sm90::DenseProblem& dense = p.problem[i];
    pixels += dense.pixels;
    EXPECT_EQ(dense.c_base % 16, 0);
    EXPECT_GE(std::uint64_t{dense.k_blocks_per_split} * p.splits, dense.k_blocks);
    if (dense.k_blocks == 0) continue;
    expect_map(plan, plan.a[i], dense, !by_taps);
    if (!by_taps) {
      EXPECT_EQ(plan.a[i].pixels_per_box, shape.rows_of_c());
      EXPECT_EQ(plan.a[i].box_channels * tile::element_bytes(plan.type), shape.k_bytes);
      expect_taps_in_reach(p, {dense.taps[0], dense.taps[1], dense.taps[2]});
    }
  }
  if (by_taps) {
    expect_map(plan, plan.b, p.problem[0], true);
    EXPECT_EQ(p.b_channels_all, problem.x.dims[1]) << "a channel that is out of bounds";
    for (const PixelMap* map : {&plan.a[0], &plan.b}) {
      EXPECT_EQ(map->pixels_per_box, sm90::kRowBytes / tile::element_bytes(plan.type));
      EXPECT_EQ(map->box_channels, sm90::kRowBytes / tile::element_bytes(plan.type));
    }
    std::int64_t taps[3] = {1, 1, 1};
    for (int i = 0; i < problem.spatial; ++i) taps[i] = problem.w.dims[1 + problem.spatial - i];
    expect_taps_in_reach(p, taps);
  } else {
    EXPECT_LE(std::max(plan.filter.box_rows, plan.filter.box_columns), 256);
  }
  expect_matrix(plan.a[0], p.problem[0], p.a_is_matrix);
  expect_matrix(plan.b, p.problem[0], p.b_is_matrix);
  const TensorGeometry& grid = problem.direction == Direction::dgrad ? problem.x : problem.y;
  EXPECT_EQ(pixels, element_count(grid) / grid.dims[1]) << "each pixel is of one class";
  EXPECT_TRUE(!p.stores_boxes || by_taps || p.c_is_even);
  EXPECT_TRUE(!p.stores_boxes || (p.phases == 1 && p.problem[0].c_base == 0));
  EXPECT_TRUE(!p.c_is_even || (p.phases == 1 && rows_are_even(p.problem[0], p.c_step)));
  EXPECT_TRUE(!p.addend_is_even || (p.phases == 1 && rows_are_even(p.problem[0], p.addend_step)));
  EXPECT_EQ(plan.tiles, p.works.divisor);
  const std::size_t sums = (p.fixup_ctas > 0                         ? std::size_t{plan.tiles} * 2
                            : p.splits > 1 && !shape.cluster_split_k ? std::size_t{plan.tiles} * p.splits
                                                                     : 0) *
                           std::size_t(shape.bm * shape.bn) * 4;
  EXPECT_GE(plan.workspace, sums + plan.filter_bytes);
}

// --- problems --------------------------------------------------------------------------------------------------------

// Channels last; the other dimensions one inside the other, perhaps in another order, perhaps with gaps of vectors.
void set_layout(Random& random, std::int64_t vector, TensorGeometry* t) {
  set_packed_strides(t, GPUDNN_TENSOR_NHWC);
  if (random.chance(0.6)) return;
  std::vector<int> order;
  for (int dim = t->rank - 1; dim >= 2; --dim) order.push_back(dim);
  order.push_back(0);
  if (random.chance(0.5)) std::swap(order[0], order[static_cast<std::size_t>(random.between(0, t->rank - 2))]);
  std::int64_t step = t->dims[1] + vector * random.between(0, 2);
  for (const int dim : order) {
    t->strides[dim] = step;
    step = step * t->dims[dim] + vector * random.pick<std::int64_t>({0, 0, 1, 3});
  }
}

void set_epilogue(Random& random, std::int64_t vector, ConvCase* c) {
  Problem& p = c->problem;
  c->beta = 0;
  p.activation = random.pick<std::int32_t>({GPUDNN_ACTIVATION_IDENTITY, GPUDNN_ACTIVATION_RELU,
                                            GPUDNN_ACTIVATION_CLIPPED_RELU, GPUDNN_ACTIVATION_SWISH, kGelu});
  if (p.activation == GPUDNN_ACTIVATION_CLIPPED_RELU) c->coef = 5.5;
  p.has_bias = 1;
  p.bias_stride = random.between(1, 2);
  if (random.chance(0.3)) return;
  p.has_z = 1;
  p.z = p.y;
  c->alpha2 = 0.5;
  set_layout(random, vector, &p.z);
}

void set_windows(Random& random, Problem* p) {
  p->spatial = random.pick<std::int32_t>({1, 2, 2, 2, 3});
  const int largest = p->spatial == 3 ? 5 : p->spatial == 2 ? 11 : 70;
  for (int i = 0; i < p->spatial; ++i) {
    p->x.dims[2 + i] = random.between(1, largest);
    p->w.dims[2 + i] = random.pick<std::int64_t>({1, 1, 2, 3, 3, 5});
    p->stride[i] = random.pick<std::int64_t>({1, 1, 2, 3});
    p->dilation[i] = random.pick<std::int64_t>({1, 1, 2, 3});
    p->pad[i] = random.chance(0.1) ? p->x.dims[2 + i] + 1 : random.between(0, 3);
  }
}

// A problem that the engine takes and that the nested loops can bear.
ConvCase random_case(Random& random) {
  while (true) {
    ConvCase c;
    Problem& p = c.problem;
    p.direction = random.pick({Direction::forward, Direction::dgrad, Direction::wgrad});
    const bool single = random.chance(0.3);
    const std::int64_t vector = single ? 4 : 8;
    p.x.type = single ? GPUDNN_DATA_FLOAT : random.pick({GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16});
    if (single) p.math = GPUDNN_TENSOR_OP_MATH;
    p.w.type = p.y.type = p.x.type;
    p.mode = random.chance(0.3) ? GPUDNN_CONVOLUTION : GPUDNN_CROSS_CORRELATION;
    p.groups = random.pick<std::int32_t>({1, 1, 1, 2, 3});
    set_windows(random, &p);
    const auto share = [&] { return p.groups > 1 && random.chance(0.7) ? 8 * vector : vector * random.between(1, 18); };
    p.x.rank = p.w.rank = p.y.rank = 2 + p.spatial;
    p.x.dims[0] = p.y.dims[0] = random.between(1, 3);
    p.w.dims[1] = share();
    p.x.dims[1] = p.w.dims[1] * p.groups;
    p.w.dims[0] = p.y.dims[1] = share() * p.groups;
    bool fits = true;
    for (int i = 0; i < p.spatial; ++i) {
      p.y.dims[2 + i] = output_extent(p, i);
      fits = fits && p.y.dims[2 + i] > 0;
    }
    if (!fits || test::multiply_adds(p) > 3e6) continue;
    set_packed_strides(&p.w, GPUDNN_TENSOR_NHWC);
    set_layout(random, vector, &p.x);
    set_layout(random, vector, &p.y);
    c.alpha = random.pick({1.0, 1.0, 0.5, -2.0});
    c.beta = random.pick({0.0, 0.0, 1.0, 0.25});
    if (p.direction == Direction::forward && random.chance(0.5)) set_epilogue(random, vector, &c);
    c.seed = random.bits() >> 16;
    if (sm90_unsupported_reason(p) == nullptr) return c;
  }
}

Problem parse(const std::string& line) {
  std::string why;
  const auto problem = from_text(line, &why);
  EXPECT_TRUE(problem) << line << ": " << why;
  return problem.value_or(Problem{});
}

Sm90Plan check(const ConvCase& c, const test::Values& values, const Config& config, std::uint32_t turn = 3) {
  SCOPED_TRACE(test::describe(c) + " tile " + std::to_string(config.tile) + " split " + std::to_string(config.split_k));
  Sm90Plan plan = sm90_plan(c.problem, config);
  sm90_take_turns(turn, &plan.params);
  expect_invariants(c.problem, config, plan);
  if (testing::Test::HasFailure()) return plan;
  Emulation emulation(c, values, plan);
  emulation.run();
  if (!testing::Test::HasFatalFailure()) emulation.expect_convolution();
  return plan;
}

// Every shape that fits, without splits and with some.
void check_all_shapes(const std::string& line) {
  ConvCase c;
  c.problem = parse(line);
  ASSERT_STREQ(sm90_unsupported_reason(c.problem), nullptr) << line;
  const test::Values values = test::make_values(c);
  for (int tile = 0; tile < sm90::kShapeCount; ++tile) {
    if (!sm90_shape_fits(c.problem, sm90::kShapes[tile])) continue;
    for (const int split : {1, 3}) {
      check(c, values, {tile, split});
      if (testing::Test::HasFailure()) return;
    }
  }
}

// --- tests -----------------------------------------------------------------------------------------------------------

TEST(ImplicitGemmSm90Params, TilesThatAreHelpedEvaluateToTheConvolution) {
  int stream_k = 0;
  int shared = 0;
  for (const char* line : {"conv wgrad f16 nhwc n9c8h24w24 k8r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
                           "conv wgrad bf16 nhwc n11c40h16w17 k40r1s1 p0x0 t1x1 d1x1 g5 acc=f32 math=tensor",
                           "conv wgrad f16 nhwc n12c16h30w31 k16r3s3 p1x1 t2x2 d1x1 g2 acc=f32 math=tensor"}) {
    ConvCase c;
    c.problem = parse(line);
    const test::Values values = test::make_values(c);
    for (int tile = 0; tile < sm90::kShapeCount; ++tile) {
      if (!sm90::kShapes[tile].stream_k) continue;
      for (const int fixup_ctas : {1, 2, 3, 5, 100}) {
        const Sm90Plan plan = check(c, values, {tile, fixup_ctas});
        if (testing::Test::HasFailure()) return;
        stream_k += plan.params.fixup_ctas > 0 ? 1 : 0;
        shared += plan.params.fixup_ctas > 0 && plan.params.fixup_quantum % plan.params.fixup.divisor != 0 ? 1 : 0;
      }
    }
  }
  EXPECT_GT(stream_k, 10);
  EXPECT_GT(shared, 2);
}

TEST(ImplicitGemmSm90Params, EvaluatesToTheConvolution) {
  int boxes = 0;
  int rows = 0;
  int phases = 0;
  int empty = 0;
  int splits = 0;
  int groups = 0;
  int transposes = 0;
  for (std::uint64_t i = 0; i < 160; ++i) {
    Random random = test::case_random(20260807, i);
    const ConvCase c = random_case(random);
    const test::Values values = test::make_values(c);
    for (int run = 0; run < 2;) {
      const Config config = {static_cast<std::int32_t>(random.between(0, sm90::kShapeCount - 1)),
                             random.pick<std::int32_t>({1, 1, 2, 5})};
      if (!sm90_shape_fits(c.problem, sm90::kShapes[config.tile])) continue;
      ++run;
      const Sm90Plan plan = check(c, values, config);
      if (testing::Test::HasFailure()) return;
      const sm90::Params& p = plan.params;
      ++(p.stores_boxes ? boxes : rows);
      phases += p.phases > 1 ? 1 : 0;
      empty += std::any_of(p.problem, p.problem + p.phases, [](const auto& dense) { return dense.k_blocks == 0; });
      splits += p.splits > 1 ? 1 : 0;
      groups += c.problem.groups > 1 ? 1 : 0;
      transposes += plan.transposes_filter ? 1 : 0;
    }
  }
  // The problems reached what they are for.
  EXPECT_GT(boxes, 60);
  EXPECT_GT(rows, 60);
  EXPECT_GT(phases, 30);
  EXPECT_GT(empty, 10);
  EXPECT_GT(splits, 80);
  EXPECT_GT(groups, 60);
  EXPECT_GT(transposes, 10);
}

TEST(ImplicitGemmSm90Params, StridedGradientsWithEmptyPhases) {
  const Problem pointwise = parse("conv dgrad f16 nhwc n2c24h9w7 k72r1s1 p0x0 t2x2 d1x1 g1");
  const Sm90Plan plan = sm90_plan(pointwise, {});
  ASSERT_EQ(plan.params.phases, 4u);
  int without_taps = 0;
  for (int i = 0; i < 4; ++i) without_taps += plan.params.problem[i].k_blocks == 0 ? 1 : 0;
  EXPECT_EQ(without_taps, 3);
  check_all_shapes("conv dgrad f16 nhwc n2c24h9w7 k72r1s1 p0x0 t2x2 d1x1 g1");
  check_all_shapes("conv dgrad f16 nhwc n2c16h9w10 k40r3s3 p1x1 t3x3 d1x1 g1 flip");
  check_all_shapes("conv dgrad f16 nhwc n1c16h11w10 k40r3s2 p2x1 t2x2 d2x2 g1");
  check_all_shapes("conv dgrad f16 nhwc n2c8h1w8 k8r3s3 p1x1 t2x1 d1x1 g1");
}

// Images of even extents have phases of equally many tiles.
TEST(ImplicitGemmSm90Params, PhasesTakeTurns) {
  for (const char* line : {"conv dgrad f16 nhwc n7c16h16w14 k24r3s3 p1x1 t2x2 d1x1 g1",
                           "conv dgrad f32 nhwc n5c132h12w18 k36r4s3 p1x1 t2x3 d1x1 g1 math=tensor"}) {
    ConvCase c;
    c.problem = parse(line);
    const test::Values values = test::make_values(c);
    for (const std::uint32_t turn : {1u, 2u, 3u, 1000u}) {
      for (const int tile : {1, 2, 5}) EXPECT_EQ(check(c, values, {tile, 1}, turn).params.turn, turn) << line;
    }
  }
  Sm90Plan plan = sm90_plan(parse("conv dgrad f16 nhwc n64c16h15w16 k24r3s3 p1x1 t2x2 d1x1 g1"), {1, 1});
  sm90_take_turns(4, &plan.params);
  EXPECT_EQ(plan.params.turn, 0u) << "phases of more and of fewer tiles";
}

TEST(ImplicitGemmSm90Params, PaddingLargerThanTheImage) {
  for (const char* direction : {"fwd", "dgrad", "wgrad"}) {
    check_all_shapes(std::string("conv ") + direction + " f16 nhwc n2c16h2w3 k24r3s3 p5x4 t1x1 d1x1 g1");
    check_all_shapes(std::string("conv ") + direction + " f16 nhwc n2c16h3w2 k24r3s2 p5x6 t2x3 d1x1 g1");
  }
}

TEST(ImplicitGemmSm90Params, Tf32) {
  for (const char* direction : {"fwd", "dgrad", "wgrad"}) {
    check_all_shapes(std::string("conv ") + direction + " f32 nhwc n2c36h7w6 k44r3s3 p1x1 t1x1 d1x1 g1 math=tensor");
    check_all_shapes(std::string("conv ") + direction + " f32 nhwc n2c64h7w6 k64r3s2 p1x1 t2x2 d1x1 g2 math=tensor");
  }
}

// A group's last tile sticks out into the rows and columns of the next group.
TEST(ImplicitGemmSm90Params, Groups) {
  check_all_shapes("conv fwd f16 nhwc n1c192h5w5 k72r3s3 p1x1 t1x1 d1x1 g3");
  check_all_shapes("conv dgrad f16 nhwc n1c48h5w5 k192r3s3 p1x1 t1x1 d1x1 g3");
  check_all_shapes("conv wgrad f16 nhwc n2c48h5w5 k72r3s3 p1x1 t1x1 d1x1 g3");
  check_all_shapes("conv wgrad f16 nhwc n2c128h5w5 k128r3s3 p1x1 t1x1 d1x1 g2");
  // The second tile of a cluster lies in the next group altogether.
  check_all_shapes("conv wgrad f16 nhwc n1c128h3w3 k256r1s1 p0x0 t1x1 d1x1 g2");
  check_all_shapes("conv wgrad f32 nhwc n2c120h5w5 k132r3s2 p1x1 t1x1 d1x1 g3 math=tensor");
  check_all_shapes("conv wgrad f32 nhwc n2c64h5w5 k256r3s3 p1x1 t1x1 d1x1 g2 math=tensor");
}

TEST(ImplicitGemmSm90Params, ThreeAndOneDimensions) {
  for (const char* direction : {"fwd", "dgrad", "wgrad"}) {
    check_all_shapes(std::string("conv ") + direction +
                     " bf16 nhwc n2c16d3h4w5 k24t2r3s3 p1x0x2 t2x1x2 d1x1x2 g1 flip");
    check_all_shapes(std::string("conv ") + direction + " f16 nhwc n2c72w67 k80s5 p3 t2 d3 g1");
    check_all_shapes(std::string("conv ") + direction +
                     " f32 nhwc n2c36d3h4w5 k24t2r3s3 p1x0x2 t2x1x2 d1x1x2 g1 flip math=tensor");
    check_all_shapes(std::string("conv ") + direction + " f32 nhwc n2c36w67 k44s5 p3 t2 d3 g1 math=tensor");
  }
}

TEST(ImplicitGemmSm90Params, OneImageOfEvenRowsGoesOutInBoxes) {
  const Sm90Plan packed = sm90_plan(parse("conv fwd f16 nhwc n2c64h7w7 k64r3s3 p1x1 t1x1 d1x1 g1"), {});
  EXPECT_TRUE(packed.params.stores_boxes);
  Problem gaps = parse("conv fwd f16 nhwc n2c64h7w7 k64r3s3 p1x1 t1x1 d1x1 g1");
  gaps.y.strides[0] += 64;
  EXPECT_FALSE(sm90_plan(gaps, {}).params.stores_boxes) << "the second image lies further";
  gaps.x.dims[0] = gaps.y.dims[0] = 1;
  EXPECT_TRUE(sm90_plan(gaps, {}).params.stores_boxes) << "there is no second image";
}

TEST(ImplicitGemmSm90Params, PointwiseOperandsAreMatrices) {
  const auto plan = [](const char* line) { return sm90_plan(parse(line), {1, 1}); };
  EXPECT_TRUE(plan("conv fwd f16 nhwc n2c64h7w7 k64r1s1 p0x0 t1x1 d1x1 g1").params.a_is_matrix);
  EXPECT_TRUE(plan("conv fwd f16 nhwc n2c64h7w7 k64r1s1 p0x0 t1x1 d1x1 g2").params.a_is_matrix);
  EXPECT_TRUE(plan("conv dgrad f16 nhwc n2c64h7w7 k64r1s1 p0x0 t1x1 d1x1 g1").params.a_is_matrix);
  EXPECT_FALSE(plan("conv fwd f16 nhwc n2c64h7w7 k64r1s1 p0x0 t2x2 d1x1 g1").params.a_is_matrix);
  EXPECT_FALSE(plan("conv fwd f16 nhwc n2c64h7w7 k64r1s1 p1x1 t1x1 d1x1 g1").params.a_is_matrix);
  EXPECT_FALSE(plan("conv fwd f16 nhwc n2c64h7w7 k64r3s3 p1x1 t1x1 d1x1 g1").params.a_is_matrix);
  EXPECT_FALSE(plan("conv dgrad f16 nhwc n2c64h7w7 k64r1s1 p0x0 t2x2 d1x1 g1").params.a_is_matrix);
  const Sm90Plan pointwise = plan("conv wgrad f16 nhwc n2c64h7w7 k64r1s1 p0x0 t1x1 d1x1 g1");
  EXPECT_TRUE(pointwise.params.a_is_matrix && pointwise.params.b_is_matrix);
  const Sm90Plan window = plan("conv wgrad f16 nhwc n2c64h7w7 k64r3s3 p1x1 t2x2 d1x1 g1");
  EXPECT_FALSE(window.params.a_is_matrix || window.params.b_is_matrix);
  Problem gaps = parse("conv fwd f16 nhwc n2c64h7w7 k64r1s1 p0x0 t1x1 d1x1 g1");
  gaps.x.strides[0] += 64;
  EXPECT_FALSE(sm90_plan(gaps, {}).params.a_is_matrix) << "the second image lies further";
}

// K tiles end where a group does.
TEST(ImplicitGemmSm90Params, SomeShapeFitsWhateverTheEngineTakes) {
  for (int vectors = 1; vectors <= 80; ++vectors) {
    for (const int groups : {1, 2}) {
      const std::string channels = std::to_string(8 * vectors * groups);
      const Problem p =
          parse("conv fwd f16 nhwc n1c" + channels + "h5w5 k16r1s1 p0x0 t1x1 d1x1 g" + std::to_string(groups));
      if (sm90_unsupported_reason(p) != nullptr) continue;
      int fitting = 0;
      for (const sm90::TileShape& shape : sm90::kShapes) {
        if (!sm90_shape_fits(p, shape)) continue;
        EXPECT_FALSE(shape.transposes);
        ++fitting;
        EXPECT_TRUE(groups == 1 || 16 * vectors % shape.k_bytes == 0) << channels;
      }
      EXPECT_GT(fitting, 0) << channels << " channels in " << groups << " groups";
    }
  }
}

TEST(ImplicitGemmSm90Params, Obstacles) {
  const std::pair<const char*, const char*> rows[] = {
      {"conv fwd f32 nhwc n1c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1", "the math type does not allow TF32 (math=tensor does)"},
      {"conv fwd f16 nhwc n1c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1 math=fma", "math=fma forbids the matrix units"},
      {"conv fwd f16 nchw n1c8h5w5 k8r1s1 p0x0 t1x1 d1x1 g1", "a tensor is not contiguous along channels"},
      {"conv fwd f16 nhwc n1c12h5w5 k8r1s1 p0x0 t1x1 d1x1 g1", "pixels do not begin at multiples of 16 bytes"},
      {"conv fwd f16 nhwc n1c8h5w5 k8r3s3 p0x0 t1x1 d1x1 g1 w:nchw",
       "the filter is not packed in the order k, taps, channels"},
      {"conv wgrad f16 nhwc n1c24h5w5 k16r1s1 p0x0 t1x1 d1x1 g2",
       "channels or filters of a group do not fill whole 16-byte vectors"},
      {"conv fwd f16 nhwc n1c32h5w5 k128r3s3 p1x1 t1x1 d1x1 g2",
       "a group's share of the reduction does not fill whole rows of 64 bytes"},
      {"conv fwd f16 nhwc n1c8h65536w65536 k8r1s1 p0x0 t1x1 d1x1 g1", "about 2^31 pixels or more"},
      {"conv fwd f16 nhwc n1c8h5w500 k8r1s257 p0x0 t1x1 d1x1 g1", "the dilated filter is larger than TMA's offsets"},
      {"conv fwd f16 nhwc n1c8h5w5 k8r1s1 p0x129 t1x1 d1x1 g1",
       "padding or the dilated filter reaches further than TMA's windows"},
      {"conv wgrad f16 nhwc n1c8d5h5w5 k8t1r1s1 p0x0x17 t1x1x1 d1x1x1 g1",
       "padding or the dilated filter reaches further than TMA's windows"},
      {"conv fwd f16 nhwc n1c8h5w50 k8r1s1 p0x0 t1x9 d1x1 g1", "strides over 8"},
      {"conv dgrad f16 nhwc n1c8h15w15 k8r3s3 p0x0 t4x3 d1x1 g1",
       "too many stride phases (strides multiply to over 9)"},
  };
  for (const auto& [line, text] : rows) EXPECT_STREQ(sm90_unsupported_reason(parse(line)), text) << line;
  // Of the groups' channels only those of the reduction have to fill rows.
  EXPECT_STREQ(sm90_unsupported_reason(parse("conv dgrad f16 nhwc n1c32h5w5 k128r3s3 p1x1 t1x1 d1x1 g2")), nullptr);
  // The limits themselves.
  for (const char* line : {"conv fwd f16 nhwc n1c8h5w5 k8r1s1 p0x127 t1x1 d1x1 g1",
                           "conv fwd f16 nhwc n1c8d5h5w5 k8t1r1s1 p0x0x15 t1x1x1 d1x1x1 g1",
                           "conv fwd f16 nhwc n1c8h5w50 k8r1s1 p0x0 t1x8 d1x1 g1",
                           "conv dgrad f16 nhwc n1c8h15w15 k8r3s3 p0x0 t3x3 d1x1 g1"}) {
    EXPECT_STREQ(sm90_unsupported_reason(parse(line)), nullptr) << line;
  }
}

}  // namespace
}  // namespace gpudnn::conv
