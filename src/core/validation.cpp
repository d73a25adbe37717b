// Checks that several operations share.
// SPDX-License-Identifier: Apache-2.0
#include "core/validation.hpp"

#include "core/error.hpp"

namespace gpudnn {

std::string shown_dims(const TensorGeometry& tensor) { return tensor.rank > 0 ? dims_text(tensor) : "unset"; }

Status require_described(const TensorGeometry& tensor, const char* name) {
  GPUDNN_REQUIRE(tensor.rank >= 1, GPUDNN_STATUS_BAD_PARAM, "%s was created but never set; set its type and dims first",
                 name);
  GPUDNN_REQUIRE(tensor.rank <= kMaxRank, GPUDNN_STATUS_BAD_PARAM, "%s has %d dims; at most %d are possible", name,
                 tensor.rank, kMaxRank);
  GPUDNN_REQUIRE(data_type_bits(tensor.type) > 0, GPUDNN_STATUS_BAD_PARAM, "%s has data type %d, which does not exist",
                 name, static_cast<int>(tensor.type));
  for (int i = 0; i < tensor.rank; ++i) {
    GPUDNN_REQUIRE(tensor.dims[i] >= 0, GPUDNN_STATUS_BAD_PARAM, "%s dim %d is %lld; dims must not be negative", name,
                   i, static_cast<long long>(tensor.dims[i]));
    GPUDNN_REQUIRE(tensor.strides[i] >= 0, GPUDNN_STATUS_BAD_PARAM,
                   "%s stride %d is %lld; strides must not be negative", name, i,
                   static_cast<long long>(tensor.strides[i]));
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status require_floating(const TensorGeometry& tensor, const char* name) {
  GPUDNN_TRY(require_described(tensor, name));
  GPUDNN_REQUIRE(is_floating(tensor.type), GPUDNN_STATUS_NOT_SUPPORTED_DATA_TYPE,
                 "%s has data type %s; this operation is built for f32, f64, f16 and bf16", name,
                 data_type_name(tensor.type));
  return GPUDNN_STATUS_SUCCESS;
}

Status require_same_type(const TensorGeometry& a, const char* a_name, const TensorGeometry& b, const char* b_name) {
  GPUDNN_REQUIRE(a.type == b.type, GPUDNN_STATUS_BAD_PARAM,
                 "%s data type %s differs from %s data type %s; they must be equal", b_name, data_type_name(b.type),
                 a_name, data_type_name(a.type));
  return GPUDNN_STATUS_SUCCESS;
}

Status require_same_dims(const TensorGeometry& a, const char* a_name, const TensorGeometry& b, const char* b_name) {
  GPUDNN_REQUIRE(same_dims(a, b), GPUDNN_STATUS_BAD_PARAM, "%s dims %s differ from %s dims %s; they must be equal",
                 b_name, shown_dims(b).c_str(), a_name, shown_dims(a).c_str());
  return GPUDNN_STATUS_SUCCESS;
}

Status require_dims_or_ones(const TensorGeometry& part, const char* part_name, const TensorGeometry& whole,
                            const char* whole_name) {
  GPUDNN_REQUIRE(part.rank == whole.rank, GPUDNN_STATUS_BAD_PARAM,
                 "%s dims %s are %d dims and %s dims %s are %d; they must be as many", part_name,
                 shown_dims(part).c_str(), part.rank, whole_name, shown_dims(whole).c_str(), whole.rank);
  for (int i = 0; i < whole.rank; ++i) {
    GPUDNN_REQUIRE(part.dims[i] == whole.dims[i] || part.dims[i] == 1, GPUDNN_STATUS_BAD_PARAM,
                   "%s dim %d is %lld (dims %s); it must be 1 or %lld as in %s dims %s", part_name, i,
                   static_cast<long long>(part.dims[i]), shown_dims(part).c_str(),
                   static_cast<long long>(whole.dims[i]), whole_name, shown_dims(whole).c_str());
  }
  return GPUDNN_STATUS_SUCCESS;
}

Status require_rank(const TensorGeometry& tensor, const char* name, int least, int most) {
  GPUDNN_REQUIRE(tensor.rank >= least && tensor.rank <= most, GPUDNN_STATUS_BAD_PARAM,
                 "%s dims %s are %d dims; this operation takes %d to %d", name, shown_dims(tensor).c_str(), tensor.rank,
                 least, most);
  return GPUDNN_STATUS_SUCCESS;
}

Status require_no_overlap(const TensorGeometry& tensor, const char* name) {
  GPUDNN_REQUIRE(!overlaps_itself(tensor), GPUDNN_STATUS_BAD_PARAM,
                 "%s is an output whose elements share addresses (dims %s, %s); each element needs a place of its own",
                 name, shown_dims(tensor).c_str(), layout_text(tensor).c_str());
  return GPUDNN_STATUS_SUCCESS;
}

Status require_enum(int value, int first, int last, const char* name, const char* type) {
  GPUDNN_REQUIRE(value >= first && value <= last, GPUDNN_STATUS_BAD_PARAM,
                 "%s is %d, which is no %s; legal are %d to %d", name, value, type, first, last);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn
