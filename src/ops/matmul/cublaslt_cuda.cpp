// Matrix products by cuBLASLt.
//
// It thinks in columns: the transpose of d, n x m, is the product of the transposes of b and a. So its A is our b and
// its B our a, or, where d itself lies in columns, the other way round.
// SPDX-License-Identifier: Apache-2.0
#include "core/cublaslt_cuda.hpp"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "core/float8.hpp"
#include "core/math_type.hpp"
#include "ops/matmul/cublaslt.hpp"
#include "ops/matmul/footprint.hpp"
#include "ops/matmul/gemm_padded_sm90.hpp"

namespace gpudnn::matmul {
namespace {

namespace lt = cuda::cublaslt;

constexpr std::size_t kMaxWorkspace = std::size_t{32} << 20;
// Its model promises this share of the tensor cores' rate, below what it reaches: see cublaslt.hpp.
constexpr double kEfficiency = 0.45;
constexpr double kOfOddRows = 0.17;  // as measured: 99 us for 700 x 6000 x 1500 in f16

std::int32_t type_of(DataType type) {
  switch (type) {
    case GPUDNN_DATA_DOUBLE:
      return CUDA_R_64F;
    case GPUDNN_DATA_HALF:
      return CUDA_R_16F;
    case GPUDNN_DATA_BFLOAT16:
      return CUDA_R_16BF;
    case GPUDNN_DATA_FP8_E4M3:
      return CUDA_R_8F_E4M3;
    case GPUDNN_DATA_FP8_E5M2:
      return CUDA_R_8F_E5M2;
    case GPUDNN_DATA_INT8:
      return CUDA_R_8I;
    case GPUDNN_DATA_INT32:
      return CUDA_R_32I;
    default:
      return CUDA_R_32F;
  }
}

// A matrix as it lies: columns of `rows` neighbours, `step` apart, for each batch.
struct Columns {
  DataType type = GPUDNN_DATA_FLOAT;
  std::int64_t rows = 0;
  std::int64_t columns = 0;
  std::int64_t step = 0;
  std::int64_t batch_stride = 0;
  bool transposed = false;  // the product wants it the other way round
};

// With `near` the dimension whose neighbours should lie side by side and `far` the other; false if the tensor is not
// so.
bool as_columns(const TensorGeometry& t, const TensorGeometry& d, int near, int far, Columns* x) {
  x->type = t.type;
  const auto contiguous = [&t](int i) { return t.strides[i] == 1 || t.dims[i] == 1; };
  const auto step = [&t](int i, int j) { return t.dims[j] > 1 ? t.strides[j] : t.dims[i]; };
  x->transposed = !contiguous(near) || step(near, far) < t.dims[near];
  if (x->transposed) std::swap(near, far);
  x->rows = t.dims[near];
  x->columns = t.dims[far];
  x->step = step(near, far);
  if (!contiguous(near) || x->step < x->rows) return false;
  // One step over all batches of d: those of the inner dimension, and of the outer one after them; or none.
  const Batched b = batched(t);
  const Batched whole = batched(d);
  const std::int64_t inner = whole.dims[1] > 1 ? (b.dims[1] > 1 ? b.strides[1] : 0) : -1;
  const std::int64_t outer = whole.dims[0] > 1 ? (b.dims[0] > 1 ? b.strides[0] : 0) : -1;
  if ((b.dims[0] != 1 && b.dims[0] != whole.dims[0]) || (b.dims[1] != 1 && b.dims[1] != whole.dims[1])) return false;
  if (inner >= 0 && outer >= 0 && outer != inner * whole.dims[1]) return false;
  x->batch_stride = inner >= 0 ? inner : outer >= 0 ? outer : 0;
  return true;
}

// The product in its words. a and b are its operands, of which d's columns run along the first one's rows.
struct Product {
  Columns a, b, c, d;
  std::int64_t batches = 1;
  bool swapped = false;  // its a is our a
};

bool product_of(const Problem& p, Product* x) {
  const int m = p.d.rank - 2;
  const int n = p.d.rank - 1;
  x->swapped = is_columnwise(p.d);
  x->batches = batches(p);
  const int near = x->swapped ? m : n;
  const int far = x->swapped ? n : m;
  const TensorGeometry& first = x->swapped ? p.a : p.b;
  const TensorGeometry& second = x->swapped ? p.b : p.a;
  const int first_row = x->swapped ? m : n;  // the dimension of `first` that is d's `near`
  const int second_row = x->swapped ? n : m;
  const auto other = [m, n](int i) { return i == m ? n : m; };
  if (!as_columns(p.d, p.d, near, far, &x->d) || x->d.transposed) return false;
  if (!as_columns(first, p.d, first_row, other(first_row), &x->a)) return false;
  if (!as_columns(second, p.d, other(second_row), second_row, &x->b)) return false;
  if (p.c.rank == 0) return x->c = x->d, true;
  return p.c.type == p.d.type && as_columns(p.c, p.d, near, far, &x->c) && !x->c.transposed;
}

// A vector along n of d's type, the same for each batch.
bool takes_bias(const Problem& p, const Product& x) {
  if (p.bias.rank == 0) return true;
  if (x.swapped || p.bias.type != p.d.type || is_float8(p.d.type) || p.a.type == GPUDNN_DATA_DOUBLE) return false;
  for (int i = 0; i < p.bias.rank - 1; ++i) {
    if (p.bias.dims[i] > 1 && p.bias.strides[i] != 0) return false;
  }
  return p.bias.strides[p.bias.rank - 1] == 1;
}

const char* unsupported_reason(const Problem& p) {
  if (p.overrides != 0) return "it takes no extents from device memory";
  if (element_count(p.a) == 0 || element_count(p.b) == 0) return "there is nothing to sum over";
  // Its GELU is off by more than the library's bound (1e-4 of small results).
  if (p.activation != Activation::identity) return "it has no activation that is as exact";
  if (p.a.type == GPUDNN_DATA_FLOAT && p.d.type != GPUDNN_DATA_FLOAT) return "products of floats are floats";
  if (p.math == GPUDNN_FMA_MATH && p.a.type != GPUDNN_DATA_FLOAT) return "the math type rules out tensor cores";
  if (p.c.rank > 0 && p.d.type != GPUDNN_DATA_FLOAT && p.d.type != GPUDNN_DATA_DOUBLE) {
    return "it may round sums to d's type before it adds c";
  }
  const bool eight_bits = is_float8(p.a.type);
  if (p.scales != 0 && !eight_bits) return "it scales 8-bit operands alone";
  if ((p.scales & (kScaleD | kAmax)) != 0 && !is_float8(p.d.type)) return "it scales 8-bit results alone";
  Product x;
  if (!product_of(p, &x)) return "its matrices are columns with one step between them and between batches";
  if (eight_bits && !(x.a.transposed && !x.b.transposed)) return "8-bit operands must be contiguous along k";
  if (p.a.type == GPUDNN_DATA_INT8) return "it scales sums of i8 by whole numbers alone, and alpha may be any";
  return takes_bias(p, x) ? nullptr : "it adds one vector along n, of the type of d";
}

// Descriptors of a product, and what its heuristic says of them.
class Descriptors {
 public:
  Descriptors(const lt::Library& library, const Problem& problem) : library_(library) {
    Product x;
    if (!product_of(problem, &x)) return;
    const std::int32_t compute = problem.a.type == GPUDNN_DATA_DOUBLE                               ? lt::kF64
                                 : problem.a.type == GPUDNN_DATA_FLOAT && allows_tf32(problem.math) ? lt::kF32AsTf32
                                                                                                    : lt::kF32;
    const std::int32_t scale_type = compute == lt::kF64 ? CUDA_R_64F : CUDA_R_32F;
    ok_ = library_.desc_create(&desc, compute, scale_type) == 0;
    set(lt::kTransposeA, std::int32_t{x.a.transposed ? 1 : 0});
    set(lt::kTransposeB, std::int32_t{x.b.transposed ? 1 : 0});
    const bool bias = problem.bias.rank > 0;
    set(lt::kEpilogue, std::int32_t{bias ? lt::kBias : lt::kPlain});
    if (bias) set(lt::kBiasType, type_of(problem.bias.type));
    if (problem.compute == GPUDNN_DATA_FAST_FLOAT_FOR_FP8) set(lt::kFastAccumulation, std::int8_t{1});
    make(&a, x.a, x.batches), make(&b, x.b, x.batches), make(&c, x.c, x.batches), make(&d, x.d, x.batches);
  }
  ~Descriptors() {
    for (const lt::Layout layout : {a, b, c, d}) {
      if (layout != nullptr) (void)library_.layout_destroy(layout);
    }
    if (desc != nullptr) (void)library_.desc_destroy(desc);
  }
  Descriptors(const Descriptors&) = delete;
  Descriptors& operator=(const Descriptors&) = delete;

  template <class T>
  void set(std::int32_t attribute, const T& value) {
    ok_ = ok_ && library_.desc_set(desc, attribute, &value, sizeof value) == 0;
  }
  [[nodiscard]] bool ok() const { return ok_; }

  // The heuristic's proposal of that number, within the workspace that we allow; false if it has none.
  [[nodiscard]] bool propose(int device, int number, lt::HeuristicResult* result) const {
    lt::Preference preference = nullptr;
    const lt::Handle handle = lt::handle_of(device);
    if (!ok_ || handle == nullptr || library_.preference_create(&preference) != 0) return false;
    const std::uint64_t most = kMaxWorkspace;
    lt::HeuristicResult results[kCublasltAlgorithms];
    int count = 0;
    const bool answered =
        library_.preference_set(preference, lt::kMaxWorkspace, &most, sizeof most) == 0 &&
        library_.heuristic(handle, desc, a, b, c, d, preference, kCublasltAlgorithms, results, &count) == 0;
    (void)library_.preference_destroy(preference);
    if (!answered || number >= count || results[number].state != 0) return false;
    *result = results[number];
    return true;
  }

  lt::Desc desc = nullptr;
  lt::Layout a = nullptr, b = nullptr, c = nullptr, d = nullptr;

 private:
  void make(lt::Layout* layout, const Columns& x, std::int64_t batches) {
    const auto rows = static_cast<std::uint64_t>(x.rows);
    const auto columns = static_cast<std::uint64_t>(x.columns);
    ok_ = ok_ && library_.layout_create(layout, type_of(x.type), rows, columns, x.step) == 0;
    if (batches == 1) return;
    const auto count = static_cast<std::int32_t>(batches);
    ok_ = ok_ && library_.layout_set(*layout, lt::kBatchCount, &count, sizeof count) == 0 &&
          library_.layout_set(*layout, lt::kBatchStride, &x.batch_stride, sizeof x.batch_stride) == 0;
  }

  const lt::Library& library_;
  bool ok_ = false;
};

struct Prepared {
  Prepared(const lt::Library& loaded, const Problem& p) : library(loaded), problem(p), descriptors(loaded, p) {}

  const lt::Library& library;
  Problem problem;
  // Pointers of the epilogue are part of the descriptor, so calls with some take turns.
  mutable std::mutex mutex;
  mutable Descriptors descriptors;
  lt::HeuristicResult proposal = {};
  bool swapped = false;
};

int number_of(const Config& config) {
  return config.size() == 5 && config.starts_with("algo") ? config[4] - '0' : kCublasltAlgorithms;
}

void set_pointers(const Prepared& prepared, const Args& args) {
  const Problem& p = prepared.problem;
  Descriptors& x = prepared.descriptors;
  const bool swapped = prepared.swapped;
  if (p.bias.rank > 0) x.set(lt::kBiasPointer, args.bias);
  if ((p.scales & kDescaleA) != 0) x.set(swapped ? lt::kScalePointerA : lt::kScalePointerB, args.descale_a);
  if ((p.scales & kDescaleB) != 0) x.set(swapped ? lt::kScalePointerB : lt::kScalePointerA, args.descale_b);
  if ((p.scales & kScaleD) != 0) x.set(lt::kScalePointerD, args.scale_d);
  if ((p.scales & kAmax) != 0) x.set(lt::kAmaxPointerD, args.amax);
}

}  // namespace

const char* cublaslt_missing() {
  const char* why = nullptr;
  (void)lt::library(&why);
  return why;
}

Support cublaslt_supports(const Problem& problem, const Device& device) {
  if (!device.is_present()) return Support::no("cuBLASLt chooses on the device, which is not there");
  if (const char* const why = unsupported_reason(problem)) return Support::no(why);
  if (const char* const why = cublaslt_missing()) return Support::no(why);
  return Support::yes();
}

void cublaslt_candidates(const Problem& problem, const Device& device, std::vector<Candidate>* candidates) {
  const Unit unit = problem.a.type == GPUDNN_DATA_DOUBLE                                           ? Unit::fma_f64
                    : problem.a.type == GPUDNN_DATA_FLOAT && !allows_tf32(problem.math)            ? Unit::fma_f32
                    : problem.a.type == GPUDNN_DATA_FLOAT                                          ? Unit::tensor_tf32
                    : problem.a.type == GPUDNN_DATA_HALF || problem.a.type == GPUDNN_DATA_BFLOAT16 ? Unit::tensor_f16
                                                                                                   : Unit::tensor_8bit;
  Footprint f = footprint_of_tiles(unit, device.rates, std::max(device.multiprocessors, 1), 1, flops(problem), 0, 0);
  f.dram_bytes = 2 * bytes_of_tensors(problem);
  f.efficiency = has_odd_rows(problem) ? kOfOddRows : kEfficiency;
  f.start_seconds = 2 * device.rates.launch_seconds;
  candidates->push_back({"algo0", estimate(f, device.rates)});
}

std::size_t cublaslt_workspace(const Problem& problem, const Config& config, const Device& device) {
  const lt::Library* const library = lt::library(nullptr);
  lt::HeuristicResult result = {};
  const cuda::DeviceScope scope(device);
  if (library == nullptr || !Descriptors(*library, problem).propose(device.ordinal, number_of(config), &result))
    return 0;
  return result.workspace_bytes;
}

std::shared_ptr<const void> cublaslt_prepare(const Problem& problem, const Config& config, const Device& device) {
  const lt::Library* const library = lt::library(nullptr);
  if (library == nullptr) return nullptr;
  auto prepared = std::make_shared<Prepared>(*library, problem);
  if (!prepared->descriptors.propose(device.ordinal, number_of(config), &prepared->proposal)) return nullptr;
  prepared->swapped = is_columnwise(problem.d);
  return prepared;
}

Status cublaslt_launch(const LaunchSite& site, const void* prepared_plan, const Args& args) {
  const auto& prepared = *static_cast<const Prepared*>(prepared_plan);
  Descriptors& x = prepared.descriptors;
  const bool has_c = prepared.problem.c.rank > 0 && args.beta != 0;
  // Of the product's scale type.
  const double wide[] = {args.alpha, has_c ? args.beta : 0};
  const float narrow[] = {static_cast<float>(wide[0]), static_cast<float>(wide[1])};
  const bool is_wide = prepared.problem.a.type == GPUDNN_DATA_DOUBLE;
  const auto scalar = [&](int i) { return is_wide ? static_cast<const void*>(&wide[i]) : &narrow[i]; };
  std::unique_lock<std::mutex> lock;
  if (prepared.problem.bias.rank > 0 || prepared.problem.scales != 0) {
    lock = std::unique_lock(prepared.mutex);
    set_pointers(prepared, args);
  }
  const void* const a = prepared.swapped ? args.a : args.b;
  const void* const b = prepared.swapped ? args.b : args.a;
  const int status =
      prepared.library.matmul(lt::handle_of(site.device.ordinal), x.desc, scalar(0), a, x.a, b, x.b, scalar(1),
                              has_c ? args.c : args.d, has_c ? x.c : x.d, args.d, x.d, &prepared.proposal.algorithm,
                              site.workspace, prepared.proposal.workspace_bytes, site.stream);
  GPUDNN_REQUIRE(status == 0 && x.ok(), GPUDNN_STATUS_EXECUTION_FAILED, "cublasLtMatmul failed with status %d", status);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::matmul
