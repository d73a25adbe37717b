// SPDX-License-Identifier: Apache-2.0
#include "ranks.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <vector>

namespace {

void end_all(const std::vector<pid_t>& processes) {
  for (const pid_t process : processes) kill(process, SIGTERM);
}

}  // namespace

int run_ranks(int count, const std::function<int(const Rank&)>& body) {
  Rank rank;
  rank.count = count;
  if (count == 1) return body(rank);
  if (pipe(rank.messages) != 0) throw std::runtime_error("a pipe between the processes could not be made");
  std::fflush(stdout);
  std::vector<pid_t> running;
  for (int number = 0; number < count; ++number) {
    const pid_t process = fork();
    if (process == 0) {
      rank.number = number;
      const int result = body(rank);
      std::fflush(stdout);
      _exit(result);  // what the parent made is the parent's to destroy
    }
    if (process < 0) {
      end_all(running);
      throw std::runtime_error("a process could not be started");
    }
    running.push_back(process);
  }
  int result = 0;
  while (!running.empty()) {
    int status = 0;
    const pid_t process = waitpid(-1, &status, 0);
    if (process < 0) return 1;
    running.erase(std::remove(running.begin(), running.end(), process), running.end());
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) continue;
    if (result == 0 && WIFSIGNALED(status))
      std::fprintf(stderr, "a process was ended by signal %d\n", WTERMSIG(status));
    if (result == 0) {
      sleep(1);  // for what another one may have to say
      end_all(running);
    }
    result = 1;
  }
  close(rank.messages[0]);
  close(rank.messages[1]);
  return result;
}
