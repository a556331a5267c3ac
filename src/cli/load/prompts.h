// What a load asks for: prompts and the bodies of /v1/completions. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace sluice::load {

// A text, or token ids.
using Prompt = std::variant<std::string, std::vector<int32_t>>;

// `tokens` ids below `vocab`, all equally likely; the same for the same seed and index.
std::vector<int32_t> RandomIds(int tokens, int vocab, uint64_t seed, uint32_t index);

// As many common English words, of which most vocabularies have a token for each.
std::string RandomWords(int words, uint64_t seed, uint32_t index);

// The body of a request for a stream of `output_tokens` tokens, greedy, past the end-of-sequence
// token, with the counts of tokens at its end.
std::string CompletionBody(const Prompt& prompt, int output_tokens, std::string_view model);

}  // namespace sluice::load
