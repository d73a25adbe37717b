// A client of the graph interface.
// SPDX-License-Identifier: Apache-2.0
#include "client.hpp"

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "benchmarks/graph_attributes.hpp"
#include "gpudnn/ext.h"
#include "graph/interpret/element.hpp"
#include "support/backend.hpp"

namespace gpudnn::test {
namespace {

gpudnnBackendAttributeName_t name_of(int name) { return static_cast<gpudnnBackendAttributeName_t>(name); }
gpudnnBackendAttributeType_t type_of(int type) { return static_cast<gpudnnBackendAttributeType_t>(type); }

}  // namespace

graph::Graph read(const std::string& text) {
  std::string why;
  const auto graph = graph::from_text(text, &why);
  EXPECT_TRUE(graph.has_value()) << why << '\n' << text;
  return graph.value_or(graph::Graph{});
}

BackendDescriptor::BackendDescriptor(int kind) {
  EXPECT_EQ(gpudnnBackendCreateDescriptor(static_cast<gpudnnBackendDescriptorType_t>(kind), &object_),
            GPUDNN_STATUS_SUCCESS);
}
BackendDescriptor::~BackendDescriptor() {
  if (object_ != nullptr) {
    EXPECT_EQ(gpudnnBackendDestroyDescriptor(object_), GPUDNN_STATUS_SUCCESS);
  }
}
Status BackendDescriptor::set(int name, int type, std::int64_t count, const void* elements) {
  return gpudnnBackendSetAttribute(object_, name_of(name), type_of(type), count, elements);
}
Status BackendDescriptor::set_integer(int name, std::int64_t value) { return set(name, GPUDNN_TYPE_INT64, 1, &value); }
Status BackendDescriptor::set_enum(int name, int type, int value) { return set(name, type, 1, &value); }
Status BackendDescriptor::set_descriptor(int name, const BackendDescriptor& value) {
  const gpudnnBackendDescriptor_t object = value.get();
  return set(name, GPUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &object);
}
Status BackendDescriptor::finalize() { return gpudnnBackendFinalize(object_); }
std::int64_t BackendDescriptor::count(int name, int type) const {
  std::int64_t n = -1;
  EXPECT_EQ(gpudnnBackendGetAttribute(object_, name_of(name), type_of(type), 0, &n, nullptr), GPUDNN_STATUS_SUCCESS)
      << last_error();
  return n;
}
std::int64_t BackendDescriptor::integer(int name, int type) const {
  std::int64_t value = 0;
  std::int32_t word = 0;
  const bool wide = type == GPUDNN_TYPE_INT64;
  EXPECT_EQ(gpudnnBackendGetAttribute(object_, name_of(name), type_of(type), 1, nullptr,
                                      wide ? static_cast<void*>(&value) : &word),
            GPUDNN_STATUS_SUCCESS)
      << last_error();
  return wide ? value : word;
}
std::string BackendDescriptor::text(int name) const {
  std::string out(static_cast<std::size_t>(count(name, GPUDNN_TYPE_CHAR)), '\0');
  EXPECT_EQ(gpudnnBackendGetAttribute(object_, name_of(name), GPUDNN_TYPE_CHAR, static_cast<std::int64_t>(out.size()),
                                      nullptr, out.data()),
            GPUDNN_STATUS_SUCCESS);
  return out;
}

std::string last_error() {
  char text[1024] = "";
  gpudnnGetLastErrorString(text, sizeof text);
  return text;
}

namespace {

// A descriptor whose attributes all are expected to be taken.
struct AcceptingDescriptor {
  BackendDescriptor* descriptor;
  [[nodiscard]] bool try_set(int name, int type, std::int64_t count, const void* elements) const {
    return descriptor->set(name, type, count, elements) == GPUDNN_STATUS_SUCCESS;
  }
  void set(int name, int type, std::int64_t count, const void* elements) const {
    EXPECT_TRUE(try_set(name, type, count, elements)) << "attribute " << name << ": " << last_error();
  }
};

BackendDescriptor make_operation(const graph::Node& node, const std::vector<BackendDescriptor>& tensors,
                                 std::vector<BackendDescriptor>* companions) {
  const graph::OpRow& row = graph::row_of(node.op);
  BackendDescriptor op(row.kind);
  AcceptingDescriptor accepting{&op};
  if (row.companion >= 0) {
    BackendDescriptor companion(row.companion);
    AcceptingDescriptor beside{&companion};
    client::set_companion(row, node, &beside);
    EXPECT_EQ(companion.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
    EXPECT_EQ(op.set_descriptor(row.companion_attribute, companion), GPUDNN_STATUS_SUCCESS) << last_error();
    companions->push_back(std::move(companion));
  }
  client::set_operation(row, node, tensors, &accepting);
  EXPECT_EQ(op.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  return op;
}

}  // namespace

BackendDescriptor make_tensor(const graph::Tensor& tensor, const BackendDescriptor* offsets) {
  BackendDescriptor descriptor(graph::kTensor);
  AcceptingDescriptor accepting{&descriptor};
  client::set_tensor(tensor, offsets == nullptr ? nullptr : offsets->get(), &accepting);
  EXPECT_EQ(descriptor.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  return descriptor;
}

void build(const graph::Graph& graph, gpudnnHandle_t handle, ClientGraph* out) {
  out->graph = graph;
  for (const graph::Tensor& tensor : graph.tensors) {
    const int offsets = graph.find(tensor.ragged);
    const BackendDescriptor of =
        offsets < 0 ? BackendDescriptor() : make_tensor(graph.tensors[static_cast<std::size_t>(offsets)]);
    out->tensors.push_back(make_tensor(tensor, offsets < 0 ? nullptr : &of));
  }
  std::vector<gpudnnBackendDescriptor_t> objects;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    out->operations.push_back(make_operation(*node, out->tensors, &out->companions));
    objects.push_back(out->operations.back().get());
  }
  out->graph_descriptor = BackendDescriptor(graph::kGraph);
  BackendDescriptor& d = out->graph_descriptor;
  EXPECT_EQ(d.set(GPUDNN_ATTR_OPERATIONGRAPH_OPS, GPUDNN_TYPE_BACKEND_DESCRIPTOR,
                  static_cast<std::int64_t>(objects.size()), objects.data()),
            GPUDNN_STATUS_SUCCESS)
      << last_error();
  if (handle != nullptr) {
    EXPECT_EQ(d.set(GPUDNN_ATTR_OPERATIONGRAPH_HANDLE, GPUDNN_TYPE_HANDLE, 1, &handle), GPUDNN_STATUS_SUCCESS);
  }
  EXPECT_EQ(d.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
}

std::vector<BackendDescriptor> configs_of(const BackendDescriptor& graph, int mode) {
  BackendDescriptor heuristics(graph::kHeuristics);
  EXPECT_EQ(heuristics.set_descriptor(GPUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(heuristics.set_enum(GPUDNN_ATTR_ENGINEHEUR_MODE, GPUDNN_TYPE_HEUR_MODE, mode), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(heuristics.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  const std::int64_t count = heuristics.count(GPUDNN_ATTR_ENGINEHEUR_RESULTS, GPUDNN_TYPE_BACKEND_DESCRIPTOR);
  std::vector<BackendDescriptor> configs;
  std::vector<gpudnnBackendDescriptor_t> objects;
  for (std::int64_t i = 0; i < count; ++i) {
    configs.emplace_back(graph::kEngineConfig);
    objects.push_back(configs.back().get());
  }
  std::int64_t written = -1;
  EXPECT_EQ(gpudnnBackendGetAttribute(heuristics.get(), GPUDNN_ATTR_ENGINEHEUR_RESULTS, GPUDNN_TYPE_BACKEND_DESCRIPTOR,
                                      count, &written, objects.data()),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(written, count);
  return configs;
}

std::int64_t engine_index(const BackendDescriptor& config) {
  const BackendDescriptor engine(graph::kEngine);
  gpudnnBackendDescriptor_t object = engine.get();
  std::int64_t count = 0;
  EXPECT_EQ(gpudnnBackendGetAttribute(config.get(), GPUDNN_ATTR_ENGINECFG_ENGINE, GPUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                      &count, &object),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(count, 1);
  return engine.integer(GPUDNN_ATTR_ENGINE_GLOBAL_INDEX);
}

BackendDescriptor make_plan(const BackendDescriptor& config) {
  BackendDescriptor plan(graph::kPlan);
  EXPECT_EQ(plan.set_descriptor(GPUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(plan.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  EXPECT_EQ(plan.integer(GPUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE),
            config.integer(GPUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE));
  return plan;
}

BackendDescriptor make_plan(const BackendDescriptor& graph, std::int64_t index) {
  BackendDescriptor engine(graph::kEngine);
  EXPECT_EQ(engine.set_descriptor(GPUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(engine.set_integer(GPUDNN_ATTR_ENGINE_GLOBAL_INDEX, index), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(engine.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  BackendDescriptor config(graph::kEngineConfig);
  EXPECT_EQ(config.set_descriptor(GPUDNN_ATTR_ENGINECFG_ENGINE, engine), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(config.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
  return make_plan(config);
}

// --- memory ---------------------------------------------------------------------------------------------------------

namespace {

bool is_integer(DataType type) {
  switch (type) {
    case GPUDNN_DATA_INT8:
    case GPUDNN_DATA_UINT8:
    case GPUDNN_DATA_INT32:
    case GPUDNN_DATA_INT64:
    case GPUDNN_DATA_UINT32:
    case GPUDNN_DATA_BOOLEAN:
      return true;
    default:
      return false;
  }
}

std::int64_t offset_of(const TensorGeometry& g, std::int64_t flat) {
  std::int64_t offset = 0;
  for (int i = g.rank - 1; i >= 0; --i) {
    offset += flat % g.dims[i] * g.strides[i];
    flat /= g.dims[i];
  }
  return offset;
}

std::size_t bytes_of(const graph::Tensor& t) {
  // Tiled scales fill whole tiles of 128 by 4.
  const std::int64_t padded = t.reordering != 0 ? element_count(t.geometry) * 128 + 512 : 0;
  return size_in_bytes(t.geometry) * static_cast<std::size_t>(t.vector_count) + static_cast<std::size_t>(padded);
}

}  // namespace

Memory::Memory(const graph::Graph& graph, Random* random) : graph_(graph) {
  for (std::size_t t = 0; t < graph.tensors.size(); ++t) {
    const graph::Tensor& tensor = graph.tensors[t];
    if (tensor.is_virtual) continue;
    std::vector<unsigned char>& bytes = bytes_[tensor.uid];
    bytes.assign(bytes_of(tensor) + kGuard, 0xff);
    bool written = false;
    for (const graph::Node& node : graph.nodes)
      for (const graph::Link& link : node.links)
        written = written || (link.tensor == static_cast<std::int32_t>(t) && is_output(node, link.port));
    if (written) continue;
    const graph::StoreElement store = graph::storer_of(tensor.geometry.type);
    const std::int64_t count = static_cast<std::int64_t>(bytes_of(tensor)) * 8 / data_type_bits(tensor.geometry.type);
    for (std::int64_t i = 0; i < count; ++i) {
      const double value = is_integer(tensor.geometry.type)
                               ? static_cast<double>(random->between(0, 1))
                               : random->normal() * (tensor.geometry.type == GPUDNN_DATA_FP8_E8M0 ? 0.1 : 1);
      store(bytes.data(), i, value);
    }
  }
}

std::vector<double> Memory::values(std::int64_t uid) const {
  const graph::Tensor& tensor = graph_.tensors[static_cast<std::size_t>(graph_.find(uid))];
  const graph::LoadElement load = graph::loader_of(tensor.geometry.type);
  std::vector<double> result(static_cast<std::size_t>(element_count(tensor.geometry)));
  for (std::size_t i = 0; i < result.size(); ++i)
    result[i] = load(bytes_.at(uid).data(), offset_of(tensor.geometry, static_cast<std::int64_t>(i)));
  return result;
}

void Memory::set(std::int64_t uid, const std::vector<double>& values) {
  const graph::Tensor& tensor = graph_.tensors[static_cast<std::size_t>(graph_.find(uid))];
  const graph::StoreElement store = graph::storer_of(tensor.geometry.type);
  for (std::int64_t i = 0; i < element_count(tensor.geometry); ++i)
    store(bytes_.at(uid).data(), offset_of(tensor.geometry, i), values[static_cast<std::size_t>(i) % values.size()]);
}

bool Memory::guards_intact() const {
  for (const auto& [uid, bytes] : bytes_)
    for (std::size_t i = bytes.size() - kGuard; i < bytes.size(); ++i)
      if (bytes[i] != 0xff) return false;
  return true;
}

namespace {

bool is_cuda(gpudnnHandle_t handle) {
  gpudnnBackend_t backend = GPUDNN_BACKEND_HOST;
  EXPECT_EQ(gpudnnGetBackend(handle, &backend), GPUDNN_STATUS_SUCCESS);
  return backend == GPUDNN_BACKEND_CUDA;
}

// Memory where a handle's backend works. The GPU at hand keeps the last piece that a thread gave back: to allocate
// takes longer than most graphs do.
class Place {
 public:
  Place(gpudnnHandle_t handle, std::size_t bytes) : handle_(handle), bytes_(bytes) {
    if (kept_.data != nullptr && is_kept() && kept_.bytes >= bytes) {
      data_ = std::exchange(kept_.data, nullptr);
      bytes_ = kept_.bytes;
      return;
    }
    EXPECT_EQ(gpudnnMalloc(handle, &data_, bytes), GPUDNN_STATUS_SUCCESS) << last_error();
  }
  ~Place() {
    if (is_kept() && kept_.data == nullptr) {
      kept_ = {data_, bytes_};
    } else {
      (void)gpudnnFree(handle_, data_);
    }
  }
  Place(const Place&) = delete;
  Place& operator=(const Place&) = delete;
  [[nodiscard]] void* data() const { return data_; }

 private:
  struct Piece {
    void* data = nullptr;
    std::size_t bytes = 0;
  };
  static thread_local Piece kept_;

  [[nodiscard]] bool is_kept() const { return is_cuda(handle_) && handle_ == Backend::at_hand().handle(); }

  gpudnnHandle_t handle_;
  void* data_ = nullptr;
  std::size_t bytes_;
};
thread_local Place::Piece Place::kept_;

}  // namespace

struct Execution::State {
  gpudnnHandle_t handle;
  const BackendDescriptor& plan;
  Memory* memory;
  std::map<std::int64_t, std::size_t> places;  // in `image` and `device`, of the tensors that are copied
  std::vector<unsigned char> image;
  std::unique_ptr<Place> device;  // them, then the workspace: one allocation and one copy, which cost more than kernels
  BackendDescriptor pack{graph::kPack};
};

Execution::Execution(gpudnnHandle_t handle, const BackendDescriptor& plan, Memory* memory,
                     const std::map<std::int64_t, void*>& given)
    : state_(new State{handle, plan, memory, {}, {}, nullptr}) {
  const auto workspace = static_cast<std::size_t>(plan.integer(GPUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE));
  std::vector<unsigned char>& image = state_->image;
  std::vector<std::int64_t> uids;
  std::vector<void*> pointers;
  for (const graph::Tensor& tensor : memory->graph().tensors) {
    if (tensor.is_virtual) continue;
    uids.push_back(tensor.uid);
    const auto elsewhere = given.find(tensor.uid);
    pointers.push_back(elsewhere != given.end() ? elsewhere->second : memory->pointer(tensor.uid));
    if (tensor.by_value || elsewhere != given.end() || !is_cuda(handle)) continue;
    state_->places[tensor.uid] = image.size();
    const auto* const bytes = static_cast<const unsigned char*>(pointers.back());
    image.insert(image.end(), bytes, bytes + memory->bytes(tensor.uid));
    image.resize((image.size() + 255) / 256 * 256, 0xff);
  }
  // The workspace is behind 4 bytes of the client's own, as NVIDIA's frontend gives it.
  state_->device = std::make_unique<Place>(handle, image.size() + 4 + workspace);
  auto* const device = static_cast<unsigned char*>(state_->device->data());
  void* start = device + image.size() + 4;
  if (!image.empty()) {
    EXPECT_EQ(gpudnnMemcpy(handle, device, image.data(), image.size(), GPUDNN_MEMCPY_HOST_TO_DEVICE),
              GPUDNN_STATUS_SUCCESS);
  }
  for (std::size_t i = 0; i < uids.size(); ++i) {
    const auto place = state_->places.find(uids[i]);
    if (place != state_->places.end()) pointers[i] = device + place->second;
  }
  BackendDescriptor& pack = state_->pack;
  const auto count = static_cast<std::int64_t>(uids.size());
  EXPECT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, GPUDNN_TYPE_INT64, count, uids.data()),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, GPUDNN_TYPE_VOID_PTR, count, pointers.data()),
            GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(pack.set(GPUDNN_ATTR_VARIANT_PACK_WORKSPACE, GPUDNN_TYPE_VOID_PTR, 1, &start), GPUDNN_STATUS_SUCCESS);
  EXPECT_EQ(pack.finalize(), GPUDNN_STATUS_SUCCESS) << last_error();
}

Execution::~Execution() = default;

Status Execution::start() { return gpudnnBackendExecute(state_->handle, state_->plan.get(), state_->pack.get()); }

const BackendDescriptor& Execution::pack() const { return state_->pack; }

void Execution::finish() {
  std::vector<unsigned char>& image = state_->image;
  if (image.empty()) return;
  EXPECT_EQ(
      gpudnnMemcpy(state_->handle, image.data(), state_->device->data(), image.size(), GPUDNN_MEMCPY_DEVICE_TO_HOST),
      GPUDNN_STATUS_SUCCESS);
  for (const auto& [uid, place] : state_->places)
    std::memcpy(state_->memory->pointer(uid), image.data() + place, state_->memory->bytes(uid));
}

Status execute(gpudnnHandle_t handle, const BackendDescriptor& plan, Memory* memory) {
  Execution execution(handle, plan, memory);
  const Status status = execution.start();
  execution.finish();
  return status;
}

std::vector<GraphCase> graph_cases(const std::string& file) {
  // The tree may lie elsewhere than where it was built.
  const char* const moved = std::getenv("GPUDNN_TEST_CASES_DIR");
  std::ifstream in((moved != nullptr ? std::string(moved) + "/graph" : GPUDNN_GRAPH_CASES_FOLDER) + "/" + file);
  EXPECT_TRUE(in.good()) << file;
  std::vector<GraphCase> cases;
  for (std::string line; std::getline(in, line);) {
    if (line.starts_with("== ")) {
      cases.push_back({line.substr(3), ""});
    } else if (!cases.empty()) {
      cases.back().text += line + "\n";
    }
  }
  return cases;
}

void set_places(const graph::Graph& graph, Memory* memory) {
  for (const graph::Node& node : graph.nodes) {
    for (const graph::Link& link : node.links) {
      const graph::Tensor& t = graph.tensors[static_cast<std::size_t>(link.tensor)];
      if (t.is_virtual) continue;
      const std::int64_t n = element_count(t.geometry);
      std::vector<double> values;
      switch (link.port) {
        case graph::Port::seq_len_q:
        case graph::Port::seq_len_kv:
        case graph::Port::seq_len:
          for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(100 + 13 * i));
          break;
        case graph::Port::page_table:
        case graph::Port::page_table_k:
        case graph::Port::page_table_v:
        case graph::Port::token_index:
          for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(i));
          break;
        case graph::Port::token_offset:
          for (std::int64_t i = 0; i < n; ++i) values.push_back(static_cast<double>(4 * i));
          break;
        case graph::Port::inverse:
        case graph::Port::epsilon:
        case graph::Port::running_var_in:
          values.push_back(0.25);
          break;
        case graph::Port::count:
          values.push_back(64);
          break;
        default:
          continue;
      }
      if (!is_output(node, link.port)) memory->set(t.uid, values);
    }
  }
  for (const graph::Tensor& t : graph.tensors) {
    const int offsets = graph.find(t.ragged);
    if (offsets < 0) continue;
    // Page tables have entries for the lengths above and some more; all other sequences are whole.
    const bool table = t.geometry.type == GPUDNN_DATA_INT32;
    const std::int64_t each = (table ? t.geometry.dims[2] / 2 + 1 : t.geometry.dims[2]) * t.geometry.strides[2];
    std::vector<double> values;
    for (std::int64_t b = 0; b <= t.geometry.dims[0]; ++b) values.push_back(static_cast<double>(b * each));
    memory->set(t.ragged, values);
  }
}

}  // namespace gpudnn::test
