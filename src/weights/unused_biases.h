// What a checkpoint has beside the parameters of a plan and a model might have needed. Any thread.
#pragma once

#include <string>
#include <vector>

#include "weights/plan.h"

namespace sluice::weights {

// The biases, not all of them zeros, of matrices that the plan takes without: those that
// config.json denies, and that nobody adds. In the order of the source.
std::vector<std::string> UnusedBiases(const WeightPlan& plan);

}  // namespace sluice::weights
