// Reading of MNIST's IDX files. An IDX file is: two zero bytes, a type byte (8 = unsigned byte), the number of
// dimensions, each dimension as a big-endian 32-bit number, then the bytes.
// SPDX-License-Identifier: Apache-2.0
#include "mnist_data.hpp"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>

namespace fs = std::filesystem;

namespace {

constexpr uint64_t kLargestPayload = uint64_t{1} << 30;  // MNIST's largest file holds 47 MB

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what);
}

// Reads up to `limit` bytes; fewer mean that the file ended. gzread passes a file that is not gzipped through as it is.
std::vector<uint8_t> read_bytes(gzFile stream, const fs::path& file, uint64_t limit) {
  constexpr size_t kChunk = size_t{1} << 20;
  std::vector<uint8_t> bytes;
  while (bytes.size() < limit) {
    const size_t have = bytes.size();
    const size_t wanted = static_cast<size_t>(std::min<uint64_t>(kChunk, limit - have));
    bytes.resize(have + wanted);
    const int got = gzread(stream, bytes.data() + have, static_cast<unsigned>(wanted));
    int code = Z_OK;
    const char* message = gzerror(stream, &code);
    if (got < 0 || code == Z_BUF_ERROR) {
      fail(file, std::string("cannot be read: ") + (code == Z_ERRNO ? std::strerror(errno) : message) +
                     (code == Z_BUF_ERROR ? " (the gzip data are cut off)" : ""));
    }
    bytes.resize(have + static_cast<size_t>(got));
    if (got == 0) break;
  }
  return bytes;
}

// Reads a file of `dimension_count` dimensions; `sizes` receives them.
std::vector<uint8_t> read_idx(const fs::path& file, size_t dimension_count, std::vector<uint64_t>& sizes) {
  const std::unique_ptr<gzFile_s, decltype(&gzclose)> stream(gzopen(file.c_str(), "rb"), gzclose);
  if (stream == nullptr) fail(file, std::string("cannot be opened: ") + std::strerror(errno));

  const size_t header_size = 4 + 4 * dimension_count;
  const std::vector<uint8_t> header = read_bytes(stream.get(), file, header_size);
  if (header.size() < header_size) {
    fail(file, "expected an IDX header of " + std::to_string(header_size) + " bytes, but the file ends after " +
                   std::to_string(header.size()));
  }
  if (header[0] != 0 || header[1] != 0 || header[2] != 8 || header[3] != dimension_count) {
    fail(file, "expected the IDX magic 0 0 8 " + std::to_string(dimension_count) + " (unsigned bytes, " +
                   std::to_string(dimension_count) + " dimensions), found " + std::to_string(header[0]) + " " +
                   std::to_string(header[1]) + " " + std::to_string(header[2]) + " " + std::to_string(header[3]));
  }
  sizes.clear();
  uint64_t payload = 1;
  for (size_t d = 0; d < dimension_count; ++d) {
    const uint8_t* at = &header[4 + 4 * d];
    sizes.push_back(uint64_t{at[0]} << 24 | uint64_t{at[1]} << 16 | uint64_t{at[2]} << 8 | uint64_t{at[3]});
    // Stopping at the first excess keeps three 32-bit factors from overflowing.
    if (payload <= kLargestPayload) payload *= sizes.back();
  }
  if (payload > kLargestPayload) fail(file, "the header claims more than a gigabyte of data; is it damaged?");

  std::vector<uint8_t> bytes = read_bytes(stream.get(), file, payload + 1);
  if (bytes.size() != payload) {
    fail(file, "expected " + std::to_string(payload) + " bytes of data after the header, found " +
                   (bytes.size() > payload ? "more" : std::to_string(bytes.size())));
  }
  return bytes;
}

// The file of one set and kind under one of its usual names, or nothing.
std::optional<fs::path> find_file(const fs::path& directory, const std::string& set, const std::string& kind) {
  for (const char* separator : {"-", "."}) {
    for (const char* suffix : {"", ".gz"}) {
      const fs::path path = directory / (set + "-" + (kind == "images" ? "images" : "labels") + separator +
                                         (kind == "images" ? "idx3" : "idx1") + "-ubyte" + suffix);
      if (fs::exists(path)) return path;
    }
  }
  return std::nullopt;
}

// One set, or an empty one where neither of its two files is there.
DigitSet read_set(const fs::path& directory, const std::string& set) {
  const std::optional<fs::path> images = find_file(directory, set, "images");
  const std::optional<fs::path> labels = find_file(directory, set, "labels");
  if (!images && !labels) return {};
  if (!images) fail(*labels, "has no " + set + "-images-idx3-ubyte[.gz] beside it");
  if (!labels) fail(*images, "has no " + set + "-labels-idx1-ubyte[.gz] beside it");

  DigitSet digits;
  std::vector<uint64_t> sizes;
  digits.pixels = read_idx(*images, 3, sizes);
  if (sizes[1] != kImageSize || sizes[2] != kImageSize) {
    fail(*images, "expected images of 28x28, found " + std::to_string(sizes[1]) + "x" + std::to_string(sizes[2]));
  }
  const uint64_t image_count = sizes[0];
  digits.labels = read_idx(*labels, 1, sizes);
  if (digits.size() != image_count) {
    fail(*labels, "expected a label for each of the " + std::to_string(image_count) + " images, found " +
                      std::to_string(digits.size()));
  }
  for (size_t i = 0; i < digits.size(); ++i) {
    if (digits.labels[i] >= kClasses) {
      fail(*labels, "expected labels from 0 to 9, found " + std::to_string(digits.labels[i]) + " for image " +
                        std::to_string(i));
    }
  }
  if (digits.size() == 0) fail(*images, "holds no images");
  return digits;
}

DigitSet slice(const DigitSet& digits, size_t begin, size_t end) {
  const auto pixel = [](size_t i) { return static_cast<std::ptrdiff_t>(i * kImagePixels); };
  const auto label = [](size_t i) { return static_cast<std::ptrdiff_t>(i); };
  return {{digits.pixels.begin() + pixel(begin), digits.pixels.begin() + pixel(end)},
          {digits.labels.begin() + label(begin), digits.labels.begin() + label(end)}};
}

}  // namespace

TrainTestData read_mnist(const fs::path& directory) {
  if (!fs::is_directory(directory)) fail(directory, "expected a directory with MNIST's files, but there is none");
  DigitSet train = read_set(directory, "train");
  DigitSet test = read_set(directory, "t10k");
  if (train.size() > 0 && test.size() > 0) return {std::move(train), std::move(test)};
  const DigitSet& only = train.size() > 0 ? train : test;
  if (only.size() == 0) {
    fail(directory,
         "expected t10k-images-idx3-ubyte[.gz] and t10k-labels-idx1-ubyte[.gz] (and, if there, the same of train-*), "
         "found neither");
  }
  const size_t split = only.size() * 4 / 5;
  return {slice(only, 0, split), slice(only, split, only.size())};
}
