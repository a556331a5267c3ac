// StepTimes: how long a step of so many tokens takes, as steps of about as many took of late. Step
// thread only.
#pragma once

#include <array>
#include <cstdint>

namespace sluice::schedule {

class StepTimes {
 public:
  // REQUIRES: tokens > 0, microseconds >= 0
  void Observe(int32_t tokens, double microseconds);
  // Microseconds. Where no step of about as many tokens was seen, the part of a step of more tokens
  // that these would have by their number, else the multiple of one of fewer; 0 before any step.
  // REQUIRES: tokens > 0
  double Of(int32_t tokens) const;
  // The least number of tokens, a power of two less one, in steps of which the device computes
  // nearly as many tokens a second as in the best ones; `most` if there is no less.
  int32_t Efficient(int32_t most) const;
  // Of the longest step of late, in microseconds.
  double longest() const { return longest_; }

 private:
  struct Seen {
    double tokens = 0.0, microseconds = 0.0;  // running means; 0 tokens: none was seen
  };
  std::array<Seen, 33> by_width_ = {};  // by the number of bits of the tokens' number
  double longest_ = 0.0;
};

}  // namespace sluice::schedule
