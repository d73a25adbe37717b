// The launcher of the Hopper matrix product: from a problem to the kernel's plan, whose tensor maps are made once and
// get their addresses at each launch.
// SPDX-License-Identifier: Apache-2.0
#include "ops/matmul/gemm_sm90.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <charconv>
#include <mutex>
#include <utility>

#include "core/math_type.hpp"
#include "core/problem_text.hpp"
#include "core/tensor_map_cuda.hpp"
#include "kernels/matmul/gemm_sm90.hpp"
#include "ops/matmul/element.hpp"
#include "ops/matmul/gemm_sm90_model.hpp"

namespace gpudnn::matmul {
namespace {

namespace k = kernels::matmul;
namespace sm90 = kernels::matmul::sm90;

constexpr const char* kMulticasts[] = {"none", "a", "b"};

// `row` and `depth` are the tensor's dimensions with the operand's rows (m or n) and with k.
sm90::Operand operand_of(const TensorGeometry& tensor, const TensorGeometry& d, int row, int depth) {
  const Batched t = batched(tensor);
  const Batched whole = batched(d);
  sm90::Operand o;
  o.data = cuda::placeholder_address();
  o.type = element_of(tensor.type);
  o.mn_major = tensor.strides[depth] != 1 && tensor.dims[depth] > 1;
  const int far = o.mn_major ? depth : row;
  o.row_stride = tensor.dims[far] > 1 ? tensor.strides[far] : 0;
  for (int i = 0; i < kMaxBatchDims; ++i) {
    o.batch_stride[i] = t.dims[i] > 1 ? t.strides[i] : 0;
    o.repeat[i] = whole.dims[i] / t.dims[i];
  }
  return o;
}

// Neighbours along one direction must lie side by side, those along the other apart: TMA knows no stride of 0.
bool is_contiguous(const TensorGeometry& tensor, int row, int depth) {
  const auto side_by_side = [&tensor](int i) { return tensor.strides[i] == 1 || tensor.dims[i] == 1; };
  const auto apart = [&tensor](int i) { return tensor.strides[i] > 0 || tensor.dims[i] == 1; };
  return side_by_side(depth) ? apart(row) : side_by_side(row) && apart(depth);
}

kernels::gemm::Matrix matrix_of(const TensorGeometry& tensor, bool swapped) {
  kernels::gemm::Matrix x;
  if (tensor.rank == 0) return x;
  const Batched t = batched(tensor);
  x.data = cuda::placeholder_address();
  x.type = element_of(tensor.type);
  // A stride of an extent of 1 may be anything.
  const auto stride = [&t](int i) { return t.dims[i] > 1 ? t.strides[i] : 0; };
  x.m_stride = stride(kMaxBatchDims + (swapped ? 1 : 0));
  const int n = kMaxBatchDims + (swapped ? 0 : 1);
  x.n_stride = t.dims[n] > 1 ? t.strides[n] : 1;
  for (int i = 0; i < kMaxBatchDims; ++i) x.batch_stride[i] = stride(i);
  return x;
}

sm90::Gemm gemm_of(const Problem& problem, bool swapped) {
  const int last = problem.d.rank - 1;
  const Batched d = batched(problem.d);
  sm90::Gemm gemm;
  gemm.m = rows(problem);
  gemm.n = columns(problem);
  gemm.k = depth(problem);
  gemm.batch[0] = d.dims[0];
  gemm.batch[1] = d.dims[1];
  gemm.fast_accumulation = problem.compute == GPUDNN_DATA_FAST_FLOAT_FOR_FP8;
  gemm.is_plain = problem.c.rank == 0 && problem.bias.rank == 0 && (problem.scales & (kScaleD | kAmax)) == 0 &&
                  problem.activation == kernels::gemm::Activation::identity;
  gemm.promotes = problem.a.type == GPUDNN_DATA_BFLOAT16 && problem.math == GPUDNN_FMA_MATH;
  gemm.a = operand_of(problem.a, problem.d, last - 1, last);
  gemm.b = operand_of(problem.b, problem.d, last, last - 1);
  if (swapped) {
    std::swap(gemm.m, gemm.n);
    std::swap(gemm.a, gemm.b);
  }
  gemm.epilogue.activation.mode = problem.activation;
  gemm.epilogue.c = matrix_of(problem.c, swapped);
  gemm.epilogue.bias = matrix_of(problem.bias, swapped);
  gemm.epilogue.d = matrix_of(problem.d, swapped);
  gemm.epilogue.beta = problem.c.rank > 0 ? 1.0f : 0.0f;
  return gemm;
}

std::string text_of(const sm90::GemmConfig& config) {
  return std::string(sm90::kTiles[config.tile].name) + " multicast=" + kMulticasts[static_cast<int>(config.multicast)] +
         " splits=" + std::to_string(config.splits) + " raster=" + std::to_string(config.raster);
}

bool read_number(std::string_view text, std::int32_t* value) {
  return std::from_chars(text.data(), text.data() + text.size(), *value).ec == std::errc{} && *value > 0;
}

bool config_from(const Config& text, sm90::GemmConfig* config) {
  ProblemWords words(text);
  const std::string_view name = words.next();
  for (config->tile = 0; config->tile < sm90::kTileCount; ++config->tile) {
    if (name == sm90::kTiles[config->tile].name) break;
  }
  const auto multicast = words.take("multicast=");
  const auto splits = words.take("splits=");
  const auto raster = words.take("raster=");
  if (config->tile == sm90::kTileCount || !multicast || !splits || !raster) return false;
  for (int i = 0; i < 3; ++i) {
    if (*multicast == kMulticasts[i]) config->multicast = static_cast<sm90::Multicast>(i);
  }
  return read_number(*splits, &config->splits) && read_number(*raster, &config->raster);
}

CUtensorMapDataType map_type(k::Element type, bool is_result) {
  switch (type) {
    case k::Element::f16:
      return CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
    case k::Element::bf16:
      return CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
    case k::Element::e4m3:
    case k::Element::e5m2:
      return CU_TENSOR_MAP_DATA_TYPE_UINT8;
    default:
      return is_result ? CU_TENSOR_MAP_DATA_TYPE_FLOAT32 : CU_TENSOR_MAP_DATA_TYPE_TFLOAT32;
  }
}

bool encode(const sm90::MapBoxes& boxes, bool is_result, tile::TensorMap* map) {
  TmaBoxes tma;
  tma.rank = 4;
  for (int i = 0; i < tma.rank; ++i) {
    tma.extent[i] = boxes.extent[i];
    tma.box[i] = boxes.box[i];
    if (i > 0) tma.step[i - 1] = boxes.step[i - 1];
  }
  return cuda::encode_boxes(tma,
                            {map_type(boxes.type, is_result), CU_TENSOR_MAP_SWIZZLE_128B,
                             is_result ? CU_TENSOR_MAP_L2_PROMOTION_NONE : CU_TENSOR_MAP_L2_PROMOTION_L2_256B},
                            map);
}

// Everything but the pointers.
struct Prepared {
  sm90::GemmPlan plan;
  std::int32_t scales = 0;
  bool swapped = false;    // the kernel makes the transpose of d: its a is our b
  bool is_encoded = true;  // else the plan was made for a device that was not there, and each launch makes the maps
};

bool encode_all(int device, sm90::GemmPlan* plan) {
  return cuda::with_context(device, [plan] {
    return encode(plan->a, false, &plan->params.a) && encode(plan->b, false, &plan->params.b) &&
           (!plan->params.stores_boxes || encode(plan->d, true, &plan->params.d));
  });
}

// Null if a tile takes the product, else why the first one does not.
const char* reason_of_all_tiles(const sm90::Gemm& gemm) {
  const char* const why = sm90::unsupported_reason(gemm, {});
  for (int tile = 1; why != nullptr && tile < sm90::kTileCount; ++tile) {
    if (sm90::unsupported_reason(gemm, {.tile = tile}) == nullptr) return nullptr;
  }
  return why;
}

// Whether the vectors of the plan stand at this address.
void set_address(kernels::gemm::Matrix* matrix, const void* address) {
  matrix->data = const_cast<void*>(address);  // NOLINT: c and bias are only read
  matrix->vectors = matrix->vectors && reinterpret_cast<std::uintptr_t>(address) % kMaxAlignment == 0;
}

}  // namespace

Support gemm_sm90_supports(const Problem& problem, const Device& device) {
  if (problem.math == GPUDNN_FMA_MATH) return Support::no("the math type rules out tensor cores");
  if (problem.a.type == GPUDNN_DATA_FLOAT && !allows_tf32(problem.math)) {
    return Support::no("floats need a math type that allows TF32");
  }
  return gemm_sm90_takes(problem, device);
}

Support gemm_sm90_takes(const Problem& problem, const Device& device) {
  if (device.compute_capability() != 90) return Support::no("it needs compute capability 9.0");
  if (problem.overrides != 0) return Support::no("it takes no extents from device memory");
  // Nor does it matter to 16 bits, but the greatest magnitude is a float.
  if (problem.activation == Activation::tanh && (problem.scales & kAmax) != 0) {
    return Support::no("its tanh is off by 2^-12.5 near 1, which the greatest magnitude shows");
  }
  const int last = problem.d.rank - 1;
  if (!is_contiguous(problem.a, last - 1, last) || !is_contiguous(problem.b, last, last - 1)) {
    return Support::no("an operand has neither contiguous rows nor columns, or repeats them");
  }
  const sm90::Gemm gemm = gemm_of(problem, is_columnwise(problem.d));
  if (const char* const why = reason_of_all_tiles(gemm)) return Support::no(why);
  return cuda::makes_tensor_maps(device) ? Support::yes() : Support::no("the driver does not make tensor maps");
}

void gemm_sm90_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  constexpr int kMaxConfigs = 24;
  const sm90::Gemm gemm = gemm_of(problem, is_columnwise(problem.d));
  sm90::GemmConfig configs[kMaxConfigs];
  const int count = sm90::gemm_sm90_candidates(gemm, device.rates, configs, kMaxConfigs);
  for (int i = 0; i < count; ++i) {
    candidates->push_back({text_of(configs[i]), sm90::gemm_sm90_seconds(gemm, configs[i], device.rates)});
  }
}

bool gemm_sm90_takes_addresses(const Problem&, const Config& text, const Alignment& alignment) {
  sm90::GemmConfig config;
  return std::min(alignment.a, alignment.b) >= kMaxAlignment &&
         (alignment.d >= kMaxAlignment ||
          (config_from(text, &config) && !sm90::is_plain_tile(sm90::kTiles[config.tile])));
}

std::size_t gemm_sm90_workspace(const Problem&, const Config&, const Device&) { return 0; }

std::shared_ptr<const void> gemm_sm90_prepare(const Problem& problem, const Config& text, const Device& device) {
  sm90::GemmConfig config;
  if (!config_from(text, &config)) return nullptr;
  auto prepared = std::make_shared<Prepared>();
  prepared->swapped = is_columnwise(problem.d);
  const sm90::Gemm gemm = gemm_of(problem, prepared->swapped);
  if (sm90::unsupported_reason(gemm, config) != nullptr) return nullptr;
  prepared->plan = sm90::plan_gemm_sm90(gemm, config, device.multiprocessors);
  prepared->scales = problem.scales;
  prepared->is_encoded = device.is_present();
  const bool fails = prepared->is_encoded && !encode_all(device.ordinal, &prepared->plan);
  return fails ? nullptr : prepared;
}

Status gemm_sm90_launch(const LaunchSite& site, const void* prepared_plan, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(prepared_plan);
  sm90::GemmPlan plan = prepared.plan;
  const bool exchanged = prepared.swapped != plan.swap_ab;
  const void* const a = exchanged ? args.b : args.a;
  const void* const b = exchanged ? args.a : args.b;
  if (reinterpret_cast<std::uintptr_t>(args.d) % kMaxAlignment != 0) plan.params.stores_boxes = false;
  const bool has_maps = prepared.is_encoded || encode_all(site.device.ordinal, &plan);
  const bool addressed = has_maps && cuda::with_context(site.device.ordinal, [&] {
                           return cuda::replace_address(&plan.params.a, a) &&
                                  cuda::replace_address(&plan.params.b, b) &&
                                  (!plan.params.stores_boxes || cuda::replace_address(&plan.params.d, args.d));
                         });
  GPUDNN_REQUIRE(addressed, GPUDNN_STATUS_INTERNAL_ERROR,
                 "the driver refused an address of a tensor map; a, b and d must be device memory");
  kernels::gemm::Epilogue& e = plan.params.epilogue;
  const bool has_c = e.c.data != nullptr && args.beta != 0;
  set_address(&e.c, has_c ? args.c : nullptr);
  set_address(&e.bias, e.bias.data != nullptr ? args.bias : nullptr);
  set_address(&e.d, args.d);
  e.alpha = static_cast<float>(args.alpha);
  e.beta = has_c ? static_cast<float>(args.beta) : 0.0f;
  e.descale_a = (prepared.scales & kDescaleA) != 0 ? args.descale_a : nullptr;
  e.descale_b = (prepared.scales & kDescaleB) != 0 ? args.descale_b : nullptr;
  e.scale_d = (prepared.scales & kScaleD) != 0 ? args.scale_d : nullptr;
  e.amax = (prepared.scales & kAmax) != 0 ? args.amax : nullptr;
  e.activation = kernels::gemm::activation_args<float>(e.activation.mode, args.activation);
  if (e.amax != nullptr) (void)cudaMemsetAsync(e.amax, 0, sizeof(float), site.stream);
  sm90::launch_gemm_sm90(plan, site.stream);
  return cuda::launch_status("gemm_sm90");
}

}  // namespace gpudnn::matmul
