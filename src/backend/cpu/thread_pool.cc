#include "backend/cpu/thread_pool.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <set>
#include <string>

#include "base/check.h"
#include "base/str_cat.h"

namespace sluice::cpu {

namespace {

// The next op of a step starts within some microseconds; a wake-up from sleep costs about 50.
constexpr std::chrono::microseconds kSpin{60};
constexpr int kPausesPerClockRead = 32;

constexpr int kSpinsBeforeYield = 1000;

// ThreadPool's state: job number, open flag, workers that joined.
constexpr uint32_t kJoined = (1u << 11) - 1, kOpen = 1u << 11, kJobStep = 1u << 12;
constexpr uint32_t kJob = ~(kJoined | kOpen);

inline void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

// Returns when `value` is no longer `old`: spins for kSpin, then sleeps on it.
void WaitWhile(const std::atomic<uint32_t>& value, uint32_t old) {
  const auto start = std::chrono::steady_clock::now();
  while (value.load(std::memory_order_acquire) == old) {
    for (int i = 0; i < kPausesPerClockRead; ++i) {
      Pause();
      if (value.load(std::memory_order_acquire) != old) return;
    }
    if (std::chrono::steady_clock::now() - start > kSpin) {
      value.wait(old, std::memory_order_acquire);
    }
  }
}

std::vector<int> AffinityCpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// CPUs that the control group grants, as cpu.max says it ("max 100000", "150000 100000"); 0: no
// limit.
double QuotaCpus() {
  std::ifstream file("/sys/fs/cgroup/cpu.max");
  std::string quota;
  double period = 0;
  if (!(file >> quota >> period) || quota == "max" || period <= 0) return 0;
  const double microseconds = std::strtod(quota.c_str(), nullptr);
  return microseconds > 0 ? microseconds / period : 0;
}

}  // namespace

int UsableCores() {
  std::set<std::string> cores;
  const std::vector<int> cpus = AffinityCpus();
  for (int cpu : cpus) {
    std::ifstream file(
        StrCat("/sys/devices/system/cpu/cpu", cpu, "/topology/thread_siblings_list"));
    std::string siblings;
    if (!std::getline(file, siblings)) siblings = StrCat("cpu", cpu);
    cores.insert(siblings);
  }
  int count = std::max(1, static_cast<int>(cores.size()));
  if (const double quota = QuotaCpus(); quota > 0) {
    count = std::min(count, std::max(1, static_cast<int>(std::ceil(quota))));
  }
  return count;
}

ThreadPool::ThreadPool(const Options& options) : threads_(options.threads) {
  CHECK(options.threads >= 1 && options.threads <= static_cast<int>(kJoined), options.threads,
        " threads");
  workers_.reserve(threads_ - 1);
  for (int thread = 1; thread < threads_; ++thread) {
    workers_.emplace_back([this, thread, pin = options.pin] { Work(thread, pin); });
  }
}

ThreadPool::~ThreadPool() {
  Open(nullptr, nullptr);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::Open(Erased body, const void* context) {
  body_ = body;
  context_ = context;
  finished_.store(0, std::memory_order_relaxed);
  const uint32_t job = (state_.load(std::memory_order_relaxed) & kJob) + kJobStep;
  state_.store(job | kOpen, std::memory_order_release);
  state_.notify_all();
}

void ThreadPool::RunErased(Erased body, const void* context) {
  if (threads_ == 1) return body(context, 0, 1);
  Open(body, context);
  body(context, 0, threads_);
  const uint32_t joined = state_.fetch_and(~kOpen, std::memory_order_acq_rel) & kJoined;
  for (uint32_t left; (left = finished_.load(std::memory_order_acquire)) != joined;) {
    WaitWhile(finished_, left);
  }
}

void ThreadPool::Work(int thread, bool pin) {
  if (pin) {
    const std::vector<int> cpus = AffinityCpus();
    if (static_cast<int>(cpus.size()) >= threads_) {
      cpu_set_t set;
      CPU_ZERO(&set);
      CPU_SET(cpus[thread], &set);
      pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    }
  }
  for (uint32_t seen = 0;;) {
    uint32_t state = state_.load(std::memory_order_acquire);
    if ((state & kOpen) == 0 || (state & kJob) == seen) {
      WaitWhile(state_, state);
      continue;
    }
    if (!state_.compare_exchange_weak(state, state + 1, std::memory_order_acq_rel)) continue;
    seen = state & kJob;
    if (body_ == nullptr) return;
    body_(context_, static_cast<int>(state & kJoined) + 1, threads_);
    finished_.fetch_add(1, std::memory_order_release);
    finished_.notify_one();
  }
}

void WaitUntil(const std::atomic<int64_t>& value, int64_t target) {
  for (int spins = 0; value.load(std::memory_order_acquire) < target; ++spins) {
    // The thread that is awaited may have lost its CPU to this one.
    if (spins < kSpinsBeforeYield) {
      Pause();
    } else {
      std::this_thread::yield();
    }
  }
}

}  // namespace sluice::cpu
