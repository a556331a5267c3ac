// The documents that the server makes of what it knows. Pure functions.
#pragma once

#include <string>

namespace sluice::server {

// The OpenAPI description of every path, as JSON.
std::string OpenApiDocument();

}  // namespace sluice::server
