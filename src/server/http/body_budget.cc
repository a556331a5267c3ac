#include "server/http/body_budget.h"

#include <algorithm>
#include <utility>

namespace sluice::server {
namespace {

// The least a growing body takes at once.
constexpr size_t kStepBytes = 4u << 10;

}  // namespace

bool BodyBudget::Resize(const std::string& owner, int64_t from, int64_t to) {
  const auto large = [](int64_t bytes) { return bytes > kSmallBodyBytes ? bytes : 0; };
  const auto small = [](int64_t bytes) { return bytes > kSmallBodyBytes ? 0 : bytes; };
  std::lock_guard lock(mutex_);
  const auto found = owners_.find(owner);
  const int64_t held = (found == owners_.end() ? 0 : found->second) - large(from) + large(to);
  const int64_t large_used = large_used_ - large(from) + large(to);
  const int64_t small_used = small_used_ - small(from) + small(to);
  if (to > from) {
    if (small(to) > 0 && small_used > small_bytes_max_) return false;
    if (large(to) > 0 && held > large_bytes_max_ - large_used) return false;
  }
  large_used_ = large_used;
  small_used_ = small_used;
  if (held > 0) {
    owners_[owner] = held;
  } else if (found != owners_.end()) {
    owners_.erase(found);
  }
  return true;
}

int64_t BodyBudget::used() const {
  std::lock_guard lock(mutex_);
  return large_used_ + small_used_;
}

std::string OwnerOfAddress(const std::array<unsigned char, 16>& address) {
  constexpr std::array<unsigned char, 12> kIpv4 = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};
  constexpr std::array<unsigned char, 16> kLoopback = {0, 0, 0, 0, 0, 0, 0, 0,
                                                       0, 0, 0, 0, 0, 0, 0, 1};
  const bool ipv4 = std::equal(kIpv4.begin(), kIpv4.end(), address.begin());
  if (address == kLoopback || (ipv4 && address[12] == 127)) return "loopback";
  return std::string(address.begin(), ipv4 ? address.end() : address.begin() + 8);
}

BodyLease& BodyLease::operator=(BodyLease&& other) noexcept {
  if (this == &other) return *this;
  Resize(0);
  budget_ = std::exchange(other.budget_, nullptr);
  owner_ = std::exchange(other.owner_, {});
  bytes_ = std::exchange(other.bytes_, 0);
  return *this;
}

bool BodyLease::Resize(int64_t bytes) {
  if (bytes == bytes_) return true;
  if (!budget_->Resize(owner_, bytes_, bytes)) return false;
  bytes_ = bytes;
  return true;
}

bool MeteredBody::Append(std::string_view bytes) {
  if (!kept) return true;
  const size_t size = text.size() + bytes.size();
  if (static_cast<int64_t>(size) > lease.bytes()) {
    // Twice as much each time, but never more than can come, and a small body stays one.
    size_t grown = std::max({size, 2 * text.size(), kStepBytes});
    if (size <= BodyBudget::kSmallBodyBytes) {
      grown = std::min(grown, size_t{BodyBudget::kSmallBodyBytes});
    }
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
