// What /admin/experts may change: where the experts of a model lie among its ranks. Any thread.
#pragma once

#include <string>

#include "base/json.h"
#include "engine/step.h"
#include "exec/step_runner.h"

namespace sluice::engine {

// Answers {"command": "move_experts"}: with "rebalance": true (and "nodes") every layer is planned
// anew by its loads; with "layers" [{"layer", "ranks": [[expert, ...], ...]}] these layers are
// brought to what is given. Both go on between steps behind the answer. kInvalidArgument with one
// sentence, and then nothing changes: what is given cannot be. kFailedPrecondition: the engine
// keeps experts where they are.
Result<std::string> MoveExperts(StepLoop& loop, exec::StepRunner& runner, const Json& command);

// How experts are spread over ranks: the map with its versions, loads and imbalances of ranks, and
// what was moved. `slot_loads` are those of its slots.
OrderedJson BalanceJson(const experts::Balancer& balancer, const experts::Loads& loads,
                        const experts::Loads& slot_loads);

}  // namespace sluice::engine
