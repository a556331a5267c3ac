// What one request may ask for, and a model's own defaults may be. The engine's check, the server's
// and its OpenAPI document, the command line, the readers of generation_config.json and GGUF, and
// the executor's last check take their numbers from here.
#pragma once

#include <cstddef>
#include <cstdint>

namespace sluice::limits {

struct Range {
  double low, high;        // both included
  bool above_low = false;  // but not `low` in a request

  constexpr bool Holds(double value) const {  // false for NaN
    return (above_low ? value > low : value >= low) && value <= high;
  }
};

inline constexpr int kChoicesMax = 16;  // answers to one prompt
inline constexpr int kClientWeightMax = 1000;
inline constexpr int kTopLogprobsMax = 20;
inline constexpr size_t kChoiceTextsMax = 1000;          // that an answer may be held to
inline constexpr size_t kChoiceTextBytesMax = 1u << 20;  // of all of them
inline constexpr size_t kGrammarBytesMax = 256u << 10;
inline constexpr int kDraftTokensMax = 8;  // of a sequence in a step
inline constexpr size_t kStopsMax = 16;
inline constexpr size_t kStopBytesMax = 256;
inline constexpr size_t kStopIdsMax = 1024;
inline constexpr size_t kLogitBiasesMax = 1024;
inline constexpr size_t kTokenizeBytesMax = 1u << 20;  // of a text that is only tokenized
inline constexpr size_t kDetokenizeIdsMax = 1u << 18;
inline constexpr int64_t kPromptLogprobsBytesMax = 64 << 20;  // of an answer, by estimate
inline constexpr int64_t kLogprobsBytesMax = 64
                                             << 20;  // of an answer that is not streamed, as kept
// Of whole distributions, 4 bytes for each id of the vocabulary: of a request, all of its tokens;
// and one token of each answer that is open, which a step may have at once.
inline constexpr int64_t kAllLogprobsBytesMax = int64_t{1} << 30;
inline constexpr int64_t kAllLogprobsRowBytesMax = 64 << 20;
inline constexpr Range kLogitBias = {-100, 100};

}  // namespace sluice::limits
