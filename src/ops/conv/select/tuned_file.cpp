// The text of measured choices: reading, merging and writing.
// SPDX-License-Identifier: Apache-2.0
#include "ops/conv/select/tuned_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <functional>

#include "ops/conv/activation_number.hpp"
#include "ops/conv/tensor_math.hpp"

namespace gpudnn::conv {
namespace {

constexpr std::string_view kDevice = "device ";
constexpr std::string_view kArrow = " -> ";
constexpr std::string_view kTime = " us=";
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;  // of a file that is worth reading

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

void forget_strides_of_ones(TensorGeometry* tensor) noexcept {
  for (int i = 0; i < tensor->rank; ++i) {
    if (tensor->dims[i] == 1) tensor->strides[i] = 0;
  }
}

bool write_all(int file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace

Problem tuning_key(const Problem& problem) noexcept {
  Problem key = problem;
  key.mode = GPUDNN_CROSS_CORRELATION;  // a mirrored filter takes as long
  using kernels::matmul::Activation;
  const Activation activation = activation_of(problem);
  const bool is_curve = activation != Activation::identity && activation != Activation::relu;
  key.activation = is_curve ? activation_number(Activation::swish) : -1;  // one stands for all
  key.has_bias = 0;
  key.bias_stride = 0;
  key.has_scale = 0;
  key.scale_stride = 0;
  key.float_vectors = 0;
  key.z = problem.has_z != 0 ? problem.y : TensorGeometry{};
  key.math = tensor_math_unsupported_reason(problem) == nullptr ? GPUDNN_TENSOR_OP_MATH : GPUDNN_FMA_MATH;
  for (TensorGeometry* const tensor : {&key.x, &key.w, &key.y, &key.z}) forget_strides_of_ones(tensor);
  return key;
}

Problem tuning_key_without_epilogue(const Problem& problem) noexcept {
  Problem plain = problem;
  plain.activation = -1;
  plain.has_z = 0;
  return tuning_key(plain);
}

std::string row_text(const TunedRow& row) {
  char number[64];
  const auto end = std::to_chars(number, number + sizeof number, row.microseconds, std::chars_format::fixed, 2);
  return row.choice + std::string(kTime) + std::string(number, end.ptr);
}

bool parse_row(std::string_view text, TunedRow* row) {
  const std::size_t time = text.rfind(kTime);
  if (time == 0 || time == std::string_view::npos) return false;
  row->choice = text.substr(0, time);
  const char* const end = text.data() + text.size();
  // Locale-free, unlike strtod: the file is the same for everybody.
  const auto [rest, error] = std::from_chars(text.data() + time + kTime.size(), end, row->microseconds);
  return error == std::errc{} && rest == end && row->microseconds > 0;
}

std::size_t TuningKeyHash::operator()(const Problem& key) const {
  return hash_bytes({reinterpret_cast<const char*>(&key), sizeof key});
}

const std::vector<TunedRow>* TunedRows::find(const Problem& problem) const {
  if (rows_.empty()) return nullptr;
  auto found = rows_.find(tuning_key(problem));
  if (found == rows_.end()) found = rows_.find(tuning_key_without_epilogue(problem));
  return found == rows_.end() ? nullptr : &found->second;
}

void TunedRows::set(const Problem& problem, std::vector<TunedRow> rows) {
  rows_.insert_or_assign(tuning_key(problem), std::move(rows));
}

TunedFile::TunedFile(std::string_view text) {
  Section* section = nullptr;
  while (!text.empty()) {
    const std::size_t length = std::min(text.find('\n'), text.size());
    const std::string_view whole = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    const std::string_view line = trimmed(whole.substr(0, whole.find('#')));
    if (line.starts_with(kDevice)) {
      section = &sections_[std::string(line.substr(kDevice.size()))];
    } else if (section == nullptr) {
      preamble.append(whole).push_back('\n');
    } else if (const std::size_t arrow = line.find(kArrow); arrow != std::string_view::npos) {
      (*section)[std::string(line.substr(0, arrow))].emplace_back(line.substr(arrow + kArrow.size()));
    }
  }
}

void TunedFile::for_each(const std::string& device,
                         const std::function<void(const Problem&, std::vector<TunedRow>)>& visit) const {
  const auto section = sections_.find(device);
  if (section == sections_.end()) return;
  std::string why;
  for (const auto& [text, lines] : section->second) {
    const std::optional<Problem> problem = from_text(text, &why);
    if (!problem) continue;
    std::vector<TunedRow> rows;
    for (const std::string& line : lines) {
      if (TunedRow row; parse_row(line, &row)) rows.push_back(std::move(row));
    }
    if (!rows.empty()) visit(*problem, std::move(rows));
  }
}

TunedRows TunedFile::rows_of(const std::string& device) const {
  TunedRows found;
  for_each(device, [&](const Problem& problem, std::vector<TunedRow> rows) { found.set(problem, std::move(rows)); });
  return found;
}

std::vector<std::string> TunedFile::devices() const {
  std::vector<std::string> names;
  for (const auto& [device, section] : sections_) names.push_back(device);
  return names;
}

bool TunedFile::has(const std::string& device, const Problem& problem) const {
  const auto section = sections_.find(device);
  return section != sections_.end() && section->second.contains(to_text(tuning_key(problem)));
}

void TunedFile::set(const std::string& device, const Problem& problem, const std::vector<TunedRow>& rows) {
  Section& section = sections_[device];
  const std::string key = to_text(tuning_key(problem));
  if (rows.empty()) {
    section.erase(key);
    return;
  }
  std::vector<std::string>& lines = section[key];
  lines.clear();
  for (const TunedRow& row : rows) lines.push_back(row_text(row));
}

std::string TunedFile::text() const {
  std::string all = preamble;
  for (const auto& [device, section] : sections_) {
    if (section.empty()) continue;
    all.append(kDevice).append(device).push_back('\n');
    for (const auto& [problem, lines] : section) {
      for (const std::string& line : lines) all.append(problem).append(kArrow).append(line).push_back('\n');
    }
  }
  return all;
}

std::string device_class(const Device& device) {
  if (device.backend == GPUDNN_BACKEND_HOST) return "host";
  return "sm_" + std::to_string(device.compute_capability()) + ' ' + std::to_string(device.multiprocessors);
}

std::string table_section(const Device& device) { return device_class(device) + ' ' + device.name; }

bool read_text_file(const std::string& path, std::string* text) {
  text->clear();
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return errno == ENOENT;
  struct stat status = {};
  // Anything but a regular file of a sensible size (a directory, a pipe that never ends) is none of ours.
  bool good =
      fstat(file, &status) == 0 && S_ISREG(status.st_mode) && static_cast<std::size_t>(status.st_size) <= kMaxBytes;
  char buffer[1 << 14];
  while (good) {
    const ssize_t count = read(file, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      good = count == 0;
      break;
    }
    text->append(buffer, static_cast<std::size_t>(count));
  }
  close(file);
  return good;
}

bool replace_text_file(const std::string& path, const std::string& text) {
  static std::atomic<unsigned> serial{0};
  const std::string temporary =
      path + '.' + std::to_string(getpid()) + '.' + std::to_string(serial.fetch_add(1)) + ".tmp";
  const int file = open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return false;
  const bool written = write_all(file, text);
  const bool closed = close(file) == 0;  // some file systems tell a full disk only here
  if (written && closed && rename(temporary.c_str(), path.c_str()) == 0) return true;
  unlink(temporary.c_str());
  return false;
}

}  // namespace gpudnn::conv
