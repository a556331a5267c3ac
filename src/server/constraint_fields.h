// The fields that hold an answer to something, in the spellings of OpenAI, vLLM, SGLang and
// llama.cpp.
#pragma once

#include "server/fields.h"
#include "sluice/request.h"

namespace sluice::server {

// Sets the request's choice or its grammar, of which an answer has one. The engine checks what they
// say.
void ReadConstraint(Fields* fields, Request* request);

}  // namespace sluice::server
