// What the launchers of Hopper's engines do alike: where they run, and tensor maps that are made once for each plan, by
// the driver, with addresses to be replaced at each launch.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>

#include "core/error.hpp"
#include "core/tensor_map_cuda.hpp"
#include "ops/conv/engine.hpp"
#include "ops/conv/padding.hpp"

namespace gpudnn::conv {

// kReason gives null where the engine takes the problem.
template <auto kReason, bool kTakesUnevenPadding = false>
[[nodiscard]] Support sm90_supports(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (const char* const against = integer_unsupported_reason(problem)) return Support::no(against);
  if (const char* const against = kTakesUnevenPadding ? nullptr : uneven_padding_unsupported_reason(problem))
    return Support::no(against);
  if (const char* const against = kReason(problem)) return Support::no(against);
  return cuda::makes_tensor_maps(device) ? Support::yes() : Support::no("the driver does not make tensor maps");
}

// The map of boxes whose rows are swizzled over their width.
[[nodiscard]] inline bool encode_rows(const TmaBoxes& boxes, tile::ElementType type, void* map,
                                      CUtensorMapL2promotion promotion = CU_TENSOR_MAP_L2_PROMOTION_L2_256B) {
  return cuda::encode_boxes(
      boxes, {cuda::map_type(type), cuda::swizzle_of_rows(boxes.box[0] * tile::element_bytes(type)), promotion}, map);
}

// A plan whose parameters have their maps, if the driver made them.
template <class Plan>
struct Encoded {
  Plan plan;
  bool encoded = false;
};

// encode(&plan) makes the maps, or returns false.
template <class Plan, class Encode>
[[nodiscard]] std::shared_ptr<const Encoded<Plan>> encoded(const std::optional<Plan>& plan, const Device& device,
                                                           Encode encode) {
  auto prepared = std::make_shared<Encoded<Plan>>();
  if (!plan) return prepared;
  prepared->plan = *plan;
  prepared->encoded = cuda::with_context(device.ordinal, [&] { return encode(&prepared->plan); });
  return prepared;
}

[[nodiscard]] inline Status require_maps(bool encoded) {
  GPUDNN_REQUIRE(encoded, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused a tensor map for this problem; please report it with the problem's line");
  return GPUDNN_STATUS_SUCCESS;
}

// replace() puts the addresses of a call into the maps, or returns false.
template <class Replace>
[[nodiscard]] Status replace_addresses(const LaunchSite& site, Replace replace) {
  const bool replaced = cuda::with_context(site.device.ordinal, replace);
  GPUDNN_REQUIRE(replaced, GPUDNN_STATUS_BAD_PARAM,
                 "the driver refused the address of a tensor, which must be a multiple of 16 bytes");
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::conv
