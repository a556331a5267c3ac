// The fields that hold an answer to something, in the spellings of OpenAI, vLLM, SGLang, llama.cpp,
// Anthropic and Ollama. They set the request's choice or its grammar, of which an answer has one;
// the engine checks what they say.
#pragma once

#include <string>
#include <string_view>

#include "server/shared/fields.h"
#include "sluice/request.h"

namespace sluice::server {

// Those of chat, completions and llama.cpp's paths. Gives the name of the field that set the
// grammar; empty: none did.
std::string ReadConstraint(Fields* fields, Request* request);

// The field `format` of OpenAI's responses and of Anthropic's messages, within the object `path`:
// it has the schema beside its type.
void ReadFlatFormat(Fields* object, std::string_view path, Request* request);

// The field `format` of Ollama: "json" or a schema.
void ReadOllamaFormat(Fields* fields, Request* request);

}  // namespace sluice::server
