// The host backend's threads: a pool that lives as long as the process.
//
// A call puts its job on the pool's list and works on it itself; idle threads help. So any number of user threads may
// call at once, and none waits for a thread of the pool to become free. A call from inside a body runs inline.
//
// The threads are detached and the pool is never destroyed: at exit they are simply gone, and no destructor waits for
// them. After a fork the child has no threads of the pool; it notices by its process id and makes a pool of its own.
// SPDX-License-Identifier: Apache-2.0
#include "core/parallel.hpp"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <exception>
#include <list>
#include <mutex>
#include <thread>

#include "core/environment.hpp"

namespace gpudnn {
namespace {

using Body = std::function<void(std::int64_t, std::int64_t)>;

thread_local bool inside_body = false;

struct Job {
  Job(const Body& work, std::int64_t indices, std::int64_t chunk_size)
      : body(work), count(indices), chunk(chunk_size) {}

  const Body& body;
  const std::int64_t count;
  const std::int64_t chunk;
  std::atomic<std::int64_t> next{0};
  // Guarded by the pool's mutex.
  int wanted = 0;   // threads of the pool that may still join
  int helpers = 0;  // threads of the pool at work on it
  std::exception_ptr exception;

  // Works on chunks until none is left. Returns what a body threw; then nobody starts another chunk.
  [[nodiscard]] std::exception_ptr work() noexcept {
    inside_body = true;
    std::exception_ptr thrown;
    try {
      while (true) {
        const std::int64_t begin = next.fetch_add(chunk, std::memory_order_relaxed);
        if (begin >= count) break;
        body(begin, std::min(begin + chunk, count));
      }
    } catch (...) {
      thrown = std::current_exception();
      next.store(count, std::memory_order_relaxed);
    }
    inside_body = false;
    return thrown;
  }
};

class Pool {
 public:
  explicit Pool(int helpers) : process(getpid()) {
    // The user's signal handlers shall not run on these threads.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      for (int i = 0; i < helpers; ++i) std::thread([this] { serve(); }).detach();
    } catch (...) {
      // No thread or no memory for one. Fewer threads than wished: the callers do the work, only slower. What was
      // thrown must not leave here, as the threads that did start serve this pool.
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void run(Job* job, int helpers) {
    job->wanted = helpers;
    std::list<Job*> entry{job};  // allocated here: nothing below throws, so the list never keeps a dead job
    {
      const std::lock_guard lock(mutex_);
      jobs_.splice(jobs_.end(), entry);
    }
    for (int i = 0; i < helpers; ++i) work_added_.notify_one();
    std::exception_ptr thrown = job->work();
    std::unique_lock lock(mutex_);
    jobs_.remove(job);
    fixup_left_.wait(lock, [job] { return job->helpers == 0; });
    if (thrown == nullptr) thrown = job->exception;
    lock.unlock();
    if (thrown != nullptr) std::rethrow_exception(thrown);
  }

  const pid_t process;

 private:
  [[noreturn]] void serve() {
    std::unique_lock lock(mutex_);
    while (true) {
      work_added_.wait(lock, [this] { return !jobs_.empty(); });
      Job* const job = jobs_.front();
      ++job->helpers;
      if (--job->wanted == 0) jobs_.pop_front();
      lock.unlock();
      std::exception_ptr thrown = job->work();
      lock.lock();
      // All chunks are taken: nobody else need join.
      jobs_.remove(job);
      if (thrown != nullptr && job->exception == nullptr) job->exception = std::move(thrown);
      if (--job->helpers == 0) fixup_left_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable work_added_;
  std::condition_variable fixup_left_;
  std::list<Job*> jobs_;  // those that threads may join, oldest first
};

int threads_by_default() noexcept {
  if (const int wished = environment_host_threads(); wished > 0) return wished;
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof cores, &cores) == 0) return std::max(CPU_COUNT(&cores), 1);
  return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1u));
}

// The pool of this process. A fork's copy of the parent's pool is left alone: its mutex may be locked for ever.
Pool& pool() {
  static std::atomic<Pool*> current{nullptr};
  static std::atomic<pid_t> maker{0};  // the process one of whose threads makes the pool; the others wait for it
  const pid_t process = getpid();
  while (true) {
    Pool* const seen = current.load(std::memory_order_acquire);
    if (seen != nullptr && seen->process == process) return *seen;
    pid_t before = maker.load();
    if (before == process || !maker.compare_exchange_strong(before, process)) {
      std::this_thread::yield();
      continue;
    }
    try {
      current.store(new Pool(host_threads() - 1), std::memory_order_release);
    } catch (...) {
      maker.store(0);
      throw;
    }
  }
}

}  // namespace

int host_threads() noexcept {
  static const int threads = threads_by_default();
  return threads;
}

void parallel_for(std::int64_t count, std::int64_t grain, const Body& body) {
  if (count <= 0) return;
  grain = std::max<std::int64_t>(grain, 1);
  const std::int64_t useful = (count - 1) / grain + 1;
  const int threads = static_cast<int>(std::min<std::int64_t>(useful, host_threads()));
  if (threads <= 1 || inside_body) {
    body(0, count);
    return;
  }
  // Several chunks for each thread even out bodies of unequal cost and cores that others use too.
  const std::int64_t even = (count - 1) / (std::int64_t{4} * threads) + 1;
  Job job(body, count, std::max(grain, even));
  pool().run(&job, threads - 1);
}

}  // namespace gpudnn
