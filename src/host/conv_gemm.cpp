// Forward and data gradient: target[channel][position] = sum over (tap, source channel) of filter * source.
//
// The filter is packed once, a row of all pairs (tap, source channel) for each target channel, in the type that is
// multiplied in. A unit of work is a tile of positions and a block of target channels. For each block of at most kRun
// pairs it gathers what the positions meet (conv_gather.hpp), multiplies, and adds the products to sums in double,
// which the epilogue writes in the end. Where the source's channels lie side by side, the gathered tile has its
// positions as rows and the vectors run along target channels; elsewhere the vectors run along positions.
//
// Filter gradient: conv_gemm_wgrad.cpp.
// SPDX-License-Identifier: Apache-2.0
#include "host/conv_gemm.hpp"

#include <algorithm>
#include <vector>

#include "core/parallel.hpp"
#include "host/block_kernel.hpp"
#include "host/conv_epilogue.hpp"
#include "host/conv_gather.hpp"
#include "host/conv_gemm_wgrad.hpp"
#include "host/conv_lattice.hpp"
#include "host/element.hpp"
#include "host/scratch.hpp"

namespace gpudnn::host {
namespace {

using conv::Args;
using conv::Direction;
using conv::Problem;

// Of a unit of work. Its gathered factors and its sums stay in the second-level cache.
constexpr std::int64_t kMaxPositions = 144;
constexpr std::int64_t kMaxChannels = 192;

// What one call works with.
template <class T>
struct Product {
  using Factor = FactorOf<T>;

  const Problem& problem;
  const Args& args;
  const ConvLattice& lattice;
  const BlockKernel<Factor>& kernel;
  bool by_channels;             // whether the vectors run along target channels
  std::int64_t positions;       // of a tile at most
  std::int64_t channel_blocks;  // of a group
  const T* source;
  Factor* filter;                          // of all pieces
  std::vector<std::int64_t> filter_first;  // of each piece, in `filter`
  std::vector<std::int64_t> unit_first;    // of each piece

  [[nodiscard]] std::int64_t pairs(const ConvPiece& piece) const noexcept {
    return static_cast<std::int64_t>(piece.taps.size()) * lattice.source.channels;
  }
  // Target channels of a group that the packed filter has room for.
  [[nodiscard]] std::int64_t padded_channels() const noexcept {
    return by_channels ? rounded_up(lattice.target.channels, kernel.columns) : lattice.target.channels;
  }
};

// Packs the filter of one piece and target channel: a row of pairs, or a column in a panel of `columns` channels.
template <class T>
void pack_filter(const Product<T>& product, std::size_t piece_index, std::int64_t group, std::int64_t channel) {
  const ConvLattice& lattice = product.lattice;
  const ConvPiece& piece = lattice.pieces[piece_index];
  const std::int64_t pairs = product.pairs(piece);
  const std::int64_t columns = product.kernel.columns;
  const std::int64_t step = product.by_channels ? columns : 1;
  auto* to = product.filter + product.filter_first[piece_index] + group * product.padded_channels() * pairs;
  to += product.by_channels ? channel / columns * columns * pairs + channel % columns : channel * pairs;
  if (channel >= lattice.target.channels) return zero_strided(to, step, pairs);
  const T* const from = static_cast<const T*>(product.args.w) + group * lattice.filter_group_stride +
                        channel * lattice.filter_target_stride;
  for (const ConvTap& tap : piece.taps) {
    copy_strided(to, step, from + tap.filter_offset, lattice.filter_source_stride, lattice.source.channels);
    to += lattice.source.channels * step;
  }
}

template <class T>
void pack_filters(const Product<T>& product) {
  const std::int64_t channels = product.padded_channels();
  const std::int64_t groups = product.lattice.groups;
  for (std::size_t piece = 0; piece < product.lattice.pieces.size(); ++piece) {
    parallel_for(groups * channels, grain_for(4 * product.pairs(product.lattice.pieces[piece])),
                 [&](std::int64_t begin, std::int64_t end) {
                   for (std::int64_t i = begin; i < end; ++i) pack_filter(product, piece, i / channels, i % channels);
                 });
  }
}

// A row of finished sums and where its elements go: along positions of one channel, or along channels of one position.
struct Line {
  const double* sums;
  std::int64_t count;
  std::int64_t out;  // offset of the first element, and from there the steps to the next
  std::int64_t out_step;
  std::int64_t addend;
  std::int64_t addend_step;
  std::int64_t channel;       // of the first element ...
  std::int64_t channel_step;  // ... and from one to the next: 1 or 0
};

template <class T>
void write_line(const Problem& problem, const Args& args, const Line& line) {
  T* const out = static_cast<T*>(args.out) + line.out;
  const ConvEpilogue<T> epilogue(problem, args);
  if (epilogue.is_plain()) {
    for (std::int64_t i = 0; i < line.count; ++i) store(out + i * line.out_step, args.alpha * line.sums[i], args.beta);
    return;
  }
  const auto* const z = epilogue.adds() ? static_cast<const T*>(args.z) + line.addend : nullptr;
  const std::int64_t z_step = epilogue.adds() ? line.addend_step : 0;
  for (std::int64_t i = 0; i < line.count; ++i) {
    store(out + i * line.out_step, epilogue(line.sums[i], z + i * z_step, line.channel + i * line.channel_step),
          args.beta);
  }
}

// A tile's place in the product.
struct Unit {
  const ConvPiece* piece;
  std::size_t piece_index;
  std::int64_t group;
  std::int64_t first_channel;  // within the group
  std::int64_t channels;
  std::int64_t first_position;
  std::int64_t positions;
};

template <class T>
Unit unit_at(const Product<T>& product, std::int64_t index) {
  const ConvLattice& lattice = product.lattice;
  const auto after = std::upper_bound(product.unit_first.begin(), product.unit_first.end(), index);
  Unit unit;
  unit.piece_index = static_cast<std::size_t>(after - product.unit_first.begin() - 1);
  unit.piece = &lattice.pieces[unit.piece_index];
  index -= product.unit_first[unit.piece_index];
  const std::int64_t blocks = product.channel_blocks;
  unit.first_channel = index % blocks * kMaxChannels;
  unit.channels = std::min(kMaxChannels, lattice.target.channels - unit.first_channel);
  unit.group = index / blocks % lattice.groups;
  unit.first_position = index / blocks / lattice.groups * product.positions;
  unit.positions = std::min(product.positions, lattice.images * unit.piece->positions() - unit.first_position);
  return unit;
}

std::int64_t target_offset(const ConvSide& side, const ConvPiece& piece, const ConvRun& run) noexcept {
  std::int64_t offset = run.image * side.image_stride;
  for (int i = 0; i < kConvSpatial; ++i) {
    offset += (piece.axes[i].first + run.at[i] * piece.axes[i].target_step) * side.strides[i];
  }
  return offset;
}

template <class T>
void write_unit(const Product<T>& product, const Unit& unit, const std::vector<ConvRun>& runs, const double* sums,
                std::int64_t sums_row) {
  constexpr int kLast = kConvSpatial - 1;
  const ConvSide& target = product.lattice.target;
  const ConvSide& addend = product.lattice.addend;
  const std::int64_t step = unit.piece->axes[kLast].target_step;
  const std::int64_t first = unit.group * target.channels + unit.first_channel;
  for (const ConvRun& run : runs) {
    const std::int64_t out = target_offset(target, *unit.piece, run) + first * target.channel_stride;
    const std::int64_t z = target_offset(addend, *unit.piece, run) + first * addend.channel_stride;
    if (product.by_channels) {
      for (std::int64_t i = 0; i < run.count; ++i) {
        write_line<T>(product.problem, product.args,
                      {sums + (run.column + i) * sums_row, unit.channels, out + i * step * target.strides[kLast],
                       target.channel_stride, z + i * step * addend.strides[kLast], addend.channel_stride, first, 1});
      }
      continue;
    }
    for (std::int64_t k = 0; k < unit.channels; ++k) {
      write_line<T>(
          product.problem, product.args,
          {sums + k * sums_row + run.column, run.count, out + k * target.channel_stride, step * target.strides[kLast],
           z + k * addend.channel_stride, step * addend.strides[kLast], first + k, 0});
    }
  }
}

// Memory of one thread.
template <class Factor>
struct Workplace {
  std::vector<ConvRun> runs;
  Factor* gathered;
  double* sums;
};

template <class T>
void run_unit(const Product<T>& product, const Unit& unit, Workplace<FactorOf<T>>* place) {
  using Factor = FactorOf<T>;
  const ConvLattice& lattice = product.lattice;
  const std::int64_t columns = product.kernel.columns;
  const std::int64_t pairs = product.pairs(*unit.piece);
  conv_runs(*unit.piece, unit.first_position, unit.first_position + unit.positions, &place->runs);

  const Factor* const filter = product.filter + product.filter_first[unit.piece_index] +
                               (unit.group * product.padded_channels() + unit.first_channel) * pairs;
  const T* const source = product.source + unit.group * lattice.source.channels * lattice.source.channel_stride;
  Block<Factor> block;
  block.m = product.by_channels ? unit.positions : unit.channels;
  block.n = product.by_channels ? unit.channels : unit.positions;
  block.sums = place->sums;
  block.sums_row = rounded_up(block.n, columns);
  if (pairs == 0) std::fill_n(place->sums, block.m * block.sums_row, 0.0);

  const std::int64_t longest = pairs == 0 ? 0 : parts_of(pairs, parts_of(pairs, kRun));
  for (std::int64_t first = 0; first < pairs; first += longest) {
    block.k = std::min(longest, pairs - first);
    if (product.by_channels) {
      const std::int64_t row = odd_lines<Factor>(block.k);
      gather(lattice, *unit.piece, place->runs, source, first, first + block.k, place->gathered, 1, row);
      block.a = place->gathered;
      block.a_row = row;
      block.a_k = 1;
      block.b = filter + first * columns;
      block.b_panel = pairs * columns;
      block.b_k = columns;
    } else {
      const std::int64_t row = odd_lines<Factor>(block.sums_row);
      gather(lattice, *unit.piece, place->runs, source, first, first + block.k, place->gathered, row, 1);
      for (std::int64_t k = 0; k < block.k; ++k) {
        zero_strided(place->gathered + k * row + unit.positions, 1, block.sums_row - unit.positions);
      }
      block.a = filter + first;
      block.a_row = pairs;
      block.a_k = 1;
      block.b = place->gathered;
      block.b_panel = columns;
      block.b_k = row;
    }
    block.add = first > 0;
    product.kernel.multiply(block);
  }
  write_unit(product, unit, place->runs, place->sums, block.sums_row);
}

// Cuts the positions so that every thread has work; the sums of a position do not depend on its tile.
template <class T>
std::int64_t count_units(Product<T>* product) {
  const ConvLattice& lattice = product->lattice;
  product->channel_blocks = parts_of(lattice.target.channels, kMaxChannels);
  const std::int64_t smallest = std::max<std::int64_t>(product->kernel.columns, 24);
  for (product->positions = kMaxPositions;; product->positions /= 2) {
    product->unit_first.clear();
    std::int64_t units = 0;
    for (const ConvPiece& piece : lattice.pieces) {
      product->unit_first.push_back(units);
      units +=
          parts_of(lattice.images * piece.positions(), product->positions) * lattice.groups * product->channel_blocks;
    }
    if (units >= std::int64_t{4} * host_threads() || product->positions / 2 < smallest) return units;
  }
}

template <class T>
void convolve(const Problem& problem, const Args& args) {
  using Factor = FactorOf<T>;
  const ConvLattice lattice = conv_lattice(problem);
  const BlockKernel<Factor>& kernel = block_kernel<Factor>();
  // Fewer channels than these would leave most of a vector empty, or of a copy's time to its setting up.
  const bool by_channels = lattice.source.channel_stride == 1 && lattice.source.channels >= 8 &&
                           2 * lattice.target.channels >= kernel.columns;
  const void* const source = problem.direction == Direction::dgrad ? args.y : args.x;
  Product<T> product{problem, args, lattice, kernel, by_channels, 0, 0, static_cast<const T*>(source), nullptr, {}, {}};
  const std::int64_t units = count_units(&product);

  std::int64_t factors = 0;
  for (const ConvPiece& piece : lattice.pieces) {
    product.filter_first.push_back(factors);
    factors += lattice.groups * product.padded_channels() * product.pairs(piece);
  }
  Scratch packed(Scratch::bytes_of<Factor>(factors));
  product.filter = packed.take<Factor>(factors);
  pack_filters(product);

  const std::int64_t gathered =
      odd_lines<Factor>(kRun) * odd_lines<Factor>(rounded_up(product.positions, kernel.columns));
  const std::int64_t sums =
      by_channels ? product.positions * kMaxChannels : kMaxChannels * rounded_up(product.positions, kernel.columns);
  const std::int64_t cost = factors / static_cast<std::int64_t>(lattice.pieces.size()) * product.positions / 16;
  parallel_for(units, grain_for(cost), [&](std::int64_t begin, std::int64_t end) {
    Scratch scratch(Scratch::bytes_of<Factor>(gathered) + Scratch::bytes_of<double>(sums));
    Workplace<Factor> place{{}, scratch.take<Factor>(gathered), scratch.take<double>(sums)};
    for (std::int64_t i = begin; i < end; ++i) run_unit(product, unit_at(product, i), &place);
  });
}

}  // namespace

void conv_gemm(const Problem& problem, const Args& args) {
  if (element_count(conv::output(problem)) == 0) return;
  with_floating_type(conv::output(problem).type, [&]<class T>() {
    if (problem.direction == Direction::wgrad) {
      conv_gemm_wgrad<T>(problem, args);
    } else {
      convolve<T>(problem, args);
    }
  });
}

}  // namespace gpudnn::host
