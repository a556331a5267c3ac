// How many tokens prompts and answers have. Pure; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "cli/load/random_bits.h"
#include "sluice/status.h"

namespace sluice::load {

inline constexpr int kLengthMax = 1 << 20;  // tokens

struct LengthDistribution {
  enum class Kind { kFixed, kUniform, kLogNormal };
  Kind kind = Kind::kFixed;
  int low = 1, high = 1;  // tokens; all kinds stay within
  double median = 1;      // of kLogNormal, in tokens
  double sigma = 0;       // of kLogNormal: the deviation of the logarithm
};

// "400", "uniform:LO:HI" (both ends are drawn), or "lognormal:MEDIAN:SIGMA" and
// "lognormal:MEDIAN:SIGMA:MAX", of which longer draws become MAX. Lengths are 1 to kLengthMax, and
// SIGMA is above 0 and at most 10. kInvalidArgument for other text; `option` names it there,
// without dashes.
Result<LengthDistribution> ParseLengths(std::string_view text, std::string_view option);

// `count` lengths; the same for the same seed and purpose.
std::vector<int> DrawLengths(const LengthDistribution& lengths, size_t count, uint64_t seed,
                             RandomPurpose purpose);

}  // namespace sluice::load
