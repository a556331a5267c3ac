// The memory that requests' bodies share, over all connections: a body takes its part as its bytes
// arrive, in steps, so that a client which only announces one holds nothing. The budget is
// thread-safe; a body belongs to one thread at a time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace sluice::server {

// A body of up to kSmallBodyBytes counts against one pool, a longer one, whole, against another.
// The first is as large as all connections' small bodies together, so that no flood of bodies keeps
// an ordinary request out. In the second an owner (an API key, or an address) takes more only while
// it would then hold no more than what stays free: the first gets half at most, the next half of
// the rest. Nobody can take all of it, and one owner alone (a proxy before many clients) has much.
//
// Invariant: what the owners hold of the large pool is above 0 for each and adds up to its use.
class BodyBudget {
 public:
  static constexpr int64_t kSmallBodyBytes = 64 << 10;

  BodyBudget(int64_t large_bytes_max, int64_t small_bytes_max)
      : large_bytes_max_(large_bytes_max), small_bytes_max_(small_bytes_max) {}

  // A body of `owner` that held `from` bytes now holds `to`. False, and nothing changed, when it
  // grows past what is left for it.
  bool Resize(const std::string& owner, int64_t from, int64_t to);
  int64_t used() const;  // of both pools

 private:
  const int64_t large_bytes_max_;
  const int64_t small_bytes_max_;
  mutable std::mutex mutex_;                         // guards the rest
  std::unordered_map<std::string, int64_t> owners_;  // bytes that each holds of the large pool
  int64_t large_used_ = 0;
  int64_t small_used_ = 0;
};

// Whom an address's bodies count for: an IPv4 address, an IPv6 network of 64 bits, or all of
// loopback as one. `address` is IPv6; an IPv4 address stands in it as ::ffff:a.b.c.d.
std::string OwnerOfAddress(const std::array<unsigned char, 16>& address);

// A part of a budget, given back at its end. The budget must outlive it.
class BodyLease {
 public:
  BodyLease() = default;
  BodyLease(BodyBudget* budget, std::string owner) : budget_(budget), owner_(std::move(owner)) {}
  BodyLease(BodyLease&& other) noexcept { *this = std::move(other); }
  BodyLease& operator=(BodyLease&& other) noexcept;
  ~BodyLease() { Resize(0); }

  // False, and nothing changed, when the budget refuses it.
  bool Resize(int64_t bytes);
  int64_t bytes() const { return bytes_; }

 private:
  BodyBudget* budget_ = nullptr;
  std::string owner_;
  int64_t bytes_ = 0;
};

// A body as it arrives.
struct MeteredBody {
  std::string text;
  BodyLease lease;        // of the text's capacity
  size_t bytes_most = 0;  // that will arrive: as announced, else what one body may have
  bool kept = true;       // false: nobody reads this body; its bytes are dropped as they come

  // False when the budget refuses it.
  bool Append(std::string_view bytes);
  // The body is complete: holds no more than it needs.
  void Finish();
};

}  // namespace sluice::server
