// ALiBi ("Train Short, Test Long: Attention with Linear Biases Enables Input Length
// Extrapolation"): what scores fall by instead of a rotation of Q and K. Pure; any thread.
#pragma once

#include <vector>

#include "files/model_config.h"

namespace sluice::files {

// By head: what a score falls by for each position of distance, a geometric row down to 2^-bias_max
// for a power of two of heads; other numbers of heads fill up with every other one of the row of
// the next power. REQUIRES: heads > 0.
std::vector<float> AlibiSlopes(int heads, float bias_max);

// Scores fall by AlibiSlopes times `factor`, and no layer rotates.
void UseAlibi(float bias_max, float factor, ModelConfig* config);

}  // namespace sluice::files
