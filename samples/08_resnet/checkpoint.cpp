// Writing and reading the checkpoint file.
// SPDX-License-Identifier: Apache-2.0
#include "checkpoint.hpp"

#include <bit>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <stdexcept>

namespace fs = std::filesystem;

namespace {

constexpr char kMagic[] = "GDNNRESN";
constexpr uint32_t kVersion = 1;

[[noreturn]] void fail(const fs::path& file, const std::string& what) {
  throw std::runtime_error(file.string() + ": " + what);
}

void append(std::string& bytes, uint64_t value, int size) {
  for (int i = 0; i < size; ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
}

class Reader {
 public:
  explicit Reader(const fs::path& file) : file_(file) {
    std::ifstream stream(file, std::ios::binary);
    if (!stream) fail(file, std::string("cannot be opened: ") + std::strerror(errno));
    bytes_.assign(std::istreambuf_iterator<char>(stream), {});
  }
  std::string text(size_t size) {
    if (bytes_.size() - at_ < size) fail(file_, "ends too early");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  uint64_t number(size_t size) {
    const std::string part = text(size);
    uint64_t value = 0;
    for (size_t i = 0; i < size; ++i) value |= uint64_t{static_cast<uint8_t>(part[i])} << (8 * i);
    return value;
  }
  uint32_t u32() { return static_cast<uint32_t>(number(4)); }
  size_t left() const { return bytes_.size() - at_; }

 private:
  fs::path file_;
  std::string bytes_;
  size_t at_ = 0;
};

}  // namespace

void write_checkpoint(const fs::path& file, const Checkpoint& c) {
  std::string bytes(kMagic);
  for (const uint32_t value : {kVersion, c.size, c.width, c.epochs_done, std::bit_cast<uint32_t>(c.loss_scale),
                               c.loss_scale_steps, static_cast<uint32_t>(c.classes.size())}) {
    append(bytes, value, 4);
  }
  for (const std::string& name : c.classes) {
    append(bytes, name.size(), 4);
    bytes += name;
  }
  append(bytes, c.state.size(), 8);
  for (const float value : c.state) append(bytes, std::bit_cast<uint32_t>(value), 4);

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

Checkpoint read_checkpoint(const fs::path& file) {
  Reader reader(file);
  if (reader.text(sizeof kMagic - 1) != kMagic) fail(file, "is no checkpoint of this program");
  if (const uint32_t version = reader.u32(); version != kVersion) {
    fail(file, "expected version 1 of the format, found " + std::to_string(version));
  }
  Checkpoint c;
  c.size = reader.u32(), c.width = reader.u32(), c.epochs_done = reader.u32();
  c.loss_scale = std::bit_cast<float>(reader.u32());
  c.loss_scale_steps = reader.u32();
  const uint32_t classes = reader.u32();
  for (uint32_t i = 0; i < classes; ++i) c.classes.push_back(reader.text(reader.u32()));
  const uint64_t count = reader.number(8);
  if (reader.left() / 4 != count || reader.left() % 4 != 0) {
    fail(file,
         "expected " + std::to_string(count) + " floats at its end, found " + std::to_string(reader.left()) + " bytes");
  }
  for (uint64_t i = 0; i < count; ++i) c.state.push_back(std::bit_cast<float>(reader.u32()));
  return c;
}
