// Decoders that rank: asked whether a document meets a query, they answer yes or no. Any thread.
#pragma once

#include <string>

#include "files/model_config.h"
#include "files/tokenizer_data.h"
#include "sluice/status.h"

namespace sluice::files {

// The model gives the logits of the two tokens behind a text.
void SetAnswer(const AnswerTokens& answer, ModelConfig* config);

// Makes a Qwen3-Reranker of a model whose folder is called so, or whose README.md has that heading:
// its config.json is that of a Qwen 3 that generates. Others are left alone, and so is what knows
// its pooling already. kBadModel where the tokenizer has no "yes" or no "no".
Status ReadReranker(const std::string& folder, const TokenizerData& tokenizer, ModelConfig* config);

}  // namespace sluice::files
