// The texts of a request that the engine alone reads, and lets go of once it has their ids.
#pragma once

#include <cstdint>

#include "sluice/request.h"

namespace sluice::server {

// Bytes that they take. `echo`: the answer repeats a text prompt, which is then kept twice.
int64_t TextBytes(const Request& request, bool echo);

// A copy of the request without them, by which its answer is told.
Request WithoutTexts(Request* request);

}  // namespace sluice::server
