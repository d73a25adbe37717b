// The printed table, the CSV file and the means.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "limits.hpp"
#include "measure.hpp"

namespace gpudnn::bench {

struct ReportOptions {
  Ceilings ceilings;
  bool has_floor = true;      // not on the host
  double launch_seconds = 0;  // of an empty kernel, by the host's clock
  bool against = false;
  bool first_call = false;  // extra columns in the table; the CSV file has all of them always
  bool query = false;
  int name_width = 20;
};

void print_table_head(const ReportOptions& options);
// One line, and below it what went wrong, if anything.
void print_table_row(const Row& row, const ReportOptions& options);
// Geometric means of the share of the floor and of the ratios, for each group and for all. Rows that failed or whose
// results disagree are left out, and counted.
void print_means(const std::vector<Row>& rows, const ReportOptions& options);

// `preamble` holds the lines that say what was measured on what; they start with '#'.
void write_csv(std::FILE* file, const std::string& preamble, const std::vector<Row>& rows,
               const ReportOptions& options);

}  // namespace gpudnn::bench
