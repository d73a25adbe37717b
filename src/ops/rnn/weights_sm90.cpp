// The launcher of the gradients of weights on Hopper: from matrices to the kernel's list with its tensor maps.
// SPDX-License-Identifier: Apache-2.0
#include "kernels/rnn/weights_sm90.hpp"

#include <algorithm>
#include <memory>

#include "core/handle.hpp"
#include "core/math_type.hpp"
#include "core/tensor_map_cuda.hpp"
#include "kernels/rnn/weights_float_sm90.hpp"
#include "ops/element_type.hpp"
#include "ops/rnn/cuda_engines.hpp"

namespace gpudnn::rnn {
namespace {

using kernels::RnnWeights;

constexpr std::int64_t kBytes = 2;       // of an element
constexpr std::int64_t kAlignment = 16;  // of matrices and their columns, as TMA wants it
constexpr std::int64_t kBox = kernels::kRnnWeightsBox;
constexpr std::int32_t kBeyond = 1 << 29;  // a row that no matrix has

// The maps of one launch: a matrix that several products read has one.
class Maps {
 public:
  explicit Maps(const Site& site, RnnWeights* weights) : site_(site), weights_(weights) {}

  // False where the driver refuses.
  bool find(const WeightRows& of, std::int32_t* map) {
    const Known wanted = {of.at, of.row_stride, of.width, of.rows};
    for (*map = 0; *map < count_; ++*map) {
      if (known_[*map] == wanted) return true;
    }
    known_[count_] = wanted;
    return encode(wanted, &weights_->map[count_++]);
  }
  [[nodiscard]] int left() const { return kernels::kRnnWeightsMaps - count_; }

 private:
  struct Known {
    const void* at;
    std::int64_t row_stride, width, rows;
    bool operator==(const Known&) const = default;
  };
  // Of the maps that the handle keeps.
  struct Key {
    std::int64_t tag = 0x726e6e6d6170;  // of this operation
    std::int64_t type, row_stride, width, rows;
  };
  bool encode(const Known& of, tile::TensorMap* map) const {
    const Key key = {.type = site_.type, .row_stride = of.row_stride, .width = of.width, .rows = of.rows};
    std::shared_ptr<const tile::TensorMap> kept = site_.handle->plans.find<tile::TensorMap>(key);
    return cuda::with_context(site_.launch.device.ordinal, [&] {
      if (kept == nullptr) {
        const auto made = std::make_shared<tile::TensorMap>();
        if (!encode_placeless(of, made.get())) return false;
        kept = site_.handle->plans.keep<tile::TensorMap>(key, made);
      }
      *map = *kept;
      return cuda::replace_address(map, of.at);
    });
  }
  bool encode_placeless(const Known& of, tile::TensorMap* map) const {
    TmaBoxes boxes;
    boxes.rank = 4;
    boxes.extent[0] = of.width, boxes.extent[1] = of.rows;
    boxes.step[0] = of.row_stride * kBytes;
    boxes.box[0] = boxes.box[1] = static_cast<std::int32_t>(kBox);
    return cuda::encode_boxes(boxes, {cuda::map_type(element_type(site_.type)), CU_TENSOR_MAP_SWIZZLE_128B}, map);
  }

  const Site& site_;
  RnnWeights* weights_;
  Known known_[kernels::kRnnWeightsMaps] = {};
  int count_ = 0;
};

std::int32_t number(std::int64_t x) { return static_cast<std::int32_t>(x); }

// `rows`: of a. Rows of a that a part of b lacks are needed for their sums alone.
bool place_part(const WeightRows& from, std::int64_t rows, bool sums, Maps* maps, kernels::RnnWeightsPart* part) {
  if (from.rows == 0 || (from.at == nullptr && !sums)) return true;
  *part = kernels::rnn_weights_part(rows, from.row_of_a, from.rows);
  if (from.at == nullptr) part->shift = kBeyond;
  return from.at == nullptr || maps->find(from, &part->map);
}

bool place(const WeightProducts& from, std::int64_t rows, Maps* maps, kernels::RnnWeightsGroup* group) {
  if (!maps->find(from.a, &group->map)) return false;
  const std::int64_t skipped = from.column % (kAlignment / kBytes);
  const auto before = [&](void* at, std::int64_t elements) {
    return at == nullptr ? nullptr : static_cast<char*>(at) - elements * kBytes;
  };
  group->column = number(from.column - skipped);
  group->m = number(from.m + skipped);
  group->skipped = number(skipped);
  group->bias = before(from.bias, skipped);
  group->bias2 = before(from.bias2, skipped);
  group->bias2_m = number(from.bias2_m + skipped);
  for (int i = 0; i < 2; ++i) {
    const WeightProduct& product = from.product[i];
    if (product.n == 0) continue;
    kernels::RnnWeightsMatrix& matrix = group->matrix[i];
    matrix.d = before(product.d, skipped * product.n);
    matrix.n = number(product.n);
    const bool sums = i == 0 && (from.bias != nullptr || from.bias2 != nullptr);
    for (int p = 0; p < 2; ++p) {
      if (!place_part(product.b[p], rows, sums, maps, &matrix.part[p])) return false;
    }
    if (matrix.part[0].k_tiles + matrix.part[1].k_tiles == 0) {  // the kernel multiplies one at least
      matrix.part[0] = {.map = group->map, .k_tiles = 1, .shift = kBeyond, .shift_of_a = kBeyond};
    }
  }
  return true;
}

bool is_of_vectors(const void* at, std::int64_t row_stride) {
  return reinterpret_cast<std::uintptr_t>(at) % 16 == 0 && row_stride % 4 == 0;
}
kernels::RnnFloatGroup float_group(const WeightProducts& from) {
  kernels::RnnFloatGroup group;
  group.a = static_cast<const float*>(from.a.at) + from.column;
  group.row_stride = number(from.a.row_stride);
  group.vectors = is_of_vectors(group.a, from.a.row_stride) ? 1 : 0;
  group.m = number(from.m);
  group.bias = static_cast<float*>(from.bias);
  group.bias2 = static_cast<float*>(from.bias2);
  group.bias2_m = number(from.bias2_m);
  for (int i = 0; i < 2; ++i) {
    const WeightProduct& product = from.product[i];
    kernels::RnnFloatMatrix& matrix = group.matrix[i];
    matrix.d = static_cast<float*>(product.d);
    matrix.n = number(product.n);
    for (int p = 0; p < 2; ++p) {
      const WeightRows& b = product.b[p];
      matrix.part[p] = {static_cast<const float*>(b.at), number(b.row_stride), number(b.rows), number(b.row_of_a),
                        is_of_vectors(b.at, b.row_stride) ? 1 : 0};
    }
  }
  return group;
}
Status float_weights(const Site& site, std::span<const WeightProducts> list, std::span<float> partials, bool adds) {
  while (!list.empty()) {
    kernels::RnnFloatWeights weights;
    weights.adds = adds ? 1 : 0;
    weights.partials = partials.data();
    weights.room = static_cast<std::int64_t>(partials.size());
    const std::size_t count = std::min<std::size_t>(list.size(), kernels::kRnnFloatGroups);
    for (const WeightProducts& products : list.first(count)) weights.group[weights.groups++] = float_group(products);
    list = list.subspan(count);
    kernels::launch_rnn_weights_float(weights, site.launch.device.multiprocessors, site.launch.stream);
  }
  return cuda::launch_status("rnn_weights_float");
}

}  // namespace

bool takes_weights_sm90(const Site& site, double multiplications, bool in_slices) {
  // With more of them the matrix product's engines for floats are faster, though they are a launch for each matrix.
  constexpr double kFew = 4e8;
  constexpr double kFewOfSlices = 8e8;
  constexpr double kFewOfTf32 = 1e8;
  if (site.launch.device.compute_capability() != 90) return false;
  if (site.type == GPUDNN_DATA_FLOAT) {
    return multiplications <= (in_slices ? kFewOfSlices : allows_tf32(site.math) ? kFewOfTf32 : kFew);
  }
  return site.math != GPUDNN_FMA_MATH && (site.type == GPUDNN_DATA_HALF || site.type == GPUDNN_DATA_BFLOAT16) &&
         cuda::makes_tensor_maps(site.launch.device);
}

Status weights_sm90(const Site& site, std::span<const WeightProducts> list, std::int64_t rows,
                    std::span<float> partials, bool adds) {
  if (site.type == GPUDNN_DATA_FLOAT) return float_weights(site, list, partials, adds);
  constexpr int kMapsOfGroup = 5;
  const bool half = site.type == GPUDNN_DATA_HALF;
  // As many launches as the list needs, of about as many groups each.
  constexpr std::size_t kMost = kernels::kRnnWeightsGroups;
  const std::size_t launches = (list.size() + kMost - 1) / kMost;
  const std::size_t wanted = launches > 0 ? (list.size() + launches - 1) / launches : 0;
  while (!list.empty()) {
    RnnWeights weights;
    weights.adds = adds;
    Maps maps(site, &weights);
    std::size_t taken = 0;
    for (; taken < std::min(list.size(), wanted) && maps.left() >= kMapsOfGroup; ++taken) {
      GPUDNN_REQUIRE(place(list[taken], rows, &maps, &weights.group[taken]), GPUDNN_STATUS_INTERNAL_ERROR,
                     "the driver refused a tensor map; x, y, hx and the spaces must be device memory");
    }
    weights.groups = number(static_cast<std::int64_t>(taken));
    list = list.subspan(taken);
    kernels::plan_rnn_weights(&weights, site.launch.device.multiprocessors);
    (half ? kernels::launch_rnn_weights_f16 : kernels::launch_rnn_weights_bf16)(weights, site.launch.stream);
  }
  return cuda::launch_status("rnn_weights_sm90");
}

}  // namespace gpudnn::rnn
