// The parts of the OpenAPI document that belong to APIs other than OpenAI's chat and completions.
// In the texts, what stands as @name@ is filled in by openapi.cc.
#pragma once

#include <string>

namespace sluice::server {

// "a": {...}, of `paths` and of `components.schemas`; no comma before or behind.
struct OpenApiPart {
  std::string paths;
  std::string schemas;
};

OpenApiPart AnthropicPart();
OpenApiPart BatchesPart();
OpenApiPart ModelsPart();
// `shared_fields`: properties that its bodies have in common with plain completions.
OpenApiPart LlamaPart(const std::string& shared_fields);
OpenApiPart OllamaPart();
OpenApiPart ProfilePart();
OpenApiPart RankPart();
OpenApiPart ResponsesPart();
OpenApiPart TimelinePart();

}  // namespace sluice::server
