// Taking the entries of a const pack, each with its checks.
// SPDX-License-Identifier: Apache-2.0
#include "ops/fused_ops/entries.hpp"

#include "core/layout_words.hpp"
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

void note_pointer(Maker* m, const Entry& entry, DataType type) {
  if (!m->is_promised(entry.placeholder)) return;
  const auto element = static_cast<std::size_t>(data_type_bits(type)) / 8;
  m->plan->promised[entry.label] = true;
  m->plan->promises.push_back(
      {entry.label, m->pack.placeholders[entry.placeholder] == GPUDNN_PTR_16B_ALIGNED ? std::size_t{16} : element});
}

Status take_tensor(Maker* m, const Entry& entry, TensorGeometry* out) {
  const TensorGeometry* tensor = nullptr;
  GPUDNN_TRY(require_desc(*m, entry.desc, &tensor));
  GPUDNN_TRY(require_promised(*m, entry.placeholder));
  note_pointer(m, entry, tensor->type);
  *out = *tensor;
  return GPUDNN_STATUS_SUCCESS;
}

Status take_vector(Maker* m, const Entry& entry, std::int64_t channels, bool data_is_double, ChannelVector* out) {
  *out = {};
  if (!m->is_promised(entry.placeholder)) return GPUDNN_STATUS_SUCCESS;
  const TensorGeometry* tensor = nullptr;
  GPUDNN_TRY(require_desc(*m, entry.desc, &tensor));
  const char* const name = const_label_name(entry.desc);
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
  note_pointer(m, entry, tensor->type);
  *out = {true, tensor->type, tensor->strides[1]};
  return GPUDNN_STATUS_SUCCESS;
}

Status take_scale_and_bias(Maker* m, const TensorGeometry& y) {
  const bool wide = y.type == GPUDNN_DATA_DOUBLE;
  ChannelVector* const vectors = m->plan->affine.vectors;
  GPUDNN_TRY(take_vector(m, kAffineEntries[kScale], y.dims[1], wide, &vectors[kScale]));
  return take_vector(m, kAffineEntries[kBias], y.dims[1], wide, &vectors[kBias]);
}

Status take_addend(Maker* m, const TensorGeometry& y) {
  if (!m->is_promised(kZ.placeholder)) {
    const bool scaled =
        m->is_promised(kAffineEntries[kZScale].placeholder) || m->is_promised(kAffineEntries[kZBias].placeholder);
    GPUDNN_REQUIRE(!scaled, GPUDNN_STATUS_BAD_PARAM,
                   "GPUDNN_PARAM_ZDATA_PLACEHOLDER is GPUDNN_PTR_NULL, but z has a scale or a bias; promise z too");
    return GPUDNN_STATUS_SUCCESS;
  }
  const bool wide = y.type == GPUDNN_DATA_DOUBLE;
  AffineProblem& affine = m->plan->affine;
  GPUDNN_TRY(take_tensor(m, kZ, &affine.z));
  GPUDNN_TRY(take_vector(m, kAffineEntries[kZScale], y.dims[1], wide, &affine.vectors[kZScale]));
  return take_vector(m, kAffineEntries[kZBias], y.dims[1], wide, &affine.vectors[kZBias]);
}

void take_activation(Maker* m) {
  AffineProblem& affine = m->plan->affine;
  affine.mode = m->pack.activation;
  affine.nan = m->pack.nan;
  affine.coef = m->pack.coef;
}

TensorGeometry dense_like(TensorGeometry tensor) {
  if (!is_dense(tensor) || overlaps_itself(tensor)) set_packed_strides(&tensor, implied_format(tensor));
  return tensor;
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
  if (!m->is_promised(kBits.placeholder)) return GPUDNN_STATUS_SUCCESS;
  TensorGeometry bits;
  GPUDNN_TRY(take_tensor(m, kBits, &bits));
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
