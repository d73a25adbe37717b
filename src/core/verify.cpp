// The verify mode and the NaN watch: sampling, copies of the operands, comparison, and what is told of it.
// SPDX-License-Identifier: Apache-2.0
#include "core/verify.hpp"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>
#include <set>
#include <unordered_set>

#include "core/float8.hpp"
#include "core/numerics.hpp"
#include "core/stream_capture.hpp"

namespace gpudnn::verify {
namespace {

// --- what is on, and what happened ----------------------------------------------------------------------------------

enum : unsigned { kUnread = 1, kVerifying = 2, kWatchingNan = 4 };
std::atomic<unsigned> mode{kUnread};

struct State {
  std::mutex mutex;
  VerifySettings settings;
  Counts counts;
  std::unordered_set<std::uint64_t> met;  // problems with their engines, hashed
  std::set<std::string> told;             // what is said once
};
State& state() {
  static State* const instance = new State;  // never destroyed: a destructor of the program may still call
  return *instance;
}

// Inside a verification, where the reference may run engines of its own.
thread_local bool verifying = false;
struct Verifying {
  Verifying() noexcept { verifying = true; }
  ~Verifying() { verifying = false; }
  Verifying(const Verifying&) = delete;
  Verifying& operator=(const Verifying&) = delete;
};

unsigned mode_of(const VerifySettings& settings) noexcept {
  return (settings.share > 0 ? kVerifying : 0u) | (settings.check_nan ? kWatchingNan : 0u);
}

unsigned read_environment() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  if (const unsigned now = mode.load(std::memory_order_relaxed); now != kUnread) return now;
  s.settings = environment_verify();
  mode.store(mode_of(s.settings), std::memory_order_relaxed);
  return mode_of(s.settings);
}

// The finalizer of splitmix64 (Steele, Lea and Flood 2014).
std::uint64_t mix(std::uint64_t x) noexcept {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

// The first operation of each problem and engine, and one of each round(1 / share), at a place in that run of
// operations that differs from one run to the next, so that no period of a program hides an operation for good.
bool is_turn(State* s, const std::string& problem, const char* engine) {
  constexpr std::size_t kMaxMet = 1u << 20;
  const std::uint64_t number = s->counts.operations++;
  if (s->settings.share <= 0) return false;
  const auto run = std::max<std::uint64_t>(static_cast<std::uint64_t>(std::llround(1 / s->settings.share)), 1);
  const std::size_t hash = std::hash<std::string>{}(problem + (engine != nullptr ? engine : ""));
  const bool is_first = s->met.size() < kMaxMet && s->met.insert(hash).second;
  return is_first || number % run == mix(number / run) % run;
}

void tell(gpudnnHandle_t handle, const std::string& problem, const std::string& what) {
  const CallContext& context = call_context();
  log_line(GPUDNN_SEV_WARNING, handle, GPUDNN_STATUS_SUCCESS, "%s | %.1200s | engine=%s | %s",
           context.function != nullptr ? context.function : "", problem.c_str(),
           context.engine != nullptr ? context.engine : "", what.c_str());
}

// --- elements -------------------------------------------------------------------------------------------------------

// Types whose elements are numbers here: not the vector types and those of less than a byte.
bool is_number(DataType type) noexcept {
  switch (type) {
    case GPUDNN_DATA_INT8:
    case GPUDNN_DATA_UINT8:
    case GPUDNN_DATA_BOOLEAN:
    case GPUDNN_DATA_INT32:
    case GPUDNN_DATA_INT64:
      return true;
    default:
      return is_floating(type) || is_float8(type);
  }
}

// Calls f.template operator()<T>() with the storage type of such elements.
template <class F>
decltype(auto) with_number(DataType type, F&& f) {
  switch (type) {
    case GPUDNN_DATA_INT8:
      return f.template operator()<std::int8_t>();
    case GPUDNN_DATA_UINT8:
    case GPUDNN_DATA_BOOLEAN:
      return f.template operator()<std::uint8_t>();
    case GPUDNN_DATA_INT32:
      return f.template operator()<std::int32_t>();
    case GPUDNN_DATA_INT64:
      return f.template operator()<std::int64_t>();
    case GPUDNN_DATA_FP8_E4M3:
      return f.template operator()<Float8E4M3>();
    case GPUDNN_DATA_FP8_E5M2:
      return f.template operator()<Float8E5M2>();
    default:
      return with_floating_type(type, std::forward<F>(f));
  }
}

template <class T>
double element(const std::byte* data, std::int64_t at) noexcept {
  T value;
  std::memcpy(&value, data + at * static_cast<std::int64_t>(sizeof value), sizeof value);
  return to_double(value);
}

template <class T>
double as_integer(double value) noexcept {
  if (std::isnan(value)) return 0;
  return std::nearbyint(std::clamp(value, static_cast<double>(std::numeric_limits<T>::min()),
                                   static_cast<double>(std::numeric_limits<T>::max())));
}

// `value` as the type would store it.
double rounded(DataType type, double value) noexcept {
  return with_number(type, [&]<class T>() {
    if constexpr (std::is_integral_v<T>) {
      return as_integer<T>(value);
    } else {
      return to_double(round_to<T>(value));
    }
  });
}

// Calls body(number in row-major order, offset) for each element of the tensor.
template <class Body>
void for_each_element(const TensorGeometry& tensor, const Body& body) {
  std::int64_t at[kMaxRank] = {};
  std::int64_t offset = 0;
  const std::int64_t count = element_count(tensor);
  for (std::int64_t i = 0; i < count; ++i) {
    body(i, offset);
    for (int d = tensor.rank - 1; d >= 0; --d) {
      offset += tensor.strides[d];
      if (++at[d] < tensor.dims[d]) break;
      offset -= tensor.dims[d] * tensor.strides[d];
      at[d] = 0;
    }
  }
}

// Its elements as they lie in `data`, in row-major order.
std::vector<double> numbers_of(const TensorGeometry& tensor, const std::byte* data) {
  std::vector<double> numbers(static_cast<std::size_t>(element_count(tensor)));
  double* const to = numbers.data();
  with_number(tensor.type, [&]<class T>() {
    for_each_element(tensor, [=](std::int64_t i, std::int64_t offset) { to[i] = element<T>(data, offset); });
  });
  return numbers;
}

// "[0,3,1]" of the element with that number.
std::string place_text(const TensorGeometry& tensor, std::int64_t number) {
  std::string text;
  for (int d = tensor.rank - 1; d >= 0; --d) {
    text.insert(0, std::to_string(number % tensor.dims[d]) + (text.empty() ? "" : ","));
    number /= tensor.dims[d];
  }
  return "[" + text + "]";
}

std::string text_of(const char* format, auto... values) {
  char text[512];
  std::snprintf(text, sizeof text, format, values...);
  return text;
}

// --- comparison -----------------------------------------------------------------------------------------------------

// Whether `actual` lies between the roundings of value - slack and value + slack.
bool is_within(DataType type, double actual, double value, double slack) noexcept {
  if (actual == value) return true;
  const double whole = rounded(type, value);
  if (std::isnan(whole)) return std::isnan(actual);
  if (!std::isfinite(value)) return actual == whole;
  return actual >= rounded(type, value - slack) && actual <= rounded(type, value + slack);
}

// Of one operand: the numbers after the call, those of the reference, and the reference's for magnitudes or moved
// inputs, empty where no bound asks for them.
struct Compared {
  const Operand& operand;
  std::vector<double> value;
  std::vector<double> magnitude;
  std::vector<double> moved;
};

struct Worst {
  std::int64_t wrong = 0;
  std::int64_t place = 0;
  double error = -1;
  double actual = 0;
  double value = 0;
  double allowed = 0;
  void note(std::int64_t at, double is, double should_be, double bound) {
    ++wrong;
    const double off = std::isfinite(is) && std::isfinite(should_be) ? std::fabs(is - should_be)
                                                                     : std::numeric_limits<double>::infinity();
    if (off > error) *this = {wrong, at, off, is, should_be, bound};
  }
};

// What is allowed of every element by a bound on the whole tensor, and in the Euclidean norm.
struct Whole {
  double greatest = 0;
  double euclidean = 0;
};
Whole whole_bound(const Compared& c, double bound) {
  // What one rounding of the inputs changes counts as often as the bound has roundings.
  const double roundings = bound / numerics::unit_roundoff(numerics::compute_type(c.operand.geometry.type));
  Whole values, changes;
  for (std::size_t i = 0; i < c.value.size(); ++i) {
    const double value = std::fabs(c.value[i]);
    if (!std::isfinite(value)) continue;
    values.greatest = std::max(values.greatest, value);
    values.euclidean += value * value;
    const double change = c.moved.empty() ? 0 : std::fabs(c.moved[i] - c.value[i]);
    if (!std::isfinite(change)) continue;
    changes.greatest = std::max(changes.greatest, change);
    changes.euclidean += change * change;
  }
  return {bound * values.greatest + roundings * changes.greatest,
          bound * std::sqrt(values.euclidean) + roundings * std::sqrt(changes.euclidean)};
}

std::string difference_of(const Compared& c) {
  const Operand& operand = c.operand;
  const DataType type = operand.geometry.type;
  const Bound& bound = operand.bound;
  const Whole whole = bound.normwise > 0 ? whole_bound(c, bound.normwise) : Whole{};
  const double smallest = numerics::least_normal(type);
  // A reference in the operand's own type has rounded already.
  const double own_rounding = operand.wide                           ? 0
                              : is_floating(type) || is_float8(type) ? numerics::unit_roundoff(type)
                                                                     : 0;
  // Beyond it the sums of the engine may overflow where the reference's do not.
  const double overflow = type == GPUDNN_DATA_DOUBLE ? std::numeric_limits<double>::max()
                                                     : static_cast<double>(std::numeric_limits<float>::max());
  Worst worst;
  double euclidean = 0;
  const std::vector<double> actuals = numbers_of(operand.geometry, operand.after.data());
  for (std::size_t at = 0; at < actuals.size(); ++at) {
    const double actual = actuals[at];
    const double value = c.value[at];
    const double magnitude = c.magnitude.empty() ? 0 : c.magnitude[at];
    double slack = bound.normwise > 0 ? whole.greatest : bound.slack(std::fabs(value), magnitude);
    if (std::isnan(slack) || std::fabs(value) > overflow || magnitude > overflow) {
      if (std::isfinite(value)) continue;
      slack = 0;
    }
    if (slack > 0) slack += own_rounding * std::fabs(value) + (is_floating(type) ? smallest : operand.wide ? 0 : 1);
    if (!is_within(type, actual, value, slack)) worst.note(static_cast<std::int64_t>(at), actual, value, slack);
    const double off = actual - value;
    if (std::isfinite(off)) euclidean += off * off;
  }
  // Integers and 8-bit floats are rounded too coarsely for a bound on the norm.
  const bool is_off =
      bound.normwise > 0 && is_floating(type) &&
      std::sqrt(euclidean) > whole.euclidean + std::sqrt(static_cast<double>(c.value.size())) * smallest;
  if (worst.wrong == 0 && !is_off) return {};
  const auto count = static_cast<long long>(c.value.size());
  if (worst.wrong == 0) {
    return text_of("%s differs from the reference by %.3g in the Euclidean norm of its %lld elements; %.3g is allowed",
                   operand.name, std::sqrt(euclidean), count, whole.euclidean);
  }
  return text_of("%s differs from the reference in %lld of %lld elements; the largest error is %.3g, at ", operand.name,
                 static_cast<long long>(worst.wrong), count, worst.error) +
         place_text(operand.geometry, worst.place) +
         text_of(": %.9g instead of %.9g, where %.3g is allowed", worst.actual, worst.value, worst.allowed);
}

double unchanged(double value, std::int64_t) noexcept { return value; }
double absolute(double value, std::int64_t) noexcept { return std::fabs(value); }
// By one rounding of float or double, up or down as the number of the element says.
template <DataType kType>
double moved(double value, std::int64_t number) noexcept {
  const double u = numerics::unit_roundoff(kType);
  return value * ((mix(static_cast<std::uint64_t>(number) + 1) & 1u) != 0 ? 1 + u : 1 - u);
}

Status fetch(const LaunchSite& site, const Operand& operand, std::vector<std::byte>* to) {
  to->resize(size_in_bytes(operand.geometry));
  if (site.device.backend == GPUDNN_BACKEND_CUDA) {
    return cuda::copy(site.device, site.stream, to->data(), operand.memory, to->size());
  }
  std::memcpy(to->data(), operand.memory, to->size());
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

bool watching() {
  unsigned now = mode.load(std::memory_order_relaxed);
  if (now == kUnread) [[unlikely]]
    now = read_environment();
  return now != 0;
}

void configure(const VerifySettings& settings) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  s.settings = settings;
  s.counts = {};
  s.met.clear();
  s.told.clear();
  mode.store(mode_of(settings), std::memory_order_relaxed);
}

Counts counts() {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  return s.counts;
}

// --- bounds ---------------------------------------------------------------------------------------------------------

Bound exact() {
  return {.slack = [](double, double) { return 0.0; }};
}
Bound by_value(std::function<double(double)> slack) {
  return {.slack = [slack = std::move(slack)](double value, double) { return slack(value); }};
}
Bound by_magnitude(std::function<double(double, double)> slack) {
  return {.slack = std::move(slack), .by_magnitude = true};
}
Bound relative(double factor) {
  return by_magnitude([factor](double, double magnitude) { return factor * magnitude; });
}
Bound whole(DataType type, bool tf32) { return {.slack = {}, .normwise = numerics::normwise_bound(type, tf32)}; }

TensorGeometry vector_of(DataType type, std::int64_t count, std::int64_t stride) noexcept {
  TensorGeometry vector;
  vector.type = type;
  vector.rank = 1;
  vector.dims[0] = count;
  vector.strides[0] = stride;
  return vector;
}

// --- one call -------------------------------------------------------------------------------------------------------

void Check::widen(Operand* operand, TensorGeometry* typed) {
  operand->wide = is_number(operand->geometry.type);
  operand->typed = operand->wide ? typed : nullptr;
}

Status Check::keep_before(const LaunchSite& site) {
  for (Operand& operand : operands_) {
    if (operand.access != Access::scratch) {
      GPUDNN_TRY(fetch(site, operand, &operand.before));
    } else {
      operand.before.resize(size_in_bytes(operand.geometry));
    }
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status Check::keep_after(const LaunchSite& site) {
  for (Operand& operand : operands_) {
    if (operand.is_output()) GPUDNN_TRY(fetch(site, operand, &operand.after));
  }
  return GPUDNN_STATUS_SUCCESS;
}

bool Check::inputs_are_finite() const {
  for (const Operand& operand : operands_) {
    if (!operand.is_input() || !is_number(operand.geometry.type)) continue;
    const std::vector<double> numbers = numbers_of(operand.geometry, operand.before.data());
    if (!std::ranges::all_of(numbers, [](double number) { return std::isfinite(number); })) return false;
  }
  return true;
}

std::string Check::find_nan() const {
  for (const Operand& operand : operands_) {
    if (!operand.is_output() || !is_number(operand.geometry.type)) continue;
    const std::vector<double> numbers = numbers_of(operand.geometry, operand.after.data());
    const auto found = std::ranges::find_if(numbers, [](double number) { return std::isnan(number); });
    if (found != numbers.end()) {
      return std::string("finite inputs gave a NaN: ") + operand.name +
             place_text(operand.geometry, found - numbers.begin());
    }
  }
  return {};
}

Status Check::run_reference(const std::function<Status()>& reference, double (*change)(double, std::int64_t),
                            bool keeps_some) {
  for (Operand& operand : operands_) {
    const auto elements = static_cast<std::size_t>(element_span(operand.geometry));
    if (!operand.wide) {
      operand.reference = operand.before;
    } else {
      // What lies between the elements comes along.
      operand.reference.resize(elements * sizeof(double));
      const bool changes = operand.is_input() && !(keeps_some && operand.magnitude == Magnitude::kept);
      with_number(operand.geometry.type, [&]<class T>() {
        for (std::size_t i = 0; i < elements; ++i) {
          const auto at = static_cast<std::int64_t>(i);
          double value = element<T>(operand.before.data(), at);
          if (changes) value = change(value, at);
          std::memcpy(operand.reference.data() + i * sizeof value, &value, sizeof value);
        }
      });
      if (operand.typed != nullptr) operand.typed->type = GPUDNN_DATA_DOUBLE;
    }
    operand.set(operand.place, operand.reference.data());
  }
  const Verifying scope;
  return reference();
}

std::vector<std::vector<double>> Check::outputs() const {
  std::vector<std::vector<double>> all;
  for (const Operand& operand : operands_) {
    std::vector<double>& values = all.emplace_back();
    if (!operand.is_output() || !is_number(operand.geometry.type)) continue;
    TensorGeometry geometry = operand.geometry;
    if (operand.wide) geometry.type = GPUDNN_DATA_DOUBLE;
    values = numbers_of(geometry, operand.reference.data());
  }
  return all;
}

Status Check::compare(const std::function<Status()>& reference, std::string* difference) {
  GPUDNN_TRY(run_reference(reference, unchanged, false));
  std::vector<std::vector<double>> values = outputs();
  for (const Operand& operand : operands_) {
    // Elements that are no numbers are compared as bytes.
    if (operand.is_output() && !is_number(operand.geometry.type) && difference->empty()) {
      const auto size = static_cast<std::int64_t>(data_type_bits(operand.geometry.type) / 8);
      for_each_element(operand.geometry, [&](std::int64_t i, std::int64_t offset) {
        const std::int64_t at = offset * size;
        if (!difference->empty() || std::memcmp(operand.after.data() + at, operand.reference.data() + at,
                                                static_cast<std::size_t>(size)) == 0) {
          return;
        }
        *difference =
            std::string(operand.name) + " differs from the reference, first at " + place_text(operand.geometry, i);
      });
    }
  }
  bool wants_magnitudes = false;
  bool wants_moved = false;
  bool is_double = false;
  for (const Operand& operand : operands_) {
    wants_magnitudes = wants_magnitudes || operand.bound.by_magnitude;
    wants_moved = wants_moved || operand.bound.normwise > 0;
    is_double = is_double || operand.geometry.type == GPUDNN_DATA_DOUBLE;
  }
  std::vector<std::vector<double>> moved_values(values.size());
  if (wants_moved) {
    const auto change = is_double ? moved<GPUDNN_DATA_DOUBLE> : moved<GPUDNN_DATA_FLOAT>;
    GPUDNN_TRY(run_reference(reference, change, false));
    moved_values = outputs();
  }
  std::vector<std::vector<double>> magnitudes(values.size());
  if (wants_magnitudes) {
    if (to_magnitudes_) to_magnitudes_();
    GPUDNN_TRY(run_reference(reference, absolute, true));
    magnitudes = outputs();
  }
  for (std::size_t i = 0; i < operands_.size() && difference->empty(); ++i) {
    if (values[i].empty()) continue;
    *difference =
        difference_of({operands_[i], std::move(values[i]), std::move(magnitudes[i]), std::move(moved_values[i])});
  }
  return GPUDNN_STATUS_SUCCESS;
}

// --- the mode -------------------------------------------------------------------------------------------------------

namespace {

void tell_once(gpudnnHandle_t handle, const std::string& what) {
  const char* const function = call_context().function != nullptr ? call_context().function : "";
  State& s = state();
  {
    const std::lock_guard lock(s.mutex);
    if (!s.told.insert(std::string(function) + what).second) return;
  }
  log_line(GPUDNN_SEV_WARNING, handle, GPUDNN_STATUS_SUCCESS, "%s: not verified: %s", function, what.c_str());
}

// Both parts of the work after the launch.
Status examine(const Operation& operation, Check* check, bool verify, bool watch_nan, const VerifySettings& settings) {
  State& s = state();
  if (watch_nan && check->inputs_are_finite()) {
    const std::string found = check->find_nan();
    if (!found.empty()) {
      // The first one is told, and the watch ends.
      if ((mode.fetch_and(~static_cast<unsigned>(kWatchingNan), std::memory_order_relaxed) & kWatchingNan) != 0) {
        tell(operation.handle, operation.problem, found);
      }
    }
  }
  if (!verify) return GPUDNN_STATUS_SUCCESS;
  std::string difference;
  const char* const engine = call_context().engine;
  const Status status = check->compare(operation.reference, &difference);
  call_context().engine = engine;  // the reference may have noted its own
  GPUDNN_TRY(status);
  {
    const std::lock_guard lock(s.mutex);
    ++s.counts.verified;
    if (!difference.empty()) ++s.counts.differing;
  }
  if (difference.empty()) return GPUDNN_STATUS_SUCCESS;
  tell(operation.handle, operation.problem, difference);
  GPUDNN_REQUIRE(!settings.abort, GPUDNN_STATUS_EXECUTION_FAILED, "GPUDNN_VERIFY: %s; engine=%s | %s",
                 difference.c_str(), engine != nullptr ? engine : "", operation.problem.c_str());
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace

void note_not_covered(gpudnnHandle_t handle, const char* reason) {
  if (watching() && !verifying) tell_once(handle, reason);
}

Status run(const Operation& operation) {
  if (verifying) return operation.launch();
  State& s = state();
  bool verify = false;
  VerifySettings settings;
  {
    const std::lock_guard lock(s.mutex);
    settings = s.settings;
    verify = is_turn(&s, operation.problem, operation.engine);
  }
  const bool watch_nan = (mode.load(std::memory_order_relaxed) & kWatchingNan) != 0;
  if (!verify && !watch_nan) return operation.launch();
  const LaunchSite site = launch_site(operation.handle);
  if (site.device.backend == GPUDNN_BACKEND_CUDA && cuda::is_capturing(site.device, site.stream)) {
    tell_once(operation.handle, "the stream is being captured");
    return operation.launch();
  }
  Check check(site.device);
  operation.describe(&check);
  if (check.reason_against() != nullptr) {
    tell_once(operation.handle, check.reason_against());
    return operation.launch();
  }
  GPUDNN_TRY(check.keep_before(site));
  GPUDNN_TRY(operation.launch());
  GPUDNN_TRY(check.keep_after(site));
  return examine(operation, &check, verify, watch_nan, settings);
}

}  // namespace gpudnn::verify
