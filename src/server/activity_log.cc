#include "server/activity_log.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "base/str_cat.h"

namespace sluice::server {
namespace {

std::string Rate(int64_t tokens, double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f", static_cast<double>(tokens) / seconds);
  return text;
}

}  // namespace

std::string ActivityLine(const EngineInfo& info, int64_t prompt_tokens, int64_t generated_tokens,
                         double seconds) {
  const int64_t blocks = std::max<int64_t>(1, info.kv_blocks);
  return StrCat(info.running, " running, ", info.waiting, " waiting; ",
                Rate(prompt_tokens, seconds), " prompt tokens/s, ", Rate(generated_tokens, seconds),
                " generated tokens/s; KV cache ",
                std::lround(100.0 * static_cast<double>(blocks - info.kv_free_blocks) /
                            static_cast<double>(blocks)),
                " % in use");
}

ActivityLog::ActivityLog(std::function<EngineInfo()> info, const TokenTotals& totals,
                         std::chrono::milliseconds interval,
                         std::function<void(const std::string&)> say)
    : info_(std::move(info)),
      totals_(totals),
      interval_(interval),
      say_(std::move(say)),
      thread_([this] { Run(); }) {}

ActivityLog::~ActivityLog() {
  {
    std::lock_guard lock(mutex_);
    ends_ = true;
  }
  ending_.notify_one();
  thread_.join();
}

void ActivityLog::Run() {
  using Clock = std::chrono::steady_clock;
  auto last = Clock::now();
  int64_t prompt = info_().prefill_tokens, generated = 0;
  std::unique_lock lock(mutex_);
  while (!ending_.wait_for(lock, interval_, [this] { return ends_; })) {
    lock.unlock();
    const auto now = Clock::now();
    const int64_t generated_now = totals_.generated;
    const EngineInfo info = info_();
    // A model that was unloaded takes its count with it.
    const int64_t prompt_tokens = std::max<int64_t>(0, info.prefill_tokens - prompt);
    const int64_t generated_tokens = generated_now - generated;
    if (info.running > 0 || info.waiting > 0 || prompt_tokens > 0 || generated_tokens > 0) {
      say_(ActivityLine(info, prompt_tokens, generated_tokens,
                        std::chrono::duration<double>(now - last).count()));
    }
    last = now;
    prompt = info.prefill_tokens;
    generated = generated_now;
    lock.lock();
  }
}

}  // namespace sluice::server
