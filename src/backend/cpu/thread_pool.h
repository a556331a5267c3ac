// ThreadPool: persistent threads that run one job at a time, the caller among them.
//
// A job is shared: the caller runs its body, and so does each worker that wakes before the caller
// is through; all of them take pieces of the work from an atomic counter. So a worker that the
// system does not schedule holds nobody up: on a busy machine the caller does the work alone.
// Nothing is allocated per job. Between jobs a worker spins for some tens of microseconds (the next
// op of a step comes within that), then sleeps: an idle pool uses no CPU.
//
// Any thread may start jobs; they run one after the other. A body must not start another job of the
// same pool and must not throw.
// What a job computes may not depend on the number of threads: split rows and outputs, never sums.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

namespace sluice::cpu {

// Physical cores that this process may use: the affinity mask without sibling hyperthreads, at most
// the CPU quota of its control group (rounded up). At least 1.
int UsableCores();

class ThreadPool {
 public:
  struct Options {
    int threads = 1;   // the caller included; 1 starts none
    bool pin = false;  // one CPU of the affinity mask per worker; ignored if the mask is too small
  };

  explicit ThreadPool(const Options& options);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int threads() const { return threads_; }

  // Calls body(thread, threads) on this thread, as thread 0, and on every worker that comes before
  // it returns, each with a number of its own below `threads`; returns when all have returned. The
  // body must leave no work undone when it runs alone, and none twice when it runs on all.
  template <class Body>
  void Run(const Body& body) {
    const std::lock_guard<std::mutex> lock(mutex_);
    RunLocked(body);
  }

  // Calls body(task, thread) for each task in [0, tasks), each on some thread, in no order.
  template <class Body>
  void ParallelFor(int64_t tasks, const Body& body) {
    const std::lock_guard<std::mutex> lock(mutex_);
    next_.store(0, std::memory_order_relaxed);
    const auto share = [&](int thread, int) {
      for (;;) {
        const int64_t task = next_.fetch_add(1, std::memory_order_relaxed);
        if (task >= tasks) return;
        body(task, thread);
      }
    };
    if (tasks <= 1) {
      share(0, 1);
    } else {
      RunLocked(share);
    }
  }

 private:
  using Erased = void (*)(const void* context, int thread, int threads);

  template <class Body>
  void RunLocked(const Body& body) {
    RunErased([](const void* context, int thread,
                 int threads) { (*static_cast<const Body*>(context))(thread, threads); },
              &body);
  }

  void RunErased(Erased body, const void* context);
  void Open(Erased body, const void* context);
  void Work(int thread, bool pin);

  const int threads_;
  std::vector<std::thread> workers_;

  std::mutex mutex_;  // held by the thread whose job runs

  // The job; written by the caller before it opens it, read by workers that have joined.
  Erased body_ = nullptr;
  const void* context_ = nullptr;

  // Apart from each other, so that a spinning thread does not slow the others' writes.
  // The number of the last job, whether it is open to workers, and how many have joined it.
  alignas(64) std::atomic<uint32_t> state_{0};
  alignas(64) std::atomic<uint32_t> finished_{0};  // workers that have left the job
  alignas(64) std::atomic<int64_t> next_{0};       // ParallelFor's next task
};

// Inside a job: returns once `value` has reached `target`, which threads that are at work raise it
// to.
void WaitUntil(const std::atomic<int64_t>& value, int64_t target);

// Part `part` of [0, count): [begin, end) of nearly equal parts in order.
struct Share {
  int64_t begin = 0, end = 0;
};
inline Share ShareOf(int64_t count, int64_t part, int64_t parts) {
  return {count * part / parts, count * (part + 1) / parts};
}

}  // namespace sluice::cpu
