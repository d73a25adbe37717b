// Filter gradient: dw[channel of y][tap, channel of x] = sum over positions of x * dy.
//
// Rows of the product are pairs (tap, channel of x), columns the channels of y, and the sum runs over the positions of
// all images, cut into chunks of at most kRun. A unit of work is a strip of rows and, where strips alone would leave
// threads idle, a part of the chunks. For each chunk it packs dy once, gathers what a block of rows meets in x
// (conv_gather.hpp), and adds the products to sums in double. Parts are added in their order. How chunks are cut and
// parted follows from the problem alone, so the bits do not depend on the number of threads.
// SPDX-License-Identifier: Apache-2.0
#include "host/conv_gemm_wgrad.hpp"

#include <algorithm>
#include <vector>

#include "core/parallel.hpp"
#include "host/block_kernel.hpp"
#include "host/conv_gather.hpp"
#include "host/conv_lattice.hpp"
#include "host/element.hpp"
#include "host/scratch.hpp"

namespace gpudnn::host {
namespace {

using conv::Args;
using conv::Problem;

constexpr std::int64_t kMaxRows = 144;      // that are gathered at once
constexpr std::int64_t kMaxSums = 1 << 17;  // of a strip
constexpr std::int64_t kUsefulUnits = 16;   // parts are made until there are as many
constexpr std::int64_t kMinChunks = 2;      // of a part

template <class T>
struct Product {
  using Factor = FactorOf<T>;

  const Args& args;
  const ConvLattice& lattice;
  const BlockKernel<Factor>& kernel;
  bool by_channels;       // whether x's channels lie side by side, and so do those of a gathered position
  std::int64_t pairs;     // rows of a group
  std::int64_t sums_row;  // y's channels of a group, rounded up to whole panels
  std::int64_t strip;     // rows of a strip
  std::int64_t strips;    // of a group
  std::int64_t chunk;     // positions of a chunk
  std::int64_t chunks;
  std::int64_t parts;

  [[nodiscard]] const ConvPiece& piece() const noexcept { return lattice.pieces.front(); }
  [[nodiscard]] std::int64_t positions() const noexcept { return lattice.images * piece().positions(); }
  [[nodiscard]] std::int64_t strip_sums() const noexcept { return strip * sums_row; }
};

template <class Factor>
struct Workplace {
  std::vector<ConvRun> runs;
  Factor* gathered;
  Factor* gradients;  // dy's panels
};

// dy of one chunk: a panel of `columns` channels after the other, in it a row for each position.
template <class T>
void pack_gradients(const Product<T>& product, std::int64_t group, std::int64_t positions,
                    Workplace<FactorOf<T>>* place) {
  constexpr int kLast = kConvSpatial - 1;
  const ConvSide& y = product.lattice.target;
  const std::int64_t columns = product.kernel.columns;
  const T* const dy = static_cast<const T*>(product.args.y) + group * y.channels * y.channel_stride;
  for (std::int64_t first = 0; first < product.sums_row; first += columns) {
    auto* const panel = place->gradients + first * positions;
    const std::int64_t channels = std::min(columns, y.channels - first);
    for (const ConvRun& run : place->runs) {
      std::int64_t offset = run.image * y.image_stride + first * y.channel_stride;
      for (int i = 0; i < kConvSpatial; ++i) offset += run.at[i] * y.strides[i];
      auto* const to = panel + run.column * columns;
      if (y.channel_stride == 1) {
        for (std::int64_t i = 0; i < run.count; ++i) {
          copy_strided(to + i * columns, 1, dy + offset + i * y.strides[kLast], 1, channels);
        }
      } else {
        for (std::int64_t k = 0; k < channels; ++k) {
          copy_strided(to + k, columns, dy + offset + k * y.channel_stride, y.strides[kLast], run.count);
        }
      }
    }
    for (std::int64_t k = channels; k < columns; ++k) zero_strided(panel + k, columns, positions);
  }
}

// Adds chunks [begin, end) to the sums of rows [first_row, first_row + rows), or writes the first one's there.
template <class T>
void add_chunks(const Product<T>& product, std::int64_t group, std::int64_t first_row, std::int64_t rows,
                std::int64_t begin, std::int64_t end, Workplace<FactorOf<T>>* place, double* sums) {
  using Factor = FactorOf<T>;
  const ConvSide& x = product.lattice.source;
  const T* const images = static_cast<const T*>(product.args.x) + group * x.channels * x.channel_stride;
  for (std::int64_t chunk = begin; chunk < end; ++chunk) {
    const std::int64_t first = chunk * product.chunk;
    Block<Factor> block;
    block.k = std::min(product.chunk, product.positions() - first);
    conv_runs(product.piece(), first, first + block.k, &place->runs);
    pack_gradients(product, group, block.k, place);
    block.n = product.lattice.target.channels;
    block.b = place->gradients;
    block.b_panel = product.kernel.columns * block.k;
    block.b_k = product.kernel.columns;
    block.sums_row = product.sums_row;
    block.add = chunk > begin;
    for (std::int64_t row = 0; row < rows; row += kMaxRows) {
      block.m = std::min(kMaxRows, rows - row);
      const std::int64_t line = odd_lines<Factor>(product.by_channels ? block.m : block.k);
      block.a = place->gathered;
      block.a_row = product.by_channels ? 1 : line;
      block.a_k = product.by_channels ? line : 1;
      gather(product.lattice, product.piece(), place->runs, images, first_row + row, first_row + row + block.m,
             place->gathered, block.a_row, block.a_k);
      block.sums = sums + row * product.sums_row;
      product.kernel.multiply(block);
    }
  }
}

// One row's elements of dw.
template <class T>
void write_row(const Product<T>& product, std::int64_t group, std::int64_t row, const double* sums) {
  const ConvLattice& lattice = product.lattice;
  const ConvTap& tap = product.piece().taps[static_cast<std::size_t>(row / lattice.source.channels)];
  T* const dw = static_cast<T*>(product.args.out) + group * lattice.filter_group_stride + tap.filter_offset +
                row % lattice.source.channels * lattice.filter_source_stride;
  for (std::int64_t k = 0; k < lattice.target.channels; ++k) {
    store(dw + k * lattice.filter_target_stride, product.args.alpha * sums[k], product.args.beta);
  }
}

// Runs all units. `partial` has room for the sums of every unit, or is null where a strip has one part: then its rows
// are written at once.
template <class T>
void run_units(const Product<T>& product, double* partial) {
  using Factor = FactorOf<T>;
  const std::int64_t gathered = odd_lines<Factor>(kRun) * odd_lines<Factor>(kMaxRows);
  const std::int64_t gradients = product.chunk * product.sums_row;
  const std::int64_t own_sums = partial == nullptr ? product.strip_sums() : 0;
  const std::int64_t strips = product.lattice.groups * product.strips;
  const std::int64_t cost = product.positions() / product.parts * product.strip_sums() / 16;
  parallel_for(strips * product.parts, grain_for(cost), [&](std::int64_t begin, std::int64_t end) {
    Scratch scratch(Scratch::bytes_of<Factor>(gathered) + Scratch::bytes_of<Factor>(gradients) +
                    Scratch::bytes_of<double>(own_sums));
    Workplace<Factor> place{{}, scratch.take<Factor>(gathered), scratch.take<Factor>(gradients)};
    double* const own = scratch.take<double>(own_sums);
    for (std::int64_t unit = begin; unit < end; ++unit) {
      const std::int64_t part = unit % product.parts;
      const std::int64_t group = unit / product.parts / product.strips;
      const std::int64_t first_row = unit / product.parts % product.strips * product.strip;
      const std::int64_t rows = std::min(product.strip, product.pairs - first_row);
      double* const sums = partial == nullptr ? own : partial + unit * product.strip_sums();
      add_chunks(product, group, first_row, rows, product.chunks * part / product.parts,
                 product.chunks * (part + 1) / product.parts, &place, sums);
      for (std::int64_t row = 0; partial == nullptr && row < rows; ++row) {
        write_row(product, group, first_row + row, sums + row * product.sums_row);
      }
    }
  });
}

// Adds the parts of each row in their order, and writes it.
template <class T>
void join_parts(const Product<T>& product, double* partial) {
  const std::int64_t rows = product.lattice.groups * product.pairs;
  parallel_for(rows, grain_for(product.parts * product.sums_row), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t group = i / product.pairs;
      const std::int64_t row = i % product.pairs;
      const std::int64_t unit = (group * product.strips + row / product.strip) * product.parts;
      double* const sums = partial + unit * product.strip_sums() + row % product.strip * product.sums_row;
      for (std::int64_t part = 1; part < product.parts; ++part) {
        for (std::int64_t k = 0; k < product.sums_row; ++k) sums[k] += sums[part * product.strip_sums() + k];
      }
      write_row(product, group, row, sums);
    }
  });
}

}  // namespace

template <class T>
void conv_gemm_wgrad(const Problem& problem, const Args& args) {
  using Factor = FactorOf<T>;
  const ConvLattice lattice = conv_lattice(problem);
  const BlockKernel<Factor>& kernel = block_kernel<Factor>();
  const ConvSide& x = lattice.source;
  Product<T> product{args, lattice, kernel, x.channel_stride == 1 && x.channels >= 8, 0, 0, 0, 0, 0, 0, 0};
  product.pairs = static_cast<std::int64_t>(product.piece().taps.size()) * x.channels;
  product.sums_row = rounded_up(lattice.target.channels, kernel.columns);
  product.strip = std::min(product.pairs, std::max(kMaxSums / product.sums_row / kMaxRows, std::int64_t{1}) * kMaxRows);
  product.strips = parts_of(product.pairs, product.strip);
  const std::int64_t positions = product.positions();
  product.chunk = parts_of(positions, parts_of(positions, kRun));
  product.chunks = parts_of(positions, product.chunk);
  const std::int64_t wanted = parts_of(kUsefulUnits, lattice.groups * product.strips);
  product.parts = std::clamp<std::int64_t>(product.chunks / kMinChunks, 1, wanted);
  if (product.parts == 1) return run_units(product, nullptr);
  Scratch scratch(Scratch::bytes_of<double>(lattice.groups * product.strips * product.parts * product.strip_sums()));
  double* const partial = scratch.take<double>(0);
  run_units(product, partial);
  join_parts(product, partial);
}

template void conv_gemm_wgrad<float>(const Problem& problem, const Args& args);
template void conv_gemm_wgrad<double>(const Problem& problem, const Args& args);
template void conv_gemm_wgrad<Half>(const Problem& problem, const Args& args);
template void conv_gemm_wgrad<BFloat16>(const Problem& problem, const Args& args);

}  // namespace gpudnn::host
