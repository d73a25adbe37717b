// The pointwise problem: a program, the tensors that it reads and writes, and for each store a reduction or none.
//
//   pointwise n8c16h32w32 i0=f16:nhwc i1=f16:1x16x1x1 r0=add(i0,i1) r1=gelu(r0) o0=r1:f16:nhwc
//
// The dims of the whole come first. Loads: iK=TYPE[:DIMS][:LAYOUT] (dims of the whole, or 1 where the tensor is
// repeated), iK=scalar, iK=indexAXIS. Instructions: rK=OP(operands[;parameters])[:TYPE], the operands iK, rK or a
// number. Stores: oK=VALUE:TYPE[:LAYOUT], or oK=REDUCTION(VALUE):TYPE:DIMS[:LAYOUT] with 1 where dims are folded.
// "acc=f64" computes in double.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/engine.hpp"
#include "core/geometry.hpp"
#include "ops/pointwise/program.hpp"

namespace gpudnn::pointwise {

constexpr int kNoReduction = -1;

struct Problem {
  Program program;
  std::int32_t rank = 0;
  std::int64_t dims[kMaxRank] = {};   // of the whole
  TensorGeometry loads[kMaxLoads];    // of tensors; unset for scalars and indices
  TensorGeometry stores[kMaxStores];  // the dims of the whole, or 1 where a reduction folds them
  std::int32_t reductions[kMaxStores] = {kNoReduction, kNoReduction, kNoReduction,
                                         kNoReduction};  // gpudnnReduceTensorOp_t, or kNoReduction
};
[[nodiscard]] bool operator==(const Problem& a, const Problem& b) noexcept;
[[nodiscard]] std::size_t hash_of(const Problem& problem) noexcept;

struct Prepared;  // what of a launch the pointers do not change

// Pointers by the number of the load or store; `scalars` of loads of that kind.
struct Args {
  const void* loads[kMaxLoads] = {};
  double scalars[kMaxLoads] = {};
  void* stores[kMaxStores] = {};
  void* workspace = nullptr;  // of reductions: with less than workspace_size() they run slower, never otherwise
  std::size_t workspace_bytes = 0;
  const Prepared* prepared = nullptr;  // by prepare(), of the same problem; null: each launch makes it anew
};

[[nodiscard]] Status validate(const Problem& problem);
[[nodiscard]] std::string to_text(const Problem& problem);
[[nodiscard]] std::optional<Problem> from_text(std::string_view line, std::string* why);
// "i0=... r0=... o0=...": the program without its tensors, for logs and tests of the program alone.
[[nodiscard]] std::string to_text(const Program& program);

[[nodiscard]] std::span<const Engine<Problem, Args>> engines() noexcept;
// Runs a problem that validate() accepts.
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args);

// Null where nothing has to be made: on the host.
[[nodiscard]] Status prepare(const Problem& problem, const Device& device, std::shared_ptr<const Prepared>* prepared);

// What the reductions of a problem run fastest with; 0 where there are none.
[[nodiscard]] std::size_t workspace_size(const Problem& problem, const Device& device);

// Bytes that the floor of the time counts: each tensor once.
[[nodiscard]] double bytes_moved(const Problem& problem) noexcept;

}  // namespace gpudnn::pointwise
