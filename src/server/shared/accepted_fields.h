// The fields that clients of other servers send and that change no answer here, in one list that
// the readers of bodies and the OpenAPI document share: those that may have any value of their
// type, and those that may have one value alone, which asks for nothing. Pure functions.
#pragma once

#include <string>

#include "server/shared/fields.h"

namespace sluice::server {

// Where a field stands.
enum class FieldPlace {
  kRequest,             // a body of chat or of plain completions
  kAnthropicRequest,    // a body of /v1/messages
  kAnthropicBlock,      // a block of a message's content, or of system
  kAnthropicTool,       // an item of its tools
  kResponsesRequest,    // a body of /v1/responses
  kDecisionsRequest,    // a body of /v1/decisions
  kResponsesItem,       // an item of its input
  kResponsesPart,       // a part of an item's content
  kResponsesTool,       // an item of its tools
  kResponsesReasoning,  // its reasoning
  kLlamaRequest,        // a body of llama.cpp's /completion or /infill, beside kRequest
  kOllamaRequest,       // a body of /api/chat or /api/generate
  kOllamaOptions,       // its options
  kOllamaMessage,       // an item of its messages
  kStreamOptions,       // its stream_options
  kMessage,             // an item of messages
  kPart,                // a part of a message's content
  kTool,                // an item of tools
  kThinking,            // thinking, of a body of chat
};

// Asks for each field of that place, so that it is known, and checks its type or value.
void ReadAccepted(Fields* fields, FieldPlace place);

// The same as properties of a JSON schema: "a": {...}, "b": {...}
std::string AcceptedSchema(FieldPlace place);

}  // namespace sluice::server
