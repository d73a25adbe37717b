// The processes of a data-parallel training, and what each of them has of the data.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>

// A process by its number, of so many. `messages` is a pipe that all of them have: {read, write}.
struct Rank {
  int number = 0;
  int count = 1;
  int messages[2] = {-1, -1};
};

// Runs `body` in `count` processes at once, and returns 0 if all of them did. When one fails, the others are ended:
// they would wait for it for ever. One process is the calling one; of several each is forked, so nothing that fork()
// does not copy, such as CUDA's state, may have been made before.
int run_ranks(int count, const std::function<int(const Rank&)>& body);

// Each step takes the next `batch * rank.count` digits of the shuffled order, `batch` of them on each process, so that
// n processes with a batch of b take the same steps as one with n * b.
inline size_t steps_of_epoch(size_t digits, size_t batch, const Rank& rank) {
  return digits / (batch * static_cast<size_t>(rank.count));
}
// The place in the order where a process's share of a step begins.
inline size_t share_of_step(size_t step, size_t batch, const Rank& rank) {
  return (step * static_cast<size_t>(rank.count) + static_cast<size_t>(rank.number)) * batch;
}
