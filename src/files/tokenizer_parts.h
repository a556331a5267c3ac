// A tokenizer of files that are no tokenizer.json, on its way to a TokenizerData.
#pragma once

#include "base/json.h"
#include "files/tokenizer_data.h"

namespace sluice::files {

struct TokenizerParts {
  // The model, pieces, scores and steps; all but ids of special tokens.
  TokenizerData data;
  Json added = Json::array();    // as tokenizer.json has its added_tokens
  Json post_processor;           // as there, or null
  Json config = Json::object();  // as tokenizer_config.json
};

// Adds what tokens and config say, and checks it all, as of a tokenizer.json. kBadModel.
Result<TokenizerData> TokenizerFromParts(TokenizerParts parts);

}  // namespace sluice::files
