// The work of turning a file's bytes into a parameter's, in jobs for several threads. Used by Place
// and ParameterMap::Update.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <thread>
#include <vector>

#include "weights/plan.h"

namespace sluice::weights {

// Rows of a part that lie together on the device: whole row groups.
struct PartRows {
  const PlannedParam* param = nullptr;
  const PlannedPart* part = nullptr;
  RowRange rows;

  static PartRows Whole(const PlannedParam& param, const PlannedPart& part) {
    return {&param, &part, {0, part.rows}};
  }
  size_t bytes() const { return part->BytesOf(rows); }
};

struct FillJob {
  PartRows held;             // what `out` holds when all its jobs are done
  RowRange rows;             // that this job writes
  std::span<std::byte> out;  // host memory
  bool clear = false;        // `out` was used before; else it is zero
};

// Adds the work of filling `out` with `held`.
void AddFillJobs(const PartRows& held, std::span<std::byte> out, bool clear,
                 std::vector<FillJob>* jobs);

// Threads that do jobs batch by batch, in about their order. The first error ends the work. Owned
// and called by one thread, which is one of them while it waits.
class FillThreads {
 public:
  // Called on any of the threads after a job that succeeded.
  using Done = std::function<void(const FillJob&)>;

  // Up to `threads`, the owner's among them. `done` may be empty.
  FillThreads(int threads, Done done);
  // Jobs that have begun are ended, others dropped.
  ~FillThreads();
  FillThreads(const FillThreads&) = delete;
  FillThreads& operator=(const FillThreads&) = delete;

  void Add(std::vector<FillJob> jobs);
  // Works until every job of the oldest batch is done, and forgets the batch. After an error of any
  // job, that error. REQUIRES: some batch was not waited for.
  Status Wait();

 private:
  struct Batch {
    std::vector<FillJob> jobs;
    std::atomic<size_t> next = 0;  // not begun yet
    std::atomic<size_t> left = 0;  // not ended yet
  };
  void Work();
  bool FillNext(Batch& batch);

  const Done done_;
  std::atomic<bool> stop_ = false;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::deque<std::shared_ptr<Batch>> batches_;
  Status first_;
  std::vector<std::jthread> workers_;  // last: they use the others
};

// Does all jobs with up to `threads` threads.
Status RunFillJobs(std::vector<FillJob> jobs, int threads, FillThreads::Done done = {});

// Threads that may pack weights for `device`: its own where it is the CPU, else the host's.
int PackThreads(const device::Device& device);

}  // namespace sluice::weights
