// The verify mode (GPUDNN_VERIFY) and the NaN watch (GPUDNN_CHECK_NAN): an operation runs a second time, by its host
// reference on copies in host memory, and what it wrote is compared within the bounds of docs/numerics.md.
//
// An operation takes part by a function that describes one of its calls: each pointer with the tensor behind it and, of
// an output, how far it may be off.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "core/engine.hpp"
#include "core/environment.hpp"
#include "core/geometry.hpp"

namespace gpudnn::verify {

// Whether either is on. One relaxed load: cheap enough for every call. The first one reads the environment, which takes
// memory.
[[nodiscard]] bool watching();
// In place of what the environment says, and all counts begin anew: for tests.
void configure(const VerifySettings& settings);

// Since the process began. An operation is one launch of an engine: most calls have one, plans of graphs may have more.
struct Counts {
  std::uint64_t operations = 0;
  std::uint64_t verified = 0;
  std::uint64_t differing = 0;
};
[[nodiscard]] Counts counts();

// How far an output may be from the reference.
struct Bound {
  // The error allowed before the last rounding, of an element whose exact value is `value`. `magnitude` is what the
  // reference makes of the inputs' magnitudes: the sum of absolute terms.
  std::function<double(double value, double magnitude)> slack;
  bool by_magnitude = false;
  // Not 0: in place of the slack, of the whole tensor, in the Euclidean and the maximum norm. Where the result depends
  // strongly on its inputs, as differences do, what one rounding of all inputs changes is allowed in proportion.
  double normwise = 0;
};
[[nodiscard]] Bound exact();
[[nodiscard]] Bound by_value(std::function<double(double value)> slack);
[[nodiscard]] Bound by_magnitude(std::function<double(double value, double magnitude)> slack);
// factor * magnitude.
[[nodiscard]] Bound relative(double factor);
[[nodiscard]] Bound whole(DataType type, bool tf32 = false);

enum class Access {
  read,
  write,
  update,  // what is there is read too
  scratch  // memory of the reference alone
};
// How an input changes for the run that gives magnitudes.
enum class Magnitude { absolute, kept };

struct Operand {
  const char* name = "";
  void* place = nullptr;  // of the pointer in the arguments
  void (*set)(void* place, void* pointer) = nullptr;
  void* memory = nullptr;           // what the caller passed
  TensorGeometry geometry;          // of it
  bool wide = false;                // the reference works on f64 numbers in place of those
  TensorGeometry* typed = nullptr;  // the problem's own, whose type follows
  Access access = Access::read;
  Magnitude magnitude = Magnitude::absolute;
  Bound bound;
  std::vector<std::byte> before;  // the memory before the call, after it, and the reference's
  std::vector<std::byte> after;
  std::vector<std::byte> reference;

  [[nodiscard]] bool is_input() const noexcept { return access == Access::read || access == Access::update; }
  [[nodiscard]] bool is_output() const noexcept { return access == Access::write || access == Access::update; }
};

// A vector, for operands that have no geometry of their own.
[[nodiscard]] TensorGeometry vector_of(DataType type, std::int64_t count, std::int64_t stride = 1) noexcept;

// One call, as its describe function tells it. Pointers and geometries belong to the copies of problem and arguments
// that the reference runs with. Absent operands, with a null pointer, are passed over.
class Check {
 public:
  explicit Check(const Device& device) noexcept : device_(&device) {}
  // Where the call computes.
  [[nodiscard]] bool is_on_host() const noexcept { return device_->backend == GPUDNN_BACKEND_HOST; }

  // Tensors of numbers: the reference reads and writes them as f64, so that it gives the exact value.
  template <class T>
  void read(const char* name, T*& pointer, TensorGeometry* geometry, Magnitude magnitude = Magnitude::absolute) {
    Operand* operand = add(name, &pointer, *geometry, Access::read);
    if (operand == nullptr) return;
    widen(operand, geometry);
    operand->magnitude = magnitude;
  }
  template <class T>
  void write(const char* name, T*& pointer, TensorGeometry* geometry, bool is_read, Bound bound) {
    Operand* operand = add(name, &pointer, *geometry, is_read ? Access::update : Access::write);
    if (operand == nullptr) return;
    widen(operand, geometry);
    operand->bound = std::move(bound);
  }
  // The same where the problem has no geometry for it: describe itself sets what tells the reference the type.
  template <class T>
  void read(const char* name, T*& pointer, const TensorGeometry& geometry) {
    if (Operand* operand = add(name, &pointer, geometry, Access::read)) widen(operand, nullptr);
  }
  template <class T>
  void write(const char* name, T*& pointer, const TensorGeometry& geometry, bool is_read, Bound bound) {
    Operand* operand = add(name, &pointer, geometry, is_read ? Access::update : Access::write);
    if (operand == nullptr) return;
    widen(operand, nullptr);
    operand->bound = std::move(bound);
  }
  // Tensors that the reference sees in their own type.
  template <class T>
  void read_as_is(const char* name, T*& pointer, const TensorGeometry& geometry) {
    (void)add(name, &pointer, geometry, Access::read);
  }
  template <class T>
  void write_as_is(const char* name, T*& pointer, const TensorGeometry& geometry, bool is_read, Bound bound) {
    Operand* operand = add(name, &pointer, geometry, is_read ? Access::update : Access::write);
    if (operand != nullptr) operand->bound = std::move(bound);
  }
  // Memory that an engine and the reference use in ways of their own.
  template <class T>
  void scratch(T*& pointer, std::size_t bytes) {
    TensorGeometry geometry = vector_of(GPUDNN_DATA_UINT8, static_cast<std::int64_t>(bytes));
    (void)add("", &pointer, geometry, Access::scratch);
  }
  // Turns the scalars of the copied arguments into magnitudes and drops what follows the sum.
  void on_magnitudes(std::function<void()> change) { to_magnitudes_ = std::move(change); }
  // The reference cannot run this call.
  void give_up(const char* reason) { reason_against_ = reason; }
  [[nodiscard]] const char* reason_against() const noexcept { return reason_against_; }

  // The steps of a verification.
  [[nodiscard]] Status keep_before(const LaunchSite& site);
  [[nodiscard]] Status keep_after(const LaunchSite& site);
  [[nodiscard]] bool inputs_are_finite() const;
  // "y has a NaN at [0,1]", or nothing.
  [[nodiscard]] std::string find_nan() const;
  // What differs, or nothing.
  [[nodiscard]] Status compare(const std::function<Status()>& reference, std::string* difference);

 private:
  template <class T>
  Operand* add(const char* name, T** place, const TensorGeometry& geometry, Access access) {
    if (*place == nullptr || element_count(geometry) == 0) return nullptr;
    Operand& operand = operands_.emplace_back();
    operand.name = name;
    operand.place = const_cast<void*>(static_cast<const void*>(place));  // NOLINT: `set` knows the type
    operand.set = [](void* at, void* pointer) { *static_cast<T**>(at) = static_cast<T*>(pointer); };
    operand.memory = const_cast<void*>(static_cast<const void*>(*place));  // NOLINT: inputs are only read
    operand.geometry = geometry;
    operand.access = access;
    return &operand;
  }
  static void widen(Operand* operand, TensorGeometry* typed);
  // Fills the references' memory from what was there before, element by element through `change`, and runs.
  [[nodiscard]] Status run_reference(const std::function<Status()>& reference, double (*change)(double, std::int64_t),
                                     bool keeps_some);
  [[nodiscard]] std::vector<std::vector<double>> outputs() const;

  const Device* device_;
  std::vector<Operand> operands_;
  std::function<void()> to_magnitudes_;
  const char* reason_against_ = nullptr;
};

// One launch.
struct Operation {
  gpudnnHandle_t handle;
  std::string problem;
  const char* engine;  // null: the launch notes it
  std::function<void(Check*)> describe;
  std::function<Status()> launch;
  std::function<Status()> reference;
};
// Launches it, verified or watched where it is its turn.
[[nodiscard]] Status run(const Operation& operation);
// Says once that calls of this entry point are not verified, and why; only while watching.
void note_not_covered(gpudnnHandle_t handle, const char* reason);

// gpudnn::run_first_engine with a describe function; the reference is the last engine of the host.
template <class Problem, class Args>
[[nodiscard]] Status run_first_engine(std::span<const Engine<Problem, Args>> engines, gpudnnHandle_t handle,
                                      const Problem& problem, const Args& args,
                                      void (*describe)(Problem&, Args&, Check*)) {
  if (!watching()) [[likely]]
    return gpudnn::run_first_engine(engines, handle, problem, args);
  Problem problem_copy = problem;
  Args args_copy = args;
  return run({.handle = handle,
              .problem = to_text(problem),
              .engine = nullptr,
              .describe = [&](Check* check) { describe(problem_copy, args_copy, check); },
              .launch = [&] { return gpudnn::run_first_engine(engines, handle, problem, args); },
              .reference =
                  [&] {
                    return engines.back().launch({host_device(), nullptr}, problem_copy, args_copy);
                  }});
}

}  // namespace gpudnn::verify
