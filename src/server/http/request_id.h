// The name of a request, by which its answer, its log line and its client speak of it. Any thread.
#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

// What the client named it in X-Request-Id, if that is 1 to 128 letters, digits, dots, dashes and
// underscores; else 24 hexadecimal digits, drawn so that two servers' names do not meet, and unique
// within one.
std::string RequestIdOf(std::string_view asked);

}  // namespace sluice::server
