// The target of a request line (RFC 9112, 3.2) and the host that it is for. Pure functions.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::server {

// The path of an origin-form ("/v1/models?a=b") or absolute-form ("http://host/v1/models") target,
// without the query; escapes stay as they are.
std::string PathOf(std::string_view target);

// What stands behind the path and its question mark, as sent; empty: nothing does.
std::string QueryOf(std::string_view target);

// The value of `name` in a query ("a=b&c=d"), its escapes undone; empty: it is not there.
std::string QueryValue(std::string_view query, std::string_view name);

// %41 becomes A; anything else stays as it is.
std::string Unescaped(std::string_view text);

// What an absolute-form target or an Origin names as its host: "host:8000" of
// "http://host:8000/v1/models"; nothing for any other text.
std::optional<std::string_view> AuthorityOf(std::string_view target);

// The host of "localhost:8000", "127.0.0.1" or "[::1]:8000": in lower case, without the port, the
// brackets of IPv6 and a final dot. Nothing when the text is no host, or its port no port.
std::optional<std::string> HostOf(std::string_view authority);

// localhost, 127.0.0.0/8 and ::1, as HostOf gives them.
bool IsLoopbackName(const std::string& host);

}  // namespace sluice::server
