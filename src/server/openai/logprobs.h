// Log-probs in the forms of OpenAI's chat, OpenAI's completions, and vLLM's prompt_logprobs. Pure
// functions.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/json.h"
#include "sluice/engine.h"

namespace sluice::server {

// How log-probs name a token: by its text, which several may share, or as vLLM does by its id:
// token_id:7
enum class TokenNames { kTexts, kIds };

// {"content": [{token, bytes, logprob, top_logprobs}], "refusal": null}; exactly `top` best, or the
// vocabulary's size where that is less.
OrderedJson ChatLogprobs(const std::vector<TokenInfo>& tokens, int top,
                         TokenNames names = TokenNames::kTexts);

// {tokens, token_logprobs, top_logprobs, text_offset}; offsets are in characters and begin at
// `*offset`, which moves past the tokens.
OrderedJson CompletionLogprobs(const std::vector<TokenInfo>& tokens, int64_t* offset,
                               TokenNames names = TokenNames::kTexts);

// One entry per prompt token: null for the first, then {id: {logprob, decoded_token}}.
OrderedJson PromptLogprobs(const std::vector<TokenInfo>& tokens);

// The text of a token alone; bytes that are not UTF-8 show as OpenAI shows them:
// bytes:\xe2\x80
std::string TokenText(const std::string& bytes);

}  // namespace sluice::server
