#include "server/shared/deadlines.h"

#include <chrono>

#include "base/clock.h"

namespace sluice::server {

Deadlines::Entry::~Entry() {
  std::function<void()> dropped;  // ends without the lock
  std::lock_guard lock(state_->mutex);
  const auto found = state_->calls.find(key_);
  if (found == state_->calls.end()) return;
  dropped = std::move(found->second);
  state_->calls.erase(found);
}

Deadlines::Deadlines() : thread_([state = state_] { Run(state); }) {}

Deadlines::~Deadlines() {
  {
    std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  thread_.join();
  // What they hold may hold their entries, and these the calls.
  decltype(state_->calls) dropped;  // ends without the lock
  std::lock_guard lock(state_->mutex);
  dropped.swap(state_->calls);
}

std::unique_ptr<Deadlines::Entry> Deadlines::At(int64_t at_us, std::function<void()> due) {
  std::pair<int64_t, uint64_t> key;
  {
    std::lock_guard lock(state_->mutex);
    key = {at_us, ++state_->next};
    state_->calls.emplace(key, std::move(due));
  }
  state_->changed.notify_all();
  return std::unique_ptr<Entry>(new Entry(state_, key));
}

void Deadlines::Run(const std::shared_ptr<State>& state) {
  std::unique_lock lock(state->mutex);
  while (!state->stopping) {
    if (state->calls.empty()) {
      state->changed.wait(lock);
      continue;
    }
    const int64_t wait_us = state->calls.begin()->first.first - NowMicros();
    if (wait_us > 0) {
      state->changed.wait_for(lock, std::chrono::microseconds(wait_us));
      continue;
    }
    std::function<void()> due = std::move(state->calls.begin()->second);
    state->calls.erase(state->calls.begin());
    lock.unlock();
    due();
    due = nullptr;
    lock.lock();
  }
}

}  // namespace sluice::server
