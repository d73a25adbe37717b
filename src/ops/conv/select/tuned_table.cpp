// The measured table that is built into the library.
// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "ops/conv/select/tuned_file.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "core/tensor_map_cuda.hpp"
#endif

namespace gpudnn::conv {

extern const char kTunedSm90[];  // src/ops/conv/select/tuned_sm90.txt; the build makes a string of it

namespace {

// Of a phase of devices: the choices by tuning key, the fastest first.
struct Table {
  int compute_capability = 0;
  int multiprocessors = 0;
  std::unordered_map<Problem, std::vector<Choice>, TuningKeyHash> choices;
};

// What a query would have to ask the engine for is worked out here, where time does not count: see warm_up_queries().
std::vector<Choice> choices_of(const Problem& problem, const std::vector<TunedRow>& rows) {
  std::vector<Choice> choices;
  for (const TunedRow& row : rows) {
    for (const ConvEngine& engine : engines()) {
      if (row.engine != engine.name) continue;
      choices.push_back(
          {&engine, row.config, engine.workspace(problem, row.config), 1e-6 * row.microseconds, Source::table});
    }
  }
  return choices;
}

std::vector<Table> read_tables() {
  std::vector<Table> tables;
#ifdef GPUDNN_WITH_CUDA
  // All that is measured loads by tensor maps, or is measured against what does.
  if (!cuda::makes_tensor_maps()) return tables;
#endif
  const TunedFile file{std::string_view(kTunedSm90)};
  for (const std::string& name : file.devices()) {
    Table table;
    if (std::sscanf(name.c_str(), "sm_%d %d", &table.compute_capability, &table.multiprocessors) != 2) continue;
    file.for_each(name, [&](const Problem& problem, const std::vector<TunedRow>& rows) {
      table.choices.insert_or_assign(tuning_key(problem), choices_of(problem, rows));
    });
    tables.push_back(std::move(table));
  }
  return tables;
}

}  // namespace

[[gnu::hot]] std::span<const Choice> measured_choices(const Problem& problem, const Device& device) {
  if (device.backend == GPUDNN_BACKEND_HOST) return {};
  static const auto* const tables = new std::vector<Table>(read_tables());
  for (const Table& table : *tables) {
    if (table.compute_capability != device.compute_capability() || table.multiprocessors != device.multiprocessors)
      continue;
    const auto found = table.choices.find(tuning_key(problem));
    if (found != table.choices.end()) return found->second;
  }
  return {};
}

}  // namespace gpudnn::conv
