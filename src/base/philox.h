// Philox4x32-10, a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1,
// 2, 3", SC 2011): equal (key, counter) gives equal bits on every machine, and there is no state to
// share.
#pragma once

#include <array>
#include <cstdint>

namespace sluice {

std::array<uint32_t, 4> Philox(uint64_t key, const std::array<uint32_t, 4>& counter);

// What a draw is for; part of the counter, so that two draws at one position are independent.
enum class DrawPurpose : uint32_t { kToken = 0, kAccept = 1, kResidual = 2 };

// Uniform in [0, 1) with 53 bits, keyed by (seed, choice, absolute position, purpose).
double UniformDraw(uint64_t seed, int32_t choice, int64_t position, DrawPurpose purpose);

}  // namespace sluice
