#include "server/http/running_work.h"

#include <algorithm>

namespace sluice::server {

RunningWork::Piece::Piece(RunningWork* owner, int64_t now_us) : owner_(owner) {
  std::lock_guard lock(owner_->mutex_);
  entry_ = owner_->since_us_.insert(owner_->since_us_.end(), now_us);
}

RunningWork::Piece::~Piece() {
  std::lock_guard lock(owner_->mutex_);
  owner_->since_us_.erase(entry_);
}

int64_t RunningWork::OldestMs(int64_t now_us) const {
  std::lock_guard lock(mutex_);
  const auto oldest = std::min_element(since_us_.begin(), since_us_.end());
  return oldest == since_us_.end() ? 0 : std::max<int64_t>(0, (now_us - *oldest) / 1000);
}

}  // namespace sluice::server
