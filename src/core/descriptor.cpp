// What handles and descriptors have in common.
// SPDX-License-Identifier: Apache-2.0
#include "core/descriptor.hpp"

namespace gpudnn {

const char* kind_name(Kind kind) noexcept {
  switch (kind) {
    case Kind::destroyed:
      return "destroyed object";
    case Kind::handle:
      return "library handle";
    case Kind::tensor:
      return "tensor descriptor";
    case Kind::filter:
      return "filter descriptor";
    case Kind::convolution:
      return "convolution descriptor";
    case Kind::pooling:
      return "pooling descriptor";
    case Kind::activation:
      return "activation descriptor";
    case Kind::op_tensor:
      return "op-tensor descriptor";
    case Kind::dropout:
      return "dropout descriptor";
    case Kind::spatial_transformer:
      return "spatial transformer descriptor";
    case Kind::ctc_loss:
      return "CTC loss descriptor";
    case Kind::lrn:
      return "LRN descriptor";
    case Kind::reduce_tensor:
      return "reduction descriptor";
    case Kind::seq_data:
      return "sequence data descriptor";
    case Kind::attn:
      return "attention descriptor";
    case Kind::tensor_transform:
      return "tensor transform descriptor";
    case Kind::fused_const_pack:
      return "const pack of fused operations";
    case Kind::fused_variant_pack:
      return "variant pack of fused operations";
    case Kind::fused_plan:
      return "fused operation plan";
    case Kind::backend:
      return "backend descriptor";
  }
  return nullptr;
}

Status check_object(const void* object, Kind kind, const char* argument) noexcept {
  if (object == nullptr) {
    return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM, "%s is null; it must be a live %s", argument, kind_name(kind));
  }
  if (reinterpret_cast<std::uintptr_t>(object) % alignof(Object) != 0) {
    return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM, "%s (%p) is no pointer that this library gave", argument, object);
  }
  const Kind found = static_cast<const Object*>(object)->kind;
  if (found == kind) return GPUDNN_STATUS_SUCCESS;
  if (found == Kind::destroyed) {
    return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM, "%s (%p) was destroyed; create a %s anew", argument, object,
                         kind_name(kind));
  }
  const char* name = kind_name(found);
  return GPUDNN_REFUSE(GPUDNN_STATUS_BAD_PARAM, "%s (%p) is a %s; it must be a %s", argument, object,
                       name != nullptr ? name : "pointer to something else", kind_name(kind));
}

}  // namespace gpudnn
