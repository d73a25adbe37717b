// The reference that results are checked by where there is no second library: the host backend's plain loops.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "api_table.hpp"
#include "machine.hpp"
#include "problem_run.hpp"

namespace gpudnn::bench {

// The library that is linked into this program, on a handle of the host, kept to the engines that add in double.
struct Reference {
  std::unique_ptr<Library> library;
  std::unique_ptr<Machine> machine;
};

// Before anything else uses the library that is linked in, as that reads its environment once. Null, with *why, if
// there is no handle.
[[nodiscard]] std::unique_ptr<Reference> make_reference(std::string* why);

// Whether the reference takes no more than a moment for it.
[[nodiscard]] bool is_cheap_to_check(const Task& task) noexcept;

}  // namespace gpudnn::bench
