// What an answer that is held to something must say next, found from the masks of its walk.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "text/tokenizer.h"

namespace sluice::text {

// The byte that all allowed tokens (bit i of word i / 32) begin with. Below 0: they differ, one has
// no bytes, or they are none, or more than a forced text leaves.
int AgreedByte(const Tokenizer& tokenizer, std::span<const uint32_t> allowed);

// Whether an allowed token has more than so many bytes, or more are allowed than a forced text
// leaves.
bool AllowsLonger(const Tokenizer& tokenizer, std::span<const uint32_t> allowed, size_t bytes);

// By byte, the token that is this byte alone; below 0: there is none. `vocab`: ids below it.
std::vector<TokenId> ByteTokens(const Tokenizer& tokenizer, int vocab);

// `text` as the tokenizer cuts it where other text stands before it. Empty: it cannot be told apart
// from that text.
std::vector<TokenId> EncodeInside(const Tokenizer& tokenizer, std::string_view text);

}  // namespace sluice::text
