// Matrix products for the tests.
// SPDX-License-Identifier: Apache-2.0
#include "support/matmul.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "core/numerics.hpp"
#include "support/number.hpp"

namespace gpudnn::test {
namespace {

using matmul::Activation;
using matmul::Problem;

bool is_float8_type(DataType type) { return type == GPUDNN_DATA_FP8_E4M3 || type == GPUDNN_DATA_FP8_E5M2; }

std::int64_t& row_stride(TensorGeometry* t) { return t->strides[t->rank - 2]; }
std::int64_t& column_stride(TensorGeometry* t) { return t->strides[t->rank - 1]; }

// Rows or columns one after the other, perhaps with a gap between them that keeps vectors aligned or does not, and
// between batches; batches of d's rank may come in any order of memory.
void set_layout(Random& random, TensorGeometry* t) {
  const int last = t->rank - 1;
  const bool transposed = random.chance(0.4);
  const int fast = transposed ? last - 1 : last;
  const int slow = transposed ? last : last - 1;
  std::int64_t step = random.chance(0.06) ? random.between(2, 3) : 1;
  const auto place = [&](int i, std::int64_t gap) {
    t->strides[i] = step;
    step = step * t->dims[i] + gap;
  };
  const std::int64_t row_gap = random.chance(0.5) ? 0 : random.pick<std::int64_t>({8, 16, 1, 3, 64});
  const std::int64_t batch_gap = random.chance(0.6) ? 0 : random.pick<std::int64_t>({8, 5, 32});
  // Heads inside rows, as attention has them: [batch, row, head, column] in memory.
  const bool heads_inside = t->rank == 4 && random.chance(0.3);
  place(fast, heads_inside ? 0 : row_gap);
  if (heads_inside) {
    place(1, row_gap);
    place(slow, batch_gap);
    return place(0, 0);
  }
  if (random.chance(0.3)) step = (step + 7) / 8 * 8;  // rows at multiples of 16 bytes and more
  place(slow, batch_gap);
  for (int i = last - 2; i >= 0; --i) place(i, batch_gap);
}

void pick_types(Random& random, Problem* p) {
  struct Row {
    DataType a, b;
    std::initializer_list<DataType> d;
  };
  static const Row kRows[] = {
      {GPUDNN_DATA_FLOAT, GPUDNN_DATA_FLOAT, {GPUDNN_DATA_FLOAT, GPUDNN_DATA_FLOAT, GPUDNN_DATA_BFLOAT16}},
      {GPUDNN_DATA_FLOAT, GPUDNN_DATA_FLOAT, {GPUDNN_DATA_FLOAT}},
      {GPUDNN_DATA_HALF, GPUDNN_DATA_HALF, {GPUDNN_DATA_HALF, GPUDNN_DATA_FLOAT, GPUDNN_DATA_FP8_E5M2}},
      {GPUDNN_DATA_HALF, GPUDNN_DATA_HALF, {GPUDNN_DATA_HALF}},
      {GPUDNN_DATA_BFLOAT16,
       GPUDNN_DATA_BFLOAT16,
       {GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_FP8_E4M3}},
      {GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_BFLOAT16, {GPUDNN_DATA_BFLOAT16}},
      {GPUDNN_DATA_DOUBLE, GPUDNN_DATA_DOUBLE, {GPUDNN_DATA_DOUBLE, GPUDNN_DATA_FLOAT}},
      {GPUDNN_DATA_INT8,
       GPUDNN_DATA_INT8,
       {GPUDNN_DATA_INT32, GPUDNN_DATA_INT32, GPUDNN_DATA_INT8, GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF}},
      {GPUDNN_DATA_FP8_E4M3, GPUDNN_DATA_FP8_E4M3, {GPUDNN_DATA_FP8_E4M3, GPUDNN_DATA_BFLOAT16, GPUDNN_DATA_FLOAT}},
      {GPUDNN_DATA_FP8_E5M2, GPUDNN_DATA_FP8_E4M3, {GPUDNN_DATA_FP8_E5M2, GPUDNN_DATA_HALF, GPUDNN_DATA_FLOAT}},
  };
  const Row& row = kRows[random.bits() % std::size(kRows)];
  p->a.type = row.a;
  p->b.type = row.b;
  p->d.type = random.pick(row.d);
  p->compute = row.a == GPUDNN_DATA_DOUBLE ? GPUDNN_DATA_DOUBLE
               : row.a == GPUDNN_DATA_INT8 ? GPUDNN_DATA_INT32
                                           : GPUDNN_DATA_FLOAT;
  if (is_float8_type(row.a) && random.chance(0.5)) p->compute = GPUDNN_DATA_FAST_FLOAT_FOR_FP8;
  p->math = random.pick({GPUDNN_DEFAULT_MATH, GPUDNN_TENSOR_OP_MATH, GPUDNN_FMA_MATH});
}

void pick_extents(Random& random, Problem* p) {
  const auto edge = [&] {
    return random.pick<std::int64_t>({1,  2,  3,  5,  7,  8,   15,  16,  17,  24,  31,  32,  33,  40,  48,
                                      63, 64, 65, 72, 96, 100, 127, 128, 129, 136, 160, 192, 200, 256, 264});
  };
  const auto near_multiple = [&] { return 8 * random.between(1, 24); };
  const bool wholes = random.chance(0.5);  // as tensor maps want them
  const int rank = static_cast<int>(random.pick({2, 3, 3, 4, 4}));
  p->a.rank = p->b.rank = p->d.rank = rank;
  std::int64_t m, n, k;
  std::int64_t count = 1;
  do {
    m = random.chance(0.5) ? edge() : random.between(1, 300);
    n = wholes ? near_multiple() : edge();
    k = wholes ? near_multiple() : random.chance(0.2) ? random.between(300, 700) : edge();
  } while (m * n * k > 1500000);
  for (int i = 0; i < rank - 2; ++i) {
    std::int64_t extent = random.between(1, 6);
    if (count * extent * m * n * k > 3000000) extent = 1;
    count *= extent;
    p->d.dims[i] = extent;
    const auto part = [&] {
      if (random.chance(0.6)) return extent;
      if (random.chance(0.5)) return std::int64_t{1};
      return extent % 2 == 0 ? extent / 2 : extent % 3 == 0 ? extent / 3 : extent;
    };
    p->a.dims[i] = part();
    p->b.dims[i] = part();
  }
  p->a.dims[rank - 2] = p->d.dims[rank - 2] = m;
  p->b.dims[rank - 1] = p->d.dims[rank - 1] = n;
  p->a.dims[rank - 1] = p->b.dims[rank - 2] = k;
  for (TensorGeometry* t : {&p->a, &p->b, &p->d}) set_layout(random, t);
  if (random.chance(0.05)) p->a.strides[random.between(0, rank - 1)] = 0;
  if (random.chance(0.05)) p->b.strides[random.between(0, rank - 1)] = 0;
}

// Types of addends beside d's own.
DataType addend_type(Random& random, const Problem& p) {
  if (random.chance(0.6)) return p.d.type;
  if (p.a.type == GPUDNN_DATA_DOUBLE) return GPUDNN_DATA_DOUBLE;
  return random.pick({GPUDNN_DATA_FLOAT, GPUDNN_DATA_HALF, GPUDNN_DATA_BFLOAT16});
}

void pick_epilogue(Random& random, MatmulCase* c) {
  Problem& p = c->problem;
  c->alpha = random.pick({1.0, 1.0, -2.0, 0.5});
  if (random.chance(0.4)) {
    p.c = p.d;
    c->in_place = random.chance(0.3);
    if (!c->in_place) {
      p.c.type = addend_type(random, p);
      set_layout(random, &p.c);
      if (random.chance(0.2)) p.c.strides[0] = 0;
    }
    c->beta = random.pick({1.0, -2.0, 0.25, 0.0});
  }
  if (random.chance(0.5)) {
    p.bias = p.d;
    p.bias.type = addend_type(random, p);
    for (std::int64_t& stride : p.bias.strides) stride = 0;
    (random.chance(0.75) ? column_stride(&p.bias) : row_stride(&p.bias)) = random.chance(0.9) ? 1 : 2;
    if (p.d.rank > 2 && random.chance(0.2)) p.bias.strides[0] = 2 * std::max(matmul::rows(p), matmul::columns(p));
  }
  if (random.chance(0.6)) {
    p.activation = static_cast<Activation>(random.between(0, kernels::matmul::kActivations - 1));
    if (random.chance(0.5)) c->activation = {.lower = -1, .upper = 6, .slope = 0.25, .alpha = 0.75, .beta = 1.5};
  }
  if (random.chance(is_float8_type(p.a.type) ? 0.8 : 0.1)) {
    p.scales = static_cast<std::int32_t>(random.between(0, 15));
    c->descale_a = 0.5f;
    c->descale_b = random.pick({0.25f, 2.0f});
    c->scale_d = random.pick({0.125f, 4.0f});
  }
}

void pick_overrides(Random& random, MatmulCase* c) {
  Problem& p = c->problem;
  p.overrides = static_cast<std::int32_t>(random.between(1, 7));
  p.override_type = random.pick({GPUDNN_DATA_INT32, GPUDNN_DATA_INT64});
  p.has_padding = random.chance(0.5) ? 1 : 0;
  c->padding = p.has_padding != 0 ? 3 : 0;
  const std::int64_t count = p.d.rank > 2 ? p.d.dims[0] : 1;
  const auto pick = [&](std::int64_t extent) {
    std::vector<std::int64_t> values;
    for (std::int64_t i = 0; i < count; ++i) values.push_back(random.between(-1, extent + 1));
    return values;
  };
  c->m = pick(matmul::rows(p));
  c->n = pick(matmul::columns(p));
  c->k = pick(matmul::depth(p));
}

std::vector<double> random_elements(Random& random, const TensorGeometry& t, bool integers, double most) {
  std::vector<double> values(static_cast<std::size_t>(element_count(t)));
  for (double& value : values) {
    value = integers || t.type == GPUDNN_DATA_INT8 || t.type == GPUDNN_DATA_INT32
                ? static_cast<double>(random.between(-static_cast<std::int64_t>(most), static_cast<std::int64_t>(most)))
                : round_to_type(random.normal(), t.type);
  }
  return values;
}

// The same values wherever the tensor has the same address.
void repeat_where_strides_are_zero(const TensorGeometry& t, std::vector<double>* values) {
  const std::vector<std::int64_t> offsets = element_offsets(t);
  std::vector<double> by_offset;
  for (std::size_t i = 0; i < offsets.size(); ++i) {
    const auto at = static_cast<std::size_t>(offsets[i]);
    if (at >= by_offset.size()) by_offset.resize(at + 1);
    by_offset[at] = (*values)[i];
  }
  for (std::size_t i = 0; i < offsets.size(); ++i) (*values)[i] = by_offset[static_cast<std::size_t>(offsets[i])];
}

// --- the oracle -----------------------------------------------------------------------------------------------------

double normal_below(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

double function(Activation activation, const matmul::ActivationParams& p, double x) {
  switch (activation) {
    case Activation::relu:
      return x > p.lower ? std::min(x, p.upper) : p.lower + p.slope * (x - p.lower);
    case Activation::gelu:
      return x * normal_below(x);
    case Activation::gelu_tanh:
      return x / (1 + std::exp(-2 * std::sqrt(2 / std::acos(-1.0)) * (x + 0.044715 * x * x * x)));
    case Activation::swish:
      return x / (1 + std::exp(-p.beta * x));
    case Activation::tanh:
      return std::tanh(x);
    case Activation::sigmoid:
      return 1 / (1 + std::exp(-x));
    case Activation::elu:
      return x > 0 ? x : p.alpha * std::expm1(x);
    case Activation::softplus:
      return p.beta * x > 30 ? x + std::log1p(std::exp(-p.beta * x)) / p.beta
                             : std::log1p(std::exp(p.beta * x)) / p.beta;
    default:
      return x;
  }
}

// What f makes of an argument that is off by `slack`, and its own error: 8u (|f| + |x f'|), as docs/numerics.md has it.
double function_slack(Activation activation, const matmul::ActivationParams& p, double x, double slack, double u) {
  if (activation == Activation::identity) return slack;
  const double f = function(activation, p, x);
  double moved = 0;
  for (const double at : {x - slack, x + slack, x - 0.5 * slack, x + 0.5 * slack}) {
    moved = std::max(moved, std::abs(function(activation, p, at) - f));
  }
  if (activation == Activation::relu && p.slope == 0) return moved;
  const double h = 1e-4 * std::max(1.0, std::abs(x));
  const double slope = (function(activation, p, x + h) - function(activation, p, x - h)) / (2 * h);
  // gelu from 1 + erf cancels for negative x.
  const double cancelled = activation == Activation::gelu ? 4 * u * std::abs(x) : 0;
  return 1.01 * moved + cancelled + 8 * u * (std::abs(f) + std::abs(x * slope)) + 1e-37;
}

std::int64_t override_at(const Problem& p, int bit, const std::vector<std::int64_t>& values, std::int64_t index,
                         std::int64_t extent) {
  if ((p.overrides & bit) == 0) return extent;
  return std::clamp<std::int64_t>(values[static_cast<std::size_t>(index)], 0, extent);
}

// The row-major index of batch (i, j) of the tensor that serves batch (i, j) of d, by its own extents.
std::int64_t serving(const TensorGeometry& t, const TensorGeometry& d, const std::int64_t (&at)[2]) {
  std::int64_t index = 0;
  for (int i = 0; i < d.rank - 2; ++i) index = index * t.dims[i] + at[i] / (d.dims[i] / t.dims[i]);
  return index;
}

// Results of 8 or 16 bits may come from approximations.
bool is_rounded_curve(const Problem& p) {
  const bool has_one = p.activation == Activation::gelu || p.activation == Activation::gelu_tanh ||
                       p.activation == Activation::swish || p.activation == Activation::tanh ||
                       p.activation == Activation::sigmoid;
  return has_one && p.d.type != GPUDNN_DATA_FLOAT && element_size(p.d.type) <= 2;
}

// Additions in the tensor core's accumulator of 14 bits: one for 32 products, over all of k or a k tile of 128.
double float8_steps(const Problem& p, std::int64_t k) {
  const auto steps = static_cast<double>((k + 31) / 32);
  return p.compute == GPUDNN_DATA_FAST_FLOAT_FOR_FP8 ? steps : std::min(steps, 4.0);
}

struct Sum {
  double value = 0;
  double magnitude = 0;
};

}  // namespace

std::string describe(const MatmulCase& c) {
  std::string text = to_text(c.problem) + " | alpha=" + std::to_string(c.alpha) + " beta=" + std::to_string(c.beta);
  if (c.in_place) text += " in_place";
  for (const auto& [name, values] : {std::pair{"m", &c.m}, std::pair{"n", &c.n}, std::pair{"k", &c.k}}) {
    for (std::size_t i = 0; i < values->size(); ++i) {
      text += (i == 0 ? std::string(" ") + name + '=' : std::string(",")) + std::to_string((*values)[i]);
    }
  }
  return text + (c.integers ? " data=integers" : " data=normal") + " seed=" + std::to_string(c.seed);
}

// Floats in rows, multiplied as floats, with an addend at most: also a 1x1 convolution, or its filter's gradient.
MatmulCase rows_of_floats(Random& random) {
  const bool sums_over_rows = random.chance(0.5);
  const auto extent = [&](bool whole) { return std::to_string(random.between(1, 70) * (whole ? 4 : 1)); };
  const std::string line = "matmul f32 f32->f32 m" + extent(sums_over_rows) + "n" + extent(sums_over_rows) + "k" +
                           extent(!sums_over_rows) + (sums_over_rows ? " ta=t tb=n" : " ta=n tb=t") + " acc=f32" +
                           (random.chance(0.5) ? " epi=c" : "") + " math=fma";
  return matmul_case(line, random.chance(0.6), random.bits());
}

MatmulCase random_matmul(Random& random) {
  if (random.chance(0.05)) return rows_of_floats(random);
  MatmulCase c;
  pick_types(random, &c.problem);
  pick_extents(random, &c.problem);
  pick_epilogue(random, &c);
  if (random.chance(0.15)) pick_overrides(random, &c);
  c.integers = random.chance(0.6);
  c.seed = random.bits();
  return c;
}

MatmulCase matmul_case(const std::string& line, bool integers, std::uint64_t seed) {
  std::string why;
  const auto problem = matmul::from_text(line, &why);
  if (!problem) throw std::runtime_error(line + ": " + why);
  MatmulCase c;
  c.problem = *problem;
  c.beta = problem->c.rank > 0 ? 0.5 : 0;
  c.descale_a = 0.5f;
  c.descale_b = 0.25f;
  c.scale_d = 4;
  c.padding = 3;
  c.integers = integers;
  c.seed = seed;
  const std::int64_t count = problem->d.rank > 2 ? problem->d.dims[0] : 1;
  for (std::int64_t i = 0; i < count; ++i) {
    c.m.push_back(matmul::rows(*problem) * (i + 1) / (count + 1));
    c.n.push_back(matmul::columns(*problem) * (count - i) / (count + 1));
    c.k.push_back(matmul::depth(*problem) * (i + 1) / (count + 1));
  }
  return c;
}

MatmulValues make_values(const MatmulCase& c) {
  const Problem& p = c.problem;
  Random random(c.seed);
  MatmulValues values;
  const double most = is_float8_type(p.a.type) || p.a.type == GPUDNN_DATA_INT8 ? 4 : 3;
  values.a = random_elements(random, p.a, c.integers, most);
  values.b = random_elements(random, p.b, c.integers, most);
  if (p.c.rank > 0) values.c = random_elements(random, p.c, c.integers, 8);
  if (p.bias.rank > 0) values.bias = random_elements(random, p.bias, c.integers, 8);
  for (const auto& [t, v] : {std::pair{&p.a, &values.a}, std::pair{&p.b, &values.b}, std::pair{&p.c, &values.c},
                             std::pair{&p.bias, &values.bias}}) {
    if (t->rank > 0) repeat_where_strides_are_zero(*t, v);
  }
  return values;
}

MatmulExpected naive(const MatmulCase& c, const MatmulValues& values) {
  const Problem& p = c.problem;
  const std::int64_t m = matmul::rows(p), n = matmul::columns(p), k = matmul::depth(p);
  // Integers are summed exactly on the way to an epilogue in double.
  const double u = p.a.type == GPUDNN_DATA_DOUBLE || p.a.type == GPUDNN_DATA_INT8 ? 0x1p-53 : 0x1p-24;
  const bool tf32 = p.a.type == GPUDNN_DATA_FLOAT &&
                    (p.math == GPUDNN_TENSOR_OP_MATH || p.math == GPUDNN_TENSOR_OP_MATH_ALLOW_CONVERSION);
  double alpha = c.alpha;
  if ((p.scales & matmul::kDescaleA) != 0) alpha *= static_cast<double>(c.descale_a);
  if ((p.scales & matmul::kDescaleB) != 0) alpha *= static_cast<double>(c.descale_b);
  const double scale = (p.scales & matmul::kScaleD) != 0 ? static_cast<double>(c.scale_d) : 1;
  const bool exact = c.integers;
  double untouched = 0;
  const unsigned char poison[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
  untouched = decode(poison, p.d.type);
  MatmulExpected expected;
  expected.d.value.resize(static_cast<std::size_t>(element_count(p.d)));
  expected.d.slack.resize(expected.d.value.size());
  const std::int64_t outer = p.d.rank > 2 ? p.d.dims[0] : 1;
  const std::int64_t inner = p.d.rank > 3 ? p.d.dims[1] : 1;
  for (std::int64_t i = 0; i < outer; ++i) {
    const std::int64_t m_end = override_at(p, matmul::kOverrideM, c.m, i, m);
    const std::int64_t n_end = override_at(p, matmul::kOverrideN, c.n, i, n);
    const std::int64_t k_end = override_at(p, matmul::kOverrideK, c.k, i, k);
    for (std::int64_t j = 0; j < inner; ++j) {
      const std::int64_t at[2] = {i, j};
      const double* const a = values.a.data() + serving(p.a, p.d, at) * m * k;
      const double* const b = values.b.data() + serving(p.b, p.d, at) * k * n;
      std::vector<Sum> sums(static_cast<std::size_t>(n));
      for (std::int64_t row = 0; row < m; ++row) {
        std::fill(sums.begin(), sums.end(), Sum{});
        for (std::int64_t q = 0; q < k_end; ++q) {
          for (std::int64_t column = 0; column < n; ++column) {
            const double term = a[row * k + q] * b[q * n + column];
            sums[static_cast<std::size_t>(column)].value += term;
            sums[static_cast<std::size_t>(column)].magnitude += std::abs(term);
          }
        }
        for (std::int64_t column = 0; column < n; ++column) {
          const auto index = static_cast<std::size_t>(((i * inner + j) * m + row) * n + column);
          if (row >= m_end || column >= n_end) {
            expected.d.value[index] = p.has_padding != 0 ? c.padding : c.in_place ? values.c[index] : untouched;
            continue;
          }
          const Sum& sum = sums[static_cast<std::size_t>(column)];
          double value = alpha * sum.value;
          double slack = (4 + 4 * std::sqrt(static_cast<double>(k_end))) * u * sum.magnitude;
          if (tf32) slack += 0x1p-9 * sum.magnitude;
          if (is_float8_type(p.a.type)) slack += float8_steps(p, k_end) * 0x1p-13 * sum.magnitude;
          slack = std::abs(alpha) * slack + 4 * u * std::abs(value);
          if (p.c.rank > 0 && c.beta != 0) {
            value += c.beta * values.c[index];
            slack += 2 * u * (std::abs(value) + std::abs(c.beta * values.c[index]));
          }
          if (p.bias.rank > 0) {
            value += values.bias[index];
            slack += 2 * u * (std::abs(value) + std::abs(values.bias[index]));
          }
          if (exact) slack = 0;
          slack = function_slack(p.activation, c.activation, value, slack, u);
          const double x = value;
          value = function(p.activation, c.activation, x);
          if (is_rounded_curve(p)) slack += numerics::rounded_curve_slack(value, x);
          if (std::abs(value) > expected.amax) expected.amax = std::abs(value);
          expected.amax_slack = std::max(expected.amax_slack, slack + 0x1p-24 * std::abs(value));
          expected.d.value[index] = scale * value;
          expected.d.slack[index] = scale * slack + (slack > 0 && scale != 1 ? 2 * u * std::abs(scale * value) : 0);
        }
      }
    }
  }
  return expected;
}

MatmulRun::MatmulRun(const Backend& backend, const MatmulCase& c, const MatmulValues& values, bool misaligned)
    : case_(c) {
  const Problem& p = c.problem;
  const auto place = [&](const TensorGeometry& geometry, const std::vector<double>& elements) -> const void* {
    if (geometry.rank == 0) return nullptr;
    inputs_.push_back(std::make_unique<DeviceTensor>(backend, geometry, &elements, misaligned));
    return inputs_.back()->data();
  };
  const auto place_bytes = [&](const void* bytes, std::size_t count) -> const void* {
    scalars_.push_back(std::make_unique<GuardedBuffer>(backend, count, 0, false, 1, bytes));
    return scalars_.back()->data();
  };
  const auto scalar = [&](int bit, const float& value) -> const float* {
    return (p.scales & bit) != 0 ? static_cast<const float*>(place_bytes(&value, sizeof value)) : nullptr;
  };
  const auto overrides = [&](int bit, const std::vector<std::int64_t>& numbers) -> const void* {
    if ((p.overrides & bit) == 0) return nullptr;
    if (p.override_type == GPUDNN_DATA_INT64) return place_bytes(numbers.data(), numbers.size() * 8);
    const std::vector<std::int32_t> narrow(numbers.begin(), numbers.end());
    return place_bytes(narrow.data(), narrow.size() * 4);
  };
  args_.alpha = c.alpha;
  args_.beta = c.beta;
  args_.activation = c.activation;
  args_.padding = c.padding;
  args_.a = place(p.a, values.a);
  args_.b = place(p.b, values.b);
  args_.bias = place(p.bias, values.bias);
  if (!c.in_place) args_.c = place(p.c, values.c);
  d_ = std::make_unique<DeviceTensor>(backend, p.d, c.in_place ? &values.c : nullptr, misaligned);
  args_.d = d_->data();
  if (c.in_place) args_.c = args_.d;
  args_.descale_a = scalar(matmul::kDescaleA, c.descale_a);
  args_.descale_b = scalar(matmul::kDescaleB, c.descale_b);
  args_.scale_d = scalar(matmul::kScaleD, c.scale_d);
  if ((p.scales & matmul::kAmax) != 0) {
    amax_ = std::make_unique<GuardedBuffer>(backend, sizeof(float));
    args_.amax = static_cast<float*>(amax_->data());
  }
  args_.m_override = overrides(matmul::kOverrideM, c.m);
  args_.n_override = overrides(matmul::kOverrideN, c.n);
  args_.k_override = overrides(matmul::kOverrideK, c.k);
}

std::string MatmulRun::judge(gpudnnStatus_t status, const MatmulExpected& expected) {
  Outcome outcome;
  outcome.status = status;
  if (status != GPUDNN_STATUS_SUCCESS) outcome.text = take_error_text();
  std::vector<unsigned char> bytes = d_->image();
  if (bytes != right_) outcome.values = d_->values_of(bytes);
  outcome.damage = d_->damage_outside_elements();
  for (const auto& input : inputs_) {
    if (outcome.damage.empty()) outcome.damage = input->damage_anywhere();
  }
  for (const auto& scalar : scalars_) {
    if (outcome.damage.empty()) outcome.damage = scalar->damage();
  }
  std::string wrong = bytes == right_ ? failure_of(outcome) : test::judge(case_.problem.d, outcome, expected.d);
  if (wrong.empty()) right_ = std::move(bytes);
  if (!wrong.empty() || amax_ == nullptr) return wrong;
  float amax = 0;
  amax_->read(&amax, sizeof amax);
  if (!amax_->damage().empty()) return "amax: " + amax_->damage();
  if (std::abs(static_cast<double>(amax) - expected.amax) <= expected.amax_slack) return {};
  return "amax is " + std::to_string(amax) + " instead of " + std::to_string(expected.amax);
}

void MatmulRun::restore() {
  d_->restore();
  const std::uint32_t poison = ~std::uint32_t{0};
  if (amax_ != nullptr) amax_->write(&poison, sizeof poison);
}

std::string check_plan(const Backend& backend, const matmul::Plan& plan, MatmulRun* run,
                       const MatmulExpected& expected) {
  run->restore();
  const GuardedBuffer workspace(backend, plan.workspace);
  const gpudnnStatus_t status =
      matmul::launch_plan(launch_site(backend.handle(), workspace.data(), workspace.bytes()), plan, run->args());
  std::string wrong = run->judge(status, expected);
  if (wrong.empty() && !(wrong = workspace.damage()).empty()) wrong = "workspace: " + wrong;
  return wrong;
}

}  // namespace gpudnn::test
