// The target of a request line (RFC 9112, 3.2).
#pragma once

#include <string>
#include <string_view>

namespace sluice::server {

// The path of an origin-form ("/v1/models?a=b") or absolute-form ("http://host/v1/models") target,
// without the query; escapes stay as they are.
std::string PathOf(std::string_view target);

}  // namespace sluice::server
