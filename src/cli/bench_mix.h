// The sequences of sluice bench --mix. Pure; any thread.
#pragma once

#include <string_view>
#include <vector>

#include "sluice/status.h"

namespace sluice::cli {

// "122880x1,1024x63" is one sequence behind 122,880 tokens and 63 behind 1,024: the context of
// each, in this order. kInvalidArgument for other text, contexts above 2^20 and more than 2^16
// sequences.
Result<std::vector<int>> ParseMix(std::string_view text);

}  // namespace sluice::cli
