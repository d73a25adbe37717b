// Labels and lengths in host memory on their way to the device.
// SPDX-License-Identifier: Apache-2.0
//
// A copy from pageable memory may be read later, and in a captured graph it is: so the values go as the arguments of a
// kernel, which a launch copies. Each launch costs the host some 2.6 us, so values are packed: as a byte each where
// none is above 255, as two up to 65535. 64 sequences of 100 labels from an alphabet of 98 are 6.7 KB, one launch.
#pragma once

#include <algorithm>
#include <cstring>

#include "kernels/ctc/ctc_loss.hpp"

namespace gpudnn::kernels {
namespace {

// The caller's arrays on their way into the workspace, by way of the arguments of kernels: all lengths, then the
// labels, each kind with as many bytes a value as its largest needs.
constexpr int kSmallPayload = 4000;  // every target takes 4 KB of arguments
constexpr int kLargePayload = 12000;
template <int kBytes>
struct Payload {
  alignas(4) unsigned char data[kBytes];
};
struct PayloadParts {
  int count[2];  // values of each kind
  int bytes[2];  // of a value
  [[nodiscard]] __host__ __device__ int start() const { return (count[0] * bytes[0] + 3) / 4 * 4; }  // of the second
};

template <int kBytes>
__global__ void store_values(const __grid_constant__ Payload<kBytes> from, PayloadParts parts, int* to) {
  int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i >= parts.count[0] + parts.count[1]) return;
  int* const place = to + i;
  const int kind = i < parts.count[0] ? 0 : 1;
  const unsigned char* const data = from.data + (kind == 0 ? 0 : parts.start());
  if (kind == 1) i -= parts.count[0];
  const int bytes = parts.bytes[kind];
  *place = bytes == 1   ? data[i]
           : bytes == 2 ? reinterpret_cast<const unsigned short*>(data)[i]
                        : reinterpret_cast<const int*>(data)[i];
}

template <class Value>
void pack_as(const int* from, int count, unsigned char* to) {
  for (int i = 0; i < count; ++i) {
    const auto value = static_cast<Value>(from[i]);
    std::memcpy(to + i * sizeof(Value), &value, sizeof(Value));
  }
}
void pack(const int* from, int count, int bytes, unsigned char* to) {
  if (bytes == 1) pack_as<unsigned char>(from, count, to);
  if (bytes == 2) pack_as<unsigned short>(from, count, to);
  if (bytes == 4) pack_as<int>(from, count, to);
}

// Lengths (two arrays) and labels that fit into a payload.
struct Upload {
  const int* lengths[2] = {};
  int sequences = 0;
  const int* labels = nullptr;
  PayloadParts parts = {};
};

template <int kBytes>
void store_payload(const Upload& upload, int* to, cudaStream_t stream) {
  Payload<kBytes> payload;
  const PayloadParts& parts = upload.parts;
  for (int i = 0; i < 2; ++i) {
    pack(upload.lengths[i], upload.sequences, parts.bytes[0], payload.data + i * upload.sequences * parts.bytes[0]);
  }
  pack(upload.labels, parts.count[1], parts.bytes[1], payload.data + parts.start());
  const int count = parts.count[0] + parts.count[1];
  store_values<kBytes><<<static_cast<unsigned>((count + 255) / 256), 256, 0, stream>>>(payload, parts, to);
}

void store(const Upload& upload, int* to, cudaStream_t stream) {
  const PayloadParts& parts = upload.parts;
  if (parts.count[0] + parts.count[1] == 0) return;
  parts.start() + parts.count[1] * parts.bytes[1] <= kSmallPayload ? store_payload<kSmallPayload>(upload, to, stream)
                                                                   : store_payload<kLargePayload>(upload, to, stream);
}

int bytes_for(std::int64_t most) { return most < 256 ? 1 : most < 65536 ? 2 : 4; }

// Label lengths, input lengths, labels: at once where one payload takes them, else in pieces.
void store_labels(const CtcParams& params, int* to, cudaStream_t stream) {
  const CtcShape& shape = params.shape;
  Upload upload;
  upload.parts.bytes[0] = bytes_for(std::max(shape.steps, shape.max_labels));
  upload.parts.bytes[1] = bytes_for(shape.alphabet - 1);
  upload.labels = params.labels;
  std::int64_t labels = shape.stored_labels;
  if (2 * shape.sequences * upload.parts.bytes[0] + 4 + labels * upload.parts.bytes[1] <= kLargePayload) {
    upload.lengths[0] = params.label_lengths;
    upload.lengths[1] = params.input_lengths;
    upload.sequences = static_cast<int>(shape.sequences);
    upload.parts.count[0] = 2 * upload.sequences;
    upload.parts.count[1] = static_cast<int>(labels);
    store(upload, to, stream);
    return;
  }
  const auto store_all = [&](const int* from, std::int64_t count, int bytes) {
    upload.parts.bytes[1] = bytes;
    while (count > 0) {
      upload.labels = from;
      upload.parts.count[1] = static_cast<int>(std::min<std::int64_t>(count, kLargePayload / bytes));
      store(upload, to, stream);
      from += upload.parts.count[1];
      to += upload.parts.count[1];
      count -= upload.parts.count[1];
    }
  };
  const int label_bytes = upload.parts.bytes[1];
  store_all(params.label_lengths, shape.sequences, upload.parts.bytes[0]);
  store_all(params.input_lengths, shape.sequences, upload.parts.bytes[0]);
  store_all(params.labels, labels, label_bytes);
}

}  // namespace
}  // namespace gpudnn::kernels
