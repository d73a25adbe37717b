// The mapping of convolutions to SIMT implicit GEMMs, evaluated on the host with the arithmetic that the kernel uses
// and compared with the definition of convolution.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/implicit_gemm/implicit_gemm_simt_params.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace gpudnn::conv {
namespace {

using namespace kernels::simt;  // NOLINT

using Values = std::vector<double>;

struct Case {
  Problem problem;
  Values x, w, y;  // by element offset
};

std::int64_t at(const TensorGeometry& t, std::int64_t a, std::int64_t b, const std::int64_t* spatial, int count) {
  std::int64_t offset = a * t.strides[0] + b * t.strides[1];
  for (int i = 0; i < count; ++i) offset += spatial[i] * t.strides[2 + i];
  return offset;
}

// Calls f(image, filter, channel of x, channel of w, x position, tap, y position) for each product of the definition.
template <class F>
void for_each_product(const Problem& p, F&& f) {
  const int s = p.spatial;
  std::int64_t q[3];
  std::int64_t r[3];
  std::int64_t h[3];
  std::int64_t outputs = 1;
  std::int64_t taps = 1;
  for (int i = 0; i < s; ++i) {
    outputs *= p.y.dims[2 + i];
    taps *= p.w.dims[2 + i];
  }
  const std::int64_t filters = p.w.dims[0] / p.groups;
  for (std::int64_t out = 0; out < outputs; ++out) {
    for (std::int64_t tap = 0; tap < taps; ++tap) {
      std::int64_t rest_out = out;
      std::int64_t rest_tap = tap;
      bool inside = true;
      for (int i = s - 1; i >= 0; --i) {
        q[i] = rest_out % p.y.dims[2 + i];
        rest_out /= p.y.dims[2 + i];
        r[i] = rest_tap % p.w.dims[2 + i];
        rest_tap /= p.w.dims[2 + i];
        const std::int64_t along = p.mode == GPUDNN_CONVOLUTION ? p.w.dims[2 + i] - 1 - r[i] : r[i];
        h[i] = q[i] * p.stride[i] - p.pad[i] + along * p.dilation[i];
        inside = inside && h[i] >= 0 && h[i] < p.x.dims[2 + i];
      }
      if (!inside) continue;
      for (std::int64_t n = 0; n < p.x.dims[0]; ++n) {
        for (std::int64_t k = 0; k < p.w.dims[0]; ++k) {
          for (std::int64_t c = 0; c < p.w.dims[1]; ++c) f(n, k, k / filters * p.w.dims[1] + c, c, h, r, q);
        }
      }
    }
  }
}

Values expected(const Case& c) {
  const Problem& p = c.problem;
  const TensorGeometry& out = output(p);
  Values sums(static_cast<std::size_t>(element_span(out)), 0.0);
  const int s = p.spatial;
  for_each_product(p, [&](auto n, auto k, auto xc, auto wc, const auto* h, const auto* r, const auto* q) {
    const auto ix = static_cast<std::size_t>(at(p.x, n, xc, h, s));
    const auto iw = static_cast<std::size_t>(at(p.w, k, wc, r, s));
    const auto iy = static_cast<std::size_t>(at(p.y, n, k, q, s));
    switch (p.direction) {
      case Direction::forward:
        sums[iy] += c.x[ix] * c.w[iw];
        break;
      case Direction::dgrad:
        sums[ix] += c.y[iy] * c.w[iw];
        break;
      case Direction::wgrad:
        sums[iw] += c.x[ix] * c.y[iy];
        break;
    }
  });
  return sums;
}

bool has_vectors(LoadMode mode) { return mode == LoadMode::outer_vector || mode == LoadMode::k_vector; }

// Evaluates the GEMM of one phase and group as the kernel does; counts how often each element of C is written.
template <class Index>
class Emulation {
 public:
  Emulation(const Case& c, const Params& p) : case_(c), p_(p), bytes_(tile::element_bytes(tile::ElementType::f32)) {}

  void run(Values* result, std::vector<int>* writes) {
    for (std::uint32_t group = 0; group < p_.groups; ++group) {
      for (std::uint32_t stride_phase = 0; stride_phase < p_.phases; ++stride_phase) {
        run_class(group, stride_phase, result, writes);
      }
    }
  }

 private:
  const Values& a_values() const { return case_.problem.direction == Direction::dgrad ? case_.y : case_.x; }
  const Values& b_values() const { return case_.problem.direction == Direction::wgrad ? case_.y : case_.w; }

  bool inside(const Entry& a, const Entry& b, const Bounds& bounds) const {
    return in_bounds<Index>(static_cast<Index>(a.coord) + static_cast<Index>(b.coord), static_cast<Index>(bounds.limit),
                            static_cast<Index>(bounds.guards));
  }
  std::int64_t element(const Entry& a, const Entry& b) const {
    EXPECT_EQ((a.offset + b.offset) % bytes_, 0);
    return (a.offset + b.offset) / bytes_;
  }
  double load(const Values& values, const Entry& outer, const Entry& inner, const Bounds& bounds) const {
    if (!inside(outer, inner, bounds)) return 0;
    const std::int64_t i = element(outer, inner);
    EXPECT_GE(i, 0);
    EXPECT_LT(i, static_cast<std::int64_t>(values.size()));
    return i < 0 || i >= static_cast<std::int64_t>(values.size()) ? 0 : values[static_cast<std::size_t>(i)];
  }

  std::vector<Entry> entries(const LinearMap& map, const Radices& radices, std::int64_t count, Entry base,
                             const Bounds& bounds) const {
    std::vector<Entry> list;
    // Beyond the end, as in a tile that sticks out.
    for (std::int64_t i = 0; i < count + 3; ++i) {
      list.push_back(
          entry_or_poison<Index>(map, radices, static_cast<Index>(i), static_cast<Index>(count), base, bounds.poison));
    }
    return list;
  }

  // Neighbours of a vector lie side by side, are alike in position, and start at a multiple of the vector.
  void expect_vectors(const std::vector<Entry>& along, std::int64_t count, const std::vector<Entry>& other) const {
    ASSERT_EQ(count % 4, 0);
    for (std::int64_t i = 0; i < count; i += 4) {
      const auto first = static_cast<std::size_t>(i);
      for (std::size_t j = 1; j < 4; ++j) {
        ASSERT_EQ(along[first + j].offset, along[first].offset + static_cast<std::int64_t>(j) * bytes_);
        ASSERT_EQ(along[first + j].coord, along[first].coord);
      }
      ASSERT_EQ((along[first].offset + other[0].offset) % (4 * bytes_), 0);
    }
    for (std::size_t i = 0; i + 3 < other.size(); ++i) ASSERT_EQ((other[i].offset - other[0].offset) % (4 * bytes_), 0);
  }

  void run_class(std::uint32_t group, std::uint32_t stride_phase, Values* result, std::vector<int>* writes) {
    Geometry g;
    set_geometry(p_, stride_phase, &g);
    if (g.m_count == 0) return;
    ASSERT_LE(g.m_count, p_.whole.m_count);
    ASSERT_LE(g.k_count, p_.whole.k_count);
    Entry a = p_.operand_a.base;
    a.offset += g.a_base.offset + group * p_.operand_a.group_step;
    a.coord += g.a_base.coord;
    Entry b = p_.operand_b.base;
    b.offset += g.b_base + group * p_.operand_b.group_step;
    Entry c = p_.output.base;
    c.offset += g.c_base + group * p_.output.group_step;
    const auto am = entries(p_.operand_a.outer, g.m, g.m_count, a, p_.operand_a.bounds);
    const auto ak = entries(p_.operand_a.inner, g.k, g.k_count, Entry{0, 0}, p_.operand_a.bounds);
    const auto bn = entries(p_.operand_b.outer, p_.n, p_.n_count, b, p_.operand_b.bounds);
    const auto bk = entries(p_.operand_b.inner, g.k, g.k_count, Entry{0, 0}, p_.operand_b.bounds);
    const auto cm = entries(p_.output.m, g.m, g.m_count, c, p_.output.bounds);
    const auto cn = entries(p_.output.n, p_.n, p_.n_count, Entry{0, 0}, p_.output.bounds);
    if (g.k_count > 0) {
      if (p_.operand_a.mode == LoadMode::outer_vector) expect_vectors(am, g.m_count, ak);
      if (p_.operand_a.mode == LoadMode::k_vector) expect_vectors(ak, g.k_count, am);
      if (p_.operand_b.mode == LoadMode::outer_vector) expect_vectors(bn, p_.n_count, bk);
      if (p_.operand_b.mode == LoadMode::k_vector) expect_vectors(bk, g.k_count, bn);
    }
    if (p_.output.vectors) {
      if (p_.output.m_is_fast)
        expect_vectors(cm, g.m_count, cn);
      else
        expect_vectors(cn, p_.n_count, cm);
    }
    for (std::size_t m = 0; m < am.size(); ++m) {
      for (std::size_t n = 0; n < bn.size(); ++n) {
        double sum = 0;
        for (std::size_t k = 0; k < ak.size(); ++k) {
          sum +=
              load(a_values(), am[m], ak[k], p_.operand_a.bounds) * load(b_values(), bn[n], bk[k], p_.operand_b.bounds);
        }
        if (!inside(cm[m], cn[n], p_.output.bounds)) continue;
        const std::int64_t i = element(cm[m], cn[n]);
        ASSERT_GE(i, 0);
        ASSERT_LT(i, static_cast<std::int64_t>(result->size()));
        (*result)[static_cast<std::size_t>(i)] = sum;
        ++(*writes)[static_cast<std::size_t>(i)];
      }
    }
  }

  const Case& case_;
  const Params& p_;
  std::int64_t bytes_;
};

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed) {}

  int below(int n) { return static_cast<int>(random_() % static_cast<unsigned>(n)); }

  // Packed, channels-last, or in a random order of dimensions with gaps.
  void set_layout(TensorGeometry* t) {
    const int kind = below(3);
    if (kind < 2) {
      set_packed_strides(t, kind == 0 ? GPUDNN_TENSOR_NCHW : GPUDNN_TENSOR_NHWC);
      return;
    }
    std::vector<int> order(static_cast<std::size_t>(t->rank));
    for (int i = 0; i < t->rank; ++i) order[static_cast<std::size_t>(i)] = i;
    std::shuffle(order.begin(), order.end(), random_);
    std::int64_t step = 1 + below(2);
    for (const int i : order) {
      t->strides[i] = step;
      step = step * t->dims[i] + below(3);
    }
  }

  Problem problem() {
    Problem p;
    p.direction = static_cast<Direction>(below(3));
    p.spatial = 1 + below(3);
    p.groups = below(4) == 0 ? 2 + below(2) : 1;
    p.mode = below(3) == 0 ? GPUDNN_CONVOLUTION : GPUDNN_CROSS_CORRELATION;
    p.x.rank = p.w.rank = p.y.rank = 2 + p.spatial;
    p.x.dims[0] = p.y.dims[0] = 1 + below(2);
    const int channels = below(2) == 0 ? 4 : 1 + below(5);
    const int filters = below(2) == 0 ? 4 : 1 + below(5);
    p.x.dims[1] = channels * p.groups;
    p.w.dims[1] = channels;
    p.w.dims[0] = p.y.dims[1] = filters * p.groups;
    const bool pointwise = below(5) == 0;
    for (int i = 0; i < p.spatial; ++i) {
      p.w.dims[2 + i] = pointwise ? 1 : 1 + below(p.spatial == 3 ? 3 : 5);
      p.stride[i] = pointwise && below(2) == 0 ? 1 : 1 + below(4);
      p.dilation[i] = below(2) == 0 ? 1 : 1 + below(4);
      p.pad[i] = pointwise && below(2) == 0 ? 0 : below(4);
      const int reach = static_cast<int>(p.dilation[i] * (p.w.dims[2 + i] - 1) + 1);
      const int smallest = std::max(1, reach - static_cast<int>(2 * p.pad[i]));
      p.x.dims[2 + i] = smallest + below(p.spatial == 3 ? 4 : 8);
      p.y.dims[2 + i] = output_extent(p, i);
    }
    set_layout(&p.x);
    set_layout(&p.w);
    set_layout(&p.y);
    if (below(2) == 0) {  // the common case: one layout
      const auto format = below(2) == 0 ? GPUDNN_TENSOR_NCHW : GPUDNN_TENSOR_NHWC;
      for (TensorGeometry* t : {&p.x, &p.w, &p.y}) set_packed_strides(t, format);
    }
    return p;
  }

  Values values(const TensorGeometry& t) {
    Values v(static_cast<std::size_t>(element_span(t)));
    for (double& value : v) value = below(7) - 3;
    return v;
  }

  Case make_case() {
    Case c;
    c.problem = problem();
    c.x = values(c.problem.x);
    c.w = values(c.problem.w);
    c.y = values(c.problem.y);
    return c;
  }

 private:
  std::mt19937 random_;
};

void check(const Case& c, bool wide, const Params& params) {
  const TensorGeometry& out = output(c.problem);
  Values result(static_cast<std::size_t>(element_span(out)), 0.0);
  std::vector<int> writes(result.size(), 0);
  if (wide)
    Emulation<std::uint64_t>(c, params).run(&result, &writes);
  else
    Emulation<std::uint32_t>(c, params).run(&result, &writes);
  EXPECT_EQ(result, expected(c));
  std::int64_t written = 0;
  for (const int count : writes) {
    EXPECT_LE(count, 1);
    written += count;
  }
  EXPECT_EQ(written, element_count(out)) << "every element is written once";
}

TEST(ImplicitGemmSimtParams, EvaluatesToTheConvolution) {
  Generator generator(20260101);
  int vectors = 0;
  int with_phases = 0;
  int one_phase = 0;
  for (int i = 0; i < 1500; ++i) {
    const Case c = generator.make_case();
    SCOPED_TRACE(to_text(c.problem));
    ASSERT_EQ(simt_index_unsupported_reason(c.problem), nullptr);
    const Params params = simt_params(c.problem);
    check(c, params.wide, params);
    if (testing::Test::HasFailure()) return;
    vectors += has_vectors(params.operand_a.mode) || has_vectors(params.operand_b.mode) ? 1 : 0;
    with_phases += params.phases > 1 ? 1 : 0;
    const bool strided = c.problem.stride[0] > 1 || c.problem.stride[1] > 1 || c.problem.stride[2] > 1;
    one_phase += c.problem.direction == Direction::dgrad && params.phases == 1 && strided ? 1 : 0;
  }
  // The cases reached what they are for.
  EXPECT_GT(vectors, 100);
  EXPECT_GT(with_phases, 50);
  EXPECT_GT(one_phase, 20);
}

// 64-bit positions and indices take another way through the same maps.
TEST(ImplicitGemmSimtParams, WideIndicesEvaluateAlike) {
  Generator generator(7);
  for (int i = 0; i < 300; ++i) {
    const Case c = generator.make_case();
    SCOPED_TRACE(to_text(c.problem));
    check(c, true, simt_params(c.problem, true));
    if (testing::Test::HasFailure()) return;
  }
}

TEST(ImplicitGemmSimtParams, LargeProblemsAreWide) {
  std::string why;
  const auto pixels = from_text("conv fwd f32 nchw n3c1h32768w32768 k1r1s1 p0x0 t1x1 d1x1 g1", &why);
  ASSERT_TRUE(pixels) << why;
  EXPECT_TRUE(simt_params(*pixels).wide) << "more than 2^31 pixels";
  const auto row = from_text("conv fwd f32 nchw n1c1w1000000000 k1s3 p1 t1 d1 g1", &why);
  ASSERT_TRUE(row) << why;
  EXPECT_TRUE(simt_params(*row).wide) << "positions of more than 28 bits";
  const auto elements = from_text("conv fwd f32 nchw n64c1024h256w256 k4r3s3 p1x1 t1x1 d1x1 g1", &why);
  ASSERT_TRUE(elements) << why;
  const Params params = simt_params(*elements);
  EXPECT_FALSE(params.wide) << "offsets have 64 bits in any case";
  const Entry last =
      evaluate(params.operand_a.outer, digits(params.whole.m, std::uint32_t{64 * 256 * 256 - 1}), Entry{0, 0});
  EXPECT_EQ(last.offset, (std::int64_t{63} * 1024 * 65536 + 65535) * 4);
}

// Blocks cover each tile of each phase, group and split once.
TEST(ImplicitGemmSimtParams, BlocksCoverTheTiles) {
  std::string why;
  const auto problem = from_text("conv dgrad f32 nchw n5c96h29w31 k64r3s3 p1x1 t2x2 d1x1 g2", &why);
  ASSERT_TRUE(problem) << why;
  Params params = simt_params(*problem);
  const std::uint32_t blocks = set_simt_config({3, 5}, &params);
  EXPECT_EQ(params.phases, 4u);
  std::vector<int> seen(blocks, 0);
  for (std::uint32_t block = 0; block < blocks; ++block) {
    const TilePosition at = tile_position(params, block);
    ASSERT_LT(at.n, params.n_tiles.divisor);
    ASSERT_LT(at.m, params.m_tiles.divisor);
    ASSERT_LT(at.stride_phase, 4u);
    ASSERT_LT(at.group, 2u);
    ASSERT_LT(at.split, 5u);
    ++seen[(((at.split * 2 + at.group) * 4 + at.stride_phase) * params.m_tiles.divisor + at.m) *
               params.n_tiles.divisor +
           at.n];
  }
  EXPECT_TRUE(std::all_of(seen.begin(), seen.end(), [](int count) { return count == 1; }));
  EXPECT_GE(params.k_per_split * params.splits, params.whole.k_count);
}

// The shapes that networks are made of get vectors where memory offers them.
TEST(ImplicitGemmSimtParams, LoadsOfCommonLayers) {
  struct Row {
    const char* text;
    LoadMode a, b;
    bool m_is_fast, vectors;
  };
  const Row rows[] = {
      {"conv fwd f32 nchw n2c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1", LoadMode::outer_scalar, LoadMode::k_vector, true,
       true},
      {"conv fwd f32 nchw n2c64h56w56 k64r1s1 p0x0 t1x1 d1x1 g1", LoadMode::outer_vector, LoadMode::k_vector, true,
       true},
      {"conv fwd f32 nhwc n2c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1", LoadMode::k_vector, LoadMode::k_vector, false, true},
      {"conv fwd f32 nchw n2c3h224w224 k64r7s7 p3x3 t2x2 d1x1 g1", LoadMode::outer_scalar, LoadMode::k_scalar, true,
       true},
      {"conv dgrad f32 nchw n2c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1", LoadMode::outer_scalar, LoadMode::k_scalar, true,
       true},
      {"conv dgrad f32 nchw n2c64h56w56 k64r1s1 p0x0 t1x1 d1x1 g1", LoadMode::outer_vector, LoadMode::outer_vector,
       true, true},
      {"conv dgrad f32 nhwc n2c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1", LoadMode::k_vector, LoadMode::outer_vector, false,
       true},
      {"conv dgrad f32 nhwc n2c64h56w56 k64r3s3 p1x1 t2x2 d1x1 g1", LoadMode::k_vector, LoadMode::outer_vector, false,
       true},
      {"conv wgrad f32 nchw n2c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1", LoadMode::k_scalar, LoadMode::k_vector, true, true},
      {"conv wgrad f32 nchw n2c64h56w56 k64r1s1 p0x0 t1x1 d1x1 g1", LoadMode::k_vector, LoadMode::k_vector, true, true},
      {"conv wgrad f32 nhwc n2c64h56w56 k64r3s3 p1x1 t1x1 d1x1 g1", LoadMode::outer_vector, LoadMode::outer_vector,
       true, true},
  };
  for (const Row& row : rows) {
    std::string why;
    const auto problem = from_text(row.text, &why);
    ASSERT_TRUE(problem) << row.text << ": " << why;
    const Params params = simt_params(*problem);
    EXPECT_EQ(static_cast<int>(params.operand_a.mode), static_cast<int>(row.a)) << row.text;
    EXPECT_EQ(static_cast<int>(params.operand_b.mode), static_cast<int>(row.b)) << row.text;
    EXPECT_EQ(params.output.m_is_fast, row.m_is_fast) << row.text;
    EXPECT_EQ(params.output.vectors, row.vectors) << row.text;
  }
}

}  // namespace
}  // namespace gpudnn::conv
