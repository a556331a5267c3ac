// What a load has to know of the server that it is put on, asked by its API. One thread at a time.
#pragma once

#include <string>

#include "cli/load/load_client.h"
#include "sluice/status.h"

namespace sluice::load {

struct ServerFacts {
  std::string model;      // of the first model that it serves
  int vocab_size = 0;     // 0: it does not say
  int max_model_len = 0;  // tokens of prompt and answer; 0: it does not say
};

// From /v1/models. kUnavailable: nobody answers there, or not as OpenAI's API does.
Result<ServerFacts> AskForFacts(const Target& target);

// How many tokens `text` has, from /tokenize as vLLM, SGLang, llama-server and this program's
// server have it. kUnavailable: this server has none.
Result<int> CountTokens(const Target& target, const ServerFacts& facts, const std::string& text);

}  // namespace sluice::load
