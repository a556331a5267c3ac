// Tables behind text/unicode/characters.h. Immutable; any thread may read them.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::text {

// Sorted; each value is the first code point of a range << 11 | its properties (bits as in
// text/unicode/characters.h). A range ends where the next begins.
extern const uint32_t kPropertyRanges[];
extern const size_t kPropertyRangeCount;

// Sorted code points at which "NFC may change or move it" switches, from "no" before the first.
extern const uint32_t kCompositionEdges[];
extern const size_t kCompositionEdgeCount;

}  // namespace sluice::text
