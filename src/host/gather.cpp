// Transforms and column buffers on the host.
// SPDX-License-Identifier: Apache-2.0
#include "host/gather.hpp"

#include "core/parallel.hpp"
#include "host/any_element.hpp"
#include "host/element.hpp"

namespace gpudnn::host {
namespace {

using kernels::GatherChannel;
using kernels::GatherMap;

struct Places {
  std::int64_t to = 0;
  std::int64_t from = -1;  // negative: a zero of the padding
};

std::int64_t channel_offset(const GatherChannel& channel, std::int64_t index) {
  return index / channel.lanes * channel.stride + index % channel.lanes;
}

Places locate(const GatherMap& map, std::int64_t index) {
  std::int64_t position[kernels::kGatherAxes];
  for (int j = 0; j < map.axes; ++j) position[j] = map.axis[j].base;
  Places places;
  std::int64_t channel = 0;
  for (int i = 0; i < map.loops; ++i) {
    const kernels::GatherLoop& loop = map.loop[i];
    const std::int64_t coordinate = index % loop.extent;
    index /= loop.extent;
    position[loop.axis] += coordinate * loop.in_step;
    places.to += coordinate * loop.out_step;
    channel += coordinate * loop.out_channel_step;
  }
  places.to += channel_offset(map.out_channel, channel);
  std::int64_t from = 0;
  channel = 0;
  for (int j = 0; j < map.axes; ++j) {
    const kernels::GatherAxis& axis = map.axis[j];
    if (position[j] < 0 || position[j] >= axis.extent) return places;
    from += position[j] / axis.fold * axis.stride;
    channel += position[j] % axis.fold * axis.channel_step;
  }
  places.from = from + channel_offset(map.in_channel, channel);
  return places;
}

}  // namespace

void gather(const GatherMap& map, DataType in_type, DataType out_type, double alpha, double beta, const void* in,
            void* out) {
  const LoadAny load = load_of(in_type);
  const StoreAny store = store_of(out_type);
  parallel_for(map.count(), grain_for(40), [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const Places places = locate(map, i);
      store(out, places.to, places.from < 0 ? 0 : alpha * load(in, places.from), beta);
    }
  });
}

}  // namespace gpudnn::host
