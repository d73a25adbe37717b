// Instances and launches of the kernels that run pointwise programs.
// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstring>

#include "core/launch/launch.hpp"
#include "core/launch/shared_memory.hpp"
#include "kernels/pointwise/match_compiled.hpp"
#include "kernels/pointwise/program.cuh"
#include "kernels/pointwise/program_compiled_sm90.hpp"
#include "kernels/pointwise/program_staged_sm90.hpp"
#include "kernels/pointwise/ready_program.hpp"
#include "kernels/tile/dispatch.hpp"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

using tile::AnyType;

constexpr int kSharedOfMultiprocessor =
    220 * 1024;                               // that blocks of Hopper may have together, less what each one costs
constexpr int kMaxSharedOfBlock = 96 * 1024;  // of the vector kernel: two blocks a multiprocessor
constexpr std::int64_t kMaxStride = (std::int64_t{1} << 31) - 1;

std::int64_t count_of(const ProgramParams& params) {
  std::int64_t count = 1;
  for (int i = 0; i < params.rank; ++i) count *= params.dims[i];
  return count;
}

// Contiguous along the fastest loop, with packs of `width` that are aligned wherever they begin.
bool is_packed(const ProgramParams& params, const ProgramTensor& tensor, int width) {
  const int last = params.rank - 1;
  if (tensor.is_index || tensor.strides[last] != 1) return false;
  for (int i = 0; i < last; ++i) {
    if (tensor.strides[i] % width != 0) return false;
  }
  return tile::is_aligned(tensor.data, static_cast<std::size_t>(width) * tile::any_type_bytes(tensor.type));
}

// Elements of a pack: as many as fill 16 bytes of the widest tensor that goes in packs.
int pack_width(const ProgramParams& params) {
  int widest = 1;
  const auto look = [&](const ProgramTensor& tensor) {
    if (tensor.present && !tensor.is_index && tensor.strides[params.rank - 1] == 1) {
      widest = tile::greatest(widest, tile::any_type_bytes(tensor.type));
    }
  };
  for (int t = 0; t < params.inputs; ++t) look(params.in[t]);
  for (int t = 0; t < params.outputs; ++t) look(params.out[t]);
  return widest <= 2 ? 8 : 4;
}

// False where 32 bits do not hold the strides.
bool set_tensor(const ProgramParams& params, const ProgramTensor& from, int width, VectorTensor* to) {
  const int bytes = from.is_index ? 1 : tile::any_type_bytes(from.type);
  const int last = params.rank - 1;
  to->data = static_cast<char*>(from.data);
  to->type = static_cast<std::uint8_t>(from.type);
  to->chunk = static_cast<std::uint8_t>(width * bytes);
  for (int i = 0; i < params.rank; ++i) {
    const std::int64_t stride = from.strides[last - i] * bytes * (i == 0 ? width : 1);
    if (stride > kMaxStride || stride < -kMaxStride) return false;
    (i == 0 ? to->fastest : to->strides[i - 1]) = static_cast<std::int32_t>(stride);
    to->is_reused = to->is_reused || (stride == 0 && params.dims[last - i] > 1);
  }
  to->step = static_cast<std::int32_t>(from.strides[last] * bytes);
  to->form = from.is_index                    ? InputForm::index
             : is_packed(params, from, width) ? InputForm::staged
                                              : InputForm::gathered;
  if (from.is_index) to->data = reinterpret_cast<char*>(from.start);
  return true;
}

// Whether floats count an index exactly.
bool is_exact_index(const ProgramParams& params, const ProgramTensor& index) {
  std::int64_t greatest = index.start;
  for (int i = 0; i < params.rank; ++i) greatest += (params.dims[i] - 1) * index.strides[i];
  return greatest <= std::int64_t{1} << 24;
}

// Without a gap in the order of the loops, and aligned to packs.
bool is_flat(const ProgramParams& params, const ProgramTensor& tensor, int width) {
  std::int64_t expected = 1;
  for (int i = params.rank - 1; i >= 0; --i) {
    if (params.dims[i] > 1 && tensor.strides[i] != expected) return false;
    expected *= params.dims[i];
  }
  return !tensor.is_index &&
         tile::is_aligned(tensor.data, static_cast<std::size_t>(width) * tile::any_type_bytes(tensor.type));
}

// How a compiled program finds the tensor; false where it cannot.
bool set_compiled(const ProgramParams& params, const ProgramTensor& from, bool odd, int width, bool is_output,
                  VectorTensor* to) {
  if (!set_tensor(params, from, odd ? 1 : width, to)) return false;
  if (odd) {
    to->form = is_flat(params, from, width) ? InputForm::staged : InputForm::gathered;
    return !from.is_index && (!is_output || to->form == InputForm::staged);
  }
  if (from.is_index) return is_exact_index(params, from);
  return to->form == InputForm::staged || (!is_output && to->step == 0);
}

// The compiled program's number and its arguments; -1 where the program has to be interpreted.
int make_compiled(const ProgramParams& params, const compiled::Match& match, CompiledArgs* result) {
  if (match.row < 0 || params.rank > kProgramVectorLoops) return -1;
  char in[compiled::kMaxInputs] = {};
  char out[compiled::kMaxOutputs] = {};
  const auto letter = [](const ProgramTensor& tensor) { return compiled::letter_of(tensor.type, tensor.is_index); };
  for (int t = 0; t < match.inputs; ++t) in[t] = letter(params.in[match.in[t]]);
  for (int t = 0; t < match.outputs; ++t) out[t] = letter(params.out[match.out[t]]);
  const std::int64_t count = count_of(params);
  for (const bool odd : {false, true}) {
    const int instance = compiled::instance_of(match.row, odd, in, out);
    if (instance < 0) continue;
    const int width = compiled::pack_of(compiled::kInstances.all[instance]);
    const int last = params.rank - 1;
    if ((odd ? count : params.dims[last]) % width != 0) continue;
    CompiledArgs args;
    args.packs = static_cast<std::uint32_t>(count / width);
    args.rank = params.rank;
    for (int i = 0; i < params.rank; ++i) {
      args.dims[i] = tile::FastDivmod(static_cast<std::uint32_t>(params.dims[last - i] / (i == 0 && !odd ? width : 1)));
    }
    bool fits = true;
    for (int t = 0; t < match.inputs; ++t)
      fits = fits && set_compiled(params, params.in[match.in[t]], odd, width, false, &args.in[t]);
    for (int t = 0; t < match.outputs; ++t)
      fits = fits && set_compiled(params, params.out[match.out[t]], odd, width, true, &args.out[t]);
    if (!fits) continue;
    for (int s = 0; s < params.code->steps; ++s) {
      for (int i = 0; i < 3; ++i) args.numbers[s][i] = params.code->step[s].p[i];
    }
    *result = args;
    return instance;
  }
  return -1;
}

compiled::Match match_compiled(const ProgramParams& params) {
  return params.runs_compiled && !params.is_double ? compiled::match(*params.code) : compiled::Match{};
}

bool try_compiled(const ProgramParams& params, cudaStream_t stream) {
  CompiledArgs args;
  const int instance = make_compiled(params, match_compiled(params), &args);
  if (instance >= 0) launch_compiled(instance, args, stream);
  return instance >= 0;
}

template <int N, int P>
void launch_vector(VectorArgs* args, const ProgramParams& params, cudaStream_t stream) {
  constexpr std::int64_t kTile = kProgramThreads * P;
  const int shared = args->temp_bytes + 2 * args->stage_bytes;
  cuda::allow_shared_memory<&program_vector<N, P>>(kMaxSharedOfBlock);
  const int resident = tile::clamp(kSharedOfMultiprocessor / (shared + 1024), 1, 3);
  const std::int64_t tiles = (args->packs + kTile - 1) / kTile;
  const auto blocks = static_cast<unsigned>(tile::least(tiles, std::int64_t{params.multiprocessors} * resident));
  cuda::launch_kernel(&program_vector<N, P>, {blocks, kProgramThreads, static_cast<std::size_t>(shared)}, stream,
                      *args);
}

// A tensor that the kernel with staged operands takes: of a type that it widens, in packs or the same for a pack.
bool set_staged_tensor(const ProgramParams& params, const ProgramTensor& from, int width, VectorTensor* to) {
  const bool is_known =
      from.type == AnyType::f16 || from.type == AnyType::bf16 || (from.type == AnyType::f32 && width == 4);
  const bool is_spread = from.type == AnyType::f32 && from.strides[params.rank - 1] == 0;
  if (!(is_known || is_spread) || from.is_index || !set_tensor(params, from, width, to)) return false;
  return to->form == InputForm::staged || to->step == 0;
}

StagedForm staged_form(const VectorTensor& tensor) {
  if (tensor.form != InputForm::staged) return StagedForm::spread;
  const auto type = static_cast<AnyType>(tensor.type);
  return type == AnyType::f16 ? StagedForm::f16 : type == AnyType::bf16 ? StagedForm::bf16 : StagedForm::f32;
}

// False where the operands lie otherwise or do not fit into shared memory.
bool make_staged(const ProgramParams& params, StagedLaunch* launch, StagedArgs* result) {
  const int width = pack_width(params);
  const int last = params.rank - 1;
  const std::int64_t packs = count_of(params) / width;
  if (!params.runs_compiled || params.is_double || params.rank > kProgramVectorLoops) return false;
  if (params.dims[last] % width != 0 || packs > tile::kMaxIterations) return false;
  StagedArgs& args = *result;
  args.packs = static_cast<std::uint32_t>(packs);
  args.rank = params.rank;
  args.inputs = params.inputs;
  for (int i = 0; i < params.rank; ++i) {
    args.dims[i] = tile::FastDivmod(static_cast<std::uint32_t>(params.dims[last - i] / (i == 0 ? width : 1)));
  }
  for (int t = 0; t < params.inputs; ++t) {
    args.table.in[t].form = InputForm::gathered;  // a scalar: no step fetches it
    if (params.in[t].present && !set_staged_tensor(params, params.in[t], width, &args.table.in[t])) return false;
  }
  for (int t = 0; t < params.outputs; ++t) {
    VectorTensor* const tensor = &args.table.out[t];
    if (!set_staged_tensor(params, params.out[t], width, tensor) || tensor->form != InputForm::staged) return false;
  }
  StagedForm forms[tile::kProgramInputs];
  for (int t = 0; t < params.inputs; ++t) forms[t] = staged_form(args.table.in[t]);
  StagedCode* const code = &args.table.code;
  // That of the kernel's steps of an operation and an input. In 16 bits the output's type, which most inputs have, too.
  const StagedForm usual = width == 4 ? StagedForm::f32 : staged_form(args.table.out[0]);
  constexpr int kTile = kStagedPacks * kProgramThreads;
  std::uint32_t same = 0;  // inputs of which a thread has the same packs in all tiles
  for (int t = 0; t < params.inputs; ++t) {
    const VectorTensor& tensor = args.table.in[t];
    bool has_one_row = true;
    for (const std::int32_t stride : tensor.strides) has_one_row = has_one_row && stride == 0;
    if (has_one_row && kTile % (params.dims[last] / width) == 0) same |= 1u << t;
  }
  if (!staged_code(*params.code, forms, usual, same, code)) return false;
  args.whole_tiles = params.rank == 1 || params.dims[last] / width % kTile == 0;
  const int temp_bytes = kStagedPacks * width * 4 * kProgramThreads;
  args.temp_bytes = params.code->temps * temp_bytes;
  std::int32_t places[tile::kProgramInputs] = {};
  for (int t = 0; t < params.inputs; ++t) {
    VectorTensor* const tensor = &args.table.in[t];
    if (tensor->form != InputForm::staged) continue;
    tensor->step = args.stage_bytes;
    places[t] = args.temp_bytes + args.stage_bytes;
    args.stage_bytes += tensor->chunk * kTile;
  }
  if (args.temp_bytes + args.stage_bytes > kMaxStagedBytes) return false;
  place_operands(places, temp_bytes, code);
  *launch = {width, code->any, usual, params.multiprocessors};
  return true;
}

void launch_staged(const StagedLaunch& launch, const StagedArgs& args, cudaStream_t stream) {
  launch_staged(launch.width, launch.any, launch.usual, args, launch.multiprocessors, stream);
}

bool try_staged(const ProgramParams& params, cudaStream_t stream) {
  StagedLaunch launch;
  StagedArgs args;
  if (!make_staged(params, &launch, &args)) return false;
  launch_staged(launch, args, stream);
  return true;
}

// Returns false, with nothing launched, where the scalar kernel has to take the program.
bool try_vector(const ProgramParams& params, cudaStream_t stream) {
  const int width = pack_width(params);
  const int last = params.rank - 1;
  const std::int64_t packs = count_of(params) / width;
  if (params.is_double || params.rank > kProgramVectorLoops || params.dims[last] % width != 0) return false;
  if (packs > tile::kMaxIterations) return false;
  VectorArgs args;
  args.packs = static_cast<std::uint32_t>(packs);
  args.rank = params.rank;
  args.inputs = params.inputs;
  for (int i = 0; i < params.rank; ++i) {
    args.dims[i] = tile::FastDivmod(static_cast<std::uint32_t>(params.dims[last - i] / (i == 0 ? width : 1)));
  }
  const int packs_of_thread = kProgramElements / width;
  for (int t = 0; t < params.inputs; ++t) {
    args.table.in[t].form = InputForm::gathered;  // a scalar: no step fetches it
    if (!params.in[t].present) continue;
    if (!set_tensor(params, params.in[t], width, &args.table.in[t])) return false;
    if (args.table.in[t].form != InputForm::staged) continue;
    args.table.in[t].step = args.stage_bytes;
    args.stage_bytes += args.table.in[t].chunk * packs_of_thread * kProgramThreads;
  }
  for (int t = 0; t < params.outputs; ++t) {
    if (!set_tensor(params, params.out[t], width, &args.table.out[t])) return false;
  }
  args.temp_bytes = params.code->temps * kProgramElements * 4 * kProgramThreads;
  if (args.temp_bytes + 2 * args.stage_bytes > kMaxSharedOfBlock) return false;
  args.table.code = *params.code;
  width == 8 ? launch_vector<8, 4>(&args, params, stream) : launch_vector<4, 8>(&args, params, stream);
  return true;
}

template <class C, int E>
void launch_scalar(const ProgramParams& params, const tile::ProgramCode<C>& code, cudaStream_t stream) {
  ScalarArgs<C> args;
  args.count = static_cast<std::uint32_t>(count_of(params));
  args.rank = params.rank;
  const int last = params.rank - 1;
  const auto set = [&](const ProgramTensor& from, ScalarTensor* to) {
    to->data = from.is_index ? reinterpret_cast<char*>(from.start) : static_cast<char*>(from.data);
    to->type = static_cast<std::uint8_t>(from.type);
    to->is_index = from.is_index;
    for (int i = 0; i < params.rank; ++i) to->strides[i] = from.strides[last - i];
  };
  for (int i = 0; i < params.rank; ++i)
    args.dims[i] = tile::FastDivmod(static_cast<std::uint32_t>(params.dims[last - i]));
  for (int t = 0; t < params.inputs; ++t) set(params.in[t], &args.in[t]);
  for (int t = 0; t < params.outputs; ++t) set(params.out[t], &args.out[t]);
  args.code = code;
  const std::int64_t tile = std::int64_t{kProgramThreads} * E;
  const auto blocks = static_cast<unsigned>((args.count + tile - 1) / tile);
  const std::size_t shared = sizeof(C) * E * kProgramThreads * static_cast<std::size_t>(code.temps);
  if (shared > 40 * 1024) {
    cuda::allow_shared_memory<&program_scalar<C, E>>(int{sizeof(C)} * E * kProgramThreads * tile::kProgramTemps);
  }
  cuda::launch_kernel(&program_scalar<C, E>, {blocks, kProgramThreads, shared}, stream, args);
}

// --- launches that are filled in ------------------------------------------------------------------------------------

constexpr auto kOfTable = static_cast<int>(offsetof(StagedArgs, table));
constexpr auto kOfSteps = kOfTable + static_cast<int>(offsetof(StagedTable, code) + offsetof(StagedCode, step));

ReadyPlace pointer_place(std::size_t of_tensors, int tensor, int number) {
  const std::size_t offset = of_tensors + static_cast<std::size_t>(tensor) * sizeof(VectorTensor);
  return {static_cast<std::uint16_t>(offset + offsetof(VectorTensor, data)), static_cast<std::int8_t>(number), false};
}

// False where there are more of them than there is room for.
bool add_number(std::size_t offset, std::int8_t number, bool negates, ReadyProgram* ready) {
  if (ready->numbers == ReadyProgram::kMaxNumbers) return false;
  ready->value[ready->numbers++] = {static_cast<std::uint16_t>(offset), number, negates};
  return true;
}

bool ready_compiled(const ProgramParams& params, const std::int8_t* scalar, const bool* negates, ReadyProgram* ready) {
  const compiled::Match match = match_compiled(params);
  CompiledArgs args;
  ready->instance = make_compiled(params, match, &args);
  if (ready->instance < 0) return false;
  for (int t = 0; t < match.inputs; ++t)
    if (!params.in[match.in[t]].is_index)
      ready->input[ready->inputs++] = pointer_place(offsetof(CompiledArgs, in), t, match.in[t]);
  for (int t = 0; t < match.outputs; ++t)
    ready->output[ready->outputs++] = pointer_place(offsetof(CompiledArgs, out), t, match.out[t]);
  for (int s = 0; s < params.code->steps; ++s) {
    const std::size_t offset = offsetof(CompiledArgs, numbers) + sizeof(float) * (3 * s + tile::kStepImmediate);
    if (scalar[s] >= 0 && !add_number(offset, scalar[s], negates[s], ready)) return false;
  }
  ready->bytes = sizeof args;
  std::memcpy(ready->args, &args, sizeof args);
  ready->kind = ReadyProgram::Kind::compiled;
  return true;
}

// Where the numbers of steps went: steps are made once more of a code whose numbers are their own places.
bool ready_staged(const ProgramParams& params, const std::int8_t* scalar, const bool* negates, ReadyProgram* ready) {
  StagedArgs args, placed;
  if (!make_staged(params, &ready->staged, &args)) return false;
  tile::ProgramCode<float> places = *params.code;
  for (int s = 0; s < places.steps; ++s) {
    for (int i = 0; i < 3; ++i) places.step[s].p[i] = static_cast<float>(1 + 3 * s + i);
  }
  ProgramParams of_places = params;
  of_places.code = &places;
  StagedLaunch same;
  if (!make_staged(of_places, &same, &placed)) return false;
  const auto add = [&](std::size_t offset, float place) {
    const int at = place >= 1 ? static_cast<int>(place) - 1 : 0;
    const int s = at / 3;
    return at % 3 != tile::kStepImmediate || scalar[s] < 0 || add_number(offset, scalar[s], negates[s], ready);
  };
  for (int j = 0; j < placed.table.code.steps; ++j) {
    const StagedStep& step = placed.table.code.step[j];
    const std::size_t offset = kOfSteps + sizeof(StagedStep) * static_cast<std::size_t>(j);
    if (!add(offset + offsetof(StagedStep, number), step.number)) return false;
    for (int i = 0; i < 2; ++i)
      if (!add(offset + offsetof(StagedStep, p) + sizeof(float) * static_cast<std::size_t>(i), step.p[i])) return false;
  }
  for (int t = 0; t < params.inputs; ++t)
    if (params.in[t].present) ready->input[ready->inputs++] = pointer_place(kOfTable + offsetof(StagedTable, in), t, t);
  for (int t = 0; t < params.outputs; ++t)
    ready->output[ready->outputs++] = pointer_place(kOfTable + offsetof(StagedTable, out), t, t);
  ready->bytes = sizeof args;
  std::memcpy(ready->args, &args, sizeof args);
  ready->kind = ReadyProgram::Kind::staged;
  return true;
}

// Any nest of at most kMaxIterations elements.
void launch_part(const ProgramParams& params, cudaStream_t stream) {
  if (try_compiled(params, stream) || try_staged(params, stream) || try_vector(params, stream)) return;
  if (params.is_double) {
    launch_scalar<double, kProgramScalarElements / 2>(params, *params.code64, stream);
  } else {
    launch_scalar<float, kProgramScalarElements>(params, *params.code, stream);
  }
}

// `params` from index `begin` of dimension `dimension` on, `length` of them.
ProgramParams part_of(const ProgramParams& params, int dimension, std::int64_t begin, std::int64_t length) {
  ProgramParams part = params;
  part.dims[dimension] = length;
  const auto move = [&](ProgramTensor* tensor) {
    const std::int64_t steps = begin * tensor->strides[dimension];
    if (tensor->is_index) {
      tensor->start += steps;
    } else if (tensor->data != nullptr) {
      tensor->data = static_cast<char*>(tensor->data) + steps * tile::any_type_bytes(tensor->type);
    }
  };
  for (int t = 0; t < params.inputs; ++t) move(&part.in[t]);
  for (int t = 0; t < params.outputs; ++t) move(&part.out[t]);
  return part;
}

}  // namespace

void make_ready(const ProgramParams& params, const std::int8_t* scalar, const bool* negates, ReadyProgram* ready) {
  *ready = {};
  const std::int64_t count = count_of(params);
  if (count == 0 || count > tile::kMaxIterations || (params.rank == 1 && count % pack_width(params) != 0)) return;
  if (!ready_compiled(params, scalar, negates, ready)) {
    *ready = {};
    if (!ready_staged(params, scalar, negates, ready)) *ready = {};
  }
}

bool launch_ready(const ReadyProgram& ready, const void* const* inputs, const double* numbers, void* const* outputs,
                  CUstream_st* stream) {
  alignas(StagedArgs) unsigned char args[sizeof(StagedArgs)];
  std::memcpy(args, ready.args, static_cast<std::size_t>(ready.bytes));
  for (int t = 0; t < ready.inputs; ++t) {
    const ReadyPlace& place = ready.input[t];
    if (!tile::is_aligned(inputs[place.number], kReadyAlignment)) return false;
    std::memcpy(args + place.offset, &inputs[place.number], sizeof(void*));
  }
  for (int t = 0; t < ready.outputs; ++t) {
    const ReadyPlace& place = ready.output[t];
    if (!tile::is_aligned(outputs[place.number], kReadyAlignment)) return false;
    std::memcpy(args + place.offset, &outputs[place.number], sizeof(void*));
  }
  for (int n = 0; n < ready.numbers; ++n) {
    const ReadyPlace& place = ready.value[n];
    const auto value = static_cast<float>(place.negates ? -numbers[place.number] : numbers[place.number]);
    std::memcpy(args + place.offset, &value, sizeof value);
  }
  if (ready.kind == ReadyProgram::Kind::compiled) {
    launch_compiled(ready.instance, *reinterpret_cast<const CompiledArgs*>(args), stream);
  } else {
    launch_staged(ready.staged, *reinterpret_cast<const StagedArgs*>(args), stream);
  }
  return true;
}

void launch_program(const ProgramParams& params, CUstream_st* stream) {
  const std::int64_t count = count_of(params);
  if (count == 0) return;
  if (count > tile::kMaxIterations) {
    int split = 0;
    while (params.dims[split] == 1) ++split;
    const std::int64_t inner = count / params.dims[split];
    const std::int64_t length = inner >= tile::kMaxIterations ? 1 : tile::kMaxIterations / inner;
    for (std::int64_t begin = 0; begin < params.dims[split]; begin += length) {
      launch_program(part_of(params, split, begin, tile::least(length, params.dims[split] - begin)), stream);
    }
    return;
  }
  // One loop whose length is no multiple of a pack: the last elements go by themselves.
  const std::int64_t rest = params.rank == 1 && !params.is_double ? count % pack_width(params) : 0;
  if (rest == 0 || rest == count) return launch_part(params, stream);
  launch_part(part_of(params, 0, 0, count - rest), stream);
  launch_part(part_of(params, 0, count - rest, rest), stream);
}

}  // namespace gpudnn::kernels
