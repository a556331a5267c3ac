// /admin/experts: how the experts of a model are loaded, plans for them, and orders to move them.
// Pure functions.
#pragma once

#include <string>
#include <string_view>

#include "server/models_api.h"
#include "sluice/status.h"

namespace sluice::server {

// The engine's command (Engine::Admin) of a query: "ranks=8&replicas=4&nodes=2", all of which may
// be left out. kInvalidArgument: one is no whole number.
Result<std::string> ReadExpertsQuery(std::string_view query);

// That of a body {"model", "rebalance": true, "nodes"} or {"model", "layers"}. kInvalidArgument: it
// is none, or has something else; what stands in its fields the engine checks.
Result<EngineOrder> ReadExpertsOrder(std::string_view body);

}  // namespace sluice::server
