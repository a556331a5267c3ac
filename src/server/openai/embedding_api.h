// The bodies of /v1/embeddings and of Cohere's /v2/embed, and their answers. Pure functions.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/shared/api_call.h"
#include "sluice/engine.h"

namespace sluice::server {

inline constexpr size_t kEmbeddingInputsMax = 2048;
inline constexpr int kDimensionsMax = 1 << 16;

struct EmbeddingCall {
  std::vector<Request> requests;  // one for each input
  std::string model;              // as it is served
  bool base64 = false;            // vectors as the bytes of their floats
  std::optional<double> timeout_s;
  std::optional<double> keep_alive_s;  // as ApiCall has it
};

// Errors as those of ParseChatCall.
Result<EmbeddingCall> ParseEmbeddingCall(std::string_view body, const ModelFacts& model);

// The fields by which clients ask that a text that is too long be cut.
bool ReadTruncate(Fields* fields);
// `user`, which has no effect.
void ReadUser(Fields* fields);

// Its floats' bytes, the lowest first.
std::string Base64Of(const std::vector<float>& vector);
// Appends a list of numbers, each the shortest decimal that reads as the same float.
void AppendFloats(const std::vector<float>& vector, std::string* out);

// `embeddings`: one for each input.
std::string EmbeddingAnswer(const EmbeddingCall& call,
                            const std::vector<std::vector<float>>& embeddings, const Usage& usage);

struct CohereEmbedCall {
  std::vector<Request> requests;   // one for each text
  std::vector<std::string> texts;  // which the answer repeats
  bool floats = false, base64 = false;
};

// Errors as those of ParseChatCall.
Result<CohereEmbedCall> ParseCohereEmbed(std::string_view body, const ModelFacts& model);
// `embeddings`: one for each text.
std::string CohereEmbedAnswer(const CohereEmbedCall& call,
                              const std::vector<std::vector<float>>& embeddings, const Usage& usage,
                              const std::string& id);

}  // namespace sluice::server
