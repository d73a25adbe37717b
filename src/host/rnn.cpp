// The stages of recurrent networks on the host: sums in double, h and the gates rounded to the data's type where they
// are stored, the state of an LSTM to float.
// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "core/parallel.hpp"
#include "host/element.hpp"
#include "host/gemm.hpp"
#include "kernels/rnn/cell.hpp"
#include "ops/rnn/stages.hpp"

namespace gpudnn::rnn {
namespace {

using kernels::RnnCopy;
using kernels::RnnDirection;
using kernels::RnnLayer;
using kernels::RnnStep;

template <class Element>
struct HostConvert {
  using T = Element;
  using C = double;
  using State = std::conditional_t<std::is_same_v<Element, double>, double, float>;
  static double widen(T value) noexcept { return to_double(value); }
  static T narrow(double value) noexcept { return round_to<T>(value); }
  static double sigmoid(double x) noexcept { return kernels::rnn_sigmoid(x); }
  static double tanh(double x) noexcept { return kernels::rnn_tanh(x); }
};

DataType data_type(tile::ElementType type) noexcept {
  switch (type) {
    case tile::ElementType::f64:
      return GPUDNN_DATA_DOUBLE;
    case tile::ElementType::f16:
      return GPUDNN_DATA_HALF;
    case tile::ElementType::bf16:
      return GPUDNN_DATA_BFLOAT16;
    case tile::ElementType::f32:
      break;
  }
  return GPUDNN_DATA_FLOAT;
}

template <class T>
std::vector<double> widened(const void* from, std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  parallel_for(count, 4096, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      values[static_cast<std::size_t>(i)] = to_double(static_cast<const T*>(from)[i]);
    }
  });
  return values;
}

// Places whose rows meet one row of weights at once.
constexpr int kPlaces = 4;
constexpr int kLanes = 4;

// sums[p] = a[p] . b, in a fixed order.
void dot_rows(const double* const (&a)[kPlaces], const double* b, std::int64_t depth, double (&sums)[kPlaces]) {
  double lanes[kPlaces][kLanes] = {};
  std::int64_t k = 0;
  for (; k + kLanes <= depth; k += kLanes) {
    for (int p = 0; p < kPlaces; ++p) {
      for (int i = 0; i < kLanes; ++i) lanes[p][i] += a[p][k + i] * b[k + i];
    }
  }
  for (int p = 0; p < kPlaces; ++p) {
    sums[p] = (lanes[p][0] + lanes[p][1]) + (lanes[p][2] + lanes[p][3]);
    for (std::int64_t i = k; i < depth; ++i) sums[p] += a[p][i] * b[i];
  }
}

// finish(place, j, sums) for all places and units, sums[g] being the product of the place's row of `a` with row
// g * units + j of `b`.
template <int kGates, class Finish>
void multiply_rows(const std::vector<double>& a, const std::vector<double>& b, std::int64_t depth, std::int32_t places,
                   std::int32_t units, const Finish& finish) {
  const std::int64_t groups = (places + kPlaces - 1) / kPlaces;
  const std::int64_t cost = kPlaces * kGates * depth;
  const std::vector<double> zeros(static_cast<std::size_t>(depth));
  parallel_for(groups * units, std::max<std::int64_t>(1, 32768 / std::max<std::int64_t>(cost, 1)),
               [&](std::int64_t begin, std::int64_t end) {
                 for (std::int64_t index = begin; index < end; ++index) {
                   const auto place0 = static_cast<std::int32_t>(index / units * kPlaces);
                   const auto j = static_cast<std::int32_t>(index % units);
                   const double* rows[kPlaces];
                   for (int p = 0; p < kPlaces; ++p) {
                     rows[p] = place0 + p < places ? a.data() + (place0 + p) * depth : zeros.data();
                   }
                   double sums[kPlaces][kGates];
                   for (int g = 0; g < kGates; ++g) {
                     double column[kPlaces];
                     dot_rows(rows, b.data() + (std::int64_t{g} * units + j) * depth, depth, column);
                     for (int p = 0; p < kPlaces; ++p) sums[p][g] = column[p];
                   }
                   for (int p = 0; p < kPlaces && place0 + p < places; ++p) finish(place0 + p, j, sums[p]);
                 }
               });
}

template <class T>
class Sweep {
  using Unit = kernels::RnnUnit<HostConvert<T>>;

 public:
  Sweep(const RnnLayer& layer, int direction) : l_(layer), d_(layer.direction[direction]) {}

  void forward() {
    const std::vector<double> r =
        widened<T>(d_.recurrent, std::int64_t{kernels::rnn_gates(l_.cell)} * l_.units * l_.width);
    std::vector<double> projection;
    if (d_.projection != nullptr) projection = widened<T>(d_.projection, std::int64_t{l_.width} * l_.units);
    std::vector<double> rows;
    for (std::int32_t i = 0; i < l_.rows.steps; ++i) {
      const RnnStep s = kernels::rnn_step(l_.rows, d_.downwards, d_.downwards ? l_.rows.steps - 1 - i : i);
      take_rows(&rows, s.rows, l_.width,
                [&](std::int32_t place, std::int32_t k) { return Unit::hidden_before(l_, d_, s, place, k); });
      const auto finish = [&](std::int32_t place, std::int32_t j, const double* sums) {
        Unit::forward(l_, d_, s, place, j, Unit::fetch(l_, d_, s, place, j), sums);
      };
      with_gates([&]<int kGates>() { multiply_rows<kGates>(rows, r, l_.width, s.rows, l_.units, finish); });
      if (projection.empty()) continue;
      take_rows(&rows, s.rows, l_.units, [&](std::int32_t place, std::int32_t k) {
        return Unit::load(d_.hidden, (s.first + place) * l_.units + k);
      });
      multiply_rows<1>(rows, projection, l_.units, s.rows, l_.width,
                       [&](std::int32_t place, std::int32_t j, const double* sums) {
                         Unit::store_hidden(l_, d_, s, place, j, sums[0]);
                       });
    }
  }

  void backward() {
    const std::int64_t gates = std::int64_t{kernels::rnn_gates(l_.cell)} * l_.units;
    const std::vector<double> r = widened<T>(d_.recurrent_t, gates * l_.width);
    std::vector<double> projection;
    if (d_.projection_t != nullptr) projection = widened<T>(d_.projection_t, std::int64_t{l_.width} * l_.units);
    std::vector<double> rows;
    for (std::int32_t i = 0; i < l_.rows.steps; ++i) {
      const std::int32_t t = d_.downwards ? i : l_.rows.steps - 1 - i;
      const RnnStep s = kernels::rnn_step(l_.rows, !d_.downwards, t);
      const RnnStep made = kernels::rnn_step(l_.rows, d_.downwards, t);
      take_rows(&rows, s.rows, gates, [&](std::int32_t place, std::int64_t k) {
        return place < s.previous_rows ? gate_gradient(s.previous_first + place, k) : 0;
      });
      multiply_rows<1>(rows, r, gates, s.rows, l_.width, [&](std::int32_t place, std::int32_t j, const double* sums) {
        auto in = Unit::fetch_hidden(l_, d_, s, place, j);
        const double dh = in.begins ? in.dh : in.dh + sums[0];
        if (projection.empty()) {
          Unit::fetch_unit(l_, d_, s, made, place, j, &in);
          Unit::backward(l_, d_, s, place, j, in, dh);
        } else {
          Unit::store(d_.dh, (s.first + place) * l_.width + j, dh);
        }
      });
      if (projection.empty()) continue;
      take_rows(&rows, s.rows, l_.width, [&](std::int32_t place, std::int32_t k) {
        return Unit::load(d_.dh, (s.first + place) * l_.width + k);
      });
      multiply_rows<1>(rows, projection, l_.width, s.rows, l_.units,
                       [&](std::int32_t place, std::int32_t j, const double* sums) {
                         typename Unit::GradientInputs in{};
                         Unit::fetch_unit(l_, d_, s, made, place, j, &in);
                         Unit::backward(l_, d_, s, place, j, in, sums[0]);
                       });
    }
    if (d_.dhx != nullptr && l_.rows.steps > 0) first_gradient(r, gates);
  }

 private:
  // The gradient of hx, of the places that have a step at all.
  void first_gradient(const std::vector<double>& r, std::int64_t gates) {
    std::vector<double> rows;
    const RnnStep s = kernels::rnn_step(l_.rows, true, 0);
    take_rows(&rows, s.rows, gates, [&](std::int32_t place, std::int64_t k) {
      const std::int32_t last =
          l_.rows.device_lengths != nullptr ? l_.rows.device_lengths[place] - 1 : l_.rows.steps - 1;
      return gate_gradient(kernels::rnn_step(l_.rows, true, d_.downwards ? last : 0).first + place, k);
    });
    multiply_rows<1>(rows, r, gates, s.rows, l_.width, [&](std::int32_t place, std::int32_t j, const double* sums) {
      Unit::backward_first(l_, d_, place, j, sums[0]);
    });
  }
  // What the recurrent product takes of the gradients of the gates: of a GRU's slots 0, 1 and 3.
  [[nodiscard]] double gate_gradient(std::int64_t row, std::int64_t k) const {
    const bool fourth = l_.cell == kernels::RnnCell::gru && k >= 2 * std::int64_t{l_.units};
    return Unit::load(d_.gates,
                      row * kernels::rnn_gates_row(l_.cell, l_.units, sizeof(T)) + k + (fourth ? l_.units : 0));
  }
  template <class Value>
  static void take_rows(std::vector<double>* rows, std::int32_t places, std::int64_t width, const Value& value) {
    rows->resize(static_cast<std::size_t>(places * width));
    for (std::int32_t place = 0; place < places; ++place) {
      for (std::int32_t k = 0; k < width; ++k) (*rows)[static_cast<std::size_t>(place * width + k)] = value(place, k);
    }
  }
  template <class F>
  void with_gates(const F& f) const {
    const int gates = kernels::rnn_gates(l_.cell);
    if (gates == 4) f.template operator()<4>();
    if (gates == 3) f.template operator()<3>();
    if (gates == 1) f.template operator()<1>();
  }

  const RnnLayer& l_;
  const RnnDirection& d_;
};

void forward(const Site&, const RnnLayer& layer) {
  for (int k = 0; k < layer.directions; ++k) {
    with_floating_type(data_type(layer.type), [&]<class T>() { Sweep<T>(layer, k).forward(); });
  }
}
void transpose(const Site&, tile::ElementType type, const void* from, std::int64_t rows, std::int64_t columns,
               void* to) {
  with_floating_type(data_type(type), [&]<class T>() {
    for (std::int64_t i = 0; i < rows; ++i) {
      for (std::int64_t j = 0; j < columns; ++j) {
        static_cast<T*>(to)[j * rows + i] = static_cast<const T*>(from)[i * columns + j];
      }
    }
  });
}

void backward(const Site& site, const RnnLayer& layer) {
  make_transposes(site, layer, &transpose);
  for (int k = 0; k < layer.directions; ++k) {
    with_floating_type(data_type(layer.type), [&]<class T>() { Sweep<T>(layer, k).backward(); });
  }
}

Status product(const Site&, const Product& p) {
  with_floating_type(p.type, [&]<class T>() {
    for (std::int64_t lane = 0; lane < p.counts[0] * p.counts[1]; ++lane) {
      const auto at = [&](const std::int64_t(&steps)[2]) {
        return lane / p.counts[1] * steps[0] + lane % p.counts[1] * steps[1];
      };
      const auto a = host::gemm_matrix(static_cast<const T*>(p.a) + at(p.a_steps), p.a_strides[0], p.a_strides[1]);
      const auto b = host::gemm_matrix(static_cast<const T*>(p.b) + at(p.b_steps), p.b_strides[0], p.b_strides[1]);
      auto* const d = static_cast<T*>(p.d) + at(p.d_steps);
      host::gemm(p.m, p.n, p.k, a, b,
                 [&](std::int64_t row, std::int64_t column, std::int64_t count, const double* sums) {
                   T* const to = d + row * p.d_row + column;
                   for (std::int64_t i = 0; i < count; ++i) host::store(to + i, sums[i], p.adds ? 1 : 0);
                 });
    }
  });
  return GPUDNN_STATUS_SUCCESS;
}
Status product_scratch(gpudnnHandle_t, const Product&, std::size_t* bytes) {
  *bytes = 0;
  return GPUDNN_STATUS_SUCCESS;
}

// Places without a step keep their states.
void pass(const Site&, const RnnLayer& l, bool backward) {
  if (l.rows.offsets == nullptr) return;
  const std::size_t bytes = static_cast<std::size_t>(data_type_bits(data_type(l.type)) / 8);
  for (int k = 0; k < l.directions; ++k) {
    const RnnDirection& d = l.direction[k];
    const auto copy = [&](const void* from, void* to, std::int32_t width) {
      if (to == nullptr) return;
      const std::size_t row = static_cast<std::size_t>(width) * bytes;
      for (std::int32_t place = l.rows.offsets[1]; place < l.rows.batch; ++place) {
        const std::size_t at = static_cast<std::size_t>(l.rows.device_order[place]) * row;
        if (from != nullptr) {
          std::memcpy(static_cast<char*>(to) + at, static_cast<const char*>(from) + at, row);
        } else {
          std::memset(static_cast<char*>(to) + at, 0, row);
        }
      }
    };
    copy(backward ? d.dhy : d.hx, backward ? d.dhx : d.hy, l.width);
    if (l.cell == kernels::RnnCell::lstm) copy(backward ? d.dcy : d.cx, backward ? d.dcx : d.cy, l.units);
  }
}

// row(caller's vector, packed row or -1) for each step of each sequence.
template <class Row>
void for_each_vector(const RnnCopy& copy, const Row& row) {
  for (std::int32_t t = 0; t < copy.rows.steps; ++t) {
    const RnnStep s = kernels::rnn_step(copy.rows, false, t);
    for (std::int32_t place = 0; place < copy.rows.batch; ++place) {
      const std::int32_t n = copy.rows.device_order != nullptr ? copy.rows.device_order[place] : place;
      row(t * copy.step + n * copy.sequence, place < s.rows ? s.first + place : -1);
    }
  }
}
void gather(const Site&, const RnnCopy& copy, const void* from, void* rows) {
  with_floating_type(data_type(copy.type), [&]<class T>() {
    for_each_vector(copy, [&](std::int64_t at, std::int64_t row) {
      if (row >= 0) std::copy_n(static_cast<const T*>(from) + at, copy.width, static_cast<T*>(rows) + row * copy.width);
    });
  });
}
void scatter(const Site&, const RnnCopy& copy, const void* rows, void* to) {
  with_floating_type(data_type(copy.type), [&]<class T>() {
    for_each_vector(copy, [&](std::int64_t at, std::int64_t row) {
      T* const target = static_cast<T*>(to) + at;
      if (row >= 0) {
        std::copy_n(static_cast<const T*>(rows) + row * copy.width, copy.width, target);
      } else if (copy.fills) {
        std::fill_n(target, copy.width, round_to<T>(copy.fill));
      }
    });
  });
}

void upload(const Site&, const std::int32_t* from, std::int64_t count, std::int32_t* to) {
  std::copy_n(from, count, to);
}

void previous(const Site&, const kernels::RnnPrevious& previous, void* to, std::int64_t to_row) {
  const RnnLayer& l = previous.layer;
  const std::int64_t rows =
      l.rows.offsets != nullptr ? l.rows.offsets[l.rows.steps] : std::int64_t{l.rows.steps} * l.rows.batch;
  with_floating_type(data_type(l.type), [&]<class T>() {
    using Unit = kernels::RnnUnit<HostConvert<T>>;
    for (std::int32_t lane = 0; lane < previous.lanes; ++lane) {
      const RnnDirection& d = previous.lane[lane];
      for (std::int32_t t = 0; t < l.rows.steps; ++t) {
        const RnnStep s = kernels::rnn_step(l.rows, d.downwards, t);
        for (std::int32_t place = 0; place < s.rows; ++place) {
          for (std::int32_t j = 0; j < l.width; ++j) {
            Unit::store(to, (lane * rows + s.first + place) * to_row + j, Unit::hidden_before(l, d, s, place, j));
          }
        }
      }
    }
  });
}

void lane_sums(const kernels::RnnColumnSums& sums, const kernels::RnnColumnSums::Lane& lane) {
  with_floating_type(data_type(sums.type), [&]<class T>() {
    std::vector<double> totals(static_cast<std::size_t>(sums.columns));
    for (std::int64_t row = 0; row < sums.rows; ++row) {
      const T* const from = static_cast<const T*>(lane.matrix) + row * sums.stride;
      for (std::int32_t j = 0; j < sums.columns; ++j) totals[static_cast<std::size_t>(j)] += to_double(from[j]);
    }
    for (std::int32_t j = 0; j < sums.columns - sums.skip; ++j) {
      const std::int32_t other = sums.skip > 0 && j >= sums.skip_from ? j + sums.skip : j;
      if (lane.out != nullptr)
        host::store(static_cast<T*>(lane.out) + j, totals[static_cast<std::size_t>(j)], sums.adds ? 1 : 0);
      if (lane.out2 != nullptr)
        host::store(static_cast<T*>(lane.out2) + j, totals[static_cast<std::size_t>(other)], sums.adds ? 1 : 0);
    }
  });
}

void column_sums(const Site&, const kernels::RnnColumnSums& sums) {
  for (std::int32_t lane = 0; lane < sums.lanes; ++lane) lane_sums(sums, sums.lane[lane]);
}

void gate_sum(const Site&, const kernels::RnnGateSum& sum) {
  with_floating_type(data_type(sum.type), [&]<class T>() {
    for (std::int64_t row = 0; row < sum.rows; ++row) {
      for (std::int64_t j = 0; j < sum.units; ++j) {
        double total = 0;
        for (std::int64_t g = 0; g < sum.gate_count; ++g) {
          total += to_double(static_cast<const T*>(sum.gates)[row * sum.row_stride + g * sum.units + j]);
        }
        host::store(static_cast<T*>(sum.to) + row * sum.units + j, total, sum.adds ? 1 : 0);
      }
    }
  });
}

Status clear(const Site&, void* to, std::size_t bytes) {
  std::memset(to, 0, bytes);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

const Stages kHostStages = {.product = &product,
                            .weights = nullptr,
                            .takes_weights = nullptr,
                            .product_scratch = &product_scratch,
                            .forward = &forward,
                            .backward = &backward,
                            .pipelines = nullptr,
                            .pipeline = nullptr,
                            .parts_of_pair = nullptr,
                            .part = nullptr,
                            .pass = &pass,
                            .gather = &gather,
                            .scatter = &scatter,
                            .upload = &upload,
                            .previous = &previous,
                            .transpose = &transpose,
                            .column_sums = &column_sums,
                            .gate_sum = &gate_sum,
                            .clear = &clear,
                            .merges_products = false,
                            .copy_rows = nullptr,
                            .pad_rows = nullptr,
                            .slices = nullptr};

}  // namespace gpudnn::rnn
