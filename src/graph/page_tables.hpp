// Page tables with ragged offsets, whose sequences' parts lie one behind the other, brought into the form that the
// attention engines read: a row of equal length for each sequence.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/handle.hpp"
#include "graph/graph.hpp"

namespace gpudnn::graph {

// The form that engines read of a page table with ragged offsets.
[[nodiscard]] TensorGeometry page_rows_geometry(const Tensor& table);
[[nodiscard]] std::size_t page_rows_bytes(const Tensor& table);  // a multiple of 256
// `packed` and `starts` are the tensor's data and its offsets'; `rows` has page_rows_bytes.
[[nodiscard]] Status make_page_rows(gpudnnHandle_t handle, const Graph& graph, const Tensor& table, const void* packed,
                                    const void* starts, std::int32_t* rows);

}  // namespace gpudnn::graph
