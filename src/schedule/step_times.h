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
  // Microseconds. Between numbers of tokens that were seen it grows evenly; beyond these it is in
  // proportion to the tokens. 0 before any step.
  // REQUIRES: tokens > 0
  double Of(int32_t tokens) const;
  // The most tokens, from 1 to `most`, of a step that takes no longer than `microseconds`; `most`
  // before any step.
  int32_t Within(double microseconds, int32_t most) const;
  // `tokens`, or as many more, up to `most`, as it takes to compute half as many a second as in the
  // best steps of up to about `most`.
  int32_t WorthIt(int32_t tokens, int32_t most) const;
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
