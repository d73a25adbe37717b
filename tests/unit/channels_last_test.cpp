// The copies between strided and packed channels-last tensors: their index arithmetic, run thread by thread on the
// host, against the definition, for each operand of convolutions of many layouts, extents and alignments.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/conv/transpose/channels_last.cuh"

#include <gtest/gtest.h>

#include <vector>

#include "ops/conv/transpose/nhwc_transpose_packing.hpp"
#include "support/random.hpp"

namespace gpudnn::test {
namespace {

namespace layout = kernels::channels_last;

template <class T>
std::string run(const layout::Task& task, bool pack) {
  std::vector<T> shared(task.shared_bytes / sizeof(T) + 16);
  T* const aligned = shared.data() + (16 - reinterpret_cast<std::uintptr_t>(shared.data()) % 16) % 16 / sizeof(T);
  for (std::uint32_t block = 0; block < task.blocks; ++block) {
    const layout::Tile tile = layout::locate(task, block);
    const T poison = static_cast<T>(0xbad0bad0);
    std::fill(shared.begin(), shared.end(), poison);
    const auto all = [](auto&& phase) {
      for (std::uint32_t thread = 0; thread < layout::kThreads; ++thread) phase(thread);
    };
    if (task.mode == layout::Mode::elements) {
      all([&](std::uint32_t t) {
        pack ? layout::copy_elements<T, true>(task, tile, t) : layout::copy_elements<T, false>(task, tile, t);
      });
    } else if (pack) {
      all([&](std::uint32_t t) { layout::load_lines(task, tile, t, aligned); });
      all([&](std::uint32_t t) { layout::store_rows<T>(task, tile, t, aligned); });
    } else {
      all([&](std::uint32_t t) { layout::load_rows(task, tile, t, aligned); });
      all([&](std::uint32_t t) { layout::store_lines<T>(task, tile, t, aligned); });
    }
    for (T* end = aligned + task.shared_bytes / sizeof(T); end < shared.data() + shared.size(); ++end) {
      if (*end != poison) return "shared memory was written beyond its end";
    }
  }
  return {};
}

// Calls body(strided offset or -1 for padding, packed offset) for each element of the packed tensor, by the definition.
template <class Body>
void for_each_element(const layout::Shape& s, Body&& body) {
  for (std::int64_t g = 0; g < s.groups; ++g) {
    for (std::int64_t o = 0; o < s.outer; ++o) {
      for (std::int64_t p = 0; p < std::int64_t{1} * s.pixels[0] * s.pixels[1] * s.pixels[2]; ++p) {
        const std::int64_t d2 = p % s.pixels[2], d1 = p / s.pixels[2] % s.pixels[1], d0 = p / s.pixels[2] / s.pixels[1];
        for (std::int64_t c = 0; c < s.channels_padded; ++c) {
          const bool exists = o < s.outer_kept && c < s.channels;
          const std::int64_t strided = s.base + g * s.group_step + o * s.outer_step + c * s.channel_step +
                                       d0 * s.pixel_step[0] + d1 * s.pixel_step[1] + d2 * s.pixel_step[2];
          body(exists ? strided : -1, g * s.packed_group_step + o * s.packed_outer_step + p * s.packed_pixel_step + c);
        }
      }
    }
  }
}

template <class T>
std::string check(layout::Task task, std::size_t misaligned) {
  const layout::Shape& s = task.shape;
  std::int64_t packed_count = 0;
  std::string wrong;
  for_each_element(s, [&](std::int64_t strided, std::int64_t packed) {
    packed_count = std::max(packed_count, packed + 1);
    if (strided < -1 || strided >= s.span) wrong = "an offset leaves the tensor";
  });
  if (!wrong.empty()) return wrong;
  // operator new aligns to 16 bytes; exactly as long as the tensor, so that a sanitizer sees reads beyond.
  const std::size_t span = static_cast<std::size_t>(s.span);
  std::vector<T> strided(span + misaligned), packed(static_cast<std::size_t>(packed_count), T(0xdead));
  for (std::size_t i = 0; i < strided.size(); ++i) strided[i] = static_cast<T>(1 + i * 2654435761U % 65521);
  const std::vector<T> before = strided;
  task.strided = strided.data() + misaligned;
  task.packed = packed.data();
  if (wrong = run<T>(task, true); !wrong.empty()) return wrong;
  std::vector<bool> touched(strided.size());
  for_each_element(s, [&](std::int64_t from, std::int64_t to) {
    const std::size_t at = static_cast<std::size_t>(from) + misaligned;
    const T expected = from < 0 ? T(0) : before[at];
    if (from >= 0) touched[at] = true;
    if (packed[static_cast<std::size_t>(to)] != expected) wrong = "packed element " + std::to_string(to);
  });
  if (!wrong.empty()) return wrong;
  if (strided != before) return "packing wrote to its input";
  // Back into a tensor of other values: its elements return, its gaps stay.
  for (T& value : strided) value = static_cast<T>(~value);
  if (wrong = run<T>(task, false); !wrong.empty()) return wrong;
  for (std::size_t i = 0; i < strided.size(); ++i) {
    if (strided[i] != (touched[i] ? before[i] : static_cast<T>(~before[i])))
      return "strided element " + std::to_string(i);
  }
  return {};
}

std::string check(const conv::PackedOperand& operand, std::size_t misaligned) {
  if (!operand.packed) return {};
  return operand.task.shape.element_bytes == 2 ? check<std::uint16_t>(operand.task, misaligned)
                                               : check<std::uint32_t>(operand.task, misaligned);
}

std::string check_forms(const std::string& line, std::size_t misaligned, int* tasks) {
  std::string why;
  const std::optional<conv::Problem> problem = conv::from_text(line, &why);
  if (!problem) return why;
  for (const bool padded : {true, false}) {
    conv::NhwcForm form;
    if (conv::make_nhwc_form(*problem, padded, &form) != nullptr) continue;
    if (const Status status = conv::validate(form.inner); status != GPUDNN_STATUS_SUCCESS)
      return "the inner problem is not valid";
    for (const conv::PackedOperand* operand : {&form.x, &form.w, &form.y, &form.z, &form.bias}) {
      *tasks += operand->packed ? 1 : 0;
      const std::string wrong = check(*operand, misaligned);
      if (!wrong.empty())
        return (padded ? "padded, operand " : "tight, operand ") + std::to_string(operand - &form.x) + ": " + wrong;
    }
  }
  return {};
}

TEST(ChannelsLast, HandPicked) {
  const char* const lines[] = {
      "conv fwd f16 nchw n2c3h40w33 k64r7s7 p3x3 t2x2 d1x1 g1 acc=f32 math=tensor",
      "conv fwd f16 nchw n3c64h7w7 k96r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor bias z act=relu",
      "conv dgrad f16 nchw n2c200h14w14 k130r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
      "conv dgrad f32 nchw n2c200h14w14 k130r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
      "conv dgrad f32 nchw n2c40h14w14 k130r3s3 p1x1 t2x2 d1x1 g1 acc=f32 math=tensor",
      "conv wgrad bf16 nchw n1c520h3w3 k72r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
      "conv fwd f32 nchw n2c130h28w28 k33r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor bias",
      "conv fwd f32 nchw n2c36h7w7 k40r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor flip",
      "conv fwd f16 nchw n1c20h12w12 k50r5s5 p0x0 t1x1 d1x1 g2 acc=f32 math=tensor bias",
      "conv fwd f16 nhwc n2c100h9w9 k100r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
      "conv fwd f16 nhwc n2c64h9w9 k64r3s3 p1x1 t1x1 d1x1 g1 w:nchw acc=f32 math=tensor",
      "conv fwd f16 nchw n1c5d3h6w7 k12t2r2s2 p0x0x0 t1x1x1 d1x1x1 g1 acc=f32 math=tensor",
      "conv fwd f16 nchw n2c70w1031 k9s3 p1 t1 d1 g1 acc=f32 math=tensor",
      "conv fwd f16 nchw n1c1h130w130 k1r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor",
      "conv fwd f16 nchw n1c40h35w35 k40r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
      "conv fwd f16 strides=20000,400,21,1 n2c40h18w19 k40r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
      "conv fwd f16 strides=20003,401,19,1 n2c40h18w19 k40r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor",
  };
  int tasks = 0;
  for (const char* line : lines) {
    for (const std::size_t misaligned : {0, 1, 3})
      EXPECT_EQ(check_forms(line, misaligned, &tasks), "") << line << " + " << misaligned;
  }
  EXPECT_GT(tasks, 100);
}

TEST(ChannelsLast, Random) {
  Random random(7);
  int tasks = 0;
  for (int i = 0; i < 150; ++i) {
    const auto n = [&](std::int64_t low, std::int64_t high) { return std::to_string(random.between(low, high)); };
    const std::int64_t groups = random.between(1, 3);
    const std::string line =
        "conv fwd " + std::string(random.chance(0.6) ? "f16" : "f32") + (random.chance(0.8) ? " nchw n" : " nhwc n") +
        n(1, 3) + "c" + std::to_string(groups * random.between(1, random.chance(0.2) ? 300 : 40)) + "h" + n(3, 30) +
        "w" + n(3, 30) + " k" + std::to_string(groups * random.between(1, 40)) + "r" + n(1, 3) + "s" + n(1, 3) +
        " p1x1 t1x1 d1x1 g" + std::to_string(groups) + " acc=f32 math=tensor" + (random.chance(0.3) ? " flip" : "") +
        (random.chance(0.3) ? " bias" : "");
    EXPECT_EQ(check_forms(line, static_cast<std::size_t>(random.between(0, 7)), &tasks), "") << line;
  }
  EXPECT_GT(tasks, 300);
}

// Packs the filter and looks each element up by the strides of the inner problem's filter.
std::string check_filter(const std::string& line, bool* by_output) {
  std::string why;
  const std::optional<conv::Problem> problem = conv::from_text(line, &why);
  if (!problem) return why;
  for (const bool padded : {true, false}) {
    conv::NhwcForm form;
    if (conv::make_nhwc_form(*problem, padded, &form) != nullptr || !form.w.packed) continue;
    const TensorGeometry& from = problem->w;
    const TensorGeometry& to = form.inner.w;
    *by_output = *by_output || (to.dims[0] > 1 && to.strides[0] == 1);
    std::vector<std::uint32_t> strided(static_cast<std::size_t>(element_span(from)));
    std::vector<std::uint32_t> packed(static_cast<std::size_t>(element_span(to)), 0xdead);
    for (std::size_t i = 0; i < strided.size(); ++i) strided[i] = static_cast<std::uint32_t>(i + 1);
    layout::Task task = form.w.task;
    task.strided = strided.data();
    task.packed = packed.data();
    if (std::string wrong = run<std::uint32_t>(task, true); !wrong.empty()) return wrong;
    for (std::int64_t i = 0; i < element_count(to); ++i) {
      std::int64_t rest = i;
      std::int64_t source = 0;
      std::int64_t target = 0;
      bool exists = true;
      for (int d = to.rank - 1; d >= 0; --d) {
        const std::int64_t at = rest % to.dims[d];
        rest /= to.dims[d];
        const bool mirrored = d >= 2 && problem->mode == GPUDNN_CONVOLUTION;
        source += (mirrored ? from.dims[d] - 1 - at : at) * from.strides[d];
        target += at * to.strides[d];
        exists = exists && at < from.dims[d];
      }
      const std::uint32_t expected = exists ? static_cast<std::uint32_t>(source + 1) : 0;
      if (packed[static_cast<std::size_t>(target)] != expected) return "element " + std::to_string(i);
    }
  }
  return {};
}

// Float's data gradient gets the filter with its output channels innermost, but where that is no plain transposition.
TEST(ChannelsLast, TheFilterLiesAsTheInnerProblemSays) {
  const struct {
    const char* line;
    bool by_output;
  } rows[] = {
      {"conv dgrad f32 nchw n2c36h7w7 k40r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor", true},
      {"conv dgrad f32 nchw n2c64h7w7 k37r1s1 p0x0 t2x2 d1x1 g1 acc=f32 math=tensor", true},
      {"conv dgrad f32 nchw n1c4d3h6w7 k12t2r2s2 p0x0x0 t1x1x1 d1x1x1 g1 acc=f32 math=tensor", true},
      {"conv dgrad f32 nchw n2c130w28 k136s1 p0 t1 d1 g1 acc=f32 math=tensor", true},
      {"conv dgrad f32 nhwc n2c36h7w7 k40r3s3 p1x1 t1x1 d1x1 g1 w:nchw acc=f32 math=tensor", true},
      {"conv dgrad f32 nchw n2c36h7w7 k40r3s3 p1x1 t1x1 d1x1 g2 acc=f32 math=tensor", false},
      {"conv fwd f32 nchw n2c36h7w7 k40r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor", false},
      {"conv dgrad f32 nchw n2c36h7w7 k40r3s3 p1x1 t1x1 d1x1 g1 w:nhwc acc=f32 math=tensor", false},
      {"conv dgrad f32 nchw n2c36h7w7 k40r3s3 p1x1 t1x1 d1x1 g1 acc=f32 math=tensor flip", false},
  };
  for (const auto& row : rows) {
    bool by_output = false;
    EXPECT_EQ(check_filter(row.line, &by_output), "") << row.line;
    EXPECT_EQ(by_output, row.by_output) << row.line;
  }
  // Nothing else has to be copied: the inner engine does it.
  std::string why;
  conv::NhwcForm form;
  const auto packed = conv::from_text("conv dgrad f32 nhwc n2c36h7w7 k40r1s1 p0x0 t1x1 d1x1 g1 math=tensor", &why);
  ASSERT_TRUE(packed.has_value()) << why;
  EXPECT_NE(conv::make_nhwc_form(*packed, true, &form), nullptr);
}

}  // namespace
}  // namespace gpudnn::test
