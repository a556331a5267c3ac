// What the server says of its own API. A pure function.
#pragma once

#include <string>

namespace sluice::server {

// The OpenAPI description of every path, as JSON.
std::string OpenApiDocument();

}  // namespace sluice::server
