// The reference that results are checked by where there is no second library.
// SPDX-License-Identifier: Apache-2.0
#include "reference.hpp"

#include <cstdlib>
#include <optional>

#include "core/engine_filter.hpp"

namespace gpudnn::bench {
namespace {

// An environment variable with another value for a scope.
class Variable {
 public:
  Variable(const char* name, const std::string& value) : name_(name) {
    if (const char* before = std::getenv(name)) before_ = before;
    setenv(name, value.c_str(), 1);
  }
  ~Variable() { before_ ? setenv(name_, before_->c_str(), 1) : unsetenv(name_); }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;

 private:
  const char* name_;
  std::optional<std::string> before_;
};

}  // namespace

std::unique_ptr<Reference> make_reference(std::string* why) {
  const char* const wishes = std::getenv("GPUDNN_ENGINES");
  {
    // Pins convolution on the host alone: no other list has an engine of that name.
    const Variable engines("GPUDNN_ENGINES", std::string(wishes != nullptr ? wishes : "") + ",host_direct,-host_gemm");
    (void)engine_wishes();
  }
  const Variable backend("GPUDNN_BACKEND", "host");
  auto reference = std::make_unique<Reference>();
  reference->library = linked_library("gpudnn", why);
  reference->machine = make_host_machine();
  return reference->library != nullptr ? std::move(reference) : nullptr;
}

bool is_cheap_to_check(const Task& task) noexcept {
  constexpr double kMaxFlops = 1e9;
  constexpr double kMaxBytes = 3e7;
  return task.flops <= kMaxFlops && task.bytes <= kMaxBytes;
}

}  // namespace gpudnn::bench
