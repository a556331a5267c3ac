// What /admin/experts tells: how the experts of a model are loaded, and how ranks would best share
// them. Any thread.
#pragma once

#include <string>

#include "base/json.h"
#include "engine/step.h"
#include "exec/step_runner.h"

namespace sluice::engine {

// Answers {"command": "experts"} with the loads of each layer's experts, with where they lie if
// they move (engine/expert_orders.h), and with "ranks" (and "replicas", "nodes") with a plan for
// them, as JSON (docs/experts.md). The plan is made on the calling thread; steps go on meanwhile.
// kFailedPrecondition: the model has no experts; kInvalidArgument: a number is out of range.
Result<std::string> AnswerExperts(StepLoop& loop, exec::StepRunner& runner, const Json& command);

}  // namespace sluice::engine
