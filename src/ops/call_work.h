// What a call of an op has to move and to compute at least, by the shapes of its arguments: what a
// measured time is held against. Pure; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ops/call_observer.h"

namespace sluice::ops {

// What shapes do not tell, since it lies in the memory of the device: of each sequence of the step,
// its tokens in the step and how many it has behind them.
struct StepSizes {
  std::vector<int64_t> query_tokens;
  std::vector<int64_t> contexts;
};

struct CallWork {
  std::string shape;   // the descriptor's, with the rows of a product; calls of one shape are alike
  bool known = false;  // the next two are; of ops that choose or count they are not asked for
  // Each argument counts once as it is read and once as it is written, as far as the call needs it:
  // of K and V the positions that some row sees, of experts' matrices those of as many experts as
  // are taken on average where tokens choose evenly, of tables the rows that are named.
  double bytes = 0;
  double flops = 0;  // two for each product that is added; of products and attention alone
};

CallWork WorkOf(const ObservedCall& call, const StepSizes& step);

}  // namespace sluice::ops
