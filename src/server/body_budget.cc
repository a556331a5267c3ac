#include "server/body_budget.h"

#include <algorithm>
#include <utility>

namespace sluice::server {
namespace {

// The least a growing body takes at once.
constexpr size_t kStepBytes = 64u << 10;

}  // namespace

bool BodyBudget::Take(int64_t bytes) {
  if (used_.fetch_add(bytes) + bytes <= bytes_max_) return true;
  used_ -= bytes;
  return false;
}

BodyLease& BodyLease::operator=(BodyLease&& other) noexcept {
  if (this == &other) return *this;
  Resize(0);
  budget_ = std::exchange(other.budget_, nullptr);
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

bool BodyLease::Resize(int64_t bytes) {
  if (bytes > bytes_ && !budget_->Take(bytes - bytes_)) return false;
  if (bytes < bytes_) budget_->Give(bytes_ - bytes);
  bytes_ = bytes;
  return true;
}

bool MeteredBody::Append(std::string_view bytes) {
  const size_t size = text.size() + bytes.size();
  if (static_cast<int64_t>(size) > lease.bytes()) {
    // Twice as much each time, but never more than can come.
    const size_t grown = std::max({size, 2 * text.size(), kStepBytes});
    const size_t capacity = std::max(size, std::min(grown, bytes_most));
    if (!lease.Resize(static_cast<int64_t>(capacity))) return false;
    text.reserve(capacity);
  }
  text += bytes;
  return true;
}

void MeteredBody::Finish() {
  if (static_cast<size_t>(lease.bytes()) < text.size() + kStepBytes) return;
  text.shrink_to_fit();
  lease.Resize(static_cast<int64_t>(text.size()));
}

}  // namespace sluice::server
