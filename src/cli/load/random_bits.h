// Random bits from a seed, for the distributions of Boost.Random: the same on every machine. One
// thread at a time.
#pragma once

#include <cstdint>
#include <limits>

#include "base/philox.h"

namespace sluice::load {

// What bits are for; those of two purposes are independent.
enum class RandomPurpose : uint32_t { kInputTokens = 1, kOutputTokens, kArrivals, kWords };

class RandomBits {
 public:
  using result_type = uint32_t;
  explicit RandomBits(uint64_t seed, RandomPurpose purpose, uint32_t index = 0)
      : seed_(seed), purpose_(static_cast<uint32_t>(purpose)), index_(index) {}

  static constexpr uint32_t min() { return 0; }
  static constexpr uint32_t max() { return std::numeric_limits<uint32_t>::max(); }
  uint32_t operator()() {
    if (used_ == words_.size()) {
      words_ = Philox(seed_, {counter_++, index_, purpose_, 0});
      used_ = 0;
    }
    return words_[used_++];
  }

 private:
  uint64_t seed_;
  uint32_t purpose_, index_, counter_ = 0;
  std::array<uint32_t, 4> words_ = {};
  size_t used_ = 4;
};

}  // namespace sluice::load
