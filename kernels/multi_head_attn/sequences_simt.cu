// The instances of gather and scatter, and the small kernels that take what a call says in host memory to the device.
// SPDX-License-Identifier: Apache-2.0
#include "core/launch/launch.hpp"
#include "kernels/multi_head_attn/sequences_simt.cuh"
#include "kernels/tile/dispatch.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kMaxBlocks = 4096;
constexpr int kPieceInts = 900;  // of one launch: every target takes 4 KB of arguments

struct Piece {
  std::int32_t count = 0;
  std::int64_t distance = 0;  // from one repetition to the next
  std::int32_t data[kPieceInts] = {};
};

__global__ void mha_store(const __grid_constant__ Piece piece, std::int32_t* to) {
  const int i = static_cast<int>(threadIdx.x + blockIdx.x * blockDim.x);
  if (i < piece.count) to[blockIdx.y * piece.distance + i] = piece.data[i];
}

__global__ void mha_copy(const std::int32_t* from, std::int64_t count, std::int32_t* to) {
  const std::int64_t i = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) to[i] = from[i];
}

// The two states may be one.
__global__ void mha_start_dropout(DropoutStates* attn, DropoutStates* post, MhaDropout* dropout) {
  if (attn != nullptr) {
    dropout->attn_seed = attn->seed;
    dropout->attn_calls = attn->calls++;
  }
  if (post != nullptr) {
    dropout->post_seed = post->seed;
    dropout->post_calls = post->calls++;
  }
}

template <bool kGather>
void launch_sequences(const MhaSequencesParams& params, CUstream_st* stream) {
  std::int64_t rows = 0;
  for (int i = 0; i < params.count; ++i) {
    const MhaSequences& s = params.sequences[i];
    const std::int64_t mine = std::int64_t{s.batch} * s.beam * s.steps;
    if (mine > rows) rows = mine;
  }
  const std::int64_t wanted = (rows + mha::kRowsPerBlock - 1) / mha::kRowsPerBlock;
  const auto blocks = static_cast<unsigned>(wanted < kMaxBlocks ? wanted : kMaxBlocks);
  tile::with_element_type(params.type, [&]<class T>() {
    cuda::launch_kernel(mha::mha_sequences<T, kGather>,
                        {dim3(blocks, static_cast<unsigned>(params.count)), mha::kThreads}, stream, params);
  });
}

}  // namespace

void launch_mha_gather(const MhaSequencesParams& params, CUstream_st* stream) {
  launch_sequences<true>(params, stream);
}
void launch_mha_scatter(const MhaSequencesParams& params, CUstream_st* stream) {
  launch_sequences<false>(params, stream);
}

void launch_mha_start_dropout(DropoutStates* attn, DropoutStates* post, MhaDropout* dropout, CUstream_st* stream) {
  cuda::launch_kernel(mha_start_dropout, {1, 1}, stream, attn, post, dropout);
}

void launch_mha_store(const std::int32_t* host, std::int64_t count, int repeats, std::int32_t* to,
                      CUstream_st* stream) {
  for (std::int64_t first = 0; first < count; first += kPieceInts) {
    Piece piece;
    piece.count = static_cast<std::int32_t>(count - first < kPieceInts ? count - first : kPieceInts);
    piece.distance = count;
    for (int i = 0; i < piece.count; ++i) piece.data[i] = host[first + i];
    const auto blocks = static_cast<unsigned>((piece.count + 127) / 128);
    cuda::launch_kernel(mha_store, {dim3(blocks, static_cast<unsigned>(repeats)), 128}, stream, piece, to + first);
  }
}

void launch_mha_copy(const std::int32_t* from, std::int64_t count, std::int32_t* to, CUstream_st* stream) {
  cuda::launch_kernel(mha_copy, {static_cast<unsigned>((count + 127) / 128), 128}, stream, from, count, to);
}

}  // namespace gpudnn::kernels
