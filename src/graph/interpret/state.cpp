// Values of tensors in the host interpreter.
// SPDX-License-Identifier: Apache-2.0
#include "graph/interpret/state.hpp"

#include <cstring>

#include "core/parallel.hpp"
#include "graph/interpret/element.hpp"
#include "host/element.hpp"

namespace gpudnn::graph {

Dims Array::strides() const {
  Dims result{};
  std::int64_t stride = 1;
  for (int i = rank - 1; i >= 0; --i) {
    result[static_cast<std::size_t>(i)] = stride;
    stride *= dims[static_cast<std::size_t>(i)];
  }
  return result;
}

Dims broadcast_strides(const Array& part, int rank, const Dims& dims) {
  const Dims own = part.strides();
  Dims result{};
  const int shift = rank - part.rank;
  for (int i = 0; i < part.rank; ++i) {
    if (i + shift < 0) continue;
    const auto k = static_cast<std::size_t>(i);
    // Also where the part is larger than the whole: its values are then the same along the dimension.
    const bool repeated = part.dims[k] == 1 || part.dims[k] != dims[static_cast<std::size_t>(i + shift)];
    result[static_cast<std::size_t>(i + shift)] = repeated ? 0 : own[k];
  }
  return result;
}

void for_each_index(int rank, const Dims& dims, std::int64_t cost,
                    const std::function<void(std::int64_t, const Dims&)>& body) {
  std::int64_t count = 1;
  for (int i = 0; i < rank; ++i) count *= dims[static_cast<std::size_t>(i)];
  parallel_for(count, host::grain_for(cost + 10), [&](std::int64_t begin, std::int64_t end) {
    Dims index{};
    std::int64_t rest = begin;
    for (int i = rank - 1; i >= 0; --i) {
      const auto k = static_cast<std::size_t>(i);
      index[k] = rest % dims[k];
      rest /= dims[k];
    }
    for (std::int64_t flat = begin; flat < end; ++flat) {
      body(flat, index);
      for (int i = rank - 1; i >= 0; --i) {
        const auto k = static_cast<std::size_t>(i);
        if (++index[k] < dims[k]) break;
        index[k] = 0;
      }
    }
  });
}

State::State(const Graph& graph, void* const* data) : graph_(graph), data_(data), values_(graph.tensors.size()) {}

Array State::shaped(const Tensor& tensor) const {
  Array array;
  array.rank = tensor.geometry.rank;
  for (int i = 0; i < array.rank; ++i) array.dims[static_cast<std::size_t>(i)] = tensor.geometry.dims[i];
  std::int64_t count = element_count(tensor.geometry);
  if (tensor.vector_count > 1) {
    array.dims[static_cast<std::size_t>(tensor.vector_dim)] *= tensor.vector_count;
    count *= tensor.vector_count;
  }
  array.v.resize(static_cast<std::size_t>(count));
  return array;
}

std::int64_t State::rows_of(const Tensor& tensor, std::int64_t batch) const {
  const std::int64_t most = tensor.geometry.rank > 2 ? tensor.geometry.dims[2] : 1;
  if (tensor.ragged == Tensor::kNone) return most;
  const int offsets = graph_.find(tensor.ragged);
  const std::int64_t stride = tensor.geometry.rank > 2 ? tensor.geometry.strides[2] : 0;
  if (offsets < 0 || data_[offsets] == nullptr || stride <= 0) return most;
  const LoadElement load = loader_of(this->tensor(offsets).geometry.type);
  const auto begin = static_cast<std::int64_t>(load(data_[offsets], batch));
  const auto end = static_cast<std::int64_t>(load(data_[offsets], batch + 1));
  return std::min(most, (end - begin) / stride);
}

// Block scales in tiles of 128 rows and 4 columns: each tile holds 32 groups of 16 bytes.
namespace {
std::int64_t tiled_scale_offset(const Tensor& tensor, const Dims& index) {
  const int rank = tensor.geometry.rank;
  // Rows lie along the dimension with the larger stride.
  const bool turned = rank >= 2 && tensor.geometry.strides[rank - 1] > tensor.geometry.strides[rank - 2];
  const auto r = static_cast<std::size_t>(turned ? rank - 1 : rank - 2);
  const auto c = static_cast<std::size_t>(turned ? rank - 2 : rank - 1);
  const std::int64_t columns = (tensor.geometry.dims[c] + 3) / 4 * 4;
  const std::int64_t rows = (tensor.geometry.dims[r] + 127) / 128 * 128;
  std::int64_t matrix = 0;
  for (int i = 0; i + 2 < rank; ++i) matrix = matrix * tensor.geometry.dims[i] + index[static_cast<std::size_t>(i)];
  const std::int64_t row = index[r];
  const std::int64_t column = index[c];
  const std::int64_t tile = row / 128 * (columns / 4) + column / 4;
  return matrix * rows * columns + tile * 512 + row % 32 * 16 + row / 32 % 4 * 4 + column % 4;
}
}  // namespace

std::int64_t State::offset_of(const Tensor& tensor, const Dims& index) const {
  if (tensor.reordering == GPUDNN_TENSOR_REORDERING_F8_128x4 && tensor.geometry.rank >= 2)
    return tiled_scale_offset(tensor, index);
  std::int64_t offset = 0;
  int first = 0;
  if (tensor.ragged != Tensor::kNone) {
    if (tensor.geometry.rank > 2 && index[2] >= rows_of(tensor, index[0])) return -1;
    const int offsets = graph_.find(tensor.ragged);
    offset = static_cast<std::int64_t>(loader_of(this->tensor(offsets).geometry.type)(data_[offsets], index[0]));
    first = 1;
  }
  std::int64_t lane = 0;
  for (int i = first; i < tensor.geometry.rank; ++i) {
    std::int64_t position = index[static_cast<std::size_t>(i)];
    if (tensor.vector_count > 1 && i == tensor.vector_dim) {
      lane = position % tensor.vector_count;
      position /= tensor.vector_count;
    }
    offset += position * tensor.geometry.strides[i];
  }
  return offset * tensor.vector_count + lane;
}

Array State::loaded(int place) const {
  const Tensor& t = tensor(place);
  Array array = shaped(t);
  const LoadElement load = loader_of(t.geometry.type);
  const void* from = data_[place];
  for_each_index(array.rank, array.dims, 1, [&](std::int64_t flat, const Dims& index) {
    const std::int64_t offset = offset_of(t, index);
    array.at(flat) = offset < 0 ? 0 : load(from, offset);
  });
  return array;
}

Status State::load_inputs() {
  std::vector<bool> read(graph_.tensors.size(), false);
  std::vector<bool> written(graph_.tensors.size(), false);
  for (const Node& node : graph_.nodes)
    for (const Link& link : node.links)
      (is_output(node, link.port) ? written : read)[static_cast<std::size_t>(link.tensor)] = true;
  // An image that is multiplied by 0 is not looked at: its pointer may be null.
  for (const Node& node : graph_.nodes) {
    if (node.op == Op::pointwise && node.mode == GPUDNN_POINTWISE_ADD && node.alpha2 == 0 && node.at(Port::b) >= 0 &&
        tensor(node.at(Port::b)).is_virtual == false) {
      const int place = node.at(Port::b);
      bool elsewhere = false;
      for (const Node& other : graph_.nodes)
        for (const Link& link : other.links) elsewhere = elsewhere || (&other != &node && link.tensor == place);
      if (!elsewhere) read[static_cast<std::size_t>(place)] = false;
    }
  }
  for (std::size_t t = 0; t < graph_.tensors.size(); ++t) {
    const Tensor& of = graph_.tensors[t];
    const int place = static_cast<int>(t);
    if (of.ragged != Tensor::kNone) {
      const int offsets = graph_.find(of.ragged);
      GPUDNN_REQUIRE(offsets >= 0 && data_[offsets] != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                     "the ragged offsets of tensor %lld are missing", static_cast<long long>(of.uid));
    }
    if (of.is_virtual || (!read[t] && !written[t])) continue;
    GPUDNN_REQUIRE(data_[place] != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                   "the data pointer of tensor %lld (%s) is null", static_cast<long long>(of.uid),
                   tensor_text(of.geometry).c_str());
    if (read[t] && !written[t]) values_[t] = loaded(place);
  }
  return GPUDNN_STATUS_SUCCESS;
}

const Array* State::in(const Node& node, Port port) const {
  const int place = node.at(port);
  return place < 0 ? nullptr : &values_[static_cast<std::size_t>(place)];
}

double State::number(const Node& node, Port port, double otherwise) const {
  const Array* array = in(node, port);
  return array == nullptr || array->v.empty() ? otherwise : array->v.front();
}

std::uint64_t State::bits64(const Node& node, Port port, std::uint64_t otherwise) const {
  const int place = node.at(port);
  if (place < 0 || data_[place] == nullptr) return otherwise;
  if (tensor(place).geometry.type == GPUDNN_DATA_INT64) {
    std::uint64_t bits = 0;
    std::memcpy(&bits, data_[place], sizeof bits);
    return bits;
  }
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(values_[static_cast<std::size_t>(place)].v.front()));
}

Array* State::out(const Node& node, Port port) {
  const int place = node.at(port);
  if (place < 0) return nullptr;
  values_[static_cast<std::size_t>(place)] = shaped(tensor(place));
  return &values_[static_cast<std::size_t>(place)];
}

Array State::before(const Node& node, Port port) const { return loaded(node.at(port)); }

Status State::finish(const Node& node, Port port) {
  const int place = node.at(port);
  if (place < 0) return GPUDNN_STATUS_SUCCESS;
  const Tensor& t = tensor(place);
  Array& array = values_[static_cast<std::size_t>(place)];
  for (double& value : array.v) value = rounded(t.geometry.type, value);
  if (t.is_virtual) return GPUDNN_STATUS_SUCCESS;
  const StoreElement store = storer_of(t.geometry.type);
  void* to = data_[place];
  // Types of less than a byte share bytes between neighbours: one thread.
  const std::int64_t cost = data_type_bits(t.geometry.type) < 8 ? std::int64_t{1} << 60 : 1;
  if (cost > 1) {
    Dims index{};
    for (std::int64_t flat = 0; flat < array.count(); ++flat) {
      if (const std::int64_t offset = offset_of(t, index); offset >= 0) store(to, offset, array.at(flat));
      for (int i = array.rank - 1; i >= 0; --i) {
        const auto k = static_cast<std::size_t>(i);
        if (++index[k] < array.dims[k]) break;
        index[k] = 0;
      }
    }
    return GPUDNN_STATUS_SUCCESS;
  }
  for_each_index(array.rank, array.dims, cost, [&](std::int64_t flat, const Dims& index) {
    if (const std::int64_t offset = offset_of(t, index); offset >= 0) store(to, offset, array.at(flat));
  });
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
