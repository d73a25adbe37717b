// Every call of the CUDA runtime and the driver that an operation makes, made to fail once, and made to fail for good:
// the operation says so, with CUDA's own name of the error, or does without the answer; nothing leaks, and the next
// call works.
// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <sstream>
#include <string_view>

#include "standin/operations.hpp"

namespace gpudnn::standin {
namespace {

// An operation can do without the answer: it takes another way, or tries again.
bool is_question(std::string_view function) {
  return function.starts_with("cudaFunc") || function.starts_with("cudaOccupancy") ||
         function.starts_with("cuTensorMap") || function == "cudaGetDriverEntryPointByVersion" ||
         function == "cudaDriverGetVersion" || function == "cudaDeviceGetAttribute" || function == "cudaMemGetInfo" ||
         function == "cudaThreadExchangeStreamCaptureMode" || function == "cudaGetDeviceCount" ||
         function == "cudaEventDestroy" || function == "cudaStreamDestroy" || function == "cudaGraphDestroy";
}
// What holds something does so still if it cannot be released.
bool is_release(std::string_view function) {
  return function == "cudaFree" || function == "cudaEventDestroy" || function == "cudaStreamDestroy" ||
         function == "cudaGraphDestroy";
}
// Of the current device: where these fail it may stay another one.
bool is_about_device(std::string_view function) { return function == "cudaGetDevice" || function == "cudaSetDevice"; }

// CUDA's name of an error, which may be that of a launch that did not get what it had asked for; or what a text says of
// memory and of the driver.
bool names_cause(std::string_view text) {
  for (const char* cause : {"cudaError", "out of memory", "the driver refused"}) {
    if (text.find(cause) != std::string_view::npos) return true;
  }
  return false;
}

cudaStreamCaptureMode capture_mode_of_thread() {
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
  cudaStreamCaptureMode found = mode;
  (void)cudaThreadExchangeStreamCaptureMode(&mode);
  return found;
}

constexpr const char* kSearch = "find algorithms";
constexpr const char* kNotMadeAgain = "the call was not made again";

std::string with_fault(const Operation& operation, std::size_t index, bool lasting) {
  const auto backend = make_backend();
  const Holdings before = holdings();
  (void)take_launches();
  plant_fault(index, lasting);
  const gpudnnStatus_t status = operation.call(backend->handle());
  const Fault fault = remove_fault();
  const std::string text = test::take_error_text();
  (void)take_violations();  // what follows from the fault
  const std::vector<Launch> launches = take_launches();
  std::string wrong;
  if (fault.function.empty()) return kNotMadeAgain;
  if (status == GPUDNN_STATUS_SUCCESS) {
    // The recurrent sweep that needs flags set to zero gives way to the one that does not.
    const bool gives_way = fault.function == "cudaMemsetAsync" && operation.name.starts_with("rnn");
    // A search leaves out what fails.
    const bool searches = operation.name == kSearch;
    // cudaFree(nullptr) makes a context where there is none.
    const bool makes_context = fault.function == "cudaFree" && operation.executes;
    if (!is_question(fault.function) && !is_about_device(fault.function) && !gives_way && !searches && !makes_context)
      wrong += "success\n";
    if (operation.executes && launches.empty()) wrong += "success, though nothing was launched\n";
  } else if (!names_cause(text)) {
    wrong += "the text does not name the error: " + text + "\n";
  }
  for (const Launch& launch : launches) {
    if (launch.device != kDevice) wrong += "a launch on another device\n";
  }
  if (cudaPeekAtLastError() != cudaSuccess) wrong += "an error was left with the runtime\n";
  if (capture_mode_of_thread() != cudaStreamCaptureModeGlobal) wrong += "the thread's capture mode was changed\n";
  if (holdings() != before && !is_release(fault.function)) wrong += "something leaks\n";
  int device = -1;
  (void)cudaGetDevice(&device);
  if (device != kCallersDevice && !is_about_device(fault.function)) wrong += "the current device was changed\n";

  (void)cudaGetLastError();
  (void)cudaSetDevice(kCallersDevice);
  const gpudnnStatus_t next = operation.call(backend->handle());
  if (next != GPUDNN_STATUS_SUCCESS) wrong += "the next call: " + test::take_error_text() + "\n";
  wrong += lines_of(take_violations());
  if (operation.executes && take_launches().empty()) wrong += "the next call launches nothing\n";
  return wrong.empty() ? (status == GPUDNN_STATUS_SUCCESS ? "went on" : "refused") : fault.function + ": " + wrong;
}

// Searches repeat what they measure hundreds of times, and a search takes its time.
constexpr int kMaxPerFunction = 12;

struct Counts {
  int refused = 0;
  int went_on = 0;
};

void expect_faults_are_told(const std::vector<Operation>& operations) {
  std::map<std::string, Counts> counts;
  for (const Operation& operation : operations) {
    const std::string calls = in_own_process([&] {
      const auto backend = make_backend();
      (void)take_calls();
      test::require(operation.call(backend->handle()), "the call");
      return lines_of(take_calls());
    });
    std::istringstream lines(calls);
    std::size_t index = 0;
    std::map<std::string, int> failures;  // few are shown
    std::map<std::string, int> seen;
    for (std::string function; std::getline(lines, function); ++index) {
      if (++seen[function] > kMaxPerFunction) continue;
      for (const bool lasting : {false, true}) {
        const auto outcome_of_run = [&] {
          return in_own_process([&] { return with_fault(operation, index, lasting); });
        };
        std::string outcome = outcome_of_run();
        // A search measures for a time, in which a busy machine makes fewer calls.
        for (int again = 0; again < 4 && operation.name == kSearch && outcome == kNotMadeAgain; ++again)
          outcome = outcome_of_run();
        Counts& count = counts[function];
        (outcome == "went on" ? count.went_on : count.refused) += 1;
        if (outcome == "went on" || outcome == "refused" || ++failures[function] > 2) continue;
        ADD_FAILURE() << operation.name << ", call " << index << (lasting ? ", for good" : "") << "\n" << outcome;
      }
    }
    EXPECT_GT(index, 0U) << operation.name << ": " << calls;
  }
  Counts all;
  for (const auto& [function, count] : counts) {
    std::printf("  %-48s %5d refused, %5d went on\n", function.c_str(), count.refused, count.went_on);
    all.refused += count.refused;
    all.went_on += count.went_on;
  }
  std::printf("  %zu operations, %d faults: %d refused, %d went on\n", operations.size(), all.refused + all.went_on,
              all.refused, all.went_on);
}

TEST(StandInFaults, OfClassicOperations) { expect_faults_are_told(classic_operations()); }
TEST(StandInFaults, OfServices) { expect_faults_are_told(services()); }
// Executed ones: a CUDA graph that could not be filled is in a state of its own.
TEST(StandInFaults, OfGraphs) {
  std::vector<Operation> operations = graph_operations();
  std::erase_if(operations, [](const Operation& operation) { return !operation.executes; });
  expect_faults_are_told(operations);
}

}  // namespace
}  // namespace gpudnn::standin
