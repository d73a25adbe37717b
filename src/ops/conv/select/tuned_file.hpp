// Measured choices of engine and config, and the text that holds them. The table that is built into the library and the
// file of the tuning cache speak the same language:
//
//   device sm_90 132 NVIDIA H200
//   conv fwd f16 nhwc n64c256h56w56 k64r1s1 p0x0 t1x1 d1x1 g1 acc=f32 math=tensor -> implicit_gemm_sm90 bm128_bn64_s6
//   us=31.40
//
// A line that starts with "device" opens the section of a device; each row in it is a problem, a choice in the form of
// choice_text() and the measured time. A problem may have several rows, the fastest first. '#' starts a comment.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ops/conv/engine.hpp"

namespace gpudnn::conv {

// The problem that measurements are filed under. What changes no choice is left out: bias, scale, ReLU and which other
// activation it is, the strides of extents of 1, and which of several equivalent math types was asked for.
[[nodiscard]] Problem tuning_key(const Problem& problem) noexcept;
// That of the same convolution without activation and z, whose measurements count where there are none with them.
[[nodiscard]] Problem tuning_key_without_epilogue(const Problem& problem) noexcept;

struct TunedRow {
  std::string choice;  // of choice_text()
  double microseconds = 0;
  bool operator==(const TunedRow&) const = default;
};

// "implicit_gemm_sm90 bm128_bn64_s6 split=2 us=31.40", and back; false if `text` is no such row.
[[nodiscard]] std::string row_text(const TunedRow& row);
[[nodiscard]] bool parse_row(std::string_view text, TunedRow* row);

// What tuning caches called a choice before configs had texts: an engine, "tile=3 split_k=1".
[[nodiscard]] std::string old_choice_text(const Choice& choice);

// Of a tuning key.
struct TuningKeyHash {
  std::size_t operator()(const Problem& key) const;  // not noexcept: see PlanCache
};

// The rows of one device by problem, for look-up.
class TunedRows {
 public:
  // Null if the problem has none. Takes any problem, not only a key.
  [[nodiscard]] const std::vector<TunedRow>* find(const Problem& problem) const;
  // In place of what the problem had.
  void set(const Problem& problem, std::vector<TunedRow> rows);
  [[nodiscard]] std::size_t size() const noexcept { return rows_.size(); }
  void clear() noexcept { rows_.clear(); }

 private:
  std::unordered_map<Problem, std::vector<TunedRow>, TuningKeyHash> rows_;
};

// The text in its parts, for reading, merging and writing. Sections of other devices survive untouched.
class TunedFile {
 public:
  // Lines that are neither a section, a row nor a comment are dropped.
  explicit TunedFile(std::string_view text);

  // What stands before the first section: comments, and the header of a tuning cache.
  std::string preamble;

  // Visits the section's rows that can be read, problem by problem; those that cannot are skipped.
  void for_each(const std::string& device,
                const std::function<void(const Problem&, std::vector<TunedRow>)>& visit) const;
  [[nodiscard]] TunedRows rows_of(const std::string& device) const;
  [[nodiscard]] std::vector<std::string> devices() const;
  [[nodiscard]] bool has(const std::string& device, const Problem& problem) const;
  // In place of what the problem had; an empty list removes it.
  void set(const std::string& device, const Problem& problem, const std::vector<TunedRow>& rows);
  // Sections and rows in a fixed order: the same content is the same text.
  [[nodiscard]] std::string text() const;

 private:
  using Section = std::map<std::string, std::vector<std::string>>;  // problem -> its rows
  std::map<std::string, Section> sections_;
};

// "sm_90 132": compute capability and multiprocessors.
[[nodiscard]] std::string device_class(const Device& device);
// "sm_90 132 NVIDIA H200": what rows of the built-in table are measured for. Devices with the same capability and
// number of multiprocessors may have other memory.
[[nodiscard]] std::string table_section(const Device& device);

// What the built-in table says of the problem on the device, the fastest first.
[[nodiscard]] std::vector<TunedRow> measured_rows(const Problem& problem, const Device& device);
// The same of any text in the form of TunedFile::text().
[[nodiscard]] std::vector<TunedRow> rows_in(std::string_view table, const Problem& problem, const Device& device);

// The whole file, or false. A file that does not exist is empty.
[[nodiscard]] bool read_text_file(const std::string& path, std::string* text);
// By a temporary file beside it that then takes its name: a reader sees the old text or the new one, never a part.
[[nodiscard]] bool replace_text_file(const std::string& path, const std::string& text);

}  // namespace gpudnn::conv
