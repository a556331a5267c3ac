// Figures as JSON tells them. Any thread.
#pragma once

#include <cmath>

namespace sluice {

// To three decimals: more say nothing of a time in milliseconds or of a load.
inline double Rounded(double number) { return std::round(number * 1000.0) / 1000.0; }

}  // namespace sluice
