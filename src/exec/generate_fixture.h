// For tests that compare two ways to compute a model: what one draws, and which ops it was bound
// to.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "exec/executor_fixture.h"

namespace sluice::exec {

// Greedy: of a prompt of nine tokens, then of tokens one by one.
inline std::vector<Drawn> Generate(TinyExecutor* tiny) {
  constexpr int kSteps = 6;
  const std::vector<int32_t> prompt = {5, 9, 1, 77, 30, 2, 64, 100, 8};
  const auto length = static_cast<int>(prompt.size());
  batch::SamplingParams params;
  params.temperature = 0.0f;
  params.top_logprobs = 1;
  std::vector<Drawn> drawn;
  for (int step = 0; step < kSteps; ++step) {
    PlanBuilder plan(static_cast<uint64_t>(step) + 1, tiny->model->groups().size());
    if (step == 0) {
      plan.Start(0, params, prompt).Entry(0, 0, prompt, {{length - 1}});
    } else {
      plan.Entry(0, length + step - 1, {batch::kLastDrawn}, {{0}});
    }
    const auto result = tiny->Run(std::move(plan.plan()));
    EXPECT_TRUE(result.ok()) << result.status().message();
    if (!result.ok()) break;
    for (const auto& token : result->tokens) drawn.push_back({token.id, token.logprob});
  }
  return drawn;
}

// How many shapes of an op say `what`: bindings of one shape are told once.
inline int64_t Count(const TinyExecutor& tiny, std::string_view op, std::string_view what) {
  return std::count_if(tiny.bindings.begin(), tiny.bindings.end(), [&](const ops::BindRecord& r) {
    return r.op == op && r.shape.find(what) != std::string::npos;
  });
}

}  // namespace sluice::exec
