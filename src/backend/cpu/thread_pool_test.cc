#include "backend/cpu/thread_pool.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

namespace sluice::cpu {
namespace {

// For a body: waits until every thread of the pool has come.
void Meet(std::atomic<int>& arrived, int threads) {
  arrived.fetch_add(1);
  while (arrived.load() < threads) std::this_thread::yield();
}

TEST(ThreadPool, EveryThreadMayTakePartOnceUnderItsOwnNumber) {
  for (int threads = 1; threads <= 5; ++threads) {
    ThreadPool pool({.threads = threads});
    EXPECT_EQ(pool.threads(), threads);
    for (int job = 0; job < 50; ++job) {
      std::vector<int> calls(threads, 0);
      std::atomic<int> arrived{0};
      pool.Run([&](int thread, int count) {
        calls[thread] += count;
        Meet(arrived, count);
      });
      EXPECT_EQ(calls, std::vector<int>(threads, threads));
    }
  }
}

std::atomic<bool> held{false}, let_go{false};
void Hold(int) {
  held = true;
  while (!let_go) usleep(100);
}

// The defect of pools whose jobs wait for every worker: on a busy machine, two threads are slower
// than one. Here a signal handler keeps the worker from coming.
TEST(ThreadPool, AWorkerThatDoesNotComeHoldsNobodyUp) {
  ThreadPool pool({.threads = 2});
  std::atomic<int> arrived{0};
  pthread_t worker{};
  pool.Run([&](int thread, int threads) {
    if (thread == 1) worker = pthread_self();
    Meet(arrived, threads);
  });
  struct sigaction hold = {}, before = {};
  hold.sa_handler = &Hold;
  ASSERT_EQ(sigaction(SIGUSR1, &hold, &before), 0);
  ASSERT_EQ(pthread_kill(worker, SIGUSR1), 0);
  while (!held) std::this_thread::yield();
  for (int job = 0; job < 10; ++job) {
    int64_t sum = 0;
    pool.ParallelFor(100, [&](int64_t task, int thread) { sum += thread == 0 ? task : -1000; });
    EXPECT_EQ(sum, 4950);
  }
  let_go = true;
  arrived = 0;
  pool.Run([&](int, int threads) { Meet(arrived, threads); });  // and it comes again
  EXPECT_EQ(arrived.load(), 2);
  ASSERT_EQ(sigaction(SIGUSR1, &before, nullptr), 0);
}

TEST(ThreadPool, ParallelForCoversEveryTaskOnce) {
  ThreadPool pool({.threads = 3});
  for (int64_t tasks : {0, 1, 2, 3, 100, 1001}) {
    std::vector<std::atomic<int>> calls(tasks);
    std::atomic<int> bad_threads{0};
    pool.ParallelFor(tasks, [&](int64_t task, int thread) {
      calls[task].fetch_add(1);
      if (thread < 0 || thread >= 3) bad_threads.fetch_add(1);
    });
    for (const std::atomic<int>& count : calls) EXPECT_EQ(count.load(), 1);
    EXPECT_EQ(bad_threads.load(), 0);
  }
}

// What was written before a counter was raised is there after waiting for it.
TEST(ThreadPool, WaitUntilPublishesWrites) {
  constexpr int kTasks = 64;
  ThreadPool pool({.threads = 4});
  for (int job = 0; job < 100; ++job) {
    std::vector<int> values(kTasks, 0);
    std::atomic<int64_t> next{0}, made{0};
    std::atomic<int> wrong{0};
    pool.Run([&](int, int) {
      for (int64_t i; (i = next.fetch_add(1)) < kTasks;) {
        values[i] = 1;
        made.fetch_add(1, std::memory_order_release);
      }
      WaitUntil(made, kTasks);
      if (std::accumulate(values.begin(), values.end(), 0) != kTasks) wrong.fetch_add(1);
    });
    EXPECT_EQ(wrong.load(), 0);
  }
}

TEST(ThreadPool, JobsOfSeveralCallersExcludeOneAnother) {
  ThreadPool pool({.threads = 2});
  std::atomic<int> inside{0}, overlaps{0};
  int64_t sum = 0;  // guarded by the pool: only thread 0 of a job writes
  auto caller = [&] {
    for (int job = 0; job < 50; ++job) {
      pool.Run([&](int thread, int) {
        if (thread != 0) return;
        if (inside.fetch_add(1) != 0) overlaps.fetch_add(1);
        ++sum;
        inside.fetch_sub(1);
      });
    }
  };
  std::thread first(caller), second(caller);
  first.join();
  second.join();
  EXPECT_EQ(overlaps.load(), 0);
  EXPECT_EQ(sum, 100);
}

// The states of this process's threads but the caller, as the kernel tells them: 'R', 'S', ...
std::string OtherThreadStates() {
  std::string states;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream file(task.path() / "stat");
    const std::string stat((std::istreambuf_iterator<char>(file)), {});
    states += stat[stat.rfind(')') + 2];
  }
  return states;
}

// The defect of pools that spin: an idle server that burns a core per thread. A worker that never
// sleeps keeps this test from ending.
TEST(ThreadPool, IdleWorkersSleep) {
  ThreadPool pool({.threads = 4});
  pool.Run([](int, int) {});
  // A sanitizer's own thread may be among them.
  while (OtherThreadStates().find_first_not_of('S') != std::string::npos) std::this_thread::yield();
  std::atomic<int> arrived{0};
  pool.Run([&](int, int threads) { Meet(arrived, threads); });  // and they wake up
  EXPECT_EQ(arrived.load(), 4);
}

std::vector<int> AllowedCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  EXPECT_EQ(sched_getaffinity(0, sizeof set, &set), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

TEST(ThreadPool, PinnedWorkersHaveACpuOfTheirOwn) {
  const std::vector<int> all = AllowedCpus();
  ThreadPool pool({.threads = 2, .pin = true});
  std::vector<std::vector<int>> cpus(2);
  std::atomic<int> arrived{0};
  pool.Run([&](int thread, int threads) {
    cpus[thread] = AllowedCpus();
    Meet(arrived, threads);
  });
  EXPECT_EQ(cpus[0], all);  // the caller's thread is not ours to pin
  EXPECT_EQ(cpus[1], all.size() < 2 ? all : std::vector<int>{all[1]});
}

TEST(ThreadPool, SharesCoverTheRangeInOrder) {
  for (int64_t count : {0, 1, 7, 16, 1000}) {
    int64_t end = 0;
    for (int thread = 0; thread < 3; ++thread) {
      const Share share = ShareOf(count, thread, 3);
      EXPECT_EQ(share.begin, end);
      EXPECT_LE(share.begin, share.end);
      end = share.end;
    }
    EXPECT_EQ(end, count);
  }
}

TEST(UsableCores, IsAtLeastOneAndAtMostTheMachine) {
  EXPECT_GE(UsableCores(), 1);
  EXPECT_LE(UsableCores(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace sluice::cpu
