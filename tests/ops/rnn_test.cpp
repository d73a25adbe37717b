// Recurrent networks through the public interface.
// SPDX-License-Identifier: Apache-2.0
#include "support/rnn.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <initializer_list>
#include <utility>

#include "support/number.hpp"
#include "support/sweep.hpp"

namespace gpudnn::test {
namespace {

using rnn::Network;
using rnn::Problem;
using rnn::Sequences;

struct RnnDescriptor : Descriptor<gpudnnRNNDescriptor_t, gpudnnCreateRNNDescriptor, gpudnnDestroyRNNDescriptor> {};
struct RnnDataDescriptor
    : Descriptor<gpudnnRNNDataDescriptor_t, gpudnnCreateRNNDataDescriptor, gpudnnDestroyRNNDataDescriptor> {};
struct DropoutDescriptor
    : Descriptor<gpudnnDropoutDescriptor_t, gpudnnCreateDropoutDescriptor, gpudnnDestroyDropoutDescriptor> {};

void set(gpudnnRNNDescriptor_t desc, const Network& net, gpudnnDropoutDescriptor_t dropout,
         gpudnnRNNAlgo_t algo = GPUDNN_RNN_ALGO_STANDARD) {
  GPUDNN_TEST_REQUIRE(gpudnnSetRNNDescriptor_v8(
      desc, algo, net.cell, net.bias, net.bidirectional ? GPUDNN_BIDIRECTIONAL : GPUDNN_UNIDIRECTIONAL,
      net.skip ? GPUDNN_SKIP_INPUT : GPUDNN_LINEAR_INPUT, net.type, compute_type(net.type), net.math, net.input,
      net.hidden, net.projected, net.layers, dropout, GPUDNN_RNN_PADDED_IO_ENABLED));
  if (net.clips) {
    GPUDNN_TEST_REQUIRE(gpudnnRNNSetClip_v8(desc, GPUDNN_RNN_CLIP_MINMAX,
                                            net.clip_passes_nan ? GPUDNN_PROPAGATE_NAN : GPUDNN_NOT_PROPAGATE_NAN,
                                            net.clip_low, net.clip_high));
  }
}

void set(gpudnnRNNDataDescriptor_t desc, const Problem& problem, std::int64_t width) {
  const Sequences& s = problem.sequences;
  std::vector<unsigned char> fill(8);
  encode(problem.fill, problem.net.type, fill.data());
  GPUDNN_TEST_REQUIRE(gpudnnSetRNNDataDescriptor(desc, problem.net.type, s.layout, s.steps, s.batch,
                                                 static_cast<int>(width), s.lengths.data(),
                                                 problem.fills ? fill.data() : nullptr));
}

// Numbers in memory of the backend, NaN where none are given.
class Data {
 public:
  Data(const Backend& backend, gpudnnDataType_t type, std::size_t count, std::size_t misalignment = 0)
      : type_(type), count_(count), buffer_(backend, count * element_size(type), misalignment) {}
  Data(const Backend& backend, gpudnnDataType_t type, const std::vector<double>& values, std::size_t misalignment = 0)
      : Data(backend, type, values.size(), misalignment) {
    std::vector<unsigned char> bytes(count_ * element_size(type));
    for (std::size_t i = 0; i < count_; ++i) encode(values[i], type, bytes.data() + i * element_size(type));
    if (count_ > 0) buffer_.write(bytes.data(), bytes.size());
  }
  [[nodiscard]] void* data() const { return buffer_.data(); }
  [[nodiscard]] std::vector<double> values() const {
    std::vector<unsigned char> bytes(count_ * element_size(type_));
    if (count_ > 0) buffer_.read(bytes.data(), bytes.size());
    std::vector<double> values(count_);
    for (std::size_t i = 0; i < count_; ++i) values[i] = decode(bytes.data() + i * element_size(type_), type_);
    return values;
  }
  [[nodiscard]] std::vector<unsigned char> image() const {
    std::vector<unsigned char> bytes(buffer_.bytes());
    if (!bytes.empty()) buffer_.read(bytes.data(), bytes.size());
    return bytes;
  }
  [[nodiscard]] std::string damage() const { return buffer_.damage(); }

 private:
  gpudnnDataType_t type_;
  std::size_t count_;
  GuardedBuffer buffer_;
};

// Where element (t, n) of [steps, batch, width] lies in the caller's layout, in vectors; -1: nowhere.
std::vector<std::int64_t> places_of(const Sequences& s) {
  std::vector<std::int64_t> places;
  std::int64_t packed = 0;
  for (int t = 0; t < s.steps; ++t) {
    for (int n = 0; n < s.batch; ++n) {
      const bool there = t < s.lengths[static_cast<std::size_t>(n)];
      if (s.layout == GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED) {
        places.push_back(there ? packed++ : -1);
      } else if (s.layout == GPUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED) {
        places.push_back(std::int64_t{n} * s.steps + t);
      } else {
        places.push_back(std::int64_t{t} * s.batch + n);
      }
    }
  }
  return places;
}
bool is_valid(const Sequences& s, std::size_t index) {
  const std::size_t n = index % static_cast<std::size_t>(s.batch);
  return static_cast<int>(index / static_cast<std::size_t>(s.batch)) < s.lengths[n];
}
std::size_t vectors_in(const Sequences& s) {
  if (s.layout != GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED) return static_cast<std::size_t>(s.capacity());
  std::size_t count = 0;
  for (const int length : s.lengths) count += static_cast<std::size_t>(length);
  return count;
}
// [steps, batch, width] in the caller's layout, padding as NaN.
std::vector<double> laid_out(const Sequences& s, const std::vector<double>& values, std::size_t width) {
  std::vector<double> out(vectors_in(s) * width, std::nan(""));
  const std::vector<std::int64_t> places = places_of(s);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (!is_valid(s, i)) continue;
    for (std::size_t j = 0; j < width; ++j)
      out[static_cast<std::size_t>(places[i]) * width + j] = values[i * width + j];
  }
  return out;
}

std::string compare(const char* name, const std::vector<double>& found, const std::vector<double>& expected,
                    double bound) {
  double scale = 0.05;
  for (const double value : expected) scale = std::max(scale, std::abs(value));
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (std::abs(found[i] - expected[i]) <= bound * scale) continue;
    return std::string(name) + "[" + std::to_string(i) + "] is " + std::to_string(found[i]) + " but should be " +
           std::to_string(expected[i]) + ", within " + std::to_string(bound * scale) + "; ";
  }
  return "";
}
std::string compare_laid_out(const char* name, const Problem& problem, const std::vector<double>& found,
                             const std::vector<double>& expected, std::size_t width, double bound) {
  const Sequences& s = problem.sequences;
  const std::vector<std::int64_t> places = places_of(s);
  std::vector<double> mine;
  std::vector<double> wanted;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const bool fills = problem.fills && s.layout != GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED;
    if (!is_valid(s, i) && !fills) continue;
    for (std::size_t j = 0; j < width; ++j) {
      mine.push_back(found[static_cast<std::size_t>(places[i]) * width + j]);
      wanted.push_back(is_valid(s, i) ? expected[i * width + j] : round_to_type(problem.fill, problem.net.type));
    }
  }
  return compare(name, mine, wanted, bound);
}

struct RnnCase {
  Problem problem;
  bool hx = true, cx = true, hy = true, cy = true, dhy = true, dcy = true, dhx = true, dcx = true;
  std::size_t misalignment = 0;
  std::uint64_t seed = 1;
};
std::string describe(const RnnCase& c) {
  std::string text = to_text(c.problem);
  for (const auto& [given, name] : {std::pair{c.hx, "hx"},
                                    {c.cx, "cx"},
                                    {c.hy, "hy"},
                                    {c.cy, "cy"},
                                    {c.dhy, "dhy"},
                                    {c.dcy, "dcy"},
                                    {c.dhx, "dhx"},
                                    {c.dcx, "dcx"}}) {
    if (!given) text += std::string(" no-") + name;
  }
  return text + " misaligned=" + std::to_string(c.misalignment) + " seed=" + std::to_string(c.seed);
}

// A network, its data on the backend, and what the oracle says.
class Round {
 public:
  Round(const Backend& backend, const RnnCase& c) : backend_(backend), c_(c), p_(c.problem), random_(c.seed) {
    const Network& net = p_.net;
    const auto cells = static_cast<std::size_t>(p_.sequences.capacity());
    const auto states = static_cast<std::size_t>(net.pseudo_layers() * p_.sequences.batch);
    std::int64_t total = 0;
    (void)naive_rnn_places(net, &total);
    v_.x = numbers(cells * static_cast<std::size_t>(net.input), 1);
    v_.dy = numbers(cells * static_cast<std::size_t>(net.output_width()), 1);
    v_.weights = numbers(static_cast<std::size_t>(total), 0.6 / std::sqrt(std::max(net.hidden, net.input)));
    const auto h = states * static_cast<std::size_t>(net.projected);
    const auto k = states * static_cast<std::size_t>(net.hidden);
    if (c.hx) v_.hx = numbers(h, 0.7);
    if (c.cx) v_.cx = numbers(k, 0.7);
    if (c.dhy) v_.dhy = numbers(h, 1);
    if (c.dcy) v_.dcy = numbers(k, 1);
    if (net.drops()) {
      std::size_t bytes = 0;
      GPUDNN_TEST_REQUIRE(gpudnnDropoutGetStatesSize(backend.handle(), &bytes));
      states_.emplace(backend, bytes);
      GPUDNN_TEST_REQUIRE(
          gpudnnSetDropoutDescriptor(dropout_, backend.handle(), net.dropout, states_->data(), bytes, c.seed));
      for (int layer = 0; layer + 1 < net.layers; ++layer) {
        v_.kept.push_back(naive_rnn_kept(p_, c.seed, static_cast<std::uint64_t>(layer)));
      }
    }
    expected_ = naive_rnn(p_, v_);
    set(rnn_, net, net.drops() ? static_cast<gpudnnDropoutDescriptor_t>(dropout_) : nullptr);
    set(x_desc_, p_, net.input);
    set(y_desc_, p_, net.output_width());
    set_state(h_desc_, net.projected);
    set_state(c_desc_, net.hidden);
  }

  std::string run() {
    std::string wrong = forward(GPUDNN_FWD_MODE_TRAINING);
    if (!wrong.empty()) return "training: " + wrong;
    // Where rounding may decide on the branch of a kink, the oracle cannot tell the gradients.
    if (expected_.least_margin > 4 * rnn_tolerance(p_)) wrong = gradients();
    if (!wrong.empty()) return "gradients: " + wrong;
    if (p_.net.drops()) return "";
    wrong = forward(GPUDNN_FWD_MODE_INFERENCE);
    return wrong.empty() ? "" : "inference: " + wrong;
  }
  // The bytes of all outputs since the last call.
  std::vector<unsigned char> take_images() { return std::exchange(images_, {}); }

 private:
  void keep(std::initializer_list<const Data*> outputs) {
    for (const Data* const output : outputs) {
      const std::vector<unsigned char> image = output->image();
      images_.insert(images_.end(), image.begin(), image.end());
    }
  }
  std::vector<double> numbers(std::size_t count, double scale) {
    std::vector<double> values(count);
    for (double& value : values) value = round_to_type(scale * (2 * random_.uniform() - 1), p_.net.type);
    return values;
  }
  void set_state(gpudnnTensorDescriptor_t desc, int width) const {
    const int dims[] = {p_.net.pseudo_layers(), p_.sequences.batch, width, 1, 1};
    const int strides[] = {dims[1] * dims[2], dims[2], 1, 1, 1};
    // Five dimensions are what PyTorch gives.
    GPUDNN_TEST_REQUIRE(gpudnnSetTensorNdDescriptor(desc, p_.net.type, width % 2 == 0 ? 5 : 3, dims, strides));
  }
  [[nodiscard]] Data input(const std::vector<double>& values) const {
    return {backend_, p_.net.type, values, c_.misalignment};
  }
  [[nodiscard]] Data output(bool wanted, std::size_t count) const {
    return {backend_, p_.net.type, wanted ? count : 0, c_.misalignment};
  }
  [[nodiscard]] bool has_cells() const { return p_.net.cell == GPUDNN_LSTM; }

  void sizes(gpudnnForwardMode_t mode, std::size_t* work, std::size_t* reserve) const {
    GPUDNN_TEST_REQUIRE(gpudnnGetRNNTempSpaceSizes(backend_.handle(), rnn_, mode, x_desc_, work, reserve));
  }

  std::string forward(gpudnnForwardMode_t mode) {
    std::size_t work = 0;
    std::size_t reserve = 0;
    sizes(mode, &work, &reserve);
    const Network& net = p_.net;
    const Data x = input(laid_out(p_.sequences, v_.x, static_cast<std::size_t>(net.input)));
    const auto width = static_cast<std::size_t>(net.output_width());
    y_.emplace(backend_, net.type, vectors_in(p_.sequences) * width, c_.misalignment);
    const Data hx = input(v_.hx);
    const Data cx = input(v_.cx);
    const Data hy = output(c_.hy, expected_.hy.size());
    const Data cy = output(c_.cy && has_cells(), expected_.cy.size());
    const Data weights = input(v_.weights);
    const GuardedBuffer workspace(backend_, work, c_.misalignment);
    reserve_.emplace(backend_, reserve, c_.misalignment);
    GPUDNN_TEST_REQUIRE(gpudnnRNNForward(
        backend_.handle(), rnn_, mode, nullptr, x_desc_, address(x), y_desc_, address(*y_), h_desc_, hx.data(),
        hy.data(), has_cells() ? static_cast<gpudnnTensorDescriptor_t>(c_desc_) : nullptr, cx.data(), cy.data(),
        v_.weights.size() * element_size(net.type), weights.data(), work, workspace.data(), reserve, reserve_->data()));
    keep({&*y_, &hy, &cy});
    const double bound = rnn_tolerance(p_);
    std::string wrong = compare_laid_out("y", p_, y_->values(), expected_.y, width, bound);
    if (c_.hy) wrong += compare("hy", hy.values(), expected_.hy, bound);
    if (c_.cy && has_cells()) wrong += compare("cy", cy.values(), expected_.cy, bound);
    return wrong + x.damage() + y_->damage() + hy.damage() + cy.damage() + weights.damage() + workspace.damage() +
           reserve_->damage();
  }
  // The interface takes no null x, though there may be no step to read.
  [[nodiscard]] void* address(const Data& data) {
    return data.data() != nullptr ? data.data() : static_cast<void*>(this);
  }

  std::string gradients() {
    std::size_t work = 0;
    std::size_t reserve = 0;
    sizes(GPUDNN_FWD_MODE_TRAINING, &work, &reserve);
    const Network& net = p_.net;
    const auto width = static_cast<std::size_t>(net.output_width());
    const std::size_t weight_bytes = v_.weights.size() * element_size(net.type);
    const Data x = input(laid_out(p_.sequences, v_.x, static_cast<std::size_t>(net.input)));
    const Data dy = input(laid_out(p_.sequences, v_.dy, width));
    const Data dx = output(true, vectors_in(p_.sequences) * static_cast<std::size_t>(net.input));
    const Data hx = input(v_.hx);
    const Data cx = input(v_.cx);
    const Data dhy = input(v_.dhy);
    const Data dcy = input(v_.dcy);
    const Data dhx = output(c_.dhx, expected_.dhx.size());
    const Data dcx = output(c_.dcx && has_cells(), expected_.dcx.size());
    const Data weights = input(v_.weights);
    const GuardedBuffer workspace(backend_, work, c_.misalignment);
    GPUDNN_TEST_REQUIRE(gpudnnRNNBackwardData_v8(
        backend_.handle(), rnn_, nullptr, y_desc_, address(*y_), address(dy), x_desc_, address(dx), h_desc_, hx.data(),
        dhy.data(), dhx.data(), c_desc_, cx.data(), has_cells() ? dcy.data() : nullptr, dcx.data(), weight_bytes,
        weights.data(), work, workspace.data(), reserve, reserve_->data()));
    const double bound = rnn_tolerance(p_);
    std::string wrong =
        compare_laid_out("dx", p_, dx.values(), expected_.dx, static_cast<std::size_t>(net.input), bound);
    if (c_.dhx) wrong += compare("dhx", dhx.values(), expected_.dhx, bound);
    if (c_.dcx && has_cells()) wrong += compare("dcx", dcx.values(), expected_.dcx, bound);

    std::vector<double> before = numbers(v_.weights.size(), 1);
    const Data dweights = p_.adds ? input(before) : output(true, v_.weights.size());
    if (!p_.adds) std::ranges::fill(before, 0);
    const GuardedBuffer other(backend_, work, c_.misalignment);
    GPUDNN_TEST_REQUIRE(
        gpudnnRNNBackwardWeights_v8(backend_.handle(), rnn_, p_.adds ? GPUDNN_WGRAD_MODE_ADD : GPUDNN_WGRAD_MODE_SET,
                                    nullptr, x_desc_, address(x), h_desc_, hx.data(), y_desc_, address(*y_),
                                    weight_bytes, dweights.data(), work, other.data(), reserve, reserve_->data()));
    std::vector<double> sums = expected_.dweights;
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += before[i];
    keep({&dx, &dhx, &dcx, &dweights});
    wrong += compare("dweights", dweights.values(), sums, bound);
    return wrong + dx.damage() + dhx.damage() + dcx.damage() + dweights.damage() + workspace.damage() + other.damage() +
           reserve_->damage();
  }

  const Backend& backend_;
  const RnnCase& c_;
  const Problem& p_;
  std::vector<unsigned char> images_;
  Random random_;
  RnnValues v_;
  RnnExpected expected_;
  RnnDescriptor rnn_;
  DropoutDescriptor dropout_;
  RnnDataDescriptor x_desc_, y_desc_;
  Descriptor<gpudnnTensorDescriptor_t, gpudnnCreateTensorDescriptor, gpudnnDestroyTensorDescriptor> h_desc_, c_desc_;
  std::optional<GuardedBuffer> states_;
  std::optional<Data> y_;
  std::optional<GuardedBuffer> reserve_;
};

Network random_network(Random& random) {
  Network net;
  net.cell = random.pick({GPUDNN_RNN_RELU, GPUDNN_RNN_TANH, GPUDNN_LSTM, GPUDNN_LSTM, GPUDNN_GRU, GPUDNN_GRU});
  net.bias = random.pick({GPUDNN_RNN_NO_BIAS, GPUDNN_RNN_SINGLE_INP_BIAS, GPUDNN_RNN_DOUBLE_BIAS,
                          GPUDNN_RNN_DOUBLE_BIAS, GPUDNN_RNN_SINGLE_REC_BIAS});
  net.bidirectional = random.chance(0.4);
  net.type = random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_FLOAT, GPUDNN_DATA_DOUBLE, GPUDNN_DATA_HALF, GPUDNN_DATA_HALF,
                          GPUDNN_DATA_BFLOAT16});
  net.math = random.pick({GPUDNN_DEFAULT_MATH, GPUDNN_DEFAULT_MATH, GPUDNN_FMA_MATH, GPUDNN_TENSOR_OP_MATH});
  const bool vectors = random.chance(0.5);
  net.hidden = static_cast<std::int32_t>(vectors ? 8 * random.between(1, 9) : random.between(1, 40));
  net.skip = random.chance(0.2);
  net.input = net.skip  ? net.hidden
              : vectors ? static_cast<std::int32_t>(8 * random.between(1, 4))
                        : static_cast<std::int32_t>(random.between(1, 24));
  net.projected = net.hidden;
  if (net.cell == GPUDNN_LSTM && random.chance(0.3)) {
    net.projected =
        static_cast<std::int32_t>(vectors ? 8 * random.between(1, net.hidden / 8) : random.between(1, net.hidden));
  }
  net.layers = static_cast<std::int32_t>(random.between(1, 3));
  if (random.chance(0.2)) {
    net.clips = true;
    net.clip_low = -0.3, net.clip_high = 0.4;
    net.clip_passes_nan = random.chance(0.5);
  }
  if (random.chance(0.25)) net.dropout = random.pick({0.1f, 0.25f, 0.5f});
  return net;
}

RnnCase random_case(Random& random) {
  RnnCase c;
  Problem& p = c.problem;
  p.pass = rnn::Pass::train;
  p.net = random_network(random);
  Sequences& s = p.sequences;
  s.layout = random.pick({GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_UNPACKED, GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED,
                          GPUDNN_RNN_DATA_LAYOUT_BATCH_MAJOR_UNPACKED});
  s.steps = static_cast<std::int32_t>(random.between(1, 7));
  s.batch = static_cast<std::int32_t>(random.chance(0.2) ? random.between(17, 70) : random.between(1, 9));
  s.lengths.assign(static_cast<std::size_t>(s.batch), s.steps);
  if (random.chance(0.6)) {
    for (std::int32_t& length : s.lengths) length = static_cast<std::int32_t>(random.between(0, s.steps));
    if (s.layout == GPUDNN_RNN_DATA_LAYOUT_SEQ_MAJOR_PACKED) std::ranges::sort(s.lengths, std::greater<>());
  }
  p.adds = random.chance(0.5);
  p.fills = random.chance(0.5);
  p.fill = p.fills ? random.pick({0.0, -2.5}) : 0;
  for (bool* given : {&c.hx, &c.cx, &c.hy, &c.cy, &c.dhy, &c.dcy, &c.dhx, &c.dcx}) *given = random.chance(0.7);
  if (p.net.cell != GPUDNN_LSTM) c.cx = c.dcy = false;
  if (random.chance(0.2)) c.misalignment = element_size(p.net.type);
  c.seed = random.bits();
  return c;
}

TEST(Rnn, RandomProblems) {
  sweep(400, random_case, [](const RnnCase& c, int) { return Round(Backend::at_hand(), c).run(); });
}

// Wide layers stand at edges of kernels, which the host's loops do not have: there they would take most of all tests'
// time. In multiplications of a forward pass.
bool is_for_kernels(const Problem& p) {
  constexpr double kHostLimit = 3e7;
  return static_cast<double>(p.sequences.capacity()) * static_cast<double>(weight_count(p.net)) > kHostLimit;
}

// The file in parts, as its problems take minutes together.
constexpr int kFileParts = 16;
class RnnCaseFile : public testing::TestWithParam<int> {};

TEST_P(RnnCaseFile, HandPickedProblems) {
  std::size_t number = 0;
  for (const std::string& line : case_lines("rnn/edges.txt")) {
    std::string why;
    const auto problem = rnn::from_text(line, &why);
    ASSERT_TRUE(problem) << line << ": " << why;
    EXPECT_EQ(to_text(*problem), line);
    const bool is_of_part = number % kFileParts == static_cast<std::size_t>(GetParam());
    for (const std::uint64_t variant : {0u, 1u}) {
      if (!is_of_part || !runs_in_variant(number, variant, 2)) continue;
      if (!Backend::at_hand().is_cuda() && is_for_kernels(*problem)) continue;
      RnnCase c;
      c.problem = *problem;
      c.seed = 1 + variant;
      if (problem->net.cell != GPUDNN_LSTM) c.cx = c.dcy = false;
      EXPECT_EQ(Round(Backend::at_hand(), c).run(), "") << describe(c);
    }
    ++number;
  }
}
INSTANTIATE_TEST_SUITE_P(Part, RnnCaseFile, testing::Range(0, kFileParts));

// The weights, one at a time, moved by a little: the oracle's gradients are those of its own outputs.
TEST(Rnn, OracleAgreesWithFiniteDifferences) {
  for (const char* line : {"rnn train f64 lstm l2 bi t3b3 in3 h4 p2 bias=double seq len=3,0,2",
                           "rnn train f64 lstm l1 uni t3b2 in2 h3 p3 bias=input seq clip=-0.2,0.25",
                           "rnn train f64 gru l2 bi t3b2 in3 h3 p3 bias=double seq len=2,3",
                           "rnn train f64 gru l1 uni t3b2 in3 h3 p3 bias=hidden seq skip",
                           "rnn train f64 tanh l2 bi t3b2 in2 h3 p3 bias=double seq",
                           "rnn train f64 relu l2 uni t3b2 in2 h3 p3 bias=double seq"}) {
    std::string why;
    const auto parsed = rnn::from_text(line, &why);
    ASSERT_TRUE(parsed) << line << ": " << why;
    const Problem& p = *parsed;
    Random random(7);
    const auto numbers = [&](std::size_t count, double scale) {
      std::vector<double> values(count);
      for (double& value : values) value = scale * (2 * random.uniform() - 1);
      return values;
    };
    std::int64_t total = 0;
    (void)naive_rnn_places(p.net, &total);
    const auto cells = static_cast<std::size_t>(p.sequences.capacity());
    const auto states = static_cast<std::size_t>(p.net.pseudo_layers() * p.sequences.batch);
    RnnValues v;
    v.x = numbers(cells * static_cast<std::size_t>(p.net.input), 1);
    v.weights = numbers(static_cast<std::size_t>(total), 0.7);
    v.hx = numbers(states * static_cast<std::size_t>(p.net.projected), 1);
    v.cx = numbers(states * static_cast<std::size_t>(p.net.hidden), 0.2);
    v.dy = numbers(cells * static_cast<std::size_t>(p.net.output_width()), 1);
    v.dhy = numbers(v.hx.size(), 1);
    v.dcy = numbers(v.cx.size(), 1);
    const RnnExpected at = naive_rnn(p, v);
    const auto loss = [&] {
      const RnnExpected now = naive_rnn(p, v);
      double sum = 0;
      for (std::size_t i = 0; i < now.y.size(); ++i) sum += now.y[i] * v.dy[i];
      for (std::size_t i = 0; i < now.hy.size(); ++i) sum += now.hy[i] * v.dhy[i];
      for (std::size_t i = 0; i < now.cy.size() && p.net.cell == GPUDNN_LSTM; ++i) sum += now.cy[i] * v.dcy[i];
      return sum;
    };
    const auto check = [&](const char* name, std::vector<double>& moved, const std::vector<double>& gradient) {
      constexpr double kStep = 1e-6;
      for (std::size_t i = 0; i < moved.size(); ++i) {
        const double kept = moved[i];
        moved[i] = kept + kStep;
        const double above = loss();
        moved[i] = kept - kStep;
        const double slope = (above - loss()) / (2 * kStep);
        moved[i] = kept;
        ASSERT_NEAR(slope, gradient[i], 1e-7) << line << ' ' << name << ' ' << i;
      }
    };
    check("x", v.x, at.dx);
    check("weights", v.weights, at.dweights);
    check("hx", v.hx, at.dhx);
    if (p.net.cell == GPUDNN_LSTM) check("cx", v.cx, at.dcx);
  }
}

// One unit, one step, worked out by hand: i = s(0.5), f = s(1), g = tanh(1.5), o = s(2) with x = 1, h = 0, c = 2.
TEST(Rnn, OneStepByHand) {
  std::string why;
  const auto p = rnn::from_text("rnn infer f64 lstm l1 uni t1b1 in1 h1 p1 bias=none seq", &why);
  ASSERT_TRUE(p) << why;
  RnnValues v;
  v.x = {1};
  v.cx = {2};
  v.weights = {0.5, 1, 1.5, 2, 9, 9, 9, 9};
  const RnnExpected e = naive_rnn(*p, v);
  EXPECT_NEAR(e.cy[0], 0.73105857863 * 2 + 0.62245933120 * 0.90514825364, 1e-10);
  EXPECT_NEAR(e.hy[0], 0.88079707798 * std::tanh(e.cy[0]), 1e-10);
}

// A block of units whose states come from the wrong slot, those of the step before: the oracle step by step, with a
// first state that is wrong in an eighth of an LSTM's units. R alone reads it.
TEST(Rnn, ToleranceSeesStatesFromAWrongSlot) {
  for (const char* line : {"rnn train bf16 lstm l1 uni t5b17 in8 h256 p256 bias=double seq",
                           "rnn train f16 lstm l1 uni t5b17 in8 h256 p256 bias=double seq",
                           "rnn train f64 lstm l1 uni t5b17 in8 h256 p256 bias=double seq math=tensor"}) {
    std::string why;
    const auto whole = rnn::from_text(line, &why);
    ASSERT_TRUE(whole) << line << ": " << why;
    const Network& net = whole->net;
    Random random(5);
    const auto numbers = [&](std::size_t count, double scale) {
      std::vector<double> values(count);
      for (double& value : values) value = round_to_type(scale * (2 * random.uniform() - 1), net.type);
      return values;
    };
    std::int64_t total = 0;
    (void)naive_rnn_places(net, &total);
    const auto batch = static_cast<std::size_t>(whole->sequences.batch), units = static_cast<std::size_t>(net.hidden);
    const std::size_t row = batch * static_cast<std::size_t>(net.input);
    RnnValues v;
    v.x = numbers(row * static_cast<std::size_t>(whole->sequences.steps), 1);
    v.weights = numbers(static_cast<std::size_t>(total), 0.6 / std::sqrt(net.hidden));
    v.hx = numbers(batch * units, 0.7), v.cx = numbers(batch * units, 0.7);
    const std::vector<double> right = naive_rnn(*whole, v).hy;
    for (const bool slips : {false, true}) {
      Problem step = *whole;
      step.sequences.steps = 1;
      step.sequences.lengths.assign(batch, 1);
      RnnValues of = v;
      std::vector<double> before = v.hx;
      for (std::size_t t = 0; t < static_cast<std::size_t>(whole->sequences.steps); ++t) {
        of.x.assign(v.x.begin() + static_cast<std::ptrdiff_t>(t * row),
                    v.x.begin() + static_cast<std::ptrdiff_t>((t + 1) * row));
        const std::vector<double> here = of.hx;
        for (std::size_t i = 0; slips && i < here.size(); ++i) {
          if (i % units < units / 8) of.hx[i] = before[i];
        }
        const RnnExpected out = naive_rnn(step, of);
        before = here, of.hx = out.hy, of.cx = out.cy;
      }
      EXPECT_EQ(compare("hy", of.hx, right, rnn_tolerance(*whole)).empty(), !slips) << line;
    }
  }
}

TEST(Rnn, WeightsLieAsDocumented) {
  const Backend& backend = Backend::at_hand();
  Random random(session_seed());
  for (int i = 0; i < 300; ++i) {
    const Network net = random_network(random);
    RnnDescriptor rnn;
    set(rnn, net, nullptr);
    std::int64_t total = 0;
    const std::vector<RnnPlace> places = naive_rnn_places(net, &total);
    const auto element = static_cast<std::int64_t>(element_size(net.type));
    std::size_t bytes = 0;
    GPUDNN_TEST_REQUIRE(gpudnnGetRNNWeightSpaceSize(backend.handle(), rnn, &bytes));
    ASSERT_EQ(bytes, static_cast<std::size_t>(total * element));
    char* const base = reinterpret_cast<char*>(0x10000);  // NOLINT: never read
    const int gates = net.gates();
    for (int pseudo = 0; pseudo < net.pseudo_layers(); ++pseudo) {
      const RnnPlace& p = places[static_cast<std::size_t>(pseudo)];
      const std::int64_t columns = net.input_width(pseudo / net.directions());
      for (int id = 0; id < 2 * gates + (net.cell == GPUDNN_LSTM ? 1 : 0); ++id) {
        Descriptor<gpudnnTensorDescriptor_t, gpudnnCreateTensorDescriptor, gpudnnDestroyTensorDescriptor> m, b;
        void* matrix = nullptr;
        void* bias = nullptr;
        GPUDNN_TEST_REQUIRE(
            gpudnnGetRNNWeightParams(backend.handle(), rnn, pseudo, bytes, base, id, m, &matrix, b, &bias));
        const auto at = [&](std::int64_t offset) -> void* { return offset < 0 ? nullptr : base + offset * element; };
        std::int64_t wanted = p.projection;
        std::int64_t wanted_bias = -1;
        if (id < gates) {
          wanted = p.w < 0 ? -1 : p.w + id * net.hidden * columns;
          wanted_bias = p.w_bias < 0 ? -1 : p.w_bias + std::int64_t{id} * net.hidden;
        } else if (id < 2 * gates) {
          wanted = p.r + std::int64_t{id - gates} * net.hidden * net.projected;
          wanted_bias = p.r_bias < 0 ? -1 : p.r_bias + std::int64_t{id - gates} * net.hidden;
        }
        ASSERT_EQ(matrix, at(wanted)) << "pseudo-layer " << pseudo << " id " << id;
        ASSERT_EQ(bias, at(wanted_bias)) << "pseudo-layer " << pseudo << " id " << id;
        // PyTorch asks for a matrix or a bias alone.
        void* again = nullptr;
        GPUDNN_TEST_REQUIRE(
            gpudnnGetRNNWeightParams(backend.handle(), rnn, pseudo, bytes, base, id, m, &again, nullptr, nullptr));
        ASSERT_EQ(again, matrix);
        GPUDNN_TEST_REQUIRE(
            gpudnnGetRNNWeightParams(backend.handle(), rnn, pseudo, bytes, base, id, nullptr, nullptr, b, &again));
        ASSERT_EQ(again, bias);
      }
    }
  }
}

// T17: twenty rounds of the calls (GPUDNN_TEST_CASES: as many) give the same bits, by whatever engine and in layers of
// one launch.
class RnnTwentyRounds : public testing::TestWithParam<const char*> {};

TEST_P(RnnTwentyRounds, GiveTheSameBits) {
  SCOPED_TRACE(GetParam());
  std::string why;
  const auto p = rnn::from_text(GetParam(), &why);
  ASSERT_TRUE(p) << why;
  if (!Backend::at_hand().is_cuda() && is_for_kernels(*p)) return;
  RnnCase c;
  c.problem = *p;
  if (p->net.cell != GPUDNN_LSTM) c.cx = c.dcy = false;
  Round round(Backend::at_hand(), c);
  ASSERT_EQ(round.run(), "");
  const std::vector<unsigned char> first = round.take_images();
  // The host's sums have one order.
  for (int again = 1; again < (Backend::at_hand().is_cuda() ? session_cases(20) : 3); ++again) {
    ASSERT_EQ(round.run(), "");
    ASSERT_EQ(round.take_images(), first) << "round " << again;
  }
}

INSTANTIATE_TEST_SUITE_P(Rnn, RnnTwentyRounds,
                         testing::Values("rnn train f16 lstm l3 uni t20b1 in24 h256 p256 bias=double packed",
                                         "rnn train f16 lstm l3 uni t20b2 in24 h512 p512 bias=double packed",
                                         "rnn train f32 lstm l1 bi t20b2 in24 h200 p200 bias=double seq math=fma",
                                         "rnn train f16 lstm l2 bi t9b6 in24 h64 p64 bias=double seq len=9,0,4,7,1,9",
                                         "rnn train f32 lstm l2 uni t9b5 in24 h200 p200 bias=double seq len=0,3,9,1,8",
                                         "rnn train f16 gru l1 uni t9b1 in24 h640 p640 bias=double packed",
                                         "rnn train f16 lstm l2 uni t9b33 in24 h64 p64 bias=double seq",
                                         "rnn train f16 lstm l1 bi t9b40 in24 h256 p256 bias=double packed",
                                         "rnn train bf16 gru l2 uni t16b70 in24 h136 p136 bias=double seq",
                                         "rnn train f16 tanh l1 uni t16b20 in24 h300 p300 bias=double seq",
                                         "rnn train f32 lstm l2 bi t9b33 in24 h64 p64 bias=double seq",
                                         "rnn train f32 lstm l1 uni t9b20 in24 h300 p300 bias=double seq math=fma",
                                         "rnn train f32 gru l2 bi t80b96 in20 h20 p20 bias=double packed math=fma",
                                         "rnn train bf16 lstm l2 uni t70b2 in24 h640 p640 bias=double seq",
                                         "rnn train f16 gru l1 bi t3b120 in509 h509 p509 bias=double packed",
                                         "rnn train f16 lstm l1 uni t3b128 in16 h1024 p1024 bias=double packed",
                                         "rnn train f16 lstm l1 uni t5b40 in16 h1100 p1100 bias=double packed"));

}  // namespace
}  // namespace gpudnn::test
