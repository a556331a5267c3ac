#include "cli/bench_rate.h"

#include <algorithm>

namespace sluice::cli {

double TokenRate(std::vector<DrawnTokens> drawn, int64_t start_us, int64_t wanted) {
  std::sort(drawn.begin(), drawn.end(),
            [](const DrawnTokens& a, const DrawnTokens& b) { return a.at_us < b.at_us; });
  int64_t tokens = 0, end_us = start_us;
  for (const DrawnTokens& step : drawn) {
    if (step.at_us <= start_us) continue;
    if (tokens >= wanted && step.at_us > end_us) break;
    tokens += step.tokens;
    end_us = step.at_us;
  }
  return tokens == 0 ? 0
                     : static_cast<double>(tokens) * 1e6 / static_cast<double>(end_us - start_us);
}

}  // namespace sluice::cli
