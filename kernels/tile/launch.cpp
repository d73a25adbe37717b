// Launches, made at once or put on the thread's list.
// SPDX-License-Identifier: Apache-2.0
#include <cstring>

#include "kernels/tile/launch_list.hpp"

namespace gpudnn::tile {
namespace {

thread_local LaunchList* the_threads_launches = nullptr;

void launch_now(const void* kernel, const LaunchConfig& config, cudaStream_t stream, void** arguments) noexcept {
  cudaLaunchAttribute attributes[2];
  cudaLaunchConfig_t launch = {};
  launch.gridDim = config.blocks;
  launch.blockDim = config.threads;
  launch.dynamicSmemBytes = config.shared_bytes;
  launch.stream = stream;
  launch.attrs = attributes;
  if (config.cluster > 1) {
    cudaLaunchAttribute& cluster = attributes[launch.numAttrs++];
    cluster.id = cudaLaunchAttributeClusterDimension;
    cluster.val.clusterDim.x = config.cluster;
    cluster.val.clusterDim.y = 1;
    cluster.val.clusterDim.z = 1;
  }
  if (config.overlaps) {
    cudaLaunchAttribute& overlap = attributes[launch.numAttrs++];
    overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    overlap.val.programmaticStreamSerializationAllowed = 1;
  }
  (void)cudaLaunchKernelExC(&launch, kernel, arguments);
}

// False where it has no room.
bool put(LaunchList* list, const void* kernel, const LaunchConfig& config, void** arguments, const std::uint32_t* bytes,
         std::size_t count) noexcept {
  if (list->launches == LaunchList::kMaxLaunches || list->arguments + count > LaunchList::kMaxArguments) return false;
  std::size_t end = list->bytes;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t gap = end;
    const std::size_t from = (end + LaunchList::kAlignment - 1) / LaunchList::kAlignment * LaunchList::kAlignment;
    end = from + bytes[i];
    if (end > LaunchList::kMaxBytes) return false;
    // Lists are compared with what lies between the arguments.
    std::memset(list->data + gap, 0, from - gap);
    list->offset[list->arguments + i] = static_cast<std::uint32_t>(from);
    std::memcpy(list->data + from, arguments[i], bytes[i]);
  }
  list->of[list->launches++] = {kernel, config, static_cast<std::uint32_t>(list->arguments),
                                static_cast<std::uint32_t>(count)};
  list->arguments += count;
  list->bytes = end;
  return true;
}

}  // namespace

LaunchList* thread_launches() noexcept { return the_threads_launches; }
void set_thread_launches(LaunchList* list) noexcept { the_threads_launches = list; }

void enqueue(const void* kernel, const LaunchConfig& config, cudaStream_t stream, void** arguments,
             const std::uint32_t* bytes, std::size_t count) noexcept {
  LaunchList* const list = the_threads_launches;
  if (list != nullptr) {
    if (list->stream == stream && put(list, kernel, config, arguments, bytes, count)) return;
    the_threads_launches = nullptr;
    list->given_up = true;
    launch_all(*list);
  }
  launch_now(kernel, config, stream, arguments);
}

void launch_all(LaunchList& list) noexcept {
  for (std::size_t i = 0; i < list.launches; ++i) {
    const Launch& launch = list.of[i];
    void* arguments[LaunchList::kMaxArguments];
    for (std::size_t a = 0; a < launch.count; ++a) arguments[a] = list.data + list.offset[launch.first + a];
    launch_now(launch.kernel, launch.config, list.stream, arguments);
  }
  list.launches = 0;
}

}  // namespace gpudnn::tile
