// The weights file. All numbers are little-endian, 32 bits:
//
//   8 bytes   "GDNNDIGT"
//   u32       version of the format, 1
//   u32       number of layers; then for each layer three u32: input channels, filters, filter height (= width)
//   f32...    for each layer the filters (filter, channel, row, column), then the biases
//   u32       CRC-32 of everything before it
// SPDX-License-Identifier: Apache-2.0
#include "weights_file.hpp"

#include <zlib.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>

#include "network.hpp"

namespace fs = std::filesystem;

namespace {

constexpr char kMagic[] = "GDNNDIGT";
constexpr size_t kMagicSize = sizeof kMagic - 1;
constexpr uint32_t kVersion = 1;
constexpr size_t kHeaderSize = kMagicSize + 4 * (2 + 3 * kLeNet.size());
constexpr size_t kFileSize = kHeaderSize + 4 * parameter_count() + 4;

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what);
}

void append(std::string& bytes, uint32_t value) {
  for (int shift = 0; shift < 32; shift += 8) bytes.push_back(static_cast<char>(value >> shift & 0xff));
}

uint32_t number_at(const std::string& bytes, size_t offset) {
  uint32_t value = 0;
  for (size_t i = 0; i < 4; ++i) value |= uint32_t{static_cast<uint8_t>(bytes[offset + i])} << (8 * i);
  return value;
}

uint32_t checksum(const std::string& bytes, size_t size) {
  return static_cast<uint32_t>(crc32(0, reinterpret_cast<const Bytef*>(bytes.data()), static_cast<uInt>(size)));
}

std::string header() {
  std::string bytes(kMagic);
  append(bytes, kVersion);
  append(bytes, static_cast<uint32_t>(kLeNet.size()));
  for (const LayerSpec& spec : kLeNet) {
    for (const int value : {spec.channels, spec.filters, spec.kernel}) append(bytes, static_cast<uint32_t>(value));
  }
  return bytes;
}

}  // namespace

void write_weights(const fs::path& file, std::span<const float> parameters) {
  std::string bytes = header();
  for (const float value : parameters) append(bytes, std::bit_cast<uint32_t>(value));
  append(bytes, checksum(bytes, bytes.size()));

  // Written beside the file and renamed, so that a full disk or a stop half-way leaves an older file whole.
  const fs::path temporary = file.string() + ".part";
  std::ofstream stream(temporary, std::ios::binary);
  stream.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  stream.close();
  std::error_code error;
  if (stream) fs::rename(temporary, file, error);
  if (!stream || error) {
    const std::string reason = error ? error.message() : std::strerror(errno);
    fs::remove(temporary, error);
    fail(file, "cannot be written: " + reason);
  }
}

std::vector<float> read_weights(const fs::path& file) {
  if (fs::is_directory(file)) fail(file, "expected a weights file, found a directory");
  std::ifstream stream(file, std::ios::binary);
  if (!stream) fail(file, std::string("cannot be opened: ") + std::strerror(errno));
  // One byte past the expected size is enough to see that a file is too long.
  std::string bytes(kFileSize + 1, '\0');
  stream.read(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<size_t>(stream.gcount()));

  if (bytes.compare(0, kMagicSize, kMagic) != 0) {
    fail(file, std::string("is not a weights file of this program: expected it to begin with ") + kMagic);
  }
  if (bytes.size() < kMagicSize + 8) fail(file, "ends within its header");
  if (const uint32_t version = number_at(bytes, kMagicSize); version != kVersion) {
    fail(file, "expected version " + std::to_string(kVersion) + " of the format, found " + std::to_string(version));
  }
  const std::string expected_header = header();
  if (bytes.size() >= kHeaderSize && bytes.compare(0, kHeaderSize, expected_header) != 0) {
    fail(file, "holds a network of other layer sizes than this program's");
  }
  if (bytes.size() != kFileSize) {
    fail(file, "expected " + std::to_string(kFileSize) + " bytes, found " +
                   (bytes.size() > kFileSize ? "more" : std::to_string(bytes.size())));
  }
  const uint32_t stored = number_at(bytes, kFileSize - 4);
  if (const uint32_t computed = checksum(bytes, kFileSize - 4); computed != stored) {
    fail(file, "is damaged: its CRC-32 should be " + std::to_string(stored) + " but is " + std::to_string(computed));
  }
  std::vector<float> parameters(parameter_count());
  for (size_t i = 0; i < parameters.size(); ++i) {
    parameters[i] = std::bit_cast<float>(number_at(bytes, kHeaderSize + 4 * i));
  }
  return parameters;
}
