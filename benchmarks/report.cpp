// The printed table, the CSV file and the means.
// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <cmath>
#include <map>

namespace gpudnn::bench {
namespace {

std::string format(const char* pattern, double value) {
  if (std::isnan(value)) return "-";
  char text[48];
  std::snprintf(text, sizeof text, pattern, value);
  return text;
}

std::string method(const Side& side) {
  if (side.engine.empty()) return side.choice.algorithm.empty() ? "-" : side.choice.algorithm;
  return side.choice.algorithm.empty() ? side.engine : side.engine + '/' + side.choice.algorithm;
}

std::string milliseconds(const Side& side) {
  if (!side.ok()) return "failed";
  return format("%.4f", 1e3 * side.timing.seconds) + (side.timing.captured ? "" : "*");
}

double microseconds(double seconds) { return 1e6 * seconds; }

std::string rate(const Row& row) {
  if (!row.ours.ok()) return "-";
  const double flops = row.task->flops / row.ours.timing.seconds;
  if (flops >= 1e11) return format("%.1f TFLOP/s", flops / 1e12);
  if (flops > 0) return format("%.1f GFLOP/s", flops / 1e9);
  return format("%.1f GB/s", row.task->bytes / row.ours.timing.seconds / 1e9);
}

double floor_share(const Row& row, const ReportOptions& options) {
  if (!row.ours.ok() || !options.has_floor) return kUnknown;
  return floor_seconds(*row.task, options.ceilings) / row.ours.timing.seconds;
}

struct Mean {
  double logarithms = 0;
  int count = 0;
  void add(double value) {
    if (!(value > 0)) return;
    logarithms += std::log(value);
    ++count;
  }
  [[nodiscard]] double value() const { return count > 0 ? std::exp(logarithms / count) : kUnknown; }
};

std::string quoted(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string result = "\"";
  for (const char c : text) {
    result += c;
    if (c == '"') result += '"';
  }
  return result + '"';
}

using Fields = std::vector<std::pair<std::string, std::string>>;  // column, value

std::string number(double value) { return std::isnan(value) ? "" : format("%.6g", value); }

void add_side(const std::string& prefix, const Side& side, const ReportOptions& options, Fields* fields) {
  const bool ok = side.ok() && side.timing.repeats > 0;
  const auto add = [&](const char* column, std::string value) {
    fields->emplace_back(prefix + column, std::move(value));
  };
  add("engine", side.engine);
  add("algo", side.choice.algorithm);
  add("ms", ok ? number(1e3 * side.timing.seconds) : "");
  add("repeats", ok ? std::to_string(side.timing.repeats) : "");
  add("captured", ok ? (side.timing.captured ? "1" : "0") : "");
  add("workspace_bytes", ok ? std::to_string(side.choice.workspace) : "");
  add("heuristic_algo", side.heuristic_algorithm);
  add("heuristic_ms", number(1e3 * side.heuristic_seconds));
  add("find_algo", side.find_algorithm);
  add("find_ms", number(1e3 * side.find_seconds));
  add("host_us", number(microseconds(side.host_seconds)));
  add("host_us_beyond_launch", number(microseconds(side.host_seconds - options.launch_seconds)));
  add("first_call_ms", number(1e3 * side.first_call_seconds));
  add("first_query_us", number(microseconds(side.first_query_seconds)));
  add("query_us", number(microseconds(side.query_seconds)));
  add("compared_algo", side.compared_algorithm);
  add("failure", side.failure);
}

Fields fields_of(const Row& row, const ReportOptions& options) {
  const Task& task = *row.task;
  const bool ok = row.ours.ok() && row.ours.timing.repeats > 0;
  Fields fields = {{"case", task.name}, {"problem", task.text}, {"group", task.group}};
  fields.emplace_back("arithmetic", arithmetic_name(task.arithmetic));
  fields.emplace_back("alpha", number(task.alpha));
  fields.emplace_back("beta", number(task.beta));
  fields.emplace_back("flops", number(task.flops));
  fields.emplace_back("bytes", number(task.bytes));
  fields.emplace_back("tflops", ok && task.flops > 0 ? number(task.flops / row.ours.timing.seconds / 1e12) : "");
  fields.emplace_back("gbps", ok ? number(task.bytes / row.ours.timing.seconds / 1e9) : "");
  fields.emplace_back("floor_ms", options.has_floor ? number(1e3 * floor_seconds(task, options.ceilings)) : "");
  fields.emplace_back("floor_percent", number(100 * floor_share(row, options)));
  add_side("ours_", row.ours, options, &fields);
  fields.emplace_back("nan_count", std::to_string(row.nan_count));
  add_side("theirs_", row.theirs, options, &fields);
  fields.emplace_back("ratio", row.has_ratio() ? number(row.ratio()) : "");
  fields.emplace_back("relative_error", number(row.relative_error));
  for (const auto& [column, errors] : {std::pair("ours_", row.our_errors), std::pair("theirs_", row.their_errors)}) {
    fields.emplace_back(std::string(column) + "greatest_error", row.has_errors ? number(errors.greatest) : "");
    fields.emplace_back(std::string(column) + "rms_error", row.has_errors ? number(errors.mean) : "");
  }
  fields.emplace_back("error_bound", row.bound > 0 ? number(row.bound) : "");
  fields.emplace_back("check", row.against ? "second library" : row.check);
  fields.emplace_back("verdict", row.mismatch ? "MISMATCH" : row.compared() || row.check == "reference" ? "ok" : "");
  return fields;
}

}  // namespace

void print_table_head(const ReportOptions& options) {
  std::printf("%-*s  %-34s %10s %14s", options.name_width, "case", "engine/algo", "ms", "rate");
  if (options.has_floor) std::printf(" %7s %9s %9s", "% floor", "host us", "-launch");
  if (options.first_call) std::printf(" %10s %10s", "1st query", "1st call");
  if (options.query) std::printf(" %9s", "query us");
  if (!options.against) std::printf("  %s", "rel error by");
  if (options.against)
    std::printf("  | %-26s %10s %9s %7s %9s", "their algo", "their ms", "their us", "ratio", "rel error");
  std::printf("\n");
}

void print_table_row(const Row& row, const ReportOptions& options) {
  const Side& ours = row.ours;
  const Side& theirs = row.theirs;
  std::printf("%-*s  %-34s %10s %14s", options.name_width, row.task->name.c_str(), method(ours).c_str(),
              milliseconds(ours).c_str(), rate(row).c_str());
  if (options.has_floor) {
    std::printf(" %7s %9s %9s", format("%.1f", 100 * floor_share(row, options)).c_str(),
                format("%.2f", microseconds(ours.host_seconds)).c_str(),
                format("%.2f", microseconds(ours.host_seconds - options.launch_seconds)).c_str());
  }
  if (options.first_call) {
    std::printf(" %10s %10s", format("%.1f us", microseconds(ours.first_query_seconds)).c_str(),
                format("%.3f ms", 1e3 * ours.first_call_seconds).c_str());
  }
  if (options.query) std::printf(" %9s", format("%.2f", microseconds(ours.query_seconds)).c_str());
  if (!options.against) {
    const std::string error = std::isnan(row.relative_error) ? "" : format("%.1e ", row.relative_error);
    std::printf("  %s%s", error.c_str(), row.check.c_str());
  }
  if (options.against) {
    std::printf("  | %-26s %10s %9s %7s %9s", method(theirs).c_str(), milliseconds(theirs).c_str(),
                format("%.2f", microseconds(theirs.host_seconds)).c_str(),
                row.has_ratio() ? format("%.3f", row.ratio()).c_str() : "-",
                format("%.1e", row.relative_error).c_str());
  }
  if (row.worst_output > 0) std::printf(" (output %d)", row.worst_output);
  if (row.has_errors) {
    std::printf("  greatest %.2e, theirs %.2e; rms %.2e, theirs %.2e", row.our_errors.greatest,
                row.their_errors.greatest, row.our_errors.mean, row.their_errors.mean);
  }
  std::printf("%s\n", row.mismatch ? "  MISMATCH" : "");
  if (row.nan_count > 0) std::printf("    ours: %zu elements of the output are NaN\n", row.nan_count);
  if (!ours.ok()) std::printf("    ours: %s\n", ours.failure.c_str());
  if (options.against && !theirs.ok()) std::printf("    theirs: %s\n", theirs.failure.c_str());
  std::fflush(stdout);
}

namespace {

// "first query: mean 7.1 us, most 11.3 us (rn50.conv1.fwd)", of the cases where it was measured.
void print_firsts(const char* what, const std::vector<Row>& rows, double Side::*seconds, double scale,
                  const char* unit) {
  double sum = 0;
  int count = 0;
  const Row* most = nullptr;
  for (const Row& row : rows) {
    if (!row.ours.ok() || !(row.ours.*seconds > 0)) continue;  // NaN where it was not
    sum += row.ours.*seconds;
    ++count;
    if (most == nullptr || row.ours.*seconds > most->ours.*seconds) most = &row;
  }
  if (most == nullptr) return;
  std::printf("%s: mean %.3g %s, most %.3g %s (%s)\n", what, scale * sum / count, unit, scale * (most->ours.*seconds),
              unit, most->task->name.c_str());
}

// A convolution's text is that of the plain one up to its math type, then the epilogue.
std::pair<std::string, std::string> split_epilogue(const std::string& text) {
  const auto math = text.find(" math=");
  if (!text.starts_with("conv fwd") || math == std::string::npos) return {};
  const auto end = text.find(' ', math + 1);
  return {text.substr(0, end), end == std::string::npos ? "" : text.substr(end + 1)};
}

// What an epilogue costs, by the cases that were measured without one as well.
void print_epilogues(const std::vector<Row>& rows) {
  std::map<std::string, double> plain;
  for (const Row& row : rows) {
    const auto [text, epilogue] = split_epilogue(row.task->text);
    if (row.ours.ok() && !text.empty() && epilogue.empty()) plain[text] = row.ours.timing.seconds;
  }
  std::map<std::string, Mean> means;
  for (const Row& row : rows) {
    const auto [text, epilogue] = split_epilogue(row.task->text);
    const auto found = plain.find(text);
    if (row.ours.ok() && !epilogue.empty() && found != plain.end()) {
      means[epilogue].add(row.ours.timing.seconds / found->second);
    }
  }
  if (means.empty()) return;
  std::printf("\ngeometric means: convolution with this epilogue / plain convolution in time\n");
  for (const auto& [epilogue, mean] : means) {
    std::printf("  %-24s %8s  (%d)\n", epilogue.c_str(), format("%.3f", mean.value()).c_str(), mean.count);
  }
}

// Errors next to a reference in double: ours over theirs, and where ours are larger.
void print_errors(const std::vector<Row>& rows) {
  struct Kind {
    const char* name;
    double Errors::*error;
  };
  for (const Kind& kind : {Kind{"greatest", &Errors::greatest}, Kind{"rms", &Errors::mean}}) {
    Mean ratio;
    int larger = 0;
    const Row* worst = nullptr;
    const auto of = [&](const Row& row) { return row.our_errors.*kind.error / row.their_errors.*kind.error; };
    for (const Row& row : rows) {
      if (!row.has_errors) continue;
      ratio.add(of(row));
      larger += of(row) > 1 ? 1 : 0;
      if (worst == nullptr || of(row) > of(*worst)) worst = &row;
    }
    if (worst == nullptr) continue;
    std::printf("%s error: ours / theirs %.3f, geometric mean of %d; larger in %d, most %.2f (%s)\n", kind.name,
                ratio.value(), ratio.count, larger, of(*worst), worst->task->name.c_str());
  }
}

}  // namespace

void print_means(const std::vector<Row>& rows, const ReportOptions& options) {
  print_epilogues(rows);
  if (options.first_call) {
    std::printf("\n");
    print_firsts("first query", rows, &Side::first_query_seconds, 1e6, "us");
    print_firsts("first call", rows, &Side::first_call_seconds, 1e3, "ms");
  }
  print_errors(rows);
  struct Group {
    Mean ratio;
    Mean share;
  };
  std::map<std::string, Group> groups;
  Group all;
  int left_out = 0;
  bool any_plain = false;
  for (const Row& row : rows) {
    any_plain = any_plain || (row.ours.ok() && !row.ours.timing.captured) ||
                (options.against && row.theirs.ok() && !row.theirs.timing.captured);
    if (row.mismatch || !row.ours.ok() || (options.against && !row.theirs.ok())) {
      ++left_out;
      continue;
    }
    for (Group* group : {&groups[row.task->group], &all}) {
      if (row.has_ratio()) group->ratio.add(row.ratio());
      group->share.add(floor_share(row, options));
    }
  }
  if (any_plain) std::printf("* not captured into a graph: the time holds the host's share\n");
  if (!options.has_floor && !options.against) return;
  std::printf("\ngeometric means%s%s\n", options.has_floor ? ": % of the floor" : "",
              options.against ? ": ours / theirs in time (below 1 is faster)" : "");
  const auto print = [&](const std::string& name, const Group& group) {
    std::printf("  %-24s", name.c_str());
    if (options.has_floor) std::printf(" %6s %%", format("%.1f", 100 * group.share.value()).c_str());
    if (options.against) std::printf(" %8s  (%d)", format("%.3f", group.ratio.value()).c_str(), group.ratio.count);
    std::printf("\n");
  };
  for (const auto& [name, group] : groups) print(name, group);
  print("all", all);
  if (left_out > 0) std::printf("  left out: %d that failed or disagree\n", left_out);
}

void write_csv(std::FILE* file, const std::string& preamble, const std::vector<Row>& rows,
               const ReportOptions& options) {
  std::fputs(preamble.c_str(), file);
  bool first = true;
  const auto write = [&](const Fields& fields, bool columns) {
    for (std::size_t i = 0; i < fields.size(); ++i) {
      const std::string& text = columns ? fields[i].first : fields[i].second;
      std::fprintf(file, "%s%s", i > 0 ? "," : "", quoted(text).c_str());
    }
    std::fputc('\n', file);
  };
  for (const Row& row : rows) {
    const Fields fields = fields_of(row, options);
    if (std::exchange(first, false)) write(fields, true);
    write(fields, false);
  }
}

}  // namespace gpudnn::bench
