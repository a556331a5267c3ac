// The address of an HTTP server. Pure; any thread.
#pragma once

#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice::load {

struct ServerUrl {
  std::string host;  // a name or an address, IPv6 without its brackets
  int port = 80;
  std::string prefix;  // of every path: "" or as "/base"

  // As it is written in the header Host.
  std::string HostField() const;
};

// "http://HOST[:PORT][/PREFIX]". A slash at the end and "/v1" are dropped, as clients are often
// given either. kInvalidArgument for anything else, https among it.
Result<ServerUrl> ParseUrl(std::string_view text);

}  // namespace sluice::load
