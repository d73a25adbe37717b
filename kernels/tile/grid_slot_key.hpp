// The keys of launches whose blocks share device memory: see grid_slots.cuh.
// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gpudnn::tile {

using GridSlotKey = unsigned long long;

// For a launch that writes to `output`. Launches on the same output that overlap, which is a mistake of the caller,
// still have keys of their own unless a graph repeats them.
GridSlotKey grid_slot_key(const void* output);

}  // namespace gpudnn::tile
