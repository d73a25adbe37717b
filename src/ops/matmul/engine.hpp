// The engines of the matrix product: a visible list, ranked for a problem by the seconds that they expect.
//
//   std::shared_ptr<const Plan> plan;
//   find_plan(handle, problem, workspace_limit, alignment, &plan);   from the handle's cache, or made now
//   launch_plan(launch_site(handle, workspace, bytes), *plan, args);
// or run(), which does both.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/engine.hpp"
#include "ops/matmul/problem.hpp"

namespace gpudnn::matmul {

// An engine's tunable numbers as text, such as "bm128_bn128": what tables, logs and the knobs of graphs hold.
using Config = std::string;

struct Candidate {
  Config config;
  double seconds = 0;  // by estimate() of its footprint, or by the kernel's own model
};

// No engine asks for addresses at multiples of more.
constexpr std::uint32_t kMaxAlignment = 16;
// What the addresses of a call are multiples of, up to that; `d`: of d and c.
struct Alignment {
  std::uint32_t a = kMaxAlignment;
  std::uint32_t b = kMaxAlignment;
  std::uint32_t d = kMaxAlignment;
};
[[nodiscard]] Alignment alignment_of(const Args& args) noexcept;

struct MatmulEngine {
  const char* name = nullptr;
  gpudnnBackend_t backend = GPUDNN_BACKEND_HOST;
  gpudnnMathType_t math = GPUDNN_FMA_MATH;  // what it computes with: this, or GPUDNN_TENSOR_OP_MATH
  std::uint32_t alignment = 1;              // of the matrices' addresses that it needs, in bytes
  bool deterministic = true;
  Support (*supports)(const Problem&, const Device&) = nullptr;
  // Its configs for the problem, in any order.
  void (*candidates)(const Problem&, const Device&, std::vector<Candidate>*) = nullptr;
  // Bytes of a config, exactly.
  std::size_t (*workspace)(const Problem&, const Config&, const Device&) = nullptr;
  // Whether a config takes matrices at such addresses. Null: where all are multiples of `alignment`.
  bool (*takes_addresses)(const Problem&, const Config&, const Alignment&) = nullptr;
  // Everything that does not depend on pointers; the launch gets it back. Null: the engine does not take it after all.
  std::shared_ptr<const void> (*prepare)(const Problem&, const Config&, const Device&) = nullptr;
  Status (*launch)(const LaunchSite&, const void* prepared, const Args&) = nullptr;
};

// The last of each backend takes everything, without a workspace.
[[nodiscard]] std::span<const MatmulEngine> engines() noexcept;

struct Choice {
  const MatmulEngine* engine = nullptr;
  Config config;
  double seconds = 0;  // as the model expects
};

// All choices for the problem on the device, best first. Pure.
[[nodiscard]] std::vector<Choice> rank(const Problem& problem, const Device& device);

// Engine + config + what the engine prepared. Immutable.
struct Plan {
  Choice choice;
  std::size_t workspace = 0;
  std::shared_ptr<const void> prepared;
};

[[nodiscard]] bool takes_addresses(const Choice& choice, const Problem& problem, const Alignment& alignment);

// The best plan that needs no more workspace and alignment, from the handle's cache or made now. The problem was
// validated.
[[nodiscard]] Status find_plan(gpudnnHandle_t handle, const Problem& problem, std::size_t workspace_limit,
                               const Alignment& alignment, std::shared_ptr<const Plan>* plan);
// The plan of one choice, whatever the ranking says.
[[nodiscard]] Status make_plan(const Choice& choice, const Problem& problem, const Device& device,
                               std::shared_ptr<const Plan>* plan);
// Bytes with which the problem runs at its best, with matrices at multiples of kMaxAlignment.
[[nodiscard]] Status workspace_size(gpudnnHandle_t handle, const Problem& problem, std::size_t* bytes);

// Launches it, with the device current and the engine noted for the log.
[[nodiscard]] Status launch_plan(const LaunchSite& site, const Plan& plan, const Args& args);

// The same on the handle's stream, by GPUDNN_VERIFY compared with the reference: what calls go through, and searches,
// which take times, do not.
[[nodiscard]] Status launch_verified(gpudnnHandle_t handle, const Problem& problem, const Plan& plan, const Args& args,
                                     void* workspace, std::size_t workspace_bytes);

// Validates nothing: the problem was validated. Finds the plan and launches it.
[[nodiscard]] Status run(gpudnnHandle_t handle, const Problem& problem, const Args& args, void* workspace,
                         std::size_t workspace_bytes);

}  // namespace gpudnn::matmul
