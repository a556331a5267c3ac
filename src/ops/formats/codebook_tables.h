// The vectors that the IQ formats of GGUF choose from. Constants; any thread may read them.
#pragma once

#include <cstdint>

namespace sluice::ops {

// Vectors of eight values: each is two bits, the first value's the lowest, and says which level of
// the format it is.
extern const uint16_t kIq2XxsVectors[256];
extern const uint16_t kIq2XsVectors[512];
extern const uint16_t kIq2SVectors[1024];
extern const uint16_t kIq1Vectors[2048];
// Vectors of four values of three bits each.
extern const uint16_t kIq3XxsVectors[256];
extern const uint16_t kIq3SVectors[512];

}  // namespace sluice::ops
