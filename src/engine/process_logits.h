// What an embedder's processor does to the logits of a row, held to what it may do. Any thread.
#pragma once

#include <span>

#include "sluice/logits_processor.h"
#include "sluice/status.h"

namespace sluice::engine {

// Lets it change `logits` in place. kInvalidArgument with the field logits_processor when it throws
// or leaves what cannot be drawn from: NaN, +inf, or nothing but -inf.
Status ProcessLogits(LogitsProcessor& processor, const LogitsProcessor::Row& row,
                     std::span<float> logits);

}  // namespace sluice::engine
