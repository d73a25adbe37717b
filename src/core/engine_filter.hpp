// What GPUDNN_ENGINES says of engines: "-name" leaves one out, "name" keeps an operation that has it to it.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace gpudnn {

struct EngineWishes {
  std::vector<std::string> pinned;
  std::vector<std::string> excluded;
  [[nodiscard]] bool empty() const noexcept { return pinned.empty() && excluded.empty(); }
};

// Of "-direct_sm90,implicit_gemm_sm90": names apart by commas or blanks.
[[nodiscard]] EngineWishes parse_engine_wishes(std::string_view text);
// Those of the environment, read once.
[[nodiscard]] const EngineWishes& engine_wishes();

// Over one operation's list of rows that have a `name` and a `backend`. Without wishes it costs a load.
class EngineFilter {
 public:
  template <class Engines, class Backend>
  EngineFilter(const Engines& engines, Backend backend, const EngineWishes& wishes = engine_wishes())
      : wishes_(wishes.empty() ? nullptr : &wishes) {
    if (wishes_ == nullptr) return;
    for (const auto& engine : engines) pins_ = pins_ || (engine.backend == backend && is_pinned(engine.name));
  }
  // Null where the engine may be taken.
  [[nodiscard]] const char* reason_against(std::string_view name) const {
    return wishes_ == nullptr ? nullptr : reason(name);
  }

 private:
  [[nodiscard]] bool is_pinned(std::string_view name) const;
  [[nodiscard]] const char* reason(std::string_view name) const;
  const EngineWishes* wishes_;
  bool pins_ = false;  // an engine of the list is pinned
};

}  // namespace gpudnn
