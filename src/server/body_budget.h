// The memory that requests' bodies share, over all connections: a body takes its part as its bytes
// arrive, in steps, so that a client which only announces one holds nothing. The budget is
// thread-safe; a body belongs to one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace sluice::server {

class BodyBudget {
 public:
  explicit BodyBudget(int64_t bytes_max) : bytes_max_(bytes_max) {}

  // False, and nothing taken, when that much is not left.
  bool Take(int64_t bytes);
  void Give(int64_t bytes) { used_ -= bytes; }
  int64_t used() const { return used_; }

 private:
  const int64_t bytes_max_;
  std::atomic<int64_t> used_ = 0;
};

// A part of a budget, given back at its end. The budget must outlive it.
class BodyLease {
 public:
  BodyLease() = default;
  explicit BodyLease(BodyBudget* budget) : budget_(budget) {}
  BodyLease(BodyLease&& other) noexcept { *this = std::move(other); }
  BodyLease& operator=(BodyLease&& other) noexcept;
  ~BodyLease() { Resize(0); }

  // False, and nothing changed, when the budget has not that much.
  bool Resize(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  BodyBudget* budget_ = nullptr;
  int64_t bytes_ = 0;
};

// A body as it arrives.
struct MeteredBody {
  std::string text;
  BodyLease lease;        // of the text's capacity
  size_t bytes_most = 0;  // that will arrive: as announced, else what one body may have

  // False when the budget is used up.
  bool Append(std::string_view bytes);
  // The body is complete: holds no more than it needs.
  void Finish();
};

}  // namespace sluice::server
