// Server-sent events as OpenAI's clients read them. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

// "data: <json>\n\n". REQUIRES: json is one line.
std::string SseEvent(std::string_view json);

// What ends a stream that went well.
std::string SseDone();

}  // namespace sluice::server
