// Calls every function of the interface with arguments that are null, destroyed, of the wrong type, never set, or out
// of range, one at a time and all at once. A call must come back, refuse, say why, and leave the handle usable. The
// same call with good arguments must succeed, so that a refusal is known to be for the spoiled argument.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "hostile_calls.hpp"
#include "hostile_objects.hpp"

namespace {

constexpr std::size_t kBufferBytes = std::size_t{1} << 20;
constexpr std::size_t kOutputBytes = 4096;
constexpr std::size_t kMaxParameters = 40;

struct Tally {
  std::set<std::string> functions;
  long calls = 0;
};
Tally tally;
gpudnnHandle_t shared_handle = nullptr;
void* buffers[kMaxParameters] = {};
alignas(256) unsigned char outputs[kMaxParameters][kOutputBytes];
alignas(256) unsigned char no_object[4096];

const float kOne = 1.0f;
const int kOnes[8] = {1, 1, 1, 1, 1, 1, 1, 1};
const int kZeros[8] = {};

void ignore_message(gpudnnSeverity_t, void*, const gpudnnDebug_t*, const char*) {}

bool is_array(Role role) {
  return role == Role::dims || role == Role::strides || role == Role::filter_dims || role == Role::seq_dims ||
         role == Role::seq_axes || role == Role::ones || role == Role::zeros;
}

bool is_number(Role role) {
  return role == Role::integer || role == Role::size || role == Role::real || role == Role::enumeration ||
         role == Role::buffer_size;
}

// --- one call ------------------------------------------------------------------------------------------------------

enum class Spoil { nothing, null, destroyed, wrong_type, unset, number, elements };

const char* spoil_name(Spoil spoil) {
  switch (spoil) {
    case Spoil::nothing:
      return "good arguments";
    case Spoil::null:
      return "null";
    case Spoil::destroyed:
      return "a destroyed object";
    case Spoil::wrong_type:
      return "an object of another type";
    case Spoil::unset:
      return "a descriptor that was never set";
    case Spoil::number:
      return "a number out of range";
    case Spoil::elements:
      return "an array of numbers out of range";
  }
  return "?";
}

// The arguments of one call. Objects are made anew for it, because setters and destroyers change them.
class Arguments {
 public:
  Arguments(const HostileRow& row) : row_(row) {
    for (std::size_t i = 0; i < row.parameters.size(); ++i) values_.push_back(good(i));
  }
  ~Arguments() {
    for (const auto& [role, object] : owned_) destroy(role, object);
    if (allocation_ != nullptr) (void)gpudnnFree(shared_handle, allocation_);
    (void)gpudnnSetCallback(0, nullptr, nullptr);
    (void)take_error();
  }
  Arguments(const Arguments&) = delete;
  Arguments& operator=(const Arguments&) = delete;

  void spoil(std::size_t index, Spoil how, std::int64_t number = 0) {
    const Role role = row_.parameters[index].role;
    switch (how) {
      case Spoil::nothing:
        break;
      case Spoil::null:
        values_[index] = Value{};
        break;
      case Spoil::destroyed:
        values_[index].pointer = create(role);
        destroy(role, values_[index].pointer);
        break;
      case Spoil::wrong_type:
        values_[index].pointer = own(another_type(role));
        break;
      case Spoil::unset:
        values_[index].pointer = own(role);
        break;
      case Spoil::number:
        values_[index].number = number;
        break;
      case Spoil::elements:
        std::fill(std::begin(elements_), std::end(elements_), static_cast<int>(number));
        values_[index].pointer = elements_;
        break;
    }
  }
  void spoil_all() { std::fill(values_.begin(), values_.end(), Value{}); }

  int call() {
    (void)take_error();
    const int status = row_.call(values_.data());
    ++tally.calls;
    if (status == GPUDNN_STATUS_SUCCESS) release_result();
    return status;
  }

 private:
  void* own(Role role) {
    owned_.emplace_back(role, create(role));
    return owned_.back().second;
  }

  Value good(std::size_t index) {
    const HostileParameter& parameter = row_.parameters[index];
    Value value;
    switch (parameter.role) {
      case Role::handle:
        value.pointer = std::strcmp(row_.name, "gpudnnDestroy") == 0 ? own(Role::handle) : shared_handle;
        break;
      case Role::unknown_object:
        value.pointer = no_object;
        break;
      case Role::data:
        value.pointer = buffers[index];
        break;
      case Role::allocation:
        EXPECT_EQ(gpudnnMalloc(shared_handle, &allocation_, 64), 0) << take_error();
        value.pointer = allocation_;
        break;
      case Role::buffer_size:
        value.number = kBufferBytes;
        break;
      case Role::scalar:
        value.pointer = const_cast<float*>(&kOne);
        break;
      case Role::host_output:
        std::memset(outputs[index], 0, kOutputBytes);
        value.pointer = outputs[index];
        break;
      case Role::dims:
        value.pointer = const_cast<int*>(kDims);
        break;
      case Role::strides:
        value.pointer = const_cast<int*>(kStrides);
        break;
      case Role::filter_dims:
        value.pointer = const_cast<int*>(kFilterDims);
        break;
      case Role::seq_dims:
        value.pointer = const_cast<int*>(kSeqDims);
        break;
      case Role::seq_axes:
        value.pointer = const_cast<int*>(kSeqAxes);
        break;
      case Role::ones:
        value.pointer = const_cast<int*>(kOnes);
        break;
      case Role::zeros:
        value.pointer = const_cast<int*>(kZeros);
        break;
      case Role::callback:
        value.pointer = reinterpret_cast<void*>(&ignore_message);
        break;
      case Role::null:
        break;
      case Role::integer:
      case Role::size:
      case Role::real:
      case Role::enumeration:
        value.number = parameter.good;
        break;
      default:
        value.pointer = own(parameter.role);
        set(parameter.role, value.pointer);
        break;
    }
    return value;
  }

  // Ends what a successful call has made, and forgets what it has freed.
  void release_result() {
    const std::string name = row_.name;
    void* made = nullptr;
    if (name == "gpudnnFree" && values_[1].pointer == allocation_) allocation_ = nullptr;
    if (name == "gpudnnMalloc" && values_[1].pointer != nullptr) {
      std::memcpy(&made, values_[1].pointer, sizeof made);
      EXPECT_EQ(gpudnnFree(shared_handle, made), 0) << take_error();
    }
    if (name.rfind("gpudnnCreate", 0) != 0 || values_[0].pointer == nullptr) return;
    std::memcpy(&made, values_[0].pointer, sizeof made);
    const std::string destroyer = "gpudnnDestroy" + name.substr(std::strlen("gpudnnCreate"));
    for (const HostileRow& row : hostile_rows()) {
      if (destroyer != row.name) continue;
      Value value;
      value.pointer = made;
      EXPECT_EQ(row.call(&value), 0) << destroyer << ": " << take_error();
    }
  }

  const HostileRow& row_;
  std::vector<Value> values_;
  std::vector<std::pair<Role, void*>> owned_;
  void* allocation_ = nullptr;
  int elements_[GPUDNN_DIM_MAX] = {};
};

// --- what is expected ----------------------------------------------------------------------------------------------

enum class Expect {
  success,
  bad_param,  // BAD_PARAM and a text that names the argument
  refusal,    // any refusal with a text
  either,     // no crash; a refusal has a text
};

void check(const HostileRow& row, int status, Expect expect, const char* argument) {
  const std::string text = take_error();
  if (!row.returns_status) return;
  if (!row.built) {
    EXPECT_EQ(status, GPUDNN_STATUS_NOT_SUPPORTED) << text;
    EXPECT_NE(text.find("not built"), std::string::npos) << text;
    return;
  }
  EXPECT_EQ(text.find("not built in this version"), std::string::npos)
      << text << " (and not_built.txt has no such line)";
  if (expect == Expect::success) {
    EXPECT_EQ(status, GPUDNN_STATUS_SUCCESS) << text;
    return;
  }
  if (expect == Expect::bad_param || expect == Expect::refusal) {
    EXPECT_NE(status, GPUDNN_STATUS_SUCCESS);
  }
  // The backend descriptors' functions say more exactly what was bad.
  const bool finer = std::strncmp(row.name, "gpudnnBackend", 13) == 0;
  if (expect == Expect::bad_param) {
    EXPECT_EQ(finer ? GPUDNN_STATUS_CATEGORY(status) : status, GPUDNN_STATUS_BAD_PARAM) << text;
  }
  if (status == GPUDNN_STATUS_SUCCESS) return;
  EXPECT_EQ(text.rfind(std::string(row.name) + ": ", 0), 0u) << "the text is: \"" << text << '"';
  if (expect == Expect::bad_param && argument != nullptr) {
    EXPECT_NE(text.find(argument), std::string::npos) << "the text is: \"" << text << '"';
  }
}

void try_spoiled(const HostileRow& row, std::size_t index, Spoil how, Expect expect, std::int64_t number = 0) {
  const char* name = row.parameters[index].name;
  SCOPED_TRACE(std::string(row.name) + ", " + name + ": " + spoil_name(how) +
               (how == Spoil::number || how == Spoil::elements ? " (" + std::to_string(number) + ")" : ""));
  Arguments arguments(row);
  arguments.spoil(index, how, number);
  const int status = arguments.call();
  check(row, status, expect, name);
}

void spoil_parameter(const HostileRow& row, std::size_t index) {
  const HostileParameter& parameter = row.parameters[index];
  if (parameter.role == Role::enumeration) {
    try_spoiled(row, index, Spoil::number, Expect::refusal, 9999);
    try_spoiled(row, index, Spoil::number, Expect::refusal, -1);
  }
  for (const int number : {0, -1, INT_MIN, INT_MAX}) {
    if (parameter.role == Role::integer) try_spoiled(row, index, Spoil::number, Expect::either, number);
    if (is_array(parameter.role)) try_spoiled(row, index, Spoil::elements, Expect::either, number);
  }
  if (is_number(parameter.role)) return;
  try_spoiled(row, index, Spoil::null, parameter.null_is_legal ? Expect::either : Expect::bad_param);
  if (!is_object(parameter.role)) return;
  try_spoiled(row, index, Spoil::destroyed, Expect::bad_param);
  try_spoiled(row, index, Spoil::wrong_type, Expect::bad_param);
  if (parameter.role != Role::handle) try_spoiled(row, index, Spoil::unset, Expect::either);
}

class HostileArguments : public testing::TestWithParam<std::size_t> {};

TEST_P(HostileArguments, AreRefused) {
  const HostileRow& row = hostile_rows()[GetParam()];
  ASSERT_LE(row.parameters.size(), kMaxParameters);
  tally.functions.insert(row.name);
  {
    SCOPED_TRACE("good arguments");
    Arguments arguments(row);
    const int status = arguments.call();
    // There is no CUDA graph here to fill.
    const bool wants_cuda_graph = std::strstr(row.name, "CudaGraph") != nullptr;
    check(row, status, wants_cuda_graph ? Expect::refusal : Expect::success, nullptr);
  }
  {
    SCOPED_TRACE("every argument null or zero");
    const bool needs_something = std::any_of(row.parameters.begin(), row.parameters.end(), [](const auto& parameter) {
      return !is_number(parameter.role) && !parameter.null_is_legal;
    });
    Arguments arguments(row);
    arguments.spoil_all();
    const int status = arguments.call();
    check(row, status, needs_something ? Expect::bad_param : Expect::either, nullptr);
  }
  for (std::size_t i = 0; i < row.parameters.size(); ++i) spoil_parameter(row, i);

  cudaStream_t stream = nullptr;
  EXPECT_EQ(gpudnnGetStream(shared_handle, &stream), GPUDNN_STATUS_SUCCESS) << "the handle is unusable afterwards";
}

std::vector<std::size_t> all_rows() {
  std::vector<std::size_t> indices(hostile_rows().size());
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = i;
  return indices;
}

INSTANTIATE_TEST_SUITE_P(Every, HostileArguments, testing::ValuesIn(all_rows()),
                         [](const auto& row) { return std::string(hostile_rows()[row.param].name); });

// Makes what the calls share, and counts in the end.
class Surroundings : public testing::Environment {
 public:
  void SetUp() override {
    ASSERT_EQ(gpudnnCreate(&shared_handle), GPUDNN_STATUS_SUCCESS) << take_error();
    const std::vector<char> zeros(kBufferBytes);
    for (void*& buffer : buffers) {
      ASSERT_EQ(gpudnnMalloc(shared_handle, &buffer, kBufferBytes), GPUDNN_STATUS_SUCCESS) << take_error();
      ASSERT_EQ(gpudnnMemcpy(shared_handle, buffer, zeros.data(), kBufferBytes, GPUDNN_MEMCPY_HOST_TO_DEVICE),
                GPUDNN_STATUS_SUCCESS)
          << take_error();
    }
  }

  void TearDown() override {
    gpudnnBackend_t backend = GPUDNN_BACKEND_HOST;
    EXPECT_EQ(gpudnnGetBackend(shared_handle, &backend), GPUDNN_STATUS_SUCCESS);
    for (void* buffer : buffers) EXPECT_EQ(gpudnnFree(shared_handle, buffer), GPUDNN_STATUS_SUCCESS);
    EXPECT_EQ(gpudnnDestroy(shared_handle), GPUDNN_STATUS_SUCCESS);

    const auto not_built = std::count_if(hostile_rows().begin(), hostile_rows().end(), [](const HostileRow& row) {
      return !row.built && tally.functions.count(row.name) != 0;
    });
    std::printf("%zu of %zu functions exercised (%ld of them not built) with %ld calls on the %s backend\n",
                tally.functions.size(), hostile_rows().size(), static_cast<long>(not_built), tally.calls,
                backend == GPUDNN_BACKEND_HOST ? "host" : "CUDA");
    const bool filtered = GTEST_FLAG_GET(filter) != "*";
    if (!filtered) {
      EXPECT_EQ(tally.functions.size(), hostile_rows().size()) << "functions were left out";
    }
  }
};

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  testing::AddGlobalTestEnvironment(new Surroundings);
  return RUN_ALL_TESTS();
}
