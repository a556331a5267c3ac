// /tokenize, /detokenize, /tokenizer_info, /apply-template and /v1/messages/count_tokens.
// Thread-safe.
#pragma once

#include <atomic>
#include <string>
#include <string_view>

#include "server/shared/api_call.h"
#include "sluice/engine.h"

namespace sluice::server {

// Each takes a body and gives the answer's body; kCancelled soon after `gone` has become true.
Result<std::string> Tokenize(const Engine& engine, const ModelFacts& model, std::string_view body,
                             const std::atomic<bool>& gone);
Result<std::string> Detokenize(const Engine& engine, const ModelFacts& model, std::string_view body,
                               const std::atomic<bool>& gone);
Result<std::string> ApplyTemplate(const Engine& engine, const ModelFacts& model,
                                  std::string_view body, const std::atomic<bool>& gone);
Result<std::string> CountMessageTokens(const Engine& engine, const ModelFacts& model,
                                       std::string_view body, const std::atomic<bool>& gone);

// What a client tokenizes with by itself, in vLLM's form.
OrderedJson DescribeTokenizer(const Engine& engine);

}  // namespace sluice::server
