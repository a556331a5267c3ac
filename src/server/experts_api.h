// /admin/experts: how the experts of a model are loaded, and plans for them. Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "sluice/status.h"

namespace sluice::server {

// The engine's command (Engine::Admin) of a query: "ranks=8&replicas=4&nodes=2", all of which may
// be left out. kInvalidArgument: one is no whole number.
Result<std::string> ReadExpertsQuery(std::string_view query);

}  // namespace sluice::server
