// Taking the entries of a const pack, each with its checks.
// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_ops/entries.hpp"

#include "core/validation.hpp"

namespace gpudnn::fused_ops {
namespace {

constexpr std::size_t kRoomAlignment = 256;

}  // namespace

Status require_desc(const Maker& m, int label, const TensorGeometry** tensor) {
  GPUDNN_REQUIRE(m.pack.set[label], GPUDNN_STATUS_BAD_PARAM, "%s was not set; the pattern %s needs it",
                 const_label_name(label), pattern_name(m.pack.ops));
  *tensor = &m.pack.tensors[label];
  return GPUDNN_STATUS_SUCCESS;
}

void note_pointer(Maker* m, int placeholder, gpudnnFusedOpsVariantParamLabel_t label, DataType type) {
  if (!m->is_promised(placeholder)) return;
  const auto element = static_cast<std::size_t>(data_type_bits(type)) / 8;
  m->plan->promised[label] = true;
  m->plan->promises.push_back(
      {label, m->pack.placeholders[placeholder] == GPUDNN_PTR_16B_ALIGNED ? std::size_t{16} : element});
}

Status take_tensor(Maker* m, int desc, int placeholder, gpudnnFusedOpsVariantParamLabel_t label, TensorGeometry* out) {
  const TensorGeometry* tensor = nullptr;
  GPUDNN_TRY(require_desc(*m, desc, &tensor));
  GPUDNN_REQUIRE(m->is_promised(placeholder), GPUDNN_STATUS_BAD_PARAM,
                 "%s is GPUDNN_PTR_NULL; the pattern %s needs the data", const_label_name(placeholder),
                 pattern_name(m->pack.ops));
  note_pointer(m, placeholder, label, tensor->type);
  *out = *tensor;
  return GPUDNN_STATUS_SUCCESS;
}

Status take_vector(Maker* m, int desc, int placeholder, gpudnnFusedOpsVariantParamLabel_t label, std::int64_t channels,
                   bool data_is_double, ChannelVector* out) {
  *out = {};
  if (!m->is_promised(placeholder)) return GPUDNN_STATUS_SUCCESS;
  const TensorGeometry* tensor = nullptr;
  GPUDNN_TRY(require_desc(*m, desc, &tensor));
  const char* const name = const_label_name(desc);
  GPUDNN_TRY(require_floating(*tensor, name));
  bool fits = tensor->rank >= 2 && tensor->dims[1] == channels;
  for (int i = 0; i < tensor->rank; ++i) fits = fits && (i == 1 || tensor->dims[i] == 1);
  GPUDNN_REQUIRE(fits, GPUDNN_STATUS_BAD_PARAM,
                 "%s has dims %s; it must have one value for each of the %lld channels: 1 x c x 1...", name,
                 shown_dims(*tensor).c_str(), static_cast<long long>(channels));
  GPUDNN_REQUIRE(data_is_double || tensor->type != GPUDNN_DATA_DOUBLE, GPUDNN_STATUS_NOT_SUPPORTED,
                 "%s is f64; with data of another type it must be f32, f16 or bf16", name);
  GPUDNN_REQUIRE(channels == 1 || tensor->strides[1] != 0, GPUDNN_STATUS_BAD_PARAM,
                 "%s has stride 0 between channels; each needs a place of its own", name);
  note_pointer(m, placeholder, label, tensor->type);
  *out = {true, tensor->type, tensor->strides[1]};
  return GPUDNN_STATUS_SUCCESS;
}

Status check_mode(const Maker& m) {
  GPUDNN_REQUIRE(m.pack.mode != GPUDNN_BATCHNORM_PER_ACTIVATION, GPUDNN_STATUS_NOT_SUPPORTED,
                 "GPUDNN_PARAM_BN_MODE is GPUDNN_BATCHNORM_PER_ACTIVATION; fused operations take SPATIAL or "
                 "SPATIAL_PERSISTENT");
  return GPUDNN_STATUS_SUCCESS;
}

void reserve(Plan* plan, std::size_t bytes, Room* room) {
  if (bytes == 0) return;
  plan->workspace = (plan->workspace + kRoomAlignment - 1) / kRoomAlignment * kRoomAlignment;
  *room = {plan->workspace, bytes};
  plan->workspace += bytes;
}

Status take_bits(Maker* m, const TensorGeometry& y) {
  if (!m->is_promised(GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER)) return GPUDNN_STATUS_SUCCESS;
  TensorGeometry bits;
  GPUDNN_TRY(take_tensor(m, GPUDNN_PARAM_ACTIVATION_BITMASK_DESC, GPUDNN_PARAM_ACTIVATION_BITMASK_PLACEHOLDER,
                         GPUDNN_PTR_ACTIVATION_BITMASK, &bits));
  constexpr const char* kName = "GPUDNN_PARAM_ACTIVATION_BITMASK_DESC";
  GPUDNN_TRY(require_described(bits, kName));
  GPUDNN_REQUIRE(bits.type == GPUDNN_DATA_INT32, GPUDNN_STATUS_NOT_SUPPORTED,
                 "%s is %s; the bits are kept in words of i32", kName, data_type_name(bits.type));
  GPUDNN_REQUIRE(is_dense(bits), GPUDNN_STATUS_NOT_SUPPORTED, "%s has gaps; its words must fill one block of memory",
                 kName);
  GPUDNN_REQUIRE(element_count(bits) >= bit_words(y), GPUDNN_STATUS_BAD_PARAM,
                 "%s has %lld words; the bits of dims %s need %lld: ceil(c / 32) for each place of each image", kName,
                 static_cast<long long>(element_count(bits)), shown_dims(y).c_str(),
                 static_cast<long long>(bit_words(y)));
  return GPUDNN_STATUS_SUCCESS;
}

Status check_pair(const Maker& m, int first, int second) {
  GPUDNN_REQUIRE(m.is_promised(first) == m.is_promised(second), GPUDNN_STATUS_BAD_PARAM,
                 "one of %s and %s is GPUDNN_PTR_NULL; they go together", const_label_name(first),
                 const_label_name(second));
  return GPUDNN_STATUS_SUCCESS;
}

Status require_promised(const Maker& m, int placeholder) {
  GPUDNN_REQUIRE(m.is_promised(placeholder), GPUDNN_STATUS_BAD_PARAM,
                 "%s is GPUDNN_PTR_NULL; the pattern %s needs the data", const_label_name(placeholder),
                 pattern_name(m.pack.ops));
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::fused_ops
