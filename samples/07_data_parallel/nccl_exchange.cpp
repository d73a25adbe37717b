// SPDX-License-Identifier: Apache-2.0
#include "nccl_exchange.hpp"

#include <unistd.h>

#include <stdexcept>
#include <string>

namespace {

void check(ncclResult_t result, const char* what) {
  if (result != ncclSuccess) throw std::runtime_error(std::string("NCCL, ") + what + ": " + ncclGetErrorString(result));
}

// The name under which the processes meet: the first one makes it and gives it to the others. It is shorter than what
// a pipe takes at once, so each gets a whole one.
ncclUniqueId meeting_point(const Rank& rank) {
  ncclUniqueId id;
  if (rank.number == 0) {
    check(ncclGetUniqueId(&id), "naming the group");
    for (int other = 1; other < rank.count; ++other)
      if (write(rank.messages[1], &id, sizeof id) != ssize_t{sizeof id}) throw std::runtime_error("the pipe is broken");
  } else if (read(rank.messages[0], &id, sizeof id) != ssize_t{sizeof id}) {
    throw std::runtime_error("the first process is gone");
  }
  return id;
}

ncclDataType_t type_of(gpudnnDataType_t type) { return type == GPUDNN_DATA_HALF ? ncclHalf : ncclFloat; }

}  // namespace

NcclExchange::NcclExchange(const gpudnn::Handle& handle, const Rank& rank) : count_(rank.count) {
  gpudnn::check(gpudnnGetStream(handle, &stream_));
  check(ncclCommInitRank(&communicator_, rank.count, meeting_point(rank), rank.number), "joining the group");
}

NcclExchange::~NcclExchange() { ncclCommDestroy(communicator_); }

void NcclExchange::sum(void* values, size_t count, gpudnnDataType_t type) {
  check(ncclAllReduce(values, values, count, type_of(type), ncclSum, communicator_, stream_), "summing up");
}
