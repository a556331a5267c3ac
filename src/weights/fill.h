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

#include "weights/planned_param.h"

namespace sluice::weights {

// Rows of a part that lie together on the device: of a kLinear whole row groups, of an embedding
// any, of other parameters all there are.
struct PartSlice {
  const PlannedParam* param = nullptr;
  size_t part = 0;
  RowRange rows;
};

// The whole part.
PartSlice SliceOf(const PlannedParam& param, size_t part);
// Rows that cannot be told apart: a slice is some of these and then, perhaps, the part's last rows.
int64_t SliceUnit(const PartSlice& slice);
size_t SliceBytes(const PartSlice& slice, DType activation);

struct FillJob {
  PartSlice held;            // what `out` holds when all its jobs are done
  RowRange rows;             // that this job writes
  std::span<std::byte> out;  // host memory
  bool clear = false;        // `out` was used before; else it is zero
};

// Adds the work of filling `out` with `held`.
void AddFillJobs(const PartSlice& held, std::span<std::byte> out, bool clear,
                 std::vector<FillJob>* jobs);

// Threads that do jobs batch by batch, in about their order. The first error ends the work. Owned
// and called by one thread, which is one of them while it waits.
class FillThreads {
 public:
  // Called on any of the threads after a job that succeeded.
  using Done = std::function<void(const FillJob&)>;

  // Up to `threads`, the owner's among them. `done` may be empty.
  FillThreads(int threads, DType activation, Done done);
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

  const DType activation_;
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
Status RunFillJobs(std::vector<FillJob> jobs, DType activation, int threads,
                   FillThreads::Done done = {});

// Threads that may pack weights for `device`: its own where it is the CPU, else the host's.
int PackThreads(const device::Device& device);

}  // namespace sluice::weights
