// The tools of a body of Anthropic's /v1/messages. Pure functions.
#pragma once

#include "server/shared/fields.h"
#include "sluice/request.h"

namespace sluice::server {

// The fields `tools` and `tool_choice`, as the template's tools and what the answer has to call.
void ReadAnthropicTools(Fields* fields, ChatPrompt* chat, Request* request);

}  // namespace sluice::server
