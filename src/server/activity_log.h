// A line of the log every few seconds while there is work: what runs and waits, how fast tokens
// come, how full the KV cache is. Has a thread of its own.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "sluice/engine.h"

namespace sluice::server {

// Tokens since the start. Any thread adds.
struct TokenTotals {
  std::atomic<int64_t> prompt = 0;  // of answered requests, without those that came from the cache
  std::atomic<int64_t> generated = 0;
};

// "3 running, 1 waiting; 820.0 prompt tokens/s, 131.4 generated tokens/s; KV cache 12 % in use"
std::string ActivityLine(const EngineInfo& info, int64_t prompt_tokens, int64_t generated_tokens,
                         double seconds);

class ActivityLog {
 public:
  // `info` tells of what runs, and of the prompts' tokens that were computed; `say` gets each line.
  // `totals` must outlive it.
  ActivityLog(std::function<EngineInfo()> info, const TokenTotals& totals,
              std::chrono::milliseconds interval, std::function<void(const std::string&)> say);
  ~ActivityLog();

 private:
  void Run();

  const std::function<EngineInfo()> info_;
  const TokenTotals& totals_;
  const std::chrono::milliseconds interval_;
  const std::function<void(const std::string&)> say_;

  std::mutex mutex_;
  std::condition_variable ending_;
  bool ends_ = false;  // guarded by mutex
  std::thread thread_;
};

}  // namespace sluice::server
