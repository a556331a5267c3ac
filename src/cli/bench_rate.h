// The decode rate of sluice bench. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

namespace sluice::cli {

// Tokens that one sequence drew in the step that ended at `at_us`.
struct DrawnTokens {
  int64_t at_us = 0;
  int64_t tokens = 0;
};

// Tokens per second of the whole steps that end after `start_us` and draw `wanted` tokens, or all
// there are. `drawn` in any order: what steps drew arrives when other threads come to it. 0 when no
// step ends after `start_us`.
double TokenRate(std::vector<DrawnTokens> drawn, int64_t start_us, int64_t wanted);

}  // namespace sluice::cli
