// Server-sent events. Pure functions.
#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

// "data: <json>\n\n". REQUIRES: json is one line.
std::string SseEvent(std::string_view json);

// The same behind a line "event: <name>\n". REQUIRES: the name is one line, too.
std::string SseEvent(std::string_view name, std::string_view json);

// What ends an OpenAI stream that went well.
std::string SseDone();

}  // namespace sluice::server
