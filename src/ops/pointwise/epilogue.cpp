// A program as the epilogue of a matrix kernel.
// SPDX-License-Identifier: Apache-2.0
#include "ops/pointwise/epilogue.hpp"

#include "ops/any_type.hpp"
#include "ops/pointwise/lower.hpp"

namespace gpudnn::pointwise {
namespace {

// Strides by batch, row and column.
tile::EpilogueTensor tensor_of(const Problem& problem, const TensorGeometry& tensor, const void* data) {
  tile::EpilogueTensor result;
  const auto stride = [&](int dimension) -> std::int64_t {
    return dimension < 0 || tensor.dims[dimension] == 1 ? 0 : tensor.strides[dimension];
  };
  result.data = const_cast<void*>(data);  // NOLINT: one struct for inputs and outputs
  result.type = any_type(tensor.type);
  result.column = stride(problem.rank - 1);
  result.row = stride(problem.rank - 2);
  result.batch = stride(problem.rank - 3);
  return result;
}

tile::EpilogueTensor index_of(const Problem& problem, int axis) {
  tile::EpilogueTensor result;
  result.is_index = true;
  std::int64_t* const steps[] = {&result.column, &result.row, &result.batch};
  *steps[problem.rank - 1 - axis] = 1;
  return result;
}

}  // namespace

Status make_epilogue(const Problem& problem, int accumulator, const Args& args, tile::EpilogueProgram* epilogue) {
  const Program& program = problem.program;
  GPUDNN_REQUIRE(problem.rank == 2 || problem.rank == 3, GPUDNN_STATUS_NOT_SUPPORTED,
                 "an epilogue's problem has %d dims; it must have {rows, columns} or {batch, rows, columns}",
                 problem.rank);
  GPUDNN_REQUIRE(program.compute == GPUDNN_DATA_FLOAT, GPUDNN_STATUS_NOT_SUPPORTED,
                 "the epilogue's program computes in %s; f32 is built", data_type_name(program.compute));
  for (int o = 0; o < program.stores; ++o) {
    GPUDNN_REQUIRE(problem.reductions[o] == kNoReduction, GPUDNN_STATUS_NOT_SUPPORTED,
                   "store o%d of the epilogue's program has a reduction; it must store each element", o);
  }
  DataType types[kMaxStores];
  for (int o = 0; o < program.stores; ++o) types[o] = problem.stores[o].type;
  Lowered lowered;
  GPUDNN_TRY(lower(program, types, &lowered, {.accumulator = accumulator, .most_temps = tile::kEpilogueTemps}));
  bind(lowered, args.scalars, &epilogue->code);
  for (int i = 0; i < program.loads; ++i) {
    if (program.load_kind[i] == LoadKind::index) epilogue->in[i] = index_of(problem, program.load_axis[i]);
    if (program.load_kind[i] == LoadKind::tensor && i != accumulator) {
      epilogue->in[i] = tensor_of(problem, problem.loads[i], args.loads[i]);
    }
  }
  for (int o = 1; o < program.stores; ++o) epilogue->out[o] = tensor_of(problem, problem.stores[o], args.stores[o]);
  return GPUDNN_STATUS_SUCCESS;
}

}  // namespace gpudnn::pointwise
