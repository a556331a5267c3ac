// The documents that the server carries. Pure functions.
#pragma once

#include <string>

#include "sluice/engine.h"

namespace sluice::server {

// The OpenAPI description of every path, as JSON.
std::string OpenApiDocument();

// A small page that says what runs here.
std::string HomePage(const EngineInfo& info);

}  // namespace sluice::server
