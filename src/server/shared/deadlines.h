// Calls at given times, on a thread of their own. Thread-safe.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace sluice::server {

class Deadlines {
 private:
  // Outlives the thread where entries do.
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    std::map<std::pair<int64_t, uint64_t>, std::function<void()>> calls;  // guarded by mutex
    uint64_t next = 0;                                                    // guarded by mutex
    bool stopping = false;                                                // guarded by mutex
  };

 public:
  // A call that is to come; none, once this has ended.
  class Entry {
   public:
    ~Entry();
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

   private:
    friend class Deadlines;
    Entry(std::shared_ptr<State> state, std::pair<int64_t, uint64_t> key)
        : state_(std::move(state)), key_(key) {}
    const std::shared_ptr<State> state_;
    const std::pair<int64_t, uint64_t> key_;
  };

  Deadlines();
  ~Deadlines();  // calls that are to come do not
  Deadlines(const Deadlines&) = delete;
  Deadlines& operator=(const Deadlines&) = delete;

  // `due` is called once at `at_us` (NowMicros); it must be short, and may be running while its
  // entry ends.
  std::unique_ptr<Entry> At(int64_t at_us, std::function<void()> due);

 private:
  static void Run(const std::shared_ptr<State>& state);

  const std::shared_ptr<State> state_ = std::make_shared<State>();
  std::thread thread_;
};

}  // namespace sluice::server
