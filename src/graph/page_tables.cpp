// Page tables with ragged offsets as rows of equal length, on either backend.
// SPDX-License-Identifier: Apache-2.0
#include "graph/page_tables.hpp"

#include "graph/interpret/element.hpp"
#ifdef GPUDNN_WITH_CUDA
#include "kernels/graph/node.hpp"
#endif

namespace gpudnn::graph {

TensorGeometry page_rows_geometry(const Tensor& table) {
  TensorGeometry rows = table.geometry;  // {batch, 1, pages of a sequence, 1}
  rows.strides[0] = rows.strides[1] = rows.dims[2];
  rows.strides[2] = rows.strides[3] = 1;
  return rows;
}

std::size_t page_rows_bytes(const Tensor& table) {
  const auto elements = static_cast<std::size_t>(table.geometry.dims[0] * table.geometry.dims[2]);
  return (elements * sizeof(std::int32_t) + 255) / 256 * 256;
}

Status make_page_rows(gpudnnHandle_t handle, const Graph& graph, const Tensor& table, const void* packed,
                      const void* starts, std::int32_t* rows) {
  GPUDNN_REQUIRE(packed != nullptr && starts != nullptr, GPUDNN_STATUS_BAD_PARAM_NULL_POINTER,
                 "the data pointer of page table %lld, or of its ragged offsets, is null",
                 static_cast<long long>(table.uid));
  const DataType type = graph.tensors[static_cast<std::size_t>(graph.find(table.ragged))].geometry.type;
  const auto* const entries = static_cast<const std::int32_t*>(packed);
  const std::int64_t batches = table.geometry.dims[0], pages = table.geometry.dims[2];
  const std::int64_t stride = table.geometry.strides[2];
  const LaunchSite site = launch_site(handle);
#ifdef GPUDNN_WITH_CUDA
  if (site.device.backend == GPUDNN_BACKEND_CUDA) {
    const cuda::DeviceScope scope(site.device);
    kernels::launch_node_page_rows({entries, starts, type == GPUDNN_DATA_INT64, batches, pages, stride, rows},
                                   site.stream);
    return cuda::launch_status("page_rows");
  }
#endif
  const LoadElement start = loader_of(type);
  for (std::int64_t b = 0; b < batches; ++b) {
    const auto end = static_cast<std::int64_t>(start(starts, b + 1));
    auto from = static_cast<std::int64_t>(start(starts, b));
    for (std::int64_t page = 0; page < pages; ++page, from += stride)
      rows[b * pages + page] = from < end ? entries[from] : 0;
  }
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::graph
