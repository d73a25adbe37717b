// What GPUDNN_ENGINES says of engines: "-name" leaves one out, "name" keeps an operation that has it to it.
// SPDX-License-Identifier: Apache-2.0
#include "core/engine_filter.hpp"

#include <algorithm>
#include <mutex>
#include <set>

#include "core/engine_names.hpp"
#include "core/environment.hpp"

namespace gpudnn {
namespace {

// The engines of all lists that a filter went over; only where there are wishes.
struct Met {
  std::mutex mutex;
  std::set<std::string, std::less<>> names;
};
Met& met() {
  static Met* const instance = new Met;
  return *instance;
}

}  // namespace

EngineWishes parse_engine_wishes(std::string_view text) {
  EngineWishes wishes;
  while (!text.empty()) {
    const auto end = std::min(text.find_first_of(", \t"), text.size());
    std::string_view name = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    const bool excluded = name.starts_with('-');
    if (excluded) name.remove_prefix(1);
    if (!name.empty()) (excluded ? wishes.excluded : wishes.pinned).emplace_back(name);
  }
  return wishes;
}

const EngineWishes& engine_wishes() {
  static const EngineWishes* const wishes = new EngineWishes(parse_engine_wishes(environment_engines()));
  return *wishes;
}

// The constructor brings every name of a list by here, which is where it is noted as met.
bool EngineFilter::is_pinned(std::string_view name) const {
  {
    const std::lock_guard lock(met().mutex);
    if (!met().names.contains(name)) met().names.emplace(name);
  }
  return std::ranges::find(wishes_->pinned, name) != wishes_->pinned.end();
}

const char* EngineFilter::reason(std::string_view name) const {
  if (std::ranges::find(wishes_->excluded, name) != wishes_->excluded.end()) return "GPUDNN_ENGINES leaves it out";
  if (pins_ && !is_pinned(name)) return "GPUDNN_ENGINES pins another one";
  return nullptr;
}

std::vector<std::string> engine_names_not_met() {
  std::vector<std::string> names;
  const std::lock_guard lock(met().mutex);
  for (const auto* const list : {&engine_wishes().pinned, &engine_wishes().excluded}) {
    for (const std::string& name : *list) {
      if (!met().names.contains(name)) names.push_back(name);
    }
  }
  return names;
}

}  // namespace gpudnn
