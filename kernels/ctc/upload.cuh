// Labels and lengths in host memory on their way to the device.
// SPDX-License-Identifier: Apache-2.0
//
// A copy from pageable memory may be read later, and in a captured graph it is: so the values go as the arguments of a
// kernel, which a launch copies. They ride with the kernel that needs them first, as a launch of their own would cost
// the host more than all the rest, and are packed: as a byte each where none is above 255, as two up to 65535. 64
// sequences of 100 labels from an alphabet of 98 are 6.6 KB. What no launch can carry is stored in pieces beforehand.
#pragma once

#include <cstring>

#include "core/launch/launch.hpp"
#include "kernels/ctc/ctc_loss.hpp"
#include "kernels/tile/least.hpp"

namespace gpudnn::kernels {
namespace {

constexpr int kSmallPayload = 3600;  // every target takes 4 KB of arguments
constexpr int kLargePayload = 7000;

// Label lengths, input lengths, then the labels: each kind with as many bytes a value as its largest needs.
template <int kBytes>
struct Payload {
  static constexpr bool kHasLabels = true;
  int lengths = 0;  // of both kinds together
  int labels = 0;
  int length_bytes = 1;  // of a value
  int label_bytes = 1;
  alignas(4) unsigned char data[kBytes];

  [[nodiscard]] __host__ __device__ int start_of_labels() const { return (lengths * length_bytes + 3) / 4 * 4; }
  [[nodiscard]] __device__ static int value(const unsigned char* from, int bytes, std::int64_t i) {
    return bytes == 1   ? from[i]
           : bytes == 2 ? reinterpret_cast<const unsigned short*>(from)[i]
                        : reinterpret_cast<const int*>(from)[i];
  }
  [[nodiscard]] __device__ int length(std::int64_t i) const { return value(data, length_bytes, i); }
  [[nodiscard]] __device__ int label(std::int64_t i) const { return value(data + start_of_labels(), label_bytes, i); }
};
// They are on the device.
struct NoPayload {
  static constexpr bool kHasLabels = false;
};

template <class Value>
void pack_as(const int* from, std::int64_t count, unsigned char* to) {
  for (std::int64_t i = 0; i < count; ++i) {
    const auto value = static_cast<Value>(from[i]);
    std::memcpy(to + i * static_cast<std::int64_t>(sizeof(Value)), &value, sizeof(Value));
  }
}
void pack(const int* from, std::int64_t count, int bytes, unsigned char* to) {
  if (bytes == 1) pack_as<unsigned char>(from, count, to);
  if (bytes == 2) pack_as<unsigned short>(from, count, to);
  if (bytes == 4) pack_as<int>(from, count, to);
}

int bytes_for(std::int64_t most) { return most < 256 ? 1 : most < 65536 ? 2 : 4; }
int bytes_of_length(const CtcShape& shape) { return bytes_for(tile::greatest(shape.steps, shape.max_labels)); }
int bytes_of_label(const CtcShape& shape) { return bytes_for(shape.alphabet - 1); }

// Of a payload with everything.
std::int64_t payload_bytes(const CtcShape& shape) {
  return (2 * shape.sequences * bytes_of_length(shape) + 3) / 4 * 4 + shape.stored_labels * bytes_of_label(shape);
}

template <int kBytes>
void fill(const CtcParams& params, Payload<kBytes>* payload) {
  const CtcShape& shape = params.shape;
  payload->length_bytes = bytes_of_length(shape);
  payload->label_bytes = bytes_of_label(shape);
  payload->lengths = static_cast<int>(2 * shape.sequences);
  payload->labels = static_cast<int>(shape.stored_labels);
  pack(params.label_lengths, shape.sequences, payload->length_bytes, payload->data);
  pack(params.input_lengths, shape.sequences, payload->length_bytes,
       payload->data + shape.sequences * payload->length_bytes);
  pack(params.labels, shape.stored_labels, payload->label_bytes, payload->data + payload->start_of_labels());
}

__global__ void store_piece(const __grid_constant__ Payload<kLargePayload> from, int* to) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < from.labels) to[i] = from.label(i);
}

// Everything in pieces, one kind after the other.
void store_labels(const CtcParams& params, int* to, cudaStream_t stream) {
  const auto store_all = [&](const int* from, std::int64_t count, int bytes) {
    while (count > 0) {
      Payload<kLargePayload> piece;
      piece.label_bytes = bytes;
      piece.labels = static_cast<int>(tile::least<std::int64_t>(count, kLargePayload / bytes));
      pack(from, piece.labels, bytes, piece.data);
      cuda::launch_kernel(&store_piece, {static_cast<unsigned>((piece.labels + 255) / 256), 256}, stream, piece, to);
      from += piece.labels;
      to += piece.labels;
      count -= piece.labels;
    }
  };
  const CtcShape& shape = params.shape;
  store_all(params.label_lengths, shape.sequences, bytes_of_length(shape));
  store_all(params.input_lengths, shape.sequences, bytes_of_length(shape));
  store_all(params.labels, shape.stored_labels, bytes_of_label(shape));
}

}  // namespace
}  // namespace gpudnn::kernels
